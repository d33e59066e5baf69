"""Properties of scalar functions, columns of their table (hybrid/ir/scalar.py): what they say is so."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid.ir.scalar import EACH, SCALARS, Scalar

POINTS = np.sort(np.concatenate([np.linspace(-3, 3, 241), [-0.5, 0.5, 0.0], np.linspace(-90, 90, 61)]))


def rows(column: str) -> list[Scalar]:
    return [row for row in SCALARS.values() if getattr(row, column)]


def named(row: Scalar) -> str:
    return row.name


@pytest.mark.parametrize("row", [r for r in SCALARS.values() if r.arity == 1 and r.rule != "int"], ids=named)
def test_zero_at_zero(row: Scalar) -> None:
    with np.errstate(all="ignore"):
        assert row.zero == (row.rule != "bool" and bool(row.np(np, np.zeros(1))[0] == 0)), row.name


@pytest.mark.parametrize("row", rows("monotone"), ids=named)
def test_monotone(row: Scalar) -> None:
    with np.errstate(all="ignore"):
        assert (np.diff(row.np(np, POINTS)) >= -1e-12).all()


@pytest.mark.parametrize("row", rows("exact"), ids=named)
def test_exact_functions_of_halves_give_halves(row: Scalar) -> None:
    halves = POINTS.astype(np.float16).astype(np.float64)
    args = [halves > 0, halves, -halves][3 - row.arity:] if row.rule == "select" else [halves, halves[::-1]][:row.arity]
    out = np.asarray(row.np(np, *args))
    assert np.array_equal(out, out.astype(np.float16).astype(out.dtype))


@pytest.mark.parametrize("row", rows("vector"), ids=named)
def test_vector_forms_take_the_arguments_of_the_function(row: Scalar) -> None:
    for wide in (False, True):
        form = row.of_vectors(wide)
        assert not form or form != EACH and all(f"<{i}>" in form.format("<0>", "<1>", "<2>") for i in range(row.arity))
