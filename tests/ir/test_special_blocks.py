"""Special functions of large arrays, which are computed block by block."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid.ir import special


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
