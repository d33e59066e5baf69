"""Training steps: optimizers whose settings change, frozen layers, sizes, weights set from outside."""
from __future__ import annotations

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import add, trap

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


def _optimizer(H, name, settings):
    net, trainer = make(name, **settings)
    step = stepper(H, net, trainer)
    for _ in range(3):
        yield step(X)
    yield weights(net)
    trainer.set_learning_rate(.01)
    yield step(X), weights(net)
    net.collect_params().setattr("wd_mult", 0.)
    yield step(X), step(X * 2), weights(net)


for _name, _settings in {"sgd": {}, "sgd_momentum": {"momentum": .9}, "sgd_wd": {"wd": .1},
                         "sgd_clip": {"clip_gradient": .01}, "nag": {"momentum": .9}, "adam": {},
                         "rmsprop": {}, "adagrad": {}, "adadelta": {}, "adamax": {}, "nadam": {}, "ftrl": {},
                         "signum": {}, "ftml": {}, "lamb": {}, "lars": {},
                         "dcasgd": {}}.items():
    add(f"training.optimizer.{_name}", lambda H, n=_name, s=_settings: _optimizer(H, n.split("_")[0], s))


@trap
def rate_set_each_step(H):
    net, trainer = make()
    step = stepper(H, net, trainer)
    for rate in (.1, .05, .2, 0.):
        trainer.set_learning_rate(rate)
        yield step(X), weights(net)


@trap
def scheduler(H):
    net, trainer = make(lr_scheduler=mx.lr_scheduler.FactorScheduler(step=2, factor=.5))
    step = stepper(H, net, trainer)
    for _ in range(6):
        yield step(X), trainer.learning_rate
    yield weights(net)


@trap
def scheduler_of_own(H):
    class Warm(mx.lr_scheduler.LRScheduler):
        def __call__(self, n):
            return .01 * n
    net, trainer = make(lr_scheduler=Warm())
    step = stepper(H, net, trainer)
    for _ in range(4):
        yield step(X)
    yield weights(net)


@trap
def momentum_changed(H):
    net, trainer = make(momentum=.9)
    step = stepper(H, net, trainer)
    yield step(X), step(X)
    trainer._optimizer.momentum = 0.
    yield step(X), step(X), weights(net)


@trap
def decay_changed(H):
    net, trainer = make(wd=.1)
    step = stepper(H, net, trainer)
    yield step(X)
    trainer._optimizer.wd = .5
    yield step(X), weights(net)


@trap
def beta_changed(H):
    net, trainer = make("adam")
    step = stepper(H, net, trainer)
    yield step(X), step(X)
    trainer._optimizer.beta1 = .5
    yield step(X), weights(net)


@trap
def clip_changed(H):
    net, trainer = make()
    step = stepper(H, net, trainer)
    yield step(X)
    trainer._optimizer.clip_gradient = .001
    yield step(X), weights(net)


@trap
def rescale_changed(H):
    net, trainer = make()
    step = stepper(H, net, trainer)
    yield step(X)
    trainer._scale = .01
    yield step(X), weights(net)


@trap
def multipliers_changed(H):
    net, trainer = make()
    step = stepper(H, net, trainer)
    yield step(X)
    net[0].weight.lr_mult = 0.
    yield step(X), weights(net)
    net[0].weight.lr_mult = 2.
    yield step(X), weights(net)


@trap
def batch_size_argument(H):
    net, trainer = make()

    @H
    def step(x, n):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(n)
        return loss
    for n in (1, 2, 1, 4):
        yield step(X, n), weights(net)


@trap
def batch_sizes_change(H):
    net, trainer = make("adam")

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(x.shape[0])
        return loss
    for n in (2, 1, 3, 2, 1, 5, 4, 6, 2):
        yield step(nd.ones((n, 3)))
    yield weights(net)


@trap
def frozen_later(H):
    net, trainer = make()
    step = stepper(H, net, trainer)
    yield step(X)
    net[0].collect_params().setattr("grad_req", "null")
    yield step(X), weights(net)
    net[0].collect_params().setattr("grad_req", "write")
    yield step(X), weights(net)


@trap
def gradients_added(H):
    net, trainer = make()
    net.collect_params().setattr("grad_req", "add")

    @H
    def accumulate(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        return loss
    for k in range(2):
        yield accumulate(X), accumulate(X * 2)
        trainer.step(4)
        net.collect_params().zero_grad()
        yield weights(net)


@trap
def step_then_plain_call(H):
    net, trainer = make()
    step = stepper(H, net, trainer)
    H(net)
    for _ in range(3):
        yield step(X), net(X)


@trap
def weights_set_between(H):
    net, trainer = make("adam")
    step = stepper(H, net, trainer)
    yield step(X)
    for p in net.collect_params().values():
        p.set_data(p.data() * 0 + .3)
    yield step(X), weights(net)


@trap
def eager_and_compiled_steps_mixed(H):
    net, trainer = make("adam")

    def plain(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        return loss
    step = H(plain)
    yield step(X), plain(X), step(X), plain(X), step(X), weights(net)
