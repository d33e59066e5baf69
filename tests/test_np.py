"""``np`` and ``npx``: NumPy's rules on our arrays, NumPy's own functions where no operator exists."""
from __future__ import annotations

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, np, npx

X = np.arange(12).reshape(3, 4)


def test_arrays_look_like_numpys():
    with mx.cpu():
        assert repr(np.array([1, 2, 3])) == "array([1., 2., 3.])"
    assert str(np.array([1, 2])) == "[1. 2.]" and repr(np.array([1, 2], dtype="int32")).startswith("array([1, 2], dtype=int32")
    assert X.dtype == "float32" and isinstance(X.dtype, onp.dtype) and (X > 3).dtype == "bool" and X[0, 1].shape == () and X.sum().shape == ()
    assert np.array(5).item() == 5 and float(np.array(3)) == 3 and np.newaxis is None and np.float32 is onp.float32 and np.uint16 is onp.uint16


NUMPY = [
    ("unique", lambda m: m.unique(m.array([3, 1, 3], dtype="float32"))),
    ("nonzero", lambda m: m.nonzero(m.array([0, 1, 2], dtype="float32"))),
    ("percentile", lambda m: m.percentile(m.arange(5, dtype="float32"), 50)),
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
    with pytest.raises(AttributeError, match="hybrid.np has no 'nosuch', nor has NumPy"):
        np.nosuch                                            # noqa: B018
    for name in ("testing", "ndenumerate", "_core"):
        with pytest.raises(AttributeError):
            getattr(np, name)
    with pytest.raises(mx.errors.TraceError, match=r"test_np.py:\d+: np.unique is NumPy's own function, which cannot be compiled"):
        mx.hybridize(lambda x: np.unique(x))(X)
    x = np.ones((3,))
    x.attach_grad()
    with autograd.record(), pytest.raises(mx.errors.HybridError, match="no gradient flows"):
        np.unique(x * 2)
    assert mx.hybridize(lambda x: x + np.unique([1, 1]))(np.ones((2,))).tolist() == [2, 2]


def test_random():
    mx.random.seed(4)
    a = [np.random.choice(100, 5).tolist(), np.random.permutation(6).tolist(), np.random.multinomial(20, [0.5, 0.5]).tolist(), np.random.gamma(2.0, size=(3,)).tolist()]
    mx.random.seed(4)
    b = [np.random.choice(100, 5).tolist(), np.random.permutation(6).tolist(), np.random.multinomial(20, [0.5, 0.5]).tolist(), np.random.gamma(2.0, size=(3,)).tolist()]
    assert a == b and sorted(a[1]) == list(range(6)) and sum(a[2]) == 20
    x = np.arange(10)
    np.random.shuffle(x)
    assert sorted(x.tolist()) == list(range(10))
    assert np.random.uniform(size=(2, 3)).shape == (2, 3) and np.random.normal().shape == () and np.random.randint(0, 5, size=(3,)).dtype == "int64"
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
