"""mx.test_utils: checks pass where they should and fail, with the place named, where they should."""
from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import HybridError, nd, sym
from hybrid import test_utils as t
from hybrid.gluon import nn
from hybrid.test_utils.statistics import chi_square_tail


def test_tolerances_are_those_of_the_coarser_dtype() -> None:
    x = np.ones(3)
    t.assert_almost_equal(x.astype("float16"), x + 0.05)
    t.assert_almost_equal(x.astype("float32"), x + 0.0005)
    for a, b in ((x, x + 0.0005), (x.astype("int32"), x.astype("int32") + 1), (x, x * np.nan)):
        with pytest.raises(AssertionError, match="Location of maximum error"):
            t.assert_almost_equal(a, b)
    assert t.get_tols(x.astype("float32"), x, {np.float64: 0.5}, None) == (0.5, 1e-3)
    t.assert_almost_equal(x * np.nan, x * np.nan, equal_nan=True)
    t.assert_almost_equal(nd.ones((2, 3)), 1.0)
    with pytest.raises(AssertionError, match="not equal"):
        t.assert_almost_equal(x, x[:2])
    with pytest.raises(AssertionError, match="not equal"):
        t.assert_almost_equal(nd.ones((2, 3)), nd.ones((3,)), use_broadcast=False)


def test_the_largest_difference_is_named() -> None:
    a = np.zeros((2, 3))
    b = a.copy()
    b[1, 2], b[0, 1] = 5, np.inf
    with pytest.raises(AssertionError,
                       match=r"mismatch 33\.3.*\n.*maximum error: \(0, 1\), x=0.*y=inf\nand: \(1, 2\), x=0.0+, y=5.0"):
        t.assert_almost_equal(a, b, names=("x", "y"))
    t.assert_almost_equal_with_err(a, b, rtol=1e-3, atol=1e-3, etol=0.4)
    with pytest.raises(AssertionError):
        t.assert_almost_equal_with_err(a, b, rtol=1e-3, atol=1e-3, etol=0.3)
    t.assert_almost_equal_ignore_nan([1, np.nan], [1, 2])
    t.assert_exception(int, ValueError, "x")
    with pytest.raises(AssertionError, match="raised no ValueError"):
        t.assert_exception(int, ValueError, "1")


GRADIENTS = {
    "tanh": (lambda x: sym.tanh(x), True),
    "cut": (lambda x: sym.BlockGrad(x) * x, False),
    "special": (lambda x: sym.sum(sym.square(x)), True),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", GRADIENTS)
def test_numeric_gradient(case: str, dtype: str) -> None:
    make, right = GRADIENTS[case]
    point = {"x": np.array([[0.3, -1.2], [0.7, 0.4]])}

    def check() -> None:
        t.check_numeric_gradient(make(sym.var("x")), point, dtype=np.dtype(dtype).type, rtol=1e-2, atol=1e-3)
    if right:
        check()
    else:
        with pytest.raises(AssertionError, match="NUMERICAL_x=.*BACKWARD_x="):
            check()


def test_numeric_gradient_with_states_and_requests() -> None:
    x = sym.BatchNorm(sym.var("data"), name="bn", fix_gamma=False)
    point = {"data": np.random.RandomState(0).randn(4, 2), "bn_gamma": np.array([1.5, 0.5]),
             "bn_beta": np.array([0.1, 0.2])}
    states = {"bn_moving_mean": np.zeros(2), "bn_moving_var": np.ones(2)}
    t.check_numeric_gradient(x, point, states, grad_nodes={"data": "write", "bn_gamma": "add"}, dtype=np.float64,
                             rtol=1e-3, atol=1e-6)
    with pytest.raises(ValueError, match="do not match"):
        t.check_numeric_gradient(x, {"data": point["data"]})


def test_symbolic_checks() -> None:
    a, b = sym.var("a"), sym.var("b")
    x, y = np.array([1., 2.]), np.array([3., 5.])
    out = a * b
    assert t.check_symbolic_forward(out, {"a": x, "b": y}, [x * y])[0].shape == (2,)
    with pytest.raises(AssertionError, match="EXPECTED_.*FORWARD_"):
        t.check_symbolic_forward(out, [x, y], [x * y + 1])
    for req in ("write", "add", "null"):
        t.check_symbolic_backward(out, [x, y], [np.ones(2)], {"a": y, "b": x}, grad_req=req)
    with pytest.raises(AssertionError, match="BACKWARD_a"):
        t.check_symbolic_backward(out, [x, y], {out.list_outputs()[0]: np.ones(2)}, [x, x])
    assert t.check_symbolic_backward(out, [x, y], [np.ones(2)], [y, x],
                                     grad_stypes={"a": "row_sparse"})["a"].stype == "row_sparse"
    assert t.simple_forward(out, a=x, b=y).tolist() == [3, 10] and t.check_speed(out, N=2, a=(2,), b=(2,)) > 0
    assert t.same_symbol_structure(out, sym.var("c") * sym.var("d")) and not t.same_symbol_structure(out, a + b)


def test_consistency_of_dtypes() -> None:
    x = sym.Activation(sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc"), act_type="tanh")
    options = [{"ctx": mx.cpu(), "data": (2, 4), "type_dict": {"data": d}}
               for d in (np.float64, np.float32, np.float16)]
    truth = t.check_consistency(x, options)
    assert truth["data"].dtype == np.float64 and set(truth) >= {"fc_weight", "fc_bias", "data"}
    other = sym.FullyConnected(sym.var("data"), num_hidden=3, name="fc") * 2
    with pytest.raises(AssertionError, match="of 1.*of 0"):
        t.check_consistency(other, options[:2], ground_truth={other.list_outputs()[0]: nd.ones((2, 3))},
                            grad_req="null")


def test_hybridize_consistency() -> None:
    good: Any = lambda prefix: nn.Dense(3, in_units=4, activation="relu", prefix=prefix)
    data = [mx.np.array(np.random.RandomState(0).randn(2, 4))]
    t.check_gluon_hybridize_consistency(good, data)
    with pytest.raises(AssertionError):
        t.check_gluon_hybridize_consistency(good, data, numpy_func=lambda x: x[:, :3] + 100)


def test_optimizers_are_compared() -> None:
    make: Any = mx.optimizer.create
    t.compare_optimizer(make("sgd", momentum=0.9), make("sgd", momentum=0.9), (3, 4), "float32")
    with pytest.raises(AssertionError):
        t.compare_optimizer(make("sgd", learning_rate=0.1), make("sgd", learning_rate=0.2), [(3, 4), (2,)], "float32")


def test_an_optimizer_of_several_tensors_is_compared() -> None:
    """The second one updates all tensors in one call."""
    class Both(mx.optimizer.SGD):                                    # type: ignore[misc]
        calls = 0

        def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            self.calls += 1
            super().update_multi_precision(index, weight, grad, state)
    one, several = Both(learning_rate=0.1), Both(learning_rate=0.1)
    t.compare_optimizer(one, several, [(3, 4), (2,)], "float32", ntensors=2)
    assert (one.calls, several.calls) == (2, 1)


def test_chi_square() -> None:
    # from scipy.stats.chi2.sf
    for x, freedom, p in ((3.841458821, 1, 0.05), (18.307038, 10, 0.05), (100, 50, 3.4549313829848695e-05),
                          (1, 9, 0.9994375027)):
        assert abs(chi_square_tail(x, freedom) / p - 1) < 1e-6
    mx.random.seed(3)
    buckets, probs = t.gen_buckets_probs_with_ppf(lambda q: q * 2 - 1, 5)
    draw: Any = lambda n: nd.random.uniform(-1, 1, shape=(n,))
    t.verify_generator(draw, buckets, probs, nsamples=20000)
    with pytest.raises(AssertionError, match="Chi-square"):
        t.verify_generator(lambda n: nd.random.uniform(-1, 0.9, shape=(n,)), buckets, probs, nsamples=20000)
    t.verify_generator(lambda n: nd.random.randint(0, 3, shape=(n,)), [0, 1, 2], [1 / 3] * 3, nsamples=20000)
    assert t.mean_check(draw, 0, 3**-0.5, 20000) and not t.mean_check(draw, 0.1, 3**-0.5, 20000)
    assert t.var_check(lambda n: nd.random.normal(0, 2, shape=(n,)), 2, 20000)


def test_arrays() -> None:
    assert (t.rand_ndarray((2, 3)).shape == (2, 3) and len(t.rand_shape_nd(3)) == 3
            and t.random_arrays((2,), ()) [0].shape == (2,))
    for stype in ("csr", "row_sparse"):
        x, parts = t.rand_sparse_ndarray((4, 6), stype, density=0.5)
        assert x.stype == t.rand_ndarray((2, 3),
                                         stype).stype == stype and (x.data
                                                                    == parts[-1 if stype == "csr"
                else 0]).asnumpy().all()
        assert (t.create_sparse_array((3, 2), stype, data_init=2,
                                      density=1).asnumpy() == 2).all() and not t.create_sparse_array_zd((3, 2), stype,
                0).data.size
    x = t.rand_sparse_ndarray((5, 16), "csr", 0.5, distribution="powerlaw")[0]
    assert x.indptr.asnumpy().tolist() == [0, 2, 6, 14, 30,
                                           40] and (t.shuffle_csr_column_indices(x).asnumpy() == x.asnumpy()).all()
    with pytest.raises(HybridError, match="two elements"):
        t.rand_sparse_ndarray((8, 4), "csr", 0.3, distribution="powerlaw")
    for name in ("sgd", "adam"):                                     # the first one's weight and gradient are dense
        t.compare_optimizer(*(mx.optimizer.create(name, learning_rate=0.1) for _ in "ab"), (4, 3), "float32",
                            "row_sparse", "row_sparse")
    x = np.arange(24.).reshape(2, 3, 4)
    assert t.same(t.np_reduce(x, (0, 2), True, np.sum),
                  x.sum((0, 2), keepdims=True)) and t.same(t.collapse_sum_like(x, (3, 1)), x.sum((0, 2)).reshape(3, 1))
    assert t.create_2d_tensor(2, 3).asnumpy().tolist() == [[0] * 3,
                                                           [1] * 3] and sorted(t.random_sample([1, 2, 3], 3)) == [1, 2,
            3]
    q = t.new_orthonormal_matrix_2d(4)
    assert (np.allclose(q @ q.T, np.eye(4)) and np.isreal(np.linalg.eigvals(t.new_matrix_with_real_eigvals_nd((2, 3, 3)))).all())  # noqa: E501
    a = nd.ones((3,))
    assert t.same_array(a, a[:]) and not t.same_array(a, a.copy()) and a.asnumpy().tolist() == [1, 1, 1]


def test_environment_and_retry() -> None:
    before = dict(os.environ)
    with t.environment("HYBRID_SOMETHING", "1"), t.environment({"PATH": None, "HYBRID_OTHER": "2"}):
        assert os.environ["HYBRID_SOMETHING"] == "1" and "PATH" not in os.environ and os.environ["HYBRID_OTHER"] == "2"
    assert dict(os.environ) == before
    with pytest.raises(HybridError, match="a name and a value"):
        t.environment("x").__enter__()
    calls = []

    @t.retry(3)
    def sometimes() -> str:
        calls.append(1)
        assert len(calls) == 3
        return "done"
    assert sometimes() == "done" and len(calls) == 3
    code = ("import os, sys\nfrom hybrid import test_utils as t\nwith t.discard_stderr():\n    os.write(2, b'lost')\n "
            "   print('lost too', file=sys.stderr)\nos.write(2, b'kept')")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == "kept"


def test_default_context_of_a_thread() -> None:
    code = ("import hybrid as mx; mx.test_utils.set_default_context(mx.cpu(3)); print(mx.current_context(), "
            "mx.nd.ones((1,)).context)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True,
                          text=True).stdout.strip() == "cpu(3) cpu(3)"


def test_mnist_from_its_files(tmp_path: Path) -> None:
    for part, n in (("train", 12), ("t10k", 5)):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(b"\0\0\x08\3"
                                                             + struct.pack(">3I", n, 28, 28) + bytes([255] * n * 784))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\1"
                                                             + struct.pack(">I", n) + bytes(i % 10 for i in range(n)))
    data = t.get_mnist(str(tmp_path))
    assert data["train_data"].shape == (12, 1, 28,
                                        28) and data["train_data"].max() == 1 and data["test_label"].tolist() == [0, 1, 2, 3, 4]  # noqa: E501
    train, test = t.get_mnist_iterator(4, (784,), path=str(tmp_path))
    assert [b.data[0].shape for b in train] == [(4, 784)] * 3 and next(t.DummyIter(test)).data[0].shape == (4, 784)
