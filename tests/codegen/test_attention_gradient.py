"""Gradients of attention computed block by block: the values of eager gradients, and no matrix of all weights in
memory."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.codegen.printers.rows import scan
from hybrid.gluon import nn
from hybrid.passes import attention_gradient

from ..cpu_kernels import random

Net = Callable[..., Any]


def plain(q: Any, k: Any, v: Any, m: Any) -> Any:
    return nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True) * 0.3), v)


def added_mask(q: Any, k: Any, v: Any, m: Any) -> Any:
    return nd.batch_dot(nd.softmax(nd.batch_dot(q, k, transpose_b=True) + m.expand_dims(1)), v)


def causal(q: Any, k: Any, v: Any, m: Any) -> Any:
    rows, keys = nd.arange(q.shape[1]), nd.arange(k.shape[1])
    seen = nd.broadcast_greater_equal(rows.reshape((1, -1, 1)), keys.reshape((1, 1, -1)))
    scores = nd.batch_dot(q, k, transpose_b=True) * 0.2
    return nd.batch_dot(nd.softmax(nd.where(nd.broadcast_to(seen, scores.shape), scores, nd.ones_like(scores) * -1e9)),
                        v)


def multiplied(q: Any, k: Any, v: Any, m: Any) -> Any:
    """Weights times something, keys and queries exchanged."""
    scores = nd.batch_dot(k, q, transpose_b=True).transpose((0, 2, 1))
    return nd.batch_dot(nd.softmax(scores) * nd.broadcast_to(nd.sigmoid(m).expand_dims(1), scores.shape), v)


def heads(q: Any, k: Any, v: Any, m: Any) -> Any:
    """Batch and heads are axes of their own."""
    q, k, v = (x.reshape((2, -1, *x.shape[1:])).as_np_ndarray() for x in (q, k, v))
    scores = mx.np.matmul(q, mx.np.swapaxes(k, 2, 3)) * 0.25
    return mx.np.matmul(mx.npx.softmax(scores, axis=-1), v).as_nd_ndarray().reshape((-1, q.shape[2], v.shape[3]))


FORMS: dict[str, Net] = {f.__name__: f for f in (plain, added_mask, causal, multiplied, heads)}
# heads, queries, keys, depth of queries, depth of values; bytes of a block of scores
SIZES = {"rows": (2, 48, 33, 7, 5, 16 * 33 * 4), "heads": (6, 20, 31, 8, 8, 2 * 20 * 31 * 4),
         "prime": (4, 23, 65, 3, 17, 23 * 65 * 4), "wide": (2, 64, 16, 33, 40, 16 * 16 * 4)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_values(form: str, size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, rows, keys, depth, width, block = SIZES[size]
    monkeypatch.setattr(attention_gradient, "LEAST", 1)
    monkeypatch.setattr(attention_gradient, "BLOCK", block)
    # whether threads do different steps
    monkeypatch.setattr(scan, "PARALLEL_WORK", 1 if size in ("heads", "wide") else 1 << 30)
    xs = [nd.array(a) for a in (random(n, rows, depth), random(n, keys, depth), random(n, keys, width),
                                random(n, keys))]
    head = nd.array(random(n, rows, width))
    net = mx.hybridize(FORMS[form])
    results = []
    for f in (FORMS[form], net):
        for x in xs:
            x.attach_grad()
        with autograd.record():
            y = f(*xs)
        y.backward(head)
        results.append([y.asnumpy(), *(x.grad.asnumpy() for x in xs)])
    for got, want in zip(*results[::-1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5 * max(1.0, float(np.abs(want).max())))
    said = str(net.report())
    forward, backward = said.split("kept for the backward pass: ")
    assert "[attention]" in forward and "[loop]" in backward, said


def test_a_whole_step_stores_no_matrix_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers of attention, loss and update as one program."""
    monkeypatch.setattr(attention_gradient, "LEAST", 1)
    monkeypatch.setattr(attention_gradient, "BLOCK", 16 * 64 * 4)
    x, target = nd.array(random(2, 64, 6)), nd.array(random(2, 64, 6))
    results = []
    for compiled in (False, True):
        mx.random.seed(1)
        net = nn.Dense(6, flatten=False, in_units=6)
        net.initialize(mx.init.Xavier())
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})

        def step(x: Any, net: Any = net, trainer: Any = trainer) -> Any:
            with autograd.record():
                y = plain(net(x), x, x, None)
                loss = ((plain(y, net(y), y, None) - target) ** 2).sum()
            loss.backward()
            trainer.step(1)
            return loss
        f = mx.hybridize(step) if compiled else step
        losses = [f(x).asnumpy() for _ in range(3)]
        results.append([*losses, *(p.data().asnumpy() for p in net.collect_params().values())])
    for got, want in zip(*results[::-1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    kernels = list(f._engine.entries.values())[-1].exe.planned.fused.kernels
    assert [k.kind for k in kernels].count("attention") == 2 and [k.kind for k in kernels].count("loop") == 2
    assert all(n.size < 2 * 64 * 64 for k in kernels for n in k.stores)


def weights_too(q: Any, k: Any, v: Any, m: Any) -> Any:
    p = nd.softmax(nd.batch_dot(q, k, transpose_b=True))
    return nd.concat(nd.batch_dot(p, v), p, dim=2)


def dropped(q: Any, k: Any, v: Any, m: Any) -> Any:
    return nd.batch_dot(nd.Dropout(nd.softmax(nd.batch_dot(q, k, transpose_b=True)), p=0.5), v)


@pytest.mark.parametrize("form", (weights_too, dropped), ids=lambda f: f.__name__)
def test_what_stays(form: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are a result, and random numbers, which are drawn by their place in the whole matrix."""
    monkeypatch.setattr(attention_gradient, "LEAST", 1)
    monkeypatch.setattr(attention_gradient, "BLOCK", 16 * 32 * 4)
    start = [random(2, 32, 4) for _ in range(3)]
    results = []
    for f in (form, mx.hybridize(form)):
        mx.random.seed(3)
        xs = [nd.array(a) for a in start]
        for x in xs:
            x.attach_grad()
        with autograd.record():
            y = (f(*xs, None) ** 2).sum()
        y.backward()
        results.append([y.asnumpy(), *(x.grad.asnumpy() for x in xs)])
    for got, want in zip(*results[::-1], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
