"""Elementwise, reduction and row kernels in C as explicit vectors of float32 (GCC's vector extension,
kernels/c/vector.h).

A loop over a *lane variable* does ``lanes`` turns at once. Its body is printed once, as a template, and used for each
unrolled copy and for the last, masked turn: ``@`` in a name stands for the number of the copy, and ``HYV_LOAD@(``,
``HYV_STORE@(``, ``HYV_KEEP@(`` become masked forms in the last turn. A value is a vector when its index has a lane
variable. What cannot be printed so raises Refused; then the kernel is printed as plain loops.
"""
from __future__ import annotations

import math
from dataclasses import field

import numpy as np

from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir.size import hint
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index, of_index, pull
from hybrid.ir.index import Ix, Val, Var, coefficient, fills, linear, variables
from hybrid.ir.scalar import SCALARS
from hybrid.ir.stmt import Expr, Let, Literal, Load, Local, Name, Op, Prefetch, Stmt, Store

from .emit import Block, Emitter
from .lane_reductions import arg_lanes, reduce_lanes
from .lanes import BOOL, F32, F64, LaneLoop, Refused, half
from .vector_forms import (at_least_one, below_its_maximum, common, comparison, in_float32, keeps_bytes, limited,
                           one_limit, scaled, shifted, spelling, subtracts_its_maximum)

# bytes of an array whose cache lines are not in a core's own caches when they are read or written
FAR = 1 << 20
NEAR = 1 << 14                  # bytes of one row of it that are fetched beforehand
KEEP_BYTES = 1 << 15            # a row of kept values on the stack


@dataclass
class Kept:
    """Where the values of a row are kept between its loops: pointer, whether the whole array's address is used, row."""
    pointer: str
    whole: bool
    row: tuple[Ix, ...] = ()
    axes: tuple[int, ...] = ()


@dataclass
class VectorEmitter(Emitter):
    """Emits vectors where an index has a lane variable. ``keep``: nodes that later loops of a row read again instead of
    computing them twice, with a pointer to an array of their shape, or an empty text for a buffer of the row.
    """
    width: int = 16
    type: np.dtype = F32                   # of a vector's elements; those of float64 are named by lanes.in_doubles
    # whether arrays of half types may be read and written; not by printers that count on elements of four bytes
    allow_halves: bool = False
    past: frozenset[Node] = frozenset()    # results that are written past the caches
    lanes: set[Var] = field(default_factory=set)
    rows: frozenset[Var] = frozenset()
    keep: dict[Node, str] = field(default_factory=dict)
    kept: dict[Node, Kept] = field(default_factory=dict)
    ready: set[Node] = field(default_factory=set)
    kind: dict[str, str] = field(default_factory=dict)          # name of a vector -> v (floats), m (mask), i (integers)
    defined: dict[str, Block] = field(default_factory=dict)     # where a scalar stands
    inverse: dict[str, Name] = field(default_factory=dict)       # scalars that are divided by
    # vectors rounded to a half type -> what they were: a store rounds it itself
    exact: dict[str, str] = field(default_factory=dict)
    one_plus: dict[Node, tuple[Node | None, Node]] = field(default_factory=dict)        # vector_forms.one_plus
    read_in: dict[Node, set[Var]] = field(default_factory=dict)  # loops of a row in which an array in memory is read
    loads: list[tuple[Node, Ix]] = field(default_factory=list)   # every vector read from memory, and where
    stores: list[tuple[Node, Ix]] = field(default_factory=list)  # every vector written to memory, and where
    # loops of reductions to one number, and their lines in a block
    loops: list[tuple[Block, int, int, LaneLoop]] = field(default_factory=list)

    @property
    def real(self) -> str:
        """C type of an element."""
        return self.d.compute(self.type)

    def holds(self, d: np.dtype) -> bool:
        """Whether values of a dtype are vectors of this type: half types are computed in float32, and so are numbers of
        8 bits."""
        return d == self.type or self.allow_halves and in_float32(d)

    def holds_masks(self, d: np.dtype) -> bool:
        """Whether values of a dtype are masks of such vectors in memory, too."""
        return d == np.bool_ and self.type == F32 and self.allow_halves

    def lane(self, idx: Index, guard: Guard = ()) -> Var | None:
        """The lane variable of an index."""
        found = of_index(idx, guard)
        hit = found & self.lanes
        if any(isinstance(v, Val) and v.name in self.kind for v in found):
            raise Refused("an index read for each lane")
        return next(iter(hit)) if hit else None             # type: ignore[return-value]

    def bind(self, block: Block, kind: str, expression: Expr) -> Name:
        """A vector's name."""
        name = self.name("v")
        self.kind[name] = kind
        block.body.append(Let({"v": "hy_v", "m": "hy_m", "i": "hy_vi"}[kind], name, expression, True))
        return name

    def let(self, block: Block, d: np.dtype, expression: Expr, prefix: str = "t") -> Name:
        """Bind a scalar to a new name."""
        name = super().let(block, d, expression, prefix)
        self.defined[name] = block
        return name

    def ratio(self, a: str, by: str, block: Block, plain: bool = False) -> Expr:
        """a / by, one rounding more: a product where ``by`` is one number for many elements. plain: whether 1 / by is a
        normal number."""
        home = self.defined.get(by)
        if home is None or by in self.kind or home is block:
            return Op("({0} / {1})", (self.floats(a), self.floats(by)))
        if by not in self.inverse and plain:
            self.inverse[by] = scale = self.name("s")
            home.body.append(Let(self.real, scale, Op("1.0f / {0}", (by,)), True))
        if plain:
            return Op("({0} * HYV_B({1}))", (self.floats(a), self.inverse[by]))
        if by not in self.inverse:
            self.inverse[by] = scale = self.name("s")
            home.body += [Let(self.real, scale, Op("hy_scale({0})", (by,)), True),
                          Let(self.real, Name(f"{scale}r"), Op("1.0f / ({0} * {1})", (by, scale)), True)]
        scale = self.inverse[by]
        return Op("({0} * HYV_B({1}) * HYV_B({2}))", (self.floats(a), scale, Name(f"{scale}r")))

    def floats(self, name: Expr) -> Expr:
        """A value as a vector of floats."""
        kind = self.kind.get(name) if isinstance(name, str) else None
        if kind in ("m", "i"):
            raise Refused("integers among floats")
        return name if kind else Op("HYV_B({0})", (name,))

    # ---- values
    def value(self, n: Node, idx: Index, block: Block, guard: Guard = ()) -> str:
        """As Emitter.value; what earlier loops of the row kept is read, and what later ones need is kept."""
        if n in self.ready and (where := self._place(n, idx)) is not None:
            lane = self.lane(idx, guard)
            home = self.home(idx, guard, block)
            key = (n, idx, guard)
            if key not in home.memo:
                if lane is None or coefficient(where[1], lane) != 1:
                    return super().value(n, idx, block, guard)
                home.memo[key] = self.bind(home, "v", Load(Name(where[0]), where[1], "LOAD"))
            return home.memo[key]
        return super().value(n, idx, block, guard)

    def _is_leaf(self, n: Node, idx: Index, block: Block, guard: Guard) -> bool:
        return n in self.ready and self._place(n, idx) is not None or super()._is_leaf(n, idx, block, guard)

    def _place(self, n: Node, idx: Index) -> tuple[str, Ix] | None:
        """Where a kept value of this index is, if it is of the same row."""
        kept = self.kept[n]
        if kept.whole:
            return kept.pointer, linear(n.shape, idx)
        spot = self._spot(n, idx)
        return (kept.pointer, spot[2]) if spot is not None and spot[:2] == (kept.row, kept.axes) else None

    def _spot(self, n: Node, idx: Index) -> tuple[tuple[Ix, ...], tuple[int, ...], Ix] | None:
        """An index as the row (axes that name it) and the place within it."""
        row, axes = [], []
        for a, i in enumerate(idx):
            found = variables(i)
            if found & self.rows:
                if found - self.rows:
                    return None
                row.append(i)
            else:
                axes.append(a)
        return tuple(row), tuple(axes), linear([n.shape[a] for a in axes], [idx[a] for a in axes])

    def remember(self, n: Node, idx: Index, name: str, home: Block, row: Block) -> None:
        """Keep a value that was just computed in a loop of the row."""
        pointer = self.keep[n]
        spot = self._spot(n, idx)
        lane = self.lane(idx)
        if spot is None or lane is None or not pointer and math.prod(n.shape[a]
                                                                     for a in spot[
                1]) * self.type.itemsize > KEEP_BYTES:
            return
        where, size = (linear(n.shape, idx), n.size) if pointer else (spot[2], math.prod(n.shape[a] for a in spot[1]))
        if coefficient(where, lane) != 1 or not fills(where, size):     # of a part, later loops would read more
            return
        kept = Kept(pointer, bool(pointer), spot[0], spot[1])
        if not pointer:
            kept.pointer = self.name("row")
            row.body.append(Local(self.real, Name(kept.pointer), math.prod(n.shape[a] for a in spot[1])))
        self.kept[n] = kept
        home.body.append(Store(Name(kept.pointer), where, name, "STORE"))

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        lane = self.lane(idx, guard)
        if lane is None:
            return super()._load(n, idx, guard, block)
        at = linear(n.shape, idx)
        if self.holds_masks(n.dtype) and coefficient(at, lane) == 1 and not guard:
            self.loads.append((n, at))
            return self.bind(block, "m", Load(Name(self.stored[n]), at, f"LOAD{BOOL}"))
        if not self.holds(n.dtype) or coefficient(at, lane) != 1:
            raise Refused(f"{n.dtype} or elements that are not neighbours")
        load: Expr = Load(Name(self.stored[n]), at, f"LOAD{half(n.dtype)}")
        self.loads.append((n, at))
        if guard:
            self._uniform(guard)
            load = Op("{0} ? {1} : (hy_v){{}}", (self.condition(guard), load))
        else:
            self._ask_for_the_next_row(n, at, lane, block)
        return self.bind(block, "v", load)

    def _ask_for_the_next_row(self, n: Node, at: Ix, lane: Var, block: Block) -> None:
        """The second loop over a row of a large array finds it in the cache: meanwhile the next row, or the one after
        it, comes from memory (softmax: 0.92 of the time)."""
        loops = self.read_in.setdefault(n, set())
        step = max((coefficient(at, v) or 0 for v in self.rows), default=0, key=hint)
        apart = hint(step) * n.dtype.itemsize
        if len(loops) == 1 and lane not in loops and hint(n.nbytes) >= FAR and 128 <= apart <= NEAR:
            block.body.append(Prefetch(Name(self.stored[n]), at, step, 2 if apart <= NEAR // 2 else 1))
        loops.add(lane)

    def _uniform(self, guard: Guard) -> None:
        if self.lane((), guard) is not None:
            raise Refused("a border within a vector")

    def _compute(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        lane = self.lane(idx, guard)
        if lane is None:
            return super()._compute(n, idx, guard, block)
        if n.prim == "map":
            return self._map(n, idx, guard, block)
        if n.prim == "cast":
            return self._convert(n, self.value(n.args[0], idx, block, guard), block)
        if n.prim == "random_bits":
            return self._random_lanes(n, idx, lane, block)
        if n.prim == "iota" and n.dtype.kind == "i":
            return self._count(idx[0], lane, block)
        if n.prim == "reduce" and self.holds(n.dtype) and keeps_bytes(n):
            return reduce_lanes(self, n, idx, guard, block)
        if n.prim == "argreduce":
            return arg_lanes(self, n, idx, guard, block)
        if n.prim == "gather" or n.prim == "pad":
            self._uniform(guard)
            return super()._compute(n, idx, guard, block)
        raise Refused(n.prim)

    def _count(self, at: Ix, lane: Var, block: Block) -> str:
        if coefficient(at, lane) != 1:
            raise Refused("a count by steps")
        return self.bind(block, "i", Op("HYV_COUNT + HYV_IB((int)({0}))", (at,)))

    def _random_lanes(self, n: Node, idx: Index, lane: Var, block: Block) -> str:
        at = linear(n.shape, idx)
        if coefficient(at, lane) != 1 or self.type == F64:
            raise Refused("random numbers by steps")
        seed, call = (self.value(n.args[0], (Ix(w),), block) for w in (0, 1))
        form = f"hyv_philox({{0}}, {{1}}, {n.attrs['stream']}u, (unsigned long)({{2}}))"
        return self.bind(block, "i", Op(form, (seed, call, at)))

    def _pad(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        inner, own = pull(n, idx)
        if not own or self.lane(idx, guard) is None or any(x.is_const for _, x, _ in own):
            return super()._pad(n, idx, guard, block)
        self._uniform(own)
        value = self.floats(self.value(n.args[0], inner, block, guard + tuple(g for g in own if g not in guard)))
        other = self.floats(self.d.literal(n.attrs["value"], n.dtype))
        return self.bind(block, "v", Op("{0} ? {1} : {2}", (self.condition(own), value, other)))

    def _gather(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        axis, count = n.attrs["axis"], n.args[1].ndim
        if self.lane(idx[axis:axis + count], guard) is not None:
            raise Refused("an index read for each lane")
        return super()._gather(n, idx, guard, block)

    def _convert(self, n: Node, name: str, block: Block) -> str:
        kind = self.kind.get(name)
        source, holds = n.args[0], self.holds(n.dtype)
        if holds and kind == "m":
            return self.bind(block, "v", Op("HYV_SELECT({0}, HYV_B(1.0f), (hy_v){{}})", (name,)))
        if holds and kind == "i" and n.dtype.itemsize > 1 and (source.dtype.kind == "i" or shifted(source)):
            return self.near(n, Op("__builtin_convertvector({0}, hy_v)", (name,)), block)
        if is_half(n.dtype) and holds and self.holds(source.dtype) and n.dtype != source.dtype:
            return self.near(n, self.floats(name), block)
        if holds and self.holds(source.dtype) and keeps_bytes(n) or n.dtype.kind == "i" and kind == "i" and not holds:
            return name
        raise Refused(f"a cast to {n.dtype}")

    def _map(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        fn = n.fn
        if n in self.one_plus:
            return self._one_plus(*self.one_plus[n], idx, guard, block)
        if fn == "where" and self.holds(n.dtype) and n.args[0] not in self.extra and (limit := limited(n)) is not None:
            ends = tuple(self.floats(self.value(a, idx, block, guard)) for a in n.args[1:])
            return self.bind(block, "v", Op(f"{limit}({{0}}, {{1}})", ends))
        args = [self.value(a, idx, block, guard) for a in n.args]
        if comparison(fn):
            return self._compared(n, fn, args, block)
        row = SCALARS[fn]
        if row.of_masks and all(self.kind.get(a) == "m" for a in args):
            return self.bind(block, "m", Op(row.vector, tuple(args)))
        if shifted(n) and self.kind.get(args[0]) == "i":
            return self.bind(block, "i", Op("HYV_SHR({0}, {1})", tuple(args)))
        spelled = spelling(fn, self.type)
        if not spelled or not self.holds(n.dtype) or not keeps_bytes(n):
            raise Refused(fn)
        if fn == "where":
            return self._chosen(args, block)
        if (form := one_limit(n)) is not None:
            return args[0] if form == "{0}" else self.near(n, Op(form, tuple(self.floats(a) for a in args)), block)
        if fn == "div" and n.dtype == self.type:
            return self.bind(block, "v", self.ratio(args[0], args[1], block, at_least_one(n.args[1])))
        if fn == "exp" and self.type == F32 and below_its_maximum(n.args[0]):
            return self.near(n, Op("hyv_exp_below({0})", (self.floats(args[0]),)), block)
        values: list[Expr] = [self.floats(a) for a in args]
        if subtracts_its_maximum(n):
            values[0] = Op("HY_ROUNDED({0})", (values[0],))
        return self.near(n, Op(spelled, tuple(values)), block)

    def near(self, n: Node, value: Expr, block: Block) -> str:
        """The name of a vector that is computed; of a half type as it would be read back from memory
        (Emitter._rounded)."""
        name = self.bind(block, "v", value)
        if not is_half(n.dtype) or n.prim == "map" and SCALARS[n.fn].exact:
            return name
        rounded = self.bind(block, "v", Op(f"HYV_NEAR{half(n.dtype)}({{0}})", (name,)))
        self.exact[rounded] = name
        return rounded

    def _one_plus(self, factor: Node | None, f: Node, idx: Index, guard: Guard, block: Block) -> str:
        """1 + erf(y); a * (1 + tanh(y)), which is 2 a / (1 + 2^(-2 y log2 e)) and keeps its digits where tanh(y) is
        near -1."""
        if f.fn == "erf":
            inner = self.floats(self.value(f.args[0], idx, block, guard))
            return self.bind(block, "v", Op("hyv_erf1({0})", (inner,)))
        y, by = scaled(f.args[0], -2 / math.log(2), self.extra)
        power = self._times(y, by, idx, guard, block)
        twice = self._twice(factor, idx, guard, block)
        return self.bind(block, "v", Op("{0} / (hyv_two_to({1}) + HYV_B(1.0f))", (twice, power)))

    def _times(self, n: Node, by: float, idx: Index, guard: Guard, block: Block) -> Expr:
        """n * by; x + c x y as x (by + by c y)."""
        found = common(n)
        if found is None:
            return Op("{0} * HYV_B({1})", (self.floats(self.value(n, idx, block, guard)), self.d.literal(by, F32)))
        x, *rest = (self.floats(self.value(a, idx, block, guard)) for a in (found[0], *found[1]))
        product = " * ".join(f"{{{i}}}" for i in range(3, 3 + len(rest)))
        return Op(f"{{0}} * ({product} * HYV_B({{1}}) + HYV_B({{2}}))",
                  (x, self.d.literal(by * found[2], F32), self.d.literal(by, F32), *rest))

    def _twice(self, n: Node | None, idx: Index, guard: Guard, block: Block) -> Expr:
        """2 n, which is x where n is x / 2; 2 for None."""
        if n is None:
            return Literal("HYV_B(2.0f)")
        x, by = scaled(n, 2.0, self.extra)
        value = self.floats(self.value(x, idx, block, guard))
        return value if by == 1 else Op("({0} * HYV_B({1}))", (value, self.d.literal(by, F32)))

    def _chosen(self, args: list[str], block: Block) -> str:
        mask, *rest = args
        a, b = (self.floats(r) for r in rest)
        if mask in self.kind:
            if self.kind[mask] != "m":
                raise Refused("a condition that is no mask")
            return self.bind(block, "v", Op("HYV_SELECT({0}, {1}, {2})", (mask, a, b)))
        return self.bind(block, "v", Op("{0} ? {1} : {2}", (mask, a, b)))

    def _compared(self, n: Node, fn: str, args: list[str], block: Block) -> str:
        kinds = [self.kind.get(a) for a in args]
        # a count with an integer: one outside of its range stays outside
        if "i" in kinds:
            if kinds[0] != "i" or kinds[1] is not None or n.args[0].dtype.kind != "i":
                raise Refused("integers")
            return self.bind(block, "m", Op(f"HYV_I{fn.upper()}({{0}}, HYV_IB(hy_int({{1}})))", tuple(args)))
        if not all(self.holds(a.dtype) for a in n.args):
            raise Refused("a comparison of other types")
        sides = tuple(self.floats(a) for a in args)
        return self.bind(block, "m", Op(spelling(fn, self.type), sides))

    def store(self, pointer: str, n: Node, idx: Index, value: Expr) -> Stmt:
        """A store statement."""
        lane = self.lane(idx)
        if lane is None:
            if value in self.kind:
                raise Refused("a vector for one element")
            return super().store(pointer, n, idx, value)
        at = linear(n.shape, idx)
        assert isinstance(value, str)
        if self.kind.get(value) == "m" and self.holds_masks(n.dtype) and coefficient(at, lane) == 1:
            self.stores.append((n, at))
            return Store(Name(pointer), at, value, f"STORE{BOOL}")
        if not self.holds(n.dtype) or coefficient(at, lane) != 1:
            raise Refused("a store of other elements than neighbours")
        self.stores.append((n, at))
        exact = self.exact.get(value) if is_half(n.dtype) else None      # a store to a half type rounds by itself
        vector = "PAST" if n in self.past else f"STORE{half(n.dtype)}"
        return Store(Name(pointer), at, exact or self.floats(value), vector)
