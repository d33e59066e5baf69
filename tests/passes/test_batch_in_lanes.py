"""Small nets over many images (blocks of images in vectors): values against float64 for odd sizes, every width of
vector, one and two threads; when they are taken, and that what is prepared follows the parameters.
"""
from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, ir, nd
from hybrid.codegen.printers.convolutions import packed_batch_in_lanes
from hybrid.gluon import nn
from hybrid.ir import Node, Program
from hybrid.ir.winograd import array, matrices
from hybrid.passes import batch_in_lanes
from hybrid.runtime import cpu, reference, toolchain
from hybrid.runtime import threads as threads_of

from ..cpu_kernels import random, vectors_of
from ..codegen.exact_values import checked, compare, exact
from ..codegen.test_packed_convolutions import convolution, eager

# name: images, channels, height, width, then layers: ("conv", filters, kernel, stride, dilation, padding), ("max" or
# "sum", size, stride, padding), ("relu" …,), ("norm",), ("dense", results), ("more",): a residual
CASES: dict[str, tuple[Any, ...]] = {
    "lenet": (16, 1, 28, 28, ("conv", 6, (5, 5), (1, 1), (1, 1), (0, 0)), ("relu",), ("max", (2, 2), (2, 2), 0),
              ("conv", 16, (5, 5), (1, 1), (1, 1), (0, 0)), ("relu",), ("max", (2, 2), (2, 2), 0), ("dense", 120),
              ("relu",), ("dense", 10)),
    "odd": (17, 3, 17, 13, ("conv", 7, (3, 3), (1, 1), (1, 1), (1, 1)), ("tanh",), ("max", (3, 2), (3, 2), 0),
            ("conv", 13, (3, 3), (1, 1), (1, 1), (1, 1)), ("dense", 63)),
    "even_filter": (13, 2, 11, 12, ("conv", 5, (4, 2), (1, 1), (1, 1), (2, 1)), ("relu",),
                    ("conv", 3, (2, 4), (1, 1), (1, 1), (0, 2))),
    "wide_filter": (16, 1, 31, 33, ("conv", 5, (7, 7), (1, 1), (1, 1), (3, 3)), ("max", (2, 2), (2, 2), 0),
                    ("conv", 3, (1, 11), (1, 1), (1, 1), (0, 5)), ("dense", 17)),
    "strided": (31, 3, 19, 23, ("conv", 9, (5, 3), (2, 3), (1, 1), (2, 1)), ("sigmoid",),
                ("conv", 6, (3, 3), (2, 1), (1, 1), (1, 0)), ("dense", 5)),
    "dilated": (15, 3, 17, 19, ("conv", 5, (3, 3), (1, 1), (3, 2), (3, 2)), ("relu",),
                ("conv", 4, (3, 3), (1, 1), (2, 1), (0, 0)), ("dense", 3)),
    "residual": (16, 8, 9, 7, ("conv", 8, (3, 3), (1, 1), (1, 1), (1, 1)), ("norm",), ("relu",), ("more",),
                 ("conv", 8, (3, 3), (1, 1), (1, 1), (1, 1)), ("more",), ("max", (2, 2), (2, 2), 0)),
    "mean": (16, 3, 12, 13, ("conv", 6, (5, 5), (1, 1), (1, 1), (2, 2)), ("tanh",), ("sum", (2, 2), (2, 2), 0),
             ("conv", 5, (3, 3), (1, 1), (1, 1), (0, 0)), ("sum", (3, 3), (1, 2), 1), ("dense", 10)),
    "overlapping": (16, 2, 15, 14, ("conv", 6, (3, 3), (1, 1), (1, 1), (1, 1)), ("relu",), ("max", (3, 3), (2, 2), 1),
                    ("conv", 3, (3, 3), (1, 1), (1, 1), (1, 1)), ("max", (5, 5), (1, 1), 2)),
    "one_line": (65, 3, 1, 29, ("conv", 5, (1, 5), (1, 1), (1, 1), (0, 2)), ("relu",),
                 ("conv", 4, (1, 3), (1, 1), (1, 1), (0, 0)), ("dense", 2)),
    "one_pixel": (33, 5, 5, 6, ("conv", 37, (5, 5), (1, 1), (1, 1), (0, 0)), ("relu",),
                  ("conv", 26, (1, 1), (1, 1), (1, 1), (0, 0)), ("dense", 1)),
    "turned_round": (16, 2, 9, 8, ("conv", 6, (3, 3), (1, 1), (1, 1), (1, 1)), ("reversed",), ("relu",),
                     ("conv", 3, (3, 3), (1, 1), (1, 1), (1, 1)), ("dense", 2)),
    "narrow": (16, 3, 9, 2, ("conv", 5, (3, 2), (1, 1), (1, 1), (1, 0)), ("relu",), ("max", (3, 1), (3, 1), 0),
               ("conv", 2, (3, 3), (1, 1), (1, 1), (1, 1))),
}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_in_lanes, "LEAST_WORK", 1)
    monkeypatch.setattr(batch_in_lanes.BatchInLanes, "_elsewhere", lambda self, c: float("inf"))


def layer(y: Node, what: tuple[Any, ...], weight: Any) -> Node:
    """One layer; weight(shape) is a new parameter."""
    kind = what[0]
    if kind == "conv":
        _, filters, kernel, stride, dilation, pad = what
        z = convolution(y, weight(filters, y.shape[1], *kernel), stride, dilation, pad, 1)
        return z + ir.reshape(weight(filters), (1, filters, 1, 1))
    if kind in ("max", "sum"):
        _, size, stride, pad = what
        z = ir.pad(y, (0, 0, pad, pad), (0, 0, pad, pad), -np.inf if kind == "max" else 0.0) if pad else y
        return ir.reduce(kind, ir.window(z, (2, 3), size, stride, (1, 1)), (4, 5))
    if kind == "dense":
        y = ir.reshape(y, (y.shape[0], int(np.prod(y.shape[1:]))))
        return ir.dot(y, weight(what[1], y.shape[1]), ((1,), (1,))) + ir.reshape(weight(what[1]), (1, what[1]))
    if kind == "reversed":                               # the images
        return ir.slice(y, (y.shape[0] - 1, 0, 0, 0), y.shape, (-1, 1, 1, 1))
    if kind == "norm":
        return (y - ir.reshape(weight(y.shape[1]), (1, -1, 1, 1))) * ir.reshape(weight(y.shape[1]), (1, -1, 1, 1))
    return ir.map(kind, y)


def program(name: str) -> tuple[Program, list[np.ndarray]]:
    """A case's program, whose results are the last value and one before it."""
    *shape, = CASES[name][:4]
    arrays = [random(*shape)]
    leaves = [ir.input(0, shape, "float32")]

    def weight(*shape: int) -> Node:
        arrays.append((random(*shape) / max(np.prod(shape[1:]), 1) ** 0.5).astype("float32"))
        leaves.append(ir.input(len(leaves), shape, "float32"))
        return leaves[-1]
    y, before = leaves[0], [leaves[0]]
    for what in CASES[name][4:]:
        y = y + before[-3] if what == ("more",) else layer(y, what, weight)
        before.append(y)
    p = Program(tuple(leaves), (y, ir.reduce("sum", before[-2], tuple(range(1, before[-2].ndim)))))
    p.memo["frozen"] = frozenset(range(1, len(arrays)))
    return p, arrays


def taken(exe: Any) -> list[str]:
    """Forms of a program's convolutions."""
    return [k.dot.attrs["form"] for k in exe.planned.fused.kernels if k.kind == "convolution"]


@pytest.mark.parametrize("width", (64, 32, 16), ids=str)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    p, arrays = program(name)
    exe = checked(p, arrays, monkeypatch)
    assert set(taken(exe)) <= {"batch_in_lanes", "batch_in_lanes_winograd"} and taken(exe)


@pytest.mark.parametrize("name", ("lenet", "odd", "residual", "strided"))
def test_threads_share_a_block(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little work for a thread, so that several have parts of one block."""
    monkeypatch.setattr(packed_batch_in_lanes, "PARALLEL_WORK", 1)
    monkeypatch.setenv("HYBRID_NUM_THREADS", "2")
    p, arrays = program(name)
    exe = cpu.compiled(p)
    threads_of.share(exe._lib)
    compare(exe(arrays), exact(p, arrays))


@pytest.mark.parametrize("name", CASES)
def test_reference_backend(name: str) -> None:
    """The primitive's NumPy row gives what its C gives."""
    p, arrays = program(name)
    exe = cpu.compiled(p)
    prepared = reference.run(exe.planned.prepare, [arrays[s] for s in exe.planned.slots], np)[0]
    compare(reference.run(exe.planned.fused.program, [*arrays, *prepared], np)[0], exact(p, arrays))


@pytest.mark.parametrize(("results", "taps"), [(m, n - m + 1) for n in (2, 4, 6, 8) for m in range(2, n + 1)], ids=str)
def test_matrices_are_exact(results: int, taps: int) -> None:
    at, g, bt = matrices(results, taps)
    d, w = ([Fraction(int(v)) for v in np.random.default_rng(n).integers(-9, 9, n)] for n in (results + taps - 1, taps))
    u = [sum(a * b for a, b in zip(row, w)) * sum(a * b for a, b in zip(col, d)) for row, col in zip(g, bt)]
    assert [sum(a * b for a, b in zip(row, u)) for row in at] == [sum(w[j] * d[i + j] for j in range(taps))
                                                                  for i in range(results)]
    assert array(at).dtype == np.float32


def test_matrices_know_their_points() -> None:
    with pytest.raises(ValueError, match="9 points; 2 to 8"):
        matrices(5, 5)


# ---- when it is taken
def lenet(**how: Any) -> nn.HybridSequential:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 5, activation="relu", in_channels=1), nn.MaxPool2D(2),
            nn.Conv2D(16, 5, activation="relu", in_channels=6), nn.MaxPool2D(2),
            nn.Dense(30, activation="relu"), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize(**how)
    return net


def layouts(net: Any) -> str:
    """What the layout pass did to the program compiled last."""
    return str(net.report())


@pytest.mark.parametrize("static", (False, True), ids=("plain", "static"))
def test_a_net_follows_its_parameters(static: bool) -> None:
    net, x = lenet(static_alloc=static, static_shape=static), nd.array(random(35, 1, 20, 22))
    net(x)
    assert "blocks of" in layouts(net)
    for layer_ in (net[0], net[2], net[4]):
        layer_.weight.data()[:] = nd.array(random(*layer_.weight.shape) * 0.3)
        compare([net(x).asnumpy()], [eager(net, x)])


def test_not_in_training_nor_for_few_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    net = lenet()
    with autograd.record():
        net(nd.array(random(32, 1, 28, 28))).backward()
    assert "blocks of" not in layouts(net)
    net(nd.array(random(1, 1, 28, 28)))
    assert "blocks of" not in layouts(net)
    if toolchain.vector_bytes() >= 32:
        net(nd.array(random(32, 1, 28, 28)))
        assert "blocks of" in layouts(net)


def test_not_a_number_stays_in_its_picture() -> None:
    net, data = lenet(), random(16, 1, 28, 28)
    data[3, 0, 5, 5] = np.nan
    got, want = net(nd.array(data)).asnumpy(), eager(net, nd.array(data))
    assert np.isnan(got[3]).all() and np.isnan(want[3]).all()
    others = [i for i in range(16) if i != 3]
    compare([got[others]], [want[others]])
