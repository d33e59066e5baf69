"""Several GPUs in one process, in MXNet's way, on the stand-in for CuPy: parameters on each, batches in parts,
gradients added up, programs that launch where their arrays are."""
from __future__ import annotations

import re

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base.errors import DeviceError
from hybrid.gluon import nn
from hybrid.gluon.utils import split_and_load

from . import fake_cupy
from .test_cuda_cupy import stand_in  # noqa: F401  the fixture

GPUS = [mx.gpu(0), mx.gpu(1)]


@pytest.fixture(autouse=True)
def two_gpus(stand_in: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(fake_cupy.STATE, "devices", 2)


def trained(devices: list[mx.Context], optimizer: str, hybridized: bool,
            steps: int = 3) -> tuple[list[np.ndarray], list[float]]:
    """Weights and losses after steps over a batch of 8, whose parts lie on the devices."""
    rng = np.random.default_rng(4)
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="tanh", in_units=6), nn.BatchNorm(in_channels=16, use_global_stats=True),
            nn.Dense(3, in_units=16))
    net.initialize(ctx=devices)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.standard_normal(p.shape) * (0.2 if "running_var" not in p.name else 0) + 0.5))
    if hybridized:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.05})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    x, y, losses = rng.standard_normal((8, 6)).astype(np.float32), rng.integers(0, 3, 8), []
    for _ in range(steps):
        parts = list(zip(split_and_load(nd.array(x), devices), split_and_load(nd.array(y), devices)))
        with autograd.record():
            found = [loss_of(net(a), b) for a, b in parts]
        autograd.backward(found)
        for (a, _), part in zip(parts, found):
            assert part.ctx == a.ctx and part._data.device.id == a.ctx.device_id
        trainer.step(8)
        losses.append(float(np.mean([part.asnumpy().mean() for part in found])))
        assert fake_cupy.STATE.device == 0                 # the program's own current device
    for p in net.collect_params().values():
        assert p.list_ctx() == devices
        copies = [p.data(c).asnumpy() for c in devices]
        assert all(np.array_equal(copies[0], c) for c in copies)
        assert [p.data(c)._data.device.id for c in devices] == [c.device_id for c in devices]
    return [p.data(devices[0]).asnumpy() for p in net.collect_params().values()], losses


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_on_two_gpus_is_training_on_one(optimizer: str, hybridized: bool) -> None:
    one, two = (trained(devices, optimizer, hybridized) for devices in (GPUS[:1], GPUS))
    np.testing.assert_allclose(two[1], one[1], rtol=1e-5)
    for a, b in zip(one[0], two[0]):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


def test_arrays_move_between_gpus() -> None:
    x = nd.arange(6, ctx=GPUS[0])
    y = x.as_in_context(GPUS[1])
    assert (y.ctx, y._data.device.id) == (GPUS[1], 1) and np.array_equal(y.asnumpy(), x.asnumpy())
    z = nd.zeros((6,), ctx=GPUS[0])
    y.copyto(z)
    assert np.array_equal(z.asnumpy(), x.asnumpy()) and z._data.device.id == 0


def test_copies_between_gpus_wait_for_both_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy begins after what was queued where the array is, and what is queued there later begins after the copy;
    null streams do that by themselves."""
    done: list[tuple[str, int, int]] = []

    class Event:
        def __init__(self, disable_timing: bool) -> None:
            assert disable_timing

        def record(self, stream: fake_cupy.Stream) -> None:
            done.append(("record", fake_cupy.STATE.device, stream.ptr))
    monkeypatch.setattr(fake_cupy.CUPY.cuda, "Event", Event, raising=False)
    monkeypatch.setattr(fake_cupy.Stream, "wait_event", lambda self, event: done.append(
        ("wait", fake_cupy.STATE.device, self.ptr)), raising=False)
    array = fake_cupy.CUPY.array
    monkeypatch.setattr(fake_cupy.CUPY, "array", lambda *a, **k: (done.append(("copy", fake_cupy.STATE.device, 0)),
                                                                  array(*a, **k))[1])
    x = nd.arange(6, ctx=GPUS[0])
    with fake_cupy.Stream(non_blocking=True) as stream:
        done.clear()
        y = x.as_in_context(GPUS[1])
    stream.synchronize()
    assert [what for what, *_ in done] == ["record", "wait", "copy", "record", "wait"]
    assert [device for _, device, _ in done] == [0, 1, 1, 1, 0] and stream.ptr
    done.clear()
    assert np.array_equal(x.as_in_context(GPUS[1]).asnumpy(), y.asnumpy()) and done == [("copy", 1, 0)]


def test_programs_of_each_gpu_run_in_turn() -> None:
    f = mx.hybridize(lambda a: nd.tanh(a) * 2)
    given = [nd.arange(8, ctx=c) / 8 for c in GPUS]
    for _ in range(4):
        for a in given:
            y = f(a)
            assert y.ctx == a.ctx and y._data.device.id == a.ctx.device_id
            np.testing.assert_allclose(y.asnumpy(), np.tanh(np.arange(8) / 8) * 2, rtol=1e-6)


def test_arrays_of_two_gpus_do_not_meet() -> None:
    f = mx.hybridize(lambda a, b: a + b)
    with pytest.raises(Exception, match=r"gpu\(1\)"):
        f(nd.ones((3,), ctx=GPUS[0]), nd.ones((3,), ctx=GPUS[1]))


@pytest.mark.parametrize("at", ["argument", "gradient", "given"])
@pytest.mark.parametrize(("ctx", "other"), [(mx.cpu(), mx.gpu(0)), (mx.gpu(0), mx.cpu()), (mx.gpu(0), mx.gpu(1))])
def test_an_executor_of_mixed_devices(at: str, ctx: mx.Context, other: mx.Context) -> None:
    """One clear error, before anything runs."""
    what = {"argument": "bind: the executor and its array 'x'", "gradient": "bind: 'w' and its gradient",
            "given": "backward: an array and the gradient given for it"}[at]

    def zeros(of: str) -> nd.NDArray:
        return nd.zeros((2, 3), ctx=other if of == at else ctx)
    y = mx.sym.var("x") * mx.sym.var("w")
    with pytest.raises(DeviceError, match=rf"^{what} are on .*{re.escape(str(ctx))}.*x\.as_in_context"):
        e = y.bind(ctx, {"x": zeros("argument"), "w": zeros("")}, {"x": zeros(""), "w": zeros("gradient")})
        e.forward(is_train=True)
        e.backward(zeros("given"))


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_given_elsewhere(compiled: bool) -> None:
    """Outside of executors, too."""
    x = nd.ones((3,), ctx=GPUS[0])
    x.attach_grad()
    f = mx.hybridize(lambda a: a * a) if compiled else lambda a: a * a
    with autograd.record():
        y = f(x)
    with pytest.raises(DeviceError, match="backward: an array and the gradient given for it are on gpu"):
        y.backward(nd.ones((3,), ctx=mx.cpu()))
    with pytest.raises(DeviceError, match="an array and its gradient are on gpu"):
        autograd.mark_variables([x], [nd.ones((3,), ctx=GPUS[1])])
