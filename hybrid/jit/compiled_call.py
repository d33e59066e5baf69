"""A compiled signature: what its inputs are, how it is called, how its results are put together."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ..base import forking, pending, rng
from .. import runtime
from ..buffers.array import REBINDS, NDArray, array, copied, wrap
from ..base.device import Context
from ..base.errors import TraceError
from ..autograd.demands import check
from ..autograd.dispatch import NEW_VALUE, apply_program, common_context
from ..buffers.extents import Extents, extent
from ..ir import Program
from ..passes.low_precision import in_bfloat16, roundings
from .fast_path import KINDS
from ..base.scope import SCOPE
from ..buffers.evict import LOCK, MOVES
from .free_variables import NOTHING, Guard
from .number_arguments import NumberInputs
from .view_steps import view_of
from .watches import show
from ..base.pytree import LEAF, unflatten
from ..buffers.derived import WATCHED, written_among
from ..buffers.writes import Group

# so often packed parameters change before so many calls, until matrices are read as they are
CHANGES, SELDOM = 3, 32


class Entry:
    """A compiled signature: the program, what its inputs are, how its results are put together."""

    def __init__(self, program: Program, draws: int, trace: Any, structure: Any, picks: Sequence[Any], cls: Any,
                 written: Sequence[int] = (), assigned: Sequence[Any] = ()):
        self.program, self.draws, self.ctx, self.cls = program, draws, trace.ctx, cls
        self.name = program.memo.get("name", "")
        self.written = tuple(written)                   # inputs that the traced code changed in place
        self.paused: frozenset[int] = frozenset()       # of these, those whose new values are not on the tape
        self.assigned = tuple(assigned)                 # what each call does with results (changes.py)
        self.once = ""                                  # what makes it right for one call alone
        self.precision: str | None = None               # the option of ``hybridize``, for products with parameters
        self.drew: list[str] = []                       # generators of other libraries that its code drew from
        self.outside: dict[str, str] = {}               # what of the machine its code read, and where
        self.numbers: NumberInputs | None = None        # its inputs that are numbers among the arguments
        self.tells_apart = self.tells_types = False     # whether it asks by ``is`` which objects, by ``type`` if ints
        self._recorded: Program | None = None
        self.arguments = len(trace.given)
        self.captured = list(trace.holders[self.arguments:])
        self.structure, self.picks = structure, picks
        self.before, self.after, self.undo = list(trace.before), list(trace.after), list(trace.undo)
        self.steps = list(trace.steps)
        self.demands = list(trace.demands)              # which the last output of the program tells of
        self.watches = list(trace.watches)              # (watches.py) and the number of their first output
        self.watched, self.names = 0, set(trace.names)
        # (the array that collects it, whether it is new for a Trainer, whether it is used up and not written)
        self.gradients = [(trace.holders[trace.gradients[i]], i not in trace.used_up and i not in trace.kept,
                           i in trace.used_up) for i in trace.fresh]
        self.graph: Any = None                           # (results as one Symbol, variables), for autograd.get_symbol
        self.recorded = trace.recording
        self.frozen = not any(hasattr(h, "of_call") and h.argument is not None for h in self.captured)
        if not self.recorded:                            # else it is compiled in two parts when it is run
            if self.frozen:
                program.memo["frozen"] = frozenset(i for i, h in enumerate(self.captured, self.arguments)
                                                    if id(h) not in trace.renewed and not hasattr(h, "of_call"))
                if trace.precision == "bf16" and "bfloat16" in (known := runtime.words(self.ctx)):
                    program = self.program = in_bfloat16(program, program.memo["frozen"], known)
            if trace.compiled:
                runtime.compile(program, self.ctx)
        self._waits = not self.recorded                  # until it is seen to be compiled
        self._note_ways(program)
        self._nothing_seen()

    def _note_ways(self, program: Program) -> None:
        """Which fast paths there may be."""
        self.changes_arguments = any(slot < self.arguments for slot, _ in program.updates)
        # whether results are the program's outputs in their order, with own memory, and a call does little else;
        own = (bool(self.picks) and self.picks == [("output", k) for k in range(len(self.picks))]
               and set(program.outputs).isdisjoint(program.inputs)
               and not self.draws and not self.after and not self.assigned and not self.watches)
        alone = own and not program.updates and not self.before
        self.whole = alone and not self.demands                               # it does nothing else;
        self.demanding = alone and bool(self.demands)                         # or it checks demands on data;
        # or a launcher may do all of a training step, whose updates are of captured arrays
        # of the program's results, those that are views: ("input" or "output", its number, steps)
        self.views: dict[int, tuple[str, int, list[Any]]] = {}
        self.is_step = (own and bool(program.updates) and not self.changes_arguments and not self.recorded
                        and self.frozen and not self.demands)
        self.single = self.whole and self.structure == LEAF

    def _nothing_seen(self) -> None:
        """What is noted later: by the trace, and by calls."""
        self.leaves_traces = False                      # whether the code changed something or called a cached one
        self.family: Any = None                         # the program for any size that this is one size of
        self.guard: Guard = NOTHING
        self.stamp: Any = None                          # what the code read of Python's objects (free_variables.py)
        self.prepared = False                           # whether ``before`` was done for the next call already
        self.missed = 0                                 # calls that no fast path took
        self.bound: Any = None                          # the program, bound to its arrays
        self.changes, self.replaced = 0, False          # replaced: another program takes its place
        self.seen = self.checked = self.collected = self.marked = -1
        self.arrays: list[NDArray] = []                 # captured, as long as ``collected`` is the count of rebinds

    def look_at(self, views: dict[int, tuple[str, int, list[Any]]]) -> None:
        """Give views of inputs or of other results back in the place of some results, as plain Python does."""
        self.views = views
        if views:
            self.whole = self.demanding = self.single = self.is_step = False

    @property
    def exe(self) -> Any:
        """The compiled program."""
        return runtime.compile(self.program, self.ctx)

    def is_compiled(self, calls: int = 0, seconds: float = 0.0) -> bool:
        """Whether its program is not waiting for a compiler that works in the background. calls, seconds: that do
        without the compiled one where it is, by which the compiler chooses what is next."""
        if self._waits:
            self._waits = runtime.waits_for_compiler(self.program, self.ctx, calls, seconds)
        return not self._waits

    def _parts(self) -> Any:
        """Of a recorded call the forward and the backward program, once it was run."""
        return next((v for k, v in reversed(self.program.memo.items()) if k[0] == "partition"),
                    None) if self.recorded else None

    def rest(self) -> None:
        """Let go of working memory: another program does now what this recorded call did."""
        if (parts := self._parts()) is not None:
            for program in parts.asked_for():
                exe = runtime.compile(program, self.ctx)
                if hasattr(exe, "rest"):
                    exe.rest()

    def report(self) -> Any:
        """The compile report; for a recorded call that of both parts."""
        parts = self._parts()
        exe: Any = self.exe if parts is None else runtime.compile(parts.forward, self.ctx)
        report = exe.report
        report.watched = [str(w) for w in self.watches]
        if self.precision == "bf16":
            slots = {i for i, h in enumerate(self.captured, self.arguments) if not hasattr(h, "of_call")}
            report.precision = roundings(self.program, slots, runtime.words(self.ctx),
                                         self.frozen and not self.recorded)
        if parts is None:
            report.evicted_bytes = self.bound.evicted() if hasattr(self.bound, "evicted") else 0
        else:
            report.kept_bytes = parts.kept_bytes
            backward = (parts.asked_for()[1:] or [parts.backward])[0]
            report.backward = runtime.compile(backward, self.ctx).report                  # type: ignore[attr-defined]
        return report

    def fixed(self, arguments: Sequence[NDArray] = ()) -> list[NDArray]:
        """Arrays of the captured inputs, now."""
        if self.collected != REBINDS[0]:
            now = REBINDS[0]
            arrays = [h if isinstance(h, NDArray) else h.of_call(arguments, self.ctx) if hasattr(h, "of_call")
                      else h.data(self.ctx) for h in self.captured]
            if not self.frozen:
                return arrays
            if arrays:
                common_context("hybridized call", [*arguments, *arrays])
            self.slots = [(owner.slot(arguments, self.ctx), new, lost) for owner, new, lost in self.gradients]
            self.arrays, self.collected = arrays, now
        return self.arrays

    def takes(self, arguments: Sequence[Any]) -> bool:
        """Whether this is the entry for some arguments that are all there is: plain arrays, none of them twice."""
        if len(arguments) != self.arguments:
            return False
        for slot, a in enumerate(arguments):
            if (type(a) is not self.cls or a._ctx != self.ctx
                or (a._data.shape, a._data.dtype) != self.program.spec(slot)):
                return False
        return len(arguments) < 2 or len(set(map(id, arguments))) == len(arguments)

    def run(self, arguments: Sequence[NDArray], otherwise: Callable[[], Any]) -> Any:
        """Call the program and put the results together. ``otherwise`` is called instead where the program may not
        be."""
        self.settle_captured(arguments)
        if self.written and self.overlaps(arguments):
            # eagerly: which values change together differs from call to call
            return otherwise()
        if self.prepared:
            self.prepared = False
        else:
            for prepare in self.before:
                prepare()
        inputs = [*arguments, *self.fixed(arguments)]
        if self.draws:
            inputs.append(wrap(_keys(self.ctx, self.draws), self.ctx))
        outputs = self._run_written(inputs) if self.written and SCOPE.recording else self._run_bound(inputs)
        if outputs is None:
            outputs = self._run(inputs)
        SCOPE.effects += bool(self.watches or self.assigned)
        if self.watches:
            self._show(outputs[self.watched:], arguments)
        if self.demands:
            self._check(outputs)
        if self.gradients:
            self._note_gradients(inputs)
        for finish in self.after:
            finish()
        for k, (kind, i, steps) in self.views.items():
            outputs[k] = view_of(inputs[i] if kind == "input" else outputs[i], steps)
        if self.structure == LEAF and self.picks == [("output", 0)] and not self.assigned:
            return outputs[0]
        results = [outputs[k] if kind == "output" else inputs[k] for kind, k in self.picks]
        for change in self.assigned:
            change.do(results)
        return unflatten(self.structure, iter(results))

    def settle_captured(self, arguments: Sequence[NDArray]) -> None:
        """Run, before a call, this thread's deferred work, and that of other threads which computes captured arrays."""
        if pending.PUT_OFF[0]:
            pending.settle_for(f"{self.name} was called", self.fixed(arguments))

    def _show(self, outputs: Sequence[NDArray], arguments: Sequence[NDArray]) -> None:
        """Call the functions that are given values of this call. TraceError where one changes what the program has
        read: eagerly the rest of the call would see the change."""
        before = self._state(arguments)
        show(self.watches, outputs, self.ctx, self.cls, self.names)
        if self._state(arguments) != before:
            who = self.watches[0]
            raise TraceError(f"{who.at}: {who.what}" + (" (or another one)" if len(self.watches) > 1
                                                        else "") + " changes "
                             "an array that the compiled program reads. It is called when that has run, and would "
                             "change the next call instead of this one. Change it in forward, or call the block or "
                             "function without hybridize.")

    def _state(self, arguments: Sequence[NDArray]) -> list[Any]:
        """What tells whether the arrays that the program reads are the same and hold the same."""
        return [*((id(x), x._version) for x in (*arguments, *self.fixed(arguments))), self.guard.stamp()]

    def _check(self, outputs: Sequence[NDArray]) -> None:
        """Raise the error of a demand that was not met; the call has changed nothing."""
        try:
            check(self.demands, outputs[-1])
        except Exception:
            for undo in self.undo:
                undo()
            raise

    def _note_gradients(self, inputs: Sequence[NDArray]) -> None:
        slots = self.slots if self.frozen else [(owner.slot(inputs, self.ctx), new, lost)
                                                for owner, new, lost in self.gradients]
        for slot, new, lost in slots:
            slot.fresh, slot.lost = new, lost

    def _run_bound(self, inputs: list[NDArray]) -> list[NDArray] | None:
        """Results by way of kept addresses, where that is possible and nothing is recorded."""
        if SCOPE.recording or self.recorded or not self.frozen or runtime.OBSERVERS:
            return None
        if self.seen != REBINDS[0] and self.bind() is None:
            return None
        given = inputs[:self.arguments]
        outputs = self.bound.launched(self.cls, self.ctx, SCOPE, KINDS["list"],
                                      given) if given and not self.draws and not self.whole else None
        if outputs is None:
            raw = self.bound(*(x._data for x in (given + inputs[-1:] if self.draws else given)))
            if raw is None:
                return None
            outputs = [wrap(r, self.ctx, self.cls) for r in raw]
        if self.program.written:
            self._note_updates(inputs)
        return outputs

    def _note_updates(self, inputs: list[NDArray]) -> None:
        """The inputs that the program updates were written."""
        self.mark(inputs)
        for slot in self.updated:
            inputs[slot]._version += 1
        self.group.note()
        self.were_written()
        if self.changes_arguments:
            for slot in self.program.written:
                if slot < self.arguments:
                    inputs[slot]._bump()

    def mark(self, inputs: Sequence[NDArray]) -> None:
        """Find out which captured inputs the program updates, and where they lie."""
        if self.marked != REBINDS[0]:
            now = REBINDS[0]
            self.updated = [slot for slot in self.program.written if slot >= self.arguments]
            self.group = Group([inputs[slot]._data for slot in self.updated])
            self.marked = now                            # last: another thread may look

    def were_written(self) -> None:
        """What was prepared from the updated inputs is so no more."""
        watched = WATCHED[0]
        if self.group.state[2] != watched:
            if written_among(self.group):
                REBINDS[0] += 1
            else:
                self.group.state[2] = watched

    def _run(self, inputs: list[NDArray]) -> list[NDArray]:
        return apply_program(self.program, inputs, self._runner, self.cls, self.graph)

    def _run_written(self, inputs: list[NDArray]) -> list[NDArray]:
        """A recorded call that changes inputs: the tape keeps the old values, and new ones not made in ``pause``."""
        if self._recorded is None:
            new = {slot: node for slot, node in self.program.updates}
            self._recorded = Program(self.program.inputs, (*self.program.outputs, *map(new.pop, self.written)),
                                     tuple(new.items()))
            self._recorded.memo["origins"] = self.program.memo.get("origins", {})
        outputs = apply_program(self._recorded, [wrap(copied(x._data, x._ctx), x._ctx, type(x), x)
                                                 if i in self.written else x for i, x in enumerate(inputs)],
                                self._runner, self.cls)
        n = len(self.program.outputs)
        for i, value in zip(self.written, outputs[n:]):
            NEW_VALUE[0](inputs[i], value.detach() if i in self.paused else value)
        return outputs[:n]

    def overlaps(self, arguments: Sequence[NDArray]) -> bool:
        """Whether an input that is changed in place shares memory with another one, which the program cannot know."""
        if self.checked != REBINDS[0] or self.changes_arguments:
            now, inputs = REBINDS[0], [*arguments, *self.fixed(arguments)]
            if self._shared(inputs):
                return True
            self.places = Extents(inputs[i]._data for i in self.written)
            self.checked = now
        if self.changes_arguments:
            return False
        for a in arguments:
            if self.places.meets(*extent(a._data)):
                return True
        return False

    def _shared(self, inputs: Sequence[NDArray]) -> bool:
        """One pass over all inputs in the order of their addresses."""
        written, end, last = set(self.written), -1, -1
        reach: list[tuple[int, int, int]] = sorted((*extent(x._data), i) for i, x in enumerate(inputs))
        for start, stop, i in reach:
            same = last >= 0 and inputs[i] is inputs[last] and max(i, last) < self.arguments
            if start < end and start < stop and not same and (i in written or last in written):
                return True
            if stop > end:
                end, last = stop, i
        return False

    def _runner(self, program: Program, raw: list[Any]) -> list[Any]:
        program.memo.setdefault("name", self.name)
        return runtime.run(program, self.ctx, raw)

    def bind(self) -> Any:
        """The program with the addresses of the captured arrays as they are now, not called; None where it cannot keep
        them."""
        if self.seen != REBINDS[0]:
            if not hasattr(self.exe, "bind"):              # only the CPU's programs keep addresses
                return None
            with LOCK:                                     # one thread prepares, the others wait for what it made
                return self.bound if self.seen == REBINDS[0] else self._bind()
        return self.bound

    def _bind(self) -> Any:
        now, moves = REBINDS[0], MOVES[0]
        old: Any = None if self.replaced else self.bound
        if changed := old is not None and old.changed():
            self.changes = self.changes + 1 if old.uses() < SELDOM else 0
            if self.changes == CHANGES and self.ctx.device_type != "gpu" and self._plain_matrices():
                old, self.replaced = None, True
        if not hasattr(exe := self.exe, "bind"):           # the other program waits for a compiler in the background
            self._waits = True
            return None
        fixed = range(self.arguments, self.arguments + len(self.captured))
        bound = exe.bind(fixed, self.fixed(), old)
        if bound is None:
            return None
        if old is not None and not changed and bound is not old:
            bound.calls = old.uses()
        # in this order: another thread may look between
        self.replaced, self.bound, self.seen = False, bound, now + MOVES[0] - moves
        return bound

    def _plain_matrices(self) -> bool:
        """Parameters change again and again after a few calls (an agent that acts and learns by turns): packing the
        matrices of dense layers costs more than it saves, they are packed no more. Whether there is one."""
        with forking.IMPORTS:
            from ..passes.layout import of_products    # noqa: PLC0415
        frozen = self.program.memo["frozen"]
        fewer = frozen - of_products(self.program)
        if fewer != frozen:
            program = Program(self.program.inputs, self.program.outputs, self.program.updates)
            program.memo.update(frozen=fewer, name=self.name, origins=self.program.memo.get("origins", {}))
            self.program = program                       # another thread may look
        return fewer != frozen

    def fast(self, raw: Sequence[Any]) -> Any:
        """Raw outputs the fast path, or None."""
        if self.seen != REBINDS[0] and self.bind() is None:
            return None
        return self.bound(*raw)


def _keys(ctx: Context, n: int) -> Any:
    from_numpy = array(rng.next_key(n), ctx, np.uint32)
    return from_numpy._data
