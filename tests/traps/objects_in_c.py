"""Objects whose classes are written in C: their state changes beside attributes and items, by methods of their own."""
from __future__ import annotations

import array
import builtins
import collections
import contextvars
import ctypes
import datetime
import decimal
import functools
import io
import itertools
import operator
import random
import re
import string
import struct
import types
import weakref
from xml.etree import ElementTree

import numpy as onp

from .tools import add, arr


def _one(*_):
    return 1.


def _two(*_):
    return 2.


class Pair(ctypes.Structure):
    """Two numbers in memory, one of them of few bits."""

    _fields_ = (("a", ctypes.c_int32), ("b", ctypes.c_uint8, 4))


class Either(ctypes.Union):
    """A number under two names."""

    _fields_ = (("i", ctypes.c_int32), ("f", ctypes.c_float))


class Slotted:
    """Attributes in slots, which pickling sets."""

    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k


class Reduced:
    """An object that pickling restores by a method."""

    def __init__(self, k):
        self.k = k

    def __setstate__(self, state):
        object.__setattr__(self, "__dict__", state)


def _method(k):
    class Owner:
        @property
        def value(self):
            return k
    return Owner


class Named:
    """Has a property, a static method and a class method that change inside."""

    def __init__(self):
        class Own:
            p = property(_one)
            s = staticmethod(_one)
            c = classmethod(_one)
        self.cls = Own

    def again(self, name, function):
        vars(self.cls)[name].__init__(function)


def _cause(e, by):
    e.__cause__ = by


def _with_frames(e):
    try:
        raise e
    except ValueError:
        return e


def _depth(e):
    n, tb = 0, e.__traceback__
    while tb is not None:
        n, tb = n + 1, tb.tb_next
    return float(n)


def _again(e):
    try:
        _with_frames(e)
    except ValueError:
        pass


def _element():
    return ElementTree.fromstring("<a k='1'><b>2</b></a>")


def _context(**k):
    return decimal.Context(prec=5, **k)


def _ratio(c):
    return float(c.divide(decimal.Decimal(1), decimal.Decimal(7)))


def _advance(it):
    return it, next(it)


def _number_of_weak(o):
    return 2. if o() is None else 3.


VARIABLE = contextvars.ContextVar("VARIABLE_IN_C", default=2.)


# how the object is made, what changes it, what code reads of it
ROWS = {
    "partial_setstate": (lambda: functools.partial(_one), lambda o: o.__setstate__((_two, (), {}, None)),
                         lambda o: o()),
    "partial_setstate_arguments": (lambda: functools.partial(max, 1.), lambda o: o.__setstate__((max, (5.,), {}, {})),
                                   lambda o: o(2.)),
    "partial_func_read": (lambda: functools.partial(_one), lambda o: o.__setstate__((_two, (), {}, {})),
                          lambda o: o.func()),
    "partial_keywords": (lambda: functools.partial(dict, k=1.), lambda o: o.keywords.__setitem__("k", 4.),
                         lambda o: o()["k"]),
    "partial_in_partial": (lambda: functools.partial(functools.partial(_one)),
                           lambda o: o.__setstate__((functools.partial(_two), (), {}, {})), lambda o: o()),
    "partial_attribute": (lambda: functools.partial(_one), lambda o: setattr(o, "k", 5.),
                          lambda o: getattr(o, "k", 1.)),
    "reduced_setstate": (lambda: Reduced(1.), lambda o: o.__setstate__({"k": 4.}), lambda o: o.k),
    "slotted_setstate": (lambda: Slotted(1.), lambda o: object.__setattr__(o, "k", 4.), lambda o: o.k),
    "dict_replaced": (lambda: Reduced(1.), lambda o: setattr(o, "__dict__", {"k": 6.}), lambda o: o.k),
    "property_made_again": (Named, lambda o: o.again("p", _two), lambda o: o.cls().p),
    "static_method_made_again": (Named, lambda o: o.again("s", _two), lambda o: o.cls.s()),
    "class_method_made_again": (Named, lambda o: o.again("c", _two), lambda o: o.cls.c()),
    "property_document": (lambda: property(_one, doc="abc"), lambda o: setattr(o, "__doc__", "abcdef"),
                          lambda o: len(o.__doc__)),
    "ordered_moved": (lambda: collections.OrderedDict(a=1., b=2.), lambda o: o.move_to_end("a"),
                      lambda o: next(iter(o.values()))),
    "ordered_moved_last": (lambda: collections.OrderedDict(a=1., b=2., c=3.), lambda o: o.move_to_end("c", last=False),
                           lambda o: [*o.values()][0]),
    "default_factory": (lambda: collections.defaultdict(_one), lambda o: setattr(o, "default_factory", _two),
                        lambda o: o.default_factory()),
    "default_factory_missing": (lambda: collections.defaultdict(_one), lambda o: setattr(o, "default_factory", _two),
                                lambda o: o.copy()["k"]),
    "deque_rotated": (lambda: collections.deque([1., 2.]), lambda o: o.rotate(1), lambda o: o[0]),
    "deque_made_again": (lambda: collections.deque([1., 2.]), lambda o: o.__init__([4.], 3), lambda o: o[0] + o.maxlen
                         if o.maxlen else o[0]),
    "list_made_again": (lambda: [1.], lambda o: o.__init__([5.]), lambda o: o[0]),
    "dict_made_again": (lambda: {"k": 1.}, lambda o: o.__init__(k=5.), lambda o: o["k"]),
    "set_made_again": (lambda: {1.}, lambda o: o.__init__({5.}), lambda o: max(o)),
    "array_byteswapped": (lambda: array.array("h", [1, 2]), lambda o: o.byteswap(), lambda o: o[0]),
    "array_from_bytes": (lambda: array.array("b", [1]), lambda o: o.frombytes(b"\x03"), lambda o: sum(o)),
    "bytearray_extended": (lambda: bytearray(b"ab"), lambda o: o.extend(b"cd"), lambda o: len(o)),
    "structure": (lambda: Pair(1, 2), lambda o: setattr(o, "a", 5), lambda o: o.a),
    "structure_bits": (lambda: Pair(1, 2), lambda o: setattr(o, "b", 7), lambda o: o.b),
    "union": (lambda: Either(i=1), lambda o: setattr(o, "f", 2.), lambda o: o.i % 100 + 1),
    "ctypes_pointer": (lambda: ctypes.pointer(ctypes.c_double(1.)), lambda o: o.__setitem__(0, 4.), lambda o: o[0]),
    "ctypes_pointer_contents": (lambda: ctypes.pointer(ctypes.c_double(1.)),
                                lambda o: setattr(o, "contents", ctypes.c_double(4.)), lambda o: o.contents.value),
    "ctypes_array_of_structures": (lambda: (Pair * 2)(Pair(1, 2)), lambda o: setattr(o[0], "a", 5), lambda o: o[0].a),
    "ctypes_string": (lambda: ctypes.create_string_buffer(b"ab", 8), lambda o: setattr(o, "value", b"abcd"),
                      lambda o: len(o.value)),
    "namespace": (lambda: types.SimpleNamespace(k=1.), lambda o: o.__dict__.update(k=5.), lambda o: o.k),
    "namespace_made_again": (lambda: types.SimpleNamespace(k=1.), lambda o: o.__init__(k=5.), lambda o: o.k),
    "namespace_equality": (lambda: [types.SimpleNamespace(k=1.), types.SimpleNamespace(k=1.)],
                           lambda o: setattr(o[0], "k", 3.), lambda o: 2. if o[0] == o[1] else 3.),
    "namespace_text": (lambda: types.SimpleNamespace(k=1.), lambda o: setattr(o, "kk", 3.), lambda o: len(repr(o))),
    "proxy": (lambda: (lambda d: (d, types.MappingProxyType(d)))({"k": 1.}), lambda o: o[0].update(k=4.),
              lambda o: o[1]["k"]),
    "weak_key_dictionary": (lambda: (lambda k: (k, weakref.WeakKeyDictionary({k: 1.})))(Slottedless()),
                            lambda o: o[1].__setitem__(o[0], 4.), lambda o: o[1][o[0]]),
    "weak_set": (lambda: (lambda k: (k, weakref.WeakSet()))(Slottedless()), lambda o: o[1].add(o[0]),
                 lambda o: len(o[1]) + 1.),
    "weak_method": (lambda: (lambda o: (o, weakref.WeakMethod(o.get)))(Slottedless()),
                    lambda o: setattr(o[0], "k", 5.), lambda o: o[1]()()),
    "pattern_replaced": (lambda: {"p": re.compile("a+")}, lambda o: o.update(p=re.compile("[ab]+")),
                         lambda o: len(o["p"].match("aab").group())),
    "match_kept": (lambda: {"m": re.match("(a+)", "aab")}, lambda o: o.update(m=re.match("(.+)", "aab")),
                   lambda o: o["m"].end()),
    "itemgetter_replaced": (lambda: {"g": operator.itemgetter(0)}, lambda o: o.update(g=operator.itemgetter(1)),
                            lambda o: o["g"]([1., 5.])),
    "itemgetter_of_list": (lambda: (operator.itemgetter("k"), {"k": 1.}), lambda o: o[1].update(k=3.),
                           lambda o: o[0](o[1])),
    "slice_kept": (lambda: {"s": slice(0, 1)}, lambda o: o.update(s=slice(0, 3)), lambda o: sum([1., 2., 3.][o["s"]])),
    "slice_of_mutable": (lambda: slice([1.], None), lambda o: o.start.__setitem__(0, 4.), lambda o: o.start[0]),
    "random_setstate": (lambda: (lambda r: (r, r.getstate(), random.Random(7).getstate()))(random.Random(3)),
                        lambda o: o[0].setstate(o[2]), lambda o: o[0].getstate()[1][0] % 100 + 1),
    "random_state_set": (lambda: onp.random.RandomState(3),
                         lambda o: o.set_state(onp.random.RandomState(9).get_state()),
                         lambda o: int(o.get_state()[1][0]) + 1),
    "bit_generator_state": (lambda: onp.random.PCG64(3), lambda o: setattr(o, "state", onp.random.PCG64(9).state),
                            lambda o: o.state["state"]["state"] % 97 + 1),
    "decimal_context": (_context, lambda o: setattr(o, "prec", 2), _ratio),
    "decimal_context_read": (_context, lambda o: setattr(o, "prec", 2), lambda o: o.prec),
    "decimal_rounding": (_context, lambda o: setattr(o, "rounding", decimal.ROUND_UP), _ratio),
    "decimal_flags": (_context, lambda o: o.flags.__setitem__(decimal.Inexact, True),
                      lambda o: 2. if o.flags[decimal.Inexact] else 3.),
    "decimal_traps": (_context, lambda o: o.traps.__setitem__(decimal.Inexact, True),
                      lambda o: 2. if o.traps[decimal.Inexact] else 3.),
    "struct_made_again": (lambda: struct.Struct("B"), lambda o: o.__init__("H"), lambda o: o.size),
    "element_text": (_element, lambda o: setattr(o[0], "text", "5"), lambda o: float(o[0].text)),
    "element_attribute": (_element, lambda o: o.set("k", "5"), lambda o: float(o.get("k"))),
    "element_attributes": (_element, lambda o: o.attrib.update(k="5"), lambda o: float(o.attrib["k"])),
    "element_children": (_element, lambda o: o.append(ElementTree.Element("c")), lambda o: len(o) + 1.),
    "element_found": (_element, lambda o: setattr(o.find("b"), "text", "9"), lambda o: float(o.find("b").text)),
    "error_arguments": (lambda: ValueError(1.), lambda o: o.__init__(4.), lambda o: o.args[0]),
    "error_cause": (lambda: ValueError(), lambda o: _cause(o, KeyError()), lambda o: 2. if o.__cause__ is None else 3.),
    "error_context": (lambda: ValueError(), lambda o: setattr(o, "__context__", KeyError()),
                      lambda o: 2. if o.__context__ is None else 3.),
    "error_suppressed": (lambda: ValueError(), lambda o: setattr(o, "__suppress_context__", True),
                         lambda o: 2. if o.__suppress_context__ else 3.),
    "error_notes": (lambda: ValueError(), lambda o: o.add_note("a"), lambda o: 1. + len(getattr(o, "__notes__", ()))),
    "error_text": (lambda: ValueError("a"), lambda o: setattr(o, "args", ("abcd",)), lambda o: len(str(o))),
    "error_number": (lambda: OSError(1, "a"), lambda o: setattr(o, "errno", 5), lambda o: o.errno),
    "error_value": (lambda: StopIteration(1.), lambda o: setattr(o, "value", 5.), lambda o: o.value),
    "error_code": (lambda: SystemExit(1), lambda o: setattr(o, "code", 5), lambda o: o.code),
    "error_traceback": (lambda: _with_frames(ValueError()), _again, _depth),
    "error_in_group": (lambda: vars(builtins)["ExceptionGroup"]("g", [ValueError(1.)]),      # since Python 3.11
                       lambda o: setattr(o.exceptions[0], "args", (4.,)), lambda o: o.exceptions[0].args[0]),
    "string_io_position": (lambda: io.StringIO("123"), lambda o: o.seek(2), lambda o: o.tell() + 1.),
    "string_io_closed": (lambda: io.StringIO("123"), lambda o: o.close(), lambda o: 2. if o.closed else 3.),
    "bytes_view_released": (lambda: memoryview(bytearray(b"ab")), lambda o: o.release(),
                            lambda o: 2. if "released" in repr(o) else 3.),
    "numpy_shape_set": (lambda: onp.ones((2, 3)), lambda o: setattr(o, "shape", (3, 2)), lambda o: o.shape[0]),
    "numpy_dtype_set": (lambda: onp.ones(2, "f4"), lambda o: setattr(o, "dtype", "i4"), lambda o: o.dtype.itemsize + (
        o.dtype.kind == "i")),
    "numpy_resized": (lambda: onp.ones(2), lambda o: o.resize(5, refcheck=False), lambda o: o.size),
    "numpy_strides": (lambda: onp.arange(4.).reshape(2, 2), lambda o: setattr(o, "strides", (8, 16)),
                      lambda o: float(o[0, 1])),
    "numpy_partitioned": (lambda: onp.array([3., 1., 2.]), lambda o: o.partition(1), lambda o: float(o[0])),
    "numpy_zero_dimensions": (lambda: onp.array(1.), lambda o: o.__setitem__((), 5.), lambda o: float(o)),
    "numpy_flat": (lambda: onp.array([1., 2.]), lambda o: o.flat.__setitem__(0, 5.), lambda o: float(o[0])),
    "numpy_real": (lambda: onp.array([1 + 2j]), lambda o: setattr(o, "real", 5.), lambda o: float(o.real[0])),
    "numpy_field_names": (lambda: onp.zeros(1, [("a", "f4"), ("bb", "f4")]).dtype,
                          lambda o: setattr(o, "names", ("aaa", "b")), lambda o: len(o.names[0])),
    "numpy_void": (lambda: onp.zeros(1, [("a", "f4")])[0], lambda o: o.__setitem__("a", 5.),
                   lambda o: float(o["a"]) + 1),
    "numpy_record": (lambda: onp.rec.array([(1., 2.)], [("a", "f4"), ("b", "f4")]), lambda o: setattr(o, "a", 5.),
                     lambda o: float(o.a[0])),
    "numpy_matrix": (lambda: onp.asmatrix(onp.eye(2)), lambda o: o.__setitem__((0, 0), 5.), lambda o: float(o[0, 0])),
    "numpy_text_array": (lambda: onp.char.array(["a"]), lambda o: o.__setitem__(0, "b"),
                         lambda o: 2. if o[0] == "a" else 3.),
    "numpy_poly": (lambda: onp.poly1d([1., 2.]), lambda o: o.__setitem__(0, 5.), lambda o: float(o(1.))),
    "numpy_polynomial": (lambda: onp.polynomial.Polynomial([1., 2.]), lambda o: setattr(o, "coef", onp.array([5., 1.])),
                         lambda o: float(o(1.))),
    "numpy_dates": (lambda: onp.array(["2020-01-01"], "M8[D]"), lambda o: o.__setitem__(0, "2020-01-05"),
                    lambda o: o[0].item().day),
    "numpy_memmap_like": (lambda: onp.frombuffer(bytearray(8), "f4"), lambda o: o.__setitem__(0, 5.),
                          lambda o: float(o[0])),
    "numpy_vectorized": (lambda: onp.vectorize(_one), lambda o: setattr(o, "pyfunc", _two), lambda o: float(o(1.))),
    "generic_alias": (lambda: {"t": list[int]}, lambda o: o.update(t=dict[int, int]), lambda o: len(o["t"].__args__)),
    "cell_contents": (lambda: (lambda k: (lambda: k))(1.), lambda o: setattr(o.__closure__[0], "cell_contents", 5.),
                      lambda o: o()),
    "function_globals": (lambda: types.FunctionType(_value.__code__, {"K_IN_C": 1.}),
                         lambda o: o.__globals__.update(K_IN_C=5.), lambda o: o()),
    "method_of_list": (lambda: [1.].__getitem__, lambda o: o.__self__.__setitem__(0, 5.), lambda o: o(0)),
    "method_wrapper": (lambda: (3.).__add__, lambda o: None, lambda o: o(2.)),
    "method_of_dict": (lambda: {"k": 1.}.get, lambda o: o.__self__.update(k=5.), lambda o: o("k")),
    "method_of_deque": (lambda: collections.deque([1.]).count, lambda o: o.__self__.append(1.), lambda o: o(1.)),
    "method_of_set": (lambda: {1.}.__contains__, lambda o: o.__self__.clear(), lambda o: 2. if o(1.) else 3.),
    "super_object": (lambda: _super(), lambda o: setattr(Base, "k", 5.), lambda o: o.k),
    "simple_template": (lambda: string.Formatter(), lambda o: setattr(o, "get_value", lambda *_: "12345"),
                        lambda o: len(o.vformat("{a}", (), {"a": "1"}))),
    "timezone_kept": (lambda: {"z": datetime.timezone.utc},
                      lambda o: o.update(z=datetime.timezone(datetime.timedelta(hours=2))),
                      lambda o: o["z"].utcoffset(None).total_seconds() + 1),
    "count_of_itertools": (lambda: itertools.count(1), lambda o: next(o), lambda o: float(repr(o)[6:-1])),
    "cycle_setstate": (lambda: itertools.cycle([1., 2.]), lambda o: next(o), lambda o: next(o)),
    "repeat_left": (lambda: itertools.repeat(1., 5), lambda o: next(o), lambda o: operator.length_hint(o)),
    "list_iterator_setstate": (lambda: iter([1., 2., 3.]), lambda o: o.__setstate__(2), operator.length_hint),
    "range_iterator_hint": (lambda: iter(range(9)), lambda o: next(o), lambda o: operator.length_hint(o)),
    "chain_made": (lambda: [[1.], [2.]], lambda o: o[0].append(7.), lambda o: sum(itertools.chain(*o))),
    "accumulated": (lambda: [1., 2.], lambda o: o.append(7.), lambda o: [*itertools.accumulate(o)][-1]),
    "context_copied": (lambda: contextvars.copy_context(), lambda o: o.run(VARIABLE.set, 5.),
                       lambda o: o.get(VARIABLE, 1.)),
    "context_run": (lambda: contextvars.copy_context(), lambda o: o.run(VARIABLE.set, 5.),
                    lambda o: o.run(VARIABLE.get)),
    "generator_state": (lambda: (i for i in range(5)), next,
                        lambda o: 2. if o.gi_frame.f_lasti < 10 else 3.),
    "generator_closed": (lambda: (i for i in range(5)), lambda o: o.close(),
                         lambda o: 2. if o.gi_frame is None else 3.),
    "weak_reference_dead": (lambda: [weakref.ref(Slottedless())], lambda o: None, lambda o: _number_of_weak(o[0])),
}


class Base:
    """A base with a number."""

    k = 1.


class Derived(Base):
    """Another number."""

    k = 2.


def _super():
    Base.k = 1.
    return super(Derived, Derived())


class Slottedless:
    """An object with weak references."""

    k = 1.

    def get(self):
        return self.k


def _value():
    return K_IN_C  # noqa: F821  of the globals that the trap gives


def _closure(H, make, change, read):
    o = make()
    f = H(lambda x: x * read(o))
    yield f(arr(1.)), f(arr(1.)), f(arr(1.))
    for _ in range(2):
        try:
            change(o)
        except (ValueError, StopIteration):
            pass
        yield f(arr(1.)), f(arr(2.)), f(arr(3.))


def _argument(H, make, change, read):
    o = make()
    f = H(lambda x, o: x * read(o))
    yield f(arr(1.), o), f(arr(1.), o), f(arr(1.), o)
    for _ in range(2):
        try:
            change(o)
        except (ValueError, StopIteration):
            pass
        yield f(arr(1.), o), f(arr(2.), o), f(arr(3.), o)


for _name, _row in ROWS.items():
    for _way in (_closure,) if _name.startswith("numpy_") else (_closure, _argument):      # arrays are inputs there
        add(f"objects.in_c_{_name}.{_way.__name__[1:]}", functools.partial(
            lambda H, way, row: way(H, *row), way=_way, row=_row))
