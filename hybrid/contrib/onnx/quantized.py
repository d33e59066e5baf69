"""How 8-bit networks are written: QuantizeLinear and DequantizeLinear around products of real numbers, as runtimes
expect them.

A product of 8-bit arrays gives int32 sums here. ONNX says the same by a DequantizeLinear before each operand of Conv or
Gemm. So a product is written as real numbers where all that reads its sums are ``dequantize`` and ``requantize``; the
multiplication by one scale for each filter that ``contrib.quantization`` puts behind it goes into the scale of the
weights. Other quantized operators are written by their primitives.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Sequence

import numpy as np

from ... import ir
from ...base import dtype as dt
from ...graph.symbol import Symbol
from ...graph.symnode import SymNode, effective
from ...ops.conv import per_axis
from ...ops.quantization import LEVELS, WHOLE
from .builder import Graph, Value
from .forms import spatial

PRODUCTS = ("_contrib_quantized_conv", "_contrib_quantized_fully_connected")
READERS = ("_contrib_dequantize", "_contrib_requantize")
QUANTIZED = ("_contrib_quantize", "_contrib_quantize_v2", "_contrib_requantize")


@dataclass
class Plan:
    """What is written as real numbers: for each product (by the id of its node) the scales that multiply its result,
    and the nodes whose value is then that of their first input."""
    scales: dict[int, np.ndarray] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)


def program_of(n: SymNode, inputs: Sequence[Value], train: bool = False) -> ir.Program:
    """An operator as a program for its inputs."""
    d = n.opdef
    assert d is not None
    padded = [None] * (len(d.inputs) - len(inputs) if not d.variadic else 0)
    return d.program([*(v.shape for v in inputs), *padded], [*(v.dtype for v in inputs), *padded], effective(n), train)


def planned(symbol: Symbol, params: Mapping[str, np.ndarray]) -> Plan:
    """The products of a graph whose sums are read as real numbers alone."""
    plan, users = Plan(), dict[int, list[SymNode]]()
    for n in (order := symbol.nodes()):
        for m, _ in n.inputs:
            users.setdefault(id(m), []).append(n)
    results = {id(n) for n, _ in symbol.entries}
    for n in order:
        if n.opdef is None or n.opdef.name not in PRODUCTS or id(n) in results:
            continue
        readers = {id(m): m for m in users.get(id(n), [])}
        whole = all(m.opdef is not None and m.opdef.name in READERS
                    and [k for source, k in m.inputs if source is n] == [0, 1, 2] for m in readers.values())
        if not whole or not readers or not _known_weight(n, params):
            continue
        plan.scales[id(n)] = np.ones((), np.float32)
        plan.passed |= {id(m) for m in readers.values() if m.opdef.name == "_contrib_dequantize"}  # type: ignore[union-attr]
        only = next(iter(readers.values()))
        behind = users.get(id(only), [])
        if len(readers) == len(behind) == 1 and id(only) in plan.passed and id(only) not in results:
            scale = _scale(n, only, behind[0], params)
            if scale is not None:
                plan.scales[id(n)] = scale
                plan.passed.add(id(behind[0]))
    return plan


def _known_weight(n: SymNode, params: Mapping[str, np.ndarray]) -> bool:
    """Whether the weights of a product, and their range, are parameters."""
    names = [m.name for m, _ in n.inputs]
    first = 4 if effective(n).no_bias else 5                  # of the range of the weights
    return len(names) >= first + 2 and all(name in params for name in (names[1], *names[first:first + 2]))


def _scale(product: SymNode, dequantize: SymNode, n: SymNode, params: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """What a node multiplies each channel of a product with; None where it does something else."""
    if n.opdef is None or n.opdef.name != "broadcast_mul" or n.inputs[0][0] is not dequantize:
        return None
    by, a = params.get(n.inputs[1][0].name), effective(product)
    if by is None or by.dtype != np.float32:
        return None
    conv = product.opdef is not None and product.opdef.name == PRODUCTS[0]
    axis, rank = (len(a.kernel) + 1, len(a.kernel) + 2) if conv else (1, 2)       # the channels, from the end
    if by.size == 1 and by.ndim <= rank:
        return by.reshape(())
    channels = a.num_filter if conv else a.num_hidden
    whole = by.ndim <= rank and by.ndim >= axis and by.shape[-axis] == by.size == channels
    return by.reshape(-1) if whole else None


def written(g: Graph, plan: Plan, n: SymNode, inputs: Sequence[Value]) -> list[Value] | None:
    """The values of an operator of 8-bit networks; None for all others."""
    name = n.opdef.name                                    # type: ignore[union-attr]
    g.owner = n.name
    if id(n) in plan.passed:
        return [inputs[0]]
    if id(n) in plan.scales:
        return [_product(g, n, plan.scales[id(n)], inputs), *inputs[2:4]]
    if name in QUANTIZED and inputs[0].dtype == dt.float32:
        return _quantized(g, n, name, inputs)
    if name == "_contrib_dequantize" and inputs[0].dtype in LEVELS:
        x, low, high = inputs
        made = g.node("DequantizeLinear", [g.use(x), _step(g, x.dtype, (low, high), LEVELS[x.dtype])])
        return [Value(made, x.shape, np.dtype(dt.float32))]
    return None


# ---- scales
def _step(g: Graph, d: np.dtype, ends: Sequence[Value], levels: float) -> str:
    """The name of the real number that one step of an array stands for. ends: of its range."""
    low, high = ends
    if low.array is not None and high.array is not None:
        wide = high.array if d == dt.uint8 else np.maximum(np.abs(low.array), np.abs(high.array))
        return g.const((wide.astype(np.float32) / np.float32(levels)).reshape(()))
    names = [g.use(high)] if d == dt.uint8 else [g.node("Abs", [g.use(v)]) for v in (low, high)]
    wide_name = names[0] if len(names) == 1 else g.node("Max", names)
    return g.reshape(g.node("Div", [wide_name, g.const(levels, np.float32)]), (1,), ())


def _quantized(g: Graph, n: SymNode, name: str, inputs: Sequence[Value]) -> list[Value]:
    """8-bit numbers of real ones, and their range."""
    x, a = inputs[0], effective(n)
    known = name != "_contrib_quantize" and a.min_calib_range is not None and a.max_calib_range is not None
    kind = a.out_type
    if kind == "auto":
        kind = "uint8" if known and a.min_calib_range >= 0 else "int8"
    d = np.dtype(kind)
    if name == "_contrib_quantize":
        ends = list(inputs[1:3])
    elif known:
        ends = [_number(g, v) for v in (a.min_calib_range, a.max_calib_range)]
    else:
        ends = [Value(g.reshape(g.reduce(which, g.use(x), range(len(x.shape))), (), (1,)), (1,), np.dtype(dt.float32))
                for which in ("ReduceMin", "ReduceMax")]
    exact = name == "_contrib_quantize" or name == "_contrib_requantize" and not known
    step = _step(g, d, ends, (WHOLE if exact else LEVELS)[d])
    made = g.node("QuantizeLinear", [g.use(x), step, g.const(0, d)])
    return [Value(made, x.shape, d), *(ends if d == dt.uint8 else _symmetric(g, *ends))]


def _number(g: Graph, value: float) -> Value:
    array = np.full(1, value, np.float32)
    return Value(g.fresh(f"{g.owner}_range"), (1,), array.dtype, array)


def _symmetric(g: Graph, low: Value, high: Value) -> list[Value]:
    """The range of int8 arrays, which is as wide below zero as above."""
    if low.array is not None and high.array is not None:
        wide = float(np.maximum(np.abs(low.array), np.abs(high.array)).max())
        return [_number(g, -wide), _number(g, wide)]
    wide_name = g.node("Max", [g.node("Abs", [g.use(v)]) for v in (low, high)])
    return [Value(name, (1,), np.dtype(dt.float32)) for name in (g.node("Neg", [wide_name]), wide_name)]


# ---- products
def _product(g: Graph, n: SymNode, scale: np.ndarray, inputs: Sequence[Value]) -> Value:
    """A product of 8-bit arrays as one of real numbers, times a scale for each channel."""
    a, (x, w, *rest) = effective(n), inputs
    bias = None if a.no_bias else rest.pop(0)
    low, high, w_low, w_high = rest[:4]
    assert w_low.array is not None and w_high.array is not None
    wide = np.maximum(np.abs(w_low.array), np.abs(w_high.array)).reshape(())
    # the sums' steps are those of WHOLE, DequantizeLinear's of the data those of LEVELS
    steps = (wide * scale * np.float32(LEVELS[x.dtype] / WHOLE[x.dtype] / WHOLE[dt.int8])).astype(np.float32)
    data = g.node("DequantizeLinear", [g.use(x), _step(g, x.dtype, (low, high), LEVELS[x.dtype])])
    weight = g.node("DequantizeLinear", [g.use(w), g.const(steps)], axis=0 if steps.ndim else None)
    more = []
    if bias is not None:
        more = [g.node("DequantizeLinear", [g.use(bias), _step(g, bias.dtype, rest[4:6], LEVELS[bias.dtype])])]
    shape = program_of(n, inputs).outputs[0].shape
    if n.opdef is not None and n.opdef.name == PRODUCTS[0]:
        made = g.node("Conv", [data, weight, *more], pads=list(per_axis(a.pad, len(a.kernel), 0)) * 2, **spatial(a))
    elif a.flatten or len(x.shape) == 2:
        flat = data if len(x.shape) == 2 else g.node("Flatten", [data], axis=1)
        made = g.node("Gemm", [flat, weight, *more], transB=1)
    else:
        made = g.node("MatMul", [data, g.transpose(weight, (1, 0))])
        made = g.node("Add", [made, *more]) if more else made
    return Value(made, shape, np.dtype(dt.float32))
