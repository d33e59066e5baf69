"""Objects of Python's library and of this one, whose state code reads by their methods."""
from __future__ import annotations

import csv
import collections
import concurrent.futures
import configparser
import ctypes
import datetime
import enum
import fractions
import hashlib
import inspect
import io
import mmap
import operator
import queue
import re
import sqlite3
import struct
import threading
import weakref

import numpy as onp

import hybrid as mx
from hybrid import gluon, nd
from hybrid.gluon import nn

from .tools import add, arr, trap


class Thing:
    """An object with some attributes."""

    def __init__(self, **k):
        self.__dict__.update(k)


# what is made, what changes it, and the number that code reads of it
TABLE = {
    "event": (threading.Event,
        lambda e: e.clear() if e.is_set() else e.set(),
        lambda e: 2.0 if e.is_set() else 3.0),
    "lock": (threading.Lock,
        lambda l: l.release() if l.locked() else l.acquire(),
        lambda l: 2.0 if l.locked() else 3.0),
    "semaphore": (lambda: threading.Semaphore(5),
        lambda s: s.acquire(),
        lambda s: s._value),
    "future": (concurrent.futures.Future,
        lambda f: f.done() or f.set_result(5.0),
        lambda f: f.result() if f.done() else 3.0),
    "configparser": (lambda: (lambda c: (c.read_string('[a]\nk=2'), c)[1])(configparser.ConfigParser()),
        lambda c: c.set('a', 'k', '7'),
        lambda c: float(c['a']['k'])),
    "queue": (queue.Queue,
        lambda q: q.put(1),
        lambda q: q.qsize() + 1),
    "simplequeue": (queue.SimpleQueue,
        lambda q: q.put(1),
        lambda q: q.qsize() + 1),
    "hash": (lambda: hashlib.md5(b'a'),
        lambda h: h.update(b'b'),
        lambda h: h.digest()[0]),
    "rng_state": (lambda: onp.random.RandomState(1),
        lambda r: r.seed(5),
        lambda r: int(r.get_state()[1][0]) % 50 + 1),
    "stringio": (lambda: io.StringIO('abc'),
        lambda s: s.write('longer text'),
        lambda s: len(s.getvalue())),
    "bytesio": (lambda: io.BytesIO(b'abc'),
        lambda s: s.write(b'longer text'),
        lambda s: s.getbuffer().nbytes),
    "weakkey": (weakref.WeakKeyDictionary,
        (lambda keep: lambda d: d.__setitem__((keep.append(Thing()), keep[-1])[1], 1))([]),
        lambda d: len(d) + 1),
    "ctypes_array": (lambda: (ctypes.c_int * 3)(1, 2, 3),
        lambda c: c.__setitem__(0, c[0] + 1),
        lambda c: c[0]),
    "mmap": (lambda: mmap.mmap(-1, 8),
        lambda m: m.__setitem__(0, m[0] + 1),
        lambda m: m[0]),
    "memoryview_cast": (lambda: memoryview(bytearray(8)).cast('d'),
        lambda m: m.__setitem__(0, m[0] + 1),
        lambda m: m[0]),
    "fraction": (lambda: Thing(f=fractions.Fraction(1, 3)),
        lambda s: setattr(s, 'f', s.f + 1),
        lambda s: float(s.f)),
    "date": (lambda: Thing(d=datetime.date(2020, 1, 1)),
        lambda s: setattr(s, 'd', s.d.replace(day=s.d.day + 1)),
        lambda s: s.d.day),
    "set_of_objects": (lambda: {Thing(k=1.0)},
        lambda s: [setattr(o, 'k', o.k + 1) for o in s],
        lambda s: sum(o.k for o in s)),
    "dict_object_keys": (lambda: {Thing(k=1.0): 0},
        lambda s: [setattr(o, 'k', o.k + 1) for o in s],
        lambda s: sum(o.k for o in s)),
    "deque_of_objects": (lambda: collections.deque([Thing(k=1.0)]),
        lambda s: setattr(s[0], 'k', s[0].k + 1),
        lambda s: s[0].k),
    "nested_closure": (lambda: (lambda l: [l, (lambda: lambda: l[0])()])([1.0]),
        lambda s: s[0].__setitem__(0, s[0][0] + 1),
        lambda s: s[1]()),
    "methodcaller": (lambda: (lambda o: [o, operator.methodcaller('get', 'k')])({'k': 1.0}),
        lambda s: s[0].__setitem__('k', s[0]['k'] + 1),
        lambda s: s[1](s[0])),
    "attrgetter": (lambda: (lambda o: [o, operator.attrgetter('a.k')])(Thing(a=Thing(k=1.0))),
        lambda s: setattr(s[0].a, 'k', s[0].a.k + 1),
        lambda s: s[1](s[0])),
    "exception_obj": (lambda: ValueError(1.0),
        lambda s: setattr(s, 'args', (s.args[0] + 1,)),
        lambda s: s.args[0]),
    "np_struct": (lambda: onp.zeros(1, [('a', 'f4')]),
        lambda s: s['a'].__iadd__(1),
        lambda s: float(s['a'][0])),
    "np_str": (lambda: onp.array(['a', 'b']),
        lambda s: s.__setitem__(0, 'b'),
        lambda s: float((s == 'b').sum())),
    "csv_reader": (lambda: csv.reader(['1', '2', '3', '4', '5', '6', '7']),
        lambda s: next(s),
        lambda s: float(next(s)[0])),
    "struct_iter": (lambda: struct.iter_unpack('B', bytes(range(9))),
        lambda s: next(s),
        lambda s: float(next(s)[0])),
    "re_iter": (lambda: re.finditer('\\d', '123456789'),
        lambda s: next(s),
        lambda s: float(next(s)[0])),
    "reversed_iter": (lambda: reversed([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
        lambda s: next(s),
        lambda s: next(s)),
    "filter_iter": (lambda: filter(None, range(1, 99)),
        lambda s: next(s),
        lambda s: float(next(s))),
    "sqlite": (lambda: (lambda c: (c.execute('create table t(k)'), c)[1])(sqlite3.connect(':memory:')),
        lambda s: s.execute('insert into t values(1)'),
        lambda s: s.execute('select count(*) from t').fetchone()[0] + 1),
    "signature": (lambda: (lambda f: (setattr(f, '__defaults__', (1.0,)), f)[1])(lambda a=0: a),
        lambda s: setattr(s, '__defaults__', (s.__defaults__[0] + 1,)),
        lambda s: inspect.signature(s).parameters['a'].default),
    "lr_sched": (lambda: mx.lr_scheduler.FactorScheduler(step=5, base_lr=0.5),
        lambda s: setattr(s, 'base_lr', s.base_lr * 0.5),
        lambda s: s.base_lr),
    "metric_obj": (lambda: mx.metric.Loss(),
        lambda s: s.update(0, nd.ones((1,))),
        lambda s: s.num_inst + 1),
    "initializer": (lambda: mx.init.Constant(1.0),
        lambda s: setattr(s, 'value', s.value + 1),
        lambda s: s.value),
    "param_meta": (lambda: gluon.Parameter('zz', shape=(1,)),
        lambda p: setattr(p, 'lr_mult', p.lr_mult + 1),
        lambda p: p.lr_mult),
    "block_name": (lambda: nn.Dense(2),
        lambda p: p.collect_params().setattr('wd_mult', 5.0),
        lambda p: p.weight.wd_mult),
}


def _play(H, make, change, read):
    o = make()
    f = H(lambda x: x * read(o))
    yield f(arr(1.)), f(arr(1.))
    for _ in range(2):
        change(o)
        yield f(arr(1.)), f(arr(2.))


for _name, _row in TABLE.items():
    add(f"objects.of_python.{_name}", lambda H, row=_row: _play(H, *row))


class Mode(enum.Enum):
    """Members whose value can change inside."""

    LIST = [1.]
    OBJECT = Thing(k=1.)


@trap
def values_of_an_enumeration(H):
    f = H(lambda x: x * Mode.LIST.value[0] + Mode.OBJECT.value.k)
    yield f(arr(1.))
    Mode.LIST.value[0], Mode.OBJECT.value.k = 4., 7.
    yield f(arr(1.))
    Mode.LIST.value[0], Mode.OBJECT.value.k = 1., 1.
    yield f(arr(1.))


@trap
def a_class_gets_what_its_metaclass_had(H):
    class Meta(type):
        _k = 2.

        @property
        def k(cls):
            return cls._k

    class A(metaclass=Meta):
        pass
    f = H(lambda x: x * A.k)
    yield f(arr(1.))
    Meta._k = 5.
    yield f(arr(1.))
    A._k = 7.
    yield f(arr(1.))
