"""Python's ways to go on, to stop, to match and to bind names, in code that is compiled."""
from __future__ import annotations

import contextlib


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
