"""Eager calls that were made before go through C (kernels/c/launcher_eager.h): they give what Python's dispatcher
gives, or leave the call to it."""
from __future__ import annotations

import sys
import warnings
from typing import Any, Callable, Iterator

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, nd, np, stubs
from hybrid.autograd import known_calls
from hybrid.base import pending
from hybrid.ops.registry import OPS
from hybrid.runtime import launcher


@pytest.fixture()
def known_call() -> Iterator[Callable[..., Any]]:
    """The function in C, which ``invoke`` uses from now on."""
    if launcher.load() is None or known_calls.WARNINGS is None:
        pytest.skip("needs Python's headers, a compiler, and NumPy 2")
    pending.given_up()                                   # a training loop of an earlier test
    found = launcher.known_call(known_calls.SCOPE, known_calls.NDArray, known_calls.NP_CLASS, *known_calls.WARNINGS)
    before = list(known_calls.IN_C)
    known_calls.IN_C[:] = [found]
    yield found
    known_calls.IN_C[:] = before


def frames(run: Callable[[], Any]) -> int:
    """Functions of Python that a call goes through."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"
    run()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count - 1


X = onp.array([[1.5, -2.0, 0.0], [3.0, float("nan"), -0.0]], onp.float32)
CALLS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y, lambda x, y: x * 2, lambda x, y: x * 2.0, lambda x, y: x * 0.0, lambda x, y: x * -0.0,
    lambda x, y: 2 / x, lambda x, y: -x, lambda x, y: x > y, lambda x, y: nd.exp(x), lambda x, y: nd.relu(x),
    lambda x, y: nd.log(x), lambda x, y: nd.square(x), lambda x, y: x.sum(axis=1), lambda x, y: x.astype("float64"),
    lambda x, y: x.T, lambda x, y: nd.dot(x, y.T), lambda x, y: nd.clip(x, -1, 1), lambda x, y: nd.add_n(x, y, x),
    lambda x, y: nd.where(x, x, y), lambda x, y: nd.maximum(x, 0.5), lambda x, y: nd.split(x, 3, axis=1)[1],
    lambda x, y: x.as_np_ndarray() + y.as_np_ndarray(), lambda x, y: np.exp(x.as_np_ndarray())]


@pytest.mark.parametrize("i", range(len(CALLS)))
def test_results_are_those_of_the_dispatcher(i: int, known_call: Any) -> None:
    for dtype in ("float32", "float64", "int32", "float16"):
        x = nd.array(onp.nan_to_num(X), dtype=dtype)
        y = nd.array(onp.nan_to_num(X[::-1]), dtype=dtype)
        first = CALLS[i](x, y)
        again = CALLS[i](x, y)
        known_calls.IN_C.clear()
        wanted = CALLS[i](x, y)
        known_calls.IN_C.append(known_call)
        for got in (first, again):
            assert type(got) is type(wanted) and got.dtype == wanted.dtype and got.context == wanted.context
            assert got.asnumpy().tobytes() == wanted.asnumpy().tobytes()


def test_it_takes_few_calls_of_python(known_call: Any) -> None:
    x, u = nd.array(X), np.array(X)
    for run, most in ((lambda: x + x, 2), (lambda: x * 2, 3), (lambda: nd.exp(x), 2), (lambda: u + u, 2)):
        for _ in range(3):
            run()
        # the collector may call functions, too; + 2: the lambdas
        assert min(frames(lambda: run()) for _ in range(5)) <= most + 2


def test_numbers_that_are_equal_are_told_apart(known_call: Any) -> None:
    i = nd.array([3], dtype="int32")
    for _ in range(3):
        assert (onp.signbit((nd.array([2.0]) * -0.0).asnumpy())[0]
                and not onp.signbit((nd.array([2.0]) * 0.0).asnumpy())[0])
        assert (i * 1).dtype == (i * True).dtype == onp.int32
        assert (np.array([3], dtype="int32") * 1.0).dtype != (np.array([3], dtype="int32") * 1).dtype


def test_what_is_not_usual_is_left_to_the_dispatcher(known_call: Any) -> None:
    x, add = nd.array(X), OPS["elemwise_add"]
    x + x, x + x
    assert known_call(add.known, (x, x), {}, None) is not None
    other = nd.array(X, ctx=mx.cpu(1))
    assert known_call(add.known, (x, other), {}, None) is None
    assert known_call(add.known, (x, 3), {}, None) is None and known_call(add.known, (), {}, None) is None
    assert known_call(add.known, (x, x), {"axis": [1]}, None) is None           # cannot be hashed
    with autograd.record():
        assert known_call(add.known, (x, x), {}, None) is None
    x.attach_grad()
    with autograd.record():
        y = x * x
    y.backward()
    onp.testing.assert_array_equal(x.grad.asnumpy(), 2 * X)

    class Mine(nd.NDArray):
        pass
    assert known_call(add.known, (Mine(X), Mine(X)), {}, None) is None
    zero = np.array(1.5)
    for _ in range(3):
        assert type(zero + zero) is type(zero) and (zero + zero).shape == () and float(zero + zero) == 3


def test_errors_and_warnings_are_as_before(known_call: Any) -> None:
    x = nd.array(X)
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            nd.log(nd.array([-1.0, 0.0]))
        with pytest.warns(RuntimeWarning):
            onp.log(onp.array([-1.0]))
        with pytest.raises(Exception, match=r"\(2, 3\).*\(3, 2\)"):
            x + x.T
    add = OPS["elemwise_add"]

    def stopped(*raws: Any) -> Any:
        raise KeyboardInterrupt

    def fails(*raws: Any) -> Any:
        raise ValueError("no")
    x + x
    (key, entry), = [(k, v) for k, v in add.known.items() if k == known_calls.key_of([x._data, x._data], {})]
    with pytest.raises(KeyboardInterrupt):
        known_call({key: entry._replace(function=stopped)}, (x, x), {}, None)
    assert known_call({key: entry._replace(function=fails)}, (x, x), {}, None) is None
    assert known_call({key: entry._replace(visible=2)}, (x, x), {}, None) is None


def test_hybridized_calls_see_what_is_put_into_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that was looked up stays in the module, and is replaced as any other."""
    x = nd.array(X[:1])
    f = mx.hybridize(lambda x: nd.square(x) + nd.ceil(x))
    wanted = X[:1] ** 2 + onp.ceil(X[:1])
    for _ in range(3):
        onp.testing.assert_array_equal(f(x).asnumpy(), wanted)
    assert "square" in vars(nd)
    monkeypatch.setattr(nd, "ceil", lambda x: x * 0)
    onp.testing.assert_array_equal(f(x).asnumpy(), X[:1] ** 2)
    monkeypatch.undo()
    onp.testing.assert_array_equal(f(x).asnumpy(), wanted)
    monkeypatch.delattr(nd, "ceil")
    onp.testing.assert_array_equal(f(x).asnumpy(), wanted)


def test_stub_files_do_not_depend_on_what_was_looked_up() -> None:
    before = stubs.texts()
    for module in (nd, np, mx.npx, mx.sym):
        for name in dir(module):
            getattr(module, name)
    assert {"exp", "dot"} <= vars(nd).keys()
    assert stubs.texts() == before and not stubs.stale()


OF_SEVERAL_STEPS = {
    "power": lambda x, y: x ** 2, "greater": lambda x, y: x > y, "where": lambda x, y: nd.where(x > 0.5, x, y),
    "where of numbers": lambda x, y: nd.where(x, x, y), "clip": lambda x, y: nd.clip(x, 0.2, 0.8),
    "sum": lambda x, y: nd.sum(x, axis=1), "mean": lambda x, y: x.mean(), "softmax": lambda x, y: nd.softmax(x),
    "gelu": lambda x, y: nd.LeakyReLU(x, act_type="gelu"), "dot": lambda x, y: nd.dot(x, y),
    "dot of transposed": lambda x, y: nd.dot(x, y, transpose_a=True, transpose_b=True),
    "a number everywhere": lambda x, y: nd.ones_like(x), "transpose": lambda x, y: nd.transpose(x)}


@pytest.mark.parametrize("name", OF_SEVERAL_STEPS)
def test_calls_of_several_steps_are_the_same_each_time(known_call, name: str) -> None:
    run = OF_SEVERAL_STEPS[name]
    x, y = (nd.array(onp.random.RandomState(i).rand(4, 4).astype("float32")) for i in (1, 2))
    before = x.asnumpy(), y.asnumpy()
    first = run(x, y)
    expected = first.asnumpy()
    for _ in range(3):
        found = run(x, y)
        assert found.dtype == first.dtype and not onp.shares_memory(found._data, x._data)
        onp.testing.assert_array_equal(found.asnumpy(), expected)
        found[:] = 7                                     # nobody else's: neither the inputs' nor the program's
    onp.testing.assert_array_equal(run(x, y).asnumpy(), expected)
    onp.testing.assert_array_equal(x.asnumpy(), before[0])
    onp.testing.assert_array_equal(y.asnumpy(), before[1])


def test_calls_of_a_few_steps_go_through_c(known_call) -> None:
    x, y = nd.ones((4, 4)), nd.ones((4, 4))
    x > y, x ** 2
    assert known_call(OPS["_greater"].known, (x, y), {}, None) is not None
    assert known_call(OPS["_power_scalar"].known, (x,), {"scalar": 2}, None) is not None


def test_indices_are_checked_in_every_call(known_call) -> None:
    x = nd.array([1.0, 2.0, 3.0])
    assert nd.take(x, nd.array([1.0]), mode="raise").asscalar() == 2
    for _ in range(2):
        with pytest.raises(IndexError, match="9 is out of range"):
            nd.take(x, nd.array([9.0]), mode="raise")
