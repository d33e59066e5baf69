"""CUDA for a fused program: one module, kernels that take pointers and tensor maps, and how each is launched."""
from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

from hybrid.ir import Node
from hybrid.ir.kernel import Kernel, every
from hybrid.passes.horizontal_fusion import Group
from hybrid.passes.recomputed_scores import OverScores

from hybrid.codegen.schedule.choose import first_registered, first_that_fits
from hybrid.codegen.printers.rows import rowcall, sort
from hybrid.codegen.printers.cuda import scan as scan_cuda
from hybrid.codegen.printers.cuda.attention import print_attention, takes_attention
from hybrid.codegen.printers.cuda.attention_gradient import print_over_scores, takes_over_scores
from hybrid.codegen.printers.cuda.contraction import FEW, print_contraction, why_not_carried
from hybrid.codegen.printers.cuda.flat import print_concat, print_flat, print_moves
from hybrid.codegen.printers.cuda.mma import multiplies
from hybrid.codegen.printers.cuda.many import MOST_POINTERS, print_many
from hybrid.codegen.printers.cuda.pieces import (BARRIER, SCRATCH, TICKETS, Argument, At, Barrier, Launch,
                                                    PrintedCuda, Scratch, TensorMap, Tickets, alone)
from hybrid.codegen.printers.cuda.radix import print_radix, takes_radix
from hybrid.codegen.printers.cuda.reduce import print_reduction
from hybrid.codegen.printers.cuda.rows import print_rows
from hybrid.codegen.printers.cuda.running import print_running
from hybrid.codegen.printers.cuda.scatter import print_scatter, print_segments
from hybrid.codegen.printers.cuda.select import print_select, takes_select
from hybrid.codegen.printers.cuda.target import NO_MAPS, printing_for
from hybrid.codegen.printers.cuda.transposed import print_transposed
from .dialect import CUDA

__all__ = ["BARRIER", "MOST_POINTERS", "SCRATCH", "TICKETS", "Argument", "At", "Barrier", "Launch", "PrintedCuda",
           "Scratch", "TensorMap", "Tickets", "convolves_last", "joins", "print_kernel", "print_program",
           "printing_for", "takes_attention", "takes_over_scores",
           "why_not_carried"]

LONG_REDUCTION = 128            # elements from which threads work together on one reduction
HEADER = "".join(f'#include "{name}"\n' for name in (
    "hybrid_scalars.cuh", "hy_common.h", "philox.h", "hybrid_tiles.cuh", "hybrid_wgmma.cuh", "hybrid_tensor_maps.cuh",
    "hybrid_sort.cuh", "hybrid_select.cuh", "hybrid_stages.cuh"))


def print_kernel(k: Kernel, name: str) -> PrintedCuda:
    """CUDA of one kernel."""
    return first_registered("cuda", k, _print_kernel, name)


# by kind of kernel: the function that prints it, called with the kernel and its name
PRINTERS: dict[str, Callable[[Kernel, str], PrintedCuda]] = {
    "concat": print_concat, "running": print_running,
    "scatter": lambda k, name: first_that_fits(
        k, [("sorted segments", print_segments), ("owners of places", print_scatter)], name),
    "call": lambda k, name: alone(rowcall.print_cuda(k, name)), "contraction": print_contraction,
    "loop": lambda k, name: scan_cuda.print_loop(k, name, print_kernel),
    "attention": lambda k, name: (print_over_scores if isinstance(k.attention, OverScores) else print_attention)(
        k, name),
    "row": lambda k, name: print_rows(k, name, [v for v in k.loops if v in (k.rows or ())]),
    "sort": lambda k, name: print_select(k, name) if takes_select(k) else alone(
        print_radix(k, name) if takes_radix(k) else sort.print_cuda(k, name))}


def _print_kernel(k: Kernel, name: str) -> PrintedCuda:
    """As this package prints it."""
    if k.kind in PRINTERS:
        return PRINTERS[k.kind](k, name)
    longest = max((m.args[0].size // max(m.size, 1) for m in k.members if m.prim in ("reduce", "argreduce")), default=0)
    if longest >= LONG_REDUCTION:
        return print_reduction(k, name)
    return first_that_fits(k, [("squares in shared memory", print_transposed), ("elements", print_flat)], name)


def _print_group(kernels: Sequence[Kernel]) -> PrintedCuda:
    name = f"k{kernels[0].number}"
    return print_many(kernels, name) if len(kernels) > 1 else print_kernel(kernels[0], name)


def joins(k: Kernel) -> bool:
    """Whether each thread of a kernel works by itself, so that it may share a launch."""
    return k.kind == "elementwise"


def convolves_last(d: np.dtype, arch: str) -> bool:
    """Whether an architecture multiplies a type on tensor cores, which read neighbours along the depth together."""
    with printing_for(arch):
        return multiplies(d)


def turns(dot: Node, which: int, steps: int) -> bool:
    """Whether a product in a loop reads its matrix faster transposed: with few rows along the depth, with more along
    the columns."""
    axis, w = dot.attrs["contract"][which][0], dot.args[which]
    return (axis == 1) == (dot.size // max(w.shape[1 - axis], 1) > FEW)


def print_program(groups: Sequence[Group], moves: Sequence[tuple[Node, Node]] = (), arch: str = "sm_90",
                  written: Sequence[Node] = (), processors: int = 0, no_maps: str = NO_MAPS) -> PrintedCuda:
    """The module of some kernels, each group one launch; they share working memory and tickets: kernels that have
    tickets have working memory too, and so never run side by side. moves: values that are copied into other arrays at
    the end, as (from, to). arch: the GPU that it is for. written: values that may be written where inputs lie.
    processors: blocks that may wait for each other in a cooperative launch, 0: there is none. no_maps: why launches
    take no tensor maps, empty where they do."""
    with printing_for(arch, written, processors, no_maps):
        return _print_program(groups, moves)


def _print_program(groups: Sequence[Group], moves: Sequence[tuple[Node, Node]]) -> PrintedCuda:
    kernels = [k for g in groups for k in g.kernels]
    printed = [_print_group([k for k in g.kernels if k.root.size]) for g in groups
               if any(k.root.size for k in g.kernels)]
    printed += print_moves(moves)
    return PrintedCuda(HEADER + rowcall.support(list(every(kernels)), CUDA) + "\n".join(p.source for p in printed),
                       [launch for p in printed for launch in p.launches],
                       max((p.scratch for p in printed), default=0), max((p.tickets for p in printed), default=0))
