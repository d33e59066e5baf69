"""Losses against what MXNet 1.9.1 gives (data/losses.npz, written by oracle/record_losses.py), eager, compiled and as symbols."""
from __future__ import annotations

import importlib.util
import pathlib

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, sym
from hybrid.gluon import loss as gloss

HERE = pathlib.Path(__file__).parent
_spec = importlib.util.spec_from_file_location("record_losses", HERE / "oracle" / "record_losses.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)
STORED, MORE = oracle.read()
HybridError = mx.errors.HybridError
TOLERANCE = {"float32": {"rtol": 2e-5, "atol": 2e-6}, "float64": {"rtol": 1e-10, "atol": 1e-12}}
MODES = pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
CASES = list(oracle.CASES)
# what MXNet cannot compute in float64 (see the recorder) is compared with its float32 answer
WEAK = {"rtol": 1e-5, "atol": 1e-6}


def stored(case, dtype):
    """MXNet's answers, those of float32 where it has none, and whether they are of this dtype."""
    own = {k.split("|")[2]: v for k, v in STORED.items() if k.split("|")[:2] == [case, dtype]}
    return (own, True) if own else (stored(case, "float32")[0], False)


@MODES
@pytest.mark.parametrize("dtype", oracle.DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_loss_against_mxnet(case, dtype, hybridized):
    got = oracle.run(mx, case, dtype, hybridized)
    want, exact = stored(case, dtype)
    assert want and set(want) <= set(got)
    for k, v in want.items():
        assert got[k].shape == v.shape and got[k].dtype == dtype, k
        onp.testing.assert_allclose(got[k], v, **(TOLERANCE[dtype] if exact else WEAK), err_msg=k)


@pytest.mark.parametrize("case", CASES)
def test_repr(case):
    assert repr(oracle.build(mx, case, "float32")[0]) == MORE["reprs"][case]
