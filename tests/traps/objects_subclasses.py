"""Subclasses of Python's own classes, and objects whose equality is their own."""
# ruff: noqa: E741
from __future__ import annotations

import collections

from .tools import arr, trap


@trap
def namedtuple_same_name_two_classes(H):
    A = collections.namedtuple('P', 'a b')
    B = collections.namedtuple('P', 'b a')
    f = H(lambda t: t.a - t.b)
    yield f(A(arr(1.0), arr(2.0)))
    yield f(B(arr(1.0), arr(2.0)))
    yield f(A(arr(1.0), arr(2.0)))


@trap
def namedtuple_subclass_method(H):


    class T(collections.namedtuple('T', 'a b')):
        k = 2.0


        def scaled(self):
            return self.a * self.k
    f = H(lambda t: t.scaled() + t.b)
    yield f(T(arr(1.0), arr(1.0)))
    T.k = 5.0
    yield f(T(arr(1.0), arr(1.0)))


@trap
def tuple_subclass_attribute(H):


    class T(tuple):
        pass
    t = T((1.0, 2.0))
    t.k = 3.0
    f = H(lambda x, t: x * t.k + t[0])
    yield f(arr(1.0), t)
    t.k = 4.0
    yield f(arr(1.0), t)
    u = T((1.0, 2.0))
    u.k = 9.0
    yield f(arr(1.0), u)


@trap
def list_subclass_attribute(H):


    class L(list):
        pass
    t = L((1.0, 2.0))
    t.k = 3.0
    f = H(lambda x, t: x * t.k + t[0])
    yield f(arr(1.0), t)
    t.k = 4.0
    yield f(arr(1.0), t)
    t[0] = 9.0
    yield f(arr(1.0), t)


@trap
def dict_subclass_missing(H):


    class D(dict):
        fallback = 1.0


        def __missing__(self, k):
            return self.fallback
    d = D()
    f = H(lambda x: x * d['q'])
    yield f(arr(1.0))
    D.fallback = 2.0
    yield f(arr(1.0))
    d['q'] = 5.0
    yield f(arr(1.0))


@trap
def dict_subclass_argument(H):


    class D(dict):
        scale = 2.0


        def get2(self, k):
            return self[k] * self.scale
    f = H(lambda d: d.get2('a'))
    yield f(D(a=arr(1.0)))
    D.scale = 3.0
    yield f(D(a=arr(1.0)))
    d = D(a=arr(2.0))
    d.scale = 7.0
    yield f(d)


@trap
def float_subclass(H):


    class F(float):


        def __mul__(self, o):
            return float(self) * 10 * o


        def __rmul__(self, o):
            return o * (float(self) * 10)
    f = H(lambda x, k: k * x)
    yield f(arr(1.0), 2.0)
    yield f(arr(1.0), F(2.0))
    yield f(arr(1.0), 2.0)


@trap
def int_subclass_with_attribute(H):


    class Whole(int):
        pass
    a = Whole(2)
    a.k = 1.0
    b = Whole(2)
    b.k = 5.0
    f = H(lambda x, i: x * i.k)
    yield f(arr(1.0), a)
    yield f(arr(1.0), b)
    a.k = 8.0
    yield f(arr(1.0), a)


@trap
def str_subclass(H):


    class S(str):


        def upper(self):
            return 'B'
    f = H(lambda x, s: x * (2 if s.upper() == 'A' else 3))
    yield f(arr(1.0), 'a')
    yield f(arr(1.0), S('a'))
    yield f(arr(1.0), 'a')


@trap
def bool_like_object(H):


    class T:


        def __init__(self):
            self.on = True


        def __bool__(self):
            return self.on
    t = T()
    f = H(lambda x: x * 2 if t else x * 3)
    yield f(arr(1.0))
    t.on = False
    yield f(arr(1.0))


@trap
def hash_eq_mutable(H):


    class K:


        def __init__(self, v):
            self.v = v


        def __hash__(self):
            return 1


        def __eq__(self, o):
            return isinstance(o, K)
    f = H(lambda x, k: x * k.v)
    yield f(arr(1.0), K(2.0))
    yield f(arr(1.0), K(3.0))
    yield f(arr(1.0), K(4.0))


@trap
def eq_object_in_dict_key(H):


    class K:


        def __init__(self, v):
            self.v = v


        def __hash__(self):
            return 1


        def __eq__(self, o):
            return isinstance(o, K)
    d = {K(2.0): 1.0}
    f = H(lambda x: x * next(iter(d)).v)
    yield f(arr(1.0))
    d.clear()
    d[K(5.0)] = 1.0
    yield f(arr(1.0))
