"""What the data of a call must hold: hybridized code raises the errors of eager code, and has then changed nothing."""
from __future__ import annotations

from typing import Any, Callable

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, np, npx
from hybrid.base.errors import AttributeValueError, RangeError, SingularMatrixError

X, NX = nd.array([[1.0, 2], [3, 4]]), np.array([[1.0, 2], [3, 4]])
SINGULAR, INDEFINITE = np.array([[1.0, 2], [2, 4]]), np.array([[1.0, 2], [2, 1]])


def whole(i: Any) -> Any:
    """Numbers as NumPy's indices."""
    return i.as_np_ndarray().astype("int64")


def written(x: Any, i: Any) -> Any:
    """A copy of an array with zeros at an index."""
    y = x.copy()
    y[i] = 0
    return y


# (code, the kind of error, what its text says); data [1, 0] is right for all, [1, 5] is not
CASES: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "take": (lambda i: nd.take(X, i, mode="raise"), RangeError, "take: index 5 is out of range"),
    "take along the second axis": (lambda i: nd.take(X, i, axis=1, mode="raise"), RangeError, "length 2"),
    "np.take": (lambda i: np.take(NX, whole(i), axis=0), IndexError, "index 5 is out of range for length 2"),
    "np.take of all": (lambda i: np.take(NX, whole(i) * 2), IndexError, "index 10 is out of range for length 4"),
    "gather_nd": (lambda i: nd.gather_nd(X, i.reshape((1, -1))), RangeError, "gather_nd: index 5"),
    "gather_nd of elements": (lambda i: nd.gather_nd(X, nd.stack(i * 0, i)), RangeError, "gather_nd: index 5"),
    "index": (lambda i: X[i], IndexError, "index 5 is out of bounds"),
    "index of a result": (lambda i: (X * 1)[i], IndexError, "index 5 is out of bounds"),
    "index of NumPy's arrays": (lambda i: NX[whole(i)], IndexError, "index 5 is out of bounds"),
    "index and number": (lambda i: NX[whole(i), 0], IndexError, "index 5 is out of bounds"),
    "assignment": (lambda i: written(X, i), IndexError, "index 5 is out of bounds"),
    "constraint_check": (lambda i: npx.constraint_check(i.as_np_ndarray() < 3, "a {word}"), ValueError, "a {word}"),
    "inv": (lambda i: np.linalg.inv(SINGULAR + np.eye(2) * (5 - i.as_np_ndarray()[1])), SingularMatrixError,
            "np.linalg.inv: the matrix is singular"),
    "solve": (lambda i: np.linalg.solve(SINGULAR + np.eye(2) * (5 - i.as_np_ndarray()[1]), np.ones((2, 1))),
              SingularMatrixError, "np.linalg.solve"),
    "cholesky": (lambda i: np.linalg.cholesky(INDEFINITE + np.eye(2) * (5 - i.as_np_ndarray()[1])),
                 SingularMatrixError, "np.linalg.cholesky: the matrix is not positive definite"),
    "scale": (lambda i: np.random.normal(0, 4 - i.as_np_ndarray()), AttributeValueError, "must be 0 or more, got -1"),
    "probability": (lambda i: npx.random.bernoulli(prob=i.as_np_ndarray()), AttributeValueError, "0 and 1, got 5"),
}


@pytest.mark.parametrize("name", CASES)
def test_hybridized_code_raises_as_eager_code(name: str) -> None:
    code, kind, text = CASES[name]
    right, wrong = nd.array([1.0, 0.0]), nd.array([1.0, 5.0])
    compiled = mx.hybridize(code)
    for call in (code, compiled, compiled):
        with pytest.raises(kind) as caught:
            call(wrong)
        assert text in str(caught.value)
    mx.random.seed(0)
    want = code(right).asnumpy()
    mx.random.seed(0)
    onp.testing.assert_allclose(compiled(right).asnumpy(), want, rtol=1e-5)


def test_the_error_names_the_line_that_made_the_demand() -> None:
    f = mx.hybridize(lambda i: nd.take(X, i, mode="raise") + 1)
    with pytest.raises(RangeError, match=rf"test_data_checks.py:{f.__wrapped__.__code__.co_firstlineno}: take"):
        f(nd.array([7.0]))


def test_negative_indices_count_from_the_end_as_far_as_there_are_elements() -> None:
    f = mx.hybridize(lambda i: NX[i])
    onp.testing.assert_array_equal(f(np.array([-2, -1])).asnumpy(), NX.asnumpy()[[-2, -1]])
    with pytest.raises(IndexError, match="index -3 is out of bounds"):
        f(np.array([-3, 1]))


def test_no_elements_demand_nothing() -> None:
    assert mx.hybridize(lambda i: NX[i])(np.zeros((0,), "int64")).shape == (0, 2)


def test_recorded_indices_are_looked_at() -> None:
    x = NX.copy()
    x.attach_grad()
    for code in (lambda i: x[i] * 2, mx.hybridize(lambda i: x[i] * 2)):
        with autograd.record():
            y = code(np.array([0, 0]))
        y.backward()
        onp.testing.assert_array_equal(x.grad.asnumpy(), [[4, 4], [0, 0]])
        with pytest.raises(IndexError), autograd.record():
            code(np.array([0, 2]))


def test_a_call_that_fails_leaves_assigned_values_as_they_were() -> None:
    box = {"seen": nd.zeros((2,))}

    @mx.hybridize
    def f(i):
        box["seen"] = box["seen"] + i
        return nd.take(X, i, mode="raise")
    f(nd.array([0.0, 1.0]))
    with pytest.raises(RangeError):
        f(nd.array([0.0, 2.0]))
    onp.testing.assert_array_equal(box["seen"].asnumpy(), [0, 1])


OPTIMIZERS = sorted(name for name in mx.optimizer.Optimizer.opt_registry
                    if name not in ("test", "ccsgd") and name[0] != "_")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_that_fails_updates_nothing(name: str) -> None:
    """No parameter, no state, no running statistic, no count: the next step is what it is without the one that
    failed."""
    def run(bad_ones: bool) -> list[Any]:
        mx.random.seed(1)
        net = gluon.nn.HybridSequential()
        vectors = name != "groupadagrad"                         # which updates matrices alone
        net.add(gluon.nn.Dense(4, in_units=2, use_bias=vectors),
                gluon.nn.BatchNorm(in_channels=4, center=vectors, scale=vectors),
                gluon.nn.Dense(1, in_units=4, use_bias=vectors))
        net.initialize(mx.init.Xavier())
        trainer = gluon.Trainer(net.collect_params(), name)

        @mx.hybridize
        def step(i):
            with autograd.record():
                loss = (net(nd.take(X, i, mode="raise")) ** 2).sum()
            loss.backward()
            trainer.step(2)
            return loss
        losses = []
        for k in range(3):
            if bad_ones:
                mx.random.seed(5 + k)
                with pytest.raises(RangeError):
                    step(nd.array([0.0, 2.0 + k]))
            mx.random.seed(20 + k)
            losses.append(step(nd.array([0.0, 1.0])).asscalar())
        return [*losses, *(p.data().asnumpy() for p in net.collect_params().values()), trainer.optimizer.num_update]
    for a, b in zip(run(False), run(True)):
        onp.testing.assert_array_equal(a, b)


def test_programs_without_demands_have_no_more_results() -> None:
    f = mx.hybridize(lambda i: nd.take(X, i))
    f(nd.array([0.0]))
    entry = list(f._engine.entries.values())[0]
    assert len(entry.program.outputs) == 1 and entry.whole and not entry.demands
