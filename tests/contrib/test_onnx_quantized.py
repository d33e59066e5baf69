"""8-bit networks as ONNX files: QuantizeLinear and DequantizeLinear around products, both ways, beside ONNX Runtime."""
from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd, sym
from hybrid.contrib import quantization

from .onnx_tools import run
from .test_quantization import NETWORKS, VNNI, network

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
PRODUCTS = ("Conv", "Gemm", "MatMul")


def kinds(path: str) -> Counter[str]:
    return Counter(n.op_type for n in onnx.load(path).graph.node)


def near(found: np.ndarray, wanted: np.ndarray, most: float = 2e-3) -> None:
    """Equal but for numbers in the middle of two steps, which may be rounded to either: a step of 1 / 127 in one of the
    many terms of a sum."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert np.abs(found - wanted).max() <= most * np.abs(wanted).max()


@pytest.mark.parametrize("mode, grain", [("naive", "channel-wise"), ("none", "tensor-wise")])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_there_and_back(name: str, mode: str, grain: str, tmp_path: Path) -> None:
    make, shape = NETWORKS[name]
    net, x = network(make(), shape)
    fast = quantization.quantize_net_v2(net, calib_data=[x], calib_mode=mode, quantize_granularity=grain)
    fast.hybridize()
    wanted = fast(x).asnumpy()
    fast.export(str(tmp_path / "net"))
    path = mx.onnx.export_model(str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params"), [x.shape],
                                [np.float32], str(tmp_path / "net.onnx"))
    near(run(path, [x.asnumpy()])[0], wanted)
    found = kinds(path)
    quantized = sum(n.opdef is not None and n.opdef.name.startswith("_contrib_quantized_")
                    for n in fast._symbol().nodes())
    assert found["DequantizeLinear"] == 2 * quantized and 0 < found["QuantizeLinear"] <= quantized
    assert mode == "none" or not found["Mul"], "the scales of filters are those of the weights"
    again = mx.contrib.onnx.import_to_gluon(path, ctx=mx.cpu())
    assert any(p.dtype == np.int8 for p in again.collect_params().values())
    again.hybridize()
    near(again(x).asnumpy(), wanted)
    if VNNI and name == "conv" and mode == "naive":
        assert re.search("(words|tiles) of 4|, words|, tiles", str(again.report())), "products of 8-bit integers"


def _chain() -> tuple[Any, dict[str, Any]]:
    """A graph as MXNet's quantize_model makes it: sums with a bias are requantized, and what follows takes 8 bits."""
    draw = np.random.RandomState(0)
    params = {"w": draw.randint(-127, 128, (8, 3, 3, 3)).astype(np.int8), "b": draw.randint(-99, 99, 8).astype(np.int8),
              "v": draw.randint(-127, 128, (5, 8 * 16)).astype(np.int8), "one": np.float32([1]),
              "minus": np.float32([-1])}
    v = {name: sym.var(name, shape=a.shape, dtype=a.dtype) for name, a in params.items()}
    q = sym.contrib.quantize_v2(sym.var("data"), out_type="uint8", min_calib_range=0, max_calib_range=4)
    y = sym.contrib.quantized_conv(q[0], v["w"], v["b"], q[1], q[2], v["minus"], v["one"], v["minus"], v["one"],
                                   kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=False)
    y = sym.contrib.requantize(y[0], y[1], y[2], min_calib_range=-30, max_calib_range=30)
    y = sym.contrib.quantized_act(y[0], y[1], y[2], act_type="relu")
    y = sym.contrib.quantized_pooling(y[0], y[1], y[2], kernel=(2, 2), stride=(2, 2), pool_type="max")
    y = sym.contrib.quantized_flatten(y[0], y[1], y[2])
    y = sym.contrib.quantized_fully_connected(y[0], v["v"], y[1], y[2], v["minus"], v["one"], num_hidden=5,
                                              no_bias=True)
    return sym.contrib.dequantize(y[0], y[1], y[2]), params


def test_sums_that_are_requantized(tmp_path: Path) -> None:
    symbol, params = _chain()
    x = np.random.RandomState(1).uniform(0, 4, (2, 3, 8, 8)).astype(np.float32)
    net = gluon.SymbolBlock(symbol, [sym.var("data")])
    net.collect_params().load_dict({k: nd.array(a, dtype=a.dtype) for k, a in params.items()}, mx.cpu(),
                                   cast_dtype=True, dtype_source="saved")
    path = mx.onnx.export_model(symbol, params, [x.shape], [np.float32], str(tmp_path / "net.onnx"))
    found = kinds(path)
    assert sum(found[k] for k in PRODUCTS) == found["QuantizeLinear"] == 2 and found["DequantizeLinear"] == 5
    near(run(path, [x])[0], net(nd.array(x)).asnumpy(), 0.01)


def test_sums_that_are_a_result_stay_whole(tmp_path: Path) -> None:
    """int32 sums which the caller reads are no real numbers."""
    q = sym.contrib.quantize_v2(sym.var("data"), out_type="int8", min_calib_range=-1, max_calib_range=1)
    weight = np.random.RandomState(0).randint(-127, 128, (4, 6)).astype(np.int8)
    params = {"w": weight, "one": np.float32([1]), "minus": np.float32([-1])}
    v = {name: sym.var(name, shape=a.shape, dtype=a.dtype) for name, a in params.items()}
    y = sym.contrib.quantized_fully_connected(q[0], v["w"], q[1], q[2], v["minus"], v["one"], num_hidden=4,
                                              no_bias=True)
    x = np.random.RandomState(1).uniform(-1, 1, (3, 6)).astype(np.float32)
    path = mx.onnx.export_model(sym.Group([y[0], sym.contrib.dequantize(y[0], y[1], y[2])]), params, [x.shape],
                                [np.float32], str(tmp_path / "net.onnx"))
    sums, real = run(path, [x])
    rows = np.clip(np.rint(x * np.float32(127.5)), -128, 127).astype(np.int32)
    assert sums.dtype == np.int32 and (sums == rows @ weight.T.astype(np.int32)).all()
    np.testing.assert_allclose(real, sums / 127 / 127, rtol=1e-5)


def test_scales_that_are_computed_are_read(tmp_path: Path) -> None:
    """The scale of each row comes with the data."""
    h = onnx.helper
    nodes = [h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=0),
             h.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=0)]
    infos = [h.make_tensor_value_info(*i) for i in (("x", 1, [3, 4]), ("s", 1, [3]), ("z", 3, [3]))]
    path = str(tmp_path / "net.onnx")
    graph = h.make_graph(nodes, "g", infos, [h.make_tensor_value_info("y", 1, [3, 4])])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    draw = np.random.RandomState(0)
    inputs = [draw.randn(3, 4).astype(np.float32), np.float32([0.1, 0.02, 0.5]), np.int8([0, 3, -5])]
    net = mx.contrib.onnx.import_to_gluon(path, mx.cpu())
    assert isinstance(net, gluon.SymbolBlock)
    np.testing.assert_allclose(net(*(nd.array(v, dtype=v.dtype) for v in inputs)).asnumpy(), run(path, inputs)[0],
                               rtol=1e-6)
