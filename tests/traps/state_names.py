"""State that code changes while it is traced: enclosing variables, iterators, memos, objects, buffers."""
from __future__ import annotations

import collections
import itertools
import types

from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap

counter, history, total, flag, cache = 0, [], None, False, {}


class Base(gluon.HybridBlock):
    """A block with whatever attributes a case gives it."""

    def __init__(self, **values):
        super().__init__()
        for name, value in values.items():
            setattr(self, name, value)


@trap
def nonlocal_count(H):
    n = 0

    @H
    def f(x):
        nonlocal n
        n += 1
        return x * n
    for _ in range(4):
        yield f(arr(1.)), n


@trap
def nonlocal_array(H):
    h = nd.zeros((1,))

    @H
    def f(x):
        nonlocal h
        h = h * 0.5 + x
        return h + 1
    for i in range(4):
        yield f(arr(float(i))), h


@trap
def counted_calls_by_itertools(H):
    ids = itertools.count(1)

    @H
    def f(x):
        return x * next(ids)
    for _ in range(3):
        yield f(arr(1.))


@trap
def cycled(H):
    ways = itertools.cycle([1., 2., 3.])

    @H
    def f(x):
        return x * next(ways)
    for _ in range(4):
        yield f(arr(1.))


@trap
def popped(H):
    stack = [5., 4., 3., 2., 1.]

    @H
    def f(x):
        return x * stack.pop()
    for _ in range(4):
        yield f(arr(1.)), stack


@trap
def dict_count(H):
    seen = collections.Counter()

    @H
    def f(x):
        seen[x.shape] += 1
        return x * seen[x.shape]
    for n in (1, 2, 1, 2, 1):
        yield f(nd.ones((n,)))


@trap
def memo_by_shape(H):
    masks = {}

    @H
    def f(x):
        if x.shape not in masks:
            masks[x.shape] = nd.arange(x.shape[0]) % 2
        return x * masks[x.shape]
    for n in (2, 3, 2, 3):
        yield f(nd.ones((n,)))
    yield [v for v in masks.values()]


@trap
def memo_of_traced(H):
    @H
    def f(x):
        if "y" not in cache:
            cache["y"] = x * 10
        return x + cache["y"]
    cache.clear()
    for i in range(3):
        yield f(arr(1. + i))


@trap
def key_value_cache(H):
    class Attention(Base):
        def forward(self, x):
            self.keys = x if self.keys is None else nd.concat(self.keys, x, dim=0)
            return (self.keys * 2).sum(axis=0)
    m = H(Attention(keys=None))
    for i in range(4):
        yield m(nd.ones((1, 2)) * i)
        yield m.keys


@trap
def set_add(H):
    seen = set()

    @H
    def f(x, name):
        seen.add(name)
        return x * len(seen)
    for name in "aabbc":
        yield f(arr(1.), name), sorted(seen)


@trap
def list_replaced_item(H):
    parts = [1., 2.]

    @H
    def f(x):
        parts[0] = parts[0] + 1
        return x * parts[0]
    for _ in range(3):
        yield f(arr(1.)), parts


@trap
def sorted_in_place(H):
    parts = [3., 1., 2.]

    @H
    def f(x):
        first = parts[0]
        parts.sort()
        return x * first
    for _ in range(3):
        yield f(arr(1.)), parts


@trap
def object_attribute(H):
    o = types.SimpleNamespace(n=0)

    @H
    def f(x):
        o.n += 1
        return x * o.n
    for _ in range(3):
        yield f(arr(1.)), o.n


@trap
def object_argument_written(H):
    @H
    def f(x, o):
        o.last = x * 2
        return x
    o = types.SimpleNamespace(last=None)
    for i in range(3):
        f(arr(float(i)), o)
        yield o.last


@trap
def class_attribute_count(H):
    class M(Base):
        made = 0

        def forward(self, x):
            type(self).made += 1
            return x * self.made
    m = H(M())
    for _ in range(3):
        yield m(arr(1.)), M.made


@trap
def function_attribute(H):
    def f(x):
        f.calls += 1
        return x * f.calls
    f.calls = 0
    g = H(f)
    for _ in range(3):
        yield g(arr(1.)), f.calls


@trap
def default_argument_list(H):
    @H
    def f(x, seen=[]):  # noqa: B006  the trap
        seen.append(1)
        return x * len(seen)
    for _ in range(3):
        yield f(arr(1.))


@trap
def del_attribute(H):
    class M(Base):
        def forward(self, x):
            if hasattr(self, "once"):
                del self.once
                return x * 10
            return x
    m = H(M(once=True))
    for _ in range(3):
        yield m(arr(1.)), hasattr(m, "once")


@trap
def helper_object_keeps_count(H):
    class Meter:
        n = 0

        def update(self, v):
            self.n += 1
            self.value = v
    meter = Meter()

    @H
    def f(x):
        y = x * 2
        meter.update(y)
        return y
    for i in range(3):
        f(arr(float(i)))
        yield meter.n, meter.value


@trap
def child_keeps_state(H):
    class Child(Base):
        def forward(self, x):
            self.n += 1
            return x * self.n

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.child = Child(n=0)

        def forward(self, x):
            return self.child(x) + 1
    net = H(Net())
    for _ in range(3):
        yield net(arr(1.)), net.child.n


@trap
def setattr_by_name(H):
    class M(Base):
        def forward(self, x):
            setattr(self, "n", getattr(self, "n") + 1)
            return x * self.n
    m = H(M(n=0))
    for _ in range(3):
        yield m(arr(1.)), m.n


@trap
def dict_of_self_updated(H):
    class M(Base):
        def forward(self, x):
            self.__dict__.update(n=self.n + 1)
            return x * self.n
    m = H(M(n=0))
    for _ in range(3):
        yield m(arr(1.)), m.n


@trap
def loss_collected_in_training(H):
    net = nn.Dense(1, in_units=2)
    net.initialize("ones")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    log = []

    @H
    def step(x):
        with autograd.record():
            loss = net(x).sum()
        loss.backward()
        trainer.step(1)
        log.append(loss)
        return loss
    for _ in range(3):
        step(nd.ones((1, 2)))
    yield [v.asscalar() for v in log]


@trap
def written_in_place_attribute(H):
    class M(Base):
        def forward(self, x):
            self.ema[:] = self.ema * 0.5 + x
            return self.ema * 1
    m = H(M(ema=nd.zeros((1,))))
    for i in range(4):
        yield m(arr(float(i))), m.ema


@trap
def added_in_place_attribute(H):
    class M(Base):
        def forward(self, x):
            self.ema += x
            return self.ema * 2
    m = H(M(ema=nd.zeros((1,))))
    for i in range(4):
        yield m(arr(float(i))), m.ema


@trap
def swapped_attributes(H):
    class M(Base):
        def forward(self, x):
            self.a, self.b = self.b, self.a
            return x * self.a
    m = H(M(a=nd.ones((1,)), b=nd.ones((1,)) * 2))
    for _ in range(4):
        yield m(arr(1.)), m.a, m.b
