"""Objects whose special methods, classes and helpers decide what the code computes, changed between calls."""
from __future__ import annotations

import copy
import functools
import inspect
import operator
import string
import types

import numpy as onp

from hybrid import gluon, nd

from .tools import arr, trap


class Keep:
    """An object with a value that its special methods use."""

    def __init__(self, k):
        self.k = k

    def __len__(self):
        return int(self.k)

    def __bool__(self):
        return self.k > 2

    def __iter__(self):
        return iter(range(int(self.k)))

    def __contains__(self, v):
        return v < self.k

    def __getitem__(self, i):
        return self.k + i

    def __call__(self, x):
        return x * self.k

    def __index__(self):
        return int(self.k)

    def __int__(self):
        return int(self.k)

    def __float__(self):
        return float(self.k)

    def __add__(self, o):
        return o + self.k

    def __radd__(self, o):
        return o + self.k

    def __mul__(self, o):
        return o * self.k

    def __rmul__(self, o):
        return o * self.k

    def __lt__(self, o):
        return self.k < o

    def __eq__(self, o):
        return self.k == (o.k if isinstance(o, Keep) else o)

    def __hash__(self):
        return hash(self.k)

    def __str__(self):
        return f"k{self.k}"

    def __format__(self, spec):
        return f"{self.k:{spec}}"

    def __enter__(self):
        return self.k

    def __exit__(self, *error):
        return False

    def __neg__(self):
        return -self.k

    def __abs__(self):
        return abs(self.k)

    def __round__(self, n=0):
        return round(self.k, n)

    def __reversed__(self):
        return iter([self.k])

    def __getattr__(self, name):
        if name.startswith("times"):
            return int(name[5:]) * self.k
        raise AttributeError(name)


USES = {
    "len": lambda x, o: x * len(o),
    "bool": lambda x, o: x * 2 if o else x,
    "iter": lambda x, o: x * sum(o),
    "contains": lambda x, o: x * 2 if 3 in o else x,
    "getitem": lambda x, o: x * o[1],
    "call": lambda x, o: o(x),
    "index": lambda x, o: x * list(range(9))[o],
    "int": lambda x, o: x * int(o),
    "float": lambda x, o: x * float(o),
    "radd": lambda x, o: 1 + o + x,
    "mul": lambda x, o: o * 2 * x,
    "lt": lambda x, o: x if o < 3 else x * 3,
    "eq": lambda x, o: x if o == 2 else x * 3,
    "hash": lambda x, o: x * (hash(o) % 7),
    "dict_key": lambda x, o: x * {2: 5., 4: 7.}.get(o.k, 1.),
    "str": lambda x, o: x * len(str(o) * int(o)),
    "format": lambda x, o: x * float(f"{o:.1f}"),
    "with": lambda x, o: x * o.__enter__(),
    "neg": lambda x, o: x * -o,
    "abs": lambda x, o: x * abs(o),
    "round": lambda x, o: x * round(o),
    "reversed": lambda x, o: x * next(reversed(o)),
    "getattr": lambda x, o: x * o.times3,
    "operator_index": lambda x, o: x * operator.index(o),
    "unpack": lambda x, o: x * len([*o]),
    "any_all": lambda x, o: x * (any(o) + all(o)),
    "max_key": lambda x, o: x * max([o, Keep(3)], key=lambda v: v.k).k,
    "sorted": lambda x, o: x * sorted([Keep(3), o], key=float)[0].k,
    "copy": lambda x, o: x * copy.copy(o).k,
    "deepcopy": lambda x, o: x * copy.deepcopy(o).k,
    "getattr_name": lambda x, o: x * getattr(o, "k"),
    "methodcaller": lambda x, o: operator.methodcaller("__call__", x)(o),
    "vars": lambda x, o: x * sum(vars(o).values()),
    "partial": lambda x, o: functools.partial(o)(x),
    "map": lambda x, o: list(map(o, [x]))[0],
    "reduce": lambda x, o: functools.reduce(lambda a, b: a + b, o, x),
    "isinstance_attribute": lambda x, o: x * 2 if isinstance(o.k, int) else x,
    "type_name": lambda x, o: x * len(type(o.k).__name__),
    "template": lambda x, o: x * len(string.Template("$k").substitute(k=o.k)),
    "percent": lambda x, o: x * float("%s" % o.k),  # noqa: UP031,
    "slice": lambda x, o: x * sum([1, 2, 3, 4, 5][: o.k]),
    "numpy_scalar": lambda x, o: x * onp.float32(o.k),
    "numpy_array": lambda x, o: x * nd.array(onp.full((1,), o.k, "float32")),
    "shape_of_zeros": lambda x, o: (nd.ones((o.k, 1)) * x).sum(),
    "repeat": lambda x, o: nd.concat(*[x] * o.k, dim=0).sum(),
    "axis": lambda x, o: nd.ones((2, 3, 4, 5, 6)).sum(axis=o.k - 1).shape[1] * x,
    "dtype_by_state": lambda x, o: x.astype("float16" if o.k > 2 else "float32"),
    "clip": lambda x, o: (x * 9).clip(0, o.k),
    "power": lambda x, o: (x + 1) ** o.k,
    "where_scalar": lambda x, o: nd.where(x > o.k, x, x * o.k),
    "walrus": lambda x, o: x * n if (n := o.k) > 2 else x + n,
    "lambda_inside": lambda x, o: (lambda v: v * o.k)(x),
    "comprehension": lambda x, o: sum([x * i for i in range(o.k)]),
    "generator": lambda x, o: sum(x * i for i in range(o.k)),
    "dict_comprehension": lambda x, o: sum({i: x * i for i in range(o.k)}.values()),
    "set_size": lambda x, o: x * len({i % 3 for i in range(o.k)}),
    "signature": lambda x, o: x * len(inspect.signature(o.__class__.__getitem__).parameters) * o.k,
    "class_attribute": lambda x, o: x * o.__class__.__len__(o),
}


def _played(use, how):
    def play(H):
        o = Keep(2)
        if how == "closure":
            f = H(lambda x: use(x, o))
        else:
            class Net(gluon.HybridBlock):
                def __init__(self):
                    super().__init__()
                    self.o = o

                def forward(self, x):
                    return use(x, self.o)
            f = H(Net())
        for k in (2, 4, 2, 3):
            o.k = k
            yield f(arr(1.))
    play.__module__ = __name__
    return play


for _name, _use in USES.items():
    for _how in ("closure", "block"):
        play = _played(_use, _how)
        play.__name__ = f"protocol_{_name}_{_how}"
        trap(play)


@trap
def names_listed(H):
    o = types.SimpleNamespace(a=1)
    f = H(lambda x: x * len([n for n in dir(o) if not n.startswith("_")]))
    yield f(arr(1.))
    o.b = 2
    yield f(arr(1.))
    del o.a
    yield f(arr(1.))
