"""What code reads of classes without naming it: operators, patterns, hooks of attributes, registers."""
# ruff: noqa: E741
from __future__ import annotations

import abc
import types
import typing

from hybrid import gluon

from .tools import arr, trap


@trap
def match_class_pattern(H):


    class P:
        __match_args__ = ('a', 'b')


        def __init__(self, a, b):
            self.a, self.b = (a, b)
    p = P(1, 2.0)


    @H
    def f(x):
        match p:
            case P(1, b):
                return x * b
            case P(a, b):
                return x * a * 10
    yield f(arr(1.0))
    p.b = 5.0
    yield f(arr(1.0))
    p.a = 2
    yield f(arr(1.0))
    P.__match_args__ = ('b', 'a')
    yield f(arr(1.0))


@trap
def match_mapping(H):
    d = {'op': 'mul', 'k': 2.0}


    @H
    def f(x):
        match d:
            case {'op': 'mul', 'k': k}:
                return x * k
            case {'op': 'add', **rest}:
                return x + len(rest)
            case _:
                return x
    yield f(arr(1.0))
    d['k'] = 3.0
    yield f(arr(1.0))
    d['op'] = 'add'
    yield f(arr(1.0))
    d.pop('k')
    yield f(arr(1.0))
    d.clear()
    yield f(arr(1.0))


@trap
def module_getattr_hook(H):
    m = types.ModuleType('hostile_m3')
    vals = {'K': 2.0}
    m.__getattr__ = lambda n: vals[n]
    f = H(lambda x: x * m.K)
    yield f(arr(1.0))
    vals['K'] = 5.0
    yield f(arr(1.0))
    m.K = 9.0
    yield f(arr(1.0))


@trap
def bases_changed(H):


    class A:


        def s(self):
            return 2.0


    class B:


        def s(self):
            return 3.0


    class C(A):
        pass
    o = C()
    f = H(lambda x: x * o.s())
    yield f(arr(1.0))
    C.__bases__ = (B,)
    yield f(arr(1.0))


@trap
def class_assigned(H):


    class A:
        k = 1.0


    class B:
        k = 2.0
    o = A()
    f = H(lambda x, o: x * o.k)
    yield f(arr(1.0), o)
    o.__class__ = B
    yield f(arr(1.0), o)
    o.k = 3.0
    yield f(arr(1.0), o)
    del o.k
    o.__class__ = A
    yield f(arr(1.0), o)


@trap
def operator_overload_changed(H):


    class V:


        def __init__(self, k):
            self.k = k


        def __rmul__(self, x):
            return x * self.k


        def __add__(self, x):
            return x + self.k
    v = V(2.0)
    f = H(lambda x: x * v + (v + x))
    yield f(arr(1.0))
    v.k = 3.0
    yield f(arr(1.0))
    V.__add__ = lambda s, x: x
    yield f(arr(1.0))
    V.__rmul__ = lambda s, x: x * 50
    yield f(arr(1.0))


@trap
def getitem_overload_changed(H):


    class V:


        def __getitem__(self, i):
            return 2.0
    v = V()
    f = H(lambda x: x * v[0])
    yield f(arr(1.0))
    V.__getitem__ = lambda s, i: 7.0
    yield f(arr(1.0))


@trap
def contains_iter_overload(H):


    class V:


        def __init__(self):
            self.d = [1, 2]


        def __contains__(self, i):
            return i in self.d


        def __iter__(self):
            return iter(self.d)
    v = V()
    f = H(lambda x: x * sum(v) if 2 in v else x * 100)
    yield f(arr(1.0))
    v.d.append(5)
    yield f(arr(1.0))
    v.d.remove(2)
    yield f(arr(1.0))


@trap
def getattr_dynamic_names(H):


    class V:
        pass
    v = V()
    v.w0, v.w1, v.n = (1.0, 2.0, 2)
    f = H(lambda x: x * sum(getattr(v, f'w{i}') for i in range(v.n)))
    yield f(arr(1.0))
    v.w1 = 5.0
    yield f(arr(1.0))
    v.w2 = 7.0
    v.n = 3
    yield f(arr(1.0))


@trap
def getattr_dynamic_weights(H):


    class Net(gluon.HybridBlock):


        def __init__(self):
            super().__init__()
            self.k0, self.k1 = (1.0, 2.0)
            self.names = ['k0', 'k1']


        def forward(self, x):
            return x * sum(getattr(self, n) for n in self.names)
    n = H(Net())
    yield n(arr(1.0))
    n.k1 = 5.0
    yield n(arr(1.0))
    n.names.append('k0')
    yield n(arr(1.0))


@trap
def setattr_hook(H):


    class V:


        def __setattr__(self, k, val):
            object.__setattr__(self, k, val * 2)
    v = V()
    v.w = arr(1.0)


    @H
    def f(x):
        v.w = x + v.w
        return v.w
    for _ in range(4):
        yield (f(arr(1.0)), v.w)


@trap
def dict_attr_access(H):


    class V:
        pass
    v = V()
    v.k = 1.0
    f = H(lambda x: x * v.__dict__['k'] + len(v.__dict__))
    yield f(arr(1.0))
    v.k = 2.0
    yield f(arr(1.0))
    v.z = 1.0
    yield f(arr(1.0))


@trap
def abc_register(H):


    class B(abc.ABC):  # noqa: B024
        pass


    class T:
        pass
    t = T()
    f = H(lambda x: x * 2 if isinstance(t, B) else x * 3)
    yield f(arr(1.0))
    B.register(T)
    yield f(arr(1.0))


@trap
def protocol_runtime(H):


    @typing.runtime_checkable
    class P(typing.Protocol):


        def go(self):
            ...


    class T:
        pass
    t = T()
    f = H(lambda x: x * 2 if isinstance(t, P) else x * 3)
    yield f(arr(1.0))
    T.go = lambda s: 1
    yield f(arr(1.0))


@trap
def subclass_list(H):


    class B:
        pass
    f = H(lambda x: x * (1 + len(B.__subclasses__())))
    yield f(arr(1.0))


    class C(B):
        pass
    yield f(arr(1.0))


@trap
def instance_check_hook(H):


    class M(type):
        ok = True


        def __instancecheck__(c, o):
            return M.ok


    class B(metaclass=M):
        pass
    f = H(lambda x: x * 2 if isinstance(3, B) else x * 3)
    yield f(arr(1.0))
    M.ok = False
    yield f(arr(1.0))


@trap
def annotations_read(H):


    class T:
        a: int = 1
    f = H(lambda x: x * len(T.__annotations__))
    yield f(arr(1.0))
    T.__annotations__['b'] = int
    yield f(arr(1.0))


@trap
def doc_and_name_read(H):


    def g():
        """ab"""
    f = H(lambda x: x * len(g.__doc__) * len(g.__name__))
    yield f(arr(1.0))
    g.__doc__ = 'abcd'
    yield f(arr(1.0))
    g.__name__ = 'hhh'
    yield f(arr(1.0))


@trap
def class_name_read(H):


    class T:
        pass
    t = T()
    f = H(lambda x: x * len(type(t).__name__))
    yield f(arr(1.0))
    T.__name__ = 'Longer'
    yield f(arr(1.0))
