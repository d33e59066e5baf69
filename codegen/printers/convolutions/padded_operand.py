"""Operands of contractions that are not read from memory as they are: padded images and values computed on the way
are written to working memory once, so that windows of them are addresses without conditions.
"""
from __future__ import annotations

import math
from typing import Container, Iterable, Mapping, Sequence, TypeVar

import numpy as np

from hybrid.base.records import dataclass
from hybrid.ir import Node
from hybrid.ir import input as ir_input
from hybrid.ir.access import MOVEMENT, Index, pull
from hybrid.ir.index import Ix, Val, Var, linear, var, variables
from hybrid.ir.size import fixed, greater, smaller
from hybrid.ir.stmt import For, Stmt

from hybrid.codegen.block import Level, level, loop, within_levels
from hybrid.codegen.dialect import C
from hybrid.codegen.emit import Emitter
from hybrid.codegen.lanes import Refused, iterations
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
class Axis:
    """A spatial axis of an image: the loop over pixels (of the result, or of what the image is multiplied with), that
    over taps of the filter, the steps of both in the image, its size, and the border before it."""
    pixel: Var | None
    tap: Var | None
    stride: int
    dilation: int
    size: int
    border: int

    @property
    def pixels(self) -> int:
        """How many pixels there are."""
        return self.pixel.extent if self.pixel else 1

    @property
    def taps(self) -> int:
        """The filter's size along this axis."""
        return self.tap.extent if self.tap else 1

    def range(self, tap: int) -> tuple[int, int]:
        """The pixels for which this tap of the filter lies inside the image."""
        offset = tap * self.dilation - self.border
        first = max(0, -(offset // self.stride))
        return first, greater(first, smaller(self.pixels, (self.size - 1 - offset) // self.stride + 1))

    @property
    def shift(self) -> int:
        """How far before the first result the last tap moves the image's first pixel."""
        return (self.taps - 1) * self.dilation - self.border


def axis(at: Ix, pixels: Container[Var], taps: Container[Var], size: int, border: int) -> Axis | None:
    """The axis of an image that is read at an index; None where that is no sum of a loop over pixels and one over
    taps."""
    pixel = [(v, c) for v, c in at.terms if v in pixels]
    tap = [(v, c) for v, c in at.terms if v in taps]
    if (len(pixel) != 1 or len(tap) > 1 or len(pixel) + len(tap) != len(at.terms) or at.const
            or any(c < 1 for _, c in at.terms)):
        return None
    (p, s), (t, d) = pixel[0], tap[0] if tap else (None, 1)
    return Axis(p, t, s, d, size, border)                                               # type: ignore[arg-type]


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


def fill(img: Image, name: str, reads: Mapping[Node, str], width: int, outer: Iterable[Var],
         pragma: str = "") -> tuple[list[Stmt], list[Stmt]]:
    """Statements that write the border once, and those that write the inside for one position of the outer loops."""
    n, source, lo = img.node, img.node, (0,) * img.node.ndim
    border: list[Stmt] = []
    if n.prim == "pad" and n not in reads:                   # else its border lies in memory with it
        source, lo = n.args[0], n.attrs["lo"]
        value = C.literal(n.attrs["value"], n.dtype)
        border = [loop(Var("z", max(math.prod(img.shape), 1)), [f"{name}[z] = {value};"], "#pragma omp simd")]
    loops = [Var(f"f{a}", d) for a, d in enumerate(source.shape) if a in img.kept]
    inner = iter(loops)
    idx = tuple(var(next(inner)) if a in img.kept else i for a, i in enumerate(img.at))
    to = tuple(i + p for i, p in zip(img.own(idx), img.own(lo)))
    return border, write(source, idx, loops, name, img.shape, to, reads, width, outer, pragma)


def write(source: Node, idx: Index, loops: Sequence[Var], name: str, shape: tuple[int, ...], to: Index,
          reads: Mapping[Node, str], width: int, outer: Iterable[Var], pragma: str = "") -> list[Stmt]:
    """Loops that write a value at an index to working memory of a shape, as vectors where they can be. outer: the loops
    around them; pragma: of the first one."""
    cell = ir_input(0, shape, source.dtype)                  # stands for the memory: a store needs shape and dtype

    def made(e: Emitter, last: Sequence[Level]) -> list[Stmt]:
        levels = [level(v, "" if i else pragma) for i, v in enumerate(loops[:len(loops) - len(last)])]
        return within_levels(outer, [*levels, *last],
                             lambda block: block.body.append(e.store(name, cell, to, e.value(source, idx, block))))
    if not loops:
        return made(Emitter(C, dict(reads), count=5000), [])
    v = loops[-1]
    if source.dtype == np.float32 and width >= 4 and (v.extent >= width or width == 16):
        try:
            return made(VectorEmitter(C, dict(reads), width=width, lanes={v}, count=5000),
                        [([v], lambda body: iterations(v, body, width, 1))])
        except Refused:
            pass

    def plain(body: list[Stmt]) -> list[Stmt]:
        simd = "#pragma omp simd" if v.extent >= 4 and not any(isinstance(s, For) for s in body) else ""
        return [loop(v, body, pragma if pragma and len(loops) == 1 else simd)]
    return made(Emitter(C, dict(reads), count=5000), [([v], plain)])
