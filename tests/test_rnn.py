"""Recurrent cells and layers against what MXNet 1.9.1 gives (data/rnn.*, written by oracle/record_rnn.py), eager and hybridized."""
from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import numpy as np
import pytest

import hybrid as mx

_spec = importlib.util.spec_from_file_location("record_rnn", pathlib.Path(__file__).parent / "oracle" / "record_rnn.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)
STORED, NOTES = oracle.read()
MODES = pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
rng = np.random.default_rng(3)


def same(got: dict[str, Any], case: str) -> None:
    want = STORED[case]
    assert set(want) <= set(got)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=2e-5, atol=2e-6, err_msg=key)


@MODES
@pytest.mark.parametrize("case", oracle.UNROLLED)
def test_unrolled_cells(case: str, hybridized: bool) -> None:
    """Outputs, states and gradients of every cell."""
    if case == "plain_stack" and hybridized:
        pytest.skip("a SequentialRNNCell is no HybridBlock")
    same(oracle.unrolled(mx, case, hybridized), case)


@MODES
@pytest.mark.parametrize("case", oracle.CONV)
def test_convolutional_cells(case: str, hybridized: bool) -> None:
    same(oracle.convolved(mx, case, hybridized), case)


@MODES
@pytest.mark.parametrize("case", oracle.LAYERS)
def test_layers(case: str, hybridized: bool) -> None:
    """Outputs, states and gradients of the fused layers, with states given and not."""
    same(oracle.layered(mx, case, hybridized), case)


def test_names() -> None:
    """Parameters' names and shapes, names in files, and reprs."""
    for case, text in ((k, v[0]) for k, v in {**oracle.UNROLLED, **oracle.LAYERS, **oracle.CONV}.items()):
        block = oracle.build(mx, text)
        assert repr(block) == NOTES["repr"][case]
        assert {name: list(p.shape) for name, p in block.collect_params().items()} == NOTES["params"][case]
        assert list(block._collect_params_with_prefix()) == NOTES["files"][case]


def test_symbols() -> None:
    """JSON as MXNet writes it, node for node."""
    assert oracle.described(mx)["symbols"] == NOTES["symbols"]
