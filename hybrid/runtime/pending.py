"""Programs that run before they are compiled: primitive by primitive, while a compiler works in the background."""
from __future__ import annotations

import threading
from typing import Any, Callable, Sequence

import numpy as np

from ..base import forking
from ..base.errors import TooLargeError, user_location
from ..base.scope import SCOPE
from ..ir import Program
from ..ir.direct import own
from ..ir.text import to_text
from . import background, reference, updating
from .job import Job, is_light

Compile = Callable[[Program], Any]


class PendingProgram:
    """``program(arrays)`` as a compiled program: by NumPy's functions until the compiled one is there, and by that one
    from then on. Both give the same results within the contract of hybridized code, random draws and updates included.
    """

    def __init__(self, program: Program, job: Job, compile_here: Compile):
        self.program, self.job, self._compile_here = program, job, compile_here
        self._lock = threading.Lock()
        self._made: Any = None

    def settled(self, wait: bool = False) -> Any:
        """The compiled program; None while it is not there. wait: until it is."""
        if self._made is None and (wait or self.job.ended.is_set()):
            background.queue().hurry(self.job)
            self.job.ended.wait()
            with self._lock:                                 # another thread may be loading it
                if self._made is None:
                    made = self._compile_here(self.program)  # the disk cache has it, unless it failed
                    if not self.job.failed and hasattr(made, "compiled_behind"):
                        made.compiled_behind += made.libraries()
                    self._made = made                        # last: another thread may look
        return self._made

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run; updated inputs are written in place."""
        made = self.settled()
        if made is not None:
            return made(arrays)
        with background.CALLS.without_program(self.job):
            return run_by_primitives(self.program, arrays, np)

    @property
    def report(self) -> Any:
        """The compile report: it waits for the compiler."""
        return self.settled(wait=True).report


def begun(program: Program, frozen: frozenset[int], compile_here: Compile) -> Any:
    """The executable of a program, from the disk cache where it is there; else one that waits for a background process,
    which compiles it from now on. frozen: inputs that are frozen."""
    with forking.IMPORTS:
        from . import plans, toolchain                       # noqa: PLC0415  loaded where something is compiled
    key: str | None = None

    def key_and_text() -> tuple[str | None, str]:
        found = key or plans.key(program, frozen)            # which may ask the compiler what it is
        return found, "" if found is None or plans.read(found) is not None else to_text(program)
    try:
        with toolchain.at_hand():
            key = plans.key(program, frozen)
    except toolchain.NotAtHand:
        pass
    else:
        if key is None or plans.read(key) is not None:
            return compile_here(program)
    job = Job(key or f"program {id(program)}", key_and_text, frozen)
    # what a function calls the first time, as plain Python, its own program will do
    job.light = not background.CALLS.running and is_light(program)
    job.calls += SCOPE.answered                          # the first call was no program's: compilers may begin
    return PendingProgram(program, background.queue().submit(job), compile_here)


def run_by_primitives(program: Program, arrays: Sequence[Any], xp: Any) -> list[Any]:
    """Outputs of a program, each an array of its own; updated inputs are written in place."""
    try:
        outputs, updates = updating.run(program, arrays) if xp is np else _reference(program, arrays, xp)
    except MemoryError as err:
        raise TooLargeError(f"{user_location()}: {err}. Make the arrays smaller, or compute them in parts") from err
    # results never share memory with inputs or each other
    inputs, seen = set(map(id, arrays)), set()
    for k, o in enumerate(outputs):
        outputs[k] = xp.array(o) if id(o) in seen else own(o, arrays if id(o) in inputs else (), xp)
        seen.add(id(o))
    if len(updates) > 1:                                     # one may be another input, changed here too
        updates = [(slot, own(u, arrays if id(u) in inputs else (), xp)) for slot, u in updates]
    for slot, value in updates:
        arrays[slot][...] = value
    return outputs


def _reference(program: Program, arrays: Sequence[Any], xp: Any) -> tuple[list[Any], list[updating.Value]]:
    """As ``updating.run``, for arrays of another module than NumPy."""
    outputs, updates = reference.run(program, arrays, xp)
    return outputs, [(slot, value) for (slot, _), value in zip(program.updates, updates)]
