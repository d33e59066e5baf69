"""Recurrent cells and layers as MXNet 1.9.1 computes them: cells without oneDNN, layers with it. Recorded by
``ORACLE_PYTHON tests/oracle/record_rnn.py``.

Cases and values of inputs and parameters are made here for both libraries; only results are stored. data/rnn.npz:
outputs, states and gradients by case. data/rnn.json: names of parameters, of those in files, reprs, and for some blocks
the symbol's JSON.
"""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import numpy as np

DATA = pathlib.Path(__file__).parent.parent / "data"
X = (2, 4, 3)                           # N, T, C
HALF = "rnn.ResidualCell(rnn.GRUCell(3))"
STACK = "stack(rnn.LSTMCell(4), rnn.DropoutCell(0.3), rnn.ZoneoutCell(rnn.GRUCell(4), 0.2, 0.4), rnn.RNNCell(3))"
# a cell, and how it is unrolled
UNROLLED = {
    "rnn": ("rnn.RNNCell(4)", {}),
    "rnn_relu": ("rnn.RNNCell(4, activation='relu')", {"merge_outputs": True}),
    "rnn_softsign": ("rnn.RNNCell(4, activation='softsign')", {"layout": "TNC"}),
    "lstm": ("rnn.LSTMCell(4)", {"merge_outputs": True}),
    "lstm_lengths": ("rnn.LSTMCell(4)", {"valid_length": [1, 3], "merge_outputs": True}),
    "lstm_lengths_list": ("rnn.LSTMCell(4)", {"valid_length": [4, 2], "merge_outputs": False}),
    "lstm_activations": ("rnn.LSTMCell(4, activation='relu', recurrent_activation='tanh')", {"merge_outputs": True}),
    "gru": ("rnn.GRUCell(4)", {"merge_outputs": True}),
    "gru_time_first": ("rnn.GRUCell(4)", {"merge_outputs": True, "layout": "TNC", "valid_length": [2, 4]}),
    "residual": (HALF, {"merge_outputs": True}),
    "residual_lengths": (HALF, {"merge_outputs": True, "valid_length": [1, 3]}),
    "residual_list": (HALF, {"merge_outputs": False, "valid_length": [4, 3]}),
    "zoneout": ("rnn.ZoneoutCell(rnn.LSTMCell(4), 0.5, 0.5)", {"merge_outputs": True}),
    "bidirectional": ("rnn.BidirectionalCell(rnn.LSTMCell(4), rnn.GRUCell(2))", {"merge_outputs": True}),
    "bidirectional_list": ("rnn.BidirectionalCell(rnn.RNNCell(4), rnn.RNNCell(2))", {"merge_outputs": False}),
    "bidirectional_none": ("rnn.BidirectionalCell(rnn.RNNCell(4), rnn.RNNCell(2))", {}),
    "bidirectional_lengths": ("rnn.BidirectionalCell(rnn.LSTMCell(4), rnn.LSTMCell(2))",
                              {"merge_outputs": True, "valid_length": [1, 3]}),
    "stack": (STACK, {"merge_outputs": True}),
    "stack_lengths": (STACK, {"merge_outputs": True, "valid_length": [2, 4]}),
    "stack_mixed": ("stack(rnn.BidirectionalCell(rnn.LSTMCell(2), rnn.LSTMCell(2)), rnn.ResidualCell(rnn.RNNCell(4)))",
                    {"layout": "TNC"}),
    "plain_stack": ("plain(rnn.LSTMCell(4), rnn.RNNCell(3))", {"merge_outputs": True}),
    "vardrop": ("contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(4), 0.3, 0.0, 0.2)", {"merge_outputs": True}),
    "vardrop_states": ("contrib.rnn.VariationalDropoutCell(rnn.GRUCell(4), 0.3, 0.2, 0.2)", {"merge_outputs": True}),
    "vardrop_lengths": ("contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(4), drop_outputs=0.2)",
                        {"merge_outputs": True, "valid_length": [1, 3]}),
    "lstmp": ("contrib.rnn.LSTMPCell(5, 3)", {"merge_outputs": True}),
    "dropout": ("rnn.DropoutCell(0.4)", {"merge_outputs": True}),
}
CONV = {f"conv{d}d_{kind.lower()}": (f"contrib.rnn.Conv{d}D{kind}Cell(({', '.join(['2', '5', '4', '3'][:d + 1])}), 2, "
                                     f"3, 3, i2h_pad=1)", d)
        for d in (1, 2) for kind in ("RNN", "LSTM", "GRU")}
# a layer, its input's shape, whether states are given
LAYERS = {
    "layer_rnn": ("rnn.RNN(4)", False), "layer_rnn_tanh": ("rnn.RNN(4, 2, activation='tanh', layout='NTC')", True),
    "layer_lstm": ("rnn.LSTM(4)", False), "layer_lstm_states": ("rnn.LSTM(4, 2, bidirectional=True)", True),
    "layer_lstm_batch_first": ("rnn.LSTM(4, layout='NTC', dropout=0.5, num_layers=2)", True),
    "layer_lstm_projection": ("rnn.LSTM(4, projection_size=3)", True),
    "layer_gru": ("rnn.GRU(4, 2)", True), "layer_gru_both": ("rnn.GRU(3, bidirectional=True, layout='NTC')", False),
}
SYMBOLS = ["rnn.LSTMCell(4, prefix='a_')", "rnn.GRUCell(4, prefix='a_')", "rnn.RNNCell(4, prefix='a_')",
           "rnn.BidirectionalCell(rnn.LSTMCell(2, prefix='l_'), rnn.GRUCell(2, prefix='r_'))",
           "rnn.ResidualCell(rnn.RNNCell(3, prefix='a_'))", "contrib.rnn.LSTMPCell(4, 2, prefix='a_')",
           "rnn.ZoneoutCell(rnn.RNNCell(3, prefix='a_'), 0.5, 0.2)"]


def build(mx, text):
    """The block of a case, and whether it can be hybridized."""
    rnn, nn, contrib = mx.gluon.rnn, mx.gluon.nn, mx.gluon.contrib

    def filled(kind):
        def make(*cells):
            out = kind()
            for c in cells:
                out.add(c)
            return out
        return make
    scope = {"rnn": rnn, "nn": nn, "contrib": contrib, "stack": filled(rnn.HybridSequentialRNNCell),
             "plain": filled(rnn.SequentialRNNCell)}
    with mx.name.NameManager():
        return eval(text, scope)


def values(case, *shape):
    seed = sum(map(ord, case)) * 1000 + sum(shape)
    return np.random.RandomState(seed).uniform(-0.8, 0.8, shape).astype(np.float32)


def fill(mx, block, case):
    for i, p in enumerate(block.collect_params().values()):
        if all(s > 0 for s in p.shape):
            p.set_data(mx.nd.array(values(f"{case}{i}", *p.shape)))


def total(mx, case, outs):
    """A number that depends on every element differently."""
    return sum(((o * mx.nd.array(values(f"{case}w{i}", *o.shape))).sum() for i, o in enumerate(outs)),
               mx.nd.zeros((1,)))


def measured(mx, case, block, call, x):
    """Results and gradients of a call."""
    call(x)                                             # finishes shapes
    fill(mx, block, case)
    x.attach_grad()
    plain = call(x)
    if "projection" in case:                            # MXNet's CPU gives no gradients of it
        return {f"{case}|out{i}": o.asnumpy() for i, o in enumerate(plain)}
    with mx.autograd.record(train_mode=False):
        outs = call(x)
        loss = total(mx, case, outs)
    loss.backward()
    found = {f"{case}|out{i}": o.asnumpy() for i, o in enumerate(plain)}
    found[f"{case}|dx"] = x.grad.asnumpy()
    found.update({f"{case}|d{i}": p.grad().asnumpy() for i, p in enumerate(block.collect_params().values())})
    return found


def unrolled(mx, case, hybridized=False):
    """Outputs, states and gradients of an unrolled cell."""
    text, options = UNROLLED[case]
    cell = build(mx, text)
    cell.initialize()
    options = {k: mx.nd.array(v) if k == "valid_length" else v for k, v in options.items()}
    first = options.get("layout") == "TNC"

    def unroll(x, *lengths):
        more = {**options, "valid_length": lengths[0]} if lengths else options
        out, states = cell.unroll(X[1], x, **more)
        return [*(out if isinstance(out, (list, tuple)) else [out]), *states]

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="")
            self.register_child(cell)

        def hybrid_forward(self, F, x, *lengths):
            return tuple(unroll(x, *lengths))
    net = Net() if hybridized else None
    if net is not None:
        net.hybridize()
    given = [options["valid_length"]] if "valid_length" in options else []
    x = mx.nd.array(values(case, *((X[1], X[0], X[2]) if first else X)))
    return measured(mx, case, cell, (lambda v: list(net(v, *given))) if hybridized else unroll, x)


def convolved(mx, case, hybridized=False):
    """The same for a convolutional cell over two steps."""
    text, dims = CONV[case]
    cell = build(mx, text)
    cell.initialize()
    if hybridized:
        cell.hybridize()

    def call(x):
        states = cell.begin_state(batch_size=2)
        cell.reset()
        outs = []
        for t in range(2):
            out, states = cell(x[t], states)
            outs.append(out)
        return [*outs, *states]
    return measured(mx, case, cell, call, mx.nd.array(values(case, 2, 2, *(2, 5, 4)[:dims + 1])))


def layered(mx, case, hybridized=False):
    """The same for a layer."""
    text, with_states = LAYERS[case]
    layer = build(mx, text)
    layer.initialize()
    if hybridized:
        layer.hybridize()
    x = mx.nd.array(values(case, *X))
    batch = X[0] if layer._layout == "NTC" else X[1]
    states = [mx.nd.array(values(f"{case}s{i}", *info["shape"])) for i, info in enumerate(layer.state_info(batch))]

    def call(v):
        if not with_states:
            return [layer(v)]
        out, last = layer(v, states)
        return [out, *last]
    return measured(mx, case, layer, call, x)


def described(mx):
    """Names, reprs and JSON."""
    out = {"repr": {}, "params": {}, "files": {}, "symbols": {}}
    for case, text in [*((k, v[0]) for k, v in {**UNROLLED, **LAYERS, **CONV}.items())]:
        block = build(mx, text)
        out["repr"][case] = repr(block)
        out["params"][case] = {name: list(p.shape) for name, p in block.collect_params().items()}
        out["files"][case] = list(block._collect_params_with_prefix())
    for text in SYMBOLS:
        with mx.name.NameManager():
            cell = build(mx, text)
            outs, states = cell.unroll(2, [mx.sym.var("t0_data"), mx.sym.var("t1_data")])
            out["symbols"][text] = mx.sym.Group([*outs, *states]).tojson()
    for case in LAYERS:
        with mx.name.NameManager():
            text = LAYERS[case][0][:-1] + ", prefix='a_')"
            layer = build(mx, text)
            result = layer(mx.sym.var("data"), [mx.sym.var(f"s{i}")
                                                for i in range(len(layer.state_info()))]) if LAYERS[case][1] else layer(mx.sym.var("data"))  # noqa: E501
            out["symbols"][text] = (mx.sym.Group([result[0], *result[1]]) if LAYERS[case][1] else result).tojson()
    return out


def read():
    """The stored results by case, and the notes with the symbols."""
    notes = json.loads((DATA / "rnn.json").read_text())
    with np.load(DATA / "rnn.npz") as file:
        notes["symbols"] = json.loads(file["symbols"].tobytes())
        found = {}
        for case, parts in notes.pop("parts").items():
            ends = np.cumsum([0, *(int(np.prod(shape)) for _, shape in parts)])
            found[case] = {key: file[case][i:j].reshape(shape) for (key, shape), i, j in zip(parts, ends, ends[1:])}
    return found, notes


def main(part):
    """One part of the cases, into a file of its own."""
    import mxnet as mx
    found = {}
    for table, run in ((LAYERS, layered),) if part == "layers" else ((UNROLLED, unrolled), (CONV, convolved)):
        for case in table:
            found.update(run(mx, case))
    np.savez(f"{DATA}/rnn.{part}.npz", **found)
    if part == "cells":
        (DATA / "rnn.json").write_text(json.dumps(described(mx), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        for name, onednn in (("cells", "0"), ("layers", "1")):
            subprocess.run([sys.executable, __file__, name], check=True,
                           env={**os.environ, "MXNET_MKLDNN_ENABLED": onednn})
        whole = {}
        for name in ("cells", "layers"):
            file = DATA / f"rnn.{name}.npz"
            whole.update(np.load(file))
            file.unlink()
        notes = json.loads((DATA / "rnn.json").read_text())
        texts = json.dumps(notes.pop("symbols")).encode()
        notes["parts"] = {}
        for key, v in whole.items():
            notes["parts"].setdefault(key.split("|")[0], []).append([key, list(v.shape)])
        flat = {case: np.concatenate([whole[key].ravel() for key, _ in parts])
                for case, parts in notes["parts"].items()}
        np.savez_compressed(DATA / "rnn.npz", symbols=np.frombuffer(texts, np.uint8), **flat)
        (DATA / "rnn.json").write_text(json.dumps(notes, separators=(",", ":")) + "\n")
        print(len(whole), "arrays", (DATA / "rnn.npz").stat().st_size, (DATA / "rnn.json").stat().st_size, "bytes")
