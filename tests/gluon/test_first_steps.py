"""The first steps of a network whose shapes are not known, and steps through the launcher."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.buffers.array import wrap
from hybrid.base.device import find_cupy
from hybrid.gluon import nn
from hybrid.runtime import launcher
from hybrid.runtime.bound import Bound
from hybrid.base.pytree import flatten
from ..jit.test_training_step import LOSS, RESULTS, data, net_of, train, weights


@pytest.mark.parametrize("name", ["sgd", "adam", "nag"])
@pytest.mark.parametrize("partly", [False, True], ids=["all", "some"])
def test_the_first_step_finds_shapes(name: str, partly: bool) -> None:
    """Layers without input sizes in a step that is compiled at once: as eagerly, and counted once."""
    def net_without_sizes() -> Any:
        mx.random.seed(3)
        net = nn.HybridSequential()
        net.add(nn.Dense(8, activation="relu", in_units=4 if partly else 0), nn.Dense(5, activation="tanh"),
                nn.Dense(3))
        net.initialize(mx.init.Xavier())
        return net
    nets, trainers, losses = [], [], []
    for compiled in (False, True):
        nets.append(net_without_sizes())
        trainers.append(gluon.Trainer(nets[-1].collect_params(), name, {"learning_rate": 0.1}))
        losses.append(train(nets[-1], trainers[-1], compiled))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5, atol=1e-6)
    for a, b in zip(weights(nets[1]), weights(nets[0])):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert trainers[1]._optimizer.num_update == trainers[0]._optimizer.num_update == 5


def test_a_shape_that_no_step_finds() -> None:
    """A parameter that the step does not reach stays unknown, which is said."""
    net, other = nn.Dense(3), nn.Dense(2)
    for n in (net, other):
        n.initialize()
    trainer = gluon.Trainer([*net.collect_params().values(), *other.collect_params().values()], "sgd")
    x, y = data()

    @mx.hybridize
    def step(x: Any, y: Any) -> Any:
        with autograd.record():
            loss = LOSS(net(x), y)
        loss.backward()
        trainer.step(6)
        return loss
    with pytest.raises(mx.errors.HybridError, match=r"dense\d+_(weight|bias)"):
        step(x, y)


def leaves_of(value: Any) -> list[Any]:
    leaves: list[Any] = []
    flatten(value, lambda v: isinstance(v, nd.NDArray), leaves)
    return leaves


@pytest.mark.skipif(find_cupy() is not None, reason="of programs on the CPU")
@pytest.mark.parametrize("how", RESULTS)
def test_the_launcher_takes_steps(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step changes captured arrays alone, so the launcher in C can call it; what it does not take goes the careful
    way."""
    if launcher.load() is None:
        pytest.skip("Python's headers are not there")
    x, y = data()
    nets = [net_of(), net_of()]
    steps = []
    for net in nets:
        def step(x: Any, y: Any, net: Any = net,
                 trainer: Any = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})) -> Any:
            with autograd.record():
                out = net(x)
                loss = LOSS(out, y)
            loss.backward()
            trainer.step(x.shape[0])
            return RESULTS[how](loss, out)
        steps.append(step)
    compiled, careful = mx.hybridize(steps[1]), []
    call = Bound.__call__
    monkeypatch.setattr(Bound, "__call__", lambda self, *arrays: (careful.append(1), call(self, *arrays))[1])
    for i in range(6):
        raw = x.asnumpy() + i
        # what has gaps is none for the launcher
        given = wrap(np.repeat(raw, 2, 0)[::2] if i > 3 else raw, mx.cpu())
        expected = leaves_of(steps[0](given, y))
        careful.clear()
        got = leaves_of(compiled(given, y))
        assert len(got) == len(expected) == {"one": 1, "nothing": 0}.get(how, 2)
        for a, b in zip(expected, got):
            np.testing.assert_allclose(b.asnumpy(), a.asnumpy(), rtol=1e-5, atol=1e-6)
        assert bool(careful) == (i > 3)
    for a, b in zip(weights(nets[1]), weights(nets[0])):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert nets[1][0].weight.data()._version >= 6
