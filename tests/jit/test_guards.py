"""What compiled code reads of Python objects, changed between two calls: compiled as eagerly, whatever kind of object
it is and wherever it stands."""
from __future__ import annotations

import argparse
import collections
import contextvars
import dataclasses
import functools
import os
import random
import threading
import types

import numpy as onp
import pytest

from hybrid import autograd, gluon, hybridize, nd
from hybrid.base.errors import TraceError
from hybrid.jit import replaced

X = nd.array([1.0])


class Plain:
    k = 2.0
    array = None

    def get(self):
        return self._k                                        # type: ignore[attr-defined]

    @property
    def twice(self):
        return self._k * 2                                    # type: ignore[attr-defined]


class Slots:
    __slots__ = ("k",)


@dataclasses.dataclass(eq=False)
class Data:
    k: float = 2.0


class AttrDict(dict):
    __getattr__ = dict.__getitem__


def _with(cls, **values):
    made = cls()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _outer():
    k = 2.0

    def read():
        return k

    def change():
        nonlocal k
        k = 5.0
    return read, change


def _default(parts=None):
    def read(parts=[2.0]):  # noqa: B006  that is what is asked
        return parts[0]
    return read


# kind of object: (made, changed, read)
CASES = {
    "attribute": (lambda: _with(Plain, k=2.0), lambda o: setattr(o, "k", 5.0), lambda o: o.k),
    "attribute in vars": (lambda: _with(Plain, k=2.0), lambda o: vars(o).update(k=5.0), lambda o: o.k),
    "attribute that hides its class's": (Plain, lambda o: setattr(o, "k", 5.0), lambda o: o.k),
    "getattr": (lambda: _with(Plain, k=2.0), lambda o: setattr(o, "k", 5.0), lambda o: getattr(o, "k")),
    "getattr of none": (lambda: _with(Data, k=2.0), lambda o: setattr(o, "m", 5.0), lambda o: getattr(o, "m", 2.0)),
    "method": (lambda: _with(Plain, _k=2.0), lambda o: setattr(o, "_k", 5.0), lambda o: o.get()),
    "property": (lambda: _with(Plain, _k=2.0), lambda o: setattr(o, "_k", 5.0), lambda o: o.twice),
    "nested": (lambda: _with(Plain, inner=_with(Plain, k=2.0)), lambda o: setattr(o.inner, "k", 5.0),
               lambda o: o.inner.k),
    "nested and replaced": (lambda: _with(Plain, inner=_with(Plain, k=2.0)),
                            lambda o: setattr(o, "inner", _with(Plain, k=5.0)), lambda o: o.inner.k),
    "in a list": (lambda: [_with(Plain, k=2.0)], lambda o: setattr(o[0], "k", 5.0), lambda o: o[0].k),
    "array replaced": (lambda: _with(Plain, k=nd.ones(1)), lambda o: setattr(o, "k", nd.ones(1) * 5), lambda o: o.k),
    "array written": (lambda: _with(Plain, k=nd.ones(1)), lambda o: o.k.__setitem__(slice(None), 5), lambda o: o.k),
    "array read as a number": (lambda: _with(Plain, k=nd.ones(1)), lambda o: setattr(o, "k", nd.ones(1) * 5),
                               lambda o: float(o.k.asscalar())),
    "slots": (lambda: _with(Slots, k=2.0), lambda o: setattr(o, "k", 5.0), lambda o: o.k),
    "dataclass": (Data, lambda o: setattr(o, "k", 5.0), lambda o: o.k),
    "dataclass with equality": (dataclasses.make_dataclass("Equal", [("k", float, 2.0)]),
                                lambda o: setattr(o, "k", 5.0), lambda o: o.k),
    "SimpleNamespace": (lambda: types.SimpleNamespace(k=2.0), lambda o: setattr(o, "k", 5.0), lambda o: o.k),
    "Namespace": (lambda: argparse.Namespace(k=2.0), lambda o: setattr(o, "k", 5.0), lambda o: o.k),
    "module": (lambda: _with(lambda: types.ModuleType("settings"), k=2.0), lambda o: setattr(o, "k", 5.0),
               lambda o: o.k),
    "class": (lambda: type("C", (), {"k": 2.0, "__module__": __name__}), lambda o: setattr(o, "k", 5.0), lambda o: o.k),
    "list": (lambda: [2.0], lambda o: o.__setitem__(0, 5.0), lambda o: o[0]),
    "dict": (lambda: {"k": 2.0}, lambda o: o.update(k=5.0), lambda o: o["k"]),
    "order of a dict": (lambda: {"a": 2.0, "b": 5.0}, lambda o: o.update(a=o.pop("a")),
                        lambda o: next(iter(o.values()))),
    "OrderedDict": (lambda: collections.OrderedDict(k=2.0), lambda o: o.update(k=5.0), lambda o: o["k"]),
    "defaultdict": (lambda: collections.defaultdict(lambda: 2.0), lambda o: o.update(k=5.0), lambda o: o["k"]),
    "AttrDict": (lambda: AttrDict(k=2.0), lambda o: o.update(k=5.0), lambda o: o.k),
    "deque": (lambda: collections.deque([2.0]), lambda o: o.__setitem__(0, 5.0), lambda o: o[0]),
    "bytearray": (lambda: bytearray(b"\2"), lambda o: o.__setitem__(0, 5), lambda o: o[0]),
    "set": (lambda: {2.0}, lambda o: (o.clear(), o.add(5.0)), lambda o: sum(o)),
    "sign of zero": (lambda: [0.0], lambda o: o.__setitem__(0, -0.0), lambda o: float(onp.copysign(1, o[0]))),
    "NumPy array": (lambda: onp.ones(1, "float32"), lambda o: o.fill(5),
                    lambda o: o if not isinstance(o, onp.ndarray) else nd.array(o)),
    "partial": (lambda: functools.partial(lambda d: d["k"], {"k": 2.0}), lambda o: o.args[0].update(k=5.0),
                lambda o: o()),
    "bound method": (lambda: _with(Plain, _k=2.0).get, lambda o: setattr(o.__self__, "_k", 5.0), lambda o: o()),
    "variable of a function": (_outer, lambda o: o[1](), lambda o: o[0]()),
    "default value": (_default, lambda o: o.__defaults__[0].__setitem__(0, 5.0), lambda o: o()),
    "default values": (_default, lambda o: setattr(o, "__defaults__", ([5.0],)), lambda o: o()),
    "function in a list": (lambda: [lambda: 2.0], lambda o: o.__setitem__(0, lambda: 5.0), lambda o: o[0]()),
    "context variable": (lambda: contextvars.ContextVar("k", default=2.0), lambda o: o.set(5.0), lambda o: o.get()),
    "environment": (lambda: os.environ, lambda o: o.update(HYBRID_TEST_K="5"),
                    lambda o: float(os.environ.get("HYBRID_TEST_K", "2"))),
    "getenv": (lambda: os.environ, lambda o: o.update(HYBRID_TEST_K="5"),
               lambda o: float(os.getenv("HYBRID_TEST_K", "2"))),
    "thread-local": (lambda: _with(threading.local, k=2.0), lambda o: setattr(o, "k", 5.0), lambda o: o.k),
}


def _closure(o, read):
    return hybridize(lambda x: x * read(o))


def _argument(o, read):
    f = hybridize(lambda x, o: x * read(o))
    return lambda x: f(x, o)


def _keyword(o, read):
    f = hybridize(lambda x, o=None: x * read(o))
    return lambda x: f(x, o=o)


class Net(gluon.HybridBlock):
    def __init__(self, o, read):
        super().__init__()
        self.o, self.read = o, read

    def forward(self, x):                                    # type: ignore[override]
        return x * self.read(self.o)


def _attribute(o, read):
    net = Net(o, read)
    net.hybridize()
    return net


def _step(o, read):
    """A training step: the gradient of the weight is what is read."""
    weight = gluon.Parameter("weight", shape=(1,), init="zeros")
    weight.initialize()
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": 1.0})

    @hybridize
    def step(x):
        with autograd.record():
            loss = x * weight.data() * read(o)
        loss.backward()
        trainer.step(1)
        return loss

    def call(x):
        weight.set_data(nd.zeros((1,)))
        step(x)
        return -weight.data()
    return call


PLACES = {"closure": _closure, "argument": _argument, "keyword": _keyword, "attribute": _attribute, "step": _step}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES)
def test_a_change_is_seen(case, place, monkeypatch):
    monkeypatch.delenv("HYBRID_TEST_K", raising=False)
    make, change, read = CASES[case]

    def both(call, o):
        out = [call(X).asnumpy().tolist() for _ in range(3)]
        change(o)
        return out + [call(X).asnumpy().tolist() for _ in range(3)]
    o = make()
    eager = both(lambda x: x * read(o), o)
    monkeypatch.delenv("HYBRID_TEST_K", raising=False)
    o = make()
    assert both(PLACES[place](o, read), o) == eager
    assert eager[0] == eager[2] != eager[3] == eager[5]
    monkeypatch.delenv("HYBRID_TEST_K", raising=False)


def test_what_did_not_change_compiles_nothing():
    o = _with(Plain, k=2.0, inner=Slots(), parts=[1.0, {"a": 2.0}])
    o.inner.k = 3.0
    f = hybridize(lambda x: x * o.k * o.inner.k * o.parts[1]["a"])
    for i in range(6):
        o.unread = i
        o.k = float("2.0")                                   # another object of the same value
        assert f(X).asscalar() == 12
    assert len(f.cache_misses) == 1


def test_values_that_come_back_compile_nothing():
    o = _with(Plain, k=2.0)
    f = hybridize(lambda x: x * o.k)
    for _ in range(4):
        for value in (2.0, 3.0):
            o.k = value
            assert f(X).asscalar() == value
    assert len(f.cache_misses) == 2


def test_a_value_that_is_always_another_is_told_of_and_right(monkeypatch):
    monkeypatch.setenv("HYBRID_SIGNATURES", "8")
    o = _with(Plain, k=0.0)
    f = hybridize(lambda x: x * o.k)
    with pytest.warns(UserWarning, match="compiled for 8 calls that did not come again"):
        for i in range(12):
            o.k = float(i)
            assert f(X).asscalar() == i
    assert len(f.cache_misses) == 8


def test_what_is_told_of_calls_that_do_not_come_again_is_what_differs(monkeypatch):
    """Nothing is known of what a call reads that was not traced."""
    monkeypatch.setenv("HYBRID_SIGNATURES", "2")
    o = _with(Plain, k=2.0)
    f = hybridize(lambda x: x * o.k, dynamic=False)
    with pytest.warns(UserWarning, match="compiled for 2 calls that did not come again") as told:
        for n in range(2, 6):
            f(nd.ones((n,)))
    text = str(told[0].message)
    assert "(arrays: input 0 float32(2,) -> float32(4,))" in text and "Guard" not in text, text


def test_methods_and_attributes_of_a_blocks_class():
    class Scaled(gluon.HybridBlock):
        s = 2.0

        def hybrid_forward(self, F, x):  # noqa: N803
            return x * self.s
    net = Scaled()
    net.hybridize()
    assert net(X).asscalar() == net(X).asscalar() == 2
    Scaled.s = 5.0
    assert net(X).asscalar() == 5
    Scaled.hybrid_forward = lambda self, F, x: x + self.s     # type: ignore[method-assign]
    assert net(X).asscalar() == 6


@pytest.mark.parametrize("launched", (True, False))
def test_methods_of_the_library_that_come_back_compile_nothing(launched, monkeypatch):
    if not launched:
        monkeypatch.setattr(replaced.launcher, "part", lambda name: None)
    net = gluon.nn.Dense(2, in_units=1)
    net.initialize()
    net.hybridize()
    forward, forwards = gluon.nn.Dense.forward, []
    for method in (forward, lambda self, x: forward(self, x) * 10) * 3:
        monkeypatch.setattr(gluon.nn.Dense, "forward", method)
        forwards.append([net(X).asnumpy() for _ in range(3)])
    onp.testing.assert_allclose(forwards, onp.asarray([forwards[0], forwards[1]] * 3))
    onp.testing.assert_allclose(forwards[1], onp.asarray(forwards[0]) * 10, rtol=1e-6)
    assert len(net.cache_misses) == 2


def test_a_variable_that_holds_a_function():
    activation = nd.relu
    f = hybridize(lambda x: activation(x))
    assert f(-X).asscalar() == f(-X).asscalar() == 0
    activation = nd.abs
    assert f(-X).asscalar() == 1


DRAWS = {
    "default_rng": (lambda: onp.random.default_rng(0), lambda r: r.random()),
    "RandomState": (lambda: onp.random.RandomState(0), lambda r: r.rand()),
    "Random": (lambda: random.Random(0), lambda r: r.random()),
    "list's iterator": (lambda: iter([1.0, 2.0]), next),
    "generator": (lambda: (float(i) for i in range(9)), next),
    "map": (lambda: map(float, [1, 2]), next),
}


GENERATORS = ("default_rng", "RandomState", "Random")


@pytest.mark.parametrize("place", ["closure", "argument", "attribute", "step"])
@pytest.mark.parametrize("kind", [k for k in DRAWS if k not in GENERATORS])
def test_what_is_taken_from_an_iterator_is_refused(kind, place):
    make, draw = DRAWS[kind]
    with pytest.raises(TraceError, match=r"test_guards\.py:\d+: .*while it was compiled"):
        PLACES[place](make(), draw)(X)


@pytest.mark.parametrize("place", ["closure", "argument"])
@pytest.mark.parametrize("kind", GENERATORS)
def test_what_a_generator_draws_is_new_at_every_call(kind, place):
    make, draw = DRAWS[kind]
    other = make()
    call = PLACES[place](make(), draw)
    with pytest.warns(UserWarning, match=r"test_guards\.py:\d+: .*drew random numbers from .*hybrid\.nd\.random"):
        found = [float(call(X).sum().asscalar())]
    found += [float(call(X).sum().asscalar()) for _ in range(3)]
    wanted = [float((X * draw(other)).sum().asscalar()) for _ in range(4)]
    assert found == pytest.approx(wanted)


def test_a_generator_that_is_not_drawn_from_is_none_of_it():
    r, it = random.Random(0), iter([1])
    f = hybridize(lambda x: x * 2 if r is not None and it is not None else x)
    assert f(X).asscalar() == 2


def test_iterators_that_the_code_makes_itself():
    f = hybridize(lambda x, n: x * sum(map(float, iter(n))) * next(v for v in n))
    assert f(X, (2, 3)).asscalar() == f(X, (2, 3)).asscalar() == 10


class Foreign:
    """An array of another library."""

    def __init__(self, value):
        self.value = onp.array(value, "float32")

    def __array__(self, dtype=None, copy=None):
        return self.value.astype(dtype) if dtype else self.value


class ByDlpack:
    def __init__(self, value):
        self.value = onp.array(value, "float32")

    def __dlpack__(self, *args, **kwargs):
        return self.value.__dlpack__(*args, **kwargs)

    def __dlpack_device__(self):
        return self.value.__dlpack_device__()


@pytest.mark.parametrize("kind", [Foreign, ByDlpack])
def test_foreign_arrays_are_inputs(kind):
    f = hybridize(lambda x, t: x * t)
    t = kind([2.0])
    assert f(X, t).asscalar() == 2
    t.value[:] = 5
    assert f(X, t).asscalar() == f(X, kind([5.0])).asscalar() == 5
    assert len(f.cache_misses) == 1


@pytest.mark.parametrize("place", ["closure", "attribute"])
def test_foreign_arrays_elsewhere_are_compared(place):
    t = Foreign([2.0])
    f = PLACES[place](t, lambda t: nd.array(onp.asarray(t)))
    assert f(X).asscalar() == 2
    t.value[:] = 5
    assert f(X).asscalar() == 5


def test_the_order_of_dict_and_keyword_arguments():
    def first(d):
        return nd.concat(*d.values(), dim=0)

    def named(**kwargs):
        return nd.concat(*kwargs.values(), dim=0)
    a, b = nd.array([1.0]), nd.array([2.0])
    f, g = hybridize(first), hybridize(named)
    for _ in range(3):
        assert f({"a": a, "b": b}).asnumpy().tolist() == g(a=a, b=b).asnumpy().tolist() == [1, 2]
        assert f({"b": b, "a": a}).asnumpy().tolist() == g(b=b, a=a).asnumpy().tolist() == [2, 1]
    assert len(f.cache_misses) == len(g.cache_misses) == 2


def test_dicts_of_other_classes_stay_what_they_are():
    f = hybridize(lambda x, d: x * d.k)
    assert f(X, AttrDict(k=2.0)).asscalar() == 2
    g = hybridize(lambda x, d: x * d["none"])
    assert g(X, collections.defaultdict(lambda: 3.0)).asscalar() == 3
