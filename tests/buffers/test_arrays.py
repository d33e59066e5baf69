"""Arrays against what MXNet 1.9.1 gives (data/arrays.json, written by oracle/record_arrays.py), and the same inside
hybridized code."""
from __future__ import annotations

import importlib.util
import json
import re

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, nd

from ..paths import DATA, TESTS

_spec = importlib.util.spec_from_file_location("array_lines", TESTS / "oracle" / "array_lines.py")
lines = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(lines)
RECORDED = json.loads((DATA / "arrays.json").read_text())
DIFFERENT = {"nd.array([[2.5]]).asscalar()": "MXNet gives an array of shape (1, 1) where a number is asked for"}


def ids(texts):
    return [f"{i}-{re.sub(r'[^A-Za-z0-9]+', '-', t).strip('-')[:40]}" for i, t in enumerate(texts)]


@pytest.mark.parametrize("line", RECORDED, ids=ids(RECORDED))
def test_line_against_mxnet(line):
    if line in DIFFERENT:
        pytest.skip(DIFFERENT[line])
    with mx.cpu():                                           # as recorded: devices are printed
        assert json.loads(json.dumps(lines.run(mx, onp, line))) == RECORDED[line]


# ---- the same inside hybridized code
def function(line):
    """A line as a function of x."""
    *before, last = line.split("; ")
    space = {"nd": nd, "mx": mx, "onp": onp}
    exec("def f(x):\n" + "".join(f"    {s}\n" for s in before) + f"    return {last}\n", space)      # noqa: S102
    return space["f"]


MORE = ["y = x.reshape((2, 6))[1]; y += 5; x", "y = x[0].reshape((2, 2)); y[1] = 9; x",
        "y = x[1:]; z = y[1]; z[:] = 7; y", "y = x[:, 1:3]; y *= 2; x",
        "y = x[0]; x[:] = 5; y", "y = x.reshape((12,)); x[0] = -1; y", "y = x[1:]; z = y[0]; x[1] = 8; z + y[0]",
        "y = x[0]; z = x[0]; y[1] = 7; z",
        "y = x[::-1]; y += 100; x", "y = x[None]; y += 1; x", "y = x[:, None]; y[0] = 1; x",
        "x[nd.array([0, 2, 0])] = nd.array([[1], [2], [3]]); x",
        "x[[0, 1, 0], [1, 1, 1]] = nd.array([1, 2, 3]); x", "x[onp.array([True, False, True])] = 4; x",
        "x[[True, False, True]]", "x[:, onp.array([True, False, True, True])]",
        "x[nd.array([0, 1]), :, None]", "x[:, None, nd.array([0, 1])]", "x[nd.array([[0], [2]]), nd.array([1, -1])]",
        "x[nd.array([0, 2]), 1] = -1; x",
        "y = nd.zeros((3, 4)); y[1:, ::2] = x[:2, 1::2]; y", "y = nd.zeros((5,)); y[3] = x[2, 1]; y",
        "x[(x > 5).astype('bool')] = 0; x", "x[(x[:, 0] > 3).astype('bool')] = nd.array([1, 2, 3, 4]); x",
        "nd.array([x[0], x[1]])", "x[-1, -1]"]
TRACED = [t for t in [*lines.GET, *lines.SET, *lines.VIEWS, *lines.INPLACE, *MORE] if "is x" not in t
          and "y is" not in t]


@pytest.mark.parametrize("line", TRACED, ids=ids(TRACED))
def test_line_hybridized_as_eagerly(line):
    eager_x, x, again = (nd.arange(12).reshape((3, 4)) for _ in range(3))
    want = lines.plain(mx, onp, function(line)(eager_x))
    f = mx.hybridize(function(line))
    assert lines.plain(mx, onp, f(x)) == want
    assert lines.plain(mx, onp, f(again)) == want
    assert x.asnumpy().tolist() == again.asnumpy().tolist() == eager_x.asnumpy().tolist()


KEYS = ["0", "0, 1", "1:3", "::-1", ":, ::2", "..., None", "[0, 2, 0]", ":, [0, 1]", "[0, 2], [1, 3]",
        "nd.array([0, 2]), 1", "onp.array([True, False, True])"]


@pytest.mark.parametrize("key", KEYS, ids=ids(KEYS))
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_gradient_of_indices(key, hybridized):
    x = nd.arange(12).reshape((3, 4))
    x.attach_grad()
    f = function(f"y = x[{key}]; (y * y).sum()")
    with autograd.record():
        out = (mx.hybridize(f) if hybridized else f)(x)
    out.backward()
    counts = onp.zeros((3, 4))
    onp.add.at(counts, eval(f"onp.s_[{key}]", {"onp": onp, "nd": type("nd", (), {"array": staticmethod(onp.array)})}),
               1)        # noqa: S307
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * counts * onp.arange(12).reshape(3, 4))


def test_gradient_of_an_assignment():
    def f(x, v):
        y = x * 1
        y[1:, ::2] = v * v
        y[nd.array([0])] = 2 * v[0, 0]
        return (y * y).sum()
    x, v = nd.arange(12).reshape((3, 4)), nd.array([[1, 2], [3, 4]])
    x.attach_grad()
    v.attach_grad()
    with autograd.record():
        out = mx.hybridize(f)(x, v)
    out.backward()
    want = 2.0 * onp.arange(12).reshape(3, 4)
    want[1:, ::2] = want[0] = 0
    onp.testing.assert_allclose(x.grad.asnumpy(), want)
    onp.testing.assert_allclose(v.grad.asnumpy(), 4 * v.asnumpy()**3 + [[4 * 8, 0], [0, 0]])


# ---- errors
X = nd.arange(12).reshape((3, 4))
BAD = [
    ("key text", lambda: X["a"], IndexError, r"'a' \(str\) is no index of an array of shape \(3, 4\)"),
    ("key float", lambda: X[1.0], IndexError, "1.0 .float. is no index"),
    ("range", lambda: X[5], IndexError, r"shape \(3, 4\).*out of bounds"),
    ("too many", lambda: X[0, 0, 0], IndexError, "too many indices"),
    ("array out of range", lambda: X[nd.array([7])], IndexError, "out of bounds"),
    ("mask size", lambda: X[onp.array([True, False])], IndexError, "boolean"),
    ("set key", lambda: X.__setitem__("a", 1), IndexError, "no index"),
    ("set text", lambda: X.__setitem__(0, "a"), TypeError, "takes numbers and arrays, got 'a'"),
    ("set none", lambda: X.__setitem__(0, None), TypeError, "got None"),
    ("set shape", lambda: X.__setitem__(0, nd.array([1, 2])), ValueError, r"shape \(3, 4\).*\(2,\)"),
    ("in place", lambda: nd.ones((1, 4)).__iadd__(X), ValueError, r"the result has shape \(3, 4\)"),
    ("copyto", lambda: X.copyto(5), TypeError, "array or a device"),
    ("copyto shape", lambda: X.copyto(nd.zeros((4, 3))), ValueError, r"\(4, 3\), this array \(3, 4\)"),
    ("device", lambda: X.as_in_context("cpu"), TypeError, "takes a device"),
    ("ctx", lambda: nd.array([1], ctx="cpu"), mx.errors.DeviceError, "must be a device"),
    ("reshape", lambda: X.reshape(), ValueError, "needs a shape"),
    ("reshape size", lambda: X.reshape(5, 5), ValueError, r"\(3, 4\) .12 elements. to \(5, 5\)"),
    ("reshape codes", lambda: X.reshape((-1, -1)), ValueError, "only one axis"),
    ("axis", lambda: X.sum(axis=5), ValueError, "axis 5 is out of range"),
    ("attribute", lambda: X.sum(axs=1), TypeError, "no attribute 'axs'; it has axis"),
    ("truth", lambda: bool(X), ValueError, "truth of an array of 12 elements"),
    ("number", lambda: float(X), TypeError, "one element"),
    ("asscalar", lambda: X.asscalar(), ValueError, "one element"),
    ("length", lambda: len(nd.array(3.0)), TypeError, "no length"),
    ("ragged", lambda: nd.array([[1, 2], [3]]), ValueError, "equal lengths"),
    ("text", lambda: nd.array("abc"), ValueError, "real numbers.*'abc'"),
    ("complex", lambda: nd.array([1j]), ValueError, "an array takes real numbers.*complex"),
    ("inferred", lambda: X.reshape((5, -1)), ValueError, r"\(12 elements\) to \(5, -1\)"),
    ("dtype name", lambda: nd.array([1], dtype="foo"), TypeError, "'foo' names no dtype"),
    ("dtype", lambda: nd.array([1], dtype="complex64"), TypeError, "complex64 is not supported"),
    ("from numpy", lambda: nd.from_numpy(onp.array(["a"])), TypeError, "not supported"),
    ("cast", lambda: nd.cast(X, dtype=None), ValueError, "no default"),
    ("grad_req", lambda: X.attach_grad("foo"), mx.errors.HybridError, "write, add or null"),
    ("sparse", lambda: X.tostype("blocks"), mx.errors.HybridError, "'blocks'; there are default, csr and row_sparse"),
    ("dlpack", lambda: nd.from_dlpack(3), TypeError, "DLPack capsule"),
    ("function", lambda: nd.nosuch, AttributeError, "has no 'nosuch'"),
    ("operand", lambda: X + "a", TypeError, "takes arrays and numbers, got .* a str"),
    ("broadcast", lambda: X + nd.ones((2,)), ValueError, r"\(3, 4\) and \(2,\)"),
]


@pytest.mark.parametrize(("call", "error", "text"), [row[1:] for row in BAD],
                         ids=[row[0].replace(" ", "-") for row in BAD])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


BAD_TRACED = [
    ("mask", lambda x: x[(x > 5).astype("bool")], TypeError, r"test_arrays.py:\d+: how many elements a mask selects"),
    ("mask of values", lambda x: x.__setitem__((x > 5).astype("bool"), nd.ones((6,))), TypeError,
     r"nd.where\(mask, values, x\)"),
    ("key", lambda x: x["a"], IndexError, "no index"),
    ("range", lambda x: x[3], IndexError, "out of range for axis 0 with length 3"),
    ("known index", lambda x: x[[7]], IndexError, "out of bounds"),
    ("value", lambda x: x.__setitem__(0, nd.ones((3,))), ValueError,
     r"test_arrays.py:\d+: a value of shape \(3,\) does not fit the place of shape \(4,\)"),
    ("nothing", lambda x: x.__setitem__(0, None), TypeError, "got None"),
    ("copyto", lambda x: x.copyto(3), TypeError, "array or a device"),
    ("different shapes", lambda x: nd.array([x, x[0]]), ValueError, "different shapes"),
]


@pytest.mark.parametrize(("f", "error", "text"), [row[1:] for row in BAD_TRACED],
                         ids=[row[0].replace(" ", "-") for row in BAD_TRACED])
def test_errors_in_hybridized_code(f, error, text):
    with pytest.raises(error, match=text):
        mx.hybridize(lambda x: (f(x), x * 2)[1])(nd.arange(12).reshape((3, 4)))


# ---- other libraries
def test_numpy_takes_our_arrays():
    assert onp.asarray(X,
                       dtype="float64").dtype == onp.float64 and onp.sum(X).asscalar() == 66 and onp.mean(X,
            axis=0).asnumpy().tolist() == [4, 5, 6, 7]
    assert isinstance(onp.ones((3, 4), "float32") * X,
                      nd.NDArray) and (onp.float32(2) * X).asnumpy().tolist() == (2 * X.asnumpy()).tolist()
    onp.testing.assert_array_equal(onp.array([1, 2, 3, 4]) < X, onp.array([1, 2, 3, 4]) < X.asnumpy())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"])
def test_dlpack_both_ways(dtype):
    if dtype == "bool" and onp.lib.NumpyVersion(onp.__version__) < "1.25.0":
        pytest.skip("NumPy exports booleans by DLPack since 1.25")
    x = nd.array([[1, 0, 1]], dtype=dtype)
    for shared in (nd.from_dlpack(x), nd.from_dlpack(nd.to_dlpack_for_write(x)),
                   nd.from_dlpack(x.to_dlpack_for_read())):
        shared[0, 1] = 1
        assert x.asnumpy().tolist() == [[1, 1, 1]] and shared.dtype == x.dtype
        x[0, 1] = 0
    x = x.as_in_context(mx.cpu())                          # NumPy takes memory of the CPU alone
    view = onp.from_dlpack(x)
    (view if view.flags.writeable else x)[0, 1] = 1        # NumPy before 2.1 reads only
    assert x[0, 1].asscalar() == 1


def test_a_dlpack_capsule_is_used_once_and_keeps_the_memory():
    x = nd.array([1, 2, 3])
    capsule = x.to_dlpack_for_read()
    y = nd.from_dlpack(capsule)
    del x
    assert y.asnumpy().tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="used already"):
        nd.from_dlpack(capsule)


def test_random_functions_take_mxnets_parameters():
    mx.random.seed(3)
    # the mean, not the rate
    assert nd.random.exponential(100.0, shape=(2000,)).mean().asscalar() == pytest.approx(100, rel=0.1)
    assert (nd.random.uniform(2, 3, (4,)).shape == (4,) and nd.random_uniform(2, 3, (4,)).shape == (4,)
            and nd.uniform(shape=(3,)).shape == (3,))
    assert nd.random.normal(nd.array([0, 100]), nd.array([1, 1]),
                            shape=3).shape == (2, 3) and nd.random.randn(2, 3).shape == (2, 3)
    out = nd.zeros((5,))
    assert nd.random.uniform(5, 6, out=out) is out and (out.asnumpy() >= 5).all()
    assert nd.random.uniform().shape == (1,) and nd.random.randint(0, 5, shape=(2,)).dtype == onp.int32
    with pytest.raises(ValueError, match="randint needs low and high"):
        nd.random.randint()
    with pytest.raises(AttributeError, match="nosuch"):
        getattr(nd.random, "nosuch")


# ---- changes in place while recording
RECORDED_CHANGES = {
    "add and multiply": lambda x: _then(x * x, lambda y: y.__iadd__(x), lambda y: y.__imul__(y)),
    "set into zeros": lambda x: _then(nd.zeros((3,), dtype="float64"), lambda y: y.__setitem__(0, x[1] * 2),
                                      lambda y: y.__setitem__(slice(1, None), x[:2] * x[1:])),
    "set by array": lambda x: _then(x * 1, lambda y: y.__setitem__(nd.array([0, 2]), x[1]),
                                    lambda y: y.__setitem__(1, y[1] + x[0])),
    "set by mask": lambda x: _then(x * x, lambda y: y.__setitem__((y > 3).astype("bool"), x[0] * 2)),
    "set all": lambda x: _then(x * x, lambda y: y.__setitem__(slice(None), 7)),
    "used before": lambda x: _used_before(x),
}


def _then(y, *changes):
    for change in changes:
        change(y)
    return y


def _used_before(x):
    y = x * x
    z = y * x
    y -= x
    return y * z


@pytest.mark.parametrize("change", RECORDED_CHANGES, ids=lambda k: k.replace(" ", "-"))
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_gradients_after_changes_in_place(change, hybridized):
    def f(x):
        y = RECORDED_CHANGES[change](x)
        return (y * y * x).sum()
    x = nd.array([1.0, 2.0, 3.0], dtype="float64")
    x.attach_grad()
    with autograd.record():
        out = (mx.hybridize(f) if hybridized else f)(x)
    out.backward()
    sides = [f(nd.array(x.asnumpy() + e * 1e-5, dtype="float64")).asscalar() - f(nd.array(x.asnumpy() - e * 1e-5, dtype="float64")).asscalar() for e in onp.eye(3)]  # noqa: E501
    onp.testing.assert_allclose(x.grad.asnumpy(), onp.array(sides) / 2e-5, rtol=1e-6, atol=1e-6)


def test_a_recorded_value_goes_into_an_array_that_collects():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        x[0] = x[1] * 2
        y = (x * x).sum()
    y.backward()
    x[0] = 5
    assert x.asnumpy().tolist() == [5, 2]
    assert x.grad.asnumpy().tolist() == [0, 20]


def test_views_see_a_change_in_place_while_recording():
    buffer = nd.zeros((3,))
    view = buffer[1:]
    with autograd.record():
        buffer += 1
        buffer[2] = 5
    assert view.asnumpy().tolist() == [1, 5]


# ---- what shares memory
SHARES = {"x[1]": True, "x[1:3]": True, "x[0:1, 1:3]": True, "x[None]": True, "x[2, 3]": True, "x[:, 1]": False,
          "x[:, 1:3]": False, "x[::2]": False, "x[::-1]": False}


@pytest.mark.parametrize("text", SHARES, ids=ids(SHARES))
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_only_ranges_of_memory_are_shared(text, hybridized):
    """As in MXNet: a part that is one range of memory is a view, any other is a copy."""
    f = function(f"y = {text}; y += 100; x")
    x = nd.arange(12).reshape((3, 4))
    out = (mx.hybridize(f) if hybridized else f)(x)
    assert bool((out.asnumpy() >= 100).any()) is SHARES[text]


def test_an_array_names_its_dtype() -> None:
    x, half = nd.arange(6), nd.ones((2,), dtype="float16")
    assert x.astype(half).dtype == nd.cast(x, half).dtype == nd.zeros((2,),
                                                                      dtype=half).dtype == x.astype(
            half.asnumpy()).dtype == onp.float16
    assert mx.hybridize(lambda a, b: a.astype(b, copy=False) * 2)(x, half).dtype == onp.float16
    with pytest.raises(mx.errors.DTypeError, match="names no dtype"):
        x.astype(object())
