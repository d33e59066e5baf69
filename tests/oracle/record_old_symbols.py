"""Records what MXNet 1.9.1 makes of symbol files in the forms of older versions: MXNET_MKLDNN_ENABLED=0 python
tests/oracle/record_old_symbols.py

The texts stand in tests/data/old_symbols.json, with the shapes that are given; the rest of the file is written anew.
"""
import json
from pathlib import Path

import mxnet as mx
import numpy as np


def values(symbol, given):
    """The outputs for drawn arguments and states; None where the shapes do not follow."""
    ex = symbol.simple_bind(mx.cpu(), grad_req="null", **{k: tuple(v) for k, v in given.items()})
    rng = np.random.RandomState(0)
    for arrays, low, high in ((ex.arg_dict, .1, .9), (ex.aux_dict, .5, 1)):
        for name in sorted(arrays):
            arrays[name][:] = mx.nd.array(rng.uniform(low, high, arrays[name].shape))
    return [np.round(o.asnumpy().astype("f8"), 4).tolist() for o in ex.forward(is_train=False)]


def described(text, given):
    """Names, attributes, shapes and values of the symbol in a text."""
    try:
        s = mx.sym.load_json(text)
    except mx.MXNetError:
        return {"text": text, "error": True}
    shapes = s.infer_shape(**{k: tuple(v) for k, v in given.items()})
    return {"text": text, "given": given, "arguments": s.list_arguments(), "states": s.list_auxiliary_states(),
            "outputs": s.list_outputs(),
            "attributes": {n: dict(sorted(a.items())) for n, a in sorted(s.attr_dict().items())}, "shapes": str(shapes),
            "values": values(s, given) if shapes[0] is not None else None}


path = Path(__file__).parent.parent / "data" / "old_symbols.json"
cases = json.loads(path.read_text())
found = {name: described(case["text"], case.get("given", {})) for name, case in cases.items()}
path.write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}"
                                   for k, v in found.items()) + "\n}\n")
