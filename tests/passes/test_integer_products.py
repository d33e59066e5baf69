"""Products of integers, in floating point where that is exact (hybrid/passes/integer_products.py), are NumPy's, to the
last bit and where they wrap around."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hybrid as mx
from hybrid import ir, nd
from hybrid.passes.integer_products import in_floats

from ..cpu_kernels import program

KINDS = ["int8", "uint8", "int16", "int32", "int64", "uint32"]


def whole(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """The type's extremes and what lies between."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    x[rng.random(shape) < 0.3] = info.min if seed % 2 else info.max
    return x


def product(a: np.ndarray, b: np.ndarray, wide: str | None = None) -> np.ndarray:
    f = mx.hybridize(lambda x, y: mx.np.matmul(x.astype(wide or x.dtype), y.astype(wide or y.dtype)))
    return f(mx.np.array(a, dtype=a.dtype), mx.np.array(b, dtype=b.dtype)).asnumpy()


@pytest.mark.parametrize("wide", [None, "int32", "int64"])
@pytest.mark.parametrize("kind", KINDS)
def test_extremes(kind: str, wide: str | None) -> None:
    for k in (1, 17, 1025):
        a, b = whole(kind, (5, k), k), whole(kind, (k, 19), k + 1)
        with np.errstate(over="ignore"):
            want = np.matmul(a.astype(wide or kind), b.astype(wide or kind))
        got = product(a, b, wide)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["int8", "uint8", "int16"]), st.sampled_from(["int8", "uint8"]), st.integers(1, 70),
       st.integers(1, 130), st.integers(1, 70), st.integers(0, 9))
def test_odd_sizes(one: str, other: str, m: int, k: int, n: int, seed: int) -> None:
    a, b = whole(one, (m, k), seed), whole(other, (k, n), seed + 1)
    np.testing.assert_array_equal(product(a, b, "int32"), a.astype("int32") @ b.astype("int32"))


@pytest.mark.parametrize("last", ["int64", "int32", "uint64", None])
@pytest.mark.parametrize("between", ["int8", "uint8", "int16", "uint32", "uint64"])
@pytest.mark.parametrize("first", ["int8", "uint8", "int32"])
def test_casts_that_change_numbers(first: str, between: str, last: str | None) -> None:
    """A negative number made unsigned is a large one, and one that does not fit is cut."""
    a, b = whole(first, (3, 7), 1), np.arange(-3, 4, dtype="int8").reshape(7, 1)
    f = mx.hybridize(lambda x, y: mx.np.matmul(x.astype(between).astype(last or between), y.astype(last or between)))
    with np.errstate(over="ignore"):
        want = a.astype(between).astype(last or between) @ b.astype(last or between)
    np.testing.assert_array_equal(f(mx.np.array(a, dtype=first), mx.np.array(b, dtype="int8")).asnumpy(), want)


@pytest.mark.parametrize("k", [1024, 1025, 1 << 17])
def test_where_the_types_end(k: int) -> None:
    """2^14 k: 2^24 is the last in float32, and 2^31 wraps around in int32."""
    a, b = np.full((2, k), -128, np.int8), np.full((k, 3), -128, np.int8)
    b[-1] = 127
    with np.errstate(over="ignore"):
        want = a.astype("int32") @ b.astype("int32")
    np.testing.assert_array_equal(product(a, b, "int32"), want)
    np.testing.assert_array_equal(product(a, np.full((k, 3), -128, np.int8), "int32"),
                                  np.full((2, 3), (k << 14 & 0xFFFFFFFF) - (k >> 17 << 32), np.int32))


def form(kind: str, k: int, wide: str = "int32") -> Any:
    def outputs(a: ir.Node, b: ir.Node) -> list[ir.Node]:
        return [ir.dot(ir.cast(ir.reshape(a, (2, k)), wide), ir.permute(ir.cast(b, wide), (1, 0)), ((1,), (0,)))]
    made = in_floats(program(outputs, np.zeros((1, 2, k), kind), np.zeros((3, k), kind))[0].outputs[0])
    return made and next(n.dtype.name for n in ir.toposort([made]) if n.prim == "dot")


def test_which_type_is_taken() -> None:
    assert form("int8", 1024) == "float32" and form("int8",
                                                    1025) == "float64" and form("uint8",
            256) == "float32" and form("uint8", 257) == "float64"
    assert form("int16", 1 << 20, "int64") == "float64" and form("int32", 2,
                                                                 "int64") is None and form("bool", 1 << 24) == "float32"


def test_a_quantized_layer_is_one_kernel() -> None:
    rng = np.random.default_rng(0)
    x, w = (nd.array(rng.integers(-127, 127, s), dtype="int8") for s in ((33, 65), (65, 47)))
    scale, bias = nd.array(rng.random(47)), nd.array(rng.random(47))

    def f(x: Any, w: Any, scale: Any, bias: Any) -> Any:
        return nd.relu(nd.dot(x.astype("int32"), w.astype("int32")).astype("float32") * scale + bias)
    compiled = mx.hybridize(f)
    np.testing.assert_allclose(compiled(x, w, scale, bias).asnumpy(), f(x, w, scale, bias).asnumpy(), rtol=1e-6)
    assert len(compiled.report().kernels) == 1
