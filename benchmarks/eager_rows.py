"""Every eager function of a million elements beside NumPy's, for each dtype: those that take more than twice its time.

    python benchmarks/eager_rows.py [float32 float64 …] [--nd] [--all] [--only TEXT]

A row is an expression, evaluated with ``hybrid.np`` and with NumPy (``--nd``: operators of ``nd`` arrays, and with
NumPy). Where the dtype of a result is another one than NumPy's, it stands behind the row, and NumPy's result is cast to
it: an int64 of a truth value has eight times the memory. Times are the least of interleaved runs, before anything is
compiled in the background. NumPy's reshapes, transposes and slices are views; those of ``np`` arrays are copies, as
MXNet's, and are measured beside NumPy's copies.
"""
from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, Iterator

import numpy as onp

from hybrid import nd, np

ONE = """exp log sqrt tanh sin cos tan abs sign floor ceil rint trunc fix square log1p expm1 cbrt log2 log10 exp2 arctan
 sinh cosh arcsinh arccosh arctanh arcsin arccos negative reciprocal isnan isinf isfinite isposinf isneginf degrees
 radians invert logical_not signbit spacing imag iscomplex isreal angle nan_to_num round sinc i0 flatnonzero nonzero
 argwhere sort argsort cumsum cumprod diff ediff1d unique median sum mean std var prod max min argmax argmin any all ptp
 count_nonzero average nansum nanmean nanmax nanmin nanstd nanvar nanprod nanargmax nanargmin nancumsum nanmedian tril
 triu gradient unwrap linalg.norm ones_like zeros_like""".split()
TWO = """add subtract multiply true_divide floor_divide maximum minimum fmax fmin power float_power mod fmod arctan2
 hypot equal not_equal less less_equal greater logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor
 left_shift right_shift divmod copysign nextafter ldexp heaviside logaddexp gcd lcm isclose""".split()
DTYPES = "float32 float64 float16 int8 int32 int64 uint8 bool".split()
OPERATORS = "+ - * / // % ** > >= == != & | ^ << >>".split()
AXES = "sum mean max min prod var std argmax argmin cumsum cumprod any all median sort argsort diff ptp nansum".split()
MORE = """np.dot(x, y)|np.vdot(x, y)|np.inner(x, y)|np.allclose(x, y)|np.array_equal(x, y)|np.outer(x[0], x[1])|x + x[0]
x * x[:, :1]|x ** -1|x ** 0.5|x ** 3|x[k]|x[c]|np.concatenate([x, y])|np.concatenate([x, y], axis=1)|np.stack([x, y])
np.dstack([x, y])|np.append(x, y)|np.where(c, x, y)|np.where(c, x, 2)|np.where(c, 2, x)|np.where(c)|np.take(v, i)
np.take(x, k, axis=0)|np.take(x, k, axis=1)|np.take_along_axis(x, j, axis=1)|np.clip(x, 1, 2)|np.clip(x, 1, None)
np.roll(x, 7)|np.roll(x, 7, axis=1)|np.tile(x, 2)|np.repeat(x, 2)|np.repeat(x, 2, axis=0)|np.pad(x, 2)
np.pad(x, 2, mode="edge")|np.pad(x, 2, mode="reflect")|np.pad(x, 2, mode="maximum")|np.delete(x, 3, axis=1)
np.delete(v, slice(3, 900))|np.insert(x, 3, 1, axis=0)|np.insert(v, 3, 1)|np.percentile(v, 30)|np.searchsorted(s, v)
np.digitize(v, s[:10])|np.interp(v, s[:1000], s[:1000])|np.einsum("ij->i", x)|np.einsum("ij,ij->i", x, y)
np.tensordot(x, y[:, :10], 1)|np.matmul(x[:, :100], y[:100])|np.isin(v, v[:10])|np.partition(v, 1000)
np.polyval(v[:3], x)|np.vander(v[:1000], 100)|np.meshgrid(x[0], x[1])|np.indices((1000, 500))|np.arange(1000000)
np.linspace(0, 1, 1000000)|np.ones((1000, 1000))|np.eye(1000)|np.tri(1000)|np.fill_diagonal(x.copy(), 1)
np.select([c, c], [x, y], 0)|np.resize(x, (2000, 700))|np.copyto(x.copy(), y)|x.astype("float32")|x.astype("int32")
x.astype("bool")|x.copy()|np.diagflat(x[0])|np.unravel_index(i, (1000, 1000))|np.block([[x, y], [y, x]])|-x|abs(x)
divmod(x, 2)|divmod(2, x)|np.add(x, y, out=o)|np.around(x, 2)|np.convolve(x[0], x[1])|np.fft.rfft(x[:100])""".replace(
    "\n", "|").split("|")
COPIES = {e: f"np.ascontiguousarray({n})" for e, n in {
    "np.transpose(x)": "x.T", "np.reshape(x, (500, 2000))": "x.copy()", "x.ravel()": "x.copy()",
    "x[:, 1:]": "x[:, 1:].copy()", "x[::2]": "x[::2].copy()", "np.flip(x, 1)": "x[:, ::-1]",
    "np.rot90(x)": "np.rot90(x)",
    "np.broadcast_to(x[0], (1000, 1000))": "np.broadcast_to(x[0], (1000, 1000))",
    "np.expand_dims(x, 0)": "x.copy()"}.items()}
OF_ND = """exp log sqrt tanh sin abs sign floor ceil rint square log1p expm1 cbrt log2 arctan sinh arcsinh negative
 reciprocal degrees sort""".split()
BROADCAST = "maximum minimum hypot logical_and logical_or logical_xor power".split()


def rows(of_nd: bool) -> dict[str, str]:
    """Expressions, and what NumPy computes beside each."""
    if of_nd:
        found = {f"nd.{n}(x)": f"np.{n}(x)" for n in OF_ND} | {"nd.round(x)": "np.round(x)"}
        found |= {f"nd.broadcast_{n}(x, y)": f"np.{n}(x, y)" for n in BROADCAST}
        found |= {f"nd.{f}(x, axis={k})": f"np.{f}(x, axis={k})" for f in ("sum", "mean", "max", "min") for k in (0, 1)}
        found |= {"nd.concat(x, y, dim=1)": "np.concatenate([x, y], 1)", "nd.where(c, x, y)": "np.where(c, x, y)",
                  "nd.take(x, k)": "np.take(x, k, axis=0)", "nd.dot(x, y)": "np.dot(x, y)"}
        operations = [n for n in OPERATORS[:11] if n != "//"]
    else:
        found = {f"np.{n}(x)": f"np.{n}(x)" for n in ONE}
        found |= {e: e for n in TWO for e in (f"np.{n}(x, y)", f"np.{n}(x, 2)", f"np.{n}(2, x)")}
        found |= {e: e for n in AXES for e in (f"np.{n}(x, axis=0)", f"np.{n}(x, axis=1)")}
        found |= {e: e for e in MORE} | COPIES
        operations = OPERATORS
    return found | {e: e for n in operations for e in (f"x {n} y", f"x {n} 2", f"2 {n} x", f"x {n} 2.5")}


def numbers(dtype: str) -> dict[str, Any]:
    """Arrays that the expressions name."""
    rng = onp.random.default_rng(0)
    real = [rng.random((1000, 1000)) * 3 + 0.1 for _ in "xy"]
    x, y = [(v > 1.5) if dtype == "bool" else (v * 6 + 1 if "int" in dtype else v).astype(dtype) for v in real]
    return {"x": x, "y": y, "v": x.ravel().copy(), "s": onp.sort(x.ravel()), "c": rng.random((1000, 1000)) > 0.5,
            "i": rng.integers(0, 1000, 10 ** 6), "k": rng.integers(0, 1000, 1000), "o": onp.empty_like(x),
            "j": rng.integers(0, 1000, (1000, 1000))}


def least(ours: Any, theirs: Any, rounds: int) -> tuple[float, float]:
    """Seconds of both, the least of interleaved runs."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for side, run in enumerate((ours, theirs)):
            start = time.perf_counter()
            run()
            best[side] = min(best[side], time.perf_counter() - start)
    return best[0], best[1]


def measured(dtype: str, of_nd: bool, only: str) -> Iterator[tuple[float, str, float, float]]:
    """Ratio, expression and both times of the rows that NumPy has for a dtype."""
    arrays = numbers(dtype)
    make = nd.array if of_nd else np.array
    here = {n: make(v, dtype=v.dtype) for n, v in arrays.items()} | {"nd": nd, "np": np}
    there = arrays | {"np": onp}
    for text, other in rows(of_nd).items():
        if only not in text:
            continue
        ours, theirs = eval(f"lambda: {text}", here), eval(f"lambda: {other}", there)
        try:
            given, wanted = (getattr(f(), "dtype", None) for f in (theirs, ours))
        except (TypeError, ValueError, OverflowError):           # one of the two does not take this dtype
            continue
        if given and wanted and given != wanted:
            text, theirs = f"{text} as {wanted}", lambda run=theirs, dtype=wanted: run().astype(dtype)
        a, b = least(ours, theirs, 3)
        if a > 2 * b:                                            # others may have had the processor
            more = least(ours, theirs, 5)
            a, b = min(a, more[0]), min(b, more[1])
        yield a / b, text, a, b


def main() -> None:
    """Print the rows, the slowest beside NumPy's first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dtypes", nargs="*", default=DTYPES)
    parser.add_argument("--nd", action="store_true", help="operators of nd arrays")
    parser.add_argument("--all", action="store_true", help="all rows, not only those above 2")
    parser.add_argument("--only", default="", help="rows whose expression has this text")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    onp.seterr(all="ignore")
    for dtype in given.dtypes:
        found = sorted(measured(dtype, given.nd, given.only), reverse=True)
        for ratio, text, ours, theirs in found:
            if given.all or ratio > 2:
                print(f"{dtype:8} {text:40} {ours * 1e3:9.3f} ms   NumPy {theirs * 1e3:9.3f} ms   {ratio:7.2f}")
        print(f"{dtype}: {len(found)} rows, {sum(r[0] > 2 for r in found)} above 2", flush=True)


if __name__ == "__main__":
    main()
