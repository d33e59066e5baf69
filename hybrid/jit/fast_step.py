"""What belongs to a call of a training step beside its program: counting the update before it, noting what was written
after it.

The launcher (kernels/c/launcher.c) does it in C, from the tuple that ``step_call`` makes; ``Entry.run`` does the same
on the slow path.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence

from ..buffers.array import REBINDS, NDArray
from ..buffers.derived import WATCHED
from ..base.scope import SCOPE
from ..buffers.writes import CLOCK
from .fast_path import make_fast_path

if TYPE_CHECKING:
    from .compiled_call import Entry
    from .used_blocks import UsedBlocks

# whether something that the trace depends on, and that no counter tells of, is as it was
Holds = Callable[[], bool]


def step_call(entry: Entry, arguments: Sequence[NDArray], holds: Sequence[Holds]) -> tuple[Any, ...] | None:
    """(prepare, noted, watched, clock, group, starts, stops, updated, gradients), or None where the step must take the
    slow path."""
    now, fixed = REBINDS[0], entry.fixed(arguments)
    inputs = [*arguments, *fixed]
    if entry.written and entry.overlaps(arguments):
        return None
    entry.mark(inputs)
    updated = tuple(inputs[slot] for slot in entry.updated)
    if any(type(x) is not entry.cls for x in updated) or REBINDS[0] != now:
        return None
    starts, stops = entry.places.places if entry.written else ([], [])
    gradients = tuple(entry.slots) if entry.gradients else ()
    return _prepare(entry, holds,
                    now), _noted(entry), WATCHED, CLOCK, entry.group.state, starts, stops, updated, gradients


def _prepare(entry: Entry, holds: Sequence[Holds], seen: int) -> Callable[[], bool]:
    before, rebinds = list(entry.before), REBINDS

    def prepare() -> bool:
        for hold in holds:
            if not hold():
                return False
        for do in before:
            do()
        if rebinds[0] == seen:
            return True
        entry.prepared = True                            # arrays are elsewhere now: the slow path goes on from here
        return False
    return prepare


def _noted(entry: Entry) -> Callable[[], None]:
    group, were_written = entry.group, entry.were_written

    def noted() -> None:
        group.enlist()
        were_written()
    return noted


def way_into(entry: Entry, arguments: Sequence[NDArray], form: Any, used: UsedBlocks, own: Any,
             ) -> Callable[..., Any] | None:
    """A fast path into a compiled call, if there are counters that say when it ends. used: the Blocks that the code
    met; own: the owner's counters. form: of arguments that are no plain arrays by position."""
    counters = used.counters(own)
    if entry.tells_apart and len(arguments) > 1:               # that way does not see an array that is given twice
        return None
    if counters is None or not arguments or entry.guard.stamp() != entry.stamp or entry.bind() is None:
        return None
    holds = used.holds()
    step = step_call(entry, arguments, holds) if entry.is_step else None
    if step is None and (entry.is_step or holds) or entry.cls is None:
        return None
    fast = make_fast_path(entry.bound, entry.ctx, entry.cls, SCOPE.training, counters, entry.structure, entry.guard,
                          form, step, entry.demands if entry.demanding else ())
    return fast if entry.numbers is None or fast is None else entry.numbers.computing(fast)
