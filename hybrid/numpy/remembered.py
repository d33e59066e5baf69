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
from ..base import dtype as dt
from ..buffers.array import NDArray
from ..ops.np_linalg import svd_run


def _finite(found: Any) -> Any:
    """A finite result as it is; LinAlgError for others, so that our function is called and says what is wrong."""
    if not math.isfinite(_np.vdot(found, found)):
        raise _np.linalg.LinAlgError
    return found


def _einsum(subscripts: Any, *arrays: Any) -> Any:
    """NumPy's ``einsum``, for one array, or for integers and truth values: of products of floats it adds up the terms
    in another order than ours."""
    if len(arrays) > 1 and any(a.dtype.kind not in "iub" for a in arrays):
        raise TypeError
    return _np.einsum(subscripts, *arrays)


def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """At most as many differences as there are elements: NumPy makes empty ones as often as it is told."""
    if n > a.shape[axis]:
        raise ValueError
    return _np.diff(a, n, axis)


def _stable_argsort(a: Any, axis: Any = -1) -> Any:
    return _np.argsort(a, axis, kind="stable")


SINGLE = _np.dtype("float32")
FLOATS = frozenset((SINGLE, _np.dtype("float64")))


def _floats(a: Any) -> Any:
    """An array of float32 or float64 as it is; TypeError for others, of which our functions compute in other dtypes."""
    if a.dtype not in FLOATS:
        raise TypeError
    return a


def _transformed(a: Any) -> Any:
    """The array as an FFT takes it: halves as float32, integers and truth values as float64."""
    return a if a.dtype in FLOATS else a.astype(_np.float32 if a.dtype == _np.float16 else _np.float64)


def _as_complex(a: Any) -> Any:
    """Floats as complex numbers; the imaginary parts are the array times 0, as ours are: nan where it is not finite."""
    z = _np.empty(a.shape, _np.complex64 if a.dtype == _np.float32 else _np.complex128)
    z.real, z.imag = a, a * 0
    return z


def _fft(a: Any, n: None = None, axis: int = -1) -> Any:
    found = _np.fft.fft(_as_complex(_transformed(a)), n, axis)
    return found.real, found.imag


def _rfft(a: Any, n: Any = None, axis: int = -1) -> Any:
    found = _np.fft.rfft(_transformed(a), n, axis)
    return found.real, found.imag


def _irfft(a: Any, *, axis: int = -1) -> Any:
    a, n = _transformed(a), 2 * (a.shape[axis] - 1)
    return _np.fft.irfft(_as_complex(a), n, axis, "forward") * a.dtype.type(1 / n)


def _ordered(a: Any) -> Any:
    """The array as NumPy's percentiles take it."""
    return a.astype(dt.ordered(a.dtype), copy=False)


def _between(found: Any, a: Any) -> Any:
    """Numbers that lie between elements of ``a`` (``dtype.between``), in the dtype that such numbers have."""
    return found.astype(dt.between(a.dtype), copy=False)


def _interpolated(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's percentile or quantile as ours: interpolated with q as float64, in the dtype of an array of floats."""
    def found(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if not isinstance(q, (int, float)):              # of several the places between elements are float32
            raise TypeError
        return _between(function(_ordered(a), _np.float64(q), axis=axis, keepdims=keepdims), a)
    return found


def _median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if axis == ():                                       # a copy, signs of zeros too
        raise TypeError
    return _between(_np.median(_ordered(a), axis, keepdims=keepdims), a)


def _ldexp(x1: Any, x2: Any) -> Any:
    whole = isinstance(x1, (int, float)) or x1.dtype.kind in "iub"
    return _np.ldexp(_np.asarray(x1, _np.float32) if whole else _floats(x1), x2)


def _of_integers(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function, which is given truth values as int64."""
    return lambda *args: function(*(
        x.astype(_np.int64) if isinstance(x, _np.ndarray) and x.dtype.kind == "b" else x for x in args))


def _of_matrix(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function of a matrix of floats; integers and truth values are given to it as float32."""
    return lambda a: function(a.astype(SINGLE) if a.dtype.kind in "iub" else _floats(a))


def _det(a: Any) -> Any:
    sign, log = _np.linalg.slogdet(a)
    return sign * _np.exp(log)


def _count_nonzero(a: Any) -> int:
    return int(_np.count_nonzero(a))


# functions that choose what they do by the numbers in some arrays: their operator alone is never called again
BY_NUMBERS = frozenset("take repeat insert delete percentile quantile median histogram".split())
OPERATORS = """where clip nan_to_num positive reciprocal around round full_like zeros_like ones_like average
 moveaxis rollaxis swapaxes squeeze expand_dims transpose atleast_1d atleast_2d atleast_3d flip fliplr flipud roll rot90
 tile reshape ravel broadcast_to tensordot kron inner trace diagonal""".split()
NUMPYS = """sort take ediff1d tril triu vdot outer concatenate append stack vstack hstack
 dstack column_stack split array_split hsplit vsplit dsplit meshgrid insert delete repeat pad cross cov corrcoef
 correlate convolve divmod lcm allclose array_equal""".split()
FUNCTIONS: dict[str, Callable[..., Any] | None] = {
    **dict.fromkeys(OPERATORS), **{n: getattr(_np, n) for n in NUMPYS}, "argsort": _stable_argsort, "einsum": _einsum,
    **{n: _of_integers(getattr(_np, n)) for n in ("diag", "diagflat", "polyval")}, "diff": _diff, "ldexp": _ldexp,
    "count_nonzero": _count_nonzero, "median": _median,
    "percentile": _interpolated(_np.percentile), "quantile": _interpolated(_np.quantile)}
LINALG: dict[str, Callable[..., Any] | None] = {
    **{n: getattr(_np.linalg, n) for n in "norm cholesky matrix_power lstsq matrix_rank".split()},
    **{n: _of_matrix(getattr(_np.linalg, n)) for n in ("eigvalsh", "qr")},
    "det": _of_matrix(_det), "slogdet": _of_matrix(lambda a: tuple(_np.linalg.slogdet(a))),
    "inv": lambda a: _finite(_np.linalg.inv(a)), "solve": lambda a, b: _finite(_np.linalg.solve(a, b)),
    "svd": _of_matrix(lambda a: tuple(svd_run(_np, [a])))}
FFT: dict[str, Callable[..., Any] | None] = {"fft": _fft, "rfft": _rfft, "irfft": _irfft}
TABLES = {"": FUNCTIONS, "linalg": LINALG, "fft": FFT}


def remembered(function: Any, name: str, part: str = "") -> Any:
    """A function made to remember its calls, if a table has its name; else the function. The new one also replaces the
    old one in the module that defines it, where pickles look for it. part: the table, "linalg" say."""
    table = TABLES[part]
    if name not in table:
        return function
    home = vars(sys.modules[function.__module__])
    if getattr(home.get(name), "__wrapped__", None) is function:     # made before
        return home[name]
    made = known(function, table[name], name not in BY_NUMBERS)
    if home.get(name) is function:
        home[name] = made
    return made


def remember(space: dict[str, Any], part: str = "") -> None:
    """Have the functions in a module's namespace remember their calls, those that a table has. part: which table."""
    for name in TABLES[part]:
        if name in space:
            space[name] = remembered(space[name], name, part)


NDArray.astype = known(NDArray.astype)                       # type: ignore[method-assign]
