"""Slices of a product's operands in shared memory, several of them under way: where each element lies, so that the
warps' loads meet different banks, and how a block brings a slice there. Operands that lie in memory as slices want them
are copied by 16 bytes without passing through registers; others are loaded, computed and stored.
"""
from __future__ import annotations


from hybrid.base.records import dataclass
from hybrid.ir.access import Guard
from hybrid.ir.index import Ix, Quot, Rem, Val, Var, bounds, coefficient, text, variables

from .product import Product
from .tile import Fill
from hybrid.codegen.dialect import CUDA

STAGES = 4                      # slices in shared memory: one is summed, the others are under way
CHUNK = 16                      # bytes that a copy moves
LINE = 64                       # bytes of a slice along the depth
PAD = 32                        # bytes between lines of four-byte elements, which no instruction transposes


@dataclass(frozen=True)
class Tile:
    """Sides of a block's part of the result, and how its warps stand in it."""
    rows: int
    columns: int
    down: int
    across: int

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return 32 * self.down * self.across

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return 4 * self.mi * self.ni

    @property
    def mi(self) -> int:
        """Pieces of 16 rows of a warp."""
        return self.rows // (16 * self.down)

    @property
    def ni(self) -> int:
        """Pieces of 8 columns of a warp."""
        return self.columns // (8 * self.across)


class Slices:
    """An operand's slices: ``size`` rows or columns, ``deep_line`` bytes deep."""

    deep_line = LINE                                       # bytes of a slice along the depth

    def __init__(self, p: Product, side: str, tile: Tile, threads: int = 0, first: int = 0):
        """threads: those that copy, if not all that multiply; first: the first of them."""
        self.p, self.side, self.tile, self.first = p, side, tile, first
        self.item = p.dot.args[0].dtype.itemsize
        self.each, self.deep = CHUNK // self.item, self.deep_line // self.item
        self.size, self.threads = (tile.rows if side == "a" else tile.columns), threads or tile.threads
        self.start, self.extent = ("r0", p.rows) if side == "a" else ("c0", p.columns)
        self.copies = self.size * self.deep_line // CHUNK // self.threads
        self.by_depth, self.copied = copies_whole(p, side, self.each)
        self.guards = _both_ends(p.operand(side).guard) if self.copied else []
        self.fill = None if self.copied else Fill(p, side, self.size, self.deep, self.item == 2, self.threads)
        if self.fill is not None:
            self.by_depth = self.fill.by_depth
        self.line = self.deep_line if self.by_depth else self._side_line()
        self.bytes = self._bytes()

    def _side_line(self) -> int:
        """Bytes between neighbours along the depth, where lines lie along the side."""
        return self.size * self.item + (PAD if self.item == 4 else 0)

    def _bytes(self) -> int:
        """Bytes of a slice."""
        return self.line * (self.size if self.by_depth else self.deep)

    @property
    def mixed(self) -> bool:
        """Whether a warp's columns stand in an order that gives each thread neighbours."""
        return self.side == "b" and self.by_depth

    # ---- where elements lie
    def swizzle(self, s: str, d: str) -> str:
        """What the number of a 16-byte piece is mixed with at a line, so that pieces of neighbouring lines lie in
        different banks."""
        if self.by_depth:
            return f"({s}) / {2 * self.tile.ni if self.mixed else 2} & 3"
        return f"({d}) & 7" if self.size * self.item >= 128 else f"({d}) / 2 & 3"

    def place(self, s: str, d: str) -> str:
        """Bytes from a slice's begin to the element at s along the side and d along the depth."""
        if not self.by_depth and self.item == 4:
            return f"({d}) * {self.line} + ({s}) * 4"
        line, at = (s, d) if self.by_depth else (d, s)
        return (f"({line}) * {self.line} + ((({at}) / {self.each} ^ {self.swizzle(s, d)}) * {CHUNK}) + "
                f"({at}) % {self.each} * {self.item}")

    # ---- how they come there
    def declare(self, base: str) -> list[str]:
        """What does not change from slice to slice: where a thread's pieces come from and go to. base: the first
        slice."""
        x, T = self.side, CUDA.storage(self.p.operand(self.side).node.dtype)
        if self.fill is not None:
            return self.fill.declare(f"__align__(16) {'unsigned short' if self.item == 2 else 'float'}")
        across = self._across()
        t = f"((int)threadIdx.x - {self.first})" if self.first else "(int)threadIdx.x"
        out = ([f"const int {x}_s = {t} / {across}, {x}_d = {t} % {across} * {self.each};"] if self.by_depth else
               [f"const int {x}_s = {t} % {across} * {self.each}, {x}_d = {t} / {across};"])
        out += [f"const hy_shared {self._to(i)} = {base} + ({self._first_place(i)});"
                for i in range(self._swizzle_period())]
        out += [f"hy_chunk {x}_chunk[{self.copies}];",
                f"const {T} *{x}_from[{self._pointers()}];", *self._inside(),
                *(f"int {x}_at{n}[{self._pointers()}];" for n in range(len(self.guards)))]
        for i in range(self._pointers()):
            out += ["{", *("  " + s for s in self._origin(i)), "}"]
        return out

    def _across(self) -> int:
        """Pieces of a line."""
        return self.deep_line // CHUNK if self.by_depth else self.size // self.each

    def _apart(self) -> int:
        """Lines between a thread's pieces."""
        return self.threads // self._across()

    def _swizzle_period(self) -> int:
        """After how many of a thread's pieces ``swizzle`` repeats."""
        return 1 if self.item == 4 and not self.by_depth else max(1, 8 // self._apart())

    def _first_place(self, i: int) -> str:
        """Bytes from a slice's begin to a thread's i-th piece."""
        lines = f" + {i * self._apart()}" if i else ""
        s, d = f"{self.side}_s", f"{self.side}_d"
        return self.place(s + lines, d) if self.by_depth else self.place(s, d + lines)

    def _to(self, i: int) -> str:
        """The address of a thread's i-th piece of the first slice, less the offset of whole swizzle periods."""
        return f"{self.side}_to" + (str(i) if i else "")

    def _landing(self, i: int, to: str) -> str:
        """The address of a thread's i-th piece in the slice that begins at byte ``to``."""
        within = i % self._swizzle_period()
        return f"{self._to(within)} + ({to}) + {(i - within) * self._apart() * self.line}"

    def _pointers(self) -> int:
        """Addresses that a thread keeps: one for each of its rows or columns, unless they lie evenly apart."""
        return self.copies if self.by_depth and self._even(self.p.group(self.side)) is None else 1

    @property
    def _place(self) -> Ix:
        """Where in memory an element lies."""
        place = self.p.operand(self.side).place
        assert place is not None
        return place

    def _even(self, group: list[Var]) -> int | None:
        """Elements between neighbours along a group of axes that lie as one; None of others."""
        return even_step(self._place, group) if not self.guards else None

    def _walks(self) -> int | None:
        """Elements that a thread's addresses move from slice to slice; None where it finds them anew each time."""
        step = self._even(self.p.m.depth)
        return None if step is None else step * self.deep

    def _split(self) -> tuple[Ix, Ix]:
        """The address, as what the side and the batch give and what the depth gives."""
        return self._parted(self._place)

    def _parted(self, x: Ix) -> tuple[Ix, Ix]:
        """An expression, as its terms without the depth and those of it."""
        deep = set(self.p.m.depth)
        own = tuple(t for t in x.terms if not variables(Ix(0, (t,))) & deep)
        return Ix(x.const, own), Ix(0, tuple(t for t in x.terms if t not in own))

    def _origin(self, i: int) -> list[str]:
        """Where a thread's i-th line begins, and whether it is inside."""
        p, x = self.p, self.side
        base = p.operand(x).memory
        assert base is not None
        at = f"{self.start} + {x}_s" + (f" + {i * self._apart()}" if i else "")
        own, deep = self._split()
        step = self._even(p.m.depth)
        if step is not None:
            deep = Ix(0, ((Var("kk", p.depth), step),))
        first = [f"const {p.kind} kk = low + {x}_d;"] if step is not None else []
        return [f"const {p.kind} at = {at};", "HY_ASSUME(at >= 0);", *p.decode("at", p.group(x)), *first,
                f"{x}_from[{i}] = {p.names[base]} + ({text(own)})" + (f" + ({text(deep)});" if first else ";"),
                *(f"{x}_at{n}[{i}] = {text(self._parted(at)[0])};" for n, (at, _, _) in enumerate(self.guards))]

    def _within(self, i: int) -> list[str]:
        """When a thread's i-th piece is in memory, and not among the zeros around it."""
        n, out = i if self._pointers() > 1 else 0, []
        for g, (at, low, high) in enumerate(self.guards):
            value = f"{self.side}_at{g}[{n}] + ({text(self._parted(at)[1])})"
            out += ([f"(unsigned)({value}) < {high}u"] if low and high is not None else
                    [f"{value} >= 0"] if high is None else [f"{value} < {high}"])
        return out

    def _inside(self) -> list[str]:
        """Which of a thread's pieces are inside, along the side."""
        if self.extent % self.size == 0:
            return []
        count, x = self.copies if self.by_depth else 1, self.side
        return [f"bool {x}_in[{count}];", *(f"{x}_in[{i}] = {self.start} + {x}_s + {i * self._apart()} < {self.extent};"
                                             for i in range(count))]

    def begin(self, to: str, k: str) -> list[str]:
        """Statements that begin to bring the slice at depth k to the slice ``to`` (bytes)."""
        if self.fill is not None:
            return self.fill.load("high", k)
        x, p, walks = self.side, self.p, self._walks()
        out, whole = [], p.depth % self.deep == 0
        for i in range(self.copies):
            lines = 0 if self.by_depth else i * self._apart()
            d = f"{x}_d" + (f" + {lines}" if lines else "")
            inside = [] if self.extent % self.size == 0 else [f"{x}_in[{i if self.by_depth else 0}]"]
            inside += [f"{k} < high" if whole else f"{k} + {d} < high", *self._within(i)]
            out += ["{", *([] if walks is not None else
                           ["  " + s for s in (f"const {p.kind} kk = {k} + {d};", "HY_ASSUME(kk >= 0);",
                                               *p.decode("kk", p.m.depth))]),
                    f"  hy_fetch({x}_chunk[{i}], {self._landing(i, to)}, {self._piece(i)}, "
                    f"{' && '.join(inside)});", "}"]
        return out + ([f"{x}_from[{n}] += {walks};" for n in range(self._pointers())] if walks is not None else [])

    def _piece(self, i: int) -> str:
        """The address of a thread's i-th piece of a slice."""
        x, p, walks, n = self.side, self.p, self._even(self.p.m.depth), 0
        out = ""
        if self.by_depth:
            n = i if self._pointers() > 1 else 0
            apart = 0 if n else (self._even(p.group(x)) or 0) * i * self._apart()
            out = f" + {apart}" if apart else ""
        elif walks is not None and i:
            out = f" + {walks * i * self._apart()}"
        return f"{x}_from[{n}]{out}" + ("" if walks is not None else f" + ({text(self._split()[1])})")

    def end(self, to: str) -> list[str]:
        """Statements that put what was not copied by itself into the slice ``to``."""
        if self.fill is not None:
            return self.fill.keep(f"tile_memory + {self.offset} + ({to})", self.place)
        return [f"hy_put({self.side}_chunk[{i}], {self._landing(i, to)});" for i in range(self.copies)]

    offset = 0                                             # bytes from the begin of a stage


class Swizzled(Slices):
    """Slices of halves in the order in which products of a warpgroup read them: 64 deep, in lines of 128 bytes whose
    pieces are mixed; where neighbours lie along the side, 64 of it are a line."""
    deep_line = 128

    @property
    def mixed(self) -> bool:
        """Never: a warpgroup reads the columns as they are."""
        return False

    def _side_line(self) -> int:
        """Bytes of a line."""
        return 128

    def _bytes(self) -> int:
        """Bytes of a slice."""
        return self.size * self.deep_line

    def place(self, s: str, d: str) -> str:
        """Bytes from a slice's begin to the element at s along the side and d along the depth."""
        line, at = (s, d) if self.by_depth else (d, f"({s}) % 64")
        apart = "" if self.by_depth else f"({s}) / 64 * {self.deep * 128} + "
        return f"{apart}({line}) * 128 + (({at}) / 8 ^ ({line}) & 7) * 16 + ({at}) % 8 * 2"


class Plain(Slices):
    """Slices of floats that are read line by line: columns in their own order."""

    @property
    def mixed(self) -> bool:
        """Never."""
        return False


def even_step(place: Ix, group: list[Var]) -> int | None:
    """Elements between neighbours along a group of axes, where ``place`` is as if they were one; None of others, and of
    one element."""
    long = [v for v in group if v.extent > 1]
    steps = [coefficient(place, v) for v in long]
    even = all(a is not None and b is not None and a == b * v.extent for a, b, v in zip(steps, steps[1:], long[1:]))
    return steps[-1] if steps and even else None


def copies_whole(p: Product, side: str, each: int) -> tuple[bool, bool]:
    """Whether an operand's neighbours in memory lie along the depth, and whether pieces of ``each`` elements lie
    together on boundaries of their size."""
    o, by_depth = p.operand(side), p.depth_major(side)
    if o.place is None or any(isinstance(v, Val) for v in variables(o.place)):
        return by_depth, False
    if o.guard:
        by_depth = bool(p.m.depth) and coefficient(o.place, p.m.depth[-1]) == 1
    along = p.m.depth if by_depth else p.group(side)
    inner = next((v for v in reversed(along) if v.extent > 1), None)
    if inner is None or inner.extent % each or o.guard and not _affine(o.guard, inner):
        return p.depth_major(side), False
    deep = set(p.m.depth)
    for a, c in o.place.terms:
        if isinstance(a, (Quot, Rem)) and variables(a.x) & deep:
            return by_depth, False
        if c != 1 if a == inner else c % each:
            return by_depth, False
    return by_depth, any(a == inner for a, _ in o.place.terms) and o.place.const % each == 0


def _affine(guard: Guard, inner: Var) -> bool:
    """Whether zeros around an operand lie along other axes than the innermost, evenly."""
    return all(kind in ("ge", "lt") and all(isinstance(a, Var) and a != inner for a, _ in at.terms)
               and -2**30 < bounds(at)[0] <= bounds(at)[1] < 2**30 for kind, at, _ in guard)


def _both_ends(guard: Guard) -> list[tuple[Ix, bool, int | None]]:
    """Conditions by what they are of: it, whether it must not be negative, and what it must be below."""
    out: dict[Ix, tuple[bool, int | None]] = {}
    for kind, at, bound in guard:
        at, bound = (at - bound, 0) if kind == "ge" and bound else (at, bound)
        low, high = out.get(at, (False, None))
        out[at] = (True, high) if kind == "ge" else (low, bound if high is None else min(high, bound))
    return [(at, low, high) for at, (low, high) in out.items()]
