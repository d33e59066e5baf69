"""``-symbol.json``: byte for byte what MXNet 1.9.1 writes, what older versions wrote, and what is refused."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hybrid import ops  # noqa: F401  (registers the operators)
from hybrid.base.errors import AttributeValueError, FileFormatError
from hybrid.ops.registry import find
from hybrid.serialize import export, ndarrays, symbol_json
from hybrid.graph.symbol import create, var

from ..paths import DATA, TESTS

GOLDEN = sorted(DATA.rglob("*symbol.json"))
RECORDED = json.loads((TESTS / "oracle" / "symbols.json").read_text())


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.parent.name)
def test_golden_file_comes_back_byte_for_byte(path: Path) -> None:
    text = path.read_text()
    assert symbol_json.dumps(symbol_json.loads(text)) == text


@pytest.mark.parametrize("key", RECORDED)
def test_recorded_text_comes_back_byte_for_byte(key: str) -> None:
    assert symbol_json.dumps(symbol_json.loads(RECORDED[key])) == RECORDED[key]


def test_elementwise_is_written_as_broadcast_where_shapes_differ() -> None:
    def op(*shapes: Any) -> str:
        inputs = [var(name, shape=shape) for name, shape in zip("xy", shapes, strict=True)]
        return json.loads(symbol_json.dumps(create(find("elemwise_add"), inputs, {}, "s")))["nodes"][-1]["op"]
    assert op((2, 3), (2, 3)) == "elemwise_add"
    assert op(None, (2, 3)) == "elemwise_add"
    assert op((2, 3), (1, 3)) == "broadcast_add"


# ---- older files
def text_of(*nodes: dict, heads: Any = None, **more: Any) -> str:
    return json.dumps({"nodes": list(nodes), "arg_nodes": [], "heads": heads or [[len(nodes) - 1, 0]], **more})


def variable(name: str, **more: Any) -> dict:
    return {"op": "null", "name": name, "inputs": [], **more}


def test_files_of_mxnet_0_8() -> None:
    old = text_of(variable("data", param={}, attr={"lr_mult": "2"}, backward_source_id=-1),
                  variable("w", param={}, backward_source_id=-1),
                  {"op": "FullyConnected", "param": {"num_hidden": "3", "no_bias": "True"}, "name": "fc",
                   "attr": {"weight_wd_mult": "3"}, "inputs": [[0, 0], [1, 0]], "backward_source_id": -1})
    symbol = symbol_json.loads(old)
    assert symbol.attr_dict()["data"]["__lr_mult__"] == "2"
    assert symbol.attr_dict()["w"]["__wd_mult__"] == "3"
    assert json.loads(symbol_json.dumps(symbol))["nodes"][2]["attrs"] == {"no_bias": "True", "num_hidden": "3"}


def test_missing_auxiliary_states_are_added() -> None:
    old = text_of(variable("a"), {"op": "BatchNorm", "name": "bn", "inputs": [[0, 0]]})
    symbol = symbol_json.loads(old)
    assert symbol.list_arguments() == ["a", "bn_gamma", "bn_beta"]
    assert symbol.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]


# ---- refused
def relu(*inputs: Any, op: str = "relu", **attrs: str) -> dict:
    return {"op": op, "name": "y", "inputs": list(inputs), "attrs": attrs}


@pytest.mark.parametrize(("text", "message"), [
    (text_of(variable("x"), relu([0, 0, 0], op="Convolutoin")), r"Convolutoin.*nearest.*Convolution"),
    (text_of(variable("x"), relu([0, 0, 0], op="os.system")), "os.system"),
    (text_of(variable("x"), relu([0, 0, 0], slope="3")), "no attribute 'slope'"),
    (text_of(variable("x"), relu([0, 5, 0])), "output 5"),
    (text_of(variable("x"), relu([0, 2**63, 0])), "output 9223372036854775808"),
    (text_of(variable("x"), relu([0, 0, 0], [0, 0, 0])), "takes 1 input"),
    (text_of(variable("x"), relu([0, 0, 0]), heads=[[1, 3, 0]]), "output 3"),
    (text_of(variable("x"), relu([0, 0, 0], op="FullyConnected", num_hidden="a")), "num_hidden"),
    (text_of(variable("x"), relu([0, 0, 0], op="FullyConnected", num_hidden=str(2**63))), "num_hidden"),
    (text_of(variable("x"), relu([0, 0, 0], op="FullyConnected", num_hidden="9" * 5000)), "num_hidden"),
    (text_of(variable("x"), relu([0, 0, 0], op="FullyConnected")), "needs the attribute 'num_hidden'"),
    (text_of(variable("x"), relu([0, 0, 0], op="reshape", shape="__import__('os').system('id')")), "shape"),
    (text_of(variable("x"), relu([0, 0, 0], op="reshape", shape="(" * 5000)), "shape"),
    (text_of(variable("x", attrs={"__shape__": "(-5, 2)"}), relu([0, 0, 0])), "__shape__"),
    (text_of(variable("x", attrs={"__shape__": f"({2**63}, 2)"}), relu([0, 0, 0])), "__shape__"),
    (text_of(variable("x", attrs={"__shape__": "lambda: 0"}), relu([0, 0, 0])), "__shape__"),
    (text_of(variable("x", attrs={"__dtype__": "99"}), relu([0, 0, 0])), "__dtype__"),
], ids=lambda x: x[-60:] if len(x) < 40 else "")
def test_refused(text: str, message: str) -> None:
    with pytest.raises((FileFormatError, AttributeValueError), match=message) as caught:
        symbol_json.loads(text, "bad-symbol.json")
    assert "bad-symbol.json" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_sizes_that_do_not_fit_are_an_error() -> None:
    x = variable("x", attrs={"__shape__": "(2, 3)"})
    huge = text_of(x, relu([0, 0, 0], op="reshape", shape=f"({2**62}, {2**62})"))
    with pytest.raises(FileFormatError, match=r"node 1 \('y'\)"):
        symbol_json.loads(huge)


def test_a_chain_of_many_nodes_is_no_recursion() -> None:
    count = 5000
    nodes = [variable("x")] + [{"op": "relu", "name": f"r{k}", "inputs": [[k, 0, 0]]} for k in range(count)]
    symbol = symbol_json.loads(text_of(*nodes, heads=[[count, 0, 0]]))
    assert len(json.loads(symbol_json.dumps(symbol))["nodes"]) == count + 1
    assert symbol.list_arguments() == ["x"]


@pytest.mark.parametrize("model", sorted(p.name for p in (DATA / "zoo").iterdir()))
def test_exported_again_both_files_are_the_same_bytes(model: str, tmp_path: Path) -> None:
    folder = DATA / "zoo" / model
    values = ndarrays.load(folder / "model-0000.params")
    kinds = [{name[4:]: a for name, a in values.items() if name.startswith(kind)} for kind in ("arg:", "aux:")]
    names = export.export_symbol(symbol_json.load(folder / "model-symbol.json"), *kinds, str(tmp_path / "again"),
                                 epoch=7)
    assert [Path(name).name for name in names] == ["again-symbol.json", "again-0007.params"]
    assert Path(names[0]).read_bytes() == (folder / "model-symbol.json").read_bytes()
    assert Path(names[1]).read_bytes() == (folder / "model-0000.params").read_bytes()
