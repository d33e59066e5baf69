"""Calls that a round began with though its step has nothing to do with them: a loss under ``record`` that no step
followed, of another network. What comes after them is a round too, and is noted as one, so that a training loop is
joined after as many rounds whatever the program did before.
"""
from __future__ import annotations

from typing import Any, Iterator, Sequence

from .events import Backward, Call, Event, Node, Root, Step


def rounds_within(trail: Sequence[Node]) -> Iterator[tuple[Root, list[Node]]]:
    """The root and the places of each shorter round that a round ends with; these are noted in the root's tree."""
    step = trail[-1].event.what
    assert isinstance(step, Step)
    trained = {id(x) for p in step.trainer()._params for x in (p._data or {}).values()}   # type: ignore[union-attr]
    results = 0
    for first, node in enumerate(trail):
        if first and isinstance(node.event.what, Call) and _apart(trail[first:], results):
            root = node.event.what.engine.rounds
            if not root.refused and (noted := _noted(root, trail[first:], results)):
                yield root, noted
        if node.entry is not None and any(id(x) in trained for x in node.entry.fixed()):
            return
        results += _count(node)


def _apart(trail: Sequence[Node], results: int) -> bool:
    """Whether events take no results of those before them, of which there are so many."""
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

    def renumbered(i: Any) -> Any:
        return i - results if type(i) is int else (-1 - numbers.setdefault(i[0], len(numbers)), *i[1:])
    for node in trail:
        key: Event = node.event._replace(inputs=tuple(map(renumbered, node.event.inputs)))
        known = place.next.get(key)
        if known is None:
            known = Node(key)
            known.made, known.entry, known.draws, known.apart = node.made, node.entry, node.draws, node.apart
            if place.add(known):
                return []
        out.append(known)
        place = known
    return out
