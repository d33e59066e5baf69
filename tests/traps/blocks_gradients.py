"""Gluon blocks: recurrent states, losses, functions over nets, gradients of many kinds."""
from __future__ import annotations


from hybrid import autograd, gluon, hybridize, nd
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
def recurrent_state(H):
    cell = gluon.rnn.LSTMCell(4, input_size=3)
    cell.initialize("ones")
    H(cell)
    state = cell.begin_state(2)
    for _ in range(3):
        y, state = cell(X, state)
        yield y, state


@trap
def recurrent_lengths(H):
    cell = gluon.rnn.GRUCell(4, input_size=3)
    cell.initialize("ones")
    H(cell)
    for n in (2, 4, 2):
        out, _ = cell.unroll(n, nd.ones((2, n, 3)), merge_outputs=True)
        yield out


@trap
def recurrent_layer_states(H):
    layer = gluon.rnn.LSTM(4, input_size=3)
    layer.initialize("ones")
    H(layer)
    yield layer(nd.ones((5, 2, 3)))
    yield layer(nd.ones((5, 2, 3)), layer.begin_state(2))
    yield layer(nd.ones((2, 2, 3)))


@trap
def loss_weight_changed(H):
    loss = H(gluon.loss.L2Loss())
    yield loss(X, X * 2)
    loss._weight = 5.
    yield loss(X, X * 2)


@trap
def sample_weights_switch(H):
    loss = H(gluon.loss.L2Loss())
    yield loss(X, X * 2), loss(X, X * 2, nd.ones((2, 1)) * 3), loss(X, X * 2)


@trap
def hybridized_function_over_net(H):
    net = dense()
    f = H(lambda x: net(x) * 2)
    yield f(X)
    net.weight.set_data(nd.ones((2, 3)) * 5)
    yield f(X)
    net = dense(4)
    yield f(X)


@trap
def ensemble_list(H):
    nets = [dense() for _ in range(3)]
    f = H(lambda x: sum(n(x) for n in nets) / len(nets))
    yield f(X)
    nets[0].weight.set_data(nd.ones((2, 3)) * 5)
    yield f(X)
    nets.append(dense())
    yield f(X)
    del nets[0]
    yield f(X)


@trap
def target_network_copied(H):
    a, b = dense(), dense()
    f = H(lambda x: a(x) - b(x))
    for _ in range(3):
        a.weight.set_data(a.weight.data() + 1)
        yield f(X)
        b.weight.set_data(a.weight.data())
        yield f(X)


@trap
def output_gradient_given(H):
    net = H(dense())
    for k in (1., 3.):
        with autograd.record():
            y = net(X)
        y.backward(nd.ones((2, 2)) * k)
        yield net.weight.grad()


@trap
def retain_graph(H):
    net = H(dense())
    with autograd.record():
        y = net(X).sum()
    y.backward(retain_graph=True)
    first = net.weight.grad().copy()
    y.backward()
    yield first, net.weight.grad()
    y.backward()
    yield net.weight.grad()


@trap
def two_outputs_one_used(H):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.a, self.b = dense(), dense()

        def forward(self, x):
            return self.a(x), self.b(x)
    net = H(Net())
    with autograd.record():
        a, b = net(X)
    a.backward()
    yield net.a.weight.grad(), net.b.weight.grad()


@trap
def gradient_of_gradient(H):
    f = H(lambda x: (x * x * x).sum())
    x = arr(1., 2.)
    x.attach_grad()
    with autograd.record():
        y = f(x)
        g = autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
        z = (g * g).sum()
    z.backward()
    yield x.grad


@trap
def detached(H):
    f = H(lambda x: x * x.detach() + nd.BlockGrad(x) * 2)
    x = arr(1., 2.)
    x.attach_grad()
    with autograd.record():
        y = f(x)
    y.backward()
    yield y, x.grad


@trap
def paused_inside(H):
    @H
    def f(x):
        with autograd.pause():
            k = x * 2
        return x * k
    x = arr(1., 2.)
    x.attach_grad()
    with autograd.record():
        y = f(x)
    y.backward()
    yield x.grad


@trap
def mode_changed_inside(H):
    @H
    def f(x):
        with autograd.predict_mode():
            a = nd.Dropout(x, p=.5)
        return a + x
    with autograd.record():
        yield f(arr(1., 2.))


@trap
def grad_inside(H):
    @H
    def f(x):
        x.attach_grad()
        with autograd.record():
            y = (x * x).sum()
        y.backward()
        return x.grad * 1
    yield f(arr(1., 2.)), f(arr(3., 4.))


@trap
def custom_function(H):
    class Twice(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return x * 2

        def backward(self, dy):
            x, = self.saved_tensors
            return dy * x * 100
    f = H(lambda x: Twice()(x) + x)
    for k in (1., 3.):
        x = arr(k)
        x.attach_grad()
        with autograd.record():
            y = f(x)
        y.backward()
        yield y, x.grad


@trap
def custom_function_with_attribute(H):
    class Scale(autograd.Function):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, x):
            return x * self.k

        def backward(self, dy):
            return dy * self.k * 10
    op = {"k": 2.}
    f = H(lambda x: Scale(op["k"])(x))
    for k in (2., 5.):
        op["k"] = k
        x = arr(1.)
        x.attach_grad()
        with autograd.record():
            y = f(x)
        y.backward()
        yield y, x.grad


@trap
def outer_hybridized_function_inside_net(H):
    inner = hybridize(lambda x, k: x * k)

    class Net(gluon.HybridBlock):
        def forward(self, x):
            return inner(x, self.k)
    net = Net()
    net.k = 2.
    H(net)
    yield net(X)
    net.k = 3.
    yield net(X)
