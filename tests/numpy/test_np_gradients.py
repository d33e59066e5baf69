"""Gradients of NumPy's operators by differences, eagerly and hybridized; gradients of draws to their parameters."""
from __future__ import annotations

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, np, npx

RNG = onp.random.RandomState(5)
STEP = 1e-4


def spd(n):
    m = RNG.randn(n, n)
    return m @ m.T + onp.diag(onp.arange(1.0, n + 1))


def eig(a):
    """Columns have a sign of their own, which LAPACK may choose otherwise after a small step."""
    w, v = np.linalg.eig(a)
    return w, v * np.sign(v[:1])


CASES = {
    "matmul": (np.matmul, (2, 1, 2, 3), (4, 3, 2)), "svd": (np.linalg.svd, (2, 3, 4)),
    "svd-tall": (np.linalg.svd, (4, 3)),
    "norm-2": (lambda a: np.linalg.norm(a, 2, axis=(0, 2)), (2, 3, 4)),
    "norm-nuc": (lambda a: np.linalg.norm(a, "nuc", axis=(2, 1), keepdims=True), (2, 3, 4)),
    "pinv": (np.linalg.pinv, (4, 3)), "solve": (np.linalg.solve, (2, 3, 3), (2, 3, 2)),
    "solve-vector": (np.linalg.solve, (3, 3), (3,)),
    "eig": (eig, spd(3)), "eigvals": (np.linalg.eigvals, spd(3)), "eigvalsh": (np.linalg.eigvalsh, spd(3)),
    "tensorinv": (lambda a: np.linalg.tensorinv(a, ind=1), (4, 2, 2)),
    "tensorsolve": (lambda a, b: np.linalg.tensorsolve(a, b, axes=(0, 2)), (3, 6, 2), (6,)),
    "percentile": (lambda a: np.percentile(a, np.array([10.0, 66.0]), axis=1), (3, 7)),
    "median": (lambda a: np.median(a, axis=(0, 2)), (2, 3, 4)),
    "quantile-midpoint": (lambda a: np.quantile(a, 0.4, interpolation="midpoint"), (3, 4)),
    "insert-tensor": (lambda a, b: np.insert(a, [0, 2], b, axis=1), (3, 4), (3, 2)),
    "insert-one": (lambda a, b: np.insert(a, 1, b, axis=1), (3, 4), (3,)),
    "insert-slice": (lambda a, b: np.insert(a, slice(0, 4, 2), b), (5,), (2,)),
    "delete": (lambda a: np.delete(a, [0, 2], 1), (3, 4)),
    "delete-slice": (lambda a: np.delete(a, slice(3, 0, -1), 1), (3, 4)), "append": (np.append, (2, 3), (4,)),
    "diagflat": (lambda a: np.diagflat(a, k=-1), (2, 2)),
    "polyval": (np.polyval, (3,), (2, 4)), "ediff1d": (lambda a, b: np.ediff1d(a, to_begin=b, to_end=2), (2, 3), (2,)),
    "average": (lambda a, w: np.average(a, axis=0, weights=w * w + 1, returned=True), (3, 4), (3,)),
    "resize": (lambda a: np.resize(a, (3, 5)), (2, 3)),
    "array_split": (lambda a: np.array_split(a, 3, axis=1), (2, 4)), "dsplit": (lambda a: np.dsplit(a, 2), (1, 2, 4)),
    "hsplit": (lambda a: np.hsplit(a, [1]), (4,)),
    "broadcast_arrays": (np.broadcast_arrays, (3, 1), (4,)), "fliplr": (np.fliplr, (2, 3)),
    "pad-maximum": (lambda a: np.pad(a, ((1, 2), (0, 1)), mode="maximum"), (2, 3)),
    "repeat-counts": (lambda a: np.repeat(a, [1, 0, 2], axis=0), (3, 2)),
    "sum-of-no-axis": (lambda a: np.sum(a, axis=()), (2, 2)),
    "std": (lambda a: np.std(a, axis=0, ddof=1), (3, 2)),
}


def as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def arrays(xs):
    return [np.array(x, dtype="float64") for x in xs]


@pytest.fixture(autouse=True)
def numpy_rules():
    npx.set_np()
    yield
    npx.reset_np()


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", CASES)
def test_gradient_is_the_slope(name, hybridized):
    call, *given = CASES[name]
    rng = onp.random.RandomState(7)
    xs = [rng.randn(*x) if isinstance(x, tuple) else x for x in given]
    inputs = arrays(xs)
    for x in inputs:
        x.attach_grad()
    used = mx.hybridize(call) if hybridized else call
    with autograd.record():
        out = as_list(used(*inputs))
    heads = [rng.randn(*y.shape) for y in out]
    for y, z in zip(out, as_list(call(*arrays(xs)))):
        onp.testing.assert_allclose(y.asnumpy(), z.asnumpy(), rtol=1e-10, atol=1e-12)
    autograd.backward(out, arrays(heads))

    def total(moved):
        return sum((h * y.asnumpy()).sum() for h, y in zip(heads, as_list(call(*arrays(moved)))))
    for k, x in enumerate(xs):
        way = rng.randn(*x.shape)
        up, down = (total([z + step * way if i == k else z for i, z in enumerate(xs)]) for step in (STEP, -STEP))
        slope = (up - down) / (2 * STEP)
        assert (inputs[k].grad.asnumpy() * way).sum() == pytest.approx(slope, rel=2e-5, abs=1e-6), f"input {k}"


DRAWS = {
    "uniform": (np.random.uniform, (1.0, 3.0)), "normal": (np.random.normal, (1.0, 2.0)),
    "gumbel": (np.random.gumbel, (1.0, 2.0)),
    "logistic": (np.random.logistic, (1.0, 2.0)), "exponential": (np.random.exponential, (2.0,)),
    "rayleigh": (np.random.rayleigh, (2.0,)),
    "weibull": (np.random.weibull, (2.0,)), "pareto": (np.random.pareto, (3.0,)), "power": (np.random.power, (2.0,)),
    "lognormal": (np.random.lognormal, (0.5, 0.3)),
}


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("name", DRAWS)
def test_gradients_flow_through_draws(name, hybridized):
    draw, parameters = DRAWS[name]
    values = [np.array([p, p * 1.5]) for p in parameters]
    for v in values:
        v.attach_grad()

    def call(*given):
        return draw(*given, size=(3, 2))
    used = mx.hybridize(call) if hybridized else call
    mx.random.seed(3)
    with autograd.record():
        out = used(*values)
    out.backward()
    for k, v in enumerate(values):
        moved = []
        for step in (1e-2, -1e-2):
            mx.random.seed(3)
            moved.append(call(*[np.array(x.asnumpy() + step * (i == k)) for i, x in enumerate(values)]).asnumpy())
        onp.testing.assert_allclose(v.grad.asnumpy(), ((moved[0] - moved[1]) / 2e-2).sum(axis=0), rtol=2e-2, atol=2e-3)
