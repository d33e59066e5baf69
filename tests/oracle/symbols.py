"""Symbols that MXNet 1.9.1 and hybrid both build; their JSON is compared byte for byte. ``mx`` is either package."""
from __future__ import annotations


def _mlp(mx):
    x = mx.sym.var("data")
    h = mx.sym.FullyConnected(x, num_hidden=8, name="fc1")
    h = mx.sym.Activation(h, act_type="relu", name="act1")
    return mx.sym.FullyConnected(h, num_hidden=3, no_bias=True, name="fc2")


def _gluon(mx):
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(mx.gluon.nn.Conv2D(4, 3, padding=1, activation="relu"), mx.gluon.nn.BatchNorm(),
                mx.gluon.nn.MaxPool2D(),
                mx.gluon.nn.GlobalAvgPool2D(), mx.gluon.nn.Flatten(), mx.gluon.nn.Dropout(0.5), mx.gluon.nn.Dense(3))
    return net(mx.sym.var("data"))


def _gluon_more(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Embedding(5, 4), nn.LayerNorm(), nn.Dense(6, flatten=False, use_bias=False, activation="tanh"),
                nn.LeakyReLU(0.1),
                nn.PReLU(), nn.ELU(), nn.SELU(), nn.GELU(), nn.Swish(), nn.HybridLambda("sigmoid"))
    return net(mx.sym.var("data"))


def _gluon_deconv(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv1D(4, 3, groups=2, in_channels=2), nn.AvgPool1D(), nn.InstanceNorm(),
                nn.Conv1D(2, 1, use_bias=False),
                nn.GlobalMaxPool1D())
    return net(mx.sym.var("data"))


SYMBOLS = {
    "variable": lambda mx: mx.sym.var("x"),
    "variable with everything": lambda mx: mx.sym.var("x", shape=(2, 0, 3), lr_mult=2, wd_mult=0.5, dtype="float16",
                                                      init="zeros", attr={"__note__": "a\"b\n\\c"}),
    "mlp": _mlp,
    "gluon": _gluon,
    "gluon more": _gluon_more,
    "gluon 1d": _gluon_deconv,
    "group": lambda mx: mx.sym.Group([mx.sym.var("a"), mx.sym.relu(mx.sym.var("b"), name="r")]),
    "shared input": lambda mx: (lambda a: mx.sym.elemwise_add(mx.sym.relu(a, name="r"), a, name="s"))(mx.sym.var("a")),
    "many inputs": lambda mx: mx.sym.concat(*[mx.sym.var(f"v{k}") for k in range(12)], dim=1, name="c"),
    "many heads": lambda mx: mx.sym.Group([mx.sym.var(f"v{k}") for k in range(11)]),
    "one of several outputs": lambda mx: mx.sym.relu(mx.sym.split(mx.sym.var("a"), num_outputs=3, name="s")[1],
                                                     name="r"),
    "all of several outputs": lambda mx: mx.sym.split(mx.sym.var("a"), num_outputs=3, axis=-1, name="s"),
    "batchnorm": lambda mx: mx.sym.BatchNorm(mx.sym.var("a"), name="bn", fix_gamma=False, eps=1e-5),
    "layernorm": lambda mx: mx.sym.LayerNorm(mx.sym.var("a"), mx.sym.var("g"), mx.sym.var("b"), name="ln"),
    "pooling max": lambda mx: mx.sym.Pooling(mx.sym.var("a"), kernel=(2, 2), pool_type="max", name="p"),
    "pooling avg": lambda mx: mx.sym.Pooling(mx.sym.var("a"), kernel=(2, 2), pool_type="avg", stride=(2, 2), name="p"),
    "pooling global": lambda mx: mx.sym.Pooling(mx.sym.var("a"), global_pool=True, pool_type="max", name="p"),
    "dropout": lambda mx: mx.sym.Dropout(mx.sym.var("a"), p=0.3, name="d"),
    "convolution": lambda mx: mx.sym.Convolution(mx.sym.var("a"), kernel=(3, 3), num_filter=4, pad=(1, 1), name="c"),
    "l2": lambda mx: mx.sym.L2Normalization(mx.sym.var("a"), mode="channel", name="l"),
    "softmax": lambda mx: mx.sym.softmax(mx.sym.var("a"), axis=1, name="s"),
    "reshape": lambda mx: mx.sym.reshape(mx.sym.var("a"), shape=(0, -1, 2), name="r"),
    "slice": lambda mx: mx.sym.slice(mx.sym.var("a"), begin=(None, 1), end=(None, 3), name="s"),
    "sum": lambda mx: mx.sym.sum(mx.sym.var("a"), axis=(1, 2), keepdims=True, name="s"),
    "transpose": lambda mx: mx.sym.transpose(mx.sym.var("a"), axes=(1, 0), name="t"),
    "clip": lambda mx: mx.sym.clip(mx.sym.var("a"), a_min=-1, a_max=1.5, name="c"),
    "cast": lambda mx: mx.sym.cast(mx.sym.var("a"), dtype="float16", name="c"),
    "swapaxes": lambda mx: mx.sym.swapaxes(mx.sym.var("a"), dim1=1, dim2=2, name="s"),
    "aliases": lambda mx: mx.sym.flatten(mx.sym.stop_gradient(mx.sym.var("a"), name="g"), name="f"),
    "x + y": lambda mx: mx.sym.var("x") + mx.sym.var("y"),
    "x - y": lambda mx: mx.sym.var("x") - mx.sym.var("y"),
    "x * y": lambda mx: mx.sym.var("x") * mx.sym.var("y"),
    "x / y": lambda mx: mx.sym.var("x") / mx.sym.var("y"),
    "x + 1": lambda mx: mx.sym.var("x") + 1,
    "2 - x": lambda mx: 2 - mx.sym.var("x"),
    "x * 0.5": lambda mx: mx.sym.var("x") * 0.5,
    "1 / x": lambda mx: 1 / mx.sym.var("x"),
    "x ** 2": lambda mx: mx.sym.var("x") ** 2,
    "-x": lambda mx: -mx.sym.var("x"),
    "x > 0": lambda mx: mx.sym.var("x") > 0,
    "x == y": lambda mx: mx.sym.var("x") == mx.sym.var("y"),
    "automatic names": lambda mx: mx.sym.relu(mx.sym.relu(mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2))),
    "methods": lambda mx: mx.sym.var("x").reshape((2, -1)).expand_dims(axis=1).sum(axis=0),
    "embedding": lambda mx: mx.sym.Embedding(mx.sym.var("x"), input_dim=5, output_dim=4, name="e"),
    "dot": lambda mx: mx.sym.dot(mx.sym.var("a"), mx.sym.var("b"), transpose_b=True, name="d"),
    "where": lambda mx: mx.sym.where(mx.sym.var("c"), mx.sym.var("a"), mx.sym.var("b"), name="w"),
    "broadcast": lambda mx: mx.sym.broadcast_add(mx.sym.var("a"), mx.sym.var("b"), name="b"),
    "zeros": lambda mx: mx.sym.zeros((2, 3), name="z") + mx.sym.var("a"),
    "strange names": lambda mx: mx.sym.relu(mx.sym.var("a\"b\n\t\r\\/{}é\x01"), name="*/ {r} \"\\"),
}
