"""Launches of several kernels: neighbours of few blocks are stages of one launch, whose blocks wait for each other."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.codegen.printers.cuda.pieces import Launch
from hybrid.codegen.program import merged_launches
from hybrid.codegen.program.merged_launches import Span, merge_launches
from hybrid.ir.parse import parse
from hybrid.runtime.cuda import EmulatorError, program
from hybrid.runtime.cuda.emulator import EmulatorDriver

from .cuda_tools import orders, run_cuda

HEAD = 'extern "C" __global__ void __launch_bounds__(256) %s(float *p0, const float *p1) {\n'
KERNEL = HEAD + "  p0[blockIdx.x] = p1[0];\n}"


def small(*units: int) -> Any:
    net = gluon.nn.HybridSequential()
    for n in units[1:-1]:
        net.add(gluon.nn.Dense(n, activation="relu"))
    net.add(gluon.nn.Dense(units[-1]))
    return net


def images() -> Any:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, activation="relu"), gluon.nn.MaxPool2D(2), gluon.nn.Dense(10))
    return net


NETS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "one row": (lambda: small(64, 96, 48, 2), (1, 64)),
    "rows": (lambda: small(64, 96, 48, 2), (32, 64)),
    "images": (images, (2, 1, 12, 12)),
}


def filled(make: Callable[[], Any], shape: tuple[int, ...], ctx: Any) -> tuple[Any, Any]:
    """A network with numbers of its own, and an input."""
    net, random = make(), np.random.default_rng(3)
    net.initialize(ctx=ctx)
    x = nd.array(random.standard_normal(shape), ctx=ctx)
    net(x)
    for p in net.collect_params().values():
        p.set_data(nd.array(random.standard_normal(p.shape) * 0.2, ctx=ctx))
    net.hybridize()
    return net, x


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Any]]]:
    """The launches of each program that is made meanwhile."""
    found: list[list[Any]] = []
    init = program.CudaProgram.__init__

    def seen(self: Any, *args: Any) -> None:
        init(self, *args)
        found.append(self._launches)
    monkeypatch.setattr(program.CudaProgram, "__init__", seen)
    yield found


@pytest.mark.parametrize("name", NETS)
def test_a_small_network_is_one_launch(name: str, cuda_device: Any, launched: list[list[Any]]) -> None:
    make, shape = NETS[name]
    net, x = filled(make, shape, mx.cpu())
    want = net(x).asnumpy()
    net, x = filled(make, shape, cuda_device)
    for _ in orders():
        for _ in range(2):                                   # the barriers' word is what it was
            np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
    (launch,), = launched[-1:]
    assert launch.cooperative and launch.kernel.startswith("stages")


@pytest.mark.parametrize("forms", [1, 2])
def test_another_form_where_registers_are_spilled(forms: int, cuda_device: Any, launched: list[list[Any]],
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """First with more registers a thread, then apart; the report says why."""
    load, texts = EmulatorDriver.load, []

    def with_spills(driver: Any, source: str, kernels: Any) -> Any:
        module = load(driver, source, kernels)
        texts.append(source)
        spills = "__launch_bounds__(256) stages" in source or forms == 2
        module.spilled = lambda kernel: 20 if spills and kernel.startswith("stages") else 0
        return module
    monkeypatch.setattr(EmulatorDriver, "load", with_spills)
    make, shape = NETS["rows"]
    net, x = filled(make, shape, mx.cpu())
    want = net(x).asnumpy()
    net, x = filled(make, shape, cuda_device)
    for _ in orders():
        np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-6)
    text = str(net.report())
    assert "layout: launch stages0: compiled for more registers a thread, since 20 bytes were spilled on sm_90" in text
    assert ("launch stages0: not merged, since 20 bytes" in text) == (forms == 2)
    assert [launch.kernel.startswith("stages") for launch in launched[-1]] == ([True] if forms == 1 else [False] * 3)
    assert ("__launch_bounds__(256, 1) stages" in texts[-1]) == (forms == 1)


def test_spills_that_are_few_are_left(cuda_device: Any, launched: list[list[Any]],
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.conftest.spilled", lambda *given: program.SPILLED)
    net, x = filled(*NETS["rows"], cuda_device)
    net(x).asnumpy()
    assert "were spilled" not in str(net.report()) and len(launched[-1]) == 1


def steps(ctx: Any, count: int) -> list[np.ndarray]:
    """Parameters after some steps of Adam."""
    net, x = filled(lambda: small(20, 24, 16, 5), (6, 20), ctx)
    loss_of, trainer = gluon.loss.SoftmaxCrossEntropyLoss(), gluon.Trainer(net.collect_params(), "adam")
    y = nd.array(np.arange(6) % 5, ctx=ctx)

    @mx.hybridize
    def step(x: Any, y: Any) -> Any:
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(6)
        return loss
    for _ in range(count):
        step(x, y)
    return [p.data().asnumpy() for p in net.collect_params().values()]


def test_a_training_step_is_one_launch(cuda_device: Any, launched: list[list[Any]]) -> None:
    want = steps(mx.cpu(), 3)
    for _ in orders():
        for a, b in zip(steps(cuda_device, 3), want):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert [launch.cooperative for launch in launched[-1]] == [True]


def test_no_races(cuda_device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one is found where stages run side by side that need each other."""
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", "3")
    steps(cuda_device, 1)
    net, x = filled(*NETS["rows"], cuda_device)
    net(x).asnumpy()
    monkeypatch.setattr(merged_launches, "_waves", lambda stages: [list(stages)])
    net, x = filled(lambda: small(32, 64, 16, 3), (4, 32), cuda_device)
    with pytest.raises(EmulatorError, match="race in global memory"):
        net(x).asnumpy()


def merged(*launches: tuple[str, int, str, str], processors: int = 8) -> list[Launch]:
    """The launches of kernels that write and read named places of 16 bytes."""
    given = [Launch(name, blocks, 256, [to, source]) for name, blocks, to, source in launches]     # type: ignore[list-item]
    names = dict.fromkeys(name for name, *_ in launches)
    return merge_launches(parse("\n".join(KERNEL % n for n in names)), given, processors,
                          lambda place: Span(0, 16 * ord(str(place)), 16 * ord(str(place)) + 16))[1]  # type: ignore[arg-type]


def test_stages_that_need_nothing_of_each_other_run_side_by_side() -> None:
    launch, = merged(("k0", 2, "b", "a"), ("k1", 3, "c", "a"), ("k2", 1, "d", "c"), ("k3", 4, "a", "x"))
    assert [[s.name for s in wave] for wave in launch.waves] == [["k1", "k0"], ["k3", "k2"]]
    assert launch.cooperative and launch.blocks == 5


def test_large_launches_stay_alone() -> None:
    launches = merged(("k0", 2, "b", "a"), ("k1", 9, "c", "b"), ("k2", 1, "d", "c"), ("k3", 1, "e", "d"))
    assert [(len(launch.waves), launch.cooperative) for launch in launches] == [(0, False), (0, False), (2, False)]


def test_more_blocks_side_by_side_than_processors(cuda_device: Any) -> None:
    """Two kernels whose blocks take turns on three."""
    kernels = HEAD + '  __shared__ float s[1];\n' \
              '  if (threadIdx.x == 0) s[0] = p1[blockIdx.x];\n  __syncthreads();\n' \
              '  if (threadIdx.x < 2) p0[blockIdx.x * 2 + threadIdx.x] = s[0] + %d;\n}'
    given = [Launch(name, 3, 256, [2 * i + 1, 0]) for i, name in enumerate(("k0", "k1"))]          # type: ignore[list-item]
    text = "\n".join(['#include "hybrid_stages.cuh"', kernels % ("k0", 1), kernels % ("k1", 2)])
    code, (launch,) = merge_launches(parse(text), given, 3, lambda i: Span(int(str(i)), 0, 16))  # type: ignore[arg-type]
    x = np.arange(3, dtype=np.float32)
    arrays = [x, *[np.zeros(6, np.float32)] * 3]
    run = (launch.name, (launch.blocks, 1, 1), (256, 1, 1), 0, tuple(launch.args))
    out = run_cuda("\n".join(map(str, code)), [run], arrays)
    assert launch.blocks == 3 and not launch.cooperative
    assert out[1].tolist() == np.repeat(x + 1, 2).tolist() and out[3].tolist() == np.repeat(x + 2, 2).tolist()


def test_a_barrier_of_some_threads(cuda_device: Any) -> None:
    """Others do not take part in it, and are an error there."""
    text = '#include "hybrid_cuda.cuh"\nextern "C" __global__ void k(float *x) {\n  if (threadIdx.x < %d) {\n' \
           '    x[threadIdx.x] = threadIdx.x;\n    hy_sync<64>();\n' \
           '    x[128 + threadIdx.x] = x[63 - threadIdx.x];\n  }\n}'
    launch, zeros = ("k", (1, 1, 1), (128, 1, 1), 0, (0,)), np.zeros(256, np.float32)
    out, = run_cuda(text % 64, [launch], [zeros])
    assert out[128:192].tolist() == list(range(64))[::-1]
    with pytest.raises(EmulatorError, match="not one of"):
        run_cuda(text % 128, [launch], [zeros])
