"""Compiled programs on CUDA: one module, launched as a list through the driver."""
from __future__ import annotations

import contextlib
import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from ...base.records import dataclass
from hybrid.base import config
from hybrid.codegen import cuda as printer
from hybrid.codegen.program.merged_launches import APART, COUNTER, Span, merge_launches

from ...base.device import Context, array_module, check_dtype
from ...base.errors import CompileError, DeviceError, OutOfMemoryError
from ...base.gpu_scope import and_free, make_room, megabytes
from ...ir import Node, Program
from ...ir.parse import parse
from ...ir.stmt import text_of
from ...passes.changes import note_updates
from ...passes.memory import in_place_updates, rounded
from ...passes.pipeline import Planned, plan
from ...passes.horizontal_fusion import Joining
from .. import launcher
from ..parts import one_part
from ..recipe import Part, Spec
from ..report import Report, make_report, note_forms, note_in_place
from . import driver as current_driver
from .bound import Bound, bind
from .interface import Launch
from .texts import share_kernels

JOINING = Joining(printer.joins, printer.MOST_POINTERS, printer.turns, printer.takes_attention,
                  over_scores=printer.takes_over_scores, statistics=printer.why_not_carried)


def planned_for(program: Program, ctx: Context, frozen: frozenset[int] = frozenset()) -> Planned:
    """A program ready for the code generator, with kernels that its GPU has and convolutions in the order in which the
    tensor cores read. frozen: slots of inputs that seldom change."""
    with current_driver(ctx.device_id).active():
        arch, processors = current_driver(ctx.device_id).arch, current_driver(ctx.device_id).processors
    with printer.printing_for(arch, processors=processors):
        return plan(program, replace(JOINING, channels_last=lambda d: printer.convolves_last(d, arch)), frozen)


ALIGN = 16                      # bytes: kernels read and write whole vectors
SPILLED = 16                    # bytes of registers that a kernel may put into memory
# kernels that write each element once, after they read there
ONCE = ("elementwise", "contraction", "reduction", "row", "concat")


class CudaProgram:
    """A compiled program. ``program(arrays)`` takes one device array an input slot and returns new output arrays;
    arrays in updated slots are overwritten. Each call has an arena of its own, so calls from several threads and on
    several streams do not meet.
    """

    compiled_here = compiled_behind = 0      # runs of the C compiler

    def __init__(self, planned: Planned, ctx: Context):
        begin = time.perf_counter()
        self.planned, self.ctx, self.xp = planned, ctx, array_module(ctx)
        self.driver = current_driver(ctx.device_id)
        if self.driver.capturing():
            raise DeviceError("a compiled program is called for the first time while its stream is being captured for "
                              "a CUDA graph: compiling, and copying constants to the GPU, cannot be part of a graph. "
                              "Call it once with arrays of these shapes before begin_capture()")
        for node in (*planned.fused.program.inputs, *planned.fused.program.outputs):
            check_dtype(node.dtype, ctx)
        self.report: Report = make_report(planned, f"CUDA ({self.driver.name})")
        self.given, self.slots = len(planned.source.inputs), planned.slots
        self._layout()
        self._offsets: list[tuple[int, int]] = []              # entry of the table (-1: the arena) and bytes behind it
        self._inner: dict[Any, int] = {}
        self._arena = rounded(planned.memory.arena) if planned.memory.arena else 0
        self._plan: Any = None
        self._counts = False                                   # whether launches have blocks that wait for each other
        self._kept: list[Any] = []                             # memory that graphs of the caller's use
        with self._prepared() as prepare:
            text, launches = self._print_and_load()
            self.prepare = prepare()                           # computes inputs behind those of the caller
        if self.prepare is not None:
            self.report.source_bytes = sum(planned.source.inputs[s].nbytes for s in self.slots)
        note_forms(self.report, planned)
        if launches:
            self._launches = [Launch(launch.name, (launch.blocks, 1, 1), (launch.threads, 1, 1), launch.shared,
                                     tuple(self._place(n) for n in launch.args), launch.cooperative,
                                     tuple(launch.maps))
                              for launch in launches]
            self._plan = self._module.plan(self._launches)
            self.report.source_path = str(self._module.source_path)
        self.report.source, self.report.scratch_bytes = text.source, text.scratch
        self.report.compile_seconds = time.perf_counter() - begin
        launcher.prepare()                                     # the first result does not wait for it

    @contextlib.contextmanager
    def _prepared(self) -> Iterator[Callable[[], Preparation | None]]:
        """Scope while another thread compiles the program that prepares values; gives a function that waits for it."""
        whole = self.planned.prepare
        if whole is None:
            yield lambda: None
            return
        with ThreadPoolExecutor(1) as beside:
            yield beside.submit(copy_context().run, lambda: Preparation(planned_for(whole, self.ctx), self.ctx)).result

    def _print_and_load(self) -> tuple[printer.PrintedCuda, list[printer.Launch]]:
        """Prints the program and loads its kernels; returns the text and the launches. If the module does not compile,
        or the blocks of a cooperative launch cannot all be resident, it prints again without cooperative launches and
        without merged ones."""
        moves, written = [] if self._swaps else self._moves, list(self._placed)
        for processors in dict.fromkeys((self.driver.processors, 0)):
            text = printer.print_program(self.planned.groups, moves, self.driver.arch, written, processors,
                                         self.driver.no_maps)
            # behind the working memory: tickets of blocks that share a result, then the barrier's counter
            self._tickets = self._arena + rounded(text.scratch)
            self._counter = self._tickets + (rounded(4 * text.tickets) if text.tickets else 0)
            self._arena_bytes = self._counter
            if not text.launches:
                break
            try:
                launches = self._load_few(text, processors)
            except CompileError:                               # of stages together: too much shared memory
                if not processors:
                    raise
                continue
            if all(launch.blocks <= self._module.resident(launch.name, launch.threads, launch.shared)
                   for launch in launches if launch.cooperative):
                return text, launches
        return text, []

    def _load_few(self, text: printer.PrintedCuda, processors: int) -> list[printer.Launch]:
        """Loads the module and returns its launches. Launches of several kernels take the first form in which they
        spill no more than ``SPILLED``."""
        forms: dict[str, int] = {}
        why: list[str] = []
        while True:
            source, launches, merged = self._few_launches(text, processors, forms)
            self._module: Any = self.driver.load(source, list(dict.fromkeys(launch.name for launch in launches)))
            spills = {name: self._module.spilled(stands) for name, stands in merged.items()}
            again = {name: n for name, n in spills.items() if n > SPILLED}
            if not again:
                self.report.layout += why
                return launches
            for name, n in again.items():
                forms[name] = forms.get(name, 0) + 1
                how = "not merged" if forms[name] == APART else "compiled for more registers a thread"
                why.append(f"launch {name}: {how}, since {n} bytes were spilled on {self.driver.arch}")

    def _few_launches(self, text: printer.PrintedCuda, processors: int,
                      forms: dict[str, int]) -> tuple[str, list[printer.Launch], dict[str, str]]:
        """The module with equal kernels as one function, and neighbours of few blocks in one launch; by name of
        each merged launch, the function that it runs. forms: as of ``merge_launches``."""
        code, launches = share_kernels(parse(text.source), text.launches)
        merged: dict[str, str] = {}
        if not config.cuda_sync():                             # which names the kernel that fails
            code, few = merge_launches(code, launches, processors, self._span, forms)
            code, launches = share_kernels(code, few)
            merged = {one.name: shared.name for one, shared in zip(few, launches) if one.waves}
        self._counts = any(launch.cooperative for launch in launches)
        self._arena_bytes = self._counter + COUNTER * self._counts
        return text_of(code), launches, merged

    # ---- the pointer table: inputs, constants, new arrays, places in the arena
    def _layout(self) -> None:
        fused = self.planned.fused
        inputs, outputs = fused.program.inputs, len(fused.program.outputs)
        self._inputs = [(n.shape, n.dtype) for n in inputs]
        index: dict[Node, int] = {n: i for i, n in enumerate(inputs)}
        self._constants = []
        with self.driver.active():
            for n in [*(n for k in fused.kernels for n in k.reads), *(n for n, _ in fused.results)]:
                if n.prim == "data" and n not in index:
                    index[n] = len(index)
                    self._constants.append(self.xp.asarray(np.frombuffer(n.attrs["value"], n.dtype).reshape(n.shape)))
            if self._constants:
                self.driver.synchronize()                      # other streams may read them at once
        updates = [(slot, n) for (slot, _), (n, _) in zip(fused.program.updates, fused.results[outputs:])
                   if n is not inputs[slot]]
        self._written = {slot for slot, _ in updates}
        self._placed = placed = in_place_updates(fused, ONCE)
        note_in_place(self.report, placed)
        note_updates(fused, placed)
        self._moves = [(n, inputs[slot]) for slot, n in updates if n not in placed]
        # a new value is another input: copies must wait for each other
        self._swaps = any(n.prim == "input" for n, _ in self._moves)
        fresh = [n for n in dict.fromkeys(n for n, _ in fused.results) if n not in index and n not in placed]
        self._fresh = [(n.shape, n.dtype) for n in fresh]
        self._first = len(index)
        self._table = self._first + len(fresh)
        self._index = {**index, **{n: self._first + k for k, n in enumerate(fresh)}, **placed}
        self._results = [(self._index[n], shape) for n, shape in fused.results[:outputs]]

    def _place(self, n: printer.Argument) -> int:
        """Position of a stored value in the pointer table; values in the arena, and places within values, get theirs
        when first asked for."""
        if isinstance(n, Node) and n in self._index:
            return self._index[n]
        if n not in self._inner:
            self._inner[n] = self._table + len(self._inner)
            self._offsets.append(self._where(n))
        return self._inner[n]

    def _where(self, n: printer.Argument) -> tuple[int, int]:
        """Entry of the table (-1: the arena) in whose memory a value lies, and bytes behind its begin."""
        base, offset = (n.base, n.offset) if isinstance(n, printer.At) else (n, 0)
        if base is printer.BARRIER or base is printer.TICKETS:
            return -1, self._counter if base is printer.BARRIER else self._tickets
        if not isinstance(base, Node):
            return -1, self._arena + offset
        if base in self._index:
            return self._index[base], offset
        return -1, self.planned.memory.offsets[base] + offset

    def _span(self, n: printer.Argument) -> Span:
        """The bytes that an argument may be of."""
        entry, first = self._where(n)
        return Span(entry, first, first + n.nbytes if isinstance(n, Node) else math.inf)

    def bind(self, fixed: Sequence[int], arrays: Sequence[Any], old: Any = None) -> "Bound | None":
        """The program with some inputs (parameters) kept between calls; None where it cannot be called that way: then
        call the program itself. old: an earlier one."""
        return bind(self, fixed, arrays, old)

    # ---- calls
    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run. Updated inputs are written in place."""
        with self.driver.active(), self.enough_memory():
            return self._run([*arrays, *self.prepare([arrays[s] for s in self.slots])] if self.prepare else arrays)

    @contextlib.contextmanager
    def enough_memory(self) -> Iterator[None]:
        """Says what the program needs where there is too little memory for it."""
        try:
            yield
        except MemoryError as err:
            raise OutOfMemoryError(self._short()) from err

    def _short(self) -> str:
        results = sum(math.prod(shape) * dtype.itemsize for shape, dtype in self._fresh)
        inputs = sum(math.prod(shape) * dtype.itemsize for shape, dtype in self._inputs)
        return (f"{self.ctx} is out of memory: a call of this program takes {megabytes(results + self._arena_bytes)} "
                f"({megabytes(results)} of results, {megabytes(self._arena_bytes)} of working memory) beside "
                f"{megabytes(inputs)} of inputs{and_free(self.driver.memory)}. {make_room(self.ctx)}")

    def _ready(self, i: int, a: Any) -> tuple[Any, int]:
        """An input as kernels read it (C order, on a 16-byte boundary), and its address."""
        shape, dtype = self._inputs[i]
        if not isinstance(a, self.xp.ndarray):
            raise DeviceError(f"input {i} is a {type(a).__module__}.{type(a).__name__}, the program runs on "
                              f"{self.ctx}; move it with as_in_context({self.ctx})")
        if a.shape != shape or a.dtype != dtype:
            raise ValueError(f"input {i} is {a.dtype}{a.shape}, the program was compiled for {dtype}{shape}")
        if a.flags.c_contiguous:
            at = self.driver.pointer(a)
            if at % ALIGN == 0 and (i not in self._written or getattr(a.flags, "writeable", True)):
                return a, at
        copy = self.xp.array(a, order="C")
        return copy, self.driver.pointer(copy)

    def _run(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> list[Any]:
        """Run. into: arrays for results that the program makes."""
        xp, pointer = self.xp, self.driver.pointer
        table, pointers = [], []
        for i, a in enumerate(arrays):
            ready, at = self._ready(i, a)
            table.append(ready)
            pointers.append(at)
        table += self._constants
        fresh = [xp.empty(shape, dtype) for shape, dtype in self._fresh] if into is None else [*into]
        taken = {i: table[i].copy() for i, _ in self._results if i < self._first}      # before an update changes it
        if self._plan is not None:
            pointers += [pointer(a) for a in self._constants]
            pointers += [pointer(a) for a in fresh]
            arena = self.working_memory(self._arena_bytes) if self._arena_bytes else None
            base = 0 if arena is None else pointer(arena)
            pointers += [(base if i < 0 else pointers[i]) + o for i, o in self._offsets]
            self._plan.run(pointers)
            if self.driver.capturing():                        # the graph writes there whenever it is launched
                self._kept += [arena, *fresh, *(r for r, a in zip(table, arrays) if r is not a)]
        table += fresh
        self._update(arrays, table)
        out, seen = [], set()
        for i, shape in self._results:
            a = taken[i] if i < self._first else table[i]
            out.append(a.copy().reshape(shape) if i in seen else a if a.shape == shape else a.reshape(shape))
            seen.add(i)
        return out

    def working_memory(self, nbytes: int) -> Any:
        """Memory for a call, in which tickets, flags of shares and the counter of barriers are 0, which each launch
        leaves behind. (No memory can be used after a kernel that failed: CUDA's context is lost with it.)"""
        arena = self.driver.alloc(nbytes)
        if self._arena_bytes > self._tickets:
            self.driver.clear(arena, self._tickets, self._arena_bytes - self._tickets)
        return arena

    def _update(self, arrays: Sequence[Any], table: list[Any]) -> None:
        """What the kernels could not write into the caller's arrays themselves."""
        if self._swaps:
            new = [(self._index[leaf], table[self._index[n]]) for n, leaf in self._moves]
            for slot, value in [(slot, value.copy()) for slot, value in new]:
                table[slot][...] = value.reshape(table[slot].shape)
        for slot in self._written:
            if table[slot] is not arrays[slot]:
                arrays[slot][...] = table[slot]


@dataclass
class PreparationRecipe:
    """What is known of a program that prepares values (``Described`` of hybrid/runtime/prepacked.py). own: shape and
    dtype of each result, where each is an array of its own."""
    inputs: list[Spec]
    results: list[tuple[int, tuple[int, ...]]]
    parts: list[Part]
    own: list[Spec]

    def own_results(self) -> list[Spec] | None:
        """Shape and dtype of each result, if each is an array of its own."""
        return self.own if self.parts else None


class Preparation(CudaProgram):
    """A program that computes values from parameters: all of them, when one of the parameters was written."""

    keeps_memory = True              # graphs read the values by address: new ones are written over the old ones

    def __init__(self, planned: Planned, ctx: Context):
        super().__init__(planned, ctx)
        places = [i - self._first for i, _ in self._results]
        own = sorted(places) == list(range(len(self._fresh)))
        self._order = [places.index(k) for k in range(len(places))] if own else []
        specs = [(shape, self._fresh[k][1]) for k, (_, shape) in zip(places, self._results)] if own else []
        self.recipe = PreparationRecipe(self._inputs, self._results, one_part(planned.source) if own else [], specs)

    def reads(self, a: Any, spec: Spec) -> bool:
        """Whether it can read an array in place."""
        return (isinstance(a, self.xp.ndarray) and (a.shape, a.dtype) == spec and a.flags.c_contiguous
                and self.driver.pointer(a) % ALIGN == 0)

    def memory(self, specs: Sequence[Spec]) -> list[Any]:
        """New arrays for results."""
        return [self.xp.empty(shape, dtype) for shape, dtype in specs]

    def run_part(self, given: Mapping[int, Any], results: Mapping[int, Any]) -> None:
        """Compute all results, into arrays that are there. Returns when they are: other streams may read them."""
        self._run([given[s] for s in range(self.given)], [results[k] for k in self._order])
        self.driver.synchronize()
