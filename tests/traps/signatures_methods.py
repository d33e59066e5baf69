"""Blocks and parameters as arguments; methods, classes, partials, copies, recursion."""
from __future__ import annotations

import collections
import copy
import functools
import pickle
import weakref


from hybrid import gluon, hybridize, nd

from .tools import arr, trap

Pair = collections.namedtuple("Pair", "a b")
AB = {"a": arr(1.), "b": arr(10.)}
BA = {"b": arr(10.), "a": arr(1.)}


@trap
def block_argument(H):
    f = H(lambda x, net: net(x))
    nets = [gluon.nn.Dense(1, in_units=1, use_bias=False) for _ in "ab"]
    for k, net in enumerate(nets):
        net.initialize()
        net.weight.set_data(nd.ones((1, 1)) * (k + 2))
    x = nd.ones((1, 1))
    yield f(x, nets[0]), f(x, nets[1]), f(x, nets[0])
    nets[0].weight.set_data(nd.ones((1, 1)) * 9)
    yield f(x, nets[0])


@trap
def parameter_argument(H):
    f = H(lambda x, p: x * p.data())
    p = gluon.Parameter("w", shape=(1,))
    p.initialize("ones")
    yield f(arr(1.), p)
    p.set_data(arr(4.))
    yield f(arr(1.), p)


@trap
def method_of_object(H):
    class Model:
        def __init__(self, k):
            self.k = k

        def run(self, x):
            return x * self.k
    a, b = Model(2.), Model(3.)
    fa, fb = H(a.run), H(b.run)
    yield fa(arr(1.)), fb(arr(1.))
    a.k = 7.
    yield fa(arr(1.)), fb(arr(1.))


@trap
def decorated_method(H):
    class Model:
        def __init__(self, k):
            self.k = k

        @H
        def run(self, x):
            return x * self.k
    a, b = Model(2.), Model(3.)
    yield a.run(arr(1.)), b.run(arr(1.))
    a.k = 7.
    yield a.run(arr(1.)), b.run(arr(1.)), Model.run(b, arr(1.))


@trap
def decorated_class_and_static_methods(H):
    class Model:
        k = 2.

        @classmethod
        @H
        def of_class(cls, x):
            return x * cls.k

        @staticmethod
        @H
        def static(x):
            return x * 3
    yield Model.of_class(arr(1.)), Model().of_class(arr(1.)), Model.static(arr(1.)), Model().static(arr(1.))
    Model.k = 5.
    yield Model.of_class(arr(1.))


@trap
def class_over_static_methods(H):
    class Model:
        k = 2.

        @H
        @classmethod
        def of_class(cls, x):
            return x * cls.k

        @H
        @staticmethod
        def static(x):
            return x * 3
    yield Model.of_class(arr(1.)), Model.static(arr(1.)), Model().static(arr(1.))


@trap
def decorated_property(H):
    class Model:
        def __init__(self):
            self.w = arr(2.)

        @property
        @H
        def double(self):
            return self.w * 2
    m = Model()
    yield m.double
    m.w = arr(5.)
    yield m.double


@trap
def decorated_class(H):
    @H
    class Model:
        def __init__(self, k):
            self.k = k

        def forward(self, x):
            return x * self.k

        def __call__(self, x):
            return self.forward(x)
    a, b = Model(2.), Model(3.)
    yield a(arr(1.)), b(arr(1.))
    a.k = 9.
    yield a(arr(1.)), b(arr(1.))


@trap
def decorated_class_with_slots(H):
    @H
    class Model:
        __slots__ = ("k",)

        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k
    a = Model(2.)
    yield a(arr(1.))
    a.k = 9.
    yield a(arr(1.))


@trap
def decorated_class_inherited(H):
    @H
    class Base:
        k = 2.

        def __call__(self, x):
            return self.body(x) + 1

        def body(self, x):
            return x * self.k

    class Derived(Base):
        def body(self, x):
            return super().body(x) * 10
    a, b = Base(), Derived()
    yield a(arr(1.)), b(arr(1.))
    b.k = 4.
    yield a(arr(1.)), b(arr(1.))


@trap
def super_and_mixins(H):
    class A(gluon.HybridBlock):
        def forward(self, x):
            return x + 1

    class B(A):
        def forward(self, x):
            return super().forward(x) * 2

    class C(A):
        def forward(self, x):
            return super().forward(x) - 3

    class D(B, C):
        pass
    net = H(D())
    yield net(arr(1.)), net(arr(2.))


@trap
def partial_of_function(H):
    f = H(functools.partial(lambda k, x, m=1: x * k + m, 2., m=5.))
    yield f(arr(1.)), f(arr(1.), m=7.)


@trap
def deepcopied_function(H):
    f = H(lambda x: x * 2)
    f(arr(1.))
    g = copy.deepcopy(f)
    yield g(arr(3.)), f(arr(4.))


@trap
def deepcopied_object_with_function(H):
    class Model:
        pass
    m = Model()
    m.k, m.f = 2., H(lambda x: x * 2)
    m.f(arr(1.))
    yield copy.deepcopy(m).f(arr(3.))


@trap
def pickled_block(H):
    net = gluon.nn.Dense(1, in_units=1)
    net.initialize("ones")
    H(net)
    x = nd.ones((1, 1))
    yield net(x)
    again = pickle.loads(pickle.dumps(net))
    again.weight.set_data(nd.ones((1, 1)) * 5)
    yield again(x), net(x)


@trap
def weak_reference_to_function(H):
    f = H(lambda x: x * 2)
    yield weakref.ref(f)()(arr(1.))


@trap
def recursion(H):
    @H
    def f(x, n):
        return x if n == 0 else f(x * 2, n - 1)
    yield f(arr(1.), 3), f(arr(1.), 0), f(arr(1.), 5)


@trap
def mutual_recursion(H):
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    def odd(x, n):
        return x * 100 if n == 0 else even(x * 2, n - 1)
    f = H(even)
    yield f(arr(1.), 2), f(arr(1.), 3), f(arr(1.), 2)


@trap
def hybridized_twice(H):
    f = H(H(lambda x: x * 2))
    yield f(arr(1.)), f(arr(2.))


@trap
def docstring_and_name(H):
    @H
    def f(x):
        """Doubles."""
        return x * 2
    yield f.__name__, f.__doc__, f(arr(1.))


@trap
def hybridized_inside_hybridized_with_state(H):
    w = arr(2.)
    inner = hybridize(lambda x: x * w)
    f = H(lambda x: inner(inner(x)))
    yield f(arr(1.))
    w[:] = 3
    yield f(arr(1.))


@trap
def called_within_a_call_eagerly(H):
    f = H(lambda x: x * 2)
    yield f(f(arr(1.))), f(f(f(arr(1.))))
