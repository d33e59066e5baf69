"""The programs of a hybridized function or block, as data: ``f.programs``."""
from __future__ import annotations

from typing import Any, Iterator

from ..base.records import dataclass
from .. import runtime
from ..ir import Program
from . import debug
from .compiled_call import Entry
from .free_variables import Contents

# of a signature's fields (hybrid/jit/trace.py), those that hold one word
_STRUCTURE, _MODES = 0, {2: "device", 3: "training", 4: "recording", 5: "numpy arrays"}


@dataclass(frozen=True)
class ProgramInfo:
    """One program of a function: for which calls it is, and what it cost.

    sizes: dtype and shape of each array among the arguments, with names for sizes that may be any. guards: what a call
    must have in common with the one that it was made for. state: ``compiled``; ``waiting`` for a compiler in the
    background, on NumPy until then; or ``not compiled``, on NumPy for good. waited, background: runs of the C compiler
    in this process that a caller has waited for, and those that went in the background; none where the program was in
    the disk cache.
    """
    name: str
    sizes: tuple[str, ...]
    guards: tuple[str, ...]
    state: str
    waited: int
    background: int

    def __str__(self) -> str:
        runs = f"{self.waited} compiler runs waited for, {self.background} in the background"
        return f"{self.name}({', '.join(self.sizes)}): {self.state}, {runs}; for {', '.join(self.guards)}"


def programs(entries: dict[Any, Entry]) -> list[ProgramInfo]:
    """The programs of signatures, the oldest first."""
    seen: dict[int, ProgramInfo] = {}
    for signature, entry in list(entries.items()):
        one = entry.family.entry if entry.family is not None else entry
        if id(one) not in seen:
            seen[id(one)] = _info(signature, one)
    return list(seen.values())


def state_of(entry: Entry) -> str:
    """The state of an entry's program: ``compiled``, ``waiting`` or ``not compiled``."""
    return _state(entry, _runs(entry))


def _runs(entry: Entry) -> list[tuple[str, int, int]]:
    found = [exe for part in parts_of(entry) for exe in runtime.executables(part, entry.ctx)]
    return [runtime.compiler_runs(exe) for exe in found]


def _state(entry: Entry, runs: list[tuple[str, int, int]]) -> str:
    states = {state for state, _, _ in runs} or {"waiting" if entry.recorded else "not compiled"}
    return next(s for s in ("waiting", "not compiled", "compiled") if s in states)


def _info(signature: Any, entry: Entry) -> ProgramInfo:
    runs = _runs(entry)
    sizes = tuple(f"{n.dtype}{list(n.shape)}" for n in entry.program.inputs[:entry.arguments])
    return ProgramInfo(entry.name or "a program", sizes, tuple(_guards(signature, entry)),
                       _state(entry, runs), sum(waited for _, waited, _ in runs), sum(behind for _, _, behind in runs))


def parts_of(entry: Entry) -> list[Program]:
    """The program itself, or those for the two passes of a recorded call, as far as they were run."""
    if not entry.recorded:
        return [entry.program]
    return [part for key, both in entry.program.memo.items() if key[0] == "partition"
            for part in both.asked_for()]


def _guards(signature: Any, entry: Entry) -> Iterator[str]:
    yield from (f"{what} {signature[i]}" for i, what in _MODES.items())
    for label, value in debug.arguments(signature[_STRUCTURE]).items():
        if value != "an array":
            yield f"argument {label} {value}"
    if entry.family is not None:
        yield from entry.family.asked.lines()
    names = ("contents" if isinstance(place, Contents) else place.name for place in entry.guard.places)
    yield from dict.fromkeys(f"{name if isinstance(name, str) else getattr(name, '__name__', 'an attribute')} as it was"
                             for name in names)


class Programs:
    """The attribute ``programs`` of blocks, which an attribute of the block's own may take the place of."""

    def __get__(self, block: Any, cls: type | None = None) -> Any:
        if block is None:
            return self
        return block._engine.programs() if block._engine is not None else []
