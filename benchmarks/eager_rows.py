"""Every eager function of a million elements beside NumPy's, for each dtype: those that take more than 1.8 of its time.

    python benchmarks/eager_rows.py [float32 float64 …] [--nd] [--strided] [--small] [--compiled] [--all] [--only TEXT]

A row is an expression, evaluated with ``hybrid.np`` and with NumPy (``--nd``: operators of ``nd`` arrays, and with
NumPy). Where the dtype of a result is another one than NumPy's, it stands behind the row, and NumPy's result is cast to
it: an int64 of a truth value has eight times the memory. Times are the least of interleaved runs, when calls go through
C and before anything is compiled in the background; rows that seem slow are measured longer. NumPy's reshapes,
transposes and slices are views; those of ``np`` arrays are copies, as MXNet's, and are measured beside NumPy's copies.
``--strided``: x and y are every
second column of wider arrays, taken (copied) within the row. ``--small``: 16 elements; rows are those that take two
microseconds more than NumPy. ``--compiled``: compiled functions beside eager ones, those above 1.1; each row needs its
compiler.
"""
from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, Callable, Iterator, Sequence

import numpy as onp

from hybrid import hybridize, nd, np
from hybrid.autograd import known_calls
from hybrid.runtime import launcher

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
MORE = """np.dot(x, y)|np.vdot(x, y)|np.inner(x, y)|np.allclose(x, y)|np.array_equal(x, y)|np.outer(x[0], x[1])
x + x[0]|x * x[:, :1]|x ** -1|x ** 0.5|x ** 3|x[k]|x[c]|np.concatenate([x, y])|np.concatenate([x, y], axis=1)
np.stack([x, y])|np.dstack([x, y])|np.append(x, y)|np.where(c, x, y)|np.where(c, x, 2)|np.where(c, 2, x)|np.where(c)
np.take(v, i)|np.take(x, k, axis=0)|np.take(x, k, axis=1)|np.take_along_axis(x, j, axis=1)|np.clip(x, 1, 2)
np.clip(x, 1, None)|np.roll(x, 7)|np.roll(x, 7, axis=1)|np.tile(x, 2)|np.repeat(x, 2)|np.repeat(x, 2, axis=0)
np.pad(x, 2)|np.pad(x, 2, mode="edge")|np.pad(x, 2, mode="reflect")|np.pad(x, 2, mode="maximum")
np.delete(x, 3, axis=1)|np.delete(v, slice(3, 900))|np.insert(x, 3, 1, axis=0)|np.insert(v, 3, 1)|np.percentile(v, 30)
np.searchsorted(s, v)|np.digitize(v, s[:10])|np.interp(v, s[:1000], s[:1000])|np.einsum("ij->i", x)
np.einsum("ij,ij->i", x, y)|np.tensordot(x, y[:, :10], 1)|np.matmul(x[:, :100], y[:100])|np.isin(v, v[:10])
np.partition(v, 1000)|np.polyval(v[:3], x)|np.vander(v[:1000], 100)|np.meshgrid(x[0], x[1])|np.indices((1000, 500))
np.arange(1000000)|np.linspace(0, 1, 1000000)|np.ones((1000, 1000))|np.eye(1000)|np.tri(1000)
np.fill_diagonal(x.copy(), 1)|np.select([c, c], [x, y], 0)|np.resize(x, (2000, 700))|np.copyto(x.copy(), y)
x.astype("float32")|x.astype("int32")|x.astype("bool")|x.copy()|np.diagflat(x[0])|np.unravel_index(i, (1000, 1000))
np.block([[x, y], [y, x]])|-x|abs(x)|divmod(x, 2)|divmod(2, x)|np.add(x, y, out=o)|np.around(x, 2)
np.convolve(x[0], x[1])|np.fft.rfft(x[:100])|np.fft.fft(x[:100])|np.fft.irfft(x[:100])|np.absolute(x)|np.amax(x)
np.bincount(i)|np.column_stack([x, y])|np.corrcoef(x[:50])|np.correlate(x[0], y[0])|np.cov(x[:50])
np.cross(x[:, :3], y[:, :3])|np.diag(x[0])|np.fabs(x)|np.full((1000, 1000), 3)|np.full_like(x, 3)|np.histogram(v, 10)
np.hstack([x, y])|np.identity(1000)|np.kron(x[:30, :30], y[:30, :30])|np.logaddexp2(x, y)|np.logspace(0, 1, 1000000)
np.modf(x)|np.nancumprod(x)|np.positive(x)|np.quantile(v, 0.3)|np.trace(x)|np.trapezoid(x, axis=0)
np.tril_indices(700)|np.vecdot(x, y)|np.zeros((1000, 1000))|np.empty_like(x)|np.array_equiv(x, y)
np.linalg.det(x[:300, :300])|np.linalg.inv(x[:300, :300])|np.linalg.solve(x[:300, :300], y[:300, :3])
np.linalg.qr(x[:300, :300])|np.linalg.svd(x[:200, :200])|np.linalg.eigvalsh(x[:200, :200])
np.linalg.pinv(x[:200, :200])|np.linalg.slogdet(x[:300, :300])|np.linalg.matrix_power(x[:300, :300], 3)
np.linalg.matrix_rank(x[:100, :100])|np.linalg.lstsq(x[:300, :100], y[:300, :3])|np.linalg.norm(x, axis=1)
np.linalg.norm(x, 1)""".replace(
    "\n", "|").split("|")
COPIES = {e: f"np.ascontiguousarray({n})" for e, n in {
    "np.transpose(x)": "x.T", "np.reshape(x, (500, 2000))": "x.copy()", "x.ravel()": "x.copy()",
    "x[:, 1:]": "x[:, 1:].copy()", "x[::2]": "x[::2].copy()", "np.flip(x, 1)": "x[:, ::-1]",
    "np.rot90(x)": "np.rot90(x)",
    "np.broadcast_to(x[0], (1000, 1000))": "np.broadcast_to(x[0], (1000, 1000))",
    "np.expand_dims(x, 0)": "x.copy()", "np.swapaxes(x, 0, 1)": "x.T", "np.moveaxis(x, 0, 1)": "x.T",
    "np.fliplr(x)": "x[:, ::-1]", "np.flipud(x)": "x[::-1]", "np.squeeze(x)": "x.copy()",
    "np.ravel(x)": "x.copy()", "x.T": "x.T", "np.rollaxis(x, 1)": "x.T", "np.real(x)": "x.copy()",
    "np.atleast_3d(x)": "x.copy()", "np.atleast_1d(x)": "x.copy()", "np.diag(x)": "np.diag(x)",
    "np.diagonal(x)": "np.diagonal(x)"}.items()}
COPIES |= {e: f"[p.copy() for p in {e}]" for e in (
    "np.split(x, 4)", "np.split(x, 4, axis=1)", "np.array_split(x, 3)", "np.broadcast_arrays(x, x[0])")}
OF_ND = """exp log sqrt tanh sin cos tan abs sign floor ceil rint trunc fix square log1p expm1 cbrt log2 log10 arctan
 arcsin arccos sinh cosh arcsinh arccosh arctanh negative reciprocal degrees radians sort argsort logical_not ones_like
 zeros_like""".split()
BROADCAST = "maximum minimum hypot logical_and logical_or logical_xor power not_equal greater greater_equal".split()
# what NumPy has no function for, and how it is written there
WRITTEN = {
    "nd.relu(x)": "np.maximum(x, 0)", "nd.sigmoid(x)": "1 / (1 + np.exp(-x))", "nd.rsqrt(x)": "1 / np.sqrt(x)",
    "nd.rcbrt(x)": "1 / np.cbrt(x)", "nd.softsign(x)": "x / (1 + np.abs(x))", "nd.softrelu(x)": "np.log1p(np.exp(x))",
    "nd.hard_sigmoid(x)": "np.clip(0.2 * x + 0.5, 0, 1)", "nd.smooth_l1(x)": "np.where(x < 1, 0.5 * x * x, x - 0.5)",
    "nd.log_sigmoid(x)": "-np.log1p(np.exp(-x))", "nd.softmax(x)": "np.exp(x - x.max(-1, keepdims=True)) / 3",
    "nd.clip(x, 1, 2)": "np.clip(x, 1, 2)", "nd.BlockGrad(x)": "x.copy()", "nd.add_n(x, y, x)": "x + y + x",
    "nd.cast(x, dtype='float64')": "x.astype('float64')", "nd.identity(x)": "x.copy()",
    "nd.argmax(x, axis=1)": "x.argmax(1).astype('float32')", "nd.argmin(x, axis=0)": "x.argmin(0).astype('float32')",
    "nd.norm(x)": "np.sqrt((x * x).sum())", "nd.nansum(x)": "np.nansum(x)", "nd.nanprod(x)": "np.nanprod(x)",
    "nd.prod(x)": "np.prod(x)", "nd.cumsum(x, axis=0)": "np.cumsum(x, 0)", "nd.stack(x, y)": "np.stack([x, y])",
    "nd.transpose(x)": "x.T.copy()", "nd.flip(x, axis=1)": "x[:, ::-1].copy()",
    "nd.tile(x, (2, 1))": "np.tile(x, (2, 1))",
    "nd.repeat(x, 2)": "np.repeat(x, 2)", "nd.diag(x)": "np.diag(x).copy()", "nd.pick(x, k)": "x[np.arange(1000), k]",
    "nd.slice_axis(x, axis=1, begin=1, end=900)": "x[:, 1:900].copy()", "nd.one_hot(k, 1000)": "np.eye(1000)[k]",
    "nd.slice(x, begin=(1, 1), end=(900, 900))": "x[1:900, 1:900].copy()", "nd.eye(1000)": "np.eye(1000)",
    "nd.broadcast_to(x[:1], (1000, 1000))": "np.broadcast_to(x[:1], (1000, 1000)).copy()",
    "nd.broadcast_add(x, y[:1])": "x + y[:1]", "nd.broadcast_mul(x, y[:, :1])": "x * y[:, :1]",
    "x[1:900]": "x[1:900].copy()",
    "nd.full((1000, 1000), 2)": "np.full((1000, 1000), 2.0)", "nd.arange(1000000)": "np.arange(1000000.0)",
    "nd.linspace(0, 1, 1000000)": "np.linspace(0, 1, 1000000)", "x[:, 3]": "x[:, 3].copy()",
    "nd.gather_nd(x, j[:2])": "x[j[0], j[1]]", "nd.L2Normalization(x)": "x / np.sqrt((x * x).sum(1, keepdims=True))"}


def rows(of_nd: bool) -> dict[str, str]:
    """Expressions, and what NumPy computes beside each."""
    if of_nd:
        found = {f"nd.{n}(x)": f"np.{n}(x)" for n in OF_ND} | {"nd.round(x)": "np.round(x)"}
        found |= {f"nd.broadcast_{n}(x, y)": f"np.{n}(x, y)" for n in BROADCAST}
        found |= {f"nd.{f}(x, axis={k})": f"np.{f}(x, axis={k})" for f in ("sum", "mean", "max", "min") for k in (0, 1)}
        found |= {"nd.concat(x, y, dim=1)": "np.concatenate([x, y], 1)", "nd.where(c, x, y)": "np.where(c, x, y)",
                  "nd.take(x, k)": "np.take(x, k, axis=0)", "nd.dot(x, y)": "np.dot(x, y)"}
        found |= WRITTEN
        operations = [n for n in OPERATORS[:11] if n != "//"]
    else:
        found = {f"np.{n}(x)": f"np.{n}(x)" for n in ONE}
        found |= {e: e for n in TWO for e in (f"np.{n}(x, y)", f"np.{n}(x, 2)", f"np.{n}(2, x)")}
        found |= {e: e for n in AXES for e in (f"np.{n}(x, axis=0)", f"np.{n}(x, axis=1)")}
        found |= {e: e for e in MORE} | COPIES
        operations = OPERATORS
    return found | {e: e for n in operations for e in (f"x {n} y", f"x {n} 2", f"2 {n} x", f"x {n} 2.5")}


def numbers(dtype: str, given: argparse.Namespace) -> dict[str, Any]:
    """Arrays that the expressions name."""
    rng = onp.random.default_rng(0)
    n = 4 if given.small else 1000
    real = [rng.random((n, 2 * n if given.strided else n)) * 3 + 0.1 for _ in "xy"]
    x, y = [(v > 1.5) if dtype == "bool" else (v * 6 + 1 if "int" in dtype else v).astype(dtype) for v in real]
    return {"x": x, "y": y, "v": x.ravel()[:n * n].copy(), "s": onp.sort(x.ravel()), "c": rng.random((n, n)) > 0.5,
            "i": rng.integers(0, n, n * n), "k": rng.integers(0, n, n), "o": onp.empty((n, n), x.dtype),
            "j": rng.integers(0, n, (n, n))}


def least(runs: Sequence[Callable[[], Any]], rounds: int, times: int) -> list[float]:
    """Seconds of one call of each, the least of interleaved rounds."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for side, run in enumerate(runs):
            start = time.perf_counter()
            for _ in range(times):
                run()
            best[side] = min(best[side], (time.perf_counter() - start) / times)
    return best


def timed(runs: Sequence[Callable[[], Any]], given: argparse.Namespace) -> list[float]:
    """Seconds of both sides of a row; longer where the first seems slow, as others may have had the processor."""
    if given.small:
        found = least(runs, 5, 20)
        return least(runs, 60, 50) if 2e-6 < found[0] - found[1] < 1e-4 else found
    found = least(runs, 3, 1)
    for rounds in (5, 12):
        if found[0] > given.above * found[1]:
            found = [min(a, b) for a, b in zip(found, least(runs, rounds, 1))]
    return found


def of_views(text: str, names: dict[str, Any], strided: bool) -> Callable[[], Any]:
    """An expression as a function: of the arrays x and y, or of copies of every second of their columns."""
    run, x, y = eval(f"lambda x, y: {text}", names), names["x"], names["y"]
    if strided and isinstance(x, onp.ndarray):
        return lambda: run(x[:, ::2].copy(), y[:, ::2].copy())
    return (lambda: run(x[:, ::2], y[:, ::2])) if strided else lambda: run(x, y)


def beside_numpy(dtype: str, given: argparse.Namespace) -> Iterator[tuple[str, list[Callable[[], Any]]]]:
    """Expressions that NumPy has for a dtype, and both ways to compute each."""
    arrays = numbers(dtype, given)
    make = nd.array if given.nd else np.array
    here = {n: make(v, dtype=v.dtype) for n, v in arrays.items()} | {"nd": nd, "np": np}
    there = arrays | {"np": onp}
    for text, other in rows(given.nd).items():
        if given.only not in text or given.small and "1000" in text:     # sizes that no array has
            continue
        ours, theirs = of_views(text, here, given.strided), of_views(other, there, given.strided)
        try:
            got, wanted = (getattr(f(), "dtype", None) for f in (theirs, ours))
        except (TypeError, ValueError, OverflowError, IndexError, onp.linalg.LinAlgError):  # not of this dtype or size
            continue
        if got and wanted and got != wanted:
            text, theirs = f"{text} as {onp.dtype(wanted)}", lambda run=theirs, dtype=wanted: run().astype(dtype)
        yield text, [ours, theirs]


def beside_eager(dtype: str, given: argparse.Namespace) -> Iterator[tuple[str, list[Callable[[], Any]]]]:
    """Expressions that compile for a dtype, and the compiled and the eager way to compute each."""
    arrays = numbers(dtype, given)
    make = nd.array if given.nd else np.array
    here = {n: make(v, dtype=v.dtype) for n, v in arrays.items()} | {"nd": nd, "np": np}
    x, y = here["x"], here["y"]
    for text in rows(given.nd):
        if given.only not in text or given.small and "1000" in text:
            continue
        plain = eval(f"lambda x, y: {text}", here)
        made = hybridize(plain)
        try:
            plain(x, y), made(x, y)
        except Exception:                                        # of dtypes or sizes: the rows of NumPy say which
            continue
        if made.programs:                                        # others run as plain Python
            yield text, [lambda run=made: run(x, y), lambda run=plain: run(x, y)]


def main() -> None:
    """Print the rows, the slowest beside NumPy's first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dtypes", nargs="*", default=DTYPES)
    for name, does in (("nd", "operators of nd arrays"), ("strided", "of every second column"), ("all", "all rows"),
                       ("small", "16 elements"), ("compiled", "compiled beside eager")):
        parser.add_argument(f"--{name}", action="store_true", help=does)
    parser.add_argument("--only", default="", help="rows whose expression has this text")
    given = parser.parse_args()
    given.above = 1.1 if given.compiled else 1.8
    warnings.simplefilter("ignore")
    onp.seterr(all="ignore")
    side = "eager" if given.compiled else "NumPy"
    launcher.load()
    known_calls.switch_to_c()
    for dtype in given.dtypes:
        pairs = (beside_eager if given.compiled else beside_numpy)(dtype, given)
        found = [(a / b, a - b, text, a * 1e3, b * 1e3) for text, runs in pairs for a, b in [timed(runs, given)]]
        slow = [r for r in found if (r[1] > 2e-6 if given.small else r[0] > given.above)]
        for ratio, _, text, ours, theirs in sorted(found if given.all else slow, reverse=True):
            print(f"{dtype:8} {text:40} {ours:10.4f} ms   {side} {theirs:10.4f} ms   {ratio:7.2f}")
        print(f"{dtype}: {len(found)} rows, {len(slow)} slow", flush=True)


if __name__ == "__main__":
    main()
