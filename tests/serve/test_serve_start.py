"""Serving: folders that are served, and those that cannot be."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid import nd, sym
from hybrid.base.errors import HybridError
from hybrid.gluon import SymbolBlock
from hybrid.serve.__main__ import load

pytest.importorskip("uvicorn")
pytest.importorskip("httptools")
pytest.importorskip("tritonclient.http")
from .test_serve import Server, client, images, infer, models, server  # noqa: E402, F401  fixtures
from ..paths import DATA


@pytest.mark.parametrize("said, words", [
    (None, "no-shape-symbol.json.*does not say the shape of its input 'data'.*no-shape.json"), ("{", "is no JSON"),
    ('{"max_batch": 0}', "max_batch is 0"), ('{"batch": 2}', "'batch'; known are"),
    ('{"max_batch": "2"}', "wrong type"),
    ('{"inputs": {"data": {"shape": [-2]}}}', "'shape'"), ('{"inputs": {"x": {"shape": [1]}}}', "no input 'x'|say the"),
    ('{"inputs": {"data": {"shape": [-1], "datatype": "FP1"}}}', "FP1")])
def test_a_folder_that_cannot_be_served_is_an_error_with_words(tmp_path: Path, said: str | None, words: str) -> None:
    (sym.var("data") * 2).save(str(tmp_path / "no-shape-symbol.json"))
    nd.save(str(tmp_path / "no-shape-0000.params"), {})
    if said is not None:
        (tmp_path / "no-shape.json").write_text(said)
    with pytest.raises(HybridError, match=words):
        load(tmp_path)


def test_folders_without_models_and_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(HybridError, match="no folder"):
        load(tmp_path / "none")
    with pytest.raises(HybridError, match="has no model"):
        load(tmp_path)
    (sym.var("data") * 2).save(str(tmp_path / "a-symbol.json"))
    with pytest.raises(HybridError, match="no a-0000.params"):
        load(tmp_path)


def test_hybrid_alone_does_not_import_the_server() -> None:
    subprocess.run([sys.executable, "-c", "import sys, hybrid; assert not any(m.startswith('hybrid.serve') or "
                    "m == 'uvicorn' for m in sys.modules)"], check=True)


def test_onnx_files_are_served(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    h = onnx.helper
    info = [h.make_tensor_value_info(k, onnx.TensorProto.FLOAT, ["n", 3]) for k in ("x", "y")]
    weight = onnx.numpy_helper.from_array(np.float32([[1, 0, 0], [0, 2, 0], [0, 0, 3]]), "w")
    model = h.make_model(h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"])], "g", info[:1], info[1:], [weight]),
                         opset_imports=[h.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(tmp_path / "scale.onnx"))
    server = Server(tmp_path)  # noqa: F811
    try:
        assert server.ask("/v2/models/scale")[1]["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [[1, 2, 3], [4, 5, 6]]}]}
        status, found = server.ask("/v2/models/scale/infer", json.dumps(body).encode())
        assert status == 200 and found["outputs"][0]["data"] == [1, 4, 9, 4, 10, 18]
    finally:
        assert server.stop() == 0


def test_a_single_row_has_the_bits_of_the_network_in_python(client: Any) -> None:  # noqa: F811
    net = SymbolBlock.imports(DATA / "lenet_digits-symbol.json", ["data"], DATA / "lenet_digits-0025.params")
    net.hybridize()
    x = images()[:1]
    found = infer(client, "lenet_digits", {"data": x}).as_numpy("lenet_dot0_output")
    np.testing.assert_allclose(found, net(nd.array(x)).asnumpy(), rtol=1e-6, atol=1e-6)
