"""Loops and recurrent layers in programs for any size: any number of steps, any batch, values and
gradients as eagerly."""
from __future__ import annotations

from typing import Any

import numpy
import pytest

import hybrid as mx
from hybrid import autograd, gluon, hybridize, nd
from hybrid.gluon import rnn
from hybrid.jit.compile_policy import eagerly

SIZES = (5, 9, 2, 7, 3, 17, 33)
C = nd.contrib
CASES: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "steps": (lambda x: C.foreach(lambda s, c: (s + c, nd.tanh(s + c)), x, nd.zeros((3,))), [("n", 3)]),
    "batch": (lambda x: C.foreach(lambda s, c: (s + c, nd.tanh(s + c)), x, nd.zeros_like(x[0])), [(4, "n", 3)]),
    "steps and batch": (lambda x, w: C.foreach(lambda s, c: (s + c, nd.tanh(nd.dot(s, w) + c)), x, nd.zeros_like(x[0])),
                        [("n", "m", 3), (3, 3)]),
    "loops in loops": (lambda x: C.foreach(
        lambda s, c: (C.foreach(lambda r, d: (r * d, nd.tanh(d + c)), s, c)[0].sum(axis=0), c * 2), x,
        nd.zeros_like(x[0])), [("n", "n", "m")]),
    "while": (lambda x: C.while_loop(lambda i, s: i < 3, lambda i, s: (s.sum(axis=1), (i + 1, nd.tanh(s) * 0.5)),
                                     (nd.zeros((1,)), x), max_iterations=5), [("n", 4)]),
    "sizes as numbers": (lambda x: C.foreach(lambda s, c: (s / x.shape[0] ** 0.5, c * 0.1 + s / c.shape[0]), x,
                                             nd.zeros_like(x[0])), [("n", "m", 3)]),
    "cond": (lambda x: C.cond(x.sum() > 1, lambda: x * 2, lambda: x - 1), [("n", 4)]),
}


def _flat(y: Any) -> list[nd.NDArray]:
    return [y] if isinstance(y, nd.NDArray) else [z for x in y for z in _flat(x)]


def _run(function: Any, given: list[numpy.ndarray], recorded: bool) -> list[numpy.ndarray]:
    arrays = [nd.array(x) for x in given]
    for x in arrays:
        x.attach_grad()
    if not recorded:
        return [y.asnumpy() for y in _flat(function(*arrays))]
    with autograd.record():
        loss = sum((y * y).sum() for y in _flat(function(*arrays)))
    loss.backward()
    return [x.grad.asnumpy() for x in arrays]


@pytest.mark.parametrize("recorded", (False, True))
@pytest.mark.parametrize("name", CASES)
def test_a_loop_at_any_size(name: str, recorded: bool) -> None:
    function, shapes = CASES[name]
    compiled, draw = hybridize(function), numpy.random.RandomState(1)
    for n in SIZES:
        given = [draw.randn(*({"n": n, "m": n + 1}.get(d, d) for d in s)).astype("float32") * 0.4 for s in shapes]
        found = _run(compiled, given, recorded)
        with eagerly():
            wanted = _run(function, given, recorded)
        for a, b in zip(found, wanted, strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=str(n))
    assert len(compiled.programs) == 1, compiled._engine._any_size.why      # it took over the first size's


@pytest.mark.parametrize("layer", (rnn.LSTM, rnn.GRU, rnn.RNN))
def test_steps_of_a_recurrent_network_at_any_size(layer: Any, tmp_path: Any) -> None:
    """Sequences of any length in batches of any size: one program trains the network as eager code does."""
    net, found = layer(8, 2, bidirectional=True), []
    net.initialize(mx.init.Xavier())
    net(nd.ones((2, 2, 3)))
    net.save_parameters(str(tmp_path / "begin"))

    def step(x: nd.NDArray) -> nd.NDArray:
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
        return loss
    for one in (step, hybridize(step)):
        net.load_parameters(str(tmp_path / "begin"))
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        draw = numpy.random.RandomState(1)
        found.append([one(nd.array(draw.randn(n, n + 2, 3))).asscalar() for n in SIZES])
    numpy.testing.assert_allclose(*found, rtol=1e-4)
    assert len(one.programs) == 1, one._engine._any_size.why


DRAWING = {
    "in each step": lambda x: nd.random.normal(shape=(3,)) + C.foreach(
        lambda s, c: (s + nd.random.normal(shape=(3,)) * nd.random.uniform(shape=(3,)), c), x, nd.zeros((3,)))[0],
    "dropout": lambda x: C.foreach(lambda s, c: (nd.Dropout(s, p=0.5) + c, c), x, nd.zeros_like(x[0]))[0],
    "loops in loops": lambda x: nd.random.normal(shape=(3,)) + C.foreach(
        lambda s, c: (C.foreach(lambda r, d: (r + nd.random.normal(shape=(3,)), d), s.expand_dims(0), c)[0][0], c), x,
        nd.zeros((3,)))[0],
}


@pytest.mark.parametrize("name", DRAWING)
def test_loops_that_draw_at_any_size(name: str) -> None:
    """How many numbers a call draws depends on its steps: those of later calls are eager code's, too."""
    function = DRAWING[name]
    compiled = hybridize(function)
    for n in SIZES:
        x, found = nd.array(numpy.random.RandomState(n).randn(n, 3)), []
        for one in (function, compiled):
            mx.random.seed(3)
            with autograd.train_mode():
                found.append([one(x).asnumpy(), nd.random.uniform(shape=(2,)).asnumpy()])
        for a, b in zip(*found):
            numpy.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=str(n))
    assert len(compiled.programs) == 1, compiled._engine._any_size.why
