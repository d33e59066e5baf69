"""Coroutines, threads, recursion, folds and texts in code that is compiled."""
from __future__ import annotations

import asyncio
import functools
import itertools
import threading

from hybrid import gluon, nd

from .tools import arr, trap


@trap
def coroutine_run_inside(H):
    async def twice(x):
        await asyncio.sleep(0)
        return x * 2

    async def all_of(x, n):
        return sum([await twice(x + i) for i in range(n)])
    f = H(lambda x, n: asyncio.run(all_of(x, n)))
    for n in (1, 3, 1, 3):
        try:
            yield f(arr(1.), n)
        except Exception as err:  # noqa: BLE001  shown
            yield type(err).__name__


@trap
def called_from_coroutines_together(H):
    f = H(lambda x, k: x * k)

    async def one(i):
        await asyncio.sleep(0)
        return f(arr(float(i)), i % 3)

    async def all_of():
        return await asyncio.gather(*[one(i) for i in range(9)])
    yield asyncio.run(all_of())
    yield asyncio.run(all_of())


@trap
def state_changed_by_a_thread_between_calls(H):
    class Box:
        k = 1.
    o = Box()
    f = H(lambda x: x * o.k)
    for v in (1., 2., 2., 3.):
        t = threading.Thread(target=setattr, args=(o, "k", v))
        t.start()
        t.join()
        yield f(arr(1.)), f(arr(1.))


@trap
def threads_call_with_other_states(H):
    local = threading.local()
    f = H(lambda x: x * getattr(local, "k", 1.))
    out = {}

    def go(i):
        local.k = float(i)
        out[i] = [f(arr(1.)) for _ in range(3)]
    for turn in range(2):
        threads = [threading.Thread(target=go, args=(i + turn,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        yield [out[i] for i in sorted(out)]
        yield f(arr(1.))


@trap
def recursion_over_a_tree(H):
    def fold(x, node):
        return x * node if not isinstance(node, tuple) else sum(fold(x, n) for n in node)
    f = H(fold)
    for tree in ((1., (2., 3.)), (1., (2., (3., 4.))), (1., (2., 3.)), 5., ((),) and (1.,), (1., (2., 3.))):
        yield f(arr(1.), tree)


@trap
def itertools_over_arrays(H):
    @H
    def f(x, n):
        pairs = itertools.combinations([x + i for i in range(n)], 2)
        grouped = itertools.groupby(range(n), key=lambda i: i // 2)
        return sum(a * b for a, b in pairs) + sum(k * len([*g]) for k, g in grouped) + sum(
            itertools.islice(itertools.cycle([1., 2.]), n))
    for n in (2, 4, 2, 3):
        yield f(arr(1.), n)


@trap
def reduced_and_accumulated(H):
    @H
    def f(xs, start):
        total = functools.reduce(lambda a, b: a * 2 + b, xs, start)
        return [total, *itertools.accumulate(xs, lambda a, b: a - b)]
    for n in (2, 3, 2, 4):
        yield f([arr(float(i)) for i in range(n)], 1.)


@trap
def comparison_by_keys(H):
    @H
    def f(xs, reverse):
        ordered = sorted(xs.items(), key=lambda kv: (len(kv[0]), kv[0]), reverse=reverse)
        return sum(x * (i + 1) for i, (_, x) in enumerate(ordered)), max(xs, key=len)
    xs = {"bb": arr(1.), "a": arr(2.), "ccc": arr(3.)}
    for reverse in (False, True, False):
        yield f(xs, reverse)
    yield f({"a": arr(2.), "bb": arr(1.), "ccc": arr(3.)}, False)


@trap
def blocks_made_in_a_loop(H):
    nets = []
    for k in (1., 2., 3.):
        class Net(gluon.HybridBlock):
            scale = k

            def forward(self, x, k=k):
                return x * self.scale + k
        nets.append(Net())
        H(nets[-1])
    for _ in range(2):
        for net in nets:
            yield net(arr(1.)), net(arr(2.))
        type(nets[0]).scale = 9.


@trap
def text_formats_choose(H):
    @H
    def f(x, k):
        name = f"{k:>5.1f}|{k!r}".strip()
        return x * len(name) + (1 if name.startswith("1.5") else 2)
    for k in (1.5, 10.25, 1.5, -3., 1.5):
        yield f(arr(1.), k)


@trap
def asserts_with_messages(H):
    @H
    def f(x, n):
        assert x.ndim == 1 and n > 0, f"n is {n}"
        return x * n
    for n in (1, 0, 2, 1, -1):
        try:
            yield f(arr(1.), n)
        except AssertionError as err:
            yield str(err)


@trap
def integers_that_are_shapes(H):
    @H
    def f(x, n):
        y = nd.zeros((n, x.shape[0])) + x
        return y.reshape((x.shape[0], n)), y.shape[0] // 2, divmod(y.size, 4), -y.shape[0] % 3
    for n in (2, 3, 2, 4):
        for size in (4, 6):
            yield f(nd.arange(size), n)
