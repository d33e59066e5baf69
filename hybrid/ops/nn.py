"""Dense layers, activations and softmax."""
from __future__ import annotations

import math
from typing import Any, Callable

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import REQUIRED, Bool, DType, Enum, Float, Int, op
from .shape import normal_axis


def fc_params(shapes: list, a: Attrs) -> list:
    """Weight and bias from the data's shape."""
    data = shapes[0]
    if data is not None and 0 not in data[1:]:
        width = math.prod(data[1:]) if a.flatten else data[-1]
        shapes[1] = (a.num_hidden, width)
    if len(shapes) > 2 and not a.no_bias:
        shapes[2] = (a.num_hidden,)
    return shapes


def _fc_eager(xp: Any, arrays: list[Any], a: Attrs) -> list[Any]:
    x, w = arrays[:2]
    flat = x.reshape(x.shape[0], -1) if a.flatten else x
    y = xp.matmul(flat, w.T)
    if len(arrays) > 2 and arrays[2] is not None and not a.no_bias:
        y += arrays[2]
    return [y]


@op("FullyConnected", "data weight bias?", npx=("fully_connected",), json=("_npx_fully_connected",), params=fc_params,
    takes={"bias": lambda a: not a.no_bias},
    num_hidden=Int(), no_bias=Bool(False), flatten=Bool(True))
def fully_connected(data: Node, weight: Node, bias: Node | None, a: Attrs) -> Node:
    """data weightᵀ + bias. data (N, …), joined to (N, K) with flatten, else (…, K); weight (num_hidden, K); bias
    (num_hidden,) or, as linear models over sparse data have it, (num_hidden, 1)."""
    x = ir.reshape(data, (data.shape[0], math.prod(data.shape[1:]))) if a.flatten else data
    k = x.shape[-1] if x.ndim else 0
    if weight.shape != (a.num_hidden, k):
        raise ShapeError(f"weight must be {(a.num_hidden, k)} for data {data.shape} and num_hidden={a.num_hidden}, "
                         f"got {weight.shape}")
    y = ir.dot(x, weight, ((x.ndim - 1,), (1,)))
    if bias is None or a.no_bias:
        return y
    if bias.shape == (a.num_hidden, 1):
        bias = ir.reshape(bias, (a.num_hidden,))
    if bias.shape != (a.num_hidden,):
        raise ShapeError(f"bias must be {(a.num_hidden,)}, got {bias.shape}")
    return y + bias


def softplus(x: Node) -> Node:
    """log(1 + exp(x)) without overflow."""
    return ir.map("softplus", x)


ACTIVATIONS: dict[str, Callable[[Node], Node]] = {
    "relu": lambda x: ir.map("relu", x), "sigmoid": lambda x: ir.map("sigmoid", x), "tanh": lambda x: ir.map("tanh", x),
    "softrelu": softplus, "softsign": lambda x: x / (ir.map("abs", x) + 1), "log_sigmoid": lambda x: -softplus(-x),
    "mish": lambda x: x * ir.map("tanh", softplus(x)),
}
BEYOND = ("log_sigmoid", "mish")                          # MXNet 1.9.1 has them not


@op("Activation", "data", npx=("activation",), json=("_npx_activation",),
    act_type=Enum(REQUIRED, *(k for k in ACTIVATIONS if k not in BEYOND), beyond=BEYOND))
def activation(data: Node, a: Attrs) -> Node:
    """An activation function: relu, sigmoid, tanh, softrelu, softsign, log_sigmoid or mish."""
    return ACTIVATIONS[a.act_type](data)


for _name, _formula in (("softsign", "x / (1 + |x|)"), ("log_sigmoid", "log(1 / (1 + exp(-x))) = -softplus(-x)"),
                        ("mish", "x * tanh(log(1 + exp(x))) (Misra 2019)")):
    op(_name, "data", npx=(_name,) if _name != "softsign" else (), doc=f"{_formula}, elementwise.")(
        (lambda f: lambda data, a: f(data))(ACTIVATIONS[_name]))
op("softrelu", "data", doc="log(1 + exp(x)), elementwise, without overflow: the softplus function.")(
    lambda data, a: softplus(data))


@op("hard_sigmoid", "data", alpha=Float(0.2), beta=Float(0.5))
def hard_sigmoid(data: Node, a: Attrs) -> Node:
    """max(0, min(1, alpha x + beta)); at the corners the gradient is 0."""
    return ir.map("minimum", 1, ir.map("maximum", 0, data * a.alpha + a.beta))


def gelu(x: Node) -> Node:
    """x Phi(x) by the error function (Hendrycks and Gimpel 2016); half types in float32, in which 1 + erf keeps its
    digits where it is small."""
    w = wide(x)
    out = w * 0.5 * (ir.map("erf", w * (1 / math.sqrt(2))) + 1)
    return ir.cast(out, x.dtype) if dt.is_float(x.dtype) else out


SELU_ALPHA, SELU_LAMBDA = 1.6732632423543772, 1.0507009873554805


def _below(x: Node, positive: Node) -> Node:
    """exp(x) - 1 below 0; elsewhere 0, so that a large x gives no infinity, whose gradient would be inf * 0."""
    return ir.map("expm1", ir.map("where", positive, 0, x))


def leaky_params(shapes: list, a: Attrs) -> list:
    """PReLU's gamma has one entry a channel."""
    if a.act_type == "prelu" and len(shapes) > 1 and shapes[0] is not None and (shapes[1] is None or 0 in shapes[1]):
        shapes[1] = (shapes[0][1] if len(shapes[0]) > 1 else 1,)
    return shapes


def _slopes(gamma: Node, x: Node) -> Node:
    """Slopes of x: a gamma of one axis is one for each channel, one of two for each image and channel."""
    if gamma.ndim not in (1, 2) or x.ndim <= gamma.ndim and gamma.ndim == 2 or x.ndim == 1:
        return gamma
    if gamma.shape[-1] not in (1, x.shape[1]) or gamma.ndim == 2 and gamma.shape[0] not in (1, x.shape[0]):
        raise ShapeError(f"prelu needs one gamma, one for each image and channel, or one for each of the {x.shape[1]} "
                         f"channels of data {x.shape}, got {gamma.shape}")
    return ir.reshape(gamma, (1,) * (2 - gamma.ndim) + gamma.shape + (1,) * (x.ndim - 2))


@op("LeakyReLU", "data gamma?", npx=("leaky_relu",), json=("_npx_leaky_relu",), params=leaky_params,
    takes={"gamma": lambda a: a.act_type == "prelu"}, needs=("train", "key"),
    starts={"gamma": '["Constant", {"value": 0.25}]'},
    draws=lambda a, train: train and a.act_type == "rrelu",
    act_type=Enum("leaky", "leaky", "prelu", "elu", "selu", "gelu", "rrelu"), slope=Float(0.25),
    lower_bound=Float(0.125), upper_bound=Float(0.334))
def leaky_relu(data: Node, gamma: Node | None, a: Attrs) -> Node:
    """Leaky families: leaky, prelu (gamma per channel), elu, selu, gelu, rrelu (random slope in training)."""
    x = data
    positive = ir.map("gt", x, 0)
    if a.act_type == "gelu":
        return gelu(x)
    if a.act_type == "elu":
        return ir.map("where", positive, x, _below(x, positive) * a.slope)
    if a.act_type == "selu":
        return ir.map("where", positive, x, _below(x, positive) * SELU_ALPHA) * SELU_LAMBDA
    if a.act_type == "prelu":
        if gamma is None:
            raise ShapeError("prelu needs the input gamma")
        return ir.map("where", positive, x, x * _slopes(gamma, x))
    if a.act_type == "rrelu":
        slope = (a.lower_bound + a.upper_bound) / 2
        if a.train:
            u = uniform01(a.key, x.shape, 0)
            slope = ir.cast(u * (a.upper_bound - a.lower_bound) + a.lower_bound, x.dtype)
        return ir.map("where", positive, x, x * slope)
    return ir.map("where", positive, x, x * a.slope)


def uniform01(key: Node, shape: tuple[int, ...], stream: int) -> Node:
    """float32 in [0, 1): the upper 24 of 32 random bits."""
    return ir.cast(ir.map("shr", ir.random_bits(key, shape, stream), 8), dt.float32) * 2.0**-24


# ---- softmax
def wide(x: Node) -> Node:
    """float32 and float64 as they are, other values in float32."""
    return ir.cast(x, dt.float32) if dt.is_half(x.dtype) or not dt.is_float(x.dtype) else x


def softmax_of(x: Node, axis: int, log: bool = False) -> Node:
    """softmax or its logarithm along an axis, shifted by the maximum; half types in float32."""
    w = wide(x)
    shifted = w - ir.detach(ir.reduce("max", w, (axis,), True))         # the result does not depend on the shift
    total = ir.reduce("sum", ir.map("exp", shifted), (axis,), True)
    out = shifted - ir.map("log", total) if log else ir.map("exp", shifted) / total
    return ir.cast(out, x.dtype) if dt.is_float(x.dtype) else out


def _masked(x: Node, length: Node, axis: int) -> tuple[Node, Node]:
    steps = ir.reshape(ir.iota(x.shape[axis]), tuple(d if i == axis else 1 for i, d in enumerate(x.shape)))
    shape = x.shape[:axis] + (1,) + x.shape[axis + 1:]
    inside = ir.map("lt", ir.expand(steps, x.shape), ir.cast(ir.expand(ir.reshape(length, shape), x.shape), dt.int64))
    return ir.map("where", inside, x, -1e30 if x.dtype.itemsize > 2 else -6e4), inside


def _softmax_op(name: str, log: bool, sign: int) -> None:
    def lower(data: Node, length: Node | None, a: Attrs) -> Node:
        if not data.ndim:                                                 # a number is an axis of one, as in NumPy
            return ir.reshape(lower(ir.reshape(data, (1,)), length, a), ())
        axis = normal_axis(a.axis, data.ndim)
        x = -data if sign < 0 else data
        if a.temperature not in (None, 1.0):
            x = x / a.temperature
        inside = None
        if a.use_length and length is not None:
            x, inside = _masked(x, length, axis)
        out = softmax_of(x, axis, log)
        if inside is not None:
            out = ir.map("where", inside, out, 0)
        return ir.cast(out, dt.as_dtype(a.dtype)) if a.dtype else out
    lower.__doc__ = f"{name} along an axis, with an optional temperature and valid lengths."
    op(name, "data length?", npx=(name,), takes={"length": lambda a: a.use_length}, json=(f"_npx_{name}",),
       axis=Int(-1), temperature=Float(None), dtype=DType(None), use_length=Bool(False))(lower)


_softmax_op("softmax", False, 1)
_softmax_op("log_softmax", True, 1)
_softmax_op("softmin", False, -1)


@op("SoftmaxActivation", "data", mode=Enum("instance", "instance", "channel"))
def softmax_activation(data: Node, a: Attrs) -> Node:
    """softmax over axis 1 (``channel``), or over the last axis (``instance``), as MXNet's; deprecated there for
    softmax."""
    return softmax_of(data, 1 if a.mode == "channel" else data.ndim - 1)
