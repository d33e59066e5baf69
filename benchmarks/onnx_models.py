"""The benchmark networks as ONNX models with the same weights."""
from __future__ import annotations

from typing import Any, Callable

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import hybrid as mx


class Graph:
    """Collects nodes and weights; ``made`` maps an operator's node of the Symbol to the name of its value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        """One node; the name of its result."""
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], **attrs))
        return out

    def weight(self, array: Any, name: str = "") -> str:
        """A constant; its name."""
        name = name or f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name


def _convolution(g: Graph, a: Any, *xs: str) -> str:
    return g.add("Conv", *xs, kernel_shape=list(a.kernel), strides=list(a.stride) or [1, 1], pads=list(a.pad) * 2 or [0] * 4, group=a.num_group)


def _batch_norm(g: Graph, a: Any, *xs: str) -> str:
    return g.add("BatchNormalization", *xs, epsilon=a.eps)


def _pooling(g: Graph, a: Any, x: str) -> str:
    if a.global_pool:
        return g.add("GlobalAveragePool" if a.pool_type == "avg" else "GlobalMaxPool", x)
    extra = {} if a.pool_type == "max" else {"count_include_pad": 1}
    return g.add("MaxPool" if a.pool_type == "max" else "AveragePool", x, kernel_shape=list(a.kernel), strides=list(a.stride) or [1, 1], pads=list(a.pad) * 2 or [0] * 4, **extra)


def _dense(g: Graph, a: Any, x: str, *rest: str) -> str:
    if a.flatten:
        return g.add("Gemm", g.add("Flatten", x), *rest, transB=1)
    turned = g.add("MatMul", x, g.add("Transpose", rest[0], perm=[1, 0]))
    return g.add("Add", turned, rest[1]) if len(rest) > 1 else turned


def _activation(g: Graph, a: Any, x: str) -> str:
    return g.add({"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}[a.act_type], x)


OPERATORS: dict[str, Callable[..., str]] = {
    "Convolution": _convolution, "BatchNorm": _batch_norm, "Pooling": _pooling, "FullyConnected": _dense, "Activation": _activation,
    "Flatten": lambda g, a, x: g.add("Flatten", x), "elemwise_add": lambda g, a, x, y: g.add("Add", x, y), "broadcast_add": lambda g, a, x, y: g.add("Add", x, y),
    "clip": lambda g, a, x: g.add("Clip", x, g.weight(np.float32(a.a_min)), g.weight(np.float32(a.a_max))),
    "softmax": lambda g, a, x: g.add("Softmax", x, axis=a.axis), "log_softmax": lambda g, a, x: g.add("LogSoftmax", x, axis=a.axis),
    "LayerNorm": lambda g, a, *xs: g.add("LayerNormalization", *xs, axis=a.axis, epsilon=a.eps),
    "LeakyReLU": lambda g, a, x: g.add("Gelu", x), "Concat": lambda g, a, *xs: g.add("Concat", *xs, axis=a.dim), "Dropout": lambda g, a, x: x,
}


def _walk(g: Graph, net: Any) -> str:
    """Every operator of the network's Symbol; the name of the result."""
    symbol = net(mx.sym.var("x"))
    params = {p.name: p.data().asnumpy() for p in net.collect_params().values()}
    made: dict[int, str] = {}
    for n in symbol.nodes():
        if n.opdef is None:
            made[id(n)] = n.name if n.name == "x" else g.weight(params[n.name], n.name)
        else:
            made[id(n)] = OPERATORS[n.opdef.name](g, n.attrs, *(made[id(m)] for m, _ in n.inputs))
    return made[id(symbol.entries[0][0])]


def to_onnx(net: Any, shape: tuple[int, ...]) -> bytes:
    """Serialized model with input ``x``."""
    g = Graph()
    kind = type(net).__name__
    if kind == "Elementwise":
        last = g.add("Add", g.add("Mul", "x", "x"), g.weight(np.float32(1)))
    elif kind == "Gelu":
        last = g.add("Gelu", "x", approximate="tanh")
    else:
        last = _walk(g, net)
    graph = helper.make_graph(g.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)], g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return model.SerializeToString()
