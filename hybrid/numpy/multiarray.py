"""``np.ndarray`` and what makes one of other values."""
from __future__ import annotations

from functools import wraps
from typing import Any, Callable

import numpy as _np

from ..nd import functions
from ..buffers.array import NP_CLASS, NDArray, array as _array, wrap
from ..nd import made_here
from ..base.errors import AttributeValueError, DTypeError, user_location
from ..base.scope import SCOPE
from . import protocol
from .array_methods import ArrayMethods


class ndarray(ArrayMethods, NDArray):  # noqa: N801  NumPy's name
    """An array that follows NumPy's rules: zero-dim results, bool comparisons. NumPy's own functions take it and give
    one back."""
    __slots__ = ()
    np_semantics = True

    @property
    def dtype(self) -> Any:
        """Element type, as a NumPy dtype."""
        return self._data.dtype

    def __repr__(self) -> str:
        text, name = _np.array_repr(self.asnumpy()).replace(", dtype=float32", ""), self._data.dtype.name
        if name in ("float64", "int64") and "dtype=" not in text:             # what goes unsaid here is float32
            text = f"{text[:-1]}, dtype={name})"
        return text if self._ctx.device_type == "cpu" else f"{text[:-1]}, ctx={self._ctx})"

    __str__ = lambda self: _np.array_str(self.asnumpy()) if self.ndim else str(self.asnumpy())  # noqa: E731

    def as_np_ndarray(self) -> Any:
        """Itself."""
        return self

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("an array without axes cannot be iterated over")
        return (self[i] for i in range(len(self)))

    def __format__(self, spec: str) -> str:
        if spec and self.size != 1:
            raise TypeError(f"{user_location()}: format {spec!r} is of one number, this array has shape {self.shape}")
        return format(self.item(), spec) if spec else str(self)

    def copy(self, order: str = "C") -> Any:
        """A copy on the same device, in the order of rows as every array."""
        return super().copy()

    def __round__(self, n: int = 0) -> Any:
        return functions.resolve("np", "around")(self, decimals=n or 0)

    def __bool__(self) -> bool:
        return super().__bool__() if self.size else False            # MXNet's answer for an empty array

    def nonzero(self) -> Any:
        """Places of the numbers that are not 0: an int64 array for each axis."""
        return protocol.namespace().nonzero(self)

    def sort(self, axis: int = -1) -> None:
        """Sort in place, as NumPy does."""
        self[...] = functions.resolve("np", "sort")(self, axis=axis)

    def reshape_view(self, *shape: Any, **kwargs: Any) -> Any:
        """Another shape of the same memory."""
        return self.reshape(*shape, **kwargs)                # type: ignore[attr-defined]


NP_CLASS.append(ndarray)
NDArray.as_np_ndarray = lambda self: wrap(self._data, self._ctx, ndarray, self)      # type: ignore[attr-defined]


def is_value(x: Any) -> bool:
    """Whether x is an array of ours or a traced value."""
    return isinstance(x, NDArray) or hasattr(x, "entries")


def as_np(x: Any) -> Any:
    """An ``nd`` array as an ``np`` one; other values as they are."""
    return wrap(x._data, x._ctx, ndarray, x) if type(x) is NDArray else x


def as_value(x: Any) -> Any:
    """A real array from numbers, lists and NumPy's arrays; arrays of ours and traced values as they are."""
    found = x if is_value(x) else array(x)
    if isinstance(found, tuple):
        raise DTypeError(f"{user_location()}: this function takes real arrays, got one of {found.dtype}; compute with "
                         f"z.real and z.imag, or by NumPy with z.asnumpy()")
    return found


# what makes complex arrays: ``(values, dtype, device)``, and None for real ones (complex_parts.py)
COMPLEX: list[Callable[[Any, Any, Any], Any]] = []


def also_named(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Lets a function's first parameter be given under NumPy's name for it too."""
    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fn)
        def function(*args: Any, **kwargs: Any) -> Any:
            if not args and name in kwargs:
                args = (kwargs.pop(name),)
            return fn(*args, **kwargs)
        return function
    return decorate


def finish(result: Any, out: Any) -> Any:
    """The result, or ``out`` with the result written into it."""
    if out is None:
        return result
    if not isinstance(out, NDArray) and not is_value(out):
        raise AttributeValueError(f"out is the array to write into, got {type(out).__name__} {out!r}")
    return result.astype(out.dtype, copy=False).copyto(out)


def array(object: Any, dtype: Any = None, ctx: Any = None, device: Any = None, *, copy: Any = True, order: str = "K",
          ndmin: int = 0) -> Any:  # noqa: A002
    """An array from numbers, nested lists or another array; float32 by default (complex64 for complex numbers); arrays
    keep their dtype. With ``copy=None`` (or False) an array of that dtype is itself the result; with ndmin axes of
    length 1 come before.

    >>> array([1, 2]).dtype.name
    'float32'
    """
    if (found := COMPLEX[0](object, dtype, ctx or device)) is not None:
        return found.reshape((1,) * (ndmin - found.ndim) + tuple(found.shape)) if ndmin else found
    if order == "F":
        raise NotImplementedError("np.array: arrays lie in the order of rows, order='F' is not supported")
    if ndmin:
        found = array(object, dtype, ctx, device, copy=copy)
        return found if len(found.shape) >= ndmin else found.reshape((1,) * (ndmin - len(found.shape))
                                                                     + tuple(found.shape))
    if not copy and is_value(object) and (dtype is None or object.dtype == _np.dtype(dtype)) and (
            (ctx or device) in (None, getattr(object, "_ctx", None))):
        return as_np(object)
    if copy is False:
        raise ValueError(f"{user_location()}: np.array: copy=False, and a copy is needed to make an array of "
                         f"{type(object).__name__}; copy=None makes one where it is needed")
    # a gradient flows through the copy
    if hasattr(object, "entries") or isinstance(object, NDArray) and SCOPE.recording and object._ag is not None:
        copied = functions.resolve("np", "copy")(object)
        return copied if dtype is None else copied.astype(dtype)
    if dtype is None:
        dtype = object._data.dtype if isinstance(object,
                                                 NDArray) else object.dtype if isinstance(object,
                (_np.ndarray, _np.generic)) else "float32"
    if isinstance(object, (list, tuple)) and any(is_value(x) for x in object) and not isinstance(object[0], NDArray):
        raise TypeError("np.array of a list of traced values: use np.stack")
    try:
        return made_here(_array(object, ctx or device, dtype, ndarray))
    except AttributeValueError:
        if dtype != "float32" or not _np.iscomplexobj(object):
            raise
    return array(_np.asarray(object, "complex64"), None, ctx, device)                # of lists of numbers


__all__ = ["also_named", "array", "as_np", "as_value", "finish", "is_value", "ndarray"]
