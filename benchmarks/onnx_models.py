"""The benchmark networks as ONNX models with the same weights."""
from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Collects nodes and weights."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.last = "x"

    def add(self, op: str, *extra: str, **attrs: Any) -> None:
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *extra], [out], **attrs))
        self.last = out

    def weight(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name


def _layer(g: Graph, layer: Any) -> None:
    kind = type(layer).__name__
    if kind == "Dense":
        g.add("Flatten")
        g.add("Gemm", g.weight(layer.weight.data().asnumpy()), g.weight(layer.bias.data().asnumpy()), transB=1)
    elif kind == "Conv2D":
        g.add("Conv", g.weight(layer.weight.data().asnumpy()), g.weight(layer.bias.data().asnumpy()))
    elif kind == "MaxPool2D":
        g.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    elif kind == "LayerNorm":
        g.add("LayerNormalization", g.weight(layer.gamma.data().asnumpy()), g.weight(layer.beta.data().asnumpy()), axis=-1, epsilon=1e-5)
    elif kind == "Softmax":
        g.add("Softmax", axis=-1)
    elif kind == "Elementwise":
        g.add("Mul", "x")
        g.add("Add", g.weight(np.float32(1)))
    elif kind == "Gelu":
        g.add("Gelu", approximate="tanh")
    else:
        raise ValueError(f"no ONNX form of {kind}")
    if getattr(layer, "act", None) is not None:
        g.add("Relu")


def to_onnx(net: Any, shape: tuple[int, ...]) -> bytes:
    """Serialized model with input ``x``."""
    g = Graph()
    for layer in net._children.values() if type(net).__name__ == "HybridSequential" else [net]:
        _layer(g, layer)
    graph = helper.make_graph(g.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(g.last, TensorProto.FLOAT, None)], g.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return model.SerializeToString()
