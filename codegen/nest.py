"""Tiles of products as data: how an axis is cut, which sums stand in registers, what a step of the depth multiplies.

A form of a kernel says what its tiles are; the declarations, products, loads and stores of their sums are the same
statements for all of them. In C::

    sums = Sums(["HYV_B(x[q])", "HYV_B(x[q + 8])"], ["HYV_LOAD(W)"])
    function("k0_tile", "const float *x, const float *W, float *to",
             [*sums.zero(), count("q", 8, [*sums.step(), "W += 16;"]), *sums.write("to", 16)])
"""
from __future__ import annotations

from typing import Callable, Iterable, Iterator, Sequence

from hybrid.base.records import dataclass
from hybrid.ir.index import Ix
from hybrid.ir.parse import flat, parsed, words
from hybrid.ir.size import Int, fixed
from hybrid.ir.stmt import Assign, Block, Expr, For, Function, Let, Literal, Load, Name, Op, Scope, Stmt, Store, When


# ---- axes
@dataclass(frozen=True)
class Cut:
    """An axis in ``count`` tiles of ``size``, of which the first ``longer`` have one element more. Where tiles of one
    size do not divide the axis, the last one overlaps the one before."""
    extent: int
    size: int
    count: int
    longer: int = 0

    @staticmethod
    def even(extent: int, most: int) -> "Cut":
        """Tiles of at most ``most`` elements, as equal as they can be; ``hybrid.ir.pairs.cut`` has the same rule."""
        count = -(-extent // most)
        return Cut(extent, extent // count, count, extent % count)

    @staticmethod
    def overlapping(extent: int, size: int) -> "Cut":
        """Tiles of one size."""
        return Cut(extent, size, -(-extent // size))

    @property
    def largest(self) -> int:
        """Elements of a tile at most."""
        return self.size + (self.longer > 0)

    @property
    def sizes(self) -> list[int]:
        """Elements of the tiles there are."""
        return list(dict.fromkeys([self.size, self.largest]))

    def has(self, tile: str, size: int) -> list[str]:
        """C conditions that hold for tiles of this size; empty if all tiles have one size."""
        return [f"{tile} {'<' if size > self.size else '>='} {self.longer}"] if self.longer else []

    def rows(self, tile: str) -> str:
        """Elements of a tile, in C."""
        return f"{self.size} + ({tile} < {self.longer})" if not fixed(self.longer) or self.longer else str(self.size)

    def first(self, tile: str) -> str:
        """The first element of a tile, in C."""
        at = f"{tile} * {self.size}"
        if not fixed(self.longer) or self.longer:
            return f"({at} + ({tile} < {self.longer} ? {tile} : {self.longer}))"
        last = self.extent - self.size
        return f"({at})" if self.extent == self.size * self.count else f"({at} < {last} ? {at} : {last})"


# ---- sums
@dataclass(frozen=True)
class Arithmetic:
    """How vectors are multiplied, in C: types of a number in memory, of a vector of them and of a vector of sums; what
    loads a vector, what puts a number into all lanes; what adds a product to a sum ({0} {1} {2}), where that is not
    ``+=``; what makes floats of sums; what multiplies tile registers."""
    number: str = "float"
    vector: str = "hy_v"
    sum: str = "hy_v"
    load: str = "HYV_LOAD({})"
    spread: str = "HYV_B({})"
    added: str = ""
    floats: str = "{}"
    tiles: str = ""


FLOATS = Arithmetic()
A = Name("a")                                        # a number that is multiplied with all vectors


@dataclass(frozen=True)
class Sums:
    """A block of accumulators in registers: accumulator (i, j) adds scalar i, broadcast to all lanes, times vector j.
    numbers, vectors: their C expressions in one reduction step. suffix: of the accumulators' names."""
    numbers: Sequence[Expr]
    vectors: Sequence[Expr]
    how: Arithmetic = FLOATS
    suffix: str = ""

    def name(self, i: int, j: int) -> Name:
        """The name of a sum."""
        return Name(f"s{i}_{j}{self.suffix}")

    def all(self) -> Iterator[tuple[int, int, Name]]:
        """All sums, those of a number together."""
        return ((i, j, self.name(i, j)) for i in range(len(self.numbers)) for j in range(len(self.vectors)))

    def zero(self) -> list[Stmt]:
        """Declares them."""
        return [Let(self.how.sum, s, Literal("{0}")) for *_, s in self.all()]

    def read(self, pointer: str, row: int, column: int = 0) -> list[Stmt]:
        """Declares them as what stands in memory, sum (i, j) at i * row + j * column."""
        return [Let(self.how.sum, s, _vector(pointer, i * row + j * column)) for i, j, s in self.all()]

    def again(self, pointer: str, row: int, column: int = 0) -> list[Stmt]:
        """Sets them to what stands in memory; row, column: as in ``read``."""
        return [Assign(s, _vector(pointer, i * row + j * column)) for i, j, s in self.all()]

    def write(self, pointer: str, row: int, column: int = 0) -> list[Stmt]:
        """Writes them to memory; row, column: as in ``read``."""
        return [Store(Name(pointer), Ix(i * row + j * column), s, "STORE", "") for i, j, s in self.all()]

    def step(self, product: "Callable[[int, int], Stmt] | None" = None,
             before: Callable[[int], Sequence[Stmt]] = lambda i: ()) -> list[Stmt]:
        """A step of the depth: loads the vectors, then multiplies each number with all of them. product: what adds the
        product of number i and vector j, if not the arithmetic's own; before: statements before those of a number."""
        out: list[Stmt] = [Let(self.how.vector, _w(j), w, True) for j, w in enumerate(self.vectors)]
        for i, x in enumerate(self.numbers):
            terms = [(product or self.product)(i, j) for j in range(len(self.vectors))]
            out.append(Scope((*before(i), Let(self.how.vector, A, x, True), *terms)))
        return out

    def product(self, i: int, j: int) -> Stmt:
        """Adds the product of number i and vector j to its sum."""
        s, added = self.name(i, j), self.how.added
        return Assign(s, Op(added, (s, A, _w(j)))) if added else Assign(s, Op("{0} * {1}", (A, _w(j))), "+=")


def _w(j: int) -> Name:
    return Name(f"w{j}")


def _vector(pointer: str, at: int) -> Load:
    return Load(Name(pointer), Ix(at), "LOAD", "")


# ---- statements around them
def count(var: str, last: "Int | str", body: Iterable[Stmt], step: int = 1, first: "Int | str" = 0) -> For:
    """A loop from ``first`` to before ``last``."""
    return For(var, Literal(f"{first}"), Literal(f"{last}"), tuple(body), step)


def within(heads: Sequence[str], body: Iterable[Stmt]) -> list[Stmt]:
    """Statements behind lines of C: one that ends with an open brace, as of a loop, holds all that follow."""
    out = list(body)
    for head in reversed(heads):
        out = [Block(words(head), tuple(out))] if head.endswith("{") else [head, *out]
    return out


def unless_finite(total: str, body: Iterable[Stmt]) -> Stmt:
    """Statements for the rare case that a vector of sums has infinities or NaN."""
    found = "__builtin_expect(HYV_ANY(HYV_NAN(y_ - y_, y_ - y_)) != 0, 0)"
    return Scope((Let("hy_v", Name("y_"), total, True), When(found, tuple(body))))


def function(name: str, parameters: str, body: Iterable[Stmt], how: str = "noinline") -> Function:
    """A function of a kernel's own; how: its attributes, if any."""
    attributes = f"__attribute__(({how})) " if how else ""
    before = f"static {'inline ' if how == 'always_inline' else ''}{attributes}void "
    return Function(words(before), name, words(parameters), (" ", "{"), tuple(body))


def statements(body: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """Statements and lines of text as functions, loops and lines of words."""
    return parsed(flat(body))
