"""Every function, method and operator of ``np`` against NumPy, on calls made from a table of argument forms. What
differs is listed with MXNet 1.9.1's answer, in data and in docs/numpy.md (``tests.numpy.np_differences``)."""
from __future__ import annotations

from typing import Any

import numpy as onp
import pytest

from hybrid import hybridize, np
from tests.numpy import np_differences as table
from tests.numpy.np_answers import answer, described, difference

LISTED = table.load()
pytestmark = pytest.mark.skipif(
    tuple(map(int, onp.__version__.split(".")[:2])) != tuple(map(int, LISTED["numpy"].split(".")[:2])),
    reason=f"the table was made with NumPy {LISTED['numpy']}; "
           "python -m tests.numpy.np_differences --write makes it anew")


def test_calls_answer_as_numpy_or_as_the_table_says() -> None:
    found = {call: kind for call, (_, kind, _, _) in table.measured().items()}
    listed = {call: row[1] for call, row in LISTED["calls"].items()}
    assert found == listed, "run python -m tests.numpy.np_differences --write where a difference is meant to stay"


def test_every_difference_has_mxnets_answer_and_a_reason() -> None:
    for call, row in LISTED["calls"].items():
        assert row[4] and row[5], call
        assert row[5] != "mxnet" or row[4].split()[0] == row[2].split()[0] or "Error" in row[2], call


def test_numpys_parameters_are_taken_by_name() -> None:
    assert table.missing() == LISTED["missing"]


def test_the_page_is_made_of_the_data() -> None:
    assert table.PAGE.read_text() == table.page(), "run python -m tests.numpy.np_differences --write"


def test_compiled_calls_answer_as_eager_ones() -> None:
    found = table.compiled()
    wrong = {call: kind for call, value in found.items() if (kind := difference(described(value), table.ours(call)))}
    assert not wrong and len(found) > 220
    assert table.eager_alone() == LISTED["eager"], "run python -m tests.numpy.np_differences --write"


# ---- what the comparison found, one by one
def test_nan_stays_in_order_statistics() -> None:
    x = np.array([2, onp.nan, 1, 4])
    for call in (lambda v: np.percentile(v, 50), lambda v: np.quantile(v, 0.2), np.median):
        for run in (call, hybridize(call)):
            assert onp.isnan(run(x).item())
    assert hybridize(lambda v: np.percentile(v, 50, axis=1))(np.array([[1, 3], [onp.nan, 1]])).tolist()[0] == 2


def test_an_integer_array_refuses_fractions_in_place() -> None:
    def add(x: Any) -> Any:
        x += 0.5
        return x
    for run in (add, hybridize(add)):
        with pytest.raises(TypeError, match="test_np_numpy.py.*cannot hold the fractions"):
            run(np.array([1, 2], dtype="int32"))
        assert run(np.array([1, 2], dtype="float16")).dtype == "float16"


def test_a_program_sorts_in_place() -> None:
    def ordered(x: Any) -> Any:
        y = x * 1
        assert y.sort() is None
        return y
    x = np.array([3, 1, 2])
    assert ordered(x).tolist() == hybridize(ordered)(x).tolist() == [1, 2, 3]


def test_order_of_columns() -> None:
    x, raw = np.arange(6).reshape(2, 3), onp.arange(6).reshape(2, 3)
    for call in (lambda v: v.reshape(3, 2, order="F"), lambda v: v.flatten("F"), lambda v: v.ravel(order="F")):
        assert call(x).tolist() == hybridize(call)(x).tolist() == call(raw).tolist()
    with pytest.raises(ValueError, match="order must be"):
        x.reshape(6, order="Z")


def test_memory_is_shared_by_views_and_memoryviews() -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    memory = x.data
    memory[0, 1] = 9
    x.view()[1, 2] = 7
    assert x.tolist() == [[0, 9, 2], [3, 4, 7]] and np.asarray(x) is x and np.array(x) is not x
    with pytest.raises(TypeError, match="astype"):
        x.view("int32")


def test_answers_are_compared_by_dtype_shape_value_and_error() -> None:
    x = onp.array([1.0, 2.0], "float32")
    for other, kind in ((x, ""), (x.astype("float64"), "dtype"), (x[None], "shape"), (x + 1, "values"), ([x], "type")):
        assert difference(described(other), described(x)) == kind
    wrong = answer("onp.zeros(-1)", onp, lambda a: a)
    assert difference(wrong, described(x)) == "error" and difference(["error", "KeyError", ["KeyError"]],
                                                                     wrong) == "class of error"
