"""Gradients of every operator in float64, first and second order: central differences of the reference backend, and the
compiled programs against it.

An element whose one-sided differences disagree stands at a kink: there the gradient must lie between the two.
"""
from __future__ import annotations

from typing import Callable, Sequence

import numpy as np
import pytest

from hybrid import ir, runtime
from hybrid.base.device import Context, array_module, cpu, find_cupy, gpu
from hybrid.ops import registry
from hybrid.passes.partition import partition
from hybrid.runtime import reference

from ..differences import check, sides
from .gradient_rows import NO_GRADIENT, Row, rows

FOUND = list(rows())
ROWS = [row for _, row in FOUND]
PARAMS = [pytest.param(row, id=f"{k}-{row.name}") for k, row in enumerate(ROWS)]


def _run(program: ir.Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(y) for y in reference.run(program, list(arrays), np)[0]]


def _weighted(program: ir.Program, weights: Sequence[np.ndarray]) -> Callable[[Sequence[np.ndarray]], float]:
    """The program as one number: its outputs weighted and summed."""
    return lambda arrays: sum(float(np.sum(y * w))
                              for y, w in zip(_run(program, arrays), weights) if y.dtype.kind == "f")


@pytest.mark.parametrize("row", [p for p in PARAMS if not p.values[0].special])
def test_first_order(row: Row) -> None:
    """The backward program gives the slope along every element of every float input."""
    f, xs = _weighted(row.program, row.heads), row.inputs
    here = f(xs)
    for slot, grad in zip(row.wrt, _run(row.backward, [*xs, *row.heads])):
        assert grad.shape == xs[slot].shape and grad.dtype == np.float64
        for index in np.ndindex(*grad.shape):
            move = np.zeros(grad.shape)
            move[index] = 1.0
            check(float(grad[index]), sides(f, xs, here, {slot: move}), 1e-6, f"input {slot}{list(index)}")


def _at_kink(row: Row) -> bool:
    """Whether slopes to the right and to the left differ for some element."""
    f, xs = _weighted(row.program, row.heads), row.inputs
    here = f(xs)
    for slot in row.wrt:
        for index in np.ndindex(*xs[slot].shape):
            move = np.zeros(xs[slot].shape)
            move[index] = 1.0
            right, left = sides(f, xs, here, {slot: move})
            if abs(right - left) > 1e-3 * max(1.0, abs(right)):
                return True
    return False


@pytest.mark.parametrize("row", PARAMS)
def test_second_order(row: Row) -> None:
    """The gradient's own gradient, along random directions of inputs and heads together."""
    if _at_kink(row):
        pytest.skip("the gradient itself jumps at these inputs")
    arrays = [*row.inputs, *row.heads]
    f = _weighted(row.backward, row.seeds)
    here = f(arrays)
    grads = dict(zip(row.wrt_again, _run(row.twice, [*arrays, *row.seeds])))
    rng = np.random.default_rng(5)
    for _ in range(3):
        moves = {slot: rng.standard_normal(g.shape) for slot, g in grads.items()}
        got = sum(float(np.sum(grads[slot] * v)) for slot, v in moves.items())
        check(got, sides(f, arrays, here, moves), 1e-5, "second order")


def test_every_operator_is_checked_or_says_why() -> None:
    """An operator either has a row here or a reason not to have one."""
    checked = {d.name for d, _ in FOUND}
    names = {d.name for d in registry.OPS.values()}
    missing = sorted(names - checked - set(NO_GRADIENT))
    assert not missing, f"give rows in op_cases_gradient.py or a reason in NO_GRADIENT: {missing}"
    assert not checked & set(NO_GRADIENT), "reasons for operators that have a gradient"


CHUNK = 40


def _joined(chunk: list[Row], order: int) -> tuple[ir.Program, list[np.ndarray], list[float]]:
    """The gradients of several rows as one program, so that the compiler starts once for all, and their tolerances."""
    leaves: list[ir.Node] = []
    arrays: list[np.ndarray] = []
    outputs: list[ir.Node] = []
    tols: list[float] = []
    for row in chunk:
        program = row.backward if order == 1 else row.twice
        own = [*row.inputs, *row.heads, *([] if order == 1 else row.seeds)]
        moved = [ir.input(len(leaves) + k, x.shape, x.dtype) for k, x in enumerate(own)]
        outputs += _transplant(program.outputs, dict(zip(program.inputs, moved)))
        leaves += moved
        arrays += own
        tols += [row.tol] * len(program.outputs)
    return ir.Program(tuple(leaves), tuple(outputs)), arrays, tols


def _transplant(outputs: Sequence[ir.Node], leaves: dict[ir.Node, ir.Node]) -> list[ir.Node]:
    """The same graph over other inputs."""
    made = dict(leaves)
    for n in ir.toposort(outputs):
        if n not in made:
            made[n] = ir.make(n.prim, tuple(made[a] for a in n.args), **n.attrs)
    return [made[o] for o in outputs]


def _compiled_equals_reference(rows: list[Row], order: int, device: Context) -> None:
    program, arrays, tols = _joined(rows, order)
    expected = _run(program, arrays)
    xp = array_module(device)
    got = [y if xp is np else y.get() for y in runtime.compile(program, device)([xp.asarray(x) for x in arrays])]
    for k, (g, e, tol) in enumerate(zip(got, expected, tols, strict=True)):
        assert g.dtype == e.dtype and g.shape == e.shape
        size = max(1.0, float(np.abs(e[np.isfinite(e)]).max(initial=0)))
        np.testing.assert_allclose(g, e, rtol=tol, atol=tol * size, err_msg=f"output {k} of {[r.name for r in rows]}")


# of the second gradients, which are the longest programs, a quarter is enough for every change
PARTS = [pytest.param(start, order, id=f"{start}-{name}", marks=[pytest.mark.thorough] if order > 1 and i % 4 else [])
         for i, start in enumerate(range(0, len(ROWS), CHUNK)) for order, name in ((1, "first"), (2, "second"))]


@pytest.mark.share(2)
@pytest.mark.parametrize("start,order", PARTS)
def test_compiled(start: int, order: int) -> None:
    """Compiled to C, first and second gradients are those of the reference."""
    _compiled_equals_reference(ROWS[start:start + CHUNK], order, cpu())


# and of the first ones as CUDA a half
@pytest.mark.share(2)
@pytest.mark.parametrize("start,order", [
    pytest.param(*p.values, id=p.id, marks=[pytest.mark.thorough] if i // 2 % 2 or i % 8 > 1 and i % 2 else [])
    for i, p in enumerate(PARTS)])
def test_cuda(start: int, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So too as CUDA, in the emulator or on a GPU."""
    if find_cupy() is None:
        monkeypatch.setenv("HYBRID_CUDA", "emulator")
    _compiled_equals_reference(ROWS[start:start + CHUNK], order, gpu())


@pytest.mark.share(2)
@pytest.mark.parametrize("start", range(0, len(ROWS), 2 * CHUNK))
def test_partitioned(start: int) -> None:
    """Split in a forward and a backward program as a recorded hybridized call is, both compiled to C: the same
    gradients."""
    chunk = ROWS[start:start + 2 * CHUNK]
    program, arrays, wrt = _side_by_side(chunk)
    parts = partition(program, wrt)
    heads = [h for row in chunk for h in row.heads]
    expected = [g for row in chunk for g in _run(row.backward, [*row.inputs, *row.heads])]
    results = runtime.compile(parts.forward, cpu())(arrays)
    kept = results[len(program.outputs):]
    got = runtime.compile(parts.backward, cpu())([*(arrays[k] for k in parts.reads), *kept, *heads])
    names = [(row.name, row.tol) for row in chunk for _ in row.wrt]
    for g, e, (name, tol) in zip(got, expected, names, strict=True):
        np.testing.assert_allclose(g, e, rtol=tol,
                                   atol=tol * max(1.0, float(np.abs(e[np.isfinite(e)]).max(initial=0))), err_msg=name)


def _side_by_side(chunk: Sequence[Row]) -> tuple[ir.Program, list[np.ndarray], tuple[int, ...]]:
    """Several rows as one program, its inputs, and which of them gradients are taken of."""
    leaves: list[ir.Node] = []
    outputs: list[ir.Node] = []
    wrt: list[int] = []
    for row in chunk:
        moved = [ir.input(len(leaves) + k, x.shape, x.dtype) for k, x in enumerate(row.inputs)]
        wrt += [len(leaves) + k for k in row.wrt]
        outputs += _transplant(row.program.outputs, dict(zip(row.program.inputs, moved)))
        leaves += moved
    return ir.Program(tuple(leaves), tuple(outputs)), [x for row in chunk for x in row.inputs], tuple(wrt)
