"""Adam and its kin: Adam, AdamW, Adamax, Nadam, LAMB."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Hashable, Sequence

from .. import ir
from ..buffers.array import NDArray
from ..ir import Node
from .adaptive import mix, sqrt, square
from .base import Optimizer, register, zeros_like
from .program import Scalars, ignores_index
from .sgd import norm

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Shared

Rule = tuple[Node, Sequence[Node]]


class _Moments(Optimizer):
    """Base of those with averages of the gradient (beta1) and of its square (beta2)."""
    shared = (*Optimizer.shared, "beta1", "beta2", "epsilon")
    beta1: float
    beta2: float

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """(average of the gradient, average of its square), zeros in the weight's dtype."""
        return tuple(zeros_like(weight, stype=self.state_stype(weight)) for _ in range(2))

    def corrected(self, lr: float, t: int) -> float:
        """The learning rate with the correction for averages that began at zero."""
        return lr * (math.sqrt(1.0 - self.beta2 ** t) / (1.0 - self.beta1 ** t))


@register
class Adam(_Moments):
    """``m = beta1 * m + (1 - beta1) * g``; ``v = beta2 * v + (1 - beta2) * g * g``; ``w = w - lr_t * m / (sqrt(v) +
    epsilon)``.

    ``lr_t = lr * sqrt(1 - beta2^t) / (1 - beta1^t)``, ``g = clip(rescale_grad * grad + wd * w)``. Kingma and Ba, "Adam:
    a method for stochastic optimization", ICLR 2015. lazy_update: rows of zeros in a row_sparse gradient leave weight
    and averages as they are.

    >>> Adam().learning_rate
    0.001
    """
    rowwise = True

    def __init__(self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, lazy_update: bool = True,
                 **kwargs: Unpack[Shared]):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.lazy_update = beta1, beta2, epsilon, lazy_update

    @ignores_index
    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        return self.corrected(lr, t), wd

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.clip(g * s.rescale_grad + w * s.wd)
        m, v = mix(states[0], g, s.beta1), mix(states[1], square(g), s.beta2)
        return w - m * s.lr / (sqrt(v) + s.epsilon), [m, v]


@register
class AdamW(_Moments):
    """Adam with decoupled weight decay: ``w = w - lr_t * (m / (sqrt(v) + epsilon) + wd * w)``, wd kept out of the
    averages.

    Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019; the formula of MXNet's operator
    adamw_update. correct_bias: whether ``lr_t`` has Adam's correction.
    """

    def __init__(self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6, correct_bias: bool = True,
                 **kwargs: Unpack[Shared]):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.correct_bias = beta1, beta2, epsilon, correct_bias

    @ignores_index
    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        return self.corrected(lr, t) if self.correct_bias else lr, wd

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.gradient(g)
        m, v = mix(states[0], g, s.beta1), mix(states[1], square(g), s.beta2)
        return w - (m / (sqrt(v) + s.epsilon) + w * s.wd) * s.lr, [m, v]


@register
class Adamax(_Moments):
    """Adam with the largest past gradient in place of the mean square: ``u = max(beta2 * u, |g|)``; ``w = w - lr_t * m
    / u``.

    ``lr_t = lr / (1 - beta1^t)``. Kingma and Ba, section 7.1. An element whose gradients were all zero stays as it is
    (MXNet divides 0 by 0 there).
    """
    shared = (*Optimizer.shared, "beta1", "beta2")

    def __init__(self, learning_rate: float | None = 0.002, beta1: float = 0.9, beta2: float = 0.999,
                 **kwargs: Unpack[Shared]):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2 = beta1, beta2

    @ignores_index
    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        return lr / (1.0 - self.beta1 ** t), wd

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.clip(g * s.rescale_grad + w * s.wd)
        m, u = mix(states[0], g, s.beta1), ir.map("maximum", states[1] * s.beta2, ir.map("abs", g))
        step = ir.map("where", ir.map("eq", u, 0.0), ir.const(0.0, w.dtype), m * s.lr / u)
        return w - step, [m, u]


@register
class Nadam(_Moments):
    """Adam with Nesterov momentum. Dozat, "Incorporating Nesterov momentum into Adam", 2016.

    The product of the momentum schedule grows with every parameter's update, as in MXNet, not once a step.
    """
    scalars = ("lr", "wd", "momentum", "momentum_next", "left", "left_next", "correction2")

    def __init__(self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-8, schedule_decay: float = 0.004,
                 **kwargs: Unpack[Shared]):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.schedule_decay, self.m_schedule = (beta1, beta2, epsilon,
                schedule_decay, 1.0)

    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        now, after = (self.beta1 * (1.0 - 0.5 * 0.96 ** (n * self.schedule_decay)) for n in (t, t + 1))
        self.m_schedule *= now
        return lr, wd, now, after, 1.0 - self.m_schedule, 1.0 - self.m_schedule * after, 1.0 - self.beta2 ** t

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.clip(g * s.rescale_grad + w * s.wd)
        m, v = mix(states[0], g, s.beta1), mix(states[1], square(g), s.beta2)
        mean = g / s.left * (1 - s.momentum) + m / s.left_next * s.momentum_next
        return w - mean * s.lr / (sqrt(v / s.correction2) + s.epsilon), [m, v]


@register
class LAMB(_Moments):
    """Adam whose step has a length for each array: the norm of the weight over the norm of the step.

    You and others, "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020. lower_bound
    and upper_bound limit the norm of the weight; bias_correction: Adam's correction of the averages.
    """
    shared = (*_Moments.shared, "lower_bound", "upper_bound")
    scalars = ("lr", "wd", "correction1", "correction2")
    sparse_states = True

    def __init__(self, learning_rate: float | None = 0.001, beta1: float = 0.9, beta2: float = 0.999,
                 epsilon: float = 1e-6,
                 lower_bound: float | None = None, upper_bound: float | None = None, bias_correction: bool = True,
                 **kwargs: Unpack[Shared]):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.bias_correction = beta1, beta2, epsilon, bias_correction
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def flags(self) -> tuple[Hashable, ...]:
        return (*super().flags(), bool(self.lower_bound), bool(self.upper_bound))

    @ignores_index
    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        return (lr, wd, 1.0 - self.beta1 ** t, 1.0 - self.beta2 ** t) if self.bias_correction else (lr, wd, 1.0, 1.0)

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.gradient(g)
        m, v = mix(states[0], g, s.beta1), mix(states[1], square(g), s.beta2)
        step = m / s.correction1 / (sqrt(v / s.correction2) + s.epsilon) + w * s.wd
        size, length = norm(s.stored), norm(step)
        if self.lower_bound:
            size = ir.map("maximum", size, s.lower_bound)
        if self.upper_bound:
            size = ir.map("minimum", size, s.upper_bound)
        either = ir.map("logical_or", ir.map("eq", size, 0.0), ir.map("eq", length, 0.0))
        return w - step * ir.map("where", either, s.lr, s.lr * size / length), [m, v]
