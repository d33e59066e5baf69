"""Results that are larger than caches, of arrays that begin at cache lines and of others."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.codegen import loops
from hybrid.codegen.printers.rows import rows
from hybrid.runtime import toolchain

from ..cpu_kernels import vectors_of

FORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda x, y, b: x + y, lambda x, y, b: x + y),
    "heavy": (lambda x, y, b: nd.tanh(x) * y, lambda x, y, b: np.tanh(x) * y),
    "broadcast": (lambda x, y, b: nd.relu(nd.broadcast_mul(x, b) + y), lambda x, y, b: np.maximum(x * b + y, 0)),
    "turned": (lambda x, y, b: x.reshape((-1, 64, 16)).transpose((0, 2, 1)) * 2,
               lambda x, y, b: x.reshape(-1, 64, 16).transpose(0, 2, 1) * 2),
    "softmax": (lambda x, y, b: nd.softmax(x), lambda x, y, b: _softmax(x)),
    "LayerNorm": (lambda x, y, b: nd.LayerNorm(x, b, b), lambda x, y, b: _layer_norm(x, b)),
    "two": (lambda x, y, b: (nd.exp(x) + y, nd.softmax(y)), lambda x, y, b: (np.exp(x) + y, _softmax(y))),
}


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layer_norm(x: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * b + b


def _check(form: str, shape: tuple[int, int], shifted: bool) -> None:
    """Compares values with float64."""
    rng = np.random.default_rng(0)
    x, y, b = (rng.standard_normal(s).astype(np.float32) for s in (shape, shape, shape[1:]))
    function, reference = FORMS[form]
    arrays = [nd.array(a) for a in (x, y, b)]
    if shifted:                                              # not at a cache line
        raw = np.empty(x.size + 17, np.float32)[5:5 + x.size].reshape(shape)
        raw[...] = x
        arrays[0]._rebind(raw)
    compiled = mx.hybridize(function)
    found, expected = compiled(*arrays), reference(*(a.astype(np.float64) for a in (x, y, b)))
    for f, e in zip(found if isinstance(found, (list, tuple)) else [found],
                    expected if isinstance(expected, tuple) else [expected]):
        np.testing.assert_allclose(f.asnumpy(), e, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("shifted", [False, True], ids=["aligned", "shifted"])
@pytest.mark.parametrize("width", [64, 32, 16], ids=["avx512", "avx2", "sse"])
@pytest.mark.parametrize("form", FORMS)
def test_values(form: str, width: int, shifted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    monkeypatch.setattr(rows, "FAR", 1 << 16)
    monkeypatch.setenv("HYBRID_CPU_TEST", str(width))        # programs of other widths are not taken from the disk
    monkeypatch.setenv("HYBRID_NUM_THREADS", "2")
    _check(form, (192, 1024), shifted)


@pytest.mark.parametrize("form", [f for f in FORMS if f != "turned"])
def test_rows_that_end_within_a_line(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FAR", 1 << 16)
    monkeypatch.setenv("HYBRID_CPU_TEST", "rows")
    _check(form, (63, 1021), False)


def test_rows_of_a_result_beyond_the_caches_are_done_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else several are under way."""
    for most, staged in ((1 << 30, True), (1 << 18, False)):
        monkeypatch.setattr(rows, "LARGE", most)
        monkeypatch.setenv("HYBRID_CPU_TEST", f"large{most}")
        x = nd.array(np.ones((192, 512), np.float32))
        compiled = mx.hybridize(nd.softmax)
        compiled(x)
        assert ("t_++" in compiled.report().source) == staged


@pytest.mark.parametrize("shape", [(64, 512), (67, 301), (129, 4096), (300, 65), (1, 700), (512, 7)], ids=str)
@pytest.mark.parametrize("threads", ["1", "3"])
def test_read_across(shape: tuple[int, int], threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transposed arrays are read in blocks: also with odd ends, three axes, two transposed arguments, threads."""
    monkeypatch.setattr(loops, "NEAR", 1)
    monkeypatch.setattr(loops, "LINES", 16)
    monkeypatch.setenv("HYBRID_CPU_TEST", f"across{threads}")
    monkeypatch.setenv("HYBRID_NUM_THREADS", threads)
    n, m = shape
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(s).astype(np.float32) for s in ((m, n), (n, m), (5, m, n)))

    def turned(x: Any, y: Any, z: Any) -> Any:
        return x.T + y, nd.tanh(x.T) * 2 + x.T, z.transpose((0, 2, 1)) * y.expand_dims(0), (x.T > y).astype("int32")
    compiled = mx.hybridize(turned)
    found = compiled(*map(nd.array, (x, y, z)))
    for f, e in zip(found, (x.T + y, np.tanh(x.T) * 2 + x.T, z.transpose(0, 2, 1) * y[None],
                            (x.T > y).astype(np.int32))):
        np.testing.assert_allclose(f.asnumpy(), e, rtol=1e-5, atol=1e-6)
    if toolchain.vector_bytes() >= 32:                           # narrower ones turn whole tiles
        assert ("_b += 8" in compiled.report().source) == (n >= loops.TALL and m >= loops.WIDE)


def test_softmax_across_a_large_result() -> None:
    """Lanes are rows there: no row's cache lines are asked for together."""
    x = np.random.default_rng(1).standard_normal((3, 37, 60, 48)).astype(np.float32)
    got = mx.hybridize(lambda a: nd.softmax(a, axis=1))(nd.array(x)).asnumpy()
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=1e-5)
