"""The arrays of the array API standard: ``np.ndarray`` with the standard's operators, in every dtype of the standard.

Dtypes that neither operators nor the compiler know (complex64, complex128, uint16) are there eagerly.
"""
from __future__ import annotations

import operator
from typing import Any, Callable

import numpy as np

from ...base.device import Context, on
from ...base.errors import DeviceError, DTypeError, HybridError, user_location
from ...base.scope import SCOPE
from ...buffers.array import NDArray, wrap
from ...buffers.moving import put
from ...graph.symbol import Symbol
from .. import protocol
from ..complex_parts import ComplexParts
from ..composed import needs_operators
from ..multiarray import ndarray

if tuple(int(part) for part in np.__version__.split(".")[:2]) < (2, 1):
    raise HybridError(f"the array API namespace takes its rules from NumPy 2.1 or newer, this is NumPy "
                      f"{np.__version__}; hybrid.np works with it")

OPERATORS = ("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift").split()
COMPARISONS = ("eq ne lt le gt ge").split()


def as_device(device: Any) -> Context:
    """A device from a device, or its name: ``cpu(0)``, ``"cpu"``, ``"gpu"``."""
    if isinstance(device, Context):
        return device
    if isinstance(device, str):
        return Context(device)
    raise DeviceError(f"{user_location()}: a device is cpu(), gpu(0) or such a name, got {device!r}")


def raw_of(x: Any) -> Any:
    """The array library's own array. What a trace reads of it is noted."""
    return x.asnumpy() if SCOPE.traces or isinstance(x, ComplexParts) else x._data


class Array(ndarray):
    """An array by the rules of the array API standard: those of NumPy 2 for types and results."""
    __slots__ = ()

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return protocol.array_namespace(api_version)

    # ---- what it is
    @property
    def T(self) -> Any:  # noqa: N802  the standard's name
        """The transposed matrix, of two axes."""
        if self.ndim != 2:
            raise ValueError(f"{user_location()}: x.T is of matrices, this array has {self.ndim} axes; use x.mT for "
                             f"the last two")
        return self.mT

    @property
    def mT(self) -> Any:  # noqa: N802  the standard's name
        """With the last two axes exchanged."""
        if self.ndim < 2 or needs_operators(self):
            return super().mT                                    # type: ignore[misc]
        return self.__array_namespace__().matrix_transpose(self)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """This array if it is on the device, else a copy there."""
        if stream is not None:
            raise ValueError(f"{user_location()}: to_device knows no streams, got {stream!r}")
        return self.as_in_context(as_device(device))

    def astype(self, dtype: Any, copy: bool = True, **rest: Any) -> Any:
        """A copy in another dtype (itself when copy is False and nothing changes)."""
        if needs_operators(self) or SCOPE.traces:
            return ndarray.astype(self, dtype, copy, **rest)
        return self.__array_namespace__().astype(self, dtype, copy=copy)

    # ---- NumPy's protocols
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if "out" in kwargs or method == "at" or needs_operators(inputs, *kwargs.values()):
            return protocol.array_ufunc(ufunc, method, inputs, kwargs)
        return numpys(getattr(ufunc, method), inputs, kwargs, self._ctx)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if "out" in kwargs or needs_operators(args, *kwargs.values()):
            return protocol.array_function(func, args, kwargs)
        return numpys(func, args, kwargs, self._ctx)

    # ---- Python's numbers
    def __bool__(self) -> bool:
        return bool(self._only("bool"))

    def __complex__(self) -> complex:
        return complex(self._only("complex"))

    def _only(self, kind: str) -> Any:
        if self.size != 1:
            raise ValueError(f"{user_location()}: {kind}() is of arrays of one element, this one has shape "
                             f"{self.shape}")
        return self.item()

    # ---- brackets
    def __getitem__(self, key: Any) -> Any:
        if needs_operators(self, key) or SCOPE.traces:
            return ndarray.__getitem__(self, key)                # type: ignore[attr-defined]
        return computed(self._ctx, operator.getitem, self._data, _key(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        if needs_operators(self, key, value) or SCOPE.traces:
            ndarray.__setitem__(self, key, value)
            return
        put(self._data, _key(key), value._data if isinstance(value, NDArray) else value, self._ctx)
        self._bump()


def mapped(value: Any, fn: Callable[[Any], Any]) -> Any:
    """Nested lists and tuples with each array and traced value replaced."""
    if isinstance(value, ComplexParts):
        return fn(value)
    if isinstance(value, (list, tuple)):
        made = [mapped(v, fn) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return fn(value) if isinstance(value, NDArray) or type(value) is Symbol else value


def given_back(found: Any, ctx: Context) -> Any:
    """Arrays of NumPy's or CuPy's as ours, in the order of memory that ours have."""
    if isinstance(found, (list, tuple)):
        made = [given_back(v, ctx) for v in found]
        return type(found)(*made) if hasattr(found, "_fields") else type(found)(made)
    if isinstance(found, np.generic):
        found = np.asarray(found)
    if not hasattr(found, "flags") or getattr(found, "dtype", np.dtype("O")).kind not in "biufc":
        return found
    return wrap(found if found.flags.c_contiguous else found.copy("C"), ctx, Array)


def computed(ctx: Context, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function of NumPy (or CuPy) makes of raw arrays, computed on their device."""
    with on(ctx):
        return given_back(fn(*args, **kwargs), ctx)


def numpys(fn: Callable[..., Any], args: Any, kwargs: Any, ctx: Context) -> Any:
    """What NumPy (or CuPy) makes of the arrays themselves."""
    return computed(ctx, fn, *mapped(args, raw_of), **{k: mapped(v, raw_of) for k, v in kwargs.items()})


def _key(key: Any) -> Any:
    """An index with the array library's own arrays."""
    if isinstance(key, tuple):
        return tuple(_key(k) for k in key)
    return key._data if isinstance(key, NDArray) else key


def _operand(x: Any) -> Any:
    """What NumPy computes with: numbers and arrays; NotImplemented for anything else."""
    if isinstance(x, NDArray):
        return x._data
    return x if isinstance(x, (bool, int, float, complex, np.ndarray, np.generic)) else NotImplemented


def _binary(name: str, reverse: bool = False) -> Callable[[Any, Any], Any]:
    compute = getattr(operator, name if hasattr(operator, name) else f"{name}_")
    dunder = f"__{'r' if reverse else ''}{name}__"
    def method(self: Any, other: Any) -> Any:
        if needs_operators(self, other):
            base = getattr(ndarray, dunder, None)
            if base is None:                                     # matmul from the left
                return protocol.namespace().matmul(other, self)
            return base(self, other)
        value = _operand(other)
        if value is NotImplemented:
            return value
        return computed(self._ctx, compute, *((value, self._data) if reverse else (self._data, value)))
    method.__name__ = method.__qualname__ = dunder
    return method


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    compute = _binary(name)

    def method(self: Any, other: Any) -> Any:
        if needs_operators(self, other) or type(other) is Symbol:
            base = getattr(ndarray, f"__i{name}__", None)
            return base(self, other) if base is not None else compute(self, other)
        found = compute(self, other)
        if found is NotImplemented:
            return found
        if found._data.dtype != self._data.dtype or found.shape != self.shape:
            raise DTypeError(f"{user_location()}: an array of {self._data.dtype}{self.shape} cannot hold the result "
                             f"{found._data.dtype}{found.shape} in place; write x = x + y instead")
        self._write(found._data)
        return self
    method.__name__ = method.__qualname__ = f"__i{name}__"
    return method


def _unary(name: str) -> Callable[[Any], Any]:
    compute = getattr(operator, name)

    def method(self: Any) -> Any:
        if needs_operators(self):
            return getattr(ndarray, f"__{name}__")(self)
        return computed(self._ctx, compute, self._data)
    method.__name__ = method.__qualname__ = f"__{name}__"
    return method


for _name in (*OPERATORS, *COMPARISONS):
    setattr(Array, f"__{_name}__", _binary(_name))
for _name in OPERATORS:
    setattr(Array, f"__r{_name}__", _binary(_name, True))
    setattr(Array, f"__i{_name}__", _in_place(_name))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(Array, f"__{_name}__", _unary(_name))
Array.__hash__ = ndarray.__hash__                                # type: ignore[method-assign]
