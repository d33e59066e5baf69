"""gpu(0) whose kernels the interpreter of tests/cuda/ptx.py runs."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.interface import Launch, Module, Plan, checked

from .ptx import Memory
from .ptx_text import Entry, compile_ptx, parse


class _Plan(Plan):
    def __init__(self, driver: PtxDriver, entries: dict[str, Entry], launches: list[Launch]):
        self.driver, self.entries, self.launches = driver, entries, launches

    def run(self, pointers: Sequence[int]) -> None:
        """See ``Plan.run``."""
        memory = Memory(self.driver.known)
        self.driver.known = {}
        for launch in self.launches:
            memory.launch(self.entries[launch.kernel], launch, [pointers[a] for a in launch.args])
        memory.close()

    def freeze(self, pointers: Sequence[int]) -> Callable[[], None]:
        """Not for tests that look at one run."""
        raise NotImplementedError


class _Module(Module):
    def __init__(self, driver: PtxDriver, source: str, kernels: Sequence[str]):
        self.driver, self.kernels, self.source_path = driver, tuple(kernels), "kernel.cu"
        self.entries = parse(compile_ptx(source))

    def plan(self, launches: Sequence[Sequence[Any]]) -> _Plan:
        """See ``Module.plan``."""
        return _Plan(self.driver, self.entries, checked(launches, self.kernels))


class PtxDriver(EmulatorDriver):
    """gpu(0) whose kernels are compiled to PTX by NVRTC and interpreted."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, np.ndarray] = {}

    @property
    def processors(self) -> int:
        """None: blocks run one after the other, so no launch has stages that wait for each other."""
        return 0

    def load(self, source: str, kernels: Sequence[str]) -> Any:
        """See ``Driver.load``."""
        return _Module(self, source, kernels)

    def pointer(self, array: Any) -> int:
        """Address of a NumPy array, which the next run may use."""
        at = super().pointer(array)
        self.known[at] = array
        return at


def run_ptx(source: str, launches: Sequence[Sequence[Any]], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run launches on copies of arrays (a launch's args are positions in them); returns the copies."""
    driver, copies = PtxDriver(), [a.copy() for a in arrays]
    module = driver.load(source, sorted({str(launch[0]) for launch in launches}))
    module.plan(launches).run([driver.pointer(a) for a in copies])
    return copies
