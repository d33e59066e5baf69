"""Forms of row and movement kernels in C that are found by what they mean: the same numbers as eagerly, and that the form was taken."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd


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
