"""Models of many kinds that MXNet 1.9.1 exported: the same outputs eagerly, hybridized and through Module, the same
files when written again.

With HYBRID_MXNET_PYTHON (a Python that has MXNet 1.9.1) also the other way: MXNet loads what this library exports.
"""
from __future__ import annotations

import importlib.util
import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, hybridize, nd
from hybrid.gluon import nn

from ..paths import DATA, TESTS

_spec = importlib.util.spec_from_file_location("exported_models", TESTS / "oracle" / "exported_models.py")
assert _spec is not None and _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)
PYTHON = os.environ.get("HYBRID_MXNET_PYTHON", "")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    with zipfile.ZipFile(DATA / "exported_models.zip") as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(autouse=True)
def plain_shapes() -> Iterator[None]:
    yield
    mx.npx.reset_np()


def flat(value: Any) -> list[Any]:
    return [x for v in value for x in flat(v)] if isinstance(value, (list, tuple)) else [value]


class Model:
    """A recorded model: its files, inputs and outputs."""

    def __init__(self, folder: Path):
        self.symbol, self.params = str(folder / "m-symbol.json"), str(folder / "m-0000.params")
        io = np.load(folder / "io.npz")
        count = {kind: sum(f[0] == kind and f[1:].isdigit() for f in io.files) for kind in "io"}
        self.inputs, self.outputs = ([io[f"{kind}{k}"] for k in range(count[kind])] for kind in "io")
        self.names = ["data"] if len(self.inputs) == 1 else [f"data{k}" for k in range(len(self.inputs))]
        self.numpy = bool(io["numpy"])
        if self.numpy:
            mx.npx.set_np()

    def arrays(self) -> list[Any]:
        return [(mx.np if self.numpy else nd).array(x) for x in self.inputs]

    def block(self) -> gluon.SymbolBlock:
        return gluon.SymbolBlock.imports(self.symbol, self.names, self.params)

    def compare(self, found: Any) -> None:
        for mine, theirs in zip(flat(found), self.outputs, strict=True):
            assert mine.shape == theirs.shape and mine.asnumpy().dtype == theirs.dtype
            np.testing.assert_allclose(mine.asnumpy(), theirs, rtol=1e-4,
                                       atol=1e-4 * max(np.abs(theirs).max(initial=0), 1e-3))


@pytest.mark.parametrize("name", cases.CASES)
def test_imported(name: str, models: Path, tmp_path: Path) -> None:
    model = Model(models / name)
    model.compare(model.block()(*model.arrays()))
    net = model.block()
    net.hybridize(static_alloc=True, static_shape=True)
    for _ in range(2):
        model.compare(net(*model.arrays()))
    net.export(str(tmp_path / "again"))
    assert (tmp_path / "again-symbol.json").read_text() == Path(model.symbol).read_text()
    assert (tmp_path / "again-0000.params").read_bytes() == Path(model.params).read_bytes()


@pytest.mark.parametrize("name", [k for k in cases.CASES if not k.startswith("numpy")])
def test_through_module(name: str, models: Path) -> None:
    model = Model(models / name)
    symbol, args, aux = mx.model.load_checkpoint(model.symbol.removesuffix("-symbol.json"), 0)
    mod = mx.mod.Module(symbol, model.names, None)
    mod.bind([mx.io.DataDesc(n, x.shape, x.dtype) for n, x in zip(model.names, model.inputs)], for_training=False)
    mod.set_params(args, aux)
    mod.forward(mx.io.DataBatch(model.arrays()), is_train=False)
    model.compare(mod.get_outputs())


@pytest.mark.skipif(not PYTHON, reason="HYBRID_MXNET_PYTHON names no Python with MXNet 1.9.1")
@pytest.mark.filterwarnings("ignore:Caution")
def test_mxnet_loads_what_is_exported_here(tmp_path: Path) -> None:
    for name, make in cases.CASES.items():
        (tmp_path / name).mkdir()
        cases.export(mx, make, tmp_path / name)
    run = subprocess.run([PYTHON, str(TESTS / "oracle" / "check_exported_models.py"), str(tmp_path)],
                         capture_output=True, text=True, timeout=600,
                         env={**os.environ, "MXNET_MKLDNN_ENABLED": "0"})
    lines = run.stdout.splitlines()
    assert ([line for line in lines if not line.startswith("same")] == []
            and len(lines) == len(cases.CASES)), run.stderr[-2000:]


@pytest.mark.parametrize("mode", ["now", "background"])
def test_a_call_inside_a_compiled_step_tells_an_export_the_inputs(mode: str, tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", mode)
    monkeypatch.delenv("HYBRID_WARM", raising=False)
    net = nn.Dense(2)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")

    @hybridize
    def step(x: nd.NDArray) -> nd.NDArray:
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(1)
        return loss

    x = nd.ones((4, 3))
    step(x)
    files = net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(files[0], ["data"], files[1])
    np.testing.assert_array_equal(again(x).asnumpy(), net(x).asnumpy())
