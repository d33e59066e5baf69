"""Decompositions by the library's own kernels (kernels/include/rows_linalg.h), compiled, beside NumPy's in float64."""
from __future__ import annotations

from typing import Any, Callable

import numpy as onp
import pytest

from hybrid import hybridize, nd, np

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "inv": np.linalg.inv, "cholesky": np.linalg.cholesky, "slogdet": np.linalg.slogdet, "det": np.linalg.det}


def matrices(size: int, lead: tuple[int, ...], positive: bool) -> onp.ndarray:
    """Matrices whose rows change places when they are eliminated, or positive definite ones."""
    raw = onp.random.default_rng(size).normal(size=(*lead, size, size))
    if positive:
        return raw @ raw.swapaxes(-1, -2) + onp.eye(size)
    return (raw - 3 * onp.eye(size)[::-1]) / size ** 0.5         # determinants of float32 do not become infinite


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("size", "dtype"), [(1, "float32"), (17, "float32"), (40, "float64"), (67, "float32")])
def test_of_one_and_of_several_matrices(name: str, size: int, dtype: str) -> None:
    call = hybridize(FUNCTIONS[name], dynamic=False)
    for lead in ((), (3,)):
        raw = matrices(size, lead, name == "cholesky").astype(dtype)
        found = call(np.array(raw, dtype=dtype))
        wanted = getattr(onp.linalg, name)(raw.astype("float64"))
        for a, b in zip(found, wanted) if name == "slogdet" else [(found, wanted)]:
            assert a.dtype == dtype
            onp.testing.assert_allclose(a.asnumpy(), b, rtol=2e-3 if dtype == "float32" else 1e-9,
                                        atol=(2e-4 if dtype == "float32" else 1e-10) * onp.abs(b).max())
        if name == "cholesky":
            assert not onp.triu(found.asnumpy(), 1).any()


@pytest.mark.parametrize("columns", [0, 1, 19])
def test_solutions(columns: int) -> None:
    a = matrices(35, (), False)
    b = onp.random.default_rng(1).normal(size=(35, columns) if columns else (35,))
    found = hybridize(np.linalg.solve)(np.array(a, dtype="float64"), np.array(b, dtype="float64"))
    onp.testing.assert_allclose(found.asnumpy(), onp.linalg.solve(a, b), rtol=1e-9, atol=1e-10)


def test_what_has_none_is_an_error() -> None:
    a = matrices(20, (), True).astype("float32")
    a[7, 7] = -1
    for call in (hybridize(nd.linalg.potrf), hybridize(np.linalg.cholesky)):
        with pytest.raises(onp.linalg.LinAlgError, match="positive definite"):
            call(nd.array(a) if call.__name__ == "potrf" else np.array(a))
    a[:, 3], a[:, 5] = 0, 0
    with pytest.raises(onp.linalg.LinAlgError, match="singular"):
        hybridize(np.linalg.inv)(np.array(a))
    assert hybridize(np.linalg.det)(np.array(a)).asnumpy() == 0


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("columns", [1, 37])
def test_triangular_systems(transpose: bool, lower: bool, columns: int) -> None:
    a = (onp.tril if lower else onp.triu)(matrices(21, (), True))
    b = onp.random.default_rng(2).normal(size=(21, columns))
    found = hybridize(lambda x, y: nd.linalg.trsm(x, y, transpose=transpose, lower=lower))(
        nd.array(a, dtype="float64"), nd.array(b, dtype="float64"))
    onp.testing.assert_allclose(found.asnumpy(), onp.linalg.solve(a.T if transpose else a, b), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("triangle", "LU")
@pytest.mark.parametrize("scale", [1e-36, 1e-18, 1e-3, 1e12, 1e34])
def test_eigenvalues_of_tiny_and_huge_numbers(scale: float, triangle: str, dtype: str) -> None:
    """Squares of the elements are nothing or infinite in float32."""
    raw = (matrices(7, (2,), True) * scale).astype(dtype)
    raw[1] = onp.diag(onp.diag(raw[1]))
    w, v = hybridize(lambda x: np.linalg.eigh(x, triangle))(np.array(raw, dtype=dtype))
    wanted = onp.linalg.eigvalsh(raw.astype("float64"))
    onp.testing.assert_allclose(w.asnumpy(), wanted, rtol=0, atol=5e-6 * wanted.max())
    onp.testing.assert_allclose((v * w.expand_dims(1) / scale @ v.swapaxes(1, 2)).asnumpy(), raw / scale,
                                rtol=0, atol=2e-5 * raw.max() / scale)


@pytest.mark.parametrize("size", [2, 7, 40])
@pytest.mark.parametrize("value", [onp.nan, onp.inf])
@pytest.mark.parametrize("triangle", "LU")
def test_eigenvalues_of_what_is_not_finite_are_nan(size: int, value: float, triangle: str) -> None:
    raw = onp.stack([onp.eye(size, dtype="float32")] * 4)
    raw[1, 1, 0] = raw[2, 0, 1] = raw[3, 1, 1] = value
    for name in ("eigh", "eigvalsh"):
        def call(x: Any, name: str = name) -> Any:
            return getattr(np.linalg, name)(x, triangle)
        for f in (call, hybridize(call)):
            found = f(np.array(raw))
            for x in found if name == "eigh" else [found]:
                bad = onp.isnan(x.asnumpy()).reshape(4, -1)
                assert [*bad.all(1)] == [*bad.any(1)] == [False, triangle == "L", triangle == "U", True]
