"""Running sums in C (``cumulate``). Along the innermost axis a vector's own sums are made in log2(lanes) steps, and one
addition goes from vector to vector; types without vectors do the same with four elements. Along other axes lanes are
columns, whose sums go from line to line.
"""
from __future__ import annotations

import math

from hybrid.base.dtype import is_half
from hybrid.ir.index import Ix, Var, linear, text, unlinear, var
from hybrid.ir.kernel import Kernel

from .dialect import C, PARALLEL
from .emit import Block, Emitter, loop_nest
from .lanes import F32, Refused, lane_loop
from .loops import COLUMNS, PARALLEL_WORK, Printed, pointer_names, signature
from .vector import VectorEmitter

FOUR = 4                       # elements that are added up before what came before them is


def print_running(k: Kernel, name: str, width: int) -> Printed:
    """C of a running sum."""
    return _Running(k, name, width).print()


class _Running:
    """rows: the loop over all axes before the one that is added along; inner: all axes after it."""

    def __init__(self, k: Kernel, name: str, width: int):
        self.k, self.name, self.width = k, name, width
        self.args, self.names = pointer_names(k)
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
        source = "\n".join([signature(self.name, self.args, len(self.k.stores)),
                            *("  " + line for line in self._around(body)), "}"])
        return Printed(self.name, source, self.args, self.k.kind, vectors=vectors)

    def _around(self, body: list[str]) -> list[str]:
        loops = [v for v in self.outer if v.extent > 1]
        parallel = bool(loops) and self.k.root.size * 4 >= PARALLEL_WORK
        nest = loop_nest(loops[1:], body) if loops else body
        return [*([PARALLEL] if parallel else []), *loop_nest(loops[:1], nest)] if loops else nest

    def _emitter(self, make: type[Emitter], **more: object) -> Emitter:
        return make(C, {n: p for n, p in self.names.items() if n not in self.k.stores},
                    extra={n: self.names[n] for n in self.k.extra}, **more)       # type: ignore[arg-type]

    def _index(self, at: Ix) -> tuple[Ix, ...]:
        place = at if not self.reverse else Ix(self.along.extent - 1) + at * -1
        return (*(var(v) for v in self.outer), place, *(var(v) for v in self.inner))

    # ---- along the innermost axis
    def _vectors(self) -> list[str]:
        root, v, lanes = self.k.root, self.along, self.width
        if root.dtype != F32 or lanes < 4 or self.reverse or v.extent < lanes:
            raise Refused("no vectors of this type, or against the order of memory")
        e = self._emitter(VectorEmitter, width=lanes, lanes={v})
        assert isinstance(e, VectorEmitter)
        before = Block(None, frozenset(self.outer))
        block = before.child([v])
        at = self._index(var(v))
        value = e.floats(e.value(root.args[0], at, block))
        store = f"HYV_STORE@({self.names[root]} + {text(linear(root.shape, at))}, sums@ + before);"
        lines = [*block.lines, f"const hy_v sums@ = hyv_running({value});", store, "before += hyv_last(sums@);"]
        return [*before.lines, "hy_v before = HYV_B(-0.0f);",
                *lane_loop(v, lines, lanes, 4 if v.extent >= 16 * lanes else 1)]

    def _fours(self) -> list[str]:
        """Elements one by one, four of them together: the sum that goes on to the next four is one addition away."""
        T, n = self._type(), self.along.extent
        whole = n // FOUR * FOUR
        e = self._emitter(Emitter)
        before = Block(None, frozenset(self.outer))
        fours = self._four(e, before.child([self.along])) if whole else []
        ones = self._one(e, before.child([self.along])) if whole < n else []
        out = [*before.lines, f"{T} before = {self._nothing()};"]
        for first, end, step, body in ((0, whole, FOUR, fours), (whole, n, 1, ones)):
            if body:
                out += [f"for (long t = {first}; t < {end}; t += {step}) {{", *("  " + s for s in body), "}"]
        return out

    def _four(self, e: Emitter, block: Block) -> list[str]:
        T, t = self._type(), var(self.along)
        values = [self._value(e, block, t + j) for j in range(FOUR)]
        sums = {"a": ("x0", "x1"), "b": ("a", "x2"), "c": ("x2", "x3"), "d": ("a", "c")}
        return [*block.lines, f"const {T} {', '.join(f'x{j} = {value}' for j, value in enumerate(values))};",
                *(f"const {T} {n} = {self._add(*pair)};" for n, pair in sums.items()),
                *(self._store(e, t + j, self._add("before", n)) for j, n in enumerate(("x0", "a", "b", "d"))),
                f"before = {self._add('before', 'd')};"]

    def _one(self, e: Emitter, block: Block) -> list[str]:
        value = self._value(e, block, var(self.along))
        return [*block.lines, f"before = {self._add('before', value)};", self._store(e, var(self.along), "before")]

    def _value(self, e: Emitter, block: Block, at: Ix) -> str:
        # values that are results as well are stored for each element
        e.written.clear()
        return e.value(self.k.root.args[0], self._index(at), block)

    def _store(self, e: Emitter, at: Ix, value: str) -> str:
        return str(e.store(self.names[self.k.root], self.k.root, self._index(at), value))

    def _type(self) -> str:
        return C.compute(self.k.root.dtype)

    def _nothing(self) -> str:
        """What changes no number that is added to it, nor the sign of zero."""
        return "0" if self.k.root.dtype.kind in "iu" else "-0.0f" if C.compute(self.k.root.dtype) == "float" else "-0.0"

    def _add(self, a: str, b: str) -> str:
        """Integers wrap around."""
        d = self.k.root.dtype
        return f"({self._type()})((unsigned long){a} + (unsigned long){b})" if d.kind in "iu" else f"({a} + {b})"

    # ---- along other axes
    def _columns(self) -> list[str]:
        """Some columns beside each other, their sums in a small array."""
        root, T = self.k.root, self._type()
        e = self._emitter(Emitter)
        q = Var("q", self.across)
        idx = (*self._index(var(self.along))[:self.axis + 1], *unlinear(var(q), [v.extent for v in self.inner]))
        before = Block(None, frozenset(self.outer))
        line = before.child([self.along])
        column = line.child([q])
        value = e.value(root.args[0], idx, column)
        half = is_half(root.dtype)
        acc = "before[q - b]"
        body = [*column.lines, f"{acc} = {self._add(acc, value)};", str(e.store(self.names[root], root, idx, acc))]
        n = self.across
        end = f"(b + {COLUMNS} < {n} ? b + {COLUMNS} : {n})" if n % COLUMNS else f"b + {COLUMNS}"
        return [*before.lines, f"for (long b = 0; b < {n}; b += {COLUMNS}) {{", f"  const long end = {end};",
                f"  {T} before[{COLUMNS}];",
                f"  for (long q = 0; q < {COLUMNS}; q++) before[q] = {self._nothing()};",
                f"  for (long t = 0; t < {self.along.extent}; t++) {{", *("    " + s for s in line.lines),
                *([] if half else ["    #pragma omp simd"]),
                "    for (long q = b; q < end; q++) {", *("      " + s for s in body), "    }", "  }", "}"]
