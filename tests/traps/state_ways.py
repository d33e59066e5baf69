"""State that code changes where the code is traced more than once for a call, ends in an error, or is recorded."""
from __future__ import annotations

import copy
import functools

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.gluon import nn

from .state_toggled import KINDS, put_back
from .tools import add, arr

PROCESS = {"variable", "environ", "level", "precision", "recursion", "global", "global_statement", "sys_modules",
           "print_options", "filters"}             # kinds whose state is not in the object


def _sizes(H, make, flip):
    o = make()
    f = H(lambda x: x * flip(o, float(x.shape[0])))
    for n in (1, 2, 3, 1, 2, 4, 1, 3, 2, 2):
        yield f(nd.ones(n))


def _raises(H, make, flip):
    o = make()

    @H
    def f(x):
        old = flip(o, 1. + x.shape[0] % 2)
        if x.shape[0] == 3:
            raise ValueError(f"{x.shape}")
        return x * old
    for n in (1, 3, 2, 3, 1, 2, 3, 3, 1):
        try:
            yield f(nd.ones(n))
        except ValueError as err:
            yield str(err)


def _recorded(H, make, flip):
    o, w = make(), arr(3.)
    w.attach_grad()
    f = H(lambda x, n: (w * x * flip(o, n)).sum())
    for n in (1., 2., 1., 2., 2., 1.):
        with autograd.record():
            y = f(arr(1., 2.), n)
        y.backward()
        yield y, w.grad
        yield f(arr(1., 2.), n)


def _deferred(H, make, flip):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(2, use_bias=False)

        def forward(self, x):
            return self.dense(x) * flip(self.o, 2. if x.shape[0] == 1 else 1.)
    net = Net()
    net.o = make()
    net.initialize(mx.init.One())
    H(net)
    for n in (1, 2, 1, 1, 2):
        yield net(nd.ones((n, 3)))


def _asked(H, make, flip):
    """The code does what only plain Python can, after it has changed the state."""
    o = make()

    @H
    def f(x, n):
        old = flip(o, n)
        return x * old if type(x) is nd.NDArray else x * 100
    for n in (1., 2., 1., 2., 1.):
        yield f(arr(1.), n)


def _refused(H, make, flip):
    """The code asks for a number, is refused, and runs on other numbers eagerly afterwards."""
    o = make()

    @H
    def f(x, n):
        old = flip(o, n)
        return x * (old if n == 2. or float(x.sum()) > 0 else 100.)
    for n in (2., 2., 2., 2.):
        yield f(arr(1.), n)
    yield f(arr(1.), 1.)


def _copied(H, make, flip):
    class Net(gluon.HybridBlock):
        def forward(self, x, n):
            return x * flip(self.o, n)
    net = Net()
    net.o = make()
    H(net)
    yield net(arr(1.), 2.)
    try:
        other = copy.deepcopy(net)
    except TypeError:
        return
    for n in (1., 2., 1., 1., 2.):
        yield net(arr(1.), n), other(arr(1.), 3. - n)


WAYS = {"sizes": _sizes, "raises": _raises, "recorded": _recorded, "deferred": _deferred, "asked": _asked,
        "refused": _refused, "copied": _copied}
for _name, (_make, _flip) in KINDS.items():
    for _word, _way in WAYS.items():
        if not (_word == "copied" and _name in PROCESS):
            add(f"state.{_word}_{_name}", functools.partial(put_back, functools.partial(_way, make=_make, flip=_flip)))
