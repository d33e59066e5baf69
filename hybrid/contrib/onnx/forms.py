"""Operators whose form in ONNX is a node that readers and runtimes know: the one table ``FORMS``, keyed by operator.

A form takes the graph, the operator's attributes and its inputs, and returns the names of its outputs; None where the
attributes are none that ONNX knows. Then, as for every operator without a form, its primitives are written
(primitives.py).
"""
from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import numpy as np

from ...base import dtype as dt
from ...ops.conv import LAYOUTS, per_axis
from ...ops.pooling import pool_extent
from .builder import Graph, Value

Form = Callable[..., Any]
FORMS: dict[str, Form] = {}
CHANNELS_LAST = tuple(name for name in LAYOUTS if name.endswith("C"))


def form(*names: str) -> Callable[[Form], Form]:
    """Register the form of operators, by the names in files."""
    def add(fn: Form) -> Form:
        FORMS.update(dict.fromkeys(names, fn))
        return fn
    return add


def use(g: Graph, *values: Value | None) -> list[str]:
    """Names of the inputs that are there."""
    return [g.use(v) for v in values if v is not None]


# ---- layers
def spatial(a: Any) -> dict[str, Any]:
    """ONNX's attributes of the windows of a convolution."""
    n = len(a.kernel)
    return {"kernel_shape": list(a.kernel), "strides": list(per_axis(a.stride, n, 1)),
            "dilations": list(per_axis(a.dilate, n, 1)), "group": a.num_group}


@form("Convolution")
def convolution(g: Graph, a: Any, x: Value, w: Value, b: Value | None = None) -> str | None:
    if not dt.is_float(x.dtype):
        return None
    inputs = use(g, x, w, None if a.no_bias else b)
    last = a.layout in CHANNELS_LAST
    if last:
        inputs[:2] = [g.transpose(name, _first(v.shape)) for name, v in zip(inputs, (x, w))]
    y = g.node("Conv", inputs, pads=list(per_axis(a.pad, len(a.kernel), 0)) * 2, **spatial(a))
    return g.transpose(y, _last(x.shape)) if last else y


def _first(shape: Sequence[int]) -> list[int]:
    return [0, len(shape) - 1, *range(1, len(shape) - 1)]


def _last(shape: Sequence[int]) -> list[int]:
    return [0, *range(2, len(shape)), 1]


@form("Deconvolution")
def deconvolution(g: Graph, a: Any, x: Value, w: Value, b: Value | None = None) -> str | None:
    n = len(a.kernel)
    pad, adj, stride, dilate = (per_axis(v, n, d) for v, d in ((a.pad, 0), (a.adj, 0), (a.stride, 1), (a.dilate, 1)))
    if a.layout in CHANNELS_LAST or not dt.is_float(x.dtype):
        return None
    after = [p - j for p, j in zip(pad, adj)]
    if a.target_shape and any(a.target_shape):
        full = [(d - 1) * s + dl * (k - 1) + 1 for d, s, dl, k in zip(x.shape[2:], stride, dilate, a.kernel)]
        extra = [f - t for f, t in zip(full, a.target_shape)]
        pad = tuple((e + 1) // 2 if e > 0 else 0 for e in extra)
        after = [e - p for e, p in zip(extra, pad)]
    more = [max(-v, 0) for v in after]                        # beyond the last window: output_padding
    if any(m >= max(s, d) for m, s, d in zip(more, stride, dilate)):
        return None
    return g.node("ConvTranspose", use(g, x, w, None if a.no_bias else b), pads=[*pad, *(max(v, 0) for v in after)],
                  output_padding=more if any(more) else None, **spatial(a))


@form("FullyConnected")
def fully_connected(g: Graph, a: Any, x: Value, w: Value, b: Value | None = None) -> str:
    name, wide = g.use(x), math.prod(x.shape[1:])
    if a.flatten and len(x.shape) != 2:
        name = g.node("Flatten", [name], axis=1) if x.shape[0] else g.reshape(name, x.shape, (x.shape[0], wide))
    bias = use(g, None if a.no_bias else b)
    if (a.flatten or len(x.shape) == 2) and dt.is_float(x.dtype):
        return g.node("Gemm", [name, g.use(w), *bias], transB=1)
    y = g.node("MatMul", [name, g.transpose(g.use(w), (1, 0))])
    return g.node("Add", [y, *bias]) if bias else y


@form("BatchNorm", "_contrib_SyncBatchNorm")
def batch_norm(g: Graph, a: Any, x: Value, gamma: Value, beta: Value, mean: Value, var: Value) -> str | None:
    axis = a.asdict().get("axis", 1) % len(x.shape)
    if a.output_mean_var or len(x.shape) < 2 or axis == 0:
        return None
    scale = g.const(np.ones(gamma.shape, gamma.dtype)) if a.fix_gamma else g.use(gamma)
    order = [0, axis, *(i for i in range(1, len(x.shape)) if i != axis)]
    y = g.node("BatchNormalization", [g.transpose(g.use(x), order), scale, *use(g, beta, mean, var)], epsilon=a.eps,
               momentum=a.momentum)
    return g.transpose(y, np.argsort(order).tolist())


@form("_contrib_BatchNormWithReLU")
def batch_norm_relu(g: Graph, a: Any, *values: Value) -> str | None:
    y = batch_norm(g, a, *values)
    return None if y is None else g.node("Relu", [y])


@form("LayerNorm")
def layer_norm(g: Graph, a: Any, x: Value, gamma: Value, beta: Value) -> str | None:
    if (g.opset < 17 or a.output_mean_var or a.axis % len(x.shape) != len(x.shape) - 1
        or x.dtype not in (dt.float32, dt.float64)):
        return None
    return g.node("LayerNormalization", use(g, x, gamma, beta), axis=-1, epsilon=a.eps)


@form("InstanceNorm")
def instance_norm(g: Graph, a: Any, x: Value, gamma: Value, beta: Value) -> str:
    return g.node("InstanceNormalization", use(g, x, gamma, beta), epsilon=a.eps)


@form("LRN")
def lrn(g: Graph, a: Any, x: Value) -> str | None:
    if len(x.shape) < 3 or a.nsize % 2 == 0:
        return None
    return g.node("LRN", use(g, x), alpha=a.alpha, beta=a.beta, bias=a.knorm, size=a.nsize)


# ---- pooling
@form("Pooling")
def pooling(g: Graph, a: Any, x: Value) -> str | None:
    if not dt.is_float(x.dtype):
        return None
    last, name = a.layout in CHANNELS_LAST, g.use(x)
    shape = [x.shape[i] for i in _first(x.shape)] if last else list(x.shape)
    name = g.transpose(name, _first(x.shape)) if last else name
    y = _global_pool(g, a, name, shape) if a.global_pool else _window_pool(g, a, name, shape, x.dtype)
    return g.transpose(y, _last(x.shape)) if last and y is not None else y


def _global_pool(g: Graph, a: Any, name: str, shape: Sequence[int]) -> str:
    if a.pool_type == "sum":
        return g.reduce("ReduceSum", name, range(2, len(shape)), True)
    return g.node({"max": "GlobalMaxPool", "avg": "GlobalAveragePool", "lp": "GlobalLpPool"}[a.pool_type], [name],
                  p=(a.p_value or 2) if a.pool_type == "lp" else None)


def _window_pool(g: Graph, a: Any, name: str, shape: Sequence[int], dtype: np.dtype) -> str | None:
    n = len(a.kernel)
    if len(shape) != n + 2:
        return None
    stride, pad = per_axis(a.stride, n, 1), per_axis(a.pad, n, 0)
    extents = [pool_extent(d, k, s, p, a.pooling_convention) for d, k, s, p in zip(shape[2:], a.kernel, stride, pad)]
    # what lies behind the last window is cut off by rounding down, so the padding there may be at least that of the
    # front
    after = [max(hi, p) if (d + 2 * p - k) // s + 1 == count else hi
             for (count, hi), d, k, s, p in zip(extents, shape[2:], a.kernel, stride, pad)]
    if any(p >= k for p, k in zip((*pad, *after), a.kernel * 2)) or min(count for count, _ in extents) < 1:
        return None                                           # a window within the padding alone
    given = {"kernel_shape": list(a.kernel), "strides": list(stride), "pads": [*pad, *after]}
    if a.pool_type == "max":
        return g.node("MaxPool", [name], **given)
    if a.pool_type == "lp":
        return g.node("LpPool", [name], p=a.p_value or 2, **given)
    if a.pool_type == "avg" and a.count_include_pad is False:
        return g.node("AveragePool", [name], count_include_pad=0, **given)
    y = g.node("AveragePool", [name], count_include_pad=1, **given)
    factor = _factors(a, shape, stride, pad, extents)
    return y if (factor == 1).all() else g.node("Mul",
                                                [y, g.const(factor.astype(dtype) if factor.size > 1
                                                            else factor.reshape(()).astype(dtype))])


def _factors(a: Any, shape: Sequence[int], stride: Sequence[int], pad: Sequence[int],
             extents: Sequence[tuple[int, int]]) -> np.ndarray:
    """By what the averages over whole windows are multiplied: windows that reach beyond the padding count fewer
    elements."""
    total = np.ones((1,) * len(a.kernel))
    for i, ((count, _), d, k, s, p) in enumerate(zip(extents, shape[2:], a.kernel, stride, pad)):
        begin = np.arange(count) * s - p
        line = k / np.maximum(np.minimum(begin + k, d + p) - begin,
                              1) if a.pool_type == "avg" else np.full(count, float(k))
        line = line[:1] if (line == line[0]).all() else line
        total = total * line.reshape([-1 if j == i else 1 for j in range(len(a.kernel))])
    return total


@form("_contrib_AdaptiveAvgPooling2D")
def adaptive_pooling(g: Graph, a: Any, x: Value) -> str | None:
    return (g.node("GlobalAveragePool", use(g, x)) if tuple(a.output_size) in ((), (1,), (1, 1)) and len(x.shape) == 4
            else None)


# ---- activations
@form("LeakyReLU")
def leaky_relu(g: Graph, a: Any, x: Value, gamma: Value | None = None) -> str | None:
    if a.act_type == "prelu" and gamma is not None:
        shape = ((gamma.shape[0], *(1,) * (len(x.shape) - 2)) if len(gamma.shape) == 1 and len(x.shape) > 1
                 else gamma.shape)
        return g.node("PRelu", [g.use(x), g.reshape(g.use(gamma), gamma.shape, shape)])
    if a.act_type == "leaky":
        return g.node("LeakyRelu", use(g, x), alpha=a.slope)
    return g.node("Elu", use(g, x), alpha=a.slope) if a.act_type == "elu" else None


@form("softsign")
def softsign(g: Graph, a: Any, x: Value) -> str:
    return g.node("Softsign", use(g, x))


@form("Activation")
def activation(g: Graph, a: Any, x: Value) -> str | None:
    return softsign(g, a, x) if a.act_type == "softsign" else None


@form("hard_sigmoid")
def hard_sigmoid(g: Graph, a: Any, x: Value) -> str:
    return g.node("HardSigmoid", use(g, x), alpha=a.alpha, beta=a.beta)


@form("clip")
def clip(g: Graph, a: Any, x: Value) -> str | None:
    if a.a_min is None or a.a_max is None or not dt.is_float(x.dtype):
        return None
    return g.node("Clip", [g.use(x), g.const(a.a_min, x.dtype), g.const(a.a_max, x.dtype)])


@form("softmax")
def softmax(g: Graph, a: Any, x: Value, length: Value | None = None, kind: str = "Softmax") -> str | None:
    if a.use_length or a.dtype or not dt.is_float(x.dtype) or not x.shape:
        return None
    name = g.use(x)
    if a.temperature not in (None, 1):
        name = g.node("Div", [name, g.const(a.temperature, x.dtype)])
    return g.node(kind, [name], axis=a.axis)


@form("log_softmax")
def log_softmax(g: Graph, a: Any, x: Value, length: Value | None = None) -> str | None:
    return softmax(g, a, x, length, "LogSoftmax")


@form("SoftmaxOutput")
def softmax_output(g: Graph, a: Any, x: Value, label: Value | None = None) -> str:
    name = g.use(x)
    if a.multi_output or a.preserve_shape or len(x.shape) == 2:
        return g.node("Softmax", [name], axis=1 if a.multi_output else -1)
    flat = g.node("Softmax", [g.node("Flatten", [name], axis=1)], axis=1)
    return g.reshape(flat, (x.shape[0], math.prod(x.shape[1:])), x.shape)


# ---- arrays
@form("Flatten")
def flatten(g: Graph, a: Any, x: Value) -> str:
    return g.node("Flatten", use(g, x), axis=1)


@form("mean", "_npi_mean")
def mean(g: Graph, a: Any, x: Value) -> str | None:
    if not dt.is_float(x.dtype) or a.asdict().get("dtype") or a.asdict().get("initial") is not None or not x.shape:
        return None
    axes = range(len(x.shape)) if a.axis in (None,
                                             ()) else [v % len(x.shape)
                                                       for v in ((a.axis,) if isinstance(a.axis, int) else a.axis)]
    # one number, whose shape is not the same in mean and np.mean
    if a.axis in (None, ()) and not a.keepdims:
        return None
    if a.asdict().get("exclude") and a.axis not in (None, ()):
        axes = [i for i in range(len(x.shape)) if i not in axes]
    return g.reduce("ReduceMean", g.use(x), sorted(axes), bool(a.keepdims))


@form("SliceChannel")
def split(g: Graph, a: Any, x: Value) -> list[str]:
    axis = a.axis % len(x.shape)
    size = x.shape[axis] // a.num_outputs
    parts = g.node("Split", [g.use(x), g.const([size] * a.num_outputs, np.int64)], a.num_outputs, axis=axis)
    parts = parts if isinstance(parts, list) else [parts]
    return [g.node("Squeeze", [p, g.const([axis], np.int64)]) for p in parts] if a.squeeze_axis else parts


@form("UpSampling")
def upsampling(g: Graph, a: Any, *values: Value) -> str | None:
    if a.sample_type != "nearest" or len(values) != 1:
        return None
    return g.node("Resize", [g.use(values[0]), "", g.const([1, 1, a.scale, a.scale], np.float32)], mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@form("topk")
def topk(g: Graph, a: Any, x: Value) -> Any:
    if a.axis is None or a.ret_typ == "mask":
        return None
    axis = a.axis % len(x.shape)
    values, indices = g.node("TopK", [g.use(x), g.const([a.k or x.shape[axis]], np.int64)], 2, axis=axis,
                            largest=int(not a.is_ascend), sorted=1)
    index = g.cast(indices, a.dtype)
    return {"value": values, "indices": index, "both": [values, index]}[a.ret_typ]


@form("_npi_det")
def np_det(g: Graph, a: Any, x: Value) -> str:
    return g.node("Det", use(g, x))


@form("_linalg_det")
def det(g: Graph, a: Any, x: Value) -> str:
    y = g.node("Det", use(g, x))
    return g.reshape(y, (), (1,)) if len(x.shape) == 2 else y
