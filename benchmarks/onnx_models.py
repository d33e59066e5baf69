"""The benchmark networks as ONNX models with the same weights."""
from __future__ import annotations

from functools import partial
from typing import Any, Callable, Sequence

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from symbols import run, traced, weights_of

from hybrid.base.dtype import as_dtype

KINDS = {"float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "BFLOAT16"}        # dtype -> ONNX's name of it


class Graph:
    """Collects nodes and weights, those of numbers in one dtype. Values are names."""

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype, self.kind = as_dtype(dtype), getattr(TensorProto, KINDS[dtype])
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
        array = np.asarray(array, order="C")
        if array.dtype == np.float32:
            data = array.astype(self.dtype).tobytes()
            self.weights.append(helper.make_tensor(name, self.kind, array.shape, data, raw=True))
        else:
            self.weights.append(numpy_helper.from_array(array, name))
        return name


def _convolution(g: Graph, a: Any, *xs: str) -> str:
    return g.add("Conv", *xs, kernel_shape=list(a.kernel), strides=list(a.stride) or [1, 1],
                 pads=list(a.pad) * 2 or [0] * 4, group=a.num_group)


def _batch_norm(g: Graph, a: Any, *xs: str) -> str:
    return g.add("BatchNormalization", *xs, epsilon=a.eps)


def _pooling(g: Graph, a: Any, x: str) -> str:
    if a.global_pool:
        return g.add("GlobalAveragePool" if a.pool_type == "avg" else "GlobalMaxPool", x)
    extra = {} if a.pool_type == "max" else {"count_include_pad": 1}
    return g.add("MaxPool" if a.pool_type == "max" else "AveragePool", x, kernel_shape=list(a.kernel),
                 strides=list(a.stride) or [1, 1], pads=list(a.pad) * 2 or [0] * 4, **extra)


def _dense(g: Graph, a: Any, x: str, *rest: str) -> str:
    if a.flatten:
        return g.add("Gemm", g.add("Flatten", x), *rest, transB=1)
    turned = g.add("MatMul", x, g.add("Transpose", rest[0], perm=[1, 0]))
    return g.add("Add", turned, rest[1]) if len(rest) > 1 else turned


def _activation(g: Graph, a: Any, x: str) -> str:
    return g.add({"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid"}[a.act_type], x)


def _batch_dot(g: Graph, a: Any, x: str, y: str) -> str:
    return g.add("MatMul", x, g.add("Transpose", y, perm=[0, 2, 1]) if a.transpose_b else y)


OPERATORS: dict[str, Callable[..., str]] = {
    "Convolution": _convolution, "BatchNorm": _batch_norm, "Pooling": _pooling, "FullyConnected": _dense,
    "Activation": _activation,
    "Flatten": lambda g, a, x: g.add("Flatten", x), "elemwise_add": lambda g, a, x, y: g.add("Add", x, y),
    "broadcast_add": lambda g, a, x, y: g.add("Add", x, y),
    "clip": lambda g, a, x: g.add("Clip", x, g.weight(np.float32(a.a_min)), g.weight(np.float32(a.a_max))),
    "softmax": lambda g, a, x: g.add("Softmax", x, axis=a.axis),
    "log_softmax": lambda g, a, x: g.add("LogSoftmax", x, axis=a.axis),
    "LayerNorm": lambda g, a, *xs: g.add("LayerNormalization", *xs, axis=a.axis, epsilon=a.eps),
    "LeakyReLU": lambda g, a, x: g.add("Gelu", x),
    "transpose": lambda g, a, x: g.add("Transpose", x, perm=list(a.axes)),
    "Reshape": lambda g, a, x: g.add("Reshape", x, g.weight(np.array(a.shape, np.int64))),
    "dot": lambda g, a, x, y: g.add("MatMul", x, y),
    "batch_dot": _batch_dot, "_mul_scalar": lambda g, a, x: g.add("Mul", x, g.weight(np.float32(a.scalar))),
    "_plus_scalar": lambda g, a, x: g.add("Add", x, g.weight(np.float32(a.scalar))),
    "elemwise_mul": lambda g, a, x, y: g.add("Mul", x, y),
    "Concat": lambda g, a, *xs: g.add("Concat", *xs, axis=a.dim), "Dropout": lambda g, a, x: x,
}


def to_onnx(net: Any, shapes: Sequence[tuple[int, ...]], dtype: str = "float32") -> bytes:
    """Serialized model with inputs ``x0``, ``x1`` …, all numbers in one dtype; GELU as ONNX's own operator."""
    g = Graph(dtype)
    symbol, names = traced(net, len(shapes))
    if type(net).__name__ == "Gelu":
        last = g.add("Gelu", "x0", approximate="tanh")
    else:
        values = {**{n: n for n in names}, **{name: g.weight(w, name) for name, w in weights_of(net).items()}}
        last = run(symbol, {name: partial(form, g) for name, form in OPERATORS.items()}, values)
    graph = helper.make_graph(g.nodes, "net", [helper.make_tensor_value_info(n, g.kind, s)
                                               for n, s in zip(names, shapes)],
                              [helper.make_tensor_value_info(last, g.kind, None)], g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return model.SerializeToString()
