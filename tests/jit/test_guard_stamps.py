"""What guards take for the same value: nothing that a trace can tell apart, and all that it cannot."""
from __future__ import annotations

import types

import numpy as onp
import pytest

from hybrid import autograd, hybridize, nd, np
from hybrid.jit import free_variables

X = nd.array([1.0])


@pytest.mark.parametrize("old, new, dtype", [((2,), (2.0,), "int32"), ((0.0,), (-0.0,), "float32"),
                                             ((1,), (True,), "int8"), ((1, (2,)), (1, (2.0,)), "int32")], ids=str)
def test_tuples_of_equal_numbers_of_other_kinds(old, new, dtype):
    """In a tuple, too, an equal number of another type or sign is another value."""
    holder = types.SimpleNamespace()

    def last(x):
        value = holder.pair[-1]
        return x * (value[-1] if isinstance(value, tuple) else value)

    compiled, x = hybridize(last), np.array([1, 2, 3], dtype=dtype)
    for holder.pair in (old, old, new, old, tuple(new)):
        got, wanted = compiled(x).asnumpy(), last(x).asnumpy()
        assert got.dtype == wanted.dtype
        onp.testing.assert_array_equal(onp.signbit(got), onp.signbit(wanted))
        onp.testing.assert_array_equal(got, wanted)


def test_equal_answers_leave_the_stamp(monkeypatch):
    """If a place gives a new but equal object at every call, the guard's stamp is not computed anew."""
    names, asked = {"a", "b"}, []

    @hybridize
    def f(x):
        return x * 2 + len(names)

    f(X)
    stamp_of = free_variables.Guard.stamp_of
    monkeypatch.setattr(free_variables.Guard, "stamp_of", lambda self, v: asked.append(1) or stamp_of(self, v))
    for _ in range(3):
        with autograd.record():
            assert f(X).asscalar() == 4.0
    before = len(asked)
    for _ in range(5):
        with autograd.record():
            assert f(X).asscalar() == 4.0
    assert len(asked) == before
    names.add("c")
    assert f(X).asscalar() == 5.0
