"""Functions and what keeps them: caches, generators, contexts, weak references."""
# ruff: noqa: E741
from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
import weakref

from hybrid import nd

from .tools import arr, trap

NUM = 2.


@trap
def weakref_callback(H):


    class Thing:
        pass
    o = Thing()
    o.k = 2.0
    r = weakref.ref(o)
    f = H(lambda x: x * r().k)
    yield f(arr(1.0))
    o.k = 3.0
    yield f(arr(1.0))


@trap
def weak_value_dictionary(H):


    class Thing:
        pass
    o = Thing()
    o.k = 2.0
    d = weakref.WeakValueDictionary(a=o)
    f = H(lambda x: x * (d['a'].k if 'a' in d else 7.0))
    yield f(arr(1.0))
    o.k = 3.0
    yield f(arr(1.0))
    p = Thing()
    p.k = 9.0
    d['a'] = p
    yield f(arr(1.0))
    del d['a']
    yield f(arr(1.0))


@trap
def weak_set(H):


    class Thing:
        pass
    o, p = (Thing(), Thing())
    s = weakref.WeakSet([o])
    f = H(lambda x: x * len(s))
    yield f(arr(1.0))
    s.add(p)
    yield f(arr(1.0))


@trap
def contextvar_default(H):
    v = contextvars.ContextVar('v', default=1.0)
    f = H(lambda x: x * v.get())
    yield f(arr(1.0))
    t = v.set(2.0)
    yield f(arr(1.0))
    v.reset(t)
    yield f(arr(1.0))
    c = contextvars.copy_context()
    c.run(v.set, 5.0)
    yield c.run(f, arr(1.0))
    yield f(arr(1.0))


@trap
def contextvar_set_in_trace(H):
    v = contextvars.ContextVar('v', default=1.0)


    @H
    def f(x):
        v.set(v.get() + 1.0)
        return x * v.get()
    for _ in range(4):
        yield (f(arr(1.0)), v.get())


@trap
def threadlocal_subclass(H):


    class T(threading.local):
        k = 1.0


        def __init__(self):
            self.n = 2.0
    t = T()
    f = H(lambda x: x * t.n * t.k)
    yield f(arr(1.0))
    t.n = 5.0
    yield f(arr(1.0))
    out = []
    th = threading.Thread(target=lambda: out.append(f(arr(1.0))))
    th.start()
    th.join()
    yield out
    T.k = 3.0
    yield f(arr(1.0))


@trap
def generator_send(H):


    def acc():
        t = 0.0
        while True:
            v = (yield t)
            t += v
    g = acc()
    next(g)
    f = H(lambda x: x * g.send(2.0))
    for _ in range(3):
        yield f(arr(1.0))


@trap
def iterator_class(H):


    class It:


        def __init__(self):
            self.i = 0


        def __iter__(self):
            return self


        def __next__(self):
            self.i += 1
            return float(self.i)
    it = It()
    f = H(lambda x: x * next(it))
    for _ in range(4):
        yield (f(arr(1.0)), it.i)


@trap
def dict_views_kept(H):
    d = {'a': 1.0, 'b': 2.0}
    v = d.values()
    k = d.keys()
    i = d.items()
    f = H(lambda x: x * sum(v) + len(k) + sum((q for _, q in i)))
    yield f(arr(1.0))
    d['c'] = 5.0
    yield f(arr(1.0))
    d['a'] = 9.0
    yield f(arr(1.0))


@trap
def contextmanager_generator(H):
    log = []


    @contextlib.contextmanager
    def scaled(k):
        log.append(k)
        try:
            yield (k * NUM)
        finally:
            log.append(-k)


    @H
    def f(x):
        with scaled(2.0) as k:
            return x * k
    for _ in range(4):
        yield (f(arr(1.0)), list(log))


@trap
def exitstack(H):
    n = []


    @H
    def f(x):
        with contextlib.ExitStack() as s:
            s.callback(n.append, 1)
            x = x * 2
        return x + len(n)
    for _ in range(4):
        yield (f(arr(1.0)), len(n))


@trap
def context_class_depth(H):


    class C:
        depth = 0


        def __enter__(self):
            C.depth += 1
            return self


        def __exit__(self, *a):
            C.depth -= 1


    @H
    def f(x):
        with C():
            return x * C.depth
    yield f(arr(1.0))
    with C():
        yield f(arr(1.0))
    yield f(arr(1.0))


@trap
def decorator_class(H):


    class D:


        def __init__(self, fn):
            self.fn, self.k = (fn, 2.0)


        def __call__(self, x):
            return self.fn(x) * self.k
    d = D(lambda x: x + 1)
    f = H(d)
    yield f(arr(1.0))
    d.k = 3.0
    yield f(arr(1.0))
    d.fn = lambda x: x + 10
    yield f(arr(1.0))


@trap
def partialmethod(H):


    class A:
        k = 2.0


        def m(self, s, x):
            return x * s * self.k
        d = functools.partialmethod(m, 3.0)
    a = A()
    f = H(lambda x: a.d(x))
    yield f(arr(1.0))
    a.k = 5.0
    yield f(arr(1.0))
    A.m = lambda self, s, x: x
    yield f(arr(1.0))


@trap
def lru_cache_clears(H):
    k = [2.0]


    @functools.lru_cache(None)
    def scale():
        return k[0]
    f = H(lambda x: x * scale())
    yield f(arr(1.0))
    k[0] = 5.0
    yield f(arr(1.0))
    scale.cache_clear()
    yield f(arr(1.0))


@trap
def cache_by_dtype(H):


    @functools.cache
    def table(n):
        return [i * 2.0 for i in range(n)]
    f = H(lambda x: x * sum(table(x.shape[0])))
    yield f(nd.ones((2,)))
    table(2).append(100.0)
    yield f(nd.ones((2,)))
    yield f(nd.ones((3,)))


@trap
def cached_property_reset(H):


    class A:
        base = 2.0


        @functools.cached_property
        def k(self):
            return self.base * 10
    a = A()
    f = H(lambda x: x * a.k)
    yield f(arr(1.0))
    a.base = 3.0
    yield f(arr(1.0))
    del a.k
    yield f(arr(1.0))
    a.k = 1.0
    yield f(arr(1.0))


@trap
def singledispatch_registered_later(H):


    @functools.singledispatch
    def g(o):
        return 1.0


    class T:
        pass
    t = T()
    f = H(lambda x: x * g(t))
    yield f(arr(1.0))
    g.register(T, lambda o: 5.0)
    yield f(arr(1.0))


@trap
def singledispatchmethod_(H):


    class A:


        @functools.singledispatchmethod
        def m(self, v):
            return 1.0


        @m.register
        def _(self, v: int):
            return 2.0
    a = A()
    f = H(lambda x, v: x * a.m(v))
    yield f(arr(1.0), 1)
    yield f(arr(1.0), 's')
    A.m.register(str, lambda self, v: 9.0) if hasattr(A.m,
                                                      'register') else A.__dict__['m'].register(str,
            lambda self, v: 9.0)
    yield f(arr(1.0), 's')
