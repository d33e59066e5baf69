"""State that code sets to what it was before, so that later calls meet it again: a program may not be found by it."""
from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import decimal
import functools
import io
import logging
import mmap
import os
import queue
import sys
import threading
import types
import warnings

import numpy as onp

from hybrid import gluon, nd

from .tools import add, arr

VARIABLE = contextvars.ContextVar("VARIABLE", default=1.)
LOGGER = logging.getLogger("hybrid.traps.toggled")
K = [1.]


class Own:
    """Attributes."""

    k = 1.
    __slots__ = ("s", "__dict__", "__weakref__")


def _box(o, n):
    old, o.k = o.k, n
    return old


def _slot(o, n):
    old, o.s = getattr(o, "s", 1.), n
    return old


def _item(o, n):
    old, o[0] = o[0], n
    return float(old)


def _int_item(o, n):
    old, o[0] = o[0], int(n)
    return float(old)


def _key(o, n):
    old, o["k"] = o["k"], n
    return old


def _order(o, n):
    old = next(iter(o.values()))
    o.move_to_end(next(iter(o)))
    return old + n


def _dict_order(o, n):
    k, v = next(iter(o.items()))
    del o[k]
    o[k] = v
    return v + n


def _set(o, n):
    old = max(o)
    o.clear()
    o.add(n)
    return old


def _variable(o, n):
    old = VARIABLE.get()
    VARIABLE.set(n)
    return old


def _environ(o, n):
    old = float(os.environ.get("HYBRID_TRAP", "1"))
    os.environ["HYBRID_TRAP"] = str(n)
    return old


def _stream(o, n):
    old = float(o.getvalue() or 1)
    o.seek(0)
    o.truncate()
    o.write(str(n))
    return old


def _bytes_stream(o, n):
    o.seek(0)
    old = float(o.read() or b"1")
    o.seek(0)
    o.truncate()
    o.write(str(n).encode())
    return old


def _value(o, n):
    old, o.value = o.value, n
    return old


def _mmap(o, n):
    old, o[0] = o[0], int(n)
    return float(old)


def _queue(o, n):
    old = o.get_nowait()
    o.put(n)
    return old


def _event(o, n):
    old = 1. if o.is_set() else 2.
    (o.set if n > 1 else o.clear)()
    return old


def _level(o, n):
    old = 1. if LOGGER.isEnabledFor(logging.INFO) else 2.
    LOGGER.setLevel(logging.INFO if n > 1 else logging.ERROR)
    return old


def _precision(o, n):
    old = decimal.getcontext().prec
    decimal.getcontext().prec = 10 + int(n)
    return float(old)


def _recursion(o, n):
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(3000 + int(n))
    return float(old)


def _masked(o, n):
    old = float(o.filled(9.)[0])
    o.mask[0] = n > 1
    return old


def _module(o, n):
    old, o.k = o.k, n
    return old


def _default(o, n):
    old = o.__defaults__[0]
    o.__defaults__ = (n,)
    return old


def _code(o, n):
    old = o()
    o.__code__ = (lambda: 1.).__code__ if n > 1 else (lambda: 2.).__code__
    return old


def _class_of(o, n):
    old = 1. if type(o).__name__ == "A" else 2.
    o.__class__ = B if n > 1 else A
    return old


def _swap_methods(o, n):
    old = o.f()
    o.f = (lambda: 1.) if n > 1 else (lambda: 2.)
    return old


def _swap_on_class(o, n):
    old = o.f()
    type(o).f = (lambda self: 1.) if n > 1 else (lambda self: 2.)
    return old


def _environ_dict(o, n):
    old = o.get()
    o.set(n)
    return old


def _str(o, n):
    old = len(o[0])
    o[0] = "x" * int(n)
    return old


def _global(o, n):
    old = K[0]
    globals()["K"] = [n]
    return old


def _global_statement(o, n):
    global K
    old = K[0]
    K = [n]
    return old


def _sys_modules(o, n):
    old = 1. if "trap_toggled" in sys.modules else 2.
    if n > 1:
        sys.modules["trap_toggled"] = types.ModuleType("trap_toggled")
    else:
        sys.modules.pop("trap_toggled", None)
    return old


def _print_options(o, n):
    old = onp.get_printoptions()["precision"]
    onp.set_printoptions(precision=int(n) + 5)
    return float(old)


def _filters(o, n):
    try:
        warnings.warn("toggled", Toggled, stacklevel=2)
        old = 1.
    except Toggled:
        old = 2.
    warnings.simplefilter("error" if n > 1 else "ignore", Toggled)
    return old


def _array_write(o, n):
    old = o + 0
    o[:] = n
    return old


def _array_rebound(o, n):
    old, o[0] = o[0], nd.array([n])
    return old


def _array_or_number(o, n):
    old = o[0]
    o[0] = nd.array([n]) if n > 1 else n
    return old


class Toggled(UserWarning):
    """What some code warns of."""


class A:
    """One of two classes."""


class B:
    """The other."""


def _function():
    def f(k=1.):
        return k
    return f


class Cell:
    """Keeps a number where nothing shows it."""

    def __init__(self):
        kept = [1.]
        self.get, self.set = (lambda: kept[0]), (lambda n: kept.__setitem__(0, n))


KINDS = {
    "attribute": (Own, _box), "slot": (Own, _slot), "list": (lambda: [1.], _item), "dict": (lambda: {"k": 1.}, _key),
    "deque": (lambda: collections.deque([1.]), _item), "order": (lambda: collections.OrderedDict(a=1., b=2.), _order),
    "dict_order": (lambda: {"a": 1., "b": 2., "c": 3.}, _dict_order), "set": (lambda: {1.}, _set),
    "numpy": (lambda: onp.ones(1), _item), "numpy_view": (lambda: onp.ones((2, 2))[1], _item),
    "numpy_object": (lambda: onp.array([1.], object), _item),
    "numpy_record": (lambda: onp.ones(1, [("a", "f4")]), lambda o, n: _item(o["a"], n)),
    "bytearray": (lambda: bytearray(1), _int_item), "array": (lambda: array.array("d", [1.]), _item),
    "memoryview": (lambda: memoryview(bytearray(2)), _int_item),
    "variable": (lambda: VARIABLE.set(1.) and None, _variable),
    "environ": (lambda: os.environ.update(HYBRID_TRAP="1"), _environ),
    "string_io": (io.StringIO, _stream), "bytes_io": (io.BytesIO, _bytes_stream),
    "ctypes": (lambda: ctypes.c_double(1.), _value), "ctypes_array": (lambda: (ctypes.c_double * 2)(1., 2.), _item),
    "mmap": (lambda: mmap.mmap(-1, 8), _mmap),
    "queue": (lambda: (lambda q: q.put(1.) or q)(queue.Queue()), _queue), "event": (threading.Event, _event),
    "level": (lambda: LOGGER.setLevel(logging.ERROR), _level),
    "precision": (lambda: setattr(decimal.getcontext(), "prec", 10), _precision),
    "recursion": (lambda: sys.setrecursionlimit(3000), _recursion),
    "masked": (lambda: onp.ma.masked_array([1.], [False]), _masked),
    "module": (lambda: (lambda m: m.__dict__.update(k=1.) or m)(types.ModuleType("toggled")), _module),
    "thread_local": (lambda: (lambda t: t.__dict__.update(k=1.) or t)(threading.local()), _box),
    "defaults": (_function, _default), "code": (lambda: (lambda: 2.), _code), "class_of": (A, _class_of),
    "methods": (lambda: (lambda o: setattr(o, "f", lambda: 1.) or o)(Own()), _swap_methods),
    "methods_of_class": (lambda: type("C", (), {"f": lambda self: 1.})(), _swap_on_class),
    "hidden_in_closures": (Cell, _environ_dict), "text": (lambda: ["x"], _str),
    "global": (lambda: globals().__setitem__("K", [1.]), _global),
    "global_statement": (lambda: globals().__setitem__("K", [1.]), _global_statement),
    "sys_modules": (lambda: sys.modules.pop("trap_toggled", None) and None, _sys_modules),
    "print_options": (lambda: onp.set_printoptions(precision=8), _print_options),
    "filters": (lambda: warnings.simplefilter("ignore", Toggled), _filters),
    "user_dict": (lambda: collections.UserDict(k=1.), _key), "user_list": (lambda: collections.UserList([1.]), _item),
    "chain_map": (lambda: collections.ChainMap({"k": 1.}), _key), "namespace": (lambda: types.SimpleNamespace(k=1.),
                                                                              _box),
    "counter": (lambda: collections.Counter(k=1), _key), "array_written": (lambda: arr(1.), _array_write),
    "array_rebound": (lambda: [arr(1.)], _array_rebound), "array_or_number": (lambda: [1.], _array_or_number),
    "exception": (lambda: (lambda e: setattr(e, "k", 1.) or e)(ValueError()), _box),
    "function": (lambda: (lambda f: setattr(f, "k", 1.) or f)(lambda: 0), _box),
    "partial": (lambda: (lambda p: setattr(p, "k", 1.) or p)(functools.partial(abs)), _box),
    "weak_values": (lambda: {"k": 1.}, lambda o, n: _key(types.MappingProxyType(o) and o, n)),
}


def _closure(H, make, flip):
    o = make()
    f = H(lambda x, n: x * flip(o, n))
    for n in (1., 2., 1., 2., 1., 1., 2., 2., 1., 2.):
        yield f(arr(1.), n)


def _same_number(H, make, flip):
    """The code asks for no argument: it takes turns by itself."""
    o, turn = make(), [2.]
    f = H(lambda x: x * flip(o, turn[0]))
    for i in range(10):
        turn[0] = 2. if i % 2 else 1.
        yield f(arr(1.))


def _block(H, make, flip):
    class Net(gluon.HybridBlock):
        def forward(self, x, n):
            return x * flip(self.o, n)
    net = Net()
    net.o = make()
    H(net)
    for n in (1., 2., 1., 2., 1., 1., 2., 2., 1., 2.):
        yield net(arr(1.), n)


def put_back(play, H):
    limit, options = sys.getrecursionlimit(), onp.get_printoptions()
    precision = decimal.getcontext().prec
    try:
        with warnings.catch_warnings():
            yield from play(H)
    finally:
        sys.setrecursionlimit(limit)
        onp.set_printoptions(**options)
        decimal.getcontext().prec = precision


for _name, (_make, _flip) in KINDS.items():
    for _way in (_closure, _same_number, _block):
        add(f"state.toggled_{_name}.{_way.__name__[1:]}", functools.partial(
            put_back, functools.partial(_way, make=_make, flip=_flip)))
