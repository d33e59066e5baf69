"""Kernels of float32 that read or write truth values are vectors too: the same values as primitive by primitive, at
sizes that fill vectors and that do not."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, ir, nd
from hybrid.ir import Node, Program
from hybrid.runtime import cpu, reference

from ..cpu_kernels import program, random, softmax, vectors_of

SIZES = (8, 31, 64, 129)


def flags(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).random(shape) < 0.5


def row(n: int) -> tuple[Program, list[np.ndarray]]:
    """A softmax, where it is large, and those elements of it."""
    def outputs(x: Node) -> list[Node]:
        y = softmax(x, 1)
        kept = ir.map("lt", y * 0 + 1 / n, y)
        return [kept, ir.map("where", kept, y, y * 0)]
    return program(outputs, random(5, n))


def chosen(n: int) -> tuple[Program, list[np.ndarray]]:
    """A softmax of the elements that an array of truth values says."""
    def outputs(x: Node, m: Node) -> list[Node]:
        return [softmax(ir.map("where", m, x, x * 0 - 9), 1)]
    return program(outputs, random(5, n), flags(5, n))


def product(n: int) -> tuple[Program, list[np.ndarray]]:
    """A product, where it is above zero, and those elements of it."""
    def outputs(x: Node, w: Node) -> list[Node]:
        y = ir.map("tanh", ir.dot(x, w, ((1,), (1,))))
        kept = ir.map("lt", y * 0, y)
        return [kept, ir.map("where", kept, y, y * 0)]
    return program(outputs, random(23, 16), random(n, 16))


def chosen_product(n: int) -> tuple[Program, list[np.ndarray]]:
    """A product of which an array of truth values keeps some elements."""
    def outputs(x: Node, w: Node, m: Node) -> list[Node]:
        y = ir.map("tanh", ir.dot(x, w, ((1,), (1,))))
        return [ir.map("where", m, y, y * 0)]
    return program(outputs, random(23, 16), random(n, 16), flags(23, n))


def kernels(source: str) -> str:
    """The text of a program's kernels, without the functions that they call."""
    return "".join(re.findall(r"^HY_KERNEL.*?^}|^static void k\d+\(.*?^}", source, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("width", (64, 32), ids=str)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("make, moved", [(row, "STORE"), (chosen, "LOAD"), (product, "STORE"),
                                         (chosen_product, "LOAD")])
def test_values(make: Any, moved: str, n: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    p, arrays = make(n)
    exe = cpu.compiled(p)
    for got, want in zip(exe(arrays), reference.run(p, arrays, np)[0]):
        assert got.dtype == want.dtype
        if got.dtype == np.bool_:
            np.testing.assert_array_equal(got.view(np.uint8), np.asarray(want).view(np.uint8))
        else:
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
    assert n < width // 4 or f"HYV_{moved}_BOOL" in kernels(exe.report.source)


@pytest.mark.parametrize("shape", [(4, 31, 31), (3, 8, 64), (2, 5, 7)], ids=str)
def test_dropout_after_a_softmax_and_after_a_product(shape: tuple[int, ...]) -> None:
    """What is kept is stored for the gradient: it is zero exactly where the result is."""
    x, w = nd.array(random(*shape)), nd.array(random(shape[-1], shape[-1]))
    for f in (lambda x, w: nd.Dropout(nd.softmax(x), p=0.4),
              lambda x, w: nd.Dropout(nd.FullyConnected(x, w, no_bias=True, num_hidden=shape[-1], flatten=False),
                                      p=0.4)):
        found = []
        for g in (f, mx.hybridize(f)):
            x.attach_grad()
            mx.random.seed(7)
            with autograd.record():
                y = g(x, w)
            y.backward(y)
            found.append((y.asnumpy(), x.grad.asnumpy()))
        for a, b in zip(*found):
            np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-5)
        assert 0.2 < (found[1][0] == 0).mean() < 0.6
