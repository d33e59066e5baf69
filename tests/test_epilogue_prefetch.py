"""What a product's epilogue reads and writes of large arrays is fetched while a tile is summed."""
from __future__ import annotations

import re

import numpy as np

from hybrid import ir
from hybrid.ir import Node, Program
from hybrid.passes.pipeline import plan
from hybrid.runtime.cpu import CpuProgram


def fetched(outputs: tuple[Node, ...], leaves: tuple[Node, ...]) -> set[tuple[str, bool]]:
    """The pointers that a program's tiles prefetch, and whether to write; its results are NumPy's."""
    rng = np.random.default_rng(1)
    a, b, w = given = [rng.standard_normal(n.shape).astype("float32") for n in leaves]
    program = CpuProgram(plan(Program(leaves, outputs)))
    gradient = a.astype("float64").T @ b
    for got, want in zip(program(given), (gradient, w - 0.5 * gradient), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-4)
    return {(m[1], bool(m[2])) for m in re.finditer(r"__builtin_prefetch\((E\d)[^;]*?(, 1)?\);", program.report.source)}


def operands() -> tuple[Node, Node, Node]:
    return ir.input(0, (64, 256), np.float32), ir.input(1, (64, 784), np.float32), ir.input(2, (256, 784), np.float32)


def test_a_result_that_is_only_written_is_fetched_to_be_written() -> None:
    a, b, w = operands()
    gradient = ir.dot(a, b, ((0,), (0,)))
    updated = ir.map("sub", w, ir.map("mul", gradient, ir.full(0.5, (256, 784), np.float32)))
    assert fetched((gradient, updated), (a, b, w)) == {("E0", False), ("E1", True)}    # not where w is written over
