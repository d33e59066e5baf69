"""Optimizer updates as operators (``sgd_mom_update``, ``adam_update``, …). Each gives the new weight and writes new
states over the old ones. A rule is one function of (attributes, weight, gradient, states) in float32 or wider;
``multi_``, ``mp_`` and ``preloaded_`` forms, which take many weights, a float32 master copy or rates from arrays, are
in updates_many.py.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Bool, Float, Int, Lowered, op

Rule = Callable[..., tuple[Node, tuple[Node, ...]]]
COMMON: dict[str, Any] = {"wd": Float(0.0), "rescale_grad": Float(1.0), "clip_gradient": Float(-1.0)}


def clipped(x: Node, bound: float) -> Node:
    """x within [-bound, bound]; itself where bound is negative."""
    return x if bound < 0 else ir.map("minimum", ir.map("maximum", x, -bound), bound)


def _decayed(a: Attrs, w: Node, g: Node) -> Node:
    """The scaled gradient with weight decay in it, then clipped."""
    return clipped(g * a.rescale_grad + w * a.wd, a.clip_gradient)


def _scaled(a: Attrs, g: Node) -> Node:
    """The scaled gradient, clipped; weight decay comes later."""
    return clipped(g * a.rescale_grad, a.clip_gradient)


def sgd(a: Attrs, w: Node, g: Node) -> tuple[Node, tuple[Node, ...]]:
    """weight - lr * (clip(rescale_grad * grad) + wd * weight)."""
    return w * (1.0 - a.lr * a.wd) - _scaled(a, g) * a.lr, ()


def sgd_momentum(a: Attrs, w: Node, g: Node, mom: Node) -> tuple[Node, tuple[Node, ...]]:
    """mom = momentum * mom - lr * (clip(rescale_grad * grad) + wd * weight); weight + mom."""
    mom = mom * a.momentum - w * (a.lr * a.wd) - _scaled(a, g) * a.lr
    return w + mom, (mom,)


def nesterov(a: Attrs, w: Node, g: Node, mom: Node) -> tuple[Node, tuple[Node, ...]]:
    """Nesterov's accelerated gradient: the step that the momentum after this one would make."""
    g = _scaled(a, g) + w * a.wd
    mom = mom * a.momentum - g * a.lr
    return w + mom * a.momentum - g * a.lr, (mom,)


def nesterov_of_master(a: Attrs, w: Node, g: Node, mom: Node) -> tuple[Node, tuple[Node, ...]]:
    """nesterov of a float32 copy, but that the weight decay in the momentum that is kept is of the new weight, as MXNet
    has it."""
    new, _ = nesterov(a, w, g, mom)
    return new, (mom * a.momentum - (_scaled(a, g) + new * a.wd) * a.lr,)


def adam(a: Attrs, w: Node, g: Node, mean: Node, var: Node) -> tuple[Node, tuple[Node, ...]]:
    """Kingma and Ba, "Adam" (2015), without the correction of the bias, which is in lr."""
    g = _decayed(a, w, g)
    mean = mean * a.beta1 + g * (1.0 - a.beta1)
    var = var * a.beta2 + g * g * (1.0 - a.beta2)
    return w - mean / (ir.map("sqrt", var) + a.epsilon) * a.lr, (mean, var)


def ftml(a: Attrs, w: Node, g: Node, d: Node, v: Node, z: Node) -> tuple[Node, tuple[Node, ...]]:
    """Zheng and Kwok, "Follow the moving leader in deep learning" (2017)."""
    g = clipped(g * a.rescale_grad + w * a.wd, a.clip_grad)
    v = v * a.beta2 + g * g * (1.0 - a.beta2)
    new = (ir.map("sqrt", v / (1.0 - a.beta2 ** a.t)) + a.epsilon) * ((1.0 - a.beta1 ** a.t) / a.lr)
    z = z * a.beta1 + g * (1.0 - a.beta1) - (new - d * a.beta1) * w
    return -z / new, (new, v, z)


def ftrl(a: Attrs, w: Node, g: Node, z: Node, n: Node) -> tuple[Node, tuple[Node, ...]]:
    """McMahan et al., "Ad click prediction: a view from the trenches" (2013)."""
    g = _scaled(a, g)
    more = n + g * g
    z = z + g - (ir.map("sqrt", more) - ir.map("sqrt", n)) * w / a.lr
    step = (ir.map("direction", z) * a.lamda1 - z) / ((ir.map("sqrt", more) + a.beta) / a.lr + a.wd)
    return ir.map("where", ir.map("le", ir.map("abs", z), a.lamda1), 0, step), (z, more)


def rmsprop(a: Attrs, w: Node, g: Node, n: Node) -> tuple[Node, tuple[Node, ...]]:
    """Tieleman and Hinton (2012): steps divided by the running root mean square of the gradient."""
    g = _decayed(a, w, g)
    n = g * g * (1.0 - a.gamma1) + n * a.gamma1
    return clipped(w - g / ir.map("sqrt", n + a.epsilon) * a.lr, a.clip_weights), (n,)


def rmsprop_graves(a: Attrs, w: Node, g: Node, n: Node, mean: Node, delta: Node) -> tuple[Node, tuple[Node, ...]]:
    """RMSProp as in Graves, "Generating sequences with recurrent neural networks" (2013), equations 38 to 45."""
    g = _decayed(a, w, g)
    n = g * g * (1.0 - a.gamma1) + n * a.gamma1
    mean = g * (1.0 - a.gamma1) + mean * a.gamma1
    delta = delta * a.gamma2 - g / ir.map("sqrt", n - mean * mean + a.epsilon) * a.lr
    return clipped(w + delta, a.clip_weights), (n, mean, delta)


def sign_sgd(a: Attrs, w: Node, g: Node) -> tuple[Node, tuple[Node, ...]]:
    """Bernstein et al., "signSGD" (2018): steps of length lr along the gradient's signs."""
    return w * (1.0 - a.lr * a.wd) - ir.map("direction", g) * a.lr, ()


def signum(a: Attrs, w: Node, g: Node, mom: Node) -> tuple[Node, tuple[Node, ...]]:
    """signSGD with momentum; wd_lh is weight decay beside the step."""
    mom = mom * a.momentum - (_scaled(a, g) + w * a.wd) * (1.0 - a.momentum)
    return w * (1.0 - a.lr * a.wd_lh) + ir.map("direction", mom) * a.lr, (mom,)


def lamb_direction(a: Attrs, w: Node, g: Node, mean: Node, var: Node) -> tuple[Node, tuple[Node, ...]]:
    """The step of LAMB before its length is set: You et al., "Large batch optimization for deep learning" (2020)."""
    g = _scaled(a, g)
    mean = mean * a.beta1 + g * (1.0 - a.beta1)
    var = var * a.beta2 + g * g * (1.0 - a.beta2)
    m, v = (mean / (1.0 - a.beta1 ** a.t), var / (1.0 - a.beta2 ** a.t)) if a.bias_correction else (mean, var)
    return m / (ir.map("sqrt", v) + a.epsilon) + w * a.wd, (mean, var)


def group_adagrad(a: Attrs, w: Node, g: Node, history: Node) -> tuple[Node, tuple[Node, ...]]:
    """AdaGrad with one rate for each row: history (rows, 1, …) of the mean squares."""
    g = clipped(g * a.rescale_grad, a.clip_gradient)
    axes = tuple(range(1, g.ndim))
    square = g * g
    mean = ir.reshape(ir.reduce("sum", square, axes) / max(1, g.size // max(1, g.shape[0])), history.shape)
    history = history + mean
    return w - g * a.lr / ir.map("sqrt", history + a.epsilon), (history,)


# operator: (rule, states, attributes of its own)
LAZY = {"lazy_update": Bool(True)}
MOMENTUM = {"momentum": Float(0.0)}
ADAM: dict[str, Any] = {"beta1": Float(0.9), "beta2": Float(0.999), "epsilon": Float(1e-8)}
RULES: dict[str, tuple[Rule, str, dict[str, Any]]] = {
    "sgd_update": (sgd, "", {"lr": Float(), **COMMON, **LAZY}),
    "sgd_mom_update": (sgd_momentum, "mom", {"lr": Float(), **MOMENTUM, **COMMON, **LAZY}),
    "nag_mom_update": (nesterov, "mom", {"lr": Float(), **MOMENTUM, **COMMON}),
    "adam_update": (adam, "mean var", {"lr": Float(), **ADAM, **COMMON, **LAZY}),
    "ftml_update": (ftml, "d v z", {"lr": Float(), "beta1": Float(0.6), "beta2": Float(0.999), "epsilon": Float(1e-8),
                                    "t": Int(), "wd": Float(0.0),
                                    "rescale_grad": Float(1.0), "clip_grad": Float(-1.0)}),
    "ftrl_update": (ftrl, "z n", {"lr": Float(), "lamda1": Float(0.01), "beta": Float(1.0), **COMMON}),
    "rmsprop_update": (rmsprop, "n", {"lr": Float(), "gamma1": Float(0.95), "epsilon": Float(1e-8), **COMMON,
                                      "clip_weights": Float(-1.0)}),
    "rmspropalex_update": (rmsprop_graves, "n g delta",
                           {"lr": Float(), "gamma1": Float(0.95), "gamma2": Float(0.9), "epsilon": Float(1e-8),
                            **COMMON,
                                                         "clip_weights": Float(-1.0)}),
    "signsgd_update": (sign_sgd, "", {"lr": Float(), **COMMON}),
    "signum_update": (signum, "mom", {"lr": Float(), **MOMENTUM, **COMMON, "wd_lh": Float(0.0)}),
    "lamb_update_phase1": (lamb_direction, "mean var",
                           {"beta1": Float(0.9), "beta2": Float(0.999), "epsilon": Float(1e-6), "t": Int(),
                            "bias_correction": Bool(True),
                                                        **COMMON}),
}


def check_shapes(w: Node, others: Sequence[Node], names: Sequence[str]) -> None:
    """One clear error where a gradient or a state is not shaped like its weight."""
    for name, x in zip(names, others):
        if x.shape != w.shape:
            raise ShapeError(f"{name} must have the weight's shape {w.shape}, got {x.shape}")


def _single(name: str) -> None:
    rule, states, attrs = RULES[name]
    words = states.split()

    def lower(*args: Any) -> Lowered:
        w, g, *old, a = args
        check_shapes(w, [g, *old], ["grad", *words])
        new, held = rule(a, w, g, *old)
        return Lowered((ir.cast(new, w.dtype),), {i + 2: ir.cast(v, old[i].dtype) for i, v in enumerate(held)})
    lower.__doc__ = rule.__doc__
    op(name, " ".join(["weight grad", *words]), aux=states, params=alike, **attrs)(lower)


def alike(shapes: list[Any], a: Attrs) -> list[Any]:
    """Gradients and states are shaped like the weight."""
    found = next((s for s in shapes if s is not None), None)
    return [found if s is None else s for s in shapes]


for _name in RULES:
    _single(_name)


@op("_contrib_group_adagrad_update", "weight grad history", mx=("contrib.group_adagrad_update",), aux="history",
    lr=Float(), rescale_grad=Float(1.0),
    clip_gradient=Float(-1.0), epsilon=Float(1e-5))
def group_adagrad_update(weight: Node, grad: Node, history: Node, a: Attrs) -> Lowered:
    """AdaGrad with one rate for each row of the weight."""
    check_shapes(weight, [grad], ["grad"])
    if history.shape != (*weight.shape[:1], *(1,) * (weight.ndim - 1)):
        raise ShapeError(f"history must be {(*weight.shape[:1], *(1,) * (weight.ndim - 1))} for a weight of shape "
                         f"{weight.shape}, got {history.shape}")
    new, (held,) = group_adagrad(a, weight, grad, history)
    return Lowered((new,), {2: held})


@op("lamb_update_phase2", "weight g r1 r2", lr=Float(), lower_bound=Float(-1.0), upper_bound=Float(-1.0))
def lamb_update_phase2(weight: Node, g: Node, r1: Node, r2: Node, a: Attrs) -> Node:
    """The step g of lamb_update_phase1 with length lr * r1 / r2, where r1 and r2 (1,) are the norms of weight and
    step."""
    return weight - g * lamb_rate(r1, r2, a)


def lamb_rate(r1: Node, r2: Node, a: Attrs) -> Node:
    """lr * r1 / r2, with r1 held between the bounds; lr where a norm is 0."""
    if r1.size != 1 or r2.size != 1:
        raise ShapeError(f"r1 and r2 must have one element each, got {r1.shape} and {r2.shape}")
    r1, r2 = ir.reshape(r1, ()), ir.reshape(r2, ())
    if a.lower_bound >= 0:
        r1 = ir.map("maximum", r1, a.lower_bound)
    if a.upper_bound >= 0:
        r1 = ir.map("minimum", r1, a.upper_bound)
    whole = ir.map("logical_and", ir.map("ne", r1, 0), ir.map("ne", r2, 0))
    return ir.map("where", whole, r1 / ir.map("where", whole, r2, 1) * a.lr, a.lr)
