"""Functions whose derivatives JAX has recorded (oracle/record_transforms.py): name, expression, shape of x."""
from __future__ import annotations

import numpy as onp

CASES = [
    ("square", "x ** 2", (3,)), ("cube", "x * x * x", (2, 2)), ("sin", "np.sin(x)", (3,)),
    ("cos", "np.cos(2 * x)", (3,)),
    ("exp", "np.exp(-x)", (3,)), ("log", "np.log(x ** 2 + 1)", (3,)), ("sqrt", "np.sqrt(x ** 2 + 2)", (3,)),
    ("tanh", "np.tanh(x)", (2, 3)), ("sigmoid", "1 / (1 + np.exp(-x))", (3,)),
    ("softplus", "np.log(1 + np.exp(x))", (3,)),
    ("arctan", "np.arctan(x)", (3,)), ("sinh", "np.sinh(x)", (3,)), ("power", "(x ** 2 + 1) ** 1.5", (3,)),
    ("quotient", "x / (x ** 2 + 3)", (3,)), ("absolute", "np.abs(x + 10)", (3,)), ("sum", "np.sum(x ** 3)", (4,)),
    ("mean", "np.mean(x ** 2, axis=0)", (3, 2)), ("prod", "np.prod(x + 2)", (3,)), ("max", "np.max(x, axis=1)", (2, 3)),
    ("min", "np.min(x ** 2 + x)", (4,)), ("var", "np.var(x)", (4,)), ("norm", "np.sqrt(np.sum(x * x) + 1)", (4,)),
    ("cumsum", "np.cumsum(x ** 2)", (4,)), ("dot", "np.dot(x, x)", (3,)), ("matmul", "np.matmul(x, x)", (2, 2)),
    ("gram", "np.dot(x, x.T)", (2, 3)), ("outer", "x.reshape(3, 1) * x.reshape(1, 3)", (3,)),
    ("quadratic", "np.dot(x, np.dot(np.ones((3, 3)), x))", (3,)), ("softmax", "np.exp(x) / np.sum(np.exp(x))", (4,)),
    ("logsumexp", "np.log(np.sum(np.exp(x)))", (4,)), ("transpose", "x.T * 2", (2, 3)),
    ("reshape", "x.reshape(3, 2) ** 2", (2, 3)),
    ("slice", "x[1:3] ** 2", (4,)), ("stride", "x[::2] * x[1::2]", (4,)), ("reverse", "x[::-1] * x", (4,)),
    ("index", "x[2] * x", (4,)), ("concatenate", "np.concatenate([x, x ** 2])", (3,)),
    ("stack", "np.stack([x, np.sin(x)])", (3,)),
    ("where", "np.where(x > 0, x ** 2, np.sin(x))", (4,)), ("maximum", "np.maximum(x, x ** 2)", (4,)),
    ("clip", "np.clip(x, -0.5, 0.5) * x", (4,)), ("tile", "np.tile(x, 2) ** 2", (3,)),
    ("repeat", "np.repeat(x, 2) * 3", (3,)),
    ("expand", "np.expand_dims(x, 0) * x.reshape(3, 1)", (3,)), ("take", "np.take(x, np.array([0, 2, 2])) ** 2", (3,)),
    ("rosenbrock", "np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)", (4,)),
    ("gelu", "0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x ** 3)))", (4,)),
    ("layer_norm", "(x - np.mean(x)) / np.sqrt(np.var(x) + 0.1)", (4,)),
    ("mlp", "np.tanh(np.dot(np.tanh(np.dot(x, np.ones((3, 4)) * 0.3)), np.ones((4, 2)) * 0.2))", (3,)),
    ("nested", "np.sin(np.exp(np.cos(x)) * x)", (3,)), ("sort_free", "np.dot(x, np.sin(x)) * x", (3,)),
    ("einsum", "np.einsum('ij,jk->ik', x, x)", (2, 2)),
]


def function(expression: str, np: object) -> object:
    """The function of an expression, with a NumPy-like module."""
    return eval(f"lambda x: {expression}", {"np": np})


def point(shape: tuple[int, ...], batch: int = 0) -> onp.ndarray:
    """Where a case is differentiated; with batch several such points."""
    whole = (batch, *shape) if batch else shape
    return onp.random.RandomState(len(whole) * 7 + sum(whole)).uniform(-1, 1, whole)
