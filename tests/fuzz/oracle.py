"""Whether what a compiled program gives is right: eager first; where they differ, float64 with every statement
perturbed by roundings."""
from __future__ import annotations

import numpy as onp

import hybrid as mx
from hybrid import HybridError

from .program import EPS, Program, call, perturbed, plain, quiet

COMPILED = [0, 0, 0]         # programs that were judged; of these, how many ran compiled, and by one for any size
RUNS, WIDE = 6, 40                            # perturbed runs: at first, and before a difference is believed


def fault(program: Program) -> str:
    """What is wrong with the compiled program, or nothing."""
    return quiet(lambda: _fault(program))


def _fault(program: Program) -> str:
    try:
        f = plain(program)
        want = [call(program, f, rows) for rows in _calls(program)]
    except Exception:  # noqa: BLE001  no program at all
        return ""
    try:
        g = mx.hybridize(plain(program))
        got = [call(program, g, rows) for rows in _calls(program)]
    except HybridError as err:
        return f"refused: {type(err).__name__}: {str(err)[:300]}"
    except Exception as err:  # noqa: BLE001
        return f"crash: {type(err).__name__}: {str(err)[:300]}"
    COMPILED[0] += 1
    made = [p for p in getattr(g, "programs", ()) if p.state == "compiled"]
    COMPILED[1] += bool(made)
    COMPILED[2] += any("[n" in size or ", n" in size for p in made for size in p.sizes)
    for at, (a, b) in enumerate(zip(want, got)):
        found = _differ(program, a, b, at)
        if found:
            return f"call {at}: {found}"
    return ""


def _calls(program: Program) -> tuple[int | None, ...]:
    """The sizes that a program is called with: the first ones come again."""
    return (*program.rows, *program.rows[:2])


def _differ(program: Program, want: list[onp.ndarray], got: list[onp.ndarray], number: int) -> str:
    rows = program.rows[number % len(program.rows)]
    for at, (a, b) in enumerate(zip(want, got)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {at} is {b.dtype}{b.shape}, eagerly {a.dtype}{a.shape}"
        bad = _far(a, b, 4000 if program.setup else 16)
        if bad.any() and (a.dtype.kind != "f" or (
                _strays(program, at, b, bad, number) if program.setup else _beyond(program, at, b, bad, rows))):
            where = tuple(int(k) for k in onp.argwhere(bad)[0])
            return f"result {at} at {where}: eager {a[where]!r}, compiled {b[where]!r}"
    return ""


def _far(a: onp.ndarray, b: onp.ndarray, roundings: float = 16) -> onp.ndarray:
    """Where two results differ by more than a few roundings (steps of training add up thousands)."""
    if a.dtype.kind != "f":
        return a != b
    eps = EPS[a.dtype.name]
    wide, other = a.astype("float64"), b.astype("float64")
    return ~onp.isclose(wide, other, roundings * eps, roundings * eps / 4, equal_nan=True)


def _beyond(program: Program, at: int, got: onp.ndarray, bad: onp.ndarray, rows: int | None) -> bool:
    """Whether differences are larger than roundings anywhere in the program explain."""
    half = "F16" in "".join(program.statements) or any(i.dtype == "float16" for i in program.inputs)
    eps = EPS["float16" if half else "float32"]
    for runs, size in ((RUNS, eps), (WIDE, 2 * eps)):
        low, high = _range(program, at, rows, runs, size, half)
        if low is None:
            return True
        wide = got.astype("float64")
        slack = 2 * (high - low) + 16 * eps * onp.maximum(onp.abs(low), onp.abs(high)) + 1e-30
        inside = (wide >= low - slack) & (wide <= high
                                          + slack) | ~onp.isfinite(low) | ~onp.isfinite(high) | onp.isnan(slack)
        if not (bad & ~inside).any():
            return False
    return True


def _strays(program: Program, at: int, got: onp.ndarray, bad: onp.ndarray, number: int) -> bool:
    """Whether a step of training differs by more than eager runs whose inputs are off by about a rounding: optimizers
    that divide by the gradient's size make steps of one that is nothing but rounding."""
    rng, seen = onp.random.RandomState(0), []
    for runs in (RUNS, WIDE // 2):
        while len(seen) < runs:
            f = plain(program)
            for rows in _calls(program)[:number + 1]:
                found = call(program, f, rows,
                             off=lambda x: x * (1 + 2 * EPS["float32"] * (rng.rand(*x.shape) * 2 - 1)))
            seen.append(found[at].astype("float64"))
        low, high = onp.min(seen, axis=0), onp.max(seen, axis=0)
        with onp.errstate(invalid="ignore"):                  # training that diverged: of infinities nothing is known
            slack = 2 * (high - low)
        inside = (got >= low - slack) & (got <= high + slack) | ~onp.isfinite(low) | ~onp.isfinite(high)
        if not (bad & ~inside).any():
            return False
    return True


def _range(program: Program, at: int, rows: int | None, runs: int, size: float,
           half: bool) -> tuple[onp.ndarray | None, onp.ndarray | None]:
    """The least and greatest of a result over perturbed runs, lifted to float64 and as it is."""
    rng, seen = onp.random.RandomState(0), []
    for k in range(runs):
        for lifted in (True, False) if half else (True,):
            try:
                seen.append(call(program, perturbed(program, rng, size if k else 0, lifted), rows,
                                 "float64" if lifted else None)[at].astype("float64"))
            except Exception:  # noqa: BLE001  a program that cannot be lifted says nothing
                continue
    if not seen:
        return None, None
    return onp.min(seen, axis=0), onp.max(seen, axis=0)
