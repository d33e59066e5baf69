"""Streams that run late: who waits for another stream gets its numbers, and who forgets to gets others.

Over the stand-in for CuPy and NVIDIA's libraries, whose streams do nothing until somebody waits
(tests/stand_in/cuda/streams.c)."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, ir, nd, runtime
from hybrid.runtime.cuda import cupy_driver

from . import fake_cupy
from .fake_cupy import Event, Stream
from .test_cuda_cupy import stand_in  # noqa: F401  a fixture
from .test_cuda_nets import NETS, train

LEAST, OTHERS_FIRST, IN_TURN = 1, 2, 3


@pytest.fixture(autouse=True, params=[LEAST, OTHERS_FIRST, IN_TURN], ids=["least", "others first", "in turn"])
def late(stand_in: None, request: pytest.FixtureRequest) -> Iterator[int]:  # noqa: F811
    lib = fake_cupy.library()
    lib.stand_in_late = request.param
    yield request.param
    lib.cudaDeviceSynchronize()
    lib.stand_in_late = 0


def constants() -> np.ndarray:
    """What a program with constants gives on another stream than the one on which they are copied."""
    x = ir.input(0, (64,), "float32")
    ones = nd.ones((64,))
    ones.wait_to_read()
    with Stream(non_blocking=True):
        exe: Any = runtime.compile(ir.Program((x,), (x * ir.data(np.arange(64, dtype="float32")),)), mx.gpu(0))
    with Stream(non_blocking=True):
        return exe([ones._data])[0].get()                     # type: ignore[no-any-return]


def test_a_missing_wait_for_constants_is_a_wrong_number(late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(constants(), np.arange(64))
    if late == LEAST:                                         # others first: the copy comes before who reads
        monkeypatch.setattr(cupy_driver.CuPyDriver, "synchronize", lambda self: None)
        assert not np.array_equal(constants(), np.arange(64))


@pytest.mark.parametrize("waits", ["no wait", "event", "null stream"])
def test_an_array_is_overwritten_while_another_stream_reads(waits: str, late: int) -> None:
    f = mx.hybridize(lambda a: a * 2)
    x = nd.ones((6,))
    for _ in range(3):
        f(x).wait_to_read()
    reader, event = Stream(non_blocking=waits != "null stream"), Event()
    writer = Stream.null if waits == "null stream" else Stream(non_blocking=True)
    with reader:
        y = f(x)
    event.record(reader)
    if waits == "event":
        writer.wait_event(event)
    with writer:
        x[:] = 5
    if late == LEAST:                                         # others first: it writes when the reader is waited for
        writer.synchronize()
    with reader:
        found = y.asnumpy().tolist()
        if late != IN_TURN or waits != "no wait":              # in turn either may come first
            assert found == [10 if waits == "no wait" else 2] * 6


def test_calls_on_two_streams_in_turn() -> None:
    """Results, working memory and the kernels of graphs that are launched again before they ran."""
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(16, activation="relu", in_units=8), gluon.nn.Dense(40, activation="tanh", in_units=16),
            gluon.nn.Dense(3, in_units=40))
    net.initialize(mx.init.Xavier())
    inputs = [nd.random.uniform(shape=(2, 8)) for _ in range(16)]
    expected = [net(x).asnumpy() for x in inputs]
    net.hybridize()
    for x in inputs[:6]:
        net(x).wait_to_read()
    streams, held = [Stream(non_blocking=True) for _ in range(2)], []
    for i, x in enumerate(inputs):
        with streams[i % 2]:
            y = net(x)
        held += [(i, y)] if i % 3 else []
    for i, y in held:
        with streams[i % 2]:
            np.testing.assert_allclose(y.asnumpy(), expected[i], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", list(NETS)[:2])
def test_training(name: str) -> None:
    for got, expected in zip(train(name, True), train(name, False), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5 * max(1, np.abs(expected).max()))
