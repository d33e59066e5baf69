"""Idioms of published networks: containers with a forward of their own, inputs and results in tuples, sizes read while
tracing, long chains."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.gluon import nn


def numbers(*shape: int) -> Any:
    return nd.array(np.random.RandomState(3).standard_normal(shape).astype("float32"))


def leaves(y: Any) -> list[np.ndarray]:
    return [a for v in y for a in leaves(v)] if isinstance(y, (list, tuple)) else [y.asnumpy()]


class Stairs(nn.HybridSequential):
    """A container whose own forward joins the input with every stage's result."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        results = [x]
        for stage in self._children.values():
            x = stage(x)
            results.append(x)
        return F.concat(*results, dim=1)


class Pairs(nn.HybridSequential):
    """A container of blocks with two inputs and two results; the first block takes one."""

    def hybrid_forward(self, F: Any, x: Any, memory: Any = None) -> Any:  # noqa: N803
        for i, block in enumerate(self._children.values()):
            x, memory = (block(x), memory) if i == 0 else block(x, memory)
        return x, memory


class Gate(nn.HybridBlock):
    def hybrid_forward(self, F: Any, x: Any, memory: Any = None) -> Any:  # noqa: N803
        y = F.tanh(x) if memory is None else F.sigmoid(memory) * x
        return y, F.mean(y, axis=1, keepdims=True)


class Grown(nn.HybridConcurrent):
    """Side by side, with a forward of its own that passes more than one input on."""

    def hybrid_forward(self, F: Any, x: Any, scale: Any) -> Any:  # noqa: N803
        return F.stack(*[F.broadcast_mul(b(x), scale) for b in self._children.values()], axis=self.axis)


class Cells(nn.HybridBlock):
    """Row and column of the greatest element, by division and remainder of integers, and the values found there."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        _, _, height, width = F.shape_array(x).split(num_outputs=4, axis=0)
        score, at = F.topk(x.reshape((0, -1)), k=3, ret_typ="both")
        at = at.astype("int64")
        place = F.broadcast_mod(at, height * width)
        row, column = F.broadcast_div(place, width).astype("float32"), F.broadcast_mod(place, width).astype("float32")
        first = F.zeros_like(place, dtype="int64")
        found = F.gather_nd(x.reshape((0, -1)), F.concat(first, at, dim=0).reshape((2, -1)))
        return row, column, score - found.reshape((1, -1))


class Pyramid(nn.HybridBlock):
    """Pooled to several sizes and brought back to the size read from the input."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        height, width = x.shape[2:]
        return F.concat(x, *[F.contrib.BilinearResize2D(F.contrib.AdaptiveAvgPooling2D(x, output_size=s),
                                                        height=height, width=width) for s in (1, 2, 3)], dim=1)


class Windows(nn.HybridBlock):
    """Overlapping windows of rows, as many as the input's shape says."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        z = F.concat(F.zeros((2, x.shape[1])), x, dim=0)
        return F.stack(*[z[i:i + 3].reshape((-1,)) for i in range(z.shape[0] - 2)], axis=0)


class Split(nn.HybridBlock):
    """Weights of branches by a softmax over the branch axis, of a stack made inside."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.branches = Grown(axis=1)
            self.branches.add(nn.Conv2D(4, 3, padding=1, in_channels=2),
                              nn.Conv2D(4, 3, padding=2, dilation=2, in_channels=2))

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        y = self.branches(x, F.ones((1,)))
        w = F.softmax(F.contrib.AdaptiveAvgPooling2D(y.sum(axis=1),
                                                     output_size=1).reshape((0, 2, 2, 1, 1)).sum(axis=2,
                keepdims=True), axis=1)
        return F.broadcast_mul(y, w).sum(axis=1)


def stairs() -> Any:
    net = Stairs()
    net.add(nn.Conv2D(3, 1, in_channels=2), nn.Conv2D(2, 3, padding=1, in_channels=3, activation="relu"))
    return net


def pairs() -> Any:
    net = Pairs()
    net.add(nn.Dense(4, flatten=False, in_units=5), Gate(), Gate())
    return net


NETS = {"container joins its stages": (stairs, (1, 2, 4, 5)), "container of pairs": (pairs, (3, 5)),
        "integer rows and columns": (Cells, (1, 2, 4, 6)),
        "pyramid by shape": (Pyramid, (1, 2, 7, 6)), "windows by shape": (Windows, (4, 3)),
        "weighted branches": (Split, (1, 2, 5, 5))}


@pytest.mark.parametrize("name", NETS)
def test_eager_and_hybridized_agree(name: str) -> None:
    make, shape = NETS[name]
    mx.random.seed(1)
    net = make()
    net.initialize(mx.init.Normal(0.5))
    x = numbers(*shape)
    eager = leaves(net(x))
    net.hybridize(static_alloc=True, static_shape=True)
    compiled = leaves(net(x))
    assert [a.shape for a in eager] == [a.shape for a in compiled] and any(np.abs(a).max() > 0 for a in eager)
    for a, b in zip(eager, compiled):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_rows_and_columns_are_whole_numbers() -> None:
    x = numbers(1, 2, 4, 6)
    row, column, rest = (a.asnumpy() for a in Cells()(x))
    best = np.argsort(-x.asnumpy().reshape(-1))[:3]
    assert np.array_equal(row[0], best % 24 // 6) and np.array_equal(column[0], best % 6) and not rest.any()


def test_integers_divide_towards_zero() -> None:
    a, b = nd.array([7, -7, 9, -9], dtype="int32"), nd.array([2, 2, -4, -4], dtype="int32")
    for y in (a / b, nd.broadcast_div(a, b), nd.elemwise_div(a, b)):
        assert y.dtype == np.int32 and y.asnumpy().tolist() == [3, -3, -2, 2]
    assert mx.np.array([7, 8], dtype="int32").__truediv__(mx.np.array([2, 2],
                                                                      dtype="int32")).asnumpy().tolist() == [3.5, 4.0]


def test_shapes_of_numpy_integers() -> None:
    width = np.int64(3)
    net = nn.Conv2D(width, 1, in_channels=width)
    net.initialize()
    text = net(mx.sym.var("data", shape=(np.int64(1), width, 4, 4))).tojson()
    assert "int64" not in text and mx.sym.load_json(text).infer_shape(data=(1, 3, 4, 4))[1] == [(1, 3, 4, 4)]


class Chain(nn.HybridBlock):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        for i in range(self.length):
            x = (F.sin(x), x * 1.5, x - 0.25)[i % 3]
        return x


def test_a_long_chain_of_functions() -> None:
    net, x = Chain(1500), numbers(2, 5)
    x.attach_grad()

    def both() -> tuple[np.ndarray, np.ndarray]:
        with autograd.record():
            y = net(x)
        y.backward()
        return y.asnumpy(), x.grad.asnumpy()
    eager = both()
    net.hybridize()
    for a, b in zip(eager, both()):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def calls_of(act: Callable[[], Any]) -> int:
    """How many functions an act calls: what its time goes by, and the same on a busy machine."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def test_planning_grows_with_the_number_of_operators_not_its_square(monkeypatch: pytest.MonkeyPatch,
                                                                    tmp_path: Path) -> None:
    monkeypatch.setenv("HYBRID_VERIFY", "0")

    def calls(length: int, folder: str) -> int:
        monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / folder))
        net = Chain(length)
        net.hybridize()
        return calls_of(lambda: net(numbers(2, 5)))
    calls(30, "first")
    short, long = calls(200, "short"), calls(1600, "long")
    assert long < 10 * short, f"8 times the operators made {long / short:.1f} times as many calls"


CONVOLUTIONS = """
import hybrid as mx
from hybrid.gluon import nn
mx.random.seed(1)
net = nn.HybridSequential()
for _ in range(4):
    net.add(nn.Conv2D(16, 3, padding=1, in_channels=16), nn.BatchNorm(in_channels=16), nn.Activation("relu"))
net.initialize()
net.hybridize()
net(mx.nd.ones((1, 16, 8, 8)))
"""


def test_the_next_process_finds_the_compiled_program(tmp_path: Path) -> None:
    kept = []
    for seed in ("1", "2"):
        env = {**os.environ, "HYBRID_CACHE": str(tmp_path), "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", CONVOLUTIONS], env=env, check=True)
        kept.append(sorted(p.name for p in tmp_path.iterdir()))
    assert kept[0] == kept[1]
