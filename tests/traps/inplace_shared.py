"""Arrays that share memory or are one and the same among arguments, results, views and attributes."""
from __future__ import annotations

import numpy as onp

from hybrid import nd

from .tools import arr, trap


def _square():
    return nd.arange(12).reshape((3, 4))


@trap
def a_view_and_its_base_written(H):
    @H
    def f(base, part):
        base += 1
        part *= 2
        return base + 0, part + 0
    for _ in range(3):
        base = _square()
        yield f(base, base[1]), base
        yield f(base, base[0:2].reshape((8,))), base
        yield f(base, _square()), base


@trap
def overlapping_views(H):
    @H
    def f(a, b):
        a[:] = b
        return a.sum()
    for _ in range(2):
        x = nd.arange(6)
        yield f(x[0:4], x[2:6]), x
        x = nd.arange(6)
        yield f(x[2:6], x[0:4]), x
        yield f(nd.arange(4), x[0:4]), x


@trap
def argument_written_and_returned(H):
    @H
    def f(x):
        x += 1
        y = x[0]
        y[:] = 9
        return x, y, x
    for _ in range(3):
        x = _square()
        a, b, c = f(x)
        b += 100
        yield a, b, c, x, a is c


@trap
def result_changed_by_the_caller(H):
    w = arr(1., 2.)
    f = H(lambda x: (x, w, x + w, x.reshape((2, 1)), w[0:1]))
    for _ in range(3):
        x = arr(3., 4.)
        out = f(x)
        for o in out:
            o *= 2
        yield list(out), x, w
        w[:] = arr(1., 2.)


@trap
def operators_on_results(H):
    f = H(lambda x: x * 2)
    kept = []
    for v in (1., 2., 3.):
        y = f(arr(v, v))
        y += 1
        y[0] = 7
        kept.append(y)
        yield list(kept)
    y = f(f(f(arr(1., 1.))))
    y -= f(y)
    yield y


@trap
def a_list_of_the_same_array(H):
    @H
    def f(xs):
        xs[0][:] = xs[1] + 1
        return xs[0] + xs[-1]
    for _ in range(2):
        a, b = arr(1., 2.), arr(10., 20.)
        yield f([a, a]), a
        yield f([a, b]), a, b
        yield f([a, b, a]), a, b
        yield f([b, b, b]), b


@trap
def state_is_an_argument(H):
    class Cell:
        def __init__(self):
            self.h = arr(0., 0.)

        def step(self, x):
            self.h[:] = self.h * .5 + x
            return self.h
    Cell.step = H(Cell.step)
    c = Cell()
    for _ in range(3):
        yield c.step(arr(1., 2.)), c.h
        yield c.step(c.h), c.h
    d = Cell()
    d.h = c.h
    yield d.step(c.h), c.h, d.h is c.h


@trap
def written_under_a_mask(H):
    @H
    def f(x, k):
        y = x.copy()
        y[:, 1:3] = k
        y[-1] += y[0]
        y[::2, ::-1] *= 2
        x[0, 0] = y.sum()
        return y
    for k in (1., 2., 1.):
        x = _square()
        yield f(x, k), x


@trap
def memory_of_numpy_shared(H):
    f = H(lambda x: x * 2 + 1)
    raw = onp.ones((2, 3), "float32")
    x = nd.from_numpy(raw, zero_copy=True) if hasattr(nd, "from_numpy") else nd.array(raw)
    yield f(x)
    raw2 = x.asnumpy()
    raw2 = raw2.copy()
    raw2[0] = 5
    x[:] = raw2
    yield f(x), f(x[0]), f(x.T)


@trap
def swapped_between_calls(H):
    @H
    def f(a, b):
        a += b
        return a * b
    p, q = arr(1., 2.), arr(3., 4.)
    for _ in range(3):
        yield f(p, q), p, q
        p, q = q, p
    yield f(p, p), p


@trap
def written_twice_in_two_orders(H):
    @H
    def f(x, first):
        v = x[0:2]
        if first:
            x *= 2
            v += 1
        else:
            v += 1
            x *= 2
        return v + 0, x[1:3] + 0
    for first in (True, False, True):
        x = arr(1., 2., 3.)
        yield f(x, first), x


@trap
def copied_or_not(H):
    @H
    def f(x):
        a, b, c = x.copy(), x.reshape((-1,)), x.astype("float32", copy=False)
        a += 1
        b += 10
        c += 100
        return a, b + 0, c + 0
    for _ in range(2):
        x = arr(1., 2.)
        yield f(x), x
