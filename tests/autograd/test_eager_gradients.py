"""Gradients of every operator as a user takes them: ``nd`` arrays in float64, recorded, ``autograd.grad`` and
``backward``.

Differences of the eager operator along random directions say what the first gradient must be, differences of the first
gradient what the second must be.
"""
from __future__ import annotations

from typing import Any, Iterator, Sequence

import numpy as np
import pytest

from hybrid import autograd, nd, random
from hybrid.autograd import dispatch
from hybrid.nd import NDArray

from ..differences import check, sides
from ..ops.gradient_rows import Row, rows

ROWS = [row for _, row in rows()]
PARAMS = [pytest.param(row, id=f"{k}-{row.name}") for k, row in enumerate(ROWS)]
JUMP = 1e4                              # a slope beyond it is a jump: the function's own slopes are below


@pytest.fixture(autouse=True)
def _same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators that draw random numbers draw the same ones at every call."""
    monkeypatch.setattr(random, "next_key", lambda draws=1: np.array([5, 7], np.uint32))


def _call(row: Row, xs: Sequence[Any]) -> list[Any]:
    """The operator's float outputs that a user sees."""
    arrays = [x if isinstance(x, NDArray) else nd.array(x, dtype=x.dtype) for x in xs]
    with autograd.train_mode() if row.train else autograd.predict_mode():
        out = dispatch.invoke(row.op, arrays, row.attrs)
    return [y for y in (out if isinstance(out, (list, tuple)) else [out]) if np.dtype(y.dtype).kind == "f"]


def _inputs(row: Row) -> list[np.ndarray]:
    """The operator's inputs; a random key, which rows have last, comes from ``_same_draws``."""
    return [x for x in row.inputs if x.dtype != np.uint32 or x.shape != (2,)]


def _leaves(row: Row, xs: Sequence[np.ndarray], req: str = "write") -> list[Any]:
    arrays = [nd.array(x, dtype=x.dtype) for x in xs]
    for k in row.wrt:
        arrays[k].attach_grad(req)
    return arrays


def _weights(row: Row, outputs: Sequence[Any]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.uniform(0.5, 1.5, y.shape) for y in outputs]


def _gradients(row: Row, arrays: Sequence[Any], heads: Sequence[Any] | None = None, again: bool = False) -> list[Any]:
    with autograd.record(train_mode=row.train):
        outputs = _call(row, arrays)
        heads = [nd.array(w, dtype=y.dtype)
                 for w, y in zip(_weights(row, outputs), outputs)] if heads is None else heads
        return autograd.grad(outputs, [arrays[k] for k in row.wrt], heads, create_graph=again, retain_graph=True,
                             train_mode=row.train)


@pytest.mark.parametrize("row", [p for p in PARAMS if not p.values[0].special])
def test_first_order(row: Row) -> None:
    """``autograd.grad`` of the eager operator is its slope."""
    xs = _inputs(row)
    weights = _weights(row, _call(row, xs))

    def f(inputs: Sequence[np.ndarray]) -> float:
        return sum(float(np.sum(y.asnumpy() * w)) for y, w in zip(_call(row, inputs), weights))
    grads = [g.asnumpy() for g in _gradients(row, _leaves(row, xs))]
    for slot, g in zip(row.wrt, grads):
        assert g.shape == xs[slot].shape and g.dtype == np.float64
    here, rng = f(xs), np.random.default_rng(5)
    for _ in range(3):
        moves = {slot: rng.standard_normal(g.shape) for slot, g in zip(row.wrt, grads)}
        check(sum(float(np.sum(g * moves[slot])) for slot, g in zip(row.wrt, grads)), sides(f, xs, here, moves), 2e-6,
              "first order")


def _single(slots: Sequence[int], like: Sequence[Any]) -> Iterator[dict[int, np.ndarray]]:
    """Directions that move one element each: at a kink the slopes to both sides bound the gradient of one element
    only."""
    for slot, g in zip(slots, like):
        for index in np.ndindex(*g.shape):
            move = np.zeros(g.shape)
            move[index] = 1.0
            yield {slot: move}


@pytest.mark.parametrize("row", PARAMS)
def test_second_order(row: Row) -> None:
    """The gradient that ``create_graph=True`` gives can be differentiated itself, by inputs and by head gradients."""
    xs = _inputs(row)
    n, heads = len(xs), _weights(row, _call(row, xs))
    slots = [*row.wrt, *range(n, n + len(heads))]
    rng = np.random.default_rng(4)
    seeds = [rng.uniform(0.5, 1.5, xs[k].shape) for k in row.wrt]

    def f(inputs: Sequence[np.ndarray]) -> float:
        grads = _gradients(row, _leaves(row, inputs[:n]), [nd.array(h, dtype=h.dtype) for h in inputs[n:]])
        return sum(float(np.sum(g.asnumpy() * s)) for g, s in zip(grads, seeds))
    leaves = [*_leaves(row, xs), *(nd.array(h, dtype=h.dtype) for h in heads)]
    for a in leaves[n:]:
        a.attach_grad()
    first = _gradients(row, leaves[:n], leaves[n:], again=True)
    wanted = [leaves[k] for k in slots]
    flowing = [(g, nd.array(s, dtype=s.dtype)) for g, s in zip(first, seeds) if g._ag is not None]
    second = autograd.grad([g for g, _ in flowing], wanted,
                           [s for _, s in flowing]) if flowing else [nd.zeros_like(w) for w in wanted]
    arrays = [*xs, *heads]
    here = f(arrays)
    moves_of = [{slot: rng.standard_normal(g.shape) for slot, g in zip(slots, second)} for _ in range(2)]
    right, left = sides(f, arrays, here, moves_of[0])
    for moves in moves_of if abs(right - left) < 1e-3 * max(1.0, abs(right)) else _single(slots, second):
        slopes = sides(f, arrays, here, moves)
        if max(map(abs, slopes)) > JUMP:
            pytest.skip("the gradient itself jumps at these inputs")
        check(sum(float(np.sum(g.asnumpy() * moves[slot])) for slot, g in zip(slots, second) if slot in moves), slopes,
              2e-5, "second order")


@pytest.mark.parametrize("row", PARAMS)
def test_added(row: Row) -> None:
    """With ``grad_req='add'`` two backward passes give twice the gradient, added to what was there; with 'write' they
    give it once."""
    xs = _inputs(row)
    found = {}
    for req in ("write", "add"):
        leaves = _leaves(row, xs, req)
        for k in row.wrt:
            leaves[k].grad[...] = 1.0
        for _ in range(2):
            with autograd.record(train_mode=row.train):
                outputs = _call(row, leaves)
            autograd.backward(outputs, [nd.array(w, dtype=y.dtype) for w, y in zip(_weights(row, outputs), outputs)],
                              train_mode=row.train)
        found[req] = [leaves[k].grad.asnumpy() for k in row.wrt]
    for once, added in zip(found["write"], found["add"], strict=True):
        np.testing.assert_allclose(added, 1 + 2 * once, rtol=1e-12, atol=1e-12)
