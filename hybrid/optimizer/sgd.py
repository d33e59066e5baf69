"""Optimizers of the gradient-descent kind: SGD, NAG, Signum, LARS, LBSGD, DCASGD, SGLD."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Hashable, Sequence

from .. import ir
from ..buffers.array import NDArray
from ..base.errors import AttributeValueError, HybridError
from ..ir import Node
from ..ops.random import normal
from .base import Optimizer, register, zeros_like
from .program import Scalars

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import LargeBatch, Rated, Shared

Rule = tuple[Node, Sequence[Node]]


class _Momentum(Optimizer):
    """Base of those with an optional momentum array: ``momentum`` 0 means none."""
    shared = (*Optimizer.shared, "momentum")
    momentum: float

    def flags(self) -> tuple[Hashable, ...]:
        return (*super().flags(), self.momentum > 0)

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Zeros in the weight's shape, or None without momentum."""
        return zeros_like(weight, stype=self.state_stype(weight)) if self.momentum != 0.0 else None

    def has_momentum(self, states: list[Node]) -> bool:
        """Whether the rule uses its momentum array."""
        if self.momentum > 0 and not states:
            raise HybridError(f"{type(self).__name__}: momentum was 0 when the states were made and is "
                              f"{self.momentum} now; "
                              "give it when the optimizer is made, or make the states again")
        return self.momentum > 0


def descend(self: _Momentum, w: Node, step: Node, states: list[Node], s: Any) -> Rule:
    """w + m with m = momentum * m - step, or w - step without momentum. step: learning rate times gradient."""
    if not self.has_momentum(states):
        return w - step, states
    m = states[0] * s.momentum - step
    return w + m, [m]


@register
class SGD(_Momentum):
    """Stochastic gradient descent with momentum and weight decay.

    ``g = clip(rescale_grad * grad) + wd * w``; ``m = momentum * m - lr * g``; ``w = w + m``. lazy_update: rows
    of zeros in a row_sparse gradient leave weight and momentum as they are.

    >>> SGD(learning_rate=0.1, momentum=0.9).momentum
    0.9
    """
    master_last = True
    rowwise = True

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Unpack[Rated]):
        super().__init__(**kwargs)
        self.momentum, self.lazy_update = momentum, lazy_update

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        return descend(self, w, (s.gradient(g) + w * s.wd) * s.lr, states, s)


@register
class ccSGD(SGD):  # noqa: N801  MXNet's name
    """MXNet's old name of SGD."""


@register
class NAG(_Momentum):
    """Nesterov's accelerated gradient.

    ``g = clip(rescale_grad * grad) + wd * w``; ``w = w + momentum^2 * m - (1 + momentum) * lr * g``; ``m = momentum * m
    - lr * (clip(rescale_grad * grad) + wd * w)``, where the decay in m is of the new w, as MXNet computes it. Sutskever
      and
    others, "On the importance of initialization and momentum in deep learning", ICML 2013.
    """
    master_last = True
    rowwise = True

    def __init__(self, momentum: float = 0.0, **kwargs: Unpack[Rated]):
        super().__init__(**kwargs)
        self.momentum = momentum

    def lazy(self, index: Any, weight: Any) -> bool:
        """Without momentum it is MXNet's SGD, whose lazy_update is on."""
        return self.momentum == 0

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.gradient(g)
        step = (g + w * s.wd) * s.lr
        if not self.has_momentum(states):
            return w - step, states
        m = states[0] * s.momentum
        new = w - m + (m - step) * (s.momentum + 1)
        return new, [m - (g + new * s.wd) * s.lr]


@register
class Signum(_Momentum):
    """The sign of the momentum (of the gradient, without momentum) as the direction.

    ``m = momentum * m - (1 - momentum) * (clip(rescale_grad * grad) + wd * w)``; ``w = (1 - lr * wd_lh) * w + lr *
    sign(m)``. Bernstein and others, "signSGD: compressed optimisation for non-convex problems", ICML 2018. wd_lh:
    decoupled weight decay.
    """
    shared = (*_Momentum.shared, "wd_lh")
    sparse_states = True

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0,
                 **kwargs: Unpack[Shared]):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum, self.wd_lh = momentum, wd_lh

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        if not self.has_momentum(states):
            return w * (1 - s.lr * s.wd) - ir.map("direction", g * s.rescale_grad) * s.lr, states
        m = states[0] * s.momentum - (s.gradient(g) + w * s.wd) * (1 - s.momentum)
        return w * (1 - s.lr * s.wd_lh) + ir.map("direction", m) * s.lr, [m]


def norm(x: Node) -> Node:
    """Euclidean norm of all elements, shape ()."""
    return ir.map("sqrt", sum_of_squares(x))


def sum_of_squares(x: Node) -> Node:
    """Sum of the squares of all elements, shape ()."""
    return ir.reduce("sum", ir.map("square", x), range(x.ndim)) if x.ndim else ir.map("square", x)


@register
class SignSGD(Signum):
    """Signum without momentum: ``w = (1 - lr * wd) * w - lr * sign(grad)``."""

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.0, wd_lh: float = 0.0,
                 **kwargs: Unpack[Shared]):
        super().__init__(learning_rate, momentum, wd_lh, **kwargs)


@register
class LARS(_Momentum):
    """SGD whose learning rate is scaled for each array by the norms of weight and gradient.

    ``lr * eta * |w| / (|g| + wd * |w| + eps)`` where both norms are positive, else ``lr``; g is the rescaled gradient
    before clipping, w the weight as it is stored, not its float32 copy. Norms are computed in float32 (MXNet rounds the
    squares to float16, where they overflow). Arrays whose names (``param_idx2name``) end in gamma, beta or bias keep
    ``lr``. You, Gitman and Ginsburg, "Large batch training of convolutional networks", 2017. momentum_correction: when
    the learning rate changes, the momentum is multiplied by new / old for that update (MXNet does so for the first few
    parameters alone, as many as it updates together).
    """
    shared = (*_Momentum.shared, "eta", "eps")
    master_last = True

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, eta: float = 0.001, eps: float = 0,
                 momentum_correction: bool = True, **kwargs: Unpack[Rated]):
        super().__init__(**kwargs)
        self.momentum, self.lazy_update, self.eta, self.eps, self.momentum_correction = (momentum, lazy_update, eta,
                eps, momentum_correction)
        self.last_lr: float | None = None
        self.cur_lr: float | None = None

    def _decays(self, name: str) -> bool:
        return name.endswith("_weight")

    def form(self, index: Any) -> Hashable:
        """Whether the array's learning rate is scaled."""
        return not str(self.idx2name.get(index, index)).endswith(("gamma", "beta", "bias"))

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        now = self.learning_rate
        self.last_lr, self.cur_lr = now if self.cur_lr is None else self.cur_lr, now
        return self._multiplied(now, indices, self.lr_mult, "lr_mult")

    def common(self) -> list[float]:
        out = super().common()
        if self.momentum_correction and self.last_lr:
            assert self.cur_lr is not None
            out[self.shared.index("momentum")] *= self.cur_lr / self.last_lr
        return out

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        lr = s.lr
        if s.form:
            w_norm, g_norm = norm(s.stored), norm(g) * s.rescale_grad
            both = ir.map("logical_and", ir.map("gt", w_norm, 0.0), ir.map("gt", g_norm, 0.0))
            lr = ir.map("where", both, lr * s.eta * w_norm / (g_norm + s.wd * w_norm + s.eps), lr)
        return descend(self, w, (s.gradient(g) + w * s.wd) * lr, states, s)


@register
class LBSGD(_Momentum):
    """SGD that adds up ``batch_scale`` gradients before it updates, with a warm-up of the learning rate.

    warmup_strategy: ``linear``, ``power2`` or ``sqrt`` (from 1 to batch_scale times the learning rate over
    warmup_epochs * updates_per_epoch updates), or ``lars`` (scaled by norms). The state is a pair: momentum (or None),
    sum of gradients.
    """
    scalars = ("lr", "wd", "keep", "apply")

    def __init__(self, momentum: float = 0.0, multi_precision: bool = False, warmup_strategy: str = "linear",
                 warmup_epochs: int = 5,
                 batch_scale: int = 1, updates_per_epoch: int = 32, begin_epoch: int = 0, num_epochs: int = 60,
                 **kwargs: Unpack[LargeBatch]):
        super().__init__(multi_precision=multi_precision, **kwargs)
        if warmup_strategy not in ("linear", "power2", "sqrt", "lars"):
            raise AttributeValueError(f"warmup_strategy must be linear, power2, sqrt or lars, got {warmup_strategy!r}")
        self.momentum, self.warmup_strategy, self.warmup_epochs, self.batch_scale = (momentum, warmup_strategy,
                warmup_epochs, batch_scale)
        self.updates_per_epoch, self.init_updates, self.num_epochs = (updates_per_epoch,
                                                                      begin_epoch * updates_per_epoch, num_epochs)
        self.num_cums: dict[Any, int] = {}

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """(momentum or None, sum of gradients)."""
        return super().create_state(index, weight), zeros_like(weight)

    def flags(self) -> tuple[Hashable, ...]:
        return (*super().flags(), self.warmup_strategy == "lars", self.batch_scale)

    def lazy(self, index: Any, weight: Any) -> bool:
        """Where no gradients are added up it is MXNet's SGD, whose lazy_update is on."""
        return self.batch_scale == 1

    def _multiplier(self, n: int) -> float:
        """Factor of the learning rate after n gradients."""
        warm, most = self.warmup_epochs * self.updates_per_epoch, float(self.batch_scale)
        if n >= warm or warm <= 1:
            return most if n >= warm else 1.0
        part = {"linear": n / warm, "power2": n * n / (warm * warm), "sqrt": math.sqrt(n / warm)}[self.warmup_strategy]
        return 1.0 + (most - 1) * part

    def advance(self, indices: Sequence[Any]) -> list[float]:
        lrs = []
        # each learning rate before its parameter is counted, as MXNet does
        for i in indices:
            lrs.append(self._get_lr(i))
            self._update_count(i)
        return self.gather(indices, lrs, self._get_wds(indices))

    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        before = self.num_cums.get(index, self.init_updates)
        n = self.num_cums[index] = before + 1
        fresh = before == self.init_updates or before % self.batch_scale == 0
        factor = 1.0 if self.warmup_strategy == "lars" else self._multiplier(n)
        return lr * factor, wd, float(not fresh), float(n % self.batch_scale == 0)

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        total = states[-1] * s.keep + g
        mean = total / float(self.batch_scale)
        lr = s.lr
        if self.warmup_strategy == "lars":
            w2, g2 = sum_of_squares(w), sum_of_squares(mean)
            scale = ir.map("sqrt", w2 / (g2 + s.wd * w2 + 1e-18))
            lr = lr * ir.map("minimum", ir.map("maximum", scale, 0.01), 100.0)
        new_w, moved = descend(self, w, (s.gradient(mean) + w * s.wd) * lr, states[:-1], s)
        now = ir.map("gt", s.apply, 0.0)
        return ir.map("where", now, new_w, w), [*(ir.map("where", now, m, old) for m, old in zip(moved, states)), total]


@register
class DCASGD(_Momentum):
    """SGD with a correction for gradients that were computed with older weights.

    ``m = momentum * m - lr * (g + wd * w + lamda * g * g * (w - previous))`` with g the rescaled, clipped gradient and
    ``previous`` the weight before the last update. Zheng and others, "Asynchronous stochastic gradient descent with
    delay compensation", ICML 2017. (In MXNet the momentum fails for arrays of more than one element.)
    """
    shared = (*_Momentum.shared, "lamda")

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Unpack[Rated]):
        super().__init__(**kwargs)
        self.momentum, self.lamda = momentum, lamda

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """(momentum or None, previous weight)."""
        return super().create_state(index, weight), weight.copy()

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.gradient(g)
        step = (g + w * s.wd + g * g * s.lamda * (w - states[-1])) * s.lr
        new_w, moved = descend(self, w, step, states[:-1], s)
        return new_w, [*moved, w]


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: half a gradient step, and normal noise of variance ``lr``.

    Welling and Teh, "Bayesian learning via stochastic gradient Langevin dynamics", ICML 2011. The noise comes from the
    library's generator (``mx.random.seed``), which is not MXNet's.
    """
    draws = True
    scalars = ("lr", "wd", "deviation")

    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        return lr, wd, math.sqrt(lr)

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        return w - (s.gradient(g) + w * s.wd) * (s.lr * 0.5) + normal(s.key, w.shape, 0.0, 1.0,
                                                                      w.dtype) * s.deviation, states


@register
class Test(Optimizer):
    """``w = w + rescale_grad * grad``; the state is a copy of the weight. MXNet's optimizer for tests."""
    __test__ = False                                  # no test class for pytest

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Zeros."""
        return zeros_like(weight)

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        new = w + g * s.rescale_grad
        return new, [new]
