"""Methods of NumPy's arrays that are functions of ``np``: on ``np.ndarray``, and on traced values of NumPy's kind."""
from __future__ import annotations

from typing import Any, Callable

import numpy as _np

from ..base.errors import DeviceError, DTypeError, user_location
from ..base.scope import SCOPE
from ..buffers.array import NDArray
from ..graph.symbol import Symbol
from ..nd.traced_indexing import assign, is_np
from . import protocol
from .multiarray import ndarray

# methods that a trace may hold, by the name of their function
METHODS = {**{name: name for name in "ravel cumprod trace diagonal searchsorted choose ptp".split()},
           "conj": "copy", "conjugate": "copy", "take": "take", "repeat": "repeat", "clip": "clip", "nansum": "nansum"}


def _method(name: str, own: Any) -> Callable[..., Any]:
    function = METHODS[name]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_np(self):
            return getattr(protocol.namespace(), function)(self, *args, **kwargs)
        if own is None:
            raise AttributeError(f"{user_location()}: {name} is a method of np.ndarray; of an nd array it is "
                                 f"np.{function}(x.as_np_ndarray())")
        return own(self, *args, **kwargs)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``np.{function}`` of this array."
    return method


def _sort_traced(own: Any) -> Any:
    def sort(self: Any, axis: Any = -1, **kwargs: Any) -> Any:
        """In a program sort in place, as arrays do; of a graph the sorted value."""
        if not (SCOPE.traces and is_np(self)):
            return own(self, axis=axis, **kwargs)
        assign(self, protocol.namespace().sort(self, axis))
        return None
    return sort


def _compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """The slices along an axis (or elements of the flattened array) where a condition holds."""
    return protocol.namespace().compress(condition, self, axis=axis, **({} if out is None else {"out": out}))


def _divmod(self: Any, other: Any) -> Any:
    return self // other, self % other


def _rdivmod(self: Any, other: Any) -> Any:
    return other // self, other % self


def _imag(self: Any) -> Any:
    """Zeros: arrays are real."""
    return protocol.namespace().zeros_like(self)


for _cls in (ndarray, Symbol):
    for _name in METHODS:
        setattr(_cls, _name, _method(_name, getattr(_cls, _name, None) if _cls is Symbol else None))
    setattr(_cls, "__divmod__", _divmod)
    setattr(_cls, "__rdivmod__", _rdivmod)
    setattr(_cls, "real", property(lambda self: self, doc="Itself: arrays are real."))
    setattr(_cls, "imag", property(_imag))


setattr(Symbol, "sort", _sort_traced(getattr(Symbol, "sort")))


# ---- of arrays that have numbers
def _contains(self: ndarray, value: Any) -> bool:
    return bool((self == value).any()) if self.size else False


def _fill(self: ndarray, value: Any) -> None:
    """Write a number into every place."""
    self[...] = value


def _put(self: ndarray, indices: Any, values: Any, mode: str = "raise") -> None:
    """Write values to the places ``indices`` of the flattened array."""
    host = self.asnumpy()
    _np.put(host, *(v.asnumpy() if isinstance(v, NDArray) else v for v in (indices, values)), mode=mode)
    self[...] = host


def _partition(self: ndarray, kth: Any, axis: int = -1) -> None:
    """Move the k-th elements to where they stand in order, smaller ones before and larger ones behind them."""
    self[...] = _np.partition(self.asnumpy(), kth, axis)


def _argpartition(self: ndarray, kth: Any, axis: int = -1) -> Any:
    """Indices that partition along an axis."""
    return protocol.namespace().argpartition(self, kth, axis)


def _view(self: ndarray, dtype: Any = None) -> Any:
    """The same memory; another dtype is x.astype(dtype), a copy."""
    if dtype is not None and _np.dtype(dtype) != self.dtype:
        raise DTypeError(f"{user_location()}: x.view gives memory no other dtype, got {dtype!r}; x.astype(dtype) "
                         f"makes a copy")
    if not self.ndim:
        return self[()]
    return self[:]


def _nbytes(self: ndarray) -> int:
    """Bytes of the elements."""
    return self.size * self.itemsize


def _strides(self: ndarray) -> tuple[int, ...]:
    """Bytes from one element to the next, along each axis."""
    return tuple(int(s) for s in self._data.strides)


def _flat_elements(self: ndarray) -> Any:
    """The elements one after the other; a copy."""
    return self.ravel()                                          # type: ignore[attr-defined]


def _memory(self: ndarray) -> memoryview:
    """The elements' memory, as memoryview gives it of NumPy's arrays; of arrays on the CPU."""
    if self._ctx.device_type != "cpu":
        raise DeviceError(f"{user_location()}: memory on {self._ctx} has no memoryview; x.asnumpy() is a copy on the "
                         f"CPU")
    return memoryview(_np.asarray(self._exposed()))


for _name, _function in {"__contains__": _contains, "fill": _fill, "put": _put, "partition": _partition,
                         "argpartition": _argpartition, "view": _view, "compress": _compress, "nbytes": property(_nbytes),
                         "strides": property(_strides), "flat": property(_flat_elements), "data": property(_memory)}.items():
    setattr(ndarray, _name, _function)


__all__ = ["METHODS"]
