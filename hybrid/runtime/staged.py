"""Programs that call Python code on the way: cut at the calls (ir/host.py), with a compiled program for each stretch
between."""
from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

import numpy as np

from ..base.errors import HybridError
from .prepacked import buffer_of
from ..ir import PRIMS, Node, Program
from ..ir import input as leaf
from ..passes.rewrite import rebuild
from .observers import OBSERVERS, observed
from .report import Report

FREE = frozenset({"const", "data", "iota"})
_OF_FREE = frozenset({"expand", "reshape", "cast", "permute", "slice", "pad"})
Compile = Callable[[Program], Any]


def has_calls(program: Program) -> bool:
    """Whether a program calls Python code; inside a loop that is an error."""
    if any(_calls_within(n) for n in program.order() if n.prim == "scan"):
        raise HybridError("a custom operator (Python code) cannot be called from inside a compiled loop (foreach, "
                          "while_loop, cond): "
                          "call it outside of the loop, or run this code without hybridize")
    return any(n.prim == "host" for n in program.order())


def _calls_within(scan: Node) -> bool:
    body = scan.attrs["body"]
    return any(n.prim == "host" or n.prim == "scan" and _calls_within(n) for n in body.order())


def _stretches(program: Program) -> dict[Node, int]:
    """The number of the stretch in which each value is computed, and before which each call is made: results and
    updates as soon as they can be, other values in the first stretch that needs them. So a call is made as soon as all
    that it takes is there, and what only later ones take is computed while it goes on (a sum over processes)."""
    order, soonest, at = program.order(), {}, {}  # type: Sequence[Node], dict[Node, int], dict[Node, int]
    for n in order:
        soonest[n] = max((soonest[a] for a in n.args), default=0) + (n.prim == "host")
    for n in program.roots:
        at[n] = soonest[n]
    for n in reversed(order):
        at[n] = soonest[n] if n.prim in ("host", "host_item") else at.get(n, soonest[n])
        for a in n.args:
            at[a] = min(at.get(a, at[n]), at[n] - (n.prim == "host"))
    for n in order:
        if n.prim == "item":                                 # a loop has no value of its own that could be handed on
            at[n] = at[n.args[0]]
    return at


class StagedProgram:
    """``program(arrays)`` as other executables: stretch, calls, stretch, … Updated inputs are written by the stretch
    that computes their new values, where nothing reads the old ones later, or when all has run."""

    def __init__(self, program: Program, xp: Any, compile_part: Compile):
        self.program, self.xp, self._compile_part = program, xp, compile_part
        self._free: dict[Node, bool] = {}
        order = program.order()
        self._at = _stretches(program)
        count = 1 + max(self._at.values())
        self._in_place = self._updated_in_place(order)
        self._written = [[(n, slot) for n, slot in self._in_place.items() if self._at[n] == k] for k in range(count)]
        self._ready = [n for n in program.roots if n.prim in ("input", "host_item")]
        self._calls = [sorted((n for n in order if n.prim == "host" and self._at[n] == k),
                              key=lambda n: n.attrs["call"].serial) for k in range(count)]
        self._stretches = [self._stretch(order, k, compile_part) for k in range(count)]

    def _updated_in_place(self, order: Sequence[Node]) -> dict[Node, int]:
        """New values that a stretch writes over the old ones: by the value, the updated slot. No results are among
        them, nor what code of the user's is given, which may keep it."""
        p, values = self.program, [n for _, n in self.program.updates]
        told = {*p.outputs, *(a for n in order if n.prim == "host" and n.attrs["call"].shows for a in n.args)}
        last, until = max(self._at.values()), {}  # type: int, dict[Node, int]     # the last stretch that reads an input
        for n in order:
            until.update((a, max(until.get(a, 0), self._at[n])) for a in n.args if a.prim == "input")
        return {n: slot for slot, n in p.updates
                if n.prim not in ("input", "host_item") and not self._is_free(n) and n not in told
                and values.count(n) == 1 and until.get(p.inputs[slot], 0) <= self._at[n]
                and (self._at[n] == last or p.inputs[slot] not in p.roots)}     # which are copied before the last one

    def _is_free(self, n: Node) -> bool:
        """Whether a value is made of constants alone: it is made again in each stretch."""
        if n not in self._free:
            self._free[n] = n.prim in FREE or n.prim in _OF_FREE and all(self._is_free(a) for a in n.args)
        return self._free[n]

    def _given(self, n: Node, k: int) -> bool:
        """Whether stretch k finds a value ready."""
        return not self._is_free(n) and (n.prim in ("input", "host_item") or self._at[n] < k)

    def _stretch(self, order: Sequence[Node], k: int, compile_part: Compile) -> Any:
        """(values it reads, values it gives, their program, executable), or None."""
        ends = {*self.program.roots, *(a for n in order if n.prim == "host" for a in n.args)}
        later = {a for n in order if self._at[n] > k for a in n.args}
        gives = [n for n in order if n.prim not in ("input", "host", "host_item") and self._at[n] == k and
                 (n in ends or n in later and not self._is_free(n))]
        if not gives:
            return None
        reads: list[Node] = []
        new: dict[Node, Node] = {}
        wanted, todo = set(gives), list(gives)
        while todo:
            n = todo.pop()
            for a in () if self._given(n, k) else n.args:
                if a not in wanted:
                    wanted.add(a)
                    todo.append(a)
        for n in order:
            if n in wanted:
                if self._given(n, k):
                    new[n] = leaf(len(reads), n.shape, n.dtype)
                    reads.append(n)
                else:
                    new[n] = rebuild(n, [new[a] for a in n.args])
        over = {n: slot for n, slot in self._written[k] if n in gives}
        gives = [n for n in gives if n not in over]
        for slot in over.values():
            n = self.program.inputs[slot]
            if n not in reads:
                new[n] = leaf(len(reads), n.shape, n.dtype)
                reads.append(n)
        updates = tuple((reads.index(self.program.inputs[slot]), new[n]) for n, slot in over.items())
        part = Program(tuple(new[n] for n in reads), tuple(new[n] for n in gives), updates)
        part.memo["name"] = self.program.memo.get("name", "a program")
        part.memo["origins"] = {new[n]: at for n, at in self.program.memo.get("origins", {}).items() if n in new}
        return reads, gives, part, compile_part(part)

    def parts(self) -> list[Program]:
        """The compiled programs between the calls."""
        return [s[2] for s in self._stretches if s is not None]

    @functools.cached_property
    def report(self) -> Report:
        """The reports of all stretches in one."""
        found = [s[3].report for s in self._stretches if s is not None]
        out = Report(found[0].backend if found else "Python")
        for r in found:
            out.kernels += r.kernels
            out.refusals += r.refusals
            for name in ("eager_kernels", "eager_bytes", "arena_bytes", "bound_bytes", "output_bytes", "input_bytes",
                         "scratch_bytes", "compile_seconds"):
                setattr(out, name, getattr(out, name) + getattr(r, name))
            out.source_path, out.source = out.source_path or r.source_path, out.source + r.source
        out.refusals += [(n.attrs["call"].name, "Python code, called between compiled parts") for calls in self._calls
                         for n in calls]
        return out

    def bind(self, fixed: Sequence[int], arrays: Sequence[Any], old: Any = None) -> "BoundStages | None":
        """The program with some inputs kept between calls, as ``CpuProgram.bind``; None where that cannot be."""
        if self.xp is not np:
            return None
        kept = {slot: buffer_of(a) for slot, a in zip(fixed, arrays)}
        by_node = {self.program.inputs[slot]: a for slot, a in kept.items()}
        bound = [s and _bound(s, by_node, self._compile_part) for s in self._stretches]
        return BoundStages(self, kept, bound) if False not in bound else None

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run; updated inputs are written in place."""
        return self.run(arrays, self._stretches)

    def run(self, arrays: Sequence[Any], stretches: Sequence[Any]) -> list[Any]:
        """Run by executables of the stretches."""
        value: dict[Node, Any] = dict(zip(self.program.inputs, arrays))
        seen, ready = {id(a) for a in arrays}, {}  # type: set[int], dict[Node, Any]
        for k, (calls, stretch) in enumerate(zip(self._calls, stretches)):
            for n in calls:
                results = PRIMS["host"].eager(self.xp, n, *(self._value(a, value) for a in n.args))
                value[n] = results
            if k == len(self._calls) - 1:                      # the last stretch writes over inputs
                ready = {n: self._kept(n, value, seen) for n in self._ready}
            if stretch is not None:
                reads, gives, part, exe = stretch
                given = [self._value(n, value) for n in reads]
                value.update(zip(gives, observed(part, exe, given) if OBSERVERS else exe(given)))
                value.update((n, arrays[slot]) for n, slot in self._written[k])
        outputs = [self._own(ready[n] if n in ready else self._value(n, value), seen) for n in self.program.outputs]
        updates = [(slot, ready[n] if n in ready else self.xp.array(self._value(n, value)))
                   for slot, n in self.program.updates if n not in self._in_place]
        for slot, new in updates:
            arrays[slot][...] = new
        return outputs

    def _kept(self, n: Node, value: dict[Node, Any], seen: set[int]) -> Any:
        """A result of a call, or an input, as it is before the last stretch: a copy where somebody may write it."""
        x = self._value(n, value)
        lent = n.prim == "host_item" and n.args[0].attrs["call"].lends
        return self.xp.array(x) if lent or id(x) in seen or any(n is u for _, u in self.program.updates) else x

    def _value(self, n: Node, value: dict[Node, Any]) -> Any:
        return value[n.args[0]][n.attrs["index"]] if n.prim == "host_item" else value[n]

    def _own(self, x: Any, seen: set[int]) -> Any:
        """Results are new arrays, each its own."""
        if id(x) in seen:
            x = self.xp.array(x)
        seen.add(id(x))
        return x


def _bound(stretch: Any, fixed: dict[Node, Any], compile_part: Compile) -> Any:
    """A stretch by an executable that keeps the addresses of fixed inputs and is given the other ones; False where one
    cannot be used in place."""
    reads, gives, part, exe = stretch
    made = compile_part(part)
    if not hasattr(made, "bind"):
        return stretch
    slots = [i for i, n in enumerate(reads) if n in fixed]
    bound = made.bind(slots, [fixed[reads[i]] for i in slots])
    if bound is None:
        return False
    every = [fixed.get(n) for n in reads]
    free = [i for i, n in enumerate(reads) if n not in fixed]

    def call(given: Sequence[Any]) -> Any:
        found = bound(*given)
        if found is None:                                    # an array that a call gave has another layout
            arrays = list(every)
            for i, a in zip(free, given):
                arrays[i] = a
            found = exe(arrays)
        return found
    return [reads[i] for i in free], gives, part, call


class BoundStages:
    """Such a program whose fixed inputs keep their addresses between calls, as ``bound.Bound``. There is no launcher of
    it: Python code is called on the way."""
    _checks = ()

    def __init__(self, program: StagedProgram, fixed: dict[int, Any], stretches: Sequence[Any]):
        self._program, self._stretches, self._fixed, self.calls = program, stretches, fixed, 0
        self._free = [i for i in range(len(program.program.inputs)) if i not in fixed]

    def __call__(self, *arrays: Any) -> list[Any]:
        """Outputs, of the remaining inputs in slot order."""
        self.calls += 1
        given = dict(zip(self._free, arrays))
        return self._program.run([self._fixed[i] if i in self._fixed else given[i]
                                  for i in range(len(self._program.program.inputs))], self._stretches)

    def launcher(self, *_: Any) -> None:
        """None."""

    launched = launcher

    def uses(self) -> int:
        """How often it was called."""
        return self.calls

    def changed(self) -> bool:
        """Whether something prepared of its inputs is of old values: nothing is prepared."""
        return False

    def evicted(self) -> int:
        """Bytes of evicted parameters: none."""
        return 0
