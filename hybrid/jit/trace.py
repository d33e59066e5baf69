"""Hybridized calls: a signature, a trace on Symbols, a compiled program, and a fast way to it the next time."""
from __future__ import annotations

import gc
from contextlib import nullcontext
from typing import Any, Callable, Sequence

from ..base.errors import DeferredInitializationError, UnevaluatedError, warn_user
from ..base import config, forking, pending
from . import debug, foreign_rng, machine_reads
from ..buffers.array import NDArray, wrap
from ..base.device import Context, current_context
from ..autograd.dispatch import common_context
from .compiled_call import Entry
from .entries import Entries
from .compile_policy import Sightings, eagerly
from .fast_path import Ways, form_of
from .first_call import FirstCall
from ..runtime import progress
from ..runtime.observers import OBSERVERS
from ..base.scope import CASTS_VERSION, SCOPE
from .fast_step import way_into
from .reads import is_foreign_array, is_numeric
from .replaced import classes_of
from .free_variables import Guard
from .plain_calls import PlainAlways, PlainCalls, PlainOnce, PlainOnly
from .run_traced import run_traced
from .trace_state import finish_parameters, new_trace
from .traced_results import entry_of
from .used_blocks import UsedBlocks
from .programs import ProgramInfo, programs
from .number_arguments import NO_NUMBERS, GivenNumbers, LookedAt, NotWithInputs, NumberArguments, OtherInputs
from .numbers_of_trace import NumbersOfTrace
from .taken import Taken, repeats_in
from ..base.pytree import flatten, unflatten
from ..ir.asked import Asked
from .any_size import RENEW, AnySize, call_uncompiled, check


class Hybridized:
    """A callable that compiles what another one does.

    fn: called with traced arguments. version: a function that gives a number which grows whenever something that the
    trace depends on changes. state: a function that gives (arrays, static part) of the owner's attributes, or None."""

    def __init__(self, fn: Callable[..., Any], name: str, version: Callable[[], Any] | None = None,
                 state: Callable[[], Any] | None = None, options: dict[str, Any] | None = None, owner: Any = None):
        self.owner = owner
        self.fn, self.name, self.state, self.options = fn, name, state, options or {}
        self._own_version = version or (lambda: 0)
        self.used = UsedBlocks(owner)
        self.entries = Entries()
        self.cache_misses: list[str] = []
        self._sightings = Sightings()
        self._numbers = NumberArguments()
        self._any_size = AnySize()
        self._plain_calls = PlainCalls()
        self.first_call = FirstCall()
        self._lock = forking.LongLock()
        self._last: tuple[Entry, Any, bool, bool] | None = None
        self.counters: tuple[list[int], ...] | None = () if version is None and state is None else None
        self.rounds: Any = None                          # of training loops that begin with it (jit/deferred)
        self._ways = Ways()
        self.fast_path = self._ways.call                  # a call that sees by itself whether anything has changed

    def version(self) -> Any:
        """A value that differs when something that the traces depend on has changed."""
        own = self._own_version(), CASTS_VERSION[0]
        return (own, *found) if (found := self.used.version()) else own

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fast = self.fast_path[0]
        if fast is not None:
            out = fast(*args, **kwargs)
            if out is not None:
                return out
        return self.slow_path(*args, **kwargs)

    def slow_path(self, *args: Any, **kwargs: Any) -> Any:
        """A call that the fast path did not take."""
        if self.owner is not None and pending.LATER and pending.LATER[0].is_event():
            return pending.LATER[0].call(self, args, kwargs)     # a training loop, of which rounds may be put off
        if pending.PUT_OFF[0] and not SCOPE.traces and (self.owner is None or not SCOPE.recording):
            pending.settle_for(f"{self.name} was called", ())
        last = self._last
        if last is not None and not kwargs and not SCOPE.recording and not SCOPE.traces and not OBSERVERS:
            entry, version, train, np_array = last
            if (entry.takes(args) and SCOPE.training == train and SCOPE.np_array == np_array
                and self.version() == version and entry.stamp == entry.guard.stamp()):
                self._lay_way(entry, args, None)
                out = entry.fast([a._data for a in args]) if entry.single else None
                return wrap(out[0], entry.ctx,
                            entry.cls) if out is not None else entry.run(args, lambda: self.fn(*args))
        return self._slow(args, kwargs)

    def _slow(self, args: Any, kwargs: Any) -> Any:
        if SCOPE.traces or SCOPE.plain:
            return self.fn(*args, **kwargs)                  # inside another trace: inlined
        leaves: list[Any] = []
        structure = self._structure((args, kwargs), leaves)
        # programs compute with dense arrays: the code itself, as in MXNet
        if any(isinstance(x, NDArray) and x.stype != "default" for x in leaves):
            with eagerly():
                return self.fn(*args, **kwargs)
        held, static = self.state() if self.state else ([], None)
        arrays = (taken := Taken(leaves, self.name)).arrays
        every = [*arrays, *held]
        ctx = common_context(self.name, every) if every else current_context()
        cls = next((type(x) for x in every if isinstance(x, NDArray)), None)
        begin = self._begin(structure, every, ctx)
        if self._plain_calls.holds(begin):
            return self._plainly((args, kwargs), structure, arrays)
        if self.first_call.takes(self, begin, leaves):
            return self.first_call.call(self, structure, arrays, lambda: self.fn(*args, **kwargs))
        plain = self._plain(begin, every, static)
        with self.first_call.later(self, plain):
            return self._by_program(args, kwargs, leaves, structure, held, taken, plain, cls)

    def _by_program(self, args: Any, kwargs: Any, leaves: list[Any], structure: Any, held: Any, taken: Taken,
                    plain: Any, cls: Any) -> Any:
        """A call by a program, where it can have one. structure: of the arguments, whose arrays are leaves; held: the
        owner's arrays; plain: the signature."""
        arrays, ctx, repeats = taken.arrays, plain[2], plain[8]
        # the caller's own lists and dicts, unless other libraries' arrays in them are converted
        given = (args, kwargs) if all(x is a for x, a in zip(leaves, arrays)) else None
        every = [*arrays, *held]
        entry, numbers, new = self._entry_for(structure, plain, arrays, held, ctx, cls)
        if self._plain_calls.always:
            self._keep_nothing()
        if entry is None:
            return self._plainly((args, kwargs) if self._plain_calls.holds(plain[:6]) else given, structure, arrays)
        if entry.numbers is not None:
            every += numbers.arrays(entry.numbers, ctx)
        def otherwise() -> Any:
            return self.fn(*args, **kwargs) if given is not None else self._plainly(None, structure, arrays)
        taken.refuse_read_only(entry.written)
        if entry.family is not None and (job := self._any_size.unbuilt(self, entry)) is not None:
            return taken.written(entry.written, call_uncompiled(job, lambda: self._plainly(given, structure, arrays)))
        if entry.once:
            return taken.written(entry.written, entry.run(every, otherwise))
        form = (form_of(structure if entry.numbers is None else entry.numbers.form(structure, numbers, len(arrays)))
                if self.state is None and not held and all(isinstance(x, NDArray) for x in leaves) else False)
        if not SCOPE.recording and repeats is None and form is not False:
            if form is None:
                self._last = (entry, self.version(), SCOPE.training, SCOPE.np_array)
            self._lay_way(entry, every, form)
        out = taken.written(entry.written, entry.run(every, otherwise))
        if new and entry.recorded and config.debug_level():
            debug.compiled(self.name, entry.report())
        return out

    def _entry_for(self, structure: Any, plain: Any, arrays: list[NDArray], held: list[NDArray], ctx: Context,
                   cls: Any, inputs: bool = True) -> tuple[Entry | None, GivenNumbers, bool]:
        """The entry for a call, None where it runs as plain Python; the numbers among its arguments that are inputs, if
        there may be such (inputs); whether the entry is new."""
        plain, signature, entry, numbers = self._found(structure, plain, inputs)
        missed = False
        if entry is not None:
            self._sightings.again(signature)
            return entry, numbers, False
        if not numbers.values and self.options.get("dynamic", True):
            entry, missed = self._any_size.entry(self, plain, structure, arrays, held, cls)
            if entry is not None:
                return entry, numbers, True
        if not self._sightings.compiles(signature):
            self._sightings.warn(self.name, lambda: debug.difference_of_calls(self.entries, signature))
            return None, numbers, False
        failed = None
        try:
            entry = self._compile(plain, structure, arrays, held, ctx, cls, numbers, missed)
        except PlainOnce:
            return None, numbers, False
        except PlainOnly as err:
            warn_user(str(err))
            if isinstance(err, PlainAlways):
                self._plain_calls.always = True
            else:
                self._plain_calls.from_now((structure, *plain[1:6]))
            return None, numbers, False
        except LookedAt as err:                              # those numbers are constants from here on
            self._sightings.again(signature)
            self._numbers.keep(structure, numbers, err.why)
            return self._entry_for(structure, plain, arrays, held, ctx, cls)
        except NotWithInputs as err:
            failed = err
        if failed is not None:                               # without inputs it may be another error, or none
            self._sightings.again(signature)
            found = self._entry_for(structure, plain, arrays, held, ctx, cls, inputs=False)
            self._numbers.keep(structure, numbers, dict.fromkeys(range(len(numbers.values)), str(failed)))
            return found
        assert entry is not None
        if entry.numbers is not None and not numbers.fit(entry.numbers):     # another thread has made it meanwhile
            return self._entry_for(structure, plain, arrays, held, ctx, cls, inputs=False)
        if entry.once or entry.drew or entry.outside:
            self._numbers.never(structure)
        if entry.numbers is not None:                        # ways into programs of one number are of no use now
            self._ways.lay_anew()
        return entry, numbers, True

    def specialization(self, *args: Any, **kwargs: Any) -> Entry:
        """The entry of a call with these arguments, traced where it is new; the call itself is not made."""
        structure, plain, arrays, held = self._kind(args, kwargs)
        cls = next((type(x) for x in [*arrays, *held] if isinstance(x, NDArray)), None)
        plain, _, entry, numbers = self._found(structure, plain)
        try:
            return entry or self._compile(plain, structure, arrays, held, plain[2], cls, numbers)
        except LookedAt as err:
            self._numbers.keep(structure, numbers, err.why)
            return self.specialization(*args, **kwargs)

    def specialization_for(self, shapes: Any, asked: Asked, *args: Any) -> Entry:
        """The entry of a call with these arguments in other shapes (any_size.py), traced and not compiled. asked:
        answers what is asked of sizes."""
        structure, plain, arrays, held = self._kind(args, {})
        cls = next((type(x) for x in [*arrays, *held] if isinstance(x, NDArray)), None)
        with self._lock, asked.answering(False):
            return self._trace(structure, arrays, held, plain[2], cls, NO_NUMBERS, shapes, asked, compiled=False)[0]

    def known(self, args: Any, kwargs: Any) -> Entry | None:
        """The entry of a call with these arguments, if there is one."""
        return self._found(*self._kind(args, kwargs)[:2])[2]

    def _kind(self, args: Any, kwargs: Any) -> tuple[Any, Any, list[NDArray], list[NDArray]]:
        """Structure of the arguments; signature without what the code reads; arrays among them; the owner's arrays."""
        leaves: list[Any] = []
        structure = self._structure((args, kwargs), leaves)
        held, static = self.state() if self.state else ([], None)
        arrays = Taken(leaves, self.name).arrays
        every = [*arrays, *held]
        ctx = common_context(self.name, every) if every else current_context()
        return structure, self._plain(self._begin(structure, every, ctx), every, static), arrays, held

    def _begin(self, structure: Any, every: Sequence[NDArray], ctx: Context) -> Any:
        """The parts of a signature that are cheap to find: those that the first call needs."""
        return (structure, tuple((a._data.shape, a._data.dtype, type(a)) for a in every), ctx, SCOPE.training,
                SCOPE.recording, SCOPE.np_array)

    def _plain(self, begin: Any, every: Sequence[NDArray], static: Any) -> Any:
        """A call's signature but for what is read of objects."""
        return (*begin, self.version(), static, repeats_in(every))

    def _found(self, structure: Any, plain: Any, inputs: bool = True) -> tuple[Any, Any, Entry | None, GivenNumbers]:
        """The signature of a call, without and with what is read of objects, the entry for it, and the numbers among
        its arguments that are inputs. inputs: whether there may be such."""
        key, numbers = self._numbers.of(structure) if inputs else (structure, NO_NUMBERS)
        signature, entry = self.entries.known((key, *plain[1:]))
        if entry is None and inputs and self._numbers.new_program(structure):
            key, numbers = self._numbers.of(structure)
            signature, entry = self.entries.known((key, *plain[1:]))
        if entry is not None and entry.numbers is not None and not numbers.fit(entry.numbers):
            return self._found(structure, plain, False)      # a number that the program cannot take: a constant
        return (key, *plain[1:]), signature, entry, numbers

    def _plainly(self, given: Any, structure: Any, arrays: list[NDArray]) -> Any:
        """A call as plain Python."""
        with eagerly():
            args, kwargs = given or unflatten(structure, iter(arrays))
            return self.fn(*args, **kwargs)

    def _lay_way(self, entry: Entry, arguments: Sequence[NDArray], form: Any) -> None:
        """Lay the fast path for later calls, where there may be one; once more where it has ended (another block was
        made, a parameter replaced) though the program is still right, if it is asked for often."""
        entry.settle_captured(arguments)                     # before their buffers are looked at
        if (entry.whole or entry.demanding or entry.is_step) and not OBSERVERS and entry.is_compiled():
            if entry.missed % RENEW == 0 and not self._ways.again(entry):
                self._ways.add(entry, None)
                self._ways.add(entry, way_into(entry, arguments, form, self.used, self.counters))
            entry.missed += 1

    def forget(self, entry: Entry) -> None:
        """Forget a compiled program: another one takes its calls."""
        self.entries.drop(entry)
        self._ways.add(entry, None)
        self._last = None

    def shorten(self, entry: Entry, arguments: Sequence[NDArray]) -> None:
        """Lay the fast path for calls with such arrays by position, where there may be one."""
        if repeats_in(arguments) is None:
            self._lay_way(entry, arguments, None)

    def _structure(self, value: Any, leaves: list[Any]) -> Any:
        return flatten(value, lambda v: isinstance(v, NDArray) or is_numeric(v) or is_foreign_array(v), leaves,
                       by_identity=True)

    def _compile(self, plain: Any, structure: Any, arrays: list[NDArray], held: list[NDArray], ctx: Context,
                 cls: Any, numbers: GivenNumbers, missed: bool = False) -> Entry:
        """The entry, new or made by another thread meanwhile. missed: whether the cache miss is noted already."""
        with self._lock:
            signature, entry = self.entries.known(plain)
            if entry is None:
                if not missed:
                    self._note_miss(signature)
                with progress.announced(self.name):
                    entry, guard, values = self._trace(structure, arrays, held, ctx, cls, numbers)
                self._any_size.traced(plain, self.version(), entry)
                if entry.drew or entry.outside:          # right for this call: the code drew or read once
                    if entry.drew:
                        foreign_rng.warn(entry.drew, self.name)
                    else:
                        machine_reads.warn(entry.outside, self.name)
                    self._plain_calls.from_now(plain[:6])
                    return entry
                if entry.once:
                    self._plain_calls.once_more(plain[:6], entry.once)
                    return entry
                final = (*plain[:6], self.version(), *plain[7:])       # tracing may have finished deferred parameters
                entry.guard = self.entries.guard(final, guard)
                entry.stamp = entry.guard.stamp_of(values)
                if final != plain:
                    self.entries.guard(plain, entry.guard)
                self.entries[(*plain, entry.stamp)] = self.entries[(*final, entry.stamp)] = entry
                if not entry.recorded and config.debug_level():
                    debug.compiled(self.name, entry.report())
        return entry

    def traced_for(self, plain: Any, structure: Any, arrays: Sequence[NDArray], held: Sequence[NDArray], cls: Any,
                   shapes: Any, asked: Asked) -> Entry:
        """An entry for arrays of other shapes (any_size.py), not for calls. asked: answers what is asked of sizes."""
        with self._lock, progress.announced(self.name), asked.answering(False):
            self._note_miss((*plain, ()))
            entry, guard, values = self._trace(structure, list(arrays), list(held), plain[2], cls, NO_NUMBERS, shapes,
                                               asked)
            check(entry)
            entry.guard = guard
            entry.stamp = guard.stamp_of(values)
            return entry

    def _note_miss(self, signature: Any) -> None:
        self.cache_misses.append(debug.difference_of_calls(self.entries, signature))
        debug.missed(self.name, self.cache_misses[-1])
        progress.log("DEBUG", "%s: cache miss, %s", self.name, self.cache_misses[-1])

    def _trace(self, structure: Any, arrays: list[NDArray], held: list[NDArray], ctx: Context, cls: Any,
               numbers: GivenNumbers, shapes: Any = None, asked: Asked | None = None,
               compiled: bool = True) -> tuple[Entry, Guard, list[Any]]:
        wanted, refused = numbers.first(), None
        while True:
            trace = new_trace(ctx, [*arrays, *held])
            trace.compiled, trace.shows_symbols = compiled, refused is not None
            traced = NumbersOfTrace(trace, numbers, wanted)
            try:
                with asked.answering(True) if asked is not None else nullcontext():
                    leaves, out_structure, reader, changes = run_traced(self.fn, self.name, trace, structure, arrays,
                                                                        held, traced, shapes)
            except OtherInputs as other:
                wanted = other.wanted
                continue
            except UnevaluatedError as err:
                # a hybrid_forward may have other code for Symbols than for arrays: Gluon gives it those
                if refused is not None:
                    raise refused from None
                if not trace.showed_arrays:
                    raise
                refused = err
                continue
            except DeferredInitializationError:
                # a step that asks for values of parameters whose shapes this trace has found out
                if not finish_parameters(trace):
                    raise
                continue
            break
        self.used.note([*trace.blocks, *reader.blocks()])
        finish_parameters(trace)
        reader.library([type(self.owner), *(c for b in trace.blocks for c in classes_of(b))])
        fixed = {*map(id, trace.holders), *map(id, trace.numbers)}
        guard, values = reader.guard(lambda place, x: id(x) in fixed)
        entry = entry_of(trace, leaves, out_structure, trace.cls or cls, changes, self.name,
                         self.options.get("precision"))
        entry.numbers, entry.tells_apart, entry.tells_types = traced.inputs(), reader.tells_apart, reader.tells_types
        return entry, guard, values

    def _keep_nothing(self) -> None:
        """Let go of the objects of earlier calls: this function runs as plain Python from here on."""
        self.clear()
        self._plain_calls.forget()
        self._sightings = Sightings()
        gc.collect()

    def clear(self) -> None:
        """Forget every compiled program."""
        self.entries.clear()
        self._ways.clear()
        self._last = None
        self._any_size.clear()
        self._numbers.clear()

    def programs(self) -> list[ProgramInfo]:
        """The compiled programs, the oldest first."""
        return programs(self.entries)

    def report(self) -> Any:
        """The compile report of the newest entry, or None."""
        if not self.entries and not self.first_call.trace(self):
            return None
        found = list(self.entries.values())[-1].report()
        found.numbers = self._numbers.lines()
        found.sizes = self._any_size.lines()
        found.loop = str(self.rounds or "")
        found.programs = [str(p) for p in self.programs()]
        return found
