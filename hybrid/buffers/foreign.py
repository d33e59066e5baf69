"""Arrays of other libraries (PyTorch, JAX, …): their memory as NumPy arrays, and ours for them, through DLPack where
NumPy's own protocols do not reach."""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..base import dtype as dt

_CODE = 20                             # of an element type in a DLTensor: after its address, device and number of axes
_UINT, _BFLOAT = 1, 4                  # codes of element types


class Exporter:
    """A DLPack capsule as the object that ``from_dlpack`` of NumPy and CuPy takes."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        # DLTensor: data, device type, device number
        head = (ctypes.c_int32 * 4).from_address(pointer(self._capsule))
        return head[2], head[3]


class Writable:
    """The memory of a NumPy array, which is kept alive, as one that may be written."""

    def __init__(self, raw: np.ndarray):
        self._raw = raw
        self.__array_interface__ = {**raw.__array_interface__, "data": (raw.__array_interface__["data"][0], False)}


def pointer(capsule: Any) -> int:
    """The address of a DLPack capsule's tensor. ValueError where it holds none, or was used already."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, b"dltensor")                             # type: ignore[no-any-return]


def _code(capsule: Any) -> Any:
    """The code of a capsule's element type, which can be changed."""
    return ctypes.c_uint8.from_address(pointer(capsule) + _CODE)


def from_exporter(x: Any) -> np.ndarray:
    """The memory on the CPU that an object exports by DLPack, bfloat16 included, which NumPy does not know."""
    try:
        return np.from_dlpack(x)
    except (RuntimeError, BufferError, TypeError):
        found = _of_bfloat16(x)
        if found is None:
            raise
        return found


def _of_bfloat16(x: Any) -> np.ndarray | None:
    """The memory that an object exports by DLPack, if its elements are of bfloat16."""
    if dt.bfloat16 is None:
        return None
    capsule = x.__dlpack__()
    if _code(capsule).value != _BFLOAT:
        return None
    _code(capsule).value = _UINT
    return np.asarray(Writable(np.from_dlpack(Exporter(capsule)))).view(dt.bfloat16)


def capsule_of(raw: Any, given: dict[str, Any]) -> Any:
    """A DLPack capsule of an array's memory. given: what its consumer asks for."""
    # without bfloat16 its dtype is None, which NumPy takes for float64
    if dt.bfloat16 is None or raw.dtype != dt.bfloat16 or not isinstance(raw, np.ndarray):
        return raw.__dlpack__(**given)
    capsule = raw.view(np.uint16).__dlpack__(**{k: v for k, v in given.items() if k != "max_version"})
    _code(capsule).value = _BFLOAT
    return capsule


def as_numpy(x: Any) -> np.ndarray:
    """Another library's array as a NumPy array, which shares its memory where both can. What the library raises where
    it cannot be one."""
    if not hasattr(type(x), "__array__") and not hasattr(type(x), "__array_interface__"):
        return from_exporter(x)
    try:
        return np.asarray(x)
    except TypeError:                                        # of a dtype that NumPy does not know
        found = _of_bfloat16(x) if hasattr(type(x), "__dlpack__") else None
        if found is None:
            raise
        return found
