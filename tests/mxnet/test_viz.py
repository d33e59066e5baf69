"""print_summary and plot_network, against the text and the drawing calls recorded from MXNet 1.9.1."""
from __future__ import annotations

import importlib.util
import json
import sys

import pytest

import hybrid as mx
from hybrid import HybridError, sym
from hybrid.gluon import nn

from ..paths import DATA, TESTS

RECORDED = json.loads((DATA / "viz.json").read_text())
_spec = importlib.util.spec_from_file_location("viz_cases", TESTS / "oracle" / "viz_cases.py")
assert _spec is not None and _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


@pytest.mark.parametrize("name", cases.CASES)
def test_as_mxnet(name: str) -> None:
    with mx.name.NameManager():                                      # automatic names begin at 0, whatever ran before
        found = json.loads(json.dumps(cases.run(mx, name)))
    assert found.keys() == RECORDED[name].keys()
    for key, value in RECORDED[name].items():
        assert found[key] == value, key


def test_parameters_are_counted_by_their_shapes() -> None:
    """MXNet counts a dense layer on images by its channels alone, a transposed convolution as nothing and a shared
    weight twice."""
    x = sym.var("data")
    w = sym.var("shared_weight")
    x = sym.Deconvolution(x, num_filter=2, kernel=(3, 3), no_bias=True, name="up")
    x = sym.FullyConnected(x, num_hidden=5, name="fc")
    x = sym.FullyConnected(x, w, num_hidden=5, no_bias=True, name="one")
    x = sym.SoftmaxOutput(sym.FullyConnected(x, w, num_hidden=5, no_bias=True, name="two"), name="softmax")
    text = cases.printed(mx, x, {"data": (1, 3, 4, 4)})
    rows = {line.split("(")[0]: line[76:88].strip() for line in text.splitlines() if "(" in line}
    assert rows == {"Layer ": "Param #", "data": "0", "up": str(3 * 2 * 9), "fc": str(2 * 36 * 5 + 5), "one": "25",
                    "two": "0", "softmax": "0"}
    assert f"Total params: {54 + 365 + 25}" in text


def test_gluon_network_as_symbol() -> None:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, in_channels=2), nn.BatchNorm(in_channels=4), nn.Dense(2, in_units=16))
    net.initialize()
    text = cases.printed(mx, net(sym.var("data")), {"data": (1, 2, 4, 4)})
    assert f"Total params: {4 * 2 * 9 + 4 + 8 + 34}" in text


def test_dtypes_on_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", type(sys)("graphviz"))
    monkeypatch.setattr(sys.modules["graphviz"], "Digraph", cases.Digraph, raising=False)
    x = sym.relu(sym.cast(sym.var("data"), dtype="float16"), name="relu")
    labels = [d["label"] for kind, d in mx.viz.plot_network(x, shape={"data": (1, 7)}, dtype={"data": "float32"}).drawn
              if kind == "edge"]
    assert labels == ["7(float32)", "7(float16)"]


def test_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    x = sym.FullyConnected(sym.var("data"), num_hidden=2)
    with pytest.raises(TypeError, match="takes a Symbol, got Dense.*net.summary"):
        mx.viz.print_summary(nn.Dense(2))
    with pytest.raises(HybridError, match="Input shape is incomplete"):
        mx.viz.print_summary(x, {})
    with pytest.raises(HybridError, match="four entries"):
        mx.viz.print_summary(x, positions=[1, 2])
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="pip install graphviz"):
        mx.viz.plot_network(x)


def test_repeated_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphviz", type(sys)("graphviz"))
    monkeypatch.setattr(sys.modules["graphviz"], "Digraph", cases.Digraph, raising=False)
    x = sym.relu(sym.relu(sym.var("data"), name="same"), name="same")
    with pytest.warns(RuntimeWarning, match="same name.*same"):
        mx.visualization.plot_network(x)


def test_a_real_drawing() -> None:
    pytest.importorskip("graphviz")
    source = mx.viz.plot_network(cases.CASES["lenet"][0](sym), shape={"data": (1, 1, 28, 28)}).source
    assert "conv1 [label=" in source and "conv1 -> data" in source and "fc1_weight" not in source
