"""A round may begin with calls of another network that no step followed, such as a loss that was only looked at. What
comes after them, from a call on that takes none of their results, is a round of its own. It is noted in that call's
tree too, so that a training loop is one program after as many iterations as without those calls.

A round that grows too long, since many such calls came before, is replaced by one of its later half.
"""
from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

from .events import Backward, Call, Event, Grad, Node, Root, Step
from .held import Held, arrays_of
from .round import Round


def lacks_calls(r: Round) -> bool:
    """Whether a round that ends with a step lacks calls that use parameters which the step updates: those were in the
    half that was dropped (``later_half``)."""
    trained = written_by(r.trail)
    return any(_reads(entry, trained) for entry in r.forgotten.values())


def rounds_ended(r: Round) -> Iterator[tuple[Root, list[Node]]]:
    """The root and the places of each round that ends with a step: the whole, and shorter ones, noted in their roots'
    trees."""
    yield r.root, r.trail
    trained, results = written_by(r.trail), 0
    for first, node in enumerate(r.trail):
        rest = r.trail[first:]
        if first and _begins(node, rest, results) and any(isinstance(n.event.what, (Backward, Grad)) for n in rest):
            noted, _ = _noted(node.event.what.engine.rounds, rest, results)
            if noted:
                yield node.event.what.engine.rounds, noted
        if _reads(node.entry, trained):
            return
        results += node.count


def later_half(r: Round, end: Callable[[Round], None],
               begin: Callable[[Root, Any], Round]) -> Round | None:
    """A round in place of one of too many calls: its later half, from a call on that may begin a round. It keeps the
    compiled calls of the other half in ``forgotten``. None where no call may, and the round stays. end, begin: what
    ends a round, and begins one (rounds.py)."""
    results = 0
    for first, node in enumerate(r.trail):
        if 2 * first >= len(r.trail) and _begins(node, r.trail[first:], results):
            noted, outside = _noted(node.event.what.engine.rounds, r.trail[first:], results)
            if not noted:
                return None
            end(r)
            made = begin(node.event.what.engine.rounds, r.gpu)
            made.node, made.trail, made.results = noted[-1], noted, r.results[results:]
            made.numbers = {key: i - results for key, i in r.numbers.items() if i >= results}
            made.outside = [r.outside[k] for k in outside]
            made.values = r.values[sum(n.event.numbers for n in r.trail[:first]):]
            made.forgotten = r.forgotten | {id(n.entry): n.entry for n in r.trail[:first] if n.entry is not None}
            return made
        results += node.count
    return None


def written_by(path: Sequence[Node]) -> set[int]:
    """Ids of the variables that some events update: by a Trainer's step, or by hand."""
    found = {id(x) for x in arrays_of(node for node in path if node.updates)}
    for node in path:
        if isinstance(node.event.what, Step) and (trainer := node.event.what.trainer()) is not None:
            found |= {id(x) for p in trainer._params if p.grad_req != "null"
                      for x in (p._data or {}).values()}
    return found


def _reads(entry: Any, arrays: set[int]) -> bool:
    """Whether a compiled call has one of some arrays, given by their ids, among its parameters. entry: the call; None
    for an event of another kind."""
    return entry is not None and any(id(x) in arrays for x in entry.fixed())


def _begins(node: Node, rest: Sequence[Node], results: int) -> bool:
    """Whether an event may begin a round: it is a call, and neither it nor an event after it takes a result of the
    events before it. rest: it and those after it; results: how many results those before it gave."""
    return (isinstance(node.event.what, Call) and not node.event.what.engine.rounds.refused
            and all(i >= results for n in rest for i in n.event.inputs if type(i) is int))


def _noted(root: Root, trail: Sequence[Node], results: int) -> tuple[list[Node], list[int]]:
    """Notes the last events of a longer round (trail) in the tree of a root. Gives their places there, none where the
    tree is too large; and which arrays from outside they take, by their numbers in the longer round. results: how many
    results the events before them gave."""
    out: list[Node] = []
    numbers: dict[int, int] = {}
    place: Node = root

    def renumbered(i: Any) -> Any:
        if type(i) is Held:
            return i
        return i - results if type(i) is int else i._replace(number=numbers.setdefault(i.number, len(numbers)))
    for node in trail:
        key: Event = node.event._replace(inputs=tuple(map(renumbered, node.event.inputs)))
        known = place.next.get(key)
        if known is None:
            known = Node(key)
            known.copy_of(node)
            if root.add(place, known):
                return [], []
        out.append(known)
        place = known
    return out, list(numbers)
