"""The benchmark networks as JAX functions with the same weights, and training steps."""
from __future__ import annotations

from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from nets import Step
from symbols import Table, run, sizes, traced, weights_of


def _dense(a: Any, x: Any, w: Any, b: Any = 0.0) -> Any:
    return (x.reshape(x.shape[0], -1) if a.flatten else x) @ w.T + b


def _pooling(a: Any, x: Any) -> Any:
    if a.global_pool:
        return (jnp.mean if a.pool_type == "avg" else jnp.max)(x, (2, 3), keepdims=True)
    start, reducer = (-np.inf, lax.max) if a.pool_type == "max" else (0.0, lax.add)
    out = lax.reduce_window(x, np.array(start, x.dtype), reducer, (1, 1, *a.kernel), (1, 1, *a.stride),
                            [(0, 0), (0, 0), *[(p, p) for p in a.pad]])
    return out if a.pool_type == "max" else out / (a.kernel[0] * a.kernel[1])


def _convolution(a: Any, x: Any, w: Any, b: Any = None) -> Any:
    out = lax.conv_general_dilated(x, w, tuple(a.stride), [(p, p) for p in a.pad], rhs_dilation=tuple(a.dilate),
                                   feature_group_count=a.num_group)
    return out if b is None else out + b[:, None, None]


def _batch_norm(a: Any, x: Any, gamma: Any, beta: Any, mean: Any, var: Any) -> Any:
    scale = gamma * lax.rsqrt(var + a.eps)
    return x * scale[:, None, None] + (beta - mean * scale)[:, None, None]


def _layer_norm(a: Any, x: Any, gamma: Any, beta: Any) -> Any:
    y = x - x.mean(-1, keepdims=True)
    return y * lax.rsqrt((y * y).mean(-1, keepdims=True) + a.eps) * gamma + beta


OPERATORS: Table = {
    "FullyConnected": _dense, "Pooling": _pooling, "Convolution": _convolution, "BatchNorm": _batch_norm,
    "LayerNorm": _layer_norm,
    "Flatten": lambda a, x: x.reshape(x.shape[0], -1),
    "Activation": lambda a, x: {"relu": jax.nn.relu, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid}[a.act_type](x),
    "softmax": lambda a, x: jax.nn.softmax(x, a.axis), "LeakyReLU": lambda a, x: jax.nn.gelu(x, approximate=False),
    "clip": lambda a, x: jnp.clip(x, a.a_min, a.a_max),
    "tanh": lambda a, x: jnp.tanh(x), "elemwise_add": lambda a, x, y: x + y, "elemwise_mul": lambda a, x, y: x * y,
    "_plus_scalar": lambda a, x: x + a.scalar,
    "_mul_scalar": lambda a, x: x * a.scalar, "dot": lambda a, x, y: x @ y,
    "batch_dot": lambda a, x, y: x @ (y.transpose(0, 2, 1) if a.transpose_b else y),
    "transpose": lambda a, x: x.transpose(*a.axes), "Reshape": lambda a, x: x.reshape(sizes(x.shape, a.shape)),
}


def jitted(net: Any, inputs: int, dtype: str = "float32") -> Callable[..., Any]:
    """A jitted function of arrays that does not wait; its weights lie on the device in that dtype."""
    symbol, names = traced(net, inputs)
    weights = {name: jnp.asarray(w, dtype) for name, w in weights_of(net).items()}
    function = jax.jit(lambda weights, *xs: run(symbol, OPERATORS, {**weights, **dict(zip(names, xs))}))
    return lambda *xs: function(weights, *xs)


def to_jax(net: Any, inputs: int) -> Callable[..., Any]:
    """A jitted function of arrays that waits for its result."""
    function = jitted(net, inputs)
    return lambda *xs: function(*xs).block_until_ready()


def jax_step(net: Any, work: Step) -> Callable[..., Any]:
    """A jitted training step; weights and states are given up to it (donated)."""
    symbol, names = traced(net, 1)
    state: Any = {name: jnp.asarray(w) for name, w in weights_of(net).items()}
    if work.optimizer == "adam":
        state = (state, jax.tree.map(jnp.zeros_like, state), jax.tree.map(jnp.zeros_like, state), jnp.zeros(()))

    def loss(weights: Any, x: Any, y: Any) -> Any:
        logp = jax.nn.log_softmax(run(symbol, OPERATORS, {**weights, names[0]: x}))
        return -jnp.take_along_axis(logp, y[:, None], 1).mean()

    def sgd(weights: Any, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(weights, x, y)
        return value, jax.tree.map(lambda w, g: w - work.rate * g, weights, grads)

    def adam(state: Any, x: Any, y: Any) -> Any:
        weights, m, v, t = state
        value, grads = jax.value_and_grad(loss)(weights, x, y)
        t = t + 1
        rate = work.rate * jnp.sqrt(1 - 0.999 ** t) / (1 - 0.9 ** t)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        return value, (jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), weights, m, v), m, v, t)
    jitted = jax.jit({"sgd": sgd, "adam": adam}[work.optimizer], donate_argnums=0)
    kept = [state]

    def step(x: Any, y: Any) -> Any:
        value, kept[0] = jitted(kept[0], x, y)
        return jax.block_until_ready((value, kept[0]))[0]
    return step
