"""Recurrent layers: the operator ``RNN`` as ONNX's LSTM, GRU and RNN, and back, by one table of gates."""
from __future__ import annotations

from typing import Any, Iterator

import numpy as np

from ...ops.rnn import packed_pieces
from ...graph.symbol import Symbol
from .builder import Graph, Value
from .forms import form
from .reader import Known, OnnxNode, reads

# where each gate of a mode stands in ONNX
ORDER = {"lstm": (0, 2, 3, 1), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
KIND = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


def _blocks(mode: str, width: int, hidden: int, layers: int,
            both: bool) -> Iterator[tuple[int, int, str, int, tuple[int, ...]]]:
    """(layer, direction, ``W``, ``R``, ``Wb`` or ``Rb``, the gate's index in ONNX, shape) of each packed block, in
    order."""
    for where, gate, kind, shape in packed_pieces(mode, width, hidden, layers, both):
        direction, group = where[0], where.split("_")[1]
        name = ("W" if group == "i2h" else "R") + ("b" if kind == "bias" else "")
        yield int(where[1:].split("_")[0]), "lr".index(direction), name, ORDER[mode][gate], shape


# ---- writing
@form("RNN")
def rnn(g: Graph, a: Any, x: Value, packed: Value, state: Value, *rest: Value) -> list[str] | None:
    if packed.array is None or a.projection_size or a.lstm_state_clip_min is not None or a.use_sequence_length:
        return None
    directions, hidden, gates = 1 + a.bidirectional, a.state_size, len(ORDER[a.mode])
    weights = _unpacked(a, packed.array, x.shape[2])
    states = [state, *rest[:1]] if a.mode == "lstm" else [state]
    name, last = g.use(x), []
    for layer in range(a.num_layers):
        w, r, b = (np.stack([np.concatenate([weights[(layer, direction, part, k)]
                                             for part in parts for k in range(gates)])
                             for direction in range(directions)])
                   for parts in (("W",), ("R",), ("Wb", "Rb")))
        begin = [_state(g, s, layer * directions, directions, x.shape[1]) for s in states]
        activations = ["Relu"] * directions if a.mode == "rnn_relu" else None
        made = g.node(KIND[a.mode], _trimmed([name, g.const(w), g.const(r), g.const(b), "", *begin]), 1 + len(states),
                      hidden_size=hidden,
                      direction="bidirectional" if directions == 2 else None,
                      linear_before_reset=1 if a.mode == "gru" else None, activations=activations)
        last.append(made[1:])
        if directions == 1:
            name = g.node("Squeeze", [made[0], g.const([1], np.int64)])
        else:
            shape = (x.shape[0], x.shape[1], 2, hidden)
            name = g.reshape(g.transpose(made[0], (0, 2, 1, 3)), shape, (*shape[:2], 2 * hidden))
    if not a.state_outputs:
        return [name]
    return [name, *(parts[0] if len(parts) == 1 else g.node("Concat", list(parts), axis=0) for parts in zip(*last))]


def _unpacked(a: Any, packed: np.ndarray, width: int) -> dict[Any, np.ndarray]:
    out, at = {}, 0
    for layer, direction, part, gate, shape in _blocks(a.mode, width, a.state_size, a.num_layers, a.bidirectional):
        size = int(np.prod(shape))
        out[(layer, direction, part, gate)] = packed[at:at + size].reshape(shape)
        at += size
    return out


def _state(g: Graph, s: Value, begin: int, count: int, batch: int) -> str:
    """The first state of a layer; nothing where it is zero."""
    if s.array is not None and not s.array.any():
        return ""
    name = g.slice(g.use(s), s.shape, (begin, 0, 0), (count, *s.shape[1:]), (1, 1, 1))
    return g.expand(name, (count, *s.shape[1:]), (count, batch, s.shape[2]))


def _trimmed(names: list[str]) -> list[str]:
    while not names[-1]:
        names.pop()
    return names


# ---- reading
@reads("LSTM", "GRU", "RNN")
def recurrent(n: OnnxNode) -> list[Symbol]:
    w, r, b = (n.known(k, what) for k, what in ((1, "W"), (2, "R"), (3, "B")))
    if w is None or r is None:
        raise n.fail("its weights are missing")
    mode, direction = _mode(n, len(w)), n.attr("direction", "forward")
    hidden, directions, first = r.shape[2], len(w), bool(n.attr("layout", 0))
    packed = n.constant("parameters", _packed(mode, w, r,
                                              np.zeros((directions, 2 * r.shape[1]), w.dtype) if b is None else b))
    swap = (lambda s: n.op("SwapAxis", s, dim1=0, dim2=1)) if first else (lambda s: s)
    states = [swap(n[k]) if n.has(k) and not _zero(n.values[k]) else n.op("_zeros", shape=(directions, 0, hidden))
              for k in ((5, 6) if mode == "lstm" else (5,))]
    lengths = [n[4]] if n.has(4) else []
    in_order = (lambda s: n.op("SequenceReverse", s, *lengths,
                           use_sequence_length=bool(lengths))) if direction == "reverse" else (lambda s: s)
    y, *last = n.op("RNN", in_order(swap(n[0])), packed, *states, *lengths, state_size=hidden, num_layers=1, mode=mode,
                    bidirectional=directions == 2, state_outputs=True,
                    use_sequence_length=bool(lengths))
    y = in_order(y)
    if first:                                                # (batch, time, directions, hidden)
        return [n.op("Reshape", swap(y), shape=(0, 0, directions, hidden)), *map(swap, last)]
    if directions == 1:
        return [n.op("expand_dims", y, axis=1), *last]
    return [n.op("transpose", n.op("Reshape", y, shape=(0, 0, directions, hidden)), axes=(0, 2, 1, 3)), *last]


def _zero(state: Any) -> bool:
    """Whether a first state is zeros, which fit every batch."""
    return isinstance(state, Known) and not state.any()


def _mode(n: OnnxNode, directions: int) -> str:
    """MXNet's name of the kind of cell; an error for cells it does not have."""
    usual = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}[n.kind]
    given = [v.decode().lower() if isinstance(v, bytes) else v.lower() for v in n.attrs.get("activations", [])]
    relu = n.kind == "RNN" and given == ["relu"] * directions
    if given and given != usual * directions and not relu:
        raise n.fail(f"activations={given} are not supported")
    if n.attr("clip") or n.attr("input_forget", 0) or n.has(7):
        raise n.fail("clip, input_forget and peepholes are not supported")
    if n.kind == "GRU" and not n.attr("linear_before_reset", 0):
        raise n.fail("linear_before_reset=0 is not supported")
    return {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_relu" if relu else "rnn_tanh"}[n.kind]


def _packed(mode: str, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> np.ndarray:
    hidden = r.shape[2]
    half = b.shape[1] // 2
    source = {"W": w, "R": r, "Wb": b[:, :half], "Rb": b[:, half:]}
    blocks = _blocks(mode, w.shape[2], hidden, 1, len(w) == 2)
    return np.concatenate([source[part][direction, gate * hidden:(gate + 1) * hidden].reshape(-1)
                           for _, direction, part, gate, _ in blocks])
