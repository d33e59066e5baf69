"""How ONNX's operators on arrays are read: elementwise functions, shapes, parts, indices, reductions."""
from __future__ import annotations

import math
import operator
from typing import Any, Sequence

import numpy as np

from ...base import dtype as dt
from ...graph.symbol import Symbol
from ...ir.build import broadcast_shapes
from .reader import Known, OnnxNode, reads
from .scalars import READ
from .sizes import is_size_array, size_array, whole as whole_number


# ---- elementwise
def _number(n: OnnxNode, k: int) -> float | int | None:
    """A known single number among the inputs, that does not make the other one wider."""
    v: Any = n.values[k]
    other: Any = n.values[1 - k]
    if not isinstance(v,
                      Known) or v.size != 1 or v.dtype == dt.bool_ or isinstance(other,
            Known) or other.shape is None or v.ndim > len(other.shape):
        return None
    return v.reshape(()).item() if other.dtype is None or np.dtype(other.dtype) == v.dtype else None


# with a number that is computed from lengths
ARITHMETIC = {"Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": operator.truediv,
              "Pow": operator.pow}


def _elementwise(n: OnnxNode) -> Symbol:
    name, *scalar = READ[n.kind]
    if n.kind == "Div" and n[0].dtype is not None and not dt.is_float(np.dtype(n[0].dtype)):
        wide = n.op("broadcast_div", *(n.op("Cast", n[k], dtype="float64") for k in (0, 1)))
        return n.op("Cast", n.op("trunc", wide), dtype=np.dtype(n[0].dtype).name)
    if scalar and len(n) == 2:
        for k in (1, 0):
            number = _number(n, k)
            if number is not None:
                return n.op(scalar[1 - k], n[1 - k], scalar=number)
            value: Any = n.values[k]
            if n.kind in ARITHMETIC and is_size_array(value) and value.size == 1:
                number = value.reshape(()).item()
                return ARITHMETIC[n.kind](*((n[0], number) if k else (number, n[1])))
    if len(n) == 1 or n.kind == "Where":
        return n.op(name, *n.all())
    out = n[0]
    for k in range(1, len(n)):
        out = n.op(name, out, n[k])
    return out


reads(*READ)(_elementwise)


@reads("Max", "Min")
def extreme(n: OnnxNode) -> Symbol:
    return n[0] if len(n) == 1 else _elementwise(n)


@reads("Pow")
def power(n: OnnxNode) -> Symbol:
    y, kind = _elementwise(n), n[0].dtype                      # of the dtype of the base
    return y if kind is None or y.dtype in (kind, None) else n.op("Cast", y, dtype=np.dtype(kind).name)


@reads("IsInf")
def is_inf(n: OnnxNode) -> Symbol:
    low, high = n.attr("detect_negative", 1), n.attr("detect_positive", 1)
    return n.op("_npi_isinf" if low and high else "_npi_isneginf" if low else "_npi_isposinf", n[0])


@reads("Sum", "Mean")
def total(n: OnnxNode) -> Symbol:
    out = n[0]
    for k in range(1, len(n)):
        out = n.op("broadcast_add", out, n[k])
    return n.op("_div_scalar", out, scalar=float(len(n))) if n.kind == "Mean" else out


@reads("Mod")
def mod(n: OnnxNode) -> Symbol:
    return n.op("_npi_fmod" if n.attr("fmod", 0) else "_npi_mod", n[0], n[1])


@reads("Cast")
def cast(n: OnnxNode) -> Symbol:
    return n.op("Cast", n[0], dtype=n.reader.dtype(n.attr("to")).name)


@reads("CastLike")
def cast_like(n: OnnxNode) -> Symbol:
    return n.op("Cast", n[0], dtype=np.dtype(n[1].dtype or np.float32).name)


@reads("Identity")
def identity(n: OnnxNode) -> Symbol:
    return n.op("_copy", n[0])


@reads("Shape")
def shape(n: OnnxNode) -> Any:
    found = size_array(n.shape()) if n.reader.any_length else np.asarray(n.shape(), np.int64)
    return found[n.attr("start", 0):n.attr("end", len(found))]


@reads("Size")
def size(n: OnnxNode) -> Any:
    count = math.prod(n.shape())
    return size_array([count]).reshape(()) if n.reader.any_length else np.asarray(count, np.int64)


# ---- shapes
@reads("Flatten")
def flatten(n: OnnxNode) -> Symbol:
    axis = n.attr("axis", 1)
    if axis == 1:
        return n.op("Flatten", n[0])
    found = n.shape()
    return n.op("Reshape", n[0], shape=(math.prod(found[:axis % (len(found) + 1) if axis >= 0 else axis]), -1))


@reads("Reshape")
def reshape(n: OnnxNode) -> Symbol:
    target = n.ints("shape", 1)
    if n.attr("allowzero", 0) or 0 in n.shape():
        target = _resolved(n.shape(), target, bool(n.attr("allowzero", 0)))
    return n.op("Reshape", n[0], shape=tuple(target)) if target else n.op("_np_reshape", n[0], newshape=())


def _resolved(found: Sequence[int], target: Sequence[int], zeros: bool) -> list[int]:
    """A target without 0 for the length that was there."""
    return [found[i] if d == 0 and not zeros else d for i, d in enumerate(target)]


@reads("Transpose")
def transpose(n: OnnxNode) -> Symbol:
    return n.op("transpose", n[0], axes=tuple(n.ints("perm", default=reversed(range(len(n.shape()))))))


@reads("Squeeze")
def squeeze(n: OnnxNode) -> Symbol:
    axes = n.ints("axes", 1)
    return n.op("_np_squeeze", n[0], axis=None if axes is None else tuple(axes))


@reads("Unsqueeze")
def unsqueeze(n: OnnxNode) -> Symbol:
    axes = n.ints("axes", 1)
    rank = len(n.shape()) + len(axes)
    out = n[0]
    for axis in sorted(a % rank for a in axes):
        out = n.op("expand_dims", out, axis=axis)
    return out


@reads("Expand")
def expand(n: OnnxNode) -> Symbol:
    found, target = n.shape(), n.ints("shape", 1)
    whole = broadcast_shapes(found, tuple(target))
    x = n[0] if len(whole) == len(found) else n.op("Reshape", n[0], shape=(*(1,) * (len(whole) - len(found)), *found))
    return x if whole == found else n.op("broadcast_to", x, shape=whole)


@reads("Tile")
def tile(n: OnnxNode) -> Symbol:
    return n.op("_npi_tile", n[0], reps=tuple(n.ints("repeats", 1)))


@reads("Concat")
def concat(n: OnnxNode) -> Symbol:
    return n.op("Concat", *n.all(), dim=n.attr("axis", 1))


@reads("Split")
def split(n: OnnxNode) -> list[Symbol]:
    axis, whole = n.attr("axis", 0), n.shape()
    axis %= len(whole)
    count = len(n.proto.output)
    sizes = n.ints("split", 1)
    if sizes is None:
        each = -(-whole[axis] // n.attr("num_outputs", count))
        sizes = [min(each, whole[axis] - each * k) for k in range(count)]
    if len(set(sizes)) == 1:
        parts = n.op("SliceChannel", n[0], num_outputs=count, axis=axis)
        return list(parts) if count > 1 else [parts]
    ends = np.cumsum(sizes).tolist()
    return [n.op("slice_axis", n[0], axis=axis, begin=e - s, end=e) for s, e in zip(sizes, ends)]


@reads("Slice")
def slice_(n: OnnxNode) -> Symbol:
    starts, ends = n.ints("starts", 1), n.ints("ends", 2)
    axes, steps = n.ints("axes", 3, list(range(len(starts)))), n.ints("steps", 4, [1] * len(starts))
    whole = n.shape()
    begin, end, step = ([None] * len(whole) for _ in range(3))                # type: ignore[var-annotated]
    for s, e, axis, st in zip(starts, ends, axes, steps):
        d, axis = whole[axis], axis % len(whole)
        begin[axis] = None if (s <= -d
                               or s == 0) and st > 0 or s >= d - 1 and st < 0 else s       # type: ignore[call-overload]
        end[axis] = None if e >= d and st > 0 or e < -d and st < 0 else e     # type: ignore[call-overload]
        step[axis] = st if st != 1 else None                                  # type: ignore[call-overload]
        if st > 0 and s >= d:
            begin[axis], end[axis] = 0, 0                                     # type: ignore[call-overload]
    used = max((i + 1 for i in range(len(whole)) if (begin[i], end[i], step[i]) != (None, None, None)), default=0)
    if not used:
        return n[0]
    return n.op("slice", n[0], begin=tuple(begin[:used]), end=tuple(end[:used]),
                **({"step": tuple(step[:used])} if any(step) else {}))


@reads("Pad")
def pad(n: OnnxNode) -> Symbol:
    pads = n.ints("pads", 1) or n.ints("paddings")
    rank = len(n.shape())
    axes = [a % rank for a in n.ints("axes", 3, list(range(rank)))]
    value = n.attr("value") if "value" in n.attrs else n.known(2, "value")
    before, after = ({a: p for a, p in zip(axes, half)} for half in (pads[:len(axes)], pads[len(axes):]))
    width = tuple((max(before.get(i, 0), 0), max(after.get(i, 0), 0)) for i in range(rank))
    mode = n.attr("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise n.fail(f"mode={mode!r} is not supported")
    x = n[0]
    if any(v < 0 for v in pads):                                # negative padding cuts off
        x = n.op("slice", x, begin=tuple(max(-before.get(i, 0), 0) for i in range(rank)),
                 end=tuple(min(after.get(i, 0), 0) or None for i in range(rank)))
    if not any(map(any, width)):
        return x
    more = ({"constant_value": float(np.asarray(value).reshape(-1)[0])} if mode == "constant" and value is not None
            and np.size(value) else {})
    return n.op("_npi_pad", x, pad_width=width, mode=mode, **more)


@reads("DepthToSpace")
def depth_to_space(n: OnnxNode) -> Symbol:
    block = n.attr("blocksize")
    if n.attr("mode", "DCR") == "DCR":
        return n.op("depth_to_space", n[0], block_size=block)
    _, c, h, w = n.shape()
    x = n.op("Reshape", n[0], shape=(-1, c // block**2, block, block, h, w))
    return n.op("Reshape", n.op("transpose", x, axes=(0, 1, 4, 2, 5, 3)),
                shape=(-1, c // block**2, h * block, w * block))


@reads("SpaceToDepth")
def space_to_depth(n: OnnxNode) -> Symbol:
    if n.attr("mode", "DCR") != "DCR":
        raise n.fail("only mode='DCR' is supported")
    return n.op("space_to_depth", n[0], block_size=n.attr("blocksize"))


@reads("Trilu")
def trilu(n: OnnxNode) -> Symbol:
    k = n.known(1, "k")
    return n.op("_npi_triu" if n.attr("upper", 1) else "_npi_tril", n[0], k=0 if k is None else int(k))


# ---- indices
@reads("Gather")
def gather(n: OnnxNode) -> Symbol:
    axis, indices = n.attr("axis", 0), n.values[1]
    if isinstance(indices, Known):
        length = n.shape()[axis]
        indices = (np.where(indices < 0, indices + length, indices) if type(length) is int
                  else np.frompyfunc(lambda i: i + length if i < 0 else i, 1, 1)(indices))
        indices = np.asarray(indices)
        if indices.size and not (0 <= indices.min() and indices.max() < length):
            raise n.fail(f"an index of it lies outside of axis {axis}, which has length {length}")
        if not indices.ndim:
            i, axis = whole_number(indices.reshape(()).item()), axis % len(n.shape())
            return n.op("_np_squeeze", n.op("slice_axis", n[0], axis=axis, begin=i, end=i + 1), axis=(axis,))
        return n.op("take", n[0], n.constant("indices", indices), axis=axis)
    return n.op("take", n[0], n[1], axis=axis, mode="wrap")      # negative indices count from the end


@reads("GatherND")
def gather_nd(n: OnnxNode) -> Symbol:
    if n.attr("batch_dims", 0):
        raise n.fail("batch_dims is not supported")
    rank = len(n.shape(1))
    return n.op("gather_nd", n[0], n.op("transpose", n[1], axes=(rank - 1, *range(rank - 1))))


@reads("GatherElements")
def gather_elements(n: OnnxNode) -> Symbol:
    """The data as rows along the axis; an index is that of a row times the length, plus the one in the row."""
    shape, found = n.shape(), n.shape(1)
    axis = n.attr("axis", 0) % len(shape)
    if any(d != e for i, (d, e) in enumerate(zip(shape, found)) if i != axis):
        raise n.fail(f"indices of shape {found} into data of shape {shape} are not supported: the other axes must be "
                     f"alike")
    last = [i for i in range(len(shape)) if i != axis] + [axis]
    rows, length = math.prod(shape) // max(shape[axis], 1), shape[axis]
    index = n.op("where", n.op("_lesser_scalar", n[1], scalar=0), n.op("_plus_scalar", n[1], scalar=length), n[1])
    index = n.op("Reshape", n.op("transpose", index, axes=tuple(last)), shape=(rows, -1))
    flat = n.op("broadcast_add", index, n.constant("rows", np.arange(rows)[:, None] * length))
    y = n.op("take", n.op("Reshape", n.op("transpose", n[0], axes=tuple(last)), shape=(-1,)), flat)
    y = n.op("Reshape", y, shape=tuple(found[i] for i in last))
    return n.op("transpose", y, axes=tuple(np.argsort(last).tolist()))


@reads("ScatterND")
def scatter_nd(n: OnnxNode) -> Symbol:
    if n.attr("reduction", "none") != "none":
        raise n.fail("a reduction is not supported")
    rank, shape = len(n.shape(1)), n.shape()
    sizes = n.constant("sizes", np.asarray(shape[:n.shape(1)[-1]], np.int64))
    index = n.op("where", n.op("_lesser_scalar", n[1], scalar=0), n.op("broadcast_add", n[1], sizes), n[1])
    return n.op("_scatter_set_nd", n[0], n[2], n.op("transpose", index, axes=(rank - 1, *range(rank - 1))), shape=shape)


@reads("OneHot")
def one_hot(n: OnnxNode) -> Symbol:
    depth, values = int(np.asarray(n.known(1, "depth")).reshape(-1)[0]), n.known(2, "values")
    assert values is not None
    # from the end
    index = n.op("where", n.op("_lesser_scalar", n[0], scalar=0), n.op("_plus_scalar", n[0], scalar=depth), n[0])
    out = n.op("one_hot", index, depth=depth, off_value=float(values[0]), on_value=float(values[1]),
               dtype=values.dtype.name)
    rank = len(n.shape()) + 1
    axis = n.attr("axis", -1) % rank
    order = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return out if axis == rank - 1 else n.op("transpose", out, axes=tuple(order))


@reads("TopK")
def topk(n: OnnxNode) -> list[Symbol]:
    k = n.attr("k") if "k" in n.attrs else int(np.asarray(n.known(1, "k")).reshape(-1)[0])
    return list(n.op("topk", n[0], k=k, axis=n.attr("axis", -1), ret_typ="both", is_ascend=not n.attr("largest", 1),
                     dtype="int64"))


@reads("ArgMax", "ArgMin")
def arg(n: OnnxNode) -> Symbol:
    if n.attr("select_last_index", 0):
        raise n.fail("select_last_index=1 is not supported")
    return n.op("_npi_" + n.kind.lower(), n[0], axis=n.attr("axis", 0), keepdims=bool(n.attr("keepdims", 1)))


@reads("CumSum")
def cumsum(n: OnnxNode) -> Symbol:
    axis, x = int(np.asarray(n.known(1, "axis")).reshape(-1)[0]), n[0]
    x = n.op("reverse", x, axis=(axis,)) if n.attr("reverse", 0) else x
    y = n.op("cumsum", x, axis=axis)
    y = n.op("elemwise_sub", y, x) if n.attr("exclusive", 0) else y
    return n.op("reverse", y, axis=(axis,)) if n.attr("reverse", 0) else y


# ---- reductions
# what is done before, the reduction, what is done after
REDUCTIONS: dict[str, tuple[str | None, str, str | None]] = {
    "ReduceSum": (None, "_np_sum", None), "ReduceMean": (None, "_npi_mean", None),
    "ReduceMax": (None, "_np_max", None), "ReduceMin": (None, "_np_min", None),
    "ReduceProd": (None, "_np_prod", None), "ReduceL1": ("abs", "_np_sum", None),
    "ReduceL2": ("square", "_np_sum", "sqrt"),
    "ReduceSumSquare": ("square", "_np_sum", None), "ReduceLogSum": (None, "_np_sum", "log"),
}


@reads(*REDUCTIONS)
def reduction(n: OnnxNode) -> Symbol:
    before, name, after = REDUCTIONS[n.kind]
    axes, keep = n.ints("axes", 1), bool(n.attr("keepdims", 1))
    x = n[0] if before is None else n.op(before, n[0])
    if not axes and n.attr("noop_with_empty_axes", 0):
        return x
    y = n.op(name, x, axis=tuple(axes) if axes else None, keepdims=keep)
    return y if after is None else n.op(after, y)


@reads("ReduceLogSumExp")
def log_sum_exp(n: OnnxNode) -> Symbol:
    axes = n.ints("axes", 1)
    axis, keep = (tuple(axes) if axes else None), bool(n.attr("keepdims", 1))
    top = n.op("BlockGrad", n.op("_np_max", n[0], axis=axis, keepdims=True))
    total = n.op("_np_sum", n.op("exp", n.op("broadcast_sub", n[0], top)), axis=axis, keepdims=True)
    y = n.op("broadcast_add", n.op("log", total), top)
    return y if keep else n.op("_np_squeeze", y, axis=axis if axis is not None else tuple(range(len(n.shape()))))
