"""Methods and functions of the library itself that programs replace, add and put back between calls."""
from __future__ import annotations

import contextlib
import functools
from unittest import mock

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .tools import add, arr

_MISSING = object()


@contextlib.contextmanager
def put(where, name, value):
    """Has another value in a class or module for a while."""
    old = vars(where).get(name, _MISSING)
    setattr(where, name, value)
    try:
        yield
    finally:
        delattr(where, name) if old is _MISSING else setattr(where, name, old)


def tenfold(method):
    """A method that gives ten times as much."""
    @functools.wraps(method)
    def changed(self, *args, **kwargs):
        return method(self, *args, **kwargs) * 10
    return changed


def _net(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    net.initialize(mx.init.One())
    return net


class Scaled(nn.Dense):
    """A user's layer upon one of the library's."""

    def forward(self, x):
        return super().forward(x) + 1


class Own(gluon.HybridBlock):
    """A block whose code is given the namespace of operators."""

    def hybrid_forward(self, F, x):                                      # noqa: N803
        return F.relu(x) + F.exp(x)


def _step(x):
    with autograd.record():
        y = (x * x).sum()
    return y + 1


X = ((1., -2.), (3., 4.))
# what is called; the class or module, the name and what takes its place there
CASES = {
    "method_of_arrays": (lambda: lambda x: x.sum(), nd.NDArray, "sum", tenfold(nd.NDArray.sum)),
    "method_of_arrays_with_axis": (lambda: lambda x: x.mean(axis=1), nd.NDArray, "mean", tenfold(nd.NDArray.mean)),
    "operator_of_arrays": (lambda: lambda x: x + 1, nd.NDArray, "__add__", lambda a, b: nd.add(a, b) * 10),
    "operator_from_the_right": (lambda: lambda x: 1 - x, nd.NDArray, "__rsub__", lambda a, b: a * 10),
    "negative_of_arrays": (lambda: lambda x: -x, nd.NDArray, "__neg__", lambda a: a * 10),
    "items_of_arrays": (lambda: lambda x: x[0] * 2, nd.NDArray, "__getitem__", lambda a, key: nd.ones((2,)) * 7),
    "property_of_arrays": (lambda: lambda x: x.T * 2, nd.NDArray, "T", property(lambda a: a * 10)),
    "new_method_of_arrays": (lambda: lambda x: x.tenfold() if hasattr(x, "tenfold") else x * 1, nd.NDArray, "tenfold",
                             lambda a: a * 10),
    "method_that_a_helper_calls": (lambda: (lambda helper: lambda x: helper(x) + 1)(lambda x: x.max()), nd.NDArray,
                                   "max", tenfold(nd.NDArray.max)),
    "how_arrays_are_shown": (lambda: lambda x: x * 2, nd.NDArray, "__repr__", lambda a: "an array"),
    "function_of_nd": (lambda: lambda x: nd.relu(x), nd, "relu", lambda x: x * 7),
    "function_given_as_F": (lambda: Own(), nd, "relu", lambda x: x * 7),
    "function_of_np": (lambda: lambda x: mx.np.sum(x.as_np_ndarray()), mx.np, "sum", lambda x: x * 3),
    "function_of_npx": (lambda: lambda x: mx.npx.relu(x.as_np_ndarray()), mx.npx, "relu", lambda x: x * 3),
    "forward_of_a_layer": (lambda: _net(nn.Dense(2)), nn.Dense, "forward", tenfold(nn.Dense.forward)),
    "forward_of_an_inner_layer": (lambda: _net(nn.Dense(2), nn.Dense(3)), nn.Dense, "forward",
                                  tenfold(nn.Dense.forward)),
    "forward_of_a_layers_second_kind": (lambda: _net(nn.LeakyReLU(.1), nn.ELU()), nn.ELU, "forward",
                                        tenfold(nn.ELU.forward)),
    "hybrid_forward_of_a_layer": (lambda: _net(nn.LeakyReLU(.1)), nn.LeakyReLU, "hybrid_forward",
                                  lambda self, F, x: x * 10),            # noqa: N803
    "forward_below_a_users_layer": (lambda: _net(Scaled(2)), nn.Dense, "forward", tenfold(nn.Dense.forward)),
    "forward_of_a_container": (lambda: _net(nn.Dense(2)), nn.HybridSequential, "forward", lambda self, x: x * 10),
    "call_of_every_block": (lambda: _net(nn.Dense(2)), gluon.HybridBlock, "__call__",
                            tenfold(gluon.HybridBlock.__call__)),
    "mocked_forward": (lambda: _net(nn.Dense(2)), nn.Dense, "forward", mock.Mock(side_effect=lambda x: x * 10)),
    "call_of_a_loss": (lambda: (lambda loss: lambda x: loss(x, x * 2))(gluon.loss.L2Loss()), gluon.loss.L2Loss,
                       "hybrid_forward", lambda self, F, pred, label, sample_weight=None: pred * 10),   # noqa: N803
    "start_of_a_loss_base": (lambda: (lambda loss: lambda x: loss(x, x * 2))(gluon.loss.L1Loss()), gluon.loss.Loss,
                             "__call__", lambda self, pred, label: pred * 10),
    "recorded": (lambda: _step, nd.NDArray, "sum", tenfold(nd.NDArray.sum)),
}


def _case(make, where, name, value):
    def play(H):                                                         # noqa: N803
        f = H(make())
        x = arr(*X)
        yield f(x), f(x)
        for _ in range(2):
            with put(where, name, value):
                yield f(x), f(x)
            yield f(x), f(x)
        with put(where, name, value):
            yield H(make())(x)
    return play


for _name, _of in CASES.items():
    add(f"objects.library_{_name}", _case(*_of))


def _trained(H, where, name, value):                                     # noqa: N803
    net, loss_of = _net(nn.Dense(2, in_units=2)), gluon.loss.L2Loss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})

    @H
    def step(x, y):
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(2)
        return loss
    x, y = arr(*X), arr((1., 1.), (2., 2.))
    for _ in range(3):
        yield step(x, y)
    with put(where, name, value):
        for _ in range(2):
            yield step(x, y)
    yield step(x, y), *(p.data() for p in net.collect_params().values())


def _slower(trainer, size, ignore_stale_grad=False):
    return _STEP(trainer, size * 4, ignore_stale_grad)


_STEP = gluon.Trainer.step
add("objects.library_step_of_a_trainer", lambda H: _trained(H, gluon.Trainer, "step", _slower))
add("objects.library_rate_of_an_optimizer", lambda H: _trained(H, mx.optimizer.Optimizer, "_get_lr",
                                                               lambda self, index: 0.5))
add("objects.library_learning_rate", lambda H: _trained(H, mx.optimizer.Optimizer, "learning_rate",
                                                        property(lambda self: 0.5)))
add("objects.library_layer_of_a_step", lambda H: _trained(H, nn.Dense, "forward", tenfold(nn.Dense.forward)))
