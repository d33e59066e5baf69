"""Models that MXNet 1.9.1 exported, from their files straight to one program: its outputs, interpreted and as C.

``HYBRID_GOLDEN_ZOO`` may name a folder with more models than the few in the repository.
"""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid import ir, ops, runtime  # noqa: F401  (ops registers the operators)
from hybrid.base.device import cpu
from hybrid.ops import registry
from hybrid.runtime import reference
from hybrid.serialize.json_graph import JsonGraph, parse
from hybrid.serialize.params import read_params
from hybrid.serialize.upgrade import is_hidden, upgrade

from ..paths import DATA

ZOO = Path(os.environ.get("HYBRID_GOLDEN_ZOO") or DATA / "zoo")
MODELS = sorted(p.name for p in ZOO.iterdir() if (p / "meta.json").exists())


def lowered(graph: JsonGraph, arrays: dict[str, np.ndarray]) -> tuple[ir.Program, list[np.ndarray]]:
    """One inference program for the graph, and its inputs in the order of its slots."""
    values: list[tuple[Any, ...]] = []
    leaves, inputs = [], []
    for node in graph.nodes:
        if node.is_variable:
            leaves.append(ir.input(len(leaves), arrays[node.name].shape, arrays[node.name].dtype))
            inputs.append(arrays[node.name])
            values.append((leaves[-1],))
            continue
        found = registry.find(node.op)
        attrs = found.parse({key: value for key, value in node.attrs.items() if not is_hidden(key)})
        args = [values[n][k] for n, k, _ in node.inputs]
        args += [] if found.variadic else [None] * (len(found.inputs) - len(args))
        key = ir.data(np.zeros(2, np.uint32)) if "key" in found.needs else None
        values.append(tuple(found.lower(args, attrs, False, key).outputs))
    return ir.Program(tuple(leaves), tuple(values[n][k] for n, k, _ in graph.heads)), inputs


def load(folder: Path, stem: str, feed: dict[str, np.ndarray]) -> tuple[ir.Program, list[np.ndarray]]:
    arrays, names = read_params(next(folder.glob(f"{stem}-*.params")))
    values = {name.split(":", 1)[1]: array for name, array in zip(names, arrays, strict=True)}
    graph = upgrade(parse((folder / f"{stem}-symbol.json").read_text(), stem))
    return lowered(graph, {**values, **feed})


def outputs(program: ir.Program, inputs: list[np.ndarray], compiled: bool) -> list[np.ndarray]:
    return runtime.compile(program, cpu())(inputs) if compiled else reference.run(program, inputs, np)[0]


@pytest.mark.parametrize("compiled", [False, True], ids=["numpy", "c"])
@pytest.mark.parametrize("model", MODELS)
def test_model(model: str, compiled: bool) -> None:
    folder = ZOO / model
    meta = json.loads((folder / "meta.json").read_text())
    feed = {name: np.load(folder / f"input_{k}.npy") for k, name in enumerate(meta["input_names"])}
    for k, got in enumerate(outputs(*load(folder, "model", feed), compiled)):
        expected = np.load(folder / f"output_{k}.npy")
        assert got.shape == expected.shape and got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("compiled", [False, True], ids=["numpy", "c"])
def test_lenet_reads_the_digits(compiled: bool) -> None:
    digits = np.load(DATA / "digits.npz")
    pixels = digits["images"][-360:].astype("float32") / 16
    pixels = np.pad(pixels.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))[:, None]
    got, = outputs(*load(DATA, "lenet_digits", {"data": pixels}), compiled)
    np.testing.assert_allclose(got, np.load(DATA / "lenet_digits.test_logits.npy"), atol=1e-4)
    assert int((got.argmax(1) == digits["labels"][-360:]).sum()) == 338
