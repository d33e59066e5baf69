"""Graphs of 8-bit networks: convolutions and dense layers of a float32 graph become products of 8-bit numbers with
parameters that are quantized beforehand; all else stays float32. BatchNorm behind a convolution goes into its weights.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

import numpy as np

from ...base import dtype as dt
from ...base.errors import warn_user
from ...graph.symbol import Symbol, output_name
from ...graph.symnode import SymNode
from ...ops.registry import find

Entry = tuple[SymNode, int]
PRODUCTS = {"Convolution": "_contrib_quantized_conv", "FullyConnected": "_contrib_quantized_fully_connected"}
NOT_OURS = {"Convolution": ("no_bias", "workspace", "cudnn_tune", "cudnn_off"), "FullyConnected": ("no_bias",)}
LEVELS, MOST = 127.5, 127


@dataclass
class Quantized:
    """A graph, its parameters by name, and the values of the float32 graph whose ends it takes."""
    sym: Symbol
    params: dict[str, np.ndarray]
    values: dict[str, Entry] = field(default_factory=dict)


def value_name(entry: Entry) -> str:
    """A value's name, as MXNet's monitors give it."""
    n, k = entry
    return n.name if n.opdef is None else output_name(n, k)


def _attrs(n: SymNode) -> Any:
    """The attributes of an operator's node."""
    return n.attrs


class Quantizer:
    """One walk through a graph. params: NumPy arrays by name. ends: of values by name; those of others are found at
    each call."""

    def __init__(self, sym: Symbol, params: Mapping[str, np.ndarray], dtype: str, excluded: set[str],
                 excluded_ops: set[str], channels: bool, ends: Mapping[str, tuple[float, float]]):
        self.sym, self.dtype, self.channels, self.ends = sym, dtype, channels, ends
        self.excluded, self.excluded_ops = excluded, excluded_ops
        self.params = dict(params)
        self.new: dict[int, Entry] = {}
        self.quantized: dict[tuple[int, int], list[Entry]] = {}
        self.values: dict[str, Entry] = {}
        self.users: dict[int, list[SymNode]] = {}
        for n in sym.nodes():
            for m, _ in n.inputs:
                self.users.setdefault(id(m), []).append(n)
        self.results = {id(n) for n, _ in sym.entries}
        self.folded: dict[int, SymNode] = {}                 # products whose BatchNorm is in their weights

    def run(self) -> Quantized:
        """The new graph."""
        for n in self.sym.nodes():
            if n.opdef is None:
                self.new[id(n)] = n, 0
            elif id(n) in self.folded:
                self.new[id(n)] = self.new[id(self.folded[id(n)])]
            elif self._is_product(n):
                self.new[id(n)] = self._product(n)
            else:
                made = SymNode(n.opdef, n.name, n.attrs, [self._at(e) for e in n.inputs], dict(n.extra))
                self.new[id(n)] = made, 0
        out = Symbol([self._at(e) for e in self.sym.entries])
        used = set(out.list_inputs())
        return Quantized(out, {k: v for k, v in self.params.items() if k in used}, self.values)

    def _at(self, entry: Entry) -> Entry:
        made, k = self.new[id(entry[0])]
        return made, k + entry[1]

    def _is_product(self, n: SymNode) -> bool:
        """Whether a node is done by products of 8-bit numbers: one of a parameter, without groups."""
        if n.opdef is None or n.opdef.name not in PRODUCTS or n.name in self.excluded:
            return False
        if {n.opdef.name, *n.opdef.json} & self.excluded_ops or n.inputs[1][0].name not in self.params:
            return False
        a = _attrs(n)
        return n.opdef.name == "FullyConnected" or (a.num_group == 1 and a.layout in (None, "NCW", "NCHW", "NCDHW"))

    # ---- parameters
    def _weights(self, n: SymNode) -> tuple[np.ndarray, np.ndarray]:
        """Weights and bias of a product, with the BatchNorm behind it."""
        w = self.params[n.inputs[1][0].name].astype(np.float32)
        b = np.zeros(len(w), np.float32)
        if len(n.inputs) > 2 and not _attrs(n).no_bias:
            b = self.params[n.inputs[2][0].name].astype(np.float32)
        norm = self._norm_behind(n)
        if norm is None:
            return w, b
        a = _attrs(norm)
        gamma, beta, mean, var = (self.params[m.name].astype(np.float32) for m, _ in norm.inputs[1:5])
        if a.fix_gamma:
            gamma = np.ones_like(gamma)
        scale = gamma / np.sqrt(np.add(var, a.eps, dtype=np.float32))
        self.folded[id(norm)] = n
        return w * scale.reshape(-1, *[1] * (w.ndim - 1)), beta + (b - mean) * scale

    def _norm_behind(self, n: SymNode) -> SymNode | None:
        """The BatchNorm that alone reads a product."""
        by = self.users.get(id(n), [])
        if id(n) in self.results or len(by) != 1 or by[0].opdef is None or by[0].opdef.name != "BatchNorm":
            return None
        a, given = _attrs(by[0]), by[0].inputs
        whole = all(m.name in self.params for m, _ in given[1:5]) and a.axis == 1 and not a.output_mean_var
        return by[0] if whole and given[0][0] is n and by[0].name not in self.excluded else None

    def _parameter(self, name: str, value: np.ndarray) -> Entry:
        self.params[name] = value
        node = SymNode(None, name, None, (), {"__dtype__": str(dt.CODE_OF[value.dtype]), "__shape__": str(value.shape)})
        node.info = [(value.shape, value.dtype)]
        return node, 0

    # ---- products
    def _product(self, n: SymNode) -> Entry:
        w, b = self._weights(n)
        base, rank = n.inputs[1][0].name, w.ndim
        wide = np.abs(w).reshape(len(w), -1).max(1) if self.channels else np.full(len(w), np.abs(w).max())
        wide = np.where(wide > 0, wide, 1).astype(np.float32)
        whole = np.clip(np.rint(w * (LEVELS / wide.reshape(-1, *[1] * (rank - 1)))), -MOST, MOST).astype(np.int8)
        x, low, high = self._eight_bits(n.inputs[0])
        weight = self._parameter(f"{base}_quantize", whole)
        # the ends that make sums have the steps of what was multiplied (ops/quantization.py counts other ones)
        end = np.ones(1, np.float32)
        ends = [self._parameter(f"{base}_quantize_{which}", v) for which, v in (("min", -end), ("max", end))]
        kind = n.opdef.name                                     # type: ignore[union-attr]
        attrs = {k: v for k, v in _attrs(n).given().items() if k not in NOT_OURS[kind]}
        sums = self._node(PRODUCTS[kind], f"quantized_{n.name}", {**attrs, "no_bias": "True"},
                          [x, weight, low, high, *ends])
        real = self._node("_contrib_dequantize", f"{n.name}_dequantize", {}, [(sums, k) for k in range(3)])
        steps = (127.0 / LEVELS) * wide * np.float32(self._correction(n.inputs[0]))
        shape = (1, -1) + (1,) * (rank - 2) if kind == "Convolution" or _attrs(n).flatten else (-1,)
        scaled = self._node("broadcast_mul", f"{n.name}_scaled", {}, [
            (real, 0), self._parameter(f"{base}_quantize_scale", steps.astype(np.float32).reshape(shape))])
        return self._node("broadcast_add", n.name, {}, [
            (scaled, 0), self._parameter(f"{base}_quantize_bias", b.astype(np.float32).reshape(shape))]), 0

    def _correction(self, entry: Entry) -> float:
        """What the steps of data are, of those that sums count."""
        return 255.0 / 255.5 if self._unsigned(entry) else 127.0 / LEVELS

    def _unsigned(self, entry: Entry) -> bool:
        found = self.ends.get(value_name(entry))
        return self.dtype == "uint8" or self.dtype == "auto" and found is not None and found[0] >= 0

    def _eight_bits(self, entry: Entry) -> list[Entry]:
        """A value as 8-bit numbers, and its ends; one quantization serves all products."""
        key = id(entry[0]), entry[1]
        if key not in self.quantized:
            name = value_name(entry)
            self.values[name] = entry
            attrs = {"out_type": "uint8" if self._unsigned(entry) else "int8"}
            if name in self.ends:
                low, high = self.ends[name]
                if low < 0 and self.dtype == "uint8":
                    warn_user(f"quantized_dtype='uint8' has no numbers below 0: those of {name!r}, which go down to "
                              f"{low:.3g}, become 0. quantized_dtype='auto' gives such data int8")
                attrs |= {"min_calib_range": repr(float(low)), "max_calib_range": repr(float(high))}
            node = self._node("_contrib_quantize_v2", f"{name}_quantize", attrs, [self._at(entry)])
            self.quantized[key] = [(node, k) for k in range(3)]
        return self.quantized[key]

    def _node(self, op: str, name: str, attrs: Mapping[str, Any], inputs: list[Entry]) -> SymNode:
        d = find(op)
        return SymNode(d, name, d.parse(attrs), inputs)
