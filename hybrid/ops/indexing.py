"""Operators that read by index."""
from __future__ import annotations

from .. import dtype as dt
from .. import ir
from ..errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Bool, DType, Enum, Float, Int, op
from .shape import normal_axis


def index_of(x: Node, n: int, mode: str) -> Node:
    """Indices as int64 within 0 … n-1: clipped, or wrapped around."""
    i = ir.cast(x, dt.int64)
    if mode == "wrap":
        return ir.map("mod", i, n)
    return ir.map("minimum", ir.map("maximum", i, 0), n - 1)


@op("take", "a indices", axis=Int(0), mode=Enum("clip", "clip", "wrap", "raise"))
def take(x: Node, indices: Node, a: Attrs) -> Node:
    """Slices of x at indices along an axis. Out of range: clip or wrap (``raise`` clips in a compiled program)."""
    axis = normal_axis(a.axis, x.ndim)
    if not x.shape[axis] and indices.size:
        raise ShapeError(f"nothing can be taken along axis {axis} of {x.shape}: it is empty")
    return ir.gather(x, index_of(indices, x.shape[axis], a.mode), axis)


@op("_npi_take", "a indices", np=("take",), axis=Int(None), mode=Enum("clip", "clip", "wrap", "raise"))
def np_take(x: Node, indices: Node, a: Attrs) -> Node:
    """NumPy's take: of the flattened array when axis is None."""
    if a.axis is None:
        return take(ir.reshape(x, (-1,)), indices, mode=a.mode)
    return take(x, indices, axis=a.axis, mode=a.mode)


@op("batch_take", "a indices")
def batch_take(x: Node, indices: Node, a: Attrs) -> Node:
    """One element of each row."""
    return _pick(x, indices, 1, "clip")


def _pick(x: Node, index: Node, axis: int, mode: str) -> Node:
    """x at one index along an axis for every other position: a sum over the one place where the index is."""
    i = index_of(index, x.shape[axis], mode)
    shape = tuple(d for k, d in enumerate(x.shape) if k != axis)
    i = ir.reshape(i, shape[:axis] + (1,) + shape[axis:])
    at = ir.reshape(ir.iota(x.shape[axis]), tuple(d if k == axis else 1 for k, d in enumerate(x.shape)))
    return ir.reduce("sum", ir.map("where", ir.map("eq", at, i), x, 0), (axis,))


@op("pick", "data index", npx=("pick",), json=("choose_element_0index", "_npx_pick"), axis=Int(-1), keepdims=Bool(False), mode=Enum("clip", "clip", "wrap"))
def pick(data: Node, index: Node, a: Attrs) -> Node:
    """One element along an axis for every other position, chosen by index."""
    axis = normal_axis(a.axis, data.ndim)
    shape = tuple(d for k, d in enumerate(data.shape) if k != axis)
    if index.size != max(1, _product(shape)):
        raise ShapeError(f"pick along axis {axis} of {data.shape} needs one index for each of {shape}, got {index.shape}")
    out = _pick(data, index, axis, a.mode)
    return ir.reshape(out, shape[:axis] + (1,) + shape[axis:]) if a.keepdims else out


def _product(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def embedding_params(shapes: list, a: Attrs) -> list:
    """The weight's shape from the attributes."""
    return [shapes[0], (a.input_dim, a.output_dim)]


@op("Embedding", "data weight", npx=("embedding",), json=("_npx_embedding",), params=embedding_params, input_dim=Int(), output_dim=Int(),
    dtype=DType("float32"), sparse_grad=Bool(False))
def embedding(data: Node, weight: Node, a: Attrs) -> Node:
    """Rows of the weight (input_dim, output_dim) at integer positions; out of range is clipped."""
    if weight.shape != (a.input_dim, a.output_dim):
        raise ShapeError(f"weight must be {(a.input_dim, a.output_dim)}, got {weight.shape}")
    return ir.gather(weight, index_of(data, weight.shape[0], "clip"), 0)


@op("one_hot", "indices", npx=("one_hot",), json=("_npx_one_hot",), depth=Int(), on_value=Float(1.0), off_value=Float(0.0), dtype=DType("float32"))
def one_hot(indices: Node, a: Attrs) -> Node:
    """on_value at the index along a new last axis, off_value elsewhere (also for indices out of range)."""
    if a.depth < 0:
        raise ShapeError(f"one_hot: depth={a.depth} must not be negative")
    i = ir.reshape(ir.cast(indices, dt.int64), indices.shape + (1,))
    hit = ir.map("eq", i, ir.iota(a.depth))
    d = dt.as_dtype(a.dtype)
    return ir.map("where", hit, ir.const(a.on_value, d), ir.const(a.off_value, d))


@op("gather_nd", "data indices", npx=("gather_nd",))
def gather_nd(data: Node, indices: Node, a: Attrs) -> Node:
    """data[indices[0], indices[1], …]."""
    m = indices.shape[0]
    if m > data.ndim:
        raise ShapeError(f"gather_nd: {m} indices for an array of {data.ndim} axes")
    flat = ir.reshape(data, (_product(data.shape[:m]),) + data.shape[m:])
    at = None
    for k in range(m):
        row = ir.reshape(ir.slice(indices, (k,) + (0,) * (indices.ndim - 1), (1,) + indices.shape[1:]), indices.shape[1:])
        i = index_of(ir.map("mod", ir.cast(row, dt.int64), data.shape[k]), data.shape[k], "clip")
        at = i if at is None else at * data.shape[k] + i
    assert at is not None
    return ir.gather(flat, at, 0)


@op("SequenceMask", "data sequence_length?", mx=("sequence_mask",), npx=("sequence_mask",), json=("_npx_sequence_mask",),
    use_sequence_length=Bool(False), value=Float(0.0), axis=Int(0))
def sequence_mask(data: Node, sequence_length: Node | None, a: Attrs) -> Node:
    """``value`` from each sequence's length on; axis is time, the other of the first two axes is the batch."""
    if not a.use_sequence_length or sequence_length is None:
        return data
    steps = ir.reshape(ir.iota(data.shape[a.axis]), tuple(d if i == a.axis else 1 for i, d in enumerate(data.shape)))
    lengths = ir.reshape(sequence_length, tuple(d if i == 1 - a.axis else 1 for i, d in enumerate(data.shape)))
    return ir.map("where", ir.map("lt", ir.cast(steps, lengths.dtype), lengths), data, a.value)
