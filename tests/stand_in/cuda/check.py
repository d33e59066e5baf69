"""Compiled programs on real CuPy over the stand-in give what the CPU gives.

    PYTHONPATH=build/tree FOLDER/python -m tests.stand_in.cuda.check

CuPy's own kernels do not run there (its headers are no CUDA that g++ takes): arrays are made from NumPy's, and only
hybrid's kernels compute.
"""
from __future__ import annotations

import numpy as np

from . import rehearse  # noqa: F401  the compiler's place is the emulator's, before anything is compiled

import cupy  # noqa: E402  the wheel

import hybrid as mx  # noqa: E402
from hybrid import nd  # noqa: E402
from hybrid.gluon import nn  # noqa: E402


def network(ctx: mx.Context) -> nn.HybridSequential:
    """An MLP with the same weights on each device."""
    rng = np.random.default_rng(1)
    net = nn.HybridSequential()
    net.add(nn.Dense(24, activation="relu", in_units=40), nn.Dense(5, in_units=24))
    net.initialize(mx.init.Zero(), ctx=mx.cpu())
    for p in net.collect_params().values():
        p.set_data(nd.array(rng.standard_normal(p.shape) / 4, ctx=mx.cpu()))
    net.collect_params().reset_ctx(ctx)
    net.hybridize()
    return net


def main() -> None:
    """The same calls on both devices: inputs that rotate, results that are held, a stream of one's own."""
    on_cpu, on_gpu = network(mx.cpu()), network(mx.gpu(0))
    rng, held = np.random.default_rng(2), []
    stream = cupy.cuda.Stream(non_blocking=True)
    for i in range(12):
        x = rng.standard_normal((3, 40)).astype(np.float32)
        with stream if i % 3 == 2 else cupy.cuda.Stream.null:
            y = on_gpu(nd.array(x, ctx=mx.gpu(0)))
        stream.synchronize()
        held.append((y, on_cpu(nd.array(x, ctx=mx.cpu())).asnumpy()))
    for y, expected in held:
        assert isinstance(y._data, cupy.ndarray)
        np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-5, atol=1e-5)
    print(f"CuPy {cupy.__version__}: {len(held)} calls as on the CPU")
    if mx.num_gpus() > 1:
        several(mx.num_gpus())


def several(count: int) -> None:
    """Programs, copies and numbers of each GPU while another one is current, on null streams and streams of their
    own."""
    rng, on_cpu = np.random.default_rng(3), network(mx.cpu())
    nets = [network(mx.gpu(k)) for k in range(count)]
    streams = []
    for k in range(count):
        with cupy.cuda.Device(k):
            streams.append(cupy.cuda.Stream(non_blocking=True))
    for i in range(6 * count):
        k, own = i % count, i >= 3 * count
        x = rng.standard_normal((3, 40)).astype(np.float32)
        expected = on_cpu(nd.array(x, ctx=mx.cpu())).asnumpy()
        if own:
            for number, stream in enumerate(streams):
                with cupy.cuda.Device(number):
                    stream.use()
        there = nd.array(x, ctx=mx.gpu(k)).as_in_context(mx.gpu((k + 1) % count)).as_in_context(mx.gpu(k))
        y = nets[k](there)
        z = y.as_in_context(mx.gpu((k + 1) % count))
        for found in (y, z):
            assert found._data.device.id == found.ctx.device_id
            np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-5)
    print(f"{6 * count} calls and copies on {count} GPUs")


if __name__ == "__main__":
    main()
