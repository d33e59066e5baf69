"""Gluon layers as MXNet 1.9.1 runs them. Recorded by ``MXNET_MKLDNN_ENABLED=0 ORACLE_PYTHON
tests/oracle/gluon_layers.py``.

The cases and the values of inputs and parameters are made here for both libraries; only results are stored.
"""
from __future__ import annotations

import numpy as np

CASES = {                                                    # layer, shape of the input
    "dense": ("nn.Dense(4)", (2, 3)),
    "dense_relu": ("nn.Dense(4, activation='relu')", (2, 3, 2)),
    "dense_no_flatten": ("nn.Dense(4, flatten=False, use_bias=False)", (2, 3, 5)),
    "conv1d": ("nn.Conv1D(4, 3, padding=1)", (2, 3, 7)),
    "conv2d": ("nn.Conv2D(4, 3, strides=2, padding=1)", (2, 3, 7, 8)),
    "conv2d_groups": ("nn.Conv2D(4, (3, 2), groups=2, use_bias=False, activation='tanh')", (2, 4, 6, 6)),
    "conv2d_dilated": ("nn.Conv2D(2, 3, dilation=2)", (1, 3, 8, 8)),
    "conv3d": ("nn.Conv3D(2, 2)", (1, 2, 3, 4, 4)),
    "conv2d_transpose": ("nn.Conv2DTranspose(3, 3, strides=2, padding=1, output_padding=1, in_channels=2)",
                         (1, 2, 4, 4)),
    "maxpool1d": ("nn.MaxPool1D(2)", (2, 3, 7)),
    "maxpool2d": ("nn.MaxPool2D(3, 2, 1)", (2, 3, 7, 8)),
    "maxpool2d_ceil": ("nn.MaxPool2D(2, 2, ceil_mode=True)", (1, 2, 5, 7)),
    "maxpool3d": ("nn.MaxPool3D(2)", (1, 2, 4, 4, 4)),
    "avgpool2d": ("nn.AvgPool2D(3, 2, 1)", (1, 2, 7, 7)),
    "avgpool2d_exclude": ("nn.AvgPool2D(3, 2, 1, count_include_pad=False)", (1, 2, 7, 7)),
    "globalmax": ("nn.GlobalMaxPool2D()", (2, 3, 4, 5)),
    "globalavg": ("nn.GlobalAvgPool2D()", (2, 3, 4, 5)),
    "batchnorm": ("nn.BatchNorm()", (4, 3, 2, 2)),
    "batchnorm_last": ("nn.BatchNorm(axis=-1, scale=False, momentum=0.7)", (4, 3, 2, 5)),
    "batchnorm_global": ("nn.BatchNorm(use_global_stats=True, center=False)", (4, 3, 2, 2)),
    "layernorm": ("nn.LayerNorm()", (3, 4, 5)),
    "layernorm_axis": ("nn.LayerNorm(axis=1, scale=False)", (3, 4, 5)),
    "instancenorm": ("nn.InstanceNorm(scale=True)", (2, 3, 4, 4)),
    "groupnorm": ("nn.GroupNorm(2)", (2, 4, 3, 3)),
    "embedding": ("nn.Embedding(5, 3)", "indices"),
    "flatten": ("nn.Flatten()", (2, 3, 4)),
    "leaky": ("nn.LeakyReLU(0.1)", (2, 5)),
    "prelu": ("nn.PReLU(in_channels=3)", (2, 3, 4)),
    "elu": ("nn.ELU(0.7)", (2, 5)),
    "selu": ("nn.SELU()", (2, 5)),
    "gelu": ("nn.GELU()", (2, 5)),
    "swish": ("nn.Swish(1.5)", (2, 5)),
    "sigmoid": ("nn.Activation('sigmoid')", (2, 5)),
    "softsign": ("nn.Activation('softsign')", (2, 5)),
    "softrelu": ("nn.Activation('softrelu')", (2, 5)),
    "dropout_off": ("nn.Dropout(0)", (2, 5)),
    "lambda": ("nn.HybridLambda('tanh')", (2, 5)),
    "lambda_function": ("nn.HybridLambda(lambda F, x: F.relu(x) * 2)", (2, 5)),
    "reflection": ("nn.ReflectionPad2D(1)", (1, 2, 4, 4)),
    "sequential": ("seq(nn.Conv2D(3, 3, activation='relu'), nn.MaxPool2D(), nn.BatchNorm(), nn.Flatten(), nn.Dense(5, "
                   "activation='sigmoid'), nn.Dense(2))", (2, 2, 8, 8)),
    "concurrent": ("con(nn.Dense(3), nn.Dense(2), nn.Flatten())", (2, 4)),
}


def builder(nn, contrib_nn):
    """The names that the cases use."""
    def seq(*layers):
        net = nn.HybridSequential()
        net.add(*layers)
        return net

    def con(*layers):
        net = contrib_nn.HybridConcurrent(axis=1)
        net.add(*layers)
        return net
    return {"nn": nn, "seq": seq, "con": con}


def run(mx, autograd, contrib_nn, case, hybridized=False):
    """All that a case gives: result, training result, gradients, parameters afterwards, repr."""
    code, shape = CASES[case]
    net = eval(code, builder(mx.gluon.nn, contrib_nn))
    rng = np.random.RandomState(sum(map(ord, case)))
    x = mx.nd.array(rng.randint(0, 5, (3, 4)) if shape == "indices" else rng.uniform(-1.5, 1.5, shape))
    net.initialize()
    net(x)                                                   # shapes
    params = net._collect_params_with_prefix()
    for k, p in params.items():
        p.set_data(mx.nd.array(rng.uniform(0.5, 1.5, p.shape) if k.endswith(("var", "gamma"))
                               else rng.uniform(-1, 1, p.shape)))
    if hybridized:
        net.hybridize()
    out = {"repr": np.array(repr(net)), "predict": net(x).asnumpy()}
    if shape != "indices":
        x.attach_grad()
    with autograd.record():
        y = net(x)
        loss = (y * mx.nd.array(rng.uniform(-1, 1, y.shape))).sum()
    loss.backward()
    out["train"] = y.asnumpy()
    if shape != "indices":
        out["grad.x"] = x.grad.asnumpy()
    for k, p in params.items():
        if p.grad_req != "null":
            out["grad." + k] = p.grad().asnumpy()
        if "running" in k:
            out["after." + k] = p.data().asnumpy()
    return out


if __name__ == "__main__":
    import pathlib

    import mxnet
    results = {f"{case}|{k}": v for case in CASES
               for k, v in run(mxnet, mxnet.autograd, mxnet.gluon.contrib.nn, case).items()}
    np.savez_compressed(pathlib.Path(__file__).parent.parent / "data" / "gluon_layers.npz", **results)
