"""Products too large for a core's caches: some steps of the depth at a time, blocks of packed rows, at sizes that no
tile divides."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import Node, Program
from hybrid.runtime import cpu, threads, toolchain

from ..cpu_kernels import run_sanitized, vectors_of, without_sanitizers

WIDTHS = pytest.mark.parametrize("width", [64, 32, 16], ids=["avx512", "avx2", "sse"])


def _matrix(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _compiled(build: Callable[..., Any], arrays: list[np.ndarray], width: int, monkeypatch: pytest.MonkeyPatch,
              form: str) -> Any:
    vectors_of(width, monkeypatch)
    inputs = [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    exe = cpu.compiled(build(*inputs))
    assert form in exe.report.source                      # the form that is meant
    return exe


def _close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def _each(axes: tuple[int, int]) -> Callable[..., Program]:
    """A product, one of rows that are computed, and some with a bias and a function after their sums: of computed rows,
    of computed columns, turned."""
    def build(x: Node, y: Node, c: Node) -> Program:
        def product(a: Node, b: Node) -> Node:
            return ir.dot(a, b, ((axes[0],), (axes[1],)))

        def after(p: Node) -> Node:
            return ir.map("relu", ir.map("add", p, c))
        turned = ir.map("relu", ir.dot(y, x, ((axes[1],), (axes[0],))))
        return Program((x, y, c), (product(x, y), product(x * 2, y), after(product(x + 1, y)),
                                   after(product(x, y + 1)), turned), ())
    return build


def _exact(a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> list[np.ndarray]:
    """What they give, a times b in float64."""
    return [a @ b, 2 * (a @ b), np.maximum((a + 1) @ b + bias, 0), np.maximum(a @ (b + 1) + bias, 0),
            np.maximum(a @ b, 0).T]


@WIDTHS
@pytest.mark.parametrize("axes", [(1, 0), (1, 1), (0, 0), (0, 1)], ids=["ab", "abT", "aTb", "aTbT"])
def test_odd_sizes(axes: tuple[int, int], width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every order of the operands; one thread and three."""
    m, n, k = 131, 261, 2111
    a, b, bias = _matrix(*((m, k) if axes[0] else (k, m))), _matrix(*((n, k) if axes[1] else (k, n))), _matrix(n)
    exe = _compiled(_each(axes), [a, b, bias], width, monkeypatch, "long kb = 0" if axes[1] == 0 else "turn_")
    left, right = (a if axes[0] else a.T).astype(np.float64), (b.T if axes[1] else b).astype(np.float64)
    for count in ("1", "3"):
        monkeypatch.setenv("HYBRID_NUM_THREADS", count)
        threads.share(exe._lib)
        for found, expected in zip(exe([a, b, bias]), _exact(left, right, bias)):
            _close(found, expected)


@WIDTHS
@pytest.mark.parametrize(("n", "k"), [(310, 1100), (270, 900), (264, 2048)], ids=str)
def test_panels_in_groups(n: int, k: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels of short vectors go by in groups, the last of which has fewer: with a whole depth and one in blocks; one
    thread and three."""
    a, b, bias = _matrix(201, k), _matrix(k, n), _matrix(n)
    exe = _compiled(_each((1, 0)), [a, b, bias], width, monkeypatch, "Bg" if width < 64 else "Bp")
    for count in ("1", "3"):
        monkeypatch.setenv("HYBRID_NUM_THREADS", count)
        threads.share(exe._lib)
        for found, expected in zip(exe([a, b, bias]), _exact(a.astype(np.float64), b.astype(np.float64), bias)):
            _close(found, expected)


def test_rows_a_page_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that begin in one set of the first cache: fewer in a tile."""
    a, b = _matrix(65, 1024), _matrix(1024, 128)
    found, = _compiled(lambda x, y: Program((x, y), (ir.dot(x, y, ((1,), (0,))),), ()), [a, b], 64, monkeypatch,
                       "s6_3")([a, b])
    _close(found, a.astype(np.float64) @ b)


@pytest.mark.parametrize("n", [512, 1000], ids=str)
def test_no_working_memory(n: int) -> None:
    """A product alone needs no more than its result; panels of columns lie on the stacks of threads."""
    x, y = (ir.input(i, (n, n), np.dtype(np.float32)) for i in range(2))
    report = cpu.compiled(Program((x, y), (ir.dot(x, y, ((1,), (0,))),), ())).report
    assert report.planned_bytes == report.bound_bytes and not report.scratch_bytes


@WIDTHS
def test_an_update_writes_each_element_once(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """w -= x^T y in place: tiles of many panels, and nothing is taken off twice."""
    w, x, y = _matrix(401, 517), _matrix(701, 401), _matrix(701, 517)
    before = w.copy()

    def build(a: Node, b: Node, c: Node) -> Program:
        return Program((a, b, c), (), ((0, ir.map("sub", a, ir.dot(b, c, ((0,), (0,))))),))
    assert not _compiled(build, [w, x, y], width, monkeypatch, "Bp")([w, x, y])
    _close(w, before - x.T.astype(np.float64) @ y.astype(np.float64))


def test_sanitized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No access beyond an operand, the packed panels or the scratch memory."""
    if why := without_sanitizers(tmp_path):
        pytest.skip(why)
    arrays = [_matrix(131, 2111), _matrix(2111, 261), _matrix(261)]
    exe = _compiled(_each((1, 0)), arrays, toolchain.vector_bytes(), monkeypatch, "long kb = 0")
    for found, expected in zip(run_sanitized(exe, arrays, tmp_path), _exact(*(x.astype(np.float64) for x in arrays))):
        _close(found, expected)
