"""The array API standard (2022.12) on arrays of this library: ``xp = x.__array_namespace__()``.

Its rules differ from MXNet's where the standard says so: ``xp.asarray([1, 2])`` is int64, ``int64 / int64`` a float,
and there are complex numbers and unsigned integers of every width. Needs NumPy 2.1 or newer, whose rules they are.
"""
from __future__ import annotations

import numpy as _np

from . import fft, linalg
from .arrays import Array
from .calls import function as _function
from .creation import (arange, asarray, astype, empty, empty_like, eye, from_dlpack, full, full_like, linspace, ones,
                       ones_like, zeros, zeros_like)
from .inspection import Inspection as _Inspection
from .own import (OPERATORS as _OPERATORS, argsort, broadcast_arrays, can_cast, expm1 as _expm1, finfo, iinfo, isdtype,
                  meshgrid,
                  result_type, sort)

__array_namespace_info__ = _Inspection
__array_api_version__ = "2022.12"
e, inf, nan, newaxis, pi = _np.e, _np.inf, _np.nan, None, _np.pi
bool = _np.bool_  # noqa: A001  the standard's name
int8, int16, int32, int64 = _np.int8, _np.int16, _np.int32, _np.int64
uint8, uint16, uint32, uint64 = _np.uint8, _np.uint16, _np.uint32, _np.uint64
float32, float64, complex64, complex128 = _np.float32, _np.float64, _np.complex64, _np.complex128

_NAMES = """abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or
bitwise_right_shift bitwise_xor ceil conj cos cosh divide equal exp expm1 floor floor_divide greater greater_equal imag
isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor
multiply negative not_equal positive pow real remainder round sign sin sinh sqrt square subtract tan tanh trunc
matmul matrix_transpose tensordot vecdot broadcast_to concat expand_dims flip permute_dims reshape roll
squeeze stack argmax argmin nonzero where take unique_all unique_counts unique_inverse unique_values all any
max mean min prod std sum var tril triu""".split()

globals().update({_name: _function({"expm1": _expm1}.get(_name) or getattr(_np, _name), _name, _OPERATORS.get(_name))
                  for _name in _NAMES})

__all__ = [*_NAMES, "Array", "arange", "argsort", "asarray", "astype", "bool", "broadcast_arrays", "can_cast",
           "complex128", "complex64",
           "e", "empty", "empty_like", "eye", "fft", "finfo", "float32", "float64", "from_dlpack", "full", "full_like",
           "iinfo", "inf", "int16", "int32", "int64", "int8", "isdtype", "linalg", "linspace", "meshgrid", "nan",
           "newaxis",
           "ones", "ones_like", "pi", "result_type", "sort", "uint16", "uint32", "uint64", "uint8", "zeros",
           "zeros_like"]
