"""Globals, modules, methods and helpers that are replaced between calls."""
from __future__ import annotations

import functools
import math
import sys
import types


from hybrid import gluon, nd
from hybrid.gluon import nn

from .tools import arr, trap

scale, table, weight, config = 1., {"k": 1.}, None, types.SimpleNamespace(k=1.)


def helper(x):
    return x * scale


def other(x):
    return x * 100


def differ(f):
    """Whether two calls give different numbers."""
    a, b, c = (f(nd.ones((50,))).asnumpy() for _ in range(3))
    return bool((a != b).any() and (b != c).any())


@trap
def global_number(H):
    global scale
    f = H(lambda x: x * scale)
    for scale in (1., 2., 1., 3.):
        yield f(arr(1.))


@trap
def global_of_helper(H):
    global scale
    f = H(lambda x: helper(x) + 1)
    for scale in (1., 2., 1., 3.):
        yield f(arr(1.))


@trap
def global_deleted(H):
    globals()["temporary"] = 2.
    f = H(lambda x: x * temporary)  # noqa: F821
    yield f(arr(1.))
    del globals()["temporary"]
    yield f(arr(1.))


@trap
def global_shadows_builtin(H):
    f = H(lambda x: x * len("abc"))
    yield f(arr(1.))
    globals()["len"] = lambda v: 7
    try:
        yield f(arr(1.))
    finally:
        del globals()["len"]
    yield f(arr(1.))


@trap
def global_helper_replaced(H):
    global helper
    f = H(lambda x: helper(x))
    yield f(arr(1.))
    old, helper = helper, other
    try:
        yield f(arr(1.))
    finally:
        helper = old
    yield f(arr(1.))


@trap
def module_function_patched(H):
    f = H(lambda x: x * math.floor(2.5))
    yield f(arr(1.))
    old, math.floor = math.floor, lambda v: 9
    try:
        yield f(arr(1.))
    finally:
        math.floor = old
    yield f(arr(1.))


@trap
def module_constant_patched(H):
    f = H(lambda x: x * math.pi)
    yield f(arr(1.))
    old, math.pi = math.pi, 3.
    try:
        yield f(arr(1.))
    finally:
        math.pi = old


@trap
def operator_patched(H):
    f = H(lambda x: nd.relu(x))
    yield f(arr(-1.))
    old, nd.relu = nd.relu, lambda v: v * 10
    try:
        yield f(arr(-1.))
    finally:
        nd.relu = old
    yield f(arr(-1.))


@trap
def method_patched_on_class(H):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return self.act(x)

        def act(self, x):
            return x * 2
    net = H(Net())
    yield net(arr(1.))
    Net.act = lambda self, x: x * 5
    yield net(arr(1.))


@trap
def method_patched_on_instance(H):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return self.act(x)

        def act(self, x):
            return x * 2
    net = H(Net())
    yield net(arr(1.))
    net.act = lambda x: x * 5
    yield net(arr(1.))


@trap
def forward_patched_on_class(H):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return x * 2
    net = H(Net())
    yield net(arr(1.))
    Net.forward = lambda self, x: x * 5
    yield net(arr(1.))


@trap
def forward_patched_on_instance(H):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return x * 2
    net = H(Net())
    yield net(arr(1.))
    net.forward = lambda x: x * 5
    yield net(arr(1.))


@trap
def forward_of_child_patched(H):
    net = nn.HybridSequential()
    net.add(nn.Lambda(lambda x: x * 2) if False else nn.HybridLambda(lambda F, x: x * 2))
    H(net)
    yield net(arr(1.))
    type(net[0])
    net[0].hybrid_forward = lambda F, x: x * 5
    yield net(arr(1.))


@trap
def wrapped_function_changed(H):
    parts = {"k": 1.}

    def decorate(fn):
        @functools.wraps(fn)
        def call(*args):
            return fn(*args) * parts["k"]
        return call

    @H
    @decorate
    def f(x):
        return x + 1
    for k in (1., 3.):
        parts["k"] = k
        yield f(arr(1.))


@trap
def inner_function_uses_global(H):
    def outer(x):
        def inner(v):
            return v * scale
        return inner(x)
    global scale
    f = H(outer)
    for scale in (1., 4.):
        yield f(arr(1.))


@trap
def comprehension_uses_global(H):
    global scale
    f = H(lambda x: sum([x * scale * i for i in range(3)]))
    for scale in (1., 4.):
        yield f(arr(1.))


@trap
def map_calls_helper(H):
    global scale
    f = H(lambda x: sum(map(helper, [x, x * 2])))
    for scale in (1., 4.):
        yield f(arr(1.))


@trap
def helper_by_name(H):
    global scale
    f = H(lambda x: globals()["helper"](x))
    for scale in (1., 4.):
        yield f(arr(1.))


@trap
def helper_by_eval(H):
    global scale
    f = H(lambda x: eval("helper(x) * scale"))
    for scale in (1., 4.):
        yield f(arr(1.))


@trap
def helper_by_import(H):
    global scale

    def f(x):
        from tests.traps.surroundings import scale as k
        return x * k
    f = H(f)
    for scale in (1., 4.):
        yield f(arr(1.))


@trap
def global_dict_of_module(H):
    f = H(lambda x: x * vars(sys.modules[__name__])["scale"])
    global scale
    for scale in (1., 4.):
        yield f(arr(1.))
