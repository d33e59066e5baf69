"""The printer: values of a kernel as statements of C or CUDA, each placed in the outermost loop where it can stand."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterable

import numpy as np

from hybrid import dtype as dt
from hybrid.ir import Node
from hybrid.ir.access import ELEMENTWISE, MOVEMENT, Guard, Index, pull, pull_unwindow
from hybrid.ir.index import Ix, Quot, Rem, Val, Var, linear, text, total, unlinear, var, variables
from hybrid.ir.primitives import reduce_identity
from hybrid.ir.scalar import SCALARS

from .dialect import Dialect, is_half
from .picked import picked

Key = tuple[Node, Index, Guard]
Reducer = Callable[["Emitter", Node, Index, Guard, "Block"], str]
# Functions of halves whose results are halves: nothing is to be rounded
EXACT = {"relu", "neg", "abs", "sign", "floor", "ceil", "rint", "round", "trunc", "fix", "maximum", "minimum", "where", "copysign"}

DEEP = 50                                  # calls within each other after which what is below is emitted first, in a loop


@dataclass
class Block:
    """Statements inside some loops. A child's statements are printed into its parent when the child is closed."""
    parent: "Block | None"
    vars: frozenset[Var | Val]
    lines: list[str] = field(default_factory=list)
    memo: dict[Key, str] = field(default_factory=dict)

    def child(self, new: Iterable[Var]) -> "Block":
        """A block inside further loops."""
        return Block(self, self.vars | frozenset(new))


@dataclass
class Emitter:
    """Emits values of one kernel. ``stored`` maps nodes in memory to C pointer names; ``given`` nodes to ready values."""
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
    halves: dict[str, str] = field(default_factory=dict)     # values cast to a half type -> what is stored of them
    _values: dict[str, Block] = field(default_factory=dict)

    def name(self, prefix: str = "t") -> str:
        """A new identifier."""
        self.count += 1
        return f"{prefix}{self.count}"

    # ---- addresses
    def address(self, shape: tuple[int, ...], idx: Index) -> str:
        """Row-major offset as C text; counts the divisions it needs."""
        x = linear(shape, idx)
        if any(isinstance(a, (Quot, Rem)) for a, _ in x.terms):
            self.divisions += 1
        return text(x)

    def condition(self, guard: Guard) -> str:
        """C text that is true inside."""
        self.divisions += sum(isinstance(a, (Quot, Rem)) for _, x, _ in guard for a, _ in x.terms)
        ops = {"ge": "{0} >= {1}", "lt": "{0} < {1}", "rem": "({0}) % {1} == 0"}
        return " & ".join(f"({ops[kind].format(text(x), n)})" for kind, x, n in guard)

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
            self._home(idx, guard, block).lines.append(self.store(self.extra[n], n, idx, out))
        return out

    def _value(self, n: Node, idx: Index, block: Block, guard: Guard) -> str:
        if n in self.given:
            return self.given[n](idx)
        if n.prim == "const":
            return self.d.literal(n.attrs["value"], n.dtype)
        if n not in self.stored and n.prim in MOVEMENT and n.prim != "pad":
            inner, _ = pull(n, idx)
            return self.value(n.args[0], inner, block, guard)
        home = self._home(idx, guard, block)
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
        """Values of all that node n is made of, operands first: a long chain of functions must not become a deep recursion."""
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

    def _is_leaf(self, n: Node, idx: Index, block: Block, guard: Guard) -> bool:
        """Whether a value is there already, or is read from memory."""
        return n in self.given or n in self.stored or n.prim == "const" or (n, idx, guard) in self._home(idx, guard, block).memo

    def _home(self, idx: Index, guard: Guard, block: Block) -> Block:
        needed = {v for i in idx for v in variables(i)} | {v for _, x, _ in guard for v in variables(x)}
        home = block
        while home.parent is not None and needed <= home.parent.vars:
            home = home.parent
        return home

    def let(self, block: Block, d: np.dtype, expression: str, prefix: str = "t") -> str:
        """Bind an expression to a new name."""
        name = self.name(prefix)
        block.lines.append(f"{self.d.compute(d)} {name} = {expression};")
        return name

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        cell = f"{self.stored[n]}[{self.address(n.shape, idx)}]"
        if is_half(n.dtype):
            cell = self.d.half_load[n.dtype.name].format(cell)
        if guard:
            cell = f"{self.condition(guard)} ? {cell} : 0"
        return self.let(block, n.dtype, cell)

    def _compute(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        if n.prim == "map":
            row = SCALARS[n.attrs["fn"]]
            args = [self.value(a, idx, block, guard) for a in n.args]
            return self.let(block, n.dtype, self._rounded(n, self._spell(row, n.args[-1].dtype, args)))
        if n.prim == "cast":
            return self._converted(n, self.value(n.args[0], idx, block, guard), block)
        if n.prim == "bitcast":
            return self._bitcast(n, self.value(n.args[0], idx, block, guard), block)
        if n.prim == "pad":
            return self._pad(n, idx, guard, block)
        if n.prim == "iota":
            return self.let(block, n.dtype, f"({self.d.compute(n.dtype)})({text(idx[0])})")
        if n.prim == "gather":
            return self._gather(n, idx, guard, block)
        if n.prim == "random_bits":
            return self._random(n, idx, guard, block)
        if n.prim in ("reduce", "dot", "argreduce", "unwindow"):
            return picked(self, n, idx, guard, block) or (self.reducer or serial_reduce)(self, n, idx, guard, block)
        raise NotImplementedError(f"{n.prim} inside a kernel")

    def _rounded(self, n: Node, value: str) -> str:
        """A half value as it would be read back from memory: one kernel may store what another computes again, and both must see the same."""
        if not is_half(n.dtype) or n.attrs["fn"] in EXACT:
            return value
        return self.d.half_load[n.dtype.name].format(self.d.half_store[n.dtype.name].format(value))

    def _spell(self, row: object, d: np.dtype, args: list[str]) -> str:
        integer = not dt.is_float(d)
        out = row.spelling(self.d.name, integer)           # type: ignore[attr-defined]
        return out.format(*args, f="" if d == np.float64 else "f", T=self.d.compute(d))

    def _converted(self, n: Node, value: str, block: Block) -> str:
        name = self.let(block, n.dtype, self._cast(n, value))
        if is_half(n.dtype):                               # what is stored need not be rounded first
            self.halves[name] = self.d.half_store[n.dtype.name].format(f"(float){value}")
        return name

    def _cast(self, n: Node, value: str) -> str:
        src = n.args[0].dtype
        if n.dtype.kind == "b":
            return f"({value} != 0)"
        if is_half(n.dtype):
            return self.d.half_load[n.dtype.name].format(self.d.half_store[n.dtype.name].format(f"(float){value}"))
        if src.kind == "b" and dt.is_float(n.dtype):       # a choice, of which compilers make a mask
            return f"({value} ? {self.d.literal(1.0, n.dtype)} : {self.d.literal(0.0, n.dtype)})"
        if dt.is_float(src) and n.dtype.kind in "iu" and n.dtype.name != "int32":  # C leaves out-of-range conversions open; processors have those to 32 and 64 bits
            return f"({self.d.compute(n.dtype)})({'unsigned long' if n.dtype.name == 'uint64' else 'long'})({value})"
        return f"({self.d.compute(n.dtype)})({value})"

    def _bitcast(self, n: Node, value: str, block: Block) -> str:
        name = self.name()
        src, dst = self.d.compute(n.args[0].dtype), self.d.compute(n.dtype)
        block.lines.append(f"union {{ {src} a; {dst} b; }} u{name}; u{name}.a = {value}; {dst} {name} = u{name}.b;")
        return name

    def _pad(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        inner, own = pull(n, idx)
        if not own:
            return self.value(n.args[0], inner, block, guard)
        if any(x.is_const for _, x, _ in own):                                   # beyond the border, wherever the loops are
            return self.d.literal(n.attrs["value"], n.dtype)
        value = self.value(n.args[0], inner, block, guard + tuple(g for g in own if g not in guard))
        return self.let(block, n.dtype, f"{self.condition(own)} ? {value} : {self.d.literal(n.attrs['value'], n.dtype)}")

    def _gather(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        x, i = n.args
        axis = n.attrs["axis"]
        at = self.value(i, idx[axis:axis + i.ndim], block, guard)
        home = self._home(idx[axis:axis + i.ndim], guard, block)
        v = Val(self.let(home, np.dtype(np.int64), f"hy_clamp({at}, {max(x.shape[axis] - 1, 0)})", "g"), max(x.shape[axis], 2))
        inside: Block | None = block
        while inside is not None and inside is not home.parent:                 # known from there on inwards
            inside.vars = inside.vars | {v}
            inside = inside.parent
        return self.value(x, idx[:axis] + (var(v),) + idx[axis + i.ndim:], block, guard)

    def _random(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        key = n.args[0]
        seed, call = (self.value(key, (Ix(w),), block) for w in (0, 1))
        offset = self.address(n.shape, idx)
        return self.let(block, n.dtype, f"{self.d.philox}({seed}, {call}, {n.attrs['stream']}u, (unsigned long long)({offset}))")

    # ---- memory
    def store(self, pointer: str, n: Node, idx: Index, value: str) -> str:
        """A store statement."""
        if is_half(n.dtype):
            value = self.halves.get(value) or self.d.half_store[n.dtype.name].format(value)
        return f"{pointer}[{self.address(n.shape, idx)}] = {value};"


# ---- reductions
def identity(e: Emitter, op: str, d: np.dtype) -> str:
    """Literal of a reduction's identity."""
    return e.d.literal(reduce_identity(op, np.dtype(np.float32) if is_half(d) else d), np.dtype(np.float32) if is_half(d) else d)


def combine(op: str, d: np.dtype, a: str, b: str) -> str:
    """C text of one step of a reduction."""
    if op in ("sum", "prod"):
        return f"{a} {'+' if op == 'sum' else '*'} {b}"
    sign = ">" if op == "max" else "<"
    nan = f" || {b} != {b}" if dt.is_float(d) else ""
    return f"({b} {sign} {a}{nan}) ? {b} : {a}"


@dataclass
class Reduction:
    """A reduction ready to be looped over: its loops, and how one element is evaluated in a block."""
    op: str
    dtype: np.dtype
    loops: list[Var]
    element: Callable[[Block], str]
    position: Ix | None = None             # argreduce: the index along the axis


def plan_reduction(e: Emitter, n: Node, idx: Index, guard: Guard, merge: bool) -> Reduction:
    """Loops and element of reduce, argreduce, dot (as a plain sum of products) and unwindow."""
    if n.prim == "dot":
        return _plan_dot(e, n, idx, guard, merge)
    if n.prim == "unwindow":
        sizes = n.args[0].shape[n.ndim:]
        loops, at = reduce_vars(e, sizes, False)
        inner, own = pull_unwindow(n, idx, tuple(at))

        def windowed(block: Block) -> str:
            value = e.value(n.args[0], inner, block, guard + own)
            return f"({e.condition(own)} ? {value} : 0)" if own else value
        return Reduction("sum", n.dtype, loops, windowed)
    x = n.args[0]
    axes = n.attrs["axes"] if n.prim == "reduce" else (n.attrs["axis"],)
    loops, at = [], []
    for run in _runs(axes) if merge else [[a] for a in axes]:                    # neighbouring axes are one loop
        more = reduce_vars(e, [x.shape[a] for a in run], merge)
        loops, at = loops + more[0], at + more[1]
    fresh = dict(zip(axes, at))
    free = iter(idx)
    full = tuple(fresh[a] if a in fresh else next(free) for a in range(x.ndim))
    return Reduction(n.attrs["op"], x.dtype, loops, lambda block: e.value(x, full, block, guard),
                     at[0] if n.prim == "argreduce" else None)


def _runs(axes: Iterable[int]) -> list[list[int]]:
    """Neighbouring axes together."""
    out: list[list[int]] = []
    for a in axes:
        if out and out[-1][-1] == a - 1:
            out[-1].append(a)
        else:
            out.append([a])
    return out


def _plan_dot(e: Emitter, n: Node, idx: Index, guard: Guard, merge: bool) -> Reduction:
    a, b = n.args
    (ca, cb), (ba, bb) = n.attrs["contract"], n.attrs["batch"]
    loops, at = reduce_vars(e, [a.shape[i] for i in ca], merge)
    nb = len(ba)
    fa = [i for i in range(a.ndim) if i not in ca + ba]
    ia: list[Ix] = [Ix()] * a.ndim
    ib: list[Ix] = [Ix()] * b.ndim
    for k, (i, j) in enumerate(zip(ba, bb)):
        ia[i] = ib[j] = idx[k]
    for k, i in enumerate(fa):
        ia[i] = idx[nb + k]
    for k, j in enumerate(j for j in range(b.ndim) if j not in cb + bb):
        ib[j] = idx[nb + len(fa) + k]
    for v, i, j in zip(at, ca, cb):
        ia[i] = ib[j] = v
    wide = np.dtype(np.float32) if is_half(n.dtype) else n.dtype
    return Reduction("sum", wide, loops, lambda block: f"{e.value(a, tuple(ia), block, guard)} * {e.value(b, tuple(ib), block, guard)}")


def reduce_vars(e: Emitter, sizes: Iterable[int], merge: bool) -> tuple[list[Var], list[Ix]]:
    """Loop variables over some axes, as one loop when they can be merged."""
    sizes = list(sizes)
    if merge and len(sizes) > 1:
        n = int(np.prod(sizes))
        v = Var(e.name("r"), n)
        return [v], unlinear(var(v), sizes)
    loops = [Var(e.name("r"), s) for s in sizes]
    return loops, [var(v) for v in loops]


def try_merged(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> bool:
    """Whether neighbouring reduced axes are one loop without divisions: tried on a copy, where reductions within are plain loops."""
    probe = Emitter(e.d, e.stored, e.given, None, {}, e.count, 0, set(e.extra))
    r = plan_reduction(probe, n, idx, guard, True)
    if n.prim == "dot" and len(r.loops) != 1:
        return False
    r.element(Block(None, block.vars | frozenset(r.loops)))
    return probe.divisions == 0


def serial_reduce(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """One thread loops over the reduced elements."""
    if _short(n):
        return _unrolled(e, n, idx, guard, block)
    merged = try_merged(e, n, idx, guard, block)
    r = plan_reduction(e, n, idx, guard, merged)
    if n.prim == "argreduce":
        return _serial_arg(e, r, block)
    acc = e.let(block, r.dtype, identity(e, r.op, r.dtype), "a")
    inner = block.child(r.loops)
    value = r.element(inner)
    inner.lines.append(f"{acc} = {combine(r.op, r.dtype, acc, value)};" if r.op in ("sum", "prod") else
                       _extremum(e, inner, r, acc, value))
    simple = not any("for (" in line for line in inner.lines)
    pragma = _simd(e, r, acc) if simple and r.loops[-1:] and r.loops[-1].extent >= 16 else ""
    block.lines.extend(loop_nest(r.loops, inner.lines, pragma, e.index))
    if is_half(n.dtype):
        return e.let(block, n.dtype, e.d.half_load[n.dtype.name].format(e.d.half_store[n.dtype.name].format(acc)))
    return acc


UNROLL = 9                     # elements of a reduction that is written out instead of looped over


def _short(n: Node) -> bool:
    return n.prim == "reduce" and 0 < n.args[0].size // max(n.size, 1) <= UNROLL


def _unrolled(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    """A short reduction (a pooling window) as straight code, which the compiler can vectorise across its results."""
    x, axes, op = n.args[0], n.attrs["axes"], n.attrs["op"]
    wide = np.dtype(np.float32) if is_half(n.dtype) else n.dtype
    acc = ""
    for at in np.ndindex(*(x.shape[a] for a in axes)):
        fixed = dict(zip(axes, at))
        free = iter(idx)
        value = e.value(x, tuple(Ix(int(fixed[a])) if a in fixed else next(free) for a in range(x.ndim)), block, guard)
        if not value.isidentifier():
            value = e.let(block, wide, value)
        acc = e.let(block, wide, combine(op, wide, acc, value)) if acc else value
    if is_half(n.dtype):
        return e.let(block, n.dtype, e.d.half_load[n.dtype.name].format(e.d.half_store[n.dtype.name].format(acc)))
    return acc


def _extremum(e: Emitter, block: Block, r: Reduction, acc: str, value: str) -> str:
    v = value if value.isidentifier() else e.let(block, r.dtype, value)
    return f"{acc} = {combine(r.op, r.dtype, acc, v)};"


def _simd(e: Emitter, r: Reduction, acc: str) -> str:
    if e.d.name != "c":
        return ""
    op = {"sum": "+", "prod": "*"}.get(r.op, f"hy_{r.op}" if dt.is_float(r.dtype) else r.op)
    return f"#pragma omp simd reduction({op}:{acc})"


def _serial_arg(e: Emitter, r: Reduction, block: Block) -> str:
    best = e.let(block, r.dtype, identity(e, "max" if r.op == "argmax" else "min", r.dtype), "a")
    where = e.let(block, np.dtype(np.int64), "-1", "w")
    inner = block.child(r.loops)
    value = e.let(inner, r.dtype, r.element(inner))
    at = text(r.position or Ix())
    sign = ">" if r.op == "argmax" else "<"
    nan = f" || ({value} != {value} && {best} == {best})" if dt.is_float(r.dtype) else ""
    inner.lines.append(f"if ({where} < 0 || {value} {sign} {best}{nan}) {{ {best} = {value}; {where} = {at}; }}")
    block.lines.extend(loop_nest(r.loops, inner.lines, "", e.index))
    return where


def loop_nest(loops: Iterable[Var], body: list[str], pragma: str = "", index: str = "long") -> list[str]:
    """Loops around statements, counted by integers of type ``index``; the pragma goes on the innermost."""
    loops = list(loops)
    out = []
    for depth, v in enumerate(loops):
        if pragma and depth == len(loops) - 1:
            out.append("  " * depth + pragma)
        out.append("  " * depth + f"for ({index} {v.name} = 0; {v.name} < {v.extent}; {v.name}++) {{")
    out += ["  " * len(loops) + line for line in body]
    return out + ["  " * depth + "}" for depth in reversed(range(len(loops)))]


__all__ = ["Block", "ELEMENTWISE", "Emitter", "Reduction", "combine", "identity", "loop_nest", "plan_reduction", "serial_reduce",
           "total", "try_merged"]
