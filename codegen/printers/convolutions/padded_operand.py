"""Operands of contractions that are not read from memory as they are: padded images and values computed on the way
are written to working memory once, so that windows of them are addresses without conditions.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Mapping, Sequence, TypeVar

import numpy as np

from hybrid.ir import Node
from hybrid.ir import input as ir_input
from hybrid.ir.access import MOVEMENT, Index, pull
from hybrid.ir.index import Ix, Val, Var, linear, var, variables
from hybrid.ir.size import fixed

from hybrid.codegen.dialect import C
from hybrid.codegen.emit import Block, Emitter, loop_nest
from hybrid.codegen.lanes import Refused, lane_loop
from hybrid.codegen.vector import VectorEmitter

T = TypeVar("T")
SLACK = 128                     # bytes after an image that a vector may read beyond its end


def unread(node: Node, stored: Mapping[Node, str]) -> Node | None:
    """The value below an operand's movement that has to be written to working memory; None where memory holds it
    already."""
    n = node
    while n not in stored:
        if n.prim == "pad" or n.prim not in MOVEMENT:
            return n
        n = n.args[0]
    return None


def index_of(node: Node, idx: Index, target: Node) -> Index:
    """The index into ``target`` for an index into ``node``, going down the movement between them."""
    n = node
    while n is not target:
        idx, guard = pull(n, idx)
        if guard:
            raise Refused("a border above the image")
        n = n.args[0]
    return idx


@dataclass
class Image:
    """A value in working memory: the axes ``kept`` are whole, the others are those of the loops around it."""
    node: Node
    kept: tuple[int, ...]
    at: Index

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes in memory."""
        return self.own(self.node.shape)

    @property
    def address(self) -> Ix:
        """The address in memory of the element that is read."""
        return linear(self.shape, self.own(self.at))

    @property
    def around(self) -> set[Var | Val]:
        """The loops around it."""
        return {v for a, i in enumerate(self.at) if a not in self.kept for v in variables(i)}

    def own(self, values: Sequence[T]) -> tuple[T, ...]:
        """What stands for the axes in memory, of what stands for all."""
        return tuple(values[a] for a in self.kept)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, with slack for whole vectors."""
        return -(-(math.prod(self.shape) * self.node.dtype.itemsize + SLACK) // 64) * 64


def image(node: Node, at: Index, outer: frozenset[Var]) -> Image:
    """The image without those axes whose indices depend on ``outer`` loops only: the leading ones, and those whose
    length is known at a call only."""
    def apart(a: int) -> bool:
        padded = node.prim == "pad" and (node.attrs["lo"][a] or node.attrs["hi"][a])
        return variables(at[a]) <= outer and not padded
    first = next((a for a in range(node.ndim) if not apart(a)), node.ndim)
    return Image(node, tuple(a for a in range(first, node.ndim) if fixed(node.shape[a]) or not apart(a)), at)


def fill(img: Image, name: str, reads: Mapping[Node, str], width: int, outer: frozenset[Var],
         pragma: str = "") -> tuple[list[str], list[str]]:
    """Statements that write the border once, and those that write the inside for one position of the outer loops."""
    n = img.node
    border: list[str] = []
    source, lo = n, (0,) * n.ndim
    if n.prim == "pad" and n not in reads:                   # else its border lies in memory with it
        source, lo = n.args[0], n.attrs["lo"]
        value = C.literal(n.attrs["value"], n.dtype)
        border = loop_nest([Var("z", max(math.prod(img.shape), 1))], [f"{name}[z] = {value};"], "#pragma omp simd")
    loops = [Var(f"f{a}", d) for a, d in enumerate(source.shape) if a in img.kept]
    inner = iter(loops)
    idx = tuple(var(next(inner)) if a in img.kept else i for a, i in enumerate(img.at))
    try:
        return border, _fill(img, name, reads, width, outer, loops, idx, lo, pragma, True)
    except Refused:
        return border, _fill(img, name, reads, width, outer, loops, idx, lo, pragma, False)


def _fill(img: Image, name: str, reads: Mapping[Node, str], width: int, outer: frozenset[Var], loops: list[Var],
          idx: Index, lo: tuple[int, ...],
          pragma: str, vectors: bool) -> list[str]:
    source = img.node.args[0] if img.node.prim == "pad" and img.node not in reads else img.node
    last = loops[-1] if loops else None
    vectors = vectors and last is not None and img.node.dtype == np.float32 and width >= 4 and (last.extent >= width
            or width == 16)
    e: Emitter = VectorEmitter(C, dict(reads), width=width, lanes={last},
                               count=5000) if vectors and last else Emitter(C, dict(reads), count=5000)
    top = Block(None, frozenset(outer))
    blocks = [top]
    for v in loops:
        blocks.append(blocks[-1].child([v]))
    value = e.value(source, idx, blocks[-1])
    shape = img.shape
    target = tuple(i + p for i, p in zip(img.own(idx), img.own(lo)))
    # stands for the working memory: a store needs shape and dtype
    cell = ir_input(0, shape, img.node.dtype)
    blocks[-1].body.append(e.store(name, cell, target, value))
    body = blocks[-1].lines
    for depth in reversed(range(len(loops))):
        v = loops[depth]
        if depth == len(loops) - 1 and vectors:
            body = lane_loop(v, body, width, 1)
        else:
            simd = (["#pragma omp simd"] if depth == len(loops) - 1 and v.extent >= 4
                    and not any("for (" in s for s in body) else [])
            body = [*([pragma] if pragma and depth == 0 else simd), *loop_nest([v], body)]
        body = [*blocks[depth].lines, *body]
    return body
