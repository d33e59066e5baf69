"""Recurrent cells and layers against what MXNet 1.9.1 gives (data/rnn.*, written by oracle/record_rnn.py), eager and
hybridized."""
from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import gluon, nd
from hybrid.base.errors import AttributeValueError, HybridError, ShapeError
from hybrid.gluon import rnn

from ..paths import TESTS

_spec = importlib.util.spec_from_file_location("record_rnn", TESTS / "oracle" / "record_rnn.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)
STORED, NOTES = oracle.read()
MODES = pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
rng = np.random.default_rng(3)


def same(got: dict[str, Any], case: str) -> None:
    want = STORED[case]
    assert set(want) <= set(got)
    for key, value in want.items():
        np.testing.assert_allclose(got[key], value, rtol=2e-5, atol=2e-6, err_msg=key)


@MODES
@pytest.mark.parametrize("case", oracle.UNROLLED)
def test_unrolled_cells(case: str, hybridized: bool) -> None:
    """Outputs, states and gradients of every cell."""
    if case == "plain_stack" and hybridized:
        pytest.skip("a SequentialRNNCell is no HybridBlock")
    same(oracle.unrolled(mx, case, hybridized), case)


@MODES
@pytest.mark.parametrize("case", oracle.CONV)
def test_convolutional_cells(case: str, hybridized: bool) -> None:
    same(oracle.convolved(mx, case, hybridized), case)


@MODES
@pytest.mark.parametrize("case", oracle.LAYERS)
def test_layers(case: str, hybridized: bool) -> None:
    """Outputs, states and gradients of the fused layers, with states given and not."""
    same(oracle.layered(mx, case, hybridized), case)


def test_names() -> None:
    """Parameters' names and shapes, names in files, and reprs."""
    for case, text in ((k, v[0]) for k, v in {**oracle.UNROLLED, **oracle.LAYERS, **oracle.CONV}.items()):
        block = oracle.build(mx, text)
        assert repr(block) == NOTES["repr"][case]
        assert {name: list(p.shape) for name, p in block.collect_params().items()} == NOTES["params"][case]
        assert list(block._collect_params_with_prefix()) == NOTES["files"][case]


def test_symbols() -> None:
    """JSON as MXNet writes it, node for node."""
    assert oracle.described(mx)["symbols"] == NOTES["symbols"]


def test_output_names() -> None:
    """MXNet's names of a layer's outputs."""
    with mx.name.NameManager():
        out, states = mx.gluon.rnn.LSTM(4, prefix="a_")(mx.sym.var("data"), [mx.sym.var("h"), mx.sym.var("c")])
    assert mx.sym.Group([out, *states]).list_outputs() == ["a_rnn0_output", "a_rnn0_state_output",
                                                           "a_rnn0_statecell_output"]


def test_activation_layer() -> None:
    """A layer as activation, with which MXNet's own cell fails."""
    cell = mx.gluon.rnn.RNNCell(4, activation=mx.gluon.nn.LeakyReLU(0.2))
    cell.initialize()
    assert cell.unroll(2, mx.nd.ones((3, 2, 5)), merge_outputs=True)[0].shape == (3, 2, 4)


def test_nan_in_clipped_states() -> None:
    """state_clip_nan: nan becomes the lower bound; without it, it stays."""
    for clip in (False, True):
        layer = mx.gluon.rnn.LSTM(2, input_size=2, state_clip_min=-1, state_clip_max=1, state_clip_nan=clip)
        layer.initialize()
        begin = [mx.nd.zeros((1, 1, 2)), mx.nd.array([[[np.nan, 0.0]]])]
        _, (_, cell) = layer(mx.nd.ones((1, 1, 2)), begin)
        assert np.isnan(cell.asnumpy()).any() == (not clip)
        assert not clip or cell.asnumpy()[0, 0, 0] == -1


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_lengths_of_layers(hybridized: bool) -> None:
    """use_sequence_length: each sequence as if alone."""
    layer = mx.gluon.rnn.GRU(4, 2, bidirectional=True, use_sequence_length=True)
    layer.initialize(mx.init.Uniform(0.5))
    if hybridized:
        layer.hybridize()
    x = mx.nd.array(rng.uniform(-1, 1, (5, 2, 3)))
    out = layer(x, sequence_length=mx.nd.array([2, 5])).asnumpy()
    alone = layer(x[:2, :1], sequence_length=mx.nd.array([2])).asnumpy()
    np.testing.assert_allclose(out[:2, :1], alone, rtol=1e-5, atol=1e-6)
    assert not out[2:, 0].any() and out[4, 1].any()


@pytest.mark.parametrize("make, error, words", [
    (lambda: mx.gluon.rnn.LSTM(0), AttributeValueError, "hidden_size"),
    (lambda: mx.gluon.rnn.LSTM(2, layout="CNT"), AttributeValueError, "TNC or NTC"),
    (lambda: mx.gluon.rnn.RNN(2, activation="sigmoid"), AttributeValueError, "relu or tanh"),
    (lambda: _called(mx.gluon.rnn.GRU(2), mx.nd.ones((3, 2))), ShapeError, "layout TNC"),
    (lambda: _called(mx.gluon.rnn.GRU(2), mx.nd.ones((3, 2, 4)), [mx.nd.ones((1, 1, 2))]), ShapeError,
     "must have shape (1, 2, 2)"),
    (lambda: _called(mx.gluon.rnn.LSTM(2), mx.nd.ones((3, 2, 4)), [mx.nd.ones((1, 2, 2))]), ShapeError, "2 states"),
    (lambda: mx.gluon.rnn.LSTMCell(2).unroll(4, mx.nd.ones((2, 3, 5))), ShapeError, "4 steps"),
    (lambda: _called(mx.gluon.rnn.LSTMCell(2), mx.nd.ones((2, 3)), [mx.nd.ones((2, 2))]), ShapeError, "2 states"),
    (lambda: mx.gluon.rnn.ResidualCell(mx.gluon.rnn.ZoneoutCell(mx.gluon.rnn.RNNCell(2))).base_cell.begin_state(),
     HybridError, "modifier"),
    (lambda: mx.gluon.rnn.ZoneoutCell(mx.gluon.rnn.BidirectionalCell(mx.gluon.rnn.RNNCell(2),
                                                                     mx.gluon.rnn.RNNCell(2))), AttributeValueError,
                                                                     "does not step"),
], ids=["size", "layout", "activation", "axes", "state_shape", "states", "steps", "cell_states", "modified", "zoneout"])
def test_errors(make: Any, error: Any, words: str) -> None:
    """What was given and what was expected."""
    with pytest.raises(error) as caught:
        make()
    assert words in str(caught.value)


def _called(block: Any, *args: Any) -> Any:
    block.initialize()
    return block(*args)


class Unrolled(gluon.HybridBlock):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def hybrid_forward(self, F, x):
        return self.cell.unroll(4, x, layout="NTC", merge_outputs=True)[0]


@pytest.mark.parametrize("make", (lambda: rnn.LSTM(5, layout="NTC"),
                                  lambda: rnn.GRU(5, num_layers=2, bidirectional=True),
                                  lambda: Unrolled(rnn.LSTMCell(5)),
                                  lambda: Unrolled(rnn.BidirectionalCell(rnn.GRUCell(3), rnn.LSTMCell(3)))),
                                  ids=("layer", "both_ways", "cell", "cells_both_ways"))
def test_an_exported_network_takes_batches_of_any_size(make, tmp_path):
    """The zeros it begins with have no batch of their own in the file, as in MXNet's."""
    net = make()
    net.initialize()
    net.hybridize()
    net(nd.ones((3, 4, 2)))
    net.export(str(tmp_path / "net"))
    assert "(1, 3, 5)" not in (tmp_path / "net-symbol.json").read_text()
    read = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    for batch in (3, 7):
        x = nd.random.normal(shape=(batch, 4, 2))
        np.testing.assert_allclose(read(x).asnumpy(), net(x).asnumpy(), atol=1e-6)
