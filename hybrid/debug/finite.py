"""``debug.check_finite``: the first operator that made a NaN or an infinity, and the user's line that called it.

Eagerly each operator's results are looked at. Of a compiled program the results and new values are; where one is not
finite, the program runs again on the same arrays, primitive by primitive, and the first primitive that made it of
numbers tells which operator it belongs to.
"""
from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence

import numpy as np

from ..autograd import dispatch
from ..base.errors import NonFiniteError, user_location
from ..ir import Node, Program
from ..runtime.observers import observe
from .recorded_call import by_primitives

_kinds: list[tuple[str, Callable[[Any], Any]]] = []         # what is looked for: (its name, whether a number is one)
_NAN: tuple[str, Callable[[Any], Any]] = ("NaN", np.isnan)
_INFINITY: tuple[str, Callable[[Any], Any]] = ("infinity", np.isinf)


class _Looking:
    """What ``check_finite`` gives: at the end of a ``with`` block all is as it was before."""

    def __init__(self, before: list[Any]):
        self._before = before

    def __enter__(self) -> "_Looking":
        return self

    def __exit__(self, *_: object) -> None:
        _look_for(self._before)


def check_finite(active: bool = True, infinities: bool = True) -> _Looking:
    """Raise NonFiniteError where an operator makes a NaN or an infinity of numbers that are none; from now on, or in a
    ``with`` block. What an array holds when it is given does not count, nor constants.

    HYBRID_NAN=1 does it for a whole process. infinities: False looks for NaN alone, for code with masks of infinity.
    Compiled calls are some times slower meanwhile. What a call that raises would have updated stays as it was.

    >>> import hybrid as mx
    >>> from hybrid import debug, nd
    >>> f = mx.hybridize(lambda x: nd.log(x) + 1)
    >>> with debug.check_finite():
    ...     f(nd.array([-1.0, 1.0]))            # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hybrid.base.errors.NonFiniteError: ...: operator log made a NaN: ...
    """
    before = list(_kinds)
    _look_for([_NAN, *([_INFINITY] if infinities else [])] if active else [])
    return _Looking(before)


def _look_for(kinds: list[Any]) -> None:
    _kinds[:] = kinds
    observe(_after_program, bool(kinds))
    dispatch.TIMERS[:] = [t for t in dispatch.TIMERS if t is not _after_operator]
    if kinds:
        dispatch.TIMERS.append(_after_operator)


def _count(x: Any, is_one: Callable[[Any], Any]) -> int:
    """How many elements of an array are NaN, or infinite."""
    if getattr(x, "dtype", None) is None or x.dtype.kind not in "fcV":
        return 0
    if x.dtype.kind == "V":
        x = x.astype(np.float32)
    return int(is_one(x).sum())


def _worst(arrays: Iterable[Any]) -> tuple[str, Callable[[Any], Any]] | None:
    """What is in some arrays, NaN before infinity, or None."""
    arrays = list(arrays)
    return next((kind for kind in _kinds if any(_count(x, kind[1]) for x in arrays)), None)


def _bare(kind: str) -> str:
    return ("an " if kind == "infinity" else "a ") + kind


# ---- eager operators
def _after_operator(call: Any, d: Any, args: Any) -> Any:
    results = call(d, *args)
    present = args[2]
    kind = _worst(r._data for r in results)
    if kind is not None and present and not any(_count(x._data, is_one) for x in present for _, is_one in _kinds):
        name, is_one = kind
        raise NonFiniteError(f"{user_location()}: operator {d.name} made {_bare(name)}: "
                             f"{_shown([r._data for r in results], [x._data for x in present], is_one)}")
    return results


def _shown(results: Sequence[Any], inputs: Sequence[Any], is_one: Callable[[Any], Any]) -> str:
    """How many there are, and of what they were made."""
    bad = next(r for r in results if _count(r, is_one))
    ranges = [f"from {x.min():.6g} to {x.max():.6g}" for x in inputs if getattr(x, "size", 0) and x.dtype.kind in "fiu"]
    return f"{_count(bad, is_one)} of {bad.size} elements of {bad.dtype}{bad.shape}" + (
        f", of inputs {' and '.join(ranges)}" if ranges else "")


# ---- programs
def _after_program(program: Program, exe: Any, raw: Sequence[Any], call: Callable[[Any], Any]) -> Any:
    before = {slot: raw[slot].copy() for slot, _ in program.updates}
    outputs = call(exe)
    if _worst([*outputs, *(raw[slot] for slot in before)]) is not None:
        given = [before.get(i, x) for i, x in enumerate(raw)]
        fault = _fault(program, given)
        if fault is not None:
            for slot, old in before.items():
                raw[slot][...] = old
            raise NonFiniteError(fault)
    return outputs


def _fault(program: Program, raw: Sequence[Any]) -> str | None:
    """Which operator of a program made what is not finite, in words; None where the inputs hold it already."""
    values = by_primitives(program, raw)
    kind = _worst(values[r] for r in program.roots)
    named = program.memo.get("name")
    where = f"the compiled program of {named}" if named else "a program of several operators"
    if kind is None:
        return (f"{user_location()}: {where} gives what is not finite, and does not when it runs operator by operator. "
                "Please report this, with what debug.minimize gives")
    below = {n for n in program.order() if _count(values[n], kind[1])}
    first = _first(program.order(), values, below, kind[1])
    if first is None:
        return None
    text = f"{_of(program, first)} made {_bare(kind[0])}: " + _shown([values[first]], [values[a] for a in first.args],
                                                                     kind[1])
    if kind is _NAN and any(_count(values[a], np.isinf) for a in first.args):
        maker = _first(program.order(), values, {n for n in program.order() if _count(values[n], np.isinf)}, np.isinf)
        text += f". The infinity in them was made by {_of(program, maker)}" if maker is not None else ""
    return f"{text} (in {where})"


def _first(order: Sequence[Node], values: dict[Node, Any], bad: set[Node], is_one: Callable[[Any], Any]) -> Node | None:
    """The first node that made what its arguments do not hold; constants and inputs make nothing."""
    return next((n for n in order if n in bad and n.args and not any(_count(values[a], is_one) for a in n.args)), None)


def _of(program: Program, n: Node) -> str:
    """The user's line and the operator of a node."""
    origin = program.memo.get("origins", {}).get(n)
    if origin is None:
        name = program.memo.get("name")
        return f"{user_location()}: operator {name}" if name else f"{user_location()}: {n.prim}"
    return f"{origin[1]}: operator {origin[0]}"
