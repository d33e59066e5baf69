"""Loss scaling of mixed precision: overflows leave a step out and halve the scale, steps without one double it; NaN is
an error."""
from __future__ import annotations

import warnings
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, errors, gluon, nd
from hybrid.contrib import amp
from hybrid.gluon import nn


@pytest.fixture(autouse=True)
def switched_on() -> Iterator[None]:
    amp.init("float16")
    yield
    amp.off()


def dense(hybridized: bool = False) -> Any:
    mx.random.seed(3)
    net = nn.Dense(3, in_units=4)
    net.initialize(mx.init.Xavier())
    net.hybridize(hybridized)
    return net


def scaled(net: Any, optimizer: str = "sgd", scale: float | None = None, **arguments: Any) -> Any:
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, **arguments})
    amp.init_trainer(trainer)
    if scale is not None:
        trainer._amp_loss_scaler._set(scale)
    return trainer


def backward(net: Any, trainer: Any, x: Any) -> Any:
    with autograd.record():
        loss = net(x).mean()
        with amp.scale_loss(loss, trainer) as s:
            s.backward()
    return loss


def weights(net: Any) -> list[Any]:
    return [p.data().asnumpy().copy() for p in net.collect_params().values()]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_scaled_steps_equal_steps_without_a_scale(hybridized: bool) -> None:
    nets, x = [dense(hybridized), dense(hybridized)], nd.array(np.random.RandomState(0).rand(8, 4))
    plain = gluon.Trainer(nets[0].collect_params(), "adam", {"learning_rate": 0.1})
    trainer = scaled(nets[1], "adam", 1024.0)
    for _ in range(5):
        with autograd.record():
            loss = nets[0](x).mean()
        loss.backward()
        plain.step(2)
        backward(nets[1], trainer, x)
        assert trainer._scale == 1 / 1024
        np.testing.assert_allclose(nets[1].weight.grad().asnumpy(), 1024 * nets[0].weight.grad().asnumpy(), rtol=2e-3)
        trainer.step(2)
    for a, b in zip(weights(nets[1]), weights(nets[0])):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan], ids=["inf", "minus_inf", "nan"])
def test_an_overflow_leaves_the_step_out_and_halves_the_scale(value: float) -> None:
    net, x = dense(), nd.ones((2, 4))
    trainer = scaled(net, "adam", 256.0)
    backward(net, trainer, x)
    trainer.step(1)
    before, count = weights(net), trainer.optimizer.num_update
    for k in range(1, 4):
        backward(net, trainer, x)
        net.bias.grad()[1] = value
        trainer.step(1)
        assert trainer._amp_loss_scaler.loss_scale == 256.0 / 2 ** k
        assert all((a == b).all() for a, b in zip(before, weights(net))) and trainer.optimizer.num_update == count
    backward(net, trainer, x)
    trainer.step(1)
    assert trainer._amp_loss_scaler.loss_scale == 32.0 and trainer.optimizer.num_update == count + 1
    assert all(np.isfinite(a).all() and (a != b).any() for a, b in zip(weights(net), before))


def test_training_survives_a_scale_that_is_too_large() -> None:
    net, x = dense(True), nd.array(np.random.RandomState(0).rand(8, 4))
    trainer, left_out, before = scaled(net, scale=2.0 ** 24), 0, weights(net)
    for _ in range(30):
        was = weights(net)
        with autograd.record():
            loss = ((net(x) - 1) ** 2).sum()
            with amp.scale_loss(loss, trainer) as s:
                s.backward()
        trainer.step(8)
        left_out += all((a == b).all() for a, b in zip(was, weights(net)))
    assert 5 < left_out < 20 and trainer._amp_loss_scaler.loss_scale == 2.0 ** (24 - left_out)
    assert all(np.isfinite(a).all() for a in weights(net)) and any((a != b).any() for a, b in zip(before, weights(net)))


def test_the_scale_doubles_after_many_steps() -> None:
    scaler = amp.LossScaler(init_scale=4.0, scale_window=3, max_scale=16.0)
    net = dense()
    with autograd.record():
        loss = net(nd.ones((1, 4))).sum()
    loss.backward()
    params, seen = list(net.collect_params().values()), []
    for _ in range(10):
        assert not scaler.has_overflow(params)
        seen.append(scaler.loss_scale)
    assert seen == [4, 4, 8, 8, 8, 16, 16, 16, 16, 16]
    net.weight.grad()[0, 0] = np.inf
    assert scaler.has_overflow(params) and scaler.loss_scale == 8 and "8" in repr(scaler)
    assert amp.LossScaler().loss_scale == 2.0 ** 16


def test_a_nan_loss_is_an_error_and_no_step() -> None:
    net, x = dense(), nd.ones((2, 4))
    trainer, before = scaled(net), weights(net)
    with autograd.record():
        loss = net(x * np.nan)
        with pytest.raises(amp.NaNLossError, match="loss is NaN in 6 of 6 places before it is scaled") as caught:
            with amp.scale_loss(loss, trainer) as s:         # here on the CPU
                s.backward()
            trainer.step(1)                                  # on a GPU here, where gradients are looked at anyway
    assert isinstance(caught.value, (errors.HybridError, FloatingPointError))
    assert all((a == b).all() for a, b in zip(before,
                                              weights(net))) and trainer._amp_loss_scaler.loss_scale == 2.0 ** 16
    backward(net, trainer, x)                                # and training goes on
    trainer.step(1)


def test_an_infinite_loss_is_an_overflow() -> None:
    net = dense()
    trainer, before = scaled(net), weights(net)
    with autograd.record():
        loss = net(nd.ones((2, 4))).astype("float32").abs().sum() * np.float32(3e38) * 10
        with amp.scale_loss(loss, trainer) as s:
            s.backward()
    assert np.isinf(loss.asscalar())
    trainer.step(1)
    assert trainer._amp_loss_scaler.loss_scale == 2.0 ** 15 and all((a == b).all()
                                                                    for a, b in zip(before, weights(net)))


def test_a_scale_below_one_warns_once() -> None:
    net = dense()
    trainer = scaled(net, scale=2.0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(4):
            backward(net, trainer, nd.ones((1, 4)))
            net.weight.grad()[:] = np.inf
            trainer.step(1)
    assert [str(w.message)[:55] for w in seen if "overflow even" in str(w.message)] == ["gradients overflow even with "
            "a loss scale of 1: every s"]


def test_lists_of_losses_and_unscale() -> None:
    net, x = dense(), nd.ones((2, 4))
    trainer = scaled(net, scale=64.0, rescale_grad=0.5)
    with autograd.record():
        losses = [net(x).sum(), net(x).sum() * 2]
        with amp.scale_loss(losses, trainer) as several:
            assert isinstance(several, list) and [float((s / v).asscalar())
                                                  for s, v in zip(several, losses)] == [64.0, 64.0]
            autograd.backward(several)
    assert net.bias.grad().asnumpy().tolist() == [64.0 * 6] * 3
    amp.unscale(trainer)
    assert net.bias.grad().asnumpy().tolist() == [3.0] * 3     # rescale_grad is in it too, as in MXNet
    before = net.bias.data().asnumpy().copy()
    trainer.step(1)
    np.testing.assert_allclose(before - net.bias.data().asnumpy(), 0.1 * 3.0, rtol=1e-5)
    backward(net, trainer, x)
    assert trainer._scale == 0.5 / 64                         # the next loss is scaled again


def test_scaling_inside_hybridized_code_follows_the_scale() -> None:
    net, x = dense(), nd.ones((2, 4))
    trainer = scaled(net, scale=64.0)

    @mx.hybridize
    def step(x: Any) -> Any:
        with autograd.record():
            loss = net(x).sum()
            with amp.scale_loss(loss, trainer) as s:
                s.backward()
        return loss
    for scale in (64.0, 64.0, 32.0, 128.0):
        trainer._amp_loss_scaler._set(scale)
        step(x)
        assert net.bias.grad().asnumpy().tolist() == [2 * scale] * 3 and trainer._scale == 1 / scale
        before = net.bias.data().asnumpy().copy()
        trainer.step(2)
        np.testing.assert_allclose(before - net.bias.data().asnumpy(), 0.1, rtol=1e-5)
    assert step.cache_misses == ["first call"]


OPTIMIZERS = [("sgd", {}), ("sgd", {"momentum": 0.9}), ("adam", {}), ("nadam", {}), ("lamb", {})]


@pytest.mark.parametrize("name, arguments", OPTIMIZERS, ids=["sgd", "momentum", "adam", "nadam", "lamb"])
def test_a_whole_step_as_one_program_leaves_out_the_same_steps(name: str, arguments: dict[str, Any]) -> None:
    found = []
    for compiled in (False, True):
        mx.random.seed(1)
        net = nn.HybridSequential()
        net.add(nn.Dense(8, activation="relu", in_units=4), nn.Dense(3, in_units=8))
        net.initialize(mx.init.Xavier())
        trainer = scaled(net, name, 2.0 ** 22, lr_scheduler=mx.lr_scheduler.FactorScheduler(5, 0.5, base_lr=0.1),
                         **arguments)
        trainer._amp_loss_scaler._scale_seq_len = 7            # so that it overflows again and again
        loss_of, random, rows = gluon.loss.L2Loss(), np.random.RandomState(0), []

        def step(x: Any, y: Any, net: Any = net, trainer: Any = trainer, loss_of: Any = loss_of) -> Any:
            with autograd.record():
                loss = loss_of(net(x), y).mean()
                with amp.scale_loss(loss, trainer) as s:
                    s.backward()
            trainer.step(1)
            return loss
        call = mx.hybridize(step) if compiled else step
        for _ in range(30):
            loss = call(nd.array(random.randn(16, 4)), nd.array(random.randn(16, 3)))
            rows.append((float(loss.asscalar()), trainer._amp_loss_scaler.loss_scale, trainer.optimizer.num_update,
                         trainer.learning_rate))
        found.append(rows)
        if compiled:
            assert call.cache_misses == ["first call"]
            with pytest.raises(errors.HybridError, match="used up inside a compiled step"):
                net[0].weight.grad()
    eager, one = (np.array(rows) for rows in found)
    assert (eager[:, 1:] == one[:, 1:]).all() and len(set(eager[:, 1])) > 3 and 10 < eager[-1, 2] < 30
    np.testing.assert_allclose(one[:, 0], eager[:, 0], rtol=5e-3)


def test_a_nan_loss_in_one_program_is_an_error_and_no_step() -> None:
    net = dense()
    trainer, before = scaled(net), weights(net)

    @mx.hybridize
    def step(x: Any) -> None:
        backward(net, trainer, x)
        trainer.step(1)
    with pytest.raises(amp.NaNLossError, match="loss is NaN somewhere"):
        step(nd.ones((2, 4)) * np.nan)
    assert all((a == b).all() for a, b in zip(before,
                                              weights(net))) and trainer._amp_loss_scaler.loss_scale == 2.0 ** 16
    trainer._amp_loss_scaler._set(4.0)
    step(nd.ones((2, 4)))
    assert any((a != b).any() for a, b in zip(before, weights(net))) and trainer.optimizer.num_update == 1

    @mx.hybridize
    def clip(x: Any) -> None:
        backward(net, trainer, x)
        amp.unscale(trainer)
    with pytest.raises(errors.HybridError, match="call it outside of the hybridized function"):
        clip(nd.ones((2, 4)))


def test_bfloat16_needs_no_scale_in_one_program() -> None:
    pytest.importorskip("ml_dtypes")
    amp.init("bfloat16")
    found = []
    for compiled in (False, True):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

        def step(x: Any, net: Any = net, trainer: Any = trainer) -> Any:
            with autograd.record():
                loss = (net(x) ** 2).mean()
            loss.backward()
            trainer.step(1)
            return loss
        call = mx.hybridize(lambda x, s=step: s(x)) if compiled else step
        found.append([float(call(nd.ones((2, 4))).asscalar()) for _ in range(10)])
    np.testing.assert_allclose(found[1], found[0], rtol=0.05)
    assert found[1][-1] < found[1][0]


def test_layers_that_are_losses_are_scaled_by_their_attribute() -> None:
    x, label = nd.array([[1.0, 2.0, 3.0]]), nd.array([2.0])
    net = dense()

    def gradient() -> Any:
        x.attach_grad()
        with autograd.record():
            out = nd.SoftmaxOutput(x, label, grad_scale=2.0)
        out.backward()
        return x.grad.asnumpy().copy()
    plain = gradient()
    trainer = scaled(net, scale=8.0)
    np.testing.assert_allclose(gradient(), 8 * plain, rtol=1e-6)
    trainer._amp_loss_scaler._set(4.0)
    np.testing.assert_allclose(gradient(), 4 * plain, rtol=1e-6)


def test_several_devices_or_frozen_parameters_do_not_disturb() -> None:
    net = dense()
    net.bias.grad_req = "null"
    trainer = scaled(net, scale=16.0)
    backward(net, trainer, nd.ones((1, 4)))
    before = net.bias.data().asnumpy().copy()
    trainer.step(1)
    assert trainer._amp_loss_scaler.loss_scale == 16.0 and (net.bias.data().asnumpy() == before).all()


def _training(hybridized: bool) -> Any:
    mx.random.seed(3)
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    amp.init_trainer(trainer)
    trainer._amp_loss_scaler._scale_seq_len = 4                     # the scale doubles after four steps that go well

    def step(x: Any) -> Any:
        with autograd.record():
            loss = (net(x) ** 2).mean()
            with amp.scale_loss(loss, trainer) as scaled:
                pass
        scaled.backward()
        trainer.step(1)
        return loss
    return net, trainer, mx.hybridize(step) if hybridized else step


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "one-program"])
def test_the_scale_is_saved_with_the_states(hybridized: bool, tmp_path: Any) -> None:
    """Overflows, then steps that double the scale: stopped in the middle and resumed, everything goes on bit for
    bit."""
    amp.init("float16")
    try:
        batches = [nd.array(np.random.RandomState(k).rand(5, 3)) for k in range(12)]
        batches[1] = batches[1] * 50
        net, trainer, step = _training(hybridized)
        for x in batches[:5]:
            step(x)
        saved = trainer._amp_loss_scaler.state()
        assert saved == {"loss_scale": 2.0 ** 14, "steps": 3}
        net.save_parameters(str(tmp_path / "net"))
        trainer.save_states(tmp_path / "states")
        for x in batches[5:]:
            step(x)
        again, resumed, step = _training(hybridized)
        again.load_parameters(str(tmp_path / "net"))
        resumed.load_states(tmp_path / "states")
        assert resumed._amp_loss_scaler.state() == saved
        for x in batches[5:]:
            step(x)
        assert resumed._amp_loss_scaler.state() == trainer._amp_loss_scaler.state() != saved
        for p, q in zip(net.collect_params().values(), again.collect_params().values(), strict=True):
            np.testing.assert_array_equal(p.data().asnumpy(), q.data().asnumpy())
    finally:
        amp.off()


def test_states_with_and_without_a_scale_are_exchanged(tmp_path: Any) -> None:
    """A file without a scale leaves the scale as it is; a Trainer without a scaler takes no notice of a file's."""
    net = nn.Dense(2, in_units=3)
    net.initialize()
    plain = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
    plain.save_states(tmp_path / "plain")
    amp.init("bfloat16")
    try:
        scaled = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
        amp.init_trainer(scaled)
        scaled._amp_loss_scaler.resume(64.0, 7)
        scaled.load_states(tmp_path / "plain")
        assert scaled._amp_loss_scaler.state() == {"loss_scale": 64.0, "steps": 7}
        scaled.save_states(tmp_path / "scaled")
        plain.load_states(tmp_path / "scaled")
        assert plain._amp_loss_scaler is None
    finally:
        amp.off()


@pytest.mark.parametrize("state", [{}, {"loss_scale": -1, "steps": 0}, {"loss_scale": "x", "steps": 0},
                                   {"loss_scale": 2.0, "steps": -3}, [1]],
                         ids=["empty", "negative", "text", "steps", "list"])
def test_a_damaged_scale_is_an_error(state: Any) -> None:
    with pytest.raises(mx.errors.FileFormatError, match="the loss scale of the states is damaged"):
        amp.loss_scaler.LossScaler.checked(state)
