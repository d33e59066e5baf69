"""Training steps of the kinds that users write: schedules, accumulation, freezing, penalties, several optimizers."""
from __future__ import annotations

import types

from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import trap


def dense(units=1, inputs=2, **kw):
    net = nn.Dense(units, in_units=inputs, **kw)
    net.initialize(init="ones")
    return net


X, Y = nd.array([[1., 2.], [3., -1.], [0.5, 0.5]]), nd.array([[1.], [0.], [2.]])
L2 = gluon.loss.L2Loss()


def trainer_of(net, name="sgd", **settings):
    return gluon.Trainer(net.collect_params(), name, settings or {"learning_rate": 0.1})


def weights(*nets):
    return [p.data() for net in nets for p in net.collect_params().values()]


def step_of(H, net, trainer, loss=L2):
    @H
    def step(x, y):
        with autograd.record():
            value = loss(net(x), y).mean()
        value.backward()
        trainer.step(1)
        return value
    return step


OPTIMIZERS = {
    "sgd": {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}, "nag": {"learning_rate": 0.1, "momentum": 0.9},
    "adam": {"learning_rate": 0.1}, "adagrad": {"learning_rate": 0.1}, "rmsprop": {"learning_rate": 0.1},
    "adadelta": {}, "adamax": {"learning_rate": 0.1}, "nadam": {"learning_rate": 0.1}, "ftrl": {"learning_rate": 0.1},
    "signum": {"learning_rate": 0.1, "momentum": 0.9}, "ftml": {"learning_rate": 0.1}, "lamb": {"learning_rate": 0.1},
    "lars": {"learning_rate": 0.1}, "dcasgd": {"learning_rate": 0.1},
}


def _played(name, settings, change):
    def play(H):
        net = dense()
        trainer = gluon.Trainer(net.collect_params(), name, dict(settings))
        step = step_of(H, net, trainer)
        for k in range(5):
            if k == 3:
                change(trainer, net)
            yield step(X, Y), weights(net)
    play.__module__ = __name__
    return play


CHANGES = {
    "rate": lambda trainer, net: trainer.set_learning_rate(0.02) if trainer.optimizer.lr else None,
    "frozen": lambda trainer, net: setattr(net.bias, "grad_req", "null"),
    "set": lambda trainer, net: net.weight.set_data(nd.ones((1, 2)) * 3),
    "decay": lambda trainer, net: setattr(trainer.optimizer, "wd", 0.3),
    "clip": lambda trainer, net: setattr(trainer.optimizer, "clip_gradient", 0.01),
    "multiplier": lambda trainer, net: setattr(net.weight, "lr_mult", 0.),
}
for _i, (_name, _settings) in enumerate(OPTIMIZERS.items()):
    for _change in list(CHANGES)[_i % 3::3]:
        _play = _played(_name, _settings, CHANGES[_change])
        _play.__name__ = f"{_name}_{_change}_changes"
        trap(_play)


@trap
def accumulated_over_calls(H):
    net = dense()
    net.collect_params().setattr("grad_req", "add")
    trainer = trainer_of(net)

    @H
    def collect(x, y):
        with autograd.record():
            loss = L2(net(x), y).mean()
        loss.backward()
        return loss
    for k in range(6):
        yield collect(X, Y)
        if k % 2:
            trainer.step(2)
            net.collect_params().zero_grad()
            yield weights(net)


@trap
def accumulated_within_a_call(H):
    net = dense()
    net.collect_params().setattr("grad_req", "add")
    trainer = trainer_of(net)

    @H
    def step(x, y):
        net.collect_params().zero_grad()
        for part in (slice(0, 1), slice(1, 3)):
            with autograd.record():
                loss = L2(net(x[part]), y[part]).sum()
            loss.backward()
        trainer.step(3)
        return loss
    for _ in range(3):
        yield step(X, Y), weights(net)


@trap
def loss_function_replaced(H):
    net, state = dense(), types.SimpleNamespace(loss=gluon.loss.L2Loss())
    trainer = trainer_of(net)

    @H
    def step(x, y):
        with autograd.record():
            loss = state.loss(net(x), y).mean()
        loss.backward()
        trainer.step(1)
        return loss
    yield step(X, Y), weights(net)
    state.loss = gluon.loss.L1Loss()
    yield step(X, Y), weights(net)
    state.loss = gluon.loss.HuberLoss(rho=0.5)
    yield step(X, Y), weights(net)


@trap
def loss_weight_schedule(H):
    net, state = dense(), {"alpha": 0.}
    trainer = trainer_of(net)

    @H
    def step(x, y):
        with autograd.record():
            loss = L2(net(x), y).mean() + state["alpha"] * (net.weight.data() ** 2).sum()
        loss.backward()
        trainer.step(1)
        return loss
    for alpha in (0., 0.1, 0.5, 0.):
        state["alpha"] = alpha
        yield step(X, Y), weights(net)


@trap
def trainer_replaced_in_holder(H):
    net, state = dense(), types.SimpleNamespace()
    state.trainer = trainer_of(net)

    @H
    def step(x, y):
        with autograd.record():
            loss = L2(net(x), y).mean()
        loss.backward()
        state.trainer.step(1)
        return loss
    yield step(X, Y), weights(net)
    state.trainer = trainer_of(net, "adam", learning_rate=0.05)
    yield step(X, Y), weights(net)
    yield step(X, Y), weights(net)


@trap
def network_grows_between_steps(H):
    net = nn.HybridSequential()
    net.add(dense(2))
    trainer = trainer_of(net)

    @H
    def step(x, y):
        with autograd.record():
            loss = L2(net(x).sum(axis=1, keepdims=True), y).mean()
        loss.backward()
        trainer.step(1)
        return loss
    yield step(X, Y), weights(net)
    net.add(dense(2))
    yield step(X, Y), weights(net)
