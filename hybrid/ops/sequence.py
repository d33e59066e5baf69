"""Operators over sequences of different lengths. Time is an axis, the batch the other of the first two."""
from __future__ import annotations

from typing import Any

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Bool, Float, Int, op
from .shape import cut


TAKES = {"sequence_length": lambda a: a.use_sequence_length}


def _params(shapes: list[Any], a: Attrs) -> list[Any]:
    """One length for each sequence."""
    return [shapes[0], (shapes[0][1 - a.axis],)]


def _time(data: Node, axis: int) -> tuple[int, int]:
    """Numbers of steps and of sequences."""
    if axis not in (0, 1) or data.ndim < 2:
        raise ShapeError(f"sequences need 2 axes or more and time as axis 0 or 1, got {data.shape} and axis={axis}")
    return data.shape[axis], data.shape[1 - axis]


def _lengths(sequence_length: Node, batch: int) -> Node:
    if sequence_length.shape != (batch,):
        raise ShapeError(f"sequence_length must be {(batch,)}, one length for each sequence, got "
                         f"{sequence_length.shape}")
    return ir.cast(sequence_length, dt.int64)


@op("SequenceMask", "data sequence_length?", takes=TAKES, params=_params, mx=("sequence_mask",),
    npx=("sequence_mask",), json=("_npx_sequence_mask",),
    use_sequence_length=Bool(False), value=Float(0.0), axis=Int(0))
def sequence_mask(data: Node, sequence_length: Node | None, a: Attrs) -> Node:
    """``value`` from each sequence's length on."""
    if not a.use_sequence_length or sequence_length is None:
        return data
    steps, batch = _time(data, a.axis)
    at = ir.reshape(ir.iota(steps), tuple(d if i == a.axis else 1 for i, d in enumerate(data.shape)))
    lengths = ir.reshape(_lengths(sequence_length, batch),
                         tuple(d if i == 1 - a.axis else 1 for i, d in enumerate(data.shape)))
    return ir.map("where", ir.map("lt", at, lengths), data,
                  ir.const(a.value if dt.is_float(data.dtype) else int(a.value), data.dtype))


@op("SequenceLast", "data sequence_length?", takes=TAKES, params=_params, mx=("sequence_last",),
    use_sequence_length=Bool(False), axis=Int(0))
def sequence_last(data: Node, sequence_length: Node | None, a: Attrs) -> Node:
    """The last step of each sequence, without the time axis."""
    steps, batch = _time(data, a.axis)
    if not steps:
        raise ShapeError(f"sequences of no steps have no last one: {data.shape}")
    if not a.use_sequence_length or sequence_length is None:
        last = cut(data, a.axis, steps - 1, 1)
        return ir.reshape(last, data.shape[:a.axis] + data.shape[a.axis + 1:])
    step = ir.map("minimum", ir.map("maximum", _lengths(sequence_length, batch) - 1, 0), steps - 1)
    flat = ir.reshape(data, (steps * batch, *data.shape[2:]))
    return ir.gather(flat, step * batch + ir.iota(batch) if a.axis == 0 else step + ir.iota(batch) * steps, 0)


@op("SequenceReverse", "data sequence_length?", takes=TAKES, params=_params, mx=("sequence_reverse",),
    use_sequence_length=Bool(False), axis=Int(0))
def sequence_reverse(data: Node, sequence_length: Node | None, a: Attrs) -> Node:
    """The steps of each sequence backwards; what follows its length stays. Time is axis 0."""
    if a.axis != 0:
        raise ShapeError(f"SequenceReverse: axis={a.axis} is not supported; time must be axis 0 (use swapaxes)")
    steps, batch = _time(data, 0)
    if not a.use_sequence_length or sequence_length is None:
        return ir.slice(data, (max(steps - 1, 0),) + (0,) * (data.ndim - 1), data.shape, (-1,) + (1,) * (data.ndim - 1))
    at = ir.reshape(ir.iota(steps), (steps, 1))
    lengths = _lengths(sequence_length, batch)
    source = ir.map("where", ir.map("lt", at, lengths), lengths - 1 - at, at)
    flat = ir.reshape(data, (steps * batch, *data.shape[2:]))
    return ir.gather(flat, source * batch + ir.iota(batch), 0)
