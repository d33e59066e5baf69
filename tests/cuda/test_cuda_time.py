"""Loops over time on CUDA: one cooperative launch, whose blocks keep the matrices in registers and wait for each
other."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.codegen import cuda as printer
from hybrid.codegen.printers.cuda import resident
from hybrid.gluon import rnn
from hybrid.passes.pipeline import Planned
from hybrid.runtime.cuda import EmulatorError, emulator, nvrtc, program

from .cuda_tools import orders

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120")
LAYERS = {"LSTM": rnn.LSTM, "GRU": rnn.GRU, "RNN": rnn.RNN}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The programs that are made meanwhile."""
    found: list[Any] = []
    init = program.CudaProgram.__init__

    def seen(self: Any, planned: Planned, *args: Any) -> None:
        init(self, planned, *args)
        found.append(self)
    monkeypatch.setattr(program.CudaProgram, "__init__", seen)
    yield found


def filled(layer: Any, shape: tuple[int, ...], ctx: Any, dtype: str = "float32") -> tuple[Any, list[Any]]:
    """A layer with numbers of its own, and its arguments."""
    random = np.random.default_rng(4)
    layer.initialize(ctx=ctx)
    x = nd.array(random.standard_normal(shape), ctx=ctx)
    for _, p in sorted(layer.collect_params().items()):
        p.set_data(nd.array(random.standard_normal(p.shape) * 0.3, ctx=ctx))
    layer.cast(dtype)
    layer.hybridize()
    states = layer.begin_state(shape[1], ctx=ctx, dtype=dtype)
    return layer, [x.astype(dtype), [nd.array(random.standard_normal(s.shape), ctx=ctx, dtype=dtype) for s in states]]


def predicted(layer: Any, shape: tuple[int, ...], ctx: Any, dtype: str = "float32") -> list[np.ndarray]:
    net, arguments = filled(layer, shape, ctx, dtype)
    out, states = net(*arguments)
    return [a.asnumpy().astype(np.float64) for a in (out, *states)]


def gradients(layer: Any, shape: tuple[int, ...], ctx: Any) -> list[np.ndarray]:
    net, (x, _) = filled(layer, shape, ctx)
    x.attach_grad()

    @mx.hybridize
    def step(x: Any) -> Any:
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        return loss
    return [step(x).asnumpy(), x.grad.asnumpy(), *(p.grad().asnumpy() for p in net.collect_params().values())]


def close(got: list[np.ndarray], want: list[np.ndarray], within: float) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=within, atol=within * max(1.0, float(np.abs(b).max())))


def forms(made: list[Any]) -> list[str]:
    """Forms of the loops of the last program."""
    return [k.form for k in made[-1].planned.fused.kernels if k.kind == "loop"]


IN_ONE = "one launch, matrices in registers"


FEW = 12                        # registers that matrices are too large for: blocks own some units and wait for others


@pytest.mark.parametrize("name, sizes", [("LSTM", (3, 2, 8, 5)), ("LSTM", (4, 1, 64, 8)), ("GRU", (3, 33, 20, 7)),
                                         ("GRU", (3, 2, 64, 5)), ("RNN", (3, 2, 64, 3)), ("RNN", (3, 33, 20, 7))])
def test_values(name: str, sizes: tuple[int, ...], cuda_device: Any, made: list[Any],
                monkeypatch: pytest.MonkeyPatch) -> None:
    steps, batch, units, inputs = sizes
    waits = units == 64
    if waits:
        monkeypatch.setattr(resident, "REGISTERS", FEW)
    shape = (steps, batch, inputs)
    want = predicted(LAYERS[name](units, input_size=inputs), shape, mx.cpu())
    for _ in orders():
        close(predicted(LAYERS[name](units, input_size=inputs), shape, cuda_device), want, 1e-5)
    assert forms(made) == [IN_ONE]
    assert made[-1]._launches[-1].cooperative == waits


@pytest.mark.parametrize("options", [{"bidirectional": True, "num_layers": 2}, {"use_sequence_length": True}])
def test_both_ways_and_lengths(options: dict[str, Any], cuda_device: Any, made: list[Any]) -> None:
    def values(ctx: Any) -> list[np.ndarray]:
        net, (x, states) = filled(rnn.LSTM(24, input_size=6, **options), (4, 3, 6), ctx)
        lengths = nd.array([4, 1, 2], ctx=ctx, dtype="int32") if "use_sequence_length" in options else None
        out, states = net(x, states, lengths)
        return [a.asnumpy() for a in (out, *states)]
    want = values(mx.cpu())
    close(values(cuda_device), want, 1e-5)
    assert set(forms(made)) == {IN_ONE}


@pytest.mark.parametrize("dtype, within", [("float16", 4e-3), ("bfloat16", 4e-2)])
def test_halves(dtype: str, within: float, cuda_device: Any, made: list[Any]) -> None:
    want = predicted(rnn.LSTM(24, input_size=6), (3, 2, 6), mx.cpu(), dtype)
    close(predicted(rnn.LSTM(24, input_size=6), (3, 2, 6), cuda_device, dtype), want, within)
    assert forms(made) == [IN_ONE]


def test_a_unit_of_five_sums(cuda_device: Any, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The vector loads that read them are aligned."""
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    random = np.random.default_rng(5)
    given = [random.standard_normal(shape).astype("float32") * 0.2 for shape in ((3, 2, 16), (2, 16), (16, 80))]

    @mx.hybridize
    def run(x: Any, state: Any, w: Any) -> Any:
        def body(row: Any, h: Any) -> Any:
            a, b, c, d, e = nd.split(nd.dot(h, w), 5, axis=1)
            new = nd.tanh(a + row) * nd.sigmoid(b) + nd.tanh(c) * nd.sigmoid(d) + e
            return new, new
        return nd.contrib.foreach(body, x, state)[0]
    want = run(*(nd.array(a) for a in given)).asnumpy()
    close([run(*(nd.array(a, ctx=cuda_device) for a in given)).asnumpy()], [want], 1e-5)
    assert forms(made) == [IN_ONE]


@pytest.mark.parametrize("name", LAYERS)
def test_gradients(name: str, cuda_device: Any, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "REGISTERS", FEW)
    want = gradients(LAYERS[name](40, input_size=5), (3, 9, 5), mx.cpu())
    close(gradients(LAYERS[name](40, input_size=5), (3, 9, 5), cuda_device), want, 2e-5)
    assert forms(made) == [IN_ONE, IN_ONE if name != "GRU" else "launches of each step"]


def test_no_races(cuda_device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one is found where blocks do not wait for each other."""
    monkeypatch.setenv("HYBRID_EMU_WATCH", "races")
    monkeypatch.setenv("HYBRID_EMU_BLOCKS", "3")
    monkeypatch.setattr(resident, "REGISTERS", FEW)
    predicted(rnn.RNN(64, input_size=4), (3, 2, 4), cuda_device)
    monkeypatch.setattr(resident._Resident, "_barrier", lambda *_: ["__syncthreads();"])
    with pytest.raises(EmulatorError, match="race in global memory"):
        predicted(rnn.GRU(64, input_size=4), (3, 2, 4), cuda_device)


def test_more_rows_than_blocks_that_run_at_once(cuda_device: Any, made: list[Any],
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU of two multiprocessors takes a launch a step."""
    want = predicted(rnn.RNN(16, input_size=4), (2, 40, 4), mx.cpu())
    monkeypatch.setattr(emulator.EmulatorDriver, "processors", property(lambda self: 2))
    close(predicted(rnn.RNN(16, input_size=4), (2, 40, 4), cuda_device), want, 1e-5)
    kernel, = (k for k in made[-1].planned.fused.kernels if k.kind == "loop")
    assert dict(kernel.not_taken)[IN_ONE].startswith("the matrices do not fit")


@pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)")
def test_it_compiles_for_every_gpu(cuda_device: Any, made: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without spills, for 256 units of 32 rows."""
    monkeypatch.setattr(emulator.EmulatorPlan, "run", lambda *_: None)
    predicted(rnn.LSTM(256, input_size=4), (2, 32, 4), cuda_device)
    groups = made[-1].planned.groups
    for arch in ARCHITECTURES:
        text = printer.print_program(groups, arch=arch, processors=80)
        name, = (launch.name for launch in text.launches if launch.cooperative)
        assert nvrtc.compile(text.source, arch).resources[name].spill_stores == 0
