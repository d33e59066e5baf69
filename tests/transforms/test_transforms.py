"""grad, vjp, jvp, jacobian, hessian, vmap and checkpoint give JAX's answers, eagerly and hybridized, and compose."""
from __future__ import annotations

import json
from typing import Any

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, np
from hybrid.transforms import checkpoint, grad, hessian, jacobian, jvp, value_and_grad, vjp, vmap

from .transform_cases import CASES, function, point
from ..paths import DATA

RECORDED = json.loads((DATA / "transforms.json").read_text())
MODES = ["eager", "hybridized"]


def run(mode: str, f: Any, *args: Any) -> Any:
    """A function's result in a mode."""
    return (mx.hybridize(f) if mode == "hybridized" else f)(*args)


def close(got: Any, expected: Any) -> None:
    expected = onp.asarray(expected)
    assert got.shape == expected.shape
    onp.testing.assert_allclose(got.asnumpy(), expected, rtol=2e-4, atol=2e-4 * max(1.0, abs(expected).max()))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "expression", "shape"), CASES, ids=[c[0] for c in CASES])
def test_answers_of_jax(name: str, expression: str, shape: tuple[int, ...], mode: str) -> None:
    f, expected = function(expression, np), RECORDED[name]
    x, xs = np.array(point(shape), dtype="float32"), np.array(point(shape, 3), dtype="float32")
    v = np.array(point(shape)[::-1].copy(), dtype="float32")

    def everything(x: Any, xs: Any, v: Any) -> Any:
        total = lambda x: f(x).sum()
        value, slope = jvp(f, [x], [v])
        return {"value": value, "jvp": slope, "jacobian": jacobian(f)(x), "hessian": hessian(total)(x),
                "vmap": vmap(f)(xs), "per_example": vmap(grad(total))(xs)}
    found = run(mode, everything, x, xs, v)
    for what, answer in expected.items():
        close(found[what], answer)


@pytest.mark.parametrize("mode", MODES)
def test_nested_arguments_and_aux(mode: str) -> None:
    def loss(params: Any, x: Any) -> Any:
        out = np.dot(x, params["w"]) + params["b"][0]
        return (out ** 2).sum(), out

    def run_it(w: Any, b: Any, x: Any) -> Any:
        (value, out), found = value_and_grad(loss, has_aux=True)({"w": w, "b": [b]}, x)
        return value, out, found["w"], found["b"][0]
    w, b, x = np.array([[1.0], [2.0]]), np.array([0.5]), np.array([[1.0, 1.0], [0.0, 2.0]])
    value, out, gw, gb = run(mode, run_it, w, b, x)
    assert float(value) == pytest.approx(3.5 ** 2 + 4.5 ** 2) and out.shape == (2, 1)
    assert gw.tolist() == [[7.0], [25.0]] and gb.tolist() == [16.0]


@pytest.mark.parametrize("mode", MODES)
def test_one_array_given_twice_is_two_variables(mode: str) -> None:
    x = np.array([2.0, 3.0])
    first, second = run(mode, lambda x: grad(lambda a, b: (a * a * b).sum(), argnums=(0, 1))(x, x), x)
    assert first.tolist() == [8.0, 18.0] and second.tolist() == [4.0, 9.0]


@pytest.mark.parametrize("mode", MODES)
def test_gradients_flow_through_a_transformation(mode: str) -> None:
    x = np.array([1.0, 2.0])
    x.attach_grad()
    f = lambda x: (grad(lambda v: (v ** 3).sum())(x) * x).sum()
    with autograd.record():
        y = run(mode, f, x)
    y.backward()
    assert x.grad.tolist() == [9.0, 36.0]


@pytest.mark.parametrize("mode", MODES)
def test_vjp_several_times(mode: str) -> None:
    def twice(x: Any) -> Any:
        y, pull = vjp(lambda a: (np.sin(a), a * 2), x)
        one, zero = np.ones_like(x), np.zeros_like(x)
        return pull((one, zero))[0], pull((zero, one))[0], y[1]
    first, second, y = run(mode, twice, np.array([0.0, 0.0]))
    assert first.tolist() == [1.0, 1.0] and second.tolist() == [2.0, 2.0] and y.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mode", MODES)
def test_vmap_axes(mode: str) -> None:
    a, b = np.array(onp.arange(6.0).reshape(2, 3)), np.array([1.0, 10.0])
    found = run(mode, lambda a, b: vmap(lambda x, y: x * y, in_axes=(1, None), out_axes=1)(a, b), a, b)
    onp.testing.assert_array_equal(found.asnumpy(), onp.arange(6.0).reshape(2, 3) * onp.array([[1.0], [10.0]]))


@pytest.mark.parametrize("mode", MODES)
def test_vmap_of_vmap_is_a_table(mode: str) -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])
    table = run(mode, lambda x, y: vmap(lambda a: vmap(lambda b: a * b)(y))(x), x, y)
    assert table.tolist() == [[10.0, 20.0], [20.0, 40.0], [30.0, 60.0]]


@pytest.mark.parametrize("mode", MODES)
def test_vmap_of_gathers(mode: str) -> None:
    rng = onp.random.RandomState(0)
    x, idx = rng.rand(4, 5, 3).astype("float32"), rng.randint(0, 5, (4, 2))
    for axes, rows in (((0, 0), [x[i][idx[i]] for i in range(4)]), ((None, 0), [x[0][idx[i]] for i in range(4)]),
                       ((0, None), [x[i][idx[0]] for i in range(4)])):
        def f(x: Any, i: Any) -> Any:
            return np.take(x, i, axis=0)
        given = np.array(x if axes[0] == 0 else x[0]), np.array(idx if axes[1] == 0 else idx[0], dtype="int64")
        total = lambda x, i, axes=axes: (vmap(f, in_axes=axes)(x, i) ** 2).sum()
        close(run(mode, lambda x, i, axes=axes: vmap(f, in_axes=axes)(x, i), *given), onp.stack(rows))
        slope = run(mode, grad(total), *given).asnumpy()
        expected = onp.zeros_like(given[0].asnumpy())
        for k in range(4):
            at = (k,) if axes[0] == 0 else ()
            for j in (idx[k] if axes[1] == 0 else idx[0]):
                expected[(*at, j)] += 2 * given[0].asnumpy()[(*at, j)]
        onp.testing.assert_allclose(slope, expected, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_vmap_of_random_draws(mode: str) -> None:
    mx.random.seed(3)
    x = run(mode, lambda x: vmap(lambda v: v + np.random.uniform(0, 1, (100,)))(x), np.zeros((4, 100))).asnumpy()
    assert 0 <= x.min() and x.max() < 1 and len({tuple(row) for row in x.tolist()}) == 4
    assert abs(x.mean() - 0.5) < 0.1


@pytest.mark.parametrize("mode", MODES)
def test_vmap_of_loops(mode: str) -> None:
    def total(xs: Any) -> Any:
        return nd.contrib.foreach(lambda x, s: (x + s, x + s), xs, nd.zeros((1,)))[1]
    xs = nd.array([[[1.0], [2.0]], [[10.0], [20.0]]])
    assert run(mode, lambda xs: vmap(total)(xs), xs).asnumpy().tolist() == [[3.0], [30.0]]

    def doubled(x: Any, limit: Any) -> Any:                 # as many steps as each example wants
        step = lambda v, n: ([v], [v * 2, n])
        outs, last = nd.contrib.while_loop(lambda v, n: v < n, step, [x, limit], 6)
        return outs[0], last[0]
    x, limit = nd.array([[1.0], [1.0], [9.0]]), nd.array([[5.0], [2.0], [3.0]])
    outs, last = run(mode, lambda x, n: vmap(doubled)(x, n), x, limit)
    assert last.asnumpy().tolist() == [[8.0], [2.0], [9.0]]
    assert outs.asnumpy()[:, :, 0].tolist() == [[1, 2, 4, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]
    assert run(mode, lambda x, n: grad(lambda x: vmap(doubled)(x, n)[1].sum())(x), x,
               limit).asnumpy().tolist() == [[8.0], [2.0], [1.0]]

    def branch(x: Any) -> Any:
        return nd.contrib.cond(x.sum() > 0, lambda: x * 2, lambda: x - 1)
    assert run(mode, lambda x: vmap(branch)(x), nd.array([[1.0], [-1.0]])).asnumpy().tolist() == [[2.0], [-2.0]]


@pytest.mark.parametrize("mode", MODES)
def test_per_example_gradients_of_a_network(mode: str) -> None:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(2, 3, in_channels=1, activation="relu"), gluon.nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = nd.random.normal(shape=(4, 1, 4, 4)), nd.array([0, 1, 2, 0])

    def loss(x: Any, y: Any) -> Any:
        return loss_of(net(nd.expand_dims(x, 0)), nd.expand_dims(y, 0)).sum()
    each = run(mode, lambda x, y: vmap(grad(loss))(x, y), x, y).asnumpy()
    x.attach_grad()
    with autograd.record():
        total = loss_of(net(x), y)
    total.backward()
    onp.testing.assert_allclose(each, x.grad.asnumpy(), rtol=1e-4, atol=1e-6)


def test_checkpoint_gives_the_gradients_of_the_function() -> None:
    net = gluon.nn.Dense(3, in_units=4)
    net.initialize(mx.init.Xavier())
    x = nd.random.normal(shape=(5, 4))
    x.attach_grad()
    found = []
    for f in (lambda x: nd.tanh(net(x)), checkpoint(lambda x: nd.tanh(net(x)))):
        with autograd.record():
            out = (f(x) ** 2).sum()
        out.backward()
        found.append([out.asnumpy(), x.grad.asnumpy(), net.weight.grad().asnumpy().copy()])
    for a, b in zip(*found):
        onp.testing.assert_allclose(a, b, rtol=1e-5)


def test_checkpoint_keeps_its_random_numbers() -> None:
    x = nd.ones((1000,))
    x.attach_grad()
    with autograd.record():
        y = checkpoint(lambda x: nd.Dropout(x * 1, p=0.5))(x)
    y.backward()
    onp.testing.assert_array_equal(y.asnumpy(), x.grad.asnumpy())


@pytest.mark.parametrize(("wrong", "message"), [
    (lambda: grad(lambda x: x * 2)(np.ones((3,))), "must return one number"),
    (lambda: grad(lambda x: x.sum(), argnums=2)(np.ones((3,))), "argnums=2"),
    (lambda: grad(lambda x: x.sum())(3.0), "must be an array"),
    (lambda: vmap(lambda x, y: x + y)(np.ones((3,)), np.ones((4,))), "one length"),
    (lambda: vmap(lambda x: x, in_axes=(0, 0))(np.ones((3,))), "in_axes has 2 entries"),
    (lambda: vmap(lambda x: x, in_axes=2)(np.ones((3,))), "in_axes=2"),
    (lambda: jvp(lambda x: x, [np.ones((3,))], [np.ones((4,))]), "shapes of the primals"),
    (lambda: vjp(lambda x: x, np.ones((3,)))[1](np.ones((4,))), "a cotangent has shape"),
    (lambda: vmap(lambda x: 3)(np.ones((3,))), "the result of a function under vmap"),
])
def test_wrong_uses_say_what_is_wrong(wrong: Any, message: str) -> None:
    with pytest.raises(mx.HybridError, match=message) as raised:
        wrong()
    assert "test_transforms.py" in str(raised.value)
