"""Methods of NumPy's arrays: of ``np.ndarray``, and those that a graph can hold of traced values too."""
from __future__ import annotations

from typing import Any, Callable

import numpy as _np

from ..base.errors import DeviceError, DTypeError, user_location
from ..base.scope import SCOPE
from ..buffers.array import NDArray
from ..graph.symbol import Symbol
from ..nd.traced_indexing import assign, is_np
from . import protocol


def _np_function(name: str) -> Any:
    return getattr(protocol.namespace(), name)


class TracedMethods:
    """Methods that a graph can hold: each is the function of ``np`` of that name."""
    __slots__ = ()

    def ravel(self, order: str = "C") -> Any:
        """All elements on one axis, in the order of rows ('C') or of columns ('F')."""
        return _np_function("ravel")(self, order)

    def cumprod(self, axis: Any = None, dtype: Any = None) -> Any:
        """Products of the elements up to each, along an axis or of the flattened array."""
        return _np_function("cumprod")(self, axis, dtype)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """The sum of a diagonal."""
        return _np_function("trace")(self, offset, axis1, axis2)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """A diagonal of the matrices in two axes."""
        return _np_function("diagonal")(self, offset, axis1, axis2)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        """Where values would be put into this sorted vector."""
        return _np_function("searchsorted")(self, v, side, sorter)

    def choose(self, choices: Any, out: Any = None, mode: str = "raise") -> Any:
        """For each element the number from the choice that it counts."""
        return _np_function("choose")(self, choices, mode=mode, **({} if out is None else {"out": out}))

    def compress(self, condition: Any, axis: Any = None) -> Any:
        """The slices along an axis (or elements of the flattened array) where a condition holds."""
        return _np_function("compress")(condition, self, axis=axis)

    def take(self, indices: Any, axis: Any = None, mode: str = "raise", out: Any = None) -> Any:
        """Elements at indices along an axis, or of the flattened array."""
        return _np_function("take")(self, indices, axis, mode, out)

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Each element so often, along an axis or of the flattened array."""
        return _np_function("repeat")(self, repeats, axis)

    def clip(self, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
             max: Any = None) -> Any:  # noqa: A002  NumPy's names
        """Values limited to a range: ``x.clip(a_min, a_max)``, ``x.clip(min=0)``."""
        return _np_function("clip")(self, a_min, a_max, out, min=min, max=max)

    def conj(self) -> Any:
        """A copy: arrays are real."""
        return _np_function("copy")(self)

    conjugate = conj


def _beside_own(name: str, own: Any) -> Callable[..., Any]:
    """A method of Symbols: NumPy's of those of NumPy's kind, its own of others."""
    method = getattr(TracedMethods, name)

    def function(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_np(self):
            return method(self, *args, **kwargs)
        if own is None:
            raise AttributeError(f"{user_location()}: {name} is a method of np.ndarray; of an nd array it is "
                                 f"np.{name}(x.as_np_ndarray())")
        return own(self, *args, **kwargs)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    return function


def _sort_traced(own: Any) -> Any:
    def sort(self: Any, axis: Any = -1, **kwargs: Any) -> Any:
        """In a program sort in place, as arrays do; of a graph the sorted value."""
        if not (SCOPE.traces and is_np(self)):
            return own(self, axis=axis, **kwargs)
        assign(self, _np_function("sort")(self, axis))
        return None
    return sort


def _divmod(self: Any, other: Any) -> Any:
    return _np_function("divmod")(self, other) if is_np(self) else (self // other, self % other)


def _rdivmod(self: Any, other: Any) -> Any:
    return _np_function("divmod")(other, self) if is_np(self) else (other // self, other % self)


for _name in (n for n in vars(TracedMethods) if not n.startswith("_")):
    setattr(Symbol, _name, _beside_own(_name, getattr(Symbol, _name, None)))
Symbol.sort = _sort_traced(Symbol.sort)                              # type: ignore[attr-defined]
for _name, _value in (("__divmod__", _divmod), ("__rdivmod__", _rdivmod),
                      ("real", property(lambda self: self, doc="Itself: arrays are real.")),
                      ("imag", property(lambda self: _np_function("zeros_like")(self), doc="Zeros: arrays are real."))):
    setattr(Symbol, _name, _value)


class ArrayMethods(TracedMethods):
    """Methods of arrays that have numbers."""
    __slots__ = ()
    __divmod__, __rdivmod__ = _divmod, _rdivmod

    @property
    def real(self) -> Any:
        """Itself: arrays are real."""
        return self

    @property
    def imag(self) -> Any:
        """Zeros: arrays are real."""
        return _np_function("zeros_like")(self)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self._own().nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, along each axis."""
        return tuple(map(int, self._own().strides))

    @property
    def flat(self) -> Any:
        """The elements one after the other; a copy."""
        return self.ravel().copy()

    @property
    def data(self) -> memoryview:
        """The elements' memory, as memoryview gives it of NumPy's arrays; of arrays on the CPU."""
        device = self._ctx                                           # type: ignore[attr-defined]
        if device.device_type != "cpu":
            raise DeviceError(f"{user_location()}: memory on {device} has no memoryview; x.asnumpy() is a copy on the "
                              f"CPU")
        return memoryview(_np.asarray(self._exposed()))              # type: ignore[attr-defined]

    def __buffer__(self, flags: int) -> memoryview:
        """``memoryview(x)``, from Python 3.12 on: ``x.data``."""
        return self.data

    def _own(self) -> Any:
        return self._data                                            # type: ignore[attr-defined]

    def __contains__(self, value: Any) -> bool:
        return bool(self._own().size) and bool((self == value).any())        # type: ignore[attr-defined]

    def fill(self, value: Any) -> None:
        """Write a number into every place."""
        self[...] = value                                            # type: ignore[index]

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write values to the places ``indices`` of the flattened array."""
        host = self.asnumpy()                                        # type: ignore[attr-defined]
        _np.put(host, *(v.asnumpy() if isinstance(v, NDArray) else v for v in (indices, values)), mode=mode)
        self[...] = host                                             # type: ignore[index]

    def partition(self, kth: Any, axis: int = -1) -> None:
        """Move the k-th elements to where they stand in order, smaller ones before and larger ones behind them."""
        self[...] = _np.partition(self.asnumpy(), kth, axis)         # type: ignore[index, attr-defined]

    def argpartition(self, kth: Any, axis: int = -1) -> Any:
        """Indices that partition along an axis."""
        return _np_function("argpartition")(self, kth, axis)

    def view(self, dtype: Any = None) -> Any:
        """The same memory; another dtype is x.astype(dtype), a copy."""
        if dtype is not None and _np.dtype(dtype) != self._own().dtype:
            raise DTypeError(f"{user_location()}: x.view gives memory no other dtype, got {dtype!r}; x.astype(dtype) "
                             f"makes a copy")
        return self[:] if self._own().ndim else self[()]             # type: ignore[index]


__all__ = ["ArrayMethods", "TracedMethods"]
