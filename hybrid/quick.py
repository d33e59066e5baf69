"""The shortest way into a compiled CPU program of array arguments and results: the C launcher, or without Python's
headers, for one result, a closure over all it needs.

It answers None whenever anything is not as it was (then the careful way is taken): versions, buffers, scopes, the
arguments' class, device, shape, dtype or layout.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from .array import REBINDS
from .scope import SCOPE
from .tree import LEAF, unflatten

if TYPE_CHECKING:
    from .runtime.cpu import Bound
    from .surroundings import Surroundings

KINDS = {"tuple": 1, "list": 2}         # of results, in launcher.c
NO_WAY: list[Any] = [None]             # of what cannot be called the shortest way


def make_quick(bound: Bound, ctx: Any, cls: type, train: bool, counters: tuple[list[int], ...], structure: Any, around: Surroundings,
               step: Any = None) -> Callable[..., Any] | None:
    """Such a function. counters: numbers that grow whenever the compiled program may no longer be the right one. structure: of its results (tree.py).
    around: variables that must be what they are. step: what else a call of a training step does (step_call.py).
    """
    flat = structure != LEAF and structure[0] in KINDS and set(structure[1]) == {LEAF}
    launched = bound.launcher(cls, ctx, SCOPE, train, (REBINDS, *counters), 0 if structure == LEAF else KINDS[structure[0]] if flat else KINDS["tuple"], around.pinned(), step)
    if launched is not None and structure != LEAF and not flat:
        return _nested(launched, structure)
    if launched is not None or step is not None or structure != LEAF or len(bound._checks) != 1 or not bound.program._simple:
        return launched
    quick = _closure(bound, ctx, cls, train, counters)
    return (lambda *args: quick(*args) if around.same() else None) if around.places else quick


def _nested(launched: Callable[..., Any], structure: Any) -> Callable[..., Any]:
    def quick(*args: Any) -> Any:
        out = launched(*args)
        return unflatten(structure, iter(out)) if out is not None else None
    return quick


def _closure(bound: Bound, ctx: Any, cls: type, train: bool, counters: tuple[list[int], ...]) -> Callable[[Any], Any]:
    program = bound.program
    (slot, shape, dtype), = bound._checks
    (out_shape, out_dtype), = program._new
    at, net, tables, make_table = bound._first, program._net, bound._tables, bound._table
    from_buffer, empty, new, scope = bound.from_buffer, bound.empty, object.__new__, SCOPE
    counted = (REBINDS, *counters)
    seen = [c[0] for c in counted]

    def quick(a: Any, *more: Any) -> Any:
        if (more or [c[0] for c in counted] != seen or type(a) is not cls or a._ctx != ctx
                or scope.recording or scope.training != train or scope.traces):
            return None
        raw = a._data
        if raw.shape != shape or raw.dtype != dtype:
            return None
        try:
            entry = tables.pop()
        except IndexError:
            entry = make_table()
        table = entry[0]
        try:
            table[slot] = from_buffer(raw)
        except ValueError:                                   # not contiguous
            return None
        out = empty(out_shape, out_dtype)
        table[at] = from_buffer(out)
        net(table)
        tables.append(entry)
        result: Any = new(cls)
        result._data, result._ctx, result._ag, result._version = out, ctx, None, 0
        return result
    return quick


