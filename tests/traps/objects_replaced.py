"""Classes, methods, wrappers and helpers that are replaced between calls."""
from __future__ import annotations

import abc
import functools
import types
import typing


from hybrid import nd

from .tools import arr, trap


@trap
def named_tuple_of_typing(H):
    class Config(typing.NamedTuple):
        k: float = 2.
        n: int = 1

        def total(self):
            return self.k * self.n
    state = [Config()]
    f = H(lambda x: x * state[0].total())
    yield f(arr(1.))
    state[0] = state[0]._replace(n=5)
    yield f(arr(1.))


@trap
def abstract_method_replaced(H):
    class Base(abc.ABC):
        @abc.abstractmethod
        def k(self):
            ...

    class A(Base):
        def k(self):
            return 2.
    a = A()
    f = H(lambda x: x * a.k())
    yield f(arr(1.))
    A.k = lambda self: 5.
    yield f(arr(1.))
    a.k = lambda: 6.
    yield f(arr(1.))


@trap
def class_swapped_on_object(H):
    class A:
        k = 2.

    class B:
        k = 5.
    a = A()
    f = H(lambda x: x * a.k)
    yield f(arr(1.))
    a.__class__ = B
    yield f(arr(1.))


@trap
def cached_property_filled_outside(H):
    class A:
        def __init__(self):
            self.n = 2.

        @functools.cached_property
        def k(self):
            return self.n * 2
    a = A()
    f = H(lambda x: x * a.k)
    yield f(arr(1.)), a.k
    a.n = 5.
    yield f(arr(1.))
    del a.k
    yield f(arr(1.))


@trap
def lru_cache_on_method(H):
    class A:
        def __init__(self):
            self.n = 2.

        @functools.lru_cache(None)  # noqa: B019
        def k(self):
            return self.n * 2
    a = A()
    f = H(lambda x: x * a.k())
    yield f(arr(1.))
    a.n = 5.
    yield f(arr(1.))
    A.k.cache_clear()
    yield f(arr(1.))


@trap
def single_dispatch_by_state(H):
    @functools.singledispatch
    def scale(v):
        return 1.

    @scale.register
    def _(v: int):
        return 2.

    @scale.register
    def _(v: str):
        return 3.
    o = types.SimpleNamespace(v=1)
    f = H(lambda x: x * scale(o.v))
    yield f(arr(1.))
    o.v = "text"
    yield f(arr(1.))
    o.v = 1.5
    yield f(arr(1.))


@trap
def wrapper_keeps_options(H):
    def scaled(k):
        def wrap(fn):
            @functools.wraps(fn)
            def inner(x):
                return fn(x) * inner.k
            inner.k = k
            return inner
        return wrap

    @scaled(2.)
    def double(x):
        return x + 1
    f = H(lambda x: double(x))
    yield f(arr(1.))
    double.k = 5.
    yield f(arr(1.))


@trap
def registry_of_functions(H):
    registry = {}

    def register(fn):
        registry[fn.__name__] = fn
        return fn

    @register
    def act(x):
        return x * 2
    f = H(lambda x: registry["act"](x))
    yield f(arr(1.))

    @register
    def act(x):                                             # noqa: F811
        return x * 5
    yield f(arr(1.))


@trap
def strategy_object_replaced(H):
    class Relu:
        def __call__(self, x):
            return nd.relu(x)

    class Neg:
        def __call__(self, x):
            return -x
    o = types.SimpleNamespace(act=Relu())
    f = H(lambda x: o.act(x))
    yield f(arr(-1., 2.))
    o.act = Neg()
    yield f(arr(-1., 2.))
    o.act = nd.exp
    yield f(arr(-1., 2.))


@trap
def mixin_order_changes(H):
    class P:
        def k(self):
            return 2.

    class Q:
        def k(self):
            return 5.

    class A(P, Q):
        pass
    a = A()
    f = H(lambda x: x * a.k())
    yield f(arr(1.))
    A.__bases__ = (Q, P)
    yield f(arr(1.))


@trap
def static_and_class_methods_replaced(H):
    class A:
        k = 2.

        @staticmethod
        def s(x):
            return x * 2

        @classmethod
        def c(cls, x):
            return x * cls.k
    f = H(lambda x: A.s(x) + A.c(x))
    yield f(arr(1.))
    A.k = 7.
    yield f(arr(1.))
    A.s = staticmethod(lambda x: x * 100)
    yield f(arr(1.))
