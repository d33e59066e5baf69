"""Models that MXNet 1.9.1 exported, loaded and run: its own outputs, eagerly and as one compiled program.

``HYBRID_GOLDEN_ZOO`` may name a folder with more models than the few in the repository, ``HYBRID_MXNET_PYTHON`` a
Python that has MXNet 1.9.1:
then it loads what this library exports of them.
"""
from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon

from .golden_models import MODELS, ZOO, compare, lenet, load, reads_the_digits
from ..paths import TESTS

PYTHON = os.environ.get("HYBRID_MXNET_PYTHON", "")
CPU = mx.cpu()


@pytest.mark.parametrize("model", MODELS)
def test_eager(model: str) -> None:
    net, inputs, expected, _ = load(model, CPU)
    compare(net(*inputs), expected)


@pytest.mark.parametrize("model", MODELS)
def test_hybridized(model: str) -> None:
    net, inputs, expected, _ = load(model, CPU)
    net.hybridize(static_alloc=True, static_shape=True)
    compare(net(*inputs), expected)
    compare(net(*inputs), expected)


@pytest.mark.parametrize("model", MODELS)
def test_exported_again_it_is_the_same_graph(model: str, tmp_path: Path) -> None:
    net, inputs, expected, meta = load(model, CPU)
    net.hybridize()
    net(*inputs)
    net.export(str(tmp_path / "again"), epoch=3)
    for kind in ("symbol.json", "0000.params"):
        assert (tmp_path / f"again-{kind.replace('0000', '0003')}").read_bytes() == (
                ZOO / model / f"model-{kind}").read_bytes(), kind
    back = gluon.SymbolBlock.imports(str(tmp_path / "again-symbol.json"), meta["input_names"],
                                     str(tmp_path / "again-0003.params"), ctx=CPU)
    compare(back(*inputs), expected)


@pytest.mark.skipif(not PYTHON, reason="HYBRID_MXNET_PYTHON names no Python with MXNet 1.9.1")
def test_mxnet_loads_what_is_exported_again(tmp_path: Path) -> None:
    for model in MODELS:
        net, inputs, expected, _ = load(model, CPU)
        net.hybridize()
        (tmp_path / model).mkdir()
        net.export(str(tmp_path / model / "m"))
        arrays = {f"{kind}{k}": x for kind, xs in (("i", [x.asnumpy() for x in inputs]), ("o", expected))
                  for k, x in enumerate(xs)}
        np.savez(tmp_path / model / "io.npz", numpy=False, **arrays)
    run = subprocess.run([PYTHON, str(TESTS / "oracle" / "check_exported_models.py"), str(tmp_path)],
                         capture_output=True, text=True,
                         timeout=600, env={**os.environ, "MXNET_MKLDNN_ENABLED": "0"})
    assert run.stdout.splitlines() == [f"same {model}" for model in MODELS], run.stderr[-2000:]


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_lenet_reads_the_digits_as_in_mxnet(hybridized: bool) -> None:
    reads_the_digits(hybridized, CPU)


def test_lenet_has_gradients() -> None:
    net, pixels, _, _ = lenet(CPU)
    found = []
    for hybridized in (False, True):
        net.hybridize(hybridized)
        with autograd.record():
            loss = net(pixels[:16]).square().mean()
        loss.backward()
        found.append({name: p.grad().asnumpy().copy() for name, p in net.collect_params().items()})
    for name, gradient in found[0].items():
        np.testing.assert_allclose(found[1][name], gradient, rtol=1e-4, atol=1e-5 * np.abs(gradient).max(),
                                   err_msg=name)
