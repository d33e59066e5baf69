"""The recurrent operator where MXNet's CPU gives no answer: sequence lengths, clipping, projection, dropout; and its
errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.base.errors import HybridError, ShapeError

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
rng = np.random.default_rng(6)


def _count(mode: str, width: int, size: int, layers: int, ways: int) -> int:
    g = GATES[mode] * size
    return sum(ways * (g * (size * ways if layer else width) + g * size + 2 * g) for layer in range(layers))


def _arrays(mode: str, layers: int = 1, ways: int = 1, steps: int = 5, batch: int = 3, width: int = 2,
            size: int = 4) -> list[Any]:
    states = [rng.normal(size=(layers * ways, batch, size)) for _ in range(2 if mode == "lstm" else 1)]
    return [nd.array(x) for x in (rng.normal(size=(steps, batch, width)),
                                  rng.uniform(-0.6, 0.6, _count(mode, width, size, layers, ways)), *states)]


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_sequence_lengths(mode: str, hybridized: bool) -> None:
    """Each sequence gives what it gives alone and cut to its length, in both directions and layers; zeros follow."""
    xs = _arrays(mode, layers=2, ways=2)
    options = {"mode": mode, "state_size": 4, "num_layers": 2, "bidirectional": True, "state_outputs": True}
    lengths = [5, 1, 3]

    def call(*arrays: Any) -> Any:
        return nd.RNN(*arrays, use_sequence_length=True, **options)
    got = (mx.hybridize(call) if hybridized else call)(*xs, nd.array(lengths))
    for b, n in enumerate(lengths):
        one = nd.RNN(xs[0][:n, b:b + 1], xs[1], *(s[:, b:b + 1] for s in xs[2:]), **options)
        np.testing.assert_allclose(got[0].asnumpy()[:n, b:b + 1], one[0].asnumpy(), rtol=1e-5, atol=1e-6)
        assert not got[0].asnumpy()[n:, b].any()
        for state, alone in zip(got[1:], one[1:]):
            np.testing.assert_allclose(state.asnumpy()[:, b:b + 1], alone.asnumpy(), rtol=1e-5, atol=1e-6)


def test_clipping() -> None:
    """The LSTM's cell stays within its bounds, and within them nothing changes."""
    xs = _arrays("lstm")
    options = {"mode": "lstm", "state_size": 4, "num_layers": 1, "state_outputs": True}
    free, wide, narrow = (nd.RNN(*xs, **options, **bounds) for bounds in (
        {}, {"lstm_state_clip_min": -100, "lstm_state_clip_max": 100},
        {"lstm_state_clip_min": -0.1, "lstm_state_clip_max": 0.2}))
    np.testing.assert_array_equal(free[0].asnumpy(), wide[0].asnumpy())
    cell = narrow[2].asnumpy()
    assert cell.min() >= np.float32(-0.1) and cell.max() <= np.float32(0.2) and (cell == np.float32(0.2)).any()


def test_projection() -> None:
    """LSTM with projected outputs (Sak et al. 2014), against a loop in NumPy."""
    x, h, c = rng.normal(size=(4, 2, 3)), rng.normal(size=(1, 2, 2)), rng.normal(size=(1, 2, 5))
    w, u, r, b, d = (rng.uniform(-0.5, 0.5, s) for s in ((20, 3), (20, 2), (2, 5), (20,), (20,)))
    packed = np.concatenate([v.ravel() for v in (w, u, r, b, d)])
    got = nd.RNN(*(nd.array(v) for v in (x, packed, h, c)), mode="lstm", state_size=5, num_layers=1, projection_size=2,
                 state_outputs=True)
    hidden, cell, out = h[0], c[0], []

    def sigmoid(v: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-v))
    for t in range(4):
        i, f, g, o = np.split(x[t] @ w.T + b + hidden @ u.T + d, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        hidden = (sigmoid(o) * np.tanh(cell)) @ r.T
        out.append(hidden)
    for g, e in zip(got, (np.stack(out), hidden[None], cell[None])):
        np.testing.assert_allclose(g.asnumpy(), e, rtol=1e-5, atol=1e-6)


def test_dropout_between_layers() -> None:
    """p drops in training alone, and with one layer not at all."""
    xs = _arrays("gru", layers=2)
    options = {"mode": "gru", "state_size": 4, "num_layers": 2}
    plain = nd.RNN(*xs, **options).asnumpy()
    np.testing.assert_array_equal(nd.RNN(*xs, p=0.5, **options).asnumpy(), plain)
    with autograd.train_mode():
        mx.random.seed(1)
        dropped = nd.RNN(*xs, p=0.5, **options).asnumpy()
        mx.random.seed(1)
        np.testing.assert_allclose(mx.hybridize(lambda *a: nd.RNN(*a, p=0.5, **options))(*xs).asnumpy(), dropped,
                                   rtol=1e-5, atol=1e-6)
    assert abs(dropped - plain).max() > 1e-3


@pytest.mark.parametrize("change, words", [
    ({"state_size": 5}, "parameters must have"), ({"num_layers": 2}, "parameters must have"),
    ({"mode": "gru"}, "parameters must have"),
    ({"use_sequence_length": True}, "needs the input 'sequence_length'"),
], ids=["size", "layers", "mode", "lengths"])
def test_errors(change: dict[str, Any], words: str) -> None:
    """What does not fit is named with what was expected."""
    xs = _arrays("lstm")
    with pytest.raises(HybridError) as caught:
        nd.RNN(*xs, **{"mode": "lstm", "state_size": 4, "num_layers": 1, **change})
    assert words in str(caught.value)
    with pytest.raises(HybridError, match="needs the input 'state_cell'"):
        nd.RNN(*xs[:3], mode="lstm", state_size=4, num_layers=1)
    with pytest.raises(ShapeError):
        nd.RNN(xs[0], xs[1], xs[2][:, :2], xs[3], mode="lstm", state_size=4, num_layers=1)
