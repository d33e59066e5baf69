"""Gluon blocks: parameters that change, are shared, cast and loaded; gradient requests; modes."""
from __future__ import annotations

import os
import tempfile

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import trap

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
def set_data(H):
    net = H(dense())
    for k in (1., 2., 3.):
        net.weight.set_data(nd.ones((2, 3)) * k)
        yield net(X)


@trap
def data_written(H):
    net = H(dense())
    for k in (1., 2., 3.):
        net.weight.data()[:] = k
        yield net(X)


@trap
def data_row_written(H):
    net = H(dense())
    yield net(X)
    net.weight.data()[0] = 7
    yield net(X)


@trap
def data_view_written(H):
    net = H(dense())
    yield net(X)
    v = net.weight.data()[0:1]
    net(X)
    v[:] = 7
    yield net(X)


@trap
def initialized_again(H):
    net = H(dense())
    yield net(X)
    net.initialize(mx.init.Constant(3), force_reinit=True)
    yield net(X)


@trap
def initialized_after_hybridize(H):
    net = H(nn.Dense(2))
    net.initialize(mx.init.One())
    yield net(X), net(nd.ones((4, 3)))


@trap
def deferred_shape_then_other(H):
    net = H(nn.Dense(2))
    net.initialize("ones")
    yield net(X)
    yield net(nd.ones((2, 5)))


@trap
def not_initialized(H):
    net = H(nn.Dense(2, in_units=3))
    yield net(X)


@trap
def cast_after(H):
    net = H(dense())
    yield net(X)
    net.cast("float64")
    yield net(X.astype("float64"))
    net.cast("float16")
    yield net(X.astype("float16"))
    net.cast("float32")
    yield net(X)


@trap
def cast_wrong_input(H):
    net = H(dense())
    net.cast("float16")
    yield net(X)


@trap
def parameters_loaded(H):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.params")
        net = H(dense())
        yield net(X)
        other = dense()
        other.weight.set_data(nd.ones((2, 3)) * 5)
        other.save_parameters(path)
        net.load_parameters(path)
        yield net(X)


@trap
def shared_parameters(H):
    a = dense()
    b = H(nn.Dense(2, in_units=3, params=a.params))
    H(a)
    yield a(X), b(X)
    a.weight.set_data(nd.ones((2, 3)) * 4)
    yield a(X), b(X)


@trap
def tied_within_net(H):
    class Tied(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.a = nn.Dense(3, in_units=3, use_bias=False)
            self.b = nn.Dense(3, in_units=3, use_bias=False, params=self.a.params)

        def hybrid_forward(self, F, x):  # noqa: N803
            return self.b(self.a(x))
    net = H(Tied())
    net.initialize("ones")
    recorded(net)
    yield net(X), net.a.weight.grad()
    net.a.weight.set_data(nd.ones((3, 3)) * 2)
    yield net(X)


@trap
def parameter_object_replaced(H):
    net = H(dense())
    yield net(X)
    other = dense()
    other.weight.set_data(nd.ones((2, 3)) * 6)
    net.weight = other.weight
    yield net(X)


@trap
def grad_req_changed(H):
    net = H(dense())
    for req in ("write", "add", "add", "null", "write"):
        net.weight.grad_req = req
        recorded(net)
        yield req, net.bias.grad(), None if req == "null" else net.weight.grad()


@trap
def grad_req_set_on_all(H):
    net = H(stack(dense(), nn.Dense(2, in_units=2)))
    recorded(net)
    net[0].collect_params().setattr("grad_req", "null")
    recorded(net, X * 2)
    yield net[1].weight.grad()
    net[0].collect_params().setattr("grad_req", "write")
    recorded(net, X * 3)
    yield net[0].weight.grad(), net[1].weight.grad()


@trap
def gradients_added_over_calls(H):
    net = H(dense())
    net.collect_params().setattr("grad_req", "add")
    for _ in range(3):
        recorded(net)
        yield net.weight.grad()
    net.collect_params().zero_grad()
    recorded(net)
    yield net.weight.grad()


@trap
def input_grad_req(H):
    net = H(dense())
    for req in ("write", "add", "null"):
        x = X.copy()
        x.attach_grad(grad_req=req)
        recorded(net, x)
        recorded(net, x)
        yield x.grad


@trap
def dropout_modes(H):
    net = H(stack(nn.Dropout(.5)))
    x = nd.ones((100,))
    yield net(x)
    with autograd.record():
        yield bool((net(x) == 0).sum().asscalar() > 0)
    with autograd.record(train_mode=False):
        yield net(x)
    with autograd.train_mode():
        yield bool((net(x) == 0).sum().asscalar() > 0)
    yield net(x)


@trap
def dropout_rate_changed(H):
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):  # noqa: N803
            return F.Dropout(x, p=self.p, mode="always")
    net = Net()
    net.p = 0.
    H(net)
    x = nd.ones((100,))
    yield bool((net(x) == 0).sum().asscalar() > 0)
    net.p = .5
    yield bool((net(x) == 0).sum().asscalar() > 0)


@trap
def dropout_backward_mask(H):
    net = H(stack(nn.Dropout(.5)))
    x = nd.ones((50,))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    yield bool((x.grad == y).asnumpy().all())


@trap
def batch_norm_modes(H):
    net = H(stack(nn.BatchNorm(in_channels=3)))
    x = nd.arange(6).reshape((2, 3))
    yield net(x)
    for _ in range(3):
        with autograd.record():
            yield net(x)
        yield net[0].running_mean.data(), net[0].running_var.data()
    yield net(x)


@trap
def batch_norm_statistics_set(H):
    net = H(stack(nn.BatchNorm(in_channels=3)))
    yield net(X)
    net[0].running_mean.set_data(nd.ones((3,)) * 5)
    yield net(X)


@trap
def batch_norm_global_stats(H):
    net = H(stack(nn.BatchNorm(in_channels=3, use_global_stats=True)))
    with autograd.record():
        yield net(nd.arange(6).reshape((2, 3)))
    yield net[0].running_mean.data()
