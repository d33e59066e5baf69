"""Networks as ONNX files: ONNX Runtime gives what they give here, to 1e-5 of the largest number. All networks of the
model zoo, and those that MXNet 1.9.1 exported."""
from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon.model_zoo import vision

from .onnx_tools import run
from ..export.test_export_bars import NETWORKS
from ..paths import DATA, TESTS

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.thorough
_spec = importlib.util.spec_from_file_location("exported_models", TESTS / "oracle" / "exported_models.py")
assert _spec is not None and _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)
ZOO = sorted(["alexnet", "inceptionv3", "squeezenet1.0", "squeezenet1.1",
              *(f"densenet{n}" for n in (121, 161, 169, 201)),
              *(f"mobilenet{w}" for w in ("0.25", "0.5", "0.75", "1.0")),
              *(f"mobilenetv2_{w}" for w in ("0.25", "0.5", "0.75", "1.0")),
              *(f"resnet{n}_v{v}" for n in (18, 34, 50, 101, 152) for v in (1, 2)),
              *(f"vgg{n}{bn}" for n in (11, 13, 16, 19) for bn in ("", "_bn"))])
SIZES = {"alexnet": 224, "inceptionv3": 299, "squeezenet1.0": 224, "squeezenet1.1": 224,
         **{f"densenet{n}": 224 for n in (121, 161, 169, 201)}}
# what ONNX has no operator for, or a file says for training alone
NOT_WRITTEN = frozenset(("deformable", "modulated"))


def close(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * max(1e-3, float(np.abs(b).max(initial=0))))


def arrays_of(y: Any) -> list[np.ndarray]:
    return [a for v in y for a in arrays_of(v)] if isinstance(y, (list, tuple)) else [y.asnumpy()]


def test_there_are_sixty() -> None:
    assert len(ZOO) + len(set(cases.CASES) - NOT_WRITTEN) + len(NETWORKS) >= 60


def written(net: Any, x: Any, tmp_path: Path) -> None:
    """Compare a network, written by the files of ``net.export``."""
    net.initialize(mx.init.Xavier())
    net.hybridize()
    wanted = arrays_of(net(x))
    net.export(str(tmp_path / "net"))
    path = mx.onnx.export_model(str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params"), [x.shape],
                                [x.dtype], str(tmp_path / "net.onnx"))
    close(run(path, [x.asnumpy()]), wanted)


@pytest.mark.parametrize("name", ZOO)
def test_the_model_zoo(name: str, tmp_path: Path) -> None:
    mx.random.seed(1)
    side = SIZES.get(name, 64)
    written(vision.get_model(name, classes=10), nd.random.normal(shape=(1, 3, side, side)), tmp_path)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks_that_are_exported_as_c(name: str, tmp_path: Path) -> None:
    make, shape, dtype = NETWORKS[name]
    draw = np.random.RandomState(3)
    x = draw.randint(0, 100, shape) if dtype == "int32" else draw.randn(*shape)
    written(make(), nd.array(x, dtype=dtype), tmp_path)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    with zipfile.ZipFile(DATA / "exported_models.zip") as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("name", sorted(set(cases.CASES) - NOT_WRITTEN))
def test_what_mxnet_exported(name: str, models: Path, tmp_path: Path) -> None:
    folder = models / name
    io = np.load(folder / "io.npz")
    inputs = [io[k] for k in sorted(io.files) if k[0] == "i" and k[1:].isdigit()]
    names = ["data"] if len(inputs) == 1 else [f"data{k}" for k in range(len(inputs))]
    block = gluon.SymbolBlock.imports(str(folder / "m-symbol.json"), names, str(folder / "m-0000.params"))
    with mx.util.np_shape(bool(io["numpy"])):
        wanted = arrays_of(block(*(nd.array(x, dtype=x.dtype) for x in inputs)))
        path = mx.onnx.export_model(str(folder / "m-symbol.json"), str(folder / "m-0000.params"),
                                    [x.shape for x in inputs], [x.dtype for x in inputs], str(tmp_path / "m.onnx"))
    close(run(path, inputs), wanted)
