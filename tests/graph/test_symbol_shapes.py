"""Shapes of which only some lengths are known, notes on operators, and executors that share memory: answers recorded
from MXNet 1.9.1 by hand."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd, sym

A, B, C = (sym.Variable(n) for n in "abc")
FC = sym.FullyConnected(A, num_hidden=21, name="f")
# symbol, known shapes, (argument shapes, output shapes) that infer_shape gives
SOLVED: dict[str, tuple[Any, dict[str, tuple[int, ...]], Any, Any]] = {
    "elementwise": (A + B, {"a": (0, 10), "b": (5, 0)}, [(5, 10)] * 2, [(5, 10)]),
    "chain": ((A + B) * C, {"c": (5, 0), "b": (0, 10)}, [(5, 10)] * 3, [(5, 10)]),
    "mlp": (FC + B, {"a": (0, 5), "b": (10, 0)}, [(10, 5), (21, 5), (21,), (10, 21)], [(10, 21)]),
    "concat of other axes": (sym.Concat(A, B, dim=1) + C, {"a": (0, 10), "b": (0, 5), "c": (5, 0)},
                             [(5, 10), (5, 5), (5, 15)], [(5, 15)]),
    "convolution": (sym.Convolution(A, kernel=(3, 3), num_filter=1, pad=(1, 1), name="c") + B,
                    {"a": (0, 10, 0, 0), "b": (5, 1, 32, 32)},
                    [(5, 10, 32, 32), (1, 10, 3, 3), (1,), (5, 1, 32, 32)], [(5, 1, 32, 32)]),
    "squeezed channel": (sym.SliceChannel(A, num_outputs=10, axis=1, squeeze_axis=True)[1] + C,
                         {"a": (0, 10), "c": (5,)}, [(5, 10), (5,)], [(5,)]),
    "backwards through exp": (sym.exp(A) + B, {"b": (2, 3)}, [(2, 3)] * 2, [(2, 3)]),
}


@pytest.mark.parametrize("name", SOLVED)
def test_lengths_are_solved_for(name: str) -> None:
    symbol, given, arguments, outputs = SOLVED[name]
    assert symbol.infer_shape(**given) == (arguments, outputs, [])


PARTLY: dict[str, tuple[Any, dict[str, tuple[int, ...]], Any, Any]] = {
    "convolution": (sym.Convolution(A, kernel=(3, 3), num_filter=4, name="c"), {"a": (0, 3, 0, 0)},
                    [(0, 3, 0, 0), (4, 3, 3, 3), (4,)], [(0, 4, 0, 0)]),
    "mlp": (FC, {"a": (0, 5)}, [(0, 5), (21, 5), (21,)], [(0, 21)]),
    "transpose": (sym.transpose(A), {"a": (0, 3, 4)}, [(0, 3, 4)], [(4, 3, 0)]),
    "sum": (sym.sum(A, axis=0), {"a": (0, 3, 4)}, [(0, 3, 4)], [(3, 4)]),
    "pooling": (sym.Pooling(A, kernel=(2, 2), stride=(2, 2), pool_type="max"), {"a": (0, 3, 8, 8)}, [(0, 3, 8, 8)],
                [(0, 3, 4, 4)]),
    "slices": (sym.SliceChannel(A, num_outputs=5, axis=1)[1] + C, {"a": (0, 15, 0), "c": (10, 0, 3)},
               [(10, 15, 3), (10, 3, 3)], [(10, 3, 3)]),
}


@pytest.mark.parametrize("name", PARTLY)
def test_unknown_lengths_are_zero(name: str) -> None:
    symbol, given, arguments, outputs = PARTLY[name]
    assert symbol.infer_shape_partial(**given) == (arguments, outputs, [])


def test_notes_on_operators_reach_their_parameters() -> None:
    conv = sym.Convolution(sym.Variable("data", attr={"mood": "angry"}), name="conv", kernel=(1, 1), num_filter=1,
                           attr={"__mood__": "so so"}, wd_mult="x")
    assert conv.attr("__mood__") == "so so" and conv.attr("wd_mult") == conv.attr("__wd_mult__") == "x"
    found = conv.attr_dict()
    assert found["data"] == {"mood": "angry"} and found["conv_weight"] == found["conv_bias"] == found["conv"]
    assert found["conv"] == {"__mood__": "so so", "kernel": "(1, 1)", "num_filter": "1", "wd_mult": "x",
                             "__wd_mult__": "x"}
    with pytest.raises(ValueError, match="text"):
        sym.Variable("a", attr={"x": 3})


def test_names_of_outputs() -> None:
    assert (sym.sort(A, name="s").list_outputs() == ["s_output0"]
            and sym.make_loss(A, name="s").list_outputs() == ["s_loss"])
    assert sym.BatchNorm(A, name="s", output_mean_var=True).list_outputs() == ["s_output", "s_mean", "s_var"]
    assert FC["f_output"].list_arguments() == ["a", "f_weight", "f_bias"]
    with pytest.raises(ValueError, match="Cannot find output"):
        FC["q"]


def test_dtypes_without_shapes() -> None:
    assert sym.topk(A, k=1, ret_typ="value", dtype="int64").infer_type(a="int32")[1] == [np.int32]
    assert sym.shape_array(A).infer_type(a="float16")[1] == [np.int64]


def test_reshaped_executor_shares_arrays() -> None:
    ex = FC.simple_bind(mx.cpu(), a=(5, 4))
    ex.arg_dict["a"][:] = 1
    smaller = ex.reshape(a=(3, 4))
    ex.arg_dict["f_weight"][:] = 2
    assert smaller.arg_dict["f_weight"] is ex.arg_dict["f_weight"] and (smaller.forward()[0].asnumpy() == 8).all()
    smaller.arg_dict["a"][0] = 7
    assert ex.arg_dict["a"][0, 0].asscalar() == 7
    with pytest.raises(mx.errors.ShapeError, match="partial_shaping"):
        ex.reshape(a=(3, 2))
    assert ex.reshape(a=(3, 2), partial_shaping=True).arg_dict["f_weight"].shape == (21, 2)


def test_executor_before_and_within_forward() -> None:
    ex = (sym.exp(A, name="e") * 2).simple_bind(mx.cpu(), a=(3,))
    assert ex.outputs[0].shape == (3,) and ex.grad_dict["a"].shape == (3,)
    seen: dict[str, Any] = {}
    ex.set_monitor_callback(lambda name, x: seen.update({name: x.asnumpy()}))
    ex.forward()
    assert list(seen)[0] == "e_output" and len(seen) == 2
    np.testing.assert_allclose(seen["e_output"], 1)
    assert (ex.debug_str().startswith("Symbol Outputs:\n\toutput[0]=_mulscalar")
            and "\nOp:exp, Name=e\nInputs:\n\targ[0]=a(0) version=0\n" in ex.debug_str())


def test_histogram_and_lists_of_weights() -> None:
    counts, edges = nd.histogram(nd.array([0.1, 0.5, 0.9, 1.0]), bins=2, range=(0, 1))
    assert counts.asnumpy().tolist() == [1, 3] and edges.asnumpy().tolist() == [0, 0.5, 1]
    with pytest.raises(ValueError, match="bins"):
        nd.histogram(nd.ones((2,)), bins="x")
    with pytest.raises(ValueError, match="equally many"):
        nd.contrib.multi_lamb_update([nd.ones((2,))], [], [nd.ones((2,))], [nd.ones((2,))], step_count=[1], lrs=[0.1],
                                     wds=[0])
    drawn, of_true, of_drawn = nd.contrib.rand_zipfian(nd.array([3]), 50, 100)
    assert drawn.shape == (50,) and drawn.asnumpy().max() < 100 and drawn.dtype == np.int64
    np.testing.assert_allclose(of_true.asnumpy(), np.log(5 / 4) / np.log(101) * 50)
    assert of_drawn.shape == (50,)
    assert nd.add(1, 2) == 3 and nd.equal(2, 2) == 1.0


@pytest.mark.parametrize("call, text", [
    (lambda: nd.sgd_mom_update(nd.ones((2,)), nd.ones((2,)), nd.ones((3,)), lr=0.1), "weight's shape"),
    (lambda: nd.multi_sgd_update(nd.ones((2,)), nd.ones((2,)), lrs=(0.1,), wds=(0, 0), num_weights=1),
     "wds must have a value"),
    (lambda: nd.multi_sgd_update(nd.ones((2,)), lrs=(0.1,), wds=(0,), num_weights=1), "takes 2 arrays"),
    (lambda: nd.contrib.Proposal(nd.ones((2, 24, 4, 4)), nd.ones((2, 48, 4, 4)), nd.ones((2, 3))), "MultiProposal"),
    (lambda: nd.linalg.maketrian(nd.ones((4,))), "no triangle"),
    (lambda: nd.col2im(nd.ones((1, 4, 3)), output_size=(3, 3), kernel=(2, 2)), "do not fit"),
    (lambda: nd.Correlation(nd.ones((1, 1, 4, 4)), nd.ones((1, 1, 4, 4)), kernel_size=2), "odd"),
    (lambda: nd.random_pdf_normal(nd.ones((2, 3)), nd.ones((3,)), nd.ones((3,))), "one shape"),
], ids=["state", "rates", "arrays", "proposal", "triangle", "columns", "kernel", "density"])
def test_bad_input_is_one_clear_error(call: Any, text: str) -> None:
    with pytest.raises((mx.errors.HybridError), match=text):
        call()


def test_fourier_and_sketch() -> None:
    x = np.random.RandomState(0).normal(size=(2, 5)).astype("float32")
    got = nd.contrib.fft(nd.array(x)).asnumpy().reshape(2, 5, 2)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], np.fft.fft(x), atol=1e-5)
    np.testing.assert_allclose(nd.contrib.ifft(nd.contrib.fft(nd.array(x))).asnumpy() / 5, x, atol=1e-5)
    out = nd.contrib.count_sketch(nd.array([[1.2, 2.5, 3.4], [3.2, 5.7, 6.6]]), nd.array([[0, 3, 4]]),
                                  nd.array([[1, -1, 1]]), out_dim=5)
    np.testing.assert_allclose(out.asnumpy(), [[1.2, 0, 0, -2.5, 3.4], [3.2, 0, 0, -5.7, 6.6]], rtol=1e-6)


def test_normalized_and_rectified() -> None:
    x, ones, zeros = nd.array(np.random.RandomState(0).normal(size=(4, 3))), nd.ones((3,)), nd.zeros((3,))
    with mx.autograd.record():
        got = nd.contrib.BatchNormWithReLU(x, ones, zeros, zeros.copy(), ones.copy())
        want = nd.relu(nd.BatchNorm(x, ones, zeros, zeros.copy(), ones.copy()))
    np.testing.assert_array_equal(got.asnumpy(), want.asnumpy())
    assert mx.nd.ndarray.NDArray is nd.NDArray and mx.sym.symbol.Symbol is sym.Symbol


def test_shapes_told_later_are_compared_with_the_operators_own() -> None:
    square = sym.transpose(A, name="turned") + (B + A)
    assert square.infer_shape(b=(2, 2))[1] == [(2, 2)]
    for ask in (square.infer_shape, lambda **kw: square.simple_bind(mx.cpu(), grad_req="null", **kw)):
        with pytest.raises(mx.MXNetError, match=r"turned.*\(3, 2\).*\(2, 3\)"):
            ask(b=(2, 3))


def test_children_of_a_node_with_several_outputs_are_given_once() -> None:
    parts = sym.SliceChannel(A, num_outputs=3, name="slice")
    children = parts.get_children()
    assert children is not None and children.list_outputs() == ["a"]
