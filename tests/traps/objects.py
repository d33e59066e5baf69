"""What code reads of Python objects, changed between calls: a table of kinds of object, each as argument, closure and
attribute."""
from __future__ import annotations

import array
import argparse
import collections
import contextvars
import dataclasses
import enum
import functools
import operator
import os
import threading
import types
import weakref

import numpy as onp

from hybrid import gluon, nd

from .tools import add, arr


class Plain:
    k = 2.0

    def __init__(self, **values):
        self.__dict__.update(values)

    def get(self):
        return self.inner_k

    @property
    def prop(self):
        return self.inner_k

    @functools.cached_property
    def cached(self):
        return self.inner_k

    def __call__(self):
        return self.inner_k

    def __getitem__(self, key):
        return self.inner_k

    def __len__(self):
        return int(self.inner_k)

    def __float__(self):
        return self.inner_k

    def __iter__(self):
        yield self.inner_k

    def __contains__(self, key):
        return key == self.inner_k


class Slots:
    __slots__ = ("k", "__weakref__")


class Descriptor:
    def __get__(self, owner, cls=None):
        return self.value


class GetAttr:
    def __getattr__(self, name):
        if name == "k":
            return self.__dict__["store"]["k"]
        raise AttributeError(name)


class GetAttribute:
    k = 2.0

    def __getattribute__(self, name):
        return object.__getattribute__(self, "other") if name == "k" else object.__getattribute__(self, name)


class AttrDict(dict):
    def __getattr__(self, name):
        return self[name]


class Meta(type):
    @property
    def k(cls):
        return cls.store["k"]


class Mode(enum.Enum):
    A = 2.0
    B = 5.0


class Parent:
    k = 2.0

    def value(self):
        return self.k


class Child(Parent):
    def value(self):
        return super().value() * 3


@dataclasses.dataclass
class Data:
    k: float = 2.0
    parts: list = dataclasses.field(default_factory=lambda: [2.0])


Point = collections.namedtuple("Point", "k other")


def made(cls, **values):
    o = cls()
    for name, value in values.items():
        setattr(o, name, value)
    return o


def slots():
    return made(Slots, k=2.0)


def described():
    d = Descriptor()
    d.value = 2.0
    return type("Described", (), {"k": d, "d": d})()


def fresh(base, **names):
    return type("Fresh", (base,), dict(names))


def setk(o, k=5.0):
    o.k = k


def cell():
    k = 2.0

    def read():
        return k

    def write():
        nonlocal k
        k = 5.0
    return read, write


def defaults(parts=None):
    def read(parts=[2.0], *, k=3.0):  # noqa: B006
        return parts[0] * k
    return read


def item0(o):
    o[0] = 5


# name: (made, changed, read)
TABLE = {
    "attribute": (lambda: Plain(k=2.0), setk, lambda o: o.k),
    "attribute_new": (Plain, setk, lambda o: o.k),
    "attribute_deleted": (lambda: Plain(k=3.0), lambda o: delattr(o, "k"), lambda o: o.k),
    "attribute_by_vars": (lambda: Plain(k=2.0), lambda o: vars(o).update(k=5.0), lambda o: o.k),
    "attribute_read_by_vars": (lambda: Plain(k=2.0), setk, lambda o: vars(o)["k"]),
    "attribute_read_by_dict": (lambda: Plain(k=2.0), setk, lambda o: o.__dict__["k"]),
    "attribute_number_to_array": (lambda: Plain(k=2.0), lambda o: setk(o, arr(5.)), lambda o: o.k),
    "attribute_int_to_float": (lambda: Plain(k=2), lambda o: setk(o, 2.5), lambda o: o.k),
    "attribute_int_to_bool": (lambda: Plain(k=1), lambda o: setk(o, True), lambda o: 2 if o.k is True else 3),
    "attribute_to_none": (lambda: Plain(k=2.0), lambda o: setk(o, None), lambda o: 7 if o.k is None else o.k),
    "getattr_default": (lambda: made(Data), lambda o: setattr(o, "z", 5.0), lambda o: getattr(o, "z", 2.0)),
    "hasattr": (lambda: made(Data), lambda o: setattr(o, "z", 5.0), lambda o: 5 if hasattr(o, "z") else 2),
    "attrgetter": (lambda: Plain(k=2.0), setk, lambda o: operator.attrgetter("k")(o)),
    "method": (lambda: Plain(inner_k=2.0), lambda o: setattr(o, "inner_k", 5.0), lambda o: o.get()),
    "method_replaced": (lambda: Plain(inner_k=2.0), lambda o: setattr(o, "get", lambda: 5.0), lambda o: o.get()),
    "property": (lambda: Plain(inner_k=2.0), lambda o: setattr(o, "inner_k", 5.0), lambda o: o.prop),
    "cached_property": (lambda: Plain(inner_k=2.0), lambda o: vars(o).update(cached=5.0), lambda o: o.cached),
    "call": (lambda: Plain(inner_k=2.0), lambda o: setattr(o, "inner_k", 5.0), lambda o: o()),
    "getitem": (lambda: Plain(inner_k=2.0), lambda o: setattr(o, "inner_k", 5.0), lambda o: o["any"]),
    "len": (lambda: Plain(inner_k=2.0), lambda o: setattr(o, "inner_k", 5.0), lambda o: len(o)),
    "float": (lambda: Plain(inner_k=2.0), lambda o: setattr(o, "inner_k", 5.0), lambda o: float(o)),
    "iter": (lambda: Plain(inner_k=2.0), lambda o: setattr(o, "inner_k", 5.0), lambda o: sum(o)),
    "contains": (lambda: Plain(inner_k=2.0), lambda o: setattr(o, "inner_k", 5.0), lambda o: 3 if 2.0 in o else 4),
    "nested": (lambda: Plain(a=Plain(b=Plain(k=2.0))), lambda o: setk(o.a.b), lambda o: o.a.b.k),
    "nested_replaced": (lambda: Plain(a=Plain(k=2.0)), lambda o: setattr(o, "a", Plain(k=5.0)), lambda o: o.a.k),
    "in_list": (lambda: [Plain(k=2.0)], lambda o: setk(o[0]), lambda o: o[0].k),
    "in_dict": (lambda: {"a": Plain(k=2.0)}, lambda o: setk(o["a"]), lambda o: o["a"].k),
    "in_tuple": (lambda: (Plain(k=2.0), 1), lambda o: setk(o[0]), lambda o: o[0].k),
    "array_replaced": (lambda: Plain(k=arr(2.)), lambda o: setk(o, arr(5.)), lambda o: o.k),
    "array_written": (lambda: Plain(k=arr(2.)), lambda o: o.k.__setitem__(0, 5), lambda o: o.k),
    "array_read_as_number": (lambda: Plain(k=arr(2.)), lambda o: o.k.__setitem__(0, 5), lambda o: o.k.asscalar()),
    "array_replaced_read_as_number": (lambda: Plain(k=arr(2.)), lambda o: setk(o, arr(5.)), lambda o: float(o.k)),
    "array_dtype": (lambda: Plain(k=arr(2.)), lambda o: setk(o, arr(5, dtype="int32")), lambda o: o.k),
    "array_shape": (lambda: Plain(k=arr(2.)), lambda o: setk(o, arr(5., 6.)), lambda o: o.k.sum()),
    "array_in_list": (lambda: [arr(2.)], lambda o: o.__setitem__(0, arr(5.)), lambda o: o[0]),
    "array_list_grows": (lambda: [arr(2.)], lambda o: o.append(arr(5.)), lambda o: sum(o)),
    "numpy_written": (lambda: onp.full(1, 2, "float32"), lambda o: o.fill(5), lambda o: float(nd.array(o).asscalar())),
    "numpy_constant": (lambda: Plain(k=onp.full(1, 2, "float32")), lambda o: o.k.fill(5), lambda o: nd.array(o.k)),
    "numpy_replaced": (lambda: Plain(k=onp.full(1, 2, "float32")), lambda o: setk(o, onp.full(1, 5, "float32")),
                       lambda o: nd.array(o.k)),
    "numpy_scalar": (lambda: Plain(k=onp.float32(2)), lambda o: setk(o, onp.float32(5)), lambda o: o.k),
    "numpy_view_of_written": (lambda: (lambda a: Plain(a=a, k=a[1:]))(onp.full(2, 2, "float32")),
                              lambda o: o.a.fill(5), lambda o: nd.array(o.k)),
    "memoryview": (lambda: memoryview(bytearray(b"\2")), item0, lambda o: o[0]),
    "bytearray": (lambda: bytearray(b"\2"), item0, lambda o: o[0]),
    "array_module": (lambda: array.array("i", [2]), item0, lambda o: o[0]),
    "slots": (slots, setk, lambda o: o.k),
    "descriptor": (described, lambda o: setattr(type(o).__dict__["d"], "value", 5.0), lambda o: o.k),
    "getattr_hook": (lambda: made(GetAttr, store={"k": 2.0}), lambda o: o.store.update(k=5.0), lambda o: o.k),
    "getattribute_hook": (lambda: made(GetAttribute, other=2.0), lambda o: setattr(o, "other", 5.0), lambda o: o.k),
    "attr_dict": (lambda: AttrDict(k=2.0), lambda o: o.update(k=5.0), lambda o: o.k),
    "metaclass_property": (lambda: Meta("C", (), {"store": {"k": 2.0}}), lambda o: o.store.update(k=5.0),
                           lambda o: o.k),
    "enum_member": (lambda: Plain(mode=Mode.A), lambda o: setattr(o, "mode", Mode.B), lambda o: o.mode.value),
    "enum_compared": (lambda: Plain(mode=Mode.A), lambda o: setattr(o, "mode", Mode.B),
                      lambda o: 2 if o.mode is Mode.A else 3),
    "dataclass": (Data, setk, lambda o: o.k),
    "dataclass_list": (Data, lambda o: o.parts.__setitem__(0, 5.0), lambda o: o.parts[0]),
    "dataclass_replaced": (lambda: [Data()], lambda o: o.__setitem__(0, dataclasses.replace(o[0], k=5.0)),
                           lambda o: o[0].k),
    "dataclass_asdict": (Data, setk, lambda o: dataclasses.asdict(o)["k"]),
    "namedtuple": (lambda: [Point(2.0, 0)], lambda o: o.__setitem__(0, o[0]._replace(k=5.0)), lambda o: o[0].k),
    "namespace": (lambda: types.SimpleNamespace(k=2.0), setk, lambda o: o.k),
    "argparse": (lambda: argparse.Namespace(k=2.0), setk, lambda o: o.k),
    "module": (lambda: made(lambda: types.ModuleType("settings"), k=2.0), setk, lambda o: o.k),
    "class_attribute": (lambda: fresh(Parent), setk, lambda o: o.k),
    "class_attribute_of_instance": (lambda: fresh(Parent)(), lambda o: setattr(type(o), "k", 5.0), lambda o: o.k),
    "class_attribute_of_base": (lambda: fresh(fresh(Parent, k=2.0))(), lambda o: setattr(type(o).__mro__[1], "k", 5.0),
                                lambda o: o.k),
    "class_method_replaced": (lambda: fresh(Parent)(), lambda o: setattr(type(o), "value", lambda s: 5.0),
                              lambda o: o.value()),
    "class_changed": (Child, lambda o: setattr(o, "__class__", Parent), lambda o: o.value()),
    "isinstance_changed": (Child, lambda o: setattr(o, "__class__", Parent),
                           lambda o: 2 if isinstance(o, Child) else 3),
    "super_reads": (Child, setk, lambda o: o.value()),
    "list": (lambda: [2.0], lambda o: o.__setitem__(0, 5.0), lambda o: o[0]),
    "list_length": (lambda: [2.0], lambda o: o.append(5.0), lambda o: len(o)),
    "list_truth": (lambda: [], lambda o: o.append(5.0), lambda o: 2 if o else 3),
    "list_nested": (lambda: [[[2.0]]], lambda o: o[0][0].__setitem__(0, 5.0), lambda o: o[0][0][0]),
    "list_reversed": (lambda: [2.0, 5.0], lambda o: o.reverse(), lambda o: o[0]),
    "dict": (lambda: {"k": 2.0}, lambda o: o.update(k=5.0), lambda o: o["k"]),
    "dict_get": (lambda: {}, lambda o: o.update(k=5.0), lambda o: o.get("k", 2.0)),
    "dict_in": (lambda: {}, lambda o: o.update(k=5.0), lambda o: 2 if "k" in o else 3),
    "dict_order": (lambda: {"a": 2.0, "b": 5.0}, lambda o: o.update(a=o.pop("a")), lambda o: next(iter(o.values()))),
    "dict_keys": (lambda: {2.0: 1}, lambda o: (o.clear(), o.update({5.0: 1})), lambda o: sum(o)),
    "ordered_dict": (lambda: collections.OrderedDict(a=2.0, b=5.0), lambda o: o.move_to_end("a"),
                     lambda o: next(iter(o.values()))),
    "defaultdict": (lambda: collections.defaultdict(lambda: 2.0), lambda o: o.update(k=5.0), lambda o: o["k"]),
    "defaultdict_factory": (lambda: collections.defaultdict(lambda: 2.0),
                            lambda o: (o.clear(), setattr(o, "default_factory", lambda: 5.0)), lambda o: o["k"]),
    "chain_map": (lambda: collections.ChainMap({}, {"k": 2.0}), lambda o: o.update(k=5.0), lambda o: o["k"]),
    "counter": (lambda: collections.Counter("aab"), lambda o: o.update("bbb"), lambda o: o.most_common(1)[0][1]),
    "user_dict": (lambda: collections.UserDict(k=2.0), lambda o: o.update(k=5.0), lambda o: o["k"]),
    "mapping_proxy": (lambda: (lambda d: Plain(d=d, p=types.MappingProxyType(d)))({"k": 2.0}),
                      lambda o: o.d.update(k=5.0), lambda o: o.p["k"]),
    "deque": (lambda: collections.deque([2.0]), lambda o: o.appendleft(5.0), lambda o: o[0]),
    "set": (lambda: {2.0}, lambda o: (o.clear(), o.add(5.0)), lambda o: sum(o)),
    "set_in": (lambda: {2.0}, lambda o: o.add(5.0), lambda o: 2 if 5.0 in o else 3),
    "zero_sign": (lambda: [0.0], lambda o: o.__setitem__(0, -0.0), lambda o: float(onp.copysign(1, o[0]))),
    "nan": (lambda: [float("nan")], lambda o: o.__setitem__(0, 5.0), lambda o: o[0] if o[0] == o[0] else 2.0),
    "string": (lambda: ["relu"], lambda o: o.__setitem__(0, "tanh"), lambda o: getattr(nd, o[0])(arr(2.))),
    "partial": (lambda: functools.partial(lambda d: d["k"], {"k": 2.0}), lambda o: o.args[0].update(k=5.0),
                lambda o: o()),
    "partial_keywords": (lambda: functools.partial(lambda k: k, k=2.0), lambda o: o.keywords.update(k=5.0),
                         lambda o: o()),
    "bound_method": (lambda: Plain(inner_k=2.0).get, lambda o: setattr(o.__self__, "inner_k", 5.0), lambda o: o()),
    "closure_cell": (cell, lambda o: o[1](), lambda o: o[0]()),
    "closure_cell_contents": (cell, lambda o: setattr(o[0].__closure__[0], "cell_contents", 5.0), lambda o: o[0]()),
    "defaults_list": (defaults, lambda o: item0(o.__defaults__[0]), lambda o: o()),
    "defaults_replaced": (defaults, lambda o: setattr(o, "__defaults__", ([5.0],)), lambda o: o()),
    "kwdefaults": (defaults, lambda o: o.__kwdefaults__.update(k=5.0), lambda o: o()),
    "code_replaced": (lambda: types.FunctionType((lambda: 2.0).__code__, {}),
                      lambda o: setattr(o, "__code__", (lambda: 5.0).__code__), lambda o: o()),
    "function_attribute": (lambda: made(lambda: types.FunctionType((lambda: 2.0).__code__, {}), k=2.0), setk,
                           lambda o: o.k),
    "function_in_list": (lambda: [lambda: 2.0], lambda o: o.__setitem__(0, lambda: 5.0), lambda o: o[0]()),
    "function_in_dict": (lambda: {"f": lambda: 2.0}, lambda o: o.update(f=lambda: 5.0), lambda o: o["f"]()),
    "lru_cache": (lambda: (lambda d: (d, functools.lru_cache(lambda: d["k"])))({"k": 2.0}),
                  lambda o: (o[0].update(k=5.0), o[1].cache_clear()), lambda o: o[1]()),
    "singledispatch": (lambda: functools.singledispatch(lambda v: 2.0), lambda o: o.register(int, lambda v: 5.0),
                       lambda o: o(1)),
    "context_variable": (lambda: contextvars.ContextVar("k", default=2.0), lambda o: o.set(5.0), lambda o: o.get()),
    "environ": (lambda: os.environ, lambda o: o.update(HYBRID_TRAP="5"),
                lambda o: float(os.environ.get("HYBRID_TRAP", "2"))),
    "getenv": (lambda: os.environ, lambda o: o.update(HYBRID_TRAP="5"), lambda o: float(os.getenv("HYBRID_TRAP", "2"))),
    "thread_local": (lambda: made(threading.local, k=2.0), setk, lambda o: o.k),
    "weak_reference": (lambda: (lambda s: (s, weakref.ref(s)))(slots()), lambda o: setk(o[0]), lambda o: o[1]().k),
    "weak_proxy": (lambda: (lambda s: (s, weakref.proxy(s)))(slots()), lambda o: setk(o[0]), lambda o: o[1].k),
    "weak_reference_dead": (lambda: (lambda s: [s, weakref.ref(s)])(slots()), lambda o: o.__setitem__(0, None),
                            lambda o: 2 if o[1]() is not None else 3),
    "iterator": (lambda: iter([2.0, 5.0, 6.0, 7.0, 8.0]), lambda o: None, lambda o: next(o)),
    "generator": (lambda: (float(i) for i in range(1, 9)), lambda o: None, lambda o: next(o)),
    "range_like": (lambda: [range(2)], lambda o: o.__setitem__(0, range(5)), lambda o: sum(1 for _ in o[0])),
    "slice_object": (lambda: [slice(0, 1)], lambda o: o.__setitem__(0, slice(0, 2)),
                     lambda o: arr(1., 2., 3.)[o[0]].sum()),
}


def _argument(H, make, change, read):
    f, o = H(lambda x, o: x * read(o)), make()
    yield f(arr(1., 2.), o)
    yield f(arr(1., 2.), o)
    change(o)
    yield f(arr(1., 2.), o)
    yield f(arr(1., 2.), o)
    yield f(arr(1., 2.), make())


def _closure(H, make, change, read):
    o = make()
    f = H(lambda x: x * read(o))
    yield f(arr(1., 2.))
    yield f(arr(1., 2.))
    change(o)
    yield f(arr(1., 2.))
    yield f(arr(1., 2.))


def _attribute(H, make, change, read):
    class Net(gluon.HybridBlock):
        def forward(self, x):
            return self.scale(x) + 1

        def scale(self, x):
            return x * read(self.held[0])
    net = Net()
    net.held = [make()]
    H(net)
    yield net(arr(1., 2.))
    yield net(arr(1., 2.))
    change(net.held[0])
    yield net(arr(1., 2.))
    net.held[0] = make()
    yield net(arr(1., 2.))


for _name, _row in TABLE.items():
    for _place, _play in (("argument", _argument), ("closure", _closure), ("attribute", _attribute)):
        add(f"objects.{_name}.{_place}", lambda H, play=_play, row=_row: play(H, *row))
