"""Operators far out: gradients of activations and losses stay numbers at huge inputs, scalar functions agree with the
reference at zeros, infinities, poles and nan, in compiled C too; and the order of equal keys and nan."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, ir, nd, runtime
from hybrid.base.device import cpu
from hybrid.base.errors import DTypeError
from hybrid.ir.scalar import SCALARS
from hybrid.runtime import reference

HUGE = {"float32": [-1e30, -1e4, -88.9, -1.0, -0.0, 0.0, 1.0, 88.9, 1e4, 1e30],
        "float16": [-6e4, -1e3, -11.5, -1.0, 0.0, 1.0, 11.5, 1e3, 6e4]}
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    **{kind: (lambda x, k=kind: nd.Activation(x, act_type=k))
       for kind in ("relu", "sigmoid", "tanh", "softrelu", "softsign", "log_sigmoid", "mish")},
    **{kind: (lambda x, k=kind: nd.LeakyReLU(x, act_type=k)) for kind in ("leaky", "elu", "selu", "gelu")},
    "softmax": nd.softmax, "log_softmax": nd.log_softmax, "hard_sigmoid": nd.hard_sigmoid, "smooth_l1": nd.smooth_l1,
    "clip": lambda x: nd.clip(x, -1, 1),
    "softmax cross entropy": lambda x: nd.softmax_cross_entropy(x.reshape((1, -1)), nd.array([2])),
}


@pytest.mark.parametrize("dtype", HUGE)
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_are_numbers(name: str, hybridized: bool, dtype: str) -> None:
    """No nan and no infinity in a gradient, however large the input."""
    x = nd.array(HUGE[dtype], dtype=dtype)
    x.attach_grad()
    call = mx.hybridize(ACTIVATIONS[name]) if hybridized else ACTIVATIONS[name]
    with autograd.record():
        y = call(x)
    y.backward()
    assert np.isfinite(x.grad.asnumpy().astype(np.float64)).all(), x.grad


@pytest.mark.parametrize("name, middle", [("softrelu", 0.5), ("log_sigmoid", 0.5), ("elu", 0.25), ("relu", 0.0),
                                          ("softsign", 1.0), ("sigmoid", 0.25)])
def test_gradients_at_zero(name: str, middle: float) -> None:
    """At 0, where one-sided formulas meet, the gradient is MXNet's."""
    for call in (ACTIVATIONS[name], mx.hybridize(ACTIVATIONS[name])):
        x = nd.zeros((3,))
        x.attach_grad()
        with autograd.record():
            y = call(x)
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), middle, rtol=1e-6)


POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388609.0, 3.0, -3.0, 30.5, np.inf, -np.inf,
          np.nan, 1e-20, 88.5, -88.5]
POLES = {"digamma", "trigamma"}                              # at 0, -1, -2 … libraries differ


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_scalar_functions(dtype: str) -> None:
    """Every row of the scalar table in C is the reference, at all pairs of delicate points."""
    with np.errstate(all="ignore"):
        a, b = (v.ravel() for v in np.meshgrid(np.array(POINTS).astype(dtype), np.array(POINTS).astype(dtype)))
    leaves = [ir.input(0, a.shape, dtype), ir.input(1, a.shape, dtype), ir.input(2, a.shape, bool)]
    outputs, names = [], []
    for name, row in SCALARS.items():
        try:
            outputs.append(ir.map(name, *{1: leaves[:1], 2: leaves[:2], 3: [leaves[2], *leaves[:2]]}[row.arity]))
            names.append(name)
        except DTypeError:                                  # functions of integers
            continue
    program = ir.Program(tuple(leaves), tuple(outputs))
    arrays = [a, b, a > 0]
    expected = reference.run(program, arrays, np)[0]
    tol = {"float64": 1e-11, "float32": 5e-6, "float16": 4e-3}[dtype]
    wrong = []
    for name, e, g in zip(names, expected, runtime.compile(program, cpu())(arrays)):
        keep = np.isfinite(a) & ((a > 0) | (a != np.floor(a))) if name in POLES else np.ones(a.shape, bool)
        ok = np.isclose(g.astype(np.float64), e.astype(np.float64), rtol=tol, atol=tol / 10, equal_nan=True)
        wrong += [(name, float(a[k]), float(b[k]), g[k].item(), e[k].item()) for k in np.flatnonzero(keep & ~ok)[:3]]
    assert not wrong, f"function, arguments, C, reference: {wrong}"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int64", "bool"])
@pytest.mark.parametrize("n", [1, 2, 3, 31, 64, 1000])
def test_order(dtype: str, n: int) -> None:
    """Stable in both directions for every dtype and length; nan is the largest."""
    rng = np.random.default_rng(n)
    keys = rng.integers(0, 5, (4, n)).astype(dtype)
    if dtype.startswith("float"):
        keys[rng.random(keys.shape) < 0.2] = np.nan
        keys[rng.random(keys.shape) < 0.1] = -np.inf
    x = ir.input(0, keys.shape, dtype)
    program = ir.Program((x,), (ir.argsort(x), ir.argsort(x, True)))
    up = np.argsort(keys, -1, kind="stable")
    down = n - 1 - np.argsort(keys[:, ::-1], -1, kind="stable")[:, ::-1]
    for got in (reference.run(program, [keys], np)[0], runtime.compile(program, cpu())([keys])):
        np.testing.assert_array_equal(got[0], up)
        np.testing.assert_array_equal(got[1], down)
