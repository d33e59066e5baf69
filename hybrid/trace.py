"""Hybridized calls: a signature, a trace on Symbols, a compiled program, and a fast way to it the next time."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from . import debug, random, runtime
from .array import REBINDS, NDArray, array, wrap
from .device import Context, current_context
from .dispatch import apply_program, common_context
from .errors import DeviceError, TraceError, user_location
from .quick import make_quick
from .ir import Program
from .scope import SCOPE
from .symbol import CONCRETE, Symbol, SymNode, lower
from .tree import LEAF, flatten, unflatten

FIELDS = ("structure", "arrays", "device", "training", "recording", "numpy arrays", "attributes", "state", "repeated arrays")


class Trace:
    """One trace: the variables that stand for arrays, and what they stand for."""

    def __init__(self, ctx: Context, train: bool):
        self.ctx, self.train = ctx, train
        self.np_semantics = False                       # whether traced values follow NumPy's rules
        self.variables: list[SymNode] = []
        self.holders: list[Any] = []                    # what gives the array of each variable at call time
        self.handles: list[tuple[Symbol, SymNode]] = []
        self.known: dict[int, Symbol] = {}
        self.blocks: list[Any] = []                     # Blocks called meanwhile: what they do may depend on their attributes

    def variable(self, name: str, holder: Any, shape: Any, dtype: Any) -> Symbol:
        """A traced input."""
        node = SymNode(None, name, None, ())
        node.holder = CONCRETE
        node.info = [(tuple(shape) if shape is not None else None, np.dtype(dtype))]
        handle = Symbol([(node, 0)])
        self.variables.append(node)
        self.holders.append(holder)
        self.handles.append((handle, node))
        return handle

    def capture(self, x: Any) -> Symbol:
        """The traced input for an array (or NumPy array, or number) that was not an argument."""
        if isinstance(x, (np.ndarray, np.generic, int, float, bool, list, tuple)):
            with untraced():
                x = array(x, self.ctx)
        if not isinstance(x, NDArray):
            raise TraceError(f"{user_location()}: hybridized code can use arrays, numbers and NumPy arrays, got {type(x).__name__}")
        if x._ctx != self.ctx:
            raise DeviceError(f"{user_location()}: an array is on {x._ctx}, the inputs are on {self.ctx}; move it with as_in_context")
        if id(x) not in self.known:
            self.known[id(x)] = self.variable(f"captured{len(self.known)}", x, x.shape, x._data.dtype)
        return self.known[id(x)]

    def parameter(self, p: Any) -> Symbol:
        """The traced input for a gluon Parameter (looked up at each call)."""
        if id(p) not in self.known:
            handle = p.traced_variable()
            node = handle._one()[0]
            self.variables.append(node)
            self.holders.append(p)
            self.handles.append((handle, node))
            self.known[id(p)] = handle
        return self.known[id(p)]

    def changed(self) -> list[tuple[int, Symbol]]:
        """Inputs that were changed in place: (number, new value)."""
        return [(i, h) for i, (h, n) in enumerate(self.handles) if h.entries[0][0] is not n]


def separate(value: Any) -> Any:
    """Results with Symbols of several outputs as lists, as eager calls give them."""
    if isinstance(value, Symbol) and len(value.entries) > 1:
        return [Symbol([e]) for e in value.entries]
    if isinstance(value, dict):
        return {k: separate(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(separate(v) for v in value)
    return value


@contextmanager
def untraced() -> Iterator[None]:
    """Scope in which operators are eager although a trace is active."""
    old, SCOPE.traces = SCOPE.traces, []
    try:
        yield
    finally:
        SCOPE.traces = old


@contextmanager
def _active(trace: Trace) -> Iterator[None]:
    old = SCOPE.recording
    SCOPE.traces.append(trace)
    SCOPE.recording = False
    try:
        yield
    finally:
        SCOPE.traces.pop()
        SCOPE.recording = old


class Entry:
    """A compiled signature: the program, what its inputs are, how its results are put together."""

    def __init__(self, program: Program, draws: int, holders: Sequence[Any], arguments: int, structure: Any, picks: Sequence[Any], ctx: Context, cls: Any,
                 written: Sequence[int] = ()):
        self.program, self.draws, self.ctx, self.cls = program, draws, ctx, cls
        self.written = tuple(written)                   # inputs that the traced code changed in place
        self._recorded: Program | None = None
        self.captured = list(holders[arguments:])
        self.arguments, self.structure, self.picks = arguments, structure, picks
        self.exe = runtime.compile(program, ctx)
        self.single = structure == LEAF and not draws and not program.updates and picks == [("output", 0)] and program.outputs[0] not in program.inputs
        self.bound: Any = None
        self.seen = -1

    def fixed(self) -> list[NDArray]:
        """Arrays of the captured inputs, now."""
        return [h if isinstance(h, NDArray) else h.data(self.ctx) for h in self.captured]

    def run(self, arguments: Sequence[NDArray]) -> Any:
        """Call the program and put the results together."""
        inputs = [*arguments, *self.fixed()]
        if inputs:
            common_context("hybridized call", inputs)
        if self.draws:
            inputs.append(wrap(_keys(self.ctx, self.draws), self.ctx))
        run = self._run_written if self.written and SCOPE.recording else self._run
        outputs = run(inputs)
        return unflatten(self.structure, iter([outputs[k] if kind == "output" else inputs[k] for kind, k in self.picks]))

    def _run(self, inputs: list[NDArray]) -> list[NDArray]:
        return apply_program(self.program, inputs, self._runner, self.cls)

    def _run_written(self, inputs: list[NDArray]) -> list[NDArray]:
        """A recorded call that changes inputs: the tape keeps what they were, and the new values are results on it."""
        if self._recorded is None:
            new = {slot: node for slot, node in self.program.updates}
            rest = tuple((slot, node) for slot, node in self.program.updates if slot not in self.written)
            self._recorded = Program(self.program.inputs, (*self.program.outputs, *(new[i] for i in self.written)), rest)
        outputs = apply_program(self._recorded, [wrap(x._data.copy(), x._ctx, type(x), x) if i in self.written else x for i, x in enumerate(inputs)],
                                self._runner, self.cls)
        n = len(self.program.outputs)
        for i, value in zip(self.written, outputs[n:]):
            inputs[i]._write(value._data)
            if inputs[i]._ag is None or inputs[i]._ag.entry is not None:         # type: ignore[union-attr]
                inputs[i]._ag = value._ag
        return outputs[:n]

    def overlaps(self, arguments: Sequence[NDArray]) -> bool:
        """Whether an input that is changed in place shares memory with another one, which the program cannot know."""
        inputs = [*arguments, *self.fixed()]
        for i in self.written:
            for j, other in enumerate(inputs):
                if i != j and not (other is inputs[i] and max(i, j) < self.arguments) and _share(inputs[i]._data, other._data):
                    return True
        return False

    def _runner(self, program: Program, raw: list[Any]) -> list[Any]:
        return runtime.compile(program, self.ctx)(raw)

    def fast(self, raw: Sequence[Any]) -> Any:
        """Raw outputs the quick way, or None."""
        if self.seen != REBINDS[0]:
            if not hasattr(self.exe, "bind"):              # only the CPU's programs keep addresses
                return None
            self.bound = self.exe.bind(range(self.arguments, len(self.program.inputs)))
            if not self.bound.rebind([a._data for a in self.fixed()]):
                return None
            self.seen = REBINDS[0]
        return self.bound(*raw)                          # type: ignore[misc]


def _extent(raw: Any) -> tuple[int, int]:
    """First and last address (exclusive) of an array's memory, on any device."""
    interface = raw.__array_interface__ if isinstance(raw, np.ndarray) else raw.__cuda_array_interface__
    start = interface["data"][0]
    if not raw.size:
        return start, start
    reach = [(n - 1) * step for n, step in zip(raw.shape, raw.strides)]
    return start + sum(r for r in reach if r < 0), start + sum(r for r in reach if r > 0) + raw.dtype.itemsize


def _share(a: Any, b: Any) -> bool:
    (low_a, high_a), (low_b, high_b) = _extent(a), _extent(b)
    return low_a < high_b and low_b < high_a


def _keys(ctx: Context, n: int) -> Any:
    from_numpy = array(random.next_key(n), ctx, np.uint32)
    return from_numpy._data


def _repeats(arrays: Sequence[NDArray]) -> Any:
    """Where one array object is given more than once (a change through one is seen through the other), else None."""
    ids = [id(a) for a in arrays]
    return tuple(map(ids.index, ids)) if len(set(ids)) < len(ids) else None


class Hybridized:
    """A callable that compiles what another one does.

    fn: called with traced arguments. version: a function that gives a number which grows whenever something that the
    trace depends on changes. state: a function that gives (arrays, static part) of the owner's attributes, or None.
    """

    def __init__(self, fn: Callable[..., Any], name: str, version: Callable[[], Any] | None = None, state: Callable[[], Any] | None = None,
                 options: dict[str, Any] | None = None, owner: Any = None):
        self.owner = owner
        self.fn, self.name, self.state, self.options = fn, name, state, options or {}
        self._own_version = version or (lambda: 0)
        self._used: list[Any] = []                       # Blocks that the traced code called and that the owner's version does not cover
        self.entries: dict[Any, Entry] = {}
        self.cache_misses: list[str] = []
        self._lock = threading.RLock()
        self._last: tuple[Entry, Any, int, bool] | None = None
        self.counters: tuple[list[int], ...] | None = () if version is None and state is None else None
        self.quick: Callable[[Any], Any] | None = None

    def version(self) -> Any:
        """A value that differs when something that the traces depend on has changed."""
        own = self._own_version()
        return (own, *(b._trace_version() for b in self._used)) if self._used else own

    def _note_blocks(self, blocks: Sequence[Any]) -> None:
        covered: set[int] = set()
        for b in self._used:
            b._tree_ids(covered)
        if self.owner is not None:
            self.owner._tree_ids(covered)
        for b in blocks:                                 # a parent comes before its children
            if id(b) not in covered:
                b._tree_ids(covered)
                self._used.append(b)

    def _counters(self) -> tuple[list[int], ...] | None:
        """Numbers that grow whenever ``version`` may differ, or None when there are no such numbers."""
        every = [self.counters, *(b._counters() for b in self._used)]
        return None if any(c is None for c in every) else tuple({id(n): n for c in every for n in c or ()}.values())

    # ---- calls
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        quick = self.quick
        if quick is not None and not kwargs:
            out = quick(*args)
            if out is not None:
                return out
        last = self._last
        if last is not None and not kwargs and not SCOPE.recording and not SCOPE.traces:
            entry, version, n, train = last
            if len(args) == n and SCOPE.training == train and self.version() == version:
                try:
                    for a in args:
                        if a._ctx != entry.ctx or type(a) is not entry.cls:
                            break
                    else:
                        out = entry.fast([a._data for a in args])
                        if out is not None:
                            return wrap(out[0], entry.ctx, entry.cls)
                except AttributeError:
                    pass                                     # an argument is no array
        return self._slow(args, kwargs)

    def _slow(self, args: Any, kwargs: Any) -> Any:
        if SCOPE.traces:
            return self.fn(*args, **kwargs)                  # inside another trace: inlined
        leaves: list[Any] = []
        structure = self._structure((args, kwargs), leaves)
        held, static = self.state() if self.state else ([], None)
        arrays = [self._array(x, leaves) for x in leaves]
        every = [*arrays, *held]
        ctx = common_context(self.name, every) if every else current_context()
        cls = next((type(x) for x in every if isinstance(x, NDArray)), None)
        repeats = _repeats(every)
        signature = (structure, tuple((a._data.shape, a._data.dtype, type(a)) for a in every), ctx, SCOPE.training, SCOPE.recording, SCOPE.np_array,
                     self.version(), static, repeats)
        entry = self.entries.get(signature)
        if entry is None:
            entry = self._compile(signature, structure, arrays, held, ctx, cls)
        if not SCOPE.recording and self._plain(args, kwargs, held) and entry.single and repeats is None:
            self._last = (entry, self.version(), len(args), SCOPE.training)
            self._make_quick(entry, args)
        if entry.written and entry.overlaps(every):
            return self.fn(*args, **kwargs)                  # eagerly: which values change together differs from call to call
        return entry.run(every)

    def _make_quick(self, entry: Entry, args: Any) -> None:
        """Lay the shortest way for the next call, if the owner has counters that say when it ends."""
        self.quick = None
        counters = self._counters()
        if counters is not None and args and entry.fast([a._data for a in args]) is not None and entry.bound is not None:
            self.quick = make_quick(entry.bound, entry.ctx, entry.cls, SCOPE.training, counters)

    def _plain(self, args: Any, kwargs: Any, held: Any) -> bool:
        return not kwargs and self.state is None and not held and all(isinstance(a, NDArray) for a in args)

    def _structure(self, value: Any, leaves: list[Any]) -> Any:
        try:
            return flatten(value, lambda v: isinstance(v, (NDArray, np.ndarray)), leaves)
        except TypeError as err:
            raise TraceError(f"{user_location()}: an argument of {self.name} is neither an array nor hashable ({err}); pass arrays, numbers, text, "
                             "or lists, tuples and dicts of them") from None

    def _array(self, x: Any, others: Sequence[Any]) -> NDArray:
        if isinstance(x, NDArray):
            return x
        ctx = next((o._ctx for o in others if isinstance(o, NDArray)), current_context())
        return array(x, ctx)

    # ---- compiling
    def _compile(self, signature: Any, structure: Any, arrays: list[NDArray], held: list[NDArray], ctx: Context, cls: Any) -> Entry:
        with self._lock:
            entry = self.entries.get(signature)
            if entry is None:
                self._note_miss(signature)
                entry = self._trace(structure, arrays, held, ctx, cls)
                final = (*signature[:6], self.version(), *signature[7:])       # tracing may have finished deferred parameters
                self.entries[signature] = self.entries[final] = entry
                debug.compiled(self.name, entry.exe.report)
        return entry

    def _note_miss(self, signature: Any) -> None:
        if self.entries:
            near = max(self.entries, key=lambda s: sum(a == b for a, b in zip(s, signature)))
            field = ", ".join(f"{name}: {a!r} -> {b!r}" for name, a, b in zip(FIELDS, near, signature) if a != b) or "nothing"
            self.cache_misses.append(field)
        else:
            self.cache_misses.append("first call")
        debug.missed(self.name, self.cache_misses[-1])

    def _trace(self, structure: Any, arrays: list[NDArray], held: list[NDArray], ctx: Context, cls: Any) -> Entry:
        trace = Trace(ctx, SCOPE.training)
        trace.np_semantics = any(getattr(a, "np_semantics", False) for a in [*arrays, *held])
        with _active(trace):
            names = ["data"] if len(arrays) == 1 else [f"data{i}" for i in range(len(arrays))]
            symbols = [trace.variable(n, None, a.shape, a._data.dtype) for n, a in zip(names, arrays)]
            first = {id(a): s for a, s in zip(reversed(arrays), reversed(symbols))}
            symbols = [first[id(a)] for a in arrays]             # one array given twice is one value
            for i, h in enumerate(held):
                own = trace.variable(f"state{i}", None, h.shape, h._data.dtype)
                trace.known[id(h)] = first.get(id(h), own)
            args, kwargs = unflatten(structure, iter(symbols))
            result = separate(self.fn(*args, **kwargs))
            leaves: list[Any] = []
            out_structure = flatten(result, lambda v: isinstance(v, (Symbol, NDArray)), leaves)
            leaves = [trace.capture(x) if isinstance(x, NDArray) else x for x in leaves]
        self._note_blocks(trace.blocks)
        for holder in trace.holders:
            if hasattr(holder, "finish_from_trace"):
                holder.finish_from_trace()
        return self._entry(trace, leaves, out_structure, len(symbols) + len(held), ctx, cls)

    def _entry(self, trace: Trace, leaves: list[Symbol], structure: Any, arguments: int, ctx: Context, cls: Any) -> Entry:
        changed = trace.changed()
        originals = {id(h): i for i, (h, _) in enumerate(trace.handles)}
        picks: list[tuple[str, int]] = []
        outputs: list[Symbol] = []
        for s in leaves:
            if id(s) in originals:                           # an input handed through: the caller's own array
                picks.append(("input", originals[id(s)]))
                continue
            picks.append(("output", len(outputs)))
            outputs.append(Symbol([s._one()]))
        group = Symbol([e for s in [*outputs, *(h for _, h in changed)] for e in s.entries])
        program, draws = lower(group, trace.variables, trace.train)
        n = len(outputs)
        updates = {slot: node for slot, node in program.updates}
        updates.update({i: node for (i, _), node in zip(changed, program.outputs[n:])})
        program = Program(program.inputs, program.outputs[:n], tuple(updates.items()))
        return Entry(program, draws, trace.holders, arguments, structure, picks, ctx, cls, [i for i, _ in changed])

    def clear(self) -> None:
        """Forget every compiled program."""
        self.entries.clear()
        self.quick = None
        self._last = None

    def report(self) -> Any:
        """The compile report of the newest entry, or None."""
        return list(self.entries.values())[-1].exe.report if self.entries else None
