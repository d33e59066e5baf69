"""The node tests of the ``onnx`` package: which pass stays as recorded. A part of them, chosen by their names, runs by
default; all run with HYBRID_ONNX_NODES=all."""
from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid.base.errors import HybridError

onnx = pytest.importorskip("onnx", minversion="1.23")

from tests.contrib import onnx_nodes  # noqa: E402

ALL = os.environ.get("HYBRID_ONNX_NODES") == "all"
EVERY = 12                              # one of so many runs by default
PARTS = 4
MUTATIONS = 4000 if ALL else 300


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    return onnx_nodes.cases()


def test_enough_node_tests_pass(cases: list[Any]) -> None:
    known = {c.name for c in cases}
    failing = onnx_nodes.recorded()
    assert onnx.__version__ != "1.23.2" or not set(failing) - known, "the list names tests that do not exist"
    assert len(known) - len(set(failing) & known) >= 1600


@pytest.mark.parametrize("part", range(PARTS))
def test_node_tests_pass_as_recorded(part: int, cases: list[Any], tmp_path: Path) -> None:
    failing, wrong = onnx_nodes.recorded(), []
    for c in cases:
        number = zlib.crc32(c.name.encode())
        if number % PARTS != part or not ALL and number // PARTS % EVERY:
            continue
        reason = onnx_nodes.run(c, str(tmp_path))
        if bool(reason) != (c.name in failing):
            wrong.append(f"{c.name}: {reason or 'passes, and is in the list of failing ones'}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.thorough
def test_every_node_test_passes_as_recorded(cases: list[Any], tmp_path: Path) -> None:
    failing, wrong = onnx_nodes.recorded(), []
    for c in cases:
        reason = onnx_nodes.run(c, str(tmp_path))
        if bool(reason) != (c.name in failing):
            wrong.append(f"{c.name}: {reason or 'passes, and is in the list of failing ones'}")
    assert not wrong, "\n".join(wrong)


def _small(path: Path) -> bytes:
    h, numbers = onnx.helper, onnx.numpy_helper.from_array
    x, y = (h.make_tensor_value_info(k, onnx.TensorProto.FLOAT, None if k == "y" else [1, 2, 5, 5]) for k in "xy")
    nodes = [h.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3]), h.make_node("Relu", ["c"], ["r"]),
             h.make_node("Reshape", ["r", "s"], ["f"]), h.make_node("NonZero", ["f"], ["i"]),
             h.make_node("Cast", ["i"], ["y"], to=1)]
    graph = h.make_graph(nodes, "small", [x], [y], [numbers(np.ones((3, 2, 3, 3), np.float32), "w"),
                                                    numbers(np.array([1, 27]), "s")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    onnx.save(model, str(path))
    return path.read_bytes()


def test_second_outputs_and_inputs_that_nothing_reads(tmp_path: Path) -> None:
    h, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [h.make_node("MaxPool", ["x"], ["y", "where"], kernel_shape=[2, 2])]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info(k, kind, [1, 1, 4, 4]) for k in "xz"],
                         [h.make_tensor_value_info("y", kind, None)])
    path = str(tmp_path / "a.onnx")
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)]), path)
    x = mx.nd.arange(16).reshape((1, 1, 4, 4))
    net = mx.contrib.onnx.import_to_gluon(path, mx.cpu())
    assert isinstance(net, mx.gluon.SymbolBlock)
    wanted = x.asnumpy()[..., 1:, 1:]
    for found in (net(x, x), net(x)):
        np.testing.assert_array_equal(found.asnumpy(), wanted)


def test_parts_around_an_evaluated_node_are_compiled(tmp_path: Path) -> None:
    _small(tmp_path / "a.onnx")
    net = mx.contrib.onnx.import_to_gluon(str(tmp_path / "a.onnx"), mx.cpu())
    for sign in (1, -1, 1):                                 # the length of the result depends on the values
        found = net(mx.nd.ones((1, 2, 5, 5)) * sign)
        assert found.shape == (2, 27 if sign > 0 else 0)
    ends = [(key[0], end, block is None) for key, (end, block) in net.plans.items()]
    assert (0, 3, False) in ends and (3, 4, True) in ends
    with mx.autograd.record(), pytest.raises(mx.MXNetError, match="without gradients"):
        net(mx.nd.ones((1, 2, 5, 5)))
    with pytest.raises(mx.MXNetError, match="takes 1 inputs"):
        net(mx.nd.ones((1, 2, 5, 5)), mx.nd.ones((1,)))


def test_mutated_files_give_results_or_errors(tmp_path: Path) -> None:
    data, path = _small(tmp_path / "a.onnx"), tmp_path / "b.onnx"
    draw = np.random.RandomState(7)
    x, computed = mx.nd.ones((1, 2, 5, 5)), 0
    for _ in range(MUTATIONS):
        changed = bytearray(data)
        for at in draw.randint(0, len(data), draw.randint(1, 4)):
            changed[at] = draw.randint(0, 256)
        path.write_bytes(bytes(changed[:draw.randint(1, len(data))] if draw.rand() < 0.1 else changed))
        try:
            mx.contrib.onnx.import_to_gluon(str(path), mx.cpu())(x)
            computed += 1
        except HybridError:
            pass
    assert 0 < computed < MUTATIONS
