"""The Blocks and Trainers that traced code met: a compiled call is right while none of them has changed."""
from __future__ import annotations

from typing import Any, Sequence


class UsedBlocks:
    """What the traces of one function called, but for what its owner's own version covers.

    blocks: in the order in which they were met, a parent before its children.
    """

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.blocks: list[Any] = []
        self._counters: list[list[int]] = []             # of those that have such
        self._seen: list[int] | None = None              # these, when ``_versions`` was made
        self._versions: list[Any] = []

    def version(self) -> tuple[Any, ...]:
        """A value that differs when something that traces depend on has changed in one of them."""
        if not self.blocks:
            return ()
        if self._seen is None or not self._counters or [n[0] for n in self._counters] != self._seen:
            counters = [b._counters() for b in self.blocks]
            self._counters = [n for c in counters if c for n in c]
            self._seen = [n[0] for n in self._counters]
            self._versions = [b._trace_version() if c is not None else None for b, c in zip(self.blocks, counters)]
        return tuple(v if v is not None else b._trace_version() for v, b in zip(self._versions, self.blocks))

    def note(self, blocks: Sequence[Any]) -> None:
        """Blocks that a trace has met."""
        covered: set[int] = set()
        for b in self.blocks:
            b._tree_ids(covered)
        if self.owner is not None:
            self.owner._tree_ids(covered)
        # a parent comes before its children; a Trainer counts once, however many traces met it
        for b in blocks:
            tree: set[int] = set()
            b._tree_ids(tree)
            if not tree <= covered:
                covered |= tree
                self.blocks.append(b)
                self._seen = None

    def counters(self, own: Any) -> tuple[list[int], ...] | None:
        """Numbers that grow whenever ``version`` may differ, with those of the owner; None where there are none such.
        own: the owner's."""
        every = [own, *(b.counted if hasattr(b, "holds") else b._counters() for b in self.blocks)]
        return None if any(c is None for c in every) else tuple({id(n): n for c in every for n in c or ()}.values())

    def holds(self) -> list[Any]:
        """Whether Trainers among them are as they were, as functions."""
        return [b.holds() for b in self.blocks if hasattr(b, "holds")]
