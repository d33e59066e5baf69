"""Models that MXNet 1.9.1 exported, with its own outputs, on any device."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import hybrid as mx
from hybrid import gluon, nd

from ..paths import DATA

ZOO = Path(os.environ.get("HYBRID_GOLDEN_ZOO") or DATA / "zoo")
MODELS = sorted(p.name for p in ZOO.iterdir() if (p / "meta.json").exists())


def load(model: str, ctx: mx.Context) -> tuple[gluon.SymbolBlock, list[nd.NDArray], list[np.ndarray], dict[str, Any]]:
    """The block, its inputs, MXNet's outputs and what is known about the model."""
    folder = ZOO / model
    meta = json.loads((folder / "meta.json").read_text())
    names = meta["input_names"]
    net = gluon.SymbolBlock.imports(str(folder / "model-symbol.json"), names, str(folder / "model-0000.params"),
                                    ctx=ctx)
    inputs = [nd.array(np.load(folder / f"input_{k}.npy"), ctx=ctx) for k in range(len(names))]
    outputs = [np.load(folder / f"output_{k}.npy") for k in range(len(meta["outputs"]))]
    return net, inputs, outputs, meta


def compare(got: Any, expected: list[np.ndarray], what: str = "") -> None:
    """Results are MXNet's outputs."""
    got = list(got) if isinstance(got, (list, tuple)) else [got]
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        values = mine.asnumpy()
        assert values.shape == theirs.shape and values.dtype == theirs.dtype
        np.testing.assert_allclose(values, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max(), err_msg=what)


def lenet(ctx: mx.Context) -> tuple[gluon.SymbolBlock, nd.NDArray, np.ndarray, np.ndarray]:
    """A LeNet that MXNet trained, 360 digits, their labels and MXNet's outputs for them."""
    with np.load(DATA / "digits.npz") as digits:
        pixels, labels = digits["images"].reshape(-1, 8, 8)[-360:].astype("float32") / 16, digits["labels"][-360:]
    pixels = np.pad(pixels.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))[:, None]
    net = gluon.SymbolBlock.imports(str(DATA / "lenet_digits-symbol.json"), ["data"],
                                    str(DATA / "lenet_digits-0025.params"), ctx=ctx)
    return net, nd.array(pixels, ctx=ctx), labels, np.load(DATA / "lenet_digits.test_logits.npy")


def reads_the_digits(hybridized: bool, ctx: mx.Context) -> None:
    """338 of 360 are right, logits are MXNet's."""
    net, pixels, labels, logits = lenet(ctx)
    if hybridized:
        net.hybridize()
    got = net(pixels)
    assert got.ctx == ctx
    np.testing.assert_allclose(got.asnumpy(), logits, atol=1e-4)
    assert int((got.asnumpy().argmax(1) == labels).sum()) == 338
