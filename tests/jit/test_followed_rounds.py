"""Rounds of training loops that are followed in C give what Python's bookkeeping gives, and are taken over by it
wherever they go another way."""
from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.base import pending
from hybrid.buffers import evict
from hybrid.jit.deferred import followed
from hybrid.runtime import launcher
from ..at_once import at_once
from .test_deferred_loop import BATCHES, Loop, both, smooth


def path_of(loop: Loop) -> Any:
    """What is known of the loop's track."""
    track = loop.root.track and loop.root.track()
    assert track is not None
    return track.path


def followed_loop(**options: Any) -> Loop:
    """A loop whose rounds are followed."""
    launcher.load()
    loop = Loop(**options)
    for i in range(8):
        loop.step(i)
    assert path_of(loop).done >= 2 and not followed.LIVE
    return loop


def test_most_rounds_are_followed(monkeypatch: Any) -> None:
    launcher.load()
    loop = both(monkeypatch, Loop.step, 40, hybrid_loss=False, optimizer="adam", maker=smooth)
    assert path_of(loop).done >= 30 and not path_of(loop).left


def test_promises_know_their_shapes_and_nothing_is_computed() -> None:
    loop = followed_loop()
    x, y = BATCHES[0]
    with autograd.record():
        out = loop.net(x)
        assert followed.LIVE and pending.PUT_OFF[0] == 1 and out.shape == (8, 4) and out.dtype == np.float32
        loss = loop.loss(out, y)
    loss.backward()
    assert followed.LIVE and x.shape == (8, 12)
    loop.trainer.step(8)
    assert not followed.LIVE and pending.PUT_OFF[0] == pending.WATCHED[0] == 0
    np.testing.assert_allclose(loop.loss(out, y).asnumpy(), loss.asnumpy(), rtol=1e-5)


def test_another_way_at_each_place(monkeypatch: Any) -> None:
    """Looks, writes, draws, another loss, another size, an exception: at each event, in one round of six."""
    launcher.load()

    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        held, kind = x.copy(), i // 6 % 8 if i % 6 == 5 else -1
        try:
            with autograd.record():
                out = loop.net(held[:6] if kind == 6 else held)
                if kind == 0:
                    loop.seen.append(out.asnumpy())
                if kind == 7:
                    raise KeyError
                loss = loop.loss(out * 2 if kind == 2 else out, y[:6] if kind == 6 else y)
        except KeyError:
            return
        if kind == 3:
            loop.seen.append(loss.mean().asnumpy())
        loss.backward()
        if kind == 1:
            held[:] = 3                                  # the round is over the old numbers
        if kind == 4:
            loop.seen.append(loop.net[0].weight.grad().asnumpy())
        if kind == 5:
            loop.seen.append(nd.random.uniform(shape=(2,)).asnumpy())
        loop.trainer.step(8)
        loop.seen += [loss.asnumpy(), out.asnumpy()] if i % 6 == 1 else [loss.asnumpy()]
    loop = both(monkeypatch, body, 100)
    assert loop.root.joined > 50 and path_of(loop).done > 10


def test_replaced_parameters_and_settings_are_seen(monkeypatch: Any) -> None:
    launcher.load()

    def body(loop: Loop, i: int) -> None:
        if i == 12:
            loop.net[0].weight.set_data(nd.ones((16, 12)) * 0.1)
        if i == 16:
            loop.trainer.set_learning_rate(0.01)
        if i == 20:
            loop.net[3]._rate = 0.6
        if i == 24:
            loop.net[1].running_mean.data()[:] = 0.5
        if i == 28:
            loop.net[0].weight.grad_req = "null"
        if i == 32:
            loop.net.cast("float32")
        loop.step(i)
    assert both(monkeypatch, body, 44).root.joined > 20


def test_gradients_that_are_added_up_and_kept_arrays(monkeypatch: Any) -> None:
    """What follows after the step reads what the program wrote."""
    launcher.load()

    def body(loop: Loop, i: int) -> None:
        if i == 0:
            loop.net[0].weight.grad_req = "add"
        loop.step(i)
        loop.seen.append(loop.net[0].weight.grad().asnumpy())
        if i % 4 == 3:
            loop.net[0].weight.zero_grad()
    assert path_of(both(monkeypatch, body, 24)).done > 5


def test_another_thread_looks_and_the_owner_goes_on() -> None:
    loop = followed_loop()
    before = loop.state()
    x, y = BATCHES[0]
    with autograd.record():
        out = loop.net(x)
    assert followed.LIVE
    found, = at_once(out.asnumpy)
    assert not followed.LIVE and pending.PUT_OFF[0] == 0
    np.testing.assert_array_equal(found, out.asnumpy())
    with autograd.record():
        loss = loop.loss(out, y)
    loss.backward()
    loop.trainer.step(8)
    assert any(np.abs(a - b).max() > 0 for a, b in zip(before, loop.state()))
    assert pending.WATCHED[0] == 0


def test_a_batch_is_put_off_again_while_another_thread_looks(monkeypatch: Any) -> None:
    """What the other thread waited for is done, but before it takes the batch's numbers the next round begins."""
    loop, (x, y), fulfil = followed_loop(), BATCHES[0], evict.fulfil
    expected, looks, begun = x.asnumpy(), threading.Event(), threading.Event()

    def slowly(a: Any) -> None:
        fulfil(a)
        if a is x and not looks.is_set():
            looks.set()
            begun.wait(0.5)

    def rounds() -> None:
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
        monkeypatch.setattr(evict, "fulfil", slowly)
        assert looks.wait(60)
        loss.backward()
        loop.trainer.step(8)
        with autograd.record():
            loop.net(x)
            begun.set()
            time.sleep(0.1)

    def look() -> Any:
        while evict.fulfil is fulfil:
            time.sleep(0.001)
        return x.asnumpy()
    np.testing.assert_array_equal(at_once(rounds, look)[1], expected)


def test_memory_that_others_may_write_elsewhere_changes_nothing(monkeypatch: Any) -> None:
    held = nd.from_numpy(np.zeros((5, 5), "f"))
    test_most_rounds_are_followed(monkeypatch)
    loop = followed_loop()
    done, shared = path_of(loop).done, nd.from_numpy(BATCHES[0][0].asnumpy())
    with autograd.record():
        loop.net(shared)
        assert not followed.LIVE                         # its numbers may be others before the step
    loop.step(0)
    loop.step(1)
    loop.step(2)
    assert path_of(loop).done > done and held.shape == (5, 5)


def test_parameters_that_others_may_write_are_not_put_off() -> None:
    loop = followed_loop()
    raw = np.from_dlpack(loop.net[0].weight.data())
    with autograd.record():
        loop.net(BATCHES[0][0])
    assert not followed.LIVE and raw.shape == (16, 12)


def test_threads_that_train_nets_of_their_own_at_once() -> None:
    launcher.load()

    def train() -> Any:
        loop = Loop(maker=smooth_without_draws)
        for i in range(60):
            loop.step(i)
        return np.concatenate(loop.seen)
    ends = at_once(train, train, train)
    assert not pending.PUT_OFF[0] and not followed.LIVE
    expected = train()
    for seen in ends:
        np.testing.assert_allclose(seen, expected, rtol=1e-3)


def smooth_without_draws() -> Any:
    """A net whose result depends on nothing that threads share."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(16, activation="tanh", in_units=12), mx.gluon.nn.Dense(4, in_units=16))
    net.initialize(mx.init.One())
    for p in net.collect_params().values():
        p.set_data(nd.array(np.linspace(-0.3, 0.3, p.data().size).reshape(p.shape)))
    net.hybridize()
    return net


def test_errors_of_the_step_reach_the_caller() -> None:
    loop = followed_loop()

    class Failing(mx.lr_scheduler.LRScheduler):
        def __call__(self, num_update: int) -> float:
            raise KeyError("no rate")
    loop.trainer.optimizer.lr_scheduler = Failing()
    x, y = BATCHES[0]
    with autograd.record():
        loss = loop.loss(loop.net(x), y)
    loss.backward()
    with pytest.raises(KeyError, match="no rate"):
        loop.trainer.step(8)
    assert not followed.LIVE and pending.PUT_OFF[0] == 0
    loop.trainer.optimizer.lr_scheduler = None
    loop.step(1)
    assert np.isfinite(loop.seen[-1]).all()


def test_tracks_go_with_their_nets() -> None:
    loop = followed_loop()
    refs = [weakref.ref(v) for v in (loop.net, loop.trainer, loop.root.track())]
    del loop
    gc.collect()
    assert [r() for r in refs] == [None] * 3


def test_nothing_is_followed_when_told_so(monkeypatch: Any) -> None:
    loop = followed_loop()
    monkeypatch.setenv("HYBRID_DEFER", "0")
    with autograd.record():
        out = loop.net(BATCHES[0][0])
    assert not followed.LIVE and pending.PUT_OFF[0] == 0 and out.shape == (8, 4)
