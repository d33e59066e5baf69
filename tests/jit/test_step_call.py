"""Training steps that the launcher calls (hybrid/jit/fast_step.py) do what steps on the slow path do, and end
where those would differ."""
from __future__ import annotations

import gc
import sys
import weakref
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.jit import compiled_call, trace
from hybrid.buffers.array import REBINDS
from hybrid.gluon import nn
from hybrid.runtime import launcher
from hybrid.buffers.derived import written_among

LOSS = gluon.loss.L2Loss()
X, Y = nd.array(np.random.RandomState(0).rand(6, 4)), nd.array(np.random.RandomState(1).rand(6, 3))


@pytest.fixture(autouse=True)
def built() -> None:
    launcher.load()                                           # else it is compiled in the background meanwhile


class Training:
    """A network, its trainer and its step."""

    def __init__(self, optimizer: str = "adam", wrapped: Callable[[Any], Any] = mx.hybridize, **options: Any):
        mx.random.seed(5)
        self.net = net = nn.HybridSequential()
        net.add(nn.Dense(5, in_units=4, activation="tanh"), nn.Dense(3, in_units=5))
        net.initialize(mx.init.Xavier())
        self.trainer = trainer = gluon.Trainer(net.collect_params(), optimizer, options or {"learning_rate": 0.01})

        def step(x: Any, y: Any) -> Any:
            with autograd.record():
                loss = LOSS(net(x), y)
            loss.backward()
            trainer.step(6)
            return loss
        self.step = wrapped(step)

    @property
    def quick(self) -> Any:
        return self.step._engine.fast_path[0]

    def values(self) -> list[np.ndarray]:
        return [p.data().asnumpy() for p in self.net.collect_params().values()]

    def arrays(self) -> list[Any]:
        return [p.data() for p in self.net.collect_params().values()]


def eager(fn: Any) -> Any:
    return fn


def alike(change: Callable[[Training, int], Any], steps: int = 12, **options: Any) -> Training:
    """Steps with a change between them, compiled and eager, give the same; the compiled ones."""
    a, b = Training(**options), Training(wrapped=eager, **options)
    for i in range(steps):
        change(a, i), change(b, i)
        np.testing.assert_allclose(a.step(X, Y).asnumpy(), b.step(X, Y).asnumpy(), rtol=1e-4, atol=1e-6)
        for p, q in zip(a.values(), b.values()):
            np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-6)
    return a


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop", "adagrad"])
def test_as_eager(optimizer: str) -> None:
    t = alike(lambda t, i: None, optimizer=optimizer)
    assert t.trainer._optimizer.num_update == 12
    for _ in range(trace.RENEW):                              # the eager one has moved arrays meanwhile
        t.step(X, Y)
    before, count = t.values(), t.trainer._optimizer.num_update
    assert t.quick(X, Y) is not None and t.trainer._optimizer.num_update == count + 1
    assert not any(np.array_equal(a, b) for a, b in zip(before, t.values()))


def set_rate(t: Training, i: int) -> None:
    t.trainer.set_learning_rate(0.01 * (i + 1))


def set_factor(t: Training, i: int) -> None:
    t.net[0].weight.lr_mult = float(i % 3)


def clip(t: Training, i: int) -> None:
    t.trainer._optimizer.clip_gradient = 0.001 if i % 5 > 2 else None


def set_values(t: Training, i: int) -> None:
    if i == 6:
        for p in t.net.collect_params().values():
            p.set_data(p.data() * 0.5)


def other_states(t: Training, i: int) -> None:
    if i == 6:
        t.trainer._updaters[0].set_states(t.trainer._updaters[0].get_states())


def freeze(t: Training, i: int) -> None:
    if i == 6:
        t.net[0].bias.grad_req = "null"


def write_inside(t: Training, i: int) -> None:
    if i % 4 == 3:
        t.net[1].weight.data()[0] = 0.25


def call_otherwise(t: Training, i: int) -> None:
    if i % 4 == 2:
        with autograd.record():
            loss = (t.net(X) ** 2).sum()
        loss.backward()
        t.trainer.step(1)


@pytest.mark.parametrize("change", [set_rate, set_factor, clip, set_values, other_states, freeze, write_inside,
                                    call_otherwise])
def test_changes_between_steps(change: Callable[[Training, int], Any]) -> None:
    alike(change)


def test_a_schedule() -> None:
    def options() -> dict[str, Any]:
        return {"learning_rate": 0.1, "lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)}
    a, b = Training("sgd", **options()), Training("sgd", eager, **options())
    for _ in range(9):
        a.step(X, Y), b.step(X, Y)
        assert a.trainer.learning_rate == b.trainer.learning_rate
    assert a.quick is not None
    np.testing.assert_allclose(np.concatenate([v.ravel() for v in a.values()]),
                               np.concatenate([v.ravel() for v in b.values()]), rtol=1e-5)


def test_versions_and_gradients_are_noted() -> None:
    t = Training()
    for _ in range(3):
        t.step(X, Y)
    held = t.arrays()
    for a in held:
        a._ag.fresh, a._ag.lost = True, False
    before = [a._version for a in held]
    assert t.quick(X, Y) is not None
    assert [a._version for a in held] == [v + 1 for v in before]
    assert all(a._ag.lost and not a._ag.fresh for a in held)


def test_a_recorded_array_was_written_by_a_step() -> None:
    t = Training()
    for _ in range(3):
        t.step(X, Y)
    w = t.net[0].weight.data()
    with autograd.record():
        y = (w * w).sum()
    assert t.quick(X, Y) is not None
    with pytest.raises(mx.base.MXNetError, match="changed"):
        y.backward()


def test_packed_weights_follow_the_steps() -> None:
    t = Training()
    t.net.hybridize()
    many = nd.array(np.random.RandomState(2).rand(64, 4))
    for _ in range(4):
        t.net(many)
        t.step(X, Y)
    for _ in range(2 * trace.RENEW):
        t.step(X, Y)
    assert t.quick is not None
    after = t.net(many).asnumpy()
    t.net.hybridize(False)
    np.testing.assert_allclose(after, t.net(many).asnumpy(), rtol=1e-5, atol=1e-6)


def test_packed_weights_of_others_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    other, rows = nn.Dense(64, in_units=64), nd.ones((64, 64))
    other.initialize()
    other.hybridize()
    other(rows)
    t, looked = Training(), []
    monkeypatch.setattr(compiled_call, "written_among", lambda group: looked.append(group) or written_among(group))
    for _ in range(4):
        t.step(X, Y)
    assert "weights packed" in str(other.report()) and looked
    looked.clear()
    for _ in range(4):
        assert t.quick(X, Y) is not None
    assert not looked                                         # what looks after other memory is asked once
    other.weight.set_data(nd.zeros((64, 64)))
    t.net.hybridize()
    for _ in range(2 * trace.RENEW):
        # packed now: the next step writes over what that came from
        out = t.net(rows[:, :4])
        t.step(X, Y)
    assert looked
    assert not np.array_equal(t.net(rows[:, :4]).asnumpy(), out.asnumpy()) and not other(rows).asnumpy().any()


def test_arguments_that_lie_in_what_is_written() -> None:
    t = Training("sgd")
    for _ in range(3):
        t.step(X, Y)
    whole = nd.array(np.random.RandomState(3).rand(10, 4))
    t.net[0].weight.data()._data = whole._data[:5]
    REBINDS[0] += 1
    for _ in range(2 * trace.RENEW):
        t.step(X, Y)
    assert t.quick(X, Y) is not None
    count = t.trainer._optimizer.num_update
    beside, among = nd.zeros((6, 4)), nd.zeros((6, 4))
    among._data = whole._data[4:]
    assert t.quick(among, Y) is None and t.trainer._optimizer.num_update == count
    beside._data = np.concatenate([whole._data, whole._data])[5:11]
    assert t.quick(beside, Y) is not None
    t.step(among, Y)
    assert t.trainer._optimizer.num_update == count + 2


class Moving(mx.lr_scheduler.LRScheduler):
    """A schedule that puts parameters elsewhere, or fails."""
    training: Any = None
    at = -1
    fails = False

    def __call__(self, num_update: int) -> float:
        if num_update == self.at:
            if self.fails:
                raise ValueError("no rate for this step")
            for p in self.training.net.collect_params().values():
                p.set_data(p.data() * 2)
                p.data()._data = p.data()._data.copy()
            REBINDS[0] += 1
        return 0.1


def test_arrays_that_move_while_the_update_is_counted() -> None:
    results = []
    for wrapped in (mx.hybridize, eager):
        schedule = Moving()
        t = Training("sgd", wrapped, learning_rate=0.1, lr_scheduler=schedule)
        schedule.training, schedule.at = t, 5
        for _ in range(4):
            t.step(X, Y)
        before = t.values()
        t.step(X, Y)
        assert t.trainer._optimizer.num_update == 5           # counted once
        assert all(np.abs(v).max() > 1.5 * np.abs(b).max() for v, b in zip(t.values()[::2], before[::2]))
        t.step(X, Y)
        assert t.trainer._optimizer.num_update == 6
        results.append(t)


def test_an_error_while_the_update_is_counted() -> None:
    schedule = Moving()
    t = Training("sgd", learning_rate=0.1, lr_scheduler=schedule)
    schedule.training, schedule.at, schedule.fails = t, 5, True
    for _ in range(4):
        t.step(X, Y)
    before = t.values()
    with pytest.raises(ValueError, match="no rate for this step"):
        t.step(X, Y)
    for a, b in zip(before, t.values()):
        np.testing.assert_array_equal(a, b)                   # nothing was updated
    schedule.at = -1
    t.step(X, Y)
    assert not np.array_equal(before[0], t.values()[0])


def test_nothing_is_left_behind() -> None:
    t = Training()
    for _ in range(3):
        t.step(X, Y)
    raw, w, step = X._data, t.net[0].weight.data(), t.quick

    def counts() -> tuple[int, ...]:
        return (sys.getrefcount(raw), sys.getrefcount(w), sys.getrefcount(w._ag), sys.getrefcount(step),
                sys.getrefcount(None) // 1000)
    before = counts()
    for _ in range(1000):
        step(X, Y), step(Y, X)
    assert counts() == before


def test_a_step_that_its_network_holds_is_collected() -> None:
    t = Training()
    # a cycle: launcher, prepare, trainer, parameters ... network, step
    t.net.own_step = t.step
    for _ in range(3):
        t.step(X, Y)
    assert t.quick is not None
    gone = weakref.ref(t.net)
    del t
    gc.collect()
    assert gone() is None


FACTOR = 2.0


def test_variables_outside_are_looked_at() -> None:
    global FACTOR
    here = 1.0
    g, x = mx.hybridize(lambda x: x * FACTOR * here), nd.array([1.0, 2.0])
    for value in (2.0, 3.0, 5.0):
        FACTOR = value
        for _ in range(trace.RENEW + 2):
            np.testing.assert_array_equal(g(x).asnumpy(), x.asnumpy() * value * here)
        quick = g._engine.fast_path[0]
        assert quick(x) is not None
        old, here = here, here + 1.0
        assert quick(x) is None                               # the launcher sees the cell itself
        here = old
        assert quick(x) is not None
        FACTOR = -1.0
        assert quick(x) is None                               # and the module's variable
    FACTOR = 2.0


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_subnormal_states_end_at_zero(optimizer: str) -> None:
    """Units without a gradient: the smallest subnormal times 0.9 is rounded to itself, for ever."""
    w = nd.array(np.ones(64))
    made: Any = mx.optimizer.create(optimizer, learning_rate=0.1, **({"momentum": 0.9} if optimizer == "sgd" else {}))
    state = made.create_state(0, w)
    first = state[0] if isinstance(state, tuple) else state
    first[:] = 1e-37
    for _ in range(60):
        made.update(0, w, nd.zeros(64), state)
    assert not first.asnumpy().any()
    first[0] = np.nan
    made.update(0, w, nd.zeros(64), state)
    assert np.isnan(first.asnumpy()[0]) and not first.asnumpy()[1:].any()
