"""Rounds of training loops that are done in parts: on several devices, with results that stay on the tape, behind
Python code that runs at its line."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base import pending
from hybrid.gluon import nn
from hybrid.jit.deferred import joined as joined_rounds
from .test_deferred_loop import BATCHES

STEPS = 20
RNG = np.random.RandomState(7)
NOISE = [nd.array(RNG.randn(8, 5).astype("f")) for _ in range(5)]


def mlp(inputs: int = 12, outputs: int = 4, ctx: Any = None, between: Callable[[], Any] | None = None) -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(16, in_units=inputs))
    if between is not None:
        net.add(between())
    net.add(nn.Activation("tanh"), nn.Dense(outputs, in_units=16))
    net.initialize(mx.init.Xavier(), ctx=ctx)
    net.hybridize()
    return net


BETWEEN: Any = {"plain": None, "norm": lambda: nn.BatchNorm(in_channels=16), "dropout": lambda: nn.Dropout(0.3)}
BETWEEN_EACH = pytest.mark.parametrize("between", BETWEEN)


def same(monkeypatch: Any, run: Callable[[], tuple[list[Any], list[Any]]]) -> list[Any]:
    """What a loop gives must be what it gives with nothing put off: arrays, and its networks, which are given back."""
    found = []
    for setting in "01":
        monkeypatch.setenv("HYBRID_DEFER", setting)
        mx.random.seed(3)
        seen, nets = run()
        assert not pending.PUT_OFF[0]
        found.append([x.asnumpy() for x in seen] + [x.asnumpy() for net in nets for p in net.collect_params().values()
                                                    for x in p.list_data()])
    assert len(found[0]) == len(found[1])
    for a, b in zip(*found):
        np.testing.assert_allclose(b, a, 2e-4, 2e-5)
    return nets


# ---- several devices
@pytest.mark.parametrize("at_once", [False, True])
@BETWEEN_EACH
def test_two_devices(between: str, at_once: bool, monkeypatch: Any) -> None:
    def run() -> Any:
        devices = [mx.cpu(0), mx.cpu(1)]
        net, loss, seen = mlp(ctx=devices, between=BETWEEN[between]), gluon.loss.SoftmaxCrossEntropyLoss(), []
        loss.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        for i in range(STEPS):
            xs, ys = (gluon.utils.split_and_load(v, devices) for v in BATCHES[i % 5])
            with autograd.record():
                losses = [loss(net(x), y) for x, y in zip(xs, ys)]
            if at_once:
                autograd.backward(losses)
            else:
                for each in losses:
                    each.backward()
            trainer.step(8)
            seen += losses
        return seen, [net]
    net, = same(monkeypatch, run)
    assert net._engine.rounds.joined >= STEPS - 4
    assert "ran as 2 programs, one for each device" in str(net.report())


def test_each_part_has_programs_of_its_own(monkeypatch: Any) -> None:
    """How many there may be does not depend on the parts before it."""
    def run() -> Any:
        devices = [mx.cpu(0), mx.cpu(1)]
        net, loss, seen = mlp(ctx=devices), gluon.loss.SoftmaxCrossEntropyLoss(), []
        loss.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
        for i in range(STEPS):
            xs, ys = (gluon.utils.split_and_load(v, devices) for v in BATCHES[i % 5])
            with autograd.record():
                outs = [net(x) for x in xs]
                losses = [loss(out, y) for out, y in zip(outs, ys)]
            autograd.backward(losses)
            seen += [*losses, *outs[:i % 2]]                     # of the first device every other time
            del outs
            trainer.step(8)
        return seen, [net]
    monkeypatch.setattr(joined_rounds, "MOST_PLANS", 2)
    net, = same(monkeypatch, run)
    assert net._engine.rounds.joined >= STEPS - 4, str(net._engine.rounds)


def test_an_array_that_goes_to_another_device_within_the_round(monkeypatch: Any) -> None:
    def run() -> Any:
        devices = [mx.cpu(0), mx.cpu(1)]
        first, second = mlp(ctx=devices[0]), mlp(4, 1, ctx=devices[1])
        loss, seen = gluon.loss.L2Loss(), []
        trainers = [gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}) for net in (first, second)]
        for i in range(8):
            x, y = BATCHES[i % 5]
            with autograd.record():
                out = loss(second(first(x).as_in_context(devices[1])), y.as_in_context(devices[1]).reshape((8, 1)))
            out.backward()
            for trainer in trainers:
                trainer.step(8)
            seen.append(out)
        return seen, [first, second]
    same(monkeypatch, run)


# ---- results that stay on the tape
@pytest.mark.parametrize("again", [False, True], ids=["one-forward-pass", "two"])
@pytest.mark.parametrize("between,optimizer", [("plain", "sgd"), ("plain", "adam"), ("norm", "sgd")])
def test_a_maker_and_a_judge(between: str, again: bool, optimizer: str, monkeypatch: Any) -> None:
    """The maker's pictures are made before the judge's step, and stay on the tape until its own."""
    def run() -> Any:
        maker, judge = mlp(5, 12, between=BETWEEN[between]), mlp(12, 1, between=BETWEEN[between])
        loss, seen = gluon.loss.SigmoidBinaryCrossEntropyLoss(), []
        loss.hybridize()
        of_maker, of_judge = (gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.01})
                              for net in (maker, judge))
        one, zero = nd.ones((8,)), nd.zeros((8,))
        for i in range(STEPS):
            with autograd.record():
                real = loss(judge(BATCHES[i % 5][0]), one)
                made = maker(NOISE[i % 5])
                judged = real + loss(judge(made.detach()), zero)
            judged.backward()
            of_judge.step(8)
            with autograd.record():
                fooled = loss(judge(maker(NOISE[i % 5]) if again else made), one)
            fooled.backward()
            of_maker.step(8)
            seen += [judged, fooled]
        return seen, [maker, judge]
    nets = same(monkeypatch, run)
    assert sum(net._engine.rounds.joined for net in nets) >= 2 * STEPS - 8


def test_a_judge_that_draws(monkeypatch: Any) -> None:
    """Its calls would draw in another order in parts, which is not done."""
    def run() -> Any:
        maker, judge, seen = mlp(5, 12, between=BETWEEN["dropout"]), mlp(12, 1, between=BETWEEN["dropout"]), []
        trainers = [gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01}) for net in (maker, judge)]
        for i in range(STEPS):
            with autograd.record():
                real = judge(BATCHES[i % 5][0])
                made = maker(NOISE[i % 5])
                judged = judge(made.detach()) - real
            judged.backward()
            trainers[1].step(8)
            with autograd.record():
                fooled = -judge(made)
            fooled.backward()
            trainers[0].step(8)
            seen += [judged, fooled]
        return seen, [maker, judge]
    same(monkeypatch, run)


# ---- Python code
CALLS: list[str] = []


class Square(autograd.Function):
    """Looks at its numbers."""

    def forward(self, x: Any) -> Any:
        CALLS.append("forward")
        self.raw = x.asnumpy()
        return nd.array(self.raw ** 2)

    def backward(self, dy: Any) -> Any:
        CALLS.append("backward")
        return nd.array(2 * self.raw) * dy


class Tanh(mx.operator.CustomOp):
    def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
        CALLS.append("forward")
        self.assign(out_data[0], req[0], nd.array(np.tanh(in_data[0].asnumpy())))

    def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        CALLS.append("backward")
        self.assign(in_grad[0], req[0], out_grad[0] * (1 - out_data[0] * out_data[0]))


@mx.operator.register("tanh_of_a_round")
class TanhProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Any:
        return Tanh()


CODE: dict[str, Callable[[Any], Any]] = {
    "function": lambda x: Square()(x), "custom": lambda x: nd.Custom(x, op_type="tanh_of_a_round"),
    "several": lambda x: nd.Custom(Square()(x), op_type="tanh_of_a_round")}


def python_loop(code: Callable[[Any], Any], body: Callable[[Any], Any] | None = None, hybrid: bool = True,
                head: bool = False, shared: bool = False, steps: int = STEPS) -> Any:
    """A loop in which Python code runs between two networks, or between a network and its loss; with the order of its
    calls. body: changes the loss. shared: the network is called once more behind the code."""
    def run() -> Any:
        net, last, loss, seen = mlp(), mlp(4, 4), gluon.loss.SoftmaxCrossEntropyLoss(), []
        if hybrid:
            loss.hybridize()
        params = {**net.collect_params(), **(last.collect_params() if head else {})}
        trainer = gluon.Trainer(params, "sgd", {"learning_rate": 0.1})
        del CALLS[:]
        for i in range(steps):
            x, y = BATCHES[i % 5]
            with autograd.record():
                out = code(net(x))
                CALLS.append("called")
                out = last(out) if head else out
                out = out + net(x) if shared else out
                each = loss(out, y)
                each = body(each) if body is not None else each
            CALLS.append("recorded")
            each.backward()
            trainer.step(8)
            seen += [each, nd.array([CALLS.count(c) for c in ("forward", "backward")])]
        order.append(list(CALLS))
        return seen, [net, last]
    order: list[list[str]] = []
    return run, order


def joined(root: Any) -> int:
    """Rounds that a program did behind all of the Python code."""
    return sum(map(joined, root.behind.values())) if root.behind else root.joined


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("hybrid", [False, True], ids=["loss", "hybridized-loss"])
@pytest.mark.parametrize("kind", CODE)
def test_python_code_cuts_a_round(kind: str, hybrid: bool, head: bool, monkeypatch: Any) -> None:
    """It runs at its line, once for each call, and what comes behind it is one program."""
    run, order = python_loop(CODE[kind], hybrid=hybrid, head=head)
    net, _ = same(monkeypatch, run)
    assert order[0] == order[1]
    assert "the training loop is cut where the Python code of" in str(net.report())
    assert joined(net._engine.rounds) >= STEPS - 5, str(net._engine.rounds)


def test_loops_with_and_without_python_code_are_reported(monkeypatch: Any) -> None:
    """Both of them, if a network is trained by one after the other."""
    monkeypatch.setenv("HYBRID_DEFER", "1")
    net, loss = mlp(), gluon.loss.SoftmaxCrossEntropyLoss()
    loss.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    codes: list[Callable[[Any], Any]] = [CODE["function"], lambda x: x]
    for code in codes:
        for i in range(STEPS):
            x, y = BATCHES[i % 5]
            with autograd.record():
                each = loss(code(net(x)), y)
            each.backward()
            trainer.step(8)
    root = net._engine.rounds
    assert root.joined >= STEPS - 5 and str(root).startswith(
        f"{root.joined} rounds of the training loop ran as one program; the training loop is cut where the Python code "
        "of Square runs, and behind it "), str(root)


def test_a_network_before_and_behind_python_code(monkeypatch: Any) -> None:
    """Its gradients come from both sides."""
    run, order = python_loop(CODE["function"], shared=True)
    same(monkeypatch, run)
    assert order[0] == order[1]


def test_losses_of_python_code_that_are_looked_at_or_dropped(monkeypatch: Any) -> None:
    kept: list[Any] = []

    def look(x: Any) -> Any:
        kept.append(x.mean().asscalar())
        return x * 2
    run, order = python_loop(CODE["function"], look)
    same(monkeypatch, run)
    np.testing.assert_allclose(kept[:STEPS], kept[STEPS:], 2e-4)
    assert order[0] == order[1]


def test_an_error_of_python_code_is_raised_at_its_line(monkeypatch: Any) -> None:
    def fails(x: Any) -> Any:
        calls.append(1)
        if len(calls) % 12 == 11:
            raise KeyError("of the user's")
        return Square()(x)
    calls: list[int] = []
    run, _ = python_loop(fails, steps=11)
    with pytest.raises(KeyError, match="of the user's"):
        run()
    assert not pending.PUT_OFF[0]
    calls.clear()
    run, _ = python_loop(fails, steps=6)
    same(monkeypatch, lambda: (calls.clear(), run())[1])


Before = Callable[[Any, Any, Any, Any, Any], list[Any]]


def plain(net: Any, loss: Any, scale: Any, x: Any, y: Any) -> list[Any]:
    with autograd.record():
        each = loss(net(x * scale), y)
    each.backward()
    return [each]


def several_arrays(net: Any, loss: Any, scale: Any, x: Any, y: Any) -> list[Any]:
    with autograd.record():
        each = loss(net(x * scale), y) + loss(net(x + scale), y)
    each.backward()
    return [each]


def several_losses(net: Any, loss: Any, scale: Any, x: Any, y: Any) -> list[Any]:
    with autograd.record():
        h = x * scale
        losses = [loss(net(h), y), loss(net(h * 2), y)]
    autograd.backward(losses)
    return losses


def one_after_another(net: Any, loss: Any, scale: Any, x: Any, y: Any) -> list[Any]:
    with autograd.record():
        first, second = loss(net(x * scale), y), loss(net(x - scale), y)
    first.backward()
    kept = scale.grad.copy()
    second.backward()
    return [first, second, kept]


def kept_and_again(net: Any, loss: Any, scale: Any, x: Any, y: Any) -> list[Any]:
    with autograd.record():
        each = loss(net(x * scale), y)
    each.backward(retain_graph=True)
    kept = scale.grad.copy()
    each.backward(nd.ones((8,)) * 0.5)
    return [each, kept]


def kept_of_several(net: Any, loss: Any, scale: Any, x: Any, y: Any) -> list[Any]:
    """One of the heads is held by the loop, the other is not."""
    with autograd.record():
        held = loss(net(x), y)
        autograd.backward([held, loss(net(x * 2), y)], retain_graph=True)
    return [held]


def regularized(net: Any, loss: Any, scale: Any, x: Any, y: Any) -> list[Any]:
    """A gradient of the network's own weight comes from before the round, too."""
    with autograd.record():
        each = loss(net(x * scale), y) + (net[0].weight.data() ** 2).sum() * 0.01
    each.backward()
    return [each]


def left_over(net: Any, loss: Any, scale: Any, x: Any, y: Any) -> list[Any]:
    with autograd.record():
        out = net(x * scale)
        each, other = loss(out, y), (out * 2).sum()
    each.backward()
    return [each, other]


@pytest.mark.parametrize("req", ["write", "add"])
@pytest.mark.parametrize("body", [plain, several_arrays, several_losses, one_after_another, kept_and_again,
                                  kept_of_several, regularized, left_over], ids=lambda f: f.__name__)
def test_eager_calls_before_a_round(body: Before, req: str, monkeypatch: Any) -> None:
    """A network that takes what operators computed from arrays with gradients of their own."""
    def run() -> Any:
        net, loss, seen = mlp(), gluon.loss.SoftmaxCrossEntropyLoss(), []
        loss.hybridize()
        scale = nd.ones((1, 12))
        scale.attach_grad(req)
        for p in net.collect_params().values():
            p.grad_req = req
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
        for i in range(12):
            seen += [x.copy() for x in body(net, loss, scale, *BATCHES[i % 5])]
            seen += [scale.grad.copy(), net[0].weight.grad().copy()]
            trainer.step(8)
            if req == "add":
                for p in net.collect_params().values():
                    p.zero_grad()
            elif body is not kept_of_several:
                scale[:] = scale - 0.01 * scale.grad
        return seen, [net]
    same(monkeypatch, run)
