"""Kernels of float16 and bfloat16 as vectors (kernels/c/half.h): every number there is, floats of every exponent to
their nearest ones, and functions whose every step is rounded, as NumPy rounds them.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid.base import dtype as dt
from hybrid import nd
from hybrid.runtime import toolchain

from ..cpu_kernels import vectors_of

HALVES = {"float16": "_HALF(", "bfloat16": "_BF16("}
EDGES = (0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x2001, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff, 0x10000, 0x17fff,
         0x18000, 0x7fdfff, 0x7fe000, 0x7fffff)
pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")


@pytest.fixture(params=[16, 32, 64], ids=lambda w: f"{w} bytes")
def width(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    vectors_of(request.param, monkeypatch)
    return int(request.param)


@pytest.fixture(params=HALVES)
def half(request: Any) -> str:
    if request.param == "bfloat16":
        pytest.importorskip("ml_dtypes")
    return str(request.param)


def compiled(f: Any, *arrays: Any) -> tuple[Any, str]:
    """A function's result, and the C of its kernels."""
    g = mx.hybridize(f)
    return g(*arrays).asnumpy(), g.report().source.split("void net(")[0].split("static void k0(")[-1]


def same(got: np.ndarray, want: np.ndarray) -> None:
    """The same bits, but for those of numbers that are none."""
    assert got.dtype == want.dtype
    none = np.isnan(want.astype(np.float32))
    assert np.array_equal(np.isnan(got.astype(np.float32)), none)
    bits = {2: np.uint16, 4: np.uint32}[got.dtype.itemsize]
    np.testing.assert_array_equal(got.view(bits)[~none], want.view(bits)[~none])


def test_every_half_is_read(half: str, width: int) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dt.as_dtype(half))
    got, source = compiled(lambda x: x.astype("float32"), nd.array(every, dtype=half))
    same(got, every.astype(np.float32))
    assert width < 32 or "HYV_LOAD" + HALVES[half] in source


def test_the_nearest_half_is_stored(half: str, width: int) -> None:
    rng = np.random.default_rng(5)
    parts = np.concatenate([np.array(EDGES), rng.integers(0, 1 << 23, 64)]).astype(np.uint32)
    bits = (np.arange(512, dtype=np.uint32)[:, None] << 23 | parts).ravel()          # every sign and exponent
    x = bits.view(np.float32)
    got, source = compiled(lambda x: x.astype(half), nd.array(x))
    with np.errstate(over="ignore"):
        same(got, x.astype(dt.as_dtype(half)))
    assert width < 32 or "HYV_STORE" + HALVES[half] in source


@pytest.mark.parametrize("n", [1, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 127, 1000])
def test_each_step_is_rounded(n: int, half: str, width: int) -> None:
    of = dt.as_dtype(half)
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((3, n)).astype(np.float32).astype(of) * of.type(3) for _ in range(2))
    a[0, 0], a[-1, -1], b[1, n // 2] = np.nan, np.inf, 0
    x, y = nd.array(a, dtype=half), nd.array(b, dtype=half)
    got, source = compiled(lambda x, y: nd.relu(x * y + y) / (y * y
                                                              + 1) - nd.where(x > y, x, nd.sqrt(nd.abs(y))) * (x != y),
                                                              x, y)
    with np.errstate(all="ignore"):
        positive = np.where(np.isnan(a * b + b), a * b + b, np.maximum(a * b + b, of.type(0)))
        want = positive / (b * b + of.type(1)) - np.where(a > b, a, np.sqrt(np.abs(b))) * (a != b).astype(of)
    same(got, want.astype(of))
    assert width < 32 or n < 2 * width // 4 or "HYV_NEAR" + HALVES[half] in source


@pytest.mark.parametrize("shape", [(5, 3), (4, 33), (3, 257), (40, 65), (2, 3, 17)], ids=str)
def test_reductions_add_floats(shape: tuple[int, ...], half: str, width: int) -> None:
    of, near = dt.as_dtype(half), 2.0 ** (-8 if half == "bfloat16" else -11)
    a = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32).astype(of)
    x, wide = nd.array(a, dtype=half), a.astype(np.float64)
    for axis in range(len(shape)):
        got, _ = compiled(lambda x: nd.sum(x, axis=axis), x)                        # noqa: B023
        assert got.dtype == of
        np.testing.assert_allclose(got.astype(np.float64), wide.sum(axis), rtol=1.01 * near, atol=1e-5)
        for f, g in ((nd.max, np.max), (nd.min, np.min)):
            same(compiled(lambda x: f(x, axis=axis), x)[0], g(wide, axis).astype(of))          # noqa: B023
        np.testing.assert_array_equal(compiled(lambda x: nd.argmax(x, axis=axis), x)[0],
                                      wide.argmax(axis))          # noqa: B023
    got, source = compiled(lambda x: nd.softmax(x), x)
    e = np.exp(wide - wide.max(-1, keepdims=True))
    np.testing.assert_allclose(got.astype(np.float64), e / e.sum(-1, keepdims=True), rtol=1.01 * near, atol=1e-7)
    assert width < 32 or shape[-1] < 33 or "HYV_STORE" + HALVES[half] in source
    none = a.copy()
    none[(0,) * len(shape)] = np.nan
    assert np.isnan(compiled(lambda x: nd.max(x, axis=-1), nd.array(none, dtype=half))[0].ravel()[0].astype(np.float32))


def test_another_half_type_is_rounded_once(width: int) -> None:
    pytest.importorskip("ml_dtypes")
    a = np.random.default_rng(1).standard_normal((7, 65)).astype(np.float16)
    same(compiled(lambda x: x.astype("bfloat16"), nd.array(a, dtype="float16"))[0],
         a.astype(np.float32).astype(dt.as_dtype("bfloat16")))
    got, _ = compiled(lambda x: (x.astype("float32") * 3.0001).astype("float16"), nd.array(a, dtype="float16"))
    same(got, (a.astype(np.float32) * np.float32(3.0001)).astype(np.float16))


@pytest.mark.parametrize("pool", ["max", "avg"])
@pytest.mark.parametrize("shape", [(1, 1, 23, 28), (2, 3, 17, 64)], ids=str)
def test_pools_whose_result_is_float32(shape: tuple[int, ...], pool: str, half: str, width: int) -> None:
    """Kernels of windows have images of float32 of their own: halves are not read into those."""
    x = nd.array(np.random.default_rng(3).standard_normal(shape), dtype=half)
    f = lambda x: nd.Pooling(x, kernel=(2, 2), stride=(2, 2),
                             pool_type=pool).astype("float32") * 2             # noqa: E731
    same(compiled(f, x)[0], f(x).asnumpy())
