"""The arrays of the array API standard: ``np.ndarray`` with the standard's operators, in every dtype of the standard.

Dtypes that neither operators nor the compiler know (complex64, complex128, uint16, uint32, uint64) are there eagerly.
"""
from __future__ import annotations

import operator
from typing import Any, Callable

import numpy as np

from ...base.device import Context
from ...base.errors import DeviceError, DTypeError, user_location
from ...base.scope import SCOPE
from ...buffers.array import NDArray, wrap
from ...graph.symbol import Symbol
from .. import protocol
from ..composed import needs_operators
from ..multiarray import ndarray

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
    return x.asnumpy() if SCOPE.traces else x._data


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
        if self.ndim < 2:
            raise ValueError(f"{user_location()}: x.mT needs two axes at least, this array has {self.ndim}")
        return self.__array_namespace__().matrix_transpose(self)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """This array if it is on the device, else a copy there."""
        if stream is not None:
            raise ValueError(f"{user_location()}: to_device knows no streams, got {stream!r}")
        return self.as_in_context(as_device(device))

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
        return _made(self._data[_key(key)], self._ctx)

    def __setitem__(self, key: Any, value: Any) -> None:
        if needs_operators(self, key, value) or SCOPE.traces:
            ndarray.__setitem__(self, key, value)
            return
        self._data[_key(key)] = value._data if isinstance(value, NDArray) else value
        self._bump()


def _key(key: Any) -> Any:
    """An index with the array library's own arrays."""
    if isinstance(key, tuple):
        return tuple(_key(k) for k in key)
    return key._data if isinstance(key, NDArray) else key


def _made(found: Any, ctx: Context) -> Any:
    found = np.asarray(found) if isinstance(found, np.generic) else found
    return wrap(found if found.flags.c_contiguous else found.copy("C"), ctx, Array)


def _operand(x: Any) -> Any:
    """What NumPy computes with: numbers and arrays; NotImplemented for anything else."""
    if isinstance(x, NDArray):
        return x._data
    return x if isinstance(x, (bool, int, float, complex, np.ndarray, np.generic)) else NotImplemented


def _binary(name: str, reverse: bool = False) -> Callable[[Any, Any], Any]:
    compute = getattr(operator, name if hasattr(operator, name) else f"{name}_")
    dunder = f"__{'r' if reverse else ''}{name}__"
    plain = {"lshift": "left_shift", "rshift": "right_shift", "matmul": "matmul"}

    def method(self: Any, other: Any) -> Any:
        if needs_operators(self, other):
            base = getattr(ndarray, dunder, None)
            if base is not None:
                return base(self, other)
            a, b = (other, self) if reverse else (self, other)
            return getattr(protocol.namespace(), plain[name])(a, b)
        value = _operand(other)
        if value is NotImplemented:
            return value
        return _made(compute(value, self._data) if reverse else compute(self._data, value), self._ctx)
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
        return _made(compute(self._data), self._ctx)
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
