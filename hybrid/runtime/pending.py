"""Programs that run before they are compiled: primitive by primitive, while a compiler works in the background."""
from __future__ import annotations

import threading
from typing import Any, Callable, Sequence

import numpy as np

from ..ir import Program
from . import background, reference
from .background import Job

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
        self.job.calls += 1
        return run_by_primitives(self.program, arrays, np)

    @property
    def report(self) -> Any:
        """The compile report: it waits for the compiler."""
        return self.settled(wait=True).report


def pending(program: Program, key: str, frozen: frozenset[int], text: str, compile_here: Compile) -> PendingProgram:
    """A program that a background process compiles from now on."""
    return PendingProgram(program, background.queue().submit(Job(key, text, frozen)), compile_here)


def run_by_primitives(program: Program, arrays: Sequence[Any], xp: Any) -> list[Any]:
    """Outputs of a program, each an array of its own; updated inputs are written in place."""
    outputs, updates = reference.run(program, arrays, xp)
    outputs = [xp.array(o) for o in outputs]                 # results never share memory with inputs
    if len(updates) > 1:
        updates = [xp.array(u) for u in updates]             # one may be another input, changed here too
    for (slot, _), value in zip(program.updates, updates):
        arrays[slot][...] = value
    return outputs
