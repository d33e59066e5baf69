"""Optimizer updates with a float32 master copy (``mp_``), of many weights at once (``multi_``), with rates from arrays
(``preloaded_``), and what goes with them: norms, finiteness, LARS rates, AdamW, LAMB. The rules are those of
updates.py.
"""
from __future__ import annotations

import functools
from typing import Any, Sequence

from ..base import dtype as dt
from .. import ir
from ..base.errors import AttributeValueError, ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Bool, Float, Floats, Int, Lowered, Shape, op
from .updates import (ADAM, MOMENTUM, RULES, alike, check_shapes, clipped, lamb_direction, lamb_rate, nesterov,
                      nesterov_of_master, sgd, sgd_momentum)

Results = tuple[Node, dict[int, Node]]


def _master(rule: Any, a: Attrs, w: Node, g: Node, states: Sequence[Node], master: Node, at: int) -> Results:
    """One update of a weight of few bits through its float32 copy, the input after the states. at: number of the weight
    among the inputs."""
    new, held = rule(a, master, ir.cast(g, master.dtype), *states)
    return ir.cast(new, w.dtype), {**{at + 2 + i: v for i, v in enumerate(held)}, at + 2 + len(states): new}


def _mixed(name: str) -> None:
    rule, states, attrs = RULES[name]
    rule = nesterov_of_master if rule is nesterov else rule
    words = states.split()

    def lower(*args: Any) -> Lowered:
        w, g, *old, master, a = args
        check_shapes(w, [g, *old, master], ["grad", *words, "weight32"])
        new, updates = _master(rule, a, w, g, old, master, 0)
        return Lowered((new,), updates)
    lower.__doc__ = (f"{rule.__doc__} The float32 copy weight32 is updated, the result is its value in the weight's "
                     f"dtype.")
    op(f"mp_{name}", " ".join(["weight grad", *words, "weight32"]), aux=f"{states} weight32", params=alike,
       **attrs)(lower)


for _name in ("sgd_update", "sgd_mom_update", "nag_mom_update"):
    _mixed(_name)


@op("mp_lamb_update_phase1", "weight grad mean var weight32", aux="mean var weight32", params=alike,
    **RULES["lamb_update_phase1"][2])
def mp_lamb_update_phase1(weight: Node, grad: Node, mean: Node, var: Node, weight32: Node, a: Attrs) -> Lowered:
    """lamb_update_phase1 from the float32 copy of the weight; the step is float32."""
    step, (m, v) = lamb_direction(a, weight32, ir.cast(grad, weight32.dtype), mean, var)
    return Lowered((step,), {2: m, 3: v})


@op("mp_lamb_update_phase2", "weight g r1 r2 weight32", aux="weight32", lr=Float(), lower_bound=Float(-1.0),
    upper_bound=Float(-1.0))
def mp_lamb_update_phase2(weight: Node, g: Node, r1: Node, r2: Node, weight32: Node, a: Attrs) -> Lowered:
    """lamb_update_phase2 on the float32 copy of the weight."""
    new = weight32 - g * lamb_rate(r1, r2, a)
    return Lowered((ir.cast(new, weight.dtype),), {4: new})


# ---- many weights in one call
def _groups(name: str, nodes: list[Node], count: int, width: int, extra: int = 0) -> list[list[Node]]:
    """The inputs of each weight; they stand one weight after another."""
    if count < 1 or len(nodes) != count * width + extra:
        raise AttributeValueError(f"{name} takes {width} arrays for each of {count} "
                                  f"weights{f' and {extra} more' if extra else ''}, got {len(nodes)} arrays")
    return [nodes[i * width:(i + 1) * width] for i in range(count)]


def _each(name: str, values: Sequence[float], count: int) -> Sequence[float]:
    if len(values) != count:
        raise AttributeValueError(f"{name} must have a value for each of {count} weights, got {len(values)}")
    return values


def _sgd_many(name: str, momentum: bool, master: bool, preloaded: bool) -> None:
    rule = sgd_momentum if momentum else sgd
    width = 2 + momentum + master

    def lower(nodes: list[Node], a: Attrs) -> Lowered:
        n = a.num_weights
        groups = _groups(name, nodes, n, width, 2 if preloaded else 0)
        lrs: Sequence[Any]
        wds: Sequence[Any]
        if preloaded:
            lrs, wds = ([_entry(x, k) for k in range(n)] for x in _rates(name, nodes[-2:], n))
        else:
            lrs, wds = _each("lrs", a.lrs, n), _each("wds", a.wds, n)
        outputs: list[Node] = []
        updates: dict[int, Node] = {}
        for k, (w, g, *rest) in enumerate(groups):
            check_shapes(w, [g, *rest], ["grad", *["state"] * len(rest)])
            own = a.extended(lr=lrs[k], wd=wds[k])
            states = rest[:1] if momentum else []
            if master:
                new, held = _master(rule, own, w, g, states, rest[-1], k * width)
            else:
                new, values = rule(own, w, g, *states)
                new, held = ir.cast(new, w.dtype), {k * width + 2 + i: v for i, v in enumerate(values)}
            outputs.append(new)
            updates.update(held)
        return Lowered(tuple(outputs), updates)
    lower.__doc__ = f"{rule.__doc__} For num_weights weights, whose arrays stand one weight after another" + (
        "; the learning rates and weight decays are the last two arrays." if preloaded
        else ", with lrs and wds for each.")
    rates: dict[str, Any] = {} if preloaded else {"lrs": Floats(), "wds": Floats()}
    if momentum:
        rates.update(MOMENTUM)
    op(name, "*data", outputs=lambda a: a.num_weights, **rates, rescale_grad=Float(1.0), clip_gradient=Float(-1.0),
       num_weights=Int(1))(lower)


def _entry(x: Node, k: int) -> Node:
    return ir.reshape(ir.slice(x, (k,), (1,)), ())


def _rates(name: str, nodes: Sequence[Node], n: int) -> Sequence[Node]:
    if any(x.shape != (n,) for x in nodes):
        raise ShapeError(f"{name}: the last two arrays, learning rates and weight decays, must be ({n},), got "
                         f"{', '.join(str(x.shape) for x in nodes)}")
    return nodes


for _preloaded in (False, True):
    for _momentum, _middle in ((False, "sgd_update"), (True, "sgd_mom_update")):
        for _copy, _mp in ((False, ""), (True, "mp_")):
            _sgd_many(f"{'preloaded_' if _preloaded else ''}multi_{_mp}{_middle}", _momentum, _copy, _preloaded)


# ---- AdamW: Loshchilov and Hutter, "Decoupled weight decay regularization" (2019)
ADAMW = {**ADAM, "clip_gradient": Float(-1.0)}
ADAMW_RATES: dict[str, Any] = {"lr": Float(), **ADAMW, "wd": Float(0.0), "eta": Float()}


def _adamw(a: Attrs, w: Node, g: Node, mean: Node, var: Node, rescale: Node) -> tuple[Node, tuple[Node, ...]]:
    """AdamW; where rescale_grad is 0 or not finite, as after an overflow, nothing changes."""
    scale = ir.cast(ir.reshape(rescale, ()), w.dtype)
    usable = ir.map("logical_and", ir.map("eq", scale - scale, 0), ir.map("ne", scale, 0))
    g = clipped(g * scale, a.clip_gradient)
    m = mean * a.beta1 + g * (1.0 - a.beta1)
    v = var * a.beta2 + g * g * (1.0 - a.beta2)
    new = w - (m / (ir.map("sqrt", v) + a.epsilon) * a.lr + w * a.wd) * a.eta
    return ir.map("where", usable, new, w), (ir.map("where", usable, m, mean), ir.map("where", usable, v, var))


def _check_rescale(x: Node) -> None:
    if x.size != 1:
        raise ShapeError(f"rescale_grad must have one element, got shape {x.shape}")


@op("_adamw_update", "weight grad mean var rescale_grad", mx=("contrib.adamw_update",),
    json=("_contrib_adamw_update",), aux="mean var", **ADAMW_RATES)
def adamw_update(weight: Node, grad: Node, mean: Node, var: Node, rescale_grad: Node, a: Attrs) -> Lowered:
    """weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight). rescale_grad is an array of one element; where
    it is 0 or not finite nothing changes."""
    check_shapes(weight, [grad, mean, var], ["grad", "mean", "var"])
    _check_rescale(rescale_grad)
    new, (m, v) = _adamw(a, weight, grad, mean, var, rescale_grad)
    return Lowered((new,), {2: m, 3: v})


@op("_mp_adamw_update", "weight grad mean var weight32 rescale_grad", mx=("contrib.mp_adamw_update",),
    json=("_contrib_mp_adamw_update",), aux="mean var weight32",
    **ADAMW_RATES)
def mp_adamw_update(weight: Node, grad: Node, mean: Node, var: Node, weight32: Node, rescale_grad: Node,
                    a: Attrs) -> Lowered:
    """adamw_update through the float32 copy of the weight."""
    check_shapes(weight, [grad, mean, var, weight32], ["grad", "mean", "var", "weight32"])
    _check_rescale(rescale_grad)
    new, (m, v) = _adamw(a, weight32, ir.cast(grad, weight32.dtype), mean, var, rescale_grad)
    return Lowered((ir.cast(new, weight.dtype),), {2: m, 3: v, 4: new})


def _adamw_many(master: bool) -> None:
    name = f"_multi_{'mp_' if master else ''}adamw_update"
    width = 5 if master else 4

    def lower(nodes: list[Node], a: Attrs) -> Lowered:
        n = a.num_weights
        groups = _groups(name, nodes, n, width, 1)
        _check_rescale(nodes[-1])
        lrs, wds, etas = (_each(k, getattr(a, k), n) for k in ("lrs", "wds", "etas"))
        outputs: list[Node] = []
        updates: dict[int, Node] = {}
        for k, (w, g, mean, var, *copy) in enumerate(groups):
            check_shapes(w, [g, mean, var, *copy], ["grad", "mean", "var", "weight32"])
            source = copy[0] if copy else w
            new, (m, v) = _adamw(a.extended(lr=lrs[k], wd=wds[k], eta=etas[k]), source, ir.cast(g, source.dtype), mean,
                                 var, nodes[-1])
            outputs.append(ir.cast(new, w.dtype))
            updates.update({k * width + 2: m, k * width + 3: v, **({k * width + 4: new} if copy else {})})
        return Lowered(tuple(outputs), updates)
    lower.__doc__ = ("adamw_update of num_weights weights, whose arrays stand one weight after another; rescale_grad "
                     "is the last array.")
    op(name, "*data", json=(f"_contrib{name}",), outputs=lambda a: a.num_weights, lrs=Floats(), **ADAMW, wds=Floats(),
       etas=Floats(), num_weights=Int(1))(lower)


def _norm(x: Node) -> Node:
    x = ir.cast(x, dt.float32)
    return ir.reshape(ir.map("sqrt", ir.reduce("sum", x * x, tuple(range(x.ndim)))), (1,))


def _lamb_many(master: bool) -> None:
    name = f"_multi_{'mp_' if master else ''}lamb_update"
    width = 5 if master else 4

    def lower(nodes: list[Node], a: Attrs) -> Lowered:
        n = a.num_tensors
        groups = _groups(name, nodes, n, width)
        lrs, wds, steps = (_each(k, getattr(a, k), n) for k in ("learning_rates", "wds", "step_count"))
        outputs: list[Node] = []
        updates: dict[int, Node] = {}
        for k, (w, g, mean, var, *copy) in enumerate(groups):
            check_shapes(w, [g, mean, var, *copy], ["grad", "mean", "var", "weight32"])
            source = copy[0] if copy else w
            step, (m, v) = lamb_direction(a.extended(wd=wds[k], t=steps[k]), source, ir.cast(g, source.dtype), mean,
                                          var)
            new = source - step * ir.cast(lamb_rate(_norm(source), _norm(step), a.extended(lr=lrs[k])), source.dtype)
            outputs.append(ir.cast(new, w.dtype))
            updates.update({k * width + 2: m, k * width + 3: v, **({k * width + 4: new} if copy else {})})
        return Lowered(tuple(outputs), updates)
    lower.__doc__ = "Both phases of LAMB for num_tensors weights, whose arrays stand one weight after another."
    op(name, "*data", json=(f"_contrib{name}",), outputs=lambda a: a.num_tensors, learning_rates=Floats(),
       beta1=Float(0.9), beta2=Float(0.999), epsilon=Float(1e-6), wds=Floats(),
       rescale_grad=Float(1.0), lower_bound=Float(-1.0), upper_bound=Float(-1.0), clip_gradient=Float(-1.0),
       bias_correction=Bool(True), step_count=Shape(),
       num_tensors=Int(1))(lower)


for _copy in (False, True):
    _adamw_many(_copy)
    _lamb_many(_copy)


# ---- norms, finiteness
@op("multi_sum_sq", "*data", arity_attr="num_arrays", num_arrays=Int(1))
def multi_sum_sq(nodes: list[Node], a: Attrs) -> Node:
    """The sum of squares of each array, float32, shape (num_arrays,)."""
    wide = [ir.cast(x, dt.float32) for x in nodes]
    return ir.concat([ir.reshape(ir.reduce("sum", x * x, tuple(range(x.ndim))), (1,)) for x in wide], 0)


@op("multi_lars", "lrs weights_sum_sq grads_sum_sq wds", eta=Float(), eps=Float(), rescale_grad=Float(1.0))
def multi_lars(lrs: Node, weights_sum_sq: Node, grads_sum_sq: Node, wds: Node, a: Attrs) -> Node:
    """Rates of layers: You et al., "Large batch training of convolutional networks" (2017): lr * eta * |w| / (|g| + wd
    * |w| + eps)."""
    check_shapes(lrs, [weights_sum_sq, grads_sum_sq, wds], ["weights_sum_sq", "grads_sum_sq", "wds"])
    w, g = ir.map("sqrt", weights_sum_sq), ir.map("sqrt", grads_sum_sq)
    both = ir.map("logical_and", ir.map("gt", w, 0), ir.map("gt", g, 0))
    below = g * a.rescale_grad + wds * w + a.eps
    return ir.map("where", both, lrs * w * a.eta / ir.map("where", both, below, 1), lrs)


def finite(nodes: Sequence[Node]) -> Node:
    """Whether no element of some values is an infinity or a NaN: a node without axes."""
    tops = [ir.cast(ir.reduce("max", ir.map("abs", x), tuple(range(x.ndim))), dt.float32) for x in nodes
            if x.size and dt.is_float(x.dtype)]
    return ir.map("isfinite", functools.reduce(lambda a, b: ir.map("maximum", a, b), tops, ir.full(0, (), dt.float32)))


def _finite(nodes: Sequence[Node]) -> Node:
    return ir.reshape(ir.cast(finite(nodes), dt.float32), (1,))


def _all_finite_eager(xp: Any, arrays: Any, a: Attrs) -> Any:
    """By NumPy's own function."""
    return [xp.asarray([xp.isfinite(x).all() for x in arrays], dtype=dt.float32).min(keepdims=True)]


@op("all_finite", "data", eager=_all_finite_eager, init_output=Bool(True))
def all_finite(data: Node, a: Attrs) -> Node:
    """1 where every element is finite, else 0; shape (1,)."""
    return _finite([data])


@op("multi_all_finite", "*data", eager=_all_finite_eager, arity_attr="num_arrays", num_arrays=Int(1),
    init_output=Bool(True))
def multi_all_finite(nodes: list[Node], a: Attrs) -> Node:
    """1 where every element of every array is finite, else 0; shape (1,)."""
    return _finite(nodes)


@op("reset_arrays", "*data", arity_attr="num_arrays", outputs=lambda a: 0, num_arrays=Int(1))
def reset_arrays(nodes: list[Node], a: Attrs) -> Lowered:
    """Fill arrays with zeros, in place."""
    return Lowered((), {k: ir.full(0, x.shape, x.dtype) for k, x in enumerate(nodes)})
