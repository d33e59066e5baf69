"""Compiled programs on real CuPy over the stand-in give what the CPU gives, on streams that run at once and late.

    PYTHONPATH=build/tree HYBRID_STAND_IN_DEVICES=2 FOLDER/python -m tests.stand_in.cuda.check

CuPy's own kernels do not run there (its headers are no CUDA that g++ takes): arrays are made from NumPy's, and only
hybrid's kernels compute.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from . import rehearse  # the compiler's place is the emulator's, before anything is compiled

import cupy  # noqa: E402  the wheel

import hybrid as mx  # noqa: E402
from hybrid import autograd, gluon, ir, nd, runtime  # noqa: E402
from hybrid.base.errors import DeviceError, OutOfMemoryError  # noqa: E402
from hybrid.gluon import nn  # noqa: E402
from hybrid.runtime import launcher  # noqa: E402
from hybrid.runtime.cuda import cupy_driver  # noqa: E402

from ...cuda import cuda_tools  # noqa: E402

GPU, CPU = mx.gpu(0), mx.cpu()
ORDERS = {"at once": 0, "the least": 1, "others first": 2, "in turn": 3}     # streams.c


def network(ctx: mx.Context, *layers: tuple[int, int, str | None]) -> nn.HybridSequential:
    """An MLP with the same weights on each device."""
    rng = np.random.default_rng(1)
    net = nn.HybridSequential()
    for units, inputs, activation in layers or ((24, 40, "relu"), (5, 24, None)):
        net.add(nn.Dense(units, activation=activation, in_units=inputs))
    net.initialize(mx.init.Zero(), ctx=CPU)
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.standard_normal(p.shape) / 4, ctx=CPU))
    net.collect_params().reset_ctx(ctx)
    net.hybridize()
    return net


def close(found: Any, expected: np.ndarray) -> None:
    """Numbers are as near as float32 gives them."""
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-5)


def own_streams() -> list[Any]:
    """A stream that waits for no other, on each GPU."""
    streams = []
    for number in range(mx.num_gpus()):
        with cupy.cuda.Device(number):
            streams.append(cupy.cuda.Stream(non_blocking=True))
    return streams


def calls() -> None:
    """Inputs that rotate, results that are held, a stream of one's own."""
    on_cpu, on_gpu = network(CPU), network(GPU)
    rng, held = np.random.default_rng(2), []
    stream = cupy.cuda.Stream(non_blocking=True)
    for i in range(12):
        x = rng.standard_normal((3, 40)).astype(np.float32)
        with stream if i % 3 == 2 else cupy.cuda.Stream.null:
            y = on_gpu(nd.array(x, ctx=GPU))
        stream.synchronize()
        held.append((y, on_cpu(nd.array(x, ctx=CPU)).asnumpy()))
    for y, expected in held:
        assert isinstance(y._data, cupy.ndarray)
        close(y, expected)


def streams_in_turn() -> None:
    """Two streams whose work nobody waits for: results, working memory, graphs launched again before they ran."""
    layers = ((16, 40, "relu"), (300, 16, "tanh"), (3, 300, None))
    on_cpu, on_gpu = network(CPU, *layers), network(GPU, *layers)
    given = [nd.array(np.random.default_rng(k).standard_normal((2, 40), dtype=np.float32), ctx=GPU) for k in range(12)]
    expected = [on_cpu(x.as_in_context(CPU)).asnumpy() for x in given]
    for x in given[:4]:
        on_gpu(x).wait_to_read()
    streams, held = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)], []
    for i, x in enumerate(given):
        with streams[i % 2]:
            y = on_gpu(x)
        held += [(i, y)] if i % 3 else []
    for i, y in held:
        with streams[i % 2]:
            close(y, expected[i])


def memory() -> None:
    """Results that are held, also by a view of CuPy's or through DLPack, keep their numbers."""
    on_cpu, on_gpu = network(CPU), network(GPU)
    given = [np.full((3, 40), k / 8, np.float32) for k in range(4)]
    expected = [on_cpu(nd.array(x, ctx=CPU)).asnumpy() for x in given]
    kept: list[tuple[Callable[[], np.ndarray], np.ndarray]] = []
    for i in range(12):
        y, right = on_gpu(nd.array(given[i % 4], ctx=GPU)), expected[i % 4]
        view: Any = (y, y._data[1:], cupy.from_dlpack(y._data))[i % 3]
        kept.append((view.asnumpy if view is y else view.get, right[1:] if i % 3 == 1 else right))
        del y
    for numbers, right in kept:
        np.testing.assert_allclose(numbers(), right, rtol=1e-5, atol=1e-5)


def training() -> None:
    """Steps as one program, whose rates and counts go with the launch."""
    def trained(ctx: mx.Context) -> list[np.ndarray]:
        net, loss_of = network(ctx), gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})

        @mx.hybridize
        def step(x: Any, y: Any) -> Any:
            with autograd.record():
                loss = loss_of(net(x), y)
            loss.backward()
            trainer.step(8)
            return loss
        rng, out = np.random.default_rng(5), []
        for k in range(8):
            trainer.set_learning_rate(0.01 / (k + 1))
            x, y = rng.standard_normal((8, 40), dtype=np.float32), rng.integers(0, 5, 8).astype(np.float32)
            out.append(step(nd.array(x, ctx=ctx), nd.array(y, ctx=ctx)))
        return [a.asnumpy() for a in (*out, *(p.data() for p in net.collect_params().values()))]
    for found, expected in zip(trained(GPU), trained(CPU), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def captured() -> None:
    """A call within the user's own graph, launched again with other numbers at its place."""
    on_cpu, on_gpu = network(CPU), network(GPU)
    x = nd.array(np.zeros((3, 40), np.float32), ctx=GPU)
    for _ in range(3):
        on_gpu(x).wait_to_read()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        y = on_gpu(x)
        graph = stream.end_capture()
        for value in (0.5, 0.25):
            x._data.set(np.full((3, 40), value, np.float32))
            graph.launch()
            close(y, on_cpu(nd.array(np.full((3, 40), value), ctx=CPU)).asnumpy())


def several() -> None:
    """Programs, copies and numbers of each GPU while another one is current, on null streams and streams of their
    own."""
    count = mx.num_gpus()
    rng, on_cpu, streams = np.random.default_rng(3), network(CPU), own_streams()
    nets = [network(mx.gpu(k)) for k in range(count)]
    before = [cupy.cuda.get_current_stream(k) for k in range(count)]
    for i in range(6 * count):
        k, own = i % count, i >= 3 * count
        x = rng.standard_normal((3, 40)).astype(np.float32)
        expected = on_cpu(nd.array(x, ctx=CPU)).asnumpy()
        for number, stream in enumerate(streams if own else []):
            with cupy.cuda.Device(number):
                stream.use()
        there = nd.array(x, ctx=mx.gpu(k)).as_in_context(mx.gpu((k + 1) % count)).as_in_context(mx.gpu(k))
        y = nets[k](there)
        z = y.as_in_context(mx.gpu((k + 1) % count))
        for found in (y, z):
            assert found._data.device.id == found.ctx.device_id
            close(found, expected)
    for number, stream in enumerate(before):
        with cupy.cuda.Device(number):
            stream.use()


def constants(first: int) -> bool:
    """Whether a program with constants is right on another stream than the one that copied them."""
    x, table = ir.input(0, (64,), "float32"), np.arange(first, first + 64, dtype=np.float32)
    ones = nd.array(np.ones(64, np.float32), ctx=GPU)
    with cupy.cuda.Stream(non_blocking=True):
        exe: Any = runtime.compile(ir.Program((x,), (x * ir.data(table),)), GPU)
    with cupy.cuda.Stream(non_blocking=True):
        return np.array_equal(exe([ones._data])[0].get(), table)


def waits() -> None:
    """Constants are waited for; without it they are wrong where streams do the least."""
    assert constants(1)
    real = cupy_driver.CuPyDriver.synchronize
    cupy_driver.CuPyDriver.synchronize = lambda self: None   # type: ignore[method-assign]
    try:
        right = constants(1000)
    finally:
        cupy_driver.CuPyDriver.synchronize = real            # type: ignore[method-assign]
    assert not (right and rehearse.late() == ORDERS["the least"]), "nothing is wrong without the wait"


def boxes() -> None:
    """Slices through tensor maps of arrays that lie elsewhere at each call, in a graph and on a stream of one's own."""
    with pytest.MonkeyPatch.context() as patch:
        cuda_tools.slices_through_maps(patch)
        exe: Any = runtime.compile(cuda_tools.two_products(), GPU)
    assert "hy_copy_box" in exe.report.source.partition("__global__")[2]
    stream, held = cupy.cuda.Stream(non_blocking=True), []
    kept = [[cupy.array(a) for a in cuda_tools.factors(seed)] for seed in range(3)]
    cupy.cuda.Stream.null.synchronize()
    for turn in range(9):
        with stream if turn % 3 == 2 else cupy.cuda.Stream.null:
            held.append((turn % 3, exe(kept[turn % 3])[0]))
        stream.synchronize()
    cupy.cuda.Stream.null.synchronize()
    for seed, y in held:
        np.testing.assert_array_equal(y.get(), cuda_tools.product_of(*cuda_tools.factors(seed)))


def errors() -> None:
    """What CuPy raises for want of memory, a kernel that failed and a captured stream says what to do."""
    f, x = mx.hybridize(lambda a: nd.tanh(a) * 2), nd.array(np.ones((3, 40), np.float32), ctx=GPU)
    f(x).wait_to_read()
    for look in (lambda y: y.asnumpy(), lambda y: y.wait_to_read(), lambda y: nd.waitall()):
        with rehearse.failing("k0"), pytest.raises(DeviceError, match=r"check.py:\d+: gpu\(0\) failed: .*CUDA_SYNC=1"):
            look(f(x))
    with rehearse.with_memory(1000):
        for more in (lambda: nd.array(np.ones((999, 99))), lambda: nd.zeros((999, 99)), lambda: nd.concat(*[x] * 99),
                     lambda: nd.ones((999, 99), ctx=CPU).as_in_context(GPU)):
            with GPU, pytest.raises(OutOfMemoryError, match=r"check.py:\d+: gpu\(0\) is out .* MB are free. Take a sm"):
                more()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        for copied in (x.asnumpy, lambda: nd.array(np.ones(3), ctx=GPU)):
            with pytest.raises(DeviceError, match=r"check.py:\d+: gpu\(0\): .* before begin_capture\(\)"):
                copied()
        stream.end_capture()
    close(f(x), np.full((3, 40), 2 * np.tanh(1)))


CHECKS = (calls, streams_in_turn, memory, training, captured, waits, boxes, errors, several)


def main() -> None:
    """Every check in each order."""
    while launcher.load() is None and launcher.coming():
        time.sleep(0.1)
    for name, order in ORDERS.items():
        for check in CHECKS:
            if check is several and mx.num_gpus() == 1:
                continue
            rehearse.run_late(order)
            check()
            rehearse.run_late(0)
        print(f"CuPy {cupy.__version__}, streams run {name}: as on the CPU", flush=True)


if __name__ == "__main__":
    main()
