"""Values that programs on the GPU compute from parameters alone: once, and again when a parameter was written.

Over the stand-in for CuPy and NVIDIA's libraries (fake_cupy.py)."""
from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.buffers import derived
from hybrid.passes import channels_last
from hybrid.runtime import launcher
from hybrid.runtime.cuda import program

from . import fake_cupy
from .fake_cupy import STATE
from .test_cuda_cupy import stand_in  # noqa: F401  a fixture

pytestmark = pytest.mark.skipif(launcher.load() is None, reason="no headers of Python")


@pytest.fixture(autouse=True)
def channels_last_pays(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:  # noqa: F811
    """Also for small convolutions. The runs of programs that prepare are noted."""
    runs: list[Any] = []
    run_part, whole = program.Preparation.run_part, program.Preparation.__call__
    monkeypatch.setattr(channels_last, "LEAST_PRODUCTS", 1)
    monkeypatch.setattr(program.Preparation, "run_part", lambda self, *a: runs.append(self) or run_part(self, *a))
    monkeypatch.setattr(program.Preparation, "__call__", lambda self, *a: runs.append("whole") or whole(self, *a))
    yield runs


def network() -> tuple[Any, Any]:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(8, 3, padding=1, in_channels=4), gluon.nn.BatchNorm(in_channels=8),
            gluon.nn.Activation("relu"), gluon.nn.Conv2D(4, 3, in_channels=8), gluon.nn.Flatten(),
            gluon.nn.Dense(3, in_units=4 * 4 * 4))
    mx.random.seed(5)
    net.initialize(mx.init.Xavier())
    return net, nd.random.uniform(shape=(2, 4, 6, 6))


def eager(net: Any, x: Any) -> np.ndarray:
    net.hybridize(False)
    y = net(x).asnumpy()
    net.hybridize()
    return y


def called(times: int = 6) -> tuple[Any, Any, np.ndarray]:
    net, x = network()
    y = eager(net, x)
    for _ in range(times):
        np.testing.assert_allclose(net(x).asnumpy(), y, rtol=1e-4, atol=1e-5)
    return net, x, y


def right(net: Any, x: Any) -> np.ndarray:
    """The network's answer, which is what its parameters give now."""
    y = net(x).asnumpy()
    others, _ = network()
    for p, q in zip(others.collect_params().values(), net.collect_params().values()):
        p.set_data(q.data())
    np.testing.assert_allclose(y, others(x).asnumpy(), rtol=1e-4, atol=1e-5)
    return y


def test_what_prepares_is_compiled_beside_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two waits for the other to begin."""
    begun, load = {True: threading.Event(), False: threading.Event()}, program.CudaProgram._print_and_load

    def waits(self: Any) -> Any:
        first = isinstance(self, program.Preparation)
        if first or self.planned.prepare is not None:
            begun[first].set()
            assert begun[not first].wait(30)
        return load(self)
    monkeypatch.setattr(program.CudaProgram, "_print_and_load", waits)
    called()
    assert begun[True].is_set()


def test_weights_are_prepared_once(channels_last_pays: list[Any]) -> None:
    """Two convolutions' weights, and what BatchNorm multiplies with."""
    net, x, _ = called()
    assert len(channels_last_pays) == 1
    report = str(net.report())
    assert report.count("put in order as") == 2 and "prepared from parameters" in report
    graphs = STATE.graphs
    for _ in range(6):
        net(x)
    assert len(channels_last_pays) == 1 and STATE.graphs == graphs


def _load(net: Any, path: Path) -> None:
    other, x = network()
    for p in other.collect_params().values():
        p.set_data(p.data() * 1.25)
    other.save_parameters(str(path / "a"))
    net.load_parameters(str(path / "a"), ctx=mx.gpu(0))


def _step(net: Any, path: Path) -> None:
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    with autograd.record():
        loss = (net(nd.ones((2, 4, 6, 6))) ** 2).sum()
    loss.backward()
    trainer.step(1)


def _in_place(net: Any, path: Path) -> None:
    net[0].weight.data()[:] *= 1.5


def _by_view(net: Any, path: Path) -> None:
    net[3].weight.data()[1:2] = 0.25


def _raw(net: Any, path: Path) -> None:
    net[3].weight.data().handle[...] = 0.5


WRITES: dict[str, Callable[[Any, Path], None]] = {
    "set_data": lambda net, path: net[0].weight.set_data(net[0].weight.data() * 2), "step": _step,
    "in place": _in_place, "view": _by_view, "load": _load, "handle": _raw,
    "statistics": lambda net, path: net[1].running_var.set_data(nd.full((8,), 2.0)),
    "initialize": lambda net, path: net.initialize(mx.init.Normal(0.3), force_reinit=True),
}


@pytest.mark.parametrize("how", WRITES)
def test_a_written_parameter_is_prepared_again(how: str, tmp_path: Path, channels_last_pays: list[Any]) -> None:
    net, x, before = called(3)
    for _ in range(3):
        WRITES[how](net, tmp_path)
        runs = len(channels_last_pays)
        now = right(net, x)
        assert np.abs(now - before).max() > 1e-4 and len(channels_last_pays) > runs
        for _ in range(3):
            np.testing.assert_array_equal(net(x).asnumpy(), now)
        assert len(channels_last_pays) == runs + 1 or how == "handle"
        if how in ("load", "statistics", "view", "handle"):
            break


def test_the_graph_stays_when_weights_are_written(channels_last_pays: list[Any]) -> None:
    """New values lie where the old ones were."""
    net, x, _ = called()
    bound, graphs = next(iter(net._engine.entries.values())).bound, STATE.graphs
    for k in range(4):
        net[0].weight.data()[:] = 0.1 * k
        right(net, x)
    assert next(iter(net._engine.entries.values())).bound is bound and len(channels_last_pays) == 5
    made = STATE.graphs
    net(x)
    assert STATE.graphs == made and made - graphs <= 4       # of what the check runs


def test_other_batches_share_prepared_weights(channels_last_pays: list[Any]) -> None:
    net, x, _ = called(2)
    many = nd.array(np.repeat(x.asnumpy(), 3, axis=0))
    for _ in range(2):
        np.testing.assert_allclose(net(many).asnumpy(), np.repeat(net(x).asnumpy(), 3, axis=0), rtol=1e-4, atol=1e-5)
    first, second = (e.bound._prepared for e in net._engine.entries.values())
    assert len(channels_last_pays) == 1 and all(a is b for a, b in zip(first.values, second.values, strict=True))
    net[0].weight.data()[:] = 0.5
    right(net, x)
    np.testing.assert_allclose(net(many).asnumpy(), np.repeat(net(x).asnumpy(), 3, axis=0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("called_before", [True, False])
def test_a_graph_of_the_users_reads_parameters(called_before: bool, channels_last_pays: list[Any]) -> None:
    """Whoever captures a call and then writes a parameter gets what it gives now."""
    net, x, before = called(4)
    if not called_before:
        net[0].weight.data()[:] *= 1.1                      # what was prepared is stale
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        y = net(x)
        graph = stream.end_capture()
        for factor in (2, 0.5):
            net[0].weight.data()[:] *= factor
            graph.launch(stream)
            stream.synchronize()
            np.testing.assert_allclose(y.asnumpy(), right(net, x), rtol=1e-5, atol=1e-6)


def test_another_stream_reads_what_is_there() -> None:
    """Values are computed on the stream of the first call, and another one may read them right away."""
    net, x = network()
    net.hybridize()
    net(x)
    net[0].weight.data()[:] = 0.5
    nd.waitall()
    waits = STATE.waits
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True) as stream:
        y = net(x)
    assert STATE.waits > waits
    stream.synchronize()
    np.testing.assert_allclose(net(x).asnumpy(), y.asnumpy(), rtol=1e-5, atol=1e-6)


def test_memory_that_others_may_write_is_not_prepared_from(channels_last_pays: list[Any]) -> None:
    """It is read at every call, as long as the array lives."""
    net, x, _ = called(2)
    lent = net[3].weight.data().handle
    assert derived.is_shared([lent])
    for k in range(3):
        lent[...] = 0.1 * k
        right(net, x)
    assert channels_last_pays.count("whole") == 3


def test_values_larger_than_parameters_are_not_kept(channels_last_pays: list[Any]) -> None:
    """Weights of int8 are widened where they are multiplied: a product reads a quarter."""
    w, scale = nd.array(np.arange(-32, 32).reshape(8, 8), dtype="int8"), nd.full((8, 1), 0.5)

    class Narrow(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.w = gluon.Constant("w", w)
            self.scale = gluon.Constant("scale", scale)

        def forward(self, x: Any) -> Any:
            return nd.dot(x, self.w.data().astype("float32") * self.scale.data(), transpose_b=True)
    net = Narrow()
    net.initialize()
    x = nd.ones((2, 8))
    expected = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), expected)
    assert not channels_last_pays
