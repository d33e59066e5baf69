"""The fast path into a compiled CPU program of array arguments and results: the C launcher, or without Python's
headers, for one result, a closure over all it needs.

It answers None whenever anything is not as it was (then the slow path is taken): versions, buffers, scopes, the
arguments' class, device, shape, dtype or layout.
"""
from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable, Sequence

from ..autograd.demands import Demand, check
from ..base.pending import PUT_OFF
from ..buffers.array import REBINDS
from ..base.scope import SCOPE
from ..base.pytree import LEAF, builder, unflatten
from ..runtime import launcher

if TYPE_CHECKING:
    from ..runtime.bound import Bound
    from .free_variables import Guard

KINDS = {"tuple": 1, "list": 2}         # of results, in launcher.c
NO_FAST_PATH: list[Any] = [None]             # of what has no fast path
MOST_IN_PYTHON = 32                          # fast paths that are tried in turn where the launcher in C is missing


def make_fast_path(bound: Bound, ctx: Any, cls: type, train: bool, counters: tuple[list[int], ...], structure: Any,
                   guard: Guard, form: Any = None, step: Any = None,
                   demands: Sequence[Demand] = ()) -> Callable[..., Any] | None:
    """Such a function. counters: numbers that grow whenever the compiled program may no longer be the right one.
    structure: of its results (pytree.py). guard: of places that must hold what they held. form: of the arguments, as
    ``form_of`` gives it, None for arrays by position. step: what else a call of a training step does (fast_step.py).
    demands: on the data (demands.py); the program's last output, after the results, says whether they were met.
    """
    flat = structure != LEAF and structure[0] in KINDS and set(structure[1]) == {LEAF} and not demands
    kind = 0 if structure == LEAF and not demands else KINDS[structure[0] if flat else "tuple"]
    launcher.soon()                                          # it knows the numbers of classes that the guard pins
    launched = bound.launcher(cls, ctx, SCOPE, train, (REBINDS, PUT_OFF, *counters), kind, guard.pinned(), form, step)
    if demands:
        return _checked(launched, structure, demands) if launched is not None else None
    if launched is not None and structure != LEAF and not flat:
        return _nested(launched, structure)
    if launched is not None or step is not None or form is not None or structure != LEAF or not bound.plain:
        return launched
    fast = _closure(bound, ctx, cls, train, counters)
    return (lambda *args, **named: fast(*args, **named) if guard.same() else None) if guard.places else fast


def form_of(structure: Any) -> Any:
    """The form of arguments for the launcher, of their structure (pytree.py): (of positional ones, names and forms of
    others), None where all are arrays by position, False where the launcher does not know it.
    """
    (_, by_position), (_, by_name) = structure[1]
    if not by_name and all(f == LEAF for f in by_position):
        return None
    by_position, by_name = tuple(map(_bare, by_position)), tuple((k, _bare(f)) for k, f in by_name)
    return (by_position, by_name) if _known(("tuple", by_position)) and _known(("dict", by_name)) else False


def _bare(form: Any) -> Any:
    """A form in which objects that are told by identity stand themselves, as the launcher compares them."""
    if form == LEAF or form[0] == "number":
        return form
    if form[0] == "value":
        return form[:3]
    if form[0] == "object":
        return "value", form[1], form[2].value
    if form[0] == "dict":
        return (form[0], tuple((k, _bare(f)) for k, f in form[1]), *form[2:])
    return form[0], tuple(map(_bare, form[1]))


def _known(form: Any) -> bool:
    if form == LEAF or form[0] in ("value", "number"):
        return True
    if form[0] == "dict":
        return len(form) == 2 and all(_known(f) for _, f in form[1])
    return form[0] in ("list", "tuple") and all(map(_known, form[1]))


class Ways:
    """The fast paths into some compiled signatures of one function: the one that was made last comes first. Those that
    others took the place of are kept for a while, and are not made again."""
    MOST, KEPT = 256, 512

    def __init__(self) -> None:
        self.of: dict[Any, Callable[..., Any]] = {}      # by what they lead to
        self._kept: OrderedDict[Any, Callable[..., Any]] = OrderedDict()         # of these and others
        # all of them as one; a list, so that others keep hold of it
        self.call: list[Callable[..., Any] | None] = [None]

    def add(self, end: Any, way: Callable[..., Any] | None) -> None:
        """A way that leads to an end, or that there is none."""
        ways = {e: w for e, w in self.of.items() if e is not end}
        self.of = {end: way, **dict(list(ways.items())[:self.MOST - 1])} if way is not None else ways
        self._kept.pop(end, None)
        if way is not None:
            self._kept[end] = way
            while len(self._kept) > self.KEPT:
                self._kept.popitem(last=False)
        self.call[0] = _either(tuple(self.of.values()))

    def again(self, end: Any) -> bool:
        """Whether there is a way that another one took the place of, which is open again now."""
        way = self._kept.get(end) if end not in self.of else None
        if way is not None:
            self.add(end, way)
        return way is not None

    def lay_anew(self) -> None:
        """There are none; each that is still asked for is laid again at once."""
        for end in self.of:
            end.missed = 0
        self.clear()

    def clear(self) -> None:
        """There are none."""
        self.of, self.call[0] = {}, None
        self._kept.clear()


def _either(ways: tuple[Callable[..., Any], ...]) -> Callable[..., Any] | None:
    if len(ways) < 2:
        return ways[0] if ways else None
    if (either := launcher.part("Either")) is not None:
        return either(ways)                                  # type: ignore[no-any-return]

    def fast(*args: Any, **kwargs: Any) -> Any:
        for way in ways[:MOST_IN_PYTHON]:
            out = way(*args, **kwargs)
            if out is not None:
                return out
        return None
    return fast


def _checked(launched: Callable[..., Any], structure: Any, demands: Sequence[Demand]) -> Callable[..., Any]:
    """The fast path to a program that has demands on its data: it raises the error of a demand that is not met."""
    def fast(*args: Any, **kwargs: Any) -> Any:
        out = launched(*args, **kwargs)
        if out is None:
            return None
        check(demands, out[-1])
        return out[0] if structure == LEAF else unflatten(structure, iter(out[:-1]))
    fast.launched = launched                             # type: ignore[attr-defined]  # which knows the arguments' class
    return fast


def _nested(launched: Callable[..., Any], structure: Any) -> Callable[..., Any]:
    build = builder(structure)

    def fast(*args: Any, **kwargs: Any) -> Any:
        out = launched(*args, **kwargs)
        return build(out) if out is not None else None
    fast.launched = launched                             # type: ignore[attr-defined]
    return fast


def _closure(bound: Bound, ctx: Any, cls: type, train: bool, counters: tuple[list[int], ...]) -> Callable[[Any], Any]:
    program = bound.program
    (slot, shape, dtype), = bound._checks
    (out_shape, out_dtype), = program._new
    at, net, tables, make_table = bound._first, program._net, bound._tables, bound._table
    from_buffer, empty, new, scope = bound.from_buffer, bound.empty, object.__new__, SCOPE
    counted = (REBINDS, PUT_OFF, *counters)
    seen = [c[0] for c in counted]

    def fast(a: Any, *more: Any, **named: Any) -> Any:
        if (more or named or [c[0] for c in counted] != seen or type(a) is not cls or a._ctx != ctx
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
    return fast


