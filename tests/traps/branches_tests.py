"""Tests of values while tracing: if, while, isinstance, match, exceptions that are swallowed."""
from __future__ import annotations

import contextlib
import functools

import numpy as onp

import hybrid as mx
from hybrid import nd

from .tools import arr, trap


def signs(f):
    """A function of one array, called on positive, negative, positive and zero ones."""
    for v in (1., -1., 2., 0.):
        yield f(arr(v))


@trap
def if_sum(H):
    yield from signs(H(lambda x: x * 2 if x.sum() > 0 else x * 3))


@trap
def if_truth(H):
    yield from signs(H(lambda x: x * 2 if x else x * 3))


@trap
def if_not(H):
    yield from signs(H(lambda x: x * 2 if not x else x * 3))


@trap
def and_or(H):
    yield from signs(H(lambda x: (x > 0) and (x * 2) or (x * 3)))


@trap
def if_item(H):
    yield from signs(H(lambda x: x * 2 if x.asscalar() > 0 else x * 3))


@trap
def if_float(H):
    yield from signs(H(lambda x: x * (2 if float(x) > 0 else 3)))


@trap
def if_numpy(H):
    yield from signs(H(lambda x: x * (2 if x.asnumpy()[0] > 0 else 3)))


@trap
def if_tolist(H):
    yield from signs(H(lambda x: x * (2 if x.asnumpy().tolist()[0] > 0 else 3)))


@trap
def comparison_chain(H):
    yield from signs(H(lambda x: x * 2 if 0 < x < 2 else x * 3))


@trap
def assert_positive(H):
    @H
    def f(x):
        assert x.sum() >= 0, "negative"
        return x + 1
    yield f(arr(1.))
    yield f(arr(-1.))


@trap
def while_value(H):
    @H
    def f(x):
        while x.sum() < 10:
            x = x * 2
        return x
    for v in (1., 3., 20.):
        yield f(arr(v))


@trap
def range_of_value(H):
    @H
    def f(x, n):
        for _ in range(int(n.asscalar())):
            x = x + 1
        return x
    for n in (1, 3, 2):
        yield f(arr(0.), arr(n, dtype="int32"))


@trap
def range_of_index(H):
    @H
    def f(x, n):
        for _ in range(n):
            x = x + 1
        return x
    for n in (1, 3, 2):
        yield f(arr(0.), n)
    yield f(arr(0.), arr(2, dtype="int32"))


@trap
def loop_over_rows(H):
    @H
    def f(x):
        out = 0
        for i, row in enumerate(x):
            out = out + row * (i + 1)
        return out
    yield f(nd.ones((2, 3))), f(nd.ones((4, 3))), f(nd.ones((2, 3)))


@trap
def unpacked(H):
    @H
    def f(x):
        a, b = x
        return a - b
    yield f(arr(5., 3.)), f(arr(1., 2.))
    yield f(arr(1., 2., 3.))


@trap
def starred(H):
    @H
    def f(x):
        first, *rest = x
        return first + sum(rest) * len(rest)
    yield f(arr(5., 3.)), f(arr(1., 2., 3.)), f(arr(5., 3.))


@trap
def membership(H):
    yield from signs(H(lambda x: x * 2 if 1. in x else x * 3))


@trap
def member_of_list(H):
    a = arr(1.)
    yield from signs(H(lambda x: x * 2 if x in [a] else x * 3))


@trap
def equality_of_arrays(H):
    yield from signs(H(lambda x: x * 2 if x == arr(1.) else x * 3))


@trap
def equal_to_none(H):
    f = H(lambda x, m=None: x * 2 if m == None else x * m)  # noqa: E711  the trap
    yield f(arr(1.)), f(arr(1.), arr(5.)), f(arr(1.), None)


@trap
def isinstance_array(H):
    f = H(lambda x: x * 2 if isinstance(x, nd.NDArray) else x * 3)
    yield f(arr(1.)), f(arr(1.))


@trap
def isinstance_mx_nd(H):
    f = H(lambda x: x * 2 if isinstance(x, mx.nd.NDArray) else x * 3)
    yield f(arr(1.))


@trap
def isinstance_symbol(H):
    f = H(lambda x: x * 2 if isinstance(x, mx.sym.Symbol) else x * 3)
    yield f(arr(1.))


@trap
def type_is(H):
    f = H(lambda x: x * 2 if type(x) is nd.NDArray else x * 3)
    yield f(arr(1.))


@trap
def type_name(H):
    f = H(lambda x: x * len(type(x).__name__))
    yield f(arr(1.))


@trap
def hasattr_asnumpy(H):
    f = H(lambda x: x * 2 if hasattr(x, "asnumpy") else x * 3)
    yield f(arr(1.))


@trap
def hasattr_absent(H):
    f = H(lambda x: x * 2 if hasattr(x, "list_outputs") else x * 3)
    yield f(arr(1.))


@trap
def hasattr_shape(H):
    f = H(lambda x: x * 2 if hasattr(x, "shape") else x * 3)
    yield f(arr(1.))


@trap
def match_type(H):
    @H
    def f(x):
        match x:
            case float() | int():
                return x * 3
            case nd.NDArray():
                return x * 2
        return x
    yield f(arr(1.)), f(2.)


@trap
def singledispatch(H):
    @functools.singledispatch
    def scale(x):
        return x * 3

    @scale.register
    def _(x: nd.NDArray):
        return x * 2
    f = H(lambda x: scale(x) + 1)
    yield f(arr(1.)), f(arr(2.))


@trap
def swallowed_truth(H):
    @H
    def f(x):
        try:
            if x.sum() > 0:
                return x * 2
            return x * 5
        except Exception:  # noqa: BLE001
            return x * 3
    yield from signs(f)


@trap
def swallowed_float(H):
    @H
    def f(x):
        try:
            k = float(x.sum())
        except (TypeError, ValueError):
            k = 7.
        return x * k
    yield from signs(f)


@trap
def swallowed_bare(H):
    @H
    def f(x):
        try:
            n = int(x.sum())
        except:  # noqa: E722
            n = 7
        return x * n
    yield from signs(f)


@trap
def swallowed_suppress(H):
    @H
    def f(x):
        k = 3
        with contextlib.suppress(Exception):
            k = x.asscalar()
        return x * k
    yield from signs(f)


@trap
def swallowed_in_finally(H):
    @H
    def f(x):
        try:
            return x * float(x)
        finally:
            return x * 3  # noqa: B012
    yield from signs(f)


@trap
def swallowed_in_helper(H):
    def number(v):
        try:
            return v.asscalar()
        except Exception:  # noqa: BLE001
            return None

    @H
    def f(x):
        k = number(x)
        return x if k is None else x * (k + 1)
    yield from signs(f)


@trap
def swallowed_by_getattr_default(H):
    f = H(lambda x: x * 2 if getattr(x, "no_such_thing", None) is None else x)
    yield from signs(f)


@trap
def numpy_function_swallowed(H):
    @H
    def f(x):
        try:
            return x * float(onp.max(x.asnumpy()))
        except mx.base.MXNetError:
            return x * 3
    yield from signs(f)
