"""Small programs over primitives, each with inputs: what every backend must compute like the reference."""
from __future__ import annotations

from typing import Any

import numpy as np

from hybrid import ir
from hybrid.passes.differentiate import vjp_program

rng = np.random.default_rng(7)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def softmax(x: ir.Node) -> ir.Node:
    e = ir.map("exp", x - ir.reduce("max", x, (x.ndim - 1,), True))
    return e / ir.reduce("sum", e, (x.ndim - 1,), True)


def layer_norm(x: ir.Node, n: int) -> ir.Node:
    c = x - ir.reduce("sum", x, (1,), True) / n
    return c * ir.map("rsqrt", ir.reduce("sum", c * c, (1,), True) / n + 1e-5)


def dense(x: ir.Node, w: ir.Node, b: ir.Node) -> ir.Node:
    return ir.dot(x, w, ((1,), (1,))) + b


def conv(x: ir.Node, w: ir.Node, b: ir.Node, pad: int = 0, stride: int = 1, dilate: int = 1) -> ir.Node:
    k = w.shape[2]
    win = ir.window(ir.pad(x, (0, 0, pad, pad), (0, 0, pad, pad)), (2, 3), (k, k), (stride, stride), (dilate, dilate))
    return ir.permute(ir.dot(w, win, ((1, 2, 3), (1, 4, 5))), (1, 0, 2, 3)) + ir.reshape(b, (1, w.shape[0], 1, 1))


def batch_norm(x: ir.Node, gamma: ir.Node, running: ir.Node) -> tuple[ir.Node, ir.Node]:
    count, channels = x.size // x.shape[1], x.shape[1]

    def wide(v: ir.Node) -> ir.Node:
        return ir.reshape(v, (1, channels, 1, 1))
    mean = ir.reduce("sum", x, (0, 2, 3)) / count
    c = x - wide(mean)
    var = ir.reduce("sum", c * c, (0, 2, 3)) / count
    return ir.map("relu", c * wide(ir.map("rsqrt", var + 1e-5) * gamma)), running * 0.9 + mean * 0.1


def inputs(*arrays: np.ndarray) -> list[ir.Node]:
    return [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]


Case = tuple[ir.Program, list[np.ndarray]]


def _simple(fn: Any, *arrays: np.ndarray) -> Case:
    leaves = inputs(*arrays)
    out = fn(*leaves)
    return ir.Program(tuple(leaves), out if isinstance(out, tuple) else (out,)), list(arrays)


def _with_gradient(case: Case) -> Case:
    program, arrays = case
    back = vjp_program(program, tuple(range(len(arrays))))
    return back, [*arrays, *(normal(*o.shape, dtype=o.dtype.name) for o in program.outputs)]


def _bn() -> Case:
    arrays = [normal(3, 5, 4, 6), normal(5), normal(5)]
    leaves = inputs(*arrays)
    out, new = batch_norm(*leaves)
    return ir.Program(tuple(leaves), (out,), ((2, new),)), arrays


def _products() -> dict[str, Case]:
    """Elementwise chains, rows, products, convolutions."""
    return {
        "chain": _simple(lambda a, b: a * b + 1, normal(10, dtype="float64"), normal(10, dtype="float64")),
        "softmax": _simple(softmax, normal(7, 33)),
        "softmax wide": _simple(softmax, normal(3, 700)),
        "softmax 3d": _simple(softmax, normal(2, 3, 17)),
        "layer norm": _simple(lambda x: layer_norm(x, 65), normal(9, 65)),
        "dense": _simple(dense, normal(5, 33), normal(10, 33), normal(10)),
        "dense one row": _simple(dense, normal(1, 40), normal(11, 40), normal(11)),
        "dense wide": _simple(lambda x, w, b: ir.map("relu", dense(x, w, b)), normal(37, 65), normal(71, 65),
                              normal(71)),
        "dense float64": _simple(dense, normal(17, 19, dtype="float64"), normal(23, 19, dtype="float64"),
                                 normal(23, dtype="float64")),
        "dense int": _simple(dense, np.arange(12, dtype="int32").reshape(3, 4),
                             np.arange(20, dtype="int32").reshape(5, 4), np.arange(5, dtype="int32")),
        "dense softmax": _simple(lambda x, w, b: softmax(dense(x, w, b)), normal(6, 20), normal(10, 20), normal(10)),
        "swish": _simple(lambda x, w, b: dense(x, w, b) * ir.map("sigmoid", dense(x, w, b)), normal(6, 20),
                         normal(10, 20), normal(10)),
        "conv": _simple(conv, normal(2, 3, 9, 11), normal(5, 3, 3, 3), normal(5)),
        "conv pad stride": _simple(lambda x, w, b: ir.map("relu", conv(x, w, b, 1, 2)), normal(2, 3, 9, 11),
                                   normal(8, 3, 3, 3), normal(8)),
        "conv dilated": _simple(lambda x, w, b: conv(x, w, b, 2, 1, 2), normal(1, 2, 12, 12), normal(3, 2, 3, 3),
                                normal(3)),
        "conv residual": _simple(lambda x, w, b: ir.map("relu", conv(x, w, b, 1) + x), normal(1, 4, 7, 7),
                                 normal(4, 4, 3, 3), normal(4)),
        "conv pool": _simple(lambda x, w, b: ir.reduce("max", ir.window(ir.map("relu", conv(x, w, b)), (2, 3), (2, 2),
                                                                        (2, 2), (1, 1)), (4, 5)),
                             normal(2, 1, 12, 12), normal(6, 1, 5, 5), normal(6)),
        "batch dot": _simple(lambda a, b: ir.dot(a, b, ((2,), (1,)), ((0,), (0,))), normal(3, 5, 7), normal(3, 7, 6)),
    }


def _moved() -> dict[str, Case]:
    """Elements picked, joined, sorted, accumulated and reduced."""
    index = np.array([[0, 3, 1], [2, 2, 0]])
    return {
        "gather": _simple(lambda x, i: ir.gather(x, i, 0) * 2, normal(4, 5), index),
        "gather middle": _simple(lambda x, i: ir.gather(x, i, 1), normal(2, 4, 3), index),
        "scatter": _simple(lambda i, u: ir.scatter_add(i, u, 0, 4), index, normal(2, 3, 5)),
        "concat": _simple(lambda a, b: ir.concat([a * 2, ir.map("exp", b)], 1), normal(2, 3, 4), normal(2, 5, 4)),
        "slice flip": _simple(lambda x: ir.slice(x, (3, 1), (2, 3), (-2, 2)), normal(5, 8)),
        "argmax": _simple(lambda x: ir.argreduce("argmax", x, 1), normal(4, 300)),
        "sort": _simple(lambda x: ir.argsort(x), normal(5, 37)),
        "sort down": _simple(lambda x: ir.argsort(x, True),
                             np.array([[3, 1, np.nan, 3], [2, -np.inf, 2, np.nan]], "float32")),
        "sort chain": _simple(lambda x: (ir.argsort(ir.map("exp", ir.permute(x, (1, 0)))), ir.map("exp", x)),
                              normal(6, 9, dtype="float64")),
        "sort half": _simple(lambda x: ir.argsort(x * 2, True), normal(300, dtype="float16")),
        "sort ties": _simple(lambda x: ir.gather(ir.argsort(ir.reshape(x, (2, 66))), ir.iota(5), 1),
                             np.arange(132, dtype="int32") % 7),
        "running": _simple(lambda x: (ir.cumulate(x * 2, 1), ir.cumulate(x, 0, True)), normal(5, 150)),
        "running types": _simple(lambda x, i: (ir.cumulate(x, 1), ir.cumulate(i, 0), ir.cumulate(i, -1, True)),
                                 normal(3, 70, dtype="float16"),
                                 np.arange(231, dtype="int8").reshape(3, 77)),
        "across": _simple(lambda x, y: (ir.permute(x, (1, 0)) * y, ir.map("exp", ir.permute(x, (1, 0)))),
                          normal(133, 145), normal(145, 133)),
        "argmin short": _simple(lambda x: ir.argreduce("argmin", x, 0), normal(4, 30)),
        "sum axis 0": _simple(lambda x: ir.reduce("sum", x, (0,)), normal(40, 33)),
        "sum all": _simple(lambda x: ir.reduce("sum", x, (0, 1)) * 2, normal(40, 33)),
        "prod": _simple(lambda x: ir.reduce("prod", x, (1,)), normal(4, 6)),
        "max nan": _simple(lambda x: ir.reduce("max", x, (1,)),
                           np.array([[1, np.nan, 3], [-np.inf, -5, -9]], "float32")),
        "transpose": _simple(lambda x: ir.permute(x, (2, 0, 1)) + 1, normal(3, 4, 5)),
        "reshape": _simple(lambda x: ir.reshape(ir.permute(x, (1, 0)), (2, 6)) * 3, normal(4, 3)),
        "pad": _simple(lambda x: ir.pad(x, (1, 0), (0, 2), 7.0), normal(3, 4)),
    }


def _others() -> dict[str, Case]:
    """Half types, booleans, empty arrays, several results."""
    return {
        "half": _simple(lambda x: ir.map("tanh", x) * 2, normal(5, 6, dtype="float16")),
        "half softmax": _simple(softmax, normal(3, 40, dtype="float16")),
        "half dense": _simple(dense, normal(5, 16, dtype="float16"), normal(9, 16, dtype="float16"),
                              normal(9, dtype="float16")),
        "bool": _simple(lambda a, b: ir.map("logical_and", ir.map("gt", a, b), ir.map("lt", a, 1.0)), normal(5, 6),
                        normal(6)),
        "where": _simple(lambda a, b: ir.map("where", ir.map("gt", a, 0), a, b), normal(5, 6), normal(5, 6)),
        "iota": _simple(lambda x: x + ir.cast(ir.iota(6), "float32"), normal(5, 6)),
        "zero size": _simple(lambda x: x + 1, normal(0, 6)),
        "empty sum": _simple(lambda x: ir.reduce("sum", x, (0,)) + 1, normal(0, 6)),
        "scalar": _simple(lambda x: ir.map("exp", x), np.asarray(np.float32(0.5))),
        "constant result": _simple(lambda x: (ir.full(3, (2, 2), "float32"), x), normal(2)),
        "two results": _simple(lambda x: (ir.map("exp", x), ir.reduce("sum", ir.map("exp", x), (1,))), normal(4, 5)),
        "same twice": _simple(lambda x: (x * 2, x * 2, ir.reshape(x * 2, (20,))), normal(4, 5)),
        "result moved": _simple(lambda x: (ir.map("exp", ir.permute(x, (1, 0))), ir.permute(x, (1, 0))), normal(4, 5)),
        "result constant": _simple(lambda x: (ir.map("where", ir.map("gt", x, 1), x, ir.full(0, (4, 5), "float32")),
                                              ir.full(0, (4, 5), "float32")),
                                   normal(4, 5)),
        "dense and relu": _simple(lambda x, w, b: (ir.map("relu", dense(x, w, b)), dense(x, w, b),
                                                   ir.dot(x, w, ((1,), (1,)))),
                                  normal(6, 20), normal(10, 20), normal(10)),
        "batch norm": _bn(),
        "dropout": _simple(lambda x, k: ir.map("where", ir.map("lt", ir.random_bits(k, x.shape, 1),
                                                               ir.const(2**31, "uint32")), x, 0),
                           normal(5, 7), np.array([3, 9], "uint32")),
    }


def cases() -> dict[str, Case]:
    """Name -> program and arrays."""
    out = {**_products(), **_moved(), **_others()}
    differentiable = ("softmax", "layer norm", "dense wide", "conv", "conv pad stride", "conv residual", "conv pool",
                      "batch dot", "gather",
                      "concat", "slice flip", "prod", "pad", "where", "dense one row")
    for name in differentiable:
        out[f"{name} backward"] = _with_gradient(out[name])
    return out


CASES = cases()
