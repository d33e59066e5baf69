"""Tiles of products as data (hybrid/codegen/nest.py): axes cut into tiles, sums in registers, their statements."""
from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hybrid.codegen.lanes import support
from hybrid.codegen.c import prelude
from hybrid.codegen.nest import FLOATS, Cut, Sums, count, function, statements, unless_finite, within
from hybrid.ir.parse import parse
from hybrid.ir.stmt import Function, text_of
from hybrid.runtime import toolchain


@pytest.mark.parametrize("extent, most", [(1, 1), (7, 3), (9, 3), (40, 14), (5, 9)])
@pytest.mark.parametrize("kind", ["even", "overlapping"])
def test_tiles_cover_an_axis(extent: int, most: int, kind: str) -> None:
    cut = Cut.even(extent, most) if kind == "even" else Cut.overlapping(extent, min(most, extent))
    seen: set[int] = set()
    for t in range(cut.count):
        first = eval(_python(cut.first("t")), {"t": t})
        size = cut.size + (t < cut.longer)
        assert size in cut.sizes and size <= min(most, extent) and 0 <= first and first + size <= extent
        seen |= set(range(first, first + size))
        for other in cut.sizes:
            assert all(eval(c, {"t": t}) for c in cut.has("t", other)) == (other == size)
    assert seen == set(range(extent))


def _python(text: str) -> str:
    """A condition of C as one of Python: (a < b ? x : y)."""
    before, question, values = text.partition("?")
    if not question:
        return text
    condition, (x, y) = before.rpartition("(")[2], values.split(":")
    return f"{before.rpartition('(')[0]}({x} if {condition} else {y}"


def test_the_statements_of_sums() -> None:
    sums = Sums(["HYV_B(x[q])", "HYV_B(x[q + 8])"], ["HYV_LOAD(W + 0)", "HYV_LOAD(W + 16)"])
    code = function("k0_tile", "const float *x, const float *W, float *to",
                    [*sums.zero(), count("q", 8, [*sums.step(), "W += 32;"]),
                     *sums.write("to", 32, 16)])
    assert isinstance(code, Function)
    text = text_of([code])
    assert text == text_of(parse(text)) == text_of(statements([code]))
    assert text.splitlines()[:12] == [
        "static __attribute__((noinline)) void k0_tile(const float *x, const float *W, float *to) {",
        "  hy_v s0_0 = {0};", "  hy_v s0_1 = {0};", "  hy_v s1_0 = {0};", "  hy_v s1_1 = {0};",
        "  for (long q = 0; q < 8; q++) {",
        "    const hy_v w0 = HYV_LOAD(W + 0);", "    const hy_v w1 = HYV_LOAD(W + 16);",
        "    {", "      const hy_v a = HYV_B(x[q]);", "      s0_0 += a * w0;", "      s0_1 += a * w1;"]
    assert text.splitlines()[-2:] == ["  HYV_STORE(to + 48, s1_1);", "}"]


def test_other_arithmetic_and_parts() -> None:
    words = replace(FLOATS, vector="hy_words", sum="hy_vi", added="HYV_DOT_BYTES({0}, {1}, {2})")
    sums = Sums(["HYV_WORD(x[q])"], ["HYV_WORDS(W)"], words, "_1")
    assert text_of([*sums.zero(), *sums.step()]).splitlines() == [
        "hy_vi s0_0_1 = {0};", "const hy_words w0 = HYV_WORDS(W);", "{", "  const hy_words a = HYV_WORD(x[q]);",
        "  s0_0_1 = HYV_DOT_BYTES(s0_0_1, a, w0);", "}"]


def test_lines_that_open_braces_hold_what_follows() -> None:
    code = within(["int n = 0;", "for (long i = 0; i < 4; i++, x += 3) {", "n++;"], ["y[i] = n;"])
    assert text_of(code).splitlines() == ["int n = 0;", "for (long i = 0; i < 4; i++, x += 3) {", "  n++;",
                                          "  y[i] = n;", "}"]


@pytest.mark.skipif(toolchain.compiler() is None, reason="no C compiler")
def test_a_product_runs(tmp_path: Path) -> None:
    """3 rows times 2 vectors of columns, over a depth of 5; a NaN is seen."""
    lanes, rows, depth = 4, 3, 5
    sums = Sums([f"HYV_B(A[{i * depth} + q])" for i in range(rows)],
                [f"HYV_LOAD(B + q * {2 * lanes} + {j * lanes})" for j in range(2)])
    found = unless_finite(" + ".join(s for *_, s in sums.all()), ["*bad = 1;"])
    code = function("net", "const float *A, const float *B, float *to, int *bad",
                    [*sums.zero(), count("q", depth, sums.step()), found,
                     *sums.write("to", 2 * lanes, lanes)])
    text = prelude() + support(lanes) + text_of([replace(code, before=("void ",))])
    (tmp_path / "a.c").write_text(text)
    subprocess.run([toolchain.compiler(), "-O1", "-shared", "-fPIC", "-w", "-o", tmp_path / "a.so", tmp_path / "a.c"],
                   check=True)
    net = ctypes.CDLL(str(tmp_path / "a.so")).net
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((rows, depth)).astype("f"), rng.standard_normal((depth, 2 * lanes)).astype("f")
    for first in (a[0, 0], np.nan):
        a[0, 0] = first
        out, bad = np.zeros((rows, 2 * lanes), "f"), np.zeros(1, "i4")
        net(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, out, bad)))
        np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)
        assert bad[0] == np.isnan(first)
