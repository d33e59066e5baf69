"""Loops over time as one cooperative launch: matrices that no step changes stay in registers, and blocks wait for each
other once a step.

A block owns some rows (of the batch) and *units* of all values that the loop carries, and the columns of each product
that these units are computed from (of an LSTM four a unit, one a gate). Its warps share the depth of a product, each
with its part of the matrix in registers; their sums meet in shared memory, and a thread computes a unit of a row from
them. So only the operand of the next product is read by other blocks, and by none where a block owns all units of its
rows.
"""
from __future__ import annotations

from typing import Iterable, Sequence

import numpy as np

from hybrid.base.dtype import is_half
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index, pull
from hybrid.ir.index import Ix, Var, bounds, text, unlinear, var, variables
from hybrid.ir.kernel import Kernel
from hybrid.ir.scan import STEPS
from hybrid.ir.stmt import lines

from .held_matrix import CHUNK, WARPS, HeldMatrix, Share, share, when
from .pieces import BARRIER, SCRATCH, THREADS, CudaEmitter, Launch, PrintedCuda
from .product import Product
from .target import current
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block, Emitter
from hybrid.codegen.lanes import Refused
from hybrid.codegen.printers.rows.scan import Loop

REGISTERS = 160                 # of a thread for its part of the matrices and its sums
WAIT, ARRIVAL = 1000, 2         # clocks of a barrier of the grid, and of each block's arrival there
SIDES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class _Cell(CudaEmitter):
    """Emits values of one unit of one row; what it reads of memory is read before the step's barrier."""
    loop: "_Resident"

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        return self.loop.early(self, n, idx, guard)

    def _pad(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        """Whether a unit's element is padding is often known: it is one of some gates."""
        inside = [_inside(g) for g in pull(n, idx)[1]]
        if False in inside:
            return str(self.d.literal(n.attrs["value"], n.dtype))
        if None in inside:
            return super()._pad(n, idx, guard, block)
        return self.value(n.args[0], pull(n, idx)[0], block, guard)


def print_resident(k: Kernel, name: str) -> PrintedCuda:
    """A loop kernel; Refused where its matrices change, or its blocks need more of each other."""
    return _Resident(k, name).printed()


class _Resident(Loop):
    def __init__(self, k: Kernel, name: str):
        if not current().processors:
            raise Refused("launches whose blocks wait for each other are not wanted")
        super().__init__(k)
        self.name = name
        self._check()
        self.given: dict[object, str] = {}                 # arguments: names of their parameters
        self.rows, self.units = self._sizes()
        self.b, self.j = Var("hy_row", self.rows), Var("hy_unit", self.units)
        self.own = var(self.b) * self.units + var(self.j)
        self.loads: dict[tuple[Node, Index, Guard], str] = {}
        self.before: list[str] = []                        # declarations of what is loaded at the begin of a step
        self.load_lines: list[str] = []
        self.buffers = {i: (self.take(n.nbytes), self.take(n.nbytes)) for i, n in enumerate(self.next)
                        if self.leaf(n) is None and self._stacked(n) is None}
        self.spots: dict[Node, str] = {}                   # operands that steps compute: their pointers

    def _check(self) -> None:
        kinds = {inner.kind for inner in self.plan.fused.kernels if inner.root.size}
        if self.dynamic or self.length < 2:
            raise Refused("the number of steps is not known, or small")
        if kinds - {"elementwise", "contraction"} or "contraction" not in kinds:
            raise Refused(f"steps are not products and functions of their elements alone: {', '.join(sorted(kinds))}")

    # ---- products
    def _changes(self, n: Node) -> bool:
        """Whether a stored value is another one in each step."""
        slot = self.leaf(n)
        return n.prim != "data" and (slot is None or slot < self.carries + self.slices)

    def _product(self, k: Kernel) -> Product:
        """The product of a kernel, its unchanged matrix as column operand."""
        for swap in (False, True):
            p = Product(k, self.name, swap)
            if any(self._changes(n) for n in _below(p.operand("b").node, set(k.reads))):
                continue
            if p.batch > 1 or [len(g) for g in (p.m.rows, p.m.columns, p.m.depth)] != [1, 1, 1]:
                raise Refused("a product of more than two axes")
            if p.sum_dtype != np.float32:
                raise Refused(f"sums of {p.sum_dtype}")
            a = p.operand("a")
            if a.memory is None or a.guard or a.place is None:
                raise Refused("the operand of each step is computed while it is read")
            slot = self.leaf(a.memory)
            if slot is not None and slot >= self.carries:
                raise Refused("a product does not depend on the step before")
            return p
        raise Refused("no operand of a product stays as it is")

    def _matrices(self) -> list[HeldMatrix]:
        kernels = [k for k in self.plan.fused.kernels if k.dot is not None]
        products = {k.dot: self._product(k) for k in kernels}
        level: dict[Node, int] = {}
        for dot, p in products.items():                    # kernels are in the order of their launches
            memory = p.operand("a").memory
            assert dot is not None and memory is not None
            inside = [d for d in _below(memory, set(products)) if d in level] if self.leaf(memory) is None else []
            level[dot] = 1 + max((level[d] for d in inside), default=-1)
        return [HeldMatrix(i, p, level[dot]) for i, (dot, p) in enumerate(products.items())]      # type: ignore[index]

    def _sizes(self) -> tuple[int, int]:
        """Rows, and units of a row."""
        self.matrices = self._matrices()
        sizes = {self.body.inputs[i].size for i, n in enumerate(self.next) if self.leaf(n) != i}
        rows = {m.product.rows for m in self.matrices}
        if len(sizes) != 1 or len(rows) != 1:
            raise Refused("carried values are of several sizes")
        size, row = sizes.pop(), rows.pop()
        if size % row:
            raise Refused("carried values are not rows of the products")
        return row, size // row

    # ---- values
    def _stacked(self, n: Node) -> int | None:
        """A stacked result that holds a value."""
        return next((j for j, m in enumerate(self.stacks) if m is n and self.carries + j in self.items), None)

    def parameter(self, key: object) -> str:
        """The parameter for an argument."""
        return self.given.setdefault(key, f"p{len(self.given)}")

    def early(self, e: Emitter, n: Node, idx: Index, guard: Guard) -> str:
        """A value in memory, read before the barrier."""
        at, key = e.offset(n.shape, idx), (n, idx, guard)
        slot = self.leaf(n)
        if variables(at) - {self.b, self.j}:
            raise Refused("an index is computed")
        carried = slot is not None and slot < self.carries and self.leaf(self.next[slot]) != slot
        if carried and (guard or at - self.own != Ix()):
            raise Refused("a unit reads what other units carry")
        if key not in self.loads:
            self.loads[key] = name = f"early{len(self.loads)}"
            T = CUDA.compute(n.dtype)
            cell = f"{e.stored[n]}[{text(at)}]"
            cell = CUDA.half_load[n.dtype.name].format(cell) if is_half(n.dtype) else cell
            self.before.append(f"{T} {name} = {{}};")
            value = f"{e.condition(guard)} ? {cell} : ({T})0" if guard else cell
            self.load_lines.append(f"{name} = {value};")
        return self.loads[key]

    def _cell(self) -> _Cell:
        e = _Cell(CUDA, self.names, reducer=_no_reduction, index="int")
        e.loop = self
        for m in self.matrices:
            e.given[m.product.dot] = lambda idx, m=m: m.sum_of(idx, self.b, self.j)         # type: ignore[misc]
        return e

    def _places(self, n: Node) -> list[Ix]:
        """The elements of a value that a unit computes, as offsets."""
        each = n.size // (self.rows * self.units)
        if not each or n.size != each * self.rows * self.units:
            raise Refused("a value that has no place for each unit")
        return [var(self.b) * (each * self.units) + var(self.j) + g * self.units for g in range(each)]

    def _stores(self, targets: Iterable[tuple[str, Node]]) -> list[str]:
        """Statements that compute values of a unit and store them: (pointer, value)."""
        e, block = self._cell(), Block(None, frozenset([self.b, self.j]))
        kept = [(pointer, n, idx, e.value(n, idx, block)) for pointer, n in targets
                for idx in (tuple(unlinear(at, n.shape)) for at in self._places(n))]
        return [*block.lines, *lines([e.store(pointer, n, idx, value) for pointer, n, idx, value in kept])]

    # ---- pointers
    def _pointers(self) -> tuple[list[str], list[str]]:
        """Declarations of pointers to the body's inputs and to what a step stores: outside of the loop, and in it."""
        self.names: dict[Node, str] = {}
        outside, inside = [], []
        for slot, leaf in enumerate(self.body.inputs):
            T, name = CUDA.storage(leaf.dtype), f"x{slot}"
            self.names[leaf] = name
            base = f"(const {T} *){self.parameter(self.arg(slot))}"
            if slot >= self.carries + self.slices or slot < self.carries and self.leaf(self.next[slot]) == slot:
                outside.append(f"const {T} *{name} = {base};")
            elif slot >= self.carries:
                inside.append(f"const {T} *{name} = {base} + t * {leaf.size}ll;")
            else:
                inside.append(f"const {T} *{name} = s ? {self._former(slot)} : {base};")
        for n in dict.fromkeys(n for k in self.plan.fused.kernels for n in k.reads if n.prim == "data"):
            self.names[n] = f"x{len(self.names)}"
            outside.append(f"const {CUDA.storage(n.dtype)} *{self.names[n]} = "
                           f"(const {CUDA.storage(n.dtype)} *){self.parameter(n)};")
        return outside, inside

    def _former(self, i: int) -> str:
        """Where the step before left a carried value."""
        n = self.next[i]
        if self.leaf(n) is not None or n.prim == "data":
            raise Refused("a carried value takes the place of another one")
        T, stack = CUDA.storage(n.dtype), self._stacked(n)
        if stack is None:
            first, second = self.buffers[i]
            return f"(const {T} *)({self.parameter(SCRATCH)} + (s & 1 ? {first} : {second}))"
        item = self.parameter(self.items[self.carries + stack])
        return f"(const {T} *){item} + (t {'+' if self.reverse else '-'} 1) * {n.size}ll"

    def _targets(self) -> tuple[list[str], list[tuple[str, Node]]]:
        """Pointers to where a step stores its results, and (pointer, value)."""
        declared, out = [], []
        for i, (first, second) in self.buffers.items():
            n, T = self.next[i], CUDA.storage(self.next[i].dtype)
            declared.append(f"{T} *c{i} = ({T} *)({self.parameter(SCRATCH)} + (s & 1 ? {second} : {first}));")
            out.append((f"c{i}", n))
        for j, n in enumerate(self.stacks):
            if self.carries + j in self.items:
                T, item = CUDA.storage(n.dtype), self.items[self.carries + j]
                declared.append(f"{T} *y{j} = ({T} *){self.parameter(item)} + t * {n.size}ll;")
                out.append((f"y{j}", n))
        return declared, out

    def _operands(self) -> tuple[list[str], dict[int, list[tuple[str, Node]]]]:
        """Pointers to operands that a step computes, and by level what is stored there before the barrier."""
        declared: list[str] = []
        stored: dict[int, list[tuple[str, Node]]] = {}
        for m in self.matrices:
            n = m.product.operand("a").memory
            assert n is not None
            if self.leaf(n) is not None or n in self.spots:
                continue
            T, name, stack = CUDA.storage(n.dtype), f"spot{len(self.spots)}", self._stacked(n)
            if stack is not None:                          # which has its place among the results
                name = f"y{stack}"
            else:
                first, second = self.take(n.nbytes), self.take(n.nbytes)
                declared.append(f"{T} *{name} = ({T} *)({self.parameter(SCRATCH)} + (s & 1 ? {first} : {second}));")
            self.spots[n] = name
            stored.setdefault(m.level, []).append((name, n))
        return declared, stored

    # ---- the kernel
    def printed(self) -> PrintedCuda:
        """Its text and launch."""
        outside, inside = self._pointers()
        targets, results = self._targets()
        own, stored = self._operands()
        levels = range(1 + max(m.level for m in self.matrices))
        # of a level: what is stored before its products
        computed = {level: self._computed(stored.get(level, [])) for level in levels}
        last = self._computed([(p, n) for p, n in results if p not in self.spots.values()])
        r, u, shares, shared = self._tile()
        tiles, units = -(-self.rows // r), -(-self.units // u)
        blocks = tiles * units
        step = [*inside, *targets, *own, *self.before, *when("mine", self.load_lines)]
        for level in levels:
            step += [*when("mine", computed[level]),
                     *self._barrier(level, blocks if units > 1 else 1, bool(computed[level]))]
            for m in self.matrices:
                memory = m.product.operand("a").memory
                assert memory is not None
                if m.level == level:
                    step += m.multiplied(self.spots.get(memory) or self.names[memory], shares[m.number], r, u,
                                         shared[m.number])
        step += when("mine", last)
        order = f"const long long t = {f'{self.length - 1} - s' if self.reverse else 's'};"
        body = [*self._head(r, u, tiles, shared), *outside,
                *(s for m in self.matrices for s in m.held(self.names, shares[m.number], self.units)),
                "#pragma unroll 1", f"for (int s = 0; s < {self.length}; s++) {{", f"  {order}",
                *("  " + s for s in step), "}", *when("mine", self._finals())]
        return self._launched(body, blocks, units > 1, shared)

    def _computed(self, targets: Sequence[tuple[str, Node]]) -> list[str]:
        return self._stores(targets) if targets else []

    def _barrier(self, level: int, blocks: int, computed: bool) -> list[str]:
        wait = f"hy_grid_barrier({self.parameter(BARRIER)}, {blocks}, true);" if blocks > 1 else "__syncthreads();"
        return [wait] if level or computed else [f"if (s) {wait}"]

    def _finals(self) -> list[str]:
        """The last values of what is carried."""
        out: list[str] = []
        for i in range(self.carries):
            if i not in self.items:
                continue
            n, item = self.next[i], self.items[i]
            T = CUDA.storage(item.dtype)
            slot, stack = self.leaf(n), self._stacked(n)
            if slot is not None:
                source = f"(const {T} *){self.parameter(self.arg(slot))}"
            elif stack is not None:
                at = 0 if self.reverse else self.length - 1
                source = f"(const {T} *){self.parameter(self.items[self.carries + stack])} + {at * n.size}ll"
            else:
                source = f"(const {T} *)({self.parameter(SCRATCH)} + {self.buffers[i][(self.length - 1) & 1]})"
            out.append(f"(({T} *){self.parameter(item)})[{text(self.own)}] = ({source})[{text(self.own)}];")
        if STEPS in self.items:
            out.append(f"if ({text(self.own)} == 0) *(long long *){self.parameter(self.items[STEPS])} = {self.length};")
        return out

    # ---- tiles
    def _tile(self) -> tuple[int, int, list[Share], list[tuple[int, int]]]:
        """Rows and units of a block, how its products are divided, and where each has its operand and its sums."""
        best = None
        most = (96 if current().number >= 80 else 48) << 10
        for r in SIDES:
            for u in SIDES:
                blocks = -(-self.rows // r) * -(-self.units // u)
                if r * u > THREADS or blocks > current().processors:
                    continue
                shares = [share(m.count * u, m.product.depth, r) for m in self.matrices]
                if sum(CHUNK * s.chunks * s.each for s in shares) + max(r * s.each for s in shares) > REGISTERS:
                    continue
                memory, end = self._memory(shares, r, u)
                if end > most:
                    continue
                clocks = sum(s.clocks(r, m.product.depth) for s, m in zip(shares, self.matrices))
                clocks += WAIT + ARRIVAL * blocks if self.units > u else 0
                if best is None or clocks < best[0]:
                    best = clocks, (r, u, shares, [*memory, (end, 0)])
        if best is None:
            raise Refused("the matrices do not fit into the registers of the blocks that the GPU runs at once")
        return best[1]

    def _memory(self, shares: Sequence[Share], r: int, u: int) -> tuple[list[tuple[int, int]], int]:
        """Bytes of shared memory at which each product's operand and sums begin, and all of them."""
        out, at = [], 0
        for s, m in zip(shares, self.matrices):
            out.append((at, at + 4 * WARPS * r * s.deep))
            at = out[-1][1] + 4 * WARPS * r * m.line(u)
        return out, at

    def _head(self, r: int, u: int, tiles: int, shared: Sequence[tuple[int, int]]) -> list[str]:
        return ["extern __shared__ __align__(1024) unsigned char tile_memory[];",
                "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
                f"const int r0 = blockIdx.x % {tiles}u * {r}, j0 = blockIdx.x / {tiles}u * {u};",
                f"const int line = threadIdx.x / {u}, place = threadIdx.x % {u};",
                f"const int {self.b.name} = r0 + line, {self.j.name} = j0 + place;",
                f"const bool mine = threadIdx.x < {r * u} && {self.b.name} < {self.rows} && {self.j.name} < "
                f"{self.units};"]

    def _launched(self, body: Sequence[str], blocks: int, waits: bool,
                  shared: Sequence[tuple[int, int]]) -> PrintedCuda:
        given = dict(self.given)
        parameters = ", ".join(f"{'char' if key is SCRATCH else 'void'} *{name}" for key, name in given.items())
        source = "\n".join([f'extern "C" __global__ void __launch_bounds__({THREADS}) {self.name}({parameters}) {{',
                            *("  " + line for line in body), "}"])
        args = list(given)
        return PrintedCuda(source, [Launch(self.name, blocks, THREADS, args, shared[-1][0], alone=True,     # type: ignore[arg-type]
                                           cooperative=waits)], self.scratch)


def _below(top: Node, stop: set[Node]) -> list[Node]:
    """What a value is computed from, down to some nodes and to leaves: those."""
    out, seen, todo = [], {top}, [top]
    while todo:
        n = todo.pop()
        if n in stop or not n.args:
            out.append(n)
            continue
        new = [a for a in n.args if a not in seen]
        seen.update(new)
        todo += new
    return out


def _inside(condition: tuple[str, Ix, int]) -> bool | None:
    """Whether a condition of a guard always holds, never does, or neither (None)."""
    kind, x, limit = condition
    low, high = bounds(x)
    if kind == "rem":
        return None
    at_least = (low >= limit, high < limit)                # always at least the limit, always below it
    always, never = at_least if kind == "ge" else at_least[::-1]
    return True if always else False if never else None


def _no_reduction(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    raise Refused("a step has sums beside its products")
