"""Recurrent cells on Symbols: how each case is built, and what of it is compared. Run by MXNet when recording and by
hybrid when checking."""
from __future__ import annotations

import json
from typing import Any

import numpy as np


def _stack(r: Any) -> Any:
    cell = r.SequentialRNNCell()
    for one in (r.LSTMCell(3, prefix="a_"), r.DropoutCell(0.0), r.ResidualCell(r.GRUCell(3, prefix="b_"))):
        cell.add(one)
    return cell


def _both(r: Any) -> Any:
    return r.BidirectionalCell(r.LSTMCell(4, prefix="l_"), r.GRUCell(4, prefix="r_"))


IMAGES = (2, 3, 3, 5, 5)
# name: (cell, keywords of unroll, shape of the data, whether MXNet runs it and not only builds it)
CASES: dict[str, tuple[Any, dict[str, Any], tuple[int, ...], bool]] = {
    "rnn": (lambda r: r.RNNCell(4), {"merge_outputs": True}, (2, 3, 3), True),
    "rnn relu": (lambda r: r.RNNCell(4, "relu", "q_"), {}, (2, 3, 3), True),
    "lstm": (lambda r: r.LSTMCell(4, forget_bias=2.0), {"merge_outputs": True}, (2, 3, 3), True),
    "gru": (lambda r: r.GRUCell(4), {"layout": "TNC", "merge_outputs": False}, (3, 2, 3), True),
    "sequential": (_stack, {"merge_outputs": True}, (2, 3, 3), True),
    "sequential list": (_stack, {}, (2, 3, 3), True),
    "bidirectional": (_both, {"merge_outputs": True}, (2, 3, 3), True),
    "bidirectional list": (_both, {}, (2, 3, 3), True),
    "bidirectional of fused": (lambda r: r.BidirectionalCell(r.RNNCell(4, prefix="l_"), r.FusedRNNCell(4, prefix="r_")),
                               {"layout": "TNC", "merge_outputs": True}, (3, 2, 3), False),
    "zoneout": (lambda r: r.ZoneoutCell(r.LSTMCell(3), 0.4, 0.3), {}, (2, 3, 3), True),
    "residual": (lambda r: r.ResidualCell(r.GRUCell(3)), {}, (2, 3, 3), True),
    "dropout": (lambda r: r.DropoutCell(0.4), {}, (2, 3, 3), True),
    "fused lstm": (lambda r: r.FusedRNNCell(4, 2, bidirectional=True, dropout=0.1, get_next_state=True), {}, (2, 3, 3),
                   False),
    "fused relu": (lambda r: r.FusedRNNCell(4, mode="rnn_relu", prefix="f_"),
                   {"layout": "TNC", "merge_outputs": False}, (3, 2, 3), False),
    "unfused gru": (lambda r: r.FusedRNNCell(4, 2, "gru", bidirectional=True, dropout=0.1).unfuse(), {}, (2, 3, 3),
                    True),
    "unfused lstm": (lambda r: r.FusedRNNCell(4, 2, "lstm").unfuse(), {"merge_outputs": True}, (2, 3, 3), True),
    "conv rnn": (lambda r: r.ConvRNNCell((2, 3, 5, 5), 4, i2h_pad=(0, 0), activation="tanh"), {}, IMAGES, True),
    "conv lstm": (lambda r: r.ConvLSTMCell((2, 3, 5, 5), 4, h2h_kernel=(5, 3), h2h_dilate=(1, 2)),
                  {"merge_outputs": True}, IMAGES, True),
    "conv gru": (lambda r: r.ConvGRUCell((2, 3, 5, 5), 4), {}, IMAGES, True),
}
PACKED = {
    "rnn": (lambda r: r.RNNCell(2), {"rnn_i2h_weight": (2, 3), "rnn_i2h_bias": (2,), "rnn_h2h_weight": (2, 2),
                                     "rnn_h2h_bias": (2,)}),
    "gru": (lambda r: r.GRUCell(2), {"gru_i2h_weight": (6, 3), "gru_i2h_bias": (6,), "gru_h2h_weight": (6, 2),
                                     "gru_h2h_bias": (6,)}),
    "zoneout": (lambda r: r.ZoneoutCell(r.LSTMCell(2)),
                {"lstm_i2h_weight": (8, 3), "lstm_i2h_bias": (8,), "lstm_h2h_weight": (8, 2), "lstm_h2h_bias": (8,)}),
    "fused lstm": (lambda r: r.FusedRNNCell(2, 2, bidirectional=True), {"lstm_parameters": (240,)}),
    "fused gru": (lambda r: r.FusedRNNCell(2, 2, "gru"), {"gru_parameters": (78,)}),
    "fused relu": (lambda r: r.FusedRNNCell(2, 1, "rnn_relu"), {"rnn_relu_parameters": (14,)}),
}
SENTENCES = [[1, 2, 3], [4, 5], [6, 7, 8, 9], [1, 2], [3, 3, 3], [5, 6, 7, 8, 9, 1], [2, 2], [3, 4]]
ITERATORS: dict[str, dict[str, Any]] = {
    "buckets": {"buckets": [5, 3]}, "auto": {},
    "time first": {"buckets": [3, 5], "layout": "TN", "dtype": "int32", "invalid_label": 0, "data_name": "x",
                   "label_name": "y"}}


def flat(states: Any) -> list[Any]:
    """States of cells within cells, one after another."""
    return [x for s in states for x in flat(s)] if isinstance(states, (list, tuple)) else [states]


def unrolled(mx: Any, case: str, with_states: bool) -> Any:
    """Outputs and states of a case, as one Symbol. An output that is also a state stands twice; MXNet takes the
    gradient of one of them only."""
    make, how, *_ = CASES[case]
    with mx.name.NameManager():
        outputs, states = make(mx.rnn).unroll(3, mx.sym.var("data"), **how)
    return mx.sym.Group([*(outputs if isinstance(outputs, list) else [outputs]),
                         *(flat(states) if with_states else ())])


def structure(symbol: Any) -> dict[str, Any]:
    """A graph without its attributes' order."""
    graph = json.loads(symbol.tojson())
    nodes = [[n["op"], n["name"], [i[:2] for i in n["inputs"]], sorted(n.get("attrs", {}).items())]
             for n in graph["nodes"]]
    return json.loads(json.dumps({"nodes": nodes, "heads": [h[:2] for h in graph["heads"]]}))


def values(shape: tuple[int, ...], k: int) -> np.ndarray:
    """Numbers to compute with."""
    return (np.sin(np.arange(int(np.prod(shape))) * 0.37 + k) * 0.5).reshape(shape).astype(np.float32)


def numbers(mx: Any, case: str, symbol: Any, train: bool) -> dict[str, list[float]]:
    """A few sums for each output, with ``train`` for each gradient."""
    executor = symbol.simple_bind(mx.cpu(), data=CASES[case][2])
    for i, (_, a) in enumerate(sorted(executor.arg_dict.items())):
        a[:] = mx.nd.array(values(a.shape, i))
    outputs = executor.forward(is_train=train)
    found = {f"output {i}": x for i, x in enumerate(outputs)}
    if train:
        executor.backward([mx.nd.ones(x.shape) for x in outputs])
        found = executor.grad_dict
    return {name: [float(x.asnumpy().sum()), float((x.asnumpy().ravel() * np.cos(np.arange(x.size))).sum())]
            for name, x in sorted(found.items())}


def unpacked(mx: Any, case: str) -> dict[str, Any]:
    """Shape and first number of each gate's weights, where the packed numbers count up."""
    make, shapes = PACKED[case]
    at, arrays = 0, {}
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        arrays[name] = mx.nd.array(np.arange(at, at + size).reshape(shape))
        at += size
    cell = make(mx.rnn)
    parts = cell.unpack_weights(arrays)
    again = cell.pack_weights(parts)
    assert all((again[name].asnumpy() == a.asnumpy()).all() for name, a in arrays.items())
    return {name: [list(x.shape), float(x.reshape((-1,))[0].asscalar())] for name, x in sorted(parts.items())}


def batches(mx: Any, case: str) -> list[Any]:
    """Every batch of an iterator, in an order that the seeds tell."""
    import random
    random.seed(0)
    np.random.seed(0)
    it = mx.rnn.BucketSentenceIter([list(s) for s in SENTENCES], 2, **ITERATORS[case])
    out: list[Any] = [[it.buckets, it.default_bucket_key, str(it.provide_data), str(it.provide_label)]]
    for b in it:
        out.append([b.bucket_key, str(b.provide_data), str(b.provide_label), b.data[0].asnumpy().tolist(),
                    b.label[0].asnumpy().tolist(), str(np.dtype(b.data[0].dtype))])
    return json.loads(json.dumps(out))
