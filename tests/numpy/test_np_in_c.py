"""NumPy's own functions are called through C (kernels/c/launcher_numpy.h): they give what they give through Python, or
are left to it."""
from __future__ import annotations

import gc
import sys
from typing import Any, Callable, Iterator

import numpy as onp
import pytest

from hybrid import autograd, hybridize, nd, np
from hybrid.autograd import known_calls
from hybrid.base.errors import HybridError
from hybrid.runtime import launcher


@pytest.fixture(autouse=True)
def in_c() -> Iterator[Callable[..., Any]]:
    """The function in C, which calls use."""
    if launcher.load() is None or known_calls.WARNINGS is None:
        pytest.skip("needs Python's headers, a compiler, and NumPy 2")
    known_calls.switch_to_c()
    kept = list(known_calls.NUMPY_IN_C)
    assert kept
    yield kept[0]
    known_calls.NUMPY_IN_C[:] = kept


def arrays() -> tuple[Any, Any, Any]:
    """Floats, other floats, whole numbers."""
    return (np.array([[1.5, -2.0, 0.0], [3.0, float("nan"), -0.0]]), np.array([[0.5, 2.0, 1.0]] * 2),
            np.array([2, 0, 1], dtype="int64"))


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a universal function": lambda x, y, i: np.fmax(x, y),
    "with a number": lambda x, y, i: np.heaviside(x, 0.5),
    "of whole numbers": lambda x, y, i: np.exp2(i),
    "by name": lambda x, y, i: np.nanargmax(y, axis=1),
    "two results": lambda x, y, i: np.frexp(x),
    "a list of arrays": lambda x, y, i: np.lexsort((y[0], i)),
    "arrays in a list": lambda x, y, i: np.block([[x, y], [y, x]]),
    "a number": lambda x, y, i: np.nanmax(y),
    "a truth value": lambda x, y, i: np.array_equal(x, y),
    "its own argument": lambda x, y, i: np.real(x),
    "a view": lambda x, y, i: np.real(x[:, 1:]),
    "a transposed view": lambda x, y, i: np.matrix_transpose(x) if hasattr(np, "matrix_transpose") else np.real(x),
    "a dtype": lambda x, y, i: np.nansum(x, dtype="float64"),
    "a dtype's class": lambda x, y, i: np.nansum(x, dtype=onp.float64),
    "complex numbers": lambda x, y, i: np.roots(y[0]),
    "a named tuple": lambda x, y, i: tuple(np.unique_counts(i)) if hasattr(onp, "unique_counts") else np.real(i),
    "an empty array": lambda x, y, i: np.spacing(x[:0]),
    "a slice": lambda x, y, i: np.signbit(x[0, ::2]),
    "searching": lambda x, y, i: np.searchsorted(y[0], y[1], side="right"),
}


def told(found: Any) -> Any:
    """A result as what can be compared."""
    if isinstance(found, (tuple, list)):
        return type(found), [told(f) for f in found]
    if isinstance(found, (nd.NDArray, onp.ndarray)):
        raw = found.asnumpy() if isinstance(found, nd.NDArray) else found
        return type(found), raw.dtype, raw.shape, raw.tobytes()
    return type(found), found


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_python(name: str) -> None:
    call = CALLS[name]
    x, y, i = arrays()
    before = told((x, y, i))
    found = told(call(x, y, i))
    known_calls.NUMPY_IN_C.clear()
    assert found == told(call(x, y, i)) and told((x, y, i)) == before


@pytest.mark.parametrize("dtype", "float32 float64 float16 int8 int64 uint8 bool".split())
def test_numbers_beside_arrays(dtype: str) -> None:
    """They are of the array's dtype where they fit in there, through C as through Python."""
    x = np.array([[1, 0, 3], [5, 1, 100]]).astype(dtype)

    def results() -> list[Any]:
        found = []
        for n in (2, 2.5, True, -1, 0, float("nan"), float("-inf"), -0.0):
            for call in (lambda: np.where(x > 1, x, n), lambda: np.where(x, n, x), lambda: np.divmod(x, n),
                         lambda: divmod(n, x)):
                try:
                    found.append(told(call()))
                except (OverflowError, TypeError, ValueError) as err:
                    found.append(repr(err))
        return found
    here = results()
    known_calls.NUMPY_IN_C.clear()
    assert here == results()


def test_results_are_the_callers_own() -> None:
    """Where NumPy gives its argument back, that is copied, however large it is."""
    for x in (np.ones((2, 3)), np.ones((100, 1000))):
        for found in (np.real(x), np.real(x[1:]), np.fmax(x, x)):
            found[:] = 5
            assert float(x.sum()) == x.size


def test_nobody_writes_into_arguments() -> None:
    x, seen = np.ones(3), []
    np.apply_along_axis(lambda row: seen.append(row.flags.writeable) or row, 0, x)
    assert seen and not any(seen)
    with pytest.raises(ValueError, match="read-only"):
        known_calls.NUMPY_IN_C[0](onp.ndarray.sort, (x,), {}, np.ndarray, False, None)


def test_most_calls_go_through_c() -> None:
    """And what C does not do is asked of Python: recorded and traced calls, ``out=``, arrays of others, too many."""
    asked: list[Any] = []
    real = known_calls.NUMPY_IN_C[0]
    known_calls.NUMPY_IN_C[:] = [lambda *a: asked.append(real(*a)) or asked[-1]]
    x, y, _ = arrays()
    np.fmax(x, y)
    assert asked and asked[-1] is not NotImplemented
    out = np.zeros((2, 3))
    assert np.fmax(x, y, out=out) is out and len(asked) == 1
    np.fmax(x, onp.ones((2, 3), "f")), np.fmax(1.0, 2.0)
    assert asked[1:] == [NotImplemented] * 4                  # NumPy's function asks again
    with pytest.raises(TypeError, match="takes 2 values"):
        np.fmax(x, y, out)
    x.attach_grad()
    with autograd.record(), pytest.raises(HybridError, match="no gradient flows"):
        np.spacing(x)
    assert asked[5:] == [NotImplemented]


def test_traced_calls_are_refused() -> None:
    f = hybridize(lambda x: np.i0(x))
    with pytest.raises(HybridError, match="cannot be compiled"):
        f(np.ones(3)), f(np.ones(3))


def test_errors_are_numpys_own() -> None:
    x, y, _ = arrays()
    with pytest.raises(ValueError, match="broadcast"):
        np.fmax(x, y[:, :2])
    with pytest.raises(TypeError):
        np.fmax(x, nonsense=3)


def test_nothing_is_kept() -> None:
    x, y, i = arrays()
    raw = x._data

    def rounds() -> int:
        for _ in range(200):
            np.fmax(x, y), np.frexp(x), np.real(x), np.lexsort((y[0], i)), np.nanargmax(y, axis=1)
            with pytest.raises(ValueError):
                np.fmax(x, y[:, :2])
        gc.collect()
        return sys.getrefcount(raw)
    assert rounds() == rounds()


def test_a_name_is_found_once_and_others_take_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function stands in the module from then on, and ``dir`` does not depend on it."""
    before = dir(np)
    assert np.fmax is np.fmax and vars(np)["fmax"] is np.fmax and dir(np) == before
    monkeypatch.setattr(np, "fmax", 3)
    assert np.fmax == 3


def test_a_list_within_itself_is_an_error() -> None:
    within: list[Any] = [np.ones((2,))]
    within.append(within)
    with pytest.raises((RecursionError, HybridError)):
        np.lexsort(within)
