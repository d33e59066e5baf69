"""How ONNX's layers are read: convolution, products, normalisation, pooling, activations."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from ...base import dtype as dt
from ...graph.symbol import Symbol
from .reader import OnnxNode, reads


# ---- windows
def _pads(n: OnnxNode, kernel: Sequence[int], strides: Sequence[int],
          dilations: Sequence[int]) -> tuple[list[int], list[int]]:
    """Padding before and after each spatial axis."""
    count, auto = len(kernel), n.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = n.ints("pads", default=[0] * 2 * count)
        return pads[:count], pads[count:]
    if auto == "VALID":
        return [0] * count, [0] * count
    total = [max((-(-d // s) - 1) * s + dl * (k - 1) + 1 - d, 0)
             for d, k, s, dl in zip(n.shape()[2:], kernel, strides, dilations)]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if auto == "SAME_UPPER" else (large, small)


def padded(n: OnnxNode, x: Symbol, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> Symbol:
    """Data with its last axes padded."""
    if not any((*before, *after)):
        return x
    lead = len(n.shape_of(x)) - len(before)
    return n.op("_npi_pad", x, pad_width=((0, 0),) * lead + tuple(zip(before, after)), mode="constant",
                constant_value=value)


def _window(n: OnnxNode, kernel: Sequence[int]) -> tuple[list[int], list[int], list[int], list[int]]:
    strides, dilations = n.ints("strides", default=[1] * len(kernel)), n.ints("dilations", default=[1] * len(kernel))
    return (strides, dilations, *_pads(n, kernel, strides, dilations))


@reads("Conv")
def conv(n: OnnxNode) -> Symbol:
    w = n.shape(1)
    kernel = list(w[2:])
    strides, dilations, before, after = _window(n, kernel)
    x = n[0]
    if before != after:
        x, before = padded(n, x, before, after), [0] * len(kernel)
    return n.op("Convolution", x, *n.all()[1:], kernel=tuple(kernel), stride=tuple(strides), dilate=tuple(dilations),
                pad=tuple(before), num_filter=w[0],
                num_group=n.attr("group", 1), no_bias=not n.has(2))


@reads("ConvTranspose")
def conv_transpose(n: OnnxNode) -> Symbol:
    w, group = n.shape(1), n.attr("group", 1)
    kernel = list(w[2:])
    count = len(kernel)
    strides, dilations = n.ints("strides", default=[1] * count), n.ints("dilations", default=[1] * count)
    more = n.ints("output_padding", default=[0] * count)
    full = [(d - 1) * s + dl * (k - 1) + 1 for d, s, dl, k in zip(n.shape()[2:], strides, dilations, kernel)]
    wanted, auto = n.ints("output_shape"), n.attr("auto_pad", "NOTSET")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [d * s for d, s in zip(n.shape()[2:], strides)]
    if wanted is not None:
        total = [f + m - t for f, m, t in zip(full, more, wanted[-count:])]
        half = [(t // 2, t - t // 2) if t > 0 else (0, t) for t in total]
        before, after = ([h[0 if auto != "SAME_LOWER" else 1] for h in half],
                         [h[1 if auto != "SAME_LOWER" else 0] for h in half])
    else:
        pads = n.ints("pads", default=[0] * 2 * count)
        before, after = pads[:count], pads[count:]
    given = {"kernel": tuple(kernel), "stride": tuple(strides), "dilate": tuple(dilations), "num_filter": w[1] * group,
             "num_group": group, "no_bias": not n.has(2)}
    if before == after:
        return n.op("Deconvolution", *n.all(), pad=tuple(before), adj=tuple(more), **given)
    size = [f + m - b - a for f, m, b, a in zip(full, more, before, after)]
    y = n.op("Deconvolution", *n.all(), adj=tuple(max(b + s - f, 0) for b, s, f in zip(before, size, full)), **given)
    return n.op("slice", y, begin=(None, None, *before), end=(None, None, *(b + s for b, s in zip(before, size))))


# ---- products
@reads("Gemm")
def gemm(n: OnnxNode) -> Symbol:
    a, b = n[0], n[1]
    alpha, beta, ta, tb = float(n.attr("alpha", 1.0)), float(n.attr("beta",
                                                                    1.0)), n.attr("transA", 0), n.attr("transB", 0)
    c = n.shape(2) if n.has(2) else None
    rows = n.shape(1)[0]
    if tb and not ta and alpha == 1 and (c is None or beta == 1 and c == (rows,)):
        return n.op("FullyConnected", *n.all(), num_hidden=rows, no_bias=c is None, flatten=False)
    y = n.op("dot", a, b, transpose_a=bool(ta), transpose_b=bool(tb))
    y = y if alpha == 1 else n.op("_mul_scalar", y, scalar=alpha)
    if c is None:
        return y
    return n.op("broadcast_add", y, n[2] if beta == 1 else n.op("_mul_scalar", n[2], scalar=beta))


@reads("MatMul")
def matmul(n: OnnxNode) -> Symbol:
    return n.op("_npi_matmul", n[0], n[1])


@reads("Einsum")
def einsum(n: OnnxNode) -> Symbol:
    return n.op("_npi_einsum", *n.all(), subscripts=n.attr("equation").replace(" ", ""))


# ---- normalisation
@reads("BatchNormalization")
def batch_norm(n: OnnxNode) -> Symbol:
    if n.attr("training_mode", 0):
        raise n.fail("training_mode=1 is not supported: export the model for inference")
    return n.op("BatchNorm", *n.all(), eps=float(n.attr("epsilon", 1e-5)), momentum=float(n.attr("momentum", 0.9)),
                fix_gamma=False)


@reads("InstanceNormalization")
def instance_norm(n: OnnxNode) -> Symbol:
    return n.op("InstanceNorm", *n.all(), eps=float(n.attr("epsilon", 1e-5)))


def _moments(n: OnnxNode, x: Symbol, axes: Sequence[int]) -> tuple[Symbol, Symbol]:
    """Centred values and the mean of their squares, axes kept."""
    c = n.op("broadcast_sub", x, n.op("_npi_mean", x, axis=tuple(axes), keepdims=True))
    return c, n.op("_npi_mean", n.op("square", c), axis=tuple(axes), keepdims=True)


@reads("LayerNormalization")
def layer_norm(n: OnnxNode) -> Symbol:
    x, eps = n[0], float(n.attr("epsilon", 1e-5))
    rank = len(n.shape())
    first = n.attr("axis", -1) % rank
    if first == rank - 1 and n.shape(1) == n.shape()[-1:]:
        beta = n[2] if n.has(2) else n.constant("beta", np.zeros(n.shape(1), np.float32))
        return n.op("LayerNorm", x, n[1], beta, axis=-1, eps=eps)
    c, var = _moments(n, x, range(first, rank))
    y = n.op("broadcast_mul", n.op("broadcast_mul", c, n.op("rsqrt", n.op("_plus_scalar", var, scalar=eps))), n[1])
    return n.op("broadcast_add", y, n[2]) if n.has(2) else y


@reads("GroupNormalization")
def group_norm(n: OnnxNode) -> Symbol:
    shape, groups = n.shape(), n.attr("num_groups")
    grouped = n.op("_np_reshape", n[0], newshape=(-1 if shape[0] == 0 else shape[0], groups, -1))
    c, var = _moments(n, grouped, (2,))
    y = n.op("_np_reshape", n.op("broadcast_mul", c,
                                 n.op("rsqrt", n.op("_plus_scalar", var, scalar=float(n.attr("epsilon", 1e-5))))),
                                 newshape=shape)
    if n.shape(1) != (shape[1],):                             # opset 18: one scale a group
        raise n.fail("scale and bias for each group are not supported; opset 21 has them for each channel")
    wide = (1, shape[1], *(1,) * (len(shape) - 2))
    scale, bias = (n.op("Reshape", n[k], shape=wide) for k in (1, 2))
    return n.op("broadcast_add", n.op("broadcast_mul", y, scale), bias)


@reads("LRN")
def lrn(n: OnnxNode) -> Symbol:
    return n.op("LRN", n[0], alpha=float(n.attr("alpha", 1e-4)), beta=float(n.attr("beta", 0.75)),
                knorm=float(n.attr("bias", 1.0)), nsize=n.attr("size"))


@reads("LpNormalization")
def lp_norm(n: OnnxNode) -> Symbol:
    axis, p = n.attr("axis", -1), n.attr("p", 2)
    size = n.op("norm", n[0], ord=p, axis=axis, keepdims=True)
    # of nothing but zeros: zeros
    return n.op("broadcast_div", n[0], n.op("_maximum_scalar", size, scalar=float(np.finfo(np.float32).tiny)))


@reads("MeanVarianceNormalization")
def mean_variance(n: OnnxNode) -> Symbol:
    c, var = _moments(n, n[0], n.ints("axes", default=[0, 2, 3]))
    return n.op("broadcast_div", c, n.op("sqrt", n.op("_plus_scalar", var, scalar=1e-9)))


@reads("Dropout")
def dropout(n: OnnxNode) -> Symbol:
    ratio = n.attr("ratio", None)
    given = n.known(1, "ratio") if ratio is None else ratio
    return n.op("Dropout", n[0], p=0.5 if given is None else float(given))


# ---- pooling
def _convention(n: OnnxNode, kernel: Sequence[int], strides: Sequence[int], before: Sequence[int],
                after: Sequence[int]) -> str:
    """``full`` where lengths are rounded up and that makes a difference. A window that begins behind the data is none
    in ONNX."""
    if not n.attr("ceil_mode", 0):
        return "valid"
    spans = [(d, d + b + a - k, s, b) for d, b, a, k, s in zip(n.shape()[2:], before, after, kernel, strides)]
    up = [-(-span // s) + 1 for _, span, s, _ in spans]
    counts = [u - 1 if (u - 1) * s >= d + b else u for u, (d, _, s, b) in zip(up, spans)]
    if counts == [span // s + 1 for _, span, s, _ in spans]:
        return "valid"
    if counts == up:
        return "full"
    raise n.fail("ceil_mode rounds some lengths up and others down here, which is not supported")


def _dilated_pool(n: OnnxNode, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
                  before: Sequence[int], after: Sequence[int]) -> Symbol:
    """The greatest element of each window whose elements are some steps apart."""
    if n.kind != "MaxPool" or n.attr("ceil_mode", 0) or n[0].dtype is None or not dt.is_float(np.dtype(n[0].dtype)):
        raise n.fail(f"dilations={dilations} are supported for MaxPool of real numbers without ceil_mode alone")
    x = padded(n, n[0], before, after, -math.inf) if any((*before, *after)) else n[0]
    batch, channels, *lengths = n.shape()
    counts = [(d + b + a - step * (k - 1) - 1) // s + 1
              for d, b, a, k, s, step in zip(lengths, before, after, kernel, strides, dilations)]
    columns = n.op("im2col", x, kernel=tuple(kernel), stride=tuple(strides), dilate=tuple(dilations))
    windows = n.op("Reshape", columns, shape=(batch, channels, math.prod(kernel), *counts))
    return n.op("max", windows, axis=(2,))


@reads("MaxPool", "AveragePool", "LpPool")
def pool(n: OnnxNode) -> Symbol:
    kernel = n.ints("kernel_shape")
    strides, dilations, before, after = _window(n, kernel)
    if any(d != 1 for d in dilations):
        return _dilated_pool(n, kernel, strides, dilations, before, after)
    kind = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "lp"}[n.kind]
    given: dict[str, Any] = {"kernel": tuple(kernel), "stride": tuple(strides), "pool_type": kind,
                             "pooling_convention": _convention(n, kernel, strides, before, after)}
    if kind == "lp":
        given["p_value"] = n.attr("p", 2)
    inside = kind == "avg" and not n.attr("count_include_pad", 0)
    if before == after:
        return n.op("Pooling", n[0], pad=tuple(before), count_include_pad=not inside, **given)
    x = padded(n, n[0], before, after, -math.inf if kind == "max" else 0.0)
    y = n.op("Pooling", x, count_include_pad=True, **given)
    if not inside:
        return y
    ones = padded(n, n.op("ones_like", n[0]), before, after)        # the share of each window that is data
    return n.op("broadcast_div", y, n.op("Pooling", ones, count_include_pad=True, **given))


@reads("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
def global_pool(n: OnnxNode) -> Symbol:
    kind = {"GlobalMaxPool": "max", "GlobalAveragePool": "avg", "GlobalLpPool": "lp"}[n.kind]
    more = {"p_value": n.attr("p", 2)} if kind == "lp" else {}
    return n.op("Pooling", n[0], global_pool=True, pool_type=kind, kernel=(1,) * (len(n.shape()) - 2), **more)


# ---- activations
@reads("LeakyRelu")
def leaky(n: OnnxNode) -> Symbol:
    return n.op("LeakyReLU", n[0], act_type="leaky", slope=float(n.attr("alpha", 0.01)))


@reads("PRelu")
def prelu(n: OnnxNode) -> Symbol:
    x, shape, slope = n[0], n.shape(), n.shape(1)
    wide = (1,) * (len(shape) - len(slope)) + slope
    if len(shape) > 1 and all(d == 1 for i, d in enumerate(wide) if i != 1):
        return n.op("LeakyReLU", x, n[1] if len(slope) == 1 and len(shape) == 2
                    else n.op("Reshape", n[1], shape=(-1,)), act_type="prelu")
    return n.op("where", n.op("_greater_scalar", x, scalar=0), x, n.op("broadcast_mul", x, n[1]))


@reads("Elu")
def elu(n: OnnxNode) -> Symbol:
    return n.op("LeakyReLU", n[0], act_type="elu", slope=float(n.attr("alpha", 1.0)))


@reads("Selu")
def selu(n: OnnxNode) -> Symbol:
    alpha, gamma = float(n.attr("alpha", 1.67326319217681884765625)), float(n.attr("gamma", 1.05070102214813232421875))
    return n.op("_mul_scalar", n.op("LeakyReLU", n[0], act_type="elu", slope=alpha), scalar=gamma)


@reads("Celu")
def celu(n: OnnxNode) -> Symbol:
    alpha = float(n.attr("alpha", 1.0))
    return n.op("_mul_scalar", n.op("LeakyReLU", n.op("_div_scalar", n[0], scalar=alpha), act_type="elu", slope=1.0),
                scalar=alpha)


@reads("ThresholdedRelu")
def thresholded(n: OnnxNode) -> Symbol:
    return n.op("elemwise_mul", n[0], n.op("_greater_scalar", n[0], scalar=float(n.attr("alpha", 1.0))))


@reads("HardSigmoid")
def hard_sigmoid(n: OnnxNode) -> Symbol:
    return n.op("hard_sigmoid", n[0], alpha=float(n.attr("alpha", 0.2)), beta=float(n.attr("beta", 0.5)))


@reads("HardSwish")
def hard_swish(n: OnnxNode) -> Symbol:
    return n.op("elemwise_mul", n[0], n.op("hard_sigmoid", n[0], alpha=1 / 6, beta=0.5))


@reads("Softsign")
def softsign(n: OnnxNode) -> Symbol:
    return n.op("softsign", n[0])


@reads("Mish")
def mish(n: OnnxNode) -> Symbol:
    return n.op("mish", n[0])


@reads("Gelu")
def gelu(n: OnnxNode) -> Symbol:
    if n.attr("approximate", "none") == "none":
        return n.op("LeakyReLU", n[0], act_type="gelu")
    inner = n.op("_plus_scalar", n.op("_mul_scalar", n.op("square", n[0]), scalar=0.044715), scalar=1.0)
    t = n.op("tanh", n.op("_mul_scalar", n.op("elemwise_mul", n[0], inner), scalar=math.sqrt(2 / math.pi)))
    return n.op("elemwise_mul", n.op("_mul_scalar", n[0], scalar=0.5), n.op("_plus_scalar", t, scalar=1.0))


@reads("Clip")
def clip(n: OnnxNode) -> Symbol:
    low, high = (n.attr(k) if k in n.attrs else n.known(i, k) for i, k in ((1, "min"), (2, "max")))
    x = n[0]
    if low is None and high is None:
        return x
    is_float = x.dtype is None or dt.is_float(np.dtype(x.dtype))
    number = (lambda v: None if v is None else float(v)) if is_float else (lambda v: None if v is None else int(v))
    return n.op("clip", x, a_min=number(low), a_max=number(high))


@reads("Softmax", "LogSoftmax")
def softmax(n: OnnxNode) -> Symbol:
    name = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}[n.kind]
    shape = n.shape()
    axis = n.attr("axis", -1 if n.opset >= 13 else 1) % max(len(shape), 1)
    if n.opset >= 13 or axis == len(shape) - 1:
        return n.op(name, n[0], axis=axis)
    # before opset 13 over all axes from this one on
    flat = n.op("Reshape", n[0], shape=(math.prod(shape[:axis]), -1))
    return n.op("reshape_like", n.op(name, flat, axis=-1), n[0])


# ---- sampling, sequences, matrices
@reads("GridSample")
def grid_sample(n: OnnxNode) -> Symbol:
    if (n.attr("mode", "bilinear"), n.attr("padding_mode", "zeros"),
        n.attr("align_corners", 0)) not in (("bilinear", "zeros", 1), ("linear", "zeros", 1)) or len(n.shape()) != 4:
        raise n.fail("only images, linear sampling with padding_mode='zeros' and align_corners=1 is supported")
    return n.op("BilinearSampler", n[0], n.op("transpose", n[1], axes=(0, 3, 1, 2)))


@reads("ReverseSequence")
def reverse_sequence(n: OnnxNode) -> Symbol:
    if (n.attr("time_axis", 0), n.attr("batch_axis", 1)) == (0, 1):
        return n.op("SequenceReverse", n[0], n[1], use_sequence_length=True)
    in_time = n.op("SequenceReverse", n.op("SwapAxis", n[0], dim1=0, dim2=1), n[1], use_sequence_length=True)
    return n.op("SwapAxis", in_time, dim1=0, dim2=1)


@reads("Det")
def det(n: OnnxNode) -> Symbol:
    y = n.op("_linalg_det", n[0])
    return n.op("_np_reshape", y, newshape=()) if len(n.shape()) == 2 else y
