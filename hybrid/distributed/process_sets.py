"""Sets of ranks that make collective calls among themselves, under Horovod's names."""
from __future__ import annotations

import operator
from typing import Any, Iterable

from .. import collective
from ..base.errors import AttributeValueError, HybridError
from ..collective.world import World

_SETS: dict[int, "ProcessSet"] = {}                          # those in use, by their numbers
_last = [0]


class ProcessSet:
    """Some of the ranks of a job, from a list of their numbers. ``init`` or ``add_process_set`` put it to use.

    >>> evens = ProcessSet([0, 2])
    >>> evens.ranks, evens.process_set_id
    ([0, 2], None)
    """

    process_set_id: int | None = None
    _world: World | None = None

    def __init__(self, ranks_or_comm: Iterable[int]):
        try:
            self._ranks = sorted(map(operator.index, ranks_or_comm))
        except TypeError:
            raise AttributeValueError(f"ProcessSet takes a list of ranks, as [0, 2]; got {ranks_or_comm!r}") from None
        if len(set(self._ranks)) < len(self._ranks):
            raise AttributeValueError(f"ProcessSet: a rank is given twice: {self._ranks}")

    @property
    def ranks(self) -> list[int]:
        """The numbers of its ranks."""
        return self._ranks

    @property
    def world(self) -> World:
        """What its ranks do together. HybridError where this process is none of them, or the set is not in use."""
        if self.process_set_id is None:
            raise HybridError(f"{self} is not in use: give it to hvd.init(process_sets=[…]) or hvd.add_process_set")
        if self._world is None:
            raise HybridError(f"rank {_job().rank} is not in {self}")
        return self._world

    def size(self) -> int | None:
        """How many ranks it has; None where it is not in use."""
        return None if self.process_set_id is None else len(self.ranks)

    def rank(self) -> int | None:
        """The number of this process in the set; None where the set is not in use, or the process none of it."""
        return self.ranks.index(_job().rank) if self.included() else None

    def included(self) -> bool | None:
        """Whether this process is in the set; None where it is not in use."""
        return None if self.process_set_id is None else _job().rank in self.ranks

    def number_of(self, root_rank: Any) -> int:
        """The number in the set of a rank of the job."""
        if root_rank not in self.ranks:
            raise HybridError(f"root_rank must be one of {self.ranks}, the ranks of {self}; got {root_rank!r}")
        return self.ranks.index(root_rank)

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _Everybody(ProcessSet):
    """All ranks of the job."""

    process_set_id = 0

    def __init__(self) -> None:
        """Nothing is known before the job is joined."""

    @property
    def world(self) -> World:
        """The job's ranks. HybridError before ``init``."""
        return _job()

    @property
    def ranks(self) -> list[int]:
        """The numbers of all ranks."""
        return list(range(_job().size))

    def __repr__(self) -> str:
        return "global_process_set"


def _job() -> World:
    world = collective.current()
    if world is None:
        raise HybridError("the job is not joined yet: call hybrid.distributed.init() (hvd.init()) first")
    return world


global_process_set: ProcessSet = _Everybody()


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Put a set of ranks (or a list of them) to use. All ranks call it, with the same ones.

    >>> odd = hvd.add_process_set([1, 3])                                    # doctest: +SKIP
    >>> if odd.included():                                                   # doctest: +SKIP
    ...     x = hvd.allreduce(x, process_set=odd)
    """
    found = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    world = _job()
    if found.ranks and not 0 <= found.ranks[0] <= found.ranks[-1] < world.size:
        raise AttributeValueError(f"the ranks of a process set are among 0 … {world.size - 1}, got {found.ranks}")
    for other in (global_process_set, *_SETS.values()):
        if other.ranks == found.ranks:
            raise AttributeValueError(f"there is a process set of these ranks already: {other}")
    found._world = world.subset(found.ranks)
    _last[0] += 1
    found.process_set_id = _last[0]
    _SETS[found.process_set_id] = found
    return found


def remove_process_set(process_set: ProcessSet) -> bool:
    """Put a set out of use, on all ranks. Whether it was in use; the set of all ranks stays."""
    if _SETS.pop(process_set.process_set_id or 0, None) is None:
        return False
    _job().agree(f"removal of {process_set}")
    if process_set._world is not None:
        process_set._world.free()
    _out_of_use(process_set)
    return True


def _out_of_use(process_set: ProcessSet) -> None:
    process_set.process_set_id = process_set._world = None


def forget() -> None:
    """Put all sets out of use: the job ends."""
    for each in _SETS.values():
        _out_of_use(each)
    _SETS.clear()
