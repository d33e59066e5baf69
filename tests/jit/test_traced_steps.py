"""Training steps that are compiled: several updates in one function, weights that a step packs and does not update, any
number of sizes."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd

OPTIMIZERS = {"sgd": {"learning_rate": 0.1}, "nag": {"learning_rate": 0.1, "momentum": 0.9},
              "adam": {"learning_rate": 0.01}, "adagrad": {"learning_rate": 0.1},
              "rmsprop": {"learning_rate": 0.01}, "adadelta": {}, "ftrl": {"learning_rate": 0.1},
              "signum": {"learning_rate": 0.01}}


def chain(*sizes: int) -> Any:
    """Dense layers of some sizes with weights that are the same every time."""
    net = gluon.nn.HybridSequential()
    net.add(*(gluon.nn.Dense(b, in_units=a) for a, b in zip(sizes, sizes[1:])))
    net.initialize()
    for k, p in enumerate(net.collect_params().values()):
        p.set_data(nd.array(np.sin(np.arange(np.prod(p.shape)) + k).reshape(p.shape) * 0.1))
    return net


def weights(net: Any) -> list[Any]:
    return [p.data().asnumpy() for p in net.collect_params().values()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_that_packs_weights_it_does_not_update(name: str) -> None:
    def moved(compiled: bool) -> list[Any]:
        first, second = chain(8, 32, 100), chain(100, 32, 1)
        trainer = gluon.Trainer(first.collect_params(), name, OPTIMIZERS[name])

        def step(z: Any, nets: Any = (first, second), trainer: Any = trainer) -> Any:
            with autograd.record():
                loss = nets[1](nets[0](z)).mean()
            loss.backward()
            trainer.step(1)
            return loss
        call = mx.hybridize(step) if compiled else step
        for _ in range(3):
            call(nd.ones((32, 8)))
        trainer.set_learning_rate(0.02)
        call(nd.ones((32, 8)))
        return weights(first)
    before = weights(chain(8, 32, 100))
    eager, compiled = moved(False), moved(True)
    assert max(np.abs(a - b).max() for a, b in zip(before, eager)) > 1e-5
    for a, b in zip(eager, compiled):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_two_steps_in_one_function(name: str) -> None:
    def trained(compiled: bool) -> list[Any]:
        net = chain(3, 4, 2)
        trainer = gluon.Trainer(net.collect_params(), name, OPTIMIZERS[name])

        def two(x: Any) -> Any:
            for _ in range(2):
                with autograd.record():
                    loss = (net(x) ** 2).mean()
                loss.backward()
                trainer.step(1)
            return loss
        call = mx.hybridize(two) if compiled else two
        out = [call(nd.ones((4, 3)) * k).asnumpy() for k in (1, 2, 3)]
        return [*out, *weights(net), np.array(trainer._optimizer.num_update)]
    for a, b in zip(trained(False), trained(True)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_two_trainers_in_one_function() -> None:
    def trained(compiled: bool) -> list[Any]:
        nets = chain(3, 4), chain(4, 2)
        trainers = [gluon.Trainer(n.collect_params(), "adam", {"learning_rate": 0.01}) for n in nets]

        def both(x: Any) -> Any:
            for trainer in trainers:
                with autograd.record():
                    loss = (nets[1](nets[0](x)) ** 2).mean()
                loss.backward()
                trainer.step(1)
            return loss
        call = mx.hybridize(both) if compiled else both
        out = [call(nd.ones((4, 3)) * k).asnumpy() for k in (1, 2)]
        return [*out, *weights(nets[0]), *weights(nets[1])]
    for a, b in zip(trained(False), trained(True)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def step_of(net: Any, dynamic: bool = False) -> Any:
    trainer = gluon.Trainer(net.collect_params(), "sgd")

    @mx.hybridize(dynamic=dynamic)
    def step(x: Any) -> Any:
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(1)
        return loss
    return step


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_step_compiles_each_size_once(dynamic: bool) -> None:
    step = step_of(chain(5, 3), dynamic)
    for _ in range(4):
        for k in range(1, 7):
            step(nd.ones((k, 5)))
    assert len(step.cache_misses) == (3 if dynamic else 6)


def test_sizes_beyond_the_limit_run_once_as_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_SIGNATURES", "2")
    step = step_of(chain(5, 3))
    with pytest.warns(UserWarning, match="HYBRID_SIGNATURES"):
        for k in range(1, 7):
            step(nd.ones((k, 5)))
    assert len(step.cache_misses) == 2
    for _ in range(3):
        for k in range(1, 7):
            step(nd.ones((k, 5)))
    assert len(step.cache_misses) == 6


def test_a_gradient_that_is_returned_is_not_forgotten() -> None:
    def found(compiled: bool) -> Any:
        net = gluon.nn.Dense(2, in_units=3)
        net.initialize(mx.init.One())
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

        def step(x: Any) -> Any:
            with autograd.record():
                loss = (net(x) ** 2).mean()
            loss.backward()
            trainer.step(1)
            return net.weight.grad(), net.bias.grad() * 2
        call = mx.hybridize(step) if compiled else step
        return [[g.asnumpy().copy() for g in call(nd.ones((4, 3)))] for _ in range(3)]
    for eager, compiled in zip(found(False), found(True)):
        for a, b in zip(eager, compiled):
            np.testing.assert_allclose(b, a, rtol=1e-5)
