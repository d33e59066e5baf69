"""Symbol files in the forms of MXNet 0.8 to 1.x, read as MXNet 1.9.1 reads them: names, attributes, shapes and
values."""
from __future__ import annotations

import json

import numpy as np
import pytest

import hybrid as mx
from hybrid import HybridError

from ..paths import DATA

CASES = json.loads((DATA / "old_symbols.json").read_text())


@pytest.mark.parametrize("name", [k for k, v in CASES.items() if "error" not in v])
def test_read_as_mxnet(name: str) -> None:
    case = CASES[name]
    s = mx.sym.load_json(case["text"])
    assert (s.list_arguments(), s.list_auxiliary_states(),
            s.list_outputs()) == (case["arguments"], case["states"], case["outputs"])
    assert s.attr_dict() == case["attributes"]
    given = {k: tuple(v) for k, v in case["given"].items()}
    assert str(s.infer_shape(**given)) == case["shapes"]
    if case["values"] is None:
        return
    ex = s.simple_bind(mx.cpu(), grad_req="null", **given)
    rng = np.random.RandomState(0)
    for arrays, low, high in ((ex.arg_dict, .1, .9), (ex.aux_dict, .5, 1)):
        for key in sorted(arrays):
            arrays[key][:] = mx.nd.array(rng.uniform(low, high, arrays[key].shape))
    for mine, theirs in zip(ex.forward(is_train=False), case["values"], strict=True):
        np.testing.assert_allclose(mine.asnumpy(), theirs, rtol=1e-4, atol=1e-4)
    assert mx.sym.load_json(s.tojson()).tojson() == s.tojson()


@pytest.mark.parametrize("name", [k for k, v in CASES.items() if "error" in v])
def test_refused_as_by_mxnet(name: str) -> None:
    with pytest.raises(HybridError):
        mx.sym.load_json(CASES[name]["text"])


@pytest.mark.parametrize("shape, read", [("(128, 0)", "[128,-1]"), ("()", None)])
def test_unknown_lengths_where_zero_is_a_length(shape: str, read: str | None) -> None:
    """A file that was written without np_shape, read under it: recorded from MXNet 1.9.1."""
    data, weight = mx.sym.var("data"), mx.sym.var("weight", __shape__=shape)
    text = mx.sym.FullyConnected(data, weight, num_hidden=128).tojson()
    with mx.np_shape(True):
        s = mx.sym.load_json(text)
        assert s.attr_dict().get("weight", {}).get("__shape__") == read
        assert s.infer_shape(data=(10, 784))[0] == [(10, 784), (128, 784), (128,)]
        assert mx.sym.load_json(s.tojson()).infer_shape(data=(10, 784))[1] == [(10, 128)]
