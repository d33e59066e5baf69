"""Gluon blocks: hooks, layers that are added and replaced, copies, exports, nesting."""
from __future__ import annotations

import copy
import os
import tempfile

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap

X = nd.ones((2, 3))


def dense(units=2, **kw):
    net = nn.Dense(units, in_units=3, **kw)
    net.initialize("ones")
    return net


def stack(*blocks):
    net = nn.HybridSequential()
    net.add(*blocks)
    net.initialize("ones")
    return net


def recorded(net, x=X):
    with autograd.record():
        y = net(x)
        loss = y.sum()
    loss.backward()
    return y


class Scaled(gluon.HybridBlock):
    """Multiplies by a parameter and by an attribute."""

    def __init__(self, k=1.):
        super().__init__()
        self.k = k
        self.w = self.params.get("w", shape=(1,), init="ones")

    def hybrid_forward(self, F, x, w):  # noqa: N803
        return F.broadcast_mul(x, w) * self.k


@trap
def hooks_of_outer(H):
    seen = []
    net = dense()
    net.register_forward_hook(lambda block, args, out: seen.append(out.shape))
    net.register_forward_pre_hook(lambda block, args: seen.append("before"))
    H(net)
    for _ in range(3):
        net(X)
        yield seen


@trap
def hooks_of_inner(H):
    seen = []
    net = stack(dense(), nn.Dense(2, in_units=2))
    net[0].register_forward_hook(lambda block, args, out: seen.append(out))
    H(net)
    for _ in range(3):
        net(X)
        yield len(seen), seen[-1]


@trap
def hook_added_later(H):
    seen = []
    net = H(stack(dense()))
    net(X)
    handle = net[0].register_forward_hook(lambda block, args, out: seen.append(1))
    net(X)
    net(X)
    yield seen
    handle.detach()
    net(X)
    yield seen


@trap
def hook_that_changes_result(H):
    net = H(stack(dense()))
    net(X)
    net.register_forward_hook(lambda block, args, out: out.__imul__(2))
    yield net(X)


@trap
def layer_added(H):
    net = H(stack(dense()))
    yield net(X)
    more = nn.Dense(2, in_units=2)
    more.initialize("ones")
    net.add(more)
    yield net(X)


@trap
def layer_replaced(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.body = dense()

        def hybrid_forward(self, F, x):  # noqa: N803
            return self.body(x) * 2
    net = H(Net())
    yield net(X)
    net.body = dense(5)
    yield net(X)


@trap
def layer_replaced_in_children(H):
    net = H(stack(dense(), nn.Dense(1, in_units=2)))
    yield net(X)
    other = nn.Dense(1, in_units=2)
    other.initialize(mx.init.Constant(3))
    net._children["1"] = other
    yield net(X)


@trap
def layer_in_list_replaced(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.parts = [dense(), dense()]
            for i, p in enumerate(self.parts):
                self.register_child(p, str(i))

        def forward(self, x):
            return sum(p(x) for p in self.parts)
    net = H(Net())
    yield net(X)
    net.parts[1].weight.set_data(nd.ones((2, 3)) * 9)
    yield net(X)
    net.parts.pop()
    yield net(X)


@trap
def unregistered_layer_in_list(H):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return self.hidden[0](x) * 2
    net = Net()
    net.hidden = [dense()]
    H(net)
    yield net(X)
    net.hidden[0].weight.set_data(nd.ones((2, 3)) * 9)
    yield net(X)
    net.hidden[0] = dense(4)
    yield net(X)


@trap
def attribute_of_layer_changed(H):
    net = Scaled(2.)
    net.initialize()
    H(net)
    yield net(X)
    net.k = 5.
    yield net(X)
    recorded(net)
    yield net.w.grad()
    net.k = 7.
    recorded(net)
    yield net.w.grad()


@trap
def attribute_of_inner_layer_changed(H):
    net = stack(Scaled(2.), Scaled(3.))
    H(net)
    yield net(X)
    net[1].k = 10.
    yield net(X)


@trap
def activation_changed(H):
    net = dense(activation="relu")
    H(net)
    yield net(X * -1)
    net.act = nn.Activation("tanh")
    yield net(X * -1)
    net.act = None
    yield net(X * -1)


@trap
def constant_parameter(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.c = self.params.get_constant("c", nd.array([2.]))

        def hybrid_forward(self, F, x, c):  # noqa: N803
            return F.broadcast_mul(x, c)
    net = H(Net())
    net.initialize()
    yield net(X)
    net.c.set_data(arr(5.))
    yield net(X)


@trap
def inner_hybridized_only(H):
    class Outer(gluon.Block):
        def __init__(self, body):
            super().__init__()
            self.body = body

        def forward(self, x):
            y = self.body(x)
            return y * 2 if y.sum().asscalar() > 0 else y * 3
    body = dense()
    H(body)
    net = Outer(body)
    yield net(X), net(X * -1)


@trap
def plain_block_inside(H):
    class Plain(gluon.Block):
        def forward(self, x):
            return x * 2 if x.sum().asscalar() > 0 else x * 3

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.a = Plain()

        def forward(self, x):
            return self.a(x)
    net = H(Net())
    yield net(X), net(X * -1)


@trap
def hybridized_off_and_on(H):
    net = H(Scaled(2.))
    net.initialize()
    yield net(X)
    net.hybridize(False)
    net.k = 3.
    yield net(X)
    H(net)
    net.k = 4.
    yield net(X)


@trap
def static_alloc_results_kept(H):
    net = dense()
    H(net) if H.__name__ == "eager" else net.hybridize(static_alloc=True, static_shape=True)
    kept = [net(X * i) for i in range(4)]
    yield kept


@trap
def deepcopied(H):
    net = H(dense())
    net(X)
    other = copy.deepcopy(net)
    other.weight.set_data(nd.ones((2, 3)) * 5)
    yield other(X), net(X)


@trap
def exported_and_imported(H):
    net = dense()
    net.hybridize()
    net(X)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m")
        net.export(path)
        again = gluon.SymbolBlock.imports(path + "-symbol.json", ["data"], path + "-0000.params")
    H(again)
    yield again(X)
    next(iter(again.collect_params().values())).set_data(nd.ones((2, 3)) * 5)
    yield again(X)


@trap
def apply_to_children(H):
    net = H(stack(dense(), nn.Dense(2, in_units=2)))
    yield net(X)
    net.apply(lambda b: b.weight.set_data(b.weight.data() * 2) if isinstance(b, nn.Dense) else None)
    yield net(X)


@trap
def method_other_than_forward(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.body = dense()

        def encode(self, x):
            return self.body(x) + 1

        def forward(self, x):
            return self.encode(x) * 2
    net = H(Net())
    yield net(X), net.encode(X), net(X)


@trap
def several_inputs_and_none(H):
    class Net(gluon.HybridBlock):
        def forward(self, x, mask=None, states=None):
            y = x if mask is None else x * mask
            return y, [y * 2] if states is None else [s + 1 for s in states]
    net = H(Net())
    yield net(X), net(X, X * 3), net(X, None, [X, X]), net(X, states=[X])
