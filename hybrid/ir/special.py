"""Special functions for NumPy and CuPy arrays that NumPy itself does not have, computed in float64."""
from __future__ import annotations

from functools import lru_cache, wraps
from typing import Any, Callable

import numpy as np

from ..base.dtype import as_dtype, is_float
from .quiet import silently

# W. J. Cody, "Rational Chebyshev approximation for the error function", Math. Comp. 23 (1969).
_ERF_A = (3.16112374387056560e00, 1.13864154151050156e02, 3.77485237685302021e02, 3.20937758913846947e03,
          1.85777706184603153e-1)
_ERF_B = (2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03, 2.84423683343917062e03)
_ERF_C = (5.64188496988670089e-1, 8.88314979438837594e00, 6.61191906371416295e01, 2.98635138197400131e02,
          8.81952221241769090e02, 1.71204761263407058e03, 2.05107837782607147e03, 1.23033935479799725e03,
          2.15311535474403846e-8)
_ERF_D = (1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02, 1.62138957456669019e03,
          3.29079923573345963e03, 4.36261909014324716e03, 3.43936767414372164e03, 1.23033935480374942e03)
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)


BLOCK = 1 << 13                                        # elements whose intermediate values stay in a processor's cache


def _in_blocks(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of each element by itself, which computes large arrays of NumPy block by block: with the same numbers,
    but without passes over memory for its many intermediate values."""
    @wraps(function)
    def call(xp: Any, x: Any) -> Any:
        if xp is not np or x.size <= BLOCK:
            return function(xp, x)
        elements = x.reshape(-1)
        first = function(xp, elements[:BLOCK])
        out = np.empty(elements.shape, first.dtype)
        out[:BLOCK] = first
        for start in range(BLOCK, elements.size, BLOCK):
            out[start:start + BLOCK] = function(xp, elements[start:start + BLOCK])
        return out.reshape(x.shape)
    return call


def _as_float(x: Any) -> tuple[Any, Any]:
    """x in float64 and the dtype of the answer."""
    out = x.dtype if x.dtype.kind not in "iub" else np.dtype(np.float32)
    return x.astype(np.float64), out


@_in_blocks
def erf(xp: Any, x: Any) -> Any:
    """Error function (Cody 1969)."""
    v, out = _as_float(x)
    a = xp.minimum(xp.abs(v), 6.0)
    s = a * a
    num, den = _ERF_A[4] * s, s
    for p, q in zip(_ERF_A[:3], _ERF_B[:3]):
        num, den = (num + p) * s, (den + q) * s
    small = a * (num + _ERF_A[3]) / (den + _ERF_B[3])
    num, den = _ERF_C[8] * a, a
    for p, q in zip(_ERF_C[:7], _ERF_D[:7]):
        num, den = (num + p) * a, (den + q) * a
    large = 1.0 - xp.exp(-s) * (num + _ERF_C[7]) / (den + _ERF_D[7])
    r = xp.where(a <= 0.46875, small, xp.where(a < 6.0, large, xp.where(a == a, 1.0, a)))
    return xp.copysign(r, v).astype(out)


@_in_blocks
def erfinv(xp: Any, x: Any) -> Any:
    """Inverse error function: Giles' approximation (2010) refined by two Newton steps."""
    v, out = _as_float(x)
    with np.errstate(all="ignore"):
        w = -xp.log((1.0 - v) * (1.0 + v))
        small, big = w - 2.5, xp.sqrt(xp.maximum(w, 5.0)) - 3.0
        p = xp.full_like(v, 2.81022636e-08)
        for c in (3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
                  0.246640727, 1.50140941):
            p = p * small + c
        q = xp.full_like(v, -0.000200214257)
        for c in (0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
                  1.00167406, 2.83297682):
            q = q * big + c
        y = xp.where(w < 5.0, p, q) * v
        for _ in range(2):
            y = y - (erf(xp, y) - v) / (1.1283791670955126 * xp.exp(-y * y))
    edge = xp.where(xp.abs(v) == 1.0, xp.copysign(xp.inf, v), xp.where(xp.abs(v) < 1.0, y, xp.nan))
    return edge.astype(out)


def softplus(xp: Any, x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return xp.maximum(x, x.dtype.type(0)) + xp.log1p(xp.exp(-xp.abs(x)))


def _lanczos(xp: Any, v: Any) -> tuple[Any, Any, Any, Any]:
    """Where to reflect, and the parts of Lanczos' approximation of gamma(z + 1), g=7, n=9."""
    reflect = v < 0.5
    z = xp.where(reflect, 1.0 - v, v) - 1.0
    series = xp.full_like(v, _LANCZOS[0])
    for i, c in enumerate(_LANCZOS[1:]):
        series = series + c / (z + (i + 1))
    return reflect, z, z + 7.5, series


def _sin_pi(xp: Any, v: Any) -> Any:
    """sin(pi v), exactly 0 at integers."""
    nearest = xp.rint(v)
    odd = xp.where(xp.abs(nearest) % 2 == 1, -1.0, 1.0)
    return odd * xp.sin(np.pi * (v - nearest))


@_in_blocks
def gamma(xp: Any, x: Any) -> Any:
    """Gamma function (Lanczos 1964; reflection below one half). As C's tgamma: nan at negative integers and -inf, an
    infinity of the argument's sign at 0."""
    v, out = _as_float(x)
    with np.errstate(all="ignore"):
        reflect, z, t, series = _lanczos(xp, v)
        # the power in two halves: each stays finite where the product does
        half = xp.power(t, 0.5 * (z + 0.5))
        value = 2.5066282746310002 * half * xp.exp(-t) * half * series
        value = xp.where(z > 170.7, xp.inf, value)
        value = xp.where(reflect, np.pi / (_sin_pi(xp, v) * value), value)
        pole = (v < 0) & (v == xp.floor(v))
        value = xp.where(v == 0, xp.copysign(xp.inf, v), xp.where(pole | (v != v), xp.nan, value))
        return value.astype(out)


@_in_blocks
def gammaln(xp: Any, x: Any) -> Any:
    """log |gamma(x)|: infinite at 0, at negative integers and at the infinities."""
    v, out = _as_float(x)
    with np.errstate(all="ignore"):
        reflect, z, t, series = _lanczos(xp, v)
        value = 0.9189385332046727 + (z + 0.5) * (xp.log(t) - 1.0) - 7.0 + xp.log(series)
        value = xp.where(reflect, np.log(np.pi) - xp.log(xp.abs(_sin_pi(xp, v))) - value, value)
        pole = (v <= 0) & (v == xp.floor(v)) | (xp.abs(v) == xp.inf)
        return xp.where(pole, xp.inf, value).astype(out)


def _from_eight(xp: Any, v: Any, term: Callable[[Any], Any]) -> tuple[Any, Any, Any, Any]:
    """Where to reflect, the argument z moved to 8 or more, 1 / z², and the sum of the recurrence's terms on the way."""
    reflect = v < 0.5
    z = xp.where(reflect, 1.0 - v, v)
    passed = xp.zeros_like(v)
    for _ in range(8):
        low = z < 8.0
        passed = passed + xp.where(low, term(z), 0.0)
        z = xp.where(low, z + 1.0, z)
    return reflect, z, 1.0 / (z * z), passed


@_in_blocks
def digamma(xp: Any, x: Any) -> Any:
    """Derivative of log gamma: recurrence up to 8, then the asymptotic series (Abramowitz and Stegun 6.3.18)."""
    v, out = _as_float(x)
    with np.errstate(all="ignore"):
        reflect, z, i, value = _from_eight(xp, v, lambda z: -1.0 / z)
        value = value + xp.log(z) - 0.5 / z - i * (1 / 12 - i * (1 / 120 - i * (1 / 252 - i * (1 / 240 - i / 132))))
        value = xp.where(reflect, value - np.pi / xp.tan(np.pi * v), value)
        value = xp.where((v <= 0) & (v == xp.floor(v)), np.inf, value)       # at poles infinity, as in MXNet
        return value.astype(out)


@_in_blocks
def trigamma(xp: Any, x: Any) -> Any:
    """Derivative of digamma: recurrence up to 8, then the asymptotic series (Abramowitz and Stegun 6.4.12)."""
    v, out = _as_float(x)
    with np.errstate(all="ignore"):
        reflect, z, i, value = _from_eight(xp, v, lambda z: 1.0 / (z * z))
        tail = i * (1 / 6 - i * (1 / 30 - i * (1 / 42 - i * (1 / 30 - i * (5 / 66 - i * 691 / 2730)))))
        value = value + 1.0 / z + 0.5 * i + tail / z
        value = xp.where(reflect, (np.pi / xp.sin(np.pi * v)) ** 2 - value, value)
        return value.astype(out)


# from so many elements on, combining bits is faster than NumPy's ``where``, whose branches are often predicted wrongly
_LEAST_BLENDED = 1 << 12
_WORDS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def _blended(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a where a truth value holds, else b, by their bits: takes the same time whatever the truth values are."""
    word = _WORDS[a.dtype.itemsize]
    chosen = np.negative(c.view(np.int8), dtype=word)                # all bits of those that hold
    out = a.view(word) ^ b.view(word)
    out &= chosen
    out ^= b.view(word)
    return out.view(a.dtype)                                         # type: ignore[no-any-return]


def where(xp: Any, c: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b. For many elements NumPy's own function takes several times as long where
    the processor predicts the condition wrongly."""
    c = c.astype(bool, copy=False)
    if xp is not np or c.size < _LEAST_BLENDED or not c.shape == a.shape == b.shape or a.dtype != b.dtype \
            or a.dtype.itemsize not in _WORDS:
        return xp.where(c, a, b)
    held = np.count_nonzero(c)
    if not any(a.strides) and held <= c.size >> 5:                   # a number, in few places
        out = np.array(b, order="C")
        np.copyto(out, a, where=c)
        return out
    if not any(b.strides) and c.size - held <= c.size >> 5:
        return where(xp, ~c, b, a)
    return _blended(c, a, b)


def logical_xor(xp: Any, a: Any, b: Any) -> Any:
    """Whether just one of two is not 0. NumPy's function of numbers of several bytes is several times slower than its
    comparisons."""
    if a.dtype.itemsize == b.dtype.itemsize == 1 and a.dtype != bool:
        return xp.logical_xor(a, b)
    return xp.not_equal(*(x if x.dtype == bool else xp.not_equal(x, x.dtype.type(0)) for x in (a, b)))


_EXACT = 1 << 52                 # quotients of integers up to this size, computed in float64 and truncated, are exact


@silently
def quotient(xp: Any, a: Any, b: Any) -> Any:
    """The quotient truncated towards zero; an integer divided by zero gives 0. NumPy divides integers of both signs
    many times slower than floats."""
    if a.dtype.kind not in "iu":
        wide = a.dtype if a.dtype.itemsize > 2 else np.dtype(np.float32)
        return xp.trunc(xp.true_divide(a.astype(wide, copy=False), b.astype(wide, copy=False))).astype(a.dtype)
    once = b if any(b.strides) else b[(slice(0, 1),) * b.ndim]       # one element of a number that was broadcast
    small = a.dtype.itemsize < 8 or a.size and (
        -_EXACT <= min(a.min(), once.min()) <= max(a.max(), once.max()) <= _EXACT)
    if not small:
        return xp.floor_divide(a - xp.fmod(a, b), b)
    exact = np.float32 if a.dtype.itemsize == 1 else np.float64
    out = xp.true_divide(a, b, dtype=exact).astype(a.dtype)
    return out if once.all() else xp.where(b == 0, a.dtype.type(0), out)


@silently
def mod(xp: Any, a: Any, b: Any) -> Any:
    """Remainder with the sign of the divisor; an integer zero divisor gives zero (as MXNet), without a warning."""
    return xp.remainder(a, b)


def _to_number(a: np.ndarray, exponent: Any) -> np.ndarray | None:
    """Floats to the power of one number, by a function that takes less time than a power; None for other numbers."""
    if exponent == 2:
        return np.square(a)                                          # type: ignore[no-any-return]
    if exponent == 1:
        return a
    if exponent == -1:
        return np.reciprocal(a)                                      # type: ignore[no-any-return]
    if exponent == 0.5:
        # neither of negative numbers nor of zeros, looked for among the bits
        if a.size and a.dtype.itemsize in _WORDS and a.view(_WORDS[a.dtype.itemsize]).min() > 0:
            return np.asarray(np.sqrt(a))
        root = np.asarray(np.sqrt(a) + a.dtype.type(0))              # of -0.0 the power is 0.0
        if (below := a == -np.inf).any():
            np.copyto(root, np.inf, where=below)
        return root
    return None


@silently
def power(xp: Any, a: Any, b: Any) -> Any:
    """Power; integers to negative powers give zero (or 1, -1) instead of NumPy's error."""
    if a.dtype.kind in "iu":
        if xp is np and b.size and not any(b.strides) and b.flat[0] == 2:
            return np.square(a, dtype=a.dtype)
        if xp is np and b.size and (b.min() if any(b.strides) else b.flat[0]) >= 0:
            return np.power(a, b, dtype=a.dtype)
        whole = xp.power(a, xp.maximum(b, b.dtype.type(0)))
        unit = xp.where(a == 1, 1, xp.where(a == -1, 1 - 2 * (xp.abs(b) % 2), 0)).astype(a.dtype)
        return xp.where(b < 0, unit, whole).astype(a.dtype)
    if xp is np and b.size and not any(b.strides) and (found := _to_number(a, b.flat[0])) is not None:
        return found
    if xp is np and a.size > 1 and not any(a.strides) and a.flat[0] == 2 and a.dtype == b.dtype:
        return np.exp2(b)
    return xp.power(a, b)


@lru_cache(64)
def _below_half(dtype: np.dtype) -> tuple[Any, Any, Any]:
    """0.5 less one unit in the last place, the bit of the sign, and the bits of the number; None where they are none of
    an integer."""
    below = np.nextafter(dtype.type(0.5), dtype.type(0))
    if dtype.itemsize not in _WORDS:
        return below, None, None
    word: Any = _WORDS[dtype.itemsize]
    return below, word(np.iinfo(word).min), below.view(word)


def round_half_away(xp: Any, a: Any) -> Any:
    """Round half away from zero, as MXNet's ``round`` (NumPy rounds half to even). By adding the number before one
    half: its sum with one half is rounded up to 1, and that with any smaller fraction stays below."""
    if a.dtype.kind in "iub":
        return a
    below, sign_bit, bits = _below_half(a.dtype)
    if xp is not np or not a.ndim or bits is None:                       # of no axes: NumPy gives a number, no array
        return xp.trunc(xp.copysign(below, a) + a)
    half = a.view(bits.dtype) & sign_bit                                 # with the sign of a
    half |= bits
    half = half.view(a.dtype)
    half += a
    return np.trunc(half, out=half)


def keep_int(name: str) -> Callable[[Any, Any], Any]:
    """A rounding function that returns integers as they are."""
    def call(xp: Any, a: Any) -> Any:
        return a if a.dtype.kind in "iub" else getattr(xp, name)(a)
    return call


def nearest(name: str) -> Callable[[Any, Any], Any]:
    """The function that rounds to the numbers of a type, and keeps the array's own."""
    def call(xp: Any, a: Any) -> Any:
        return a.astype(as_dtype(name)).astype(a.dtype)
    return call


def float_only(name: str) -> Callable[[Any, Any], Any]:
    """A float classification that takes integers too."""
    def call(xp: Any, a: Any) -> Any:
        return getattr(xp, name)(a if a.dtype.kind == "f" else a.astype(np.float32))
    return call


@lru_cache(64)
def _zero(dtype: np.dtype) -> np.ndarray:
    """0 as an array without axes, which universal functions take sooner than a number."""
    out = np.zeros((), dtype)
    out.flags.writeable = False
    return out


def relu(xp: Any, a: Any) -> Any:
    """What is above 0, or NaN; else 0."""
    return xp.maximum(a, _zero(a.dtype) if xp is np else a.dtype.type(0))


def sign(xp: Any, a: Any) -> Any:
    """Sign; NumPy has none for bool."""
    return a if a.dtype.kind == "b" else xp.sign(a)


_HALF_ONE, _HALF_INFINITE = 0x3c00, 0x7c00


def _half_direction(a: np.ndarray) -> np.ndarray:
    """1, -1 and 0 of float16, by their bits."""
    bits = a.view(np.int16)
    size = bits & 0x7fff
    out = bits & np.int16(-0x8000)
    out |= np.int16(_HALF_ONE)
    out *= (size > 0) & (size <= _HALF_INFINITE)
    return out.view(np.float16)


def direction(xp: Any, a: Any) -> Any:
    """Sign, and 0 of NaN."""
    if xp is np and a.ndim and a.dtype == np.float16:
        return _half_direction(a)
    out = sign(xp, a)
    if xp is np and a.ndim and is_float(a.dtype):
        np.copyto(out, _zero(a.dtype), where=out != out)
        return out
    return xp.where(a != a, _zero(a.dtype) if xp is np else a.dtype.type(0), out) if is_float(a.dtype) else out
