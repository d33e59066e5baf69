"""CUDA on the CPU: the same source text, compiled by the C++ compiler with kernels/emulator/cuda_on_cpu.h.

For correctness, not speed. Threads of a block run in the order of HYBRID_EMU_ORDER (``forward``, ``reverse``,
``random`` or ``random:SEED``), so that a missing barrier changes the result; HYBRID_EMU_BLOCKS blocks (1) take turns at
their barriers; tensor cores add as HYBRID_EMU_SUMS says (``rounded``, or ``truncated`` as NVIDIA's do at worst, see
emu_tensor.h). Deadlocks, misused warp collectives and misaligned accesses are errors.
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from hybrid.base.errors import CompileError, HybridError

from .. import cache, scratch
from ..shared_objects import intact, keep
from ..toolchain import compiler_version, cpu_features
from . import sources, tensor_maps, watch
from .interface import Driver, Launch, Module, Plan, checked

ORDERS = {"forward": 0, "reverse": 1, "random": 2}
SUMS = {"rounded": 0, "truncated": 1}
FLAGS = ("-std=c++17", "-O1", "-march=native", "-fno-strict-aliasing", "-fno-math-errno", "-fPIC", "-shared", "-w",
         "-fvisibility=hidden")
MANY = 64                        # kernels from which on compiling them well takes longer than running them
ffi = cffi.FFI()
ffi.cdef("""
struct EmuOptions { int order; unsigned seed; int sums, resident; };
struct EmuLaunch {
    int kernel; unsigned grid[3], block[3]; unsigned long dynamic_bytes; int cooperative, first_arg, args;
};
int emu_kernel_args(int kernel);
int emu_argument_bytes(int kernel, int i);
int emu_make_map(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, int);
const char *emu_last_error(void);
unsigned long emu_switches(void);
int emu_run(const struct EmuLaunch *, int n, const int *index, void **table, const struct EmuOptions *);
""")
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;")
FEW = 4                          # modules from which on the emulator's header is parsed once for all
_modules: Counter[tuple[Any, ...]] = Counter()
_headers: dict[tuple[Any, ...], list[str]] = {}
_locks: dict[str, threading.Lock] = {}
_locks_lock = threading.Lock()
_memory: dict[str, Path] = {}


class EmulatorError(HybridError):
    """A kernel that deadlocked, misused a warp collective or was launched with impossible sizes."""


def order_from_environment() -> tuple[str, int]:
    """(order, seed) from HYBRID_EMU_ORDER; forward when it is not set."""
    text = os.environ.get("HYBRID_EMU_ORDER", "") or "forward"
    name, _, seed = text.partition(":")
    if name not in ORDERS or not (seed or "1").isdigit():
        raise EmulatorError(f"HYBRID_EMU_ORDER={text!r}: write forward, reverse, random or random:SEED")
    return name, int(seed or "1")


def _options(order: str | None, seed: int) -> dict[str, int]:
    """How a launch runs, as struct EmuOptions takes it."""
    name, seed = (order, seed) if order else order_from_environment()
    sums, blocks = os.environ.get("HYBRID_EMU_SUMS", "") or "rounded", os.environ.get("HYBRID_EMU_BLOCKS", "") or "1"
    if sums not in SUMS:
        raise EmulatorError(f"HYBRID_EMU_SUMS={sums!r}: write rounded or truncated")
    if not blocks.isdigit() or not 1 <= int(blocks) <= 64:
        raise EmulatorError(f"HYBRID_EMU_BLOCKS={blocks!r}: write how many blocks take turns, 1 to 64")
    return {"order": ORDERS[name], "seed": seed, "sums": SUMS[sums], "resident": int(blocks)}


def compiler() -> str:
    """Path of the C++ compiler: CXX, else g++, clang++ or c++."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        path = shutil.which(name) if name else None
        if path:
            return os.path.abspath(path)
    raise CompileError("the CUDA emulator needs a C++ compiler and found none of g++, clang++, c++: install one "
                       "(Debian and Ubuntu: apt install g++) or set CXX")


def compile_module(source: str, kernels: Sequence[str], flags: Sequence[str] = ()) -> Path:
    """Shared object of a CUDA text; the text is beside it with the suffix .cpp.

    Raises CompileError with the compiler's log and the path of the saved source.
    """
    path, text = compiler(), _text(source, kernels)
    flags = (*flags, "-O0") if len(kernels) > MANY else flags
    watched = watch.library(path)[1] if watch.mode() else None
    flags = (*flags, *watch.FLAGS) if watched else flags
    headers = {**sources.device_headers(), **sources.emulator_headers()}
    key = cache.digest("emulator", compiler_version(path), cpu_features(), *FLAGS, *flags, text,
                       *(t for pair in headers.items() for t in pair))
    with _lock_of(key):
        known = _memory.get(key, cache.folder() / f"{key}.so")
        if not intact(known):
            known = _build(path, text, flags, cache.folder() / f"{key}.so", watched)
        _memory[key] = known
        return known


def _build(compiler_path: str, text: str, flags: Sequence[str], target: Path, watched: Path | None) -> Path:
    saved = cache.write(target.with_suffix(".cpp"), text.encode())
    folder = sources.kernels_folder()
    includes = [f"-I{folder / name}" for name in ("include", "cuda", "emulator")]
    includes = [*_precompiled(compiler_path, (*FLAGS, *flags), includes), *includes]
    with scratch.work() as work:
        out, middle = Path(work) / "module.so", Path(work) / "module.o"
        command = [compiler_path, *FLAGS, *flags, *includes, str(saved), "-o", str(out), "-lm"]
        if watched:                                        # linked without -fsanitize: its functions are the watcher's
            command = [compiler_path, *(f for f in (*FLAGS, *flags) if f != "-shared"), *includes, "-c", str(saved),
                       "-o", str(middle)]
        log = _run(command, work) or (watched and _run([compiler_path, "-shared", str(middle), str(watched), "-o",
                                                        str(out), "-lm"], work))
        if log:
            raise CompileError(f"the C++ compiler refused a CUDA program for the emulator. Source: {saved}\n{log}")
        return keep(saved.with_suffix(".so"), out.read_bytes())


def _precompiled(compiler_path: str, flags: tuple[str, ...], includes: Sequence[str]) -> list[str]:
    """The -I of a folder that holds the emulator's header, parsed with these flags: a third of what a small module
    takes. From a process's FEW-th module on; nothing where the compiler does not take it so."""
    wanted = (compiler_path, flags, scratch.folder())
    with _lock_of(str(wanted)):
        _modules[wanted] += 1
        if _modules[wanted] == FEW:
            where = Path(scratch.folder()) / cache.digest("header", str(wanted))
            where.mkdir(exist_ok=True)
            header = sources.kernels_folder() / "emulator" / "cuda_on_cpu.h"
            log = _run([compiler_path, *(f for f in flags if f != "-shared"), *includes, "-x", "c++-header",
                        str(header), "-o", str(where / f"{header.name}.gch")], str(where))
            if not log:
                _headers[wanted] = [f"-I{where}"]
        return _headers.get(wanted, [])


def _run(command: Sequence[str], work: str) -> str:
    """Run a compiler. Its log where it failed, else an empty text."""
    done = subprocess.run(command, text=True, capture_output=True, errors="replace", check=False,
                          stdin=subprocess.DEVNULL, env={**os.environ, "TMPDIR": work})
    return (done.stderr or f"it ended with {done.returncode}") if done.returncode else ""


def _lock_of(name: str) -> threading.Lock:
    with _locks_lock:
        return _locks.setdefault(name, threading.Lock())


def _text(source: str, kernels: Sequence[str]) -> str:
    """The source between the emulator's header and its table of kernels; line numbers stay those of the source."""
    body = _DYNAMIC.sub(r"EMU_DYNAMIC_SHARED(\1, \2);", source)
    table = " ".join(f"EMU_KERNEL({k})" for k in kernels)
    # the module's static arrays lie in one section
    sharing = max(1, sum("__shared__" in part for part in source.split("\n}\n")))
    return (f'#include "cuda_on_cpu.h"\n#line 1 "kernel.cu"\n{body}\nconst unsigned emu_sharing = {sharing};\n'
            f'EMU_KERNELS({table})\n')


class EmulatorPlan(Plan):
    """Launches of an emulated module."""

    def __init__(self, module: EmulatorModule, launches: list[Launch], order: str | None, seed: int):
        self._module, self._launches, self._order, self._seed = module, launches, order, seed
        self._table_size = 1 + max((a for launch in launches for a in launch.args), default=-1)
        self._index = ffi.new("int[]", [a for launch in launches for a in launch.args] or [0])
        self._native = ffi.new("struct EmuLaunch[]", max(1, len(launches)))
        self._maps: list[tuple[int, Any, Any]] = []            # an array's position, its map's fields, memory
        first = 0
        for native, launch in zip(self._native, launches):
            kernel = module.kernels.index(launch.kernel)
            wanted = module.library.emu_kernel_args(kernel)
            if wanted != len(launch.args):
                raise ValueError(f"kernel {launch.kernel} takes {wanted} pointers, the launch gives {len(launch.args)}")
            native.kernel, native.grid, native.block = kernel, launch.grid, launch.block
            native.dynamic_bytes, native.cooperative = launch.shared, launch.cooperative
            native.first_arg, native.args = first, len(launch.args)
            for i, m in launch.maps:
                memory = ffi.new("char[]", tensor_maps.BYTES + 64)
                self._index[first + i] = self._table_size + len(self._maps)
                self._maps.append((launch.args[i], tensor_maps.fields(m), memory))
            first += len(launch.args)

    def _map(self, pointers: Sequence[int]) -> list[int]:
        """Makes the tensor maps; returns where they are."""
        made = []
        for position, m, memory in self._maps:
            at = -(-int(ffi.cast("uintptr_t", memory)) // 64) * 64
            if self._module.library.emu_make_map(ffi.cast("void *", at), m["type"], m["rank"],
                                                 ffi.cast("void *", pointers[position] + m["offset"]), m["size"],
                                                 m["stride"], m["box"], m["swizzle"]):
                raise EmulatorError(f"a tensor map that the driver does not make. Source: {self._module.source_path}")
            made.append(at)
        return made

    def run(self, pointers: Sequence[int]) -> None:
        """Run every launch to its end. EmulatorError names the kernel and what its threads wait for."""
        if len(pointers) < self._table_size:
            raise ValueError(f"the launches use {self._table_size} pointers, {len(pointers)} were given")
        options = ffi.new("struct EmuOptions *", _options(self._order, self._seed))
        with self._module.lock:                            # a module has one set of threads
            entries = [*pointers[:self._table_size], *self._map(pointers)]
            table = ffi.new("void *[]", [ffi.cast("void *", p) for p in entries] or [ffi.NULL])
            self._run_all(pointers, table, options)

    def _run_all(self, pointers: Sequence[int], table: Any, options: Any) -> None:
        """Run the launches on a table of what they are given. Watched, they run one by one, so that what is found has a
        kernel's name, and one module at a time: there is one watcher."""
        watcher = self._module.watcher
        if watcher is None:
            failed = self._module.library.emu_run(self._native, len(self._launches), self._index, table, options)
            if failed:
                raise self._error(failed - 1)
            return
        with watch.one:
            for i, launch in enumerate(self._launches):
                watch.begin(watcher, [pointers[a] for a in launch.args], i == 0)
                self._watch_one(watcher, i, table, options)

    def _error(self, launch: int, reason: str = "") -> EmulatorError:
        reason = reason or ffi.string(self._module.library.emu_last_error()).decode(errors="replace")
        return EmulatorError(f"kernel {self._launches[launch].kernel}: {reason} Source: {self._module.source_path}")

    def _watch_one(self, watcher: Any, i: int, table: Any, options: Any) -> None:
        """Run a launch whose arrays are announced. EmulatorError says what it did wrong."""
        if self._module.library.emu_run(self._native + i, 1, self._index, table, options):
            raise self._error(i)
        wrong = watch.findings(watcher, self._launches[i].kernel, self._module.source_path.replace(".cpp", ".so"))
        if wrong:
            raise self._error(i, wrong + ".")

    def freeze(self, pointers: Sequence[int]) -> Callable[[], None]:
        """Run with these pointers again."""
        kept = list(pointers)
        return lambda: self.run(kept)


class EmulatorModule(Module):
    """A shared object made from CUDA text."""

    def __init__(self, source: str, kernels: Sequence[str], order: str | None = None, seed: int = 1,
                 flags: Sequence[str] = ()):
        self.kernels = tuple(kernels)
        self._order, self._seed = order, seed
        path = compile_module(source, self.kernels, flags)
        self.watcher = watch.library(compiler())[0] if watch.mode() else None
        try:
            self.library = ffi.dlopen(str(path))
        except OSError:                                    # cut short by a crash or a full disk: once more
            path.unlink()
            path = compile_module(source, self.kernels, flags)
            self.library = ffi.dlopen(str(path))
        self.source_path = str(path.with_suffix(".cpp"))
        self.lock = _lock_of(str(path))                    # the same file loaded twice is one library

    def plan(self, launches: Sequence[Sequence[Any]]) -> EmulatorPlan:
        """See ``Module.plan``."""
        return EmulatorPlan(self, checked(launches, self.kernels), self._order, self._seed)

    def switches(self) -> int:
        """How often the last launch changed threads; 2 a block where no thread waits."""
        with self.lock:
            return int(self.library.emu_switches())


class EmulatorDriver(Driver):
    """gpu(0) on the CPU; its device arrays are NumPy arrays.

    ``order``: forward, reverse or random; None reads HYBRID_EMU_ORDER at each run.
    """
    name = "emulator"

    def __init__(self, order: str | None = None, seed: int = 1, flags: Sequence[str] = ()):
        if order is not None and order not in ORDERS:
            raise EmulatorError(f"thread order {order!r}: write forward, reverse or random")
        self._order, self._seed, self._flags = order, seed, tuple(flags)

    @property
    def arch(self) -> str:
        """What the emulator pretends to be."""
        return "sm_90"

    def load(self, source: str, kernels: Sequence[str]) -> EmulatorModule:
        """See ``Driver.load``; compiled with the C++ compiler."""
        return EmulatorModule(source, kernels, self._order, self._seed, self._flags)

    def alloc(self, nbytes: int) -> np.ndarray:
        """A uint8 array on a 256-byte boundary, filled with 0xFF (NaN), which real device memory may hold too."""
        raw = np.full(nbytes + 256, 0xFF, np.uint8)
        start = -raw.ctypes.data % 256
        return raw[start:start + nbytes]

    @property
    def processors(self) -> int:
        """Those of an H100."""
        return 132

    def clear(self, array: np.ndarray, first: int, nbytes: int) -> None:
        """See ``Driver.clear``."""
        array[first:first + nbytes] = 0

    def pointer(self, array: Any) -> int:
        """Address of a NumPy array."""
        if watch.mode():
            watch.know(array.ctypes.data, array.nbytes)
        return int(array.ctypes.data)

    def synchronize(self) -> None:
        """Nothing: launches return when they are done."""
