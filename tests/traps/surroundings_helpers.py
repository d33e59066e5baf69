"""Classes and helpers made by functions, caches, draws of this library, iterators, threads."""
from __future__ import annotations

import functools
import itertools
import threading
import types


import hybrid as mx
from hybrid import gluon, hybridize, nd

from .tools import arr, trap

scale, table, weight, config = 1., {"k": 1.}, None, types.SimpleNamespace(k=1.)


def helper(x):
    return x * scale


def other(x):
    return x * 100


def differ(f):
    """Whether two calls give different numbers."""
    a, b, c = (f(nd.ones((50,))).asnumpy() for _ in range(3))
    return bool((a != b).any() and (b != c).any())


@trap
def class_made_by_function(H):
    def make(k):
        class Scale(gluon.HybridBlock):
            def forward(self, x):
                return x * k
        return Scale()
    nets = [H(make(k)) for k in (1., 2.)]
    yield [n(arr(1.)) for n in nets]


@trap
def lambdas_of_a_loop(H):
    fs = [H(lambda x, k=k: x * k) for k in (1., 2., 3.)]
    yield [f(arr(1.)) for f in fs]
    k = 5.
    late = [H(lambda x: x * k) for _ in range(2)]
    yield [f(arr(1.)) for f in late]
    k = 6.
    yield [f(arr(1.)) for f in late]


@trap
def lru_cached_helper(H):
    hits = []

    @functools.lru_cache
    def mask(n):
        hits.append(n)
        return nd.arange(n) % 2
    f = H(lambda x: x * mask(x.shape[0]))
    for n in (2, 3, 2):
        yield f(nd.ones((n,)))
    yield mask(2), hits


@trap
def cached_traced_value(H):
    store = {}

    def memo(x):
        if "v" not in store:
            store["v"] = x.sum()
        return store["v"]
    f = H(lambda x: x * memo(x))
    for v in (1., 2.):
        yield f(arr(v))


@trap
def seed_inside(H):
    @H
    def f(x):
        mx.random.seed(5)
        return x + nd.random.uniform(shape=(1,))
    yield f(arr(1.)).asscalar() == f(arr(1.)).asscalar()


@trap
def draws_differ(H):
    yield differ(H(lambda x: x + nd.random.uniform(shape=(50,))))
    yield differ(H(lambda x: nd.random.normal(x, 1.)))
    yield differ(H(lambda x: nd.Dropout(x, p=.5, mode="always")))


@trap
def draws_seeded(H):
    f = H(lambda x: x + nd.random.uniform(shape=(5,)))
    mx.random.seed(3)
    a = f(arr(0.)).asnumpy()
    f(arr(0.))
    mx.random.seed(3)
    yield bool((f(arr(0.)).asnumpy() == a).all())


@trap
def draws_as_eager(H):
    f = H(lambda x: x + nd.random.uniform(shape=(5,)))
    mx.random.seed(3)
    yield f(arr(0.)), f(arr(0.))


@trap
def two_draws_are_two(H):
    f = H(lambda x: (x + nd.random.uniform(shape=(5,)), x + nd.random.uniform(shape=(5,))))
    a, b = f(arr(0.))
    yield bool((a.asnumpy() != b.asnumpy()).all())


@trap
def iterator_of_batches(H):
    batches = iter([arr(1.), arr(2.), arr(3.), arr(4.)])
    f = H(lambda: next(batches) * 2)
    yield f(), f(), f()


@trap
def zip_stored(H):
    pairs = zip(itertools.count(), [1., 2., 3., 4.])
    f = H(lambda x: x * next(pairs)[1])
    yield f(arr(1.)), f(arr(1.))


@trap
def in_another_thread(H):
    f, out = H(lambda x: x * 2), []
    threads = [threading.Thread(target=lambda i=i: out.append((i, f(arr(float(i))).asscalar()))) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    yield sorted(out)


@trap
def thread_local_setting(H):
    local = threading.local()
    local.k = 1.
    f, out = H(lambda x: x * getattr(local, "k", 7.)), []
    yield f(arr(1.))
    t = threading.Thread(target=lambda: out.append(f(arr(1.))))
    t.start()
    t.join()
    yield out, f(arr(1.))


@trap
def nested_hybridized(H):
    inner = hybridize(lambda x: x * config.k)
    f = H(lambda x: inner(x) + 1)
    for config.k in (1., 2., 1.):
        yield f(arr(1.))


@trap
def wrapper_of_module_getattr(H):
    mod = types.ModuleType("lazy")
    mod.__getattr__ = lambda name: table["k"]
    f = H(lambda x: x * mod.anything)
    for k in (1., 3.):
        table["k"] = k
        yield f(arr(1.))
