"""Values of many kinds as arguments: numbers, names, texts, types, functions."""
from __future__ import annotations

import collections
import enum
import types

import numpy as onp

from hybrid import autograd, nd
from hybrid import np as mnp

from .tools import arr, trap


@trap
def enum_members_swapped(H):
    class Mode(enum.Enum):
        A = 1
        B = 2

    class Flag(enum.Flag):
        X = enum.auto()
        Y = enum.auto()
    f = H(lambda x, m, g: x * (2. if m is Mode.A else 5.) + (1 if Flag.X in g else 0))
    for m, g in ((Mode.A, Flag.X), (Mode.B, Flag.X), (Mode.B, Flag.Y), (Mode.A, Flag.X | Flag.Y)):
        yield f(arr(1.), m, g)


@trap
def int_enum_and_bool_and_int(H):
    class N(enum.IntEnum):
        ONE = 1
    f = H(lambda x, n: x * (5. if isinstance(n, N) else 3. if isinstance(n, bool) else 2.))
    for n in (1, True, N.ONE, onp.int64(1), 1):
        yield f(arr(1.), n)


@trap
def string_enum(H):
    class S(str, enum.Enum):
        A = "a"
    f = H(lambda x, s: x * (5. if isinstance(s, S) else 2.))
    yield f(arr(1.), "a"), f(arr(1.), S.A), f(arr(1.), "a")


@trap
def named_tuple_and_tuple(H):
    P = collections.namedtuple("P", "a b")
    Q = collections.namedtuple("Q", "b a")
    f = H(lambda x, p: x * (p.a if hasattr(p, "a") else p[1]))
    yield f(arr(1.), P(2., 5.)), f(arr(1.), (2., 5.)), f(arr(1.), Q(2., 5.))


@trap
def keyword_order_and_unpacking(H):
    f = H(lambda x, *args, **kw: x * sum(a * 10 ** i for i, a in enumerate([*args, *kw.values()])))
    yield f(arr(1.), 1, 2, a=3, b=4), f(arr(1.), 1, 2, b=4, a=3), f(arr(1.), *[1, 2], **{"a": 3, "b": 4})
    yield f(arr(1.), 1, b=2), f(arr(1.), b=1, a=2)


@trap
def keyword_only_and_positional_only(H):
    def code(x, /, k=2., *, m=1.):
        return x * k + m
    f = H(code)
    yield f(arr(1.)), f(arr(1.), 3.), f(arr(1.), k=3.), f(arr(1.), m=3.), f(arr(1.), 4., m=5.)
    try:
        yield f(x=arr(1.))
    except TypeError:
        yield "TypeError"


@trap
def switch_between_np_and_nd(H):
    f = H(lambda x: (x * 2).sum())
    yield f(arr(1., 2.)), f(mnp.array([1., 2.])), f(arr(1., 2.))


@trap
def recording_toggled(H):
    f = H(lambda x: x * (5. if autograd.is_recording() else 2.) + (1. if autograd.is_training() else 0.))
    x = arr(1.)
    x.attach_grad()
    yield f(x)
    with autograd.record():
        y = f(x)
    y.backward()
    yield y, x.grad
    with autograd.record(train_mode=False):
        y = f(x)
    yield y
    with autograd.train_mode():
        yield f(x)
    with autograd.record(), autograd.pause():
        yield f(x)


@trap
def unicode_names(H):
    größe = types.SimpleNamespace(ñ=2.)
    f = H(lambda x: x * größe.ñ)
    yield f(arr(1.))
    größe.ñ = 5.
    yield f(arr(1.))
    setattr(größe, "a b", 7.)
    g = H(lambda x: x * getattr(größe, "a b"))
    yield g(arr(1.))
    setattr(größe, "a b", 9.)
    yield g(arr(1.))


@trap
def mangled_names(H):
    class C:
        def __init__(self):
            self.__k = 2.

        def set(self, v):
            self.__k = v

        def f(self, x):
            return x * self.__k
    o = C()
    f = H(o.f)
    yield f(arr(1.))
    o.set(5.)
    yield f(arr(1.))


@trap
def huge_and_odd_numbers(H):
    f = H(lambda x, n: x * (1. if n > 10 ** 20 else 2.) + (n == n))
    for n in (10 ** 30, 2 ** 63, -2 ** 63, 1e308, float("inf"), 10 ** 30, float("nan"), 0, -0., True, 1 + 0j == 1):
        yield f(arr(1.), n)


@trap
def nan_keys(H):
    nan = float("nan")
    f = H(lambda x, d: x * len(d) + sum(v for v in d.values()))
    yield f(arr(1.), {nan: 1., 0.: 2.}), f(arr(1.), {nan: 1., -0.: 5.}), f(arr(1.), {float("nan"): 1., 0.: 2.})


@trap
def complex_and_fraction_arguments(H):
    import decimal
    import fractions
    f = H(lambda x, n: x * float(abs(n)))
    for n in (3 + 4j, fractions.Fraction(1, 2), decimal.Decimal("0.25"), 3 - 4j, onp.float16(2), onp.bool_(True)):
        yield f(arr(1.), n)


@trap
def slices_ellipsis_and_ranges(H):
    f = H(lambda x, k: x[k])
    x = nd.array(onp.arange(12.).reshape(3, 4))
    for k in (slice(0, 1), slice(0, 2), slice(None, None, 2), Ellipsis, (slice(None), 1), (1, slice(1, 3)), [0, 2], 1,
              -1, slice(0, 1)):
        yield f(x, k)


@trap
def bytes_and_text_arguments(H):
    f = H(lambda x, s: x * len(s) + (1 if isinstance(s, bytes) else 0))
    for s in ("ab", b"ab", bytearray(b"ab"), "abc", "äb", ""):
        yield f(arr(1.), s)


@trap
def types_as_arguments(H):
    f = H(lambda x, t: x.astype(t))
    for t in ("float32", "int32", onp.int8, onp.dtype("float64"), int, float, "float32"):
        try:
            yield f(arr(1.7, -2.7), t)
        except TypeError:
            yield "TypeError"


@trap
def frozenset_and_set_arguments(H):
    f = H(lambda x, s: x * len(s) + sum(s))
    for s in ({1., 2.}, frozenset({1., 2.}), {1.}, set(), {2., 1.}):
        yield f(arr(1.), s)


@trap
def functions_as_arguments(H):
    def make(k):
        def g(x):
            return x * k
        return g
    f = H(lambda x, g: g(x))
    a, b = make(2.), make(5.)
    yield f(arr(1.), a), f(arr(1.), b), f(arr(1.), a), f(arr(1.), lambda x: x + 1), f(arr(1.), nd.negative)


@trap
def same_code_other_closure(H):
    fs = [H(lambda x, k=k: x * k) for k in (2., 5.)]
    gs = [H((lambda k: lambda x: x * k)(k)) for k in (3., 7.)]
    yield [g(arr(1.)) for g in fs + gs]
    yield [g(arr(1.)) for g in fs + gs]
