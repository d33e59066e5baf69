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
from hybrid.ir import Node, reached
from hybrid.ir.access import Guard, Index, pull
from hybrid.ir.index import Ix, Var, bounds, text, unlinear, var, variables
from hybrid.ir.kernel import Kernel
from hybrid.ir.scan import STEPS
from hybrid.ir.stmt import lines

from .held_matrix import CHUNK, WARPS, HeldMatrix, Share, share
from .pieces import BARRIER, SCRATCH, THREADS, CudaEmitter, Launch, PrintedCuda, when
from .product import Product
from .target import current
from hybrid.codegen.dialect import CUDA
from hybrid.codegen.emit import Block, Emitter
from hybrid.codegen.lanes import Refused
from hybrid.codegen.printers.rows.scan import Loop

REGISTERS = 160                 # of a thread for its part of the matrices and its sums
GRID_BARRIER, ARRIVAL = 1000, 2  # clocks of a barrier of the grid, and of each block's arrival there
SIDES = (1, 2, 4, 8, 16, 32, 64, 128, 256)                 # how many rows, or units, a block may own


class _Cell(CudaEmitter):
    """Emits values of one unit of one row; its loads from memory are issued before the step's barrier."""
    loop: "_Resident"

    def _load(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        return self.loop.preload(self, n, idx, guard)

    def _pad(self, n: Node, idx: Index, guard: Guard, block: Block) -> str:
        """Emits the padding alone, or the element alone, where all units have that (often the units of one gate)."""
        inside = [_inside(g) for g in pull(n, idx)[1]]
        if False in inside:
            return str(self.d.literal(n.attrs["value"], n.dtype))
        if None in inside:
            return super()._pad(n, idx, guard, block)
        return self.value(n.args[0], pull(n, idx)[0], block, guard)


def print_resident(k: Kernel, name: str) -> PrintedCuda:
    """Prints a loop kernel as one launch. Raises Refused where its matrices change, or where a unit reads more of other
    units than products do."""
    return _Resident(k, name).printed()


class _Resident(Loop):
    """Plans and prints the launch of a loop."""
    def __init__(self, k: Kernel, name: str):
        if not current().processors:
            raise Refused("the driver runs no cooperative launches, or this program's could not be compiled or did not "
                          "fit on the GPU")
        super().__init__(k)
        self.name = name
        self._check()
        self.given: dict[object, str] = {}                 # arguments: names of their parameters
        self.rows, self.units = self._sizes()
        self.b, self.j = Var("hy_row", self.rows), Var("hy_unit", self.units)
        self.own = var(self.b) * self.units + var(self.j)
        self.loads: dict[tuple[Node, Index, Guard], str] = {}
        self.preload_declarations: list[str] = []          # of what a step loads before its barrier
        self.preload_statements: list[str] = []
        self.buffers = {i: (self.take(n.nbytes), self.take(n.nbytes)) for i, n in enumerate(self.next)
                        if self.leaf(n) is None and self._stacked(n) is None}
        self.operand_pointers: dict[Node, str] = {}        # names, of operands that steps compute

    def _check(self) -> None:
        kinds = {inner.kind for inner in self.plan.fused.kernels if inner.root.size}
        if self.dynamic or self.length < 2:
            raise Refused("the number of steps is known only when the loop runs, or is below 2")
        others = kinds - {"elementwise", "contraction"}
        if others:
            raise Refused(f"a step has kernels other than products and elementwise ones: {', '.join(sorted(others))}")
        if "contraction" not in kinds:
            raise Refused("a step has no product")

    # ---- products
    def _changes(self, n: Node) -> bool:
        """Whether a stored value may differ from step to step."""
        slot = self.leaf(n)
        return n.prim != "data" and (slot is None or slot < self.carries + self.slices)

    def _product(self, k: Kernel) -> Product:
        """Returns the product of a kernel, with the matrix that no step changes as column operand."""
        for swap in (False, True):
            p = Product(k, self.name, swap)
            if any(self._changes(n) for n in _frontier(p.operand("b").node, set(k.reads))):
                continue
            if p.batch > 1 or [len(g) for g in (p.m.rows, p.m.columns, p.m.depth)] != [1, 1, 1]:
                raise Refused("a product has a batch axis, or not exactly one axis of rows, columns and depth each")
            if p.sum_dtype != np.float32:
                raise Refused(f"a product sums in {p.sum_dtype}, not in float32")
            a = p.operand("a")
            if a.memory is None or a.guard or a.place is None:
                raise Refused("a product's operand is not simply read from memory (it is computed, padded or indexed)")
            slot = self.leaf(a.memory)
            if slot is not None and slot >= self.carries:
                raise Refused("a product's operand is an input, not a value that steps carry or compute")
            return p
        raise Refused("both operands of a product change from step to step")

    def _matrices(self) -> list[HeldMatrix]:
        """Returns the products of a step in the order of their launches, each with its level."""
        kernels = [k for k in self.plan.fused.kernels if k.dot is not None]
        products = {k.dot: self._product(k) for k in kernels}
        level: dict[Node, int] = {}
        for dot, p in products.items():
            memory = p.operand("a").memory
            assert dot is not None and memory is not None
            inside = [d for d in _frontier(memory, set(products)) if d in level] if self.leaf(memory) is None else []
            level[dot] = 1 + max((level[d] for d in inside), default=-1)
        return [HeldMatrix(i, p, level[dot]) for i, (dot, p) in enumerate(products.items())]      # type: ignore[index]

    def _sizes(self) -> tuple[int, int]:
        """Returns the number of rows, and of units in a row."""
        self.matrices = self._matrices()
        sizes = {self.body.inputs[i].size for i, n in enumerate(self.next) if self.leaf(n) != i}
        rows = {m.product.rows for m in self.matrices}
        if len(sizes) != 1 or len(rows) != 1:
            raise Refused("carried values that change have not all one size, or products not all one number of rows")
        size, row = sizes.pop(), rows.pop()
        if size % row:
            raise Refused("a carried value's size is no multiple of the products' rows")
        return row, size // row

    # ---- values
    def _stacked(self, n: Node) -> int | None:
        """Returns the number of the stacked result that a value is stored to, None where there is none."""
        return next((j for j, m in enumerate(self.stacks) if m is n and self.carries + j in self.items), None)

    def parameter(self, key: object) -> str:
        """Returns the name of the kernel's parameter for an argument."""
        return self.given.setdefault(key, f"p{len(self.given)}")

    def preload(self, e: Emitter, n: Node, idx: Index, guard: Guard) -> str:
        """Returns the name of an element of a stored value, which a step loads before its barrier."""
        at, key = e.offset(n.shape, idx), (n, idx, guard)
        slot = self.leaf(n)
        if variables(at) - {self.b, self.j}:
            raise Refused("an index depends on more than the row and the unit")
        carried = slot is not None and slot < self.carries and self.leaf(self.next[slot]) != slot
        if carried and (guard or at - self.own != Ix()):
            raise Refused("a unit reads a carried value padded, or an element that is not its own")
        if key not in self.loads:
            self.loads[key] = name = f"preloaded{len(self.loads)}"
            T = CUDA.compute(n.dtype)
            cell = f"{e.stored[n]}[{text(at)}]"
            cell = CUDA.half_load[n.dtype.name].format(cell) if is_half(n.dtype) else cell
            self.preload_declarations.append(f"{T} {name} = {{}};")
            value = f"{e.condition(guard)} ? {cell} : ({T})0" if guard else cell
            self.preload_statements.append(f"{name} = {value};")
        return self.loads[key]

    def _cell(self) -> _Cell:
        """Returns an emitter to which the products' sums are known by name."""
        e = _Cell(CUDA, self.names, reducer=_no_reduction, index="int")
        e.loop = self
        for m in self.matrices:
            e.given[m.product.dot] = lambda idx, m=m: m.sum_of(idx, self.b, self.j)         # type: ignore[misc]
        return e

    def _places(self, n: Node) -> list[Ix]:
        """Returns the offsets of a value's elements that a unit computes."""
        each = n.size // (self.rows * self.units)
        if not each or n.size != each * self.rows * self.units:
            raise Refused("a value's size is no multiple of rows times units")
        return [var(self.b) * (each * self.units) + var(self.j) + g * self.units for g in range(each)]

    def _stores(self, targets: Iterable[tuple[str, Node]]) -> list[str]:
        """Prints statements that compute a unit's elements of values and store them. targets: (pointer, value)."""
        e, block = self._cell(), Block(None, frozenset([self.b, self.j]))
        kept = [(pointer, n, idx, e.value(n, idx, block)) for pointer, n in targets
                for idx in (tuple(unlinear(at, n.shape)) for at in self._places(n))]
        return [*block.lines, *lines([e.store(pointer, n, idx, value) for pointer, n, idx, value in kept])]

    # ---- pointers
    def _pointers(self) -> tuple[list[str], list[str]]:
        """Declares pointers to the body's inputs and to embedded constants: those before the loop, and those in it."""
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
        """Prints the address at which the step before left a carried value."""
        n = self.next[i]
        if self.leaf(n) is not None or n.prim == "data":
            raise Refused("a carried value becomes another input or a constant")
        T, stack = CUDA.storage(n.dtype), self._stacked(n)
        if stack is None:
            first, second = self.buffers[i]
            return f"(const {T} *)({self.parameter(SCRATCH)} + (s & 1 ? {first} : {second}))"
        item = self.parameter(self.items[self.carries + stack])
        return f"(const {T} *){item} + (t {'+' if self.reverse else '-'} 1) * {n.size}ll"

    def _targets(self) -> tuple[list[str], list[tuple[str, Node]]]:
        """Declares pointers to where a step stores its results; returns the declarations, and (pointer, result)."""
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
        """Declares pointers to operands that a step computes; returns the declarations, and by level (pointer, operand)
        of those that units store before the barrier."""
        declared: list[str] = []
        stored: dict[int, list[tuple[str, Node]]] = {}
        for m in self.matrices:
            n = m.product.operand("a").memory
            assert n is not None
            if self.leaf(n) is not None or n in self.operand_pointers:
                continue
            T, name, stack = CUDA.storage(n.dtype), f"step_operand{len(self.operand_pointers)}", self._stacked(n)
            if stack is not None:                          # the stacked result is the operand's memory
                name = f"y{stack}"
            else:
                first, second = self.take(n.nbytes), self.take(n.nbytes)
                declared.append(f"{T} *{name} = ({T} *)({self.parameter(SCRATCH)} + (s & 1 ? {first} : {second}));")
            self.operand_pointers[n] = name
            stored.setdefault(m.level, []).append((name, n))
        return declared, stored

    # ---- the kernel
    def printed(self) -> PrintedCuda:
        """Prints the kernel and its launch."""
        outside, inside = self._pointers()
        targets, results = self._targets()
        own, stored = self._operands()
        levels = range(1 + max(m.level for m in self.matrices))
        # of a level: what is stored before its products
        computed = {level: self._computed(stored.get(level, [])) for level in levels}
        last = self._computed([(p, n) for p, n in results if p not in self.operand_pointers.values()])
        r, u, shares, shared = self._tile()
        tiles, units = -(-self.rows // r), -(-self.units // u)
        blocks = tiles * units
        step = [*inside, *targets, *own, *self.preload_declarations, *when("mine", self.preload_statements)]
        for level in levels:
            step += [*when("mine", computed[level]),
                     *self._barrier(level, blocks if units > 1 else 1, bool(computed[level]))]
            for m in self.matrices:
                memory = m.product.operand("a").memory
                assert memory is not None
                if m.level == level:
                    step += m.multiplied(self.operand_pointers.get(memory) or self.names[memory], shares[m.number],
                                         r, u, shared[m.number])
        step += when("mine", last)
        order = f"const long long t = {f'{self.length - 1} - s' if self.reverse else 's'};"
        body = [*self._head(r, u, tiles), *outside,
                *(s for m in self.matrices for s in m.held(self.names, shares[m.number], self.units)),
                "#pragma unroll 1", f"for (int s = 0; s < {self.length}; s++) {{", f"  {order}",
                *("  " + s for s in step), "}", *when("mine", self._finals())]
        return self._launched(body, blocks, units > 1, shared)

    def _computed(self, targets: Sequence[tuple[str, Node]]) -> list[str]:
        return self._stores(targets) if targets else []

    def _barrier(self, level: int, blocks: int, computed: bool) -> list[str]:
        """Prints the barrier before a level's products; the first step needs none if their operands are inputs."""
        wait = f"hy_grid_barrier({self.parameter(BARRIER)}, {blocks}, true);" if blocks > 1 else "__syncthreads();"
        return [wait] if level or computed else [f"if (s) {wait}"]

    def _finals(self) -> list[str]:
        """Prints statements that store the last carried values, and the number of steps."""
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
        """Returns the rows and units of a block that take least time, how its products are divided, and the bytes of
        shared memory at which each has its operand and its sums."""
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
                clocks += GRID_BARRIER + ARRIVAL * blocks if self.units > u else 0
                if best is None or clocks < best[0]:
                    best = clocks, (r, u, shares, [*memory, (end, 0)])
        if best is None:
            raise Refused("the matrices do not fit into the registers, or the operands into the shared memory, of the "
                          "blocks that the GPU runs at once")
        return best[1]

    def _memory(self, shares: Sequence[Share], r: int, u: int) -> tuple[list[tuple[int, int]], int]:
        """Returns the bytes of shared memory at which each product's operand and sums begin, and at which all end."""
        out, at = [], 0
        for s, m in zip(shares, self.matrices):
            out.append((at, at + 4 * WARPS * r * s.deep))
            at = out[-1][1] + 4 * WARPS * r * m.row_stride(u)
        return out, at

    def _head(self, r: int, u: int, tiles: int) -> list[str]:
        """Declares a thread's row and unit: within its block, then in the whole value."""
        return ["extern __shared__ __align__(1024) unsigned char tile_memory[];",
                "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
                f"const int r0 = blockIdx.x % {tiles}u * {r}, j0 = blockIdx.x / {tiles}u * {u};",
                f"const int row = threadIdx.x / {u}, unit = threadIdx.x % {u};",
                f"const int {self.b.name} = r0 + row, {self.j.name} = j0 + unit;",
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


def _frontier(top: Node, stop: set[Node]) -> list[Node]:
    """Returns the nodes at which a walk from ``top`` through arguments ends: members of ``stop`` and leaves."""
    return [n for n in reached([top], lambda n: n not in stop) if n in stop or not n.args]


def _inside(condition: tuple[str, Ix, int]) -> bool | None:
    """Returns True if a condition of a guard always holds, False if it never does, None if it depends."""
    kind, x, limit = condition
    low, high = bounds(x)
    if kind == "rem":
        return None
    at_least = (low >= limit, high < limit)                # always at least the limit, always below it
    always, never = at_least if kind == "ge" else at_least[::-1]
    return True if always else False if never else None


def _no_reduction(e: Emitter, n: Node, idx: Index, guard: Guard, block: Block) -> str:
    raise Refused("a step has reductions other than its products")
