"""The GPU through CuPy, with a stand-in for CuPy (fake_cupy.py): eager operators, compiled programs and training take
only what CuPy has. On a machine with a GPU the other test files run on the real one.
"""
from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import device, ir, nd, runtime
from hybrid.runtime import cuda
from hybrid.runtime.cuda import cupy_driver, driver_api, native, nvrtc

from . import fake_cupy
from .cuda_tools import break_kernels
from .test_cuda_nets import NETS, train
from ..ops.test_ops_oracle import TABLE, _check


@pytest.fixture(scope="module", autouse=True)
def stand_in() -> Iterator[None]:
    """CuPy is the stand-in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("HYBRID_CUDA", raising=False)
        patch.setitem(device._probe, "cupy", fake_cupy.CUPY)
        patch.setattr(cupy_driver, "nvrtc", SimpleNamespace(compile=fake_cupy.compile_for_fake,
                                                            version=lambda: (13, 0)))
        patch.setattr(driver_api, "library", fake_cupy.library)
        driver_api.version.cache_clear()
        native.library.cache_clear()
        patch.setattr(cupy_driver, "_thread", threading.local())
        patch.setattr(cuda, "_drivers", {})
        patch.setenv("HYBRID_DEVICE", "gpu")
        yield
    driver_api.version.cache_clear()
    native.library.cache_clear()


EAGER = [pytest.param(k, id=f"{k}-{row['op']}")
         for k, row in enumerate(TABLE) if row and row["inputs"] and not row.get("skip")]


@pytest.mark.parametrize("number", EAGER)
def test_eager(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every recorded operator, with its gradients, while another device than the arrays' is CuPy's current one."""
    monkeypatch.setattr(fake_cupy.STATE, "devices", 2)
    with fake_cupy.Device(1):
        _check(number, lambda function: function)


def test_arrays_are_on_the_gpu() -> None:
    x = nd.array([[1, 2], [3, 4]])
    assert x.ctx == mx.gpu(0) and isinstance(x._data, fake_cupy.ndarray)
    assert (x * 2 + 1).asnumpy().tolist() == [[3, 5], [7, 9]] and "@gpu(0)" in repr(x)
    assert x.as_in_context(mx.cpu()).ctx == mx.cpu() and x[1].asnumpy().tolist() == [3, 4]
    x[0] = nd.array([7, 8])
    x[1] = np.array([5, 6])
    assert x.asnumpy().tolist() == [[7, 8], [5, 6]]
    x[:] = [[0, 1], [2, 3]]
    assert x.asnumpy().tolist() == [[0, 1], [2, 3]]
    with pytest.raises(mx.errors.DeviceError, match="cpu"):
        x + nd.array([[1, 2], [3, 4]], ctx=mx.cpu())
    with pytest.raises(mx.errors.DeviceError, match=r"gpu\(3\) was asked for"):
        nd.zeros((2,), ctx=mx.gpu(3))


@pytest.mark.parametrize("name", NETS)
def test_training(name: str) -> None:
    """Eager and compiled training agree."""
    before = fake_cupy.STATE.launches
    eager = train(name, False)
    assert fake_cupy.STATE.launches == before
    for k, (got, expected) in enumerate(zip(train(name, True), eager, strict=True)):
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5 * max(1, np.abs(expected).max()),
                                   err_msg=f"value {k}")
    assert fake_cupy.STATE.launches > before


def test_calls_on_another_stream() -> None:
    """A program runs on the stream that is current when it is called."""
    f = mx.hybridize(lambda x: (x * 2 + 1).sum())
    x = nd.arange(6)
    x.wait_to_read()
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True):
        assert f(x).asscalar() == 36
    assert f(x).asscalar() == 36


@pytest.mark.unwatched
@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_a_kernel_that_nvrtc_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its log and the path of the source; nothing else runs instead."""
    break_kernels(monkeypatch)
    monkeypatch.setattr(cupy_driver, "nvrtc", nvrtc)
    with pytest.raises(mx.errors.CompileError, match=r"(?s)Source: \S+\.cu\n.*nowhere"):
        mx.hybridize(lambda x: nd.sinh(x))(nd.arange(6))


def test_an_array_of_the_cpu_is_a_clear_error() -> None:
    x = ir.input(0, (3,), "float32")
    executable = runtime.compile(ir.Program((x,), (x * 2,)), mx.gpu(0))
    with pytest.raises(mx.errors.DeviceError, match=r"input 0 is a numpy.ndarray, the program runs on gpu\(0\)"):
        executable([np.zeros(3, "float32")])


def test_results_are_on_the_device_of_the_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever device is CuPy's current one: results, working memory and launches."""
    monkeypatch.setattr(fake_cupy.STATE, "devices", 2)
    x = nd.arange(6, ctx=mx.gpu(1))
    f = mx.hybridize(lambda x: (x * 2 + 1, nd.dot(x, x)))
    for _ in range(2):
        y, z = f(x)
        assert (y._data.device.id, z._data.device.id, fake_cupy.STATE.device) == (1, 1, 0)
    assert y.asnumpy().tolist() == [1, 3, 5, 7, 9, 11] and y.ctx == mx.gpu(1)


def _long_plan() -> tuple[cuda.Plan, list[np.ndarray]]:
    """Five launches in a row: x + 1 + 1 ..."""
    text = ('#include "hybrid_cuda.cuh"\nextern "C" __global__ void one(const float *x, float *y) { y[threadIdx.x] = '
            'x[threadIdx.x] + 1; }\n')
    module = cuda.driver().load(text, ["one"])
    arrays = [np.zeros(32, np.float32) for _ in range(6)]
    return module.plan([("one", (1, 1, 1), (32, 1, 1), 0, (i, i + 1)) for i in range(5)]), arrays


def _run(plan: cuda.Plan, arrays: list[np.ndarray], start: float) -> float:
    arrays[0][:] = start
    plan.run([a.ctypes.data for a in arrays])
    cuda.driver().synchronize()
    return float(arrays[-1][0])


def test_runs_become_one_graph() -> None:
    """Later runs set the kernels whose arrays changed, and no other: whatever arrays come, nothing is captured
    again."""
    plan, arrays = _long_plan()
    state = fake_cupy.STATE
    graphs, replays, sets = state.graphs, state.replays, state.sets
    assert [_run(plan, arrays, v) for v in range(5)] == [5, 6, 7, 8, 9]
    assert (state.graphs - graphs, state.replays - replays, state.sets - sets) == (1, 3, 0)
    others = [arrays[0], *arrays[1:5], np.zeros(32, np.float32)]                     # another result: the last kernel's
    assert _run(plan, others, 1) == 6 and state.sets - sets == 1
    for k in range(12):
        mine = [np.zeros(32, np.float32), *arrays[1:]]
        assert _run(plan, mine, k) == k + 5
    assert state.graphs - graphs == 1


def test_no_graph_inside_the_users_graph() -> None:
    plan, arrays = _long_plan()
    for v in range(4):
        _run(plan, arrays, v)
    replays = fake_cupy.STATE.replays
    with fake_cupy.CUPY.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        plan.run([a.ctypes.data for a in arrays])
        graph = stream.end_capture()
    assert fake_cupy.STATE.replays == replays
    arrays[0][:] = 20
    graph.launch()
    cuda.driver().synchronize()
    assert arrays[-1][0] == 25


def test_graphs_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_CUDA_GRAPHS", "0")
    plan, arrays = _long_plan()
    graphs = fake_cupy.STATE.graphs
    assert [_run(plan, arrays, v) for v in range(5)] == [5, 6, 7, 8, 9] and fake_cupy.STATE.graphs == graphs
