"""Objects that keep weights, settings and other objects; hooks, layers and code made at run time."""
from __future__ import annotations

import types


from hybrid import autograd, nd
from hybrid.gluon import nn

from .tools import arr, trap


@trap
def object_keeps_weights(H):
    class Dense:
        def __init__(self):
            self.w = nd.ones((2, 2))
            self.b = None

        def __call__(self, x):
            y = nd.dot(x, self.w)
            return y if self.b is None else y + self.b
    d = Dense()
    f = H(lambda x: d(x))
    x = nd.ones((1, 2))
    yield f(x)
    d.w[0] = 5
    yield f(x)
    d.w = nd.ones((2, 3))
    yield f(x)
    d.b = nd.ones((3,))
    yield f(x)
    d.b = None
    yield f(x)


@trap
def object_weights_in_list(H):
    class Net:
        def __init__(self):
            self.ws = [nd.ones((1,)) * 2, nd.ones((1,)) * 3]

        def __call__(self, x):
            for w in self.ws:
                x = x * w
            return x
    n = Net()
    f = H(lambda x: n(x))
    yield f(arr(1.))
    n.ws[1] = nd.ones((1,)) * 7
    yield f(arr(1.))
    n.ws.append(nd.ones((1,)) * 2)
    yield f(arr(1.))
    n.ws.pop(0)
    yield f(arr(1.))


@trap
def object_gradient_of_weights(H):
    class Net:
        def __init__(self):
            self.w = arr(2., 3.)
            self.w.attach_grad()

        def __call__(self, x):
            return (x * self.w).sum()
    n = Net()
    f = H(lambda x: n(x))
    for _ in range(2):
        with autograd.record():
            y = f(arr(1., 2.))
        y.backward()
        yield y, n.w.grad
        n.w[:] = n.w - 0.1 * n.w.grad
    n.w = arr(5., 6.)
    n.w.attach_grad()
    with autograd.record():
        y = f(arr(1., 2.))
    y.backward()
    yield y, n.w.grad


@trap
def module_like_namespace(H):
    m = types.ModuleType("settings_of_a_trap")
    m.k, m.inner = 2., types.ModuleType("inner_of_a_trap")
    m.inner.j = 3.
    f = H(lambda x: x * m.k + m.inner.j)
    yield f(arr(1.))
    m.inner.j = 9.
    yield f(arr(1.))
    m.k = 5.
    yield f(arr(1.))


@trap
def subclass_of_dict_with_attributes(H):
    class Config(dict):
        def __getattr__(self, name):
            try:
                return self[name]
            except KeyError:
                raise AttributeError(name) from None

        def __setattr__(self, name, value):
            self[name] = value
    c = Config(k=2.)
    f = H(lambda x: x * c.k + getattr(c, "j", 0.))
    yield f(arr(1.))
    c.k = 5.
    yield f(arr(1.))
    c.j = 3.
    yield f(arr(1.))


@trap
def proxy_object(H):
    class Proxy:
        def __init__(self, target):
            object.__setattr__(self, "target", target)

        def __getattr__(self, name):
            return getattr(object.__getattribute__(self, "target"), name)
    inner = types.SimpleNamespace(k=2.)
    p = Proxy(inner)
    f = H(lambda x: x * p.k)
    yield f(arr(1.))
    inner.k = 5.
    yield f(arr(1.))
    object.__setattr__(p, "target", types.SimpleNamespace(k=7.))
    yield f(arr(1.))


@trap
def getattribute_overridden(H):
    class A:
        scale = 1.

        def __getattribute__(self, name):
            value = object.__getattribute__(self, name)
            return value * object.__getattribute__(self, "scale") if name == "k" else value
    a = A()
    a.k = 2.
    f = H(lambda x: x * a.k)
    yield f(arr(1.))
    a.scale = 5.
    yield f(arr(1.))


@trap
def hook_on_block_counts(H):
    net = nn.Dense(1, in_units=2)
    net.initialize(init="ones")
    seen = []
    net.register_forward_hook(lambda b, i, o: seen.append(o.shape))
    net = H(net)
    for n in (1, 2, 1):
        yield net(nd.ones((n, 2))), list(seen)


@trap
def hook_removed(H):
    net = nn.Dense(1, in_units=2)
    net.initialize(init="ones")
    seen = []
    handle = net.register_forward_pre_hook(lambda b, i: seen.append(1))
    net = H(net)
    yield net(nd.ones((1, 2))), len(seen)
    handle.detach()
    yield net(nd.ones((1, 2))), len(seen)


@trap
def lambda_block_function_changes(H):
    k = [2.]
    net = nn.HybridSequential()
    net.add(nn.HybridLambda(lambda F, x: x * k[0]))
    net = H(net)
    yield net(arr(1.))
    k[0] = 5.
    yield net(arr(1.))


@trap
def forward_assigned_on_object(H):
    net = nn.Dense(1, in_units=2)
    net.initialize(init="ones")
    net = H(net)
    x = nd.ones((1, 2))
    yield net(x)
    old = net.hybrid_forward
    net.hybrid_forward = lambda F, x, weight, bias=None: old(F, x, weight, bias) * 10
    yield net(x)


@trap
def print_happens_once_result_right(H):
    @H
    def f(x):
        print("", end="")
        return x * 2
    for k in range(3):
        yield f(arr(float(k)))


@trap
def locals_and_eval(H):
    k = 2.

    @H
    def f(x):
        j = k + 1
        return x * eval("j", {}, locals())                  # noqa: S307
    yield f(arr(1.))
    k = 5.
    yield f(arr(1.))


@trap
def exec_of_code(H):
    space = {"k": 2.}
    exec("def g(x):\n    return x * k", space)              # noqa: S102
    f = H(lambda x: space["g"](x))
    yield f(arr(1.))
    space["k"] = 5.
    yield f(arr(1.))
    exec("def g(x):\n    return x * k + 100", space)        # noqa: S102
    yield f(arr(1.))


@trap
def match_statement_on_state(H):
    o = types.SimpleNamespace(v=("scale", 2.))

    @H
    def f(x):
        match o.v:
            case ("scale", k):
                return x * k
            case ("shift", k):
                return x + k
            case _:
                return x
    yield f(arr(1.))
    o.v = ("shift", 5.)
    yield f(arr(1.))
    o.v = None
    yield f(arr(1.))
    o.v = ("scale", 9.)
    yield f(arr(1.))
