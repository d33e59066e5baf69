"""Errors, threads, iterators, hooks and helpers of Python's own library around calls."""
from __future__ import annotations

import asyncio
import builtins
import contextlib
import functools
import inspect
import itertools
import operator
import threading
import types
import typing

from hybrid import nd

from .tools import arr, trap


@trap
def async_around(H):
    k = [2.]
    f = H(lambda x: x * k[0])

    async def go(v):
        await asyncio.sleep(0)
        k[0] = v
        return f(arr(1.))

    async def all_of():
        return [await go(2.), await go(5.), *(await asyncio.gather(go(7.), go(9.)))]
    yield asyncio.run(all_of())


@trap
def async_inside(H):
    async def double(x):
        return x * 2

    def code(x):
        c = double(x)
        try:
            c.send(None)
        except StopIteration as end:
            return end.value
    f = H(code)
    yield f(arr(1.)), f(arr(2.))


@trap
def threads_with_own_state(H):
    o = types.SimpleNamespace(k=2.)
    f = H(lambda x: x * o.k)
    out = []

    def run(v):
        o.k = v
        out.append(f(arr(1.)))
    for v in (2., 5., 2., 7.):
        t = threading.Thread(target=run, args=(v,))
        t.start()
        t.join()
    yield out


@trap
def thread_started_inside(H):
    out = []

    @H
    def f(x):
        t = threading.Thread(target=lambda: out.append(len(out)))
        t.start()
        t.join()
        return x * len(out)
    for _ in range(4):
        yield f(arr(1.))


@trap
def builtin_added(H):
    builtins.trap_number = 2.
    try:
        f = H(lambda x: x * trap_number)  # noqa: F821
        yield f(arr(1.))
        builtins.trap_number = 5.
        yield f(arr(1.))
    finally:
        del builtins.trap_number
    try:
        yield f(arr(1.))
    except NameError:
        yield "NameError"


@trap
def array_method_added(H):
    try:
        nd.NDArray.twice = lambda self: self * 2
        f = H(lambda x: x.twice())
        yield f(arr(1.)), f(arr(2.))
        nd.NDArray.twice = lambda self: self * 5
        yield f(arr(1.))
    finally:
        del nd.NDArray.twice


@trap
def attribute_set_on_array(H):
    x = arr(1.)
    try:
        x.tag = 5.
    except AttributeError:
        yield "none"
        return
    f = H(lambda v: v * getattr(v, "tag", 2.))
    yield f(x), f(arr(1.))


@trap
def signature_read(H):
    def helper(x, k=2.):
        return x * k
    f = H(lambda x: helper(x) * len(inspect.signature(helper).parameters))
    yield f(arr(1.))
    helper.__defaults__ = (5.,)
    yield f(arr(1.))


@trap
def source_of_annotations(H):
    def helper(x):
        return x
    helper.__annotations__["k"] = 2.
    f = H(lambda x: x * helper.__annotations__["k"])
    yield f(arr(1.))
    helper.__annotations__["k"] = 5.
    yield f(arr(1.))


@trap
def type_variables_and_hints(H):
    class C:
        k: typing.ClassVar[float] = 2.
    f = H(lambda x: x * len(typing.get_type_hints(C)) * C.k)
    yield f(arr(1.))
    C.k = 5.
    yield f(arr(1.))


@trap
def operator_module_functions(H):
    o = types.SimpleNamespace(k=[2., 3.])
    f = H(lambda x: operator.mul(x, operator.getitem(o.k, 1)) + operator.attrgetter("k")(o)[0])
    yield f(arr(1.))
    o.k = [5., 7.]
    yield f(arr(1.))


@trap
def itertools_over_state(H):
    o = [1., 2.]
    f = H(lambda x: x * sum(itertools.chain(o, itertools.repeat(1., len(o)), itertools.accumulate(o))))
    yield f(arr(1.))
    o.append(5.)
    yield f(arr(1.))


@trap
def islice_of_kept_iterator(H):
    it = iter([1., 2., 3., 4., 5., 6.])
    f = H(lambda x: x * sum(itertools.islice(it, 2)))
    yield f(arr(1.)), f(arr(1.)), f(arr(1.))


@trap
def tee_of_kept_iterator(H):
    a, b = itertools.tee(iter([1., 2., 3., 4.]))
    f = H(lambda x: x * next(a))
    yield f(arr(1.)), f(arr(1.))
    yield list(b)


@trap
def enumerate_kept(H):
    e = enumerate([5., 6., 7., 8.])
    f = H(lambda x: x * next(e)[1])
    yield f(arr(1.)), f(arr(1.)), f(arr(1.))


@trap
def generator_closed_between(H):
    def gen():
        yield 1.
        yield 2.
    g = gen()
    f = H(lambda x: x * sum(g))
    yield f(arr(1.))
    yield f(arr(1.))


@trap
def exception_group_of_state(H):
    o = types.SimpleNamespace(n=0)

    @H
    def f(x):
        try:
            if o.n:
                raise RuntimeError(o.n)
            return x
        except RuntimeError as err:
            return x * err.args[0]
        finally:
            o.last = x.shape
    yield f(arr(1.)), o.last
    o.n = 5
    yield f(arr(1., 2.)), o.last


@trap
def error_type_chosen_by_state(H):
    o = types.SimpleNamespace(kind=ValueError)

    @H
    def f(x):
        raise o.kind("wrong")
    for kind in (ValueError, KeyError, ZeroDivisionError):
        o.kind = kind
        try:
            f(arr(1.))
        except Exception as err:  # noqa: BLE001
            yield type(err).__name__


@trap
def context_stack_of_modes(H):
    stack = []

    @contextlib.contextmanager
    def mode(k):
        stack.append(k)
        try:
            yield
        finally:
            stack.pop()
    f = H(lambda x: x * (stack[-1] if stack else 1.))
    yield f(arr(1.))
    with mode(2.):
        yield f(arr(1.))
        with mode(5.):
            yield f(arr(1.))
        yield f(arr(1.))
    yield f(arr(1.))


@trap
def singleton_made_lazily(H):
    class Config:
        instance = None

        @classmethod
        def get(cls):
            if cls.instance is None:
                cls.instance = cls()
                cls.instance.k = 2.
            return cls.instance
    f = H(lambda x: x * Config.get().k)
    yield f(arr(1.)), f(arr(1.))
    Config.get().k = 5.
    yield f(arr(1.))
    Config.instance = None
    yield f(arr(1.))


@trap
def registry_of_functions(H):
    table = {"act": nd.relu}
    f = H(lambda x: table["act"](x))
    yield f(arr(-1., 1.))
    table["act"] = nd.tanh
    yield f(arr(-1., 1.))
    table["act"] = lambda x: x * 5
    yield f(arr(-1., 1.))


@trap
def partial_of_partial(H):
    g = functools.partial(functools.partial(lambda a, b, x: x * a + b, 2.), 3.)
    f = H(lambda x: g(x))
    yield f(arr(1.))
    g = functools.partial(functools.partial(lambda a, b, x: x * a + b, 5.), 7.)
    yield f(arr(1.))


@trap
def bound_method_kept(H):
    class C:
        k = 2.

        def f(self, x):
            return x * self.k
    o = C()
    m = o.f
    f = H(lambda x: m(x))
    yield f(arr(1.))
    o.k = 5.
    yield f(arr(1.))
    o.f = lambda x: x * 100
    yield f(arr(1.))


@trap
def hybridized_bound_method(H):
    class C:
        k = 2.

        def f(self, x):
            return x * self.k
    a, b = C(), C()
    b.k = 5.
    fa, fb = H(a.f), H(b.f)
    yield fa(arr(1.)), fb(arr(1.))
    a.k, b.k = 7., 9.
    yield fa(arr(1.)), fb(arr(1.))


@trap
def callable_object_hybridized(H):
    class C:
        def __init__(self):
            self.k = 2.

        def __call__(self, x):
            self.k += 1
            return x * self.k
    o = C()
    f = H(o)
    yield f(arr(1.)), f(arr(1.)), o.k
    o.k = 10.
    yield f(arr(1.)), o.k
