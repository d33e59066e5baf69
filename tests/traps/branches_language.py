"""Python's ways to go on, to stop, to match and to bind names, in code that is compiled."""
from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import threading

from hybrid import gluon, nd

from .tools import arr, trap


@trap
def closures_of_a_loop(H):
    fs = [H(lambda x: x * i) for i in range(3)]                # noqa: B023  each sees the last one
    for f in fs:
        yield f(arr(1.)), f(arr(1.))
    fs = [H(lambda x, i=i: x * i) for i in range(3)]
    for f in fs:
        yield f(arr(1.)), f(arr(1.))


@trap
def closures_made_inside_a_loop(H):
    @H
    def f(x, late):
        made = [(lambda y: y * i) if late else (lambda y, i=i: y * i) for i in range(3)]
        return sum(g(x) for g in made)
    for late in (True, False, True, False):
        yield f(arr(1.), late)


@trap
def walrus_and_chained(H):
    k = [2.]

    @H
    def f(x):
        if (n := k[0]) > 1 and (m := n * 2) < 9:
            return x * m
        return x + n
    for v in (2., 5., .5, 2., 4.4):
        k[0] = v
        yield f(arr(1.)), f(arr(1.))


@trap
def walrus_of_a_comprehension(H):
    k = [1., 2., 3.]

    @H
    def f(x):
        parts = [last := v * 2 for v in k]
        return x * sum(parts) + last
    yield f(arr(1.)), f(arr(1.))
    k.append(7.)
    yield f(arr(1.)), f(arr(1.))


@trap
def loop_with_else(H):
    k = [1, 2, 3]

    @H
    def f(x, wanted):
        for v in k:
            if v == wanted:
                break
        else:
            return x * 100
        return x * v
    for wanted in (2, 9, 2, 3, 9):
        yield f(arr(1.), wanted)
    k.append(9)
    for wanted in (2, 9):
        yield f(arr(1.), wanted)


@trap
def while_with_continue(H):
    @H
    def f(x, n):
        while n > 0:
            n -= 1
            if n % 2:
                continue
            x = x * 2 + n
        return x
    for n in (0, 3, 6, 3, 0, 1):
        yield f(arr(1.), n)


@trap
def finally_overrides_a_return(H):
    @H
    def f(x, on):
        try:
            return x * 2
        finally:
            if on:
                return x * 3  # noqa: B012  what this is about
    for on in (True, False, True, False):
        yield f(arr(1.), on)


@trap
def errors_travel_through_helpers(H):
    class Stop(Exception):
        pass

    def inner(x, n):
        if n > 1:
            raise Stop(n)
        return x * n

    @H
    def f(x, n):
        try:
            y = inner(x, n)
        except Stop as err:
            y = x - err.args[0]
        else:
            y = y + 100
        finally:
            n = -n
        return y * n
    for n in (1, 2, 1, 3, 2, 0):
        yield f(arr(1.), n)


@trap
def error_raised_from_another(H):
    @H
    def f(x, n):
        try:
            try:
                raise KeyError(n)
            except KeyError as err:
                raise ValueError("b") from err
        except ValueError as err:
            return x * err.__cause__.args[0]
    for n in (1, 2, 1, 3, 2):
        yield f(arr(1.), n)


@trap
def errors_reach_the_caller(H):
    @H
    def f(x, n):
        if n == 2:
            raise ValueError("two")
        return x * n
    for n in (1, 2, 1, 2, 3):
        try:
            yield f(arr(1.), n)
        except ValueError as err:
            yield str(err)


@trap
def suppressed(H):
    d = {"a": 1.}

    @H
    def f(x, key):
        y = x
        with contextlib.suppress(KeyError):
            y = x * d[key]
            y = y + 1
        return y
    for key in ("a", "b", "a", "b"):
        yield f(arr(1.), key)
    d["b"] = 5.
    yield f(arr(1.), "b")
    del d["a"]
    yield f(arr(1.), "a")


@trap
def stack_of_contexts(H):
    log = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(self.name)
            return len(log)

        def __exit__(self, *error):
            log.append(f"-{self.name}")
            return self.name == "quiet"

    @H
    def f(x, names):
        with contextlib.ExitStack() as stack:
            total = sum(stack.enter_context(Note(n)) for n in names)
            x = x * total
            if "quiet" in names:
                raise ValueError
        return x
    for names in (("a",), ("a", "quiet"), ("a",), ("b", "c"), ("a",)):
        yield f(arr(1.), names), list(log)
        log.clear()


@trap
def context_of_a_generator(H):
    depth = [0]

    @contextlib.contextmanager
    def deeper(by):
        depth[0] += by
        try:
            yield depth[0]
        finally:
            depth[0] -= by

    @H
    def f(x):
        with deeper(2) as a, deeper(3) as b:
            return x * a + b + depth[0]
    for start in (0, 0, 5, 5, 0):
        depth[0] = start
        yield f(arr(1.)), depth[0]


@trap
def generator_with_state(H):
    @H
    def f(x, n):
        def steps():
            total = 0
            for i in range(n):
                total += i
                got = yield total
                if got:
                    total += got
        g = steps()
        out = x
        for i, v in enumerate(g):
            out = out + v
            if i == 1:
                out = out * g.send(10)
        return out
    for n in (3, 5, 3, 4, 5):
        yield f(arr(1.), n)


@trap
def generators_delegate(H):
    @H
    def f(x, n):
        def inner():
            yield from range(n)
            return 7

        def outer():
            got = yield from inner()
            yield got
        return x * sum(outer())
    for n in (1, 3, 1, 0, 3):
        yield f(arr(1.), n)


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
