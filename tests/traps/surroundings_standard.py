"""Objects of Python's standard library whose state decides what the code computes."""
from __future__ import annotations

import collections.abc
import configparser
import contextvars
import copy
import datetime
import decimal
import fractions
import functools
import io
import itertools
import json
import logging
import math
import os
import pathlib
import queue
import random
import re
import string
import sys
import types
from unittest import mock

import numpy as onp

import hybrid as mx
from hybrid import nd

from .tools import arr, trap

FACTOR = contextvars.ContextVar("FACTOR", default=2.)
CONSTANT = 2.


def helper(x):
    return x * CONSTANT


def changed(make, change, read):
    """A trap of an object that is read, changed and read again."""
    def play(H):
        o = make()
        f = H(lambda x: x * read(o))
        yield f(arr(1.))
        change(o)
        yield f(arr(1.))
        yield f(arr(1.))
    play.__module__ = __name__
    return play


def _set(o, k=5.):
    o.k = k


class Table(collections.abc.MutableMapping):
    def __init__(self):
        self.rows = {"k": 2.}

    def __getitem__(self, key):
        return self.rows[key]

    def __setitem__(self, key, value):
        self.rows[key] = value

    def __delitem__(self, key):
        del self.rows[key]

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)


class Row(collections.abc.Sequence):
    def __init__(self):
        self.items = [2., 3.]

    def __getitem__(self, i):
        return self.items[i]

    def __len__(self):
        return len(self.items)


class Walk:
    def __init__(self):
        self.n = 2

    def __iter__(self):
        yield from range(self.n)


class Tree:
    def __init__(self, k, *children):
        self.k, self.children = k, list(children)

    def total(self):
        return self.k + sum(c.total() for c in self.children)


class Linked:
    def __init__(self, k, rest=None):
        self.k, self.rest = k, rest


def last_of(o):
    while o.rest is not None:
        o = o.rest
    return o.k


def config():
    c = configparser.ConfigParser()
    c.read_dict({"a": {"k": "2.0"}})
    return c


CASES = {
    "mapping_of_own": (Table, lambda o: o.__setitem__("k", 5.), lambda o: o["k"]),
    "mapping_of_own_values": (Table, lambda o: o.update(j=3.), lambda o: sum(o.values())),
    "sequence_of_own": (Row, lambda o: o.items.append(9.), lambda o: o[-1] + len(o)),
    "iterable_of_own": (Walk, lambda o: setattr(o, "n", 5), lambda o: sum(o)),
    "tree": (lambda: Tree(1., Tree(2., Tree(3.)), Tree(4.)), lambda o: _set(o.children[0].children[0]),
             lambda o: o.total()),
    "tree_grows": (lambda: Tree(1.), lambda o: o.children.append(Tree(7.)), lambda o: o.total()),
    "linked_list": (lambda: Linked(1., Linked(2., Linked(3.))), lambda o: _set(o.rest.rest, 9.), last_of),
    "linked_list_longer": (lambda: Linked(1.), lambda o: setattr(o, "rest", Linked(9.)), last_of),
    "cyclic": (lambda: (lambda a, b: (setattr(a, "rest", b), setattr(b, "rest", a), a)[2])(Linked(1.), Linked(2.)),
               lambda o: _set(o.rest), lambda o: o.rest.rest.rest.k),
    "config_parser": (config, lambda o: o.set("a", "k", "5.0"), lambda o: o.getfloat("a", "k")),
    "decimal_value": (lambda: [decimal.Decimal("2.5")], lambda o: o.__setitem__(0, decimal.Decimal("7.5")),
                      lambda o: float(o[0])),
    "fraction_value": (lambda: [fractions.Fraction(1, 2)], lambda o: o.__setitem__(0, fractions.Fraction(3, 2)),
                       lambda o: float(o[0])),
    "date_value": (lambda: [datetime.date(2020, 1, 2)], lambda o: o.__setitem__(0, datetime.date(2020, 1, 9)),
                   lambda o: o[0].day),
    "timedelta_value": (lambda: [datetime.timedelta(seconds=2)],
                        lambda o: o.__setitem__(0, datetime.timedelta(seconds=9)), lambda o: o[0].total_seconds()),
    "pattern": (lambda: [re.compile("a+")], lambda o: o.__setitem__(0, re.compile("b+")),
                lambda o: len(o[0].match("aab").group()) if o[0].match("aab") else 7),
    "path": (lambda: [pathlib.Path("/a/b")], lambda o: o.__setitem__(0, pathlib.Path("/a/b/c/d")),
             lambda o: len(o[0].parts)),
    "json_text": (lambda: ['{"k": 2}'], lambda o: o.__setitem__(0, '{"k": 5}'), lambda o: json.loads(o[0])["k"]),
    "string_io": (lambda: io.StringIO("2"), lambda o: (o.seek(0), o.write("7")), lambda o: float(o.getvalue())),
    "bytes_io": (lambda: io.BytesIO(b"\x02"), lambda o: (o.seek(0), o.write(b"\x07")), lambda o: o.getbuffer()[0]),
    "queue_size": (queue.Queue, lambda o: o.put(1), lambda o: o.qsize() + 1),
    "partial_keywords": (lambda: functools.partial(dict, k=2.), lambda o: o.keywords.update(k=5.), lambda o: o()["k"]),
    "method_bound_to_object": (lambda: types.SimpleNamespace(k=2.), _set,
                               lambda o: types.MethodType(lambda s: s.k, o)()),
    "mock_value": (lambda: types.SimpleNamespace(get=mock.Mock(return_value=2.)),
                   lambda o: setattr(o, "get", lambda: 5.), lambda o: float(o.get())),
    "deep_copy_in_trace": (lambda: {"a": [2.]}, lambda o: o["a"].append(3.), lambda o: sum(copy.deepcopy(o)["a"])),
    "shallow_copy_in_trace": (lambda: {"a": [2.]}, lambda o: o["a"].append(3.), lambda o: sum(copy.copy(o)["a"])),
    "zip_of_two": (lambda: ([1., 2.], [3., 4.]), lambda o: o[1].__setitem__(0, 9.),
                   lambda o: sum(a * b for a, b in zip(*o))),
    "product_of_two": (lambda: ([1., 2.], [3., 4.]), lambda o: o[1].append(9.),
                       lambda o: sum(a * b for a, b in itertools.product(*o))),
    "group_by": (lambda: ["aa", "ab", "b"], lambda o: o.append("c"),
                 lambda o: len([k for k, _ in itertools.groupby(o, key=lambda s: s[0])])),
    "starred": (lambda: [1., 2., 3.], lambda o: o.insert(0, 7.), lambda o: (lambda a, *b: a * len(b))(*o)),
    "nested_tuple": (lambda: [(1., (2., [3.]))], lambda o: o[0][1][1].__setitem__(0, 9.), lambda o: o[0][1][1][0]),
    "string_join": (lambda: ["a", "b"], lambda o: o.append("c"), lambda o: len("-".join(o))),
    "sum_of_generator_expression": (lambda: [1., 2.], lambda o: o.append(3.), lambda o: sum(v for v in o if v > 1)),
    "min_of_dict_by_value": (lambda: {"a": 2., "b": 1.}, lambda o: o.update(a=0.5),
                             lambda o: {"a": 10., "b": 20.}[min(o, key=o.get)]),
    "bool_flags": (lambda: types.SimpleNamespace(a=True, b=False), lambda o: setattr(o, "b", True),
                   lambda o: (o.a << 1) + o.b),
    "none_replaced": (lambda: types.SimpleNamespace(k=None), _set, lambda o: 1. if o.k is None else o.k),
    "number_kind_replaced": (lambda: types.SimpleNamespace(k=1), lambda o: _set(o, 1.),
                             lambda o: 3. if isinstance(o.k, int) else 4.),
    "negative_zero": (lambda: types.SimpleNamespace(k=0.), lambda o: _set(o, -0.), lambda o: math.copysign(1., o.k)),
    "nan_value": (lambda: types.SimpleNamespace(k=float("nan")), _set, lambda o: 1. if o.k != o.k else o.k),
    "large_integer": (lambda: types.SimpleNamespace(k=10 ** 20), lambda o: _set(o, 10 ** 20 + 10 ** 18),
                      lambda o: o.k / 10 ** 20),
    "numpy_dtype": (lambda: types.SimpleNamespace(k=onp.dtype("float32")), lambda o: _set(o, onp.dtype("float64")),
                    lambda o: o.k.itemsize),
    "numpy_scalar": (lambda: types.SimpleNamespace(k=onp.float32(2)), lambda o: _set(o, onp.float32(5)),
                     lambda o: float(o.k)),
    "numpy_matrix_row": (lambda: onp.eye(2, dtype="float32"), lambda o: o.__setitem__((0, 1), 7.),
                         lambda o: float(o[0].sum())),
    "numpy_flags": (lambda: onp.ones(2), lambda o: o.setflags(write=False), lambda o: 2. if o.flags.writeable else 3.),
    "format_template": (lambda: string.Template("$a"), lambda o: setattr(o, "template", "$a$a"),
                        lambda o: len(o.substitute(a="x"))),
    "logger_disabled": (lambda: logging.Logger("of a trap"), lambda o: setattr(o, "disabled", True),
                        lambda o: 2. if o.disabled else 3.),
    "sys_path_length": (lambda: sys.path, lambda o: None, lambda o: 1. * bool(len(o))),
}
for _name, (_make, _change, _read) in CASES.items():
    _play = changed(_make, _change, _read)
    _play.__name__ = f"standard_{_name}"
    trap(_play)


@trap
def context_variable_in_context(H):
    f = H(lambda x: x * FACTOR.get())
    yield f(arr(1.))
    token = FACTOR.set(5.)
    yield f(arr(1.))
    FACTOR.reset(token)
    yield f(arr(1.))
    other = contextvars.copy_context()
    other.run(FACTOR.set, 9.)
    yield other.run(f, arr(1.)), f(arr(1.))


@trap
def mock_patch_of_module_constant(H):
    f = H(lambda x: helper(x))
    yield f(arr(1.))
    with mock.patch(f"{__name__}.CONSTANT", 7.):
        yield f(arr(1.))
    yield f(arr(1.))


@trap
def mock_patch_of_object(H):
    o = types.SimpleNamespace(go=lambda x: x * 2)
    f = H(lambda x: o.go(x))
    yield f(arr(1.))
    with mock.patch.object(o, "go", lambda x: x * 9):
        yield f(arr(1.))
    yield f(arr(1.))


@trap
def mock_patch_of_dict(H):
    d = {"k": 2.}
    f = H(lambda x: x * d["k"])
    with mock.patch.dict(d, k=9.):
        yield f(arr(1.))
    yield f(arr(1.))


@trap
def environment_number(H):
    os.environ["OF_A_TRAP"] = "2"
    f = H(lambda x: x * float(os.getenv("OF_A_TRAP", "1")))
    yield f(arr(1.))
    os.environ["OF_A_TRAP"] = "5"
    yield f(arr(1.))
    del os.environ["OF_A_TRAP"]
    yield f(arr(1.))


@trap
def random_seeded_inside(H):
    @H
    def f(x):
        random.seed(3)
        return x * random.random()
    yield f(arr(1.)), f(arr(1.))


@trap
def numpy_permutation_inside(H):
    f = H(lambda x: x[nd.array(onp.random.permutation(3), dtype="int32")])
    for _ in range(3):
        yield f(arr(1., 2., 3.))


@trap
def draw_shared_by_two_functions(H):
    f, g = H(lambda x: x + nd.random.uniform(shape=(2,))), H(lambda x: x * nd.random.normal(shape=(2,)))
    mx.random.seed(5)
    yield f(arr(1., 2.)), g(arr(1., 2.)), f(arr(1., 2.))
    mx.random.seed(5)
    yield g(arr(1., 2.)), f(arr(1., 2.))


@trap
def draw_parameters_change(H):
    o = types.SimpleNamespace(low=0., high=1.)
    f = H(lambda x: x + nd.random.uniform(o.low, o.high, shape=(2,)))
    mx.random.seed(5)
    yield f(arr(1., 2.))
    o.low, o.high = 10., 11.
    yield f(arr(1., 2.))


@trap
def draw_in_branch_by_state(H):
    o = types.SimpleNamespace(noisy=True)
    f = H(lambda x: x + nd.random.normal(shape=(2,)) if o.noisy else x)
    mx.random.seed(5)
    for noisy in (True, False, True):
        o.noisy = noisy
        yield f(arr(1., 2.))
