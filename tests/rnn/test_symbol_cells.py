"""mx.rnn: cells on Symbols, against graphs, numbers and batches recorded from MXNet 1.9.1."""
from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd, rnn, sym

from ..oracle.symbol_cells import CASES, ITERATORS, PACKED, batches, numbers, structure, unpacked, unrolled
from ..paths import DATA

RECORDED = json.loads(gzip.decompress((DATA / "symbol_cells.json.gz").read_bytes()))


@pytest.mark.parametrize("case", CASES)
def test_graph_is_that_of_mxnet(case: str) -> None:
    assert structure(unrolled(mx, case, True)) == RECORDED["graphs"][case]


@pytest.mark.parametrize("case", RECORDED["numbers"])
def test_outputs_and_gradients(case: str) -> None:
    symbol = unrolled(mx, case, False)
    for train, want in zip((False, True), RECORDED["numbers"][case]):
        got = numbers(mx, case, symbol, train)
        assert got.keys() == want.keys()
        for name, sums in want.items():
            np.testing.assert_allclose(got[name], sums, rtol=1e-4, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("case", PACKED)
def test_unpacked_weights(case: str) -> None:
    assert unpacked(mx, case) == RECORDED["unpacked"][case]


@pytest.mark.parametrize("case", ITERATORS)
def test_batches_of_sentences(case: str) -> None:
    assert batches(mx, case) == RECORDED["batches"][case]


@pytest.mark.parametrize("mode", ["rnn_tanh", "rnn_relu", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one way", "both ways"])
def test_fused_equals_unfused(mode: str, bidirectional: bool) -> None:
    fused = rnn.FusedRNNCell(4, 2, mode, bidirectional=bidirectional)
    stack = fused.unfuse()
    rng = np.random.default_rng(0)
    x = nd.array(rng.normal(size=(2, 3, 5)))
    one, _ = fused.unroll(3, sym.var("data"), merge_outputs=True)
    many, _ = stack.unroll(3, sym.var("data"), merge_outputs=True)
    shapes = dict(zip(one.list_arguments(), one.infer_shape(data=x.shape)[0]))
    weights = {f"{mode}_parameters": nd.array(rng.normal(size=shapes[f"{mode}_parameters"]))}
    expected = one.eval(data=x, **weights)[0].asnumpy()
    packed = stack.pack_weights(fused.unpack_weights(weights))
    np.testing.assert_allclose(many.eval(data=x, **packed)[0].asnumpy(), expected, rtol=1e-4, atol=1e-5)


def test_initial_weights_of_a_fused_cell() -> None:
    cell = rnn.FusedRNNCell(2, 2, "lstm", prefix="f_", forget_bias=3.0)
    module = mx.mod.Module(cell.unroll(2, sym.var("data"), layout="TNC")[0], ["data"], None)
    module.bind([("data", (2, 4, 3))])
    module.init_params(mx.init.One())
    parts = {k: v.asnumpy() for k, v in cell.unpack_weights(module.get_params()[0]).items()}
    assert set(parts["f_l1_i2h_f_bias"]) == set(parts["f_l0_h2h_f_bias"]) == {3.0}
    assert set(parts["f_l0_i2h_i_bias"]) == {0.0} and (parts["f_l0_i2h_o_weight"] == np.ones((2, 3))).all()


def test_checkpoints_hold_unpacked_weights(tmp_path: Path) -> None:
    cell = rnn.LSTMCell(2)
    outputs, _ = cell.unroll(2, sym.var("data"), merge_outputs=True)
    shapes = zip(outputs.list_arguments(), outputs.infer_shape(data=(1, 2, 3))[0])
    weights = {n: nd.random.uniform(shape=s) for n, s in shapes if n != "data"}
    rnn.do_rnn_checkpoint(cell, str(tmp_path / "m"), 2)(1, outputs, weights, {})
    assert "arg:lstm_h2h_f_weight" in nd.load(str(tmp_path / "m-0002.params"))
    symbol, args, aux = rnn.load_rnn_checkpoint([cell], str(tmp_path / "m"), 2)
    assert symbol.list_outputs() == outputs.list_outputs() and not aux
    assert all((args[n].asnumpy() == w.asnumpy()).all() for n, w in weights.items()) and len(args) == len(weights)


def test_a_language_model_by_buckets() -> None:
    cell = rnn.FusedRNNCell(8, 1, "lstm", prefix="f_")

    def network(length: int) -> tuple:
        words = sym.Embedding(sym.var("data"), input_dim=10, output_dim=4)
        outputs, _ = cell.unroll(length, words, merge_outputs=True)
        scores = sym.FullyConnected(sym.Reshape(outputs, shape=(-1, 8)), num_hidden=10, name="scores")
        return sym.SoftmaxOutput(scores, sym.Reshape(sym.var("softmax_label"), shape=(-1,)),
                                 name="softmax"), ("data",), ("softmax_label",)
    counting = [[1 + (k + i) % 5 for i in range(n)] for k in range(5) for n in (3, 6)] * 2
    batches = rnn.BucketSentenceIter(counting, 5, buckets=[3, 6], invalid_label=0)
    module = mx.mod.BucketingModule(network, default_bucket_key=batches.default_bucket_key)
    metric = mx.metric.Perplexity(0)
    mx.random.seed(1)
    module.fit(batches, num_epoch=12, eval_metric=metric, optimizer="adam", optimizer_params={"learning_rate": 0.1},
               initializer=mx.init.Xavier())
    assert metric.get()[1] < 2


def test_words_as_numbers() -> None:
    assert rnn.encode_sentences([["a", "b"], ["b", "c"]], start_label=1,
                                invalid_label=2) == ([[1, 3], [3, 4]], {"\n": 2, "a": 1, "b": 3, "c": 4})
    assert rnn.encode_sentences([["a", "q"], ["z"]], vocab={"a": 1},
                                unknown_token="?") == ([[1, 0], [0]], {"a": 1, "?": 0})
    with pytest.raises(AssertionError, match="'z' is not in the vocabulary"):
        rnn.encode_sentences([["z"]], vocab={"a": 1})


def test_weights_are_shared() -> None:
    first = rnn.RNNCell(5, prefix="a_")
    second = rnn.RNNCell(5, prefix="b_", params=first.params)
    assert second.unroll(1, [sym.var("x")])[0][0].list_arguments() == ["x", "a_i2h_weight", "a_i2h_bias",
                                                                       "a_h2h_weight", "a_h2h_bias"]


def test_first_states() -> None:
    cell = rnn.ResidualCell(rnn.LSTMCell(5, prefix="a_"))
    assert [s.name for s in cell.begin_state()] == ["a_begin_state_0", "a_begin_state_1"]
    drawn = rnn.RNNCell(5).begin_state(func=sym.random.uniform, low=1.0)[0]
    assert drawn.name == "rnn_begin_state_0" and drawn.attr("__layout__") == "NC"


WRONG = {
    "modified": (lambda: _modified().unroll(2, sym.var("x")), "modifier cell"),
    "zoneout of fused": (lambda: rnn.ZoneoutCell(rnn.FusedRNNCell(5)), "unfuse"),
    "zoneout of bidirectional": (lambda: rnn.ZoneoutCell(rnn.BidirectionalCell(rnn.RNNCell(5), rnn.RNNCell(5))),
                                 "cells within"),
    "step of fused": (lambda: rnn.FusedRNNCell(5)(sym.var("x"), []), "cannot be stepped"),
    "length": (lambda: rnn.RNNCell(5).unroll(3, [sym.var("x")]), "3 steps was given 1"),
    "group": (lambda: rnn.RNNCell(5).unroll(2, sym.Group([sym.var("x"), sym.var("y")])), "not a group"),
    "params twice": (lambda: rnn.BidirectionalCell(rnn.RNNCell(5, params=rnn.RNNParams("a_")), rnn.RNNCell(5),
                                                   rnn.RNNParams("b_")), "not to both"),
    "mode": (lambda: rnn.FusedRNNCell(5, mode="lstn"), "rnn_relu, rnn_tanh, lstm, gru"),
    "weights": (lambda: rnn.LSTMCell(5).unpack_weights({"w": nd.ones((1,))}), "no array 'lstm_i2h_weight'"),
    "parameters": (lambda: rnn.FusedRNNCell(5).unpack_weights({"lstm_parameters": nd.ones((7,))}), "do not fit"),
    "kernel": (lambda: rnn.ConvRNNCell((1, 3, 5, 5), 2, h2h_kernel=(2, 2)), "odd"),
    "buckets": (lambda: rnn.BucketSentenceIter([[1, 2]], 5), "smaller batch_size"),
}


def _modified() -> rnn.BaseRNNCell:
    cell = rnn.RNNCell(5)
    rnn.ZoneoutCell(cell)
    return cell


@pytest.mark.parametrize("case", WRONG)
def test_errors_say_what_to_do(case: str) -> None:
    call, text = WRONG[case]
    with pytest.raises((AssertionError, NotImplementedError), match=text):
        call()
