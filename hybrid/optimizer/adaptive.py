"""Optimizers that scale the step of each element by past gradients: AdaGrad, AdaDelta, RMSProp, Ftrl, FTML,
GroupAdaGrad."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Hashable, Sequence

from ..base import dtype as dt
from .. import ir
from ..buffers.array import ZEROS, NDArray, wrap
from ..base.device import zeros
from ..base.errors import AttributeValueError, ShapeError
from ..ir import Node
from .base import Optimizer, register, wide_zeros_like, zeros_like
from .program import Scalars, ignores_index

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Rated, Shared

Rule = tuple[Node, Sequence[Node]]


def sqrt(x: Node) -> Node:
    """Square root."""
    return ir.map("sqrt", x)


def square(x: Node) -> Node:
    """x * x."""
    return ir.map("square", x)


def mix(old: Node, new: Node, keep: Node) -> Node:
    """keep * old + (1 - keep) * new: a moving average."""
    return old * keep + new * (1 - keep)


@register
class AdaGrad(Optimizer):
    """``history = history + g * g``; ``w = w - lr * (g / sqrt(history + eps) + wd * w)``, g the rescaled, clipped
    gradient.

    Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization", JMLR 2011.
    The history is float32, also for float16 weights.
    """
    shared = (*Optimizer.shared, "float_stable_eps")
    rowwise = sparse_states = True

    def __init__(self, eps: float = 1e-7, **kwargs: Unpack[Rated]):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """The history, zeros."""
        return wide_zeros_like(weight, self.state_stype(weight))

    def lazy(self, index: Any, weight: Any) -> bool:
        """Without weight decay: rows without a gradient do not move then."""
        return self._get_wd(index) == 0

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.gradient(g)
        history = states[0] + square(g)
        return w - (g / sqrt(history + s.float_stable_eps) + w * s.wd) * s.lr, [history]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one learning rate a row of a matrix: the history is the mean of the squares along the row.

    In ``optimizer.contrib`` too. Takes no weight decay.
    """
    shared = (*Optimizer.shared, "float_stable_eps")
    rowwise = sparse_states = True

    def __init__(self, eps: float = 1e-5, **kwargs: Unpack[Rated]):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """The history, zeros of shape (rows, 1)."""
        if weight.ndim != 2:
            raise ShapeError(f"GroupAdaGrad updates matrices, parameter {index} has shape {weight.shape}")
        kind, stype = dt.float64 if weight.dtype == dt.float64 else dt.float32, self.state_stype(weight)
        shape = weight.shape[0], 1
        return ZEROS[0](stype, shape, weight._ctx,
                        kind) if stype != "default" else wrap(zeros(shape, kind, weight._ctx), weight._ctx)

    def lazy(self, index: Any, weight: Any) -> bool:
        """Always: rows without a gradient do not move."""
        return True

    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        if wd != 0:
            raise AttributeValueError(f"GroupAdaGrad takes no weight decay, parameter {index} has {wd}; set wd=0 or "
                                      f"its wd_mult to 0")
        return lr, wd

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.gradient(g)
        history = states[0] + ir.reduce("sum", square(g), (1,), keepdims=True) / float(max(w.shape[1], 1))
        return w - g * s.lr / sqrt(history + s.float_stable_eps), [history]


@register
class AdaDelta(Optimizer):
    """Steps in units of past steps; there is no learning rate.

    ``a = rho * a + (1 - rho) * g * g``; ``d = sqrt(b + epsilon) / sqrt(a + epsilon) * g``; ``b = rho * b + (1 - rho) *
    d * d``; ``w = w - d - wd * w``. Zeiler, "ADADELTA: an adaptive learning rate method", 2012.
    """
    shared = (*Optimizer.shared, "rho", "epsilon")

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Unpack[Rated]):
        super().__init__(**kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """(average of g * g, average of d * d), zeros."""
        return wide_zeros_like(weight), wide_zeros_like(weight)

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.gradient(g)
        squares = mix(states[0], square(g), s.rho)
        delta = sqrt(states[1] + s.epsilon) / sqrt(squares + s.epsilon) * g
        return w - (delta + w * s.wd), [squares, mix(states[1], square(delta), s.rho)]


@register
class RMSProp(Optimizer):
    """The gradient divided by the root of its mean square.

    ``n = gamma1 * n + (1 - gamma1) * g * g``; ``w = w - lr * g / sqrt(n + epsilon)`` (Tieleman and Hinton, 2012), with
    ``g = clip(rescale_grad * grad + wd * w)``. centered: Graves' form (arXiv:1308.0850, equations 38 to 45), with
    ``m = gamma1 * m + (1 - gamma1) * g``; ``d = gamma2 * d - lr * g / sqrt(n - m * m + epsilon)``; ``w = w + d``.
    clip_weights: the new weights are clipped to [-clip_weights, clip_weights].
    """
    shared = (*Optimizer.shared, "gamma1", "gamma2", "epsilon", "clip_weights")
    sparse_states = True

    def __init__(self, learning_rate: float | None = 0.001, gamma1: float = 0.9, gamma2: float = 0.9,
                 epsilon: float = 1e-8, centered: bool = False,
                 clip_weights: float | None = None, **kwargs: Unpack[Shared]):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1, self.gamma2, self.epsilon, self.centered, self.clip_weights = (gamma1, gamma2, epsilon, centered,
                clip_weights)

    def flags(self) -> tuple[Hashable, ...]:
        return (*super().flags(), self.centered, self._clips_weights())

    def _clips_weights(self) -> bool:
        return self.clip_weights is not None and self.clip_weights > 0

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """(n,) or, centered, (n, m, d): zeros in float32."""
        return tuple(wide_zeros_like(weight, self.state_stype(weight)) for _ in range(3 if self.centered else 1))

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        g = s.clip(g * s.rescale_grad + w * s.wd)
        n = mix(states[0], square(g), s.gamma1)
        if self.centered:
            m = mix(states[1], g, s.gamma1)
            d = states[2] * s.gamma2 - g * s.lr / sqrt(n - square(m) + s.epsilon)
            new, kept = w + d, [n, m, d]
        else:
            new, kept = w - g * s.lr / sqrt(n + s.epsilon), [n]
        if self._clips_weights():
            new = ir.map("minimum", ir.map("maximum", new, -s.clip_weights), s.clip_weights)
        return new, kept


@register
class Ftrl(Optimizer):
    """Follow the regularized leader: weights with small evidence are exactly zero.

    ``z = z + g - (sqrt(n + g * g) - sqrt(n)) * w / lr``; ``n = n + g * g``; ``w = (sign(z) * lamda1 - z) / ((beta +
    sqrt(n)) / lr
    + wd)`` where ``|z| > lamda1``, else 0. McMahan and others, "Ad click prediction: a view from the trenches", KDD
    2013.
    """
    shared = (*Optimizer.shared, "lamda1", "beta")
    rowwise = sparse_states = True

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Unpack[Shared]):
        super().__init__(**kwargs)
        self.lamda1, self.beta, self.lr = lamda1, beta, learning_rate

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """(z, n), zeros."""
        return tuple(wide_zeros_like(weight, self.state_stype(weight)) for _ in range(2))

    def lazy(self, index: Any, weight: Any) -> bool:
        """Where weight and states are row_sparse too: in a dense weight rows without a gradient become zero as others
        do, as in MXNet."""
        return weight.stype == "row_sparse"

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        z, n = states
        g = s.gradient(g)
        n_new = n + square(g)
        z = z + g - (sqrt(n_new) - sqrt(n)) * w / s.lr
        step = (ir.map("direction", z) * s.lamda1 - z) / ((s.beta + sqrt(n_new)) / s.lr + s.wd)
        return ir.map("where", ir.map("le", ir.map("abs", z), s.lamda1), ir.const(0.0, w.dtype), step), [z, n_new]


@register
class FTML(Optimizer):
    """Follow the moving leader.

    ``v = beta2 * v + (1 - beta2) * g * g``; ``d = (1 - beta1^t) / lr * (sqrt(v / (1 - beta2^t)) + epsilon)``; ``z =
    beta1 * z + (1 - beta1) * g - (d - beta1 * d_before) * w``; ``w = -z / d``. Zheng and Kwok, "Follow the moving
    leader in deep learning", ICML 2017.
    """
    shared = (*Optimizer.shared, "beta1", "beta2", "epsilon")
    scalars = ("lr", "wd", "correction1", "correction2")

    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Unpack[Rated]):
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """(d, v, z), zeros."""
        return zeros_like(weight), zeros_like(weight), zeros_like(weight)

    @ignores_index
    def numbers(self, index: Any, lr: float, wd: float, t: int) -> tuple[float, ...]:
        return lr, wd, 1.0 - self.beta1 ** t, 1.0 - self.beta2 ** t

    def rule(self, w: Node, g: Node, states: list[Node], s: Scalars) -> Rule:
        before, v, z = states
        g = s.clip(g * s.rescale_grad + w * s.wd)
        v = mix(v, square(g), s.beta2)
        d = s.correction1 / s.lr * (sqrt(v / s.correction2) + s.epsilon)
        z = mix(z, g, s.beta1) - (d - before * s.beta1) * w
        return -z / d, [d, v, z]
