"""When which memory was written, also through arrays that share it: an array that was recorded on the tape must hold
the same numbers when its gradient is taken. Every write through an array comes by ``note``.
"""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, Sequence

from ..base import forking
from .extents import Extents, extent

CLOCK = [0]
MOST = 1 << 16                                          # owners of memory that are remembered, those written last
GROUPS = 1 << 10                                        # groups that are remembered, those written last
PARTS = 64                                              # written stretches of one owner's memory that are kept apart
_whole: "OrderedDict[int, int]" = OrderedDict()         # owner's id -> when it was written through itself
# owner's id -> stretch -> when it was written through a view
_parts: "OrderedDict[int, dict[tuple[int, int], int]]" = OrderedDict()


class Group(Extents):
    """Memory that one program writes at every call: one note serves all of it."""

    def __init__(self, arrays: Sequence[Any]):
        super().__init__(arrays)
        # when it was written, whether it is among ``_groups``, the count of watch.WATCHED at which no token looked
        # after any of it: the launcher reads them too
        self.state: list[Any] = [0, False, -1]

    @property
    def when(self) -> int:
        """When it was written."""
        when: int = self.state[0]
        return when

    def note(self) -> None:
        """Note that all of it was written just now."""
        CLOCK[0] += 1
        self.state[0] = CLOCK[0]
        self.enlist()

    def enlist(self) -> None:
        """See to it that ``since`` asks this group."""
        with _lock:
            if self.state[1]:
                return
            self.state[1] = True
            _groups.append(self)
            if len(_groups) > GROUPS:
                every = sorted(_groups, key=lambda g: g.when)    # other threads read the list meanwhile
                _groups[:] = every[GROUPS // 2:]
                for g in every[:GROUPS // 2]:
                    g.state[1] = False


_groups: list[Group] = []
_lock = forking.lock(again=True)


def note(raw: Any) -> None:
    """Note that a raw array was written just now."""
    CLOCK[0] += 1
    base = raw.base
    if base is None:
        _remember(_whole, id(raw), CLOCK[0])
    else:
        stretches = _parts.get(id(_owner(base)), {})
        if len(stretches) >= PARTS:
            stretches = {(min(a for a, _ in stretches), max(b for _, b in stretches)): CLOCK[0]}
        stretches[extent(raw)] = CLOCK[0]
        _remember(_parts, id(_owner(base)), stretches)


def since(raw: Any, when: int) -> bool:
    """Whether the memory of a raw array, which was alive all the time, has been written after a time (a value of
    ``CLOCK[0]``)."""
    if any(g.when > when for g in _groups):
        first, last = extent(raw)
        if any(g.when > when and g.meets(first, last) for g in list(_groups)):
            return True
    owner = id(_owner(raw))
    if _whole.get(owner, 0) > when:
        return True
    stretches = _parts.get(owner)
    if not stretches or all(t <= when for t in list(stretches.values())):
        return False
    first, last = extent(raw)
    return any(t > when and a < last and first < b for (a, b), t in list(stretches.items()))


def _owner(raw: Any) -> Any:
    while (base := getattr(raw, "base", None)) is not None:
        raw = base
    return raw


def _remember(table: "OrderedDict[int, Any]", owner: int, value: Any) -> None:
    table[owner] = value
    table.move_to_end(owner)
    if len(table) > MOST:
        table.popitem(last=False)
