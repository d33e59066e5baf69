"""A round may begin with calls of another network that no step followed, such as a loss that was only looked at. What
comes after them, from a call on that takes none of their results, is a round of its own. It is noted in that call's
tree too, so that a training loop is one program after as many iterations as without those calls.
"""
from __future__ import annotations

from typing import Any, Iterator, Sequence

from .events import Backward, Call, Event, Node, Root, Step


def rounds_within(trail: Sequence[Node]) -> Iterator[tuple[Root, list[Node]]]:
    """The root and the places of each shorter round that a round ends with, noted in the root's tree."""
    step = trail[-1].event.what
    assert isinstance(step, Step)
    trained = {id(x) for p in step.trainer()._params for x in (p._data or {}).values()}   # type: ignore[union-attr]
    results = 0
    for first, node in enumerate(trail):
        if first and isinstance(node.event.what, Call) and _independent(trail[first:], results):
            root = node.event.what.engine.rounds
            if not root.refused and (noted := _noted(root, trail[first:], results)):
                yield root, noted
        if node.entry is not None and any(id(x) in trained for x in node.entry.fixed()):
            return
        results += _count(node)


def _independent(trail: Sequence[Node], results: int) -> bool:
    """Whether these events contain a backward pass and take none of the results of the events before them, of which
    there are so many."""
    return (any(isinstance(node.event.what, Backward) for node in trail)
            and all(i >= results for node in trail for i in node.event.inputs if type(i) is int))


def _count(node: Node) -> int:
    return len(node.made[1]) if node.made is not None else 0


def _noted(root: Root, trail: Sequence[Node], results: int) -> list[Node]:
    """The places of events in the tree of a root, with the numbers that results and arrays from outside have there;
    none where the tree is too large."""
    out: list[Node] = []
    numbers: dict[int, int] = {}
    place: Node = root

    def renumbered(i: Any) -> Any:                       # a result's number, or (-1 - k, ...) of array k from outside
        return i - results if type(i) is int else (-1 - numbers.setdefault(i[0], len(numbers)), *i[1:])
    for node in trail:
        key: Event = node.event._replace(inputs=tuple(map(renumbered, node.event.inputs)))
        known = place.next.get(key)
        if known is None:
            known = Node(key)
            known.made, known.entry, known.draws, known.follows = node.made, node.entry, node.draws, node.follows
            if place.add(known):
                return []
        out.append(known)
        place = known
    return out
