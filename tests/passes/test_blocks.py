"""Batches computed in blocks (hybrid/passes/minibatch_tiling.py): values, threads, memory, sanitizers; and what is
computed at once."""
from __future__ import annotations

from pathlib import Path
from typing import Callable

import numpy as np
import pytest

from hybrid import ir, nd
from hybrid.base.device import aligned_bytes
from hybrid.gluon import nn
from hybrid.ir import Node, Program
from hybrid.passes import batch_in_lanes, layout, minibatch_tiling
from hybrid.runtime import cpu
from hybrid.runtime import threads as threads_of

from ..cpu_kernels import conv, random, run_sanitized, without_sanitizers
from ..codegen.exact_values import compare, exact

# data, filters, bias, matrix, more data
INPUTS = ((6, 3, 9, 7), (17, 3, 3, 3), (17, 1, 1), (17, 17), (6, 3, 9, 7))


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibatch_tiling, "CACHE", 1)


def chain(x: Node, w: Node, b: Node, m: Node, z: Node) -> list[Node]:
    """Convolution, bias, activation, mean, dense layer, softmax."""
    y = ir.map("relu", conv(ir.map("mul", x, z), w, 1) + b)
    mean = ir.reduce("sum", y, (2, 3)) / 63.0
    e = ir.map("exp", ir.dot(mean, m, ((1,), (1,))))
    return [e / ir.reduce("sum", e, (1,), True)]


def several(x: Node, w: Node, b: Node, m: Node, z: Node) -> list[Node]:
    """Results of several shapes, one of them twice; data beside each other, flattened, turned."""
    y = conv(x, w, 1)
    both = ir.concat([ir.slice(y, (0, 2, 1, 0), (6, 3, 8, 7)), ir.slice(z, (0, 0, 1, 0), (6, 3, 8, 7))], 1)
    flat = ir.reshape(both, (6, 6 * 56))
    return [flat, ir.permute(y, (0, 2, 3, 1)), ir.reduce("max", y, (1, 2, 3)), flat]


def over_the_batch(x: Node, w: Node, b: Node, m: Node, z: Node) -> list[Node]:
    y = conv(x, w, 1)
    return [y - ir.reduce("sum", y, (0,), True)]


def pictures_times_pictures(x: Node, w: Node, b: Node, m: Node, z: Node) -> list[Node]:
    y = ir.reduce("sum", conv(x, w, 1), (2, 3))
    return [ir.dot(y, y, ((1,), (1,)))]


def turned(x: Node, w: Node, b: Node, m: Node, z: Node) -> list[Node]:
    return [ir.permute(conv(x, w, 1), (1, 0, 2, 3))]


def numbered(x: Node, w: Node, b: Node, m: Node, z: Node) -> list[Node]:
    """Parameters of each image."""
    return [conv(x, w, 1) + ir.reshape(ir.slice(m, (0, 0), (6, 1)), (6, 1, 1, 1))]


def of_parameters(x: Node, w: Node, b: Node, m: Node, z: Node) -> list[Node]:
    return [conv(x, w, 1), ir.map("relu", m)]


DIVIDED: dict[str, Callable[..., list[Node]]] = {f.__name__: f for f in (chain, several)}
WHOLE: dict[str, Callable[..., list[Node]]] = {f.__name__: f for f in (over_the_batch, pictures_times_pictures, turned,
                                                                       numbered, of_parameters)}


def program(make: Callable[..., list[Node]]) -> tuple[Program, list[np.ndarray]]:
    arrays = [random(*s) for s in INPUTS]
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays))
    p = Program(leaves, tuple(make(*leaves)))
    p.memo["frozen"] = frozenset({1, 2, 3})
    return p, arrays


@pytest.mark.parametrize("threads", ("1", "2", "3", "4"))
@pytest.mark.parametrize("form", DIVIDED)
def test_values(form: str, threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six blocks of one image; two or three threads take some each, four cannot."""
    monkeypatch.setenv("HYBRID_NUM_THREADS", threads)
    p, arrays = program(DIVIDED[form])
    exe = cpu.compiled(p)
    assert ("batch computed in 6 blocks" in str(exe.report)) == (threads != "4")
    compare(exe(arrays), exact(p, arrays))
    monkeypatch.setenv("HYBRID_NUM_THREADS", "1")
    threads_of.share(exe._lib)
    compare(exe(arrays), exact(p, arrays))


def test_each_thread_has_working_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels need more of it than the values between them take: both halves of the arena are written alike."""
    monkeypatch.setenv("HYBRID_NUM_THREADS", "2")
    monkeypatch.setattr(layout, "LEAST_WORK", 1)
    monkeypatch.setattr(batch_in_lanes, "LEAST_WORK", 1)
    x, w, v = random(8, 3, 16, 18), random(16, 3, 3, 3), random(24, 16, 3, 3)
    leaves = tuple(ir.input(i, a.shape, a.dtype) for i, a in enumerate((x, w, v)))
    y = ir.map("relu", conv(leaves[0], leaves[1], 1))
    p = Program(leaves, (ir.reduce("sum", ir.map("relu", conv(y, leaves[2], 0)), (2, 3)),))
    p.memo["frozen"] = frozenset({1, 2})
    exe = cpu.compiled(p)
    report = exe.report
    assert "batch computed in 8 blocks" in str(report) and report.scratch_bytes > 2 * 4096
    arena = aligned_bytes(exe._arena_bytes)
    arena[:] = 0xa5
    exe._arenas.append(arena)
    compare(exe([x, w, v]), exact(p, [x, w, v]))
    ends = [np.flatnonzero(half != 0xa5).max() for half in arena.reshape(2, -1)]
    assert abs(int(ends[0]) - int(ends[1])) < 64


@pytest.mark.parametrize("form", WHOLE)
def test_computed_at_once(form: str) -> None:
    """What mixes images, or differs between them without being data, is not divided."""
    p, arrays = program(WHOLE[form])
    exe = cpu.compiled(p)
    assert "batch computed in" not in str(exe.report)
    compare(exe(arrays), exact(p, arrays))


@pytest.mark.parametrize("form", DIVIDED)
def test_sanitized(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if why := without_sanitizers(tmp_path):
        pytest.skip(why)
    monkeypatch.setenv("HYBRID_NUM_THREADS", "2")
    p, arrays = program(DIVIDED[form])
    compare(run_sanitized(cpu.compiled(p), arrays, tmp_path), exact(p, arrays))


def test_blocks_are_as_large_as_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the batch where that fits; all of it where parameters would cost more to read again."""
    p, _ = program(chain)
    picture = 4 * 63 * (17 + 3)
    monkeypatch.setattr(minibatch_tiling, "CACHE", 3 * picture)
    divided = minibatch_tiling.in_blocks(p, p.memo["frozen"], 1)
    assert divided is not None and divided.inputs[0].shape[0] == 3 and divided.memo["blocks"].count == 2
    monkeypatch.setattr(minibatch_tiling, "CACHE", 6 * picture)
    assert minibatch_tiling.in_blocks(p, p.memo["frozen"], 1) is None
    x, w = ir.input(0, (6, 3, 3, 3), np.float32), ir.input(1, (512, 3, 3, 3), np.float32)
    monkeypatch.setattr(minibatch_tiling, "CACHE", 1)
    assert minibatch_tiling.in_blocks(Program((x, w), (conv(x, w, 0),)), frozenset({1}), 1) is None


def test_network() -> None:
    """A hybridized network in blocks: changed weights, other batch sizes, less memory."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2), nn.Conv2D(24, 3),
            nn.LeakyReLU(0.1), nn.GlobalAvgPool2D(), nn.Dense(10))
    net.initialize()
    x = nd.array(random(8, 3, 16, 18))
    eager = net(x).asnumpy()
    net.hybridize(static_alloc=True, static_shape=True)
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-4, atol=1e-5)
    report = net.report()
    assert "batch computed in 8 blocks" in str(report) and report.arena_bytes < 4 * (16 * 16 * 18) * 3
    np.testing.assert_allclose(net(x[:3]).asnumpy(), eager[:3], rtol=1e-4, atol=1e-5)
    net[0].weight.data()[:] = 0
    assert np.ptp(net(x).asnumpy(), axis=0).max() < 1e-5
