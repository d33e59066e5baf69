"""Objects whose attributes and items some cases assign to, and the ways in which these reach them."""
from __future__ import annotations

import dataclasses

import numpy as onp

from hybrid import gluon

from .tools import arr


class Box:
    """Holds attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Scaled:
    """Stores twice what is assigned, and counts."""

    def __init__(self):
        self._value, self.count = 1., 0

    @property
    def value(self):
        return self._value

    @value.setter
    def value(self, new):
        self.count += 1
        self._value = new * 2

    @value.deleter
    def value(self):
        self._value = 7.


class Noted:
    """Notes each assignment."""

    def __init__(self):
        object.__setattr__(self, "names", [])

    def __setattr__(self, name, value):
        self.names.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.names.append("-" + name)
        object.__delattr__(self, name)


class Items:
    """Takes items and counts them."""

    def __init__(self):
        self.kept, self.n = {}, 0

    def __setitem__(self, key, value):
        self.n += 1
        self.kept[key] = value

    def __getitem__(self, key):
        return self.kept.get(key, 1.)

    def __delitem__(self, key):
        self.kept.pop(key, None)

    def __iadd__(self, other):
        self.n += other
        return self

    def __contains__(self, key):
        return key in self.kept

    def __call__(self, by):
        self.n += by
        return self.n

    def __enter__(self):
        self.n += 1
        return self

    def __exit__(self, *_):
        self.n += 10


class Slotted:
    """Attributes in slots."""

    __slots__ = ("a", "b", "__dict__")

    def __init__(self):
        self.a = self.b = 1.


class Descriptor:
    """Keeps values by object in a dict of its own."""

    def __init__(self):
        self.kept = {}

    def __get__(self, owner, cls=None):
        return self.kept.get(id(owner), 1.)

    def __set__(self, owner, value):
        self.kept[id(owner)] = value


class Owner:
    """Has such an attribute."""

    field = Descriptor()
    shared = [1.]
    number = 1.


@dataclasses.dataclass
class Point:
    """Two numbers and a list."""

    x: float = 1.
    y: float = 2.
    more: list = dataclasses.field(default_factory=list)


def _seen(o):
    """What is left in an object."""
    if isinstance(o, (dict, list, onp.ndarray)):
        return [str(v) for v in (o.items() if isinstance(o, dict) else o)]
    return sorted(f"{k} {v}" for k, v in getattr(o, "__dict__", {}).items() if isinstance(v, (int, float, list)))


def closure(H, make, change):
    o = make()
    f = H(lambda x: x * change(o))
    for _ in range(5):
        yield f(arr(1., 2.)), _seen(o)


def attribute(H, make, change):
    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.held = make()

        def forward(self, x):
            return x * change(self.held)
    net = H(Net())
    for i in range(5):
        if i == 3:
            net.held = make()
        yield net(arr(1., 2.)), _seen(net.held)


def argument(H, make, change):
    f, o = H(lambda x, o: x * change(o)), make()
    for i in range(5):
        if i == 3:
            o = make()
        yield f(arr(1., 2.), o), _seen(o)
