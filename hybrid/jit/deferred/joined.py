"""The one program of a round: its events replayed on traced values, so all guards of a compiled call hold for it."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ... import autograd, runtime
from ...base.errors import HybridError
from ...base.pytree import flatten
from ...base.scope import SCOPE, tracing
from ...buffers.array import REBINDS, NDArray
from ...buffers.extents import Extents, extent
from ...buffers.moving import copied
from ...buffers.tape import Entry, Slot
from ...graph.symbol import Symbol
from ..trace import Hybridized
from .events import WHOLE, Assign, Backward, Event, Grad, Method, Node, Operator, Step
from .followed import lay
from .held import Owners
from .unrelated import written_by

MOST_PLANS = 4                  # programs of one path, for results that are still alive
COMING = "its program is being compiled in the background"


def run(r: Any, node: Node) -> str:
    """Do all events of a round up to a node by one program and fill its results; why not, where that cannot be (and
    nothing was done)."""
    alive = r.alive()
    if node.withheld is None:
        node.withheld, node.spent = _not_given(r.trail)
    if not node.withheld.isdisjoint(alive):
        return "a result is kept that backward did not go over, or one that shares another's memory"
    if _overlap(r, node):
        return "an array shares memory with one that the round writes"
    alive = _given(r, node)
    numbers, places = _distinct(r.values)
    plans = _plans(node)
    plan = plans.get((alive, places))
    if plan is None:
        if len(plans) >= MOST_PLANS:
            return "other results are kept each time"
        plan = plans[alive, places] = Plan(r.trail, alive or (len(r.results) - 1,), places, r.root.name)
    values = plan.values([*(ref() for ref in r.outside), *numbers], r.trail) if not plan.refused else None
    if values is None:
        if plan.refused:
            return plan.refused
        r.trail[0].waiting.append((plan.coming, len(r.trail), 0.0))
        return COMING
    for i, y in zip(alive, values):
        x = r.results[i]()
        if x is not None:
            x._ag, x._data, x._away = None, y._data, None
            if i in node.spent:
                x._ag = Slot(Entry(None, [], [x], function=Spent()), 0)
    if (last := written_last(node)) is not None and (x := r.results[last]()) is not None:
        of = node.event.inputs[0].array()
        x._ag, x._data, x._away = None, copied(of._data, of._ctx), None
    return ""


def _overlap(r: Any, node: Node) -> bool:
    """Whether a round uses arrays with the memory of others that it writes (``detach``) behind a backward pass: a
    program reads its inputs as they were at its begin."""
    if not any(isinstance(place.event.what, (Operator, Assign)) and not place.event.recording for place in r.trail):
        return False
    if node.memory is None or node.memory[0] != REBINDS[0]:
        raws = [x._data for place in r.trail for x, _ in place.away]
        stretches = sorted(map(extent, raws))
        node.memory = (REBINDS[0], Extents(raws),
                       any(start < stop for (_, stop), (start, _) in zip(stretches, stretches[1:])))
    _, memory, among = node.memory
    return among or any(memory.meets(*extent(ref()._data)) for ref in r.outside)


def written_last(node: Node) -> int | None:
    """The number of the result that the last event of a round writes into all of a held array, if it does. The writing
    code still holds this result then, so it always looks alive. The program does not give it: it becomes a copy of the
    held array, for the few who keep it."""
    e = node.event
    if not (node.ends and isinstance(e.what, Assign) and e.what.key == WHOLE and len(e.inputs) > 1):
        return None
    target, value = e.inputs[0].array(), e.inputs[1]
    return value if type(value) is int and target is not None and node.whole else None


def _given(r: Any, node: Node) -> tuple[int, ...]:
    """Numbers of the results that the program of a round gives."""
    copied = written_last(node)
    return tuple([i for i in r.alive() if i != copied])


class Spent:
    """The tape's entry of a result whose round has written the parameters from which it was computed."""

    def _pull(self, entry: Entry, grads: list[Any]) -> list[Any]:
        raise autograd.changed_in_place("an array")


def _distinct(values: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """The distinct ones of a round's numbers, and for each of its numbers the place among the distinct ones."""
    found: dict[Any, int] = {}
    places = tuple([found.setdefault((type(v), repr(v)), len(found)) for v in values])
    return [values[places.index(k)] for k in range(len(found))], places


def lay_track(r: Any, node: Node) -> None:
    """Rounds that go the way of one that a program has just done are followed in C from now on, where that can be."""
    alive, (_, places) = _given(r, node), _distinct(r.values)
    plan = _plans(node).get((alive, places))
    if plan is not None:
        way = plan.engine.fast_path if plan.engine.fast_path[0] is not None else [plan.engine]
        plan.track = lay(r, way if not places else [plan.of_all(places)], alive, written_last(node)) or plan.track


def _not_given(path: Sequence[Node]) -> tuple[frozenset[int], frozenset[int]]:
    """Numbers of the results that a program cannot give as the events would: those that are still on the tape, since no
    ``backward`` among the events goes over them, and those that share memory (``detach``). Apart from these, numbers of
    results on the tape whose parameters the events have written, so that ``backward`` from them is an error."""
    maker = [k for k, node in enumerate(path) for _ in (node.made[1] if node.made is not None else ())]
    gone: set[int] = set()

    def go_over(numbers: Sequence[Any]) -> None:
        for k in {maker[n] for n in numbers if type(n) is int}:
            if path[k].taped and k not in gone:
                gone.add(k)
                go_over(path[k].event.inputs)
    for node in path:
        if isinstance(node.event.what, (Backward, Grad)) and not node.event.what.keeps:
            go_over(node.event.inputs)
    written = written_by(path)
    spent = [False] * len(path)
    for k, node in enumerate(path):
        spent[k] = node.taped and (node.entry is not None and any(id(x) in written for x in node.entry.fixed())
                                   or any(type(n) is int and spent[maker[n]] for n in node.event.inputs))
    kept = [n for n, k in enumerate(maker) if k not in gone and path[k].taped and not _is_detach(path[k].event)]
    shared = [n for n, k in enumerate(maker) if _is_detach(path[k].event)]
    return (frozenset([*(n for n in kept if not spent[maker[n]]), *shared]),
            frozenset(n for n in kept if spent[maker[n]]))


def _is_detach(e: Event) -> bool:
    return isinstance(e.what, Method) and e.what.name == "detach"


def _plans(node: Node) -> dict[Any, "Plan"]:
    """The programs of a path. Those that end with a step go with their Trainer."""
    what = node.event.what
    if not isinstance(what, Step):
        return node.plans
    plans: dict[Any, Plan] = what.trainer().joined.setdefault(node, {})       # type: ignore[union-attr]
    return plans


class Plan:
    """One program: a hybridized function of the arrays from outside that does some events."""

    def __init__(self, path: Sequence[Node], alive: Sequence[int], places: Sequence[int], name: str):
        # the ``precision`` option of the networks that have products: a program can have only one
        precisions = {n.entry.precision for n in path if n.entry is not None and any(
            m.prim == "dot" for m in n.entry.program.order())}
        # why there is none
        self.refused = "its networks are hybridized with different precisions" if len(precisions) > 1 else ""
        self.begun = False                               # whether it did a round
        self.track: Any = None                           # of rounds that it does (followed.py)
        self.coming: Any = None                          # the signature whose program is being compiled
        self.numbered = bool(places)                     # whether it takes numbers, after the arrays
        self.engine = Hybridized(_replay(path, alive, places), f"{name}: round",
                                 options={"precision": next(iter(precisions), None)})

    def values(self, outside: Sequence[Any], path: Sequence[Node]) -> Any:
        """The results that are still alive; None (and nothing is done) where there is no program, or not yet. path: of
        the round."""
        recording, SCOPE.recording = SCOPE.recording, False
        try:
            out = self._fast(outside)
            if out is None:
                entry = self._entry(outside)
                if entry is None:
                    return None
                self.coming = None if entry.is_compiled() else entry
                if self.coming is not None:
                    return None
                self._begin(path)
                if not self.numbered:
                    self.engine.shorten(entry, outside)
                    out = self._fast(outside)           # with its own working memory, and no other way's
            return out if out is not None else self.engine.slow_path(*outside)
        finally:
            SCOPE.recording = recording

    def of_all(self, places: tuple[int, ...]) -> Callable[..., Any]:
        """The program as a function of the arrays and of all numbers of a round's events; it gives None if other
        ones of the numbers are equal than when it was made."""
        fast, engine, count = self.engine.fast_path, self.engine, len(places)
        last: list[Any] = [(), ()]                       # numbers of the events, and each of them once

        def done(*given: Any) -> Any:
            every = given[-count:]
            if every != last[0] or 0 in every:
                numbers, found = _distinct(every)
                if found != places:
                    return None
                last[:] = every, numbers
            out = fast[0](*given[:-count], *last[1]) if fast[0] is not None else None
            return out if out is not None else engine(*given[:-count], *last[1])
        return done

    def _begin(self, path: Sequence[Node]) -> None:
        """At the first round: the programs of its calls let go of their working memory."""
        if not self.begun:
            self.begun = True
            for place in path:
                if place.entry is not None:
                    place.entry.rest()

    def _fast(self, outside: Sequence[Any]) -> Any:
        fast = self.engine.fast_path[0]
        return fast(*outside) if fast is not None else None

    def _entry(self, outside: Sequence[Any]) -> Any:
        """The compiled signature; None where there can be no program."""
        try:
            entry = self.engine.specialization(*outside)
            if not entry.is_compiled():
                runtime.after_parts(entry.program, entry.ctx)
        except (HybridError, TypeError, ValueError) as err:
            self.refused = f"no program can do a round: {err}"
            return None
        self.refused = unfit(entry, numbers=True)
        return None if self.refused else entry


def unfit(entry: Any, numbers: bool = False) -> str:
    """Why what a compiled call does must not come later than its line; nothing where it may. numbers: whether it may
    take numbers."""
    if entry.demands:
        return "its values may be refused (an index out of range)"
    if entry.watches or any(n.prim == "host" and n.attrs["call"].shows for n in entry.program.order()):
        return "a hook, debug.print or Python code is called with its values"
    if entry.assigned or entry.once or entry.changes_arguments or entry.written and entry.recorded:
        return "its code assigns to attributes or changes arrays in place"
    if entry.views:
        return "it gives views of its arguments"
    if entry.numbers is not None and not numbers:
        return "it takes numbers that are inputs of its program"
    if entry.drew or entry.outside or not entry.frozen:
        return "its code reads what differs from call to call"
    return ""


def _replay(path: Sequence[Node], alive: Sequence[int], places: Sequence[int]) -> Callable[..., Any]:
    """A function of the arrays from outside, and of numbers, that does some events. places: of the numbers that the
    events take, in their order, among those."""
    events, owners, count = [n.event for n in path], Owners(path), len(set(places))

    def replay(*given: Any) -> Any:
        outside, distinct = given[:len(given) - count], given[len(given) - count:]
        numbers = iter([distinct[k] for k in places])
        results: list[Any] = []
        for e in events:
            made = e.do(results, outside, numbers, owners.value)
            if not isinstance(e.what, (Backward, Step)):
                flatten(made, lambda v: isinstance(v, (NDArray, Symbol)), results, by_identity=True)
        trace = tracing()
        if trace is not None:                            # gradients may be read after the step, as in any loop
            trace.kept |= trace.used_up
            trace.used_up.clear()
        return tuple([results[i] for i in alive])
    return replay
