"""The whole table of tensor operators as CUDA: every row, forward and backward, in three orders of threads.

Many rows are one program, so that a compiler is started once for all of them. conftest.py has every generated text
compiled for real GPUs too.
"""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest

from hybrid.base import dtype as dt
from hybrid import ir
from hybrid.ops import registry
from hybrid.passes.differentiate import vjp_program
from hybrid.runtime import reference

from .cuda_tools import run_program
from ..ops.op_cases_index import CASES, Case

CHUNK = 40
STARTS = range(0, len(CASES), CHUNK)
pytestmark = pytest.mark.usefixtures("cuda_device")


def joined(cases: Sequence[Case], wide: bool) -> tuple[ir.Program, list[np.ndarray], list[int]]:
    """Rows as one program, its inputs, and the row of each output. wide: floats as float64."""
    leaves: list[ir.Node] = []
    arrays: list[np.ndarray] = []
    outputs: list[ir.Node] = []
    owner: list[int] = []
    for number, c in enumerate(cases):
        d = registry.find(c.name)
        xs = [x.astype(np.float64) if wide and dt.is_float(x.dtype) else x for x in c.inputs]
        own = [ir.input(len(leaves) + k, x.shape, x.dtype) for k, x in enumerate(xs)]
        given = {**c.attrs, **({d.arity_attr: len(own)} if d.arity_attr else {})}
        padded: list[Any] = own if d.variadic else own + [None] * (len(d.inputs) - len(own))
        results = d.lower(padded, d.parse(given)).outputs
        leaves, arrays, outputs = leaves + own, arrays + xs, [*outputs, *results]
        owner += [number] * len(results)
    return ir.Program(tuple(leaves), tuple(outputs)), arrays, owner


def close(got: np.ndarray, expected: np.ndarray, tol: float, what: str) -> None:
    """Same shape and dtype; values within tol of each other, relative to the largest."""
    assert (got.shape == expected.shape and got.dtype
            == expected.dtype), f"{what}: {got.dtype}{got.shape}, not {expected.dtype}{expected.shape}"
    if not dt.is_float(expected.dtype):
        return np.testing.assert_array_equal(got, expected, err_msg=what)
    a, b = got.astype(np.float64), expected.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol * max(1.0, finite.max(initial=0.0)), err_msg=what)


@pytest.mark.parametrize("start", STARTS)
def test_values(start: int) -> None:
    """Values, shapes and dtypes are NumPy's."""
    cases = CASES[start:start + CHUNK]
    program, arrays, owner = joined(cases, False)
    expected = [e for c in cases for e in c.expected()]
    for order, got, _ in run_program(program, arrays):
        assert len(got) == len(expected)
        for g, e, k in zip(got, expected, owner):
            close(g, e, max(cases[k].tol, 1e-5), f"{order}, row {start + k}: {cases[k].name} {cases[k].attrs}")


@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("start", STARTS)
def test_gradients(start: int, wide: bool) -> None:
    """Backward programs give what the reference gives (which other tests hold to central differences)."""
    cases = [c for c in CASES[start:start + CHUNK] if any(dt.is_float(x.dtype) for x in c.inputs)]
    if not cases:
        pytest.skip("no row of this part has a gradient")
    program, arrays, owner = joined(cases, wide)
    wrt = tuple(k for k, x in enumerate(arrays) if dt.is_float(x.dtype))
    of = [number for number, c in enumerate(cases) for x in c.inputs if dt.is_float(x.dtype)]
    rng = np.random.default_rng(5)
    heads = [np.asarray(rng.standard_normal(n.shape) if dt.is_float(n.dtype) else np.ones(n.shape)).astype(n.dtype)
             for n in program.outputs]
    back = vjp_program(program, wrt)
    with np.errstate(all="ignore"):
        expected = [np.asarray(e) for e in reference.run(back, [*arrays, *heads], np)[0]]
    for order, got, _ in run_program(back, [*arrays, *heads]):
        for g, e, k in zip(got, expected, of):
            tol = {2: 4e-3, 4: 2e-5, 8: 1e-10}[e.dtype.itemsize]
            close(g, e, tol, f"{order}, gradient of {cases[k].name} {cases[k].attrs}")


@pytest.mark.parametrize(("n", "m", "rows"), [(1, 1, 1), (5, 3, 2), (17, 1, 1), (40, 40, 2)])
def test_systems_and_inverses(n: int, m: int, rows: int) -> None:
    """Threads that share a matrix wait for each other's rows and columns."""
    r = np.random.default_rng(n)
    a = (r.normal(size=(rows, n, n)) + 3 * np.eye(n)).astype(np.float32)
    b = r.normal(size=(rows, n, m)).astype(np.float32)
    for name, given in (("_npi_solve", [a, b]), ("_linalg_inverse", [a])):
        d = registry.find(name)
        program = d.program([x.shape for x in given], [x.dtype for x in given], d.parse({}))
        want = np.linalg.solve(a, b) if name == "_npi_solve" else np.linalg.inv(a)
        for _, found, _ in run_program(program, given):
            np.testing.assert_allclose(found[0], want, rtol=2e-3, atol=2e-4)
