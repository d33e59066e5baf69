"""What eager calls of large arrays do in one of NumPy's passes: the same results as by primitives, as compiled, and as
NumPy's."""
from __future__ import annotations

from typing import Any, Callable

import numpy as onp
import pytest

from hybrid import autograd, hybridize, ir, nd, np
from hybrid.ir import Program, direct, evaluate, sorting_keys, special
from hybrid.ir.scalar import SCALARS
from hybrid.runtime import repeated

RNG = onp.random.RandomState(3)
F = RNG.randn(6, 5).astype("float32")
G = RNG.randn(6, 5).astype("float32")
N = onp.where(F > 0.5, onp.nan, onp.where(F < -1, onp.inf, F)).astype("float32")
I = RNG.randint(-7, 9, (6, 5)).astype("int32")
B, C = F > 0, G > 0
AT = onp.array([[0, 3], [-2, 5]])
# so large that choices are made of bits
L, M = RNG.randn(80, 90).astype("float32"), RNG.randn(80, 90).astype("float32")
V = RNG.randint(-999, 999, (50, 60)).astype("int32")

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "einsum of integers": (lambda m, x: m.einsum("ij,ij->i", x, x), (I,)),
    "all products of integers": (lambda m, x: m.einsum("ij,ij->", x, x), (I,)),
    "outer of integers": (lambda m, x: m.outer(x[0], x[1]), (I,)),
    "norm of order 1": (lambda m, x: m.linalg.norm(x, 1, axis=1), (F,)),
    "sign": (lambda m, x: m.sign(x), (F,)),
    "isnan of integers": (lambda m, x: m.isnan(x), (I,)), "isfinite of integers": (lambda m, x: m.isfinite(x), (I,)),
    "isinf of truth values": (lambda m, x: m.isinf(x), (B,)),
    "power of truth values": (lambda m, x, y: m.power(x, y), (B, C)),
    "triu of truth values": (lambda m, x: m.triu(x), (B,)), "tril of truth values": (lambda m, x: m.tril(x, -1), (B,)),
    "nansum": (lambda m, x: m.nansum(m.where(m.isinf(x), 1, x)), (N,)),
    "nansum of integers": (lambda m, x: m.nansum(x), (I,)),
    "nanprod of integers": (lambda m, x: m.nanprod(x, axis=1), (I,)),
    "nan_to_num": (lambda m, x: m.nan_to_num(x), (N,)),
    "nan_to_num with numbers": (lambda m, x: m.nan_to_num(x, nan=2, posinf=3, neginf=-4), (-N,)),
    "where with a number": (lambda m, x: m.where(x > 0, x, 0), (F,)),
    "where with a number first": (lambda m, x: m.where(x > 0, 1, x), (N,)),
    "clip of integers": (lambda m, x: m.clip(x, -2, 3), (I,)), "clip below": (lambda m, x: m.clip(x, None, 1), (I,)),
    "take": (lambda m, x, i: m.take(x, i), (F, AT)), "take an axis": (lambda m, x, i: m.take(x, i, axis=0), (F, AT)),
    "take wrapped": (lambda m, x, i: m.take(x, i, axis=1, mode="wrap"), (F, AT + 4)),
    "take clipped": (lambda m, x, i: m.take(x, i, axis=1, mode="clip"), (F, AT + 4)),
    "repeat": (lambda m, x: m.repeat(x, 3, axis=1), (F,)), "repeat all": (lambda m, x: m.repeat(x, 2), (I,)),
    **{f"where of {d}": (lambda m, x, y, c: m.where(c, x, y), (L.astype(d), M.astype(d), L > 0)) for d in (
        "float16", "float32", "float64", "int8", "int32", "int64", "bool")},
    "where of rows": (lambda m, x, y, c: m.where(c, x[0], y), (L, M, L > 0)),
    "where of few": (lambda m, x: m.where(x > 3, 7, x), (L,)),
    "where of most": (lambda m, x: m.where(x < 3, x, 7), (L,)),
    "root as a power": (lambda m, x: m.power(m.abs(x), 0.5), (F,)), "reciprocal power": (lambda m, x: x ** -1, (F,)),
    "logical_xor with a number": (lambda m, x: m.logical_xor(x, 2), (I,)),
    "logical_xor with zero": (lambda m, x: m.logical_xor(0, x), (N,)),
    "logical_xor of numbers": (lambda m, x, y: m.logical_xor(x > 0, y), (F, I)),
    "sum of truth values and a number": (lambda m, x: m.add(x, 3), (B,)),
    "indices": (lambda m, x: x[0, 0] + m.indices((2, 3)), (I,)),
    "matrices of integers": (lambda m, x, y: m.matmul(x, y), (V[:40, :50], V[:50, :40])),
    "einsum of one": (lambda m, x: m.einsum("ij->i", x), (F,)),
    "einsum that turns one": (lambda m, x: m.einsum("ij->ji", x), (F,)),
    "sums of halves": (lambda m, x: m.cumsum(x.reshape(-1)) > 6e4, (abs(F).astype("float16") * 16000,)),
    "remainder of truth values": (lambda m, x, y: m.mod(x, y), (B, C)),
    "products of truth values": (lambda m, x, y: m.vdot(x, y), (B[0], C[0])),
    "lcm of truth values and a number": (lambda m, x: m.lcm(x, 6), (B,)),
    "logical_xor of bytes": (lambda m, x: m.logical_xor(x, x[0]), (I.astype("int8"),)),
    "one number": (lambda m, x: m.ones_like(x), (B,)),
    "floor": (lambda m, x: m.floor(x), (F,)), "two to the power": (lambda m, x: m.power(2.0, x), (F,)),
}
ALONE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{f"{name} of {d} over {axes}": (lambda m, x, name=name, axes=axes: getattr(m, name)(x, axis=axes), (a,))
       for name in ("sum", "prod", "max", "min") for axes in (None, 0, 1) for d, a in (
           ("float64", N.astype("float64")), ("int8", (I // 7).astype("int8")))},
    **{f"{name} of {axes}": (lambda m, x, name=name, axes=axes: getattr(m, name)(x, axis=axes), (a,))
       for name in ("argmax", "argmin") for axes, a in ((None, N), (0, I), (1, B), (-1, F.astype("float16")))},
    "maxima of windows": (lambda m, x: m.max(x, axis=2), (L.reshape(80, -1, 3),)),
    "minima of turned windows": (lambda m, x: m.min(m.swapaxes(x, 0, 2), axis=2), (L.reshape(3, -1, 80),)),
    "any and all": (lambda m, x: m.concatenate([m.any(x, axis=0), m.all(x, axis=1)]), (B,)),
    "median of integers": (lambda m, x: m.median(x, axis=0), (I,)), "median of all": (lambda m, x: m.median(x), (I,)),
    "quantiles of truth values": (lambda m, x: m.quantile(x.astype("int32"), 0.4, axis=1), (B,)),
    "count_nonzero": (lambda m, x: m.count_nonzero(x), (I,)),
    "count_nonzero of an axis": (lambda m, x: m.count_nonzero(x, axis=1, keepdims=True), (B,)),
    "argwhere": (lambda m, x: m.argwhere(x), (I,)), "argwhere of a row": (lambda m, x: m.argwhere(x[0]), (B,)),
    "argwhere of nothing": (lambda m, x: m.argwhere(x[:0]), (B,)),
    "divmod": (lambda m, x, y: m.divmod(x, y), (F, onp.where(B, 0, G).astype("float32"))),
    "divmod of integers": (lambda m, x, y: m.divmod(x, y), (I, onp.abs(I) + 1)),
    **{f"{name} of one array": (lambda m, x, name=name: getattr(m, name)(x), (F,)) for name in (
        "concatenate", "stack", "vstack", "hstack", "dstack", "column_stack")},
    "concatenate of one array": (lambda m, x: m.concatenate(x, axis=0), (F[:, None],)),
    "append": (lambda m, x, y: m.append(x, y), (F, G)), "delete": (lambda m, x: m.delete(x, 3), (F,)),
    "delete of an axis": (lambda m, x: m.delete(x, -1, axis=1), (F,)),
    "insert": (lambda m, x: m.insert(x, 3, 7), (F,)),
    "insert of an axis": (lambda m, x, y: m.insert(x, -1, y, axis=0), (F, G[0])),
    "full_like": (lambda m, x, y: m.full_like(x, y), (I, G)),
    "divmod by a number": (lambda m, x: m.divmod(x, 3), (I,)),
    "divmod of a number": (lambda m, x: m.divmod(7, x), (I,)),
    "divmod of truth values": (lambda m, x, y: m.divmod(x, y), (B, C)),
    "divmod as an operator": (lambda m, x: divmod(x, 3), (I,)),
    "divmod by an operator": (lambda m, x: divmod(7, x), (I,)),
    "median of truth values": (lambda m, x: m.median(x, axis=1), (B,)),
    "percentiles of integers": (lambda m, x: m.percentile(x, 30, axis=0), (I,)),
    "nanargmax of integers": (lambda m, x: m.nanargmax(x, axis=1), (I,)),
    "nanargmin": (lambda m, x: m.nanargmin(x), (F,)), "diagflat": (lambda m, x: m.diagflat(x, -1), (I,)),
    "diagflat of truth values": (lambda m, x: m.diagflat(x, 1).astype("int64"), (B,)),
    "divmod by a fraction": (lambda m, x: m.divmod(x, 0.5), (F,)),
    "delete of a slice": (lambda m, x: m.delete(x, slice(1, 9, 2)), (I,)),
    "delete of a slice of an axis": (lambda m, x: m.delete(x, slice(None, 2), axis=-1), (I,)),
    "resize": (lambda m, x: m.resize(x, (7, 9)), (I,)), "resize to less": (lambda m, x: m.resize(x, (2, 4)), (B,)),
    **{f"pad {mode}": (lambda m, x, mode=mode: m.pad(x, ((1, 2), (0, 3)), mode=mode), (I,)) for mode in (
        "edge", "reflect", "symmetric", "maximum", "minimum")},
    "unravel_index": (lambda m, x: m.unravel_index(m.abs(x), (4, 5)), (I.astype("int64"),)),
    "imag": (lambda m, x: m.imag(x), (I,)), "iscomplex": (lambda m, x: m.iscomplex(x), (F,)),
    "flatnonzero": (lambda m, x: m.flatnonzero(x), (I,)), "tri": (lambda m, x: x[0, 0] + m.tri(4, 5, 1), (F,)),
}


def compare(got: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted):
            compare(a, b)
        return
    got, wanted = got.asnumpy() if hasattr(got, "asnumpy") else onp.asarray(got), onp.asarray(wanted)
    assert got.shape == wanted.shape and got.dtype.kind == wanted.dtype.kind
    onp.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [*CASES, *ALONE])
def test_numpys_answer(name: str) -> None:
    f, given = {**CASES, **ALONE}[name]
    arrays = [np.array(x, dtype=x.dtype) for x in given]
    with onp.errstate(all="ignore"):
        wanted = f(onp, *given)
    for _ in range(2):                                       # new, and known
        compare(f(np, *arrays), wanted)
    for x, raw in zip(arrays, given):
        onp.testing.assert_array_equal(x.asnumpy(), raw)
    if name in CASES:
        compare(hybridize(lambda *xs: f(np, *xs))(*arrays), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_large_windows_are_computed_in_parts(dtype: str) -> None:
    """The gradient of a convolution's weights, with images that parts do not divide evenly."""
    x, g = RNG.randn(7, 8, 130, 65).astype(dtype), RNG.randn(7, 2, 128, 63).astype(dtype)
    data, out = ir.input(0, x.shape, dtype), ir.input(1, g.shape, dtype)
    windows = ir.window(data, (2, 3), (3, 3), (1, 1), (1, 1))
    program = Program((data, out), (ir.dot(out, windows, ((0, 2, 3), (0, 2, 3))),))
    (got,), _ = evaluate.run(program, [x, g], onp)
    wanted = onp.einsum("nohw,nchwkl->ockl", g, onp.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)))
    onp.testing.assert_allclose(got, wanted, rtol=2e-4, atol=1e-2 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_quotients_of_integers_are_cut_off(dtype: str) -> None:
    """Of nd arrays, as in MXNet: -7 / 2 is -3; by zero it is 0, and the least one by -1 is itself."""
    info = onp.iinfo(dtype)
    values = [v for v in (info.min, info.max, info.max - 1, 0, 1, 2, 7, 100, -1, -2, -7) if v >= info.min]
    a, b = (onp.array(v, dtype) for v in zip(*[(v, w) for v in values for w in values]))
    wide = [abs(v) // abs(w) * (1 if (v < 0) == (w < 0) else -1) if w else 0 for v, w in zip(a.tolist(), b.tolist())]
    wanted = onp.array([v & ((1 << info.bits) - 1) for v in wide], "uint64").astype(dtype)
    x, y = nd.array(a, dtype=dtype), nd.array(b, dtype=dtype)
    for f in (lambda x, y: x / y, hybridize(lambda x, y: x / y)):
        onp.testing.assert_array_equal(f(x, y).asnumpy(), wanted)
    onp.testing.assert_array_equal((x / 2).asnumpy(), onp.trunc(a.astype("float128") / 2).astype(dtype))


@pytest.mark.parametrize("space", [np, nd])
def test_truth_values_are_counted_in_bytes(space: Any) -> None:
    x, y = space.array(B, dtype="bool"), space.array(C, dtype="bool")
    a, b = B.astype("int64"), C.astype("int64")
    for _ in range(2):
        found = {"add": (x + y, a + b if space is nd else a | b), "sub": (x - y, a - b),
                 "mul": (x * y, a * b), "row": (x - y[0], a - b[0]),
                 "shl": (np.left_shift(x, y), a << b), "shr": (np.right_shift(x, y), a >> b)}
        for name, (got, wanted) in found.items():
            assert got.dtype == onp.int64 or space is np and name in ("add", "mul")
            onp.testing.assert_array_equal(got.asnumpy(), wanted, name)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("descending", [False, True])
def test_orders_of_wide_elements_are_stable(dtype: str, descending: bool) -> None:
    """An order that NumPy finds sooner is repaired where elements are equal: also zeros of both signs, and nan."""
    for spread in (50.0, 2.0 ** 60):
        x = onp.floor(RNG.rand(2, 5000) * spread - spread / 3).astype(dtype)
        if dtype == "float64":
            x[:, ::9], x[:, 1], x[:, 2] = onp.nan, 0.0, -0.0
        wanted = onp.argsort(x, axis=-1, kind="stable")
        if descending:
            wanted = 4999 - onp.argsort(x[:, ::-1], axis=-1, kind="stable")[:, ::-1]
        onp.testing.assert_array_equal(sorting_keys.stable_order(x, descending), wanted)


def test_rounded_halves() -> None:
    x = onp.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, -0.0, onp.inf, -onp.inf, 8388609, -3.2],
                  "float32")
    away = onp.array([1, -1, 2, 3, -3, 0, -0.0, -0.0, onp.inf, -onp.inf, 8388609, -3], "float32")
    lower = onp.array([0, -1, 1, 2, -3, 0, -0.0, -0.0, onp.inf, -onp.inf, 8388609, -3], "float32")
    for f, wanted in ((nd.round, away), (nd.rint, lower)):
        for g in (f, f, hybridize(lambda v: f(v))):
            got = g(nd.array(x)).asnumpy()
            onp.testing.assert_array_equal(got, wanted)
            onp.testing.assert_array_equal(onp.signbit(got), onp.signbit(wanted))


@pytest.mark.parametrize("name", sorted(SCALARS))
def test_functions_of_arrays_without_axes(name: str) -> None:
    """NumPy gives numbers there, which no function may write to: the result is that of an array of one element."""
    row = SCALARS[name]
    for dtype in ("float32", "float64", "float16", "int32"):
        values = [onp.array(v).astype(dtype) for v in (2.5, 1.0, 2.0)[:row.arity]]
        try:
            with onp.errstate(all="ignore"):
                wanted = row.np(onp, *(v.reshape(1) for v in values))
        except TypeError:                                            # takes no such type
            continue
        with onp.errstate(all="ignore"):
            found = row.np(onp, *values)
        onp.testing.assert_array_equal(found, wanted[0])


def test_functions_that_write_write_in_place() -> None:
    x = np.array(F)
    raw, version = x._data, x._version
    np.fill_diagonal(x, 3)
    assert x._data is raw and x._version > version
    wanted = F.copy()
    onp.fill_diagonal(wanted, 3)
    onp.testing.assert_array_equal(x.asnumpy(), wanted)


def test_an_index_that_is_not_there() -> None:
    x = np.array(F)
    for _ in range(2):
        with pytest.raises(IndexError, match="index 30 is out of range for length 30"):
            np.take(x, np.array([1, 30], dtype="int64"))
    with pytest.raises(IndexError, match="out of range"):
        np.delete(x, 31)
    with pytest.raises(IndexError, match="out of range"):
        np.insert(x, 9, 1, axis=0)


def test_gradients_go_through_what_numpy_does_elsewhere() -> None:
    x = np.array(F)
    x.attach_grad()
    with autograd.record():
        y = (np.append(x, x) * 2).sum() + np.delete(x, 3).sum() + np.insert(x, 3, 1.0).sum() + np.stack(x).sum()
    y.backward()
    wanted = onp.full(F.shape, 7.0)
    wanted.flat[3] = 6
    onp.testing.assert_allclose(x.grad.asnumpy(), wanted)


@pytest.mark.parametrize("space", [np, nd])
def test_results_go_straight_into_out(space: Any) -> None:
    make = np.array if space is np else nd.array
    x, y, out = make(F), make(G), make(onp.zeros((6, 5), "float32"))
    add = np.add if space is np else nd.broadcast_add
    wanted = {space.exp: onp.exp(F), space.floor: onp.floor(F), space.abs: onp.abs(F)}
    for _ in range(3):
        for f, value in wanted.items():
            version = out._version
            assert f(x, out=out) is out and out._version > version
            onp.testing.assert_allclose(out.asnumpy(), value, rtol=1e-6)
        add(x, y, out=out)
        onp.testing.assert_allclose(out.asnumpy(), F + G, rtol=1e-6)
    raw = x._data
    add(x, x, out=x)                                         # onto itself
    assert x._data is raw
    onp.testing.assert_allclose(x.asnumpy(), F + F, rtol=1e-6)


def test_an_out_of_another_dtype_or_with_a_history() -> None:
    x, whole = np.array(F), np.zeros((6, 5), dtype="int32")
    for _ in range(2):
        np.add(x, x, out=whole)
        onp.testing.assert_array_equal(whole.asnumpy(), (F + F).astype("int32"))
    with pytest.raises(Exception, match="shape"):
        np.add(x, x, out=np.zeros((2, 5)))
    x.attach_grad()
    out = np.zeros((6, 5))
    with autograd.record():
        nd.square(x.as_nd_ndarray(), out=out.as_nd_ndarray())
        y = (x * 3).sum()
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), onp.full(F.shape, 3.0))


def test_a_number_goes_into_a_copy() -> None:
    c, x = onp.array([True, False, True]), onp.array([1.0, 2.0, 3.0], "float32")
    zero = onp.broadcast_to(onp.zeros((), "float32"), (3,))
    onp.testing.assert_array_equal(special.where(onp, c, zero, x), [0, 2, 0])
    onp.testing.assert_array_equal(special.where(onp, c, x, zero), [1, 0, 3])
    onp.testing.assert_array_equal(special.where(onp, c, zero, zero + 0), [0, 0, 0])
    onp.testing.assert_array_equal(x, [1, 2, 3])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_halves_are_rounded_as_mxnet_does(dtype: str) -> None:
    """``round`` away from zero, ``rint`` to the lower one; what has no fraction stays as it is."""
    large = 1027 if dtype == "float16" else -8388609
    x = onp.array([.5, 1.5, -.5, -1.5, 2.5, -2.5, .3, -.3, 1027, large, onp.inf, -onp.inf, 0, -0., 2047.5], dtype)
    near = onp.nextafter(onp.array([.5, -.5, 1.5, -1.5], dtype), onp.array(0, dtype))
    x = onp.concatenate([x, near, onp.array([onp.nan], dtype)])
    with onp.errstate(all="ignore"):
        whole, low = onp.trunc(x), onp.floor(x)
        away = onp.where(abs(x - whole) >= .5, whole + onp.copysign(x.dtype.type(1), x), whole)
        lower = onp.where(x - low <= onp.ceil(x) - x, low, onp.ceil(x))
    for f, want in ((nd.round, away), (nd.rint, lower)):
        for run in (f, hybridize(lambda a, f=f: f(a))):
            found = run(nd.array(x, dtype=dtype)).asnumpy()
            onp.testing.assert_array_equal(found, want)
            assert (onp.signbit(found) == onp.signbit(want))[~onp.isnan(want)].all()


def test_powers_of_integers_and_diagonals_and_one_hot_are_numpys() -> None:
    a, b = onp.array([2, 3, -1, 0, 7], "int32"), onp.array([3, 0, 2, 0, 1], "int32")
    assert np.power(np.array(a), np.array(b)).asnumpy().tolist() == (a ** b).tolist()
    assert np.power(np.array(a), np.array(-b)).asnumpy().tolist() == [0, 1, 1, 1, 0]
    for k in (-2, 0, 1):
        assert np.diag(np.array(a), k).asnumpy().tolist() == onp.diag(a, k).tolist()
        assert np.eye(3, 4, k).asnumpy().tolist() == onp.eye(3, 4, k).tolist()
        made = nd.linalg.makediag(nd.array(F), offset=k).asnumpy()
        assert (onp.stack([onp.diag(row, k) for row in F]) == made).all()
    for given in ([[0, 2], [1, 1]], [[-1, 1], [3, 0]]):
        found = nd.one_hot(nd.array(given), 3, on_value=2, off_value=-1, dtype="int32").asnumpy()
        assert found.tolist() == [[[2 if i == j else -1 for j in range(3)] for i in row] for row in given]
    assert nd.batch_take(nd.array(F), nd.array([0, 4, 9, -3, 2, 1])).asnumpy().tolist() == F[
        onp.arange(6), [0, 4, 4, 0, 2, 1]].tolist()
    for given, want in (([F], 1), ([F, N], 0)):
        assert nd.multi_all_finite(*map(nd.array, given), num_arrays=len(given)).asnumpy().tolist() == [want]
        assert nd.all_finite(nd.array(given[-1])).asnumpy().tolist() == [want]


def test_functions_that_numpy_does_not_have_are_compiled_where_arrays_are_large(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """They take many of NumPy's passes; one pass by a function of NumPy's is never compiled."""
    x = ir.input(0, (300, 300), onp.float32)
    few = ir.input(0, (30, 30), onp.float32)

    monkeypatch.setenv("HYBRID_COMPILE", "background")

    def worth(leaf: ir.Node, name: str) -> bool:
        return repeated.worth_compiling(Program((leaf,), (ir.map(name, leaf),)))
    assert worth(x, "erf") and worth(x, "gammaln") and worth(x, "sigmoid")
    assert not any(worth(x, name) for name in ("exp", "tanh", "relu", "rcbrt")) and not worth(few, "erf")


def test_sums_of_products_store_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """BLAS adds products of all elements up, of arrays in any order; what somebody else reads is computed."""
    x, y = (onp.random.default_rng(0).normal(size=(2, 40, 50)).astype("float32"))
    asked: list[tuple[int, ...]] = []
    real = direct.sum_of_products
    monkeypatch.setattr(evaluate, "sum_of_products", lambda a, b: (asked.append(a.shape), real(a, b))[1])
    a, b = ir.input(0, (40, 50), onp.float32), ir.input(1, (40, 50), onp.float32)
    product = a * b
    total = ir.reduce("sum", product, (0, 1))
    for outputs, calls in (((total,), 1), ((total, product), 0), ((ir.reduce("sum", product, (0,)),), 0),
                           ((total, ir.reduce("max", product, (0, 1))), 0), ((ir.reduce("sum", a * a, (0, 1)),), 1)):
        asked.clear()
        for given in ([x, y], [x.reshape(50, 40).T, y[::-1]]):
            program = Program((a, b), outputs)
            found = evaluate.run(program, given, onp)[0]
            first = given[0] * given[0 if outputs[0].args[0].args == (a, a) else 1]
            want = first.sum(axis=0) if outputs[0].ndim else first.sum()
            onp.testing.assert_allclose(found[0], want, rtol=1e-4, atol=1e-4)
        assert len(asked) == 2 * calls
