"""State in classes, descriptors, closures, generators and contexts, changed between calls or by the traced code."""
from __future__ import annotations

import collections
import contextlib
import itertools
import types


from hybrid import nd

from .tools import arr, trap

LEVEL, TABLE, ROWS, STACK, WORDS = 2, {"k": 2.}, [[1., 2.], [3., 4.]], [], ("a", "b")


@trap
def super_method_changed(H):
    class A:
        def go(self, x):
            return x * 2

    class B(A):
        def go(self, x):
            return super().go(x) + 1
    b = B()
    f = H(lambda x: b.go(x))
    yield f(arr(1.))
    A.go = lambda self, x: x * 7
    yield f(arr(1.))


@trap
def closure_of_closure(H):
    def outer():
        k = 2.

        def get():
            return k

        def put(v):
            nonlocal k
            k = v
        return get, put
    get, put = outer()
    f = H(lambda x: x * get())
    yield f(arr(1.))
    put(5.)
    yield f(arr(1.))


@trap
def closure_written_by_traced_helper(H):
    def outer():
        n = 0

        def count():
            nonlocal n
            n += 1
            return n
        return count
    count = outer()
    f = H(lambda x: x * count())
    for _ in range(3):
        yield f(arr(1.))


@trap
def loop_variable_captured(H):
    fs = []
    for k in range(3):
        fs.append(H(lambda x: x * k))
    yield [f(arr(1.)) for f in fs]
    k = 9
    yield [f(arr(1.)) for f in fs]


@trap
def default_argument_bound_in_loop(H):
    fs = [H(lambda x, k=k: x * k) for k in range(3)]
    yield [f(arr(1.)) for f in fs]


@trap
def list_comprehension_over_state(H):
    ks = [1., 2.]
    f = H(lambda x: sum(x * k for k in ks))
    yield f(arr(1.))
    ks.append(3.)
    yield f(arr(1.))
    ks[:] = [9.]
    yield f(arr(1.))


@trap
def zip_map_filter_enumerate(H):
    ks = [1., -2., 3.]
    f = H(lambda x: sum(x * k * i for i, k in enumerate(filter(lambda v: v > 0, ks))) + sum(map(abs, ks)))
    yield f(arr(1.))
    ks[1] = 2.
    yield f(arr(1.))


@trap
def sorted_by_key_function(H):
    ks, sign = [1., 3., 2.], [1]
    f = H(lambda x: x * sorted(ks, key=lambda v: v * sign[0])[0])
    yield f(arr(1.))
    sign[0] = -1
    yield f(arr(1.))


@trap
def accumulate_and_reduce(H):
    ks = [1., 3., 2.]
    f = H(lambda x: x * list(itertools.accumulate(ks))[-1])
    yield f(arr(1.))
    ks.append(10.)
    yield f(arr(1.))


@trap
def generator_made_in_trace(H):
    ks = [1., 2., 3.]

    def numbers():
        yield from ks
    f = H(lambda x: sum(x * k for k in numbers()))
    yield f(arr(1.))
    ks[0] = 7.
    yield f(arr(1.))


@trap
def generator_kept_outside(H):
    def numbers():
        n = 0.
        while True:
            n += 1.
            yield n
    g = numbers()
    f = H(lambda x: x * next(g))
    for _ in range(3):
        yield f(arr(1.))


@trap
def generator_of_arrays_in_trace(H):
    def parts(x):
        for i in range(x.shape[0]):
            yield x[i] * i
    f = H(lambda x: sum(parts(x)))
    yield f(arr(1., 2., 3.))
    yield f(arr(1., 2.))


@trap
def context_manager_with_state(H):
    scale = [1.]

    @contextlib.contextmanager
    def scaled(k):
        old = scale[0]
        scale[0] = old * k
        try:
            yield
        finally:
            scale[0] = old

    @H
    def f(x):
        with scaled(3.):
            return x * scale[0]
    yield f(arr(1.)), scale[0]
    scale[0] = 2.
    yield f(arr(1.)), scale[0]


@trap
def context_manager_outside(H):
    scale = [1.]

    @contextlib.contextmanager
    def scaled(k):
        old, scale[0] = scale[0], k
        try:
            yield
        finally:
            scale[0] = old
    f = H(lambda x: x * scale[0])
    yield f(arr(1.))
    with scaled(5.):
        yield f(arr(1.))
    yield f(arr(1.))


@trap
def context_manager_counts_entries(H):
    class Enter:
        n = 0

        def __enter__(self):
            self.n += 1
            return self.n

        def __exit__(self, *error):
            return False
    e = Enter()

    @H
    def f(x):
        with e as n:
            return x * n
    for _ in range(3):
        yield f(arr(1.)), e.n


@trap
def context_manager_swallows(H):
    @H
    def f(x):
        with contextlib.suppress(KeyError):
            return x * {}["k"]
        return x * 5
    yield f(arr(1.))
    yield f(arr(2.))


@trap
def exception_carries_array(H):
    class Found(Exception):
        pass

    @H
    def f(x):
        try:
            raise Found(x * 2)
        except Found as e:
            return e.args[0] + 1
    yield f(arr(1.))
    yield f(arr(2.))


@trap
def exception_by_state(H):
    o = types.SimpleNamespace(limit=5)

    @H
    def f(x):
        if x.shape[0] > o.limit:
            raise ValueError("too long")
        return x * o.limit
    yield f(nd.ones((3,)))
    o.limit = 2
    try:
        f(nd.ones((3,)))
        yield "no error"
    except ValueError as e:
        yield str(e)
    o.limit = 4
    yield f(nd.ones((3,)))


@trap
def finally_changes_state(H):
    n = [0]

    @H
    def f(x):
        try:
            return x * (n[0] + 1)
        finally:
            n[0] += 1
    for _ in range(3):
        yield f(arr(1.)), n[0]


@trap
def try_else(H):
    d = {}

    @H
    def f(x):
        try:
            k = d["k"]
        except KeyError:
            return x * 2
        else:
            return x * k
    yield f(arr(1.))
    d["k"] = 7
    yield f(arr(1.))
    del d["k"]
    yield f(arr(1.))


@trap
def hasattr_of_object_changes(H):
    o = types.SimpleNamespace()
    f = H(lambda x: x * o.k if hasattr(o, "k") else x)
    yield f(arr(1.))
    o.k = 5.
    yield f(arr(1.))
    del o.k
    yield f(arr(1.))


@trap
def getattr_default_changes(H):
    o = types.SimpleNamespace()
    f = H(lambda x: x * getattr(o, "k", 2.))
    yield f(arr(1.))
    o.k = 5.
    yield f(arr(1.))


@trap
def key_in_dict_changes(H):
    d = {"a": 1}
    f = H(lambda x: x * (10 if "b" in d else 1))
    yield f(arr(1.))
    d["b"] = 0
    yield f(arr(1.))
    d.pop("b")
    yield f(arr(1.))


@trap
def length_of_containers(H):
    s, d, t = {1}, {}, collections.deque()
    f = H(lambda x: x * (len(s) + 10 * len(d) + 100 * len(t)))
    yield f(arr(1.))
    s.add(2)
    d["k"] = 1
    t.append(1)
    yield f(arr(1.))
