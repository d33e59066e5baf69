"""NVIDIA's driver library through cffi: what CuPy's own interface lacks or takes long for."""
from __future__ import annotations

import functools
from typing import Any

import cffi

from hybrid.base.errors import DeviceError, OutOfMemoryError
from hybrid.base.gpu_scope import lacks_memory

NAME = "libcuda.so.1"
DECLARATIONS = """
int cuDriverGetVersion(int *);
int cuGetErrorName(int, const char **);
int cuStreamSynchronize(void *);
int cuCtxGetCurrent(void **);
int cuStreamIsCapturing(void *, int *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuLaunchCooperativeKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **);
int cuGraphCreate(void **, unsigned);
int cuGraphAddKernelNode_v2(void **, void *, void *const *, size_t, const void *);
int cuGraphKernelNodeSetAttribute(void *, int, const void *);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long);
int cuGraphExecKernelNodeSetParams_v2(void *, void *, const void *);
int cuGraphLaunch(void *, void *);
int cuTensorMapEncodeTiled(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *, int, int, int, int);
int cuGraphDestroy(void *);
int cuGraphExecDestroy(void *);
"""  # noqa: E501
ffi = cffi.FFI()
ffi.cdef(DECLARATIONS)


@functools.cache
def library() -> Any:
    """The driver's library; None where there is no driver."""
    try:
        return ffi.dlopen(NAME)
    except OSError:
        return None


@functools.cache
def version() -> tuple[int, int] | None:
    """(major, minor) of the newest CUDA that the driver knows; None where there is no driver."""
    found = ffi.new("int *")
    if library() is None or library().cuDriverGetVersion(found) or not found[0]:
        return None
    return found[0] // 1000, found[0] % 1000 // 10


def addresses(*names: str) -> list[Any] | None:
    """Where functions of the driver are; None where there is no driver or it lacks one of them."""
    try:
        return [ffi.addressof(library(), name) for name in names]
    except (AttributeError, TypeError):
        return None


def context() -> int:
    """The calling thread's current context, as an address."""
    found = ffi.new("void **")
    check(library().cuCtxGetCurrent(found), "asking for the current CUDA context")
    return int(ffi.cast("uintptr_t", found[0]))


def error_name(code: int) -> str:
    """The driver's name of an error."""
    text = ffi.new("const char **")
    if library() is not None and not library().cuGetErrorName(code, text) and text[0] != ffi.NULL:
        return ffi.string(text[0]).decode()
    return f"CUDA error {code}"


def check(code: int, what: str) -> None:
    """DeviceError with the driver's name of an error, if there was one; OutOfMemoryError for want of memory."""
    if code:
        name = error_name(code)
        kind = OutOfMemoryError if lacks_memory(name) else DeviceError
        raise kind(f"{what}: {name}")
