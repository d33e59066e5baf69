"""Records what MXNet 1.9.1's contrib.amp answers: its lists, and graphs before and after convert_symbol and
convert_model.

Run with a Python that has MXNet 1.9.1: ``MXNET_MKLDNN_ENABLED=0 python tests/oracle/record_amp.py``; writes
tests/data/amp.json.gz.
"""
from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import mxnet as mx
from mxnet import sym as S  # noqa: N812
from mxnet.contrib import amp

OUT = Path(__file__).resolve().parent.parent / "data" / "amp.json.gz"
LISTS = ("list_lp16_ops", "list_fp32_ops", "list_lp16_fp32_ops", "list_conditional_fp32_ops", "list_widest_type_cast",
         "list_loss_output_functions",
         "list_lp16_use_fp32_params")


def digest(names: object) -> str:
    """A short fingerprint of a list, its order left out."""
    return hashlib.sha256("\n".join(sorted(map(str, names))).encode()).hexdigest() if names is not None else "None"


def lists() -> dict:
    bfloat16 = amp.amp.bfloat16
    return {name: {d: digest(getattr(amp, name)(t)) for d, t in (("float16", "float16"), ("bfloat16", bfloat16))}
            for name in LISTS}


def conv(x: object, name: str, **kw: object) -> object:
    return S.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=4, name=name, **kw)


def cnn() -> object:
    x = S.Activation(S.BatchNorm(conv(S.var("data"), "conv"), name="bn"), act_type="relu", name="act")
    x = S.Pooling(S.LeakyReLU(x, act_type="elu", name="elu"), kernel=(2, 2), stride=(2, 2), pool_type="max",
                  name="pool")
    one, two = S.FullyConnected(x, num_hidden=3, name="fc"), S.FullyConnected(x, num_hidden=3, name="fc2")
    return S.SoftmaxOutput(one + S.exp(two, name="e"), name="softmax")


def residual() -> object:
    x = conv(S.var("data"), "conv0", no_bias=True)
    y = S.relu(S.BatchNorm(conv(S.relu(S.BatchNorm(x, name="bn0"), name="r0"), "conv1"), name="bn1"), name="r1")
    z = S.relu(S.elemwise_add(x, y, name="sum"), name="r2")
    x = S.Flatten(S.Pooling(z, global_pool=True, pool_type="avg", kernel=(1, 1), name="gap"), name="flat")
    return S.log_softmax(S.Dropout(S.FullyConnected(x, num_hidden=5, name="fc"), name="drop"), name="out")


def branches() -> object:
    x = S.var("data")
    parts = S.SliceChannel(conv(x, "conv"), num_outputs=2, name="parts")
    cat = S.Concat(parts[1], S.exp(parts[0], name="ex"), name="cat")
    return S.FullyConnected(S.Activation(cat, act_type="softrelu", name="soft"), num_hidden=2, name="fc")


def attention() -> object:
    x = S.var("data")
    q, k = (S.FullyConnected(x, num_hidden=4, flatten=False, name=n) for n in "qk")
    scores = S.batch_dot(q, k, transpose_b=True, name="qk")
    value = S.broadcast_mul(k, S.mean(k, axis=1, keepdims=True, name="m"), name="scaled")
    return S.FullyConnected(S.LayerNorm(S.batch_dot(S.softmax(scores, name="sm"), value, name="mix"), name="ln"),
                            num_hidden=2, name="o")


CASES = {
    "cnn": (cnn, {}), "cnn_excluded": (cnn, {"excluded_sym_names": ["fc", "conv"]}),
    "cnn_bfloat16": (cnn, {"target_dtype": "bfloat16"}),
    "cnn_more_low": (cnn, {"target_dtype_ops": ["Convolution", "FullyConnected", "Pooling"]}),
    "cnn_more_float32": (cnn, {"fp32_ops": ["BatchNorm", "Pooling", "SoftmaxOutput"]}),
    "residual": (residual, {}), "residual_bfloat16": (residual, {"target_dtype": "bfloat16"}),
    "branches": (branches, {}), "attention": (attention, {}),
}
MODELS = {"cnn": (cnn, False), "cnn_offline": (cnn, True), "residual_offline": (residual, True),
          "attention_offline": (attention, True)}


def text(symbol: object) -> dict:
    return json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]


def model(make: object, offline: bool) -> dict:
    symbol = make()
    shapes = dict(zip(symbol.list_arguments(),
                      symbol.infer_shape_partial(data=(2, 3, 8) if make is attention else (2, 3, 8, 8))[0]))
    args = {n: mx.nd.zeros(s) for n, s in shapes.items() if n not in ("data", "softmax_label")}
    states = dict(zip(symbol.list_auxiliary_states(),
                      symbol.infer_shape_partial(data=(2, 3, 8) if make is attention else (2, 3, 8, 8))[2]))
    aux = {n: mx.nd.zeros(s) for n, s in states.items()}
    out, a, x = amp.convert_model(symbol, args, aux, cast_optional_params=offline)
    return {"symbol": symbol.tojson(), "offline": offline, "shapes": {**shapes, **states}, "nodes": text(out),
            "aux": sorted(x),
            "dtypes": {k: v.dtype.__name__ for k, v in {**a, **x}.items()}}


def main() -> None:
    cases = {}
    for name, (make, kwargs) in CASES.items():
        symbol = make()
        cases[name] = {"symbol": symbol.tojson(), "kwargs": kwargs, "nodes": text(amp.convert_symbol(symbol, **kwargs))}
    found = {"names": sorted(amp.amp.__all__), "lists": lists(), "cases": cases,
             "models": {name: model(*row) for name, row in MODELS.items()}}
    OUT.write_bytes(gzip.compress(json.dumps(found, separators=(",", ":"), sort_keys=True).encode(), mtime=0))


if __name__ == "__main__":
    main()
