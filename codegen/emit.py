"""The printer: values of a kernel as statements of C or CUDA, each placed in the outermost loop where it can stand."""
from __future__ import annotations

from dataclasses import field
from typing import Callable, Sequence

import numpy as np

from hybrid.base import dtype as dt
from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import MOVEMENT, Guard, Index, of_index, pull
from hybrid.ir.index import Ix, Quot, Rem, Val, linear, var
from hybrid.ir.scalar import SCALARS, Scalar
from hybrid.ir.stmt import Expr, Let, Load, Name, Op, Stmt, Store

from .block import Block, Key
from .dialect import Dialect
from hybrid.codegen.schedule.one_hot_gather import picked
from .reductions import Reduction, combine, identity, plan_reduction, serial_reduce, try_merged
from .vector_forms import subtracts_its_maximum

Reducer = Callable[["Emitter", Node, Index, Guard, "Block"], str]
# calls within each other after which what is below is emitted first, in a loop
DEEP = 50


@dataclass
class Emitter:
    """Emits values of one kernel. ``stored`` maps nodes in memory to C pointer names; ``given`` nodes to ready
    values."""
    d: Dialect
    stored: dict[Node, str]
    given: dict[Node, Callable[[Index], str]] = field(default_factory=dict)
    reducer: "Reducer | None" = None
    extra: dict[Node, str] = field(default_factory=dict)
    count: int = 0
    divisions: int = 0
    written: set[Node] = field(default_factory=set)
    index: str = "long"                    # C type of loop counters
    depth: int = 0                         # calls of value() within each other
    halves: dict[str, Expr] = field(default_factory=dict)    # values cast to a half type -> what is stored of them

    def probe(self) -> "Emitter":
        """An emitter to try on what this one would print, of which nothing stays."""
        return Emitter(self.d, self.stored, self.given, None, {}, self.count, 0, set(self.extra))

    def name(self, prefix: str = "t") -> Name:
        """A new identifier."""
        self.count += 1
        return Name(f"{prefix}{self.count}")

    # ---- addresses
    def offset(self, shape: tuple[int, ...], idx: Index) -> Ix:
        """Row-major offset; counts the divisions it needs."""
        x = linear(shape, idx)
        if any(isinstance(a, (Quot, Rem)) for a, _ in x.terms):
            self.divisions += 1
        return x

    def condition(self, guard: Guard) -> Op:
        """What is true inside, in parentheses."""
        self.divisions += sum(isinstance(a, (Quot, Rem)) for _, x, _ in guard for a, _ in x.terms)
        ops = {"ge": "({{{0}}} >= {1})", "lt": "({{{0}}} < {1})", "rem": "(({{{0}}}) % {1} == 0)"}
        text = " & ".join(ops[kind].format(i, n) for i, (kind, _, n) in enumerate(guard))
        return Op(f"({text})" if len(guard) > 1 else text, tuple(x for _, x, _ in guard))

    # ---- values
    def value(self, n: Node, idx: Index, block: Block, guard: Guard = ()) -> str:
        """Name (or literal) of node n at an index, its statements placed as far out as they can be."""
        self.depth += 1
        if self.depth % DEEP == 0:
            self._from_below(n, idx, block, guard)
        out = self._value(n, idx, block, guard)
        self.depth -= 1
        if n in self.extra and n not in self.written:
            self.written.add(n)
            self.home(idx, guard, block).body.append(self.store(self.extra[n], n, idx, out))
        return out

    def _value(self, n: Node, idx: Index, block: Block, guard: Guard) -> str:
        if n in self.given:
            return self.given[n](idx)
        if n.prim == "const":
            return self.d.literal(n.attrs["value"], n.dtype)
        if n not in self.stored and n.prim in MOVEMENT and n.prim != "pad":
            inner, _ = pull(n, idx)
            return self.value(n.args[0], inner, block, guard)
        home = self.home(idx, guard, block)
        key = (n, idx, guard)
        b: Block | None = home
        while b is not None:
            if key in b.memo:
                return b.memo[key]
            b = b.parent
        out = self._load(n, idx, guard, home) if n in self.stored else self._compute(n, idx, guard, home)
        home.memo[key] = out
        return out

    def _from_below(self, n: Node, idx: Index, block: Block, guard: Guard) -> None:
        """Values of all that node n is made of, operands first: a long chain of functions must not become a deep
        recursion."""
        todo, seen = [(n, idx, False)], set()
        while todo:
            m, at, ready = todo.pop()
            if ready:
                if (m, at) != (n, idx):
                    self.value(m, at, block, guard)
            elif (m, at) not in seen and not self._is_leaf(m, at, block, guard):
                seen.add((m, at))
                if m.prim in ("map", "cast", "bitcast"):
                    todo += [(m, at, True), *((a, at, False) for a in m.args)]
                elif m.prim in MOVEMENT and m.prim != "pad":
                    todo.append((m.args[0], pull(m, at)[0], False))

    def source(self, n: Node, idx: Index) -> tuple[Node, Index]:
        """The value whose elements another one shows by movement alone (reshape, permute, ...), and the index there."""
        while n.prim in MOVEMENT and n.prim != "pad" and n not in self.stored and n not in self.given:
            n, (idx, _) = n.args[0], pull(n, idx)
        return n, idx

    def _is_leaf(self, n: Node, idx: Index, block: Block, guard: Guard) -> bool:
        """Whether a value is there already, or is read from memory."""
        return (n in self.given or n in self.stored or n.prim == "const"
                or (n, idx, guard) in self.home(idx, guard, block).memo)

    def home(self, idx: Index, guard: Guard, block: Block) -> Block:
        """Of a block and those around it, the outermost one in which every variable of an index and guards is known."""
        if block.parent is None:
            return block
        needed = of_index(idx, guard)
        home = block
        while home.parent is not None and needed <= home.parent.vars:
            home = home.parent
        return home

    def let(self, block: Block, d: np.dtype, expression: Expr, prefix: str = "t") -> Name:
        """Bind an expression to a new name."""
        name = self.name(prefix)
        block.body.append(Let(self.d.compute(d), name, expression))
        return name

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        cell: Expr = Load(Name(self.stored[n]), self.offset(n.shape, idx))
        if is_half(n.dtype) and self.d.name == "c":
            return self._load_half(n, Op("{0} ? {1} : 0", (self.condition(guard), cell)) if guard else cell, block)
        if is_half(n.dtype):
            cell = Op(self.d.half_load[n.dtype.name], (cell,))
        if guard:
            cell = Op("{0} ? {1} : 0", (self.condition(guard), cell))
        return self.let(block, n.dtype, cell)

    def _load_half(self, n: Node, cell: Expr, block: Block) -> str:
        """Load a half. Its bits are remembered, so that a copy is stored without conversion."""
        bits = self.name("h")
        block.body.append(Let(self.d.storage(n.dtype), bits, cell))
        name = self.let(block, n.dtype, Op(self.d.half_load[n.dtype.name], (bits,)))
        self.halves[name] = bits
        return name

    def _compute(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        if n.prim == "map":
            row = SCALARS[n.fn]
            args: list[Expr] = [self.value(a, idx, block, guard) for a in n.args]
            if self.d.name == "c" and subtracts_its_maximum(n):
                args[0] = Op("HY_ROUNDED({0})", (args[0],))
            return self.let(block, n.dtype, self._rounded(n, self.spell(row, n.args[-1].dtype, args)))
        if n.prim == "cast":
            return self._converted(n, self.value(n.args[0], idx, block, guard), block)
        if n.prim == "bitcast":
            return self._bitcast(n, self.value(n.args[0], idx, block, guard), block)
        if n.prim == "pad":
            return self._pad(n, idx, guard, block)
        if n.prim == "iota":
            return self.let(block, n.dtype, Op(f"({self.d.compute(n.dtype)})({{0}})", (idx[0],)))
        if n.prim == "gather":
            return self._gather(n, idx, guard, block)
        if n.prim == "random_bits":
            return self._random(n, idx, guard, block)
        if n.prim in ("reduce", "dot", "argreduce", "unwindow"):
            return picked(self, n, idx, guard, block) or (self.reducer or serial_reduce)(self, n, idx, guard, block)
        raise NotImplementedError(f"{n.prim} inside a kernel")

    def _rounded(self, n: Node, value: Expr) -> Expr:
        """A half value as it would be read back from memory: one kernel may store what another computes again, and both
        must see the same."""
        return value if SCALARS[n.fn].exact else self.d.rounded(n.dtype, value)

    def spell(self, row: Scalar, d: np.dtype, args: Sequence[Expr]) -> Op:
        form = row.spelling(self.d.name, not dt.is_float(d))
        return Op(form.replace("{f}", "" if d == np.float64 else "f").replace("{T}", self.d.compute(d)), tuple(args))

    def _converted(self, n: Node, value: str, block: Block) -> str:
        name = self.let(block, n.dtype, self._cast(n, value))
        if is_half(n.dtype):                               # what is stored need not be rounded first
            self.halves[name] = Op(self.d.half_store[n.dtype.name], (Op("(float){0}", (value,)),))
        return name

    def _cast(self, n: Node, value: str) -> Expr:
        src, to = n.args[0].dtype, self.d.compute(n.dtype)
        if n.dtype.kind == "b":
            return Op("({0} != 0)", (value,))
        if is_half(n.dtype):
            return self.d.rounded(n.dtype, Op("(float){0}", (value,)))
        if src.kind == "b" and dt.is_float(n.dtype):       # a choice, of which compilers make a mask
            return Op("({0} ? {1} : {2})", (value, self.d.literal(1.0, n.dtype), self.d.literal(0.0, n.dtype)))
        # C leaves conversions out of range open, and compilers count on that: functions convert to 32 and 64 bits
        if self.d.name == "c" and dt.is_float(src) and n.dtype.kind in "iu":
            by = {"uint64": "ulong", "int64": "long", "uint32": "long"}.get(n.dtype.name, "int")
            return Op(f"{'' if by == to else f'({to})'}hy_{self.d.compute(src)}_to_{by}({{0}})", (value,))
        if dt.is_float(src) and n.dtype.kind in "iu" and n.dtype.name != "int32":
            return Op(f"({to})({'unsigned long' if n.dtype.name == 'uint64' else 'long'})({{0}})", (value,))
        return Op(f"({to})({{0}})", (value,))

    def _bitcast(self, n: Node, value: str, block: Block) -> str:
        name = self.name()
        src, dst = self.d.compute(n.args[0].dtype), self.d.compute(n.dtype)
        block.body.append(f"union {{ {src} a; {dst} b; }} u{name}; u{name}.a = {value}; {dst} {name} = u{name}.b;")
        return name

    def _pad(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        inner, own = pull(n, idx)
        if not own:
            return self.value(n.args[0], inner, block, guard)
        # beyond the border, wherever the loops are
        if any(x.is_const for _, x, _ in own):
            return self.d.literal(n.attrs["value"], n.dtype)
        value = self.value(n.args[0], inner, block, guard + tuple(g for g in own if g not in guard))
        return self.let(block, n.dtype, Op("{0} ? {1} : {2}", (self.condition(own), value,
                                                               self.d.literal(n.attrs["value"], n.dtype))))

    def _gather(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        x, i = n.args
        axis = n.attrs["axis"]
        at = self.value(i, idx[axis:axis + i.ndim], block, guard)
        home = self.home(idx[axis:axis + i.ndim], guard, block)
        clamped = Op(f"hy_clamp({{0}}, {max(x.shape[axis] - 1, 0)})", (at,))
        v = Val(self.let(home, np.dtype(np.int64), clamped, "g"), max(x.shape[axis], 2))
        inside: Block | None = block
        while inside is not None and inside is not home.parent:                 # known from there on inwards
            inside.vars = inside.vars | {v}
            inside = inside.parent
        return self.value(x, idx[:axis] + (var(v),) + idx[axis + i.ndim:], block, guard)

    def _random(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        key = n.args[0]
        seed, call = (self.value(key, (Ix(w),), block) for w in (0, 1))
        form = f"{self.d.philox}({{0}}, {{1}}, {n.attrs['stream']}u, (hy_ulong)({{2}}))"
        return self.let(block, n.dtype, Op(form, (seed, call, self.offset(n.shape, idx))))

    # ---- memory
    def store(self, pointer: str, n: Node, idx: Index, value: Expr) -> Stmt:
        """A store statement."""
        return Store(Name(pointer), self.offset(n.shape, idx), self.in_memory(n.dtype, value))

    def in_memory(self, d: np.dtype, value: Expr) -> Expr:
        """A value as it lies in memory: half types as 16 bits."""
        if not is_half(d):
            return value
        known = self.halves.get(value) if isinstance(value, str) else None
        return known or self.d.half_stored(d, value)

    def put(self, pointer: str, n: Node, idx: Index, block: Block) -> None:
        """Computes an element in a block, and stores it there."""
        value = self.value(n, idx, block)
        block.body.append(self.store(pointer, n, idx, value))


__all__ = ["Block", "Emitter", "Key", "Reduction", "combine", "identity", "plan_reduction",
           "serial_reduce", "try_merged"]
