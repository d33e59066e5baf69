"""Arguments, results and captured arrays that are one array; kinds of arguments and results."""
from __future__ import annotations

import functools
from collections import OrderedDict, namedtuple

import numpy as onp

from hybrid import nd

from .tools import arr, trap

Pair = namedtuple("Pair", "a b")


@trap
def one_array_as_two_arguments_then_two(H):
    f = H(lambda a, b: a * 2 + b)
    x, y = arr(1., 2.), arr(5., 6.)
    yield f(x, x)
    yield f(x, y)
    yield f(y, y)


@trap
def two_arguments_then_one_written(H):
    @H
    def f(a, b):
        a[0] = 10.
        return a + b
    x, y = arr(1., 2.), arr(5., 6.)
    yield f(x, y), x
    z = arr(1., 2.)
    yield f(z, z), z


@trap
def captured_is_argument(H):
    w = arr(3., 4.)

    @H
    def f(a):
        a += 1
        return a * w
    yield f(arr(1., 2.)), w
    yield f(w), w
    yield f(arr(1., 2.)), w


@trap
def captured_twice_by_two_names(H):
    w = arr(3., 4.)
    v = w

    @H
    def f(a):
        v[0] = a[0]
        return w * a
    yield f(arr(1., 2.)), v, w
    yield f(arr(5., 2.)), v, w


@trap
def captured_views_of_one(H):
    base = arr(1., 2., 3., 4.)
    left, right = base[:2], base[2:]

    @H
    def f(a):
        left[:] = a
        return base * 1 + right.sum()
    for k in range(3):
        yield f(arr(k, k + 1.)), base


@trap
def view_and_base_as_arguments(H):
    @H
    def f(v, whole):
        v[:] = v * 2
        return whole.sum()
    base = arr(1., 2., 3.)
    yield f(base[1:], base), base
    yield f(base[:1], base), base


@trap
def result_is_captured(H):
    w = arr(3., 4.)
    f = H(lambda a: (w, a + w))
    first, _ = f(arr(1., 1.))
    first[:] = 0
    yield first, w
    yield f(arr(1., 1.))[1]


@trap
def result_is_argument(H):
    f = H(lambda a, b: (b, a))
    x, y = arr(1.), arr(2.)
    p, q = f(x, y)
    p[:] = 9
    yield x, y, p, q


@trap
def results_are_views_of_result(H):
    @H
    def f(a):
        y = a * 2
        return y, y[0:1]
    y, v = f(arr(1., 2.))
    v[:] = 50
    yield y, v


@trap
def result_kept_while_called_again(H):
    f = H(lambda a: a * 2)
    kept = [f(arr(float(k))) for k in range(5)]
    yield kept


@trap
def result_fed_back(H):
    f = H(lambda a: a * 2 + 1)
    x = arr(1., 2.)
    for _ in range(4):
        x = f(x)
    yield x


@trap
def result_of_constant(H):
    f = H(lambda a: (a, nd.ones((2,)) * 3))
    _, c = f(arr(1., 2.))
    c[:] = 7
    yield f(arr(1., 2.))[1]


@trap
def result_none_and_nested(H):
    f = H(lambda a: {"x": [a, None, (a + 1, "text")], "n": 3})
    yield f(arr(1.))
    yield f(arr(2.))


@trap
def result_namedtuple(H):
    f = H(lambda a: Pair(a * 2, b=[a]))
    r = f(arr(1., 2.))
    yield type(r).__name__, r.a, r.b


@trap
def result_ordered_dict(H):
    f = H(lambda a: OrderedDict([("z", a), ("a", a * 2)]))
    yield list(f(arr(1.)).keys()), list(f(arr(2.)).values())


@trap
def argument_namedtuple_changes(H):
    f = H(lambda p: p.a * 2 + p.b)
    yield f(Pair(arr(1.), arr(2.)))
    yield f(Pair(arr(1.), 5.))
    yield f(Pair(2., arr(2.)))


@trap
def argument_list_grows(H):
    f = H(lambda xs: sum(xs) * len(xs))
    for n in range(1, 5):
        yield f([arr(1., 2.)] * n)


@trap
def argument_list_of_list_order(H):
    f = H(lambda xs: xs[0][0] - xs[1][0])
    a, b = arr(5.), arr(3.)
    yield f([[a], [b]])
    yield f([[b], [a]])


@trap
def argument_number_kinds(H):
    f = H(lambda a, k: a * k)
    for k in (2, 2., True, onp.float32(2), onp.int64(3), False, 0, -0.0, onp.bool_(True)):
        yield f(arr(1., 2.), k)


@trap
def argument_int_divides(H):
    f = H(lambda a, k: a / k + k // 2)
    for k in (2, 3, 4.5, 5):
        yield f(arr(1., 2.), k)


@trap
def argument_number_as_shape(H):
    f = H(lambda a, k: nd.zeros((k, 2)) + a)
    for k in (1, 3, 2, 3):
        yield f(arr(1., 2.), k)


@trap
def argument_number_formats(H):
    f = H(lambda a, k: a * len(f"{k:b}"))
    for k in (1, 2, 9, 2):
        yield f(arr(1.), k)


@trap
def argument_text(H):
    f = H(lambda a, how: getattr(nd, how)(a))
    for how in ("exp", "log", "exp", "sqrt"):
        yield f(arr(1., 4.), how)


@trap
def argument_none_or_array(H):
    @H
    def f(a, mask=None):
        return a if mask is None else a * mask
    yield f(arr(1., 2.))
    yield f(arr(1., 2.), arr(0., 1.))
    yield f(arr(1., 2.), None)


@trap
def argument_slice(H):
    f = H(lambda a, s: a[s] * 2)
    x = arr(1., 2., 3., 4.)
    for s in (slice(0, 2), slice(1, 3), slice(None, None, 2), 3, slice(0, 2)):
        yield f(x, s)


@trap
def argument_range(H):
    f = H(lambda a, r: a * sum(r))
    for r in (range(3), range(4), range(0, 6, 2)):
        yield f(arr(1.), r)


@trap
def argument_set_and_frozenset(H):
    f = H(lambda a, s: a * sum(s))
    for s in ({1, 2}, {3}, frozenset((1, 5)), set()):
        yield f(arr(1.), s)


@trap
def argument_bytes_and_complex(H):
    f = H(lambda a, s: a * (len(s) if isinstance(s, bytes) else s.real))
    for s in (b"ab", 3 + 1j, b"abc", 4 + 0j):
        yield f(arr(1.), s)


@trap
def argument_dtype_and_type(H):
    f = H(lambda a, d: a.astype(d))
    for d in ("float16", onp.int32, "float64", onp.dtype("uint8"), "float16"):
        yield f(arr(1.7, 2.2), d)


@trap
def argument_function(H):
    f = H(lambda a, g: g(a) + 1)
    yield f(arr(1.), nd.exp)
    yield f(arr(1.), lambda v: v * 5)
    yield f(arr(1.), lambda v: v * 6)
    yield f(arr(1.), abs)


@trap
def argument_partial(H):
    f = H(lambda a, g: g(a))
    for k in (2, 3, 2):
        yield f(arr(1.), functools.partial(lambda k, v: v * k, k))


@trap
def argument_dict_with_none(H):
    f = H(lambda d: d["a"] if d["b"] is None else d["a"] * d["b"])
    yield f({"a": arr(2.), "b": None})
    yield f({"a": arr(2.), "b": 4})
    yield f({"a": arr(2.), "b": arr(5.)})


@trap
def argument_dict_extra_key(H):
    f = H(lambda d: sum(d.values()))
    yield f({"a": arr(2.)})
    yield f({"a": arr(2.), "b": arr(3.)})


@trap
def argument_dict_integer_keys(H):
    f = H(lambda d: d[1] - d[2])
    yield f({1: arr(2.), 2: arr(3.)})
    yield f({2: arr(2.), 1: arr(3.)})


@trap
def positional_only_and_keyword_only(H):
    @H
    def f(a, /, b, *, c=2):
        return a * b + c
    yield f(arr(1.), arr(2.))
    yield f(arr(1.), b=arr(2.), c=arr(5.))
    yield f(arr(1.), b=3)


@trap
def one_array_twice_told_apart(H):
    f, a, b = H(lambda x, y: x * 2 if x is y else x * 3), arr(1.), arr(2.)
    for x, y in ((a, a), (a, b), (b, b), (a, b), (a, a)):
        yield f(x, y)


@trap
def one_array_twice_by_id(H):
    f, a, b = H(lambda x, y: x * len({id(x), id(y)})), arr(1.), arr(2.)
    for x, y in ((a, b), (b, b), (a, b), (a, a)):
        yield f(x, y)
