"""8-bit networks (hybrid/contrib/quantization, hybrid/ops/quantization.py), beside MXNet 1.9.1's recorded answers."""
from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.contrib import quantization
from hybrid.contrib.quantization.calibration import threshold
from hybrid.gluon import nn
from hybrid.runtime import toolchain
from tests.oracle.quantized_calls import calls

from ..paths import DATA

# where MXNet's own way leads elsewhere on purpose: uint8 data of a convolution has steps of 1 / 127 there
ELSEWHERE = {"conv/1", "conv/2"}
VNNI = "uint8" in toolchain.words()


@pytest.fixture(scope="module")
def recorded() -> Any:
    return np.load(DATA / "quantized.npz")


def test_operators(recorded: Any) -> None:
    """8-bit results may be the neighbour where a number lies between two, sums are equal."""
    seen = []

    def keep(name: str, values: list[Any]) -> None:
        for i, v in enumerate(values):
            want, have = recorded[f"{name}/{i}"], v.asnumpy()
            seen.append(name)
            assert (have.dtype, have.shape) == (want.dtype, want.shape), name
            if f"{name}/{i}" in ELSEWHERE:
                continue
            if want.dtype.itemsize == 1:
                far = np.abs(have.astype(int) - want)
                assert far.max() <= 1 and (far > 0).mean() <= (0.2 if "requantize" in name else 0.01), name
            else:
                np.testing.assert_allclose(have, want, rtol=2e-6, atol=1e-6, err_msg=name)
    calls(nd, keep)
    assert len(set(seen)) > 35


@pytest.mark.parametrize("name", ["normal", "long tail", "relu"])
def test_thresholds(name: str, recorded: Any) -> None:
    found, divergence = threshold(recorded[f"counts {name}"], recorded[f"edges {name}"], 511 if name == "relu" else 255)
    want = recorded[f"threshold {name}"]
    assert abs(found - want[0]) < 0.01 * want[0] and abs(divergence - want[1]) < 0.05 * want[1]


def network(layers: list[Any], shape: tuple[int, ...], seed: int = 0) -> tuple[Any, Any]:
    mx.random.seed(seed)
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize(mx.init.Xavier())
    x = nd.random.normal(shape=shape)
    net(x)
    rng = np.random.default_rng(seed)
    for name, p in net.collect_params().items():
        if name.endswith(("running_mean", "beta", "bias")):
            p.set_data(nd.array(rng.standard_normal(p.shape) * 0.2))
        if name.endswith(("running_var", "gamma")):
            p.set_data(nd.array(rng.uniform(0.5, 1.5, p.shape)))
    return net, x


def far(y: Any, exact: Any) -> float:
    y, exact = y.asnumpy(), exact.asnumpy()
    return float(np.sqrt(((y - exact) ** 2).mean() / (exact ** 2).mean()))


NETWORKS = {
    "dense": (lambda: [nn.Dense(96, activation="relu"), nn.Dense(64, flatten=False), nn.Dense(7)], (33, 130)),
    "row": (lambda: [nn.Dense(600, activation="tanh"), nn.Dense(40)], (1, 257)),
    "conv": (lambda: [nn.Conv2D(33, 3, padding=1, activation="relu"), nn.Conv2D(32, 3, 2, 1), nn.Dense(16)],
             (2, 5, 17, 15)),
    "norm": (lambda: [nn.Conv2D(32, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"),
                      nn.MaxPool2D(), nn.Conv2D(64, 1), nn.BatchNorm(scale=False), nn.GlobalAvgPool2D(), nn.Dense(10)],
             (2, 16, 16, 16)),
    "line": (lambda: [nn.Conv1D(32, 3, padding=1), nn.Conv1D(16, 5)], (2, 24, 101)),
    "grouped": (lambda: [nn.Conv2D(32, 3, padding=1, groups=4), nn.Conv2D(32, 3, padding=2, dilation=2)],
                (1, 32, 12, 12)),
}


@pytest.mark.parametrize("grain", ["tensor-wise", "channel-wise"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_near(name: str, grain: str) -> None:
    """Of the same data eagerly and compiled, with signed data and behind a relu."""
    make, shape = NETWORKS[name]
    net, x = network(make(), shape)
    exact = net(x)
    fast = quantization.quantize_net_v2(net, calib_data=[x], calib_mode="naive", quantize_granularity=grain)
    eager = fast(x)
    assert far(eager, exact) < 0.03
    fast.hybridize()
    y = fast(x)
    assert far(y, eager) < 0.006                      # a number between two may become the other one
    if VNNI and name != "row":
        assert re.search("(words|tiles) of 4|, words|, tiles", str(fast.report()))


def test_unsigned_numbers_for_negative_data_warn() -> None:
    net, x = network([nn.Dense(8), nn.Dense(4)], (5, 6))
    for dtype, count in (("uint8", 2), ("auto", 0), ("int8", 0)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            quantization.quantize_net_v2(net, dtype, calib_data=[x], calib_mode="naive")
        found = [str(w.message) for w in told if "no numbers below 0" in str(w.message)]
        assert len(found) == count and all("'auto' gives such data int8" in m for m in found), told


def test_without_calibration_and_for_other_data() -> None:
    net, x = network(NETWORKS["norm"][0](), (2, 16, 16, 16))
    fast = quantization.quantize_net(net)
    fast.hybridize()
    for scale in (1, 10):
        assert far(fast(x * scale), net(x * scale)) < 0.03


@pytest.mark.parametrize("mode", ["naive", "entropy"])
def test_digits_are_read_as_before(mode: str) -> None:
    """The network of digits that MXNet trained: 338 of 360 right in float32."""
    from hybrid.gluon import SymbolBlock                # noqa: PLC0415
    net = SymbolBlock.imports(str(DATA / "lenet_digits-symbol.json"), ["data"], str(DATA / "lenet_digits-0025.params"))
    with np.load(DATA / "digits.npz") as f:
        images, labels = f["images"].astype("f4") / 16, f["labels"]
    x = nd.array(np.pad(images.repeat(3, 1).repeat(3, 2), ((0, 0), (2, 2), (2, 2)))[:, None])
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x[:256], nd.array(labels[:256])), 64)
    fast = quantization.quantize_net(net, calib_data=loader, calib_mode=mode, num_calib_examples=128)
    fast.hybridize()
    right = [int((n(x[-360:]).asnumpy().argmax(1) == labels[-360:]).sum()) for n in (net, fast)]
    assert right[0] == 338
    assert abs(right[1] - right[0]) <= 1                # 0.5 %


def test_a_symbol_and_what_stays_float32(tmp_path: Path) -> None:
    net, x = network(NETWORKS["conv"][0](), (2, 5, 17, 15))
    net.hybridize()
    net(x)
    net.export(str(tmp_path / "net"))
    sym, args, aux = mx.model.load_checkpoint(str(tmp_path / "net"), 0)
    first = next(n.name for n in sym.nodes() if n.opdef is not None and n.opdef.name == "Convolution")
    iterator = mx.io.NDArrayIter(x, batch_size=2)
    q, q_args, q_aux = quantization.quantize_model(sym, args, aux, excluded_sym_names=[first], calib_mode="naive",
                                                   calib_data=iterator, label_names=None)
    ops = [n.opdef.name for n in q.nodes() if n.opdef is not None]
    assert ops.count("Convolution") == 1 and ops.count("_contrib_quantized_conv") == 1
    assert {v.dtype for k, v in q_args.items() if k.endswith("weight_quantize")} == {np.int8}
    again = mx.sym.load_json(q.tojson())
    exe = again.bind(mx.cpu(), {**q_args, "data": x}, aux_states=q_aux)
    assert far(exe.forward()[0], net(x)) < 0.03


def test_a_saved_network(tmp_path: Path) -> None:
    net, x = network(NETWORKS["dense"][0](), (33, 130))
    fast = quantization.quantize_net(net, calib_data=[x], calib_mode="naive")
    fast.hybridize()
    y = fast(x).asnumpy()
    fast.export(str(tmp_path / "q"))
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "q-symbol.json"), ["data"], str(tmp_path / "q-0000.params"))
    loaded.hybridize()
    np.testing.assert_array_equal(loaded(x).asnumpy(), y)


def test_sums_are_exact_where_they_are_wanted() -> None:
    """Sums of more than 2^24 as int32."""
    x, w = nd.ones((8, 4096), dtype="uint8") * 255, nd.ones((32, 4096), dtype="int8") * 127
    one = nd.ones(1)

    @mx.hybridize
    def sums(x: Any, w: Any) -> Any:
        return nd.contrib.quantized_fully_connected(x, w, -one, one, -one, one, num_hidden=32, no_bias=True)[0]
    assert (sums(x, w).asnumpy() == 255 * 127 * 4096).all()


def test_wrong_uses() -> None:
    net, x = network([nn.Dense(32)], (2, 32))
    with pytest.raises(mx.HybridError, match="calib_data must be provided"):
        quantization.quantize_net(net, calib_mode="naive")
    with pytest.raises(mx.HybridError, match="'int8', 'uint8', 'auto', got 'int4'"):
        quantization.quantize_net(net, quantized_dtype="int4")
    with pytest.raises(mx.HybridError, match="no layer 'nothing'"):
        quantization.quantize_net(net, exclude_layers=["nothing"])
    with pytest.raises(mx.HybridError, match="takes int8 or uint8 numbers, got float32"):
        one = nd.ones(1)
        nd.contrib.quantized_fully_connected(x, x, -one, one, -one, one, num_hidden=2, no_bias=True)


def _around(nodes: list[Any], helper: Any, x: str, weight: str, op: str, out: str, **attrs: Any) -> None:
    """A product of ONNX with its data and weight quantized and back."""
    nodes += [helper.make_node("QuantizeLinear", [x, f"{x}_s", f"{x}_z"], [f"{x}_q"]),
              helper.make_node("DequantizeLinear", [f"{x}_q", f"{x}_s", f"{x}_z"], [f"{x}_d"]),
              helper.make_node("DequantizeLinear", [f"{weight}_q", f"{weight}_s"], [f"{weight}_d"], axis=0),
              helper.make_node(op, [f"{x}_d", f"{weight}_d"], [out], **attrs)]


@pytest.mark.parametrize("zero", [0, 128, 37, "signed"])
def test_onnx_files_that_quantize_around_products(zero: Any, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper          # noqa: PLC0415
    from onnx.reference import ReferenceEvaluator               # noqa: PLC0415

    from hybrid.contrib.onnx import import_to_gluon             # noqa: PLC0415
    rng, dtype = np.random.default_rng(0), np.int8 if zero == "signed" else np.uint8
    x = rng.standard_normal((2, 6, 15, 13)).astype("f4")
    constants = {"conv_q": rng.integers(-127, 128, (33, 6, 3, 3)).astype("i1"),
                 "conv_s": rng.uniform(1e-3, 2e-3, 33).astype("f4"),
                 "dense_q": rng.integers(-127, 128, (40, 33 * 15 * 13)).astype("i1"), "dense_s": np.float32(1e-3),
                 "x_s": np.float32(0.02), "x_z": dtype(0 if zero == "signed" else zero), "h_s": np.float32(0.01),
                 "h_z": dtype(0 if zero == "signed" else zero)}
    nodes: list[Any] = []
    _around(nodes, helper, "x", "conv", "Conv", "c", pads=[1, 1, 1, 1])
    nodes += [helper.make_node("Relu", ["c"], ["r"]), helper.make_node("Flatten", ["r"], ["h"])]
    _around(nodes, helper, "h", "dense", "Gemm", "y", transB=1)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 40))],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(model, str(tmp_path / "net.onnx"))
    want = ReferenceEvaluator(model).run(None, {"x": x})[0]
    net = import_to_gluon(str(tmp_path / "net.onnx"), mx.cpu())
    wide = np.abs(want).max()
    np.testing.assert_allclose(net(nd.array(x)).asnumpy(), want, rtol=1e-4, atol=2e-3 * wide)
    net.hybridize()
    np.testing.assert_allclose(net(nd.array(x)).asnumpy(), want, rtol=1e-4, atol=2e-3 * wide)
    if VNNI:
        assert len(re.findall("words|tiles", str(net.report()))) >= 2, net.report()
