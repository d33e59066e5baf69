"""``debug.compare``: a call eagerly and compiled, and the first operator in which they differ."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from ..base import rng
from ..base.pytree import flatten
from ..buffers.array import NDArray
from ..ir import Node, Program
from ..jit.compile_policy import eagerly
from .compiling import compiling
from .recorded_call import Call, by_primitives, slow_calls, compiled, far, recorded

ROUNDINGS = 4000.0                       # more than sums of deep networks are off by


@dataclass
class Comparison:
    """What ``compare`` found. same: whether all results agree; operator, line: the first that differs, and the user's
    line that called it; text: all of it in words. call, node: the program and the value in it, for ``minimize``."""
    same: bool
    text: str
    operator: str = ""
    line: str = ""
    call: Call | None = None
    node: Node | None = None

    def __bool__(self) -> bool:
        return self.same

    def __str__(self) -> str:
        return self.text


def compare(f: Callable[..., Any], *args: Any, roundings: float = ROUNDINGS, **kwargs: Any) -> Comparison:
    """Call a function or block compiled and eagerly, from the same arrays and random state, and tell whether the
    results agree; where they do not, the first operator and line of the user's that differ.

    Arrays that the compiled call changes are put back before the eager one, whose changes stay. roundings: so many
    roundings of the largest number in an array count as no difference.

    >>> import hybrid as mx
    >>> from hybrid import debug, nd
    >>> f = mx.hybridize(lambda x: nd.softmax(x) * 2)
    >>> print(debug.compare(f, nd.array([[1.0, 2.0]])))
    eager and compiled agree: 1 result, the largest difference 0
    """
    fast = compiling(f, "compare")
    state = rng.get_state()
    with recorded() as calls:
        got = _arrays(fast(*args, **kwargs), args)
    for call in reversed(calls):
        call.undo()
    rng.set_state(state)
    with slow_calls(), eagerly():
        want = _arrays(f(*args, **kwargs), args)
    if len(want) != len(got):
        return Comparison(False, f"eager code gives {len(want)} arrays, the compiled program {len(got)}")
    wrong = next((i for i, (a, b) in enumerate(zip(want, got)) if far(a, b, roundings).any()), None)
    if wrong is None:
        most = max((_difference(a, b) for a, b in zip(want, got)), default=0.0)
        count = len(want) - sum(isinstance(x, NDArray) for x in _leaves(args))
        return Comparison(True, f"eager and compiled agree: {count} result{'s' * (count != 1)}, the largest difference "
                                f"{most:.3g}")
    found = next((c for call in calls for c in [locate(call, roundings)] if c is not None), None)
    told = f"result {wrong} differs: {_example(want[wrong], got[wrong], roundings)}"
    if found is None:
        return Comparison(False,
                          f"{told}. Each compiled program gives what its operators give, so that what was traced is "
                                 "not what the Python code does now" if calls else f"{told}. No program was called")
    return Comparison(False, f"{told}. {found.text}", found.operator, found.line, found.call, found.node)


def _leaves(value: Any) -> list[Any]:
    leaves: list[Any] = []
    flatten(value, lambda v: isinstance(v, NDArray), leaves, by_identity=True)
    return leaves


def _arrays(results: Any, args: Any) -> list[Any]:
    """Copies of all arrays among results, and among arguments, which a call may change."""
    return [x.asnumpy().copy() for x in (*_leaves(results), *_leaves(args))]


def _difference(a: Any, b: Any) -> float:
    wide, other = a.astype(np.float64), b.astype(np.float64)
    both = np.isfinite(wide) & np.isfinite(other)
    return float(np.abs(wide - other)[both].max()) if both.any() else 0.0


def _example(want: Any, got: Any, roundings: float) -> str:
    """The first element that differs."""
    want, got = (x if isinstance(x, np.ndarray) else x.get() for x in (want, got))
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"eager {want.dtype}{want.shape}, compiled {got.dtype}{got.shape}"
    bad = far(want, got, roundings)
    at = tuple(int(k) for k in np.argwhere(bad)[0])
    return f"at {list(at)} eager {want[at]!r}, compiled {got[at]!r} ({int(bad.sum())} of {bad.size} elements)"


def locate(call: Call, roundings: float = ROUNDINGS) -> Comparison | None:
    """The first value in a program that differs from what the primitives give one by one; None where no result does."""
    program, values = call.program, by_primitives(call.program, call.given)
    roots = [r for r, got in zip(program.roots, call.results()) if far(values[r], got, roundings).any()]
    if not roots:
        return None
    ends = operator_results(program)

    def differs(nodes: Sequence[Node]) -> list[Node]:
        found = compiled(Program(program.inputs, tuple(nodes)), call.given)
        return [n for n, got in zip(nodes, found) if far(values[n], got, roundings).any()]
    # every operator's result stored; else, for kernels may be wrong only where they are fused, each as the only result
    first = next(iter(differs(ends)), None)
    if first is None:
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if differs([ends[middle]]) else (middle + 1, high)
        first = ends[low] if differs([ends[low]]) else roots[0]
    name, line = program.memo.get("origins", {}).get(first, (first.prim, ""))
    got, = compiled(Program(program.inputs, (first,)), call.given)
    example = f": {_example(values[first], got, roundings)}" if far(values[first], got, roundings).any() else ""
    return Comparison(False,
                      f"The first operator that differs is {name}{' at ' if line else ''}{line}, in the program of "
                             f"{program.memo.get('name') or 'a program'}{example}", name, line, call, first)


def operator_results(program: Program) -> list[Node]:
    """Nodes whose values are results of operators, or of the program: those that are used beyond their operator."""
    origins, roots = program.memo.get("origins", {}), set(program.roots)
    beyond = {a for n in program.order() for a in n.args if origins.get(a) != origins.get(n)}
    return [n for n in program.order() if n.args and n.prim not in ("host", "scan")
            and (n in beyond or n in roots)]
