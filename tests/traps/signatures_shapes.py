"""Arguments whose shapes, dtypes and kinds change; copies, pickles, nested hybridization, gradients of arguments."""
from __future__ import annotations

import copy
import pickle
from collections import namedtuple

import numpy as onp

from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap

Pair = namedtuple("Pair", "a b")


@trap
def variadic(H):
    @H
    def f(*xs, **kw):
        return sum(xs) + sum(kw.values()) * len(kw)
    yield f(arr(1.), arr(2.))
    yield f(arr(1.), arr(2.), k=arr(3.))
    yield f(arr(1.), j=arr(2.), k=arr(3.))


@trap
def default_array_argument(H):
    @H
    def f(a, b=arr(10.)):
        return a + b
    yield f(arr(1.))
    yield f(arr(1.), arr(3.))
    yield f(arr(1.))


@trap
def default_array_written(H):
    @H
    def f(a, b=arr(10.)):
        b += a
        return b * 1
    for _ in range(3):
        yield f(arr(1.))


@trap
def shapes_alternate(H):
    f = H(lambda a: a.reshape((-1,)) * a.shape[0] + a.size)
    for s in ((2, 3), (3, 2), (6,), (1, 6), (2, 3)):
        yield f(nd.ones(s))


@trap
def ranks_alternate(H):
    f = H(lambda a: a * a.ndim)
    for s in ((2,), (2, 1), (2, 1, 1), (2,)):
        yield f(nd.ones(s))


@trap
def dtypes_alternate(H):
    f = H(lambda a: a * 2 if a.dtype == onp.float32 else a + 1)
    for d in ("float32", "int32", "float16", "float64", "float32"):
        yield f(nd.ones((2,), dtype=d))


@trap
def empty_then_full(H):
    f = H(lambda a: a.sum(axis=0) + 1)
    for n in (0, 3, 0, 1):
        yield f(nd.ones((n, 2)))


@trap
def broadcast_one_then_many(H):
    f = H(lambda a, b: a + b)
    for m, n in ((1, 4), (4, 4), (4, 1), (1, 1)):
        yield f(nd.ones((m,)), nd.ones((n,)))


@trap
def scalar_array_shapes(H):
    f = H(lambda a: a * 2)
    yield f(nd.array(3.))
    yield f(nd.array([3.]))
    yield f(nd.array([[3.]]))


@trap
def transposed_argument(H):
    f = H(lambda a: a * 2)
    x = nd.arange(6).reshape((2, 3))
    yield f(x.T)
    yield f(x)
    yield f(x[:, ::2])


@trap
def deepcopy_of_net_between(H):
    net = nn.Dense(2, in_units=2)
    net.initialize(init="ones")
    net = H(net)
    x = arr(1., 2.).reshape((1, 2))
    yield net(x)
    other = copy.deepcopy(net)
    other.weight.set_data(nd.ones((2, 2)) * 5)
    yield net(x), other(x)
    net.weight.set_data(nd.ones((2, 2)) * 7)
    yield net(x), other(x)


@trap
def copy_of_object_with_hybridized_method(H):
    class Scale:
        def __init__(self, k):
            self.k = k

        @H
        def __call__(self, x):
            return x * self.k
    a = Scale(2)
    yield a(arr(1.))
    b = copy.copy(a)
    b.k = 5
    yield a(arr(1.)), b(arr(1.))


@trap
def pickled_arguments(H):
    f = H(lambda d: d["a"] * d["k"])
    d = {"a": arr(2.), "k": 3}
    yield f(d)
    d = pickle.loads(pickle.dumps(d))
    d["k"] = 4
    yield f(d)


@trap
def net_given_as_argument(H):
    f = H(lambda net, x: net(x) * 2)
    nets = [nn.Dense(1, in_units=2), nn.Dense(1, in_units=2, use_bias=False)]
    for i, net in enumerate(nets):
        net.initialize(init="ones")
        net.weight.set_data(nd.ones((1, 2)) * (i + 1))
    x = arr(1., 2.).reshape((1, 2))
    yield f(nets[0], x)
    yield f(nets[1], x)
    nets[0].weight.set_data(nd.ones((1, 2)) * 9)
    yield f(nets[0], x)


@trap
def nets_in_dict_swapped(H):
    nets = {}
    for i, name in enumerate("ab"):
        nets[name] = nn.Dense(1, in_units=2)
        nets[name].initialize()
        nets[name].weight.set_data(nd.ones((1, 2)) * (i + 1))
    f = H(lambda x: nets["a"](x))
    x = arr(1., 2.).reshape((1, 2))
    yield f(x)
    nets["a"], nets["b"] = nets["b"], nets["a"]
    yield f(x)
    del nets["b"]
    nets["a"].weight.set_data(nd.zeros((1, 2)))
    yield f(x)


@trap
def hybridized_of_hybridized_of_method(H):
    class A:
        k = 2

        def f(self, x):
            return x * self.k
    a = A()
    g = H(H(a.f))
    yield g(arr(1.))
    a.k = 7
    yield g(arr(1.))


@trap
def hybridized_calls_hybridized_changed(H):
    k = [2.]
    inner = H(lambda x: x * k[0])
    outer = H(lambda x: inner(x) + 1)
    yield outer(arr(1.)), inner(arr(1.))
    k[0] = 5.
    yield outer(arr(1.)), inner(arr(1.))
    k[0] = 6.
    yield inner(arr(1.)), outer(arr(1.))


@trap
def inner_block_hybridized_in_outer_function(H):
    class Block(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.k = 2.

        def forward(self, x):
            return x * self.k
    b = H(Block())
    f = H(lambda x: b(x) + b(x * 2))
    yield f(arr(1.))
    b.k = 3.
    yield f(arr(1.))
    yield b(arr(1.))


@trap
def recursion_by_shape(H):
    @H
    def f(x):
        return x if x.shape[0] <= 1 else f(x[:-1]) + x[-1]
    yield f(arr(1., 2., 3.))
    yield f(arr(1., 2.))


@trap
def recursion_by_number(H):
    @H
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)
    for n in (1, 3, 2, 5):
        yield power(arr(2.), n)


@trap
def gradient_of_same_argument_twice(H):
    f = H(lambda a, b: a * b)
    x = arr(2., 3.)
    x.attach_grad()
    for _ in range(2):
        with autograd.record():
            y = f(x, x)
        y.backward()
        yield x.grad


@trap
def gradient_of_view_argument(H):
    f = H(lambda a: a * a)
    x = arr(2., 3.)
    x.attach_grad()
    with autograd.record():
        y = f(x[0:1]) + f(x[1:2])
    y.backward()
    yield x.grad


@trap
def gradient_added_over_calls(H):
    f = H(lambda a: a * 3)
    x = arr(2.)
    x.attach_grad("add")
    for _ in range(3):
        with autograd.record():
            y = f(x)
        y.backward()
    yield x.grad


@trap
def recorded_and_not_alternate(H):
    f = H(lambda a: a * a)
    x = arr(2.)
    x.attach_grad()
    for record in (True, False, True):
        if record:
            with autograd.record():
                y = f(x)
            y.backward()
            yield y, x.grad
        else:
            yield f(x)


@trap
def argument_gets_gradient_later(H):
    f = H(lambda a: (a * a).sum())
    x = arr(2., 3.)
    with autograd.record():
        yield f(x)
    x.attach_grad()
    with autograd.record():
        y = f(x)
    y.backward()
    yield x.grad
