"""Products in equal shares inside of graphs, over the stand-in for CuPy: their tickets and flags are 0 again when a
launch ends, so that a graph which is launched again and again finds them so."""
from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import ir, nd, runtime
from hybrid.codegen.printers.cuda import mma, shares
from hybrid.runtime.cuda.program import CudaProgram

from . import fake_cupy
from .cuda_forms import normal
from .cuda_tools import host
from .fake_cupy import STATE, Device
from .test_cuda_cupy import stand_in  # noqa: F401  a fixture

CHAIN = [(64, 120), (120, 64), (64, 120)]


@pytest.fixture
def small(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # noqa: F811
    """A GPU of three multiprocessors that multiplies small tiles, in equal shares whether they pay or not."""
    monkeypatch.setitem(Device.attributes, "MultiProcessorCount", 3)
    monkeypatch.setattr(mma, "TILES", mma.TILES[-1:])
    for name, value in (("LEAST_GAIN", float("inf")), ("LEAST_DEPTH", 1), ("LEAST_TIME", 0)):
        monkeypatch.setattr(shares, name, value)
    yield


@pytest.fixture
def chained(small: None) -> CudaProgram:
    """Two products, one after the other: each has shares of its own, and both count in the same words."""
    x, w, v = (ir.input(i, s, "float32") for i, s in enumerate(CHAIN))
    y = ir.dot(ir.dot(x, w, ((1,), (0,))), v, ((1,), (0,)))
    exe: Any = runtime.compile(ir.Program((x, w, v), (y,)), mx.gpu(0))
    assert exe.report.source.count("hy_wait_for((unsigned *)tickets") == 2
    return exe


def given(seed: int) -> tuple[list[Any], np.ndarray]:
    """Arrays on the GPU, and the product of the matrices."""
    arrays = [normal(*s) * np.float32(seed) for s in CHAIN]
    return [nd.array(a, dtype="float32")._data for a in arrays], arrays[0] @ arrays[1] @ arrays[2]


def test_in_the_graph_of_a_plan(chained: CudaProgram) -> None:
    """Captured once, and launched again with the same arrays and with others."""
    same, want = given(1)
    graphs, replays, calls = STATE.graphs, STATE.replays, 6
    for n in range(calls):
        arrays, expected = (same, want) if n % 2 else given(n + 1)
        np.testing.assert_allclose(host(chained(arrays)[0]), expected, rtol=1e-4, atol=1e-2 * (n + 1) ** 3)
    assert STATE.graphs == graphs + 1 and STATE.replays > replays + 1


def test_in_a_graph_of_the_users(chained: CudaProgram) -> None:
    """Each launch of it reads what its arrays hold then, and leaves the words as other calls need them."""
    arrays, want = given(1)
    other, different = given(2)
    np.testing.assert_allclose(host(chained(arrays)[0]), want, rtol=1e-4, atol=1e-2)
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        (result,) = chained(arrays)
        graph = stream.end_capture()
    for factor in (1, 2, 3):
        arrays[0][...] = arrays[0] * (factor / max(factor - 1, 1))
        graph.launch()
        np.testing.assert_allclose(host(result), want * factor, rtol=1e-4, atol=1e-1)
        np.testing.assert_allclose(host(chained(other)[0]), different, rtol=1e-4, atol=1e-1)
