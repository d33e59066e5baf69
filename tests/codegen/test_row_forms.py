"""Forms of row and movement kernels in C that are found by what they mean: the same numbers as eagerly, and that the
form was taken."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, ir, nd
from hybrid.ir.evaluate import run
from hybrid.runtime import cpu, toolchain

from ..cpu_kernels import vectors_of


def some(*shape: int, dtype: str = "float32") -> Any:
    return nd.array(np.random.default_rng(sum(shape)).standard_normal(shape) * 9, dtype=dtype)


def both(f: Callable[..., Any], *arrays: Any) -> tuple[np.ndarray, np.ndarray, str]:
    """A function's result hybridized and eagerly, and the C text."""
    compiled = mx.hybridize(f)
    got, want = compiled(*arrays), f(*arrays)
    assert got.dtype == want.dtype and got.shape == want.shape
    report = compiled.report()
    return got.asnumpy(), want.asnumpy(), getattr(report, "source", "") or str(report)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize(("shape", "axis"), [((5, 7), 1), ((70, 33), 0), ((2, 3, 65), -1), ((1, 1), 1)], ids=str)
def test_pick_reads_one_element(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    x, n = some(*shape, dtype=dtype), shape[axis]
    left = list(shape)
    del left[axis]
    i = nd.array(np.random.default_rng(1).integers(-n, 2 * n, left))
    for mode in ("clip", "wrap"):
        got, want, source = both(lambda x, i: nd.pick(x, i, axis=axis, mode=mode), x, i)       # noqa: B023
        np.testing.assert_array_equal(got, want)
        assert n == 1 or "hy_clamp(" in source.split("void net(")[0].split("static void k0(")[-1]


def test_pick_after_a_softmax_and_beside_no_numbers() -> None:
    x, i = some(33, 129), nd.array(np.arange(33) * 3)
    got, want, _ = both(lambda x, i: -nd.pick(nd.log_softmax(x), i) * 2, x, i)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    odd = nd.array([[1, np.nan, 3, np.inf], [np.nan, -0.0, 1, 2]])
    got, want, _ = both(lambda x, i: nd.pick(x, i), odd, nd.array([0, 1]))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8"])
def test_running_sums(dtype: str) -> None:
    """Beside sums in float64, of every length and along every axis; halves are added in float32, integers wrap
    around."""
    for shape in ((5, 7), (3, 1), (1, 65), (4, 17), (2, 3, 129), (3, 300, 2), (0, 3), (300,)):
        x = some(*shape, dtype=dtype)
        wide = x.asnumpy().astype(np.float64 if dtype.startswith("float") else dtype)
        for axis in range(len(shape)):
            got, want, source = both(lambda x: nd.cumsum(x, axis=axis), x)                      # noqa: B023
            exact, scale = np.cumsum(wide, axis, wide.dtype), np.cumsum(np.abs(wide), axis) + 1e-30
            for have in (got, want):
                if dtype.startswith("float"):
                    np.testing.assert_array_less(np.abs(have - exact) / scale,
                                                 {"float16": 6e-4, "float32": 1e-6, "float64": 1e-14}[dtype])
                else:
                    np.testing.assert_array_equal(have, exact)
        assert dtype != "float32" or shape[-1] < 64 or toolchain.vector_bytes() < 16 or "hyv_running(v" in source


def test_running_sums_of_zeros_infinity_and_no_numbers() -> None:
    x = np.ones((2, 70), np.float32)
    x[0, 1], x[1, :3] = np.inf, (-0.0, -0.0, np.nan)
    for axis in (0, 1):
        got, _, _ = both(lambda x: nd.cumsum(x, axis=axis), nd.array(x))                        # noqa: B023
        want = np.cumsum(x, axis)
        np.testing.assert_array_equal(got, want)
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_running_sums_of_results(dtype: str) -> None:
    """What is added up is a result too: all its elements are stored."""
    for shape in ((3, 70), (3, 3), (2, 5, 37)):
        x = some(*shape, dtype=dtype)
        for axis in range(len(shape)):
            got = mx.hybridize(lambda x: (x * 2, nd.cumsum(x * 2 + 1, axis=axis),
                                          x * 2 + 1))(x)             # noqa: B023
            np.testing.assert_array_equal(got[0].asnumpy(), x.asnumpy() * 2)
            np.testing.assert_array_equal(got[2].asnumpy(), x.asnumpy() * 2 + 1)
            np.testing.assert_allclose(got[1].asnumpy(), np.cumsum(x.asnumpy() * 2 + 1, axis), rtol=1e-4, atol=1e-4)


PARTS: dict[str, Any] = {
    "a row": lambda v: v[0].min(axis=-1, keepdims=True),
    "half of each row": lambda v: v[:, :8].max(axis=1, keepdims=True),
    "the other half": lambda v: v[:, 8:].sum(axis=1, keepdims=True),
    "every other": lambda v: v[:, ::2].mean(axis=1, keepdims=True),
    "some rows": lambda v: v[1:3].sum(axis=0, keepdims=True),
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("rows", [3, 64])
def test_reductions_of_a_part_of_what_is_read_again(part: str, rows: int) -> None:
    """A value that a reduction computes in part is not kept for what reads it whole."""
    def f(x: Any) -> Any:
        v = nd.sigmoid(x)
        return nd.broadcast_add(v, PARTS[part](v))
    got, want, _ = both(f, some(rows, 16))
    np.testing.assert_allclose(got, want, rtol=1e-5)


READERS: dict[str, Any] = {
    "running sums": lambda r, x: nd.cumsum(x * nd.broadcast_div(r, nd.abs(x) + .5), axis=0),
    "dot": lambda r, x: nd.dot(nd.broadcast_div(r, nd.abs(x) + .5), x),
    "order": lambda r, x: nd.argsort(nd.broadcast_mul(r, x), axis=0),
    "concat": lambda r, x: nd.concat(nd.broadcast_mul(r, x), x, dim=0),
    "maxima": lambda r, x: nd.broadcast_mul(r, x).max(axis=0),
    "rows": lambda r, x: nd.broadcast_mul(r, x).softmax(axis=1),
    "scatter": lambda r, x: nd.scatter_nd(nd.broadcast_mul(r, x), nd.array([[2, 1, 0, 4, 3, 5]]), shape=(6, 6)),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("axis", [0, 1])
def test_small_results_of_row_values(name: str, axis: int) -> None:
    """A function of what rows are reduced to is stored, whatever kernel reads the same row values."""
    def f(x: Any) -> tuple[Any, ...]:
        r = (x * 2).sum(axis=axis, keepdims=True) ** 2
        return READERS[name](r, x), nd.sigmoid(r / 50), nd.exp(-r)
    x = some(6, 6)
    for want, got in zip(f(x), mx.hybridize(f)(x)):
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=2e-5,
                                   atol=1e-6 * float(want.abs().max().asscalar()))


@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_of_running_sums(axis: int) -> None:
    x, weights = some(33, 70), np.random.default_rng(1).standard_normal((33, 70)).astype(np.float32)
    x.attach_grad()
    for f in (nd.cumsum, mx.hybridize(nd.cumsum)):
        with autograd.record():
            y = (f(x, axis=axis) * nd.array(weights)).sum()
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), np.flip(np.cumsum(np.flip(weights, axis), axis), axis), rtol=1e-5,
                                   atol=1e-5)


@pytest.mark.parametrize(("args", "dtype", "want"), [
    ((20000000, 20000004), "int64", [20000000, 20000001, 20000002, 20000003]),
    ((2 ** 31 - 2, 2 ** 31 + 1), "int64", [2 ** 31 - 2, 2 ** 31 - 1, 2 ** 31]),
    ((0, 5, 1.5), "int32", [0, 1, 2, 3]), ((0.5, 5, 0.7), "int32", [0] * 7), ((-3, 2), "uint8", [253, 254, 255, 0, 1]),
    ((20000000, 20000003), "float32", [2e7, 2e7, 20000002]),
    ((0, 1, 0.25), "float32", [0, 0.25, 0.5, 0.75]), ((5, 0, -2), "float64", [5, 3, 1])], ids=str)
def test_ranges(args: tuple[float, ...], dtype: str, want: list[float]) -> None:
    """As MXNet 1.9.1, which makes start and step integers where the result is of integers."""
    got, eager, _ = both(lambda x: nd.arange(*args, dtype=dtype) + x, nd.zeros((1,), dtype=dtype))
    np.testing.assert_array_equal(got, np.array(want, dtype))
    np.testing.assert_array_equal(eager, np.array(want, dtype))


@pytest.mark.parametrize("width", [64, 32, 16], ids=str)
def test_arrays_that_are_read_across(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles turned in registers: whole and odd sides, several arrays, any order of axes, blocks."""
    vectors_of(width, monkeypatch)
    for shape, axes in (((145, 133), (1, 0)), ((16, 2000), (1, 0)), ((49, 1003), (1, 0)), ((1003, 33), (1, 0)),
                        ((33, 40, 37), (2, 1, 0)), ((9, 70, 40), (0, 2, 1)),
                        ((40, 3, 5, 34), (3, 0, 1, 2)), ((600, 512), (1, 0))):
        x, y = some(*shape), some(*(shape[a] for a in axes))
        got, _, source = both(lambda x, y: nd.transpose(x, axes=axes) * 2 + y, x, y)            # noqa: B023
        assert "turn_vfloat" in source
        np.testing.assert_array_equal(got, x.asnumpy().transpose(axes) * np.float32(2) + y.asnumpy())
        got, want, _ = both(lambda x: nd.tanh(nd.transpose(x, axes=axes)), x)                   # noqa: B023
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_concatenations(dtype: str) -> None:
    """Parts in memory and computed ones, side by side in lines, short and long, and one after the other."""
    for shapes, axis in ((((3, 4), (3, 5)), 1), (((2, 3, 1), (2, 3, 1)), 2), (((2, 3, 40), (2, 5, 40), (2, 1, 40)), 1),
                         (((2, 17000), (2, 33000)), 1),
                         (((300000,), (7,)), 0), (((3, 1), (3, 5)), 1)):
        parts = [some(*s, dtype=dtype) for s in shapes]
        got, want, _ = both(lambda *a: nd.concat(*a, dim=axis), *parts)                         # noqa: B023
        np.testing.assert_array_equal(got, want)
        got, want, _ = both(lambda *a: nd.concat(a[0] * 2, *a[1:], nd.zeros_like(a[0]), dim=axis) + 1,
                            *parts)        # noqa: B023
        np.testing.assert_array_equal(got, want)
    for axis in (0, 1, 2):
        got, want, _ = both(lambda *a: nd.stack(*a, axis=axis), some(5, 33, dtype=dtype),
                            some(5, 33, dtype=dtype))   # noqa: B023
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
def test_rows_are_sorted_side_by_side(dtype: str) -> None:
    """Any number of rows and keys; equal keys stay in order, -0 is 0, what is no number comes last (first where
    descending)."""
    def orders(x: Any) -> list[Any]:
        return [nd.argsort(x, axis=1, dtype="int32"), nd.argsort(x, axis=1, is_ascend=False, dtype="int32"),
                nd.topk(x, k=2, axis=1), nd.sort(x, axis=1)]
    for shape in ((4, 2), (9, 17), (33, 65)):
        values = np.random.default_rng(sum(shape)).integers(0, 9, shape).astype(dtype)
        if values.dtype.kind == "f":
            values[values == 3], values[1, ::2], values[values == 5], values[0, 0] = np.nan, -0.0, -np.inf, np.inf
        x, compiled = nd.array(values, dtype=dtype), mx.hybridize(orders)
        for got, want in zip(compiled(x), orders(x)):
            np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
        np.testing.assert_array_equal(compiled(x)[0].asnumpy(), np.argsort(values.astype("float64"), 1, kind="stable"))
        assert f"hy_sort_{'pairs' if values.itemsize == 8 else 'rows'}(" in compiled.report().source


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("rows, n", [(1, 1), (1, 39), (2, 41), (1, 5000)])
def test_long_rows_of_keys_of_64_bits(dtype: str, rows: int, n: int) -> None:
    """Keys that differ in their upper halves, in their lower ones, and not at all: a stable order, both ways."""
    rng = np.random.default_rng(n)
    raw = rng.choice([0.0, -0.0, 1, 1 + 2.0 ** -50, -1, -1 - 2.0 ** -50, 1e300, np.inf, -np.inf, np.nan], (rows, n))
    if dtype == "int64":
        raw = rng.choice([0, 1, -1, 2 ** 32, 2 ** 32 + 1, -2 ** 32, 2 ** 63 - 1, -2 ** 63], (rows, n))
    x = mx.np.array(raw, dtype=dtype)
    compiled = mx.hybridize(lambda x: (mx.np.argsort(x), nd.argsort(x.as_nd_ndarray(), is_ascend=False, dtype="int64")))
    up, down = compiled(x)
    np.testing.assert_array_equal(up.asnumpy(), np.argsort(raw, axis=-1, kind="stable"))
    down_eagerly = nd.argsort(x.as_nd_ndarray(), is_ascend=False, dtype="int64")
    np.testing.assert_array_equal(down.asnumpy(), down_eagerly.asnumpy())


@pytest.mark.parametrize("columns", [6, 64, 1000])
@pytest.mark.parametrize("product", ["by a number", "by a row", "of itself"])
def test_softmax_of_large_products(product: str, columns: int) -> None:
    """What is computed again is rounded as it was when its maximum was found: probabilities add up to 1."""
    row = nd.array(np.linspace(-2000, 2000, columns))
    f = mx.hybridize({"by a number": lambda x: nd.softmax(x * 3000.3), "of itself": lambda x: nd.softmax(x * x * 900.7),
                      "by a row": lambda x: nd.softmax(nd.broadcast_mul(x, row))}[product])
    np.testing.assert_allclose(f(some(9, columns)).sum(axis=1).asnumpy(), 1, rtol=2e-6)


@pytest.mark.parametrize("used", ["as numbers", "in a table"])
def test_positions_in_windows_of_channels_last_images(used: str) -> None:
    """Vectors give the positions as float32, not what is found at them."""
    x, table = ir.input(0, (2, 8, 8, 16), np.float32), ir.input(1, (4,), np.float32)
    windows = ir.window(x, (1, 2), (2, 2), (2, 2), (1, 1))
    at = ir.argreduce("argmax", ir.reshape(windows, (*windows.shape[:4], 4)), 4)
    found = ir.cast(at, np.float32) if used == "as numbers" else ir.gather(table, at)
    program = ir.Program((x, table), (found,))
    given = [np.random.default_rng(0).standard_normal(n.shape).astype(np.float32) for n in (x, table)]
    exe = cpu.compiled(program)
    np.testing.assert_array_equal(exe(given)[0], run(program, given, np)[0][0])
    assert (used == "as numbers") == (exe.report.kernels[0].form == "windows of channels-last images")
