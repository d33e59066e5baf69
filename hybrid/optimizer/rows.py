"""Updates by row_sparse gradients: only the rows that a gradient stores are read and written (MXNet's lazy updates).

A rule that treats each row by itself is run on those rows, gathered from weight and states; of any other rule the whole
update is computed, and the other rows are put back.
"""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base import dtype as dt
from .. import runtime
from ..buffers.array import NDArray
from ..base.device import array_module, on
from ..buffers.moving import cast, from_gpu
from ..base.errors import ShapeError
from .program import Row
from .step import Step


def by_rows(optimizer: Any, index: Any, weight: NDArray, grad: NDArray, multi_precision: bool) -> bool:
    """Whether an update touches the rows of the gradient alone."""
    return grad.stype == "row_sparse" and optimizer.is_lazy(index, weight, grad, multi_precision)


def update(optimizer: Any, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray],
           states: Sequence[Any],
           multi_precision: bool, whole: Any = Step) -> Any:
    """Update weights and states in place: by rows where that may be, the others together by one program.

    whole: what prepares that program for indices, weights, gradients and states. Returns it, or None where there are
    none for it.
    """
    lazy = [by_rows(optimizer, i, w, g, multi_precision) for i, w, g in zip(indices, weights, grads)]
    rest = [k for k, rows in enumerate(lazy) if not rows]
    step = None
    if rest:
        step = whole(optimizer, *([row[k] for k in rest] for row in (indices, weights, grads, states)), multi_precision)
        step.run()
    for k, rows in enumerate(lazy):
        if rows:
            copied = multi_precision and optimizer.low_precision(weights[k])
            (_of_copy if copied else _of_rows if optimizer.rowwise else _put_back)(optimizer, indices[k], weights[k],
                                                                                   grads[k], states[k])
    return step


def _of_copy(optimizer: Any, index: Any, weight: NDArray, grad: Any, state: Any) -> None:
    """Update rows of the float32 copy of a weight, then write these rows to the weight."""
    inner, copy = optimizer.parted_state(state)
    (_of_rows if optimizer.rowwise else _put_back)(optimizer, index, copy, grad, inner)
    rows, xp = grad._aux[0], array_module(weight._ctx)
    put(weight, rows, cast(take(copy, rows, xp), np.dtype(weight.dtype), weight._ctx), xp)


def _of_rows(optimizer: Any, index: Any, weight: NDArray, grad: Any, state: Any) -> None:
    """The rule on the gradient's rows. Their number is filled up to a power of two, so that there are few programs."""
    arrays = [weight, *optimizer.states_of(weight, state, False)]
    for x in (grad, *arrays):
        if x.shape[:1] != weight.shape[:1] or x is grad and x.shape != weight.shape:
            raise ShapeError(f"{type(optimizer).__name__}: a weight of shape {weight.shape} cannot be updated with an "
                             f"array of shape {x.shape}")
    numbers, xp = np.asarray(optimizer.advance([index]), dt.float64), array_module(weight._ctx)
    rows, = grad._aux
    if not len(rows):
        return
    size = 1 << (len(rows) - 1).bit_length()
    with on(weight._ctx):
        w, *held = (_filled(take(x, rows, xp), size, xp) for x in arrays)
        g = _filled(xp.asarray(grad._values), size, xp)
    row = Row(w.shape, w.dtype, g.dtype, tuple((s.shape, s.dtype) for s in held), False, optimizer.form(index))
    program = optimizer.program([row])
    parts = {1: (weight, w), **{3 + k: pair for k, pair in enumerate(zip(arrays[1:], held))}}
    with np.errstate(all="ignore"), on(weight._ctx):     # of the rows that fill it up
        runtime.run(program, weight._ctx, [xp.asarray(numbers), w, g, *held])
    for slot, _ in program.updates:
        x, part = parts[slot]
        put(x, rows, part[:len(rows)], xp)


def _filled(raw: Any, size: int, xp: Any) -> Any:
    if raw.shape[0] == size:
        return raw
    out = xp.zeros((size, *raw.shape[1:]), raw.dtype)
    out[:raw.shape[0]] = raw
    return out


def take(x: Any, rows: np.ndarray, xp: Any) -> Any:
    """Rows of an array of any storage type, as a new raw array on its device; rows that are not stored are zeros."""
    with on(x._ctx):
        return x._data[xp.asarray(rows)] if x.stype == "default" else xp.asarray(x._rows_at(rows))


def put(x: Any, rows: np.ndarray, value: Any, xp: Any) -> None:
    """Write rows of an array in place."""
    if x.stype != "default":
        x._put_rows(rows, value if isinstance(value, np.ndarray) else from_gpu(value))
        return
    with on(x._ctx):
        x._data[xp.asarray(rows)] = value
    x._bump()


def _put_back(optimizer: Any, index: Any, weight: NDArray, grad: Any, state: Any) -> None:
    """The whole update, after which all rows but the gradient's are as they were."""
    arrays = [x for x in (weight, *optimizer.states_of(weight, state, False)) if x.shape[:1] == weight.shape[:1]]
    before = [x.copy() for x in arrays]
    Step(optimizer, [index], [weight], [grad], [state], False, [index]).run()
    xp = array_module(weight._ctx)
    for x, old in zip(arrays, before):
        put(old, grad._aux[0], take(x, grad._aux[0], xp), xp)
        x[:] = old
