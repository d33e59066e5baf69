"""Attributes of networks that are assigned between calls: which of these make another program."""
from __future__ import annotations

import operator
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

X = nd.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Scaled(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.scale: Any = 1.0
        self.mask: Any = nd.ones((3,))
        self.epoch: Any = 0

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return x * self.mask * self.scale


class Outer(gluon.HybridBlock):
    """Reads its child's attributes, and whether two of them are one array."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Scaled()
        self.inner.other = nd.ones((3,))

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return x * self.inner.mask * (2 if self.inner.mask is self.inner.other else self.inner.scale)


def both(assign: Callable[[Any, int], Any], made: Callable[[], Any] = Scaled, record: bool = False) -> Any:
    """A hybridized network that gave what an eager one gave while attributes of both were assigned."""
    net, eager = made(), made()
    net.hybridize()
    for i in range(14):
        assign(net, i)
        assign(eager, i)
        with autograd.record(record):
            got, want = net(X), eager(X)
        np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), 1e-6)
    return net


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("name, values, programs", [
    ("scale", [1.0], 1), ("scale", [1.0, 2.0], 2), ("scale", [1, 1.0, True], 3), ("scale", [0.0, -0.0], 2),
    ("epoch", range(14), 1), ("epoch", [None, "a", len], 1), ("seen_by_nobody", [[1], [2]], 1),
    ("mask", [nd.ones((3,)), nd.array([1.0, 0.0, 2.0])], 1), ("mask", [nd.ones((3,)), nd.ones((1,)) * 2], 2),
    ("mask", [nd.ones((3,)), 2.0], 2), ("mask", [nd.ones((3,)), nd.ones((3,), dtype="float64")], 2)])
def test_states_that_were_seen_have_their_programs(name: str, values: Any, programs: int, record: bool) -> None:
    net = both(lambda net, i: setattr(net, name, values[i % len(values)]), record=record)
    assert len(net.programs) == programs
    assert len(net.cache_misses) == len(net.programs)


def test_two_attributes_and_other_changes_between() -> None:
    def assign(net: Any, i: int) -> None:
        net.scale, net.mask = float(i % 2), nd.ones((3,)) * i
        if i == 7:
            net.extra = nn.Dense(1)                     # the programs of before are dropped
    assert len(both(assign).programs) == 2


def test_attributes_of_children_and_arrays_that_are_one() -> None:
    def assign(net: Any, i: int) -> None:
        net.inner.mask = nd.ones((3,)) * i
        net.inner.other = net.inner.mask if i % 3 == 2 else nd.zeros((3,))
        net.inner.scale, net.inner.epoch = float(i % 2), i
    assert len(both(assign, Outer).programs) == 4


def test_numbers_of_arrays_that_the_code_reads() -> None:
    class Sum(Scaled):
        def forward(self, x: Any) -> Any:
            return x * float(self.mask.asnumpy().sum())
    both(lambda net, i: setattr(net, "mask", nd.ones((3,)) * (i % 3)), Sum)


@pytest.mark.parametrize("read", [operator.attrgetter("zeta"), lambda net: getattr(net, f"{'z'}eta"),
                                  lambda net: vars(net)["zeta"], lambda net: net.__dict__["zeta"]])
def test_ways_to_read_that_do_not_name_the_attribute(read: Any) -> None:
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.zeta = 1.0
    want = net(X).asnumpy()
    f = mx.hybridize(lambda x: net(x) * read(net))
    for i in range(5):
        net.zeta = float(i % 3)
        np.testing.assert_allclose(f(X).asnumpy(), want * net.zeta, 1e-6)


def test_exports_have_the_value_of_now(tmp_path: Any) -> None:
    class Reads(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Dense(2, in_units=3)

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
            return self.one(x) * self.one.power_of_one
    net = Reads()
    net.one.power_of_one = 2.0
    net.initialize()
    for value in (3.0, 5.0):
        net.one.power_of_one = value
        want = net(X).asnumpy()
        net.export(str(tmp_path / "net"))
        again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"],
                                          str(tmp_path / "net-0000.params"))
        np.testing.assert_allclose(again(X).asnumpy(), want, 1e-6)


class Positions(gluon.HybridBlock):
    """A table of positions, as in the transformers of books, and a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.scale, self.dense = nd.array(np.arange(12.0).reshape(4, 3) / 9), 1.0, nn.Dense(2, in_units=3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        return self.dense((x + self.table[:2]) * self.scale)


def change(net: Any, i: int, place: int) -> None:
    """What happens between events of some iterations."""
    if (i, place) == (7, 0):
        net.table[:] = net.table * 0.5
    elif (i, place) in ((9, 0), (10, 1), (12, 2)):
        net.table = net.table * 1.5
    elif (i, place) == (11, 2):
        net.table[:] = 0.25
    elif place == 0:
        net.scale = 2.0 if i > 12 else 1.0


def test_a_training_loop_with_a_table_and_assignments(monkeypatch: Any) -> None:
    curves, joined = [], 0
    for mode in ("eager", "0", "1"):
        monkeypatch.setenv("HYBRID_DEFER", mode if mode != "eager" else "0")
        mx.random.seed(3)
        net = Positions()
        net.initialize(mx.init.Constant(0.1))
        if mode != "eager":
            net.hybridize()
        trainer, loss_fn = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05}), gluon.loss.L2Loss()
        losses = []
        for i in range(16):
            change(net, i, 0)
            with autograd.record():
                loss = loss_fn(net(X * (i % 3)), nd.ones((2, 2)))
            change(net, i, 1)
            loss.backward()
            change(net, i, 2)
            trainer.step(2)
            losses.append(loss)
        curves.append(np.array([v.asnumpy() for v in losses]))
        joined = net._engine.rounds.joined if mode == "1" else 0
    np.testing.assert_allclose(curves[1], curves[0], 1e-5)
    np.testing.assert_allclose(curves[2], curves[0], 1e-5)
    assert joined >= 8
