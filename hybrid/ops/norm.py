"""Normalisation and dropout."""
from __future__ import annotations


from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .nn import uniform01
from .reduction import as_half, mean_of, wide_half
from .registry import Bool, Enum, Float, Int, Lowered, Shape, Str, op
from .shape import normal_axis


def _wide(x: Node) -> Node:
    return ir.cast(x, dt.float32) if x.dtype.itemsize == 2 else x


def _along(v: Node, axis: int, ndim: int) -> Node:
    return ir.reshape(v, tuple(v.size if i == axis else 1 for i in range(ndim)))


def _moments(x: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
    """Mean (kept axes) and centred values."""
    mean = mean_of(x, axes, True)
    return mean, x - mean


STATISTICS = {"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'}


def bn_params(shapes: list, a: Attrs) -> list:
    """Every parameter has one entry a channel."""
    axis = normal_axis(a.axis, len(shapes[0])) if shapes[0] is not None else 0
    if shapes[0] is not None and shapes[0][axis] > 0:
        return [shapes[0], *[(shapes[0][axis],)] * 4]
    return shapes


@op("BatchNorm", "data gamma beta moving_mean moving_var", npx=("batch_norm",),
    json=("_npx_batch_norm", "BatchNorm_v1"),
    aux="moving_mean moving_var", starts=STATISTICS, needs=("train",), params=bn_params, outputs=lambda a: 3,
    visible=lambda a: 3 if a.output_mean_var else 1,
    eps=Float(1e-3), momentum=Float(0.9), fix_gamma=Bool(True), use_global_stats=Bool(False),
    output_mean_var=Bool(False), axis=Int(1),
    cudnn_off=Bool(False), min_calib_range=Float(None), max_calib_range=Float(None))
def batch_norm(data: Node, gamma: Node, beta: Node, moving_mean: Node, moving_var: Node, a: Attrs) -> Lowered:
    """Batch normalisation (Ioffe and Szegedy 2015) along ``axis``. In training the batch's mean and biased variance,
    and running = momentum * running + (1 - momentum) * batch; else the running statistics. output_mean_var also shows
    the mean and, as MXNet, 1 / sqrt(variance + eps).
    """
    (out, mean, _, inverse), updates = _batch_normalized(data, gamma, beta, moving_mean, moving_var, a)
    return Lowered((out, mean, inverse), updates)


def _batch_normalized(data: Node, gamma: Node, beta: Node, moving_mean: Node, moving_var: Node,
                      a: Attrs) -> tuple[tuple[Node, Node, Node, Node], dict[str, Node]]:
    """The result, the mean, the variance and 1 / sqrt(variance + eps); new running statistics."""
    axis = normal_axis(a.axis, data.ndim)
    n = data.shape[axis]
    for name, v in (("gamma", gamma), ("beta", beta), ("moving_mean", moving_mean), ("moving_var", moving_var)):
        if v.shape != (n,):
            raise ShapeError(f"{name} must be {(n,)} for axis {axis} of data {data.shape}, got {v.shape}")
    x = _wide(data)
    axes = tuple(i for i in range(data.ndim) if i != axis)
    updates = {}
    if a.train and not a.use_global_stats:
        mean = mean_of(x, axes)
        c = x - _along(mean, axis, x.ndim)
        var = mean_of(c * c, axes)
        updates = {name: ir.cast(ir.cast(old, new.dtype) * a.momentum + ir.detach(new) * (1 - a.momentum), old.dtype)
                   for name, old, new in (("moving_mean", moving_mean, mean), ("moving_var", moving_var, var))}
    else:
        mean, var = (ir.detach(ir.cast(v, x.dtype)) for v in (moving_mean, moving_var))
        c = x - _along(mean, axis, x.ndim)
    inverse = scale = ir.map("rsqrt", var + a.eps)
    if not a.fix_gamma:
        scale = scale * ir.cast(gamma, x.dtype)
    out = c * _along(scale, axis, x.ndim) + _along(ir.cast(beta, x.dtype), axis, x.ndim)
    mean, var, inverse = (ir.cast(v, gamma.dtype) for v in (mean, var, inverse))
    return (ir.cast(out, data.dtype), mean, var, inverse), updates


@op("_contrib_SyncBatchNorm", "data gamma beta moving_mean moving_var", mx=("contrib.SyncBatchNorm",),
    aux="moving_mean moving_var", starts=STATISTICS, needs=("train",),
    params=lambda shapes, a: bn_params(shapes, a.extended(axis=1)), outputs=lambda a: 3,
    visible=lambda a: 3 if a.output_mean_var else 1,
    eps=Float(1e-3), momentum=Float(0.9), fix_gamma=Bool(True), use_global_stats=Bool(False),
    output_mean_var=Bool(False), ndev=Int(1), key=Str(""))
def sync_batch_norm(data: Node, gamma: Node, beta: Node, moving_mean: Node, moving_var: Node, a: Attrs) -> Lowered:
    """BatchNorm along axis 1 whose statistics MXNet takes over ndev devices; here a batch is on one device.

    The third output is the variance, where BatchNorm's is the inverse of its root.
    """
    outputs, updates = _batch_normalized(data, gamma, beta, moving_mean, moving_var, a.extended(axis=1))
    return Lowered(outputs[:3], updates)


@op("_contrib_BatchNormWithReLU", "data gamma beta moving_mean moving_var", mx=("contrib.BatchNormWithReLU",),
    aux="moving_mean moving_var", starts=STATISTICS, needs=("train",),
    params=bn_params, outputs=lambda a: 3, visible=lambda a: 3 if a.output_mean_var else 1,
    eps=Float(1e-3), momentum=Float(0.9), fix_gamma=Bool(True), use_global_stats=Bool(False),
    output_mean_var=Bool(False), axis=Int(1),
    cudnn_off=Bool(False), min_calib_range=Float(None), max_calib_range=Float(None))
def batch_norm_with_relu(data: Node, gamma: Node, beta: Node, moving_mean: Node, moving_var: Node, a: Attrs) -> Lowered:
    """relu(BatchNorm(data))."""
    plain = batch_norm.fn(data, gamma, beta, moving_mean, moving_var, a)
    return Lowered((ir.map("relu", plain.outputs[0]), *plain.outputs[1:]), plain.updates)


def ln_params(shapes: list, a: Attrs) -> list:
    """gamma and beta along the axis."""
    if shapes[0] is None:
        return shapes
    n = shapes[0][normal_axis(a.axis, len(shapes[0]))]
    return [shapes[0], (n,), (n,)]


@op("LayerNorm", "data gamma beta", npx=("layer_norm",), json=("_npx_layer_norm",), params=ln_params,
    outputs=lambda a: 3,
    visible=lambda a: 3 if a.output_mean_var else 1, axis=Int(-1), eps=Float(1e-5), output_mean_var=Bool(False))
def layer_norm(data: Node, gamma: Node, beta: Node, a: Attrs) -> tuple[Node, Node, Node]:
    """Layer normalisation (Ba et al. 2016) along an axis; also the mean and standard deviation."""
    axis = normal_axis(a.axis, data.ndim)
    if gamma.shape != (data.shape[axis],) or beta.shape != gamma.shape:
        raise ShapeError(f"gamma and beta must be {(data.shape[axis],)}, got {gamma.shape} and {beta.shape}")
    x = _wide(data)
    mean, c = _moments(x, (axis,))
    var = mean_of(c * c, (axis,), True)
    scaled = c * ir.map("rsqrt", var + a.eps)
    out = scaled * _along(ir.cast(gamma, x.dtype), axis, x.ndim) + _along(ir.cast(beta, x.dtype), axis, x.ndim)
    return ir.cast(out, data.dtype), ir.cast(mean, data.dtype), ir.cast(ir.map("sqrt", var + a.eps), data.dtype)


def rms_params(shapes: list, a: Attrs) -> list:
    """gamma along the axis."""
    return shapes if shapes[0] is None else [shapes[0], (shapes[0][normal_axis(a.axis, len(shapes[0]))],)]


@op("RMSNorm", "data gamma", npx=("rms_norm",), params=rms_params, axis=Int(-1), eps=Float(1e-6))
def rms_norm(data: Node, gamma: Node, a: Attrs) -> Node:
    """data / sqrt(mean(data²) + eps) * gamma along an axis (Zhang and Sennrich 2019); gamma has the axis' length."""
    axis = normal_axis(a.axis, data.ndim)
    if gamma.shape != (data.shape[axis],):
        raise ShapeError(f"gamma must be {(data.shape[axis],)}, got {gamma.shape}")
    x = _wide(data)
    scaled = x * ir.map("rsqrt", mean_of(x * x, (axis,), True) + a.eps)
    return ir.cast(scaled * _along(ir.cast(gamma, x.dtype), axis, x.ndim), data.dtype)


def in_params(shapes: list, a: Attrs) -> list:
    """gamma and beta per channel."""
    return [shapes[0], (shapes[0][1],), (shapes[0][1],)] if shapes[0] is not None else shapes


@op("InstanceNorm", "data gamma beta", npx=("instance_norm",), params=in_params, eps=Float(1e-3))
def instance_norm(data: Node, gamma: Node, beta: Node, a: Attrs) -> Node:
    """Normalisation of each channel of each instance (Ulyanov et al. 2016)."""
    x = _wide(data)
    axes = tuple(range(2, x.ndim))
    _, c = _moments(x, axes)
    out = c * ir.map("rsqrt", mean_of(c * c, axes,
                                      True) + a.eps) * _along(ir.cast(gamma, x.dtype), 1,
                                                              x.ndim) + _along(ir.cast(beta, x.dtype), 1, x.ndim)
    return ir.cast(out, data.dtype)


@op("GroupNorm", "data gamma beta", npx=("group_norm",),
    params=lambda shapes, a: [shapes[0], (a.num_groups,), (a.num_groups,)],
    outputs=lambda a: 3, visible=lambda a: 3 if a.output_mean_var else 1, num_groups=Int(1), eps=Float(1e-5),
    output_mean_var=Bool(False))
def group_norm(data: Node, gamma: Node, beta: Node, a: Attrs) -> tuple[Node, Node, Node]:
    """Normalisation of groups of channels (Wu and He 2018). gamma and beta: one value a group (as MXNet 1.9.1) or a
    channel."""
    n, channels = data.shape[:2]
    if channels % a.num_groups:
        raise ShapeError(f"{channels} channels cannot be split into num_groups={a.num_groups}")
    x = ir.reshape(_wide(data), (n, a.num_groups, channels // a.num_groups) + data.shape[2:])
    axes = tuple(range(2, x.ndim))
    mean, c = _moments(x, axes)
    var = mean_of(c * c, axes, True)
    out = c * ir.map("rsqrt", var + a.eps)
    if gamma.shape == (a.num_groups,):
        out = ir.reshape(out * _along(ir.cast(gamma, out.dtype), 1,
                                      x.ndim) + _along(ir.cast(beta, out.dtype), 1, x.ndim), data.shape)
    else:
        out = ir.reshape(out, data.shape)
        out = out * _along(ir.cast(gamma, out.dtype), 1, data.ndim) + _along(ir.cast(beta, out.dtype), 1, data.ndim)
    return ir.cast(out, data.dtype), ir.reshape(mean,
                                                (n, a.num_groups)), ir.reshape(ir.map("sqrt", var + a.eps),
            (n, a.num_groups))


@op("L2Normalization", "data", eps=Float(1e-10), mode=Enum("instance", "instance", "channel", "spatial"))
def l2_normalization(data: Node, a: Attrs) -> Node:
    """data / sqrt(sum of squares + eps) over the instance, the channel or the spatial axes; half types in float32."""
    axes = {"instance": tuple(range(1, data.ndim)), "channel": (1,), "spatial": tuple(range(2, data.ndim))}[a.mode]
    x = wide_half(data)
    out = x * ir.map("rsqrt", ir.reduce("sum", x * x, axes, True) + a.eps)
    return as_half(out, data)


@op("LRN", "data", alpha=Float(1e-4), beta=Float(0.75), knorm=Float(2.0), nsize=Int())
def lrn(data: Node, a: Attrs) -> Node:
    """Local response normalisation over ``nsize`` neighbouring channels (Krizhevsky et al. 2012): (nsize - 1) / 2 on
    either side, rounded down."""
    if a.nsize < 1 or data.ndim < 2:
        raise ShapeError(f"LRN takes nsize of 1 or more and data (N, channels, ...), got nsize={a.nsize} and "
                         f"{data.shape}")
    half = (a.nsize - 1) // 2
    beside = (0, half) + (0,) * (data.ndim - 2)
    wide = ir.pad(data * data, beside, beside)
    total = ir.reduce("sum", ir.window(wide, (1,), (2 * half + 1,), (1,), (1,)), (data.ndim,))
    return data * ir.map("pow", total * (a.alpha / a.nsize) + a.knorm, -a.beta)


@op("Dropout", "data", npx=("dropout",), json=("_npx_dropout",), needs=("train", "key"),
    draws=lambda a, train: a.p > 0 and (train or a.mode == "always"), p=Float(0.5),
    mode=Enum("training", "training", "always"), axes=Shape(()),
    cudnn_off=Bool(False))
def dropout(data: Node, a: Attrs) -> Node:
    """In training each element is 0 with probability p, else divided by 1 - p; ``axes`` share one draw."""
    if not 0 <= a.p < 1 and not (a.p == 1):
        raise ShapeError(f"dropout probability p={a.p} must be in [0, 1]")
    if a.p == 0 or not (a.train or a.mode == "always"):
        return data
    shape = tuple(1 if i in a.axes else d for i, d in enumerate(data.shape))
    keep = 1 - a.p
    mask = ir.map("lt", uniform01(a.key, shape, 0), keep)
    return ir.map("where", ir.expand(mask, data.shape), data * (1 / keep if keep else 0.0), 0)


