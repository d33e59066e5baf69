"""What MXNet refuses of Symbols and executors is refused here; MXNet 1.9.1's answers."""
from __future__ import annotations

from typing import Any, Callable

import pytest

import hybrid as mx
from hybrid import nd, sym

X, Y = sym.var("x"), sym.var("y")
ONE, ROW, COLUMN = nd.ones((2, 2)), nd.ones((1, 2)), nd.ones((2, 1))
ELEMENTWISE: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a > b, lambda a, b: a ** b, sym.elemwise_sub, sym.maximum]


@pytest.mark.parametrize("make", ELEMENTWISE)
def test_elementwise_symbols_take_one_shape(make: Callable[[Any, Any], Any]) -> None:
    z = make(X, Y)
    with pytest.raises(mx.MXNetError, match=r"takes arrays of one shape, got \(2, 3\) and \(1, 3\)"):
        z.infer_shape(x=(2, 3), y=(1, 3))
    with pytest.raises(mx.MXNetError, match="one shape"):
        z.bind(mx.cpu(), {"x": COLUMN, "y": ROW})
    assert z.infer_shape(x=(2, 3), y=(0, 3))[0] == [(2, 3), (2, 3)]


def test_elementwise_functions_take_one_shape() -> None:
    for name in ("add", "sub", "mul", "div"):
        with pytest.raises(mx.MXNetError, match=r"test_symbol_refusals\.py:\d+: elemwise_.* takes arrays of one shape"):
            getattr(nd, "elemwise_" + name)(COLUMN, rhs=ROW)
    assert nd.elemwise_add(ROW, ROW).shape == (1, 2)
    assert (COLUMN + ROW).shape == nd.broadcast_add(COLUMN, ROW).shape == nd.maximum(COLUMN, ROW).shape == (2, 2)


def test_states_of_unknown_length_still_broadcast() -> None:
    out, _ = mx.rnn.LSTMCell(3).unroll(2, X, merge_outputs=True)
    assert out.infer_shape(x=(5, 2, 4))[1] == [(5, 2, 3)]


def test_a_given_shape_counts_more_than_the_variable_s() -> None:
    y = sym.FullyConnected(sym.var("v", shape=(2, 3)), num_hidden=1, name="g")
    assert y.infer_shape(v=(4, 5))[0] == [(4, 5), (1, 5), (1,)]
    assert y.infer_shape()[0] == [(2, 3), (1, 3), (1,)]


@pytest.mark.parametrize("shape", [2, (2.0, 4), "2"])
def test_what_is_no_shape(shape: Any) -> None:
    with pytest.raises(TypeError, match="'x' is"):
        (X + 1).infer_shape(x=shape)


def backward(z: Any, **shapes: Any) -> None:
    e = z.simple_bind(mx.cpu(), **shapes)
    e.forward(is_train=True)
    e.backward()


@pytest.mark.parametrize(("make", "name"), [
    (lambda: X * Y, "_mul0_output"), (lambda: sym.Group([sym.make_loss(X), Y + 1]), "_plusscalar0_output")])
def test_backward_needs_gradients_of_what_is_no_loss(make: Callable[[], Any], name: str) -> None:
    with mx.name.NameManager():
        z = make()
    with pytest.raises(mx.MXNetError, match=f"needs out_grads, the gradients of {name}"):
        backward(z, x=(2, 3), y=(2, 3))


def test_backward_of_losses_needs_none() -> None:
    backward(sym.Group([sym.SoftmaxOutput(X, Y), sym.BlockGrad(X), X > 1]), x=(2, 3), y=(2,))
    backward(sym.SoftmaxOutput(X, Y) * 2, x=(2, 3), y=(2,))
    backward(sym.reshape(sym.make_loss(X * X), shape=(-1,)), x=(2, 3))


def test_symbol_functions_without_arguments_make_symbols() -> None:
    assert isinstance(sym.random_uniform(), mx.sym.Symbol)
    assert len(sym.relu().list_arguments()) == 1
