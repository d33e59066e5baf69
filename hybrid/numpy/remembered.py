"""Functions of ``np`` whose calls are remembered (``known_functions``): for each NumPy's function of small arrays that
does the same, or None where the operator alone is called again."""
from __future__ import annotations

import math
import sys
from typing import Any, Callable

import numpy as _np

from ..autograd.known_functions import known
from ..buffers.array import NDArray
from ..ops.np_linalg import svd_run


def _finite(found: Any) -> Any:
    """A result, where it is finite; the function itself says what is wrong with others."""
    if not math.isfinite(_np.vdot(found, found)):
        raise _np.linalg.LinAlgError
    return found


def _einsum(subscripts: Any, a: Any) -> Any:
    """Of one array alone: the sums of products are others."""
    return _np.einsum(subscripts, a)


def _stable(a: Any, axis: Any = -1) -> Any:
    return _np.argsort(a, axis, kind="stable")


FLOATS = frozenset(map(_np.dtype, ("float32", "float64")))


def _joined(a: Any) -> Any:
    """Floats as complex numbers: the imaginary parts are those of an array times 0."""
    _floats(a)
    z = _np.empty(a.shape, _np.result_type(a.dtype, _np.complex64))
    z.real, z.imag = a, a * 0
    return z


def _floats(a: Any) -> Any:
    """An array of floats; of others functions compute in other dtypes than NumPy."""
    if a.dtype not in FLOATS:
        raise TypeError
    return a


def _fft(a: Any, n: None = None, axis: int = -1) -> Any:
    found = _np.fft.fft(_joined(a), n, axis)
    return found.real, found.imag


def _rfft(a: Any, n: Any = None, axis: int = -1) -> Any:
    found = _np.fft.rfft(_floats(a), n, axis)
    return found.real, found.imag


def _irfft(a: Any, *, axis: int = -1) -> Any:
    n = 2 * (a.shape[axis] - 1)
    return _np.fft.irfft(_joined(a), n, axis, "forward") * a.dtype.type(1 / n)


def _of_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """A percentile of floats, interpolated as NumPy does it of a float64 q."""
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


def _reciprocal(x: Any) -> Any:
    """Of integers, which are 0 but for 1 and -1; of floats the operator is as fast."""
    if x.dtype.kind not in "iu":
        raise TypeError
    return x * _np.equal(_np.abs(x), 1)


def _count(a: Any) -> int:
    return int(_np.count_nonzero(a))


# what looks at the numbers of some arrays is not done again without them
LOOKING = frozenset("take repeat insert delete percentile quantile median histogram".split())
OPERATORS = """where clip nan_to_num positive around round full_like zeros_like ones_like empty_like average
 moveaxis rollaxis swapaxes squeeze expand_dims transpose atleast_1d atleast_2d atleast_3d flip fliplr flipud roll rot90
 tile reshape ravel broadcast_to tensordot kron inner trace diagonal""".split()
NUMPYS = """sort take diff ediff1d tril triu diag diagflat vdot outer concatenate append stack vstack hstack
 dstack column_stack split array_split hsplit vsplit dsplit meshgrid insert delete repeat pad polyval cross cov corrcoef
 correlate convolve divmod lcm allclose array_equal""".split()
FUNCTIONS: dict[str, Callable[..., Any] | None] = {
    **dict.fromkeys(OPERATORS), **{n: getattr(_np, n) for n in NUMPYS}, "argsort": _stable, "einsum": _einsum,
    "count_nonzero": _count, "ldexp": _ldexp, "reciprocal": _reciprocal, "median": _median,
    "percentile": _of_float64(_np.percentile), "quantile": _of_float64(_np.quantile)}
LINALG: dict[str, Callable[..., Any] | None] = {
    **{n: getattr(_np.linalg, n) for n in "norm eigvalsh cholesky matrix_power lstsq matrix_rank qr".split()},
    "det": None, "inv": lambda a: _finite(_np.linalg.inv(a)), "solve": lambda a, b: _finite(_np.linalg.solve(a, b)),
    "svd": lambda a: tuple(svd_run(_np, [a]))}
FFT: dict[str, Callable[..., Any] | None] = {"fft": _fft, "rfft": _rfft, "irfft": _irfft}
TABLES = {"": FUNCTIONS, "linalg": LINALG, "fft": FFT}


def remembered(function: Any, name: str, part: str = "") -> Any:
    """A function that remembers its calls, where it is one of the tables'; it takes the place of the other one in the
    module that this was written in, where pickles find it."""
    table = TABLES[part]
    if name not in table:
        return function
    made, home = known(function, table[name], name not in LOOKING), vars(sys.modules[function.__module__])
    if home.get(name) is function:
        home[name] = made
    return made


def remember(space: dict[str, Any], part: str = "") -> None:
    """Have the functions of a module remember their calls."""
    for name in TABLES[part]:
        if name in space:
            space[name] = remembered(space[name], name, part)


NDArray.astype = known(NDArray.astype)                       # type: ignore[method-assign]
