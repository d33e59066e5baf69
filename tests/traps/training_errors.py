"""Training steps: state beside the weights, several heads, unused parameters, errors, halves."""
from __future__ import annotations

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap

X = nd.array([[1., 2., 3.], [4., 5., 6.]])


def make(optimizer="sgd", units=2, **settings):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3, activation="tanh"), nn.Dense(units, in_units=3))
    net.initialize(mx.init.Constant(.1))
    settings = {"learning_rate": .1, **settings}
    return net, gluon.Trainer(net.collect_params(), optimizer, settings)


def stepper(H, net, trainer, batch=2):
    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(batch)
        return loss
    return step


def weights(net):
    return [p.data().copy() for p in net.collect_params().values()]


@trap
def counter_in_step(H):
    net, trainer = make()
    state = {"n": 0}

    @H
    def step(x):
        state["n"] += 1
        trainer.set_learning_rate(.1 / state["n"])
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        return loss
    for _ in range(4):
        yield step(X), state["n"]
    yield weights(net)


@trap
def metric_updated_in_step(H):
    net, trainer = make()
    metric = mx.metric.Loss()

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        metric.update(None, [loss])
        return loss
    for _ in range(3):
        step(X)
    yield metric.get()


@trap
def states_saved_and_loaded(H):
    import os
    import tempfile
    net, trainer = make("adam")
    step = stepper(H, net, trainer)
    step(X)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "states")
        trainer.save_states(path)
        step(X)
        trainer.load_states(path)
    yield step(X), weights(net)


@trap
def trainer_replaced(H):
    net, trainer = make()

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        return loss
    yield step(X)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.})
    yield step(X), weights(net)


@trap
def loss_scale_argument(H):
    net, trainer = make()

    @H
    def step(x, scale):
        with autograd.record():
            loss = (net(x) ** 2).sum() * scale
        loss.backward()
        trainer.step(2)
        return loss
    for scale in (1., 2., arr(3.), 1):
        yield step(X, scale)
    yield weights(net)


@trap
def backward_twice(H):
    net, trainer = make()

    @H
    def step(x):
        with autograd.record():
            a = (net(x) ** 2).sum()
            b = net(x).sum()
        a.backward()
        b.backward()
        trainer.step(2)
        return a
    for _ in range(2):
        yield step(X)
    yield weights(net)


@trap
def several_heads(H):
    net, trainer = make()

    @H
    def step(x):
        with autograd.record():
            a, b = (net(x) ** 2).sum(), net(x).sum()
        autograd.backward([a, b])
        trainer.step(2)
        return a, b
    for _ in range(2):
        yield step(X)
    yield weights(net)


@trap
def parameter_unused(H):
    net, trainer = make()

    @H
    def step(x):
        with autograd.record():
            loss = (net[0](x) ** 2).sum()
        loss.backward()
        trainer.step(2, ignore_stale_grad=True)
        return loss
    for _ in range(2):
        yield step(X)
    yield weights(net)


@trap
def parameter_unused_is_an_error(H):
    net, trainer = make()

    @H
    def step(x):
        with autograd.record():
            loss = (net[0](x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        return loss
    yield step(X), step(X)


@trap
def error_in_step_updates_nothing(H):
    net, trainer = make("adam")
    table = nd.ones((3, 3))

    @H
    def step(x, index):
        with autograd.record():
            loss = (net(x + nd.take(table, index, mode="raise")) ** 2).sum()
        loss.backward()
        trainer.step(2)
        return loss
    yield step(X, arr(0., 1.))
    try:
        step(X, arr(0., 99.)).wait_to_read()
    except Exception:  # noqa: BLE001
        pass
    yield weights(net), step(X, arr(0., 1.))


@trap
def batch_norm_in_step(H):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=3), nn.BatchNorm(in_channels=3), nn.Dense(1, in_units=3))
    net.initialize(mx.init.Constant(.1))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": .1})
    step = stepper(H, net, trainer)
    for _ in range(3):
        yield step(X)
    yield net[1].running_mean.data(), net[1].running_var.data(), weights(net)


@trap
def half_with_master_weights(H):
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.Constant(.1))
    net.cast("float16")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": .01, "multi_precision": True})
    step = stepper(H, net, trainer)
    for _ in range(4):
        yield step(X.astype("float16"))
    yield weights(net)


@trap
def nan_loss_goes_on(H):
    net, trainer = make()
    step = stepper(H, net, trainer)
    yield step(X * float("nan")), weights(net)
