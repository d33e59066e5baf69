"""Operators in float16: a number wherever float64 has one that a half can be, and functions of many steps as near as
their result can be written."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.base.errors import HybridError
from hybrid.runtime.reference import run

from .op_cases import Case
from .op_cases_gradient import MORE
from .op_cases_index import CASES

ROWS = list({(c.name, str(c.attrs)): c for c in [*CASES, *MORE]}.values())
LARGEST = 65504.0


def of_kind(arrays: Any, kind: str) -> list[np.ndarray]:
    return [x.astype(kind) if x.dtype.kind == "f" else x for x in arrays]


def results(row: Case, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What a row gives for some inputs; a key where it draws."""
    program = row.program(tuple(arrays))
    keys = [np.array([3, 9], np.uint32)] * (len(program.inputs) - len(arrays))
    with np.errstate(all="ignore"):
        return [np.asarray(o) for o in run(program, [*arrays, *keys], np)[0]]


@pytest.mark.parametrize("row", ROWS, ids=lambda c: c.name)
def test_numbers_stay_numbers(row: Case) -> None:
    halves = of_kind(row.inputs, "float16")
    try:
        got = results(row, halves)
    except HybridError as err:
        assert "float32 or float64" in str(err)
        return
    for a, b in zip(got, results(row, of_kind(halves, "float64"))):
        if a.dtype == np.float16 and a.shape == b.shape:
            number = np.abs(b.astype(np.float64)) < LARGEST / 4
            assert np.isfinite(a[number]).all()


def test_gelu_keeps_its_digits() -> None:
    """In steps of float16, 1 + erf has none left below -2."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    exact = np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.astype(np.float64)])
    step = np.spacing(np.abs(exact).clip(2.0**-14, LARGEST).astype(np.float16)).astype(np.float64)
    for f in (lambda a: nd.LeakyReLU(a, act_type="gelu"), mx.hybridize(lambda a: nd.LeakyReLU(a, act_type="gelu"))):
        got = f(nd.array(x, dtype="float16"))
        assert got.dtype == np.float16
        # of float32's 1 + erf
        assert (np.abs(got.asnumpy().astype(np.float64) - exact) / step).max() < 2


def test_ctc_loss_of_halves() -> None:
    rng = np.random.default_rng(4)
    scores, label = rng.standard_normal((9, 3, 5)).astype(np.float16), nd.array([[1, 2, 0], [3, 3, 1], [4, 0, 0]])
    got = nd.ctc_loss(nd.array(scores, dtype="float16"), label)
    want = nd.ctc_loss(nd.array(scores.astype(np.float64), dtype="float64"), label).asnumpy()
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.asnumpy(), want, rtol=2.0**-11)


@pytest.mark.parametrize("name", ["mean", "global pool", "pool", "norm", "L2Normalization"])
def test_sums_may_be_larger_than_the_largest_half(name: str) -> None:
    f, want = {
        "mean": (lambda x: nd.mean(x, axis=(2, 3)), 200.0),
        "global pool": (lambda x: nd.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg"), 200.0),
        "pool": (lambda x: nd.Pooling(x, kernel=(20, 20), pool_type="avg"), 200.0),
        "norm": (lambda x: nd.norm(x), 200.0 * math.sqrt(2 * 90 * 90)),
        "L2Normalization": (lambda x: nd.L2Normalization(x), 1 / math.sqrt(2 * 90 * 90))}[name]
    x = nd.ones((1, 2, 90, 90), dtype="float16") * 200
    for g in (f, mx.hybridize(f)):
        got = g(x)
        assert got.dtype == np.float16
        np.testing.assert_allclose(got.asnumpy().astype(np.float64), want, rtol=2.0**-10)
