"""Operators that order elements or read at places, in programs for any size: one program for all sizes gives what plain
Python gives."""
from __future__ import annotations

from typing import Any

import numpy
import pytest

from hybrid import HybridError, autograd, hybridize, nd, np
from hybrid.jit.compile_policy import eagerly

SIZES = (5, 9, 2, 7, 41, 100, 3)
LONG = (50, 41, 4100, 2, 97)                             # around forms of sorting


def _case(function: Any, *shapes: tuple[Any, ...], places: Any = (), sizes: Any = SIZES) -> Any:
    """shapes: of the arguments, where "n" is a size and "m" one more. places: numbers of arguments that are places."""
    return function, shapes, places, sizes


CASES = {
    "rows in order": _case(lambda x: [nd.argsort(x, axis=1), nd.sort(x, axis=0, is_ascend=False)], ("n", "m")),
    "all in order": _case(lambda x: nd.sort(x, axis=None), ("n", "m")),
    "many rows": _case(lambda x: [nd.argsort(x, axis=1), nd.argsort(nd.cast(x, "float64"), axis=1, is_ascend=False)],
                       (9, "n"), sizes=LONG),
    "few rows": _case(lambda x: [nd.argsort(x, axis=1), nd.argsort(nd.cast(x, "int32"), axis=1, is_ascend=False)],
                      (2, "n"), sizes=LONG),
    "equal elements": _case(lambda x: nd.argsort(nd.round(x), axis=1), (20, "n"), sizes=LONG),
    "the first of rows": _case(lambda x: nd.topk(x, axis=1, k=2, ret_typ="both"), ("n", "m")),
    "the first of many rows": _case(lambda x: nd.topk(x, axis=1, k=2, ret_typ="both"), (40, "n"), sizes=LONG[:-2]),
    "mask of the first": _case(lambda x: nd.topk(x, axis=1, k=2, ret_typ="mask"), ("n", "m")),
    "places": _case(lambda x, y: [nd.take(x, y), nd.take(x, y, axis=1, mode="wrap"), nd.pick(x, y),
                                  nd.batch_take(x, y)], ("n", "m"), ("n",), places=(1,)),
    "the last of sequences": _case(lambda x, y: nd.SequenceLast(x, y, use_sequence_length=True), ("m", "n", 3), ("n",),
                                   places=(1,)),
    "the sizes": _case(lambda x: [nd.shape_array(x), nd.size_array(x)], ("n", "m")),
    "checked places": _case(lambda x, y: [nd.gather_nd(x, nd.stack(y, y)), x[y] * 1, nd.take(x, y, mode="raise")],
                            ("n", "m"), ("n",), places=(1,)),
    "small integers": _case(lambda x, y: nd.gather_nd(x, nd.cast(y, "int8").expand_dims(0)), ("n",), (3,), places=(1,),
                            sizes=(*SIZES, 300)),
    "scattered": _case(lambda x, y: nd.scatter_nd(x, y.expand_dims(0), shape=(9,)), ("n",), ("n",), places=(1,)),
}


def _results(function: Any, given: list[nd.NDArray], recorded: bool) -> list[numpy.ndarray]:
    if not recorded:
        found = function(*given)
        return [x.asnumpy() for x in (found if isinstance(found, (list, tuple)) else [found])]
    for x in given:
        x.attach_grad()
    with autograd.record():
        found = function(*given)
        loss = sum((x.astype("float32") ** 2).sum() for x in (found if isinstance(found, (list, tuple)) else [found]))
    loss.backward()
    return [x.grad.asnumpy() for x in given]


@pytest.mark.parametrize("recorded", (False, True))
@pytest.mark.parametrize("name", CASES)
def test_places_at_any_size(name: str, recorded: bool) -> None:
    function, shapes, places, sizes = CASES[name]
    compiled, draw = hybridize(function), numpy.random.RandomState(3)
    for n in sizes:
        real = [tuple({"n": n, "m": n + 1}.get(d, d) for d in s) for s in shapes]
        given = [nd.array(draw.randint(0, 2, s) if i in places else draw.randn(*s) * 4) for i, s in enumerate(real)]
        found = _results(compiled, given, recorded)
        with eagerly():
            wanted = _results(function, given, recorded)
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            numpy.testing.assert_allclose(a, b, 1e-5 if recorded else 0, err_msg=str(n))
    assert len(compiled.programs) <= 2, compiled._engine._any_size.why


def test_an_index_out_of_range_is_named_with_the_size_of_its_call() -> None:
    function = hybridize(lambda x, y: nd.gather_nd(x, y))
    for n in (5, 9, 7, 12, 5, 9):
        for _ in range(3):
            assert function(nd.arange(n), nd.array([[n - 1]])).asscalar() == n - 1
            with pytest.raises(HybridError, match=f"index {n} is out of range for an axis of length {n}"):
                function(nd.arange(n), nd.array([[n]]))
    assert len(function.programs) <= 2


LINALG = {
    "factor": (nd.linalg.potrf, 0), "inverse": (nd.linalg.inverse, 0), "determinant": (nd.linalg.det, 0),
    "triangular": (lambda a, b: nd.linalg.trsm(nd.linalg.potrf(a), b), 1),
    "from its factor": (lambda a: nd.linalg.potri(nd.linalg.potrf(a)), 0),
    "likelihood": (lambda a, b: nd.linalg.sumlogdiag(nd.linalg.potrf(nd.linalg.syrk(b) + nd.eye(a.shape[0]))), 1),
}


@pytest.mark.parametrize("recorded", (False, True))
@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra_at_any_size(name: str, recorded: bool) -> None:
    (function, more), draw = LINALG[name], numpy.random.RandomState(3)
    compiled = hybridize(function)
    for n in (5, 9, 2, 7, 12, 3):
        x = draw.randn(n, n)
        given = [nd.array(x @ x.T / n + numpy.eye(n)), *([nd.array(draw.randn(n, 3))] * more)]
        found = _results(compiled, given, recorded)
        with eagerly():
            wanted = _results(function, given, recorded)
        for a, b in zip(found, wanted, strict=True):
            numpy.testing.assert_allclose(a, b, 2e-4, 2e-4, err_msg=str(n))
    assert len(compiled.programs) <= 2, compiled._engine._any_size.why


def test_results_are_views_at_any_size() -> None:
    """Of an argument, and of another result: what is written into one of them is seen in the others."""
    of_argument = hybridize(lambda x: (x[1:3], x.reshape((-1,)), x[x.shape[0] // 2], x * 2))
    of_result = hybridize(lambda x: (lambda y: (y, y[1:], y.reshape((-1,))))(x * 2))
    for n in SIZES:
        x = nd.arange(4 * n).reshape((n, 4))
        rows, every, middle, double = of_argument(x)
        rows[:] = -1
        assert (x[1:3] == -1).asnumpy().all() and (every[4:4 * min(n, 3)] == -1).asnumpy().all()
        every[:] = 3
        assert (x == 3).asnumpy().all() and (middle == 3).asnumpy().all()
        assert double.asnumpy()[-1, -1] == 2 * (4 * n - 1)
        y, part, whole = of_result(x)
        part[:] = 7
        assert (y[1:] == 7).asnumpy().all() and (whole[4:] == 7).asnumpy().all() and (whole[:4] == 6).asnumpy().all()
    assert len(of_argument.programs) <= 3 and len(of_result.programs) <= 2


NUMPY: dict[str, Any] = {
    "order statistics": lambda x: (np.median(x, axis=0), np.percentile(x, 30, axis=1), np.quantile(x, 0.6)),
    "counted": lambda x: (np.histogram(x, 5, (-3, 3))[0], np.searchsorted(np.sort(x[0]), np.array([-1.0, 0, 1]))),
    "along an axis": lambda x: np.take_along_axis(x, np.argsort(x, axis=0), 0),
    "diagonal": lambda x: x[np.arange(x.shape[0]), np.arange(x.shape[0])],
    "columns": lambda x: (x[:, [0, 2]], x[[1, 0]], x[:, [-1, 0]], x[..., np.array([0, 1]), None]),
}


@pytest.mark.parametrize("name", NUMPY)
def test_numpys_functions_at_any_size(name: str) -> None:
    function, draw = NUMPY[name], numpy.random.RandomState(3)
    compiled = hybridize(function)
    for n in (5, 9, 7, 4, 12, 33):
        x = np.array(draw.randn(n, n + 1), dtype="float32")
        found = compiled(x)
        with eagerly():
            wanted = function(x)
        for a, b in zip(*(y if isinstance(y, (list, tuple)) else [y] for y in (found, wanted)), strict=True):
            assert a.dtype == b.dtype
            numpy.testing.assert_allclose(a.asnumpy(), b.asnumpy(), 1e-5, 1e-6, err_msg=str(n))
    assert len(compiled.programs) <= 2, compiled._engine._any_size.why
