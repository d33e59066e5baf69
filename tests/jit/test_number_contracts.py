"""Numbers of compiled functions are those of eager ones where rounding, zeros and casts are easily lost."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from hybrid import autograd, hybridize, nd

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


FRACTIONS = np.array([-0.3, 0.3, -0.0, -0.999, -1.5, 1.5, 0.999, -1e-30, 0.0, 2.0, 3e9, -3e9, np.nan, np.inf, -np.inf,
                      -2147483904.0, 1e19, 300.7, -2147483648.0])
WHOLE_TYPES = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
THROUGH_WHOLE: dict[str, Callable[[Any, str, str], Any]] = {
    "and back": lambda x, whole, back: x.astype(whole).astype(back),
    "absolute": lambda x, whole, back: 1.0 / abs(x.astype(whole)).astype(back),
    "beside the number": lambda x, whole, back: nd.clip(x, -2, 2).astype(back) / x.astype(whole).astype(back),
    "of a part": lambda x, whole, back: nd.where(abs(x) < 1, 1.0 / x.astype(whole).astype(back), x.astype(back)),
    "of a choice": lambda x, whole, back: 1.0 / nd.maximum(x.astype(whole), x.astype(whole) * 2).astype(back),
    "of a sum": lambda x, whole, back: 1.0 / x.astype(whole).sum(axis=0, keepdims=True).astype(back)}


@pytest.mark.parametrize("shape", ((1,), (5, 1), (3, 17)))
@pytest.mark.parametrize("name", THROUGH_WHOLE)
def test_no_integer_is_a_negative_zero(name: str, shape: tuple[int, ...]) -> None:
    ways = [(d, whole, back) for d, back in (("float32", "float32"), ("float64", "float64"), ("float16", "float16"),
                                             ("float32", "float64")) for whole in WHOLE_TYPES]
    values = np.resize(FRACTIONS, shape)

    def results(*xs: Any) -> list[Any]:
        return [THROUGH_WHOLE[name](x, whole, back) for x, (_, whole, back) in zip(xs, ways)]

    with np.errstate(all="ignore"):
        # NumPy's own answers beyond the range of uint32 depend on the array's size
        xs = [nd.array(np.where((whole != "uint32") | (abs(values) < 2 ** 31), values, 2).astype(d), dtype=d)
              for d, whole, _ in ways]
        for way, got, want in zip(ways, hybridize(results)(*xs), results(*xs)):
            got, want = got.asnumpy(), want.asnumpy()
            np.testing.assert_allclose(got, want, rtol=2e-3 if way[2] == "float16" else 1e-6, err_msg=str(way))
            number = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number], str(way))


def test_zeros_of_both_signs_are_two_attributes() -> None:
    x = nd.array([1.0, 2.0])
    for zero in (0.0, -0.0, 0.0):
        assert np.signbit((x * zero).asnumpy()).all() == np.signbit(zero)


# base, exponent, and MXNet's gradients of both; where it has 0 times infinity, the limit, which is 0
POWERS = np.array([(-2, 2, -4, np.nan), (-2, 3, 12, np.nan), (-2, .5, np.nan, np.nan), (-1, 0, -0., np.nan),
                   (0, 2, 0, 0), (0, 0, np.nan, -np.inf), (0, -1, -np.inf, -np.inf), (2, np.nan, np.nan, np.nan),
                   (np.nan, 2, np.nan, np.nan), (1, 5, 5, 0), (2, 3, 12, 8 * np.log(2)), (.5, -2, -16, 4 * np.log(.5)),
                   (np.inf, -1, -0., 0), (2, -200, -0., 0)], "float32")


@pytest.mark.parametrize("form", (nd.broadcast_power, lambda a, b: a ** b))
@pytest.mark.parametrize("hybridizer", (hybridize, lambda f: f))
def test_gradients_of_powers_are_those_of_mxnet(form: Any, hybridizer: Any) -> None:
    a, b = nd.array(POWERS[:, 0]), nd.array(POWERS[:, 1])
    for x in (a, b):
        x.attach_grad()
    with np.errstate(all="ignore"), autograd.record():
        y = hybridizer(form)(a, b)
        y.backward()
    np.testing.assert_allclose(a.grad.asnumpy(), POWERS[:, 2], rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(b.grad.asnumpy(), POWERS[:, 3], rtol=1e-5, atol=1e-30)


SUMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], Any]] = {
    "all of 2**24": (lambda x: x.sum(), (1 << 24,), None),
    "all, and an odd rest": (lambda x: x.sum(), ((1 << 20) + 13,), None),
    "rows": (lambda x: x.sum(axis=1), (3, 50031), 1),
    "columns": (lambda x: x.sum(axis=0), (100000, 16), 0),
    "columns beside vectors": (lambda x: x.sum(axis=0), (70000, 17), 0),
    "two columns": (lambda x: x.sum(axis=0), (300000, 2), 0),
    "channels of large pictures": (lambda x: x.sum(axis=(0, 2)), (64, 3, 901), (0, 2)),
    "channels of small pictures": (lambda x: x.sum(axis=(0, 2)), (3000, 5, 49), (0, 2)),
    "channels of few elements": (lambda x: x.sum(axis=(0, 2)), (30000, 5, 3), (0, 2))}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_equal_numbers(name: str) -> None:
    f, shape, axis = SUMS[name]
    a = np.full(shape, 0.1, "float32")
    np.testing.assert_allclose(hybridize(f)(nd.array(a)).asnumpy(), a.astype("float64").sum(axis), rtol=1e-6)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
@pytest.mark.parametrize("name", ["all, and an odd rest", "rows", "columns", "two columns",
                                  "channels of large pictures"])
def test_long_sums_of_special_numbers(name: str, value: float) -> None:
    f, shape, axis = SUMS[name]
    a = np.full(shape, 0.1, "float32")
    a.flat[[5, -5]] = value
    with np.errstate(over="ignore"):
        want = a.astype("float64").sum(axis).astype("float32")
    np.testing.assert_allclose(hybridize(f)(nd.array(a)).asnumpy(), want, rtol=1e-6)


def _gradient(f: Callable[[Any], Any], values: Any) -> Any:
    x = nd.array(values)
    x.attach_grad()
    with autograd.record():
        y = f(x)
    y.backward()
    return x.grad.asnumpy()


LOSSES = {          # function, gradient at 1, 2, 3 in MXNet 1.9.1
    "make_loss": (lambda x: nd.BlockGrad(nd.make_loss(x)) + x, [2, 2, 2]),
    "times": (lambda x: nd.BlockGrad(nd.make_loss(x) * 3) + x, [2, 2, 2]),
    "relu": (lambda x: nd.BlockGrad(nd.relu(nd.make_loss(x * x))) + x, [3, 5, 7]),
    "MakeLoss": (lambda x: nd.BlockGrad(nd.MakeLoss(x, grad_scale=5)) + x, [6, 6, 6]),
    "regression": (lambda x: nd.BlockGrad(nd.LinearRegressionOutput(x, x * 0)) + x, [2, 3, 4]),
    "detach": (lambda x: nd.make_loss(x).detach() + x, [1, 1, 1])}


@pytest.mark.parametrize("way", [lambda f: f, hybridize], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_behind_block_grad_have_their_gradient(name: str, way: Callable[[Any], Any]) -> None:
    f, want = LOSSES[name]
    np.testing.assert_array_equal(_gradient(way(f), [1., 2., 3.]), want)


def _doubled_part(x: Any) -> Any:
    y = x.T
    v = y[1:]
    v[:] = v * 2
    return y * 1


@pytest.mark.parametrize("way", [lambda f: f, hybridize], ids=["eager", "hybridized"])
def test_a_range_of_a_transposed_array_is_a_view(way: Callable[[Any], Any]) -> None:
    got = way(_doubled_part)(nd.array([[1., 2.], [3., 4.]]))
    np.testing.assert_array_equal(got.asnumpy(), [[1, 3], [4, 8]])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows, columns", [(1, 1), (2, 2), (1, 64), (3, 5), (5, 70), (17, 33)])
@pytest.mark.parametrize("value", [0.1, np.inf, np.nan])
def test_dot_products_of_great_depth(rows: int, columns: int, value: float, turned: bool) -> None:
    a, b = np.full((rows, 100003), 0.1, "float32"), np.full((columns, 100003), 0.1, "float32")
    a[0, 7] = value
    right = a.astype("float64") @ b.astype("float64").T
    f = hybridize(lambda a, b: nd.dot(a, b, transpose_b=turned))
    np.testing.assert_allclose(f(nd.array(a), nd.array(b if turned else b.T)).asnumpy(), right, rtol=5e-6)


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


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("whole", ["int32", "int64"])
def test_numbers_beyond_the_integers_come_back_as_eagerly(source: str, whole: str) -> None:
    """Compilers take a conversion to an integer and back for a truncation."""
    with np.errstate(all="ignore"):
        x = np.array([1.5, -2.7, 3e9, -3e9, 1e20, -1e20, np.nan, np.inf, -np.inf, 2.0**31, -2.0**31, 2.0**31 - 128,
                      9.3e18, -9.3e18] * 5, source)

    def there_and_back(a):
        return a.astype(whole).astype(source)
    a = nd.array(x, dtype=source)
    np.testing.assert_array_equal(hybridize(there_and_back)(a).asnumpy(), there_and_back(a).asnumpy())
