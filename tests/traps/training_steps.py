"""Training steps: two networks, several updates, gradients read and changed, averages."""
from __future__ import annotations

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import trap

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
def two_networks(H):
    g, tg = make(units=3)
    d, td = make(units=1)

    @H
    def step_d(x):
        with autograd.record():
            loss = (d(x) ** 2).mean() + (d(g(x).detach()) ** 2).mean()
        loss.backward()
        td.step(1)
        return loss

    @H
    def step_g(x):
        with autograd.record():
            loss = ((d(g(x)) - 1) ** 2).mean()
        loss.backward()
        tg.step(1)
        return loss
    for _ in range(3):
        yield step_d(X), step_g(X)
    yield weights(g), weights(d)


@trap
def packed_weight_not_updated(H):
    nets = [nn.HybridSequential() for _ in "GD"]
    for net, sizes in zip(nets, ((8, 32, 100), (100, 32, 1))):
        net.add(*(nn.Dense(b, in_units=a) for a, b in zip(sizes, sizes[1:])))
        net.initialize(mx.init.Constant(.01))
    trainer = gluon.Trainer(nets[0].collect_params(), "adam", {"learning_rate": .1})

    def step(z, nets=nets, trainer=trainer):
        with autograd.record():
            loss = nets[1](nets[0](z)).mean()
        loss.backward()
        trainer.step(1)
        return loss
    step = H(step)
    for _ in range(3):
        yield step(nd.ones((32, 8)))
    yield weights(nets[0])


@trap
def two_steps_in_one_function(H):
    net, trainer = make()

    @H
    def step(x):
        losses = []
        for k in (1., 2.):
            with autograd.record():
                loss = (net(x * k) ** 2).sum()
            loss.backward()
            trainer.step(2)
            losses.append(loss)
        return losses
    for _ in range(2):
        yield step(X)
    yield weights(net)


@trap
def two_trainers_in_one_function(H):
    a, ta = make()
    b, tb = make("adam")

    @H
    def step(x):
        with autograd.record():
            loss = (a(x) ** 2).sum() + (b(x) ** 2).sum()
        loss.backward()
        ta.step(2)
        tb.step(2)
        return loss
    for _ in range(3):
        yield step(X)
    yield weights(a), weights(b)


@trap
def step_every_second_time(H):
    net, trainer = make()

    @H
    def step(x, update):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        if update:
            trainer.step(2)
        return loss
    for i in range(4):
        yield step(X, i % 2 == 1)
    yield weights(net)


@trap
def step_by_value(H):
    net, trainer = make()

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        if loss.asscalar() < 100:
            trainer.step(2)
        return loss
    for _ in range(3):
        yield step(X)


@trap
def gradient_read_after_step(H):
    net, trainer = make()
    step = stepper(H, net, trainer)
    step(X)
    yield net[0].weight.grad()


@trap
def gradient_returned(H):
    net, trainer = make()

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        return loss, net[0].weight.grad()
    for _ in range(3):
        yield step(X)


@trap
def gradient_clipped_by_norm(H):
    net, trainer = make()

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], .1, check_isfinite=False)
        trainer.step(2)
        return loss
    for _ in range(3):
        yield step(X)
    yield weights(net)


@trap
def gradient_changed_by_hand(H):
    net, trainer = make()

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        for p in net.collect_params().values():
            p.grad()[:] = nd.sign(p.grad())
        trainer.update(1)
        return loss
    for _ in range(3):
        yield step(X)
    yield weights(net)


@trap
def update_by_hand(H):
    net, _ = make()

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        for p in net.collect_params().values():
            p.data()[:] -= .1 * p.grad()
        return loss
    for _ in range(3):
        yield step(X)
    yield weights(net)


@trap
def update_by_set_data(H):
    net, _ = make()

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        for p in net.collect_params().values():
            p.set_data(p.data() - .1 * p.grad())
        return loss
    for _ in range(3):
        yield step(X)
    yield weights(net)


@trap
def average_of_weights(H):
    net, trainer = make()
    mean = {k: p.data().copy() for k, p in net.collect_params().items()}

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        for k, p in net.collect_params().items():
            mean[k][:] = mean[k] * .9 + p.data() * .1
        return loss
    for _ in range(3):
        yield step(X)
    yield list(mean.values())


@trap
def average_of_weights_rebound(H):
    net, trainer = make()
    mean = {k: p.data().copy() for k, p in net.collect_params().items()}

    @H
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        for k, p in net.collect_params().items():
            mean[k] = mean[k] * .9 + p.data() * .1
        return loss
    for _ in range(3):
        yield step(X)
    yield list(mean.values())
