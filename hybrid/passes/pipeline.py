"""The pipeline: a list of passes from a traced program to fused kernels with a memory plan."""
from __future__ import annotations

from dataclasses import field, replace
from typing import Callable, Sequence

from ..base import collector
from ..base.records import dataclass
from ..ir.size import fixed
from ..base.dtype import float32
from ..ir import Node, Program
from ..ir.kernel import Fused
from ..ir.node import Origin, noting
from .adjoint import plane_by_plane, taps_apart
from .attention import Attends, Attention
from .attention_gradient import in_blocks
from .channels_last import channels_last
from .fold import fold
from .frozen import Frozen, Layout
from .fuse import fuse
from .half_promotion import wide_products
from .integer_products import in_floats
from .joined_slices import joined_slices
from .known_sums import known_sums
from .layout import Blocking, layout
from .low_precision import scales_behind, sums_in_floats
from .loop_layout import loop_layout
from .loop_products import loop_products
from .long_sums import deep_dot, deep_rows, in_chunks
from .loops import tidy
from .memory import MemoryPlan, plan_memory
from .batch_in_lanes import pictures
from .beforehand import beforehand
from .beyond_memory import refuse_beyond_memory
from .packed_steps import packed_steps
from .rewrite import Rule, rewrite
from .small_images import back_over_small_images, of_small_images, over_small_images
from .step_products import step_products
from .horizontal_fusion import ALONE, Group, Joining, together
from .tile_statistics import into_products, over_tiles
from .transposed import transposed
from .verify import verify_kernels, verify_program
from .wide_halves import wide_halves

PROGRAM_PASSES: list[tuple[str, Callable[[Program], Program]]] = [("loops", tidy), ("fold", fold),
                                                                  ("known sums", known_sums)]


@dataclass
class Planned:
    """A program ready for code generation."""
    source: Program
    fused: Fused
    groups: list[Group]                                  # kernels in launch order, as they run together
    memory: MemoryPlan
    # computes values of frozen inputs that the program takes after its own inputs
    prepare: Program | None = None
    slots: tuple[int, ...] = ()                          # of the inputs that prepare reads
    notes: list[str] = field(default_factory=list)       # what the layout pass decided
    origins: dict[Node, Origin] = field(default_factory=dict)      # the user's lines of nodes, where they are known


@collector.waits
def plan(program: Program, joining: Joining = ALONE, frozen: frozenset[int] = frozenset(),
         blocking: Blocking | None = None) -> Planned:
    """Run the pipeline. joining: which kernels the backend can run together. frozen: slots of inputs that seldom
    change, from which values are prepared beforehand.
    """
    with noting(dict(program.memo.get("origins", {}))) as origins:
        planned = _plan(program, joining, frozen, blocking)
    planned.origins = origins
    return planned


def _every(found: Attention, dot: Node) -> bool:
    """The C printer has a kernel for each attention of float32 that is matched."""
    return dot.dtype == float32


def _arranged(program: Program, frozen: frozenset[int], blocking: Blocking | None, packs: dict[Node, str],
              sized: bool) -> Layout:
    """The program in the layout in which it runs, and a program of its own for what depends on frozen inputs alone.
    packs: as of ``layout``; sized: whether it has symbolic sizes."""
    if not frozen:
        return Layout(program)
    if blocking is None:
        return beforehand(program, frozen)
    return not sized and pictures(program, frozen, blocking) or layout(program, frozen, blocking, packs)


def _by_rules(program: Program, frozen: frozenset[int], blocks: bool) -> Program:
    """The program with products and sums in the forms that kernels do well. blocks: for a CPU's caches."""
    if not blocks:
        return program.with_roots(rewrite(program.roots, {"dot": (deep_rows,)}))
    program = sums_in_floats(program)
    lasts = Frozen(program, frozen)
    rules: dict[str, Sequence[Rule]] = {
        "dot": (plane_by_plane, of_small_images, over_small_images(lasts), in_floats, deep_dot),
        "reduce": (in_chunks,), "unwindow": (back_over_small_images(lasts), taps_apart)}
    program = program.with_roots(rewrite(in_blocks(program.roots), rules))
    return wide_products(program, frozen) if frozen else program


def _fused(program: Program, attends: Attends, joining: Joining, blocking: Blocking | None) -> Fused:
    """The kernels of a program. Where some can carry reductions of their results, it is fused again with these."""
    prints = blocking.prints if blocking is not None else None
    fused = fuse(program, attends, prints, joining.over_scores)
    if joining.statistics is None:
        return fused
    tiled = over_tiles(fused, joining.statistics)
    if tiled.of_groups:
        fused = fuse(tiled.program, attends, prints, joining.over_scores, tiled.of_groups)
        into_products(fused, joining.statistics)
    fused.refusals += tiled.refusals
    return fused


def _plan(program: Program, joining: Joining, frozen: frozenset[int], blocking: Blocking | None) -> Planned:
    verify_program(program, "trace")
    sized = any(not fixed(d) for n in program.inputs for d in n.shape)
    current = transposed(program, frozen, blocking) if frozen and blocking is not None else program
    current = _by_rules(current, frozen, blocking is not None)
    for name, run in PROGRAM_PASSES:
        current = run(current)
        verify_program(current, name)
    if blocking is not None:
        current = joined_slices(current)
        current = scales_behind(wide_halves(current, frozen), frozen)
    packs: dict[Node, str] = {}
    if blocking is not None:
        current, packs = loop_products(current, frozen - {slot for slot, _ in current.updates}, blocking)
        current = step_products(current, frozen, blocking)
        current, packs = packed_steps(current, frozen, blocking, packs)
    if joining.channels_last is not None:
        current = channels_last(current, joining.channels_last)
    if joining.turns is not None:
        current = loop_layout(current, joining.turns)
    arranged = _arranged(current, frozen, blocking, packs, sized)
    verify_program(arranged.main, "layout")
    attends = joining.attention if blocking is None else _every
    fused = _fused(arranged.main, attends, joining, blocking)
    verify_kernels(fused)
    if not sized:
        refuse_beyond_memory(fused)
    for k in fused.kernels:
        if k.kind == "loop":
            body = k.root.attrs["body"]
            k.inner = plan(Program(body.inputs, body.outputs), replace(ALONE, turns=joining.turns), blocking=blocking)
            for n in [*(n for inner in k.inner.fused.kernels for n in inner.reads),
                      *(n for n, _ in k.inner.fused.results)]:
                if n.prim == "data":                   # constants of the body are arguments of the loop
                    k.reads.setdefault(n, [])
    groups = together(fused, joining)
    fused.kernels = [k for g in groups for k in g.kernels]
    return Planned(program, fused, groups, plan_memory(fused, groups), arranged.prepare, arranged.slots, arranged.notes)
