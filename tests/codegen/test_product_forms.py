"""Products of every form: dot products of a few rows, wide tiles of a few rows, tiles of two heights, panels that
are packed."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import Node, Program
from hybrid.runtime import cpu, threads, toolchain

from ..cpu_kernels import run_sanitized, vectors_of, without_sanitizers

# name: rows, columns, depth, which operands are transposed in memory, a part of the C text of the form
CASES: dict[str, tuple[int, int, int, tuple[int, int], str]] = {
    "dots_of_five": (5, 63, 65, (0, 1), "sums_v"),
    "dots_of_two": (2, 31, 1000, (0, 1), "sums_v"),
    "dots_of_copied_rows": (257, 3, 101, (0, 0), "Ap["),
    "one_dot": (1, 1, 33, (0, 1), "hsum_v"),
    "sum_of_rows": (1, 301, 67, (0, 0), "_tile"),
    "columns_of_a_matrix": (301, 2, 67, (1, 0), "_tile"),
    "two_sizes": (67, 96, 31, (0, 0), "m_rows"),
    "two_sizes_turned": (65, 33, 47, (0, 1), "m_rows"),
    "packed_panels": (127, 128, 17, (0, 0), "Bp + k *"),
    "strided_rows": (61, 64, 300, (1, 0), "Bp + k *"),
}
KINDS = pytest.mark.parametrize("dtype, width", [("float32", 64), ("float64", 64), ("float32", 32), ("float32", 16)],
                                ids=["avx512", "double", "avx2", "sse"])


def matrices(m: int, n: int, k: int, turned: tuple[int, int], dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(m + n + k)
    return [rng.standard_normal((k, m) if turned[0] else (m, k)).astype(dtype),
            rng.standard_normal((n, k) if turned[1] else (k, n)).astype(dtype)]


def product(a: Node, b: Node, turned: tuple[int, int]) -> Node:
    return ir.dot(a, b, ((0 if turned[0] else 1,), (1 if turned[1] else 0,)))


def exact(a: np.ndarray, b: np.ndarray, turned: tuple[int, int]) -> np.ndarray:
    return (a.T if turned[0] else a).astype(np.float64) @ (b.T if turned[1] else b).astype(np.float64)


def close(found: np.ndarray, expected: np.ndarray, to: float = 1e-5) -> None:
    np.testing.assert_allclose(found, expected, rtol=to, atol=to * np.abs(expected).max())


def images(filters: int, count: int, pixels: int, channels: int, dtype: str, first: int = 0) -> tuple[
        list[np.ndarray], list[Node], list[np.ndarray]]:
    """What the gradients of a convolution by single pixels are: values times images, summed over images and pixels, as
    it is and as a step; and weights times values, stored by image. Arrays, inputs and products, results."""
    rng = np.random.default_rng(filters + pixels)
    shapes = (count, filters, pixels), (count, channels, pixels), (filters, channels)
    values, data, weights = some = [rng.standard_normal(s).astype(dtype) for s in shapes]
    v, d, w = leaves = [ir.input(first + i, a.shape, a.dtype) for i, a in enumerate(some)]
    back = ir.permute(ir.dot(w, v, ((0,), (1,))), (1, 0, 2))
    both = ir.dot(v, d, ((0, 2), (0, 2)))
    right = np.einsum("nfp,ncp->fc", values.astype("d"), data.astype("d"))
    by_image = np.einsum("fc,nfp->ncp", weights.astype("d"), values.astype("d"))
    return some, [*leaves, both, w + both * 0.5, ir.map("where", ir.map("gt", d, d * 0), back, d)], [
        right, weights + 0.5 * right, np.where(data > 0, by_image, data)]


def every_case(dtype: str) -> tuple[Program, list[np.ndarray], list[np.ndarray]]:
    """One program of all products, as they are and with a bias and a function after them; its inputs and results."""
    arrays, leaves, outputs, expected = [], [], [], []
    for m, n, k, turned, _ in CASES.values():
        some = [*matrices(m, n, k, turned, dtype), np.linspace(-1, 1, n).astype(dtype)]
        a, b, bias = (ir.input(len(arrays) + i, v.shape, v.dtype) for i, v in enumerate(some))
        right = exact(some[0], some[1], turned)
        arrays, leaves = arrays + some, [*leaves, a, b, bias]
        outputs += [product(a, b, turned), ir.map("relu", product(a * 2, b, turned) + bias)]
        expected += [right, np.maximum(2 * right + some[2], 0)]
    for shape in ((65, 3, 33, 40), (64, 2, 32, 16), (9, 4, 171, 70)):
        some, made, right = images(*shape, dtype, len(arrays))
        leaves, arrays, outputs, expected = leaves + made[:3], arrays + some, outputs + made[3:], expected + right
    return Program(tuple(leaves), tuple(outputs), ()), arrays, expected


@KINDS
def test_values(dtype: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every form, and in float32 with the widest vectors each where it is meant."""
    vectors_of(width, monkeypatch)
    program, arrays, expected = every_case(dtype)
    exe = cpu.compiled(program)
    for text in ({text for *_, text in CASES.values()} if width == 64 and dtype == "float32" else ()):
        assert text in exe.report.source
    for found, right in zip(exe(arrays), expected):
        close(found, right, 1e-5 if dtype == "float32" else 1e-12)


def test_no_operand_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the depth has several axes, and where the result is stored by image, both operands are read along the axis
    in which they are neighbours."""
    vectors_of(64, monkeypatch)
    some, made, right = images(128, 4, 1024, 64, "float32")
    for which, expected in zip(made[3:], right):
        exe = cpu.compiled(Program(tuple(made[:3]), (which,), ()))
        source = exe.report.source
        assert "Ap[" not in source and "% 1024" not in source and "_tile" in source
        close(exe(some)[0], expected)


def test_values_that_are_not_numbers_stay_where_they_are() -> None:
    """The last vector of a dot product overlaps the one before: what is counted already may be infinite."""
    a, b = np.ones((3, 21), np.float32), np.ones((40, 21), np.float32)
    b[7, 2] = np.inf
    x, y = ir.input(0, a.shape, a.dtype), ir.input(1, b.shape, b.dtype)
    found, = cpu.compiled(Program((x, y), (product(x, y, (0, 1)),), ()))([a, b])
    assert np.isinf(found[:, 7]).all() and (np.delete(found, 7, 1) == 21).all()


def test_blocks_for_every_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large product gives the same numbers however its blocks are shared out."""
    a, b = matrices(523, 390, 512, (0, 0), "float32")
    x, y = ir.input(0, a.shape, a.dtype), ir.input(1, b.shape, b.dtype)
    exe = cpu.compiled(Program((x, y), (product(x, y, (0, 0)),), ()))
    for count in (1, 2, 5):
        monkeypatch.setenv("HYBRID_NUM_THREADS", str(count))
        threads.share(exe._lib)
        close(exe([a, b])[0], exact(a, b, (0, 0)))


def test_sanitized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them in one program, whose arrays begin anywhere and end where their memory ends."""
    if why := without_sanitizers(tmp_path):
        pytest.skip(why)
    vectors_of(toolchain.vector_bytes(), monkeypatch)
    program, arrays, expected = every_case("float32")
    for found, right in zip(run_sanitized(cpu.compiled(program), arrays, tmp_path), expected):
        close(found, right)
