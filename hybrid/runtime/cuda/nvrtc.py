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
from dataclasses import dataclass
from typing import Any

import cffi

from hybrid.base.errors import CompileError

from .. import cache
from . import sources

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
    """A compiled module: the cubin, the saved source, the compiler's log and each kernel's resources."""
    cubin: bytes
    source_path: str
    log: str
    resources: dict[str, Resources]


def _candidates() -> Iterator[str]:
    """Paths where pip packages, conda and the CUDA toolkit put the library, then bare names for the loader."""
    for folder in sys.path:
        for pattern in ("cu13/lib/libnvrtc.so.1?", "cuda_nvrtc/lib/libnvrtc.so.1?", "cu12/lib/libnvrtc.so.1?"):
            yield from sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", pattern)), reverse=True)
    toolkits = (os.environ.get("CUDA_PATH"), os.environ.get("CUDA_HOME"), sys.prefix, "/usr/local/cuda")
    for toolkit in filter(None, toolkits):
        for lib in ("lib64", "lib"):
            yield from sorted(glob.glob(os.path.join(glob.escape(toolkit), lib, "libnvrtc.so.1?")), reverse=True)
    yield from ("libnvrtc.so.13", "libnvrtc.so.12")


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
                raise CompileError("NVRTC, the CUDA run-time compiler, was not found: install it with "
                                   "`pip install nvidia-cuda-nvrtc` or set CUDA_PATH to the CUDA toolkit's folder")
        return _loaded[0]


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
    _check_arch(arch)
    flags = (f"--gpu-architecture={arch}", *OPTIONS, *options)
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
    return Compiled(cubin, str(path.with_suffix(".cu")), log, resources(log)) if cubin[:4] == b"\x7fELF" else None


def _build(key: str, source: str, flags: Sequence[str], headers: dict[str, str]) -> Compiled:
    path = cache.write(cache.folder() / f"{key}.cu", source.encode())
    cubin, log = _compile(source, str(path), flags, headers)
    cache.write(path.with_suffix(".log"), log.encode())
    cache.write(path.with_suffix(".cubin"), cubin)             # last: whoever finds it finds the others
    return Compiled(cubin, str(path), log, resources(log))


def _check_arch(arch: str) -> None:
    found = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if not found:
        raise CompileError(f"{arch!r} is no GPU architecture; write sm_80, sm_90a and the like")
    known = supported()
    if int(found[1]) not in known:
        raise CompileError(f"NVRTC {'.'.join(map(str, version()))} cannot compile for {arch}; it knows "
                           f"{', '.join(f'sm_{a}' for a in known)}. Install the NVRTC release that fits this GPU")


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
    """Each kernel's resources, from what ``--ptxas-options=-v`` prints."""
    parts = re.split(r"Compiling entry function '([^']+)'", log)
    return {name: Resources(_number(r"Used (\d+) registers", text), _number(r"(\d+) bytes spill stores", text),
                            _number(r"(\d+) bytes spill loads", text), _number(r"(\d+) bytes stack frame", text),
                            _number(r"(\d+)(?:\+\d+)? bytes smem", text))
            for name, text in zip(parts[1::2], parts[2::2])}


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0
