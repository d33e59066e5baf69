"""The fused recurrent operator: several layers of tanh or relu cells, LSTM or GRU over a sequence, one or both ways.

The input products of a layer are one contraction over all steps; the steps themselves are a loop.
"""
from __future__ import annotations

from typing import Iterator, Sequence

from ..base import dtype as dt
from ..base.records import dataclass
from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .nn import uniform01
from .registry import REQUIRED, Bool, Enum, Float, Int, op

MOST_LAYERS = 1024                    # more would be a damaged file: each layer is written out
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
GATE_SUFFIXES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


@dataclass
class Weights:
    """Parameters of one layer in one direction; a row of biases (1, gates * H)."""
    i2h: Node
    h2h: Node
    h2r: Node | None
    i2h_bias: Node
    h2h_bias: Node


def parameter_count(a: Attrs, width: int) -> int:
    """How many numbers MXNet packs into ``parameters`` for inputs of a width."""
    if not 1 <= a.num_layers <= MOST_LAYERS:
        raise ShapeError(f"num_layers must be 1 to {MOST_LAYERS}, got {a.num_layers}")
    return sum(sum(rows * columns for rows, columns in shapes)
               for shapes in _weight_shapes(a, width)) + 2 * GATES[a.mode] * a.state_size * a.num_layers * _ways(a)


def packed_pieces(mode: str, width: int, hidden: int, layers: int,
                  bidirectional: bool) -> list[tuple[str, int, str, tuple[int, ...]]]:
    """(which of ``l0``, ``r0``, ``l1`` …, ``i2h`` or ``h2h``; gate; ``weight`` or ``bias``; shape) of every gate's
    block, in the packed order."""
    ways = "lr" if bidirectional else "l"
    out = []
    for kind in ("weight", "bias"):
        for layer in range(layers):
            rows = hidden * len(ways) if layer else width
            for way in ways:
                for group, columns in (("i2h", rows), ("h2h", hidden)):
                    shape: tuple[int, ...] = (hidden, columns) if kind == "weight" else (hidden,)
                    out += [(f"{way}{layer}_{group}", gate, kind, shape) for gate in range(GATES[mode])]
    return out


def _ways(a: Attrs) -> int:
    return 2 if a.bidirectional else 1


def _weight_shapes(a: Attrs, width: int) -> Iterator[list[tuple[int, int]]]:
    """Shapes of the weight matrices of each layer and direction, in MXNet's order."""
    hidden = a.projection_size or a.state_size
    for layer in range(a.num_layers):
        for _ in range(_ways(a)):
            yield [(GATES[a.mode] * a.state_size, hidden * _ways(a) if layer else width),
                   (GATES[a.mode] * a.state_size, hidden),
                   *([(hidden, a.state_size)] if a.projection_size else [])]


def _unpack(packed: Node, a: Attrs, width: int) -> list[Weights]:
    """All weights, layer by layer and in each direction by direction; then come all biases."""
    at = 0

    def take(*shape: int) -> Node:
        nonlocal at
        size = shape[0] * shape[1]
        at += size
        return ir.reshape(_piece(packed, at - size, size), shape)
    matrices = [[take(*shape) for shape in shapes] for shapes in _weight_shapes(a, width)]
    rows = GATES[a.mode] * a.state_size
    biases = [(take(1, rows), take(1, rows)) for _ in matrices]
    return [Weights(m[0], m[1], m[2] if len(m) > 2 else None, *b) for m, b in zip(matrices, biases)]


def _piece(packed: Node, at: int, size: int) -> Node:
    """A stretch of a vector; of a concatenation the part itself, so that nothing is packed to be unpacked here."""
    begin = 0
    for part in packed.args if packed.prim == "concat" else ():
        if begin <= at and at + size <= begin + part.size:
            return ir.slice(part, (at - begin,), (size,))
        begin += part.size
    return ir.slice(packed, (at,), (size,))


def _part(x: Node, k: int, size: int) -> Node:
    return ir.slice(x, (0, k * size), (x.shape[0], size))


def _matmul(x: Node, w: Node) -> Node:
    """x wᵀ."""
    return ir.dot(x, w, ((x.ndim - 1,), (1,)))


def _lstm(x: Node, h: Node, c: Node, w: Weights, a: Attrs) -> tuple[Node, Node]:
    size = a.state_size
    gates = x + _matmul(h, w.h2h)
    i, f, o = (ir.map("sigmoid", _part(gates, k, size)) for k in (0, 1, 3))
    c = f * c + i * ir.map("tanh", _part(gates, 2, size))
    if a.lstm_state_clip_min is not None and a.lstm_state_clip_max is not None:
        c = ir.map("minimum", ir.map("maximum", c, a.lstm_state_clip_min), a.lstm_state_clip_max)
        if a.lstm_state_clip_nan:
            c = ir.map("where", ir.map("ne", c, c), a.lstm_state_clip_min, c)      # as fmin(fmax(c, min), max)
    h = o * ir.map("tanh", c)
    return (_matmul(h, w.h2r) if w.h2r is not None else h), c


def _gru(x: Node, h: Node, w: Weights, a: Attrs) -> Node:
    size = a.state_size
    own = _matmul(h, w.h2h) + w.h2h_bias
    r, z = (ir.map("sigmoid", _part(x, k, size) + _part(own, k, size)) for k in (0, 1))
    new = ir.map("tanh", _part(x, 2, size) + r * _part(own, 2, size))
    return (1 - z) * new + z * h


def _step(x: Node, h: Node, c: Node | None, w: Weights, a: Attrs) -> tuple[Node, Node | None]:
    if a.mode == "lstm":
        assert c is not None
        return _lstm(x, h, c, w, a)
    if a.mode == "gru":
        return _gru(x, h, w, a), None
    return ir.map("relu" if a.mode == "rnn_relu" else "tanh", x + _matmul(h, w.h2h)), None


def _run(data: Node, h: Node, c: Node | None, w: Weights, a: Attrs, lengths: Node | None,
         backwards: bool) -> tuple[Node, Node, Node | None]:
    """One layer in one direction over data (T, N, width): outputs (T, N, H), and the last states."""
    bias = w.i2h_bias if a.mode == "gru" else w.i2h_bias + w.h2h_bias
    inputs = _matmul(data, w.i2h) + ir.reshape(bias, (1, 1, bias.size))
    given = {"h2h": w.h2h, "h2r": w.h2r, "h2h_bias": w.h2h_bias if a.mode == "gru" else None, "lengths": lengths}
    names = [name for name, n in given.items() if n is not None]

    def step(state: Sequence[Node], parts: Sequence[Node], constants: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        own = dict(zip(names, constants))
        mine = Weights(w.i2h, own["h2h"], own.get("h2r"), w.i2h_bias, own.get("h2h_bias", w.h2h_bias))
        new_h, new_c = _step(parts[0], state[0], state[1] if c is not None else None, mine, a)
        new = [new_h] if new_c is None else [new_h, new_c]
        if lengths is None:
            return new, [new_h]
        # a sequence that has ended (or not begun, backwards) keeps its state
        inside = ir.map("gt", own["lengths"], parts[1])
        return [ir.map("where", inside, n, old) for n, old in zip(new, state)], [ir.map("where", inside, new_h, 0)]
    carries = [h] if c is None else [h, c]
    slices = [inputs] if lengths is None else [inputs, ir.iota(data.shape[0])]
    last, (out,) = ir.loop(step, carries, slices, [n for n in given.values() if n is not None], reverse=backwards)
    return out, last[0], last[1] if c is not None else None


def rnn_params(shapes: list, a: Attrs) -> list:
    """The packed parameters' and the states' shapes from the data's."""
    if shapes[0] is None or len(shapes[0]) != 3:
        return shapes
    _, batch, width = shapes[0]
    if width > 0:
        shapes[1] = (parameter_count(a, width),)
    lead = a.num_layers * _ways(a)
    if batch > 0:
        shapes[2] = (lead, batch, a.projection_size or a.state_size)
        if a.mode == "lstm" and len(shapes) > 3:
            shapes[3] = (lead, batch, a.state_size)
    return shapes


def _for_batch(state: Node, data: Node) -> Node:
    """A state of one sequence, for all of them: what files begin with does not know the batch."""
    if state.ndim != 3 or data.ndim != 3 or state.shape[1] != 1:
        return state
    return ir.expand(state, (state.shape[0], data.shape[1], state.shape[2]))


def _check(data: Node, parameters: Node, state: Node, cell: Node | None, a: Attrs) -> None:
    if data.ndim != 3 or not data.shape[0]:
        raise ShapeError(f"data must be (time, batch, width) with at least one step, got {data.shape}")
    if a.projection_size and a.mode != "lstm":
        raise ShapeError(f"projection_size is for mode='lstm', got mode={a.mode!r}")
    want = parameter_count(a, data.shape[2])
    if parameters.shape != (want,):
        raise ShapeError(f"parameters must have {want} numbers for inputs of width {data.shape[2]}, "
                         f"state_size={a.state_size}, num_layers={a.num_layers}, "
                         f"mode={a.mode!r}, bidirectional={a.bidirectional}; got {parameters.shape}")
    lead = (a.num_layers * _ways(a), data.shape[1])
    if state.shape != (*lead, a.projection_size or a.state_size):
        raise ShapeError(f"state must be {(*lead, a.projection_size or a.state_size)} (layers and directions, batch, "
                         f"size), got {state.shape}")
    if a.mode == "lstm" and (cell is None or cell.shape != (*lead, a.state_size)):
        raise ShapeError(f"state_cell must be {(*lead, a.state_size)}, got {cell.shape if cell is not None else 'none'}")  # noqa: E501


@op("RNN", "data parameters state state_cell? sequence_length?", npx=("rnn",), json=("_npx_rnn",), params=rnn_params,
    takes={"state_cell": lambda a: a.mode == "lstm", "sequence_length": lambda a: a.use_sequence_length},
    needs=("train", "key"),
    draws=lambda a, train: train and a.p > 0 and a.num_layers > 1,
    outputs=lambda a: (3 if a.mode == "lstm" else 2) if a.state_outputs else 1,
    state_size=Int(), num_layers=Int(), bidirectional=Bool(False), mode=Enum(REQUIRED, *GATES), p=Float(0.0),
    state_outputs=Bool(False),
    projection_size=Int(None), lstm_state_clip_min=Float(None), lstm_state_clip_max=Float(None),
    lstm_state_clip_nan=Bool(False), use_sequence_length=Bool(False))
def rnn(data: Node, parameters: Node, state: Node, cell: Node | None, lengths: Node | None, a: Attrs) -> list[Node]:
    """Recurrent layers over data (time, batch, width). parameters: all weights, then all biases, packed as MXNet and
    cuDNN do; state and state_cell (layers * directions, batch, state_size).

    Gates stand in the order i f c o (LSTM, Hochreiter and Schmidhuber 1997) and r z n (GRU as in cuDNN). Returns the
    last layer's outputs (time, batch, directions * state_size), with state_outputs also the last states. p drops
    outputs between layers in training; with use_sequence_length (batch,) what follows a sequence's end is 0.
    """
    if a.mode != "lstm" and lengths is None:
        # the other modes have no cell: the lengths are their fourth input
        cell, lengths = None, cell
    state, cell = _for_batch(state, data), _for_batch(cell, data) if cell is not None and a.mode == "lstm" else cell
    _check(data, parameters, state, cell, a)
    if not a.use_sequence_length:
        lengths = None
    elif lengths is None or lengths.shape != (data.shape[1],):
        raise ShapeError(f"use_sequence_length needs sequence_length {(data.shape[1],)}, got "
                         f"{lengths.shape if lengths is not None else 'none'}")
    if lengths is not None:
        lengths = ir.reshape(ir.cast(lengths, dt.int64), (data.shape[1], 1))
    weights = _unpack(parameters, a, data.shape[2])
    x, last_h, last_c = data, [], []
    for layer in range(a.num_layers):
        if layer and a.p > 0 and a.train:
            keep = ir.map("lt", uniform01(a.key, x.shape, layer), 1 - a.p)
            x = ir.map("where", keep, x * (1 / (1 - a.p) if a.p < 1 else 0.0), 0)
        sides = []
        for way in range(_ways(a)):
            k = layer * _ways(a) + way
            h, c = (ir.reshape(ir.slice(s, (k, 0, 0), (1, *s.shape[1:])), s.shape[1:]) if s is not None else None
                    for s in (state, cell))
            assert h is not None
            out, h, c = _run(x, h, c, weights[k], a, lengths, way == 1)
            sides.append(out)
            last_h.append(ir.reshape(h, (1, *h.shape)))
            last_c += [ir.reshape(c, (1, *c.shape))] if c is not None else []
        x = sides[0] if len(sides) == 1 else ir.concat(sides, 2)
    if not a.state_outputs:
        return [x]
    return [x, ir.concat(last_h, 0), *([ir.concat(last_c, 0)] if last_c else [])]


@op("_rnn_param_concat", "*data", json=("_npi_rnn_param_concat",), arity_attr="num_args", num_args=Int(None),
    dim=Int(1))
def rnn_param_concat(data: list[Node], a: Attrs) -> Node:
    """The pieces of RNN's parameters one after another."""
    return ir.concat(data, a.dim)
