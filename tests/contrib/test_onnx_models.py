"""The models that come with the ``onnx`` package: nine image networks with made-up weights, and those of its folders
of PyTorch's operators and layers, beside the answers in their files."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.thorough
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
LIGHT = sorted((DATA / "light").glob("*.onnx"))
FOLDERS = [p for kind in ("pytorch-converted", "pytorch-operator", "simple") for p in sorted((DATA / kind).glob("*"))]
TRAINING = ("test_gradient_of_add", "test_gradient_of_add_and_mul")      # of ONNX's domain for training


def tensor(path: Path) -> np.ndarray:
    return onnx.numpy_helper.to_array(onnx.load_tensor(str(path)))


def computed(path: Path, inputs: list[np.ndarray]) -> list[Any]:
    with mx.util.np_shape(True):
        net = mx.contrib.onnx.import_to_gluon(str(path), ctx=mx.cpu())
        if isinstance(net, mx.gluon.HybridBlock):
            net.hybridize()
        found = net(*(nd.array(x, dtype=x.dtype) if x.dtype.kind in "biuf" else x for x in inputs))
    return [x.asnumpy() if hasattr(x, "asnumpy") else x for x in (found if isinstance(found, list) else [found])]


def test_there_are_nine() -> None:
    assert len(LIGHT) == 9 and len(FOLDERS) > 130


@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_image_networks(path: Path) -> None:
    graph = onnx.load(str(path)).graph
    constants = {t.name for t in graph.initializer}
    given, = [i for i in graph.input if i.name not in constants]
    shape = [d.dim_value or 1 for d in given.type.tensor_type.shape.dim]
    x = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
    wanted = tensor(path.with_name(f"{path.stem}_output_0.pb"))
    found, = computed(path, [x])
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-6)


def values(path: Path, kind: str) -> Any:
    if kind != "sequence_type":
        return tensor(path)
    sequence = onnx.SequenceProto()
    sequence.ParseFromString(path.read_bytes())
    return onnx.numpy_helper.to_list(sequence)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_small_models(folder: Path) -> None:
    graph = onnx.load(str(folder / "model.onnx")).graph
    files = folder / "test_data_set_0"
    constants = {t.name for t in graph.initializer}
    given = [i.type.WhichOneof("value") for i in graph.input if i.name not in constants]
    inputs = [values(files / f"input_{k}.pb", kind) for k, kind in enumerate(given)]
    if folder.name in TRAINING:
        with pytest.raises(mx.MXNetError, match="Gradient"):
            computed(folder / "model.onnx", inputs)
        return
    found = computed(folder / "model.onnx", inputs)
    for k, (y, o) in enumerate(zip(found, graph.output)):
        wanted = values(files / f"output_{k}.pb", o.type.WhichOneof("value"))
        y, wanted = (np.asarray(v) for v in (y, wanted))
        assert y.shape == wanted.shape
        if wanted.dtype.kind in "OUS":
            assert y.astype(str).tolist() == wanted.astype(str).tolist()
        else:
            np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-5)
