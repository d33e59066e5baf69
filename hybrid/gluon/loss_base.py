"""What losses have in common: weights, shapes, and the mean of each sample."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import nd
from ..base import numeric_types, pending
from ..base.errors import AttributeValueError, DTypeError, ShapeError, warn_user
from ..base.scope import SCOPE
from ..graph.symbol import known
from .hybrid_block import HybridBlock

if TYPE_CHECKING:
    from typing_extensions import Unpack
    from .options import BlockOptions


def _shapes_known(*values: Any) -> bool:
    """Whether all shapes are known: of arrays and traced values always, of a Symbol built from ``sym.var`` seldom."""
    if other := [type(v).__name__ for v in values if not hasattr(v, "shape")]:
        raise DTypeError(f"a loss takes arrays (prediction, target, sample_weight), got {other[0]}: make one with "
                         f"nd.array(...)")
    return all(known(v.shape) for v in values)


def _apply_weighting(F: Any, loss: Any, weight: Any = None, sample_weight: Any = None) -> Any:  # noqa: N803
    """loss * sample_weight * weight; each may be None.

    Both broadcast, as in MXNet. A sample_weight of fewer axes than the loss that makes it larger is warned of: (batch,)
    against (batch, 1) gives (batch, batch), each sample weighted by the weights of all.
    """
    if sample_weight is not None:
        if (_shapes_known(loss, sample_weight) and len(sample_weight.shape) < len(loss.shape)
            and not _broadcasts(sample_weight.shape, loss.shape)):
            warn_user(f"sample_weight of shape {sample_weight.shape} broadcasts the loss of shape {loss.shape} to a "
                      f"larger one; to weight each sample give it one axis for each of the loss's, as "
                      f"sample_weight.reshape({(-1,) + (1,) * (len(loss.shape) - 1)})")
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is not None:
        if not isinstance(weight, numeric_types):
            raise AttributeValueError(f"the weight of a loss must be a number or None, got {weight!r}; weights of "
                                      f"single samples go into sample_weight")
        loss = loss * weight
    return loss


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(s in (1, t) for s, t in zip(shape[::-1], to[::-1]))


def _reshape_like(F: Any, x: Any, y: Any) -> Any:  # noqa: N803
    """x in the shape of y."""
    if _shapes_known(x, y):
        if math.prod(x.shape) != math.prod(y.shape):
            raise ShapeError(f"prediction and target of a loss need the same number of elements, got shapes {y.shape} "
                             f"and {x.shape}")
        long = [[n for n in v.shape if n != 1] for v in (x, y)]
        if len(long[0]) == len(long[1]) and long[0] != long[1]:
            warn_user(f"prediction and target of a loss have the same number of elements but different shapes: "
                      f"{y.shape} and {x.shape}; the target is reshaped")
        if F is nd:
            return x if x.shape == y.shape else x.reshape(y.shape)
    return F.reshape_like(x, y)


class Loss(HybridBlock):
    """Base of all losses: ``weight`` (a number or None) and ``batch_axis``."""

    def __init__(self, weight: Any, batch_axis: int, **kwargs: Unpack[BlockOptions]):
        super().__init__(**kwargs)
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def _slow_call(self, *args: Any, **kwargs: Any) -> Any:
        def ordinary() -> Any:
            return HybridBlock._slow_call(self, *args, **kwargs)
        d = self.__dict__
        ours = type(self).__module__.rpartition(".")[0] == __package__
        if (pending.WATCHED[0] and ours and not d["_active"] and not SCOPE.traces
            and not d["_forward_hooks"] and not d["_forward_pre_hooks"] and not d["_backward_hooks"]):
            return pending.LATER[0].loss(self, args, kwargs, ordinary)
        return ordinary()

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
        """The loss of a prediction; override it."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward(self, F, pred, label, …)")

    def _mean(self, F: Any, loss: Any, sample_weight: Any, weight: Any = None) -> Any:  # noqa: N803
        """Weighted, then averaged over all axes but the batch's."""
        return F.mean(_apply_weighting(F, loss, self._weight if weight is None else weight, sample_weight),
                      axis=self._batch_axis, exclude=True)
