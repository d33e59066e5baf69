"""Records tests/data/symbol_cells.json with MXNet 1.9.1: graphs, numbers, unpacked weights and batches of mx.rnn."""
from __future__ import annotations

import gzip
import json
from pathlib import Path

import mxnet as mx
from symbol_cells import CASES, ITERATORS, PACKED, batches, numbers, structure, unpacked, unrolled

out: dict = {"graphs": {}, "numbers": {}, "unpacked": {c: unpacked(mx, c) for c in PACKED},
             "batches": {c: batches(mx, c) for c in ITERATORS}}
for case, (_, _, _, runs) in CASES.items():
    out["graphs"][case] = structure(unrolled(mx, case, True))
    if runs:
        trained = case not in ("zoneout", "dropout") and "unfused gru" != case            # what draws no random numbers
        out["numbers"][case] = [numbers(mx, case, unrolled(mx, case, False), train)
                                for train in (False, True)[:1 + trained]]
path = Path(__file__).resolve().parents[1] / "data" / "symbol_cells.json.gz"
path.write_bytes(gzip.compress(json.dumps(out).encode(), 9, mtime=0))
print(path, path.stat().st_size)
