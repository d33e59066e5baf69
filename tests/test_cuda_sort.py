"""Long rows sorted by many blocks."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid import ir
from hybrid.codegen import cuda
from hybrid.passes.pipeline import plan

from .cuda_forms import Form, normal, program
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("cuda_device")
rng = np.random.default_rng(5)


def order(descending: bool, x: np.ndarray) -> Form:
    return Form(lambda x: ir.argsort(x, descending), [x])


@pytest.mark.parametrize("descending", [False, True])
def test_long_rows(descending: bool) -> None:
    """Every kind of key; equal keys keep their order, NaN is the greatest, zeros are equal; rows of one tile and of
    several."""
    x = normal(2, 5000)
    x[0, 7], x[0, 3000], x[1, 9], x[1, 11], x[1, 40] = np.nan, np.inf, -0.0, 0.0, -np.inf
    keys = [x, normal(1100, dtype="float16"), rng.integers(-100, 100, (3, 1500)).astype("int8"),
            rng.integers(-30000, 30000, (4100,)).astype("int16"), rng.integers(-5, 5, (9000,)).astype("int32"),
            rng.integers(0, 2**32, (2000,)).astype("uint32"), rng.integers(0, 2, (2000,)).astype("bool")]
    check([order(descending, k) for k in keys])


def test_the_form() -> None:
    """A row of a million is the work of many blocks, in three launches a digit; short rows and keys of 64 bits have
    one block each."""
    def launches(x: np.ndarray) -> list[tuple[str, int]]:
        return [(launch.name, launch.blocks) for launch in
                cuda.print_program(plan(program([order(False, x)])[0]).groups).launches]
    million = launches(np.zeros(10**6, "float32"))
    assert len(million) == 12 and ("k0_move3", 245) in million
    assert launches(np.zeros((7, 500), "float32")) == [("k0", 7)]
    assert launches(np.zeros((2, 5000), "float64")) == [("k0", 2)]
