"""NumPy's own functions on our arrays and on traced values: ``numpy.sin(x)`` within hybridized code is our operator."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable

import numpy as onp
import pytest

from hybrid import autograd, hybridize, nd, np
from hybrid.base.errors import HybridError, TraceError

X = onp.array([[0.5, 2.0, -1.0], [3.0, 0.25, 1.5]], "float32")
B = onp.array([[1.0, -2.0], [0.5, 0.0], [3.0, 1.0]], "float32")

CALLS: dict[str, Callable[[Any], Any]] = {
    "sin": lambda x: onp.sin(x), "sum": lambda x: onp.sum(x), "sum of rows": lambda x: onp.sum(x, axis=1),
    "concatenate": lambda x: onp.concatenate([x, 2 * x], axis=1), "stack": lambda x: onp.stack([x, x]),
    "add": lambda x: onp.add(x, 1), "scalar first": lambda x: onp.float32(2) * x, "array first": lambda x: X + x,
    "minus": lambda x: X - x, "power": lambda x: onp.float32(2) ** x, "mean": lambda x: onp.mean(x, axis=0),
    "where": lambda x: onp.where(x > 0, x, 0 * x), "matmul": lambda x: onp.matmul(x, B), "at": lambda x: X.T @ x,
    "maximum": lambda x: onp.maximum(x, 0), "clip": lambda x: onp.clip(x, 0, 1),
    "reshape": lambda x: onp.reshape(x, (3, 2)), "zeros_like": lambda x: onp.zeros_like(x),
    "norm": lambda x: onp.linalg.norm(x), "transpose": lambda x: onp.transpose(x), "dot": lambda x: onp.dot(x, B),
    "einsum": lambda x: onp.einsum("ij,jk->ik", x, B), "expand_dims": lambda x: onp.expand_dims(x, 0),
    "broadcast_to": lambda x: onp.broadcast_to(x, (2, 2, 3)), "split": lambda x: onp.split(x, 3, axis=1)[1],
    "add.reduce": lambda x: onp.add.reduce(x), "multiply.reduce": lambda x: onp.multiply.reduce(x, axis=1),
    "maximum.reduce": lambda x: onp.maximum.reduce(x, axis=None),
    "subtract.reduce": lambda x: onp.subtract.reduce(x, axis=1),
    "keepdims": lambda x: onp.add.reduce(x, axis=1, keepdims=True),
    "initial": lambda x: onp.add.reduce(x, axis=1, initial=3.0),
    "add.accumulate": lambda x: onp.add.accumulate(x, axis=1),
    "multiply.accumulate": lambda x: onp.multiply.accumulate(x, axis=1),
    "multiply.outer": lambda x: onp.multiply.outer(x, B),
    "add.reduceat": lambda x: onp.add.reduceat(x, [0, 2, 1], axis=1),
}


def numbers(found: Any) -> onp.ndarray:
    return found.asnumpy() if hasattr(found, "asnumpy") else onp.asarray(found)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("make", [np.array, nd.array], ids=["np", "nd"])
@pytest.mark.filterwarnings("ignore:.*which makes a NumPy array of it")
def test_a_hybridized_call_of_numpys_gives_what_it_gives_eagerly(name: str, make: Any) -> None:
    want, eager = CALLS[name](X), CALLS[name](make(X))
    compiled = hybridize(CALLS[name])
    got = compiled(make(X))
    assert type(got) is type(eager)
    assert got.shape == want.shape or make is nd.array and want.shape == () and got.shape == (1,)
    onp.testing.assert_allclose(numbers(got).reshape(want.shape), want, rtol=1e-5)
    onp.testing.assert_allclose(numbers(eager).reshape(want.shape), want, rtol=1e-5)
    # what is an array of this library is computed by a program
    assert bool(len(compiled._engine.entries)) == isinstance(eager, nd.NDArray)


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"zeros_like"}))
@pytest.mark.parametrize("make", [np.array, nd.array], ids=["np", "nd"])
def test_a_gradient_flows_through_numpys_functions(name: str, make: Any) -> None:
    grads = []
    for run in (CALLS[name], hybridize(CALLS[name])):
        x = make(X)
        x.attach_grad()
        with autograd.record():
            y = (run(x) * 2).sum()
        y.backward()
        grads.append(x.grad.asnumpy())
    onp.testing.assert_allclose(grads[0], grads[1], rtol=1e-5)
    assert onp.abs(grads[0]).sum() > 0


def test_an_nd_array_outside_of_a_trace_gives_numpys_array_as_long_as_no_gradient_is_lost() -> None:
    x = nd.array(X)
    for fn in (onp.sin, onp.exp, lambda v: onp.concatenate([v, v]), lambda v: onp.add(v, 1)):
        assert type(fn(x)) is onp.ndarray
    assert type(onp.sum(x)) is nd.NDArray and onp.sum(x).shape == (1,)          # NumPy asks for x.sum()
    x.attach_grad()
    with autograd.record():
        y = onp.sin(x)
        assert type(y) is nd.NDArray
        kept = onp.sin(x.detach())
        assert type(kept) is onp.ndarray
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), onp.cos(X), rtol=1e-5)


def test_numpys_arrays_take_results_that_have_no_gradient() -> None:
    total = onp.zeros_like(X)
    total += nd.array(X)
    onp.testing.assert_array_equal(total, X)
    x = nd.array(X)
    x.attach_grad()
    with autograd.record(), pytest.raises(HybridError, match="no gradient flows"):
        total += x * 2
    with pytest.raises(TraceError, match="a NumPy array, which has none"):
        hybridize(lambda v: onp.add(v, v, out=total))(nd.array(X))
    out = nd.zeros(X.shape)
    assert onp.multiply(nd.array(X), 2, out=out) is out
    onp.testing.assert_array_equal(out.asnumpy(), 2 * X)


def test_ufunc_at_adds_an_index_that_comes_twice_twice() -> None:
    for make in (np.array, nd.array):
        x = make(onp.zeros(3, "float32"))
        onp.add.at(x, [0, 0, 2], 1.0)
        assert x.asnumpy().tolist() == [2, 0, 1]
    with pytest.raises(TraceError, match="numpy.add.at"):
        hybridize(lambda v: onp.add.at(v, [0], 1.0))(np.array(X))


@pytest.mark.filterwarnings("ignore:.*which makes a NumPy array of it")
def test_what_only_asks_for_dtypes_is_answered_while_tracing() -> None:
    def code(x: Any) -> Any:
        assert not onp.iscomplexobj(x) and onp.ndim(x) == 2 and onp.shape(x) == (2, 3) and onp.size(x) == 6
        return onp.positive(x)
    for make in (np.array, nd.array):
        onp.testing.assert_array_equal(numbers(hybridize(code)(make(X))), X)


def test_refusals_name_the_users_line() -> None:
    for call in (lambda x: onp.asarray(x), lambda x: onp.atleast_2d(onp.array(x)), lambda x: onp.lexsort(x),
                 lambda x: onp.unique(x)):
        with pytest.raises(TraceError, match="test_numpy_protocols.py"):
            hybridize(call)(np.array(X))


@pytest.mark.parametrize("make", [np.array, nd.array], ids=["np", "nd"])
def test_arrays_describe_themselves_by_the_array_interface(make: Any) -> None:
    for raw in (X, X[0, 0], onp.arange(3), onp.zeros((2, 0), "float16"), onp.array([True])):
        x = make(raw, dtype=raw.dtype)
        described = SimpleNamespace(__array_interface__=x.__array_interface__)
        found = onp.asarray(described)
        assert found.dtype == x.dtype and found.shape == x.shape
        onp.testing.assert_array_equal(found, raw)
        assert x.tobytes() == onp.asarray(raw).tobytes()
    x = make(X)
    copied = onp.asarray(x)
    copied += 1
    onp.testing.assert_array_equal(x.asnumpy(), X)                # as asnumpy() does, it gives a copy
    del x
    onp.testing.assert_array_equal(copied, X + 1)


@pytest.mark.parametrize("kind", (np.array, nd.array))
def test_numpy_takes_arrays_whose_elements_are_in_another_order(kind: Any) -> None:
    """As NumPy lays out what index arrays pick along a later axis."""
    x = onp.arange(24.0, dtype="float32").reshape(2, 3, 4)
    for key in ((slice(None), [0, 1]), (slice(None), slice(None), [3, 0]), ([1, 0],)):
        onp.testing.assert_array_equal(onp.asarray(kind(x)[key]), x[key])


def test_pillow_reads_arrays() -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = onp.arange(24, dtype="uint8").reshape(2, 4, 3)
    onp.testing.assert_array_equal(onp.asarray(image.fromarray(np.array(pixels))), pixels)


def test_a_trace_notes_that_numpy_read_an_array() -> None:
    scale = nd.array([2.0])
    fn = hybridize(lambda x: x * float(onp.asarray(scale)[0]))
    assert fn(nd.array([3.0])).asscalar() == 6
    scale[:] = 5
    assert fn(nd.array([3.0])).asscalar() == 15
