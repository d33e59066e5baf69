"""What the executable needs of a GPU. Two implementations: CuPy's (cupy_driver.py) and the CPU's (emulator.py)."""
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from hybrid.base.errors import CompileError

if TYPE_CHECKING:
    from hybrid.codegen.cuda import TensorMap

_NOTHING: AbstractContextManager[Any] = nullcontext()


class Launch(NamedTuple):
    """One kernel launch. A plain tuple of the first five fields does as well.

    In a plan, ``args`` are positions in the table of pointers that each run is given; in ``launch_list`` they are
    device pointers themselves. Kernels take pointers, and tensor maps of the arrays there, for the arguments of these
    numbers (``maps``): every size is a literal in the source.
    """
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int = 0
    args: tuple[int, ...] = ()
    cooperative: bool = False
    maps: tuple[tuple[int, TensorMap], ...] = ()


class Plan(ABC):
    """A list of launches, prepared once and run often."""

    @abstractmethod
    def run(self, pointers: Sequence[int]) -> None:
        """Launch all of it on the current stream. ``pointers``: the table that the launches' ``args`` point into."""

    @abstractmethod
    def freeze(self, pointers: Sequence[int]) -> Callable[[], None]:
        """A call that repeats this run with these very pointers: one CUDA graph on a GPU."""


class Module(ABC):
    """A compiled source text."""
    source_path: str
    kernels: tuple[str, ...]

    @abstractmethod
    def plan(self, launches: Sequence[Sequence[Any]]) -> Plan:
        """Prepare launches, see ``Launch``.

        >>> module.plan([("scale", (4, 1, 1), (256, 1, 1), 0, (0, 1))]).run([x_pointer, y_pointer])   # doctest: +SKIP
        """

    def resident(self, kernel: str, threads: int, shared: int) -> float:
        """How many blocks of a kernel the device runs at once. shared: bytes of dynamic shared memory of a block."""
        return math.inf

    def spilled(self, kernel: str) -> int:
        """Bytes that a thread of a kernel puts into memory for want of registers, where that is known."""
        return 0

    def launch_list(self, launches: Sequence[Sequence[Any]]) -> None:
        """Run launches once, each argument an int device pointer."""
        table = sorted({p for launch in launches for p in Launch(*launch).args})
        position = {p: i for i, p in enumerate(table)}
        self.plan([Launch(*launch)._replace(args=tuple(position[p] for p in Launch(*launch).args))
                   for launch in launches]).run(table)


class Driver(ABC):
    """A device: compiles, allocates and waits."""
    name: str

    @property
    @abstractmethod
    def arch(self) -> str:
        """The architecture that modules are compiled for, as ``sm_90a``."""

    @abstractmethod
    def load(self, source: str, kernels: Sequence[str]) -> Module:
        """Compile CUDA C and make its kernels (``extern "C" __global__``) ready to launch. Raises CompileError."""

    @abstractmethod
    def alloc(self, nbytes: int) -> Any:
        """A uint8 array of device memory, at least 256-byte aligned, contents undefined."""

    @property
    def processors(self) -> int:
        """The number of multiprocessors, so that as many blocks can be resident at once. 0: launches are not merged."""
        return 0

    @property
    def no_maps(self) -> str:
        """Why launches take no tensor maps; empty where they do."""
        return ""

    @abstractmethod
    def clear(self, array: Any, first: int, nbytes: int) -> None:
        """Set bytes of device memory to 0, on the current stream."""

    def active(self) -> AbstractContextManager[Any]:
        """Scope in which the array module allocates on this device."""
        return _NOTHING

    @abstractmethod
    def pointer(self, array: Any) -> int:
        """The device address of an array's first element."""

    def stream(self) -> int:
        """The handle of the current stream."""
        return 0

    def capturing(self) -> bool:
        """Whether the current stream is being captured for a CUDA graph of the caller's."""
        return False

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the device's memory; zeros where they are not counted."""
        return 0, 0

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything launched on the current stream is done."""


def checked(launches: Sequence[Sequence[Any]], kernels: Sequence[str], most: int = 4095) -> list[Launch]:
    """Launches as ``Launch``, each of a kernel that the module has, with at most so many arguments."""
    out = [Launch(*launch) for launch in launches]
    for launch in out:
        if launch.kernel not in kernels:
            raise KeyError(f"this module has no kernel {launch.kernel!r}; it has {', '.join(kernels)}")
        if len(launch.args) > most:
            raise CompileError(f"kernel {launch.kernel} takes {len(launch.args)} arrays, and a launch on this GPU "
                               f"takes "
                               f"at most {most}{' (4095 from CUDA 12.1 on)' if most < 4095 else ''}: join them in "
                               f"groups, as concat of concats, or call the operator without hybridize")
        if len(launch.grid) != 3 or len(launch.block) != 3:
            raise ValueError(f"{launch.kernel}: grid {launch.grid} and block {launch.block} must have three numbers "
                             f"each")
    return out
