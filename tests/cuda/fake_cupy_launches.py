"""What the stand-in for CuPy launches: pointers to device memory, and kernels."""
from __future__ import annotations

import ctypes
import weakref
from types import SimpleNamespace
from typing import Any


ROOTS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()      # arrays by the id of NumPy's


def root_of(view: Any, root: Any) -> Any:
    """The array that one is a view of (root: NumPy's); None where it is no view."""
    if view._a is root:
        ROOTS.setdefault(id(root), view)
        return None
    found = ROOTS.get(id(root))
    return type(view)(root) if found is None else found


class CUDADriverError(RuntimeError):
    """An error of the driver."""


class Place(SimpleNamespace):
    """A pointer to device memory."""

    def __add__(self, offset: int) -> Place:
        return Place(**{**vars(self), "ptr": self.ptr + offset})

    def memset_async(self, value: int, size: int, stream: Any = None) -> None:
        """Set bytes."""
        ctypes.memset(self.ptr, value, size)


def launch(library: Any, ffi: Any, function: int, *sizes: int) -> None:
    """launchKernel, with a last argument more, or launchCooperativeKernel."""
    *numbers, stream, params = sizes[:9]
    extra = (ffi.NULL,) * (len(sizes) - 9)
    code = (library.cuLaunchKernel if extra else library.cuLaunchCooperativeKernel)(
        ffi.cast("void *", function), *numbers, ffi.cast("void *", stream), ffi.cast("void **", params), *extra)
    if code:
        raise CUDADriverError(f"error {code}")


__name__ = "cupy.stand_in_launches"             # frames of this file count as CuPy's own, as those of fake_cupy.py do
