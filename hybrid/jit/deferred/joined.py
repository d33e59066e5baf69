"""The one program of a round: its events replayed on traced values, so all guards of a compiled call hold for it."""
from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence

from ... import autograd, runtime
from ...base.errors import HybridError
from ...base.scope import SCOPE, tracing
from ...buffers.array import REBINDS, NDArray, wrap
from ...buffers.extents import Extents, extent
from ...buffers.moving import copied
from ...buffers.tape import Entry, Slot, flags
from ..programs import parts_of
from ..trace import Hybridized
from .events import WHOLE, Assign, Backward, Event, Method, Node, Operator, Step
from .followed import lay
from .held import Owners, variables
from .parts import SHARES_MEMORY, Part, Path, divided, whole
from .unrelated import written_by

MOST_PLANS = 4                  # programs of each part of one path, for results that are still alive
COMING = "its program is being compiled in the background"


class NotFromProgram(NamedTuple):
    """Results of a round, by number, that one program cannot return. on_tape: recorded, and no ``backward`` of the
    round consumes them. shared: they share another's memory (``detach``). spent: recorded, but the round wrote
    parameters from which they were computed, so that ``backward`` from them is an error."""
    on_tape: frozenset[int]
    shared: frozenset[int]
    spent: frozenset[int]


def run(r: Any, node: Node) -> str:
    """Do all events of a round up to a node, by a program for each of its parts, and fill its results. Where no program
    can do a part, its events are done the ordinary way, in their order. Returns the reason if a part that should be one
    program was done event by event, else ''."""
    alive = r.alive()
    why, parts = _divided(r, node, alive)
    r.root.programs = sum(part.joins for part in parts)
    results: dict[int, NDArray] = {}
    outside = [ref() for ref in r.outside]
    for k, part in enumerate(parts):
        instead = why if why or not part.joins else _by_program(r, node, part, k, alive, results, outside)
        if not part.joins or instead:
            _one_by_one(r, part, results, outside)
        if part.joins:
            why = instead
    if not why and (last := written_last(node)) is not None and (x := r.results[last]()) is not None:
        of = node.event.inputs[0].array()
        x._ag, x._data, x._away = None, copied(of._data, of._ctx), None
    return why


def _divided(r: Any, node: Node, alive: Sequence[int]) -> tuple[str, list[Part]]:
    """Returns (reason, parts): if there is a reason, no program can do the round, and it is one part."""
    if node.not_from_program is None:
        node.not_from_program = _not_from_program(r.trail)
    kept: NotFromProgram = node.not_from_program
    if not kept.shared.isdisjoint(alive):
        return SHARES_MEMORY, [whole(r.trail)]
    if _overlap(r, node):
        return "an array shares memory with one that the round writes", [whole(r.trail)]
    on_tape = kept.on_tape.intersection(alive)
    if on_tape not in node.parts:
        node.parts[on_tape] = divided(r.trail, on_tape)
    found = node.parts[on_tape]
    return (found, [whole(r.trail)]) if isinstance(found, str) else ("", found)


def _by_program(r: Any, node: Node, part: Part, number: int, alive: Sequence[int], results: dict[int, NDArray],
                outside: Sequence[Any]) -> str:
    """Do the events of a part by one program; why not, where that cannot be (and nothing was done). number: of the
    part. results: of the round, where it takes those of other parts and puts its own."""
    given = [outside[i] for i in part.outside]
    if part.taped:
        heads = [outside[i] for i in part.taped]
        if autograd.leads_to(heads, {id(x._ag) for x in variables(part.nodes)}):
            return "an array's gradient comes from the round and from calls before it"
        given = [wrap(x._data, x._ctx, type(x)) if i in part.taped else x for i, x in zip(part.outside, given)]
    numbers, places = _distinct([r.values[i] for i in part.values])
    last, gives = written_last(node), set(part.gives)
    wanted = tuple([i for i in alive if i in gives and i != last])
    plans, key = _plans(node), (number, part.gives, wanted, places)
    plan = plans.get(key)
    if plan is None:
        if sum(part_of == number for part_of, *_ in plans) >= MOST_PLANS:
            return "other results are kept each time"
        plan = plans[key] = Plan(part, wanted or part.gives[-1:], places, r.root.name)
    values = None if plan.refused else plan.values([*given, *(results[i] for i in part.takes), *numbers])
    if values is None:
        if plan.refused:
            return plan.refused
        r.trail[0].waiting.append((plan.coming, len(part.nodes), 0.0))
        return COMING
    for i, y in zip(wanted, values):
        results[i], x = y, r.results[i]()
        if x is not None:
            x._ag, x._data, x._away = None, y._data, None
            if i in node.not_from_program.spent:
                x._ag = Slot(Entry(None, [], [x], function=Spent()), 0)
    if part.taped:
        what = next(e.what for e in part.events if isinstance(e.what, Backward))
        with flags(False, None):
            autograd.backward(heads, list(values[len(values) - len(heads):]), what.keeps, what.train_mode)
    return ""


def one_by_one(r: Any) -> None:
    """Do all events of a round the ordinary way."""
    _one_by_one(r, whole(r.trail), {}, [ref() for ref in r.outside])


def _one_by_one(r: Any, part: Part, results: dict[int, NDArray], outside: Sequence[Any]) -> None:
    part.do(results, outside, iter([r.values[i] for i in part.values]))
    for i in part.gives:
        x, y = r.results[i](), results[i]
        if x is not None:
            x._ag, x._data, x._away = y._ag, y._data, None
            if y._ag is not None and y._ag.entry is not None:
                y._ag.entry.outputs[y._ag.index] = x     # backward takes it off the tape


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
    why, parts = _divided(r, node, alive := r.alive())
    if why or len(parts) > 1 or parts[0].taped:
        return
    last, (_, places) = written_last(node), _distinct(r.values)
    alive = tuple([i for i in alive if i != last])
    plan = _plans(node).get((0, parts[0].gives, alive, places))
    if plan is not None:
        way = plan.engine.fast_path if plan.engine.fast_path[0] is not None else [plan.engine]
        plan.track = lay(r, way if not places else [plan.of_all(places)], alive, last) or plan.track


def _not_from_program(nodes: Sequence[Node]) -> NotFromProgram:
    path, written = Path(nodes), written_by(nodes)
    gone, maker = path.gone_over(), path.maker
    spent = [False] * len(nodes)
    for k, node in enumerate(nodes):
        spent[k] = node.taped and (node.entry is not None and any(id(x) in written for x in node.entry.fixed())
                                   or any(type(n) is int and spent[maker[n]] for n in node.event.inputs))
    kept = [n for n, k in enumerate(maker) if k not in gone and nodes[k].taped and not _is_detach(nodes[k].event)]
    return NotFromProgram(frozenset(n for n in kept if not spent[maker[n]]),
                          frozenset(n for n, k in enumerate(maker) if _is_detach(nodes[k].event)),
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
    """One program: a hybridized function of the arrays from outside, and of results of other parts, that does a part of
    a round. wanted: numbers of the results that it gives."""

    def __init__(self, part: Part, wanted: Sequence[int], places: Sequence[int], name: str):
        self.part = part
        # the ``precision`` option of the networks that have products: a program can have only one
        precisions = {n.entry.precision for n in part.nodes if n.entry is not None and any(
            m.prim == "dot" for m in n.entry.program.order())}
        # why there is none
        self.refused = "its networks are hybridized with different precisions" if len(precisions) > 1 else ""
        self.begun = False                               # whether it did a round
        self.track: Any = None                           # of rounds that it does (followed.py)
        self.coming: Any = None                          # the signature whose program is being compiled
        self.numbered = bool(places)                     # whether it takes numbers, after the arrays
        self.engine = Hybridized(_replay(part, wanted, places), f"{name}: round",
                                 options={"precision": next(iter(precisions), None)})

    def values(self, outside: Sequence[Any]) -> Any:
        """The wanted results, and gradients of the part's arrays on the tape; None (and nothing is done) where there is
        no program, or not yet."""
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
                self._begin()
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

    def _begin(self) -> None:
        """At the first round: the programs of its calls let go of their working memory, and need no compiler."""
        if not self.begun:
            self.begun = True
            for node in self.part.nodes:
                if node.entry is not None:
                    node.entry.rest()
                    for program in parts_of(node.entry):
                        runtime.set_aside(program, node.entry.ctx)

    def _fast(self, outside: Sequence[Any]) -> Any:
        fast = self.engine.fast_path[0]
        return fast(*outside) if fast is not None else None

    def _entry(self, outside: Sequence[Any]) -> Any:
        """The compiled signature; None where there can be no program."""
        try:
            entry = self.engine.specialization(*outside)
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


def _replay(part: Part, wanted: Sequence[int], places: Sequence[int]) -> Callable[..., Any]:
    """A function of arrays from outside, results of other parts and numbers, that does the events of a part. places: of
    the numbers that the events take, in their order, among those."""
    owners, count = Owners(part.nodes), len(part.outside)

    def replay(*given: Any) -> Any:
        outside = dict(zip(part.outside, given))
        results = dict(zip(part.takes, given[count:]))
        distinct = given[count + len(part.takes):]
        for i in part.taped:
            outside[i] = outside[i].detach()
            outside[i].attach_grad()
        part.do(results, outside, iter([distinct[k] for k in places]), owners.value)
        trace = tracing()
        if trace is not None:                            # gradients may be read after the step, as in any loop
            trace.kept |= trace.used_up
            trace.used_up.clear()
        return (*(results[i] for i in wanted), *(outside[i].grad for i in part.taped))
    return replay
