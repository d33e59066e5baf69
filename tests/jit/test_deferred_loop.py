"""The ordinary training loop as one program: rounds that were put off give what they give call by call."""
from __future__ import annotations

import copy
import pickle
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, metric, nd
from hybrid.base import pending
from hybrid.gluon import nn

STEPS = 24


def data(k: int, rows: int = 8, columns: int = 12) -> tuple[Any, Any]:
    rng = np.random.RandomState(k)
    return nd.array(rng.rand(rows, columns).astype("f")), nd.array(rng.randint(0, 4, rows).astype("f"))


BATCHES = [data(k) for k in range(5)]


def small(seed: int = 1) -> Any:
    """A net with all that makes rounds hard: running statistics and random draws."""
    mx.random.seed(seed)
    net = nn.HybridSequential()
    net.add(nn.Dense(16, in_units=12), nn.BatchNorm(in_channels=16), nn.Activation("relu"), nn.Dropout(0.3),
            nn.Dense(4, in_units=16))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


class Loop:
    """A net, a loss, a Trainer, and what a loop saw."""

    def __init__(self, optimizer: str = "sgd", maker: Callable[[], Any] = small, hybrid_loss: bool = True,
                 **options: Any):
        self.net, self.loss = maker(), gluon.loss.SoftmaxCrossEntropyLoss()
        if hybrid_loss:
            self.loss.hybridize()
        self.trainer = gluon.Trainer(self.net.collect_params(), optimizer, {"learning_rate": 0.05, **options})
        self.seen: list[Any] = []

    def step(self, i: int) -> Any:
        x, y = BATCHES[i % 5]
        with autograd.record():
            loss = self.loss(self.net(x), y)
        loss.backward()
        self.trainer.step(8)
        self.seen.append(loss.asnumpy())
        return loss

    @property
    def root(self) -> Any:
        return self.net._engine.rounds

    def state(self) -> list[Any]:
        return [p._reduce().asnumpy() for p in self.net.collect_params().values()]


def look_before(loop: Loop, i: int) -> None:
    """A round whose loss is looked at before the step: forward and backward pass are one program."""
    x, y = BATCHES[i % 5]
    with autograd.record():
        loss = loop.loss(loop.net(x), y)
    loss.backward()
    loop.seen.append(loss.asnumpy())
    loop.trainer.step(8)


def both(monkeypatch: Any, body: Callable[[Loop], Any], steps: int = STEPS, tolerance: Any = None,
         **options: Any) -> Loop:
    """Run a loop as it is and with nothing put off; both must see the same. The loop as it is."""
    runs = []
    for setting in "01":
        monkeypatch.setenv("HYBRID_DEFER", setting)
        loop = Loop(**options)
        if body.__code__.co_argcount == 2:
            for i in range(steps):
                body(loop, i)                            # type: ignore[call-arg]
        else:
            body(loop)
        assert not pending.PUT_OFF[0]
        runs.append((loop, loop.seen, loop.state()))
    (_, seen, state), (loop, other, moved) = runs
    assert len(seen) == len(other)
    for a, b in zip([*seen, *state], [*other, *moved]):
        np.testing.assert_allclose(b, a, *tolerance or (2e-4, 2e-5))
    return loop


def is_joined(loop: Loop, least: int = STEPS - 5) -> bool:
    return loop.root.joined >= least and not loop.root.refused


def smooth() -> Any:
    """A net without BatchNorm: the gradient of a bias before that is rounding noise, which some optimizers divide by
    its own size."""
    mx.random.seed(1)
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh", in_units=12), nn.Dropout(0.2), nn.Dense(4, in_units=16))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


@pytest.mark.parametrize("optimizer,maker,options", [("sgd", small, {"momentum": 0.9, "wd": 1e-3}),
                                                     ("adam", smooth, {})])
def test_two_hundred_steps(monkeypatch: Any, optimizer: str, maker: Any, options: Any) -> None:
    loop = both(monkeypatch, Loop.step, 200, optimizer=optimizer, maker=maker, **options)
    assert is_joined(loop, 195)
    assert "rounds of the training loop ran as one program" in str(loop.net.report())


def test_loss_that_is_not_hybridized(monkeypatch: Any) -> None:
    assert is_joined(both(monkeypatch, Loop.step, hybrid_loss=False))


def test_losses_of_other_kinds_attributes_and_hooks(monkeypatch: Any) -> None:
    """A loss of the library that is not hybridized is one event of a round; what it depends on is part of it."""
    def weighted(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        if i == 12:
            loop.loss._weight = 0.5
        if i == 15:
            loop.loss.register_forward_hook(lambda block, inputs, out: loop.seen.append(out.asnumpy()))
        with autograd.record():
            out = loop.net(x)
            loss = loop.loss(out, y) if i < 6 else loop.loss(out, y, WEIGHTS) + loop.squares(out, TARGETS)
        loss.backward()
        loop.trainer.step(8)
        loop.seen.append(loss.asnumpy())

    def made(loop: Loop, i: int) -> None:
        if i == 0:
            loop.squares = gluon.loss.L2Loss()
        weighted(loop, i)
    loop = both(monkeypatch, made, 20, hybrid_loss=False)
    assert loop.root.joined >= 6
    assert len(loop.seen) == 25

    class Mine(gluon.loss.SoftmaxCrossEntropyLoss):
        count = 0

        def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:  # noqa: N803
            self.count += 1
            return super().hybrid_forward(F, pred, label, sample_weight) * self.count

    def users(loop: Loop, i: int) -> None:
        if i == 0:
            loop.loss = Mine()
        loop.step(i)
    loop = both(monkeypatch, users, 8, hybrid_loss=False)
    assert loop.loss.count == 8


WEIGHTS = nd.array(np.linspace(0.5, 1.5, 8).reshape(8, 1))
TARGETS = nd.array(np.linspace(-1, 1, 32).reshape(8, 4))


def test_a_trainer_is_copied_and_pickled_after_joined_rounds() -> None:
    loop = Loop(maker=smooth)
    for i in range(5):
        loop.step(i)
    assert loop.root.joined
    for other in (copy.deepcopy(loop.trainer), pickle.loads(pickle.dumps(loop.trainer))):
        assert other.size.step.trainer() is other and not other.joined
        assert other.optimizer.num_update == 5


def test_nothing_is_put_off_when_told_so(monkeypatch: Any) -> None:
    monkeypatch.setenv("HYBRID_DEFER", "0")
    loop = Loop()
    for i in range(6):
        loop.step(i)
    assert loop.root is None or not loop.root.joined


def test_results_are_promises_until_the_step() -> None:
    loop = Loop()
    for i in range(4):
        loop.step(i)
    x, y = BATCHES[0]
    with autograd.record():
        out = loop.net(x)
        assert out.shape == (8, 4) and out.dtype == np.float32 and len(out) == 8 and pending.PUT_OFF[0] == 1
        loss = loop.loss(out, y)
    loss.backward()
    assert x.shape == (8, 12) and pending.PUT_OFF[0] == 1
    loop.trainer.step(x.shape[0])
    assert pending.PUT_OFF[0] == 0 and loss.shape == (8,) and loop.root.joined == 3
    before = loss.asnumpy()
    np.testing.assert_allclose(loop.loss(out, y).asnumpy(), before, rtol=1e-5)
    assert loss._ag is None and x._data is not None


# ---- what a loop looks at
def test_gradients_after_the_step(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        loop.step(i)
        loop.seen += [p.grad().asnumpy() for p in loop.net.collect_params().values() if p.grad_req != "null"]
    assert is_joined(both(monkeypatch, body))


def test_outputs_and_metrics(monkeypatch: Any) -> None:
    accuracy = metric.Accuracy()

    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        with autograd.record():
            out = loop.net(x)
            loss = loop.loss(out, y)
        loss.backward()
        loop.trainer.step(8 + i % 3)
        accuracy.update([y], [out])
        loop.seen += [out.asnumpy(), loss.mean().asnumpy()]
    assert is_joined(both(monkeypatch, body))


def test_loss_and_metric_before_the_step(monkeypatch: Any) -> None:
    """Forward and backward pass are one program then, and the step another."""
    accuracy = metric.Accuracy()

    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        with autograd.record():
            out = loop.net(x)
            loss = loop.loss(out, y)
        loss.backward()
        accuracy.update([y], [out])
        loop.seen.append(loss.asnumpy())
        loop.trainer.step(8)
    assert is_joined(both(monkeypatch, body))


def test_mean_sums_of_losses_and_several_heads(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        with autograd.record():
            out = loop.net(x)
            loss, other = loop.loss(out, y), loop.loss(out, (y + 1) % 4)
            total = loss.mean() + 0.1 * (other * other).mean()
        autograd.backward([total, other])
        loop.trainer.step(1)
        loop.seen += [total.asnumpy(), other.asnumpy(), loss.asnumpy()]
    assert is_joined(both(monkeypatch, body))


def test_learning_rates(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        loop.trainer.set_learning_rate(0.1 / (1 + i))
        loop.step(i)
    assert is_joined(both(monkeypatch, body))

    def scheduled(loop: Loop, i: int) -> None:
        loop.step(i)
        loop.seen.append(np.array(loop.trainer.learning_rate))
        if not i:
            loop.trainer.optimizer.lr_scheduler = mx.lr_scheduler.FactorScheduler(step=3, factor=0.7, base_lr=0.05)
    assert is_joined(both(monkeypatch, scheduled, optimizer="adam", maker=smooth))


def test_clipping_and_gradients_changed_before_the_step(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
        loss.backward()
        grads = [p.grad() for p in loop.net.collect_params().values() if p.grad_req != "null"]
        loop.seen.append(np.array(gluon.utils.clip_global_norm(grads, 0.5)))
        if i % 3 == 2:
            grads[0][:] = 2 * grads[0]
        loop.trainer.step(8)
        loop.seen.append(loss.asnumpy())
    assert is_joined(both(monkeypatch, body))


def test_gradients_are_added_up(monkeypatch: Any) -> None:
    def maker() -> Any:
        net = small()
        net.collect_params().setattr("grad_req", "add")
        return net

    def body(loop: Loop, i: int) -> None:
        for k in range(2):
            x, y = BATCHES[(i + k) % 5]
            with autograd.record():
                loss = loop.loss(loop.net(x), y)
            loss.backward()
        loop.trainer.step(16)
        loop.net.collect_params().zero_grad()
        loop.seen.append(loss.asnumpy())
    assert is_joined(both(monkeypatch, body, maker=maker))


def test_last_batch_is_smaller(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        x, y = data(7, 5) if i % 4 == 3 else BATCHES[i % 5]
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
        loss.backward()
        loop.trainer.step(len(x))
        loop.seen.append(loss.asnumpy())
    assert is_joined(both(monkeypatch, body), STEPS - 7)


def test_two_nets_that_play_against_each_other(monkeypatch: Any) -> None:
    def run() -> tuple[list[Any], Any]:
        mx.random.seed(3)
        nets = []
        for a, b, c in ((4, 8, 12), (12, 8, 1)):
            net = nn.HybridSequential()
            net.add(nn.Dense(b, activation="relu", in_units=a), nn.Dense(c, in_units=b))
            net.initialize(mx.init.Xavier())
            net.hybridize()
            nets.append(net)
        maker, judge = nets
        loss = gluon.loss.SigmoidBCELoss()
        trainers = [gluon.Trainer(n.collect_params(), "adam", {"learning_rate": 1e-3}) for n in nets]
        one, zero, seen = nd.ones((8, 1)), nd.zeros((8, 1)), []
        for i in range(STEPS):
            z = nd.array(np.random.RandomState(i).randn(8, 4).astype("f"))
            with autograd.record():
                judged = loss(judge(BATCHES[i % 5][0]), one) + loss(judge(maker(z).detach()), zero)
            judged.backward()
            trainers[1].step(8)
            with autograd.record():
                fooled = loss(judge(maker(z)), one)
            fooled.backward()
            trainers[0].step(8)
            seen += [judged.asnumpy(), fooled.asnumpy()]
        return seen + [p.data().asnumpy() for n in nets for p in n.collect_params().values()], nets
    monkeypatch.setenv("HYBRID_DEFER", "0")
    seen, _ = run()
    monkeypatch.setenv("HYBRID_DEFER", "1")
    other, nets = run()
    for a, b in zip(seen, other):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5)
    assert all(n._engine.rounds.joined > STEPS - 6 for n in nets), [str(n._engine.rounds) for n in nets]


# ---- what is not joined, and says so
def not_joined(loop: Loop, why: str) -> None:
    assert not loop.root.joined and why in str(loop.net.report()), str(loop.root)


def test_a_loop_that_looks_each_time(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        with autograd.record():
            out = loop.net(x)
            loop.seen.append(out.asnumpy())
            loss = loop.loss(out, y)
        loss.backward()
        loop.trainer.step(8)
    loop = both(monkeypatch, body)
    assert loop.root.refused
    not_joined(loop, "a value that was still to come was looked at before the step (")
    assert "test_deferred_loop.py" in str(loop.root)


def test_gradients_of_the_data(monkeypatch: Any) -> None:
    def with_gradient(loop: Loop, i: int) -> None:
        x, y = (v.copy() for v in BATCHES[i % 5])
        x.attach_grad()
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
        loss.backward()
        loop.trainer.step(8)
        loop.seen += [loss.asnumpy(), x.grad.asnumpy()]
    not_joined(both(monkeypatch, with_gradient, 6), "with a gradient of its own")


SCALE = 0.5
