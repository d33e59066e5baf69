"""Products that leave out the steps whose factors are zero: values, bits of the tiles of all steps, what takes over and
when."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir
from hybrid.codegen.printers.convolutions import packed_sparsity
from hybrid.codegen.printers.products import sparsity
from hybrid.ir import Node, Program
from hybrid.runtime import cpu, threads

from ..cpu_kernels import vectors_of

# name: rows, columns, depth; whether the factors and the other operand are turned in memory
CASES: dict[str, tuple[int, int, int, bool, bool]] = {
    "gradient_of_weights": (64, 112, 64, True, False),
    "gradient_of_weights_odd": (163, 127, 53, True, False),
    "gradient_of_weights_deep": (47, 127, 211, True, False),
    "gradient_of_data": (64, 128, 128, False, False),
    "gradient_of_data_odd": (67, 125, 131, False, False),
    "forward": (64, 128, 256, False, True),
    "forward_odd": (97, 117, 123, False, True),
    "many_rows": (613, 127, 119, True, False),
}
WIDTHS = pytest.mark.parametrize("width", [64, 32], ids=["avx512", "avx2"])
EACH = pytest.mark.parametrize("name", CASES)


def product(name: str, after: bool = False) -> tuple[Program, tuple[int, ...], tuple[int, ...]]:
    """relu(x) and its product with b, in the order of memory that a case says; after: with a bias and an array
    added."""
    rows, columns, depth, first, second = CASES[name]
    shapes = (depth, rows) if first else (rows, depth), (columns, depth) if second else (depth, columns)
    x, b = (ir.input(i, s, "float32") for i, s in enumerate(shapes))
    a = ir.map("relu", x)
    y = ir.dot(a, b, ((0 if first else 1,), (1 if second else 0,)))
    leaves = [x, b]
    if after:
        bias, more = ir.input(2, (columns,), "float32"), ir.input(3, (rows, columns), "float32")
        leaves, y = [*leaves, bias, more], ir.map("tanh", y + bias) + more * 2
    return Program(tuple(leaves), (a, y), ()), *shapes


def arrays(name: str, density: float, after: bool = False) -> list[np.ndarray]:
    rows, columns, _, _, _ = CASES[name]
    rng = np.random.default_rng(7)
    _, first, second = product(name)
    x, b = np.abs(rng.standard_normal(first)) + 0.1, rng.standard_normal(second)
    x[rng.random(first) >= density] *= -1
    more = [rng.standard_normal(columns), rng.standard_normal((rows, columns))] if after else []
    return [np.ascontiguousarray(v, np.float32) for v in (x, b, *more)]


def exact(name: str, x: np.ndarray, b: np.ndarray, *more: np.ndarray) -> np.ndarray:
    *_, first, second = CASES[name]
    a = np.maximum(x, 0).astype(np.float64)
    y = (a.T if first else a) @ (b.T if second else b).astype(np.float64)
    return np.tanh(y + more[0]) + more[1] * 2 if more else y


def only_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiles of all steps leave the result as it is: what is right then came from the other form."""
    whole = sparsity.Zeros._either
    monkeypatch.setattr(sparsity.Zeros, "_either", lambda self, dense, s: whole(self, lambda: [self.head(), "}"], s))


@WIDTHS
@EACH
@pytest.mark.parametrize("after", [False, True], ids=["alone", "epilogue"])
def test_values(name: str, after: bool, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors_of(width, monkeypatch)
    only_sparse(monkeypatch)
    exe = cpu.compiled(product(name, after)[0])
    for density in (0.0, 0.3, 0.5):
        given = arrays(name, density, after)
        right = exact(name, *given)
        np.testing.assert_allclose(exe(given)[1], right, rtol=1e-5, atol=1e-5 * max(1, np.abs(right).max()))


@WIDTHS
@EACH
def test_the_bits_of_all_steps(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of one depth are added in the same order: a sum is the same whichever form ran, at every density, on one
    thread and on three."""
    vectors_of(width, monkeypatch)
    exe = cpu.compiled(product(name)[0])
    monkeypatch.setattr(sparsity, "often_zero", lambda n: False)
    full = cpu.compiled(product(name)[0])
    assert "_dense(" in exe.report.source and "_dense(" not in full.report.source
    for density in (0.0, 0.4, 0.9, 1.0):
        given = arrays(name, density)
        expected = full(given)[1]
        for count in (1, 3):
            monkeypatch.setenv("HYBRID_NUM_THREADS", str(count))
            threads.share(exe._lib)
            found = exe(given)[1]
            if CASES[name][2] <= sparsity.STEPS:
                np.testing.assert_array_equal(found, expected)
            else:                                          # tiles may add up parts of a great depth
                np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@EACH
def test_too_few_zeros(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most factors are not zero all steps are done."""
    given = arrays(name, 0.95)
    expected = exact(name, *given)
    np.testing.assert_allclose(cpu.compiled(product(name)[0])(given)[1], expected, rtol=1e-5,
                               atol=1e-5 * np.abs(expected).max())
    only_sparse(monkeypatch)
    left = cpu.compiled(product(name)[0])
    given[0] = np.abs(given[0])
    out: Any = left(given)[1]
    assert not np.allclose(out, exact(name, *given), rtol=1e-3)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("where", ["first", "last"])
@EACH
def test_zero_times_infinity(name: str, where: str, value: float) -> None:
    """A step that would be left out is NaN where the other operand is not finite, as in NumPy."""
    given = arrays(name, 0.3)
    given[1].flat[0 if where == "first" else -1] = value
    *_, first, second = CASES[name]
    a = np.maximum(given[0], 0)
    with np.errstate(invalid="ignore"):
        expected = (a.T if first else a) @ (given[1].T if second else given[1])
    found = cpu.compiled(product(name)[0])(given)[1]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_factors_that_are_nan() -> None:
    """NaN is no zero: its row is NaN and no other."""
    given = arrays("gradient_of_data", 0.3)
    given[0][5, 7] = np.nan
    found = cpu.compiled(product("gradient_of_data")[0])(given)[1]
    assert np.isnan(found[5]).all() and np.isfinite(np.delete(found, 5, 0)).all()


# name: rows, depth, filters of products with packed parameters
PACKED: dict[str, tuple[int, int, int]] = {"layer": (256, 256, 128), "odd": (67, 131, 125), "one_word": (33, 40, 250),
                                           "three_runs": (150, 249, 320), "half_a_panel": (61, 96, 242)}


def packed(name: str) -> Program:
    """relu(x), and tanh of its product with parameters and a bias."""
    rows, depth, filters = PACKED[name]
    x, w, b = (ir.input(i, s, "float32") for i, s in enumerate([(rows, depth), (filters, depth), (filters,)]))
    a = ir.map("relu", x)
    p = Program((x, w, b), (a, ir.map("tanh", ir.dot(a, w, ((1,), (1,))) + b)), ())
    p.memo["frozen"] = frozenset({1, 2})
    return p


def packed_arrays(name: str, density: float) -> list[np.ndarray]:
    rows, depth, filters = PACKED[name]
    rng = np.random.default_rng(11)
    x = np.abs(rng.standard_normal((rows, depth))) + 0.1
    x[rng.random(x.shape) >= density] *= -1
    return [v.astype(np.float32) for v in (x, rng.standard_normal((filters, depth)) / depth**0.5,
                                           rng.standard_normal(filters))]


@WIDTHS
@pytest.mark.parametrize("name", PACKED)
def test_packed(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data behind a ReLU with packed parameters: both forms, any number of threads, and what is not finite."""
    vectors_of(width, monkeypatch)
    exe = cpu.compiled(packed(name))
    assert "_dense(p" in exe.report.source and "_1x" in exe.report.source                  # tiles of packed products
    for density in (0.0, 0.4, 1.0):
        x, w, b = given = packed_arrays(name, density)
        for count in (1, 3):
            monkeypatch.setenv("HYBRID_NUM_THREADS", str(count))
            threads.share(exe._lib)
            np.testing.assert_allclose(exe(given)[1],
                                       np.tanh(np.maximum(x, 0).astype(np.float64) @ w.T.astype(np.float64) + b),
                                       rtol=1e-5, atol=1e-5)
    for value in (np.inf, np.nan):
        x, w, b = given = packed_arrays(name, 0.4)
        w[-1, -1] = value
        with np.errstate(invalid="ignore"):
            expected = np.tanh(np.maximum(x, 0) @ w.T + b)
        np.testing.assert_allclose(exe(given)[1], expected, rtol=1e-4, atol=1e-4)


@WIDTHS
@pytest.mark.parametrize("name", PACKED)
def test_packed_without_the_tiles(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is right comes from the form that leaves out zeros, if the other one does nothing."""
    vectors_of(width, monkeypatch)
    def nothing(self: packed_sparsity.Direct) -> Any:
        self.begin()
        return self.printed([self.head(), "}"])
    monkeypatch.setattr(packed_sparsity.Direct, "print", nothing)
    exe = cpu.compiled(packed(name))
    for density in (0.0, 0.4):
        x, w, b = given = packed_arrays(name, density)
        np.testing.assert_allclose(exe(given)[1], np.tanh(np.maximum(x, 0).astype(np.float64) @ w.T.astype(np.float64) + b), rtol=1e-5, atol=1e-5)  # noqa: E501
    given = packed_arrays(name, 1.0)
    assert not np.allclose(exe(given)[1], np.tanh(given[0] @ given[1].T + given[2]), rtol=1e-3)


def leaf(*shape: int) -> Node:
    return ir.input(0, shape, "float32")


def test_what_is_often_zero() -> None:
    x, zero = leaf(4, 5), ir.const(0, "float32")
    mask = ir.map("gt", x, zero)
    r, one = ir.map("relu", x), ir.const(1, "float32")
    for n in (r, ir.map("where", mask, x, zero), ir.map("where", mask, zero, x), ir.map("maximum", x, zero),
              ir.permute(r, (1, 0)), r * ir.map("exp", x), r / 2,
              ir.map("minimum", ir.map("maximum", x, zero), 6), ir.map("where", mask, one, r), ir.map("sqrt", r)):
        assert sparsity.often_zero(n)
    for n in (x, ir.map("exp", x), ir.map("where", mask, x, one), ir.map("maximum", x, -one), r + 1,
              ir.map("minimum", r, -1), ir.map("exp", r), 1 / r):
        assert not sparsity.often_zero(n)


@pytest.mark.parametrize("shape, why", [((64, 16, 64), "columns are few"), ((8, 256, 64), "rows are few"),
                                        ((64, 256, 2000), "a depth whose factors no stack holds")])
def test_left_as_it_is(shape: tuple[int, int, int], why: str) -> None:
    """Products for which it would not pay."""
    rows, columns, depth = shape
    x, b = ir.input(0, (rows, depth), "float32"), ir.input(1, (depth, columns), "float32")
    a = ir.map("relu", x)
    exe = cpu.compiled(Program((x, b), (a, ir.dot(a, b, ((1,), (0,)))), ()))
    assert "_dense(" not in exe.report.source, why


def test_where_vectors_are_split_zeros_are_left_out_of_more_factors() -> None:
    """A processor that multiplies no more vectors in a cycle than it loads takes little longer for a step of a row than
    for one of a tile; sums that go through memory after each word of 64 steps take their time there as well."""
    short, long = ([sparsity.pays(depth, 8, 16, 2, 128, split=split) for split in (False, True)]
                   for depth in (64, 128))
    assert 0.5 < short[0] < short[1] < 1 and 0.5 < long[0] < long[1] < 1
    assert short[1] - long[1] > 0.05
