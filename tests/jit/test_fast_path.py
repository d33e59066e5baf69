"""The fast path into a compiled block (hybrid/jit/fast_path.py) ends when something may have changed, and is laid
again when nothing had."""
from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref
from typing import Any, Callable, NamedTuple

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.jit import trace
from hybrid.gluon import nn
from hybrid.runtime import launcher


@pytest.fixture(autouse=True)
def built() -> None:
    launcher.load()                                           # else it is compiled in the background meanwhile


def made(*units: int) -> Any:
    net = nn.HybridSequential()
    net.add(*[nn.Dense(u, activation="relu") for u in units])
    net.initialize()
    net.hybridize()
    return net


def test_laid_again_after_another_net_was_made() -> None:
    net, x = made(4, 3), nd.array(np.ones((1, 5)))
    want = [net(x).asnumpy() for _ in range(3)][-1]
    assert net._engine.fast_path[0](x) is not None
    other, y = made(7, 2), nd.array(np.ones((2, 3)))
    other(y)
    assert net._engine.fast_path[0](x) is None                       # it cannot know what was made
    for _ in range(trace.RENEW + 1):
        np.testing.assert_array_equal(net(x).asnumpy(), want)
    assert net._engine.fast_path[0](x) is not None
    for p in net.collect_params().values():                   # and it ends again, at once, with a new value
        p.set_data(p.data() * 2)
    changed = net(x).asnumpy()
    net.hybridize(False)
    np.testing.assert_allclose(changed, net(x).asnumpy(), rtol=1e-5, atol=1e-7)


def test_other_arguments_in_between() -> None:
    net, x, y = made(4, 3), nd.array(np.ones((1, 5))), nd.array(np.ones((2, 5)))
    one, two = net(x).asnumpy(), net(y).asnumpy()
    made(3)
    for i in range(3 * trace.RENEW):
        a = y if i % 3 == 0 else x
        np.testing.assert_array_equal(net(a).asnumpy(), two if a is y else one)


def test_each_thread_has_its_own_scope() -> None:
    net, x = made(4, 3), nd.array(np.ones((1, 5)))
    want = [net(x).asnumpy() for _ in range(3)][-1]
    turn, gradients = threading.Barrier(2, timeout=60), []

    def recorded() -> None:
        w = net[0].weight
        for _ in range(20):
            turn.wait()
            with autograd.record():
                y = net(x).sum()
            y.backward()
            gradients.append(w.grad().asnumpy())
    other = threading.Thread(target=recorded)
    other.start()
    for _ in range(20):
        turn.wait()
        np.testing.assert_array_equal(net(x).asnumpy(), want)
    other.join()
    with autograd.record():
        y = net(x).sum()
    y.backward()
    assert len(gradients) == 20 and all((g == net[0].weight.grad().asnumpy()).all() for g in gradients)


def test_a_function_that_is_switched_off_runs_as_it_is() -> None:
    @mx.hybridize
    def f(x: Any) -> Any:
        return x * 2 + 1
    x = nd.ones((2, 2))
    for active in (True, False, True):
        f.hybridize(active=active)
        for _ in range(3):
            assert f(x).asnumpy().tolist() == [[3, 3], [3, 3]]
        assert (f._fast_path[0] is not None) == active
    x.attach_grad()
    with autograd.record():
        y = f(x)
    y.backward()
    assert x.grad.asnumpy().tolist() == [[2, 2], [2, 2]]


def test_a_device_is_one_object_that_does_not_change() -> None:
    assert nd.ones((2,)).context is nd.array([1.0]).context is mx.cpu()
    assert (mx.Context("cpu", 0) == mx.cpu() and pickle.loads(pickle.dumps(mx.cpu(1))) == copy.deepcopy(mx.cpu(1)) == mx.cpu(1))  # noqa: E501
    with pytest.raises(AttributeError, match="a device does not change, so its device_id cannot be set"):
        mx.cpu().device_id = 1
    # what it is already: programs that read devices from files
    mx.cpu().device_id, mx.cpu().device_typeid = 0, 1
    net, x = made(4, 3), nd.array(np.ones((1, 5)))
    for _ in range(3):
        net(x)
    x = nd.array(x, ctx=mx.Context("cpu", 0))
    assert net._engine.fast_path[0](x) is not None                   # an equal one serves as well


class Pair(NamedTuple):
    a: Any
    b: Any


RESULTS: dict[str, Callable[[Any], Any]] = {
    "one": lambda x: x + 1, "tuple": lambda x: (x * 2, x + 1), "list": lambda x: [x * 2, x + 1, x.sum()],
    "one in a list": lambda x: [x + 1],
    "nested": lambda x: (x * 2, [x + 1, (x - 1, 5)]), "dict": lambda x: {"a": x * 2, "b": x + 1},
    "named": lambda x: Pair(x * 2, x + 1),
    "large": lambda x: (nd.tile(x, (300, 1)) * 2, x + 1), "types": lambda x: (x.astype("int32"), x > 1)}
OTHERS: dict[str, Callable[[Any], Any]] = {"the same twice": lambda x: (lambda y: (y, y))(x * 2),
                                           "an argument": lambda x: (x, x * 2), "none": lambda x: (None, 3)}


def flat(value: Any) -> list[Any]:
    return [y for v in (value.values() if isinstance(value, dict) else value)
            for y in flat(v)] if isinstance(value, (tuple, list, dict)) else [value]


@pytest.mark.parametrize("kind", [*RESULTS, *OTHERS])
def test_results_of_all_kinds(kind: str) -> None:
    fn = (RESULTS | OTHERS)[kind]
    f, x = mx.hybridize(fn), nd.array(np.linspace(-1, 2, 1024).reshape(2, 512))
    want = fn(x)
    for _ in range(4):
        got = f(x)
        assert type(got) is type(want) and len(flat(got)) == len(flat(want))
        for a, b in zip(flat(got), flat(want)):
            assert type(a) is type(b)
            if isinstance(b, nd.NDArray):
                assert a.dtype == b.dtype and a.context == b.context
                np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)
            else:
                assert a == b
    assert (f._engine.fast_path[0] is not None) == (kind in RESULTS)
    y = nd.ones((3, 3))
    if kind in RESULTS and kind != "large":
        assert f._engine.fast_path[0](y) is None                    # another shape: the slow path
        np.testing.assert_allclose(flat(f(y))[0].asnumpy(), flat(fn(y))[0].asnumpy(), rtol=1e-6)
    first, second = flat(f(x)), flat(f(x))
    for a, b in zip(first, second):                          # each call has results of its own
        if isinstance(a, nd.NDArray) and kind != "an argument":
            assert not np.shares_memory(a._data, b._data)


def test_nothing_is_left_behind() -> None:
    def f(x: Any) -> Any:
        return x * 2, [x + 1]
    f, x, y = mx.hybridize(f), nd.ones((4, 4)), nd.ones((3, 4))
    for _ in range(3):
        f(x)
    quick, raw = f._engine.fast_path[0], x._data
    before = sys.getrefcount(raw), sys.getrefcount(x._ctx), sys.getrefcount(quick)
    for _ in range(1000):
        quick(x), quick(y)
    assert (sys.getrefcount(raw), sys.getrefcount(x._ctx), sys.getrefcount(quick)) == before


def shape_of(*args: Any, **kwargs: Any) -> Any:
    """What came, as text: arrays by shape."""
    def said(x: Any) -> Any:
        if hasattr(x, "shape"):
            return x.shape
        return {k: said(v) for k, v in x.items()} if isinstance(x,
                                                                dict) else type(x)(map(said, x)) if isinstance(x,
                (list, tuple)) else repr(x)
    return repr((said(args), said(kwargs)))


def arrays_in(value: Any) -> list[Any]:
    if hasattr(value, "shape"):
        return [value]
    return [a for v in (value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple))
                        else []) for a in arrays_in(v)]


A, B, C, D = nd.array([[1.0, 2.0]]), nd.array([[3.0, 5.0]]), nd.array([[7.0, 11.0], [13.0, 17.0]]), nd.array([19.0])
FORMS: dict[str, Callable[[Any], Any]] = {
    "by name": lambda f: f(A, other=B), "names in another order": lambda f: f(second=A, other=B),
    "all by name": lambda f: f(first=A), "none": lambda f: f(A, None, B),
    "a list": lambda f: f([A, B]), "lists in lists": lambda f: f(A, [B, [C, D]]), "a tuple": lambda f: f((A, B), C),
    "a dict": lambda f: f({"a": A, "b": [B, 2]}),
    "a number": lambda f: f(A, 3), "a float": lambda f: f(A, 3.0), "a bool": lambda f: f(A, True),
    "one": lambda f: f(A, 1), "text": lambda f: f(A, "same", pad="valid"),
    "empty": lambda f: f(A, [], ()), "two by name": lambda f: f(A, x=B, y=C),
}


def told(fn: Callable[..., Any]) -> Any:
    """A compiled function whose result tells every array in its arguments and everything else apart."""
    def f(*args: Any, **kwargs: Any) -> Any:
        total = nd.zeros((1,)) + sum(map(ord, fn(*args, **kwargs)))
        for k, a in enumerate(arrays_in([*args, *kwargs.values()])):
            total = total + (k + 1) * a.sum()
        return total
    return f


@pytest.mark.parametrize("form", FORMS)
def test_arguments_of_any_form(form: str) -> None:
    plain, f = told(shape_of), mx.hybridize(told(shape_of))
    for _ in range(3):
        np.testing.assert_array_equal(FORMS[form](f).asnumpy(), FORMS[form](plain).asnumpy())
    assert FORMS[form](f._engine.fast_path[0]) is not None
    taken = [other for other in FORMS if other != form and FORMS[other](f._engine.fast_path[0]) is not None]
    assert taken == []                                       # 1, 1.0 and True are told apart, names and kinds too


def test_several_forms_in_turn() -> None:
    plain, f = told(shape_of), mx.hybridize(told(shape_of))
    for _ in range(2):
        for form in FORMS:
            np.testing.assert_array_equal(FORMS[form](f).asnumpy(), FORMS[form](plain).asnumpy())
    four = list(FORMS)[-4:]
    for _ in range(2 * trace.RENEW):
        for form in four:
            np.testing.assert_array_equal(FORMS[form](f).asnumpy(), FORMS[form](plain).asnumpy())
    # the function keeps some ways at once
    assert all(FORMS[form](f._engine.fast_path[0]) is not None for form in four)


def test_a_list_that_changes_between_calls() -> None:
    f, xs = mx.hybridize(lambda xs: xs[0] * 2 + xs[-1]), [A, B]
    for _ in range(3):
        np.testing.assert_array_equal(f(xs).asnumpy(), A.asnumpy() * 2 + B.asnumpy())
    xs[1] = A
    np.testing.assert_array_equal(f(xs).asnumpy(), A.asnumpy() * 3)
    xs.append(B)
    np.testing.assert_array_equal(f(xs).asnumpy(), A.asnumpy() * 2 + B.asnumpy())
    xs[0] = C
    np.testing.assert_array_equal(f(xs).asnumpy(), C.asnumpy() * 2 + B.asnumpy())
    quick, before = f._engine.fast_path[0], [sys.getrefcount(a) for a in (A, B, C, A._data, C._data)]
    for _ in range(1000):
        quick([A, B]), quick([A, A, 3]), quick(A, xs=B)
    assert [sys.getrefcount(a) for a in (A, B, C, A._data, C._data)] == before


class Option:
    """An argument that is no array, and leads back to the function."""
    function: Any = None


def test_a_function_that_an_argument_leads_to_is_collected() -> None:
    f, option = mx.hybridize(lambda x, option: x * 2), Option()
    option.function = f
    for _ in range(3):
        f(A, option)
    assert f._engine.fast_path[0](A, option) is not None and f._engine.fast_path[0](A, Option()) is None
    gone = weakref.ref(option)
    del f, option
    gc.collect()
    assert gone() is None


def test_blocks_with_options() -> None:
    class Masked(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(2, in_units=2)

        def hybrid_forward(self, F: Any, x: Any, mask: Any = None, scale: float = 2.0) -> Any:  # noqa: N803
            x = self.dense(x) * scale
            return x if mask is None else F.broadcast_mul(x, mask)
    net = Masked()
    net.initialize()
    calls: list[Callable[[], Any]] = [lambda: net(C), lambda: net(C, A), lambda: net(C, mask=A),
                                      lambda: net(C, A, 3.0), lambda: net(C, None), lambda: net(C, scale=4.0, mask=B)]
    want = [call().asnumpy() for call in calls]
    net.hybridize()
    for _ in range(40):
        for call, y in zip(calls, want):
            np.testing.assert_allclose(call().asnumpy(), y, rtol=1e-6)
    net.dense.weight.set_data(net.dense.weight.data() * 2)
    for call, y in zip(calls, want):
        np.testing.assert_allclose(call().asnumpy(), 2 * y, rtol=1e-6)


@pytest.mark.parametrize("several", [False, True])
def test_many_sizes_in_any_order_have_fast_paths(several: bool) -> None:
    """Each of more sizes than are tried one after the other is found by the shapes of the arguments."""
    f = mx.hybridize((lambda x, y: (x + y, x - y)) if several else lambda x, y: x + y)
    sizes, rng = range(2, 90), np.random.default_rng(0)
    given = {n: (nd.array(np.arange(n)), nd.ones((n,))) for n in sizes}
    for _ in range(4):               # the first size begins anew once a program for any size takes its calls
        for n in rng.permutation(sizes):
            f(*given[n])
    for n in (*rng.permutation(sizes), *rng.permutation(sizes)):
        found = f._engine.fast_path[0](*given[n])
        assert found is not None, n
        assert (found[0] if several else found).asnumpy().tolist() == list(range(1, n + 1))
    assert f._engine.fast_path[0](nd.ones((3,)), nd.ones((4,))) is None
    assert f._engine.fast_path[0](given[5][0], given[5][1], given[5][0]) is None


@pytest.mark.parametrize("several", [False, True])
def test_calls_with_demands_on_their_data_have_fast_paths(several: bool) -> None:
    """What is not met raises the demand's error there, and the next call is as before."""
    def inverse(a: Any) -> Any:
        found = mx.np.linalg.inv(a)
        return [found, {"twice": found * 2}] if several else found
    f, a = mx.hybridize(inverse), mx.np.array([[2.0, 1.0], [1.0, 3.0]])
    for _ in range(3):
        f(a)
    way = f._engine.fast_path[0]
    assert way(a) is not None
    for call in (f, way, f):
        found = call(a)
        first = found[0] if several else found
        np.testing.assert_allclose(first.asnumpy(), np.linalg.inv(a.asnumpy()), rtol=1e-5)
        assert not several or found[1]["twice"].shape == (2, 2)
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            call(mx.np.ones((2, 2)))
    assert way(mx.np.ones((3, 3))) is None
