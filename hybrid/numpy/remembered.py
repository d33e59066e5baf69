"""Tables of the functions of ``np`` whose calls are remembered (``autograd/known_functions.py``): by name, a function
of NumPy arrays that does the same and is run in its place for small arrays; None where there is none, and only the
function's operator may be called again. Where a function of NumPy arrays raises an error, our function is called.
"""
from __future__ import annotations

import math
import sys
from typing import Any, Callable

import numpy as _np

from ..autograd.known_functions import known
from ..buffers.array import NDArray
from ..ops.np_linalg import svd_run


def _finite(found: Any) -> Any:
    """A finite result as it is; LinAlgError for others, so that our function is called and says what is wrong."""
    if not math.isfinite(_np.vdot(found, found)):
        raise _np.linalg.LinAlgError
    return found


def _einsum(subscripts: Any, a: Any) -> Any:
    """NumPy's for one array alone: sums of products of several add up in another order than ours."""
    return _np.einsum(subscripts, a)


def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """At most as many differences as there are elements: NumPy makes empty ones as often as it is told."""
    if n > a.shape[axis]:
        raise ValueError
    return _np.diff(a, n, axis)


def _stable_argsort(a: Any, axis: Any = -1) -> Any:
    return _np.argsort(a, axis, kind="stable")


FLOATS = frozenset(map(_np.dtype, ("float32", "float64")))


def _as_complex(a: Any) -> Any:
    """Floats as complex numbers; the imaginary parts are the array times 0, as ours are: nan where it is not finite."""
    _floats(a)
    z = _np.empty(a.shape, _np.result_type(a.dtype, _np.complex64))
    z.real, z.imag = a, a * 0
    return z


def _floats(a: Any) -> Any:
    """An array of float32 or float64 as it is; TypeError for others, of which our functions compute in other dtypes."""
    if a.dtype not in FLOATS:
        raise TypeError
    return a


def _fft(a: Any, n: None = None, axis: int = -1) -> Any:
    found = _np.fft.fft(_as_complex(a), n, axis)
    return found.real, found.imag


def _rfft(a: Any, n: Any = None, axis: int = -1) -> Any:
    found = _np.fft.rfft(_floats(a), n, axis)
    return found.real, found.imag


def _irfft(a: Any, *, axis: int = -1) -> Any:
    n = 2 * (a.shape[axis] - 1)
    return _np.fft.irfft(_as_complex(a), n, axis, "forward") * a.dtype.type(1 / n)


def _interpolated(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's percentile or quantile of floats as ours: interpolated with q as float64, in the dtype of the array."""
    def found(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if not isinstance(q, (int, float)):              # of several the places between elements are float32
            raise TypeError
        return function(_floats(a), _np.float64(q), axis=axis, keepdims=keepdims).astype(a.dtype)
    return found


def _median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if axis == ():                                       # a copy, signs of zeros too
        raise TypeError
    return _np.median(_floats(a), axis, keepdims=keepdims)


def _ldexp(x1: Any, x2: Any) -> Any:
    whole = isinstance(x1, (int, float)) or x1.dtype.kind in "iub"
    return _np.ldexp(_np.asarray(x1, _np.float32) if whole else _floats(x1), x2)


def _count_nonzero(a: Any) -> int:
    return int(_np.count_nonzero(a))


# functions that choose what they do by the numbers in some arrays: their operator alone is never called again
BY_NUMBERS = frozenset("take repeat insert delete percentile quantile median histogram".split())
OPERATORS = """where clip nan_to_num positive reciprocal around round full_like zeros_like ones_like empty_like average
 moveaxis rollaxis swapaxes squeeze expand_dims transpose atleast_1d atleast_2d atleast_3d flip fliplr flipud roll rot90
 tile reshape ravel broadcast_to tensordot kron inner trace diagonal""".split()
NUMPYS = """sort take ediff1d tril triu diag diagflat vdot outer concatenate append stack vstack hstack
 dstack column_stack split array_split hsplit vsplit dsplit meshgrid insert delete repeat pad polyval cross cov corrcoef
 correlate convolve divmod lcm allclose array_equal""".split()
FUNCTIONS: dict[str, Callable[..., Any] | None] = {
    **dict.fromkeys(OPERATORS), **{n: getattr(_np, n) for n in NUMPYS}, "argsort": _stable_argsort, "einsum": _einsum,
    "diff": _diff, "count_nonzero": _count_nonzero, "ldexp": _ldexp, "median": _median,
    "percentile": _interpolated(_np.percentile), "quantile": _interpolated(_np.quantile)}
LINALG: dict[str, Callable[..., Any] | None] = {
    **{n: getattr(_np.linalg, n) for n in "norm eigvalsh cholesky matrix_power lstsq matrix_rank qr".split()},
    "det": None, "inv": lambda a: _finite(_np.linalg.inv(a)), "solve": lambda a, b: _finite(_np.linalg.solve(a, b)),
    "svd": lambda a: tuple(svd_run(_np, [a]))}
FFT: dict[str, Callable[..., Any] | None] = {"fft": _fft, "rfft": _rfft, "irfft": _irfft}
TABLES = {"": FUNCTIONS, "linalg": LINALG, "fft": FFT}


def remembered(function: Any, name: str, part: str = "") -> Any:
    """A function made to remember its calls, if a table has its name; else the function. The new one also replaces the
    old one in the module that defines it, where pickles look for it. part: the table, "linalg" say."""
    table = TABLES[part]
    if name not in table:
        return function
    made, home = known(function, table[name], name not in BY_NUMBERS), vars(sys.modules[function.__module__])
    if home.get(name) is function:
        home[name] = made
    return made


def remember(space: dict[str, Any], part: str = "") -> None:
    """Have the functions in a module's namespace remember their calls, those that a table has. part: which table."""
    for name in TABLES[part]:
        if name in space:
            space[name] = remembered(space[name], name, part)


NDArray.astype = known(NDArray.astype)                       # type: ignore[method-assign]
