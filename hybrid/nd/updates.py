"""``nd.contrib`` functions around operators that take many arrays in one list: AdamW and LAMB of several weights;
Zipf-like samples."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from ..buffers.array import NDArray, array
from ..base.device import Context
from ..autograd.dispatch import invoke
from ..base.errors import AttributeValueError
from ..ops.registry import OPS
from ..base.scope import SCOPE


def _together(name: str, groups: Sequence[Sequence[Any]]) -> list[Any]:
    """The arrays of each weight one after another."""
    if len({len(g) for g in groups}) != 1:
        raise AttributeValueError(f"{name}: lists of equally many arrays are needed, got "
                                  f"{', '.join(str(len(g)) for g in groups)}")
    return [x for row in zip(*groups) for x in row]


def _scale(value: Any, like: NDArray) -> Any:
    return value.as_in_context(like.context) if isinstance(value, NDArray) else array([value], like.context, np.float32)


def _adamw(name: str, groups: Sequence[Sequence[Any]], rescale_grad: Any, out: Any, size: int,
           attrs: dict[str, Any]) -> Any:
    arrays = [*_together(name, groups), _scale(rescale_grad, groups[0][0])]
    return invoke(OPS[f"_{name}"], arrays, {**attrs, "num_weights": size or len(groups[0])}, out)


def multi_adamw_update(weights: Any, grads: Any, mean: Any, var: Any, rescale_grad: Any, lrs: Any, wds: Any, etas: Any,
                       out: Any = None, name: str | None = None,
                       size: int = 0, **kwargs: Any) -> Any:
    """AdamW of several weights in one call; lists of arrays, of equal lengths. Means and variances are updated in
    place, new weights go to ``out``."""
    return _adamw("multi_adamw_update", (weights, grads, mean, var), rescale_grad, out, size,
                  {"lrs": lrs, "wds": wds, "etas": etas, **kwargs})


def multi_mp_adamw_update(weights: Any, grads: Any, mean: Any, var: Any, weights32: Any, rescale_grad: Any, lrs: Any,
                          wds: Any, etas: Any, out: Any = None,
                          name: str | None = None, size: int = 0, **kwargs: Any) -> Any:
    """multi_adamw_update through float32 copies of the weights."""
    return _adamw("multi_mp_adamw_update", (weights, grads, mean, var, weights32), rescale_grad, out, size,
                  {"lrs": lrs, "wds": wds, "etas": etas, **kwargs})


def _lamb(name: str, groups: Sequence[Sequence[Any]], out: Any, count: int, attrs: dict[str, Any]) -> Any:
    return invoke(OPS[f"_{name}"], _together(name, groups), {**attrs, "num_tensors": count or len(groups[0])}, out)


def multi_lamb_update(weights: Any, grads: Any, mean: Any, var: Any, step_count: Any, lrs: Any, wds: Any,
                      out: Any = None, num_tensors: int = 0, **kwargs: Any) -> Any:
    """LAMB of several weights in one call; step_count, lrs and wds have an entry for each."""
    return _lamb("multi_lamb_update", (weights, grads, mean, var), out, num_tensors,
                 {"step_count": step_count, "learning_rates": lrs, "wds": wds, **kwargs})


def multi_mp_lamb_update(weights: Any, grads: Any, mean: Any, var: Any, weights32: Any, step_count: Any, lrs: Any,
                         wds: Any, out: Any = None, num_tensors: int = 0,
                         **kwargs: Any) -> Any:
    """multi_lamb_update through float32 copies of the weights."""
    return _lamb("multi_mp_lamb_update", (weights, grads, mean, var, weights32), out, num_tensors,
                 {"step_count": step_count, "learning_rates": lrs, "wds": wds, **kwargs})


def nag_mom_update(weight: Any = None, grad: Any = None, mom: Any = None, *args: Any, out: Any = None,
                   **kwargs: Any) -> Any:
    """The operator of that name. Written over the weight (``out=weight``), the decay in the momentum that is kept is of
    the new weight, as MXNet has it."""
    attrs = {**dict(zip(OPS["nag_mom_update"].attrs, args)), **kwargs}
    name, decay = attrs.pop("name", None), float(attrs.get("wd", 0)) * float(attrs.get("lr", 0))
    before = weight.copy() if out is weight and decay and isinstance(weight, NDArray) else None
    found = invoke(OPS["nag_mom_update"], [weight, grad, mom], attrs, out, name, hint="nag_mom_update")
    if before is not None:
        mom += (before - weight) * decay
    return found


def rand_zipfian(true_classes: Any, num_sampled: int, range_max: int,
                 ctx: Context | None = None) -> tuple[Any, Any, Any]:
    """Classes drawn with P(class) = (log(class + 2) - log(class + 1)) / log(range_max + 1), as for sampled softmax over
    words in order of frequency.

    Returns the classes (num_sampled,) int64, and how often the true classes and they are to be expected.
    """
    log_range = math.log(range_max + 1)
    symbolic = hasattr(true_classes, "entries") or bool(SCOPE.traces)
    attrs = {"low": 0.0, "high": log_range, "shape": (num_sampled,), "dtype": "float64",
             **({} if ctx is None or symbolic else {"ctx": str(ctx)})}
    old, SCOPE.symbolic = SCOPE.symbolic, symbolic
    try:
        rand = invoke(OPS["_random_uniform"], [], attrs, hint="_random_uniform")
    finally:
        SCOPE.symbolic = old
    drawn = (rand.exp() - 1).astype("int64") % range_max

    def expected(classes: Any) -> Any:
        c = classes.astype("float64")
        return ((c + 2.0) / (c + 1.0)).log() / log_range * num_sampled
    return drawn, expected(true_classes), expected(drawn)
