"""What compiled code reads and does beyond the arguments' numbers: names of modules, clocks, files, argument lists,
classes of values; as eagerly, or as plain Python with a warning."""
from __future__ import annotations

import builtins
import datetime
import functools
import logging
import math
import os
import sys
import threading
import time
import uuid
import warnings
from collections import OrderedDict

import numpy as onp
import pytest

from hybrid import autograd, hybridize, nd
from hybrid.base.errors import TraceError

X = nd.array([1.0])


def _patched(space, name, value, read):
    """What a function gives before, while and after a name of a module or namespace has another value."""
    f = hybridize(lambda x: x * read(x))
    found, old = [f(X).asscalar()], space.get(name)
    space[name] = value
    try:
        found.append(f(X).asscalar())
    finally:
        space.pop(name) if old is None else space.update({name: old})
    return [*found, f(X).asscalar()]


@pytest.mark.parametrize(("module", "name", "value", "read", "wanted"), [
    (math, "floor", lambda v: 9, lambda x: math.floor(2.5), [2, 9, 2]),
    (math, "pi", 3.0, lambda x: math.pi, [math.pi, 3, math.pi]),
    (nd, "softsign", lambda v: v * 10, lambda x: nd.softsign(x), [.5, 10, .5]),
    (sys.modules[__name__], "len", lambda v: 7, lambda x: len("abc"), [3, 7, 3]),
    (builtins, "ascii", lambda v: "7", lambda x: len(ascii("abc")), [5, 1, 5]),
    (sys, "argv", ["a", "b"], lambda x: len(sys.argv), [len(sys.argv), 2, len(sys.argv)])],
    ids=["function", "constant", "operator", "shadowed built-in", "built-in", "arguments of the process"])
def test_names_of_modules_that_are_patched(module, name, value, read, wanted):
    assert _patched(vars(module), name, value, read) == pytest.approx(wanted)


@pytest.mark.parametrize("read", [
    lambda x, path: time.perf_counter_ns() % 9999991, lambda x, path: datetime.datetime.now().microsecond + 1,
    lambda x, path: int.from_bytes(os.urandom(3), "big"), lambda x, path: uuid.uuid4().int % 1000003], ids=range(4))
def test_clocks_and_random_bytes_of_the_system_are_read_at_every_call(read, tmp_path):
    f = hybridize(lambda x: x * read(x, tmp_path))
    with pytest.warns(UserWarning, match=r"test_outside_state\.py:\d+: .* reads .*plain Python"):
        found = {f(X).asscalar()}
    assert len(found | {f(X).asscalar() for _ in range(5)}) > 2


@pytest.mark.parametrize("read", [
    lambda path: float(path.read_text()), lambda path: float(next(iter(open(path)))),  # noqa: SIM115
    lambda path: float(onp.loadtxt(path)), lambda path: path.stat().st_size], ids=range(4))
def test_files_are_read_at_every_call(read, tmp_path):
    path = tmp_path / "k"
    path.write_text("1")
    f = hybridize(lambda x: x * read(path))
    with pytest.warns(UserWarning, match=r"test_outside_state\.py:\d+: .* reads .*plain Python"):
        before = f(X).asscalar()
    path.write_text("25")
    assert (before, f(X).asscalar()) == (1, read(path))


def test_what_is_only_written_compiles(tmp_path):
    log = logging.getLogger("test_outside_state")

    @hybridize
    def f(x):
        log.warning("traced")
        (tmp_path / "k").write_text("traced")
        return x * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(X).asscalar() == f(X).asscalar() == 2
    assert f.report() is not None


def test_lists_among_the_arguments_are_changed_as_eagerly():
    @hybridize
    def f(x, parts, names):
        parts.append(x * 2)
        return x * names.pop("k", 3.0)
    parts, names = [], {"k": 2.0}
    with pytest.warns(UserWarning, match=r"test_outside_state\.py:\d+: .* changes a list or dict among its arguments"):
        found = [f(X, parts, names).asscalar()]
    found += [f(X, parts, names).asscalar() for _ in range(2)]
    assert found == [2, 3, 3] and [p.asscalar() for p in parts] == [2, 2, 2] and names == {}


def test_the_class_by_type_is_that_of_arrays():
    f = hybridize(lambda x: x * 2 if type(x) is nd.NDArray else x * 3)
    with pytest.warns(UserWarning, match=r"test_outside_state\.py:\d+: .* asks what x is by type\(\).*isinstance"):
        assert f(X).asscalar() == 2
    compiled = hybridize(lambda x: x * 2 if type(x) is list else x * 3)
    assert compiled(X).asscalar() == 3 and compiled.report() is not None


def test_an_error_does_not_carry_traced_values():
    @hybridize
    def f(x):
        raise ValueError(x * 2)
    with pytest.raises(TraceError, match=r"test_outside_state\.py:\d+: .* raises a ValueError"):
        f(X)


def test_attributes_of_functions_that_are_assigned():
    def f(x):
        f.calls += 1
        return x * f.calls
    f.calls = 0
    g = hybridize(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [g(X).asscalar() for _ in range(5)] == [1, 2, 3, 4, 5]


def test_a_value_of_one_thread_is_not_that_of_another():
    local = threading.local()
    local.k, found = 1.0, []
    f = hybridize(lambda x: x * getattr(local, "k", 7.0))
    t = threading.Thread(target=lambda: found.append(f(X).asscalar()))
    found.append(f(X).asscalar())
    t.start()
    t.join()
    assert [*found, f(X).asscalar()] == [1, 7, 1]


def test_results_that_are_dicts_of_other_classes():
    f = hybridize(lambda x: OrderedDict(b=x, a=x * 2))
    for v in (1, 2):
        out = f(nd.ones(1) * v)
        assert type(out) is OrderedDict and [k for k in out] == ["b", "a"] and out["a"].asscalar() == 2 * v


def test_an_error_after_a_write_leaves_what_eager_code_leaves() -> None:
    w, bad = nd.array([1.]), [True]

    @hybridize
    def f(x):
        w[:] = w + 1
        if bad[0]:
            raise KeyError("k")
        return x * w
    with pytest.raises(KeyError):
        f(nd.array([1.]))
    bad[0] = False
    assert w.asscalar() == 2 and f(nd.array([1.])).asscalar() == 3 and f(nd.array([1.])).asscalar() == 4


def test_results_that_are_views_of_arguments() -> None:
    f = hybridize(lambda x: (x[1:].reshape((2, 1)), x * 2))
    for _ in range(2):
        x = nd.array([1., 2., 3.])
        view, _ = f(x)
        view[:] = 7
        assert x.asnumpy().tolist() == [1, 7, 7]
    x.attach_grad()
    with autograd.record():
        view, _ = f(x)
    view.backward()
    assert x.grad.asnumpy().tolist() == [0, 1, 1]


def test_objects_with_an_equality_of_their_own_are_not_one_argument() -> None:
    class Scale:
        def __init__(self, k):
            self.k = k

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return isinstance(other, Scale)
    f = hybridize(lambda x, scale: x * scale.k)
    assert [f(nd.array([1.]), Scale(k)).asscalar() for k in (2., 3., 2.)] == [2, 3, 2]


def test_a_function_with_a_cache_computes_once() -> None:
    computed = []

    @functools.lru_cache
    def mask(n):
        computed.append(n)
        return nd.arange(n) % 2
    f = hybridize(lambda x: x * mask(x.shape[0]))
    for _ in range(3):
        assert f(nd.ones((3,))).asnumpy().tolist() == [0, 1, 0]
    assert computed == [3] and mask(3).asnumpy().tolist() == [0, 1, 0]
