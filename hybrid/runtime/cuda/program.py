"""Compiled programs on CUDA: one module, launched as a list through the driver."""
from __future__ import annotations

import time
from typing import Any, Sequence

import numpy as np

from hybrid.codegen import cuda as printer

from ...device import Context, array_module
from ...ir import Node
from ...passes.pipeline import Planned
from ..report import Report, make_report
from . import driver as current_driver


class CudaProgram:
    """A compiled program. ``program(arrays)`` takes one device array an input slot and returns new output arrays;
    arrays in updated slots are overwritten. Each call has an arena of its own.
    """

    def __init__(self, planned: Planned, ctx: Context):
        begin = time.perf_counter()
        self.planned, self.ctx, self.xp = planned, ctx, array_module(ctx)
        self.driver = current_driver(ctx.device_id)
        self.report: Report = make_report(planned, f"CUDA ({self.driver.name})")
        self._layout()
        source, launches = printer.print_program(planned.fused.kernels)
        self._plan = None
        if launches:
            module = self.driver.load(source, [launch.name for launch in launches])
            self._plan = module.plan([(launch.name, (launch.blocks, 1, 1), (launch.threads, 1, 1), 0,
                                       tuple(self._place(n) for n in launch.args)) for launch in launches])
            self.report.source_path = str(module.source_path)
        self.report.source = source
        self.report.compile_seconds = time.perf_counter() - begin

    def _layout(self) -> None:
        fused = self.planned.fused
        self._inputs = [(n.shape, n.dtype) for n in fused.program.inputs]
        index: dict[Node, int] = {n: i for i, n in enumerate(fused.program.inputs)}
        self._constants = []
        for k in fused.kernels:
            for n in k.reads:
                if n.prim == "data" and n not in index:
                    index[n] = len(index)
                    self._constants.append(self.xp.asarray(np.frombuffer(n.attrs["value"], n.dtype).reshape(n.shape)))
        self._fresh = [n for n in dict.fromkeys(n for n, _ in fused.results) if n not in index]
        for n in self._fresh:
            index[n] = len(index)
        self._index = index
        self._offsets: list[int] = []
        outputs = len(fused.program.outputs)
        self._results = [(index[n], shape) for n, shape in fused.results[:outputs]]
        self._updates = [(slot, index[n], shape) for (slot, _), (n, shape) in zip(fused.program.updates, fused.results[outputs:])]
        self._inner: dict[Node, int] = {}

    def _place(self, n: Node) -> int:
        """Position of a stored value in the pointer table; values in the arena get theirs when first asked for."""
        if n in self._index:
            return self._index[n]
        if n not in self._inner:
            self._inner[n] = len(self._index) + len(self._inner)
            self._offsets.append(self.planned.memory.offsets[n])
        return self._inner[n]

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run. Updated inputs are written in place."""
        xp, pointer = self.xp, self.driver.pointer
        ready = []
        for i, (a, (shape, dtype)) in enumerate(zip(arrays, self._inputs)):
            if a.shape != shape or a.dtype != dtype:
                raise ValueError(f"input {i} is {a.dtype}{a.shape}, the program was compiled for {dtype}{shape}")
            ready.append(xp.ascontiguousarray(a))
        fresh = [xp.empty(n.shape, n.dtype) for n in self._fresh]
        table = [*ready, *self._constants, *fresh]
        arena = self.driver.alloc(max(self.planned.memory.arena, 1))
        if self._plan is not None:
            base = pointer(arena)
            self._plan.run([*(pointer(a) for a in table), *(base + o for o in self._offsets)])
        first, out, seen = len(table) - len(fresh), [], set()
        for i, shape in self._results:
            a = table[i].reshape(shape)
            out.append(a.copy() if i < first or i in seen else a)
            seen.add(i)
        new = [table[i].reshape(shape) for _, i, shape in self._updates]
        if len(new) > 1:                                   # an input that is another's new value: taken before it changes
            new = [v.copy() if i < first else v for v, (_, i, _) in zip(new, self._updates)]
        for (slot, _, _), value in zip(self._updates, new):
            arrays[slot][...] = value
        return out
