"""Products of an exported network in integers of eight bits.

Each product (a dense layer, a convolution) of an activation with weights becomes one of int8 with sums in int32.
Weights have a scale for each of their channels, activations one scale, from the largest magnitude among examples:
q = round(x / scale), from -127 to 127, as in section 2 of Jacob et al., "Quantization and training of neural networks
for efficient integer-arithmetic-only inference" (2017), without zero points. Other operators stay what they are.
"""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .. import ir
from ..base.errors import AttributeValueError, HybridError
from ..ir import Node, Program, evaluate
from ..passes.rewrite import over, rebuild
from .specialized import Array, Specialized

MOST = 127                               # the largest magnitude of a quantized number
DEEPEST = (1 << 31) // MOST ** 2 - 1     # products that a sum in int32 holds
# these take quantized numbers as they are: rounding keeps the order of numbers
_MOVES = frozenset({"window", "reshape", "permute", "expand", "slice"})


def quantized(what: Specialized, examples: Sequence[Any]) -> Specialized:
    """The same network with products in int8. examples: inputs as the network sees them, each an array or, of several
    inputs, a tuple of arrays."""
    if what.training is not None:
        raise HybridError("a training step cannot be exported with products in int8: export the network that it trains")
    products = {n: side for n in what.program.order() if (side := _weights_side(what, n)) is not None}
    if not products:
        raise HybridError("int8: the network has no product of an activation with float32 weights")
    sources = list(dict.fromkeys(_source(n.args[1 - side]) for n, side in products.items()))
    return _Quantizer(what, products, dict(zip(sources, _magnitudes(what, sources, examples)))).run()


def _source(x: Node) -> Node:
    """What a product's operand is arranged from, or is the largest of."""
    while x.prim in _MOVES or x.prim == "with_grad" or x.prim == "reduce" and x.attrs["op"] == "max" or (
            x.prim == "pad" and float(x.attrs["value"]) <= 0):
        x = x.args[0]
    return x


def _of_weights(what: Specialized, n: Node) -> bool:
    """Whether a value depends on weights alone."""
    leaves = [m.attrs["slot"] for m in ir.toposort([n]) if m.prim == "input"]
    return bool(leaves) and min(leaves) >= what.arguments


def _weights_side(what: Specialized, n: Node) -> int | None:
    """Which operand of a product are weights, where the other one is an activation and int8 will do."""
    if n.prim != "dot" or n.dtype != np.float32 or n.attrs["batch"] != ((), ()):
        return None
    depth = int(np.prod([n.args[0].shape[i] for i in n.attrs["contract"][0]], dtype=np.int64))
    sides = [i for i, a in enumerate(n.args) if _of_weights(what, a)]
    return sides[0] if len(sides) == 1 and 0 < depth <= DEEPEST else None


def _magnitudes(what: Specialized, sources: Sequence[Node], examples: Sequence[Any]) -> list[float]:
    """The largest magnitude of some values over all examples."""
    program = Program(what.program.inputs, tuple(sources))
    weights = [a.value for a in what.inputs[what.arguments:]]
    most = [0.0] * len(sources)
    for example in examples:
        given = [_array(x, a) for x, a in zip(_several(example, what.arguments), what.inputs)]
        values, _ = evaluate.run(program, [*given, *weights], np)
        most = [max(m, float(np.abs(v).max(initial=0))) for m, v in zip(most, values)]
    if not most or not all(np.isfinite(m) for m in most):
        raise AttributeValueError("int8 takes examples of the inputs, at least one, whose activations are finite; got "
                                  f"{len(examples)}")
    return [m or 1.0 for m in most]


def _several(example: Any, count: int) -> Sequence[Any]:
    given = example if isinstance(example, (tuple, list)) else (example,)
    if len(given) != count:
        raise AttributeValueError(f"an example for int8 is a tuple of {count} arrays, one for each input; got "
                                  f"{len(given)}")
    return given


def _array(x: Any, wanted: Array) -> np.ndarray:
    a = np.asarray(x.asnumpy() if hasattr(x, "asnumpy") else x, wanted.dtype)
    if a.shape != wanted.shape:
        raise AttributeValueError(f"an example for int8 has the shape of the input {wanted.name}, {wanted.shape}; got "
                                  f"{a.shape}")
    return a


class _Quantizer:
    """One run: the new graph beside the old one, and the new weights."""

    def __init__(self, what: Specialized, products: dict[Node, int], magnitudes: dict[Node, float]):
        self.what, self.products, self.magnitudes = what, products, magnitudes
        self.arrays = list(what.inputs)
        self.new: dict[Node, Node] = {}

    def run(self) -> Specialized:
        """The quantized network; weights that nothing reads any more are left out."""
        program = self.what.program
        for n in program.order():
            self.new[n] = self._product(n, self.products[n]) if n in self.products else rebuild(
                n, [self.new[a] for a in n.args])
        outputs = [self.new[n] for n in program.outputs]
        read = {n.attrs["slot"] for n in ir.toposort(outputs) if n.prim == "input"}
        count = self.what.arguments
        kept = [*range(count), *(i for i in range(count, len(self.arrays)) if i in read)]
        arrays = [self.arrays[i] for i in kept]
        leaves = [ir.input(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
        given = {ir.input(i, self.arrays[i].shape, self.arrays[i].dtype): leaf for i, leaf in zip(kept, leaves)}
        made = Program(tuple(leaves), tuple(over(outputs, given)))
        what = self.what
        return Specialized(made, arrays, count, what.outputs, what.picks, frozenset(range(count, len(arrays))),
                           what.entry, None, what.titles)

    def _leaf(self, name: str, value: np.ndarray) -> Node:
        self.arrays.append(Array(name, value.shape, value.dtype, value))
        return ir.input(len(self.arrays) - 1, value.shape, value.dtype)

    def _product(self, n: Node, side: int) -> Node:
        """The product of quantized operands, times their scales."""
        contract = n.attrs["contract"]
        value, name = self._weights(n.args[side])
        axes = tuple(contract[side])
        scale = np.maximum(np.abs(value).max(axis=axes), np.finfo(np.float32).tiny) / MOST
        small = np.rint(value / np.expand_dims(scale, axes)).astype(np.int8)
        activation = n.args[1 - side]
        operands = [self._leaf(f"{name}.int8", small), self._down(activation)]
        a, b = (ir.cast(operands[i != side], np.int32) for i in range(2))
        sums = ir.dot(a, b, contract, n.attrs["batch"])
        both = (scale * (self.magnitudes[_source(activation)] / MOST)).astype(np.float32)
        free = len(value.shape) - len(axes)
        first = 0 if side == 0 else n.ndim - free
        shape = [both.shape[i - first] if 0 <= i - first < free else 1 for i in range(n.ndim)]
        scales = ir.reshape(self._leaf(f"{name}.scale", both), shape)
        return ir.map("mul", ir.cast(sums, np.float32), ir.expand(scales, n.shape))

    def _weights(self, x: Node) -> tuple[np.ndarray, str]:
        """The value of a weights operand, and a name for it."""
        leaves = [m.attrs["slot"] for m in ir.toposort([x]) if m.prim == "input"]
        (value,), _ = evaluate.run(Program(self.what.program.inputs, (x,)),
                                   [a.value for a in self.what.inputs], np)
        name = self.what.inputs[leaves[0]].name
        taken = {a.name for a in self.arrays}
        while f"{name}.int8" in taken:
            name += "_"
        return np.asarray(value), name

    def _down(self, x: Node) -> Node:
        """An operand in int8, arranged as the one of float32."""
        if x is _source(x):
            return self._small(x)
        inner = self._down(x.args[0])
        if x.prim == "with_grad":
            return inner
        if x.prim == "pad":
            scale = self.magnitudes[_source(x)] / MOST
            value = int(np.clip(np.rint(float(x.attrs["value"]) / scale), -MOST, MOST))
            return ir.pad(inner, x.attrs["lo"], x.attrs["hi"], value)
        return rebuild(x, [inner])

    def _small(self, x: Node) -> Node:
        scaled = ir.map("mul", self.new[x], ir.const(MOST / self.magnitudes[x], np.float32))
        most = ir.const(float(MOST), np.float32)
        cut = ir.map("minimum", ir.map("maximum", ir.map("rint", scaled), ir.const(float(-MOST), np.float32)), most)
        return ir.cast(ir.cast(cut, np.int32), np.int8)             # without integers of 64 bits between
