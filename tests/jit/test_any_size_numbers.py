"""Sizes as numbers in code that is compiled for any size: arithmetic, shapes, ranges and slices, against eager."""
import math

import numpy
import pytest

from hybrid import autograd, hybridize, nd, np
from hybrid.jit.compile_policy import eagerly

SIZES = (5, 9, 3, 16, 15, 17, 2, 1, 40)


def numbers(x):
    n, m = x.shape
    return (x / n, n / (x * x + 1), x * n + n - 1, x * (1 / n) / m ** 0.5, x * (n * 0.5 + 2), x.sum() / x.size,
            nd.maximum(x, n - 8), x > n, nd.cast(x, "int32") * n, nd.cast(x, "float16") / n)


def shapes(x):
    n, m = x.shape
    return (x.reshape((n, -1)) * 2, x.reshape(n * m) * 2, x.reshape((n, 2, m // 2)) * 2, nd.zeros((n, 4)) + x,
            nd.ones((2, n)), nd.full((n,), 3), nd.broadcast_to(x.sum(axis=0, keepdims=True), (n, 4)),
            nd.tile(x[0:1], (n, 1)), nd.repeat(x[0:1], n, axis=0), nd.one_hot(nd.arange(3), n), nd.eye(n))


def ranges(x):
    n = x.shape[0]
    rows, columns = nd.arange(n).reshape((-1, 1)), nd.arange(n).reshape((1, -1))
    return (nd.arange(2, n + 5, 2), nd.arange(n, 2 * n, dtype="int32"), nd.broadcast_lesser_equal(columns, rows),
            nd.SequenceMask(x, nd.ones((4,)) * (n - 1), use_sequence_length=True))


def slices(x):
    n = x.shape[0]
    return (x[:n] * 2, x[1:n + 3] * 2, x[:-1] * 2, x[n // 2:] * 2, x[-1] * 2, x[n - 1] * 2, x[0] * 2, x[::-1] * 2,
            x[::3] * 2, x[:, :2] * 2, x[:, ::-2] * 2)


def of_numpy(x):
    n = x.shape[0]
    return (x / n, np.sum(x, axis=0) / n, (x > 0).astype("int32") * n, x.reshape(n, -1) + 1, np.zeros((n, 4)) + x,
            np.arange(n), x[1:n - 1] + 0, np.tril(np.ones((n, n))))


@pytest.mark.parametrize("f", [numbers, shapes, ranges, slices, of_numpy])
def test_sizes_as_numbers(f):
    """Values and dtypes are those that the numbers themselves give."""
    compiled = hybridize(f)
    for n in SIZES:
        x = numpy.random.RandomState(n).randn(n, 4).astype("float32")
        x = np.array(x) if f is of_numpy else nd.array(x)
        found = compiled(x)
        with eagerly():
            wanted = f(x)
        for i, (a, b) in enumerate(zip(found, wanted)):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), (n, i)
            numpy.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-3 if a.dtype == "float16" else 1e-5,
                                          atol=1e-6, err_msg=f"{n} {i}")
    assert len(compiled.programs) <= 5, [str(p) for p in compiled.programs]
    assert compiled._engine._any_size.families


def test_gradients_go_by_the_size_of_the_call():
    @hybridize
    def f(x):
        return (x * x).sum() / x.shape[0] + x[: x.shape[0] - 1].sum() * x.shape[0] ** 0.5
    for n in (4, 8, 3, 17):
        x = nd.ones((n, 2))
        x.attach_grad()
        with autograd.record():
            y = f(x)
        y.backward()
        slope = numpy.full((n, 2), 2 / n + n ** 0.5)
        slope[-1] = 2 / n
        numpy.testing.assert_allclose(x.grad.asnumpy(), slope, rtol=1e-5)
    assert len(f.programs) == 2


@pytest.mark.parametrize("f", [lambda x: x / math.sqrt(x.shape[0]), lambda x: x * len(x),
                               lambda x: x * 2 if x.shape[0] / 2 > 2 else x, lambda x: x * float(x.shape[0]),
                               lambda x: x + numpy.ones(x.shape[0])[:, None]])
def test_code_that_needs_the_number_itself_has_its_value(f):
    """Python's own functions and comparisons of what was computed: a program for each size, and no other result."""
    compiled = hybridize(f)
    for n in (3, 4, 6, 9):
        x = nd.ones((n, 2))
        found = compiled(x)
        with eagerly():
            numpy.testing.assert_allclose(found.asnumpy(), f(x).asnumpy(), rtol=1e-6)


def test_numbers_that_the_code_keeps_or_returns():
    """They are plain numbers, of this call."""
    kept = []

    def half(x):
        kept.append(x.shape[0] / 2)
        return x + 1
    f, g = hybridize(lambda x: (x * 2, x.shape[0] / 2)), hybridize(half)
    for n in (3, 4, 6, 9):
        assert f(nd.ones((n, 2)))[1] == n / 2
        g(nd.ones((n, 2)))
    assert kept == [1.5, 2.0, 3.0, 4.5] and all(type(k) is float for k in kept)


def test_a_division_by_nothing_is_an_error_of_its_size_alone():
    f = hybridize(lambda x: x * (1 / (x.shape[0] - 5)))
    for n in (3, 4, 6, 9, 7):
        numpy.testing.assert_allclose(f(nd.ones((n,))).asnumpy(), numpy.full(n, 1 / (n - 5)), rtol=1e-6)
    with pytest.raises(ZeroDivisionError):
        f(nd.ones((5,)))
    assert len(f.programs) == 1


def test_results_beside_empty_ones_are_computed():
    """A kernel whose array is empty runs no loop; a number that it uses is a result all the same."""
    def function(x, y):
        total = y.sum()
        return x / (total + 1), total, nd.sum(y.reshape((1, -1)) * nd.ones((3, 1)), axis=1)

    compiled = hybridize(function)
    for rows in (0, 3, 0, 5):
        empty, total, sums = compiled(nd.ones((rows, 2)), nd.array([1, 2]))
        assert empty.shape == (rows, 2) and total.asscalar() == 3 and sums.asnumpy().tolist() == [3, 3, 3]
