"""Arguments and results: kinds, orders, defaults, None, dtypes, shapes, aliases, what the caller does with results
afterwards."""
from __future__ import annotations

import collections
import dataclasses
import functools

import numpy as onp

from hybrid import nd
from hybrid import np as mnp

from .tools import add, arr, trap

Pair = collections.namedtuple("Pair", "a b")
AB = {"a": arr(1.), "b": arr(10.)}
BA = {"b": arr(10.), "a": arr(1.)}

# name: (function, the arguments of each call)
TABLE = {
    "int_float_bool": (lambda x, k: x * k, [(arr(1.), 2), (arr(1.), 2.5), (arr(1.), True), (arr(1.), 2)]),
    "one_and_true": (lambda x, k: x * (5 if k is True else 3), [(arr(1.), 1), (arr(1.), True), (arr(1.), 1)]),
    "one_and_one_point_zero": (lambda x, k: x * len(str(k)), [(arr(1.), 1), (arr(1.), 1.0), (arr(1.), 1)]),
    "zero_signs": (lambda x, k: x * onp.copysign(1., k), [(arr(1.), 0.), (arr(1.), -0.)]),
    "nan_number": (lambda x, k: x * k, [(arr(1.), float("nan")), (arr(1.), float("nan")), (arr(1.), 1.)]),
    "inf_number": (lambda x, k: x * k, [(arr(1.), float("inf")), (arr(1.), -float("inf"))]),
    "complex_number": (lambda x, k: x * k.real, [(arr(1.), 2 + 1j), (arr(1.), 3 + 1j)]),
    "huge_int": (lambda x, k: x * float(k), [(arr(1.), 2**70), (arr(1.), 2**71)]),
    "numpy_scalars": (lambda x, k: x * k, [(arr(1.), onp.float32(2)), (arr(1.), onp.float64(3)),
                                           (arr(1.), onp.int64(4)), (arr(1.), onp.bool_(True))]),
    "numpy_scalar_then_number": (lambda x, k: x * k,
                                 [(arr(1.), onp.float32(2)), (arr(1.), 2.), (arr(1.), onp.float32(5))]),
    "number_then_array": (lambda x, k: x * k, [(arr(1.), 2.), (arr(1.), arr(3.)), (arr(1.), 4.)]),
    "array_then_number_first": (lambda x, k: k - x, [(arr(1.), arr(3.)), (2., arr(3.)), (arr(1.), arr(4.))]),
    "numpy_arrays": (lambda x, k: x * nd.array(k),
                     [(arr(1.), onp.ones(1, "float32")), (arr(1.), onp.full(1, 7, "float32"))]),
    "none": (lambda x, m=None: x if m is None else x * m,
             [(arr(2.),), (arr(2.), arr(3.)), (arr(2.), None), (arr(2.), 5)]),
    "strings": (lambda x, how: x * 2 if how == "double" else x,
                [(arr(1.), "double"), (arr(1.), "same"), (arr(1.), "double")]),
    "string_and_bytes": (lambda x, how: x * (2 if isinstance(how, str) else 3), [(arr(1.), "a"), (arr(1.), b"a")]),
    "dtype_argument": (lambda x, d: x.astype(d), [(arr(1.5), "int32"), (arr(1.5), "float64"), (arr(1.5), onp.float16),
                                                  (arr(1.5), onp.dtype("int8"))]),
    "shape_argument": (lambda x, s: x.reshape(s), [(nd.arange(6), (2, 3)), (nd.arange(6), (3, 2)),
                                                   (nd.arange(6), [6, 1]), (nd.arange(6), -1)]),
    "axis_argument": (lambda x, a: x.sum(axis=a), [(nd.ones((2, 3)), 0), (nd.ones((2, 3)), 1), (nd.ones((2, 3)), None),
                                                   (nd.ones((2, 3)), (0, 1))]),
    "slice_argument": (lambda x, s: x[s], [(nd.arange(6), slice(1, 3)), (nd.arange(6), slice(None, None, 2)),
                                           (nd.arange(6), 2), (nd.arange(6), Ellipsis)]),
    "dtypes_switch": (lambda x: x * 2, [(arr(1),), (arr(1, dtype="int32"),), (arr(1, dtype="float16"),),
                                        (arr(1, dtype="float64"),), (arr(1, dtype="uint8"),), (arr(1),)]),
    "bool_arrays": (lambda x: mnp.array(x).sum(), [([True, False],), ([1., 2.],)]),
    "shapes_switch": (lambda x: x.sum() * x.shape[0],
                      [(nd.ones((1,)),), (nd.ones((3,)),), (nd.ones((2, 2)),), (nd.ones((1,)),)]),
    "broadcast_switch": (lambda x, y: x + y, [(nd.ones((2, 3)), nd.ones((2, 3))), (nd.ones((2, 3)), nd.ones((1, 3))),
                                              (nd.ones((2, 1)), nd.ones((2, 3)))]),
    "broadcast_error": (lambda x, y: x + y, [(nd.ones((2, 3)), nd.ones((2, 3))), (nd.ones((2, 3)), nd.ones((4,)))]),
    "zero_dim": (lambda x: x + 1, [(mnp.array(1.),), (mnp.array([1.]),), (mnp.array(3.),)]),
    "empty": (lambda x: (x * 2, x.sum()), [(mnp.zeros((0, 3)),), (mnp.ones((2, 3)),), (mnp.zeros((0, 3)),)]),
    "transposed": (lambda x: x.reshape((-1,)), [(nd.arange(6).reshape((2, 3)).T,), (nd.arange(6).reshape((3, 2)),)]),
    "strided": (lambda x: x * 2, [(nd.arange(6)[::2],), (nd.arange(6)[1::2],), (nd.arange(6)[::-2],)]),
    "list_argument": (lambda xs: sum(xs) * len(xs), [([arr(1.)],), ([arr(1.), arr(2.)],), ([],), ([arr(3.)],)]),
    "list_or_tuple": (lambda xs: xs[0] * (2 if isinstance(xs, list) else 3),
                      [([arr(1.)],), ((arr(1.),),), ([arr(1.)],)]),
    "nested_arguments": (lambda t: t[0] + t[1]["k"][0],
                         [((arr(1.), {"k": [arr(2.)]}),), ((arr(1.), {"k": [arr(3.), 1]}),)]),
    "dict_argument": (lambda d: d["a"] - d["b"], [(AB,), (BA,), ({"a": arr(3.), "b": arr(1.)},)]),
    "dict_order": (lambda d: functools.reduce(lambda u, v: u - v, d.values()), [(AB,), (BA,), (AB,)]),
    "dict_order_keys": (lambda d: list(d), [(AB,), (BA,), (AB,)]),
    "dict_extra_key": (lambda d: sum(d.values()), [(AB,), ({**AB, "c": arr(5.)},)]),
    "dict_int_keys": (lambda d: d[1], [({1: arr(1.), 2: arr(2.)},), ({2: arr(3.), 1: arr(4.)},)]),
    "ordered_dict": (lambda d: next(iter(d.values())),
                     [(collections.OrderedDict(AB),), (collections.OrderedDict(BA),)]),
    "kind_of_dict": (lambda d: 1 if isinstance(d, collections.OrderedDict) else 2,
                     [(AB,), (collections.OrderedDict(AB),), (AB,)]),
    "namedtuple_argument": (lambda p: p.a - p.b, [(Pair(arr(1.), arr(2.)),), (Pair(arr(5.), 2.),)]),
    "namedtuple_result": (lambda x: Pair(x, x * 2), [(arr(1.),), (arr(2.),)]),
    "dict_result": (lambda x: {"b": x, "a": x * 2}, [(arr(1.),), (arr(2.),)]),
    "ordered_dict_result": (lambda x: collections.OrderedDict(b=x, a=x * 2), [(arr(1.),), (arr(2.),)]),
    "list_result": (lambda x: [x, [x * 2, (x * 3,)]], [(arr(1.),), (arr(2.),)]),
    "empty_result": (lambda x: [], [(arr(1.),), (arr(2.),)]),
    "none_result": (lambda x: None, [(arr(1.),), (arr(2.),)]),
    "none_among_results": (lambda x: (x, None, x * 2), [(arr(1.),), (arr(2.),)]),
    "number_result": (lambda x: (x.shape[0], x * 2, "text", 1.5), [(nd.ones((1,)),), (nd.ones((2,)),)]),
    "constant_result": (lambda x: nd.ones((2,)) * 3, [(arr(1.),), (arr(2.),)]),
    "ones_like": (lambda x: nd.ones_like(x), [(arr(1.),), (arr(2., 3.),)]),
    "argument_result": (lambda x: x, [(arr(1.),), (arr(2.),)]),
    "arguments_swapped": (lambda x, y: (y, x), [(arr(1.), arr(2.)), (arr(3.), arr(4.))]),
    "same_twice": (lambda x: [x * 2] * 2, [(arr(1.),), (arr(2.),)]),
    "defaults": (lambda x, k=2, *, m=3: x * k + m, [(arr(1.),), (arr(1.), 5), (arr(1.),)]),
    "varargs": (lambda *xs: sum(xs) + len(xs), [(arr(1.),), (arr(1.), arr(2.)), (), (arr(1.), 2., 3)]),
    "tuple_of_ints": (lambda x, t: x * sum(t), [(arr(1.), (1, 2)), (arr(1.), (2, 2)), (arr(1.), [1, 2])]),
    "nested_lists_of_numbers": (lambda x, t: x * nd.array(t), [(arr(1., 2.), [1., 2.]), (arr(1., 2.), [3., 4.])]),
    "range_argument": (lambda x, r: x * sum(r), [(arr(1.), range(3)), (arr(1.), range(4))]),
    "function_argument": (lambda x, f: f(x), [(arr(1.), lambda v: v * 2), (arr(1.), lambda v: v * 3),
                                              (arr(1.), nd.exp)]),
    "class_argument": (lambda x, c: x * (2 if c is int else 3), [(arr(1.), int), (arr(1.), float)]),
    "large_dict_of_numbers": (lambda x, d: x * d["k99"],
                              [(arr(1.), {f"k{i}": i for i in range(100)}),
                               (arr(1.), {f"k{i}": i * 2 for i in range(100)})]),
    "wrong_number_of_arguments": (lambda x, y: x + y, [(arr(1.), arr(2.)), (arr(1.),)]),
    "no_arguments": (lambda: nd.ones((2,)) * 2, [(), ()]),
}


def _rows(H, f, arguments):
    g = H(f)
    for args in [*arguments, *arguments]:
        yield g(*args)


for _name, (_f, _arguments) in TABLE.items():
    add(f"signatures.{_name}", lambda H, f=_f, arguments=_arguments: _rows(H, f, arguments))


@trap
def keyword_order(H):
    @H
    def f(**kw):
        first, second = kw.values()
        return first - second
    yield f(a=arr(1.), b=arr(5.)), f(b=arr(5.), a=arr(1.)), f(a=arr(1.), b=arr(5.))


@trap
def keyword_and_position(H):
    f = H(lambda x, y, k=1: (x - y) * k)
    yield f(arr(1.), arr(5.)), f(y=arr(1.), x=arr(5.)), f(arr(1.), y=arr(5.), k=3), f(arr(1.), arr(5.), 4)


@trap
def keyword_unknown(H):
    f = H(lambda x: x)
    yield f(x=arr(1.))
    yield f(y=arr(1.))


@trap
def same_array_twice(H):
    f = H(lambda x, y: x - 2 * y)
    a, b = arr(1.), arr(5.)
    yield f(a, b), f(a, a), f(b, a), f(b, b), f(a, b)


@trap
def views_of_one_array(H):
    @H
    def f(x, y):
        x[:] = x + 1
        return x + y
    base = nd.arange(4)
    yield f(base[0:2], base[2:4]), base
    yield f(base[0:2], base[0:2]), base
    yield f(base[0:2], base[1:3]), base


@trap
def result_written_by_caller(H):
    f = H(lambda x: x + 1)
    x = arr(1.)
    y = f(x)
    y[:] = 100
    yield x, f(x), y


@trap
def returned_argument_written(H):
    f = H(lambda x: x)
    x = arr(1.)
    y = f(x)
    y[:] = 7
    yield x, f(x)


@trap
def returned_view_written(H):
    f = H(lambda x: x[0:1])
    x = arr(1., 2.)
    y = f(x)
    y[:] = 7
    yield x, f(x)


@trap
def returned_reshape_written(H):
    f = H(lambda x: x.reshape((2, 1)))
    x = arr(1., 2.)
    f(x)[:] = 7
    yield x


@trap
def returned_weight_written(H):
    w = arr(2.)
    f = H(lambda x: (x * w, w))
    y, same = f(arr(1.))
    same[:] = 5
    yield f(arr(1.)), w


@trap
def returned_constant_written(H):
    f = H(lambda x: nd.ones((1,)))
    f(arr(1.))[:] = 7
    yield f(arr(1.))


@trap
def returned_list_changed(H):
    f = H(lambda x: [x, [1, 2]])
    out = f(arr(1.))
    out.append(3)
    out[1].append(9)
    yield f(arr(1.))


@trap
def returned_captured_list_changed(H):
    shared = [1, 2]
    f = H(lambda x: (x, shared))
    f(arr(1.))[1].append(3)
    yield shared, f(arr(1.))


@trap
def results_kept_over_calls(H):
    f = H(lambda x: x * 2)
    kept = [f(arr(float(i))) for i in range(5)]
    yield kept


@trap
def same_result_twice_written(H):
    @H
    def f(x):
        y = x * 2
        return y, y
    a, b = f(arr(1.))
    a[:] = 5
    yield a, b, a is b


@trap
def out_argument(H):
    @H
    def f(x, out):
        nd.exp(x, out=out)
        return out
    out = nd.zeros((1,))
    yield f(arr(0.), out), out
    yield f(arr(1.), out), out


@trap
def out_is_input(H):
    @H
    def f(x):
        nd.elemwise_add(x, x, out=x)
        return x * 2
    x = arr(1.)
    yield f(x), x, f(x), x


@trap
def argument_written(H):
    @H
    def f(x):
        x[:] = x * 2
        return x + 1
    x = arr(1.)
    yield f(x), x, f(x), x


@trap
def argument_list_item_replaced(H):
    @H
    def f(xs):
        xs[0] = xs[0] * 2
        return xs[0]
    xs = [arr(1.), arr(2.)]
    yield f(xs), xs
    yield f(xs), xs


@trap
def argument_list_appended(H):
    @H
    def f(xs):
        xs.append(xs[0] * 2)
        return sum(xs)
    xs = [arr(1.)]
    yield f(xs), len(xs)
    yield f(xs), len(xs)


@trap
def argument_dict_popped(H):
    @H
    def f(d):
        return d.pop("a") * 2
    d = {"a": arr(1.), "b": arr(2.)}
    yield f(d), sorted(d)


@trap
def dataclass_argument(H):
    @dataclasses.dataclass
    class Batch:
        x: object
        k: float = 2.
    f = H(lambda b: b.x * b.k)
    yield f(Batch(arr(1.))), f(Batch(arr(1.), 3.)), f(Batch(arr(5.), 3.))


@trap
def dataclass_result(H):
    @dataclasses.dataclass
    class Out:
        y: object
    f = H(lambda x: Out(x * 2))
    for v in (1., 2.):
        yield f(arr(v)).y
