"""Programs that call Python code on the way: cut at the calls (ir/host.py), with a compiled program for each stretch
between."""
from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

import numpy as np

from ..base.errors import HybridError
from ..ir import PRIMS, Node, Program, reached
from ..ir import input as leaf
from ..passes.rewrite import rebuild
from .bound_staged import BoundStaged
from .observers import OBSERVERS, observed
from .report import Report

HOST = PRIMS["host"].eager
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
        self._ready = [n for n in program.roots if n.prim in ("input", "host_item")]
        self._calls = [sorted((n for n in order if n.prim == "host" and self._at[n] == k),
                              key=lambda n: n.attrs["call"].serial) for k in range(count)]
        self._stretches = [self._stretch(order, k, compile_part) for k in range(count)]
        self._numbered()
        self.alone = self._one_call(xp)

    def _one_call(self, xp: Any) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
        """A function that gives a program's outputs, where the program is nothing but one call of one of the library's
        own functions, which makes new arrays of the declared kinds. None for other programs."""
        program, calls = self.program, [n for calls in self._calls for n in calls]
        if (len(calls) != 1 or any(self._stretches) or program.updates or len(set(program.outputs)) < program.count
            or any(n.prim != "host_item" for n in program.outputs) or calls[0].attrs["call"].shows):
            return None
        call, slots = calls[0].attrs["call"], [program.inputs.index(a) for a in calls[0].args]
        run, wanted = call.run, [n.attrs["index"] for n in program.outputs]
        if slots == [*range(len(program.inputs))] and wanted == [*range(len(call.outputs))]:
            return functools.partial(run, xp)

        def picked(arrays: Sequence[Any]) -> Sequence[Any]:
            found = run(xp, [arrays[i] for i in slots])
            return [found[i] for i in wanted]
        return picked

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
        wanted = set(reached(gives, lambda n: not self._given(n, k)))
        for n in order:
            if n in wanted:
                if self._given(n, k):
                    new[n] = leaf(len(reads), n.shape, n.dtype)
                    reads.append(n)
                else:
                    new[n] = rebuild(n, [new[a] for a in n.args])
        over = {n: slot for n, slot in self._in_place.items() if n in gives}
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

    def bind(self, fixed: Sequence[int], arrays: Sequence[Any], old: Any = None) -> BoundStaged | None:
        """The program with some inputs (parameters) kept between calls; None on a GPU."""
        return BoundStaged(self, dict(zip(fixed, arrays))) if self.xp is np else None

    def _numbered(self) -> None:
        """Give each value that a call hands on a number: inputs, results of calls, what stretches give; and copies of
        results that are taken before the last stretch writes."""
        program = self.program
        slots: dict[Node, int] = {n: i for i, n in enumerate(program.inputs)}
        self._count = len(program.inputs)

        def new(count: int = 1) -> int:
            self._count += count
            return self._count - count
        self._plan = []
        for calls, stretch in zip(self._calls, self._stretches):
            made = []
            for n in calls:
                slots[n] = new(len(n.attrs["call"].outputs))
                made.append((n, [self._slot(a, slots) for a in n.args], slots[n]))
            reads = [self._slot(n, slots) for n in stretch[0]] if stretch is not None else []
            first = new(len(stretch[1])) if stretch is not None else 0
            slots.update((n, first + i) for i, n in enumerate(stretch[1] if stretch is not None else ()))
            self._plan.append((made, stretch, reads, first))
            slots.update((n, slot) for n, slot in self._in_place.items() if self._at[n] == len(self._plan) - 1)
        kept = {n: new() for n in dict.fromkeys(self._ready)}
        written = {n for _, n in program.updates}
        self._kept = [(self._slot(n, slots), slot, n in written or _lent(n)) for n, slot in kept.items()]
        slots.update(kept)
        self._outputs = [self._slot(n, slots) for n in program.outputs]
        self._updates = [(slot, self._slot(n, slots), n not in kept) for slot, n in program.updates
                         if n not in self._in_place]

    def _slot(self, n: Node, slots: dict[Node, int]) -> int:
        return slots[n] if n in slots else slots[n.args[0]] + n.attrs["index"]

    def bound_plan(self, fixed: dict[int, Any]) -> list[Any]:
        """What ``run`` does, with stretches that keep the addresses of fixed inputs (arrays, by slot) between calls."""
        out = []
        for calls, stretch, reads, first in self._plan:
            if stretch is not None and hasattr(made := self._compile_part(stretch[2]), "bind"):
                at = [j for j, i in enumerate(reads) if i in fixed]
                bound = made.bind(at, [fixed[reads[j]] for j in at])
                if bound is not None:
                    way = _called(bound, made, {j: fixed[reads[j]] for j in at}, len(reads))
                    stretch = (stretch[0], stretch[1], stretch[2], way)
                    reads = [i for i in reads if i not in fixed]
            out.append((calls, stretch, reads, first))
        return out

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run; updated inputs are written in place."""
        return self.run(arrays, self._plan) if self.alone is None else list(self.alone(arrays))

    def run(self, arrays: Sequence[Any], plan: Sequence[Any]) -> list[Any]:
        """Run a plan: the program's own, or one of ``bound_plan``. Updated inputs are written in place."""
        value: list[Any] = [*arrays, *[None] * (self._count - len(arrays))]
        seen, xp, last = set(map(id, arrays)), self.xp, len(plan) - 1
        for k, (calls, stretch, reads, first) in enumerate(plan):
            for n, args, at in calls:
                found = HOST(xp, n, *[value[i] for i in args])
                value[at:at + len(found)] = found
            if k == last:                                      # the last stretch writes over inputs
                for i, slot, copied in self._kept:
                    x = value[i]
                    value[slot] = xp.array(x) if copied or id(x) in seen else x
            if stretch is not None:
                _, gives, part, exe = stretch
                given = [value[i] for i in reads]
                value[first:first + len(gives)] = observed(part, exe, given) if OBSERVERS else exe(given)
        outputs = []
        for i in self._outputs:                                # new arrays, each its own
            x = value[i]
            if id(x) in seen:
                x = xp.array(x)
            seen.add(id(x))
            outputs.append(x)
        for slot, new in [(slot, xp.array(value[i]) if copied else value[i]) for slot, i, copied in self._updates]:
            arrays[slot][...] = new
        return outputs


def _called(bound: Any, exe: Any, fixed: dict[int, Any], count: int) -> Callable[[Sequence[Any]], Any]:
    """A function of the arrays that are not fixed, which calls the bound executable, or where that refuses the arrays
    the unbound one with all arrays."""
    def call(given: Sequence[Any]) -> Any:
        found = bound(*given)
        if found is None:
            rest = iter(given)
            found = exe([fixed[i] if i in fixed else next(rest) for i in range(count)])
        return found
    return call


def _lent(n: Node) -> bool:
    """Whether a value is an array that the next call writes again."""
    return n.prim == "host_item" and n.args[0].attrs["call"].lends
