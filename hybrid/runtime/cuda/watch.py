"""Memory checker for emulated CUDA kernels: HYBRID_EMU_WATCH=races or traffic.

``races`` reports, with lines of the source, data races (two accesses that no barrier, fence or atomic orders), accesses
outside of the arrays that a launch was given, and misaligned vectors. ``traffic`` also counts, for each line, what
requests of warps cost: passes over the banks of shared memory, and sectors of global memory; ``traffic()`` gives the
counts. The checker itself is kernels/emulator/emu_watch.cpp; it needs g++ and addr2line (binutils).
"""
from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cffi

from hybrid.base.errors import CompileError, HybridError

from .. import cache, scratch
from ..shared_objects import intact, keep
from ..toolchain import compiler_version, cpu_features
from . import sources

# whole vectors stay whole: the passes of g++ that take aggregates apart are off
FLAGS = ("-DEMU_WATCH", "-g1", "-fsanitize=thread", "-fsanitize=alignment", "--param=tsan-distinguish-volatile=1",
         "-fno-tree-sra", "-fno-ipa-sra", "-fno-tree-vectorize")
ffi = cffi.FFI()
ffi.cdef("""
void emu_watch_arrays(void **at, unsigned long *bytes, int n, int all, int with_traffic);
const char *emu_watch_found(void);
void emu_watch_sleep(int off);
""")
_lock = threading.Lock()
one = threading.RLock()         # there is one watcher: launches of all threads go one after the other
_loaded: dict[str, Any] = {}
_known = threading.local()
_flows: dict[tuple[str, str, str, str, str], list[int]] = {}


class Flow(NamedTuple):
    """What the requests of one line of a kernel cost. ``factor``: times the least that these bytes could cost."""
    module: str                                            # path of the module that holds the kernel
    kernel: str
    line: str
    space: str                                             # shared or global
    access: str                                            # read or write
    requests: int
    cost: int
    least: int

    @property
    def factor(self) -> float:
        """1: no bank conflict; each byte of each sector is used."""
        return self.cost / max(1, self.least)


def mode() -> str:
    """HYBRID_EMU_WATCH: empty, races or traffic."""
    text = os.environ.get("HYBRID_EMU_WATCH", "")
    if text not in ("", "0", "races", "traffic"):
        raise HybridError(f"HYBRID_EMU_WATCH={text!r}: write races or traffic")
    return "" if text == "0" else text


def library(compiler: str) -> tuple[Any, Path]:
    """The watcher, loaded for all modules, and its file."""
    text = (sources.kernels_folder() / "emulator" / "emu_watch.cpp").read_text()
    key = cache.digest("watch", compiler_version(compiler), cpu_features(), text, *sources.emulator_headers().values())
    path = cache.folder() / f"{key}.so"
    with _lock:
        if key not in _loaded:
            if not intact(path):
                path = _build(compiler, path)
            _loaded[key] = ffi.dlopen(str(path), ffi.RTLD_NOW | ffi.RTLD_GLOBAL), path
    return _loaded[key]


def _build(compiler: str, target: Path) -> Path:
    folder = sources.kernels_folder() / "emulator"
    with scratch.work() as work:
        out = Path(work) / "watch.so"
        done = subprocess.run([compiler, "-std=c++17", "-O2", "-w", "-fPIC", "-shared", "-fvisibility=hidden",
                               f"-I{folder}", str(folder / "emu_watch.cpp"), "-o", str(out)], text=True,
                              capture_output=True, check=False, stdin=subprocess.DEVNULL,
                              env={**os.environ, "TMPDIR": work})
        if done.returncode:
            raise CompileError(f"the C++ compiler refused the emulator's watcher (HYBRID_EMU_WATCH):\n{done.stderr}")
        return keep(target, out.read_bytes())


def know(pointer: int, nbytes: int) -> None:
    """An array of the next launches of this thread."""
    if not hasattr(_known, "arrays"):
        _known.arrays = {}
    _known.arrays[pointer] = nbytes


def forget() -> None:
    """No array is known to the next launches of this thread."""
    _known.arrays = {}


def begin(watcher: Any, pointers: Sequence[int], first: bool) -> None:
    """Announce the arrays of a launch: those made known before the first one of its plan. Accesses outside of them are
    errors where every pointer lies in one."""
    if first:
        _known.launch, _known.arrays = getattr(_known, "arrays", {}), {}
    arrays = _known.launch
    whole = all(any(at <= p <= at + size for at, size in arrays.items()) for p in pointers)
    table = ffi.new("void *[]", [ffi.cast("void *", p) for p in arrays] or [ffi.NULL])
    watcher.emu_watch_arrays(table, ffi.new("unsigned long[]", list(arrays.values()) or [0]), len(arrays), whole,
                             mode() == "traffic")


def findings(watcher: Any, kernel: str, module: str) -> str:
    """What the launch did wrong, or an empty text; traffic is kept for ``traffic()``."""
    found = [line.split() for line in ffi.string(watcher.emu_watch_found()).decode().splitlines()]
    if not found:
        return ""
    wrong = []
    places = lines_of(module, {w for words in found if words[0] != "misaligned"
                                for w in words[1:4] if re.fullmatch(r"[0-9a-f]{3,}", w)})
    for words in found:
        if words[0] == "traffic":
            _, pc, space, access, _, requests, cost, least = words
            sums = _flows.setdefault((module, kernel, places[pc], space, access), [0, 0, 0])
            for i, n in enumerate((requests, cost, least)):
                sums[i] += int(n)
        elif words[0] == "misaligned":
            wrong.append(f"a vector at {words[1]} is {words[3]} bytes behind a boundary of its {words[2]} bytes")
        elif words[0] == "outside":
            wrong.append(f"a {words[1]} outside of the arrays of the launch, at {places[words[2]]} ({words[-1]} times)")
        elif words[0] == "unfenced":
            wrong.append(f"a read by the asynchronous proxy at {places[words[2]]} may miss what was written at "
                         f"{places[words[1]]}: no hy_proxy_fence() between ({words[-1]} times)")
        else:
            first, second = words[1].split(",")
            wrong.append(f"a race in {words[0]} memory: {first} at {places[words[2]]}, {second} at {places[words[3]]} "
                         f"({words[-1]} times)")
    return "; ".join(wrong[:6])


def lines_of(module: str, addresses: set[str]) -> dict[str, str]:
    """The line of the text, and the line of a header within it, for addresses in a module."""
    ordered = sorted(addresses)
    if not ordered:
        return {}
    given = "\n".join(f"0x{int(a, 16) - 1:x}" for a in ordered)
    try:
        done = subprocess.run(["addr2line", "-a", "-i", "-e", module], input=given, text=True, capture_output=True,
                              check=False)
    except FileNotFoundError:
        raise HybridError("HYBRID_EMU_WATCH takes addr2line, which is not there: install binutils") from None
    out: dict[str, str] = {}
    for address, part in zip(ordered, done.stdout.split("0x")[1:]):
        frames = [Path(f.split(" ")[0]).name for f in part.splitlines()[1:]]
        frames = [f for f in frames if not f.startswith("emu_")]
        text = next((f for f in frames if f.startswith("kernel.cu")), frames[0] if frames else "?")
        out[address] = text if not frames or frames[0] == text else f"{text} ({frames[0]})"
    return out


def traffic() -> Iterator[Flow]:
    """What was counted so far under HYBRID_EMU_WATCH=traffic, line by line."""
    for where, sums in _flows.items():
        yield Flow(*where, *sums)
