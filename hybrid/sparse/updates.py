"""Updates of weights by row_sparse gradients that leave rows without a gradient alone (``lazy_update``)."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..autograd import dispatch
from ..buffers.array import wrap
from ..base.device import array_module
from ..base.errors import AttributeValueError, ShapeError
from ..optimizer.rows import put, take
from ..ops.registry import OpDef
from .storage import RowSparseNDArray


def is_lazy(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Whether an operator updates the gradient's rows alone: MXNet does where weight and states have one storage
    type."""
    return ("lazy_update" in d.attrs and len(inputs) > 1 and isinstance(inputs[1], RowSparseNDArray)
            and bool(d.parse(attrs).lazy_update)
            and len({x.stype for x in (inputs[0], *inputs[2:])}) == 1)


def update_rows(d: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any], out: Any) -> Any:
    """The operator on the gradient's rows of weight and states. States change in place; the new weight goes to out."""
    weight, grad, *states = inputs
    if any(x.shape != weight.shape for x in inputs):
        raise ShapeError(f"{d.name}: gradient and states must have the weight's shape {weight.shape}, got "
                         f"{', '.join(str(x.shape) for x in inputs[1:])}")
    rows, = grad._aux
    xp = array_module(weight._ctx)
    parts = [wrap(take(x, rows, xp), x._ctx) for x in (weight, *states)]
    new = dispatch.invoke(d, [parts[0], grad.data, *parts[1:]], attrs)
    for x, part in zip(states, parts[1:]):
        put(x, rows, part._data, xp)
    target = weight.copy() if out is None else out
    if target is not weight and out is not None:
        target[:] = weight
    put(target, rows, new._data, xp)
    return target


def adagrad_update(weight: Any, grad: Any, history: Any, lr: float, epsilon: float = 1e-7, wd: float = 0.0,
                   rescale_grad: float = 1.0,
                   clip_gradient: float = -1.0, out: Any = None, **_: Any) -> Any:
    """AdaGrad of a dense weight by a row_sparse gradient: ``history += g²``; ``w -= lr g / sqrt(history + epsilon)``,
    in the gradient's rows.

    history changes in place; the new weight goes to out. wd must be 0, as in MXNet. Duchi and others, "Adaptive
    subgradient methods", JMLR 2011.
    """
    if not isinstance(grad, RowSparseNDArray) or wd != 0 or not weight.shape == grad.shape == history.shape:
        raise AttributeValueError(f"adagrad_update takes a row_sparse gradient, arrays of one shape and wd=0; got a "
                                  f"{grad.stype} gradient, shapes {weight.shape}, "
                                  f"{grad.shape}, {history.shape} and wd={wd}")
    rows, = grad._aux
    g: Any = grad.data
    g = g * rescale_grad
    if clip_gradient >= 0:
        g = g.clip(-clip_gradient, clip_gradient)
    xp = array_module(weight._ctx)
    total = wrap(take(history, rows, xp), weight._ctx) + g * g
    new = wrap(take(weight, rows, xp), weight._ctx) - lr * g / (total + epsilon).sqrt()
    put(history, rows, total._data, xp)
    target = weight.copy() if out is None else out
    if out is not None and out is not weight:
        out[:] = weight
    put(target, rows, new._data, xp)
    return target
