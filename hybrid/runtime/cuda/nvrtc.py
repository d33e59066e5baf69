"""NVRTC, NVIDIA's run-time compiler, called through cffi: CUDA C text in, cubin out. Needs no driver and no GPU.

>>> nvrtc.compile(source, "sm_90a").resources["my_kernel"].registers      # doctest: +SKIP
"""
from __future__ import annotations

import glob
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import cffi

from ...base.records import dataclass
from hybrid.base.errors import CompileError

from .. import cache
from . import driver_api, sources

OPTIONS = ("--std=c++17", "--ftz=false", "--ptxas-options=-v")

ffi = cffi.FFI()
ffi.cdef("""
typedef struct _nvrtcProgram *nvrtcProgram;
typedef int nvrtcResult;
const char *nvrtcGetErrorString(nvrtcResult);
nvrtcResult nvrtcVersion(int *, int *);
nvrtcResult nvrtcGetNumSupportedArchs(int *);
nvrtcResult nvrtcGetSupportedArchs(int *);
nvrtcResult nvrtcCreateProgram(nvrtcProgram *, const char *source, const char *name, int n,
                               const char *const *headers, const char *const *names);
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *);
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char *const *);
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t *);
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char *);
nvrtcResult nvrtcGetPTXSize(nvrtcProgram, size_t *);
nvrtcResult nvrtcGetPTX(nvrtcProgram, char *);
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t *);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char *);
""")
_lock = threading.Lock()
_loaded: list[Any] = []
_building: dict[str, threading.Lock] = {}
_memory: dict[str, Compiled] = {}


@dataclass(frozen=True)
class Resources:
    """What ptxas says a kernel takes of the GPU: registers a thread, bytes of the rest."""
    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    shared: int = 0


@dataclass(frozen=True)
class Compiled:
    """A compiled module: the cubin (PTX for a GPU newer than the compiler), the saved source, the compiler's log and
    each kernel's resources (none of PTX, which the driver compiles)."""
    cubin: bytes
    source_path: str
    log: str
    resources: dict[str, Resources]


def _places() -> Iterator[str]:
    """Paths where pip packages, conda and the CUDA toolkit put the library, then bare names for the loader."""
    for folder in sys.path:
        for pattern in ("cu13/lib/libnvrtc.so.1?", "cuda_nvrtc/lib/libnvrtc.so.1?", "cu12/lib/libnvrtc.so.1?"):
            yield from sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", pattern)), reverse=True)
    toolkits = (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), sys.prefix, "/usr/local/cuda")
    for toolkit in filter(None, toolkits):
        for lib in ("lib64", "lib"):
            yield from sorted(glob.glob(os.path.join(glob.escape(toolkit), lib, "libnvrtc.so.1?")), reverse=True)
    yield from ("libnvrtc.so.13", "libnvrtc.so.12")


def _candidates() -> list[str]:
    """The places of NVRTCs whose cubins the driver loads, the newest release first. A driver loads no cubin of a later
    major release than its own; where there is no driver, any will do.
    """
    newest = (driver_api.version() or (99, 0))[0]
    majors = {path: int(path.rsplit("libnvrtc.so.", 1)[1].split(".")[0]) for path in _places()}
    return sorted((path for path, major in majors.items() if major <= newest), key=lambda path: -majors[path])


def _open(path: str) -> Any:
    # libnvrtc opens libnvrtc-builtins.so by its bare name, and wheels set no search path: map it first
    kept = [ffi.dlopen(p) for p in sorted(glob.glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so.*")))
            if os.path.dirname(path)]
    library = ffi.dlopen(path)
    _loaded.append(kept)
    return library


def library() -> Any:
    """The NVRTC library, loaded once. CompileError with what to install where there is none."""
    with _lock:
        if not _loaded:
            for path in _candidates():
                try:
                    _loaded.insert(0, _open(path))
                    break
                except OSError:
                    continue
            else:
                raise CompileError(_missing())
        return _loaded[0]


def _missing() -> str:
    """What to say where no NVRTC can be loaded."""
    driver = driver_api.version()
    if driver is None:
        return ("NVRTC, the CUDA run-time compiler, was not found: install it with `pip install nvidia-cuda-nvrtc` or "
                "set CUDA_PATH to the CUDA toolkit's folder")
    package = "nvidia-cuda-nvrtc" if driver[0] > 12 else f"nvidia-cuda-nvrtc-cu{driver[0]}"
    newer = sorted({path.rsplit(".", 1)[1] for path in _places() if os.path.exists(path)})
    found = f" (there are NVRTC {', '.join(newer)}, whose programs it does not load)" if newer else ""
    return (f"no NVRTC, the CUDA run-time compiler, fits the GPU's driver of CUDA {driver[0]}.{driver[1]}{found}: "
            f"install one with `pip install '{package}=={driver[0]}.*'`, set CUDA_PATH to a CUDA {driver[0]} toolkit's "
            f"folder, or install a newer driver")


def available() -> bool:
    """Whether NVRTC can be loaded."""
    try:
        return bool(library())
    except CompileError:
        return False


def version() -> tuple[int, int]:
    """(major, minor) of the compiler."""
    major, minor = ffi.new("int *"), ffi.new("int *")
    library().nvrtcVersion(major, minor)
    return major[0], minor[0]


def supported() -> list[int]:
    """Compute capabilities that it can compile for, as 80, 90, ..."""
    count = ffi.new("int *")
    library().nvrtcGetNumSupportedArchs(count)
    archs = ffi.new("int[]", count[0])
    library().nvrtcGetSupportedArchs(archs)
    return list(archs)


def compile(source: str, arch: str, options: Sequence[str] = ()) -> Compiled:
    """Compile CUDA C for an architecture ("sm_80", "sm_90a"), from the disk cache when the same was compiled before.

    The text may include any header of ``kernels/include`` and ``kernels/cuda``. Raises CompileError with the log and
    the path of the saved source.

    >>> compile('extern "C" __global__ void k(float *x) { x[threadIdx.x] += 1; }', "sm_90").cubin[:4]
    b'\\x7fELF'
    """
    flags = (f"--gpu-architecture={_target(arch)}", *OPTIONS, *options)
    headers = sources.device_headers()
    key = cache.digest("nvrtc", *map(str, version()), *flags, source, *(t for pair in headers.items() for t in pair))
    with _lock_of(key):
        if key not in _memory:
            _memory[key] = _from_disk(key) or _build(key, source, flags, headers)
        return _memory[key]


def _lock_of(key: str) -> threading.Lock:
    with _lock:
        return _building.setdefault(key, threading.Lock())


def _from_disk(key: str) -> Compiled | None:
    path = cache.folder() / f"{key}.cubin"
    try:
        cubin, log = cache.read(path), cache.read_text(path.with_suffix(".log"))
    except (OSError, ValueError):
        return None
    cache.used(path)
    if not cubin.startswith((b"\x7fELF", b"//")):
        return None
    return Compiled(cubin, str(path.with_suffix(".cu")), log, resources(log))


def _build(key: str, source: str, flags: Sequence[str], headers: dict[str, str]) -> Compiled:
    path = cache.write(cache.folder() / f"{key}.cu", source.encode())
    cubin, log = _compile(source, str(path), flags, headers)
    cache.write(path.with_suffix(".log"), log.encode())
    cache.write(path.with_suffix(".cubin"), cubin)             # last: whoever finds it finds the others
    return Compiled(cubin, str(path), log, resources(log))


def _target(arch: str) -> str:
    """What to compile for, so that a GPU of an architecture runs it: that itself; where the compiler does not know it,
    an earlier one of its family, whose cubins it runs; else PTX, which the driver compiles for any later GPU.
    """
    found = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if not found:
        raise CompileError(f"{arch!r} is no GPU architecture; write sm_80, sm_90a and the like")
    number, known = int(found[1]), supported()
    if number in known:
        return arch
    older = [a for a in known if a < number]
    release = ".".join(map(str, version()))
    if not older:
        raise CompileError(f"NVRTC {release} cannot compile for {arch}; it knows "
                           f"{', '.join(f'sm_{a}' for a in known)}. Install an earlier NVRTC release that knows this "
                           f"GPU (CUDA 12's knows sm_50 to sm_120: pip install nvidia-cuda-nvrtc-cu12)")
    if older[-1] // 10 == number // 10:
        return f"sm_{older[-1]}"
    driver = driver_api.version()
    if driver is not None and driver < version():
        raise CompileError(f"NVRTC {release} does not know {arch}, and the GPU's driver of CUDA "
                           f"{driver[0]}.{driver[1]} "
                           f"does not read its PTX. Install an NVRTC release that knows this GPU, or a driver of CUDA "
                           f"{release} or later")
    return f"compute_{older[-1]}"


def _compile(source: str, path: str, flags: Sequence[str], headers: dict[str, str]) -> tuple[bytes, str]:
    lib, program = library(), ffi.new("nvrtcProgram *")
    texts = [ffi.new("char[]", t.encode()) for t in headers.values()]
    names = [ffi.new("char[]", n.encode()) for n in headers]
    _check(lib.nvrtcCreateProgram(program, ffi.new("char[]", source.encode()), ffi.new("char[]", path.encode()),
                                  len(texts),
                                  ffi.new("char *[]", texts), ffi.new("char *[]", names)), path, "")
    try:
        values = [ffi.new("char[]", f.encode()) for f in flags]
        code = lib.nvrtcCompileProgram(program[0], len(values), ffi.new("char *[]", values))
        log = _fetch(lib.nvrtcGetProgramLogSize, lib.nvrtcGetProgramLog,
                     program[0]).rstrip(b"\0").decode(errors="replace")
        _check(code, path, log)
        if flags[0].startswith("--gpu-architecture=compute_"):
            return _fetch(lib.nvrtcGetPTXSize, lib.nvrtcGetPTX, program[0]), log
        return _fetch(lib.nvrtcGetCUBINSize, lib.nvrtcGetCUBIN, program[0]), log
    finally:
        lib.nvrtcDestroyProgram(program)


def _fetch(size_of: Any, get: Any, program: Any) -> bytes:
    size = ffi.new("size_t *")
    size_of(program, size)
    buffer = ffi.new("char[]", size[0])
    get(program, buffer)
    return bytes(ffi.buffer(buffer))


def _check(code: int, path: str, log: str) -> None:
    if code:
        reason = ffi.string(library().nvrtcGetErrorString(code)).decode()
        raise CompileError(f"NVRTC refused a generated CUDA program ({reason}). Source: {path}\n{log}")


def resources(log: str) -> dict[str, Resources]:
    """Returns each kernel's resources from the log of ``--ptxas-options=-v``. ptxas lists called functions after the
    kernel that calls them, so the largest figure counts."""
    parts = re.split(r"Compiling entry function '([^']+)'", log)
    return {name: Resources(_number(r"Used (\d+) registers", text), _number(r"(\d+) bytes spill stores", text),
                            _number(r"(\d+) bytes spill loads", text), _number(r"(\d+) bytes stack frame", text),
                            _number(r"(\d+)(?:\+\d+)? bytes smem", text))
            for name, text in zip(parts[1::2], parts[2::2])}


def _number(pattern: str, text: str) -> int:
    return max(map(int, re.findall(pattern, text)), default=0)
