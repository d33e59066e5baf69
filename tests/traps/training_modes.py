"""Recording, modes and gradients in odd orders: nested scopes, what is kept between calls, errors in the middle."""
from __future__ import annotations

import numpy as onp

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap


def _leaf(*values, req="write"):
    x = arr(*values)
    x.attach_grad(req)
    return x


@trap
def gradients_written_added_and_none(H):
    f = H(lambda x, y: (x * x * y).sum())
    for req in ("write", "add", "null", "add", "write"):
        x, y = _leaf(1., 2., req=req), _leaf(3., 4.)
        for _ in range(3):
            with autograd.record():
                loss = f(x, y)
            loss.backward()
            yield req, (x.grad if req != "null" else None), y.grad


@trap
def request_changes_between_calls(H):
    net = nn.Dense(1, in_units=2)
    net.initialize(mx.init.One())
    H(net)
    for req in ("write", "add", "add", "null", "write"):
        net.collect_params().setattr("grad_req", req)
        with autograd.record():
            loss = net(arr(1., 2.).reshape((1, 2))).sum()
        loss.backward()
        yield req, net.weight.grad() if req != "null" else None


@trap
def graph_kept_for_a_second_time(H):
    f = H(lambda x: (x ** 3).sum())
    x = _leaf(1., 2.)
    for _ in range(3):
        with autograd.record():
            y = f(x)
        y.backward(retain_graph=True)
        first = x.grad.copy()
        y.backward()
        yield first, x.grad


@trap
def gradient_of_a_gradient(H):
    f = H(lambda x: (x ** 3 + nd.sin(x)).sum())
    x = _leaf(1., 2.)
    for scale in (1., 2., 1.):
        with autograd.record():
            y = f(x * scale)
            g = autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
            z = (g * g).sum()
        z.backward()
        yield y, g, x.grad


@trap
def gradient_inside_compiled_code(H):
    @H
    def f(x):
        x.attach_grad()
        with autograd.record():
            y = (x * x * x).sum()
        y.backward()
        return x.grad * 2
    for v in (1., 2., 1.):
        yield f(arr(v, v + 1))


@trap
def scopes_in_scopes(H):
    @H
    def f(x):
        with autograd.pause():
            a = x * 2
            with autograd.record():
                b = x * 3
            c = nd.Dropout(x, p=.5)
        with autograd.predict_mode():
            d = nd.Dropout(x, p=.5)
        return a + b + c + d + x * autograd.is_training()
    x = _leaf(1., 2.)
    for mode in (None, False, None, False):
        if mode is None:
            yield f(x)
        else:
            with autograd.record(train_mode=mode):
                y = f(x)
            y.backward()
            yield y, x.grad


@trap
def dropout_by_mode(H):
    net = nn.HybridSequential()
    net.add(nn.Dropout(.5), nn.Lambda("identity"))
    H(net)
    x = nd.ones((2000,))
    for training in (False, True, False, True):
        if training:
            with autograd.record():
                y = net(x)
            values = onp.unique(y.asnumpy()).tolist()
            yield values, bool(600 < float((y > 0).sum().asscalar()) < 1400)
        else:
            yield net(x)
    with autograd.record(train_mode=False):
        yield net(x)
    with autograd.train_mode():
        yield onp.unique(net(x).asnumpy()).tolist()


@trap
def draws_follow_the_seed(H):
    f = H(lambda x: x + nd.random.normal(shape=(3,)) + nd.random.uniform(0, 1, shape=(3,)))
    for seed in (1, 2):
        mx.random.seed(seed)
        a = [f(arr(0.)).asnumpy() for _ in range(3)]
        mx.random.seed(seed)
        b = [f(arr(0.)).asnumpy() for _ in range(3)]
        yield all(bool((p == q).all()) for p, q in zip(a, b)), not bool((a[0] == a[1]).all())


@trap
def running_statistics_and_an_error(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm(in_channels=2, momentum=.5)
            self.fails = False

        def forward(self, x):
            y = self.norm(x)
            if self.fails:
                raise ValueError("after the norm")
            return y
    net = Net()
    net.initialize()
    H(net)
    x = nd.array([[1., 2.], [3., 6.]])
    for fails in (False, False, True, False):
        net.fails = fails
        try:
            with autograd.record():
                y = net(x)
            yield y
        except ValueError:
            yield "error"
        yield net.norm.running_mean.data(), net.norm.running_var.data(), net(x) if not fails else None


@trap
def running_statistics_by_mode(H):
    net = nn.BatchNorm(in_channels=1, momentum=.5)
    net.initialize()
    H(net)
    x = nd.array([[1.], [3.]])
    for how in ("predict", "train", "predict", "record", "no statistics", "train"):
        if how == "train":
            with autograd.train_mode():
                yield net(x)
        elif how == "record":
            with autograd.record():
                yield net(x)
        elif how == "no statistics":
            with autograd.record(train_mode=False):
                yield net(x)
        else:
            yield net(x)
        yield net.running_mean.data()


@trap
def function_with_state_of_its_own(H):
    class Scale(autograd.Function):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, x):
            y = x * self.k
            self.save_for_backward(x, y)
            return y

        def backward(self, dy):
            x, y = self.saved_tensors
            return dy * self.k + x * 0 + y * 0 + 10
    k = [2.]
    f = H(lambda x: Scale(k[0])(x).sum())
    x = _leaf(1., 2.)
    for v in (2., 5., 5., 2.):
        k[0] = v
        with autograd.record():
            y = f(x)
        y.backward()
        yield y, x.grad


@trap
def several_records_for_one_trainer(H):
    net = nn.Dense(1, in_units=1, use_bias=False)
    net.initialize(mx.init.One())
    H(net)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": .1, "momentum": .5}, update_on_kvstore=False)
    for turn in range(4):
        losses = []
        for scale in (1., 2.):
            with autograd.record():
                losses.append((net(nd.ones((2, 1)) * scale) - turn).square().sum())
        autograd.backward(losses)
        trainer.step(2)
        yield net.weight.data(), [v.asscalar() for v in losses]


@trap
def heads_with_own_gradients(H):
    f = H(lambda x: (x * 2, x * x, x.detach() * 3))
    x = _leaf(1., 2.)
    for heads in ((1., 1.), (3., 0.), (0., 5.)):
        with autograd.record():
            a, b, c = f(x)
        autograd.backward([a, b], [nd.ones((2,)) * heads[0], nd.ones((2,)) * heads[1]])
        yield a, b, c, x.grad


@trap
def detached_in_the_middle(H):
    @H
    def f(x, cut):
        y = x * x
        return ((y.detach() if cut else y) * x + nd.BlockGrad(y)).sum()
    x = _leaf(1., 2.)
    for cut in (True, False, True):
        with autograd.record():
            y = f(x, cut)
        y.backward()
        yield x.grad


@trap
def same_block_twice_in_a_record(H):
    net = nn.Dense(2, in_units=2)
    net.initialize(mx.init.One())
    H(net)
    x = nd.ones((1, 2))
    for _ in range(3):
        with autograd.record():
            loss = net(net(x)).sum() + net(x * 2).sum()
        loss.backward()
        yield loss, net.weight.grad(), net.bias.grad()


@trap
def marked_variables(H):
    f = H(lambda x: (x * x).sum())
    x, g = arr(1., 2.), arr(0., 0.)
    for req in ("write", "add", "add"):
        autograd.mark_variables([x], [g], req)
        with autograd.record():
            y = f(x)
        y.backward()
        yield g, x.grad


@trap
def frozen_part_of_a_network(H):
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=2), nn.Dense(1, in_units=2))
    net.initialize(mx.init.One())
    H(net)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": .1})
    for req in ("write", "null", "write", "null"):
        net[0].collect_params().setattr("grad_req", req)
        with autograd.record():
            loss = net(nd.ones((1, 2))).square().sum()
        loss.backward()
        trainer.step(1, ignore_stale_grad=True)
        yield net[0].weight.data(), net[1].weight.data()


@trap
def step_after_an_error_in_backward(H):
    class Odd(autograd.Function):
        fails = False

        def forward(self, x):
            return x * 2

        def backward(self, dy):
            if Odd.fails:
                raise ValueError("in backward")
            return dy * 2
    f = H(lambda x: Odd()(x).sum())
    x = _leaf(1., 2.)
    for fails in (False, True, False):
        Odd.fails = fails
        try:
            with autograd.record():
                y = f(x)
            y.backward()
            x.grad.wait_to_read()
            yield y, x.grad
        except (ValueError, mx.MXNetError) as err:
            yield isinstance(err, (ValueError, mx.MXNetError))
