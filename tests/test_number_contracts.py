"""Numbers of compiled functions are those of eager ones where rounding, zeros and casts are easily lost."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from hybrid import hybridize, nd

SIZES = (1, 3, 4, 8, 17, 65)
VALUES = np.array([-0.0, 0.0, 1, -1, np.nan, np.inf, -np.inf, 3.5, -2.5, 1e-40], "float32")
CASTS = {
    "rounded to half": (lambda x: x.astype("float16").astype("float32"), "float32", 70000),
    "half overflows": (lambda x: (x * x).astype("float32"), "float16", 300),
    "half times a number": (lambda x: (x.astype("float16") * 1.1).astype("float32"), "float32", 1000),
    "wide integers through float32": (lambda x: x.astype("float32").astype("int64"), "int64", 2 ** 53 + 1),
    "integers through half": (lambda x: x.astype("float16").astype("int32"), "int32", 60001),
    "bytes through half": (lambda x: x.astype("float16").astype("uint8"), "uint8", 255),
    "halves through float32": (lambda x: x.astype("float32").astype("float16"), "float16", 60000),
}
ZEROS: dict[str, Callable[[Any], Any]] = {
    "times -0.0": lambda x: x * -0.0, "times 0.0": lambda x: x * 0.0, "plus 0.0": lambda x: x + 0.0,
    "plus -0.0": lambda x: x + -0.0, "minus 0.0": lambda x: x - 0.0, "minus -0.0": lambda x: x - -0.0,
    "0.0 minus": lambda x: 0.0 - x, "negative": lambda x: -x, "relu": nd.relu, "sign": nd.sign, "rint": nd.rint,
    "ceil": nd.ceil, "trunc": nd.trunc, "one over": lambda x: 1.0 / x, "clip": lambda x: nd.clip(x, 0, 6),
    "remainder": lambda x: x % 2.0, "remainder of 0": lambda x: x % 0.0, "cube": lambda x: x ** 3}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CASTS)
def test_casts_round_as_eagerly(name: str, size: int) -> None:
    f, dtype, most = CASTS[name]
    x = nd.array(np.linspace(most // 7, most, size).astype(dtype), dtype=dtype)
    eager, compiled = f(x), hybridize(f)(x)
    assert compiled.dtype == eager.dtype
    np.testing.assert_array_equal(compiled.asnumpy(), eager.asnumpy())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ZEROS)
def test_zeros_keep_their_sign(name: str, size: int) -> None:
    x = nd.array(np.resize(VALUES, size))
    eager, compiled = ZEROS[name](x).asnumpy(), hybridize(ZEROS[name])(x).asnumpy()
    np.testing.assert_allclose(compiled, eager, rtol=1e-6)
    known = ~np.isnan(eager)
    np.testing.assert_array_equal(np.signbit(compiled)[known], np.signbit(eager)[known])


def test_zeros_of_both_signs_are_two_attributes() -> None:
    x = nd.array([1.0, 2.0])
    for zero in (0.0, -0.0, 0.0):
        assert np.signbit((x * zero).asnumpy()).all() == np.signbit(zero)


@pytest.mark.parametrize("count", [1 << 14, 10007, 65537, 1 << 20, 1 << 24])
def test_sums_of_many_equal_numbers_keep_their_digits(count: int) -> None:
    x = nd.full((count,), 0.1)
    right = count * float(np.float32(0.1))
    assert abs(float(hybridize(lambda x: x.sum())(x).asscalar()) / right - 1) < 1e-6
    assert abs(float(hybridize(lambda x: x.mean())(x).asscalar()) / float(np.float32(0.1)) - 1) < 1e-6


@pytest.mark.parametrize("shape", [(7, 3, 50, 41), (100000,), (3, 70001), (1025, 1, 1031)])
def test_long_sums_over_several_axes(shape: tuple[int, ...]) -> None:
    x = nd.random.uniform(0, 1, shape)
    for f in (lambda x: x.sum(), lambda x: nd.norm(x), lambda x: ((x - x.mean()) ** 2).mean()):
        np.testing.assert_allclose(hybridize(f)(x).asnumpy(), f(x).asnumpy(), rtol=2e-6)


def test_deep_products_keep_their_digits() -> None:
    a, b = nd.full((2, 100000), 0.1), nd.full((100000, 2), 0.1)
    found = hybridize(nd.dot)(a, b).asnumpy()
    np.testing.assert_allclose(found, 100000 * float(np.float32(0.1)) ** 2, rtol=2e-6)
