"""NumPy mode's edges: scopes and decorators, NumPy's protocols, options, errors, Symbols, draws."""
from __future__ import annotations

import numpy as onp
import pytest

import hybrid as mx
from hybrid import autograd, gluon, np, npx, sym, util
from hybrid.numpy import symbolic


@pytest.fixture
def numpy_rules():
    npx.set_np()
    yield
    npx.reset_np()


def switches():
    return npx.is_np_shape(), npx.is_np_array()


@util.use_np
class Everything:
    kept = switches

    def method(self):
        return switches()

    @property
    def value(self):
        return switches()

    @staticmethod
    def static():
        return switches()

    @classmethod
    def of_class(cls):
        return cls.__name__, switches()


@util.use_np
class Scaled(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = gluon.nn.Dense(3)
        self.scale = self.params.get("scale", shape=(3,), init=mx.init.One())
        self.made_under = switches()

    def hybrid_forward(self, F, x, scale):
        return F.np.multiply(self.dense(x), scale) + F.np.ones((3,))


def test_use_np_on_functions_and_classes():
    assert switches() == (False, False)
    one = Everything()
    assert one.method() == one.value == Everything.static() == (True,
                                                                True) and Everything.of_class() == ("Everything",
            (True, True))
    assert util.use_np(switches)() == (True,
                                       True) and util.use_np_shape(switches)() == (True, False) and util.use_np_array(switches)() == (False, True)  # noqa: E501
    net = Scaled()
    net.initialize(mx.init.One())
    eager = net(np.ones((2, 4)))
    net.hybridize()
    assert (net.made_under == (True, True) and type(eager) is type(net(np.ones((2, 4)))) is np.ndarray
            and eager.tolist() == net(np.ones((2, 4))).tolist() == [[5] * 3] * 2)
    with pytest.raises(ValueError):
        util.use_np(lambda: int("no"))()
    assert switches() == (False, False), "an error leaves the switches as they were"
    with pytest.raises(TypeError, match="use_np can only decorate"):
        util.use_np(3)


def test_numpys_functions_take_our_arrays(numpy_rules):
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    for got, want in ((onp.mean(x, axis=0), [2, 3]), (onp.add(x, 1), [[2, 3], [4, 5]]),
                      (onp.concatenate([x, x]), [[1, 2], [3, 4]] * 2), (onp.exp(x * 0), [[1, 1]] * 2),
                      (onp.linalg.norm(x, axis=0) ** 2, [10, 20]), (onp.ones((2, 2), "float32") + x, [[2, 3], [4, 5]]),
                      (onp.matmul(x, x), [[7, 10], [15, 22]]),
                      (onp.float32(2) * x, [[2, 4], [6, 8]]), (onp.maximum(x, 2), [[2, 2], [3, 4]])):
        assert type(got) is np.ndarray and got.dtype == "float32" and onp.allclose(got.asnumpy(), want)
    out = np.zeros((2, 2))
    assert onp.add(x, x, out=out) is out and out.tolist() == [[2, 4], [6, 8]]
    x.attach_grad()
    with autograd.record():
        y = onp.sum(onp.square(x))
    y.backward()
    assert x.grad.tolist() == [[2, 4], [6, 8]]
    with pytest.raises(TypeError, match="out must be an array of this library"):
        onp.add(x, x, out=onp.zeros((2, 2)))


def test_options_and_errors(numpy_rules):
    x = np.ones((2, 3))
    for options in ({"where": False}, {"dtype": "float64"}, {"order": "F"}):
        with pytest.raises(NotImplementedError, match="is not implemented"):
            np.add(x, 1, **options)
    with pytest.raises(TypeError, match="unexpected argument 'foo'"):
        np.sqrt(x, foo=1)
    assert (np.add(x, 1, where=True, casting="same_kind").tolist() == [[2] * 3] * 2
            and util.np_ufunc_legal_option("where", False) and not util.np_ufunc_legal_option("casting", "x"))
    for call, text in ((lambda: np.split(x, 2, axis=1), "cannot be split into 2 equal parts"),
                       (lambda: np.vsplit(x[0], 1), "needs an array of 2 axes"),
                       (lambda: np.delete(x, 5, axis=1), "out of range"),
                       (lambda: np.insert(x, 9, 1.0, axis=0), "out of range"),
                       (lambda: np.percentile(x, 101), "between 0 and 100"),
                       (lambda: np.random.uniform(np.zeros(3), np.ones(3), size=(2,)), "broadcast"),
                       (lambda: np.linalg.norm(x, "fro", axis=1), "norm of matrices"),
                       (lambda: np.linalg.solve(np.eye(3), np.ones((2, 2))), "needs 3 rows"),
                       (lambda: np.pad(x, -1), "must not be negative"),
                       (lambda: np.random.choice(0), "positive number"),
                       (lambda: np.rot90(x, axes=(0, 0)), "two different"),
                       (lambda: np.take(x, np.array([9]), axis=1), "out of range"),
                       (lambda: npx.constraint_check(np.array([True, False]), "rows must be sorted"),
                        "rows must be sorted")):
        with pytest.raises((ValueError, IndexError), match=text):
            call()
    with pytest.raises(mx.errors.HybridError, match="numpy-financial"):
        np.npv(0.1, 2)


def test_eigenvalues_that_are_complex_are_an_error(numpy_rules):
    with pytest.raises(mx.errors.DTypeError, match="complex"):
        np.linalg.eig(np.array([[0.0, -1.0], [1.0, 0.0]]))


def test_svd_is_a_factorisation_in_programs_too(numpy_rules):
    rng = onp.random.RandomState(0)
    for shape in ((2, 3, 5), (4, 2), (3, 3)):
        x = np.array(rng.randn(*shape))
        for call in (np.linalg.svd, mx.hybridize(lambda a: np.linalg.svd(a))):
            u, s, v = call(x)
            onp.testing.assert_allclose((u.asnumpy() * s.asnumpy()[..., None, :]) @ v.asnumpy(), x.asnumpy(),
                                        rtol=1e-4, atol=1e-5)
            onp.testing.assert_allclose(s.asnumpy(), onp.linalg.svd(x.asnumpy())[1], rtol=1e-5)


def test_insert_takes_values_as_numpy(numpy_rules):
    x, column = onp.arange(6, dtype="float32").reshape(2, 3), onp.array([[8], [9]], dtype="float32")
    for place in (1, [1], onp.array([1]), [0, 2], slice(1, 2), -1):
        for values in (7, column if place != 1 and place != -1
                       else column[:, 0]) if not isinstance(place, onp.ndarray) else (column,):
            want = onp.insert(x, place, values, axis=1)
            given = values if isinstance(values, int) else np.array(values)
            assert np.insert(np.array(x), place, given, axis=1).tolist() == want.tolist(), f"{place} {values}"


def test_nan_to_num_in_place(numpy_rules):
    x = np.array([onp.nan, onp.inf, 1.0])
    assert np.nan_to_num(x, nan=2.0).tolist()[0] == 2 and onp.isnan(x.tolist()[0])
    assert np.nan_to_num(x, copy=False, nan=2.0, posinf=5.0) is x and x.tolist() == [2, 5, 1]


def test_symbols_without_inputs(numpy_rules):
    out = sym.np.arange(3) + sym.var("x").as_np_ndarray() * sym.np.ones((3,))
    assert out.list_arguments() == ["x"] and out.eval(x=np.ones((3,)))[0].tolist() == [1, 2, 3]
    assert isinstance(sym.np.random,
                      symbolic.SymbolSpace) and sym.np.random.normal(size=(2,)).infer_shape()[1] == [(2,)]
    assert sym.npx.relu(sym.var("x")).list_arguments() == ["x"] and "concatenate" in dir(sym.np)


MOMENTS = {                                                  # mean and standard deviation
    "uniform": (lambda m: m.random.uniform(1, 3, size=40000), 2.0, 1 / 3 ** 0.5),
    "normal": (lambda m: m.random.normal(1, 2, size=40000), 1.0, 2.0),
    "exponential": (lambda m: m.random.exponential(2.0, size=40000), 2.0, 2.0),
    "gumbel": (lambda m: m.random.gumbel(1, 2, size=40000), 1 + 2 * 0.57722, 2 * 1.28255),
    "logistic": (lambda m: m.random.logistic(1, 2, size=40000), 1.0, 2 * 1.81380),
    "rayleigh": (lambda m: m.random.rayleigh(2.0, size=40000), 2 * 1.25331, 2 * 0.65514),
    "weibull": (lambda m: m.random.weibull(2.0, size=40000), 0.88623, 0.46325),
    "pareto": (lambda m: m.random.pareto(5.0, size=40000), 0.25, 0.32275),
    "power": (lambda m: m.random.power(2.0, size=40000), 2 / 3, 0.2357),
    "lognormal": (lambda m: m.random.lognormal(0, 0.5, size=40000), 1.13315, 0.60389),
    "laplace": (lambda m: m.random.laplace(1, 2, size=40000), 1.0, 2 * 2 ** 0.5),
    "gamma": (lambda m: m.random.gamma(2.0, 3.0, size=40000), 6.0, 3 * 2 ** 0.5),
    "beta": (lambda m: m.random.beta(2.0, 3.0, size=40000), 0.4, 0.2),
    "chisquare": (lambda m: m.random.chisquare(4.0, size=40000), 4.0, 8 ** 0.5),
    "randint": (lambda m: m.random.randint(0, 10, size=40000), 4.5, 2.8723),
    "bernoulli": (lambda m: npx.random.bernoulli(0.3, size=40000), 0.3, 0.45826),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_draws_have_their_mean_and_deviation(name, numpy_rules):
    draw, mean, deviation = MOMENTS[name]
    mx.random.seed(11)
    x = draw(np).asnumpy().astype("float64")
    assert x.shape == (40000,) and onp.isfinite(x).all()
    assert abs(x.mean() - mean) < 5 * deviation / 200 and x.std() == pytest.approx(deviation, rel=0.06)
    program = mx.hybridize(lambda z: draw(np) + z)
    mx.random.seed(11)
    first, second = program(np.zeros(())).asnumpy(), program(np.zeros(())).asnumpy()
    onp.testing.assert_allclose(first, x, rtol=2e-4, atol=2e-5)
    assert (first != second).any(), "a program draws anew at every call"


def test_multivariate_normal_has_its_covariance(numpy_rules):
    cov = onp.array([[2.0, 0.6], [0.6, 1.0]])
    x = np.random.multivariate_normal(np.array([1.0, -1.0]), np.array(cov), size=(30000,)).asnumpy()
    assert onp.allclose(x.mean(0), [1, -1], atol=0.06) and onp.allclose(onp.cov(x.T), cov, atol=0.08)
    assert np.random.multivariate_normal(np.zeros((3, 2)), np.eye(2), size=4).shape == (4, 3, 2)


def test_choice_and_multinomial(numpy_rules):
    assert np.random.choice(np.array([5.0, 7.0]),
                            6).dtype == "float32" and set(np.random.choice(3, 50, p=np.array([0.5, 0.0, 0.5])).tolist()) == {0, 2}  # noqa: E501
    assert sorted(np.random.choice(5, 5,
                                   replace=False).tolist()) == list(range(5)) and np.random.multinomial(9, np.array([0.2, 0.8]), size=3).sum(axis=1).tolist() == [9] * 3  # noqa: E501


def test_numpys_own_functions_read_in_place_and_give_new_arrays():
    x = np.array(onp.arange(6.0).reshape(2, 3))
    for found in (np.real(x), np.ravel(x), np.atleast_3d(x), np.fmax(x, x), np.diagonal(x)):
        before = x.asnumpy()
        found[...] = 99
        onp.testing.assert_array_equal(x.asnumpy(), before)
    raw = onp.arange(4.0)
    np.real(raw)[...] = 99
    assert raw.max() == 3


@pytest.mark.parametrize("name, args, expected", [
    ("fill_diagonal", (7,), [[7, 1, 2], [3, 7, 5]]), ("put", ([0, 5], [8, 9]), [[8, 1, 2], [3, 4, 9]]),
    ("putmask", (onp.arange(6).reshape(2, 3) > 3, 0), [[0, 1, 2], [3, 0, 0]])])
def test_numpys_own_functions_that_write_change_the_array(name, args, expected):
    x = np.array(onp.arange(6.0).reshape(2, 3))
    getattr(np, name)(x, *args)
    onp.testing.assert_array_equal(x.asnumpy(), expected)


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint"])
def test_percentiles_are_the_same_eagerly_and_compiled(method):
    x = np.array(onp.random.RandomState(3).randn(5, 7).astype("float32"))

    def percentiles(x):
        return np.percentile(x, [10, 33, 50, 100], axis=1, interpolation=method), np.median(x)
    for eager, compiled in zip(percentiles(x), mx.hybridize(percentiles)(x)):
        onp.testing.assert_allclose(eager.asnumpy(), compiled.asnumpy(), rtol=1e-6)


def test_a_function_that_writes_needs_its_array() -> None:
    with pytest.raises(TypeError, match="fill_diagonal"):
        np.fill_diagonal()


def test_empty_takes_what_zeros_takes():
    for ctx in (None, "cpu", "cpu(0)", mx.cpu(), mx.cpu(1)):
        assert np.empty((2, 0), ctx=ctx).ctx == np.zeros((2, 0), ctx=ctx).ctx, ctx
        assert np.empty((), "float16", device=ctx).dtype == onp.float16
    with pytest.raises(mx.base.MXNetError, match="negative size"):
        np.empty((-1, 2))
    with pytest.raises(mx.base.MXNetError, match="a shape is"):
        np.empty(None)
