"""More rows for record_ops.py: the fused recurrent operator. On a CPU MXNet ignores sequence lengths and clipping, and
has no projection: test_ops_rnn.py checks those."""
from __future__ import annotations

from cases import case, f

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def packed(mode, width, size, layers, ways):
    """As many parameters as MXNet wants."""
    g = GATES[mode] * size
    count = 0
    for layer in range(layers):
        count += ways * (g * (size * ways if layer else width) + g * size + 2 * g)
    return f(count, low=-0.7, high=0.7)


for mode in GATES:
    for layers, ways in ((1, 1), (2, 2)):
        states = [f(layers * ways, 2, 4)] * (2 if mode == "lstm" else 1)
        case("RNN", [f(5, 2, 3), packed(mode, 3, 4, layers, ways), *states], state_size=4, num_layers=layers,
             bidirectional=ways == 2, mode=mode,
             state_outputs=layers == 2, p=0.0, _tol=1e-4)
