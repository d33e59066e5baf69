"""Classes of the user's: slots, descriptors, metaclasses, dataclasses."""
# ruff: noqa: E741
from __future__ import annotations

import dataclasses
import enum
import weakref

from .tools import arr, trap

LST = [1.]


@trap
def slots_inherited(H):


    class A:
        __slots__ = ('a',)


    class B(A):
        __slots__ = ('b',)
    o = B()
    o.a = 2.0
    o.b = 3.0
    f = H(lambda x: x * o.a + o.b)
    yield f(arr(1.0))
    o.a = 5.0
    yield f(arr(1.0))
    o.b = 1.0
    yield f(arr(1.0))
    del o.b
    B.b2 = 1
    o.b = 7.0
    yield f(arr(1.0))


@trap
def slot_state_assigned(H):


    class A:
        __slots__ = ('w', 'n')
    o = A()
    o.w = arr(2.0)
    o.n = 0


    @H
    def f(x):
        o.w = o.w * 2 + x
        return o.w + 1
    for i in range(4):
        yield (f(arr(float(i))), o.w)


@trap
def classmethod_reads_class(H):


    class A:
        k = 2.0


        @classmethod
        def scale(cls, x):
            return x * cls.k


    class B(A):
        pass
    f = H(lambda x: B.scale(x))
    yield f(arr(1.0))
    A.k = 3.0
    yield f(arr(1.0))
    B.k = 4.0
    yield f(arr(1.0))
    del B.k
    yield f(arr(1.0))


@trap
def property_setter(H):


    class A:


        def __init__(self):
            self._k = 1.0


        @property
        def k(self):
            return self._k * 2


        @k.setter
        def k(self, v):
            self._k = v + 1
    o = A()
    f = H(lambda x: x * o.k)
    yield f(arr(1.0))
    o.k = 3.0
    yield f(arr(1.0))
    A.k = property(lambda self: 100.0)
    yield f(arr(1.0))


@trap
def property_set_in_trace(H):


    class A:


        def __init__(self):
            self._k = arr(1.0)


        @property
        def k(self):
            return self._k


        @k.setter
        def k(self, v):
            self._k = v + 1
    o = A()


    @H
    def f(x):
        o.k = x * o.k
        return o.k
    for i in range(1, 5):
        yield (f(arr(float(i))), o._k)


@trap
def data_descriptor_store(H):


    class D:


        def __init__(self):
            self.d = weakref.WeakKeyDictionary()


        def __get__(self, o, t=None):
            return self.d.get(o, 1.0)


        def __set__(self, o, v):
            self.d[o] = v


    class A:
        k = D()
    o = A()
    f = H(lambda x: x * o.k)
    yield f(arr(1.0))
    o.k = 3.0
    yield f(arr(1.0))
    o.k = 4.0
    yield f(arr(1.0))


@trap
def descriptor_by_private_dict(H):


    class D:


        def __set_name__(self, c, n):
            self.n = '_' + n


        def __get__(self, o, t=None):
            return o.__dict__[self.n]


        def __set__(self, o, v):
            o.__dict__[self.n] = v


    class A:
        k = D()


        def __init__(self):
            self.k = 1.0
    o = A()
    f = H(lambda x: x * o.k)
    yield f(arr(1.0))
    o.k = 3.0
    yield f(arr(1.0))
    o.k = 1.0
    yield f(arr(1.0))


@trap
def metaclass_getattr(H):


    class M(type):
        table = {'k': 2.0}


        def __getattr__(cls, n):
            return M.table[n]


    class A(metaclass=M):
        pass
    f = H(lambda x: x * A.k)
    yield f(arr(1.0))
    M.table['k'] = 5.0
    yield f(arr(1.0))
    A.k = 7.0
    yield f(arr(1.0))


@trap
def metaclass_call_counts(H):


    class M(type):
        made = 0


        def __call__(cls, *a):
            M.made += 1
            return super().__call__(*a)


    class A(metaclass=M):


        def __init__(self, k):
            self.k = k
    f = H(lambda x: x * A(2.0).k)
    for _ in range(3):
        yield (f(arr(1.0)), M.made)


@trap
def singleton_new(H):


    class S:
        _one = None


        def __new__(cls):
            if cls._one is None:
                cls._one = super().__new__(cls)
                cls._one.k = 1.0
            return cls._one
    f = H(lambda x: x * S().k)
    yield f(arr(1.0))
    S().k = 5.0
    yield f(arr(1.0))
    S._one = None
    yield f(arr(1.0))


@trap
def init_subclass_registry(H):


    class Base:
        reg = {}


        def __init_subclass__(cls):
            Base.reg[cls.__name__] = cls
        k = 0.0


    class P(Base):
        k = 2.0
    f = H(lambda x: x * sum(c.k for c in Base.reg.values()))
    yield f(arr(1.0))


    class Q(Base):
        k = 3.0
    yield f(arr(1.0))
    Q.k = 10.0
    yield f(arr(1.0))


@trap
def dataclass_frozen_replace(H):


    @dataclasses.dataclass(frozen=True)
    class C:
        k: float
        t: tuple = (1.0, 2.0)
    c = [C(2.0)]
    f = H(lambda x: x * c[0].k + c[0].t[1])
    yield f(arr(1.0))
    c[0] = dataclasses.replace(c[0], k=3.0)
    yield f(arr(1.0))
    c[0] = C(3.0, (1.0, 9.0))
    yield f(arr(1.0))
    object.__setattr__(c[0], 'k', 8.0)
    yield f(arr(1.0))


@trap
def dataclass_eq_argument(H):


    @dataclasses.dataclass(unsafe_hash=True)
    class C:
        k: float
        hidden: float = dataclasses.field(default=1.0, compare=False)
    f = H(lambda x, c: x * c.k * c.hidden)
    yield f(arr(1.0), C(2.0))
    yield f(arr(1.0), C(2.0, 5.0))
    yield f(arr(1.0), C(2.0))


@trap
def dataclass_field_default_factory(H):


    @dataclasses.dataclass
    class C:
        l: list = dataclasses.field(default_factory=lambda: list(LST))
    f = H(lambda x: x * sum(C().l))
    yield f(arr(1.0))
    LST.append(4.0)
    yield f(arr(1.0))
    LST.pop()
    yield f(arr(1.0))


@trap
def dataclass_inputs_of_arrays(H):


    @dataclasses.dataclass
    class Batch:
        x: object
        y: object
    f = H(lambda b: b.x * 2 + b.y)
    yield f(Batch(arr(1.0), arr(2.0)))
    yield f(Batch(arr(3.0), arr(4.0)))
    b = Batch(arr(5.0), arr(6.0))
    yield f(b)
    b.x = arr(7.0)
    yield f(b)
    b.y += 1
    yield f(b)


@trap
def enum_mutable_attribute(H):


    class E(enum.Enum):
        A = 'a'


        def __init__(self, v):
            self.k = 1.0
    f = H(lambda x, e: x * e.k)
    yield f(arr(1.0), E.A)
    E.A.k = 5.0
    yield f(arr(1.0), E.A)


@trap
def int_enum_and_flag(H):


    class E(enum.IntFlag):
        A = 1
        B = 2
        C = 4
    f = H(lambda x, e: x * (2 if e & E.B else 3) + int(e))
    yield f(arr(1.0), E.A)
    yield f(arr(1.0), E.A | E.B)
    yield f(arr(1.0), 1)
    yield f(arr(1.0), E.C)
