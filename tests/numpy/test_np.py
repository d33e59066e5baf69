"""``np`` and ``npx``: NumPy's rules on our arrays, NumPy's own functions where no operator exists."""
from __future__ import annotations

import json

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, np, npx

from ..paths import DATA

X = np.arange(12).reshape(3, 4)


def test_arrays_look_like_numpys():
    with mx.cpu():
        assert repr(np.array([1, 2, 3])) == "array([1., 2., 3.])"
    assert str(np.array([1, 2])) == "[1. 2.]" and repr(np.array([1, 2],
                                                                dtype="int32")).startswith("array([1, 2], dtype=int32")
    assert X.dtype == "float32" and isinstance(X.dtype,
                                               onp.dtype) and (X > 3).dtype == "bool" and X[0, 1].shape == () and X.sum().shape == ()  # noqa: E501
    assert (np.array(5).item() == 5 and float(np.array(3)) == 3 and np.newaxis is None and np.float32 is onp.float32
            and np.uint16 is onp.uint16)


NUMPY = [
    ("unique", lambda m: m.unique(m.array([3, 1, 3], dtype="float32"))),
    ("nonzero", lambda m: m.nonzero(m.array([0, 1, 2], dtype="float32"))),
    ("percentile", lambda m: m.percentile(m.arange(5, dtype="float64"), 50)),
    ("argwhere", lambda m: m.argwhere(m.array([[0, 1], [2, 0]], dtype="float32"))),
    ("bincount", lambda m: m.bincount(m.array([0, 1, 1], dtype="int64"))),
    ("einsum", lambda m: m.einsum("ij,kj->ik", m.ones((2, 3), dtype="float32"), m.ones((4, 3), dtype="float32"))),
    ("maximum", lambda m: m.maximum(m.array([1, 5], dtype="float32"), 2)),
    ("maximum of numbers", lambda m: m.maximum(1, 2)),
    ("sqrt of a number", lambda m: m.sqrt(4)),
    ("norm", lambda m: m.linalg.norm(m.ones((2, 2), dtype="float32"))),
    ("eigvalsh", lambda m: m.linalg.eigvalsh(m.array([[2, 0], [0, 3]], dtype="float32"))),
    ("meshgrid", lambda m: m.meshgrid(m.arange(2, dtype="float32"), m.arange(3, dtype="float32"))),
    ("floor divide", lambda m: m.array([5, 3], dtype="int32") // 2),
    ("divide", lambda m: (m.array([5, 3], dtype="int32") / 2).astype("float32")),
    ("mixed integers", lambda m: m.array([1, 2], dtype="int64") + m.array([1, 2], dtype="int32")),
    ("argmax", lambda m: m.argmax(m.array([[1, 3], [4, 2]], dtype="float32"), axis=1)),
]


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    value = value.asnumpy() if isinstance(value, nd.NDArray) else value
    return str(onp.asarray(value).dtype), onp.asarray(value).tolist()


@pytest.mark.parametrize("call", [row[1] for row in NUMPY], ids=[row[0].replace(" ", "-") for row in NUMPY])
def test_functions_as_numpy(call):
    assert plain(call(np)) == plain(call(onp))


def test_numpys_own_functions_give_arrays_here():
    found = np.unique(np.array([3, 1, 3]))
    assert type(found) is np.ndarray and type(np.nonzero(X)[0]) is np.ndarray and found.context == mx.current_context()
    for space, name, told in ((np, "softmax", "nor has NumPy .*; here it is hybrid.npx.softmax or hybrid.nd.softmax"),
                              (np, "zeross", r"nor has NumPy .* \(nearest: zeros\)"),
                              (np, "r_", "write numpy.r_, outside"),
                              (np.random, "default_rng", "write numpy.random.default_rng, outside"),
                              (np.random, "nrmal", r"\(nearest: normal\)")):
        with pytest.raises(AttributeError, match=f"has no '{name}'.*{told}"):
            getattr(space, name)
    with pytest.raises(AttributeError, match="hybrid.np has no 'nosuch', nor has NumPy"):
        np.nosuch                                            # noqa: B018
    for name in ("testing", "ndenumerate", "_core"):
        with pytest.raises(AttributeError):
            getattr(np, name)
    with pytest.raises(mx.errors.TraceError,
                       match=r"test_np.py:\d+: np.i0 is NumPy's own function, which cannot be compiled"):
        mx.hybridize(lambda x: np.i0(x))(X)
    x = np.ones((3,))
    x.attach_grad()
    with autograd.record(), pytest.raises(mx.errors.HybridError, match="no gradient flows"):
        np.i0(x * 2)
    assert mx.hybridize(lambda x: x + np.unique([1, 1]))(np.ones((2,))).tolist() == [2, 2]


def test_random():
    mx.random.seed(4)
    a = [np.random.choice(100, 5).tolist(), np.random.permutation(6).tolist(),
         np.random.multinomial(20, [0.5, 0.5]).tolist(), np.random.gamma(2.0, size=(3,)).tolist()]
    mx.random.seed(4)
    b = [np.random.choice(100, 5).tolist(), np.random.permutation(6).tolist(),
         np.random.multinomial(20, [0.5, 0.5]).tolist(), np.random.gamma(2.0, size=(3,)).tolist()]
    assert a == b and sorted(a[1]) == list(range(6)) and sum(a[2]) == 20
    x = np.arange(10)
    np.random.shuffle(x)
    assert sorted(x.tolist()) == list(range(10))
    assert np.random.uniform(size=(2, 3)).shape == (2,
                                                    3) and np.random.normal().shape == () and np.random.randint(0, 5,
            size=(3,)).dtype == "int64"
    with pytest.raises(mx.errors.TraceError, match="same numbers at every call"):
        mx.hybridize(lambda x: x + np.random.choice(5, 10))(x)
    with pytest.raises(AttributeError, match="np.random has no 'nosuch'"):
        np.random.nosuch                                     # noqa: B018


def test_gluon_under_numpys_rules():
    npx.set_np()
    try:
        net = gluon.nn.Dense(2)
        assert net.weight.shape == (2, -1)
        net.initialize()
        for _ in range(2):
            out = net(np.ones((2, 3)))
            assert type(out) is np.ndarray and type(net.weight.data()) is np.ndarray and net.weight.shape == (2, 3)
            net.hybridize()
    finally:
        npx.reset_np()
    assert gluon.nn.Dense(2).weight.shape == (2, 0) and not npx.is_np_array()


VALUES = json.loads((DATA / "np_values.json").read_text())
ON_PURPOSE = {"np.average(np.arange(6).reshape(2,3),axis=1,weights=np.array([1.,2.,3.]),returned=True)": "NumPy gives "
        "the weights' sum for each mean",
              "np.rint(np.array([1.5]))": "MXNet rounds a half down, NumPy to even",
              "np.array([1,2],dtype='int32')*2.5": "MXNet cuts the factor to an integer, NumPy promotes"}


def _recorded(value):
    if isinstance(value, (list, tuple)):
        return [_recorded(v) for v in value]
    value = value.asnumpy() if isinstance(value, nd.NDArray) else value
    return [str(value.dtype), list(value.shape), onp.asarray(value).tolist()] if hasattr(value, "dtype") else value


def _close(got, want):
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(_close, got, want))
    if isinstance(want, float):
        return isinstance(got, (int, float)) and (got == pytest.approx(want, rel=1e-5, abs=1e-6) or got != got
                                                  and want != want)
    return type(got) is type(want) and got == want


@pytest.mark.parametrize("number", range(len(VALUES)),
                         ids=[f"{k}-{''.join(c if c.isalnum() else '_' for c in text)[:40]}"
                              for k, (text, _) in enumerate(VALUES)])
def test_values_as_mxnets(number):
    text, want = VALUES[number]
    npx.set_np()
    try:
        got = _recorded(eval(text, {"np": np, "npx": npx, "nd": nd}))
    finally:
        npx.reset_np()
    assert _close(got, want) != (text in ON_PURPOSE), f"{text}: {got}, MXNet has {want}"


def test_zero_sizes_and_zero_dims_hybridized():
    f = mx.hybridize(lambda x: (x * 2).sum(axis=0) + np.ones(()))
    for x in (np.zeros((0, 3)), np.ones((2, 3)), np.ones((2, 0))):
        assert f(x).tolist() == ((x * 2).sum(axis=0) + 1).tolist() and f(x).shape == x.shape[1:]
    g = mx.hybridize(lambda x: np.linalg.det(x) + x.flatten()[0])
    x = np.array([[2.0, 0.0], [0.0, 4.0]])
    x.attach_grad()
    for call in (g, lambda x: np.linalg.det(x) + x.flatten()[0]):
        with autograd.record():
            y = call(x)
        y.backward()
        assert y.shape == () and y.item() == 10 and x.grad.tolist() == [[5, 0], [0, 2]]
    with pytest.raises(TypeError, match="the condition alone"):
        np.where(x > 1, x)


def test_switches():
    @mx.util.use_np
    def inside():
        return npx.is_np_array(), npx.is_np_shape()
    assert (inside() == (True, True) and mx.util.use_np_shape(lambda: npx.is_np_array())() is False
            and not npx.is_np_array())
    with mx.util.np_shape(), mx.util.np_array():
        assert npx.is_np_array() and npx.is_np_shape()
    with pytest.raises(ZeroDivisionError), mx.util.np_array():
        1 / 0                                                # noqa: B018
    assert mx.util.set_np_shape(True) is False and mx.util.set_np_shape(False) is True and not npx.is_np_array()

    @mx.util.use_np
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.np.exp(x)
    assert type(Net()(np.zeros(2))) is np.ndarray
    with pytest.raises(TypeError, match="use_np can only decorate"):
        mx.util.use_np(3)
    with pytest.raises(ValueError, match="needs shape=True"):
        npx.set_np(shape=False)


N = (4000,)
RANDOM = {"uniform": lambda: np.random.uniform(-1, 3, size=N), "normal": lambda: np.random.normal(2, 3, size=N),
          "randint": lambda: np.random.randint(2, 9, size=N),
          "gamma": lambda: np.random.gamma(2.0, 1.5, size=N),
          "exponential": lambda: np.random.exponential(2.0, size=N), "beta": lambda: np.random.beta(2.0, 3.0, size=N),
          "chisquare": lambda: np.random.chisquare(3.0, size=N), "laplace": lambda: np.random.laplace(1.0, 2.0, size=N),
          "gumbel": lambda: np.random.gumbel(1.0, 2.0, size=N),
          "choice": lambda: np.random.choice(5, size=N, p=[0.1, 0.2, 0.3, 0.2, 0.2])}
MOMENTS = {"uniform": (1, 4 / 3), "normal": (2, 9), "randint": (5, 4), "gamma": (3, 4.5), "exponential": (2, 4),
           "beta": (0.4, 0.04), "chisquare": (3, 6), "laplace": (1, 8),
           "gumbel": (1 + 2 * 0.5772, 4 * 1.6449), "choice": (2.2, 1.56)}


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_random_moments(name):
    mx.random.seed(11)
    x = RANDOM[name]()
    mean, variance = MOMENTS[name]
    assert type(x) is np.ndarray and x.shape == (4000,) and x.dtype == ("int64" if name in ("randint", "choice")
                                                                        else "float32")
    assert (abs(x.asnumpy().mean() - mean) < 5 * (variance / 4000) ** 0.5
            and abs(x.asnumpy().var() / variance - 1) < 0.25)
    mx.random.seed(11)
    assert RANDOM[name]().tolist() == x.tolist()


def test_old_names_have_numpys_meaning() -> None:
    """msort sorts along the first axis, in1d gives one row, alen is the first axis's length."""
    a = np.array([[3.0, 1, 2], [0, 5, 4]])
    assert np.msort(a).asnumpy().tolist() == [[0, 1, 2], [3, 5, 4]]
    assert np.in1d(a, [1, 5]).asnumpy().tolist() == [False, True, False, False, True, False]
    assert np.in1d(a, np.array([1, 5]), invert=True).asnumpy().tolist() == [True, False, True, True, False, True]
    assert (np.alen(a), np.alen(3.0)) == (2, 1)


def test_numbers_without_axes_have_a_softmax() -> None:
    """As in MXNet: 1, and its logarithm 0."""
    x = np.array(2.5)
    for f in (npx.softmax, mx.hybridize(lambda x: npx.softmax(x))):
        assert f(x).shape == () and f(x).item() == 1
    assert npx.log_softmax(x).item() == 0 and npx.log_softmax(x).shape == ()


def test_trapezoid_under_both_names_whatever_numpy_calls_it() -> None:
    """The integral of rows, also of lists."""
    for integral in (np.trapz, np.trapezoid):
        assert integral(np.array([[1.0, 3], [2, 4]])).asnumpy().tolist() == [2, 3]
        assert float(integral([1, 2, 3], x=[0, 2, 4])) == 8
