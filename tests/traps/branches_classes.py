"""Patterns, enumerations, dataclasses, descriptors and names of Python in code that is compiled."""
from __future__ import annotations

import dataclasses
import enum
import functools
import typing


from .tools import arr, trap


@trap
def structure_matched(H):
    @dataclasses.dataclass(frozen=True)
    class Point:
        x: float
        y: float

    class Colour(enum.Enum):
        RED = 1
        BLUE = 2

    @H
    def f(x, what):
        match what:
            case 0 | 1:
                return x * 10
            case int(n) if n > 5:
                return x * n
            case [a, *rest]:
                return x * a + len(rest)
            case {"k": k, **rest}:
                return x * k - len(rest)
            case Point(x=0., y=y):
                return x + y
            case Point(a, b):
                return x * a * b
            case Colour.RED:
                return x * 77
            case str() as s:
                return x * len(s)
            case None:
                return -x
            case _:
                return x
    for what in (0, 1, 2, 7, 9, [2., 3., 4.], {"k": 3., "a": 1}, {"j": 1}, Point(0., 4.), Point(2., 3.), Colour.RED,
                 Colour.BLUE, "abc", None, (1., 2.), 0, 7):
        yield f(arr(1.), what), f(arr(2.), what)


@trap
def flags_combined(H):
    class Part(enum.Flag):
        A = 1
        B = 2
        C = 4

    @H
    def f(x, parts):
        if Part.A in parts:
            x = x + 1
        if parts & Part.B:
            x = x * 3
        return x * (1 + parts.value) if parts ^ Part.C else -x
    for parts in (Part.A, Part.A | Part.B, Part.C, Part.A, ~Part.A, Part(0), Part.A | Part.B | Part.C):
        yield f(arr(1.), parts)


@trap
def members_by_name_and_value(H):
    class Kind(str, enum.Enum):
        SUM = "sum"
        MEAN = "mean"

    @H
    def f(x, kind):
        return getattr(x, Kind(kind).value)() * len(Kind) + (Kind[kind.upper()] is Kind.SUM)
    for kind in ("sum", "mean", "sum", "mean"):
        yield f(arr(1., 2.), kind)


@trap
def typed_tuples(H):
    class Pair(typing.NamedTuple):
        a: typing.Any
        b: float = 2.

        def scaled(self):
            return self.a * self.b

    @H
    def f(p):
        return p.scaled(), p._replace(b=3.).scaled(), Pair(*p[::1]).a
    for b in (2., 5., 2., 7.):
        yield f(Pair(arr(1.), b))
    yield f(Pair(arr(1.)))


@trap
def defaults_of_dataclasses(H):
    @dataclasses.dataclass
    class Config:
        scales: list = dataclasses.field(default_factory=lambda: [1., 2.])
        bias: float = 0.
        total: float = dataclasses.field(init=False, default=0.)

        def __post_init__(self):
            self.total = sum(self.scales)

    @H
    def f(x, c):
        own = Config()
        own.scales.append(9.)
        return x * c.total + c.bias + sum(c.scales) + sum(own.scales)
    c = Config()
    for _ in range(2):
        yield f(arr(1.), c), f(arr(1.), Config([3.])), f(arr(1.), dataclasses.replace(c, bias=1.))
        c.scales.append(5.)


@trap
def dispatched_by_class(H):
    @functools.singledispatch
    def scale(v, x):
        return x

    @scale.register
    def _(v: int, x):
        return x * v

    @scale.register
    def _(v: list, x):
        return x * sum(v)

    f = H(lambda x, v: scale(v, x))
    for v in (2, [1., 2.], "a", 2, True, 2.5, [1., 2.]):
        yield f(arr(1.), v)
    scale.register(str, lambda v, x: x * len(v))
    for v in ("abc", 2, "abc"):
        yield f(arr(1.), v)


@trap
def subclasses_register_themselves(H):
    class Base:
        made: typing.ClassVar[list] = []

        def __init_subclass__(cls, weight=1., **k):
            super().__init_subclass__(**k)
            Base.made.append(cls)
            cls.weight = weight
    f = H(lambda x: x * sum(c.weight for c in Base.made) + len(Base.made))
    yield f(arr(1.)), f(arr(1.))

    class A(Base, weight=3.):
        pass
    yield f(arr(1.)), f(arr(1.))
    A.weight = 5.
    yield f(arr(1.)), f(arr(1.))


@trap
def names_set_by_descriptors(H):
    class Scaled:
        def __set_name__(self, owner, name):
            self.name = f"_{name}"

        def __get__(self, o, owner=None):
            return self if o is None else getattr(o, self.name, 1.) * 2

        def __set__(self, o, v):
            setattr(o, self.name, v)

    class Box:
        k = Scaled()
    o = Box()
    f = H(lambda x: x * o.k)
    for v in (1., 4., 4., 1.):
        o.k = v
        yield f(arr(1.)), f(arr(1.))
    Scaled.__get__ = lambda self, o, owner=None: 9.
    yield f(arr(1.)), f(arr(1.))


@trap
def nonlocal_of_three_levels(H):
    total = 0.

    @H
    def f(x):
        def middle():
            def inner():
                nonlocal total
                total = total + 1
            inner()
            return total
        return x * middle()
    for _ in range(5):
        yield f(arr(1.)), total


@trap
def deleted_names(H):
    @H
    def f(x, on):
        k = 2.
        if on:
            del k
        try:
            return x * k
        except UnboundLocalError:
            return x * 7
    for on in (True, False, True, False):
        yield f(arr(1.), on)


@trap
def scopes_of_comprehensions(H):
    k = 10.

    @H
    def f(x):
        made = {k: v for k, v in zip("ab", (1., 2.))}
        nested = [[a * b for a in (1., 2.)] for b in (3., 4.)]
        return x * k + sum(made.values()) + sum(sum(r) for r in nested) + len({v % 2 for v in (1, 3, 5)})
    yield f(arr(1.)), f(arr(1.))
    k = 3.
    yield f(arr(1.)), f(arr(1.))


@trap
def stars_everywhere(H):
    @H
    def f(x, *a, k=1., **more):
        first, *middle, last = (*a, k, *more.values())
        return x * first + sum(middle) * last
    for a, more in (((1., 2.), {}), ((1., 2., 3.), {"k": 5.}), ((1., 2.), {"j": 4.}), ((1., 2.), {}), (
            (1., 2.), {"k": 5., "j": 1., "l": 3.}), ((1., 2.), {"l": 3., "j": 1., "k": 5.})):
        yield f(arr(1.), *a, **more)


@trap
def keyword_only_defaults_change(H):
    def plain(x, *, k=2., more=(1., 2.)):
        return x * k + sum(more)
    f = H(plain)
    yield f(arr(1.)), f(arr(1.)), f(arr(1.), k=3.)
    plain.__kwdefaults__["k"] = 7.
    yield f(arr(1.)), f(arr(1.)), f(arr(1.), k=3.)
