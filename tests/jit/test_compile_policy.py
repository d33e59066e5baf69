"""Functions that meet ever new sizes: compiled a few times, then eager until a size comes again."""
from __future__ import annotations

import warnings
from typing import Any, Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.gluon import nn


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HYBRID_SIGNATURES", "2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def rows(n: int) -> Any:
    return nd.array(np.random.RandomState(n).standard_normal((n, 3)).astype("float32"))


def net() -> Any:
    out = nn.HybridSequential()
    out.add(nn.Dense(4, activation="relu", in_units=3), nn.BatchNorm(in_channels=4), nn.Dense(2, in_units=4))
    out.initialize(mx.init.Xavier())
    out.hybridize(dynamic=False)                                 # each size is a program
    return out


def test_a_size_is_compiled_when_it_comes_again() -> None:
    block = net()
    want = {n: block(rows(n)).asnumpy() for n in (1, 2)}
    for n in (3, 4, 5):
        want[n] = block(rows(n)).asnumpy()
    assert len(block.cache_misses) == 2 and all(child._engine.entries == {}
                                                for child in block), "the others ran eagerly, layers within them too"
    for n in (4, 3):
        np.testing.assert_allclose(block(rows(n)).asnumpy(), want[n], rtol=1e-5, atol=1e-6)
    assert len(block.cache_misses) == 4
    for n in (3, 4, 1):
        block(rows(n))
    assert len(block.cache_misses) == 4


def test_programs_that_are_used_again_do_not_count() -> None:
    block = net()
    for n in range(1, 6):
        block(rows(n))
        # another one between, or the same program is taken the fast path
        block(rows(1))
        block(rows(n))
    assert len(block.cache_misses) == 5


def test_eight_unless_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYBRID_SIGNATURES")
    block = net()
    for n in range(1, 12):
        block(rows(n))
    assert len(block.cache_misses) == 8


def test_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_SIGNATURES", "0")
    block = net()
    for n in range(1, 6):
        block(rows(n))
    assert len(block.cache_misses) == 5


def test_gradients_and_statistics_move_in_both() -> None:
    """A call that is recorded: eager, then compiled; the running mean moves as it does in a plain network."""
    results = []
    for compiled in (True, False):
        mx.random.seed(5)
        block = net()
        block.hybridize(compiled, dynamic=False)
        for n in (4, 5, 6, 7, 6, 7):
            with autograd.record():
                loss = (block(rows(n)) ** 2).sum()
            loss.backward()
        results.append([p.grad().asnumpy() if p.grad_req != "null" else p.data().asnumpy()
                        for p in block.collect_params().values()])
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_functions_with_arguments_of_every_kind() -> None:
    @mx.hybridize
    def scaled(x: Any, factor: float, *, more: Any = None) -> Any:
        return {"y": x * factor if more is None else x * factor + more}

    for k in range(5):
        assert (scaled(rows(2), float(k))["y"] == rows(2) * k).asnumpy().all()
    for k in range(5):
        got = scaled(rows(2), float(k), more=np.float32(1) * np.ones((2, 3), "float32"))["y"]
        np.testing.assert_allclose(got.asnumpy(), (rows(2) * k + 1).asnumpy(), rtol=1e-6, atol=1e-6)
    assert len(scaled.cache_misses) <= 4                         # not one for each number


def test_it_is_said_once_with_the_line_and_the_reason() -> None:
    block = net()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n in range(1, 7):
            block(rows(n))
    assert len(said) == 1
    text = str(said[0].message)
    assert "test_compile_policy.py" in text and "float32(3, 3)" in text and "HYBRID_SIGNATURES" in text
