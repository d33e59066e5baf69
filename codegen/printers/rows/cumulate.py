"""Running sums in C (``cumulate``). Along the innermost axis a vector's own sums are made in log2(lanes) steps, and one
addition goes from vector to vector; types without vectors do the same with four elements. Along other axes lanes are
columns, whose sums go from line to line.
"""
from __future__ import annotations

import math

from hybrid.base.dtype import is_half
from hybrid.ir.index import Ix, Var, linear, unlinear, var
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, hint, may_exceed
from hybrid.ir.stmt import COPIED, Assign, Expr, For, Let, Literal, Load, Local, Name, Op, Stmt, Store

from hybrid.codegen.block import Block, chain, loop, nested
from hybrid.codegen.dialect import C, PARALLEL
from hybrid.codegen.emit import Emitter
from hybrid.codegen.lanes import F32, Refused, iterations
from hybrid.codegen.loops import COLUMNS, PARALLEL_WORK, KernelPrinter, Printed
from hybrid.codegen.program.size_parameters import where_it_pays
from hybrid.codegen.schedule.tiling import Target
from hybrid.codegen.vector import VectorEmitter

FOUR = 4                       # elements that are added up before what came before them is


def print_running(k: Kernel, name: str, target: Target) -> Printed:
    """C of a running sum."""
    return _Running(k, name, target).print()


class _Running(KernelPrinter):
    """rows: the loop over all axes before the one that is added along; inner: all axes after it."""

    def __init__(self, k: Kernel, name: str, target: Target):
        super().__init__(k, name)
        self.width = target.lanes(F32)
        self.axis, self.reverse = k.root.attrs["axis"], k.root.attrs["reverse"]
        shape = k.root.shape
        self.outer = [Var(f"i{a}", d) for a, d in enumerate(shape[:self.axis])]
        self.along = Var("t", shape[self.axis])
        self.inner = [Var(f"i{a}", d) for a, d in enumerate(shape) if a > self.axis]
        self.across = math.prod(shape[self.axis + 1:])

    def print(self) -> Printed:
        """The kernel."""
        vectors = False
        if self.across > 1:
            body = self._columns()
        else:
            try:
                body, vectors = self._vectors(), True
            except Refused:
                body = self._fours()
        return self.kernel(self._around(body), vectors)

    def _around(self, body: list[Stmt]) -> list[Stmt]:
        loops = [v for v in self.outer if v.extent > 1]
        if not loops:
            return body
        size = self.k.root.size
        return [loop(loops[0], nested(loops[1:], body), where_it_pays(PARALLEL, size, hint(size) * 4, PARALLEL_WORK))]

    def _index(self, at: Ix) -> tuple[Ix, ...]:
        place = at if not self.reverse else Ix(self.along.extent - 1) + at * -1
        return (*(var(v) for v in self.outer), place, *(var(v) for v in self.inner))

    # ---- along the innermost axis
    def _vectors(self) -> list[Stmt]:
        root, v, lanes = self.k.root, self.along, self.width
        if root.dtype != F32 or lanes < 4 or self.reverse or fixed(v.extent) and v.extent < lanes:
            raise Refused("no vectors of this type, or against the order of memory")
        e = VectorEmitter(C, self.reads, extra=self.extra, width=lanes, lanes={v})
        outside, block = chain([v], Block(None, frozenset(self.outer)))
        at = self._index(var(v))
        value = e.floats(e.value(root.args[0], at, block))
        sums, before = Name(f"sums{COPIED}"), Name("before")
        body = [*block.body, Let("hy_v", sums, Op("hyv_running({0})", (value,)), True),
                Store(Name(self.names[root]), linear(root.shape, at), Op("{0} + {1}", (sums, before)), "STORE"),
                Assign(before, Op("hyv_last({0})", (sums,)), "+=")]
        return [*outside.body, Let("hy_v", before, Op("HYV_B(-0.0f)", ())),
                *iterations(v, body, lanes, 4 if hint(v.extent) >= 16 * lanes else 1)]

    def _fours(self) -> list[Stmt]:
        """Elements one by one, four of them together: the sum that goes on to the next four is one addition away."""
        n, t = self.along.extent, self.along
        whole = n // FOUR * FOUR
        e = Emitter(C, self.reads, extra=self.extra)
        outside = Block(None, frozenset(self.outer))
        fours = self._four(e, outside.child([t])) if may_exceed(n, FOUR - 1) else []
        ones = self._one(e, outside.child([t])) if not fixed(n) or whole < n else []
        return [*outside.body, Let(self._type(), Name("before"), self._nothing()),
                *(For(t.name, Ix(first), Ix(end), tuple(body), step)
                  for first, end, step, body in ((0, whole, FOUR, fours), (whole, n, 1, ones)) if body)]

    def _four(self, e: Emitter, block: Block) -> list[Stmt]:
        T, t, before = self._type(), var(self.along), Name("before")
        values = [self._value(e, block, t + j) for j in range(FOUR)]
        x0, x1, x2, x3, a, b, c, d = map(Name, ("x0", "x1", "x2", "x3", "a", "b", "c", "d"))
        sums = {a: (x0, x1), b: (a, x2), c: (x2, x3), d: (a, c)}
        return [*block.body, *(Let(T, x, value, True) for x, value in zip((x0, x1, x2, x3), values)),
                *(Let(T, n, self._add(*pair), True) for n, pair in sums.items()),
                *(self._store(e, t + j, self._add(before, n)) for j, n in enumerate((x0, a, b, d))),
                Assign(before, self._add(before, d))]

    def _one(self, e: Emitter, block: Block) -> list[Stmt]:
        before, value = Name("before"), self._value(e, block, var(self.along))
        return [*block.body, Assign(before, self._add(before, value)), self._store(e, var(self.along), before)]

    def _value(self, e: Emitter, block: Block, at: Ix) -> str:
        # values that are results as well are stored for each element
        e.written.clear()
        return e.value(self.k.root.args[0], self._index(at), block)

    def _store(self, e: Emitter, at: Ix, value: Expr) -> Stmt:
        return e.store(self.names[self.k.root], self.k.root, self._index(at), value)

    def _type(self) -> str:
        return C.compute(self.k.root.dtype)

    def _nothing(self) -> Literal:
        """What changes no number that is added to it, nor the sign of zero."""
        if self.k.root.dtype.kind in "iu":
            return Literal("0")
        return Literal("-0.0f" if C.compute(self.k.root.dtype) == "float" else "-0.0")

    def _add(self, a: Expr, b: Expr) -> Op:
        """Integers wrap around."""
        if self.k.root.dtype.kind in "iu":
            return Op(f"({self._type()})((unsigned long){{0}} + (unsigned long){{1}})", (a, b))
        return Op("({0} + {1})", (a, b))

    # ---- along other axes
    def _columns(self) -> list[Stmt]:
        """Some columns beside each other, their sums in a small array."""
        root, T, n = self.k.root, self._type(), self.across
        e = Emitter(C, self.reads, extra=self.extra)
        q = Var("q", n)
        idx = (*self._index(var(self.along))[:self.axis + 1], *unlinear(var(q), [v.extent for v in self.inner]))
        outside, row, column = chain([self.along, q], Block(None, frozenset(self.outer)))
        value = e.value(root.args[0], idx, column)
        before, base, end = Name("before"), Name("b"), Name("end")
        at = var(q) - var(Var("b", n))
        total = Load(before, at)
        body = [*column.body, Store(before, at, self._add(total, value)), e.store(self.names[root], root, idx, total)]
        simd = "" if is_half(root.dtype) else "#pragma omp simd"
        some = not fixed(n) or n % COLUMNS                       # there may be fewer at the end
        last = Op(f"({{0}} + {COLUMNS} < {{1}} ? {{0}} + {COLUMNS} : {{1}})" if some else f"{{0}} + {COLUMNS}",
                  (base, Ix(n)) if some else (base,))
        nothing = Store(before, var(Var("q", COLUMNS)), self._nothing())
        return [*outside.body, For(base, Ix(), Ix(n), (
            Let("long", end, last, True), Local(T, before, COLUMNS), For("q", Ix(), Ix(COLUMNS), (nothing,)),
            loop(self.along, [*row.body, For("q", base, end, tuple(body), 1, simd)])), COLUMNS)]
