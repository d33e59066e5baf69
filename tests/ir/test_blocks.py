"""Functions of large arrays that NumPy computes block by block."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import primitives, special


@pytest.mark.parametrize("name", ["erf", "erfinv", "gamma", "gammaln", "digamma", "trigamma"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_blocks_have_the_same_numbers(name: str, dtype: str) -> None:
    function = getattr(special, name)
    x = np.random.RandomState(0).uniform(-9, 9, (3, special.BLOCK + 5)) * (0.1 if name == "erfinv" else 1)
    x = x.astype(dtype).T                                   # not as the elements lie in memory
    got, whole = function(np, x), function.__wrapped__(np, x)
    assert got.dtype == whole.dtype and got.shape == x.shape
    np.testing.assert_array_equal(got, whole)


def test_intermediate_values_are_small() -> None:
    sizes = []

    @special._in_blocks
    def doubled(xp: object, x: np.ndarray) -> np.ndarray:
        sizes.append(x.size)
        return x * 2
    np.testing.assert_array_equal(doubled(np, np.arange(20000.0)), np.arange(20000.0) * 2)
    assert max(sizes) <= special.BLOCK < 20000 == sum(sizes)


@pytest.mark.parametrize("axes", [(2, 3), (0, 1), (3,)])
def test_windows_are_added_sample_by_sample(axes: tuple[int, ...]) -> None:
    """The sums of windows that overlap, of more numbers than are added at a time, are those of numpy.add.at."""
    shape, size, stride = (5, 6, 40, 44), (3,) * len(axes), (2,) * len(axes)
    leaf = ir.input(0, shape, np.dtype(np.float32))
    windows = ir.window(leaf, axes, size, stride, (1,) * len(axes))
    y = np.random.RandomState(0).randint(0, 9, windows.shape).astype("float32")
    sums = ir.unwindow(ir.input(0, y.shape, np.dtype(np.float32)), axes, stride, (1,) * len(axes), shape)
    numbers = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    places = primitives._window_eager(np, windows, numbers).astype(int)
    expected = np.zeros(numbers.size, np.float32)
    np.add.at(expected, places.ravel(), y.ravel())
    np.testing.assert_array_equal(primitives._unwindow_eager(np, sums, y), expected.reshape(shape))
