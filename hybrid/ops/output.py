"""Output layers: operators whose gradient is that of a loss, whatever comes from above, as MXNet defines them.

Each is a value joined to a gradient of its own (``ir.with_grad``), so eager calls, compiled programs and second
derivatives all use the one definition here.
"""
from __future__ import annotations

import math
from typing import Any, Callable

from ..base import dtype as dt
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .nn import softmax_of
from .registry import Bool, Enum, Float, op


# ---- SoftmaxOutput
@ir.register_grad("SoftmaxOutput", loss=True)
def _softmax_output_grad(g: Node, attrs: Any, value: Node, data: Node, label: Node) -> tuple[Node, None]:
    """(softmax - target) * grad_scale over (rows, classes, positions); ``out_grad`` multiplies by what comes from
    above."""
    scale, ignore, use_ignore, normalization, multi_output, smooth, out_grad = attrs
    if label.shape == value.shape:                              # the labels are probabilities
        out = (value - ir.cast(label, value.dtype)) * scale
        return (out * g if out_grad else out), None
    rows, _, positions = value.shape
    index = ir.cast(label, dt.int64)
    target = _target(index, value, 0.0 if multi_output else smooth)
    out = value - target
    keep = ir.map("ne", index, int(ignore))
    if use_ignore:
        out = ir.map("where", ir.expand(keep, value.shape), out, 0)
    if normalization == "valid":
        count = ir.reduce("sum", ir.cast(keep, value.dtype), (0, 1, 2), True)
        out = out * scale / ir.map("maximum", count, 1)
    else:
        # with multi_output MXNet divides by the number of positions in every mode
        out = out * (scale / max((rows if normalization == "batch" else 1) * positions, 1))
    return (out * g if out_grad else out), None


def _target(index: Node, value: Node, smooth: float) -> Node:
    """1 - smooth at the label, the rest spread over the other classes."""
    classes = value.shape[1]
    hit = ir.map("eq", ir.reshape(ir.iota(classes), (1, classes, 1)), index)
    return ir.map("where", hit, ir.const(1 - smooth, value.dtype), ir.const(smooth / max(classes - 1, 1), value.dtype))


def softmax_output_params(shapes: list, a: Attrs) -> list:
    """The label's shape from the data's."""
    if shapes[0] is not None and (shapes[1] is None or 0 in shapes[1]):
        data = shapes[0]
        shapes[1] = (data[0],
                     math.prod(data[2:])) if a.multi_output and len(data) > 2 else data[:1] if a.multi_output else data[:-1]  # noqa: E501
    return shapes


@op("SoftmaxOutput", "data label", mx=("Softmax",), json=("Softmax",), params=softmax_output_params,
    grad_scale=Float(1.0), ignore_label=Float(-1.0),
    multi_output=Bool(False), use_ignore=Bool(False), preserve_shape=Bool(False),
    normalization=Enum("null", "null", "batch", "valid"),
    out_grad=Bool(False), smooth_alpha=Float(0.0))
def softmax_output(data: Node, label: Node, a: Attrs) -> Node:
    """softmax whose gradient is that of the cross entropy with ``label``.

    data (N, …): softmax over all but the first axis; over axis 1 with ``multi_output``; over the last with
    ``preserve_shape``, and of one or four axes with labels that are probabilities. label: class numbers, one for each
    softmax, or probabilities in data's shape. The gradient softmax - target is multiplied by grad_scale and divided, by
    ``normalization``, by nothing (``null``), the number of labels (``batch``; with multi_output of rows) or of those
    that are not ignore_label (``valid``). ``use_ignore`` zeroes the gradient where the label is ignore_label;
    smooth_alpha moves so much of the target to the other classes (not with multi_output). What comes from above counts
    only with ``out_grad`` (where MXNet 1.9.1 multiplies by its own output instead).
    """
    n = data.shape[0] if data.ndim else 0
    probabilities = label.shape == data.shape
    if data.ndim < 2 and not (probabilities and data.ndim):
        raise ShapeError(f"data needs a batch axis and classes, got {data.shape}")
    if a.multi_output and data.ndim > 1:
        cells = (n, data.shape[1], math.prod(data.shape[2:]))
    elif a.preserve_shape or probabilities and data.ndim in (1, 4):
        cells = (math.prod(data.shape[:-1]), data.shape[-1], 1)
    else:
        cells = (n, math.prod(data.shape[1:]), 1)
    x = ir.reshape(data, cells)
    if probabilities:
        y = ir.reshape(label, cells)
    elif label.size == cells[0] * cells[2]:
        y = ir.reshape(label, (cells[0], 1, cells[2]))
    else:
        way_out = ("" if a.multi_output or a.preserve_shape
                   else "; for one label a position use multi_output=True or preserve_shape=True")
        raise ShapeError(f"label must have {cells[0] * cells[2]} class numbers or the shape {data.shape} of "
                         f"probabilities, got {label.shape}{way_out}")
    attrs = (a.grad_scale, a.ignore_label, a.use_ignore, a.normalization, a.multi_output, a.smooth_alpha, a.out_grad)
    return ir.reshape(ir.with_grad(softmax_of(x, 1), (x, y), "SoftmaxOutput", attrs), data.shape)


# ---- regression
def _regression(name: str, value: Callable[[Node], Node], difference: Callable[[Node], Node], text: str) -> None:
    @ir.register_grad(name, loss=True)
    def grad(g: Node, attrs: Any, out: Node, data: Node, label: Node) -> tuple[Node, None]:
        each = math.prod(label.shape[1:])
        return ir.cast(difference(out - label) * (attrs[0] / max(each, 1)), data.dtype), None

    def lower(data: Node, label: Node, a: Attrs) -> Node:
        y = label
        if label.shape != data.shape:
            if label.size != data.size or label.shape[:1] != data.shape[:1]:
                raise ShapeError(f"label must have the shape of data {data.shape}, got {label.shape}")
            y = ir.reshape(label, data.shape)
        return ir.with_grad(value(data), (data, y), name, (a.grad_scale,))
    lower.__doc__ = text
    op(name, "data label", params=_like_data, grad_scale=Float(1.0))(lower)


def _like_data(shapes: list, a: Attrs) -> list:
    """The label's shape is the data's."""
    if shapes[0] is not None and (shapes[1] is None or 0 in shapes[1]):
        shapes[1] = shapes[0]
    return shapes


_TAIL = (" times grad_scale, divided by the labels of one row; what comes from above does not count. data and label "
         "(N, …).")
_regression("LinearRegressionOutput", lambda x: x, lambda d: d,
            "The data, with the gradient of the squared loss: data - label" + _TAIL)
_regression("LogisticRegressionOutput", lambda x: ir.map("sigmoid", x), lambda d: d,
            "sigmoid of the data, with the gradient of the logistic loss: sigmoid(data) - label" + _TAIL)
_regression("MAERegressionOutput", lambda x: x, lambda d: ir.map("where", ir.map("gt", d, 0), ir.const(1, d.dtype), -1),
            "The data, with the gradient of the absolute loss: 1 where data > label, else -1 (as MXNet, also where "
            "they are equal)" + _TAIL)


# ---- MakeLoss
@ir.register_grad("MakeLoss", loss=True)
def _make_loss_grad(g: Node, attrs: Any, value: Node, data: Node) -> tuple[Node]:
    scale, threshold, normalization = attrs
    if normalization == "valid":
        valid = ir.reduce("sum", ir.cast(ir.map("gt", value, threshold), value.dtype), tuple(range(value.ndim)), True)
        return (ir.expand(scale / ir.map("maximum", valid, 1), data.shape),)
    return (ir.full(scale / max(data.shape[0], 1) if normalization == "batch" else scale, data.shape, data.dtype),)


@op("MakeLoss", "data", grad_scale=Float(1.0), valid_thresh=Float(0.0),
    normalization=Enum("null", "null", "batch", "valid"))
def make_loss_layer(data: Node, a: Attrs) -> Node:
    """The input as a loss: its gradient is grad_scale, divided by the length of the first axis (``batch``) or by how
    many elements are above valid_thresh (``valid``). What comes from above does not count."""
    return ir.with_grad(data, (data,), "MakeLoss", (a.grad_scale, a.valid_thresh, a.normalization))


@op("make_loss", "data")
def make_loss(data: Node, a: Attrs) -> Node:
    """The input as a loss: its gradient is one, whatever comes from above."""
    return ir.with_grad(data, (data,), "MakeLoss", (1.0, 0.0, "null"))


# ---- SVMOutput
@ir.register_grad("SVMOutput", loss=True)
def _svm_grad(g: Node, attrs: Any, value: Node, data: Node, label: Node) -> tuple[Node, None]:
    """Hinge loss of one class against the rest (Tang, Deep Learning using Linear SVMs, 2013)."""
    margin, scale, linear = attrs
    hit = ir.map("eq", ir.reshape(ir.iota(data.shape[1]), (1, data.shape[1])), ir.cast(label, dt.int64))
    signed = ir.map("where", hit, -data, data)                  # beyond -margin: a loss
    slack = signed + margin
    size = ir.cast(ir.map("gt", slack, 0), data.dtype) if linear else ir.map("relu", slack) * 2
    return ir.map("where", hit, -size, size) * scale, None


@op("SVMOutput", "data label", params=lambda shapes, a: [shapes[0],
                                                         shapes[0][:-1] if shapes[0] is not None and shapes[1] is None
                                                         else shapes[1]],
    margin=Float(1.0), regularization_coefficient=Float(1.0), use_linear=Bool(False))
def svm_output(data: Node, label: Node, a: Attrs) -> Node:
    """The data (N, classes), with the gradient of the hinge loss with ``label`` (N,): of its square, or itself with
    use_linear, times regularization_coefficient. What comes from above does not count."""
    if data.ndim != 2 or label.size != data.shape[0]:
        raise ShapeError(f"data must be (N, classes) and label (N,), got {data.shape} and {label.shape}")
    y = ir.reshape(label, (data.shape[0], 1))
    return ir.with_grad(data, (data, y), "SVMOutput", (a.margin, a.regularization_coefficient, a.use_linear))


# ---- losses whose gradient is the derivative
@op("softmax_cross_entropy", "data label")
def softmax_cross_entropy(data: Node, label: Node, a: Attrs) -> Node:
    """Sum over rows of -log softmax(data)[label], shape (1,). data (N, classes), label (N,) class numbers."""
    if data.ndim != 2 or label.shape != data.shape[:1]:
        raise ShapeError(f"data must be (N, classes) and label (N,), got {data.shape} and {label.shape}")
    hit = ir.map("eq", ir.iota(data.shape[1]), ir.reshape(ir.cast(label, dt.int64), (label.size, 1)))
    return ir.reshape(-ir.reduce("sum", ir.map("where", hit, softmax_of(data, 1, log=True), 0), (0, 1)), (1,))
