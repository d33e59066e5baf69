"""Loops of training whose steps are put off: what happens between and beside them."""
from __future__ import annotations

import gc
import threading
import weakref
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base import pending
from hybrid.contrib import amp
from hybrid.gluon import nn
from hybrid.jit.deferred import entrances, updates
from .test_deferred_loop import BATCHES, Loop, SCALE, STEPS, both, is_joined, not_joined, smooth


# ---- what comes between
def test_draws_writes_statistics_and_attributes_between(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        held = x.copy()
        view = held[0:4]
        with autograd.record():
            loss = loop.loss(loop.net(held), y)
        if i % 5 == 4:
            loop.seen.append(nd.random.uniform(shape=(3,)).asnumpy())
        if i == 9:
            loop.net[3]._rate = 0.1
        if i % 6 == 5:
            loop.seen.append(loop.net[1].running_mean.data().asnumpy())
        loss.backward()
        if i % 4 == 3:
            view[:] = 7                                  # the round is over the old numbers
        if i == 13:
            w = loop.net[0].weight.data()
            w[:] = w.clip(-0.1, 0.1)
        loop.trainer.step(8)
        loop.seen += [loss.asnumpy(), nd.random.uniform(shape=(2,)).asnumpy()]
    loop = both(monkeypatch, body, 2 * STEPS)
    assert loop.root.joined > STEPS // 2


def test_exceptions_and_rounds_without_a_step(monkeypatch: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        try:
            with autograd.record():
                out = loop.net(x)
                if i % 7 == 6:
                    raise KeyError
                loss = loop.loss(out, y)
            loss.backward()
            if i % 9 == 8:
                loop.seen += loop.state()
                return
            loop.trainer.step(8)
            loop.seen.append(loss.asnumpy())
        except KeyError:
            assert not pending.PUT_OFF[0]
            loop.seen.append(out.asnumpy())
    assert both(monkeypatch, body, 2 * STEPS).root.joined > STEPS


def test_errors_are_raised_at_their_lines() -> None:
    loop = Loop()
    for i in range(5):
        loop.step(i)
    with pytest.raises(UserWarning, match="has not written the gradient"):
        loop.trainer.step(8)
    with pytest.raises(mx.base.errors.HybridError), autograd.record():
        loop.net(nd.ones((8, 13)))
    with autograd.record():
        out = loop.net(BATCHES[0][0])
        with pytest.raises(mx.base.errors.HybridError):
            loop.loss(out, nd.ones((3, 3, 3)))
    with pytest.raises(mx.base.errors.HybridError, match="changed in place"):
        x, y = (v.copy() for v in BATCHES[0])
        with autograd.record():
            loss = loop.loss(loop.net(x), y)
        x[:] = 0
        loss.backward()
    loop.step(0)


def test_evaluation_and_files_between_rounds(monkeypatch: Any, tmp_path: Any) -> None:
    def body(loop: Loop, i: int) -> None:
        loop.step(i)
        if i % 4 == 3:
            loop.seen.append(loop.net(BATCHES[0][0]).asnumpy())
        if i == 8:
            loop.net.save_parameters(str(tmp_path / "net"))
            loop.trainer.save_states(str(tmp_path / "trainer"))
        if i == 12:
            loop.net.load_parameters(str(tmp_path / "net"))
            loop.trainer.load_states(str(tmp_path / "trainer"))
    assert both(monkeypatch, body, momentum=0.5).root.joined > STEPS // 2


def test_memory_that_others_write(monkeypatch: Any) -> None:
    shared = nd.zeros((8, 12))
    raw = shared.handle

    def body(loop: Loop, i: int) -> None:
        raw[:] = BATCHES[i % 5][0].asnumpy()
        with autograd.record():
            loss = loop.loss(loop.net(shared), BATCHES[i % 5][1])
        loss.backward()
        raw[:] = 99
        loop.trainer.step(8)
        loop.seen.append(loss.asnumpy())
    not_joined(both(monkeypatch, body, 6), "whose memory others may write")


def test_variables_of_the_module_and_hooks(monkeypatch: Any) -> None:
    class Scaled(nn.HybridSequential):
        def forward(self, x: Any) -> Any:
            return super().forward(x) * SCALE

    def maker() -> Any:
        mx.random.seed(1)
        net = Scaled()
        net.add(nn.Dense(4, in_units=12))
        net.initialize()
        net.hybridize()
        return net
    not_joined(both(monkeypatch, Loop.step, 6, maker=maker), "reads 'SCALE', a variable")

    def body(loop: Loop, i: int) -> None:
        if i == 0:
            loop.net[0].register_forward_hook(lambda block, inputs, out: loop.seen.append(out.asnumpy()))
        loop.step(i)
    not_joined(both(monkeypatch, body, 6), "a hook, debug.print or Python code")


def test_a_stranger_thread_reads_a_promise() -> None:
    loop = Loop()
    for i in range(4):
        loop.step(i)
    with autograd.record():
        out = loop.net(BATCHES[0][0])
    assert pending.PUT_OFF[0] == 1
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(out.asnumpy()))
    thread.start()
    thread.join(60)
    assert found and pending.PUT_OFF[0] == 0
    np.testing.assert_array_equal(found[0], out.asnumpy())


TOUCHES: dict[str, Callable[[Loop], Any]] = {
    "call": lambda loop: loop.net(BATCHES[0][0]), "attribute": lambda loop: setattr(loop.net[0], "note", 1),
    "hook": lambda loop: loop.net[0].register_forward_hook(lambda *_: None),
    "gradient": lambda loop: loop.net[0].weight.data().attach_grad(),
    "update": lambda loop: loop.trainer.update(1, True),
    "memory": lambda loop: loop.net[0].weight.data()[0:1]._exposed()}


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_other_threads_leave_alone_what_they_do_not_share(touch: Callable[[Loop], Any]) -> None:
    """Calls, updates and changes of other networks in another thread do not have a round made call by call; those of
    the same one do."""
    loop, other = Loop(maker=smooth), Loop(maker=smooth)
    for i in range(6):
        loop.step(i)
        other.step(i)
    x, y = BATCHES[0]
    ready, go_on = threading.Event(), threading.Event()

    def half() -> None:
        with autograd.record():
            loss = loop.loss(loop.net(x.copy()), y.copy())
        loss.backward()
        ready.set()
        go_on.wait(60)
        loop.trainer.step(8, ignore_stale_grad=True)
    thread = threading.Thread(target=half)
    thread.start()
    assert ready.wait(60) and pending.PUT_OFF[0] == 1
    other.net(x)
    mx.hybridize(lambda a: a * 2)(x)
    with autograd.record():
        loss = (other.net(x) ** 2).mean()
    loss.backward()
    other.trainer.allreduce_grads()
    other.trainer.update(1)
    other.net[0].note = 1
    other.net[0].register_forward_hook(lambda *_: None).detach()
    other.net[0].weight.grad_req = "add"
    other.net[0].weight._data[mx.cpu()] = other.net[0].weight.data().copy()
    other.net[0].weight.data().attach_grad()
    nd.ones((2, 2))._exposed()
    nn.Dense(3)
    assert not other.net[0].weight.data()._fresh_grad and pending.PUT_OFF[0] == 1
    touch(loop)
    assert pending.PUT_OFF[0] == 0
    go_on.set()
    thread.join()


def test_what_no_step_followed_is_no_part_of_the_next_loop() -> None:
    """A loop is joined after as many rounds, whatever calls of another network came before it: the same bits."""
    other, x = Loop(maker=smooth), BATCHES[0][0]
    found = []
    for before in ("nothing", "forward", "backward", "strange", "strange forward"):
        loop = Loop(maker=smooth)
        if before != "nothing":
            with autograd.record():
                left = other.net(x).sum()
            if before == "backward":
                left.backward()
            elif before == "strange forward":
                own = x.copy()
                own.attach_grad()
                with autograd.record():
                    left = other.net(x).sum() + other.net(own).sum()
            elif before == "strange":
                left.backward(nd.ones((1,)))
        mx.random.seed(2)
        for i in range(5):
            loop.step(i)
        assert loop.root.joined == 3, before
        found.append(loop.state())
    for state in found[1:]:
        for a, b in zip(state, found[0], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("left", [31, 62, 63])
def test_many_calls_that_no_step_followed_do_not_break_the_next_loop(left: int) -> None:
    """A round of so many calls that it is given up is not one in the middle of the loop's first iteration."""
    kept = []
    for i in range(left):
        net = nn.Dense(2, in_units=3)
        net.initialize()
        net.hybridize()
        with autograd.record():
            kept.append(net(nd.ones((2, 3))))
    loop = Loop(maker=smooth)
    for i in range(5):
        loop.step(i)
    assert loop.root.joined == 3


def test_nothing_is_kept_alive() -> None:
    loop = Loop()
    for i in range(6):
        loop.step(i)
    x, y = (v.copy() for v in BATCHES[0])
    with autograd.record():
        loss = loop.loss(loop.net(x), y)
    loss.backward()
    loop.trainer.step(8)
    refs = [weakref.ref(v) for v in (x, y, loss)]
    del x, y, loss
    assert [r() for r in refs] == [None] * 3
    refs = [weakref.ref(v) for v in (loop.net, loop.trainer, loop.loss)]
    del loop
    gc.collect()
    assert [r() for r in refs] == [None] * 3


class Parts(gluon.Block):
    """A block that is not hybridized, of blocks that are."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Dense(8, activation="relu", in_units=12), nn.Dense(6, in_units=8)

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x).reshape((x.shape[0], -1)))[:, 1:5]


def test_a_block_of_hybridized_parts(monkeypatch: Any) -> None:
    def maker() -> Any:
        mx.random.seed(1)
        net = Parts()
        net.initialize()
        net.hybridize()
        net.__dict__["_engine"] = net.first._engine      # the rounds begin there
        return net
    assert is_joined(both(monkeypatch, Loop.step, maker=maker, hybrid_loss=False))


def test_a_hybridized_function_takes_a_promise() -> None:
    loop = Loop()
    for i in range(4):
        loop.step(i)
    with autograd.record():
        out = loop.net(BATCHES[0][0])
    assert pending.PUT_OFF[0] == 1
    added = mx.hybridize(lambda x: x + out)(nd.ones((8, 4)))
    assert pending.PUT_OFF[0] == 0
    np.testing.assert_allclose(added.asnumpy(), out.asnumpy() + 1, rtol=1e-6)


def test_a_round_of_a_thread_that_ended_is_not_watched() -> None:
    pending.given_up()
    before = pending.WATCHED[0]

    def begun() -> None:
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
        began.append(pending.WATCHED[0])
    net, x = nn.Dense(3), nd.ones((2, 4))
    net.initialize()
    trainer, began = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}), list[int]()
    net.hybridize()
    for _ in range(2):
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(2)
    thread = threading.Thread(target=begun)
    thread.start()
    thread.join()
    gc.collect()
    assert began == [before + 1] and pending.WATCHED[0] == before


@pytest.mark.parametrize("loss", [gluon.loss.SoftmaxCrossEntropyLoss(), gluon.loss.HuberLoss(),
                                  gluon.loss.PoissonNLLLoss()], ids=lambda b: type(b).__name__)
def test_a_loss_of_the_library_is_one_event(monkeypatch: Any, loss: Any) -> None:
    kinds: set[str] = set()
    event = entrances.event

    def noted(what: Any, *rest: Any) -> Any:
        kinds.add(type(what).__name__)
        return event(what, *rest)
    for module in (entrances, updates):
        monkeypatch.setattr(module, "event", noted)
    loop = Loop()
    x, y = BATCHES[0]
    with autograd.record():
        out = loop.net(x)
        value = loss(out, y if type(loss).__name__.startswith("Softmax") else nd.ones_like(x)[:, :4])
    value.backward()
    assert kinds == {"Call", "Loss", "Backward"}


@pytest.mark.parametrize("casts", [False, True])
def test_a_scaled_loss(monkeypatch: Any, casts: bool) -> None:
    """A round with a scaled loss is one program; a step whose gradients overflow is left out."""
    scales: list[float] = []

    def body(loop: Loop, i: int) -> None:
        x, y = BATCHES[i % 5]
        if i == 0:
            amp.init("float16")
            amp.init_trainer(loop.trainer)
            if not casts:
                amp.off()                                    # the scale alone: layers compute in float32
        with autograd.record():
            loss = loop.loss(loop.net(x), y) * (1e35 if i in (8, 15) else 1)
            with amp.scale_loss(loss, loop.trainer) as scaled:
                scaled.backward()
        loop.trainer.step(8)
        loop.seen.append(loss.asnumpy())
        scales.append(loop.trainer._amp_loss_scaler.loss_scale)
    try:
        loop = both(monkeypatch, body, maker=smooth, tolerance=(2e-2, 2e-3) if casts else None)
    finally:
        amp.off()
    assert is_joined(loop, STEPS - 8)                        # in float16 the first steps overflow
    assert scales[:STEPS] == scales[STEPS:] and scales[7] == 4 * scales[15]


def test_a_nan_in_a_scaled_loss_is_an_error_of_the_step() -> None:
    loop = Loop(maker=smooth)
    amp.init("float16")
    amp.init_trainer(loop.trainer)
    loop.trainer._amp_loss_scaler._set(256.0)
    try:
        for i in range(14):
            x, y = BATCHES[i % 5]
            if i == 13:
                x, before = x * np.nan, loop.state()
            with autograd.record():
                with amp.scale_loss(loop.loss(loop.net(x), y), loop.trainer) as scaled:
                    scaled.backward()
            if i < 13:
                loop.trainer.step(8)
        assert loop.root.joined >= 5 and pending.PUT_OFF[0] == 1
        with pytest.raises(amp.NaNLossError, match="the loss is NaN"):
            loop.trainer.step(8)
    finally:
        amp.off()
    assert all(np.array_equal(a, b) for a, b in zip(loop.state(), before))
    assert loop.trainer._amp_loss_scaler.loss_scale == 256
