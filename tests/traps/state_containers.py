"""State in globals, objects and containers of every kind, changed between calls."""
from __future__ import annotations

import array
import bisect
import collections
import dataclasses
import enum
import heapq
import operator
import types

import numpy as onp

from hybrid import nd

from .tools import arr, trap

LEVEL, TABLE, ROWS, STACK, WORDS = 2, {"k": 2.}, [[1., 2.], [3., 4.]], [], ("a", "b")


@trap
def global_tuple_replaced(H):
    global WORDS
    WORDS = ("a", "b")
    f = H(lambda x: x * len(WORDS))
    yield f(arr(1.))
    WORDS = ("a", "b", "c")
    yield f(arr(1.))


@trap
def global_nested_list_item(H):
    ROWS[1][0] = 3.
    f = H(lambda x: x * ROWS[1][0])
    yield f(arr(1.))
    ROWS[1][0] = 30.
    yield f(arr(1.))


@trap
def global_by_globals_dict(H):
    global LEVEL
    LEVEL = 2
    f = H(lambda x: x * globals()["LEVEL"])
    yield f(arr(1.))
    LEVEL = 5
    yield f(arr(1.))


@trap
def vars_of_object(H):
    o = types.SimpleNamespace(k=2.)
    f = H(lambda x: x * vars(o)["k"])
    yield f(arr(1.))
    o.k = 5.
    yield f(arr(1.))


@trap
def dict_of_object(H):
    o = types.SimpleNamespace(k=2.)
    f = H(lambda x: x * o.__dict__.get("k", 1))
    yield f(arr(1.))
    del o.k
    yield f(arr(1.))


@trap
def attrgetter_chain(H):
    o = types.SimpleNamespace(a=types.SimpleNamespace(b=2.))
    get = operator.attrgetter("a.b")
    f = H(lambda x: x * get(o))
    yield f(arr(1.))
    o.a.b = 5.
    yield f(arr(1.))
    o.a = types.SimpleNamespace(b=7.)
    yield f(arr(1.))


@trap
def itemgetter_of_dict(H):
    d = {"k": 2.}
    get = operator.itemgetter("k")
    f = H(lambda x: x * get(d))
    yield f(arr(1.))
    d["k"] = 5.
    yield f(arr(1.))


@trap
def chain_map(H):
    low, high = {"k": 2.}, {}
    m = collections.ChainMap(high, low)
    f = H(lambda x: x * m["k"])
    yield f(arr(1.))
    high["k"] = 5.
    yield f(arr(1.))
    del high["k"]
    low["k"] = 9.
    yield f(arr(1.))


@trap
def counter_of_collections(H):
    c = collections.Counter("aab")
    f = H(lambda x: x * c["a"] + c["z"])
    yield f(arr(1.))
    c.update("aaz")
    yield f(arr(1.))


@trap
def default_dict_made(H):
    d = collections.defaultdict(lambda: 3.)

    @H
    def f(x):
        return x * d["k"]
    yield f(arr(1.)), dict(d)
    d["k"] = 5.
    yield f(arr(1.)), dict(d)


@trap
def user_list_and_dict(H):
    items, table = collections.UserList([1., 2.]), collections.UserDict(k=3.)
    f = H(lambda x: x * items[0] + table["k"])
    yield f(arr(1.))
    items[0] = 7.
    table["k"] = 8.
    yield f(arr(1.))


@trap
def mapping_proxy(H):
    d = {"k": 2.}
    p = types.MappingProxyType(d)
    f = H(lambda x: x * p["k"])
    yield f(arr(1.))
    d["k"] = 5.
    yield f(arr(1.))


@trap
def array_module(H):
    a = array.array("d", [2., 3.])
    f = H(lambda x: x * a[0])
    yield f(arr(1.))
    a[0] = 5.
    yield f(arr(1.))


@trap
def memory_view_of_bytes(H):
    b = bytearray(b"\x02\x03")
    m = memoryview(b)
    f = H(lambda x: x * m[0])
    yield f(arr(1.))
    b[0] = 5
    yield f(arr(1.))


@trap
def heap_and_bisect(H):
    h = [1., 5., 9.]
    f = H(lambda x: x * bisect.bisect(h, 6.) + heapq.nsmallest(1, h)[0])
    yield f(arr(1.))
    heapq.heappush(h, 0.)
    yield f(arr(1.))


@trap
def numpy_captured_written(H):
    a = onp.array([2., 3.], "float32")
    f = H(lambda x: x * nd.array(a))
    yield f(arr(1., 1.))
    a[0] = 5.
    yield f(arr(1., 1.))


@trap
def numpy_scalar_read(H):
    a = onp.array([2., 3.], "float32")
    f = H(lambda x: x * float(a[0]) + a.sum())
    yield f(arr(1., 1.))
    a[:] = 7.
    yield f(arr(1., 1.))


@trap
def numpy_view_written(H):
    base = onp.arange(6, dtype="float32")
    v = base[2:4]
    f = H(lambda x: x * nd.array(v))
    yield f(arr(1., 1.))
    base[2] = 50.
    yield f(arr(1., 1.))


@trap
def numpy_structured(H):
    a = onp.zeros(2, dtype=[("k", "f4"), ("n", "i4")])
    a["k"] = 2.
    f = H(lambda x: x * float(a["k"][0]))
    yield f(arr(1.))
    a["k"][0] = 5.
    yield f(arr(1.))


@trap
def enum_value_chosen(H):
    class Mode(enum.Enum):
        ADD = 1
        MUL = 2
    o = types.SimpleNamespace(mode=Mode.ADD)
    f = H(lambda x: x + 3 if o.mode is Mode.ADD else x * 3)
    yield f(arr(1.))
    o.mode = Mode.MUL
    yield f(arr(1.))


@trap
def enum_argument(H):
    class Mode(enum.Enum):
        ADD = 1
        MUL = 2
    f = H(lambda x, mode: x + 3 if mode is Mode.ADD else x * 3)
    for m in (Mode.ADD, Mode.MUL, Mode.ADD):
        yield f(arr(1.), m)


@trap
def dataclass_nested_state(H):
    @dataclasses.dataclass
    class Config:
        k: float = 2.
        sizes: list = dataclasses.field(default_factory=lambda: [1, 2])
    c = Config()
    f = H(lambda x: x * c.k + sum(c.sizes))
    yield f(arr(1.))
    c.sizes.append(5)
    yield f(arr(1.))
    c.k = 9.
    yield f(arr(1.))


@trap
def dataclass_asdict_and_fields(H):
    @dataclasses.dataclass
    class Config:
        k: float = 2.
    c = Config()
    f = H(lambda x: x * dataclasses.asdict(c)["k"] + len(dataclasses.fields(c)))
    yield f(arr(1.))
    c.k = 9.
    yield f(arr(1.))


@trap
def dataclass_post_init_property(H):
    @dataclasses.dataclass
    class Config:
        k: float = 2.

        @property
        def twice(self):
            return self.k * 2
    c = Config()
    f = H(lambda x: x * c.twice)
    yield f(arr(1.))
    c.k = 9.
    yield f(arr(1.))


@trap
def dataclass_written_in_trace(H):
    @dataclasses.dataclass
    class State:
        n: int = 0
        last: object = None
    s = State()

    @H
    def f(x):
        s.n += 1
        s.last = x * 2
        return x * s.n
    for _ in range(3):
        yield f(arr(1.)), s.n, s.last


@trap
def descriptor_reads_other_object(H):
    store = {"k": 2.}

    class D:
        def __get__(self, obj, owner=None):
            return store["k"]

    class A:
        k = D()
    a = A()
    f = H(lambda x: x * a.k)
    yield f(arr(1.))
    store["k"] = 5.
    yield f(arr(1.))


@trap
def descriptor_counts(H):
    class D:
        n = 0

        def __get__(self, obj, owner=None):
            D.n += 1
            return D.n

    class A:
        k = D()
    a = A()
    f = H(lambda x: x * a.k)
    for _ in range(3):
        yield f(arr(1.)), D.n


@trap
def slots_with_default_of_class(H):
    class A:
        __slots__ = ("k", "__dict__")
    a = A()
    a.k, a.j = 2., 3.
    f = H(lambda x: x * a.k + a.j)
    yield f(arr(1.))
    a.k = 5.
    yield f(arr(1.))
    a.j = 6.
    yield f(arr(1.))


@trap
def inherited_class_attribute_shadowed(H):
    class A:
        k = 2.

    class B(A):
        pass
    b = B()
    f = H(lambda x: x * b.k)
    yield f(arr(1.))
    A.k = 3.
    yield f(arr(1.))
    B.k = 4.
    yield f(arr(1.))
    b.k = 5.
    yield f(arr(1.))
    del b.k
    yield f(arr(1.))


@trap
def method_added_to_subclass(H):
    class A:
        def go(self, x):
            return x * 2

    class B(A):
        pass
    b = B()
    f = H(lambda x: b.go(x))
    yield f(arr(1.))
    B.go = lambda self, x: x * 7
    yield f(arr(1.))
