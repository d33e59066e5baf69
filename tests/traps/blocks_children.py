"""Networks whose children hold state or are changed: lambdas, activations, layers that two networks share."""
from __future__ import annotations

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap


@trap
def hybrid_lambda_with_default(H):
    ks = [2.]
    net = nn.HybridSequential()
    net.add(nn.HybridLambda(lambda F, x, ks=ks: x * ks[0]))
    net = H(net)
    yield net(arr(1.))
    ks[0] = 5.
    yield net(arr(1.))


@trap
def hybrid_lambda_of_method(H):
    class A:
        k = 2.

        def go(self, F, x):
            return x * self.k
    a = A()
    net = nn.HybridSequential()
    net.add(nn.HybridLambda(a.go))
    net = H(net)
    yield net(arr(1.))
    a.k = 5.
    yield net(arr(1.))
    A.go = lambda self, F, x: x * 100
    yield net(arr(1.))


@trap
def child_in_sequential_has_state(H):
    class Scale(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.k = {"a": 2.}

        def hybrid_forward(self, F, x):
            return x * self.k["a"]
    net = nn.HybridSequential()
    net.add(Scale(), Scale())
    net = H(net)
    yield net(arr(1.))
    net[1].k["a"] = 7.
    yield net(arr(1.))


@trap
def child_helper_object_in_sequential(H):
    class Helper:
        def __init__(self):
            self.k = 2.

        def go(self, x):
            return x * self.k

    class Scale(gluon.HybridBlock):
        def __init__(self, helper_):
            super().__init__()
            self.helper = helper_

        def forward(self, x):
            return self.helper.go(x)
    h = Helper()
    net = nn.HybridSequential()
    net.add(Scale(h))
    net = H(net)
    yield net(arr(1.))
    h.k = 7.
    yield net(arr(1.))
    h.go = lambda x: x + 100
    yield net(arr(1.))


@trap
def concurrent_children(H):
    net = gluon.contrib.nn.HybridConcurrent(axis=0)
    k = [2.]
    net.add(gluon.contrib.nn.Identity(), nn.HybridLambda(lambda F, x: x * k[0]))
    net = H(net)
    yield net(arr(1.))
    k[0] = 5.
    yield net(arr(1.))


@trap
def activation_function_attribute(H):
    net = nn.Dense(2, in_units=1, activation="relu")
    net.initialize(init="ones")
    net = H(net)
    x = nd.array([[-1.]])
    yield net(x)
    net.act = nn.Activation("sigmoid")
    yield net(x)
    net.act = None
    yield net(x)


@trap
def initializer_and_reinitialization(H):
    net = nn.Dense(1, in_units=2)
    net.initialize(init="ones")
    net = H(net)
    yield net(nd.ones((1, 2)))
    net.initialize(init="zeros", force_reinit=True)
    yield net(nd.ones((1, 2)))
    net.initialize(init=mx.init.Constant(3.), force_reinit=True)
    yield net(nd.ones((1, 2)))


@trap
def layer_shared_by_two_networks(H):
    shared = nn.Dense(1, in_units=2)
    shared.initialize(init="ones")
    a, b = nn.HybridSequential(), nn.HybridSequential()
    a.add(shared)
    b.add(shared, nn.Activation("relu"))
    a, b = H(a), H(b)
    x = nd.array([[1., -5.]])
    yield a(x), b(x)
    shared.weight.set_data(nd.array([[1., -1.]]))
    yield a(x), b(x)
