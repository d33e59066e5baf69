"""Operators that order elements or read at places, in programs for any size: one program for all sizes gives what plain
Python gives."""
from __future__ import annotations

from typing import Any

import numpy
import pytest

from hybrid import hybridize, nd
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
    "scattered": _case(lambda x, y: nd.scatter_nd(x, y.expand_dims(0), shape=(9,)), ("n",), ("n",), places=(1,)),
}


@pytest.mark.parametrize("name", CASES)
def test_places_at_any_size(name: str) -> None:
    function, shapes, places, sizes = CASES[name]
    compiled, draw = hybridize(function), numpy.random.RandomState(3)
    for n in sizes:
        real = [tuple({"n": n, "m": n + 1}.get(d, d) for d in s) for s in shapes]
        given = [nd.array(draw.randint(0, 2, s) if i in places else draw.randn(*s) * 4) for i, s in enumerate(real)]
        found = compiled(*given)
        with eagerly():
            wanted = function(*given)
        for a, b in zip(*(x if isinstance(x, (list, tuple)) else [x] for x in (found, wanted)), strict=True):
            assert a.dtype == b.dtype
            numpy.testing.assert_array_equal(a.asnumpy(), b.asnumpy(), str(n))
    assert len(compiled.programs) <= 2, compiled._engine._any_size.why
