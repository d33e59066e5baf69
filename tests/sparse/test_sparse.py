"""Sparse arrays beside what MXNet 1.9.1 recorded: storage types, places, values, gradients, updates, files."""
from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base.errors import FileFormatError, HybridError, ShapeError, TraceError
from ..paths import DATA, TESTS

sys.path.insert(0, str(TESTS / "oracle"))
import sparse_cases  # noqa: E402

RECORDED = json.loads((DATA / "sparse.json").read_text())
A = sparse_cases.A


def csr() -> Any:
    return nd.array(A).tostype("csr")


def rows() -> Any:
    return nd.array(A).tostype("row_sparse")


def test_every_case_is_recorded() -> None:
    assert list(RECORDED["cases"]) == sparse_cases.CASES and list(RECORDED["files"]) == list(sparse_cases.FILES)


@pytest.mark.parametrize("text", sparse_cases.EXPRESSIONS, ids=sparse_cases.EXPRESSIONS)
def test_expression(text: str) -> None:
    _compare(text)


@pytest.mark.parametrize("name", list(sparse_cases.OPERATORS))
def test_operator(name: str) -> None:
    """Of every pair of storage types."""
    for text in sparse_cases.OPERATORS[name]:
        _compare(text)


def _compare(text: str) -> None:
    expected = RECORDED["cases"][text]
    with np.errstate(all="ignore"):
        found = sparse_cases.outcome(text, mx)
    for key in ("stype", "dtype", "shape", "indptr", "indices"):
        assert found.get(key) == expected.get(key), (text, key)
    np.testing.assert_allclose(found["values"], expected["values"], rtol=2e-5, atol=2e-6, err_msg=text)


@pytest.mark.parametrize("name", list(sparse_cases.FILES))
def test_files_are_mxnets_byte_for_byte(name: str, tmp_path: Path) -> None:
    given, golden = sparse_cases.FILES[name](mx), base64.b64decode(RECORDED["files"][name])
    nd.save(str(tmp_path / "own.params"), given)
    assert (tmp_path / "own.params").read_bytes() == golden
    found = nd.load_frombuffer(golden)
    pairs = [(found[k], given[k]) for k in given] if isinstance(given,
                                                                dict) else list(zip(found,
            given if isinstance(given, list) else [given]))
    for x, y in pairs:
        assert type(x) is type(y) and x.dtype == y.dtype and (x.asnumpy() == y.asnumpy()).all()
        if x.stype != "default":
            x.check_format()


def test_files_cut_short_or_damaged() -> None:
    golden = base64.b64decode(RECORDED["files"]["csr"])
    for length in range(0, len(golden), 7):
        with pytest.raises(FileFormatError):
            nd.load_frombuffer(golden[:length])
    at = golden.index(np.array([1, 0, 2, 2], "<i8").tobytes())
    with pytest.raises(FileFormatError, match="array 0 is csr"):
        nd.load_frombuffer(golden[:at] + b"\x09" + golden[at + 1:])


# ---- errors
def test_errors_name_what_was_given() -> None:
    c, r, d = csr(), rows(), nd.array(A)
    cases = [
        (lambda: nd.sparse.csr_matrix(([1, 2, 3], [1, 0, 9], [0, 1, 1, 3]), shape=(3, 4)).asnumpy(), HybridError,
         "columns must be from 0 to 3"),
        (lambda: nd.sparse.csr_matrix(([1, 2], [1, 0], [0, 1, 1, 3]), shape=(3, 4)).asnumpy(), HybridError,
         "from 0 to the number of values, 2"),
        (lambda: nd.sparse.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 3]), shape=(3, 4)).asnumpy(), HybridError,
         "indptr must have 4 numbers"),
        (lambda: nd.sparse.csr_matrix(([1], [0.5], [0, 1])), mx.errors.DTypeError, "indices must be integers"),
        (lambda: nd.sparse.csr_matrix(([], [], [0, 0])), ShapeError, "needs a shape"),
        (lambda: nd.sparse.csr_matrix(r), ValueError, "row_sparse"),
        (lambda: nd.sparse.csr_matrix(A, shape=(2, 3)), ShapeError, r"asked for was \(2, 3\)"),
        (lambda: nd.sparse.csr_matrix((1, 2, 3, 4)), ValueError, "a tuple of 4"),
        (lambda: nd.sparse.row_sparse_array(([[1, 2]], [9]), shape=(6, 2)) + 1, HybridError,
         "rows must be from 0 to 5"),
        (lambda: nd.sparse.row_sparse_array(([[1, 2, 3]], [0]), shape=(6, 2)).check_format(), HybridError,
         "need data of shape"),
        (lambda: nd.sparse.csr_matrix(([1, 2], [1, 0], [0, 2]), shape=(1, 2)).check_format(), HybridError,
         "columns must ascend"),
        (lambda: nd.sparse.row_sparse_array(([[1], [2]], [3, 1])).check_format(), HybridError, "rows must ascend"),
        (lambda: nd.sparse.zeros("blocks", (2, 3)), ValueError, "'blocks'; there are default, csr and row_sparse"),
        (lambda: nd.sparse.zeros("csr", (2,)), ShapeError, r"\(M, N\)"),
        (lambda: nd.sparse.array(A), ValueError, "use nd.array"),
        (lambda: nd.ones((2, 2, 2)).tostype("csr"), ShapeError, "2 axes"),
        (lambda: c.tostype("row_sparse"), ValueError, "tostype\\('default'\\)"),
        (lambda: c.__setitem__(0, 1), HybridError, "only x\\[:\\] = value"),
        (lambda: c[0, 1], HybridError, "tostype\\('default'\\)"),
        (lambda: c[7], IndexError, "index 7"), (lambda: c[0:4:2], HybridError, "not supported"),
        (lambda: r[1], HybridError, "retain"),
        (lambda: c.reshape((12,)), HybridError, "reshape"), (lambda: list(r), HybridError, "loop"),
        (lambda: c.copyto(rows()), TypeError, "row_sparse"),
        (lambda: c.__setitem__(slice(None), nd.ones((2, 2))), ShapeError, r"\(2, 2\)"),
        (lambda: r.retain(nd.array([7])), ShapeError, "from 0 to 3"),
        (lambda: nd.sparse.retain(d, nd.array([1])), ValueError, "'default'"),
        (lambda: nd.sparse.dot(c, nd.ones((3,))), ShapeError, "axis of length 1"),
        (lambda: nd.sparse.dot(c, nd.ones((4, 2))), ShapeError, "do not fit"),
        (lambda: nd.sparse.dot(c, nd.ones((3, 2), dtype="float64")), TypeError, "dtypes differ"),
        (lambda: nd.sparse.row_sparse_array(([[1.]], [3]), shape=(2**50, 1)) + 1, ShapeError, "no room in memory"),
        (lambda: nd.sparse.CSRNDArray(3), TypeError, "csr_matrix"),
        (lambda: nd.sparse.no_such, AttributeError, "no_such"),
    ]
    for number, (call, kind, said) in enumerate(cases):
        with pytest.raises(kind, match=said):
            call()
            pytest.fail(f"case {number}")


class Scorer(gluon.HybridBlock):
    """x W."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.params.get("weight", shape=(3, 2))

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:  # noqa: N803
        return F.dot(x, weight)


def test_hybridized_code_says_what_to_do() -> None:
    net = Scorer()
    net.initialize(mx.init.One())
    eager = net(csr()).asnumpy()
    assert eager.tolist() == net(nd.array(A)).asnumpy().tolist() == [[0.5, 0.5], [0, 0], [-0.5, -0.5], [2, 2]]
    net.hybridize()
    assert (net(nd.array(A)).asnumpy() == eager).all()
    assert (net(csr()).asnumpy() == eager).all()                # run as it is written
    for call in (lambda: mx.hybridize(lambda x: x * csr())(nd.array(A)),
                 lambda: mx.hybridize(lambda x: x.tostype("csr"))(nd.array(A)),
                 lambda: mx.hybridize(lambda x: nd.zeros((2, 3), stype="csr"))(nd.array(A))):
        with pytest.raises(TraceError, match=r"test_sparse.py:\d+.*without hybridize"):
            call()
    assert (net(csr().tostype("default")).asnumpy() == eager).all()


def test_functions_of_dense_arrays_are_traced() -> None:
    x, w = nd.array(A), nd.ones((3,))

    def f(x: Any, w: Any) -> Any:
        return nd.sparse.add(nd.sparse.dot(x, w), nd.sparse.multiply(nd.sparse.dot(x, w), 2)).square()
    assert (mx.hybridize(f)(x, w).asnumpy() == f(x, w).asnumpy()).all() and f(x, w).shape == (4,)
    assert nd.sparse.dot(x, nd.ones((3, 2)), forward_stype="row_sparse").indices.asnumpy().tolist() == [0, 2, 3]


# ---- what no recorded case says
def test_products_do_not_make_the_matrix_dense() -> None:
    """A million columns and rows: the dense matrix would take 4 TB."""
    n, places = 1_000_000, np.array([3, 999_999, 17])
    x = nd.sparse.csr_matrix((np.array([1, 2, 3], "float32"), places, np.concatenate([[0, 2, 3], np.full(n - 2, 3)])),
                             shape=(n, n))
    w = nd.ones((n, 2))
    w.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.sparse.dot(x, w)
    y.backward()
    assert y[:3].asnumpy().tolist() == [[3, 3], [3, 3], [0, 0]]
    assert w.grad.indices.asnumpy().tolist() == [3, 17, 999_999] and w.grad.data.asnumpy()[:, 0].tolist() == [1, 3, 2]
    assert nd.sparse.dot(x, y, transpose_a=True).data.asnumpy()[:,
                                                                1].tolist() == [3, 9,
            6] and (x * 2)[0:2].sum().asscalar() == 12
    assert (x.sum().asscalar() == 6 and x.sum(axis=1)[:2].asnumpy().tolist() == [3, 3]
            and x.sum(axis=0, keepdims=True).shape == (1, n) and x.norm().asscalar() > 3.7)
    assert nd.mean(w.grad).asscalar() == np.float32(12 / (2 * n)) and [row.shape for row in x[:2]] == [(1, n)] * 2


def test_places_given_as_pairs_are_added() -> None:
    x = nd.sparse.csr_matrix(([1., 2., 4.], ([2, 0, 2], [1, 2, 1])), shape=(3, 3))
    assert x.asnumpy().tolist() == [[0, 0, 2], [0, 0, 0], [0, 5, 0]] and x.indices.asnumpy().tolist() == [2, 1]


def test_columns_in_any_order() -> None:
    x = nd.sparse.csr_matrix(([1., 2., 3.], [2, 0, 1], [0, 2, 3]), shape=(2, 3))
    dense = np.array([[2, 0, 1], [0, 3, 0]], "float32")
    w = nd.array([[1, 2], [3, 4], [5, 6]])
    assert (x.asnumpy() == dense).all() and (nd.sparse.dot(x, w).asnumpy() == dense @ w.asnumpy()).all()
    assert (nd.sparse.dot(x, nd.ones((2, 2)), transpose_a=True).asnumpy() == dense.T @ np.ones((2, 2))).all()
    assert (((x + x).asnumpy() == 2 * dense).all() and ((x * x).asnumpy() == dense * dense).all()
            and (nd.slice(x, (0, 1), (2, 3)).asnumpy() == dense[:, 1:]).all())


def test_copies_share_nothing() -> None:
    for x in (csr(), rows()):
        before = x.asnumpy()
        for other in (x.copy(), x.astype("float32"), x.tostype(x.stype), x.copyto(mx.cpu())):
            other *= 2
            x.data[:] = 7
            assert (x.asnumpy() == before).all() and (other.asnumpy() == 2 * before).all() and other.stype == x.stype
        again = pickle.loads(pickle.dumps(x))
        assert (type(again) is type(x) and (again.asnumpy() == before).all()
                and repr(x).strip() == f"<{type(x).__name__} 4x3 @cpu(0)>")
        assert (x.shape, x.ndim, x.size, len(x), x.dtype,
                x.itemsize) == ((4, 3), 2, 12, 4, np.float32, 4) and isinstance(x, nd.NDArray)


def test_gradients_are_added() -> None:
    w = nd.ones((3, 2))
    w.attach_grad("add", stype="row_sparse")
    for _ in range(2):
        with autograd.record():
            y = nd.sparse.dot(csr(), w).sum()
        y.backward()
    assert w.grad.stype == "row_sparse" and w.grad.asnumpy()[:, 0].tolist() == [0.5, 1, 2.5]
    w.zero_grad()
    assert not w.grad.asnumpy().any()


def test_gradients_of_gradients() -> None:
    """Of (C w)², once and twice, beside those of the dense product."""
    found = []
    for matrix in (csr(), nd.array(A)):
        w = nd.array([[1, 2], [3, 4], [5, 6]])
        w.attach_grad()
        with autograd.record():
            y = nd.dot(matrix, w)
            g = autograd.grad((y * y * y).sum(), w, create_graph=True)[0]
            (g * g).sum().backward()
        found.append((g.asnumpy(), w.grad.asnumpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5)
    c, w = csr(), nd.ones((3, 2))
    c.attach_grad()
    with autograd.record():
        y = nd.dot(c, w)
        w += 1
    with pytest.raises(HybridError, match="changed in place"):
        y.backward()


def test_scipy_comes_and_goes() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    back = csr().asscipy()
    assert isinstance(back, scipy.csr_matrix) and (back.toarray() == A).all()
    for x in (nd.sparse.csr_matrix(back), nd.array(back.tocsc()), nd.sparse.array(back.tocoo())):
        assert x.stype == "csr" and (x.asnumpy() == A).all() and x.indices.asnumpy().tolist() == [1, 0, 2, 2]


def test_iterators(tmp_path: Path) -> None:
    batches = list(mx.io.NDArrayIter(csr(), nd.arange(4), batch_size=3, last_batch_handle="discard"))
    assert len(batches) == 1 and batches[0].data[0].stype == "default" and (batches[0].data[0].asnumpy() == A[:3]).all()
    (tmp_path / "rows.svm").write_text("1 2:1.5 0:0.5\n-2 0:-1\n3\n")
    it = mx.io.LibSVMIter(str(tmp_path / "rows.svm"), (3,), batch_size=2)
    batch = next(it)
    assert (batch.data[0].stype == "csr" and batch.data[0].indptr.asnumpy().tolist() == [0, 2, 3]
            and batch.data[0].indices.asnumpy().tolist() == [0, 2, 0])
    assert batch.data[0].asnumpy().tolist() == [[0.5, 0, 1.5],
                                                [-1, 0, 0]] and batch.label[0].asnumpy().tolist() == [1, -2]


def test_modules_take_csr_batches() -> None:
    """MXNet's sparse linear model: a Symbol of dense arrays, fed with csr ones."""
    data, weight = mx.sym.Variable("data",
                                   stype="csr"), mx.sym.Variable("weight", stype="row_sparse", shape=(3, 2),
                                                                 init=mx.init.One())
    module = mx.mod.Module(mx.sym.LinearRegressionOutput(mx.sym.sparse.dot(data, weight), mx.sym.Variable("label"),
                                                         name="out"), label_names=["label"])
    module.bind([("data", (4, 3))], [("label", (4, 2))])
    module.init_params()
    module.forward(mx.io.DataBatch([csr()], [nd.zeros((4, 2))]), is_train=False)
    assert module.get_outputs()[0].asnumpy()[:, 0].tolist() == [0.5, 0, -0.5, 2]


def test_a_trained_linear_model_learns() -> None:
    """Logistic regression on csr batches with a row_sparse gradient, as MXNet's sparse tutorial does it."""
    generator = np.random.default_rng(3)
    dense = (generator.random((64, 20)) < 0.2) * generator.normal(size=(64, 20))
    labels = nd.array((dense @ generator.normal(size=20) > 0).astype("float32"))
    x, w = nd.array(dense.astype("float32")).tostype("csr"), nd.zeros((20, 1))
    w.attach_grad(stype="row_sparse")
    optimizer = mx.optimizer.create("adam", learning_rate=0.1)
    state, loss, losses = optimizer.create_state(0, w), gluon.loss.SigmoidBCELoss(), []
    for _ in range(30):
        with autograd.record():
            out = loss(nd.sparse.dot(x, w), labels).mean()
        out.backward()
        optimizer.update(0, w, w.grad, state)
        losses.append(out.asscalar())
    assert losses[-1] < 0.3 * losses[0]


def test_sparse_arrays_load_only_when_asked_for() -> None:
    code = ("import sys, hybrid; hybrid.nd.ones((2,)).tostype('default'); assert 'hybrid.sparse' not in sys.modules; "
            "hybrid.nd.sparse; print('hybrid.sparse' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True).stdout.strip() == "True"


def test_values_of_one_place_in_a_scipy_matrix_are_added() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    given = scipy_sparse.csr_matrix((np.array([5.0, 1.0, 2.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    for x in (nd.sparse.csr_matrix(given), nd.sparse.array(given), nd.array(given)):
        assert x.indices.asnumpy().tolist() == [0, 1] and x.data.asnumpy().tolist() == [2, 6]
    assert given.indices.tolist() == [1, 1, 0]


def test_kinds_of_results_that_mxnet_keeps_sparse() -> None:
    """Recorded from MXNet 1.9.1."""
    ops = nd._internal
    r = nd.array([[0, 0, 0], [1, -2, 3], [4, 0, 1]]).tostype("row_sparse")
    column = ops._square_sum(r, axis=1, keepdims=True)
    assert column.stype == "row_sparse" and column.asnumpy().tolist() == [[0], [14], [17]]
    assert ops._square_sum(r, axis=1).stype == ops._square_sum(r, axis=0, keepdims=True).stype == "default"
    c = r.tostype("default").tostype("csr")
    zero_stays, one_comes = nd.contrib.quadratic(c, a=1, b=2, c=0), nd.contrib.quadratic(c, a=1, b=2, c=1)
    assert (zero_stays.stype, one_comes.stype) == ("csr", "default")
    np.testing.assert_array_equal(zero_stays.asnumpy() + 1, one_comes.asnumpy())


@pytest.mark.parametrize("axis", [0, 1])
def test_a_csr_array_without_values_has_means(axis: int) -> None:
    found = nd.mean(nd.sparse.zeros("csr", (3, 4)), axis=axis)
    assert found.dtype == np.float32 and found.asnumpy().tolist() == [0.0] * (4, 3)[axis]


def test_a_linear_models_bias_may_be_a_column() -> None:
    """Of shape (outputs, 1), as the programs for sparse data have it; its gradient has that shape."""
    rng = np.random.RandomState(0)
    x, w, b = (nd.array(rng.randn(*s)) for s in ((5, 10), (8, 10), (8, 1)))
    b.attach_grad()

    def f(x: nd.NDArray, w: nd.NDArray, b: nd.NDArray) -> nd.NDArray:
        return nd.FullyConnected(x, w, b, num_hidden=8)
    for call in (f, mx.hybridize(f)):
        with autograd.record():
            y = call(x, w, b)
        y.backward()
        np.testing.assert_allclose(y.asnumpy(), x.asnumpy() @ w.asnumpy().T + b.asnumpy().T, rtol=1e-5, atol=1e-5)
        assert b.grad.asnumpy().tolist() == [[5.0]] * 8
