"""Loops and branches as MXNet 1.9.1 computes and writes them. Recorded by ``MXNET_MKLDNN_ENABLED=0 ORACLE_PYTHON
tests/oracle/record_control_flow.py``.

Cases and inputs are made here for both libraries; results are in data/control_flow.json: for each case the results and
the gradients of the sum of their squares, and the JSON texts of some symbols.
"""
from __future__ import annotations

import json
import pathlib

import numpy as np

FILE = pathlib.Path(__file__).parent.parent / "data" / "control_flow.json"


def listed(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def both(pair):
    """Outputs, then states."""
    return [*listed(pair[0]), *listed(pair[1])]


def rnn(F, x, h, w, u):
    def step(d, s):
        n = F.tanh(F.dot(d, w) + F.dot(s[0], u))
        return n, [n]
    return both(F.contrib.foreach(step, x, [h]))


def nested(F, x, s):
    def outer(d, state):
        o, t = F.contrib.foreach(lambda e, q: (e * q + state, q + e), d, state)
        return F.sum(o, axis=0), t * 0.5
    return both(F.contrib.foreach(outer, x, s))


def branch(F, x, y):
    return [F.contrib.cond(F.sum(x) > 0, lambda: x * y, lambda: F.sqrt(y) - x)]


# a function, and the shapes of its inputs (or the inputs)
CASES = {
    "sums": (lambda F, x, s: both(F.contrib.foreach(lambda d, st: (d + st, d + st), x, s)), [(4, 3), (3,)]),
    "several": (lambda F, x, y, s, w: both(F.contrib.foreach(lambda d, st: ([d[0] * st[0] + w, d[1]], [st[0] * d[1] + w, st[1] + 1]), [x, y], [s, s])),  # noqa: E501
                [(4, 3), (4, 3), (3,), (3,)]),
    "rnn": (rnn, [(5, 2, 3), (2, 4), (3, 4), (4, 4)]),
    "nested": (nested, [(3, 2, 4), (4,)]),
    "while": (lambda F, i, s: both(F.contrib.while_loop(lambda i, s: i < 5, lambda i, s: (s * i, [i + 1, s + s * i]),
                                                        [i, s], max_iterations=4)),
              [[1.0], (3,)]),
    "while_stops": (lambda F, i, s: both(F.contrib.while_loop(lambda i, s: i < 3,
                                                              lambda i, s: ([s * i, i], [i + 1, s * 0.5]), [i, s],
                                                              max_iterations=7))[2:],
                    [[1.0], (3,)]),
    "then": (branch, [[1.0, 0.5], (2,)]),
    "else": (branch, [[-1.0, 0.5], (2,)]),
}


def arrays(mx, case):
    rng = np.random.RandomState(sum(map(ord, case)))
    return [mx.nd.array(np.array(s) if isinstance(s, list) else rng.uniform(0.1, 1, s)) for s in CASES[case][1]]


def measured(mx, case, call=None):
    """Results and gradients."""
    xs = arrays(mx, case)
    f = CASES[case][0]
    for x in xs:
        x.attach_grad()
    with mx.autograd.record():
        outs = (call or (lambda *a: f(mx.nd, *a)))(*xs)
        loss = mx.nd.zeros((1,))
        for o in outs:
            loss = loss + (o * o).sum()
    loss.backward()
    return [o.asnumpy() for o in outs] + [x.grad.asnumpy() for x in xs]


def symbols(mx):
    """JSON texts."""
    sym, out = mx.sym, {}
    with mx.name.NameManager():
        x, s, w, p = (sym.var(n) for n in "xswp")
        y = w * 2
        for name, make in {
            "foreach": lambda: both(sym.contrib.foreach(lambda d, s: (d * y + s[0], [s[0] + d]), x, [s])),
            "lists": lambda: both(sym.contrib.foreach(lambda d, s: ([d[0] * 2, s[0]], [s[0] + d[1], s[1] * w]), [x, y],
                                                      [s, w])),
            "shared": lambda: both(sym.contrib.foreach(lambda d, s: (d + s, s * d), x, s)),
            "nested": lambda: both(sym.contrib.foreach(lambda d, s: sym.contrib.foreach(lambda a, b: (a * b + w, a + b), d, s), x, s)),  # noqa: E501
            "while": lambda: both(sym.contrib.while_loop(lambda i, s: i < w, lambda i, s: (s * i, [i + 1, s * x]),
                                                         [x, s], max_iterations=5)),
            "cond": lambda: listed(sym.contrib.cond(p < 3, lambda: x * s, lambda: x + s)),
        }.items():
            out[name] = sym.Group(make()).tojson()
    return out


def main():
    import mxnet as mx
    results = {case: [[list(v.shape), [float(f"{n:.8g}") for n in v.ravel()]] for v in measured(mx, case)]
               for case in CASES}
    FILE.write_text(json.dumps({"results": results, "symbols": symbols(mx)}, separators=(",", ":")) + "\n")
    print(FILE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
