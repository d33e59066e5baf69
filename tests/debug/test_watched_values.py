"""Values of compiled programs at each call: debug.print, debug.breakpoint, hooks of inner blocks, backward hooks."""
from __future__ import annotations

import copy
import re
import sys
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, debug, gluon, nd
from hybrid.gluon import nn


def test_print_shows_each_calls_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    @mx.hybridize
    def f(x: Any) -> Any:
        y = debug.print(x * 2, "y")
        return y + 1
    for k in (1, 2, 3):
        assert f(nd.full((2,), k)).asnumpy().tolist() == [2 * k + 1] * 2
    assert capsys.readouterr().out.splitlines() == [f"y float32(2,): [{2 * k}. {2 * k}.]" for k in (1, 2, 3)]
    assert len(f.cache_misses) == 1
    assert re.search(r"watched: .*test_watched_values.py:\d+: debug.print: 1 more results, 8 bytes", str(f.report()))


def test_print_sees_values_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    @mx.hybridize
    def f(x: Any) -> Any:
        debug.print(x, "before")
        x += 1
        debug.print(x, "after")
        return x * 2
    x = nd.zeros((1,))
    for _ in range(2):
        f(x)
    assert capsys.readouterr().out.split("\n")[:4] == [
        "before float32(1,): [0.]", "after float32(1,): [1.]", "before float32(1,): [1.]", "after float32(1,): [2.]"]


def test_print_eagerly_and_of_other_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert debug.print(nd.ones((1,)), "x").shape == (1,)
    debug.print(3, "n")
    debug.print(nd.ones((1,)), file=sys.stderr)
    said = capsys.readouterr()
    assert said.out == "x float32(1,): [1.]\nn: 3\n" and re.match(r"\S+test_watched_values.py:\d+ float32", said.err)
    with pytest.raises(ValueError, match="has no numbers"):
        debug.print(mx.sym.var("x"))


def test_print_within_a_loop_runs_as_plain_python(capsys: pytest.CaptureFixture[str]) -> None:
    @mx.hybridize
    def f(x: Any) -> Any:
        return nd.contrib.foreach(lambda d, s: (d + s, debug.print(s, "s") + d), x, nd.zeros((1,)))[0]
    with pytest.warns(UserWarning, match="debug.print in the body of a loop"):
        f(nd.ones((2, 1)))
    assert capsys.readouterr().out == "s float32(1,): [0.]\ns float32(1,): [1.]\n"


def test_print_in_recorded_code_leaves_gradients_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def loss(x: Any, show: bool) -> Any:
        y = x * x
        if show:
            debug.print(y, "y")
        return (y * y).sum()
    grads = []
    for show in (False, True):
        x = nd.array([1.0, 2.0])
        x.attach_grad()
        with autograd.record():
            out = mx.hybridize(loss)(x, show)
        out.backward()
        grads.append(x.grad.asnumpy().tolist())
    assert grads[0] == grads[1] == [4.0, 32.0] and capsys.readouterr().out == "y float32(2,): [1. 4.]\n"


def test_breakpoint_has_the_variables_of_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[Any] = []

    def look() -> None:
        frame = sys._getframe(1)
        stops.append((frame.f_globals["y"].asnumpy().tolist(), frame.f_globals["n"], frame.f_globals["values"][0].shape,
                      frame.f_code.co_filename, frame.f_lineno))
    monkeypatch.setattr(sys, "breakpointhook", look)

    @mx.hybridize
    def f(x: Any, n: int = 3) -> Any:
        y = x * n
        debug.breakpoint(x, when=(y > 4).sum())
        y = y + 1
        return y
    for k in (1, 2, 3):
        f(nd.full((2,), k))
    assert [s[:3] for s in stops] == [([6.0, 6.0], 3, (2,)), ([9.0, 9.0], 3, (2,))]
    line = f._fn.__code__.co_firstlineno + 3
    assert stops[0][3:] == (__file__, line)
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append("eager"))
    debug.breakpoint()
    debug.breakpoint(when=nd.zeros((1,)))
    assert stops[2:] == ["eager"]


def network(hybridized: bool = True) -> nn.HybridSequential:
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu", in_units=3), nn.BatchNorm(in_channels=4), nn.Dense(2, in_units=4))
    net.initialize(mx.init.Uniform(1.0))
    if hybridized:
        net.hybridize()
    return net


def test_inner_hooks_see_what_they_see_eagerly() -> None:
    seen: dict[bool, list[Any]] = {}
    for hybridized in (False, True):
        net, said = network(hybridized), seen.setdefault(hybridized, [])
        net[0].register_forward_hook(lambda b, i, o, said=said: said.append((b.name[:5], i[0].asnumpy(), o.asnumpy())))
        handle = net[1].register_forward_pre_hook(lambda b, i: setattr(b, "seen_by_hook", i[0].asnumpy()))
        for k in range(3):
            with autograd.record():
                net(nd.ones((2, 3)) * k)
            said.append(("last", net[1].seen_by_hook))
        net(nd.ones((2, 3)))
        assert not hybridized or len(net.cache_misses) == 2     # hooks and what they keep compile nothing again
        handle.detach()
        net[1].seen_by_hook = None
        net(nd.ones((2, 3)))
        assert net[1].seen_by_hook is None
    assert len(seen[True]) == 8
    for a, b in zip(seen[False], seen[True]):
        assert a[0] == b[0] and all(np.allclose(x, y, 1e-5) for x, y in zip(a[1:], b[1:]))


def feature(block: Any, _: Any, out: Any) -> None:
    block.around().feature = out


class Reading(nn.HybridBlock):
    """Its forward reads what a hook of its layer assigns."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dense(2, in_units=2)
        self.inner.around = lambda: self
        self.feature = nd.zeros((1, 2))

    def forward(self, x: Any) -> Any:
        return self.inner(x) + self.feature


def test_hooks_that_take_part_in_the_computation_are_refused() -> None:
    def change(block: Any, _: Any, out: Any) -> None:
        out[:] = 3

    def scale(block: Any, _: Any) -> None:
        block.weight.set_data(block.weight.data() * 2)
    for register, hook, text in ((nn.Dense.register_forward_hook, feature, "assigns the attribute 'feature'"),
                                 (nn.Dense.register_forward_hook, change,
                                  "the hook .*change of dense.* changes an array"),
                                 (nn.Dense.register_forward_pre_hook, scale, "that the compiled program reads")):
        net = Reading()
        net.initialize()
        register(net.inner, hook)
        net.hybridize()
        with pytest.raises(mx.HybridError, match=rf"test_watched_values.py:\d+: .*{text}"):
            net(nd.ones((1, 2)))


@pytest.mark.parametrize("factor", [None, 2.0])
def test_backward_hooks(factor: float | None) -> None:
    found = []
    for hybridized in (False, True):
        net, seen = network(False), []

        def hook(block: Any, g: Any, seen: list[Any] = seen) -> Any:
            seen.append(g.asnumpy())
            return g * factor if factor else None
        handles = [net[0].register_backward_hook(hook), net.register_backward_hook(hook)]
        if hybridized:
            net.hybridize()
        for k in (1, 2):
            with autograd.record():
                loss = (net(nd.array([[1.0, 2, 3], [-1, 0, 2]]) * k) ** 2).sum()
            loss.backward()
        count = len(seen)
        for handle in handles:
            handle.detach()
        with autograd.record():
            loss = net(nd.ones((2, 3))).sum()
        loss.backward()
        assert count == len(seen) == 4
        found.append([*seen, net[0].weight.grad().asnumpy()])
    assert all(np.allclose(a, b, 1e-4, 1e-5) for a, b in zip(*found))


def test_backward_hooks_in_a_hybridized_step_and_of_copies() -> None:
    net, seen = network(False), []
    net[2].register_backward_hook(lambda block, g: seen.append((block, g.shape)))
    trainer = gluon.Trainer(net.collect_params(), "sgd")

    @mx.hybridize
    def step(x: Any) -> Any:
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(1)
        return loss
    for _ in range(2):
        step(nd.ones((2, 3)))
    assert seen == [(net[2], (2, 2))] * 2
    twin = copy.deepcopy(net)
    with autograd.record():
        loss = twin(nd.ones((2, 3))).sum()
    loss.backward()
    assert seen[2:] == [(twin[2], (2, 2))]


def test_a_backward_hook_that_gives_another_shape_is_refused() -> None:
    net = network()
    net[0].register_backward_hook(lambda block, g: g.sum())
    with autograd.record():
        loss = net(nd.ones((2, 3))).sum()
    with pytest.raises(mx.HybridError, match="in the place of a gradient of shape"):
        loss.backward()


def test_hooks_within_a_loop_are_called_at_each_step() -> None:
    layer, seen = nn.Dense(2, in_units=2), []
    layer.initialize()
    layer.register_forward_hook(lambda block, inputs, out: seen.append(type(out).__name__))
    loop = mx.hybridize(lambda x: nd.contrib.foreach(lambda d, s: (layer(d), s), x, x[0])[0])
    with pytest.warns(UserWarning, match="the hook .* in the body of a loop"):
        for _ in range(2):
            loop(nd.ones((3, 1, 2)))
    assert seen == ["NDArray"] * 6
