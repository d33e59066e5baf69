"""Code, classes and modules that are swapped, wrapped or loaded again between calls."""
from __future__ import annotations

import dataclasses
import functools
import importlib
import pathlib
import sys
import types



from .tools import arr, trap


def module(name="swapped", **variables):
    made = types.ModuleType(name)
    made.__dict__.update(variables)
    return made


def compiled(text, name="swapped", **variables):
    made = module(name, **variables)
    exec(compile(text, f"<{name}>", "exec"), vars(made))
    return made


@trap
def module_executed_again(H):
    m = compiled("K = 2.\ndef scale(x):\n    return x * K\n")
    f = H(lambda x: m.scale(x))
    yield f(arr(1.))
    exec("K = 5.\n", vars(m))
    yield f(arr(1.))
    exec("def scale(x):\n    return x * K + 1\n", vars(m))
    yield f(arr(1.))


@trap
def module_reloaded_from_file(H):
    folder = pathlib.Path(__import__("tempfile").mkdtemp())
    path = folder / "trap_reloaded.py"
    path.write_text("K = 2.\n")
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode, old = True, sys.dont_write_bytecode
    try:
        m = importlib.import_module("trap_reloaded")
        f = H(lambda x: x * m.K)
        yield f(arr(1.))
        path.write_text("K = 5.0000\n")
        importlib.invalidate_caches()
        importlib.reload(m)
        yield f(arr(1.)), m.K
    finally:
        sys.dont_write_bytecode = old
        sys.path.remove(str(folder))
        sys.modules.pop("trap_reloaded", None)


@trap
def class_redefined(H):
    space = compiled("class C:\n    def f(self, x):\n        return x * 2\n")
    f = H(lambda x: space.C().f(x))
    yield f(arr(1.))
    exec("class C:\n    def f(self, x):\n        return x * 5\n", vars(space))
    yield f(arr(1.))


@trap
def subclass_override_added(H):
    class Base:
        def k(self):
            return 2.

        def f(self, x):
            return x * self.k()

    class Child(Base):
        pass
    o = Child()
    f = H(lambda x: o.f(x))
    yield f(arr(1.))
    Child.k = lambda self: 5.
    yield f(arr(1.))
    del Child.k
    yield f(arr(1.))
    Base.k = lambda self: 7.
    yield f(arr(1.))


@trap
def bases_swapped(H):
    class A:
        k = 2.

    class B:
        k = 5.

    class C(A):
        pass
    o = C()
    f = H(lambda x: x * o.k)
    yield f(arr(1.))
    C.__bases__ = (B,)
    yield f(arr(1.))


@trap
def mixin_order(H):
    class A:
        def k(self):
            return 2.

    class B:
        def k(self):
            return 5.
    made = [type("C", (A, B), {}), type("C", (B, A), {})]
    f = H(lambda x, c: x * c().k())
    yield f(arr(1.), made[0]), f(arr(1.), made[1]), f(arr(1.), made[0])


@trap
def property_replaced(H):
    class C:
        k = property(lambda self: 2.)
    o = C()
    f = H(lambda x: x * o.k)
    yield f(arr(1.))
    C.k = property(lambda self: 5.)
    yield f(arr(1.))
    C.k = 7.
    yield f(arr(1.))
    o.k = 9.
    yield f(arr(1.))


@trap
def getattr_hook_added(H):
    class C:
        pass
    o = C()
    f = H(lambda x: x * getattr(o, "k", 2.))
    yield f(arr(1.))
    C.__getattr__ = lambda self, name: 5.
    yield f(arr(1.))
    del C.__getattr__
    yield f(arr(1.))
    C.__getattribute__ = lambda self, name: 7. if name == "k" else object.__getattribute__(self, name)
    yield f(arr(1.))


@trap
def call_hook_replaced(H):
    class C:
        def __call__(self, x):
            return x * 2
    o = C()
    f = H(lambda x: o(x))
    yield f(arr(1.))
    C.__call__ = lambda self, x: x * 5
    yield f(arr(1.))


@trap
def operators_of_own_class(H):
    class Number:
        def __init__(self, v):
            self.v = v

        def __rmul__(self, other):
            return other * self.v if not hasattr(other, "asnumpy") else other * self.v

        def __float__(self):
            return float(self.v)

        def __bool__(self):
            return self.v > 2
    n = Number(2.)
    f = H(lambda x: x * float(n) + (1 if n else 0))
    yield f(arr(1.))
    n.v = 5.
    yield f(arr(1.))
    Number.__float__ = lambda self: 100.
    yield f(arr(1.))


@trap
def len_and_iter_of_own_class(H):
    class Seq:
        def __init__(self, *v):
            self.v = v

        def __len__(self):
            return len(self.v)

        def __iter__(self):
            return iter(self.v)

        def __contains__(self, k):
            return k in self.v

        def __getitem__(self, i):
            return self.v[i]

        def __reversed__(self):
            return reversed(self.v)
    s = Seq(1., 2.)
    f = H(lambda x: x * len(s) + sum(s) + (2. in s) + s[0] + next(reversed(s)))
    yield f(arr(1.))
    s.v = (3., 4., 5.)
    yield f(arr(1.))


@trap
def hash_and_eq_of_own_class(H):
    class Key:
        def __init__(self, k):
            self.k = k

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self.k == other.k
    d, key = {Key(1): 2., Key(2): 5.}, Key(1)
    f = H(lambda x: x * d[key])
    yield f(arr(1.))
    key.k = 2
    yield f(arr(1.))


@trap
def arguments_equal_but_not_same(H):
    @dataclasses.dataclass(eq=True, frozen=True)
    class Config:
        name: str
        k: float = dataclasses.field(compare=False, default=2.)
    f = H(lambda x, c: x * c.k)
    yield f(arr(1.), Config("a")), f(arr(1.), Config("a", 5.)), f(arr(1.), Config("b", 2.))


@trap
def decorator_with_options(H):
    def scaled(by):
        def wrap(fn):
            @functools.wraps(fn)
            def inner(*args, **kwargs):
                return fn(*args, **kwargs) * inner.by
            inner.by = by
            return inner
        return wrap

    @scaled(2.)
    def g(x):
        return x + 1
    f = H(lambda x: g(x))
    yield f(arr(1.))
    g.by = 5.
    yield f(arr(1.))
    g.__wrapped__ = lambda x: x
    yield f(arr(1.))


@trap
def hybridized_under_decorator(H):
    calls = []

    def counted(fn):
        def inner(*a):
            calls.append(1)
            return fn(*a)
        return inner
    f = counted(H(lambda x: x * 2))
    yield f(arr(1.)), f(arr(2.)), len(calls)
