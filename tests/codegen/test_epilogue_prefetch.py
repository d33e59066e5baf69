"""What a product's epilogue reads and writes of large arrays is fetched while a tile is summed."""
from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

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


def test_numbers_of_an_update_are_read_outside_of_the_loops() -> None:
    """A learning rate is read once for each form of a kernel (tiles, rows without zeros), not again for each tile."""
    leaves = a, b, w, rates = *operands(), ir.input(3, (4,), np.float64)
    positive = ir.map("relu", a)
    gradient = ir.dot(positive, b, ((0,), (0,)))
    rate = ir.cast(ir.reshape(ir.slice(rates, (2,), (1,)), ()), np.float32)
    p = Program(leaves, (ir.map("sub", w, gradient * rate), positive))
    program = CpuProgram(plan(p))
    rng = np.random.default_rng(2)
    given = [np.abs(rng.standard_normal(n.shape)).astype(n.dtype) for n in leaves]
    for zeros in (0.0, 0.9):                                                     # the tiles; rows without zeros
        given[0] = np.where(rng.random(given[0].shape) < zeros, -1, given[0]).astype("float32")
        exact = given[2] - given[3][2] * (np.maximum(given[0], 0).astype("float64").T @ given[1])
        np.testing.assert_allclose(program(given)[0], exact, atol=1e-4)
    reads = re.findall(r"^( *)double \w+ = \w+\[2\];$", program.report.source, re.MULTILINE)
    assert reads == ["  ", "  "]


@pytest.mark.parametrize("units", [128, 256])
def test_rows_without_zeros_fetch_a_later_row_with_each_vector(units: int) -> None:
    """Where zeros are left out, each vector of a row asks the second cache for that of a row to come, of all large
    arrays that the update reads or writes. A gradient of half a megabyte is written past the caches instead, where its
    memory is aligned: whoever reads it does so after the step."""
    leaves = a, b, w = (ir.input(0, (64, units), np.float32), ir.input(1, (64, 784), np.float32),
                        ir.input(2, (units, 784), np.float32))
    positive = ir.map("relu", a)
    gradient = ir.dot(positive, b, ((0,), (0,)))
    program = CpuProgram(plan(Program(leaves, (gradient, w - gradient * ir.full(0.5, gradient.shape, np.float32),
                                               positive))))
    rng = np.random.default_rng(3)
    for zeros in (0.0, 0.9):
        given = [rng.standard_normal(n.shape).astype("float32") for n in leaves]
        given[0] = np.where(rng.random(given[0].shape) < zeros, -1, np.abs(given[0])).astype("float32")
        exact = np.maximum(given[0], 0).astype("float64").T @ given[1]
        for got, want in zip(program(given), (exact, given[2] - 0.5 * exact), strict=False):
            np.testing.assert_allclose(got, want, atol=2e-4)
    source = program.report.source
    rows = re.findall(r"__builtin_prefetch\((p\d+) \+ [^;]* \+ 784 \* \d+, 0, 2\);", source)
    past, near = (set(re.findall(rf"HYV_{word}\((p\d+) \+ [^;]*, sum_0\);", source)) for word in ("PAST", "STORE"))
    if units == 256:
        assert len(past) == 1 and past <= near              # which of them is decided by its address
        assert sorted(Counter(rows).values()) in ([2], [4]) and not past & set(rows)
    else:
        # w, and the gradient, which is only written: in one loop, or in each of two where vectors do not fill a tile
        assert not past and sorted(Counter(rows).values()) in ([1, 1], [2, 2])
