"""Training steps that do more than update: penalties, several networks, weights and gradients that code changes."""
from __future__ import annotations

import copy
import tempfile

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap
from .training_kinds import L2, X, Y, dense, step_of, trainer_of, weights


@trap
def gradient_penalty(H):
    net = dense()
    trainer = trainer_of(net)

    @H
    def step(x, y):
        x = x * 1
        x.attach_grad()
        with autograd.record():
            out = net(x)
            g = autograd.grad(out.sum(), [x], create_graph=True, retain_graph=True)[0]
            loss = L2(out, y).mean() + (g ** 2).sum()
        loss.backward()
        trainer.step(1)
        return loss
    for _ in range(2):
        yield step(X, Y), weights(net)


@trap
def generator_and_discriminator_by_turns(H):
    g, d = dense(2), dense(1)
    tg, td = trainer_of(g), trainer_of(d, "adam", learning_rate=0.05)

    @H
    def of_d(z, x):
        with autograd.record():
            loss = (d(x) - 1).square().mean() + d(g(z).detach()).square().mean()
        loss.backward()
        td.step(1)
        return loss

    @H
    def of_g(z):
        with autograd.record():
            loss = (d(g(z)) - 1).square().mean()
        loss.backward()
        tg.step(1)
        return loss
    for _ in range(3):
        yield of_d(X, X * 2), of_g(X), weights(g, d)


@trap
def target_network_follows(H):
    net = dense()
    target = copy.deepcopy(net)
    trainer = trainer_of(net)

    @H
    def step(x, y):
        with autograd.record():
            loss = L2(net(x), y + 0.5 * target(x)).mean()
        loss.backward()
        trainer.step(1)
        for p, q in zip(net.collect_params().values(), target.collect_params().values()):
            q.set_data(0.9 * q.data() + 0.1 * p.data())
        return loss
    for _ in range(3):
        yield step(X, Y), weights(net, target)


@trap
def weights_clipped_after_step(H):
    net = dense()
    trainer = trainer_of(net)

    @H
    def step(x, y):
        with autograd.record():
            loss = L2(net(x), y).mean()
        loss.backward()
        trainer.step(1)
        for p in net.collect_params().values():
            p.data()[:] = p.data().clip(-0.9, 0.9)
        return loss
    for _ in range(3):
        yield step(X, Y), weights(net)


@trap
def gradients_read_and_scaled(H):
    net = dense()
    trainer = trainer_of(net)

    @H
    def step(x, y):
        with autograd.record():
            loss = L2(net(x), y).mean()
        loss.backward()
        for p in net.collect_params().values():
            p.grad()[:] = p.grad() * 0.5
        trainer.step(1)
        return loss, net.weight.grad()
    for _ in range(3):
        yield step(X, Y), weights(net)


@trap
def early_stop_by_python_number(H):
    net, state = dense(), {"best": 1e9, "bad": 0}
    step = step_of(H, net, trainer_of(net))
    for _ in range(3):
        loss = float(step(X, Y).asscalar())
        state["bad"] = 0 if loss < state["best"] else state["bad"] + 1
        state["best"] = min(loss, state["best"])
    yield state["best"], state["bad"], weights(net)


@trap
def warm_up_by_count_in_step(H):
    net, state = dense(), {"n": 0}
    trainer = trainer_of(net)

    @H
    def step(x, y):
        state["n"] += 1
        trainer.set_learning_rate(0.01 * state["n"])
        with autograd.record():
            loss = L2(net(x), y).mean()
        loss.backward()
        trainer.step(1)
        return loss
    for _ in range(4):
        yield step(X, Y), weights(net), trainer.learning_rate


@trap
def states_saved_and_other_optimizer_loaded(H):
    net = dense()
    trainer = trainer_of(net, "adam", learning_rate=0.1)
    step = step_of(H, net, trainer)
    yield step(X, Y)
    with tempfile.TemporaryDirectory() as folder:
        trainer.save_states(f"{folder}/trainer.states")
        before = [w.copy() for w in weights(net)]
        yield step(X, Y), weights(net)
        trainer.load_states(f"{folder}/trainer.states")
    for p, w in zip(net.collect_params().values(), before):
        p.set_data(w)
    yield step(X, Y), weights(net)


@trap
def batch_norm_and_dropout_modes(H):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2), nn.BatchNorm(in_channels=3), nn.Dropout(0.))
    net.initialize(init="ones")
    trainer = trainer_of(net)

    @H
    def step(x, y):
        with autograd.record():
            loss = L2(net(x).sum(axis=1, keepdims=True), y).mean()
        loss.backward()
        trainer.step(1)
        return loss
    f = H(lambda x: net(x))
    for _ in range(3):
        yield step(X, Y), f(X), weights(net)


@trap
def rates_by_parameter(H):
    net = nn.HybridSequential()
    net.add(dense(2), dense(1))
    net[0].collect_params().setattr("lr_mult", 0.1)
    step = step_of(H, net, trainer_of(net, "sgd", learning_rate=0.1, momentum=0.5))
    yield step(X, Y), weights(net)
    net[0].collect_params().setattr("lr_mult", 1.)
    net[1].collect_params().setattr("wd_mult", 5.)
    yield step(X, Y), weights(net)
    yield step(X, Y), weights(net)


@trap
def ignored_stale_gradient(H):
    a, b = dense(), dense()
    params = a.collect_params()
    params.update(b.collect_params())
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 0.1})
    state = {"net": a}

    @H
    def step(x, y):
        with autograd.record():
            loss = L2(state["net"](x), y).mean()
        loss.backward()
        trainer.step(1, ignore_stale_grad=True)
        return loss
    for net in (a, b, a):
        state["net"] = net
        yield step(X, Y), weights(a, b)


@trap
def embedding_rows(H):
    net = nn.Embedding(5, 2)
    net.initialize(init="ones")
    trainer = trainer_of(net, "adam", learning_rate=0.1)

    @H
    def step(i):
        with autograd.record():
            loss = (net(i) ** 2).mean()
        loss.backward()
        trainer.step(1)
        return loss
    for i in ([0, 1], [1, 1], [4, 0]):
        yield step(nd.array(i)), weights(net)


@trap
def recurrent_states_between_steps(H):
    cell = gluon.rnn.GRUCell(2, input_size=2)
    cell.initialize(init="ones")
    trainer = trainer_of(cell)
    state = {"h": nd.zeros((3, 2))}

    @H
    def step(x):
        with autograd.record():
            out, (h,) = cell(x, [state["h"]])
            loss = (out ** 2).mean()
        loss.backward()
        trainer.step(1)
        state["h"] = h.detach()
        return loss
    for _ in range(3):
        yield step(X), state["h"]


@trap
def seeds_within_training(H):
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=2), nn.Dropout(0.5), nn.Dense(1, in_units=4))
    net.initialize(init="ones")
    step = step_of(H, net, trainer_of(net))
    for seed in (1, 2, 1):
        mx.random.seed(seed)
        yield step(X, Y), step(X, Y)


@trap
def noise_added_to_gradients(H):
    net = dense()
    trainer = trainer_of(net)

    @H
    def step(x, y):
        with autograd.record():
            loss = L2(net(x), y).mean()
        loss.backward()
        net.weight.grad()[:] += nd.random.normal(0, 0.1, shape=(1, 2))
        trainer.step(1)
        return loss
    mx.random.seed(3)
    for _ in range(3):
        yield step(X, Y), weights(net)


@trap
def inner_loop_of_updates(H):
    w = arr(1., 2.)
    w.attach_grad()

    @H
    def fit(x):
        for _ in range(3):
            with autograd.record():
                loss = ((w - x) ** 2).sum()
            loss.backward()
            w[:] = w - 0.1 * w.grad
        return loss
    for _ in range(2):
        yield fit(arr(3., 0.)), w


@trap
def weights_swapped_for_evaluation(H):
    net = dense()
    f, step = H(lambda x: net(x)), step_of(H, net, trainer_of(net))
    mean = None
    for _ in range(3):
        yield step(X, Y)
        w = net.weight.data().copy()
        mean = w if mean is None else 0.5 * mean + 0.5 * w
        net.weight.set_data(mean)
        yield f(X)
        net.weight.set_data(w)
    yield weights(net)
