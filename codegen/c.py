"""C for a fused program: one function a kernel, and ``void net(void **buffers)`` that runs them all."""
from __future__ import annotations

import contextlib
import functools
from dataclasses import replace
from typing import Any, Callable, Sequence

import numpy as np

from hybrid.base import collector
from hybrid.base.records import dataclass
from hybrid.ir import Node
from hybrid.ir.access import Index
from hybrid.ir.contraction import convolves, over_any_image
from hybrid.ir.kernel import Kernel, every
from hybrid.ir.size import Specialised, greater
from hybrid.ir.parse import Words, flat, forget, lines_of, parse
from hybrid.ir.stmt import Code, Scope, Stmt
from hybrid.kernels import text as kernel_text
from hybrid.passes.changes import changes
from hybrid.passes.horizontal_fusion import Group

from hybrid.codegen.schedule.choose import Form, first_registered, first_that_fits
from hybrid.codegen.printers.products import tiles
from hybrid.codegen.printers.products.contraction import Contraction, supported
from hybrid.codegen.printers.products.operand import sum_dtype
from hybrid.codegen.printers.rows.changes import print_changes
from hybrid.codegen.program.comments import comment
from hybrid.codegen.program.helper_functions import share_helpers
from hybrid.codegen.program import size_parameters
from hybrid.codegen.program.local import thread_bytes
from hybrid.codegen.program.tree_shaking import needed
from hybrid.codegen.printers.products.registers import support
from hybrid.codegen.program.kernel_deduplication import LARGE, letters, share, units
from hybrid.codegen.program.kernel_likeness import printed_once
from hybrid.codegen.schedule.tiling import Alone, Choose, Target
from .dialect import C
from .block import Block
from .emit import Emitter
from .lanes import F32, Refused
from .lanes import support as vector_support
from .lanes import uses
from .lazy_import import later
from .loops import (
    PARALLEL_WORK, SINGLE, KernelPrinter, Printed, close, close_blocks, close_planes, crosses, down_columns,
    loop_pragma, merged_loops, planes, rename, rows_first, store_side, work_of,
)
from .targets import ALL_PASSES, NO_VECTORS

_SCALARS = (("include", "philox.h"), ("c", "scalars.h"), ("include", "hy_common.h"), ("c", "prelude.h"),
            ("c", "branchless.h"))
_SYSTEM = (("c", "large.h"), ("c", "pool.h"))        # memory and threads of a program that this process loads


def prelude(exported: bool = False, random: bool = True) -> str:
    """The text that C programs may begin with; it includes nothing. exported: for programs that bring memory and
    threads of their own. random: whether they draw random numbers."""
    texts = _SCALARS if exported else (("c", "long.h"), *_SCALARS, *_SYSTEM)
    return "".join(kernel_text(folder, name) for folder, name in texts if random or name != "philox.h")


_REDUCTION = """#pragma omp declare reduction({name}:float:omp_out = {name}(omp_out, omp_in)) initializer(omp_priv = {sign}__builtin_inff())
#pragma omp declare reduction({name}:double:omp_out = {name}(omp_out, omp_in)) initializer(omp_priv = {sign}__builtin_inf())"""  # noqa: E501


def print_loops(k: Kernel, name: str, target: Target) -> Printed:
    """elementwise, reduction and row kernels."""
    p, team, root, (order, rows) = KernelPrinter(k, name), target.team, k.root, rows_first(k)

    def emit(idx: Index, blocks: list[Block]) -> Emitter:
        e = Emitter(C, p.reads, extra=p.extra)
        e.put(p.names[root], root, idx, blocks[-1])
        for n, at in k.sides:
            store_side(e, n, rename(at, k.loops, idx), p.names[n], blocks)
        return e
    blocks, loops, idx = merged_loops(root.shape, emit, order=order, barrier=rows)
    pragma = loop_pragma(loops, work_of(k), team)
    if crosses(k, loops, idx):
        body = close_blocks(blocks, loops, pragma)
    elif planes(k, loops, idx):
        body = close_planes(blocks, loops, loop_pragma(loops[:-1], work_of(k), team))
    else:
        body = close(blocks, loops, pragma, down_columns(k, loops, idx, blocks[-1].body))
    if team and (not loops or loops[0].extent == 1):
        body = [SINGLE, Scope(tuple(body))]
    return p.kernel(body)


def print_kernel(k: Kernel, name: str, target: Target) -> Printed:
    """C of one kernel."""
    if size_parameters.names() and not size_parameters.alone() and any(map(_of_images_of_any_size, k.members)):
        with contextlib.suppress(Refused):
            return first_that_fits(k, ANY_IMAGE, name, target)
        raise Specialised("windows over images whose spatial sizes vary are 3 to 30 times as fast in a program for "
                          "each size")
    return first_registered("c", k, _print_kernel, name, target)


def _of_images_of_any_size(n: Node) -> bool:
    """Whether a value is windows of several elements that slide along several axes, some of symbolic size.
    Axes (1, 2) are those of a channels-last image, whose windows are read as fast as in a program for one size."""
    return over_any_image(n) and len(n.attrs["axes"]) > 1 and n.attrs["axes"] != (1, 2) and max(n.attrs["size"]) > 1


# by kind of kernel: the function that prints it, called with the kernel, its name and the target
PRINTERS: dict[str, Callable[..., Any]] = {kind: later(f"printers.{path}") for kind, path in {
    "attention": "products.attention.print_attention", "convolution": "convolutions.packed.print_packed",
    "concat": "rows.concat.print_concat", "scatter": "rows.scatter.print_scatter", "sort": "rows.sort.print_c",
    "running": "rows.cumulate.print_running", "pairs": "rows.pairs.print_c", "call": "rows.rowcall.print_c",
    "loop": "rows.scan.print_c"}.items()}
_convolution, _support = later("schedule.convolution.print_convolution"), later("printers.rows.rowcall.support")
# forms that are tried in this order: those of reductions alone, and those of elementwise, reduction and row kernels
WINDOWS: list[Form[Printed]] = [
    ("windows of channels-last images", later("printers.convolutions.packed_pool.print_pool")),
    ("windows in vectors along a row", later("printers.convolutions.pool.print_pool"))]
# forms that are about as fast over images of any height and width as in a program for one size
ANY_IMAGE: list[Form[Printed]] = [WINDOWS[0], ("", later("schedule.convolution.print_over_any_image"))]
VECTORS: list[Form[Printed]] = [("interleaved pairs", later("printers.rows.interleave.print_pairs")),
                                ("square tiles in registers", later("printers.rows.strided_access.print_across")),
                                ("vectors", later("printers.rows.rows.print_rows"))]


def _print_kernel(k: Kernel, name: str, target: Target) -> Printed:
    """As this package prints it."""
    kind = "pairs" if k.root.prim == "pairs" else k.kind
    if kind in PRINTERS:
        more = (print_kernel,) if kind == "loop" else ()
        return PRINTERS[kind](k, name, target, *more)                    # type: ignore[no-any-return]
    if not supported(k):
        return first_that_fits(k, _forms(k, target), name, target)
    assert k.dot is not None
    if convolves(k.dot) and target.vector > NO_VECTORS:
        return _convolution(k, name, target, lambda p: _alone(k, p, target))             # type: ignore[no-any-return]
    return Contraction(k, name, target).print()


def _forms(k: Kernel, target: Target) -> list[Form[Printed]]:
    """The forms of an elementwise, reduction or row kernel."""
    found = changes(k)
    loops: Form[Printed] = ("plain loops", print_loops) if found is None else (
        "loops over what changes", print_changes)
    if target.vector <= NO_VECTORS or found is not None and found.moved:
        return [loops]
    return [*(WINDOWS if k.kind == "reduction" and not target.team else []), *VECTORS, loops]


ALONE_WORK = 1 << 18            # of a reduction, which one thread of a team does

def joins(k: Kernel) -> bool:
    """Whether a kernel may be one of several that a team of threads computes without waiting."""
    return k.kind == "elementwise" or k.kind in ("reduction", "row") and work_of(k) < ALONE_WORK


def print_in_team(k: Kernel, name: str, target: Target) -> Printed:
    """C of one of the kernels that a team of threads runs."""
    in_team = replace(target, team=True)
    return first_that_fits(k, _forms(k, in_team), name, in_team)


def in_team(g: Group) -> bool:
    """Whether threads pay for kernels that run together, and are begun once for all of them."""
    return len(g.kernels) > 1 and sum(work_of(k) for k in g.kernels) >= PARALLEL_WORK


NET = "void net(void **b)"
# kinds of kernels that work element by element where they are no vectors: a text with one wants ALL_PASSES
BY_ELEMENT = ("sort", "call")
# the function that runs all kernels, from what prints that of one block under a head
Around = Callable[[Callable[[str], str]], str]


def print_net(groups: Sequence[tuple[bool, Sequence[Printed]]], pointer: Callable[[Node], str],
              scratch: Callable[[int, int], str],
              optional: bool = False, times: str = "", sizes: str = "", head: str = NET) -> str:
    """The function that runs all kernels, with this head; a team of threads runs those of some groups. pointer: C text
    of a stored value's address. optional: kernels for which an array is missing (a null pointer) are left out.
    times: C text of an array in which the function notes when each group began, and how long it took (in
    nanoseconds). sizes: C text of the array that holds the sizes of a call.
    """
    def guard(p: Printed) -> str:
        found = [text for n in p.args if (text := pointer(n)).startswith("b[")]
        return f"if ({' && '.join(found)}) " if optional and found else ""
    lines: list[str] = []
    count = 0
    for i, (team, kernels) in enumerate(groups):
        calls = [f"  "
                 f"{guard(p)}{p.name}({', '.join([*(pointer(n) for n in p.args), *([scratch(i, p.scratch)] if p.takes_scratch else []), *size_parameters.names(), *p.numbers])});"  # noqa: E501
                 for p in kernels]
        calls = ["#pragma omp parallel num_threads(hy_threads)", "  {", *calls, "  }"] if team else calls
        if times and calls:
            calls = ["  { const long began = hy_now();", *calls, f"  hy_took((long *){times} + {2 * count}, began); }}"]
            count += 1
        lines += calls
    known = [f"  const long {n} = ((const long *){sizes})[{i}];" for i, n in enumerate(size_parameters.names())]
    return "\n".join([*([CLOCK] if times else []), f"{head} {{", *known, *lines, "}"])


CLOCK = """struct hy_time { long seconds, nanoseconds; };
int clock_gettime(int, struct hy_time *);
static long hy_now(void) {
  struct hy_time now; clock_gettime(1, &now);
  return now.seconds * 1000000000l + now.nanoseconds;
}
static void hy_took(long *times, long began) {
  const long took = hy_now() - began;
  if (!times[0]) times[0] = began;
  __atomic_fetch_add(times + 1, took, 0);
}"""


def before(lines: Sequence[Words], dtypes: Sequence[np.dtype], target: Target, vectors: bool,
           exported: bool = False) -> str:
    """The text that stands before a program. lines: of the program. dtypes: of its products' sums. exported: as of
    ``prelude``."""
    used = set().union(*lines)
    pragmas = set().union(*(line for line in lines if "pragma" in line))
    if any("vfloat" in w for w in used) and F32 not in dtypes:
        dtypes = [*dtypes, F32]
    parts = ["#define HY_PARALLEL" if "parallel" in pragmas and not exported else "",
             prelude(exported, any("philox" in w for w in used)), *(support(d, target) for d in dtypes),
             *(tiles.support(d, target, used) for d in dtypes),
             vector_support(target.vector // 4, used) if vectors else "",
             *(kernel_text("c", name) for name, words in _RARE.items() if uses(used, words))]
    parts += [_REDUCTION.format(name=name, sign=sign) for name, sign in (("hy_max", "-"), ("hy_min", ""))
              if name in pragmas]
    return needed(tuple(parts), used) + "\n"


# the texts that some kernels call, by their words (``uses``): those that sort, and those that leave out zeros
_RARE = {"sort.h": ("hy_key_", "hy_sort", "hy_sort_"), "sort_rows.h": ("HY_ROWS",), "zeros.h": ("hy_nonzero",)}


def _whole(lines: Sequence[Words], dtypes: Sequence[np.dtype], target: Target, vectors: bool) -> str:
    """A program's text, with what stands before it."""
    return before(lines, dtypes, target, vectors) + "\n".join(map("".join, lines))


def _alone(k: Kernel, p: Printed, target: Target) -> Alone:
    """A printed product as a program of its own."""
    assert k.dot is not None
    program = [*p.lines, *lines_of(print_net([(False, [p])], lambda n: f"b[{p.args.index(n)}]",
                                             lambda group, nbytes: f"b[{len(p.args)}]"))]
    return Alone(_whole(program, [sum_dtype(k.dot)], target, p.vectors),
                 tuple((n.shape, n.dtype) for n in p.args), max(p.scratch, 64))


@dataclass
class Text:
    """A printed program: its functions in order, the one that runs them all, and what the text before them depends
    on."""
    functions: list[Printed]
    net: Sequence[Stmt]
    dtypes: list[np.dtype]
    support: str                   # of kernels that factorise, solve or select boxes
    scratch: int                   # the most bytes of working memory that a kernel wants
    kernels: dict[str, list[Kernel]]        # by function name: the kernels it computes

    @property
    def vectors(self) -> bool:
        """Whether a function computes with vectors."""
        return any(p.vectors for p in self.functions)

    @property
    def large(self) -> bool:
        """Whether it is compiled in several units, so that no kernel is compiled as a part of another function."""
        return sum(map(letters, [*(p.lines for p in self.functions), flat(self.net)])) >= LARGE

    def lines(self) -> list[Words]:
        """The words of each line."""
        functions = [self._commented(p) for p in self.functions]
        code = flat(units(functions, self.net)) if self.large else [
            *(line for p in functions for line in p.lines), *flat(self.net)]
        return [*lines_of(self.support), *code] if self.support else code

    def _commented(self, p: Printed) -> Printed:
        """A function below a comment that says what it computes."""
        kernels = self.kernels.get(p.name, ()) if p.code else ()
        return replace(p, code=(Code((comment(kernels[0], None, len(kernels) - 1),)), *p.code)) if kernels else p


@collector.waits
def print_text(groups: Sequence[Group], pointer: Callable[[Node], str], scratch: Callable[[int, int], str],
               target: Target, optional: bool = False, around: Around = lambda net: net(NET),
               times: str = "", sizes: str = "") -> Text:
    """C of a program's functions. The arguments are those of ``print_program``."""
    groups = [Group([k for k in g.kernels if k.root.size != 0]) for g in groups]
    teams = [in_team(g) for g in groups]
    shared, printed = share_helpers(share(printed_once(
        [(team, k) for team, g in zip(teams, groups) for k in g.kernels],
        lambda team, k, name: (print_in_team if team else print_kernel)(k, name, target))))
    kernels = list(every([k for g in groups for k in g.kernels]))
    own = [k for k in kernels if k.root.prim == "rows"]
    rest = iter(printed)
    calls = [(team, [next(rest) for _ in g.kernels]) for team, g in zip(teams, groups)]
    named: dict[str, list[Kernel]] = {}
    for p, k in zip(printed, (k for g in groups for k in g.kernels)):
        named.setdefault(p.name, []).append(k)
    dtypes = sorted({sum_dtype(k.dot) for k in kernels if k.dot is not None and k.kind != "convolution"
                     and (k.kind == "attention" or supported(k))}, key=str)
    net = around(lambda head: print_net(calls, pointer, scratch, optional, times, sizes, head))
    return Text([*shared, *printed], parse(net), dtypes, _support(own, C) if own else "",
                functools.reduce(greater, (p.scratch for p in printed), 0), named)


def print_program(groups: Sequence[Group], pointer: Callable[[Node], str], scratch: Callable[[int, int], str],
                  vector_bytes: int,
                  choose: Choose | None = None, optional: bool = False,
                  around: Around = lambda net: net(NET), times: str = "", sizes: str = "") -> tuple[str, int]:
    """C of a whole program and the bytes that each thread has for itself. scratch: C text of the address of
    such memory, from a group's place and the bytes. choose: measures forms of kernels that compete. optional: as in
    ``print_net``, as times. around: gives the function that runs all kernels, and is given what prints it under a head.
    """
    target = Target(vector_bytes, choose)
    try:
        text = print_text(groups, pointer, scratch, target, optional, around, times, sizes)
        own = max((thread_bytes(p.code) for p in text.functions), default=0)
        passes = ALL_PASSES if any(p.kind in BY_ELEMENT and not p.vectors for p in text.functions) else ""
        return passes + _whole(text.lines(), text.dtypes, target, text.vectors), own
    finally:
        forget()
