"""Training loops without a Trainer as one program: ``autograd.grad``, updates by hand; and loops
with weights in the loss, ``pause``, ``retain_graph``, or the step within ``record``."""
from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import HybridError, autograd, gluon, nd
from hybrid.gluon import nn

from .test_deferred_loop import BATCHES, Loop, both, data, is_joined, small, smooth


def trained(loop: Loop) -> list[Any]:
    return [p for p in loop.net.collect_params().values() if p.grad_req != "null"]


def batch(i: int) -> tuple[Any, Any]:
    """The last batch of an epoch has fewer rows."""
    return data(i, 5) if i % 6 == 5 else BATCHES[i % 5]


def recorded(loop: Loop, i: int) -> Any:
    x, y = batch(i)
    with autograd.record():
        return loop.loss(loop.net(x), y)


Update = Callable[[Loop, int, list[Any], list[Any]], None]


def written(loop: Loop, i: int, weights: list[Any], grads: list[Any]) -> None:
    for p, g in zip(trained(loop), grads):
        p.data()[:] = p.data() - 0.05 * g


def given(loop: Loop, i: int, weights: list[Any], grads: list[Any]) -> None:
    for p, g in zip(trained(loop), grads):
        p.set_data(p.data() - 0.05 / (i + 1) * g)


def in_place(loop: Loop, i: int, weights: list[Any], grads: list[Any]) -> None:
    for w, g in zip(weights, grads):
        w -= 0.05 * 0.9 ** i * g


def operator(loop: Loop, i: int, weights: list[Any], grads: list[Any]) -> None:
    for w, g in zip(weights, grads):
        nd.sgd_update(w, g, lr=0.05, out=w)


def momentum(loop: Loop, i: int, weights: list[Any], grads: list[Any]) -> None:
    if i == 0:
        loop.states = [nd.zeros(w.shape) for w in weights]
    for w, g, v in zip(weights, grads, loop.states):
        v[:] = 0.9 * v + g
        w[:] = w - 0.02 * v


def momentum_operator(loop: Loop, i: int, weights: list[Any], grads: list[Any]) -> None:
    if i == 0:
        loop.states = [nd.zeros(w.shape) for w in weights]
    for w, g, v in zip(weights, grads, loop.states):
        nd.sgd_mom_update(w, g, v, lr=0.02, momentum=0.9, out=w)


def adam(loop: Loop, i: int, weights: list[Any], grads: list[Any]) -> None:
    if i == 0:
        loop.states = [(nd.zeros(w.shape), nd.zeros(w.shape)) for w in weights]
    for w, g, (m, v) in zip(weights, grads, loop.states):
        m[:] = 0.9 * m + 0.1 * g
        v[:] = 0.99 * v + 0.01 * g ** 2
        w[:] = w - 0.01 * (m / (1 - 0.9 ** (i + 1))) / ((v / (1 - 0.99 ** (i + 1))).sqrt() + 1e-3)


UPDATES = [written, given, in_place, operator, momentum, momentum_operator, adam]


@pytest.mark.parametrize("update", UPDATES, ids=lambda f: f.__name__)
def test_gradients_by_grad_and_updates_by_hand(monkeypatch: Any, update: Update) -> None:
    def body(loop: Loop, i: int) -> None:
        loss = recorded(loop, i)
        weights = [p.data() for p in trained(loop)]
        grads = autograd.grad(loss, weights)
        update(loop, i, weights, grads)
        loop.seen += [loss.asnumpy(), *(g.asnumpy() for g in grads)]
    loop = both(monkeypatch, body, 24, maker=smooth if update is adam else small)
    assert is_joined(loop, 24 - 4 - 4), str(loop.root)               # two rounds of each size, numbers that change


def test_updates_by_hand_behind_backward(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        loss = recorded(loop, i)
        loss.backward()
        for p in trained(loop):
            param = p.data()
            param[:] = param - 0.4 * param.grad / len(loss)
        if i % 3 == 0:
            loop.seen += [loss.asnumpy(), trained(loop)[0].grad().asnumpy()]
        for p in trained(loop):
            p.zero_grad()
    assert is_joined(both(monkeypatch, body, 30), 24)


def test_a_long_curve_with_prints(monkeypatch: Any) -> None:
    """Rounds are done the ordinary way if a result is read amid their updates, or if they have further ones."""
    def body(loop: Loop, i: int) -> None:
        loss = recorded(loop, i)
        weights = [p.data() for p in trained(loop)]
        grads = autograd.grad(loss, weights)
        if i % 10 == 9:
            loop.seen.append(loss.asnumpy())
        written(loop, i, weights[:3], grads[:3])
        if i % 7 == 6:
            loop.seen.append(weights[0].asnumpy())
        for w, g in zip(weights[3:], grads[3:]):
            w -= 0.05 * g
        if i % 11 == 10:
            weights[-1][0] = 0.1
        if i % 25 == 24:
            loop.seen.append(loop.net(BATCHES[0][0]).asnumpy())
    loop = both(monkeypatch, body, 150)
    assert is_joined(loop, 90), str(loop.root)


def test_several_losses_and_head_gradients(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        x, y = batch(i)
        with autograd.record():
            out = loop.net(x)
            one, two = loop.loss(out, y), (out ** 2).mean(axis=1)
        weights = [p.data() for p in trained(loop)]
        first = autograd.grad(one, weights, retain_graph=True)
        second = autograd.grad([one, two], weights, [nd.ones_like(one) * 0.1, nd.ones((len(x),))])
        for w, f, s in zip(weights, first, second):
            w[:] = w - 0.05 * f - 0.01 * s
        loop.seen += [one.asnumpy(), second[0].asnumpy()]
    assert is_joined(both(monkeypatch, body), 18)


def test_gradients_that_can_be_differentiated_again_are_not_joined(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
            slopes = autograd.grad(loss, [trained(loop)[0].data()], create_graph=True)
            total = loss.mean() + (slopes[0] ** 2).sum()
        total.backward()
        loop.trainer.step(1)
        loop.seen.append(total.asnumpy())
    loop = both(monkeypatch, body, 8, maker=smooth)
    assert not loop.root.joined
    assert "create_graph=True" in str(loop.net.report()) and "test_deferred_updates.py:" in str(loop.root)


@pytest.mark.parametrize("use", [lambda d, g: d * 2 + g, lambda d, g: g + d], ids=["alone", "together"])
def test_arrays_that_share_memory_are_read_when_they_are_used(monkeypatch: Any, use: Callable[[Any, Any], Any]) -> None:
    """Behind the write to a parameter, what ``detach`` gave before the loop holds the new value."""
    def body(loop: Loop, i: int) -> None:
        if i == 0:
            loop.shared = [p.data().detach() for p in trained(loop)]
            loop.states = [nd.zeros(p.shape) for p in trained(loop)]
        recorded(loop, i).backward()
        for p, d, state in zip(trained(loop), loop.shared, loop.states):
            p.data()[:] = p.data() - 0.05 * p.grad()
            state[:] = use(d, p.grad())
        loop.seen += [s.asnumpy() for s in loop.states]
    assert not both(monkeypatch, body, 12, maker=smooth).root.joined


def test_the_gradient_of_what_collects_none_any_more_is_an_error(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        if i == 0:
            loop.weights = [p.data() for p in trained(loop)]
        if i == 10:
            trained(loop)[1].grad_req = "null"
        loss = recorded(loop, i)
        try:
            grads = autograd.grad(loss, loop.weights)
        except HybridError:
            grads = [nd.ones(w.shape) for w in loop.weights]
            loop.seen.append(i)
        for w, g in zip(loop.weights, grads):
            w -= 0.05 * g
    assert 10 in both(monkeypatch, body, 14).seen


def test_an_array_with_the_memory_of_a_gradient(monkeypatch: Any) -> None:
    """Also where it is read once only, after many iterations that were one program."""
    def body(loop: Loop, i: int) -> None:
        recorded(loop, i).backward()
        grads = [p.grad() for p in trained(loop)]
        if i == 15:
            loop.seen.append((grads[0].detach() * 2).asnumpy())
        if i == 19:
            loop.shared = trained(loop)[0].data().detach()
        written(loop, i, [], grads)
        if i in (21, 22):
            trained(loop)[0].data()[:] = trained(loop)[0].data() - 0.1 * grads[0]
            loop.seen.append((loop.shared * 2).asnumpy())
    both(monkeypatch, body, 24)


def test_who_shares_an_array_by_dlpack_sees_each_write(monkeypatch: Any) -> None:
    """Also where the array was handed out after such iterations were put off."""
    def body(loop: Loop, i: int) -> None:
        recorded(loop, i).backward()
        weight = trained(loop)[0].data()
        if i == 8:
            loop.outside = np.from_dlpack(weight)
        weight -= 0.05 * weight.grad
        if i >= 8:
            loop.seen.append(loop.outside.copy())
        written(loop, i, [], [p.grad() for p in trained(loop)])
    assert both(monkeypatch, body, 14).root.joined


def test_arrays_without_dimensions(monkeypatch: Any) -> None:
    class Scaled(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(4, in_units=12)
            self.factor = self.params.get("factor", shape=(), init="ones")

        def hybrid_forward(self, F: Any, x: Any, factor: Any) -> Any:
            return F.broadcast_mul(self.dense(x), F.reshape(factor, (1, 1)))

    def maker() -> Any:
        mx.random.seed(1)
        net = Scaled()
        net.initialize()
        net.hybridize()
        return net

    def body(loop: Loop, i: int) -> None:
        recorded(loop, i).backward()
        for p in trained(loop):
            p.set_data(p.data() - 0.05 * p.grad())
            weight = p.data()
            weight -= 0.01 * p.grad()
            p.data().zero_grad()
        loop.seen.append(loop.net.factor.grad().asnumpy())
    loop = both(monkeypatch, body, maker=maker)
    assert is_joined(loop, 10), str(loop.root)


# ---- other things in loops
def stepped(loop: Loop, i: int, forward: Callable[[Loop, Any, Any], Any], **options: Any) -> None:
    x, y = batch(i)
    with autograd.record():
        loss = forward(loop, x, y)
    loss.backward(**options)
    loop.trainer.step(len(x))
    loop.seen.append(loss.asnumpy())


def test_weights_in_the_loss(monkeypatch: Any) -> None:
    def forward(loop: Loop, x: Any, y: Any) -> Any:
        return loop.loss(loop.net(x), y) + 0.01 * sum((p.data() ** 2).sum() for p in trained(loop))
    assert is_joined(both(monkeypatch, lambda loop, i: stepped(loop, i, forward)), 18)


def test_pause_within_record(monkeypatch: Any) -> None:
    def forward(loop: Loop, x: Any, y: Any) -> Any:
        out = loop.net(x)
        with autograd.pause():
            target = loop.teacher(x)
        return loop.loss(out, y) + ((out - target) ** 2).mean(axis=1)

    def body(loop: Loop, i: int) -> None:
        if i == 0:
            loop.teacher = small(5)
        stepped(loop, i, forward)
        loop.seen += [p.data().asnumpy() for p in loop.teacher.collect_params().values()]
    assert is_joined(both(monkeypatch, body), 18)


def test_backward_and_step_within_record(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        x, y = batch(i)
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
            loss.backward()
            loop.trainer.step(len(x))
        loop.seen.append(loss.asnumpy())
    assert is_joined(both(monkeypatch, body), 18)


def test_a_recording_that_is_kept(monkeypatch: Any) -> None:
    """After the step, ``backward`` over it raises the ordinary error, since its parameters have changed."""
    def body(loop: Loop, i: int) -> None:
        stepped(loop, i, lambda loop, x, y: loop.loss(loop.net(x), y), retain_graph=True)
        x, y = batch(i)
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
        loss.backward(nd.ones((len(x),)) * 0.5, retain_graph=True)
        loop.trainer.step(8)
        with pytest.raises(HybridError, match="changed in place"):
            loss.backward()
    assert is_joined(both(monkeypatch, body, 20), 30)


def test_numbers_that_change_are_values(monkeypatch: Any) -> None:
    """A factor that differs in each iteration, before ``backward`` and after it, leaves one program."""
    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        with autograd.record():
            loss = loop.loss(loop.net(x), y) * (1 / (i + 2))
        loss.backward()
        for p in trained(loop):
            weight = p.data()
            weight -= (0.1 + 0.01 * i) * p.grad()
        loop.seen.append(loss.asnumpy())
    loop = both(monkeypatch, body, 24)
    assert is_joined(loop, 16)
    plans = [plan for node in nodes(loop.root) for plan in node.plans.values()]
    assert sum(len(plan.engine.entries) for plan in plans) <= 8


def nodes(root: Any) -> list[Any]:
    return [root, *(n for child in root.next.values() for n in nodes(child))]


def test_a_program_without_a_trainer() -> None:
    """Rounds are watched in a process that uses networks and never loads a Trainer."""
    code = ("from hybrid import autograd, gluon, nd\n"
            "net = gluon.nn.Dense(2, in_units=3)\n"
            "net.initialize()\n"
            "net.hybridize()\n"
            "for i in range(6):\n"
            "    with autograd.record():\n"
            "        loss = (net(nd.ones((4, 3))) ** 2).sum()\n"
            "    weights = [p.data() for p in net.collect_params().values()]\n"
            "    for w, g in zip(weights, autograd.grad(loss, weights)):\n"
            "        w[:] = w - 0.1 * g\n"
            "print(net.report())\n")
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "HYBRID_COMPILE": "now"}, text=True,
                          capture_output=True, check=True)
    assert "4 rounds of the training loop ran as one program" in done.stdout


def test_rounds_that_are_others_each_time_take_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from hybrid.jit.deferred import events  # noqa: PLC0415  a limit of its own

    def nodes() -> int:
        gc.collect()
        return sum(isinstance(x, events.Node) for x in gc.get_objects())
    monkeypatch.setattr(events, "MOST_BRANCHES", 20)
    loop, draws, before = Loop(), np.random.RandomState(3), nodes()
    for _ in range(200):
        recorded(loop, 0).backward()
        w, grad = loop.net[0].weight.data(), loop.net[0].weight.grad()
        for j in map(int, draws.randint(0, 4, size=4)):
            w[j] = w[j] - 0.05 * grad[j]
    assert nodes() - before < 120
