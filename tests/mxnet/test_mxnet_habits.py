"""Small behaviours of MXNet 1.9.1 that programs and their tests rely on; every expected value was given by MXNet."""
from __future__ import annotations

import warnings

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, sym

INTEGERS = {                                # expression of x = [-3, 1, 2, 3] in int32: result
    "plus": (lambda x: x + 2.5, [-1, 3, 4, 5]), "times": (lambda x: x * -1.9, [3, -1, -2, -3]),
    "over": (lambda x: x / 2.5, [-1, 0, 1, 1]),
    "under": (lambda x: -1 / x, [0, -1, 0, 0]), "minus": (lambda x: x - 300.7, [-303, -299, -298, -297]),
    "power": (lambda x: x ** 2.9, [9, 1, 4, 9]),
    "inverse": (lambda x: x ** -1, [0, 1, 0, 0]), "base": (lambda x: 2.9 ** x, [0, 2, 4, 8]),
    "mod": (lambda x: x % 2.5, [1, 1, 0, 1]),
    "maximum": (lambda x: nd.maximum(x, 1.5), [1, 1, 2, 3]), "equal": (lambda x: x == 2, [0, 0, 1, 0]),
}


@pytest.mark.parametrize("case", INTEGERS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
def test_integers_beside_numbers(case: str, compiled: bool) -> None:
    function, expected = INTEGERS[case]
    out = (mx.hybridize(function) if compiled else function)(nd.array([-3, 1, 2, 3], dtype="int32"))
    assert out.dtype == np.int32 and out.asnumpy().tolist() == expected


FLOWS = {                                   # of x = [[1, 2, 3], [4, 5, 6]]: the gradient of the sum
    "square": (lambda x: x * x, [[2, 4, 6], [8, 10, 12]]), "sum": (lambda x: nd.sum(x, axis=1), [[1, 1, 1], [1, 1, 1]]),
    "parts": (lambda x: x[0] * 3, [[3, 3, 3], [0, 0, 0]]),
    "maximum": (lambda x: nd.max(x, axis=0), [[0, 0, 0], [1, 1, 1]]),
    "to float": (lambda x: x.astype("float32") * 2, [[2, 2, 2], [2, 2, 2]]),
    "to integer": (lambda x: (x * 2).astype("int64") * 2, [[4, 4, 4], [4, 4, 4]]),
    "place": (lambda x: nd.topk(x, k=1, dtype="int32"), [[0, 0, 0], [0, 0, 0]]),
    "comparison": (lambda x: x > 2, [[0, 0, 0], [0, 0, 0]]),
    "shape": (lambda x: nd.shape_array(x), [[0, 0, 0], [0, 0, 0]]),
}


@pytest.mark.parametrize("case", FLOWS)
@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "hybridized"])
def test_gradients_of_integers(case: str, dtype: str, compiled: bool) -> None:
    function, expected = FLOWS[case]
    x = nd.array([[1, 2, 3], [4, 5, 6]], dtype=dtype)
    x.attach_grad()
    x.grad[:] = 7
    with autograd.record():
        y = (mx.hybridize(function) if compiled else function)(x)
    y.backward()
    assert x.grad.dtype == x.dtype and x.grad.asnumpy().tolist() == expected


def test_sum_in_another_dtype_has_a_gradient() -> None:
    x = mx.np.array([1, 2], dtype="int32")
    x.attach_grad()
    with autograd.record():
        y = mx.np.sum(x, dtype="float32")
    y.backward()
    assert x.grad.asnumpy().tolist() == [1, 1]


def test_momentum_of_a_master_copy() -> None:
    w, g = nd.array([1, 2], dtype="float16"), nd.array([0.5, 0.25], dtype="float16")
    mom, master = nd.array([0.1, 0.2]), nd.array([1.0, 2.0])
    nd.mp_nag_mom_update(w, g, mom, master, out=w, lr=0.1, momentum=0.9, wd=0.5)
    np.testing.assert_allclose(master.asnumpy(), [0.891, 1.9245], rtol=1e-6)
    np.testing.assert_allclose(mom.asnumpy(), [-0.00455, 0.058775], rtol=1e-5)


def test_classes_by_frequency_of_a_symbol() -> None:
    group = sym.Group(list(sym.contrib.rand_zipfian(sym.var("x"), 5, 100)))
    drawn, of_true, of_drawn = group.eval(x=nd.array([1.0, 3.0]))
    assert drawn.dtype == np.int64 and drawn.shape == of_drawn.shape == (5,)
    np.testing.assert_allclose(of_true.asnumpy(), [0.43927, 0.24175], rtol=1e-4)


def test_composition_of_symbols() -> None:
    layer = sym.FullyConnected(sym.var("a"), num_hidden=3, name="fc")
    assert layer(a=sym.relu(sym.var("d"))).list_arguments() == ["d", "fc_weight", "fc_bias"]
    layer._compose(a=sym.var("e"), name="other")
    assert layer.name == "other" and layer.list_arguments()[0] == "e"
    with pytest.raises(TypeError, match="not both"):
        layer(sym.var("x"), e=sym.var("y"))


def test_unknown_flags_of_hybridize_are_a_warning() -> None:
    net = gluon.nn.Dense(2, in_units=2)
    net.initialize()
    with pytest.warns(UserWarning, match="no option foo"):
        net.hybridize(foo=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert net(nd.ones((1, 2))).shape == (1, 2)


OUT_OF_RANGE = {
    "take": lambda x: nd.take(x, nd.array([0, 2]), mode="raise"),
    "take negative": lambda x: nd.take(x, nd.array([-1]), mode="raise"),
    "gather_nd": lambda x: nd.gather_nd(x, nd.array([[0], [3]])),
    "gather_nd negative": lambda x: nd.gather_nd(x, nd.array([[-3], [0]])),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE)
def test_indices_out_of_range(case: str) -> None:
    with pytest.raises(IndexError, match="out of range") as caught:
        OUT_OF_RANGE[case](nd.ones((2, 3)))
    assert isinstance(caught.value, mx.MXNetError)


def test_a_tuple_within_an_index_is_a_list() -> None:
    x = nd.arange(6).reshape((3, 2))
    assert x[((0, 2),)].asnumpy().tolist() == [[0, 1], [4, 5]]
    assert x.split_v2(2, axis=1)[1].shape == (3, 1)


def test_executors_of_one_array_keep_their_own_gradients() -> None:
    a, b = sym.var("a"), sym.var("b")
    x, first, second = nd.array([1.0, 2.0]), nd.zeros(2), nd.zeros(2)
    one = (a * b).bind(mx.cpu(), [x, x], args_grad=[first, nd.zeros(2)])
    other = (a * 3).bind(mx.cpu(), [x], args_grad=[second])
    for executor in (one, other):
        executor.forward(is_train=True)
    one.backward(nd.ones(2))
    other.backward(nd.ones(2))
    assert first.asnumpy().tolist() == [1, 2] and second.asnumpy().tolist() == [3, 3] and x.grad is None


def test_backward_without_training_and_twice() -> None:
    gradient = nd.zeros(2)
    executor = (sym.var("a") ** 2).bind(mx.cpu(), [nd.array([1.0, 2.0])], args_grad=[gradient], grad_req="add")
    executor.forward()
    executor.backward(nd.ones(2))
    executor.backward(nd.ones(2))
    assert gradient.asnumpy().tolist() == [4, 8]
    (sym.var("a") * 2).bind(mx.cpu(), [nd.ones(2)]).backward(nd.ones(2))          # nothing to do


def test_symbols_refuse_numbers_as_mxnets_do() -> None:
    for ask in (bool, float, lambda x: x.asnumpy()):
        with pytest.raises(mx.base.NotImplementedForSymbol):
            ask(sym.var("x"))
    assert sym.var("x").infer_type_partial() == ([None], [None], [])
    with pytest.raises(ValueError, match="not both"):
        (sym.var("x") + sym.var("y")).infer_shape((1,), y=(1,))


def test_functions_of_each_element() -> None:
    assert mx.test_utils.assign_each(np.array([1, 2]), lambda v: v * 1.5).tolist() == [1.5, 3.0]
    assert mx.test_utils.assign_each2(np.array([[1.0, 2.0]]), np.array([[3, 4]]),
                                      lambda a, b: a * b).tolist() == [[3.0, 8.0]]


def test_fresh_gradients() -> None:
    x = nd.ones(2)
    x.attach_grad()
    assert not x._fresh_grad
    with autograd.record():
        y = x * 2
    y.backward()
    assert x._fresh_grad
    x._fresh_grad = False
    assert not x._fresh_grad and x.writable


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_deviation_of_integers_is_compiled(dtype: str) -> None:
    x = mx.np.array(np.arange(24).reshape(2, 3, 4), dtype=dtype)
    out = mx.hybridize(lambda x: mx.np.std(x, axis=None, keepdims=True))(x)
    assert out.shape == (1, 1, 1)
    np.testing.assert_allclose(out.asnumpy().ravel(), [np.arange(24).std()], rtol=1e-5)


def test_cached_op() -> None:
    x, w = nd.array([[1, 2], [3, 4]]), nd.array([[1, 0], [2, 1], [0, 3]])
    op = nd.CachedOp(sym.FullyConnected(sym.var("x"), num_hidden=3, no_bias=True, name="fc"),
                     [("static_alloc", "True")])
    x.attach_grad()
    with autograd.record():
        y = op(x, w)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy() @ w.asnumpy().T)
    np.testing.assert_array_equal(x.grad.asnumpy(), [w.asnumpy().sum(0)] * 2)
    out = nd.zeros((2, 3))
    assert op(x, w, out=out) is out and out.sum().asscalar() == y.asnumpy().sum()
    with pytest.raises(ValueError, match="2 arrays"):
        op(x)


def test_arrays_over_numpys_memory() -> None:
    raw = np.ones((2, 3), np.float32)
    x = nd.from_numpy(raw)
    x += 1
    assert raw.tolist() == [[2] * 3] * 2 and not raw.flags.writeable
    with pytest.raises(ValueError, match="C order"):
        nd.from_numpy(np.ones((2, 3), np.float32).T)
    other = np.ones(2, np.float32)
    nd.from_numpy(other, zero_copy=False)[:] = 5
    assert other.tolist() == [1, 1] and other.flags.writeable


NAMED = {"sym.maximum": lambda a, b: sym.maximum(left=a, right=b),
         "sym.minimum": lambda a, b: sym.minimum(left=a, right=b), "sym.power": lambda a, b: sym.pow(base=a, exp=b),
         "positions": lambda a, b: sym.maximum(a, right=b)}


@pytest.mark.parametrize("case", NAMED)
def test_arguments_of_two_values_by_name(case: str) -> None:
    out = NAMED[case](sym.var("a"), sym.var("b")).eval(a=nd.array([2, 3]), b=nd.array([3, 2]))[0]
    assert out.asnumpy().tolist() == {"sym.maximum": [3, 3], "sym.minimum": [2, 2], "sym.power": [8, 9],
                                      "positions": [3, 3]}[case]
    assert nd.power(base=nd.array([2]), exp=3).asscalar() == 8
    with pytest.raises(TypeError, match="lhs and rhs; it has no argument 'middle'"):
        nd.add(nd.ones(1), nd.ones(1), middle=1)


def test_an_axis_where_there_is_none() -> None:
    """MXNet's operators without attributes take no notice of it: Keras writes log(x, axis=…)."""
    assert nd.log(nd.ones((2,)), axis=0).asnumpy().tolist() == [0,
                                                                0] == sym.log(sym.var("x"),
            axis=-1).eval(x=nd.ones((2,)))[0].asnumpy().tolist()


def test_the_gradient_of_an_integer_remainder_is_zero() -> None:
    a, b = nd.array([7., 3.]), nd.array([2., 0.])
    for x in (a, b):
        x.attach_grad()
    with autograd.record():
        y = nd.cast(a, "int32") % nd.cast(b, "int32")
    y.backward()
    assert a.grad.asnumpy().tolist() == b.grad.asnumpy().tolist() == [0, 0]


def test_what_gather_nd_gathers_is_scattered_and_added() -> None:
    """The internal operator that programs call by name: elements with the same index are added."""
    out = nd._internal._backward_gather_nd(nd.array([1, 2]), nd.array([[0, 0], [1, 1]]), shape=(2, 3))
    assert out.asnumpy().tolist() == [[0, 3, 0], [0, 0, 0]]
