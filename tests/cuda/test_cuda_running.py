"""Running sums on CUDA: rows of a warp, of a block, of many blocks; columns, whole and in parts."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid import ir
from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import running
from hybrid.passes.pipeline import plan

from .cuda_forms import Form, normal, program
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("cuda_device")
rng = np.random.default_rng(6)


def sums(x: np.ndarray, axis: int, reverse: bool = False) -> Form:
    return Form(lambda x: ir.cumulate(x, axis, reverse), [x])


def launches(form: Form) -> list[tuple[str, int]]:
    return [(launch.name, launch.blocks) for launch in cuda.print_program(plan(program([form])[0]).groups).launches]


@pytest.mark.parametrize("reverse", [False, True])
def test_rows(reverse: bool) -> None:
    """Of a warp, a block, several blocks; every kind of number. Infinity and NaN change nothing before them."""
    x = normal(2, 9000)
    x[0, 4500], x[1, 8500], x[1, 8700] = np.inf, np.nan, -np.inf
    whole = rng.integers(-100, 100, (3, 700))
    check([sums(a, 1, reverse) for a in (
        x, normal(9, 33), normal(1, 512), normal(3, 513), normal(2, 4096), normal(2, 5000, dtype="float64"),
        normal(2, 300, dtype="float16"), whole.astype("int8"), whole.astype("uint16"), whole.astype("int32"),
        rng.integers(-2**60, 2**60, (2, 4200)), np.full((1, 600), -0.0, "float32"))])


@pytest.mark.parametrize("reverse", [False, True])
def test_columns(reverse: bool) -> None:
    """The first axis of matrices, and one between others."""
    check([sums(normal(500, 7), 0, reverse), sums(normal(3, 130, 5), 1, reverse), sums(normal(20, 40), 0, reverse),
           sums(rng.integers(-9, 9, (70, 3)).astype("int16"), 0, reverse)])


def test_rows_of_very_many_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch of its own finds where each tile begins."""
    monkeypatch.setattr(running, "MANY", 2)
    form = sums(normal(2, 5 * 4096 - 3), 1)
    assert [name for name, _ in launches(form)] == ["k0_parts", "k0_starts", "k0"]
    check([form])


def test_what_is_summed_is_computed_on_the_way() -> None:
    """Also where it is a result itself."""
    check([Form(lambda x: ir.cumulate(ir.map("mul", x, x), 1), [normal(2, 6000)]),
           Form(lambda x: (ir.cumulate(y := ir.map("exp", x), 1), y), [normal(2, 6000)]),
           Form(lambda x: (ir.cumulate(y := ir.map("exp", x), 0), y), [normal(300, 3)])])


def test_launches() -> None:
    """As few as the length allows; many columns, or short ones, are not cut."""
    assert launches(sums(np.zeros((64, 500), "float32"), 1)) == [("k0", 8)]
    assert launches(sums(np.zeros((64, 4000), "float32"), 1)) == [("k0", 64)]
    assert launches(sums(np.zeros(10**6, "float32"), 0)) == [("k0_parts", 245), ("k0", 245)]
    assert launches(sums(np.zeros((1000, 100000), "float32"), 0)) == [("k0", 391)]
    assert launches(sums(np.zeros((1000, 32), "float32"), 0)) == [("k0_parts", 4), ("k0", 4)]
