"""NumPy's functions that are made of other functions: compiled, they give NumPy's values, shapes and dtypes."""
from __future__ import annotations

from operator import attrgetter
from typing import Any, Callable

import numpy as onp
import pytest

from hybrid import autograd, hybridize, np
from hybrid.numpy.composed import COMPOSED
from hybrid.numpy.composed_further import LINALG

RNG = onp.random.default_rng(3)
A = RNG.standard_normal((3, 4)).astype("float32")
B = RNG.standard_normal((3, 4)).astype("float32")
V, W = A[0] + 0.5, RNG.standard_normal(7).astype("float32")
GRID = onp.sort(RNG.standard_normal(6)).astype("float32")
HOLES = onp.where(A > 0.8, onp.nan, A).astype("float32")
WHOLE = onp.array([5, -2, 7, 0], "int32")
STACK = (RNG.standard_normal((3, 4, 4)) + 2 * onp.eye(4)).astype("float32")
SPECIAL = onp.array([onp.nan, -onp.inf, onp.inf, 0.0, -0.0, 1.5], "float32")

# (name, a call of it under a namespace, its arrays)
CASES: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("exp2", lambda m, x: m.exp2(x), (A,)), ("exp2", lambda m, x: m.exp2(x), (WHOLE,)),
    ("logaddexp", lambda m, x, y: m.logaddexp(x, y), (A * 90, B * 90)),
    ("logaddexp", lambda m, x: m.logaddexp(x, x), (SPECIAL,)), ("logaddexp", lambda m, x: m.logaddexp(x, 1), (A,)),
    ("logaddexp2", lambda m, x, y: m.logaddexp2(x, y), (A, B)),
    ("heaviside", lambda m, x: m.heaviside(x, 0.5), (SPECIAL,)),
    ("heaviside", lambda m, x, y: m.heaviside(x, y), (A, B)),
    ("fmax", lambda m, x, y: m.fmax(x, y), (HOLES, B)), ("fmin", lambda m, x: m.fmin(x, 0.1), (HOLES,)),
    ("fmin", lambda m, x: m.fmin(x, 3), (WHOLE,)),
    ("float_power", lambda m, x: m.float_power(x, 2), (A,)), ("sinc", lambda m, x: m.sinc(x), (SPECIAL[3:],)),
    ("real", lambda m, x: m.real(x), (A,)), ("imag", lambda m, x: m.imag(x), (A,)),
    ("isclose", lambda m, x, y: m.isclose(x, y, equal_nan=True), (SPECIAL, SPECIAL[::-1].copy())),
    ("isclose", lambda m, x, y: m.isclose(x, y), (A, A + 1e-6)), ("isclose", lambda m, x: m.isclose(x, x), (SPECIAL,)),
    ("divmod", lambda m, x: m.divmod(x, 3)[0], (WHOLE,)), ("divmod", lambda m, x, y: m.divmod(x, y)[1], (A, B)),
    ("modf", lambda m, x: m.modf(x)[0], (SPECIAL[1:],)), ("modf", lambda m, x: m.modf(x)[1], (A * 9,)),
    ("cumprod", lambda m, x: m.cumprod(x), (A,)), ("cumprod", lambda m, x: m.cumprod(x, axis=0), (A,)),
    ("cumprod", lambda m, x: m.cumprod(x), (WHOLE,)), ("ptp", lambda m, x: m.ptp(x, axis=1), (A,)),
    ("nanmean", lambda m, x: m.nanmean(x, axis=0), (HOLES,)), ("nanvar", lambda m, x: m.nanvar(x), (HOLES,)),
    ("nanstd", lambda m, x: m.nanstd(x, axis=1, keepdims=True), (HOLES,)),
    ("nanmax", lambda m, x: m.nanmax(x, axis=0), (HOLES,)), ("nanmin", lambda m, x: m.nanmin(x), (HOLES,)),
    ("nanmax", lambda m, x: m.nanmax(x), (WHOLE,)),
    ("trapezoid", lambda m, x: m.trapezoid(x, dx=0.5), (A,)),
    ("trapezoid", lambda m, x, y: m.trapezoid(x, y, axis=1), (A, V)),
    ("vecdot", lambda m, x, y: m.vecdot(x, y), (A, B)),
    ("select", lambda m, x: m.select([x > 1, x > 0], [x, x * 2], -1.0), (A,)),
    ("cross", lambda m, x, y: m.cross(x, y, axis=0), (A, B)),
    ("cross", lambda m, x, y: m.cross(x, y), (A[:, :3], B[:, :3])),
    *(("convolve", lambda m, x, y, mode=mode: m.convolve(x, y, mode), pair)
      for mode in ("full", "same", "valid") for pair in ((V, W), (W, V), (WHOLE, WHOLE[:3]), (V[:3], W))),
    *(("correlate", lambda m, x, y, mode=mode: m.correlate(x, y, mode), pair)
      for mode in ("full", "same", "valid") for pair in ((W, V), (V, W), (W, V[:3]))),
    ("take_along_axis", lambda m, x: m.take_along_axis(x, onp.array([[0, 3], [1, -1], [2, 0]]), 1), (A,)),
    ("take_along_axis", lambda m, x, i: m.take_along_axis(x, i, 0), (A, onp.array([[2, 0, 1, 0]]))),
    ("take_along_axis", lambda m, x, i: m.take_along_axis(x, i, None), (A, onp.array([5, 0]))),
    *(("searchsorted", lambda m, x, y, side=side: m.searchsorted(x, y, side=side), pair) for side in ("left", "right")
      for pair in ((GRID, B), (onp.array([1, 2, 2, 3], "int32"), WHOLE), (GRID, GRID), (GRID, SPECIAL),
                   (onp.sort(SPECIAL), SPECIAL), (GRID[:1], B), (GRID[:0], V))),
    ("searchsorted", lambda m, x, y: m.searchsorted(x, y, sorter=onp.argsort(V)), (V, W)),
    *(("digitize", lambda m, x, r=r, e=e: m.digitize(x, e, right=r), (onp.append(A, GRID).astype("float32"),))
      for r in (False, True) for e in (GRID, GRID[::-1].copy())),
    ("interp", lambda m, x, y, z: m.interp(x, y, z), (A, GRID, B.reshape(-1)[:6])),
    ("interp", lambda m, x, y, z: m.interp(x, y, z, left=-7, right=9), (A, GRID, B.reshape(-1)[:6])),
    ("interp", lambda m, x, y, z: m.interp(x, y, z, period=1.5), (A, onp.linspace(0, 1.2, 6), B.reshape(-1)[:6])),
    ("interp", lambda m, x: m.interp(x, [1.0], [5.0]), (A,)),
    ("signbit", lambda m, x: m.signbit(x), (SPECIAL,)), ("signbit", lambda m, x: m.signbit(x), (WHOLE,)),
    ("isreal", lambda m, x: m.isreal(x), (SPECIAL,)), ("iscomplex", lambda m, x: m.iscomplex(x), (SPECIAL,)),
    ("isin", lambda m, x, y: m.isin(x, y), (WHOLE, WHOLE[:2])),
    ("isin", lambda m, x: m.isin(x, [5, 0], invert=True), (WHOLE.reshape(2, 2),)),
    *(("allclose", lambda m, x, y: m.allclose(x, y), (A, A + k)) for k in (0, 1)),
    ("allclose", lambda m, x: m.allclose(x, x, equal_nan=True), (HOLES,)),
    *(("array_equal", lambda m, x, y, e=e: m.array_equal(x, y, equal_nan=e), pair) for e in (False, True)
      for pair in ((A, A), (A, B), (HOLES, HOLES), (V, W), (WHOLE, WHOLE))),
    *(("array_equiv", lambda m, x, y: m.array_equiv(x, y), pair) for pair in ((A, A), (A, A[0]), (V, W))),
    *((name, lambda m, x, name=name, o=o: getattr(m, name)(x, **o), (HOLES,)) for name in ("nancumsum", "nancumprod")
      for o in ({}, {"axis": 1})), ("nancumsum", lambda m, x: m.nancumsum(x), (WHOLE,)),
    *((name, lambda m, x, name=name, o=o: getattr(m, name)(x, **o), (a,))
      for name in ("cumulative_sum", "cumulative_prod") for a in (A, V, WHOLE)
      for o in ({"axis": 0}, {"axis": 0, "include_initial": True})),
    *(("unwrap", lambda m, x, o=o: m.unwrap(x * 3, **o), (a,)) for a in (A, W)
      for o in ({}, {"axis": 0}, {"period": 2.0}, {"discont": 5.0})),
    *(("gradient", lambda m, x, g=g: m.gradient(x, *g), (W,)) for g in ((), (0.5,))),
    ("gradient", lambda m, x: m.gradient(x, 2.0, 3.0)[1], (A,)), ("gradient", lambda m, x: m.gradient(x)[0], (A,)),
    ("gradient", lambda m, x: m.gradient(x, axis=1, edge_order=2), (A,)),
    ("angle", lambda m, x: m.angle(x), (A,)), ("angle", lambda m, x: m.angle(x, deg=True), (SPECIAL[1:],)),
    ("cov", lambda m, x: m.cov(x), (A,)), ("cov", lambda m, x, y: m.cov(x, y, rowvar=False, ddof=0), (A, B)),
    ("cov", lambda m, x: m.cov(x), (V,)), ("corrcoef", lambda m, x, y: m.corrcoef(x, y), (A, B)),
    ("vander", lambda m, x: m.vander(x), (V,)), ("vander", lambda m, x: m.vander(x, 3, increasing=True), (WHOLE,)),
    ("matrix_transpose", lambda m, x: m.matrix_transpose(x), (STACK,)),
    ("matvec", lambda m, x, y: m.matvec(x, y), (STACK, B)), ("matvec", lambda m, x, y: m.matvec(x, y), (A, V)),
    ("vecmat", lambda m, x, y: m.vecmat(y, x), (STACK, V)),
    *(("unstack", lambda m, x, k=k: m.unstack(x, axis=k)[1], (STACK,)) for k in (0, -1)),
    ("linalg.matmul", lambda m, x, y: m.linalg.matmul(x, y), (STACK, STACK)),
    ("linalg.matrix_transpose", lambda m, x: m.linalg.matrix_transpose(x), (STACK,)),
    ("linalg.outer", lambda m, x, y: m.linalg.outer(x, y), (V, W)),
    ("linalg.tensordot", lambda m, x, y: m.linalg.tensordot(x, y, axes=((0, 1), (0, 1))), (A, B)),
    ("linalg.cross", lambda m, x, y: m.linalg.cross(x, y, axis=0), (A, B)),
    ("linalg.vecdot", lambda m, x, y: m.linalg.vecdot(x, y, axis=0), (A, B)),
    ("linalg.diagonal", lambda m, x: m.linalg.diagonal(x, offset=1), (STACK,)),
    ("linalg.trace", lambda m, x: m.linalg.trace(x), (STACK,)),
    *(("linalg.matrix_norm", lambda m, x, o=o: m.linalg.matrix_norm(x, ord=o), (STACK,))
      for o in ("fro", 1, onp.inf, "nuc", 2, -2, -1, -onp.inf)),
    *(("linalg.vector_norm", lambda m, x, o=o, k=k: m.linalg.vector_norm(x, ord=o, **k), (STACK,))
      for o in (2, 1, 3, 0, onp.inf, -onp.inf) for k in ({}, {"axis": 1}, {"axis": (0, 2), "keepdims": True})),
    *(("linalg.matrix_power", lambda m, x, n=n: m.linalg.matrix_power(x, n), (STACK,)) for n in (0, 1, 2, 5, -2)),
    ("linalg.multi_dot", lambda m, x, y, v: m.linalg.multi_dot([x, y.T, v]), (A, B, V[:3])),
]
IDS = [f"{name}{i}" for i, (name, _, _) in enumerate(CASES)]


def test_every_composed_function_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == {*COMPOSED, *(f"linalg.{n}" for n in LINALG)}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_compiled_is_numpys_answer(case: Any) -> None:
    name, call, arrays = case
    try:
        attrgetter(name)(onp)
    except AttributeError:
        pytest.skip(f"NumPy {onp.__version__} has no {name}")
    with onp.errstate(all="ignore"):
        want = onp.asarray(call(onp, *arrays))
        eager = call(np, *map(np.array, arrays))
    got = hybridize(lambda *x: call(np, *x))(*map(np.array, arrays))
    for found in (eager, got):
        found = np.array(found, dtype="bool") if isinstance(found, bool) else found
        assert (found.shape, found.dtype) == (want.shape, want.dtype)
        onp.testing.assert_allclose(found.asnumpy(), want, rtol=2e-5, atol=2e-6)


# those that have no gradient: tests and comparisons, steps, positions
FLAT = ("signbit isreal iscomplex isin allclose array_equal array_equiv isclose searchsorted digitize imag heaviside "
        "angle").split()
SMOOTH = [c for c in CASES if c[0] not in FLAT and c[2][0].dtype == "float32"
          and not any(onp.isinf(x).any() or onp.nanmax(onp.abs(x)) > 50 for x in c[2] if x.dtype.kind == "f")]


def differences(call: Callable[..., Any], arrays: Any, k: int, weights: Any) -> onp.ndarray:
    """The gradient of the weighted sum of NumPy's results for array k, from differences in float64."""
    step, arrays = 1e-6, [*arrays]
    want, first = onp.zeros_like(arrays[k]), arrays[k]

    def scalar(x: onp.ndarray) -> float:
        arrays[k] = x
        return float((onp.asarray(call(onp, *arrays)).reshape(-1) * weights).sum())
    for i in onp.ndindex(*first.shape):
        moved = first.copy()
        moved[i] += step
        want[i] = scalar(moved)
        moved[i] -= 2 * step
        want[i] = (want[i] - scalar(moved)) / (2 * step)
    return want


@pytest.mark.parametrize("case", SMOOTH, ids=[f"{c[0]}{i}" for i, c in enumerate(SMOOTH)])
def test_gradients_are_those_of_finite_differences(case: Any) -> None:
    name, call, arrays = case
    try:
        attrgetter(name)(onp)
    except AttributeError:
        pytest.skip(f"NumPy {onp.__version__} has no {name}")
    arrays = [x.astype("float64") if x.dtype.kind == "f" else x for x in arrays]
    wanted = [k for k, x in enumerate(arrays) if x.dtype.kind == "f"]
    weights = onp.cos(onp.arange(onp.asarray(call(onp, *arrays)).size))
    want = {k: differences(call, arrays, k, weights) for k in wanted}
    for run in (lambda *x: call(np, *x), hybridize(lambda *x: call(np, *x))):
        given = [np.array(x) for x in arrays]
        for k in wanted:
            given[k].attach_grad()
        with autograd.record():
            y = (run(*given).reshape(-1) * np.array(weights)).sum()
        y.backward()
        for k in wanted:
            there = ~onp.isnan(arrays[k])
            onp.testing.assert_allclose(given[k].grad.asnumpy()[there], want[k][there], rtol=1e-4, atol=1e-6,
                                        err_msg=f"{name}: argument {k}")


@pytest.mark.parametrize("options", [{}, {"bins": 4}, {"bins": 5, "range": (-1, 1)}, {"bins": [-1.0, 0.0, 0.25, 2.0]}])
@pytest.mark.parametrize("data", [A, onp.ones((2, 2), "float32"), onp.arange(12).astype("float32")])
def test_histogram_is_compiled(data: Any, options: Any) -> None:
    counts, edges = hybridize(lambda x: np.histogram(x, **options))(np.array(data))
    want, known = onp.histogram(data, **options)
    assert counts.dtype == want.dtype
    onp.testing.assert_array_equal(counts.asnumpy(), want)
    onp.testing.assert_allclose(edges.asnumpy(), known, rtol=1e-6, atol=1e-6)
