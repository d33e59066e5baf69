"""Operators that read by index."""
from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..base import dtype as dt
from .. import ir
from ..base.errors import RangeError, ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Bool, DType, Enum, Float, Int, Shape, op
from .shape import normal_axis


def index_of(x: Node, n: int, mode: str) -> Node:
    """Indices as int64 within 0 … n-1: clipped, or wrapped around."""
    i = ir.cast(x, dt.int64)
    if mode == "wrap":
        return ir.map("mod", i, n)
    return ir.map("minimum", ir.map("maximum", i, 0), n - 1)


def beyond(name: str) -> str:
    """The text of an error for an index ``{value}`` that is not within an axis of a ``{length}``."""
    return f"{name.removeprefix('_npi_')}: index {{value}} is out of range for an axis of length {{length}}"


def _take_within(shapes: Any, a: Attrs) -> list[Any]:
    x = shapes[0]
    if a.mode != "raise":
        return []
    return [(1, None, 0, (x[normal_axis(a.axis, len(x))] if a.axis is not None else _product(x)) - 1)]


def _gather_within(shapes: Any, a: Attrs) -> list[Any]:
    data, index = shapes
    if not index or index[0] > len(data):
        return []
    return [(1, row, -n, n - 1) for row, n in enumerate(data[:index[0]])]       # negative ones count from the end


def _checked(name: str, within: Any) -> Any:
    """The eager way of an operator: RangeError for indices that are not within an axis, where they can be looked at
    without waiting for a GPU."""
    def eager(xp: Any, arrays: Any, a: Attrs) -> None:
        for k, row, least, most in within([x.shape for x in arrays], a) if xp is np else ():
            index = arrays[k] if row is None else arrays[k][row]
            wrong = (index < least) | (index > most)
            if wrong.any():
                raise RangeError(beyond(name).format(value=int(index[wrong].flat[0]), length=most + 1))
    return eager


_take_checked = _checked("take", _take_within)
_INDEX = np.dtype(np.int64)
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _take_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    """NumPy's own way, where no index is out of range."""
    mode, axis = a.mode, a.axis
    if mode == "raise":
        _take_checked(xp, arrays, a)
    x, i = arrays
    n = x.size if axis is None else x.shape[normal_axis(axis, x.ndim)]
    if xp is not np or not i.size or not n:
        return None
    if i.dtype.kind == "f":
        with np.errstate(invalid="ignore"):                  # of nan and what is too large
            i = i.astype(_INDEX)
    elif i.dtype.kind not in "iu" or i.dtype == np.uint64:
        return None
    if mode == "clip":
        return [x.take(i, axis, None, "clip")]
    return [x.take(i, axis)] if i.view(_UNSIGNED[i.itemsize]).max() < n else None      # negative ones are large there


@op("take", "a indices", eager=_take_eager, gathers=True, within=_take_within,
    axis=Int(0), mode=Enum("clip", "clip", "wrap", "raise"))
def take(x: Node, indices: Node, a: Attrs) -> Node:
    """Slices of x at indices along an axis. Out of range: clip, wrap or raise."""
    axis = normal_axis(a.axis, x.ndim)
    if not x.shape[axis] and indices.size:
        raise ShapeError(f"nothing can be taken along axis {axis} of {x.shape}: it is empty")
    return ir.gather(x, index_of(indices, x.shape[axis], a.mode), axis)


@op("_npi_take", "a indices", eager=_take_eager, gathers=True, within=_take_within,
    np=("take",), axis=Int(None),
    mode=Enum("clip", "clip", "wrap", "raise"))
def np_take(x: Node, indices: Node, a: Attrs) -> Node:
    """NumPy's take: of the flattened array when axis is None."""
    if a.axis is None:
        return take(ir.reshape(x, (-1,)), indices, mode=a.mode)
    return take(x, indices, axis=a.axis, mode=a.mode)


def _batch_take_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    x, i = arrays
    return None if not x.shape[1] else [x[xp.arange(len(x)), i.astype(np.int64).clip(0, x.shape[1] - 1)]]


@op("batch_take", "a indices", eager=_batch_take_eager, gathers=True)
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


def _pick_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    """One gather instead of a comparison with every index."""
    x, index = arrays
    axis = normal_axis(a.axis, x.ndim)
    n = x.shape[axis]
    if not n:
        return None
    i = index.astype(np.int64, copy=xp is not np).reshape(x.shape[:axis] + (1,) + x.shape[axis + 1:])
    if xp is not np or not i.size or i.view(np.uint64).max() >= n:       # negative ones are large there
        i = xp.mod(i, n) if a.mode == "wrap" else i.clip(0, n - 1)
    if axis == x.ndim - 1:                                   # as positions among all elements
        starts = _row_starts(i.size, n) if xp is np and i.size <= _FEW_ROWS else xp.arange(0, x.size, n)
        out = x.reshape(-1).take(i + starts.reshape(i.shape))
    else:
        out = xp.take_along_axis(x, i, axis)
    return [out if a.keepdims or x.ndim == 1 else out.reshape(x.shape[:axis] + x.shape[axis + 1:])]


_FEW_ROWS = 1 << 12


@lru_cache(64)
def _row_starts(rows: int, length: int) -> np.ndarray:
    """Where rows begin among all elements."""
    return np.arange(0, rows * length, length)


@op("pick", "data index", eager=_pick_eager, gathers=True, npx=("pick",),
    json=("choose_element_0index", "_npx_pick"), axis=Int(-1), keepdims=Bool(False), mode=Enum("clip", "clip", "wrap"))
def pick(data: Node, index: Node, a: Attrs) -> Node:
    """One element along an axis for every other position, chosen by index."""
    axis = normal_axis(a.axis, data.ndim)
    shape = tuple(d for k, d in enumerate(data.shape) if k != axis)
    if index.size != _product(shape):
        raise ShapeError(f"pick along axis {axis} of {data.shape} needs one index for each of {shape}, got "
                         f"{index.shape}")
    out = ir.cast(_pick(data, index, axis, a.mode), data.dtype)         # truth values stay such
    return ir.reshape(out, shape[:axis] + (1,) + shape[axis:]) if a.keepdims or data.ndim == 1 else out


def _product(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def embedding_params(shapes: list, a: Attrs) -> list:
    """The weight's shape from the attributes."""
    return [shapes[0], (a.input_dim, a.output_dim)]


@op("Embedding", "data weight", npx=("embedding",), json=("_npx_embedding",), params=embedding_params, input_dim=Int(),
    output_dim=Int(),
    dtype=DType("float32"), sparse_grad=Bool(False))
def embedding(data: Node, weight: Node, a: Attrs) -> Node:
    """Rows of the weight (input_dim, output_dim) at integer positions; out of range is clipped."""
    if weight.shape != (a.input_dim, a.output_dim):
        raise ShapeError(f"weight must be {(a.input_dim, a.output_dim)}, got {weight.shape}")
    return ir.gather(weight, index_of(data, weight.shape[0], "clip"), 0)


@op("_sparse_retain", "data indices")
def sparse_retain(data: Node, indices: Node, a: Attrs) -> Node:
    """The rows of data at integer positions, all others zero."""
    rows = index_of(indices, data.shape[0], "clip")
    named = ir.scatter_add(rows, ir.full(1, rows.shape, dt.int32), 0, data.shape[0])
    return ir.map("where", ir.reshape(ir.map("gt", named, 0), (-1,) + (1,) * (data.ndim - 1)), data,
                  ir.const(0, data.dtype))


def _one_hot_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    """One number put into each row."""
    i = arrays[0].astype(np.int64).reshape(-1)
    if xp is not np or not i.size or i.min() < 0 or i.max() >= a.depth:
        return None
    out = np.full((*arrays[0].shape, a.depth), a.off_value, dt.as_dtype(a.dtype))
    out.reshape(-1, a.depth)[np.arange(i.size), i] = a.on_value
    return [out]


@op("one_hot", "indices", eager=_one_hot_eager, gathers=True, npx=("one_hot",), json=("_npx_one_hot",), depth=Int(),
    on_value=Float(1.0), off_value=Float(0.0), dtype=DType("float32"))
def one_hot(indices: Node, a: Attrs) -> Node:
    """on_value at the index along a new last axis, off_value elsewhere (also for indices out of range)."""
    if a.depth < 0:
        raise ShapeError(f"one_hot: depth={a.depth} must not be negative")
    i = ir.reshape(ir.cast(indices, dt.int64), indices.shape + (1,))
    hit = ir.map("eq", i, ir.iota(a.depth))
    d = dt.as_dtype(a.dtype)
    return ir.map("where", hit, ir.const(a.on_value, d), ir.const(a.off_value, d))


_gather_checked = _checked("gather_nd", _gather_within)


def _gather_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    """NumPy's own indexing, which looks at the indices."""
    data, indices = arrays
    if xp is not np or not 0 < len(indices) <= data.ndim:
        return None
    try:
        return [data[tuple(indices if indices.dtype == _INDEX else indices.astype(_INDEX))]]
    except IndexError:
        _gather_checked(xp, arrays, a)                       # raises an error of ours
        raise


@op("gather_nd", "data indices", eager=_gather_eager, gathers=True, within=_gather_within,
    npx=("gather_nd",), json=("_npx_gather_nd", "_npi_gather_nd"))
def gather_nd(data: Node, indices: Node, a: Attrs) -> Node:
    """data[indices[0], indices[1], …]."""
    m = indices.shape[0]
    if m > data.ndim:
        raise ShapeError(f"gather_nd: {m} indices for an array of {data.ndim} axes")
    flat = ir.reshape(data, (_product(data.shape[:m]),) + data.shape[m:])
    return ir.gather(flat, _flat_index(indices, data.shape[:m]), 0)


@op("scatter_nd", "data indices", mx=("_backward_gather_nd",), shape=Shape())
def scatter_nd(data: Node, indices: Node, a: Attrs) -> Node:
    """Zeros of a shape with data put at [indices[0], indices[1], …]; values for the same place are added up."""
    m = indices.shape[0]
    if m > len(a.shape) or data.shape != indices.shape[1:] + a.shape[m:]:
        raise ShapeError(f"scatter_nd into {a.shape} with indices {indices.shape} needs data of shape "
                         f"{indices.shape[1:] + a.shape[m:]}, got {data.shape}")
    flat = ir.reshape(_flat_index(indices, a.shape[:m]), (-1,))
    rows = ir.reshape(data, (flat.size, _product(a.shape[m:])))
    return ir.reshape(ir.scatter_add(flat, rows, 0, _product(a.shape[:m])), a.shape)


def _flat_index(indices: Node, shape: tuple[int, ...]) -> Node:
    """Positions in the flattened leading axes; negative ones count from the end."""
    at = None
    for k, n in enumerate(shape):
        row = ir.reshape(ir.slice(indices, (k,) + (0,) * (indices.ndim - 1), (1,) + indices.shape[1:]),
                         indices.shape[1:])
        # the first length is not needed and may be -1
        i = ir.cast(row, dt.int64) if not k and n < 0 else index_of(row, n, "wrap")
        at = i if at is None else at * n + i
    if at is None:
        raise ShapeError("no indices were given: the first axis of indices is empty")
    return at


@op("_unravel_index", "data", mx=("unravel_index",), npx=("unravel_index",), json=("unravel_index",), shape=Shape())
def unravel_index(data: Node, a: Attrs) -> Node:
    """Coordinates in ``shape`` of positions in the flattened array, along a new first axis."""
    rows, rest = [], ir.cast(data, dt.int64)
    for k, n in enumerate(a.shape[::-1]):
        free = k == len(a.shape) - 1                               # the first length is not needed and may be -1
        rows.append(ir.reshape(rest if free else ir.map("mod", rest, n), (1, *data.shape)))
        rest = ir.map("floordiv", rest, n)
    return ir.cast(ir.concat(rows[::-1], 0), data.dtype)


@op("_ravel_multi_index", "data", mx=("ravel_multi_index",), json=("ravel_multi_index",), shape=Shape())
def ravel_multi_index(data: Node, a: Attrs) -> Node:
    """Positions in the flattened array of coordinates in ``shape`` (first axis)."""
    if data.shape[:1] != (len(a.shape),):
        raise ShapeError(f"ravel_multi_index for shape {a.shape} needs {len(a.shape)} coordinates along the first "
                         f"axis, got {data.shape}")
    at: Node | None = None
    # beyond the lengths too: what is computed is a number, no place
    for k, n in enumerate(a.shape):
        row = ir.reshape(ir.slice(data, (k,) + (0,) * (data.ndim - 1), (1, *data.shape[1:])), data.shape[1:])
        row = ir.cast(row, dt.int64)
        at = row if at is None else at * n + row
    assert at is not None
    return ir.cast(at, data.dtype)


@op("_contrib_index_copy", "old_tensor index_vector new_tensor", mx=("contrib.index_copy",), npx=("index_copy",))
def index_copy(old: Node, index: Node, new: Node, a: Attrs) -> Node:
    """old with the rows at index replaced by those of new (every index once)."""
    if new.shape != index.shape + old.shape[1:]:
        raise ShapeError(f"index_copy into {old.shape} at {index.shape} needs new rows {index.shape + old.shape[1:]}, "
                         f"got {new.shape}")
    at = index_of(index, old.shape[0], "clip")
    hit = ir.scatter_add(at, ir.full(1, at.shape, dt.int32), 0, old.shape[0])
    rows = ir.reshape(ir.map("gt", hit, 0), (old.shape[0],) + (1,) * (old.ndim - 1))
    return ir.map("where", rows, ir.scatter_add(at, new, 0, old.shape[0]), old)


@op("_contrib_index_array", "data", mx=("contrib.index_array",), json=("_npx_index_array",), axes=Shape(None))
def index_array(data: Node, a: Attrs) -> Node:
    """Every element's own index (*data.shape, axes), int64; of the given axes alone where there are some."""
    axes = [normal_axis(k, data.ndim) for k in (range(data.ndim) if a.axes is None else a.axes)]
    parts = [ir.expand(ir.reshape(ir.iota(data.shape[k]),
                                  tuple(data.shape[k] if i == k else 1 for i in range(data.ndim + 1))),
                                  (*data.shape, 1)) for k in axes]
    return ir.concat(parts, data.ndim) if parts else ir.full(0, (*data.shape, 0), dt.int64)
