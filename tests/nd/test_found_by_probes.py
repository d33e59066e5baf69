"""Single answers that differed from MXNet's, or between eager and compiled calls."""
from __future__ import annotations

import threading

import numpy as np
import pytest

from hybrid import AttrScope, MXNetError, autograd, cpu, current_context, hybridize, nd, sym
from hybrid import np as hnp
from hybrid.base.device import Context
from hybrid.base.names import NameManager, Prefix
from hybrid.contrib import text


@pytest.mark.parametrize("how", [lambda f: f, hybridize])
@pytest.mark.parametrize("change,factor", [(lambda y, x: nd.elemwise_mul(y, y, out=y), 2.),
                                           (lambda y, x: nd.sgd_update(y, x, out=y, lr=.5), .5)])
def test_a_result_written_over_its_recorded_input_has_its_gradient(how, change, factor):
    def f(x):
        y = x * 1
        change(y, x)
        return y
    x = nd.ones((3,))
    x.attach_grad()
    with autograd.record():
        y = how(f)(x)
    y.backward()
    assert y.asnumpy().tolist() == [1. if factor == 2 else .5] * 3
    assert x.grad.asnumpy().tolist() == [factor] * 3


@pytest.mark.parametrize("how", [lambda f: f, hybridize])
def test_traced_code_that_asks_for_numpys_rules_has_them(how):
    count = how(lambda x: (x.as_np_ndarray() > 1).sum())
    both = how(lambda x: (x > 1) + (x.as_np_ndarray() > 1).sum().astype("float32").as_nd_ndarray())
    for scale in (1, 2):
        x = nd.array([1., 2., 3.]) * scale
        found = count(x)
        assert type(found) is hnp.ndarray and found.dtype == np.int64 and int(found) == 1 + scale
        assert type(both(x)) is nd.NDArray and both(x).asnumpy().tolist() == [(scale * v > 1) + 1 + scale
                                                                             for v in (1, 2, 3)]


def test_copying_an_array_into_itself_does_nothing():
    x = nd.ones((2,))
    with pytest.warns(UserWarning, match="given itself"):
        assert x.copyto(x) is False


def test_clip_needs_a_limit():
    with pytest.raises(ValueError, match="needs a limit"):
        nd.clip(nd.ones(2))


def test_dtypes_are_inferred_backward_through_operators_that_keep_them():
    a, b = sym.var("a"), sym.var("b")
    for dtype in (np.float16, np.float64):
        assert (a + b * 2).infer_type(a=dtype) == ([dtype, dtype], [dtype], [])
        layer = sym.FullyConnected(sym.exp(a), num_hidden=2, name="f")
        assert layer.infer_type(f_weight=dtype) == ([dtype] * 3, [dtype], [])
    assert (sym.Cast(a, "float32") + b).infer_type(b="float32") == (None, None, None)


def test_tests_for_numbers_that_are_not_finite_keep_the_dtype():
    for dtype in ("float16", "float64", "int32", "uint8"):
        x = nd.array([0, 1], dtype=dtype)
        for test in (nd.contrib.isnan, nd.contrib.isinf, nd.contrib.isfinite):
            assert test(x).dtype == np.dtype(dtype)
            assert hybridize(lambda x, test=test: test(x))(x).dtype == np.dtype(dtype)


def test_an_element_is_set_by_a_list_of_one():
    x = nd.zeros((2, 2))
    x[1, 0] = [7]
    x[0] = [[2]]
    assert x.asnumpy().tolist() == [[2, 2], [7, 0]]


@pytest.mark.parametrize("call", [lambda: hnp.take(hnp.ones(3), hnp.array([7])), lambda: hnp.delete(hnp.ones(3), 7),
                                  lambda: hnp.insert(hnp.ones(3), 7, 1.)])
def test_indices_out_of_range_are_mxnets_errors_and_numpys(call):
    for kind in (IndexError, MXNetError):
        with pytest.raises(kind, match="7 is out of range"):
            call()


def test_files_of_published_vectors_are_listed():
    names = text.embedding.get_pretrained_file_names()
    assert {k: len(v) for k, v in names.items()} == {"glove": 10, "fasttext": 327}
    assert text.embedding.get_pretrained_file_names("glove")[1] == "glove.6B.50d.txt"
    assert {"crawl-300d-2M.vec", "wiki-news-300d-1M.vec", "wiki.zu.vec"} < set(names["fasttext"])
    with pytest.raises(KeyError, match="no embedding 'word' is registered"):
        text.embedding.get_pretrained_file_names("word")


def test_the_backends_of_mxnets_cpu_builds_leave_a_symbol_as_it_is():
    x = sym.var("x")
    assert x.get_backend_symbol("MKLDNN") is x


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("how", [lambda f: f, hybridize])
def test_padding_longer_than_the_axis_mirrors_again(mode, n, how):
    a = np.arange(n * 2.).reshape(n, 2)
    for width in ((0, 7), (9, 1), (4, 11), (30, 30)):
        pad = how(lambda x: hnp.pad(x, (width, (0, 0)), mode))                        # noqa: B023
        period = max(2 * (n - 1), 1) if mode == "reflect" else 2 * n                    # NumPy before 1.25 differs
        at = np.arange(-width[0], n + width[1]) % period
        at = np.minimum(at, period - at) if mode == "reflect" else np.minimum(at, period - 1 - at)
        assert pad(hnp.array(a)).asnumpy().tolist() == a[at].tolist()


@pytest.mark.parametrize("how", [lambda f: f, hybridize])
@pytest.mark.parametrize("name,shapes,result", [
    ("inv", [(0, 0)], (0, 0)), ("inv", [(0, 1, 1)], (0, 1, 1)), ("cholesky", [(1, 0, 0)], (1, 0, 0)),
    ("cholesky", [(0, 2, 2)], (0, 2, 2)), ("solve", [(0, 0), (0,)], (0,)), ("solve", [(0, 0), (0, 1)], (0, 1)),
    ("tensorsolve", [(1, 1), (1, 1)], (1, 1))])
def test_matrices_without_elements_are_solved(how, name, shapes, result):
    arrays = [hnp.ones(s) for s in shapes]
    assert how(lambda *x: getattr(hnp.linalg, name)(*x))(*arrays).shape == result     # MXNet's shape


@pytest.mark.parametrize("how", [lambda f: f, hybridize])
@pytest.mark.parametrize("gamma,total,slopes,back", [                                 # MXNet's numbers
    ([.1, .2, .3], 5.287, [-3.4783, -2.087, -.6957], 14.4),
    ([[.1, .2, .3], [.4, .5, .6]], 5.287, [[-3.4783, -2.087, -.6957], [0, 0, 0]], 14.4),
    ([[.1, .2, .3]], 5.287, [[-3.4783, -2.087, -.6957]], 14.4), ([.5], 3.1304, [-6.2609], 18.),
    ([[.1], [.2]], 5.6348, [[-6.2609], [0]], 13.2)])
def test_slopes_of_prelu_stand_for_channels_and_images(how, gamma, total, slopes, back):
    x, gamma = nd.array(np.linspace(-1, 1, 24).reshape(2, 3, 2, 2)), nd.array(gamma)
    x.attach_grad()
    gamma.attach_grad()
    with autograd.record():
        y = how(lambda x, g: nd.LeakyReLU(x, g, act_type="prelu"))(x, gamma)
    y.backward()
    np.testing.assert_allclose(y.asnumpy().sum(), total, rtol=1e-4)
    np.testing.assert_allclose(gamma.grad.asnumpy(), slopes, rtol=1e-4)
    np.testing.assert_allclose(x.grad.asnumpy().sum(), back, rtol=1e-4)


@pytest.mark.parametrize("how", [lambda f: f, hybridize])
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "nansum"])
def test_sums_in_a_narrower_dtype_are_rounded_once(how, name):
    x = np.random.RandomState(0).uniform(0, 1, (7, 1001)).astype(np.float32)
    found = how(lambda v: getattr(hnp, name)(v, axis=1, dtype="float16"))(hnp.array(x)).asnumpy()
    exact = getattr(np, name)(x.astype(np.float64), axis=1)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, exact, rtol=2**-11 + 1e-5)                      # half a step of float16


def test_errors_of_ufunc_options_are_those_of_numpy():
    x = hnp.ones((2,))
    for function in (hnp.exp, hnp.add, hnp.bitwise_not):
        args = (x, x) if function is hnp.add else (x.astype("int32"),)
        for bad in ({"dtype": "abcdefg"}, {"casting": "mxnet"}):
            with pytest.raises(TypeError):
                function(*args, **bad)
        for legal in ({"where": False}, {"dtype": np.int8}, {"casting": "safe"}, {"order": "C"}, {"subok": False}):
            with pytest.raises(NotImplementedError):
                function(*args, **legal)


@pytest.mark.parametrize("axis", [0, -1, None])
def test_an_array_without_axes_is_squeezed_to_itself(axis):
    assert hnp.squeeze(hnp.array(2.), axis).shape == np.squeeze(np.array(2.), axis).shape == ()


@pytest.mark.parametrize("by_value", [False, True])
def test_what_is_current_can_be_assigned_for_a_thread(by_value):
    def assign(cls, name, new):
        if by_value:
            getattr(cls, {"default_ctx": "_default_ctx"}.get(name, "_current")).value = new
        else:
            setattr(cls, name, new)
    found = []

    def work():
        assign(Context, "default_ctx", cpu(3))
        assign(AttrScope, "current", AttrScope(mood="a"))
        assign(NameManager, "current", Prefix("own_"))
        found.extend([nd.ones((1,)).ctx, sym.var("x").attr("mood"), sym.relu(sym.var("x")).name, Context.default_ctx])
        with cpu(5):
            assign(Context, "default_ctx", cpu(6))
            found.append(nd.ones((1,)).ctx)
        found.append(current_context())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [cpu(3), "a", "own_relu0", cpu(3), cpu(6), cpu(3)]
    assert Context.default_ctx == current_context() == cpu(0)                         # this thread's own
    assert sym.var("x").attr("mood") is None and not sym.relu(sym.var("x")).name.startswith("own_")
