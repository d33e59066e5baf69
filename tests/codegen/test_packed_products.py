"""Products with matrices of parameters: packed beforehand for inference; values against float64 at odd sizes, threads,
sanitizers, changed parameters."""
from __future__ import annotations

from pathlib import Path
from typing import Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, ir, nd
from hybrid.jit import compiled_call
from hybrid.jit.compiled_call import CHANGES, SELDOM
from hybrid.gluon import nn
from hybrid.ir import Node, Program
from hybrid.passes import layout
from hybrid.runtime import cpu

from ..cpu_kernels import random, run_sanitized, vectors_of, without_sanitizers
from .exact_values import checked, compare, exact

# name: leading axes of the data, depth, columns
SHAPES: dict[str, tuple[tuple[int, ...], int, int]] = {
    "three": ((3,), 3, 17),
    "seventeen": ((17,), 17, 17),
    "one_row": ((1,), 65, 63),
    "row_in_parts": ((1,), 64, 31),
    "63_65": ((63,), 65, 63),
    "primes": ((5, 13), 101, 131),
    "steps": ((2, 3, 7), 33, 65),
    "shallow": ((65,), 1, 48),
    "apart": ((29,), 512, 37),
}


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "LEAST_WORK", 1)


def dense(x: Node, w: Node, b: Node) -> Node:
    return ir.dot(x, w, ((x.ndim - 1,), (1,))) + b


def activated(x: Node, w: Node, b: Node) -> Node:
    y = dense(x, w, b)
    return y * (ir.map("erf", y * 0.7) + 1.0)


def residual(x: Node, w: Node, b: Node) -> Node:
    y = dense(ir.map("tanh", x), w, b)
    return ir.map("relu", y + ir.reduce("sum", x, (x.ndim - 1,), True))


def turned(x: Node, w: Node, b: Node) -> Node:
    """Parameters as (depth, columns)."""
    return ir.dot(x, ir.reshape(w, w.shape[::-1]), ((x.ndim - 1,), (0,))) - b


FORMS: dict[str, Callable[[Node, Node, Node], Node]] = {f.__name__: f for f in (dense, activated, residual, turned)}


def program(form: str, shape: str) -> tuple[Program, list[np.ndarray]]:
    lead, depth, columns = SHAPES[shape]
    arrays = [random(*lead, depth), random(columns, depth), random(columns)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    p = Program(leaves, (FORMS[form](*leaves),))
    p.memo["frozen"] = frozenset({1, 2})
    return p, arrays


@pytest.mark.parametrize("width", (64, 32, 16), ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_values(form: str, shape: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    p, arrays = program(form, shape)
    exe = checked(p, arrays, monkeypatch)
    assert exe.prepare is not None and any(k.kind == "convolution" for k in exe.planned.fused.kernels)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", ("activated", "turned"))
def test_sanitized(form: str, shape: str, tmp_path: Path) -> None:
    if why := without_sanitizers(tmp_path):
        pytest.skip(why)
    p, arrays = program(form, shape)
    compare(run_sanitized(cpu.compiled(p), arrays, tmp_path), exact(p, arrays))


def test_parameters_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained, assigned and replaced parameters are packed again; the report lists what is packed."""
    monkeypatch.setattr(compiled_call, "CHANGES", 99)
    net = nn.Dense(40, in_units=24, activation="relu")
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = nd.array(random(9, 24))
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    for _ in range(3):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(9)
        want = np.maximum(x.asnumpy() @ net.weight.data().asnumpy().T + net.bias.data().asnumpy(), 0)
        np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-4, atol=1e-5)
    net.weight.data()[:] = 0.25
    np.testing.assert_allclose(net(x).asnumpy(), np.maximum(0.25 * x.asnumpy().sum(1, keepdims=True) + net.bias.data().asnumpy(), 0), rtol=1e-4, atol=1e-5)  # noqa: E501
    net.weight.set_data(nd.zeros((40, 24)))
    np.testing.assert_allclose(net(x).asnumpy(), np.broadcast_to(np.maximum(net.bias.data().asnumpy(), 0), (9, 40)),
                               rtol=1e-5)
    assert "weights [40, 24] packed as" in str(net.report())


@pytest.mark.parametrize("depth", [521, 512, 64])
@pytest.mark.parametrize("filters", [16, 31, 48, 257, 523])
def test_one_row(monkeypatch: pytest.MonkeyPatch, filters: int, depth: int) -> None:
    """Weights that no first cache holds are read one after another, as they are packed; sums are of parts where they
    are few and the depth allows it."""
    if filters * depth >= 1 << 14:
        monkeypatch.undo()
    arrays = [random(1, depth), random(filters, depth), random(filters)]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    p = Program(leaves, (dense(*leaves),))
    p.memo["frozen"] = frozenset({1, 2})
    exe = cpu.compiled(p)
    assert exe.prepare is not None and [k.kind for k in exe.planned.fused.kernels] == ["convolution"]
    compare(exe(arrays), exact(p, arrays))


def test_small_products_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that a first cache holds are not packed for one row; nor where little is computed, nor what is very
    large."""
    monkeypatch.undo()
    monkeypatch.setattr(layout, "MOST_BYTES", 4 * 64 * 1024)
    for rows, columns in ((1, 255), (32, 16), (64, 1025)):
        leaves = tuple(ir.input(i, s, np.float32) for i, s in enumerate(((rows, 64), (columns, 64))))
        p = Program(leaves, (ir.dot(*leaves, ((1,), (1,))),))
        p.memo["frozen"] = frozenset({1})
        assert cpu.compiled(p).prepare is None, (rows, columns)


@pytest.mark.parametrize("rows", [1, 8, 65])
def test_weights_that_change_again_and_again(rows: int) -> None:
    """An agent that acts and learns by turns: packing costs more than it saves. What does not change stays packed."""
    x = nd.array(random(rows, 96))
    nets = [nn.HybridSequential() for _ in range(2)]
    for net in nets:
        net.add(nn.Dense(48, activation="relu", in_units=96), nn.Dense(33, in_units=48))
        net.initialize()
        net.hybridize()
    learning, still = nets
    want = still(x).asnumpy()
    for i in range(6):
        if i:
            assert ("weights packed" in str(learning.report())) == (i <= CHANGES)
        learning[0].weight.data()[:] = 0.5 ** i
        learning[1].weight.data()[i] = i
        hidden = np.maximum(0.5 ** i * x.asnumpy().sum(1, keepdims=True) + learning[0].bias.data().asnumpy(), 0)
        exactly = hidden @ learning[1].weight.data().asnumpy().T + learning[1].bias.data().asnumpy()
        for _ in range(2):
            np.testing.assert_allclose(learning(x).asnumpy(), exactly, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(still(x).asnumpy(), want)
    assert "weights packed" in str(still.report())


def test_weights_that_change_after_many_calls() -> None:
    """Epochs with a validation set after each: what packing saves comes back, whatever else happens between the
    calls."""
    net, x = nn.Dense(48, in_units=96), nd.array(random(8, 96))
    net.initialize()
    net.hybridize()
    for i in range(2 * CHANGES):
        net.weight.data()[:] = 0.5 ** i
        for k in range(SELDOM + 1):
            y = net(x)
            if k % 8 == 7:
                nn.Dense(2, in_units=2).initialize()           # programs keep addresses: these are looked up again
        np.testing.assert_allclose(y.asnumpy(), np.broadcast_to(0.5 ** i * x.asnumpy().sum(1, keepdims=True), (8, 48)),
                                   rtol=1e-4, atol=1e-5)
    assert "weights packed" in str(net.report())


def test_matrices_of_products() -> None:
    """Products of other kinds (outer ones, batches, vectors) are told from them."""
    row, rows, vector, matrix, other, batch = (ir.input(i, s, np.float32)
                                               for i, s in enumerate(((1, 6), (3, 6), (6,), (5, 6), (6, 5), (2, 6, 5))))
    products = (ir.dot(row, matrix, ((1,), (1,))), ir.dot(rows, other, ((1,), (0,))), ir.dot(vector, matrix, ((), ())),
                ir.dot(vector, batch, ((0,), (1,))))
    assert layout.of_products(Program((row, rows, vector, matrix, other, batch), products)) == {3, 4}
    assert layout.of_products(Program((row, rows, vector, matrix, other, batch), products[2:])) == frozenset()
