"""Loads models that this library exported (FOLDER/NAME/m-symbol.json, m-0000.params, io.npz) in MXNet and compares the
outputs. Prints one line each."""
import sys
from pathlib import Path

import mxnet as mx
import numpy as np


def check(folder):
    io = np.load(folder / "io.npz")
    if io["numpy"]:
        mx.npx.set_np()
    try:
        inputs, wanted = ([io[f"{kind}{k}"] for k in range(sum(f[0] == kind and f[1:].isdigit() for f in io.files))]
                          for kind in "io")
        symbol = mx.sym.load(str(folder / "m-symbol.json"))
        params = mx.nd.load(str(folder / "m-0000.params")) if (folder / "m-0000.params").stat().st_size > 32 else {}
        names = ["data"] if len(inputs) == 1 else [f"data{k}" for k in range(len(inputs))]
        args = {**{n: mx.nd.array(x) for n, x in zip(names, inputs)},
                **{k[4:]: v for k, v in params.items() if k.startswith("arg:")}}
        found = symbol.bind(mx.cpu(), args, aux_states={k[4:]: v for k, v in params.items() if k.startswith("aux:")},
                            grad_req="null").forward(is_train=False)
        assert [o.shape for o in found] == [w.shape for w in wanted], ([o.shape for o in found],
                                                                       [w.shape for w in wanted])
        for mine, theirs in zip(found, wanted):
            np.testing.assert_allclose(mine.asnumpy(), theirs, rtol=1e-4,
                                       atol=1e-4 * max(np.abs(theirs).max(initial=0), 1e-3))
    finally:
        mx.npx.reset_np()


for place in sorted(Path(sys.argv[1]).iterdir()):
    try:
        check(place)
        print("same", place.name)
    except Exception as err:                              # the caller counts the lines
        print("DIFFERENT", place.name, type(err).__name__, str(err)[:300].replace("\n", " "))
