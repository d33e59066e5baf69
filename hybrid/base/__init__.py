"""MXNet's ``base``: the error classes, type names, and what programs take from there."""
from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Callable

import numpy as np

from .errors import HybridError, MXNetError, NotImplementedForSymbol, NotSupportedForSparseNDArray

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)
basestring, long = str, int
mx_real_t = np.float32                    # the default dtype
mx_uint, mx_int, mx_int64, mx_float = ctypes.c_uint, ctypes.c_int, ctypes.c_int64, ctypes.c_float


class _NullType:
    """The type of ``_Null``: an argument that was not given."""

    def __repr__(self) -> str:
        return "_Null"


_Null = _NullType()


error_types: dict[str, type] = {"NotImplementedForSymbol": NotImplementedForSymbol, "ValueError": ValueError,
                                "TypeError": TypeError,
                                "AttributeError": AttributeError, "IndexError": IndexError,
                                "NotImplementedError": NotImplementedError}


def register_error(func_name: Any = None, cls: Any = None) -> Any:
    """Keep an error class under its name (or another) in ``error_types``; also a decorator.

    >>> register_error("KeyError", KeyError) is KeyError
    True
    """
    if callable(func_name):
        cls, func_name = func_name, func_name.__name__

    def keep(found: type) -> type:
        error_types[func_name or found.__name__] = found
        return found
    return keep(cls) if cls is not None else keep


register = register_error                 # ``mx.error.register``


def _as_list(obj: Any) -> list[Any]:
    """A list of one, unless it is a list or tuple."""
    return list(obj) if isinstance(obj, (list, tuple)) else [obj]


def py_str(x: str | bytes) -> str:
    """Text of bytes; text stays as it is."""
    return x.decode("utf-8") if isinstance(x, bytes) else x


def c_str(string: str) -> ctypes.c_char_p:
    """A C string."""
    return ctypes.c_char_p(string.encode("utf-8"))


def data_dir_default() -> str:
    """Where downloads go unless MXNET_HOME says something else."""
    return str(Path.home() / ".mxnet")


def data_dir() -> str:
    """Where downloads go."""
    return os.environ.get("MXNET_HOME", data_dir_default())


class classproperty:                      # noqa: N801  MXNet's name
    """A property of a class."""

    def __init__(self, func: Callable[[Any], Any]):
        self._func = func

    def __get__(self, instance: Any, owner: type) -> Any:
        return self._func(owner)


def with_metaclass(meta: type, *bases: type) -> type:
    """A base class with a metaclass."""
    return meta("temporary_class", bases, {})


__all__ = ["HybridError", "MXNetError", "NotImplementedForSymbol", "NotSupportedForSparseNDArray", "_Null",
           "basestring", "c_str", "classproperty", "data_dir",
           "data_dir_default", "error_types", "integer_types", "long", "mx_float", "mx_int", "mx_int64", "mx_real_t",
           "mx_uint", "numeric_types", "py_str",
           "register", "register_error", "string_types", "with_metaclass"]
