"""Training inside hybridized code: forward, loss, backward and update as one program, equal to eager training."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

OPTIMIZERS = [("sgd", {"learning_rate": 0.1}), ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}),
              ("adam", {"learning_rate": 0.01}),
              ("nag", {"learning_rate": 0.1, "momentum": 0.9}), ("rmsprop", {"learning_rate": 0.01}),
              ("adagrad", {"learning_rate": 0.1}),
              ("lamb", {"learning_rate": 0.01}), ("sgd", {"learning_rate": 0.1, "clip_gradient": 0.01})]
LOSS = gluon.loss.SoftmaxCrossEntropyLoss()


def net_of(*extra: Any) -> Any:
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, activation="relu", in_units=4), *extra, nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    return net


def data(dtype: str = "float32") -> tuple[Any, Any]:
    rng = np.random.RandomState(0)
    return nd.array(rng.rand(6, 4), dtype=dtype), nd.array(rng.randint(0, 3, 6), dtype=dtype)


def weights(net: Any) -> list[np.ndarray]:
    return [p.data().asnumpy() for p in net.collect_params().values()]


def train(net: Any, trainer: Any, compiled: bool, steps: int = 5, dtype: str = "float32") -> list[np.ndarray]:
    x, y = data(dtype)

    def step(x: Any, y: Any) -> Any:
        with autograd.record():
            loss = LOSS(net(x), y)
        loss.backward()
        trainer.step(x.shape[0])
        return loss
    call = mx.hybridize(step) if compiled else step
    return [call(x, y).asnumpy() for _ in range(steps)]


@pytest.mark.parametrize("name, arguments", OPTIMIZERS, ids=[f"{n}{i}" for i, (n, _) in enumerate(OPTIMIZERS)])
def test_compiled_step_equals_eager(name: str, arguments: dict[str, Any]) -> None:
    nets = [net_of(), net_of()]
    losses = [train(net, gluon.Trainer(net.collect_params(), name, dict(arguments)), i == 1)
              for i, net in enumerate(nets)]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5, atol=1e-6)
    for a, b in zip(weights(nets[1]), weights(nets[0])):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert losses[0][-1].mean() < losses[0][0].mean()


def test_batchnorm_and_dropout_in_the_step() -> None:
    """In float64: a unit that dropout leaves one sample of has hardly any variance, and float32 no stable answer for
    it."""
    nets = [net_of(nn.BatchNorm(in_channels=8), nn.Dropout(0.5)) for _ in range(2)]
    out = []
    for i, net in enumerate(nets):
        mx.random.seed(7)
        net.cast("float64")
        out.append(train(net, gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}), i == 1,
                         dtype="float64"))
    np.testing.assert_allclose(out[1], out[0], rtol=1e-12)
    for a, b in zip(weights(nets[1]), weights(nets[0])):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def test_a_schedule_and_a_set_rate_are_followed_without_compiling_again() -> None:
    nets, counts = [net_of(), net_of()], []
    x, y = data()
    for i, net in enumerate(nets):
        trainer = gluon.Trainer(net.collect_params(), "adam",
                                {"learning_rate": 0.1, "lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.5)})

        def step(x: Any, y: Any, net: Any = net, trainer: Any = trainer) -> Any:
            with autograd.record():
                loss = LOSS(net(x), y)
            loss.backward()
            trainer.step(6)
            return loss
        call = mx.hybridize(lambda x, y, s=step: s(x, y)) if i else step
        for _ in range(6):
            call(x, y)
        counts.append(call.cache_misses if i else None)
    assert counts[1] == ["first call"]
    for a, b in zip(weights(nets[1]), weights(nets[0])):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_backward_alone_writes_gradients_as_eager() -> None:
    nets = [net_of(), net_of()]
    x, y = data()

    def backward(net: Any) -> Any:
        def f(x: Any, y: Any) -> Any:
            with autograd.record():
                loss = LOSS(net(x), y)
            loss.backward()
            return loss
        return f
    for net, f in ((nets[0], backward(nets[0])), (nets[1], mx.hybridize(backward(nets[1])))):
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        for _ in range(3):
            f(x, y)
            trainer.step(6)
    for p, q in zip(nets[1].collect_params().values(), nets[0].collect_params().values()):
        np.testing.assert_allclose(p.grad().asnumpy(), q.grad().asnumpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(p.data().asnumpy(), q.data().asnumpy(), rtol=1e-5, atol=1e-6)


def test_gradients_of_arguments_and_captured_arrays() -> None:
    x, w = nd.array([1.0, 2.0, 3.0]), nd.array([2.0, 2.0, 2.0])
    x.attach_grad()
    w.attach_grad("add")

    @mx.hybridize
    def f(a: Any) -> Any:
        with autograd.record():
            y = (a * a * w).sum()
        y.backward()
        return y
    for k in range(1, 4):
        f(x)
        assert x.grad.asnumpy().tolist() == [4.0, 8.0, 12.0]
        assert w.grad.asnumpy().tolist() == [1.0 * k, 4.0 * k, 9.0 * k]
    other = nd.array([3.0, 3.0, 3.0])
    other.attach_grad()
    f(other)
    assert other.grad.asnumpy().tolist() == [12.0] * 3 and x.grad.asnumpy().tolist() == [4.0, 8.0, 12.0]


def test_attach_grad_and_grad_of_traced_values() -> None:
    def f(a: Any) -> Any:
        b = a * 3
        b.attach_grad()
        with autograd.record():
            y = (b * b * b).sum()
            first = autograd.grad(y, b, create_graph=True)[0]
            z = (first * first).sum()
        z.backward()
        return b.grad, first
    x = nd.array([1.0, 2.0])
    eager, compiled = f(x), mx.hybridize(f)(x)
    for e, c in zip(eager, compiled):
        np.testing.assert_allclose(c.asnumpy(), e.asnumpy(), rtol=1e-6)


def test_equal_values_with_attach_grad_are_variables_of_their_own() -> None:
    def f(a: Any) -> Any:
        first, second, moved = nd.zeros((2,)), nd.zeros((2,)), a + 1
        last = moved.copy()
        for leaf in (first, second, last):
            leaf.attach_grad()
        with autograd.record():
            y = (a * first + 2 * second + nd.exp(moved) * last).sum()
        y.backward()
        return first.grad, second.grad, last.grad
    x = nd.array([1.0, 3.0])
    for e, c, want in zip(f(x), mx.hybridize(f)(x), ([1, 3], [2, 2], np.exp([2, 4])), strict=True):
        np.testing.assert_allclose(e.asnumpy(), want, rtol=1e-6)
        np.testing.assert_allclose(c.asnumpy(), want, rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_gradients_stop_at_pause_and_detach(compiled: bool) -> None:
    x = nd.array([2.0, 3.0])
    x.attach_grad()

    def f(a: Any) -> Any:
        outside = a * 10
        with autograd.record():
            y = a * a
            with autograd.pause():
                z = y * 5
            loss = (y * z + a.detach() * a + outside * a).sum()
        loss.backward()
        return loss
    (mx.hybridize(f) if compiled else f)(x)
    a = np.array([2.0, 3.0])
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * a * 5 * a * a + a + 10 * a)


def test_training_mode_inside_the_trace() -> None:
    drop = nn.Dropout(0.5)

    @mx.hybridize
    def f(x: Any) -> Any:
        a = drop(x)
        with autograd.record():
            b = drop(x)
        with autograd.record(train_mode=False):
            c = drop(x)
        with autograd.train_mode():
            d = drop(x)
        return a, b, c, d
    a, b, c, d = (v.asnumpy() for v in f(nd.ones((100,))))
    assert (a == 1).all() and (c == 1).all() and set(b.tolist()) == {0.0, 2.0} == set(d.tolist())


def test_a_used_up_gradient_is_an_error_to_read() -> None:
    net = net_of()
    train(net, gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}), True, 1)
    p = next(iter(net.collect_params().values()))
    with pytest.raises(mx.errors.HybridError, match="used up inside a compiled step"):
        p.grad()
    p.zero_grad()
    assert (p.grad().asnumpy() == 0).all()


def test_clipping_by_global_norm_in_the_step() -> None:
    nets = [net_of(), net_of()]
    x, y = data()
    for i, net in enumerate(nets):
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        params = list(net.collect_params().values())

        def step(x: Any, y: Any, net: Any = net, trainer: Any = trainer, params: Any = params) -> Any:
            with autograd.record():
                loss = LOSS(net(x), y)
            loss.backward()
            grads = [p.grad() for p in params]
            norm = sum((g * g).sum() for g in grads).sqrt()
            scale = nd.minimum(0.1 / (norm + 1e-8), 1.0)
            for g in grads:
                g *= scale
            trainer.step(1)
            return norm
        call = mx.hybridize(lambda x, y, s=step: s(x, y)) if i else step
        for _ in range(3):
            norm = call(x, y)
        assert norm.asscalar() > 0.1
    for a, b in zip(weights(nets[1]), weights(nets[0])):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_mistakes(compiled: bool) -> None:
    net = net_of()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    x, y = data()
    wrap = mx.hybridize if compiled else lambda f: f

    def no_backward(x: Any, y: Any) -> Any:
        loss = LOSS(net(x), y)
        trainer.step(6)
        return loss

    def not_recorded(x: Any, y: Any) -> Any:
        loss = LOSS(net(x), y)
        loss.backward()
        return loss

    def twice(x: Any, y: Any) -> Any:
        with autograd.record():
            loss = LOSS(net(x), y)
        loss.backward()
        trainer.step(6)
        trainer.step(6)
        return loss
    with pytest.raises(UserWarning, match="backward has not written"):
        wrap(no_backward)(x, y)
    with pytest.raises(mx.errors.HybridError, match="record"):
        wrap(not_recorded)(x, y)
    with pytest.raises(UserWarning, match="backward has not written"):
        wrap(twice)(x, y)


def test_states_saved_and_loaded_go_on_bit_for_bit(tmp_path: Any) -> None:
    nets = [net_of(), net_of()]
    trainers = [gluon.Trainer(n.collect_params(), "adam", {"learning_rate": 0.01}) for n in nets]
    train(nets[0], trainers[0], True, 6)
    train(nets[1], trainers[1], True, 3)
    nets[1].save_parameters(str(tmp_path / "p"))
    trainers[1].save_states(str(tmp_path / "s"))
    again = net_of()
    again.load_parameters(str(tmp_path / "p"))
    trainer = gluon.Trainer(again.collect_params(), "adam", {"learning_rate": 0.01})
    trainer.load_states(str(tmp_path / "s"))
    train(again, trainer, True, 3)
    for a, b in zip(weights(again), weights(nets[0])):
        assert (a == b).all()


@pytest.mark.parametrize("width", [1, 17, 67, 131, 257])
def test_weights_are_updated_once_where_tiles_overlap(width: int) -> None:
    rng = np.random.RandomState(1)
    x, y = nd.array(rng.rand(33, 70)), nd.array(rng.rand(33, width))
    results = []
    for compiled in (False, True):
        mx.random.seed(5)
        net = nn.HybridSequential()
        net.add(nn.Dense(width, activation="relu", in_units=70), nn.Dense(width, in_units=width))
        net.initialize(mx.init.Xavier())
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})

        def step(x: Any, y: Any, net: Any = net, trainer: Any = trainer) -> Any:
            with autograd.record():
                loss = gluon.loss.L2Loss()(net(x), y)
            loss.backward()
            trainer.step(33)
            return loss
        call = mx.hybridize(lambda x, y, s=step: s(x, y)) if compiled else step
        for _ in range(3):
            call(x, y)
        results.append(weights(net))
    for a, b in zip(*results):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)


def test_clip_global_norm_in_the_step() -> None:
    """The norm is an array there."""
    nets = [net_of(), net_of()]
    x, y = data()
    norms = []
    for i, net in enumerate(nets):
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})

        def step(x: Any, y: Any, net: Any = net, trainer: Any = trainer) -> Any:
            with autograd.record():
                loss = LOSS(net(x), y)
            loss.backward()
            norm = gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 0.1,
                                                check_isfinite=False)
            trainer.step(1)
            return norm
        call = mx.hybridize(lambda x, y, s=step: s(x, y)) if i else step
        norms.append([call(x, y).asnumpy() for _ in range(3)])
    assert norms[0][0].shape == (1,) and norms[0][0] > 0.1
    np.testing.assert_allclose(norms[1], norms[0], rtol=1e-4)
    for a, b in zip(weights(nets[1]), weights(nets[0])):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_an_update_written_over_a_variable_leaves_it_one() -> None:
    w, x = nd.ones((3, 2)), nd.ones((4, 3))
    w.attach_grad()
    for k in range(3):
        with autograd.record():
            loss = (nd.dot(x, w) * w.sum()).sum()
        loss.backward()
        nd.sgd_update(w, w.grad, lr=1e-3, out=w)
        assert (w.grad.asnumpy() != 0).all() and w.asnumpy()[0, 0] < 1 - 1e-3 * k


RESULTS: dict[str, Any] = {"one": lambda loss, out: loss, "two": lambda loss, out: (loss, out),
                           "nothing": lambda loss, out: None,
                           "nested": lambda loss, out: {"a": [loss], "b": out}}
