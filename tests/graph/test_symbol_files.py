"""Symbols through the public names: built as in MXNet, saved, loaded, exported; any text is a name."""
from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd

from ..paths import TESTS

RECORDED = json.loads((TESTS / "oracle" / "symbols.json").read_text())


def text_of(*nodes: dict, heads: Any = None) -> str:
    return json.dumps({"nodes": list(nodes), "arg_nodes": [], "heads": heads or [[len(nodes) - 1, 0]]})


def variable(name: str) -> dict:
    return {"op": "null", "name": name, "inputs": []}


def _builders() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("oracle_symbols", TESTS / "oracle" / "symbols.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SYMBOLS


BUILDERS = _builders()


@pytest.mark.parametrize("key", RECORDED)
def test_the_same_code_builds_the_same_graph(key: str) -> None:
    """Names that are counted begin at 0 in a fresh process, as they did when MXNet wrote the text."""
    with mx.name.NameManager():
        got = BUILDERS[key](mx).tojson()
    assert got == RECORDED[key]


def test_save_and_load(tmp_path: Path) -> None:
    symbol = BUILDERS["mlp"](mx)
    symbol.save(str(tmp_path / "a-symbol.json"))
    assert (tmp_path / "a-symbol.json").read_text() == RECORDED["mlp"]
    back = mx.sym.load(str(tmp_path / "a-symbol.json"))
    assert back.list_arguments() == symbol.list_arguments() == ["data", "fc1_weight", "fc1_bias", "fc2_weight"]
    assert mx.sym.load_json(symbol.tojson()).tojson() == symbol.tojson()


STRANGE = ['a"b', "a\nb", "a\\", "*/ } int x; {", "{0}%s%d", "é中😀", "", " ", "../../etc/passwd", "a" * 3000, "int",
           "\x00\x01", "??/"]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_any_text_is_a_name(hybridized: bool, tmp_path: Path) -> None:
    """Names are data from the file to the compiled program and back."""
    nodes = [variable("data")]
    for k, name in enumerate(STRANGE):
        nodes.append(variable("w" + name))
        nodes.append({"op": "broadcast_add", "name": name, "inputs": [[2 * k, 0, 0], [2 * k + 1, 0, 0]]})
    (tmp_path / "s-symbol.json").write_text(text_of(*nodes, heads=[[len(nodes) - 1, 0, 0]]))
    values = {"arg:w" + name: nd.full((1,), float(k)) for k, name in enumerate(STRANGE)}
    nd.save(str(tmp_path / "s-0000.params"), values)
    net = gluon.SymbolBlock.imports(str(tmp_path / "s-symbol.json"), ["data"], str(tmp_path / "s-0000.params"))
    if hybridized:
        net.hybridize()
    np.testing.assert_array_equal(net(nd.zeros((2,))).asnumpy(), [sum(range(len(STRANGE)))] * 2)
