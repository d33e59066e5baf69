"""A compiled program with its parameters bound: calls that put the addresses of their arrays into a table, and run."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from . import buffers, launcher
from .net_ffi import ffi as _ffi
from .prepacked import Prepared

if TYPE_CHECKING:
    from .cpu import CpuProgram

_from_buffer, _new = _ffi.from_buffer, _ffi.new
MAX_LAUNCHER_SLOTS = 4096            # its pointer table lies on the stack
MOST_RESULTS = 64                    # of a launcher

Slots = list[tuple[int, Any]]


def _addresses(kept: Sequence[tuple[int, np.ndarray]], old: "Bound | None") -> tuple[Slots, Slots]:
    """Returns (slot, array) and (slot, address) pairs. Pairs that an older program with the same arrays has are reused:
    a program for any size may have hundreds, and new objects would trigger garbage collections."""
    before: Sequence[Any] = list(zip(old._kept, old._keep)) if old is not None else ()
    if len(before) != len(kept):
        before = [((None, None), None)] * len(kept)
    both = [was if was[0][0] == i and was[0][1] is a else ((i, a), (i, _from_buffer(a)))
            for (i, a), was in zip(kept, before)]
    return [own for own, _ in both], [pointer for _, pointer in both]


class Bound:
    """A program whose fixed inputs (parameters) keep their addresses between calls: the fast way in.

    ``bound(a, b)`` takes the remaining inputs in slot order. Where the fixed arrays are replaced, another one is made
    (``CpuProgram.bind``): this one does not change, so that a call in another thread keeps what it reads.
    """

    from_buffer = staticmethod(_from_buffer)
    empty = staticmethod(buffers.empty)

    def __init__(self, program: CpuProgram, fixed: dict[int, np.ndarray], values: Prepared | None,
                 old: "Bound | None" = None):
        self.program = program
        self._fixed, self._prepared = fixed, values
        self._free = [i for i in range(program.given) if i not in fixed and i not in program._unread]
        self._checks = [(i, *program._inputs[i]) for i in self._free]
        self._finished = program._simple or not program._results and not program._updates
        self._writes_given = not program._written.isdisjoint(self._free)
        self._first = len(program._inputs) + len(program._constants)
        added = [*(values.values if values is not None else []), *program._constants]
        # slots, with arrays and with addresses, that are the same in each call
        kept = [*fixed.items(), *((program.given + j, a) for j, a in enumerate(added))]
        self._kept, self._keep = _addresses(kept, old)
        self._tables: list[Any] = []
        # the next call is the last that goes this way: a launcher with an arena of its own is there
        self._once = False
        self._launched: Any = launcher.later                     # the launcher of ``launched``
        self._launchers = launcher.Made()
        self.calls = 0                                           # that went another way

    @property
    def plain(self) -> bool:
        """Whether it takes one array and gives one, and nothing has to be watched."""
        return len(self._checks) == 1 and self.program._simple and not self.program.patience.left

    def _table(self) -> tuple[Any, Any]:
        arena = self.program._arena()
        table = _new("void *[]", self.program._arena_slot + 1)
        for i, pointer in self._keep:
            table[i] = pointer
        table[self.program._arena_slot] = _from_buffer(arena)
        return table, arena

    def launcher(self, cls: type, ctx: Any, scope: Any, train: bool, counters: tuple[list[int], ...], kind: int = 0,
                 places: tuple[Any, ...] = (),
                 form: Any = None, step: Any = None) -> Any:
        """A launcher (launcher.c) of this program with its fixed inputs, for arrays of a class; None where there is
        none. kind: whether it gives one array (0), a tuple of them (1) or a list (2). It may write fixed inputs alone.
        places: variables that must be what they are (hybrid/jit/free_variables.py). form: of the arguments
        (hybrid/base/pytree.py), None for arrays by position. step: what it does beside that (hybrid/jit/fast_step.py).
        """
        program = self.program
        own = program.recipe.own_results()
        if (own is None or len(own) > MOST_RESULTS or not kind and len(own) != 1 or self._writes_given
            or program._arena_slot > MAX_LAUNCHER_SLOTS or program.patience.left):
            return None
        made = launcher.found()
        if made is None or made is launcher.later:
            return made
        net = int(_ffi.cast("uintptr_t", program._net))
        outputs = tuple((slot, *spec) for (slot, _), spec in zip(program._results, own))
        allocate = tuple(functools.partial(buffers.empty, *spec) if buffers.pooled(*spec) else None for spec in own)
        found = made(cls, net, program._arena_slot + 1, program._arena_slot, program._arena_bytes,
                     tuple((i, shape, d) for i, shape, d in self._checks),
                     outputs, tuple(self._kept), ctx, scope, bool(train), counters, places, form, allocate, kind, step,
                     program._lib)
        self._once = True
        self._tables.clear()
        self._launchers.add(bool(counters), found)               # with and without counters
        return None if self.changed() else found

    def launched(self, cls: type, ctx: Any, scope: Any, kind: int, arguments: Sequence[Any]) -> Any:
        """What a launcher, made at the first call, gives; None where the slow path must be taken."""
        if self._launched is launcher.later:
            self._launched = self.launcher(cls, ctx, scope, scope.training, (), kind)
        found = self._launched
        return found(*arguments) if found is not None else None

    def uses(self) -> int:
        """How often it was called."""
        return self.calls + self._launchers.calls()

    def changed(self) -> bool:
        """Whether values that were prepared are of parameters as they were before a change."""
        return self._prepared is not None and self._prepared.token.stale

    def evicted(self) -> int:
        """Bytes of parameters whose buffers are evicted now, because prepared values hold them."""
        return self._prepared.evicted() if self._prepared is not None else 0

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray] | None:
        """Outputs; None when an array does not fit (shape, dtype, layout) and the slow path must be taken."""
        tables = self._tables
        self.calls += 1
        try:
            entry = tables.pop()
        except IndexError:
            entry = self._table()
        table = entry[0]
        try:
            for (i, shape, dtype), a in zip(self._checks, arrays):
                if a.shape != shape or a.dtype != dtype:
                    return None
                table[i] = _from_buffer(a,
                                        require_writable=i in self.program._written) if self._writes_given else _from_buffer(a)  # noqa: E501
        except (ValueError, BufferError):                        # not contiguous, or not to be written
            return None
        fresh = [buffers.empty(shape, dtype) for shape, dtype in self.program._new]
        at = self._first
        for a in fresh:
            table[at] = _from_buffer(a)
            at += 1
        if self.program.patience.left:
            self.program.patience.run(lambda: self.program._net(table), entry, fresh, arrays, self)
        else:
            self.program._net(table)
        if self._once:
            self._once = False
            tables.clear()
        elif self.program.one_of_many:                           # the next call may be of another size
            self.program._arenas.append(entry[1])
        else:
            tables.append(entry)
        return fresh if self._finished else self._rest(arrays, fresh)

    def _rest(self, arrays: Sequence[np.ndarray], fresh: list[np.ndarray]) -> list[np.ndarray]:
        given = {**self._fixed, **dict(zip(self._free, arrays))}
        return self.program.finish(given, fresh)
