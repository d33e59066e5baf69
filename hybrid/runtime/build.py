"""From a planned program to a shared object and the recipe to run it: layout of the pointer table, C, the compiler."""
from __future__ import annotations

import functools
from dataclasses import field, replace
from pathlib import Path
from typing import Callable, Mapping, Sequence, TypeVar

import numpy as np

from ..base.records import dataclass
from hybrid.codegen import c as printer
from hybrid.codegen.printers.products import contraction
from hybrid.codegen.printers.convolutions import packed
from hybrid.codegen.program.block_loop import ONE, block_loop
from hybrid.codegen.schedule.tiling import Alone, Target
from hybrid.codegen.targets import NO_VECTORS
from hybrid.codegen.lanes import Refused
from hybrid.codegen.loops import work_of
from hybrid.codegen.program import size_parameters

from ..base import config
from ..ir import Node, Program, toposort
from ..ir.kernel import Fused, Kernel
from ..ir.size import Dim, Specialised, hint
from ..passes.minibatch_tiling import Blocks, in_blocks
from ..passes.changes import note_updates
from ..passes.memory import in_place_updates
from ..passes.pipeline import Planned, plan
from ..passes.horizontal_fusion import Joining
from ..passes.unpack import Way, ways_back
from . import by_primitives, plans, shared_objects, toolchain, tune
from .parts import parts_of, recipe_of
from .recipe import Recipe
from .report import Report, make_report, note_blocks, note_forms, note_in_place

JOINING = Joining(printer.joins,
                  turns=lambda n, which, steps: contraction.turns(n, which, steps, Target(toolchain.vector_bytes())))
PAGE = 4096                      # bytes that arenas of several threads are multiples of


@dataclass
class Built:
    """A compiled program: how it is run, where its shared object is, and the report."""
    recipe: Recipe
    library: Path
    report: Report
    source: str
    prepare: "Built | None" = None
    dims: list[Dim] = field(default_factory=list)          # sizes that a call gives
    ran: bool = True                 # whether the compiler ran for it; else its text was in the disk cache


class _Table:
    """The pointer table: inputs, embedded constants, written results, arena. ``index``: the place of each value that is
    in it."""

    def __init__(self, planned: Planned, report: Report, timed: bool = False):
        self.planned, self.timed, fused = planned, timed, planned.fused
        self.blocks: Blocks = planned.source.memo.get("blocks") or Blocks(1, frozenset())
        self.parts = config.num_threads() if self.blocks.count % config.num_threads() == 0 else 1
        self.index: dict[Node, int] = {n: i for i, n in enumerate(fused.program.inputs)}
        self.constants: list[Node] = []
        for n in [*(n for k in fused.kernels for n in k.reads), *(n for n, _ in fused.results)]:
            if n.prim == "data" and n not in self.index:
                self.index[n] = len(self.index)
                self.constants.append(n)
        # of a program for any size: the sizes of a call are one constant more
        self.dims = fused.program.dims()
        self.before = len(self.index)
        # written straight into the caller's array
        placed = in_place_updates(fused, ("elementwise", "contraction", "reduction"))
        note_in_place(report, placed)
        note_updates(fused, placed)
        self.fresh: list[Node] = []
        more = 1 if self.dims else 0
        for n, _ in fused.results:
            if n not in self.index and n not in placed:
                self.index[n] = len(self.index) + more
                self.fresh.append(n)
        self.arena_slot = len(self.index) + more
        self.index.update(placed)
        self.placed = placed

    def pointer(self, n: Node) -> str:
        """C text of a stored value's address."""
        if n in self.index:
            return f"b[{self.index[n]}]"
        return f"HY_ANY((char *)b[{self.arena_slot}] + {self.planned.memory.offsets[n]})"

    def scratch(self, group: int, nbytes: int) -> str:
        """C text of the address of working memory that the kernels of a group have to themselves."""
        return f"HY_ANY((char *)b[{self.arena_slot}] + {self.planned.memory.room(group, nbytes)})"

    def whole(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an array whose part in a block has this one."""
        if self.blocks.count == 1:
            return shape
        return (self.blocks.count * shape[0], *shape[1:]) if shape else (self.blocks.count,)

    def around(self, net: Callable[[str], str]) -> str:
        """The function that runs all kernels, for all blocks. net: prints that of one block under a head."""
        if self.blocks.count == 1:
            return net(printer.NET)
        moved = {i: n.nbytes for i, n in enumerate(self.planned.fused.program.inputs) if i in self.blocks.inputs}
        moved.update((self.index[n], n.nbytes) for n in self.fresh)
        block = net(ONE)                                     # first: it tells how much working memory a block takes
        return block_loop(block, self.blocks.count, moved, self.arena_slot, self.arena_bytes() // self.parts,
                          self.parts, int(self.timed))

    def sizes(self) -> str:
        """C text of the array of sizes, or nothing."""
        return f"b[{self.before}]" if self.dims else ""

    def times(self) -> str:
        """C text of the array for kernels' times, behind the arena, or nothing."""
        return f"b[{self.arena_slot + 1}]" if self.timed else ""

    def arena_bytes(self) -> int:
        """Bytes of the arena; threads that take blocks have one each."""
        nbytes = self.planned.memory.whole
        return nbytes if self.blocks.count == 1 else self.parts * (-(-nbytes // PAGE) * PAGE)

    def recipe(self, library: str, arena_bytes: int) -> Recipe:
        """How the program is run."""
        fused, planned = self.planned.fused, self.planned
        outputs = len(fused.program.outputs)
        updates = _updates(fused, self)
        return Recipe(library, [(self.whole(n.shape) if i in self.blocks.inputs else n.shape, n.dtype)
                                for i, n in enumerate(fused.program.inputs)],
                      len(planned.source.inputs), [np.frombuffer(n.attrs["value"], n.dtype).reshape(n.shape)
                                                   for n in self.constants] + [
                          np.array([d.hint for d in self.dims], np.int64)] * bool(self.dims),
                      [(self.whole(n.shape), n.dtype) for n in self.fresh], arena_bytes,
                      [(self.index[n], self.whole(shape)) for n, shape in fused.results[:outputs]], updates,
                      sorted(set(self.placed.values())), planned.slots,
                      ways=_ways(planned), work=_work(fused.kernels) * self.blocks.count)


def _work(kernels: Sequence[Kernel]) -> int:
    """Rough additions of some kernels; those in a loop count for each step."""
    return sum(hint(k.root.attrs["length"]) * _work(k.inner.fused.kernels) if k.kind == "loop" else work_of(k)
               for k in kernels)


def _ways(planned: Planned) -> list[Way | None]:
    """How inputs that only ``prepare`` reads can be made again from its values."""
    if planned.prepare is None:
        return []
    main = planned.fused.program
    read = {n.attrs["slot"] for n in toposort(main.roots) if n.prim == "input"} | {slot for slot, _ in main.updates}
    return [None if slot in read else way for slot, way in zip(planned.slots, ways_back(planned.prepare))]


def _updates(fused: Fused, table: _Table) -> list[tuple[int, int, tuple[int, ...]]]:
    new = fused.results[len(fused.program.outputs):]
    return [(slot, table.index[n], shape)
            for (slot, _), (n, shape) in zip(fused.program.updates, new) if n not in table.placed]


Made = TypeVar("Made")


# called with the recipe of a program that is printed and about to be compiled, and the sizes that its calls give
OnPrinted = Callable[[Recipe, "list[Dim]"], None]


def build(planned: Planned, timed: bool = False, printed: OnPrinted | None = None) -> Built:
    """Print and compile a planned program, and the one that prepares its values. timed: kernels note their times in
    one more array, behind the arena (timed.py). printed: called when the C text is there and before the compiler runs;
    not for programs whose preparation is compiled at the same time."""
    return _attempted(planned, lambda p: _build(p, timed, printed))


def _attempted(planned: Planned, make: Callable[[Planned], Made]) -> Made:
    """What ``make`` makes of a planned program, or of a plainer plan of it where a kernel cannot be printed."""
    try:
        return make(planned)
    except Refused as err:
        memo = planned.source.memo
        if memo.get("plain"):
            raise
        if planned.source.dims():
            raise Specialised(str(err)) from None
        apart = memo.setdefault("apart", set())
        if err.members - apart and memo.get("frozen"):
            # by kernels of their own, not where the convolution before them is
            apart |= err.members
            return _attempted(_again(planned.source), make)
        # no packed layouts and no attention: what nobody thought of is slower, not an error
        memo["plain"] = True
        return make(plan(planned.source, JOINING))


def _build(planned: Planned, timed: bool, printed: OnPrinted | None) -> Built:
    report = make_report(planned, "C")
    table = _Table(planned, report, timed)
    parts = parts_of(planned) if planned.source.memo.get("parts") else []
    with size_parameters.parameters(d.name for d in table.dims):
        source, own = printer.print_program(planned.groups, table.pointer, table.scratch, toolchain.vector_bytes(),
                                          tune.choose if config.tune_seconds() else None,
                                          bool(parts), table.around, table.times(), table.sizes())
    note_forms(report, planned)
    report.scratch_bytes = planned.memory.whole - planned.memory.arena
    report.thread_bytes, report.source = own, source
    both = planned.prepare is not None and not by_primitives.is_left_out()      # compiled at the same time
    recipe = table.recipe("", table.arena_bytes())
    recipe.parts = parts if recipe.own_results() is not None else []
    if planned.prepare is not None and not both:
        recipe.prepare = recipe_of(planned.prepare)
    if printed is not None and not both:
        recipe.library = shared_objects.begun(source)
        printed(recipe, table.dims)
    finish = shared_objects.begin(source) if both else lambda: shared_objects.build(source)
    prepare = build(prepare_plan(planned)) if both else None
    if table.blocks.count > 1:
        note_blocks(report, table.blocks.count, table.parts)
    library, c = finish()
    ran = shared_objects.ran(library)
    report.source_path = str(c)
    recipe.library = library.name
    built = Built(recipe, library, report, source, dims=table.dims, ran=ran)
    sizes = [planned.source.inputs[s].nbytes for s in planned.slots]
    report.source_bytes = sum(sizes)
    report.movable_bytes = sum(n for n, way in zip(sizes, built.recipe.ways) if way is not None)
    if prepare is not None:
        built.prepare, recipe.prepare = prepare, prepare.recipe
    return built


@dataclass
class Listing:
    """A printed program that is not compiled here: its text, how it is run, and what was planned."""
    text: printer.Text
    target: Target
    recipe: Recipe
    planned: Planned
    prepare: "Listing | None" = None


Address = Callable[[Node, str], str]               # C text of a value's address, from the value and the plain text


def listed(program: Program, frozen: frozenset[int], address: Address, scalar: bool = False) -> Listing:
    """Print a program, and the one that prepares its values, as ``build`` does. scalar: without vectors."""
    if scalar:
        program = Program(program.inputs, program.outputs, program.updates)
        program.memo["plain"] = True
    return _attempted(planned(program, frozen, frozenset(), any_size=True),
                      functools.partial(_listed, address=address, scalar=scalar))


def _listed(whole: Planned, address: Address, scalar: bool) -> Listing:
    table = _Table(whole, make_report(whole, "C"))
    target = Target(NO_VECTORS) if scalar else Target(toolchain.vector_bytes(),
                                                         tune.choose if config.tune_seconds() else None)
    with size_parameters.parameters((d.name for d in table.dims), alone=True):
        text = printer.print_text(whole.groups, lambda n: address(n, table.pointer(n)), table.scratch, target,
                                  around=table.around, sizes=table.sizes())
    prepare = _attempted(plan(whole.prepare, JOINING), functools.partial(
        _listed, address=address, scalar=scalar)) if whole.prepare is not None else None
    return Listing(text, target, table.recipe("", table.arena_bytes()), whole, prepare)


def prepare_plan(whole: Planned) -> Planned:
    """The plan of the program that prepares another one's values."""
    assert whole.prepare is not None
    whole.prepare.memo["parts"] = True
    return plan(whole.prepare, JOINING)


NARROW = (*toolchain.WORDS, "int8")                       # of products by words of 32 bits: data, and weights of uint8


def planned(program: Program, frozen: frozenset[int], words: frozenset[str] | None = None,
            any_size: bool = False) -> Planned:
    """The plan of a program for this machine, perhaps for one block of its batch. words: types that it multiplies by
    words of 32 bits; None: all that the processor can. any_size: no program for each size follows it."""
    if words is None:                                     # the compiler is not asked where they cannot matter
        every = (*program.inputs, *program.order())
        narrow = (any(t.name in NARROW for t in {n.dtype for n in every})
                  or any("may_round_operands" in n.attrs for n in every))
        words = toolchain.words() if narrow else frozenset()
    blocking, apart = (packed.blocking(toolchain.vector_bytes(), words) if not program.memo.get("plain") else None,
                       program.memo.get("apart", set()))
    if blocking is not None:
        prints = blocking.prints
        blocking = replace(blocking, choose=_choose, prints=lambda n: n not in apart and prints(n),
                           any_size=any_size)
    block = in_blocks(program, frozen, config.num_threads()) if (
        blocking is not None and frozen and not program.dims()) else None
    return plan(block or program, JOINING, frozen, blocking)


def _again(program: Program) -> Planned:
    return planned(program, program.memo["frozen"])


def _choose(rule: str, forms: Mapping[str, Program], work: int) -> tuple[str, str]:
    """The form of a convolution, for the layout pass (tune.py)."""
    what = "\n".join(f"{form} {plans.program_text(p)}" for form, p in sorted(forms.items()))
    return tune.choose(rule, what, {form: functools.partial(_alone, p) for form, p in forms.items()}, work)


def _alone(program: Program) -> Alone:
    """A program to be measured."""
    whole = plan(program)
    table = _Table(whole, make_report(whole, "C"))
    source, _ = printer.print_program(whole.groups, table.pointer, table.scratch, toolchain.vector_bytes())
    return Alone(source, tuple((n.shape, n.dtype) for n in (*program.inputs, *table.fresh)), whole.memory.whole)
