"""``np.ldexp`` and ``np.frexp`` where powers of two alone are infinite or 0: NumPy's answers, also compiled."""
from __future__ import annotations

from typing import Any

import numpy as onp
import pytest

from hybrid import autograd, hybridize, np

EXPONENTS = (0, 1, -1, 30, 127, 128, -126, -127, -140, -149, -150, 200, 300, -300, 1023, 1024, -1074, 2098, -2098, 5000)


def numbers(dtype: str) -> Any:
    limits = onp.finfo(dtype)
    least = limits.tiny, limits.smallest_subnormal
    return onp.array([0.0, -0.0, 1, -1.5, 1e-3, 3, onp.inf, onp.nan, limits.max, *least], dtype)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_arrays_of_exponents(dtype: str) -> None:
    x, e = (v.copy() for v in onp.broadcast_arrays(numbers(dtype)[:, None], onp.array(EXPONENTS, "int32")))
    with onp.errstate(over="ignore", under="ignore"):
        want = onp.ldexp(x, e)
    given = np.array(x, dtype=dtype), np.array(e, dtype="int32")
    for f in (np.ldexp, hybridize(lambda a, b: np.ldexp(a, b))):
        for _ in range(2):
            found = f(*given).asnumpy()
            assert found.dtype == dtype
            onp.testing.assert_array_equal(found, want)
            zeros = want == 0
            assert (onp.signbit(found) == onp.signbit(want))[zeros].all()


def test_numbers_as_exponents() -> None:
    x = numbers("float32")
    for e in EXPONENTS:
        with onp.errstate(over="ignore", under="ignore"):
            want = onp.ldexp(x, e)
        onp.testing.assert_array_equal(np.ldexp(np.array(x), e).asnumpy(), want)
    with onp.errstate(over="ignore", under="ignore"):
        want = onp.ldexp(x, -140), onp.ldexp(x, 300)
    for found, right in zip(hybridize(lambda a: (np.ldexp(a, -140), np.ldexp(a, 300)))(np.array(x)), want):
        onp.testing.assert_array_equal(found.asnumpy(), right)
    assert float(np.ldexp(np.array(0.0), 300)) == 0 == float(hybridize(lambda e: np.ldexp(0, e))(np.array(300.0)))


def test_results_are_rounded_once() -> None:
    """Subnormal results of numbers with all their digits: exponents just beyond the smallest normal one too."""
    rng = onp.random.RandomState(3)
    x = (rng.rand(4000) * 2.0 ** rng.randint(-20, 20, 4000)).astype("float32")
    e = rng.randint(-170, -100, 4000).astype("int32")
    with onp.errstate(under="ignore"):
        want, one = onp.ldexp(x, e), onp.ldexp(x, -130)
    compiled = hybridize(lambda a, b: (np.ldexp(a, b), np.ldexp(a, -130)))
    for _ in range(2):
        found, other = compiled(np.array(x), np.array(e, dtype="int32"))
    onp.testing.assert_array_equal(found.asnumpy(), want)
    onp.testing.assert_array_equal(other.asnumpy(), one)


def test_other_dtypes() -> None:
    assert np.ldexp([1, 2], [3, 4]).tolist() == [8, 32]
    whole = np.array([1, 3], dtype="int32")
    for found, values in ((np.ldexp(whole, 2), [4, 12]), (np.ldexp(2, whole), [4, 16]),
                          (np.ldexp(whole, whole), [2, 24])):
        assert found.dtype == "float32" and found.tolist() == values
    assert np.ldexp(np.array([1.5], dtype="float16"), 3).tolist() == [12]
    assert np.ldexp(np.array([1.0, 2.0]), np.array([0.5, 1.0])).asnumpy() == pytest.approx([2 ** 0.5, 4])


def test_gradients() -> None:
    x, e = np.array([1.0, 3.0]), np.array([2.0, -130.0])
    x.attach_grad()
    e.attach_grad()
    with autograd.record():
        y = np.ldexp(x, e) * np.array([1.0, 2.0 ** 126])
    y.backward()
    assert x.grad.asnumpy() == pytest.approx([4, 2 ** -4])
    assert e.grad.asnumpy() == pytest.approx([4 * onp.log(2), 3 * 2 ** -4 * onp.log(2)])


def test_mantissas() -> None:
    x = numbers("float32")
    for found, want in zip(np.frexp(np.array(x)), onp.frexp(x)):
        onp.testing.assert_array_equal(found.asnumpy(), want)
