"""State that helpers, decorators, classes and errors keep."""
from __future__ import annotations

import functools

from hybrid import autograd, nd

from .tools import arr, trap
from .written_objects import Box

TOTAL, LOG, COUNTS = [0.], [], {"n": 0}


@trap
def nonlocal_of_two_levels(H):
    n = 0.

    def outer():
        def inner(x):
            nonlocal n
            n += 1
            return x * n
        return inner
    f = H(outer())
    yield f(arr(1.)), n
    yield f(arr(1.)), n
    n = 10.
    yield f(arr(1.)), n


@trap
def global_in_helper(H):
    def helper(x):
        global TOTAL
        TOTAL = [TOTAL[0] + 1]
        return x * TOTAL[0]
    f, TOTAL[:] = H(lambda x: helper(x)), [0.]
    for _ in range(4):
        yield f(arr(1.)), globals()["TOTAL"][0]
    globals()["TOTAL"] = [0.]


@trap
def global_list_of_losses_recorded(H):
    LOG.clear()
    w = arr(1., 2.)
    w.attach_grad()

    @H
    def f(x):
        y = (w * x).sum()
        LOG.append(y)
        return y
    for i in range(4):
        with autograd.record():
            f(arr(1., float(i)))
    with autograd.record():
        total = sum(LOG)
    yield len(LOG), total
    LOG.clear()


@trap
def default_argument_dict_counts(H):
    def f(x, seen={"n": 0}):  # noqa: B006
        seen["n"] += 1
        return x * seen["n"]
    g = H(f)
    for _ in range(4):
        yield g(arr(1.))
    yield f.__defaults__[0]["n"]


@trap
def cached_property_of_helper(H):
    class Helper:
        def __init__(self):
            self.k = 2.

        @functools.cached_property
        def twice(self):
            return self.k * 2
    h = Helper()
    f = H(lambda x: x * h.twice)
    yield f(arr(1.)), "twice" in vars(h)
    h.k = 5.
    yield f(arr(1.)), h.twice
    del h.twice
    yield f(arr(1.)), h.twice


@trap
def cached_property_of_traced(H):
    class Holder:
        def __init__(self, x):
            self.x = x

        @functools.cached_property
        def twice(self):
            return self.x * 2
    f = H(lambda x: (lambda h: h.twice + h.twice)(Holder(x)))
    yield f(arr(1.)), f(arr(3.))


@trap
def memo_dict_by_value(H):
    memo = {}

    def power(n):
        if n not in memo:
            memo[n] = 2. ** n
        return memo[n]
    f = H(lambda x, n: x * power(n))
    for n in (1, 2, 1, 3):
        yield f(arr(1.), n), sorted(memo)


@trap
def registry_filled_by_decorator_inside(H):
    registry = {}

    def register(name):
        def note(fn):
            registry[name] = fn
            return fn
        return note

    @H
    def f(x):
        @register(f"f{len(registry)}")
        def double(v):
            return v * 2
        return double(x)
    for _ in range(3):
        yield f(arr(1.)), sorted(registry)


@trap
def class_made_inside_keeps_count(H):
    made = []

    @H
    def f(x):
        class Own:
            n = len(made) + 1.
        made.append(Own)
        return x * Own.n
    for _ in range(4):
        yield f(arr(1.)), len(made)


@trap
def instances_counted_by_class(H):
    class Token:
        n = 0

        def __init__(self):
            Token.n += 1
            self.number = Token.n

        def __del__(self):
            Token.n += 0
    f = H(lambda x: x * Token().number)
    for _ in range(4):
        yield f(arr(1.)), Token.n


@trap
def state_dict_round_trip(H):
    class Model:
        def __init__(self):
            self.state = {"m": nd.zeros(2), "n": 0}

        def __call__(self, x):
            s = dict(self.state)
            s["m"] = s["m"] * 0.5 + x
            s["n"] += 1
            self.state = s
            return s["m"] / s["n"]
    m = Model()
    f = H(lambda x: m(x))
    for v in (1., 2., 3., 4.):
        yield f(arr(v, v)), m.state["m"], m.state["n"]


@trap
def history_of_fixed_length(H):
    hist = [nd.zeros(1) for _ in range(3)]

    @H
    def f(x):
        hist.pop(0)
        hist.append(x)
        return sum(hist)
    for v in (1., 2., 3., 4., 5.):
        yield f(arr(v)), [h + 0 for h in hist]


@trap
def shifted_in_place(H):
    hist = nd.zeros(3)

    @H
    def f(x):
        hist[:2] = hist[1:]
        hist[2:] = x
        return hist.sum()
    for v in (1., 2., 3., 4., 5.):
        yield f(arr(v)), hist + 0


@trap
def two_names_of_one_state(H):
    a = Box(k=arr(1.))
    b = Box(k=a.k)

    @H
    def f(x):
        a.k += x
        return b.k * 2
    for v in (1., 2., 3.):
        yield f(arr(v)), a.k + 0, b.k + 0
    b.k = arr(7.)
    yield f(arr(1.)), a.k + 0, b.k + 0


@trap
def tuple_with_list_augmented(H):
    t = ([1.],)

    @H
    def f(x):
        try:
            t[0].__iadd__([1.])
        except TypeError:
            return x * 0
        return x * len(t[0])
    for _ in range(4):
        yield f(arr(1.)), len(t[0])


@trap
def setitem_of_globals(H):
    f = H(lambda x: globals().__setitem__("COUNTS", {"n": globals()["COUNTS"]["n"] + 1}) or x * COUNTS["n"])
    globals()["COUNTS"] = {"n": 0}
    for _ in range(4):
        yield f(arr(1.)), COUNTS["n"]


@trap
def locals_are_not_state(H):
    @H
    def f(x):
        k = 2.
        locals()["k"] = 5.
        return x * k
    yield f(arr(1.)), f(arr(1.))


@trap
def exec_writes_global(H):
    space = {"n": 0.}

    @H
    def f(x):
        exec("n += 1", space)
        return x * space["n"]
    for _ in range(4):
        yield f(arr(1.)), space["n"]


@trap
def undone_by_the_code_itself(H):
    o = Box(k=2.)

    @H
    def f(x):
        old, o.k = o.k, 5.
        try:
            return x * o.k
        finally:
            o.k = old
    for _ in range(3):
        yield f(arr(1.)), o.k
    o.k = 3.
    yield f(arr(1.)), o.k


@trap
def error_after_state(H):
    o = Box(n=0.)

    @H
    def f(x):
        o.n += 1
        if o.n == 3:
            raise ValueError("three")
        return x * o.n
    for _ in range(5):
        try:
            yield f(arr(1.)), o.n
        except ValueError as err:
            yield str(err), o.n
