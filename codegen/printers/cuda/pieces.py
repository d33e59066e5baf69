"""Pieces that all CUDA kernels share: arguments, functions, launches, and an emitter that moves several elements at
once."""
from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Callable, Iterable, Iterator, Mapping, Sequence, Union

import numpy as np

from hybrid.base.records import dataclass
from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix, Var, coefficient, div, linear, mod, substitute, text, var, variables
from hybrid.ir.kernel import Kernel
from hybrid.ir.pattern import BELOW_ITS_MAXIMUM, SOFTMAX, matched
from hybrid.ir.stmt import Expr, Stmt

from .target import current
from hybrid.codegen.dialect import CUDA, Dialect
from hybrid.codegen.emit import Block, Emitter, Key, Reducer
from hybrid.codegen.loops import pointer_names

THREADS = 256                   # of a block, where nothing else is said
PROCESSORS = 132                # multiprocessors that a launch should keep busy (an H100 or H200; an A100 has 108)
VECTOR_FROM = 1 << 18           # elements from which threads take several each; below, more threads hide more latency
WIDE = 2**31 - 2**20            # elements from which 32-bit indices (and a last step beyond) are not enough
names_of = pointer_names        # arguments of a kernel and their names are those of C


class Raw(Dialect):
    """CUDA in which half types stay the 16 bits that they are in memory."""

    def compute(self, d: np.dtype) -> str:
        """C type of a value in a register."""
        return self.storage(d)


RAW = Raw(**{**vars(CUDA), "half_load": {"float16": "{0}", "bfloat16": "{0}"},
             "half_store": {"float16": "{0}", "bfloat16": "{0}"}})


class Scratch:
    """Stands for a kernel's working memory among its arguments."""


class Barrier:
    """Stands, among a kernel's arguments, for the word in which barriers of the grid count blocks."""


class Tickets:
    """Stands, among a kernel's arguments, for one word a result in which the blocks that share it count how many are
    done: 0 before a launch and after it."""


SCRATCH, BARRIER, TICKETS = Scratch(), Barrier(), Tickets()
Argument = Union[Node, Scratch, Barrier, Tickets, "At"]


@dataclass(frozen=True)
class At:
    """A place some bytes into a stored value, or into the working memory."""
    base: Node | Scratch
    offset: int


@dataclass(frozen=True)
class TensorMap:
    """An array as the driver is told of it, and the box of it that one thread copies to shared memory. The axis along
    which neighbours lie beside each other is the first."""
    dtype: str
    sizes: tuple[int, ...]                     # elements along each axis of the array
    strides: tuple[int, ...]                   # bytes between neighbours along each axis but the first
    box: tuple[int, ...]                       # elements along each axis of the box
    swizzle: int = 0                           # bytes of the span in which 16-byte pieces are swizzled, 0: none
    offset: int = 0                            # bytes from the array's begin to its first element


@dataclass
class Launch:
    """A kernel launch: function, blocks, threads, arguments in order, bytes of dynamic shared memory. alone: it cannot
    be a stage of a launch of several (its barriers are not ``__syncthreads`` alone). cooperative: all of its blocks run
    at once. waves: the launches that it stands for, in groups that run one after the other. maps: arguments, by number,
    that are given as tensor maps of the arrays."""
    name: str
    blocks: int
    threads: int
    args: Sequence[Argument]
    shared: int = 0
    alone: bool = False
    cooperative: bool = False
    waves: Sequence[Sequence["Launch"]] = ()
    maps: Sequence[tuple[int, TensorMap]] = ()


@dataclass
class PrintedCuda:
    """Text of one fused kernel (one or more functions), its launches, and the bytes of working memory and the tickets
    they want."""
    source: str
    launches: list[Launch]
    scratch: int = 0
    tickets: int = 0


def alone(p: PrintedCuda) -> PrintedCuda:
    """Kernels each of whose launches stays one."""
    return replace(p, launches=[replace(launch, alone=True) for launch in p.launches])


def index_type(k: Kernel) -> str:
    """32-bit indices where every value that the kernel touches, stored or not, has fewer than 2^31 elements."""
    values = [*k.members, *(a for m in k.members for a in m.args), *k.reads, *k.stores]
    return "long long" if any(n.size >= WIDE for n in values) else "int"


def function(name: str, args: Sequence[Node], stores: int, body: Sequence[str], threads: int = THREADS,
             scratch: str = "", alone: bool = False, resident: int = 0, word: str = "",
             maps: Sequence[str] = ()) -> str:
    """Text of a __global__ function. scratch: C type of its working memory, a parameter behind the arrays; word: name
    of one more, for the grid's barrier or tickets. alone: what it writes lies nowhere that it reads, unless that is
    a new value of an input. resident: blocks that a multiprocessor should run at the same time; a thread may have the
    more registers, the fewer there are. 0: as the compiler likes it. maps: names of tensor maps, the last
    parameters."""
    own = "__restrict__ " if alone and not any(n in current().written for n in args[:stores]) else ""
    parts = [f"{'' if i < stores else 'const '}{CUDA.storage(n.dtype)} *{own}p{i}" for i, n in enumerate(args)]
    parts += [f"{scratch} *scratch"] * bool(scratch) + [f"void *{word}"] * bool(word)
    parts += [f"const hy_tensor_map __grid_constant__ {name}" for name in maps]
    bounds = f"{threads}, {resident}" if resident else f"{threads}"
    return "\n".join([f'extern "C" __global__ void __launch_bounds__({bounds}) {name}({", ".join(parts)}) {{',
                      *("  " + line for line in body), "}"])


def launched(name: str, args: Sequence[Node], stores: int, body: Sequence[str], blocks: int, threads: int = THREADS,
             scratch: str = "", alone: bool = False, shared: int = 0, resident: int = 0,
             maps: Mapping[str, tuple[Node, TensorMap]] | None = None) -> PrintedCuda:
    """A function and its one launch. scratch, alone, resident: as of ``function``; shared: bytes of dynamic shared
    memory; maps: tensor maps with their arrays, by name."""
    given: list[Node | Scratch | At] = [*args, *([SCRATCH] if scratch else [])]
    return PrintedCuda(function(name, args, stores, body, threads, scratch, alone, resident, maps=list(maps or {})),
                       [with_maps(Launch(name, blocks, threads, given, shared), maps or {})])


def with_maps(launch: Launch, maps: Mapping[str, tuple[Node, TensorMap]]) -> Launch:
    """A launch with tensor maps of arrays as its last arguments."""
    first = len(launch.args)
    return replace(launch, args=[*launch.args, *(n for n, _ in maps.values())],
                   maps=[(first + i, m) for i, (_, m) in enumerate(maps.values())])


def in_turn(parts: Sequence[PrintedCuda], scratch: int) -> PrintedCuda:
    """Kernels that are launched one after the other, with one working memory of so many bytes."""
    return PrintedCuda("\n".join(p.source for p in parts), [launch for p in parts for launch in p.launches], scratch)


@dataclass
class CudaEmitter(Emitter):
    """Emits for threads that own several neighbouring elements each, counted by the innermost variable ``lane``.

    What lies in memory as the lanes do is loaded and stored whole. ``packed`` and ``loose`` count the accesses that
    could and could not be. ``same``: variables that are the same in all threads of a team, one
    of which does the stores whose address depends on nothing else.
    """
    lane: Var | None = None
    packs: dict[tuple[Node, Ix], str] = field(default_factory=dict)
    out: dict[str, tuple[str, str, Ix]] = field(default_factory=dict)
    packed: int = 0
    loose: int = 0
    parts: dict[str, str] = field(default_factory=dict)      # sums of rows -> one by them
    same: frozenset[Var] | None = None

    @contextmanager
    def counted_by(self, lane: Var) -> Iterator[None]:
        """Scope of a loop whose innermost variable is ``lane``."""
        before = self.lane, self.packs, self.out
        self.lane, self.packs, self.out = (lane if lane.extent > 1 else None), {}, {}
        try:
            yield
        finally:
            self.lane, self.packs, self.out = before

    def trial(self) -> CudaEmitter:
        """A copy whose emissions are thrown away."""
        return replace(self, given=dict(self.given), packs={}, out={}, extra={}, parts=dict(self.parts),
                       written=set(self.extra), packed=0, loose=0)

    def _whole(self, n: Node, x: Ix, known: frozenset) -> bool:
        """Whether the lanes' elements at address x are one aligned stretch, whose start is known outside."""
        assert self.lane is not None
        width = self.lane.extent
        steps = [c for a, c in x.terms if a != self.lane]
        return (coefficient(x, self.lane) == 1 and n.dtype.itemsize * width <= 32 and not x.const % width
                and not any(c % width for c in steps) and variables(x) - {self.lane} <= known)

    def _start(self, x: Ix) -> Ix:
        assert self.lane is not None
        return substitute(x, {self.lane: Ix()})

    def _count(self, x: Ix, whole: bool) -> None:
        if whole:
            self.packed += 1
        elif self.lane in variables(x):
            self.loose += 1

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        x, outer = linear(n.shape, idx), block.parent
        if self.lane is None or self.lane not in variables(x):
            return super()._load(n, idx, guard, block)
        whole = not guard and outer is not None and self.lane not in outer.vars and self._whole(n, x, outer.vars)
        self._count(x, whole)
        if not whole or outer is None:
            return super()._load(n, idx, guard, block)
        key = (n, self._start(x))
        if key not in self.packs:
            self.packs[key] = self.name("v")
            T = f"hy_pack<{CUDA.storage(n.dtype)}, {self.lane.extent}>"
            outer.body.append(f"{T} {self.packs[key]} = *(const {T} *)({self.stored[n]} + {text(key[1])});")
        cell = f"{self.packs[key]}.x[{self.lane.name}]"
        return self.let(block, n.dtype, self.d.half_load[n.dtype.name].format(cell) if is_half(n.dtype) else cell)

    def store(self, pointer: str, n: Node, idx: Index, value: Expr) -> Stmt:
        """A store statement; into a pack where the lanes' elements are neighbours."""
        x = linear(n.shape, idx)
        if self.same is not None and variables(x) <= self.same:
            return f"if (lane == 0) {{ {super().store(pointer, n, idx, value)} }}"
        if self.lane is None:
            return super().store(pointer, n, idx, value)
        whole = self._whole(n, x, variables(x))
        self._count(x, whole)
        if not whole:
            return super().store(pointer, n, idx, value)
        return self.pack(pointer, CUDA.storage(n.dtype), x, self.in_memory(n.dtype, value))

    def pack(self, pointer: str, T: str, x: Ix, value: Expr) -> Stmt:
        """A statement that puts a lane's value into a pack, which is stored at address x."""
        assert self.lane is not None
        name = self.name("o")
        self.out[name] = (pointer, T, self._start(x))
        return f"{name}.x[{self.lane.name}] = {value};"

    def lanes(self, lines: list[str]) -> list[str]:
        """Statements for every lane, with the packs that they fill stored at the end."""
        if self.lane is None:
            return lines
        before, after = [], []
        for name, (pointer, element, start) in self.out.items():
            T = f"hy_pack<{element}, {self.lane.extent}>"
            before.append(f"{T} {name};")
            after.append(f"*({T} *)({pointer} + {text(start)}) = {name};")
        self.out = {}
        return [*before, "#pragma unroll",
                f"for (int {self.lane.name} = 0; {self.lane.name} < {self.lane.extent}; {self.lane.name}++) {{",
                *("  " + s for s in lines), "}", *after]

    def _compute(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        if n.prim == "map" and n.dtype == np.float32 and not guard:
            # they need 2^-17 of themselves at most
            if n.fn == "exp" and matched(n.args[0], BELOW_ITS_MAXIMUM) is not None:
                return self.let(block, n.dtype,
                                f"hy_exp2({self.value(n.args[0], idx, block)} * {1 / math.log(2)!r}f)")
            if matched(n, SOFTMAX) is not None:
                return self._share(n, idx, block) or super()._compute(n, idx, guard, block)
        return super()._compute(n, idx, guard, block)

    def _share(self, n: Node, idx: Index, block: Block) -> str | None:
        """An exponential, times one by the sum of all, which is divided once a row; None where that is not known
        outside."""
        top = block
        while top.parent is not None:
            top = top.parent
        if top is block:
            return None
        total = self.value(n.args[1], idx, block)
        if not any(total == known for known in top.memo.values()):
            return None
        if total not in self.parts:
            self.parts[total] = self.name("by")
            top.body.append(f"const float {self.parts[total]} = 1 / {total};")
        return self.let(block, n.dtype, f"{self.value(n.args[0], idx, block)} * {self.parts[total]}")

    def _random(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        """Four neighbours share one block of Philox: it is computed where the number of the block is known."""
        x = linear(n.shape, idx)
        number, word = div(x, 4), mod(x, 4)
        home = self.home((number,), (), block)
        key: Key = (n, (number,), ())
        b: Block | None = home
        while b is not None and key not in b.memo:
            b = b.parent
        if b is None:
            seed, call = (self.value(n.args[0], (Ix(w),), block) for w in (0, 1))
            home.memo[key] = self.name("w")
            home.body.append(f"hy_words {home.memo[key]} = hy_philox({seed}, {call}, {n.attrs['stream']}u, (unsigned "
                              f"long long)({text(number)}));")
            b = home
        return self.let(block, n.dtype, f"hy_word({b.memo[key]}, {text(word)})")


def emitter(k: Kernel, names: dict[Node, str], reducer: Reducer | None = None, lane: Var | None = None) -> CudaEmitter:
    """An emitter for a kernel: what it reads is in memory, what it stores on the way is written."""
    stores = set(k.stores)
    return CudaEmitter(CUDA, {n: p for n, p in names.items() if n not in stores}, reducer=reducer,
                       extra={n: names[n] for n in k.extra},
                       index=index_type(k), lane=lane if lane is not None and lane.extent > 1 else None)


def neighbours(e: CudaEmitter, lane: Var, known: Iterable[Var], put: Callable[[Block], None]) -> list[str] | None:
    """Statements for all lanes, of which ``put`` gives those of one; None where what they store is not stored as one.
    known: the variables around them."""
    outer = Block(None, frozenset(known))
    block = outer.child([lane]) if lane.extent > 1 else outer
    put(block)
    if lane.extent == 1:
        return outer.lines
    return None if e.loose or not e.packed else [*outer.lines, *e.lanes(block.lines)]


def widths(total: int, *itemsizes: int) -> list[int]:
    """How many elements a thread may take at once, most first: 16 bytes of the widest, if that divides the whole."""
    first = min(8, 16 // max(itemsizes))
    return [w for w in (8, 4, 2) if w <= first and total % w == 0]


def joined(prefix: str, vs: Sequence[Var], lane: Var) -> tuple[Var, Ix]:
    """One loop over several variables, in steps of the lanes: its variable, and the number of an element."""
    total = 1
    for v in vs:
        total *= v.extent
    q = Var(prefix, total // lane.extent)
    return q, var(q) * lane.extent + var(lane)


def indented(lines: Iterable[str]) -> list[str]:
    """Lines of a block of statements."""
    return ["  " + s for s in lines]


def when(condition: str, body: Sequence[str]) -> list[str]:
    """Prints statements under a condition; none if there are none."""
    return [f"if ({condition}) {{", *indented(body), "}"] if body else []


def unrolled(loops: Sequence[tuple[str, int]], body: Sequence[str]) -> list[str]:
    """Prints unrolled loops around statements; loops: (variable, iterations), the outermost first."""
    out = list(body)
    for name, count in reversed(loops):
        out = ["#pragma unroll", f"for (int {name} = 0; {name} < {count}; {name}++) {{", *indented(out), "}"]
    return out
