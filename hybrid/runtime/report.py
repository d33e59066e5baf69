"""What compiling decided, as data: kernels, reasons, memory, files."""
from __future__ import annotations

import math
from dataclasses import field
from typing import Any, Iterable, Mapping, Sequence

from ..base.records import dataclass
from ..ir import Node
from ..ir.access import MOVEMENT
from ..ir.batch_in_lanes import FORMS as BATCH_FORMS
from ..ir.kernel import Kernel, strip_reshape
from ..ir.node import describe, packed_product
from ..ir.winograd import WINOGRAD_WORDS
from ..passes.fusion_legality import LEAVES
from ..passes.pipeline import Planned


@dataclass
class KernelReport:
    """One kernel: its name, kind, the fused primitives, what it reads and writes, why its result is stored."""
    name: str
    kind: str
    nodes: list[str]
    reads: list[str]
    writes: list[str]
    reason: str
    # the operators and the user's lines that it computes, where they are known
    lines: list[tuple[str, str]] = field(default_factory=list)
    moved_bytes: int = 0                     # what it reads and writes, each array once
    products: int = 0                        # multiplications of its sums of products
    form: str = ""                           # how it is computed, and why other forms do not fit
    not_taken: list[tuple[str, str]] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)     # places in the report of the kernels whose results it reads


@dataclass
class Report:
    """The compile report.

    ``eager_kernels``: primitive operations that eager execution would launch. ``eager_bytes``: what they would
    allocate. ``arena_bytes``: intermediate values of the compiled program; ``output_bytes``: its results.
    ``planned_bytes``:
    both. ``bound_bytes``: results and the most intermediate bytes alive at once. ``scratch_bytes``: of kernels' working
    memory that found no place between the values. ``thread_bytes``: at most so much each thread has beside that, on its
    stack. ``written_in_place``: bytes of new values that are written straight over the arrays they replace, which are
    no results. For a recorded call, ``kept_bytes`` of the results are kept for the backward pass, whose report is
    ``backward``.
    """
    backend: str
    kernels: list[KernelReport] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    eager_kernels: int = 0
    eager_bytes: int = 0
    arena_bytes: int = 0
    bound_bytes: int = 0
    output_bytes: int = 0
    input_bytes: int = 0
    scratch_bytes: int = 0
    thread_bytes: int = 0
    offsets: list[tuple[str, int, int]] = field(default_factory=list)
    # of places in the arena: offset, bytes, and the first and last kernel that needs them
    spans: list[tuple[int, int, int, int]] = field(default_factory=list)
    in_place: list[tuple[str, str]] = field(default_factory=list)
    source_path: str = ""
    source: str = ""
    compile_seconds: float = 0.0
    written_in_place: int = 0
    kept_bytes: int = 0
    backward: "Report | None" = None
    # which numbers among the arguments are inputs, and why others not
    numbers: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)       # why sizes that vary have a program each
    programs: list[str] = field(default_factory=list)    # every program of the function, the oldest first
    watched: list[str] = field(default_factory=list)     # what hooks and debug.print cost: values beside the results
    layout: list[str] = field(default_factory=list)      # what the layout pass decided, and what is prepared once
    precision: list[str] = field(default_factory=list)   # what became of products that may be rounded, and why
    prepared_bytes: int = 0
    source_bytes: int = 0                                # of the parameters that prepared values come from,
    # of those that the prepared values hold bit for bit and nothing else reads,
    movable_bytes: int = 0
    evicted_bytes: int = 0                              # and of those whose buffers are evicted now

    # of a block that is trained: whether its loop runs as one program, else why not
    loop: str = ""

    @property
    def planned_bytes(self) -> int:
        """Bytes the program allocates: arena and results."""
        return self.arena_bytes + self.output_bytes

    def __str__(self) -> str:
        many = "" if len(self.kernels) == 1 else "s"
        lines = [f"{self.backend}: {self.eager_kernels} operations -> {len(self.kernels)} kernel{many}"]
        for k in self.kernels:
            lines.append(f"  {k.name} [{k.kind}] {' '.join(k.nodes)}")
            if k.form:
                lines.append(f"    as {k.form}")
                lines += [f"    not as {form}: {why}" for form, why in k.not_taken]
            lines.append(f"    reads {', '.join(k.reads) or 'nothing'}; writes {', '.join(k.writes)}; stored: "
                         f"{k.reason}")
        lines += [f"  not fused: {what}: {why}" for what, why in self.refusals]
        lines.append(f"  memory: eager {self.eager_bytes} bytes, planned {self.planned_bytes} "
                     f"(arena {self.arena_bytes}, results {self.output_bytes}), liveness bound {self.bound_bytes}"
                     + (f", kernels' working memory beyond {self.scratch_bytes}" if self.scratch_bytes else "")
                     + (f", of each thread's own {self.thread_bytes}" if self.thread_bytes else ""))
        lines += [f"  number: {what}" for what in self.numbers]
        lines += [f"  each size has a program of its own: {what}" for what in self.sizes]
        if len(self.programs) > 1:
            lines += [f"  one of {len(self.programs)} programs: {what}" for what in self.programs]
        lines += [f"  watched: {what}" for what in self.watched]
        lines += [f"  layout: {what}" for what in self.layout]
        lines += [f"  bf16: {what}" for what in self.precision]
        if self.prepared_bytes:
            lines.append(f"  prepared from parameters, again only when one changes: {self.prepared_bytes} bytes; of "
                         f"the parameters' {self.source_bytes} bytes "
                         f"{self.movable_bytes} stand in them unchanged and need no other place, "
                         f"{self.evicted_bytes} evicted now")
        if self.written_in_place:
            lines.append(f"  written over the arrays they replace: {self.written_in_place} bytes")
        if self.source_path:
            lines.append(f"  source: {self.source_path}")
        if self.loop:
            lines.append(f"  {self.loop}")
        if self.backward is not None:
            lines += [f"  kept for the backward pass: {self.kept_bytes} bytes (eager {self.eager_bytes})",
                      f"backward, {self.backward}"]
        return "\n".join(lines)


def note_in_place(report: Report, placed: Iterable[Node]) -> None:
    """Count values that are written over inputs, no longer as results."""
    size = sum(strip_reshape(n).nbytes for n in placed)
    report.written_in_place = size
    report.output_bytes -= size
    report.bound_bytes -= size


def note_blocks(report: Report, count: int, parts: int) -> None:
    """Count what the report says of one block for the whole batch. parts: blocks that are computed at the same time."""
    report.bound_bytes += report.output_bytes * (count - 1)
    report.output_bytes *= count
    report.eager_bytes *= count
    report.arena_bytes *= parts
    report.scratch_bytes *= parts
    report.layout.insert(0,
                         f"batch computed in {count} blocks: the values between the layers of one stay in the caches; "
                         f"shapes are those of one block")


def _joined(parts: Sequence[KernelReport]) -> KernelReport:
    """Kernels that run together are one."""
    if len(parts) == 1:
        return parts[0]

    def every(lists: Iterable[list[Any]]) -> list[Any]:
        return [x for names in lists for x in names]
    return KernelReport(parts[0].name, "multi-tensor", every(p.nodes for p in parts), every(p.reads for p in parts),
                        every(p.writes for p in parts), parts[0].reason,
                        list(dict.fromkeys(every(p.lines for p in parts))),
                        sum(p.moved_bytes for p in parts), sum(p.products for p in parts))


def make_report(planned: Planned, backend: str) -> Report:
    """The report of a planned program."""
    fused, memory = planned.fused, planned.memory
    ops = [n for n in planned.source.order() if n.prim not in LEAVES and n.prim not in MOVEMENT - {"pad"}
           and n.prim not in ("detach", "with_grad")]
    outputs = {strip_reshape(n): strip_reshape(n).nbytes for n in fused.program.roots}
    report = Report(backend, refusals=list(fused.refusals), eager_kernels=len(ops),
                    eager_bytes=sum(n.nbytes for n in ops),
                    arena_bytes=memory.arena, output_bytes=sum(outputs.values()),
                    bound_bytes=memory.bound + sum(outputs.values()),
                    input_bytes=sum(n.nbytes for n in planned.source.inputs), layout=list(planned.notes))
    report.prepared_bytes = sum(n.nbytes for n in fused.program.inputs[len(planned.source.inputs):])
    groups = [g for g in planned.groups if any(k.root.size for k in g.kernels)]
    report.kernels = [_joined([_one(k, planned.origins) for k in g.kernels]) for g in groups]
    maker = {n: i for i, g in enumerate(groups) for k in g.kernels for n in k.stores}
    for i, g in enumerate(groups):
        report.kernels[i].sources = sorted({maker[n] for k in g.kernels for n in k.reads if n in maker} - {i})
    report.spans = [(s.at, s.size, s.first, s.last) for s in memory.spans]
    report.offsets = [(describe(n), at, n.nbytes) for n, at in memory.offsets.items()]
    report.in_place = [(describe(n), describe(d)) for n, d in memory.in_place.items()]
    return report


def note_forms(report: Report, planned: Planned) -> None:
    """The forms that the kernels were printed in, and why others do not fit."""
    groups = [g for g in planned.groups if any(k.root.size for k in g.kernels)]
    for row, g in zip(report.kernels, groups):
        row.form, row.not_taken = g.kernels[0].form, list(g.kernels[0].not_taken)


def _one(k: Kernel, origins: Mapping[Node, tuple[str, str]]) -> KernelReport:
    inside = [describe(m) for m in reversed(list(k.members)) if m.prim not in LEAVES and m.prim not in MOVEMENT]
    kind = "contraction" if k.dot is not None and packed_product(k.dot) else k.kind
    return KernelReport(f"k{k.number}", kind, inside, [describe(n) for n in k.reads],
                        [describe(n) for n in k.stores], k.reason,
                        list(dict.fromkeys(origins[m] for m in reversed(list(k.members)) if m in origins)),
                        sum(n.nbytes for n in {*k.reads, *k.stores}), _products(k))


def _products(k: Kernel) -> int:
    """Multiplications of a kernel's sums of products."""
    if k.kind == "loop":
        return k.root.attrs["length"] * sum(_products(i) for i in k.inner.fused.kernels)
    return sum(map(_products_of, k.members))


def _products_of(n: Node) -> int:
    if n.prim == "dot":
        ca, _ = n.attrs["contract"]
        return n.size * math.prod(n.args[0].shape[i] for i in ca)
    if n.prim != "conv":
        return 0
    x, filters = n.args
    pictures = x.shape[0] * (x.shape[-1] if n.attrs["form"] in BATCH_FORMS else 1)
    size = filters.size
    if n.attrs["form"] == WINOGRAD_WORDS:              # weights of 9 taps that were transformed to 16 points
        size = size * 9 // 16
    return pictures * math.prod(n.attrs["out"]) * size
