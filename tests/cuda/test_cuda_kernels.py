"""Each form of CUDA kernel: what stands in its text, and that it computes what the reference does, in three orders of
threads."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np
import pytest

from hybrid.base import dtype as dt
from hybrid import ir, runtime
from hybrid.codegen import cuda
from hybrid.codegen.printers.cuda import contraction as cuda_contraction, pieces as cuda_pieces, plain_tiles
from hybrid.passes.pipeline import plan
from hybrid.base.device import gpu
from hybrid.runtime import reference
from hybrid.runtime.cuda.emulator import EmulatorDriver

from .cuda_forms import FORMS, Form, normal, program
from .cuda_tools import run_program

CHUNK = 32
pytestmark = pytest.mark.usefixtures("cuda_device")


@pytest.fixture(autouse=True)
def small_arrays_as_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_pieces, "VECTOR_FROM", 1)


def same(got: np.ndarray, expected: np.ndarray, tol: float, what: str) -> None:
    assert got.shape == expected.shape and got.dtype == expected.dtype, what
    if not dt.is_float(expected.dtype):
        return np.testing.assert_array_equal(got, expected, err_msg=what)
    a, b = got.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol * np.abs(b[np.isfinite(b)]).max(initial=1e-3), err_msg=what)


def check(forms: Sequence[Form]) -> None:
    """Results and updated inputs are the reference's."""
    whole, arrays, of_outputs, of_updates = program(forms)
    expected, updates = ([np.array(v) for v in values]
                         for values in reference.run(whole, [np.array(a) for a in arrays], np))
    for order, got, after in run_program(whole, arrays):
        for k, (g, e, tol) in enumerate(zip(got, expected, of_outputs, strict=True)):
            same(g, e, tol, f"{order}: result {k}")
        for (slot, _), u, tol in zip(whole.updates, updates, of_updates, strict=True):
            same(after[slot], u, tol, f"{order}: input {slot}")


@pytest.mark.parametrize("name", FORMS)
def test_text(name: str) -> None:
    """The printer takes the form that is meant."""
    text = cuda.print_program(plan(program([FORMS[name]])[0]).groups).source
    body = text[text.find('extern "C"'):]
    for piece in FORMS[name].text:
        if piece != "hy_copy":                             # copies are added by the executable
            assert (piece.lstrip("!") in body) != piece.startswith("!"), f"{piece}\n{body}"


@pytest.mark.parametrize("start", range(0, len(FORMS), CHUNK))
def test_values(start: int) -> None:
    check(list(FORMS.values())[start:start + CHUNK])


def test_copies_at_the_end() -> None:
    """A result that is also an input's new value is copied there by one more launch."""
    executable = runtime.compile(program([FORMS["updates of results"]])[0], gpu(0))
    assert executable.report.source.count("hy_copy(") == 2


def test_sums_at_places_say_which_form_they_take() -> None:
    """Owners that look at all indices, or a sort, whichever takes fewer clocks by what was counted."""
    few, many = (str(runtime.compile(program([FORMS[name]])[0], gpu(0)).report)
                 for name in ("scatter", "scatter of sorted numbers"))
    assert "if each warp reads all 99 indices" in few and "each warp reads all" not in many


def _product(rows: int, columns: int, depth: int, dtype: str) -> Form:
    tol = {"float32": 1e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 2e-2}[dtype]
    return Form(lambda x, y: ir.dot(x, y, ((1,), (1,))),
                [normal(rows, depth, dtype=dtype), normal(columns, depth, dtype=dtype)], tol=tol)


def test_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size of tile, whole and at the edges."""
    tiles = {16 * m + 3 + 7 * k: (m, n) for k, (m, n) in enumerate(plain_tiles.SIDES)}
    monkeypatch.setattr(EmulatorDriver, "arch", "sm_86")   # whose tensor cores multiply no float32 faster
    small = {500 + k: t for k, t in enumerate(plain_tiles.SIDES) if max(t) <= 4}
    monkeypatch.setattr(plain_tiles, "tiles_for", lambda p: [plain_tiles.PlainTile(*{**tiles, **small}[p.rows])])
    monkeypatch.setattr(cuda_contraction, "columns_first", lambda k: False)
    check([*(_product(rows, 16 * n + 5, 36, "float32") for rows, (_, n) in tiles.items()),
           *(_product(rows, 16 * n, 19, "float64") for rows, (_, n) in small.items())])


def _printed(fn: Callable[..., ir.Node], *inputs: tuple[tuple[int, ...], str]) -> str:
    leaves = [ir.input(i, s, t) for i, (s, t) in enumerate(inputs)]
    planned = plan(ir.Program(tuple(leaves), (fn(*leaves),)))
    return cuda.print_program(planned.groups).source.partition('extern "C"')[2]


@pytest.mark.parametrize("fn, shapes", [
    pytest.param(lambda x: x * 2, [((2**16, 2**16), "int8")], id="elements"),
    pytest.param(lambda x, y: ir.reduce("max", ir.reshape(x, (70000, 1)) - ir.reshape(y, (1, 70000)), (0, 1)),
                 [((70000,), "float32")] * 2, id="never stored"),
    pytest.param(lambda x: ir.reduce("sum", x, (1,)), [((3, 2**31), "float32")], id="long rows"),
    pytest.param(lambda x: ir.reduce("sum", x, (0,)), [((2**31, 3), "float32")], id="long columns"),
    pytest.param(lambda x: x - ir.reduce("max", x, (1,), True), [((2**21, 2048), "float32")], id="rows"),
    pytest.param(lambda x, w: ir.dot(x, w, ((1,), (1,))), [((2**17, 2**15), "float16"), ((64, 2**15), "float16")],
                 id="product"),
    pytest.param(lambda x, i: ir.gather(x, i, 0), [((2**24, 256), "float32"), ((10,), "int64")], id="gather"),
])
def test_more_than_two_thousand_million_elements(fn: Callable[..., ir.Node], shapes: Any) -> None:
    """Indices are 64 bits wide, also where only a value that is never stored is that large; and 32 bits where nothing
    is."""
    text = _printed(fn, *shapes)
    assert "long long" in text
    for word in ("int t =", "int row =", "int r0 =", "int at =", "int q = low", "for (int q"):
        assert word not in text, word


def test_small_arrays_have_short_indices() -> None:
    text = _printed(lambda x, w: ir.dot(x, w, ((1,), (1,))), ((128, 64), "float32"), ((256, 64), "float32"))
    assert "long" not in text
