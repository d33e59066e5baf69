"""Trainer: steps, stale gradients, several devices, bad input."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid import autograd, gluon, lr_scheduler, nd, optimizer
from hybrid.base.device import cpu
from hybrid.base.errors import HybridError
from hybrid.gluon import nn
from hybrid.gluon.trainer import StaleGradientError

from .trainer_tools import batch, mlp, train, values


# ---- steps
def test_step_is_the_formula() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5, "wd": 0.1})
    with autograd.record():
        loss = (net(batch(0)) ** 2).sum()
    loss.backward()
    before = {n: (p.data().asnumpy(), p.grad().asnumpy()) for n, p in net.collect_params().items()}
    trainer.step(6)
    for n, p in net.collect_params().items():
        w, g = before[n]
        np.testing.assert_allclose(p.data().asnumpy(), w - 0.5 * (g / 6 + 0.1 * w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybridized"])
def test_training_lowers_the_loss(hybrid: bool) -> None:
    net = mlp()
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    first = float((net(batch(0)) ** 2).sum().asscalar())
    train(net, trainer, [0] * 40)
    assert float((net(batch(0)) ** 2).sum().asscalar()) < 0.2 * first


def test_weights_and_gradients_keep_their_identity() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    held = [(p.data(), p.data().handle, p.grad(), p.grad().handle) for p in net.collect_params().values()]
    train(net, trainer, range(2))
    for p, (w, raw, g, raw_g) in zip(net.collect_params().values(), held):
        assert p.data() is w and w.handle is raw and p.grad() is g and g.handle is raw_g


def test_list_of_parameters_and_multipliers() -> None:
    net = mlp()
    params = list(net.collect_params().values())
    params[0].lr_mult, params[1].grad_req = 0.0, "null"
    before = [p.data().asnumpy() for p in params]
    trainer = gluon.Trainer(params, optimizer.SGD(learning_rate=0.1))
    train(net, trainer, [0])
    same = [np.array_equal(b, p.data().asnumpy()) for b, p in zip(before, params)]
    assert same == [True, True, False, False]
    params[0].lr_mult = 1.0                            # counts from the next step on
    train(net, trainer, [1])
    assert not np.array_equal(before[0], params[0].data().asnumpy())


def test_learning_rate() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    assert trainer.learning_rate == 0.1
    trainer.set_learning_rate(0.0)
    before = values(net)
    train(net, trainer, [0])
    np.testing.assert_array_equal(values(net), before)
    assert trainer.optimizer.num_update == 1


def test_scheduler_is_called_with_the_number_of_updates() -> None:
    net = mlp()
    schedule = lr_scheduler.FactorScheduler(step=1, factor=0.5, base_lr=1.0)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"lr_scheduler": schedule})
    train(net, trainer, range(3))
    assert trainer.learning_rate == 0.25
    with pytest.raises(UserWarning, match="lr_scheduler"):
        trainer.set_learning_rate(0.1)


def test_gradients_that_are_added() -> None:
    """grad_req add: two backward passes, one step."""
    net = mlp()
    for p in net.collect_params().values():
        p.grad_req = "add"
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    for step in range(2):
        with autograd.record():
            loss = net(batch(step)).sum()
        loss.backward()
    p = net.collect_params()[sorted(net.collect_params().keys())[0]]
    w, g = p.data().asnumpy(), p.grad().asnumpy()
    trainer.step(1)
    np.testing.assert_allclose(p.data().asnumpy(), w - g, rtol=1e-5, atol=1e-6)


def test_gradients_changed_between_backward_and_update() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    before = values(net)
    with autograd.record():
        loss = net(batch(0)).sum()
    loss.backward()
    trainer.allreduce_grads()
    for p in net.collect_params().values():
        p.grad()[:] = 2.0
    trainer.update(4)
    np.testing.assert_allclose(values(net), before - 0.5, rtol=1e-5, atol=1e-6)


def test_parameters_that_get_other_arrays() -> None:
    """cast, new gradient rules and loading are noticed by a prepared step."""
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    train(net, trainer, [0])
    for p in net.collect_params().values():
        p.grad_req = "add"
    before = values(net)
    train(net, trainer, [1])
    assert not np.array_equal(values(net), before)
    net.cast("float64")
    with autograd.record():
        loss = (net(batch(2).astype("float64")) ** 2).sum()
    loss.backward()
    before = values(net)
    trainer.step(6)
    assert values(net).dtype == np.float64 and not np.array_equal(values(net), before)


def test_multi_precision() -> None:
    net = mlp()
    net.cast("float16")
    trainer = gluon.Trainer(net.collect_params(), "sgd",
                            {"learning_rate": 1e-4, "momentum": 0.9, "multi_precision": True})
    for _ in range(3):
        with autograd.record():
            loss = net(batch(0).astype("float16")).sum()
        loss.backward()
        trainer.step(1)
    states = trainer._updaters[0].states
    for i, p in enumerate(trainer._params):
        momentum, copy = states[i]
        assert momentum.dtype == copy.dtype == np.float32 and p.data().dtype == np.float16
        np.testing.assert_array_equal(p.data().asnumpy(), copy.asnumpy().astype(np.float16))


# ---- stale gradients
def test_step_before_backward() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    before = values(net)
    with pytest.raises(StaleGradientError, match=r"has not written the gradient of parameter .*loss.backward\(\)"):
        trainer.step(1)
    np.testing.assert_array_equal(values(net), before)


def test_second_step_without_backward_is_a_user_warning() -> None:
    net = mlp()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    train(net, trainer, [0])
    with pytest.raises(UserWarning, match="ignore_stale_grad"):
        trainer.step(1)


def test_ignored_stale_gradients_leave_parameters_as_they_are() -> None:
    net, unused = mlp(), nn.Dense(2, in_units=2)
    unused.initialize()
    params = {**net.collect_params(), **unused.collect_params()}
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 0.1, "wd": 0.5})
    kept, before = unused.weight.data().asnumpy(), values(net)
    with autograd.record():
        loss = net(batch(0)).sum()
    loss.backward()
    with pytest.raises(UserWarning, match=unused.bias.name):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    np.testing.assert_array_equal(unused.weight.data().asnumpy(), kept)
    assert not np.array_equal(values(net), before)
    before = values(net)
    trainer.step(1, ignore_stale_grad=True)            # nothing is fresh now
    np.testing.assert_array_equal(values(net), before)


def test_parameters_are_taken_in_natural_order() -> None:
    """States are saved by position: names that differ in their numbers alone must give the same order."""
    nets = []
    for first in (8, 9):
        params = {f"dense{i}_weight": gluon.Parameter(f"dense{i}_weight", shape=(i,)) for i in range(first, first + 4)}
        for p in params.values():
            p.initialize()
        nets.append([p.name for p in gluon.Trainer(params, "sgd")._params])
    assert nets[0] == [f"dense{i}_weight" for i in (8, 9, 10,
                                                    11)] and nets[1] == [f"dense{i}_weight" for i in (9, 10, 11, 12)]


# ---- several devices
def split_step(net: Any, trainer: Any, contexts: Any, call: Any) -> None:
    with autograd.record():
        losses = [(net(batch(k, c)) ** 2).sum() for k, c in enumerate(contexts)]
    autograd.backward(losses)
    call(trainer)


@pytest.mark.parametrize("on_store", [None, False], ids=["once-for-all", "on-each-device"])
def test_devices_add_their_gradients(on_store: Any) -> None:
    contexts = [cpu(0), cpu(1)]
    net, alone = mlp(ctx=contexts), mlp()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, update_on_kvstore=on_store)
    single = gluon.Trainer(alone.collect_params(), "adam", {"learning_rate": 0.01})
    for _ in range(3):
        split_step(net, trainer, contexts, lambda t: t.step(12))
        with autograd.record():
            loss = (alone(batch(0)) ** 2).sum() + (alone(batch(1)) ** 2).sum()
        loss.backward()
        single.step(12)
    for p, q in zip(net.collect_params().values(), alone.collect_params().values()):
        first, second = (p.data(c).asnumpy() for c in contexts)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(first, q.data().asnumpy(), rtol=1e-4, atol=1e-5)


def test_gradients_of_devices_can_be_changed() -> None:
    contexts = [cpu(0), cpu(1)]
    net = mlp(ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, update_on_kvstore=False)
    one = next(iter(net.collect_params().values()))
    parts: list[Any] = []

    def clip(t: Any) -> None:
        parts.extend(g.asnumpy() for g in one.list_grad())
        t.allreduce_grads()
        for g in one.list_grad():
            np.testing.assert_allclose(g.asnumpy(), parts[0] + parts[1], rtol=1e-5, atol=1e-6)
        t.update(12)
    split_step(net, trainer, contexts, clip)


def test_weights_updated_once_refuse_the_two_halves() -> None:
    contexts = [cpu(0), cpu(1)]
    trainer = gluon.Trainer(mlp(ctx=contexts).collect_params(), "sgd")
    for call in (trainer.allreduce_grads, lambda: trainer.update(1)):
        with pytest.raises(HybridError, match="update_on_kvstore=False"):
            call()


def test_no_store_keeps_devices_apart() -> None:
    contexts = [cpu(0), cpu(1)]
    net = mlp(ctx=contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=None)
    split_step(net, trainer, contexts, lambda t: t.step(6))
    one = next(iter(net.collect_params().values()))
    assert not np.array_equal(one.data(contexts[0]).asnumpy(), one.data(contexts[1]).asnumpy())


# ---- bad input
BAD = {
    "no-parameters": (lambda n: gluon.Trainer(n, "sgd"), "must be a list or dict of Parameters, got HybridSequential"),
    "other-things": (lambda n: gluon.Trainer([nd.ones((1,))], "sgd"), "it holds a NDArray"),
    "twice": (lambda n: gluon.Trainer(list(n.collect_params().values()) * 2, "sgd"), "given twice"),
    "optimizer": (lambda n: gluon.Trainer(n.collect_params(), "sgdd"), "unknown optimizer"),
    "argument": (lambda n: gluon.Trainer(n.collect_params(), "sgd", {"lr": 0.1}), "SGD has no argument 'lr'"),
    "params-no-dict": (lambda n: gluon.Trainer(n.collect_params(), "sgd", [0.1]), "must be a dict"),
    "params-and-object": (lambda n: gluon.Trainer(n.collect_params(), optimizer.SGD(), {"wd": 0.1}),
                          "belong to an optimizer given by name"),
    "store-name": (lambda n: gluon.Trainer(n.collect_params(), "sgd", kvstore="devices"),
                   "kvstore must be None or one of"),
    "store-distributed": (lambda n: gluon.Trainer(n.collect_params(), "sgd", kvstore="dist_async"), "use 'dist_sync'"),
    "batch-zero": (lambda n: gluon.Trainer(n.collect_params(), "sgd").step(0),
                   "batch_size must be a number other than 0"),
    "batch-text": (lambda n: gluon.Trainer(n.collect_params(), "sgd").step("4"), "batch_size must be a number"),
    "not-initialized": (lambda n: gluon.Trainer(nn.Dense(2, in_units=2).collect_params(), "sgd"),
                        "has not been initialized"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(HybridError, match=message):
        call(mlp())


def test_a_trainer_without_parameters(tmp_path: Path) -> None:
    trainer = gluon.Trainer({}, "sgd")
    trainer.step(1)
    trainer.save_states(tmp_path / "s")
    trainer.load_states(tmp_path / "s")
    assert trainer.optimizer.num_update == 0


def test_a_store_object_counts_by_its_type() -> None:
    class Store:
        type = "dist_async"
    with pytest.raises(HybridError, match="without waiting for the other workers"):
        gluon.Trainer(mlp().collect_params(), "sgd", kvstore=Store())


def test_deferred_parameters_at_a_step() -> None:
    net = nn.Dense(2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(HybridError, match="not been initialized yet|gradient"):
        trainer.step(1)
    with autograd.record():
        loss = net(nd.ones((3, 4))).sum()
    loss.backward()
    trainer.step(3)
    assert trainer.optimizer.num_update == 1


def test_devices_must_agree() -> None:
    a, b = nn.Dense(1, in_units=1), nn.Dense(1, in_units=1)
    a.initialize(ctx=cpu(0))
    b.initialize(ctx=cpu(1))
    with pytest.raises(HybridError, match="same devices"):
        gluon.Trainer({**a.collect_params(), **b.collect_params()}, "sgd")


def test_programs_that_write_the_states_themselves() -> None:
    """As MXNet's Trainer.save_states does, with the names that it uses."""
    net = nn.Dense(2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    assert [p.name for p in trainer._params_to_init] == [net.weight.name] and not trainer._kv_initialized
    net(nd.ones((1, 3)))
    trainer._init_kvstore()
    trainer._init_params()
    assert trainer._kv_initialized and trainer._params_to_init == [] and not trainer._update_on_kvstore
    assert isinstance(trainer._updaters[0].get_states(dump_optimizer=False), bytes)
