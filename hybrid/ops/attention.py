"""Attention over interleaved projections, as MXNet's transformer operators lay them out (time, batch, heads * parts *
depth)."""
from __future__ import annotations

import math

from .. import ir
from ..base.errors import ShapeError
from ..ir import Node
from .attributes import Attrs
from .registry import Int, op


def _part(x: Node, heads: int, parts: int, k: int, name: str) -> Node:
    """Part k (query, key or value) of (time, batch, heads * parts * depth), as (batch * heads, time, depth)."""
    if x.ndim != 3 or heads < 1 or x.shape[2] % (heads * parts):
        raise ShapeError(f"{name} must be (time, batch, width) with a width that {heads} heads x {parts} parts "
                         f"divide, got {x.shape}")
    time, batch, width = x.shape
    depth = width // (heads * parts)
    y = ir.reshape(x, (time, batch * heads, parts, depth))
    y = ir.reshape(ir.slice(y, (0, 0, k, 0), (time, batch * heads, 1, depth)), (time, batch * heads, depth))
    return ir.permute(y, (1, 0, 2))


def _scores(query: Node, key: Node) -> Node:
    """query keyᵀ / sqrt(depth)."""
    return ir.dot(query * (1 / math.sqrt(max(query.shape[-1], 1))), key, ((2,), (2,)), ((0,), (0,)))


def _weighted(attention: Node, value: Node, heads: int) -> Node:
    """attention value, back in (time, batch, heads * depth)."""
    n, keys, depth = value.shape
    if attention.ndim != 3 or attention.shape[0] != n or attention.shape[2] != keys:
        raise ShapeError(f"attention must be (batch * heads, queries, keys) = ({n}, …, {keys}), got {attention.shape}")
    out = ir.permute(ir.dot(attention, value, ((2,), (1,)), ((0,), (0,))), (1, 0, 2))
    return ir.reshape(out, (attention.shape[1], n // heads, heads * depth))


def _op(name: str) -> tuple[str, ...]:
    return (f"contrib.interleaved_matmul_{name}",)


@op("_contrib_interleaved_matmul_selfatt_qk", "queries_keys_values", mx=_op("selfatt_qk"),
    npx=("interleaved_matmul_selfatt_qk",), heads=Int())
def selfatt_qk(qkv: Node, a: Attrs) -> Node:
    """Scores (batch * heads, time, time) of self-attention from projections (time, batch, heads * 3 * depth), scaled by
    1 / sqrt(depth)."""
    return _scores(*(_part(qkv, a.heads, 3, k, "queries_keys_values") for k in (0, 1)))


@op("_contrib_interleaved_matmul_selfatt_valatt", "queries_keys_values attention", mx=_op("selfatt_valatt"),
    npx=("interleaved_matmul_selfatt_valatt",), heads=Int())
def selfatt_valatt(qkv: Node, attention: Node, a: Attrs) -> Node:
    """Values weighted by attention (batch * heads, time, time): (time, batch, heads * depth)."""
    return _weighted(attention, _part(qkv, a.heads, 3, 2, "queries_keys_values"), a.heads)


@op("_contrib_interleaved_matmul_encdec_qk", "queries keys_values", mx=_op("encdec_qk"),
    npx=("interleaved_matmul_encdec_qk",), heads=Int())
def encdec_qk(queries: Node, kv: Node, a: Attrs) -> Node:
    """Scores (batch * heads, queries, keys) of queries (time, batch, heads * depth) and keys in (time, batch, heads * 2
    * depth)."""
    query, key = _part(queries, a.heads, 1, 0, "queries"), _part(kv, a.heads, 2, 0, "keys_values")
    if query.shape[::2] != key.shape[::2]:
        raise ShapeError(f"queries {queries.shape} and keys_values {kv.shape} must have the same batch and depth")
    return _scores(query, key)


@op("_contrib_interleaved_matmul_encdec_valatt", "keys_values attention", mx=_op("encdec_valatt"),
    npx=("interleaved_matmul_encdec_valatt",), heads=Int())
def encdec_valatt(kv: Node, attention: Node, a: Attrs) -> Node:
    """Values in (time, batch, heads * 2 * depth) weighted by attention: (queries, batch, heads * depth)."""
    return _weighted(attention, _part(kv, a.heads, 2, 1, "keys_values"), a.heads)
