"""Numbers among the arguments of hybridized calls: inputs of one program after they changed twice, where the code
allows it; results, dtypes, errors and side effects are those of eager calls."""
from __future__ import annotations

import math
import threading
from typing import Any, Callable

import numpy
import pytest

from hybrid import autograd, gluon, hybridize, nd, np
from hybrid.gluon import nn

X = nd.array([[1.0, -2, 3], [4, 5, -6]])


def played(fn: Callable[..., Any], calls: list[tuple[Any, ...]], tol: float = 1e-5) -> Any:
    """The hybridized function, after calls that were compared with eager ones."""
    compiled = hybridize(fn)
    for args in calls:
        want, got = fn(*args), compiled(*args)
        for a, b in zip(*(v if isinstance(v, (list, tuple)) else [v] for v in (want, got))):
            assert type(a) is type(b)
            if isinstance(a, nd.NDArray):
                assert a.dtype == b.dtype and a.shape == b.shape
                numpy.testing.assert_allclose(a.asnumpy().astype("float64"), b.asnumpy().astype("float64"), tol, tol)
            else:
                assert a == b
    return compiled


def told(compiled: Any) -> str:
    return "\n".join(compiled.report().numbers)


def test_a_number_that_changes_becomes_an_input() -> None:
    def f(x: Any, t: float) -> Any:
        y = t - x * t / 2 + x / t
        y += t * 3
        return [y, x ** 2 > t, nd.maximum(x, t), 2 / t * x, round(t) * x, x % t]
    compiled = played(f, [(X, t) for t in (0.5, 0.25, 1.5, 2.5, -0.75, 3.0)])
    assert len(compiled.cache_misses) == 3
    assert told(compiled) == "argument 1 is an input: one program for all its values"
    assert "number: argument 1 is an input" in str(compiled.report())


@pytest.mark.parametrize("dtype, numbers", [("float16", (0.1, 1000.3, -7.7, 6e4)), ("int8", (3, -4, 5, 6)),
                                            ("float64", (2**53 - 1, 3, 5, -2**53))])
def test_dtypes_are_those_of_constants(dtype: str, numbers: tuple[Any, ...]) -> None:
    def f(x: Any, t: float) -> Any:
        return [x * t, t - x, x >= t, nd.hypot(x, t), t * nd.ones((2,), dtype="float32")]
    compiled = played(f, [(X.astype(dtype), t) for t in numbers], 2e-3)
    assert "is an input" in told(compiled)


def test_numpy_rules_and_numbers() -> None:
    def f(x: Any, t: Any, n: int) -> Any:
        return [x * t, np.add(t, x), x / n, n * x, numpy.multiply(x, n), x * numpy.sqrt(abs(t))]
    x = np.array([[1, 2, 3]], dtype="float32")
    compiled = played(f, [(x, numpy.float64(0.1 * k), k) for k in range(1, 7)])
    assert told(compiled).count("is an input") == 2 and len(compiled.cache_misses) == 3


LOOKS: list[tuple[str, Callable[..., Any], str]] = [
    ("branch", lambda x, t: x + 1 if t > 2 else x * t, "it is compared"),
    ("size", lambda x, t: nd.zeros((t, 2)) + t, "int() of it"),
    ("range", lambda x, t: x[:, :t % 3] * t, "it is a size, index or axis"),
    ("loop", lambda x, t: sum((x for _ in range(t)), x), "it is a size, index or axis"),
    ("attribute", lambda x, t: nd.clip(x, -t, t), "operator clip takes it as its a_min"),
    ("float", lambda x, t: x * math.sqrt(t), "float() of it"),
    ("returned", lambda x, t: (x * t, t, t * 2), "keeps or returns it"),
    ("text", lambda x, t: (x * t, f"{t}"), "a text is made of it"),
    ("member", lambda x, t: x * (t in (1, 3)), "it is compared"),
    ("class", lambda x, t: x * t if type(t) is int else x, "type() of it"),
]


@pytest.mark.parametrize("name, fn, why", LOOKS, ids=[name for name, _, _ in LOOKS])
def test_code_that_looks_at_a_number_keeps_a_constant(name: str, fn: Callable[..., Any], why: str) -> None:
    compiled = played(fn, [(X, t) for t in (1, 2, 3, 4, 3)])
    line, _, reason = told(compiled).partition(why)
    assert f"{__file__}:{fn.__code__.co_firstlineno}" in line and reason is not None, told(compiled)
    assert why in told(compiled) and len(compiled.cache_misses) == 5            # tried once, then one for each value


def test_only_the_numbers_that_change() -> None:
    def f(x: Any, scale: float, *, more: dict[str, Any], power: int = 2) -> Any:
        return (x * scale + more["shift"][0]) ** power
    compiled = hybridize(f)
    for k in range(8):
        more = {"shift": [k * 0.5, "text"]}
        want, got = f(X, k * 0.1, more=more), compiled(X, k * 0.1, more=more)
        numpy.testing.assert_allclose(got.asnumpy(), want.asnumpy(), 1e-5, 1e-6)
    assert "argument more (number 0 in it) is an input" in told(compiled) and "power" not in told(compiled)
    entry = next(e for e in compiled._engine.entries.values() if e.numbers is not None)
    launchers = entry.bound._launchers
    assert launchers.calls() > 0 or not launchers._of                            # the fast path


def test_rules_of_python_for_numbers() -> None:
    def f(x: Any, n: int) -> Any:
        return x * (1 / n) + n // 2 + 2.0 ** n + n ** -1
    compiled = played(f, [(X, n) for n in (1, 2, 3, 4, -3, 5)])
    assert "is an input" in told(compiled)
    for n in (0, 5000):                                      # ZeroDivisionError, OverflowError
        with pytest.raises(ArithmeticError) as eager:
            f(X, n)
        with pytest.raises(type(eager.value), match=str(eager.value)[:20].replace("(", r"\(")):
            compiled(X, n)
    assert "is an input" in told(compiled)


def test_integers_that_the_dtype_does_not_hold() -> None:
    bytes_ = nd.array([1, 2, 3], dtype="int8")
    compiled = played(lambda x, n: x + n, [(bytes_, n) for n in (1, 2, 3, 4, 1000, -1000, 5)])
    assert "is an input" in told(compiled)
    wide = nd.array([1, 2, 3], dtype="float64")
    played(lambda x, n: x + n, [(wide, n) for n in (1, 2, 3, 2**53 + 1, 2**70, 4)])


def test_errors_and_side_effects_happen_once() -> None:
    seen: list[float] = []

    def f(x: Any, t: float) -> Any:
        if len(seen) > 100:
            raise RuntimeError("never")
        y = x.reshape((7, 7)) if x.shape[0] == 1 else x * t
        return y
    compiled = hybridize(f)
    for t in (0.1, 0.2, 0.3, 0.4):
        compiled(X, t)
    with pytest.raises(Exception, match="7") as err:
        compiled(nd.ones((1, 3)), 0.5)
    assert "NotWithInputs" not in repr(err.value)

    class Counting:
        def __init__(self) -> None:
            self.last = 0.0

        @hybridize
        def forward(self, x: Any, t: float) -> Any:
            self.last = t
            return x * t
    counting = Counting()
    for t in (0.1, 0.2, 0.3, 0.4, 0.5):
        numpy.testing.assert_allclose(counting.forward(X, t).asnumpy(), X.asnumpy() * t, 1e-6)
        assert counting.last == t


def test_gradients() -> None:
    def f(x: Any, t: float) -> Any:
        return (abs(x) ** t * t).sum()
    compiled, x = hybridize(f), X.copy()
    x.attach_grad()
    for t in (1.5, 2.0, 3.0, 0.5, 2.5):
        found = []
        for fn in (f, compiled):
            with autograd.record():
                y = fn(x, t)
            y.backward()
            found.append(x.grad.asnumpy())
        numpy.testing.assert_allclose(found[1], found[0], 1e-5)
    assert "is an input" in told(compiled) and len(compiled.cache_misses) == 3


def test_blocks() -> None:
    class Scaled(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(2, in_units=3)

        def hybrid_forward(self, F: Any, x: Any, t: float) -> Any:  # noqa: N803
            return self.dense(x) * t
    net = Scaled()
    net.initialize()
    want = [net(X, t).asnumpy() for t in (0.5, 1.5, 2.5, 3.5)]
    net.hybridize()
    for w, t in zip(want, (0.5, 1.5, 2.5, 3.5)):
        numpy.testing.assert_allclose(net(X, t).asnumpy(), w, 1e-5)
    assert len(net._engine.cache_misses) == 3 and net._form[0][1][0][1][1][2] == 2.5        # of the newest trace


def test_learning_rates_of_a_compiled_step() -> None:
    nets = []
    rates = (0.1, 0.05, 0.02, 0.01, 0.3, 0.02)
    data = nd.array([[1.0, 2, 3], [4, 5, 6]]), nd.array([[1.0, 0], [0, 1]])
    for compile_it in (False, True):
        net = nn.Dense(2, in_units=3)
        net.initialize()
        net.weight.set_data(nd.ones((2, 3)) * 0.1)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0, "momentum": 0.9})

        def step(x: Any, y: Any, lr: float, net: Any = net, trainer: Any = trainer) -> Any:
            trainer.set_learning_rate(lr * 0.1)
            with autograd.record():
                loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            trainer.step(1)
            return loss
        run = hybridize(step) if compile_it else step
        for lr in rates:
            run(*data, lr)
            assert trainer.learning_rate == lr * 0.1
        nets.append(net.weight.data().asnumpy())
    numpy.testing.assert_allclose(nets[1], nets[0], 1e-5)
    assert len(run.cache_misses) == 3 and "argument 2 is an input" in told(run)


def test_numbers_count_as_any_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_SIGNATURES", "2")
    compiled = hybridize(lambda x, n: x * n + len(range(n)))
    with pytest.warns(UserWarning, match="compiled for 2 calls"):
        for n in (1, 2, 3, 4):
            assert compiled(nd.ones((1,)), n).asscalar() == 2 * n
    assert len(compiled._engine.entries) == 2


def test_threads() -> None:
    compiled, wrong = hybridize(lambda x, t: x * t + t * 2), []

    def work(k: int) -> None:
        for i in range(20):
            t = 0.1 * k + i * 0.01
            if abs(compiled(X, t).asnumpy() - (X.asnumpy() * t + t * 2)).max() > 1e-5:
                wrong.append(t)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and "is an input" in told(compiled)
