"""Elementwise kernels that read across memory, in squares of shared memory."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from hybrid import ir
from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import transposed
from hybrid.passes.pipeline import plan

from .cuda_forms import Form, normal, program
from .test_cuda_kernels import check

pytestmark = pytest.mark.usefixtures("cuda_device")


def text(form: Form) -> str:
    return cuda.print_program(plan(program([form])[0]).groups).source


def turned(axes: tuple[int, ...], *shape: int, dtype: str = "float32", then: Callable[..., Any] = lambda x: x) -> Form:
    return Form(lambda x: then(ir.permute(ir.map("mul", x, x), axes)), [normal(*shape, dtype=dtype)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_values(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole squares and parts of them; axes before and between."""
    monkeypatch.setattr(transposed, "FROM", 1)
    forms = [turned((1, 0), 64, 96, dtype=dtype), turned((1, 0), 33, 70, dtype=dtype),
             turned((0, 2, 1), 3, 40, 17, dtype=dtype), turned((0, 2, 3, 1), 2, 20, 5, 16, dtype=dtype)]
    assert all("square0[line][lane] = p1[" in text(f) for f in forms)
    check(forms)


def test_several_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two across, one along; the same array in both orders; whole numbers."""
    monkeypatch.setattr(transposed, "FROM", 1)
    x, y = normal(40, 50), normal(50, 40)
    whole = np.random.default_rng(1).integers(-9, 9, (35, 50)).astype("int8")
    both = [Form(lambda a, b, c: ir.map("add", ir.map("mul", ir.permute(a, (1, 0)), ir.permute(b, (1, 0))), c),
                 [x, x + 1, y]),
            Form(lambda a: ir.map("add", a, ir.permute(a, (1, 0))), [normal(48, 48)]),
            Form(lambda a: ir.map("add", ir.permute(a, (1, 0)), ir.permute(a, (1, 0))), [whole])]
    assert [text(f).count("__shared__") for f in both] == [2, 1, 1]
    check(both)


def test_the_rest_keeps_its_form() -> None:
    """What reads along memory, has few elements, or short axes."""
    large = np.zeros((1024, 1024), "float32")
    assert "square" in text(Form(lambda x: ir.map("neg", ir.permute(x, (1, 0))), [large]))
    for form in (Form(lambda x: ir.map("neg", x), [large]),
                 Form(lambda x: ir.map("neg", ir.permute(x, (1, 0))), [large[:64, :64]]),
                 Form(lambda x: ir.map("neg", ir.permute(x, (1, 0))), [np.zeros((8, 1 << 17), "float32")])):
        assert "square" not in text(form)
