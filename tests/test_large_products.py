"""Products too large for a core's caches: blocks of packed rows and columns, at sizes that no tile divides."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import Node, Program
from hybrid.runtime import cpu, threads, toolchain

from .cpu_kernels import run_sanitized, vectors_of, without_sanitizers

WIDTHS = pytest.mark.parametrize("width", [64, 32, 16], ids=["avx512", "avx2", "sse"])


def _matrix(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _compiled(build: Callable[..., Any], arrays: list[np.ndarray], width: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    vectors_of(width, monkeypatch)
    inputs = [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    exe = cpu.compiled(build(*inputs))
    assert "(ib + 1) *" in exe.report.source              # the form that is meant
    return exe


def _close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@WIDTHS
@pytest.mark.parametrize("axes", [(1, 0), (1, 1), (0, 0), (0, 1)], ids=["ab", "abT", "aTb", "aTbT"])
def test_odd_sizes(axes: tuple[int, int], width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every order of the operands, a bias and a function after the sums; three threads."""
    m, n, k = 331, 517, 801
    a, b, bias = _matrix(*((m, k) if axes[0] else (k, m))), _matrix(*((n, k) if axes[1] else (k, n))), _matrix(n)

    def build(x: Node, y: Node, c: Node) -> Program:
        product = ir.dot(x, y, ((axes[0],), (axes[1],)))
        return Program((x, y, c), (ir.map("relu", ir.map("add", product, c)),), ())
    exe = _compiled(build, [a, b, bias], width, monkeypatch)
    monkeypatch.setenv("HYBRID_NUM_THREADS", "3")
    threads.share(exe._lib)
    found, = exe([a, b, bias])
    left, right = (a if axes[0] else a.T).astype(np.float64), (b.T if axes[1] else b).astype(np.float64)
    _close(found, np.maximum(left @ right + bias, 0))


@WIDTHS
def test_an_update_writes_each_element_once(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """w -= x^T y in place: tiles overlap at the edges, and nothing is taken off twice."""
    w, x, y = _matrix(401, 517), _matrix(701, 401), _matrix(701, 517)
    before = w.copy()

    def build(a: Node, b: Node, c: Node) -> Program:
        return Program((a, b, c), (), ((0, ir.map("sub", a, ir.dot(b, c, ((0,), (0,))))),))
    assert not _compiled(build, [w, x, y], width, monkeypatch)([w, x, y])
    _close(w, before - x.T.astype(np.float64) @ y.astype(np.float64))


def test_sanitized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No access beyond an operand, the packed blocks or the scratch memory."""
    if why := without_sanitizers(tmp_path):
        pytest.skip(why)
    a, b = _matrix(331, 801), _matrix(801, 517)
    exe = _compiled(lambda x, y: Program((x, y), (ir.dot(x, y, ((1,), (0,))),), ()), [a, b], toolchain.vector_bytes(), monkeypatch)
    found, = run_sanitized(exe, [a, b], tmp_path)
    _close(found, a.astype(np.float64) @ b)
