"""Models that MXNet 1.9.1 exported, loaded and run: its own outputs, eagerly and as one compiled program.

``HYBRID_GOLDEN_ZOO`` may name a folder with more models than the few in the repository, ``HYBRID_MXNET_PYTHON`` a Python that has MXNet 1.9.1:
then it loads what this library exports of them.
"""
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd

DATA = Path(__file__).parent / "data"
ZOO = Path(os.environ.get("HYBRID_GOLDEN_ZOO") or DATA / "zoo")
PYTHON = os.environ.get("HYBRID_MXNET_PYTHON", "")
MODELS = sorted(p.name for p in ZOO.iterdir() if (p / "meta.json").exists())


def load(model: str) -> tuple[gluon.SymbolBlock, list, list[np.ndarray], dict]:
    """The block, its inputs, MXNet's outputs and what is known about the model."""
    folder = ZOO / model
    meta = json.loads((folder / "meta.json").read_text())
    names = meta["input_names"]
    net = gluon.SymbolBlock.imports(str(folder / "model-symbol.json"), names, str(folder / "model-0000.params"), ctx=mx.cpu())
    inputs = [nd.array(np.load(folder / f"input_{k}.npy"), ctx=mx.cpu()) for k in range(len(names))]
    outputs = [np.load(folder / f"output_{k}.npy") for k in range(len(meta["outputs"]))]
    return net, inputs, outputs, meta


def compare(got: object, expected: list[np.ndarray]) -> None:
    got = list(got) if isinstance(got, (list, tuple)) else [got]
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        values = mine.asnumpy()
        assert values.shape == theirs.shape and values.dtype == theirs.dtype
        np.testing.assert_allclose(values, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


@pytest.mark.parametrize("model", MODELS)
def test_eager(model: str) -> None:
    net, inputs, expected, _ = load(model)
    compare(net(*inputs), expected)


@pytest.mark.parametrize("model", MODELS)
def test_hybridized(model: str) -> None:
    net, inputs, expected, _ = load(model)
    net.hybridize(static_alloc=True, static_shape=True)
    compare(net(*inputs), expected)
    compare(net(*inputs), expected)


@pytest.mark.parametrize("model", MODELS)
def test_exported_again_it_is_the_same_graph(model: str, tmp_path: Path) -> None:
    net, inputs, expected, meta = load(model)
    net.hybridize()
    net(*inputs)
    net.export(str(tmp_path / "again"), epoch=3)
    for kind in ("symbol.json", "0000.params"):
        assert (tmp_path / f"again-{kind.replace('0000', '0003')}").read_bytes() == (ZOO / model / f"model-{kind}").read_bytes(), kind
    back = gluon.SymbolBlock.imports(str(tmp_path / "again-symbol.json"), meta["input_names"], str(tmp_path / "again-0003.params"),
                                       ctx=mx.cpu())
    compare(back(*inputs), expected)


@pytest.mark.skipif(not PYTHON, reason="HYBRID_MXNET_PYTHON names no Python with MXNet 1.9.1")
def test_mxnet_loads_what_is_exported_again(tmp_path: Path) -> None:
    for model in MODELS:
        net, inputs, expected, _ = load(model)
        net.hybridize()
        (tmp_path / model).mkdir()
        net.export(str(tmp_path / model / "m"))
        arrays = {f"{kind}{k}": x for kind, xs in (("i", [x.asnumpy() for x in inputs]), ("o", expected)) for k, x in enumerate(xs)}
        np.savez(tmp_path / model / "io.npz", numpy=False, **arrays)
    run = subprocess.run([PYTHON, str(Path(__file__).parent / "oracle" / "check_exported_models.py"), str(tmp_path)], capture_output=True, text=True,
                         timeout=600, env={**os.environ, "MXNET_MKLDNN_ENABLED": "0"})
    assert run.stdout.splitlines() == [f"same {model}" for model in MODELS], run.stderr[-2000:]


def lenet() -> tuple[gluon.SymbolBlock, nd.NDArray, np.ndarray, np.ndarray]:
    digits = np.load(DATA / "digits.npz")
    labels = digits["labels"]
    pixels = digits["images"].reshape(-1, 8, 8)[-360:].astype("float32") / 16
    pixels = np.pad(pixels.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))[:, None]
    net = gluon.SymbolBlock.imports(str(DATA / "lenet_digits-symbol.json"), ["data"], str(DATA / "lenet_digits-0025.params"),
                                    ctx=mx.cpu())
    return net, nd.array(pixels, ctx=mx.cpu()), labels[-360:], np.load(DATA / "lenet_digits.test_logits.npy")


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_lenet_reads_the_digits_as_in_mxnet(hybridized: bool) -> None:
    net, pixels, labels, logits = lenet()
    if hybridized:
        net.hybridize()
    got = net(pixels).asnumpy()
    np.testing.assert_allclose(got, logits, atol=1e-4)
    assert int((got.argmax(1) == labels).sum()) == 338


def test_lenet_has_gradients() -> None:
    net, pixels, _, _ = lenet()
    found = []
    for hybridized in (False, True):
        net.hybridize(hybridized)
        with autograd.record():
            loss = net(pixels[:16]).square().mean()
        loss.backward()
        found.append({name: p.grad().asnumpy().copy() for name, p in net.collect_params().items()})
    for name, gradient in found[0].items():
        np.testing.assert_allclose(found[1][name], gradient, rtol=1e-4, atol=1e-5 * np.abs(gradient).max(), err_msg=name)
