"""How a round is divided into parts that are done one after another: the events of each device, and before them calls
whose results stay on the tape, since no ``backward`` goes over them. Most rounds are one part.
"""
from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Sequence

from ...base.device import Context
from ...base.pytree import flatten
from ...buffers.array import NDArray
from ...graph.symbol import Symbol
from .events import Assign, Backward, Event, Grad, Node, Outside, Step
from .held import Held

# why no program can do a round
SHARES_MEMORY = "a kept result shares another's memory"
GONE_OVER = "a kept result was computed by calls that backward went over"
AFTER_WRITES = "a kept result was recorded after gradients were computed or arrays were written"
SHARED_STATES = "the call of a kept result and another call share running statistics"
TAPED_PARTS = "gradients flow to calls before the round, which has several parts"
SEVERAL_DEVICES = "a call or a gradient takes arrays of several devices"


class Part:
    """Some events of a round, in their order. firsts: the number of the first result of each, among those of the round.
    joins: whether one program does them; else each is done as it would have been at once."""

    def __init__(self, nodes: Sequence[Node], events: Sequence[Event], firsts: Sequence[int], values: Sequence[int],
                 joins: bool = True):
        self.nodes, self.events, self.firsts, self.joins = tuple(nodes), tuple(events), tuple(firsts), joins
        self.values = tuple(values)                      # which of the round's numbers its events take
        self.gives = tuple(i for node, first in zip(nodes, firsts) for i in range(first, first + node.count))
        inputs = [i for e in events for i in e.inputs]
        # results of other parts, and arrays from outside, that its events take, by their numbers in the round
        self.takes = tuple(dict.fromkeys(i for i in inputs if type(i) is int and i not in self.gives))
        self.outside = tuple(sorted({i.number for i in inputs if type(i) is Outside}))
        # arrays from outside on the tape to which the heads of its backward passes lead: gradients flow on from them
        self.taped: tuple[int, ...] = ()

    def do(self, results: dict[int, Any], outside: Mapping[int, Any] | Sequence[Any], numbers: Iterator[Any],
           value: Any = Held.array) -> None:
        """Do the events. results: of the round by their numbers, where theirs are put. The others: see ``Event.do``."""
        for e, first in zip(self.events, self.firsts):
            made = e.do(results, outside, numbers, value)
            if not isinstance(e.what, (Backward, Step)):
                found: list[Any] = []
                flatten(made, lambda v: isinstance(v, (NDArray, Symbol)), found, by_identity=True)
                results.update(enumerate(found, first))


class Path:
    """The events of a round, and which of them made which results."""

    def __init__(self, nodes: Sequence[Node]):
        self.nodes = nodes
        self.firsts, self.values, results, values = [], [], 0, 0  # type: list[int], list[int], int, int
        for node in nodes:
            self.firsts.append(results)
            self.values.append(values)
            results, values = results + node.count, values + node.event.numbers
        self.maker = [k for k, node in enumerate(nodes) for _ in range(node.count)]

    def device(self, i: int) -> Context:
        """The device of a result, by its number."""
        k = self.maker[i]
        ctx: Context = self.nodes[k].made[1][i - self.firsts[k]][2]
        return ctx

    def part(self, chosen: Sequence[int], events: Mapping[int, Event] | None = None, joins: bool = True) -> Part:
        """A part of some events, by their places. events: what is done in place of some of them."""
        nodes, gone = [self.nodes[k] for k in chosen], self.gone_over()
        made = Part(nodes, [(events or {}).get(k, self.nodes[k].event) for k in chosen],
                    [self.firsts[k] for k in chosen],
                    [self.values[k] + i for k in chosen for i in range(self.nodes[k].event.numbers)], joins)
        made.taped = tuple(dict.fromkeys(i.number for k in chosen if k in gone for i in self.nodes[k].event.inputs
                                         if type(i) is Outside and i.taped))
        return made

    def before(self, places: Sequence[int]) -> set[int]:
        """Places of some events and of all whose results they depend on."""
        found: set[int] = set()
        todo = list(places)
        while todo:
            k = todo.pop()
            if k not in found:
                found.add(k)
                todo += [self.maker[i] for i in self.nodes[k].event.inputs if type(i) is int]
        return found

    def gone_over(self, kept: bool = False) -> set[int]:
        """Places of the recorded events that some ``backward`` goes over and takes off the tape. kept: those too that
        it keeps there (``retain_graph``)."""
        gone: set[int] = set()

        def go_over(numbers: Sequence[Any]) -> None:
            for k in {self.maker[n] for n in numbers if type(n) is int}:
                if self.nodes[k].taped and k not in gone:
                    gone.add(k)
                    go_over(self.nodes[k].event.inputs)
        for node in self.nodes:
            if isinstance(node.event.what, (Backward, Grad)) and (kept or not node.event.what.keeps):
                go_over(node.event.inputs)
        return gone


def whole(nodes: Sequence[Node]) -> Part:
    """All events of a round as one part."""
    return Path(nodes).part(range(len(nodes)))


def divided(nodes: Sequence[Node], on_tape: frozenset[int]) -> list[Part] | str:
    """The parts of a round; why it cannot be divided, where that has to be. on_tape: numbers of results that somebody
    holds and that stay on the tape."""
    path = Path(nodes)
    first = path.before([path.maker[i] for i in on_tape])
    rest = [k for k in range(len(nodes)) if k not in first]
    if first and (why := _cannot_come_first(path, first, rest)):
        return why
    parts = _by_device(path, rest)
    if isinstance(parts, str):
        return parts
    order = [*sorted(first), *(k for chosen, _ in parts for k in chosen)]
    draws = [k for k in order if nodes[k].draws]
    if draws != sorted(draws):
        return "doing it in parts would change the order in which its calls draw random numbers"
    made = [*([path.part(sorted(first), joins=False)] if first else []),
            *(path.part(chosen, events) for chosen, events in parts)]
    return TAPED_PARTS if len(made) > 1 and any(part.taped for part in made) else made


def _cannot_come_first(path: Path, first: set[int], rest: Sequence[int]) -> str:
    """Why calls whose results stay on the tape cannot be made before all others of their round."""
    nodes = path.nodes
    writes = [k for k, node in enumerate(nodes) if isinstance(node.event.what, (Assign, Backward, Grad, Step))
              or node.writes or node.updates]
    if first & path.gone_over(kept=True):
        return GONE_OVER
    if any(k > min(writes, default=len(nodes)) for k in first):
        return AFTER_WRITES
    read, written = _states(nodes[k] for k in first)
    others, written_by_others = _states(nodes[k] for k in rest)
    return SHARED_STATES if written & others or written_by_others & read else ""


def _states(nodes: Iterable[Node]) -> tuple[set[int], set[int]]:
    """Ids of the arrays that the code of some calls reads, and of those that it writes, as running statistics."""
    read: set[int] = set()
    written: set[int] = set()
    for entry in [node.entry for node in nodes if node.entry is not None]:
        fixed = [id(x) for x in entry.fixed()]
        read.update(fixed)
        written.update(fixed[slot - entry.arguments] for slot in entry.program.written
                       if 0 <= slot - entry.arguments < len(fixed))
    return read, written


def _by_device(path: Path, places: Sequence[int]) -> list[tuple[list[int], dict[int, Event]]] | str:
    """The events at some places by the device that they use, as (places, events that are done in place of some); why
    that cannot be."""
    devices: dict[Context, tuple[list[int], dict[int, Event]]] = {}
    split = [(k, _devices(path, k)) for k in places]
    if len({ctx for _, found in split for ctx in found}) <= 1:
        return [(list(places), {})]
    for k, found in split:
        backward = isinstance(path.nodes[k].event.what, Backward)
        if len(found) != 1 and not backward or any(ctx.device_type != "cpu" for ctx in found):
            return SEVERAL_DEVICES
        for ctx in found:
            chosen, events = devices.setdefault(ctx, ([], {}))
            chosen.append(k)
            if backward:
                events[k] = _of_device(path, path.nodes[k].event, ctx)
    parts = list(devices.values())
    return SEVERAL_DEVICES if any(not {path.maker[i] for k in chosen for i in events.get(k, path.nodes[k].event).inputs
                                       if type(i) is int} <= set(chosen) for chosen, events in parts) else parts


def _devices(path: Path, k: int) -> list[Context]:
    """Devices that an event uses."""
    node = path.nodes[k]
    made = [ctx for _, _, ctx, _ in node.made[1]] if node.made is not None else []
    if isinstance(node.event.what, Step):
        made += node.event.what.trainer()._contexts      # type: ignore[union-attr]
    made += [x._ctx for i in node.event.inputs if type(i) is Held and (x := i.array()) is not None]
    made += [path.device(i) for i in node.event.inputs if type(i) is int]
    return list(dict.fromkeys(made))


def _of_device(path: Path, e: Event, ctx: Context) -> Event:
    """A backward pass from those of its heads that are on a device."""
    count = len(e.what.given) or len(e.inputs)
    heads, seeds = e.inputs[:count], iter(e.inputs[count:])
    given = e.what.given or (False,) * count
    rows = [(h, next(seeds) if g else None) for h, g in zip(heads, given)]
    rows = [(h, s) for h, s in rows if path.device(h) == ctx]
    kept = tuple(s is not None for _, s in rows)
    return e._replace(inputs=(*(h for h, _ in rows), *(s for _, s in rows if s is not None)),
                      what=e.what._replace(given=kept if any(kept) else ()))
