"""Hybridized calls: a signature, a trace on Symbols, a compiled program, and a fast way to it the next time."""
from __future__ import annotations

import gc
import operator
import warnings
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ..base import collector, config, forking, names, pending
from . import debug, foreign_rng, machine_reads
from ..buffers.array import NP_CLASS, NDArray, array, wrap
from .changes import Change, Changes, traced_in
from .concealed import holds_traced, refuse_concealed
from .fingerprint import seen_array
from ..base.device import Context, current_context
from ..autograd.demands import Demand, outcome
from ..autograd.dispatch import common_context
from .compiled_call import Entry
from ..base.errors import (DeferredInitializationError, DeviceError, DTypeError, HybridError, TraceError,
                           UnevaluatedError, user_location)
from .compile_policy import REMEMBERED, Sightings, eagerly
from .fast_path import Ways, form_of, make_fast_path
from ..graph.size_numbers import Computed, SizeNumbers
from ..graph.traced_number import TracedNumber
from ..ir import Program
from ..ops.registry import find
from ..runtime import progress
from ..runtime.observers import OBSERVERS
from ..base.scope import CASTS_VERSION, SCOPE, untraced
from .fast_step import step_call
from ..graph.lower import lower, unless_refused
from ..graph.node_notes import cut, detached
from ..graph.symbol import ALIAS, Symbol, create
from .reads import Reader, is_foreign_array, is_numeric
from .replaced import classes_of
from .free_variables import Guard
from .programs import ProgramInfo, programs
from .number_arguments import NO_NUMBERS, GivenNumbers, LookedAt, NotWithInputs, NumberArguments, OtherInputs
from .numbers_of_trace import NumbersOfTrace
from .taken import Taken, dense
from .watches import MENTIONED, Watch
from ..graph.symnode import CONCRETE, SymNode
from ..base.pytree import flatten, like, unflatten
from ..ir.asked import Asked
from ..ir.size import Specialised
from .any_size import RENEW, AnySize, check

FIELDS = ("structure", "arrays", "device", "training", "recording", "numpy arrays", "attributes", "state",
          "repeated arrays",
          "objects read")
# calls after which a function that assigns other than arrays at each of them runs as plain Python
TRIES = 3
GUARDS = 16                     # sets of places read that are kept for each kind of call


class Trace:
    """One trace: the variables that stand for arrays, and what they stand for."""

    def __init__(self, ctx: Context, train: bool):
        # np_semantics: whether traced values follow NumPy's rules
        self.ctx, self.train, self.np_semantics = ctx, train, False
        self.cls: Any = None                            # of the results, where the code says so
        self.variables: list[SymNode] = []
        self.holders: list[Any] = []                    # what gives the array of each variable at call time
        self.handles: list[tuple[Symbol, SymNode]] = []
        self.known: dict[int, Symbol] = {}
        # variables outside of the code that hold arrays, by id of the array
        self.places: dict[int, Any] = {}
        self.numbers: list[NDArray] = []                # arrays whose numbers the code has read
        # arrays that the traced code makes of constants: each call has its own
        self.made: dict[int, NDArray] = {}
        # operators that may change a state or draw: they do, whether their results are used or not
        self.stateful: list[SymNode] = []
        # Blocks called meanwhile: what they do may depend on their attributes
        self.blocks: list[Any] = []
        self.given: list[Any] = []                      # the arrays of the first variables: arguments and state
        self.recording = SCOPE.recording                # whether the call as a whole is recorded
        self.precision: str | None = None               # of products with parameters, where nothing is recorded
        # gradients (traced_grad.py)
        # for an input, the number of the input that collects its gradient
        self.gradients: dict[int, int] = {}
        self.fresh: set[int] = set()                    # inputs whose gradients backward computed
        # those of them that a Trainer used: they are not written to memory
        self.used_up: set[int] = set()
        self.kept: set[int] = set()                     # those that it used and that are written all the same
        self.rows: dict[int, Any] = {}                  # for an input, its gradient by rows (traced_rows.py)
        # parameters, by id, whose rows are updated after the program has run
        self.late: dict[int, str] = {}
        self.leaves: list[Any] = []                     # traced values with attach_grad
        # what the data of a call must hold (autograd/demands.py); but for the bodies of loops
        self.demands: list[Demand] = []
        # of each loop, branch or vmap whose body is traced: what is watched in it, None where nothing can be
        self.bodies: list[list[Watch] | None] = []
        self.drew: list[str] = []                       # other generators that the code drew from
        self.outside: dict[str, str] = {}               # what of the machine it read, and where
        self.before: list[Callable[[], None]] = []      # what happens before each call of the program
        self.after: list[Callable[[], None]] = []       # and after it
        # takes out of objects of this library what ``before`` sets
        self.put_back: list[Callable[[], None]] = []
        self.steps: list[tuple[Any, Any]] = []          # Trainers that update parameters, and what counts their updates
        self.undo: list[Callable[[], None]] = []        # what ``before`` did, where a demand is not met
        self.variables_made = count(1)                  # numbers of values that are variables of their own
        # what gradients of an input of a number are taken by, where a Trainer has updated it since
        self.leaves_of: dict[int, SymNode] = {}
        # by id of a Parameter that a Trainer has updated: what makes it a new variable when it is used again
        self.updated: dict[int, Callable[[], None]] = {}
        self.texts: set[str] = set()                    # what formatted traced values look like
        # values that are shown to a function at each call (watches.py)
        self.watches: list[Watch] = []
        self.transformed = False                        # of vmap, jvp and the like, which never run as plain Python
        self.names: set[str] = set()                    # in the code that ran
        self.symbolic = False                           # whether sizes are symbols (any_size.py)
        self.compiled = True                            # whether what is traced is compiled at once
        self._size_numbers: SizeNumbers | None = None   # those that the code computes from sizes
        self.remembered = False                         # whether the code called a function with a cache
        # errors for which user code asked by what only the running program knows
        self.refused: list[Any] = []
        # whether isinstance(x, NDArray) was True for a traced value in a hybrid_forward; whether it is to be False
        # there
        self.showed_arrays = self.shows_symbols = False
        # (line, what) of a state change that the compiled call cannot repeat
        self.writes: Any = ()
        self.asked: dict[int, str] = {}                 # by id of a Parameter, where the code first uses it
        # ids of captured arrays that ``before`` fills at every call: they are no parameters
        self.renewed: set[int] = set()

    def follow(self, rules_of_np: bool) -> None:
        """What is traced from here on goes by NumPy's rules, or by those of nd."""
        self.np_semantics = rules_of_np
        self.cls = NP_CLASS[0] if rules_of_np else NDArray

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
                try:
                    x = array(x, self.ctx)
                except DTypeError as err:
                    raise DTypeError(f"{user_location()}: {err}") from None
        if not isinstance(x, NDArray):
            raise TraceError(f"{user_location()}: hybridized code can use arrays, numbers and NumPy arrays, got "
                             f"{type(x).__name__}")
        dense(x, "hybridized code")
        if x._ctx != self.ctx:
            raise DeviceError(f"{user_location()}: an array is on {x._ctx}, the inputs are on {self.ctx}; move it "
                              f"with as_in_context")
        if id(x) not in self.known:
            handle = self.variable(f"captured{len(self.known)}", self.places.get(id(x), x), x.shape, x._data.dtype)
            # a change in place of what the code made itself must not reach the next call: it changes a copy
            self.known[id(x)] = create(find("_copy"), [handle], {},
                                       f"made{len(self.known)}") if id(x) in self.made else handle
        return self.known[id(x)]

    def size_numbers(self) -> SizeNumbers:
        """The numbers that the code computes from symbolic sizes; Specialised where the sizes are no symbols."""
        if not self.symbolic or self.in_body:
            raise Specialised(f"{user_location()}: a size is used as a number in the body of a loop")
        if self._size_numbers is None:
            self._size_numbers = SizeNumbers(self._computed)
        return self._size_numbers

    def _computed(self, holder: Computed, dtype: np.dtype) -> Symbol:
        self.renewed.add(id(holder))
        return self.variable(f"size{len(self.variables)}", holder, (), dtype)

    def settle_sizes(self) -> None:
        """Specialised where the code keeps a number that it computed from sizes."""
        if self._size_numbers is not None:
            self._size_numbers.settle()

    def renew(self, x: NDArray) -> Symbol:
        """The traced input for an array that ``before`` fills at every call: nothing is prepared from it."""
        self.renewed.add(id(x))
        return self.capture(x)

    @property
    def in_body(self) -> bool:
        """Whether the body of a loop, branch or vmap is being traced."""
        return bool(self.bodies)

    def watch(self, values: Any, call: Callable[[Any], None], what: str, at: str, mapped: int = 0) -> None:
        """Give ``call`` the values, with arrays in the place of traced ones, at each call of the program, in the order
        in which code asks for it. What is asked for in the body of a loop makes the call run as plain Python; in that
        of vmap it is called for each example.

        values: nested in lists, tuples and dicts. what, at: who asks, and where, for messages. mapped: how many leading
        axes of the values go over examples.
        """
        into = self.bodies[-1] if self.bodies else self.watches
        if into is None and self.transformed:
            raise TraceError(f"{at}: {what} in a loop of a function that is transformed sees no numbers: look at the "
                             "arguments or results outside of it")
        if into is None:
            error = _PlainOnly(f"{at}: {what} in the body of a loop or branch is called for each step, which a "
                               f"compiled "
                               "loop cannot do: such calls run as plain Python")
            self.refused.append(error)
            raise error
        leaves: list[Any] = []
        form = flatten(values, lambda v: isinstance(v, (Symbol, NDArray)), leaves, by_identity=True)
        symbols = [x if isinstance(x, Symbol) else self.capture(x) for x in leaves]
        # as they are now: an array may be changed in place afterwards
        into.append(Watch([Symbol([s._one()]) for s in symbols], form, call, what, at, mapped))

    def plain_only(self, what: str) -> None:
        """Have the call run as plain Python, for the code does what a program cannot do at each call. what: in
        words."""
        line = user_location()
        if self.transformed:
            raise TraceError(f"{line}: a transformed function {what}, which a compiled program cannot do: do it outside")  # noqa: E501
        error = _PlainOnly(f"{line}: this code {what}, which a compiled program cannot do again: such calls run as "
                           "plain Python. Do it outside of the hybridized code.")
        self.refused.append(error)
        raise error

    def read(self, x: NDArray) -> None:
        """Note that the traced code used the numbers of an array (``asnumpy``): when they change, it is traced
        again."""
        self.blocks += [] if id(x) in self.made else [seen_array(x)]
        self.numbers.append(x)

    def parameter(self, p: Any) -> Symbol:
        """The traced input for a gluon Parameter (looked up at each call)."""
        if id(p) in self.late:
            raise TraceError(f"{user_location()}: Parameter {p.name!r}, whose gradient is row_sparse, is read after "
                             f"the Trainer's step {self.late[id(p)]}: its rows "
                             "are updated when the compiled program has run. Make two hybridized functions of it, or "
                             "leave out sparse_grad")
        if id(p) not in self.known:
            self.asked[id(p)] = user_location()
            handle = p.traced_variable()
            node = handle._one()[0]
            self.variables.append(node)
            self.holders.append(p)
            self.handles.append((handle, node))
            self.known[id(p)] = handle
        if id(p) in self.updated:
            self.updated.pop(id(p))()
        return self.known[id(p)]

    def owner(self, number: int) -> Any:
        """What the input of a number stands for: an array, a Parameter or another holder."""
        return self.given[number] if number < len(self.given) else self.holders[number]

    def finish(self, results: Sequence[Symbol]) -> None:
        """Forget gradients that were used up within the program, but those that the code returns."""
        for i in self.used_up & self.gradients.keys():
            handle, node = self.handles[self.gradients[i]]
            if any(r is handle for r in results):
                self.used_up.discard(i)
                continue
            if hasattr(self.holders[self.gradients[i]], "forget"):
                self.holders[self.gradients[i]].forget(self)
            handle.entries = [(node, 0)]

    def changed(self) -> list[tuple[int, Symbol]]:
        """Inputs that were changed in place: (number, new value)."""
        return [(i, h) for i, (h, n) in enumerate(self.handles) if h.entries[0][0] is not n]


def view_steps(s: Symbol, originals: dict[int, int]) -> tuple[int, list[Any]] | None:
    """The number of the input that a value is a view of, and how: keys, or shapes for all elements. None for others."""
    steps: list[Any] = []
    while id(s) not in originals:
        if s._base is None:
            return None
        shape = s.shape
        s, key = s._base
        steps.append((None, shape) if key is ALIAS else (key, shape))
    return originals[id(s)], steps[::-1]


def _views_of_results(leaves: Sequence[Symbol], given: dict[int, tuple[str, int]]) -> dict[int, Any]:
    """Results that are views of another result: where each stands, and of which one it is a view, and how."""
    own = {id(s): given[id(s)][1] for s in leaves if given.get(id(s), ("input", 0))[0] == "output"}

    def of(s: Symbol, among: dict[int, int]) -> Any:
        return view_steps(s, {k: i for k, i in among.items() if k != id(s)}) if s._base is not None else None
    whole = {id(s): own[id(s)] for s in leaves if id(s) in own and of(s, own) is None}
    return {own[id(s)]: ("output", *of(s, whole)) for s in leaves if id(s) in own and id(s) not in whole}


def separate(value: Any) -> Any:
    """Results with Symbols of several outputs as lists, as eager calls give them."""
    if isinstance(value, Symbol) and len(value.entries) > 1:
        return [Symbol([e]) for e in value.entries]
    if isinstance(value, dict):
        items = {k: separate(v) for k, v in value.items()}
        return items if type(value) is dict else like(type(value), getattr(value, "default_factory", None), items)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(separate(v) for v in value)
    return value


@contextmanager
def _errors_of(name: str, assigned: Changes, trace: Trace) -> Iterator[None]:
    """TraceError in the place of an error that carries traced values to the caller; where arrays had been changed
    before it was raised, the code runs as plain Python, which changes them."""
    try:
        yield
    except HybridError:
        raise
    except Exception as err:
        if trace.changed():
            raise _PlainOnce(f"{assigned.first_line()}: {name} raises a {type(err).__name__}") from err
        if any(True for _ in traced_in([*err.args, *vars(err).values()])):
            raise TraceError(f"{assigned.first_line()}: {name} raises a {type(err).__name__} that holds values which "
                             "are known only when the compiled program runs. Raise it without arrays, or call this "
                             "block or function without hybridize.") from None
        raise


class _PlainOnly(TraceError):
    """Traced code did what is not the same with traced values: it runs again, as plain Python."""


class _PlainAlways(_PlainOnly):
    """The same, for every call: nothing is kept of this one."""


class _PlainOnce(_PlainOnly):
    """The same, for one call: the code raised an error when it had changed arrays."""


def _as_given(arguments: Any, structure: Any, symbols: Sequence[Symbol]) -> bool:
    """Whether the containers among traced arguments hold what they held."""
    leaves, now = _nested(arguments)
    return bool(now == structure) and len(leaves) == len(symbols) and all(map(operator.is_, leaves, symbols))


def _nested(arguments: Any) -> tuple[list[Any], Any]:
    """The traced values and numbers among traced arguments, and how they are nested."""
    leaves: list[Any] = []
    return leaves, flatten(arguments, lambda v: type(v) is TracedNumber or isinstance(v, Symbol), leaves,
                           by_identity=True)


@contextmanager
def _restoring(reader: Reader, name: str, trace: Trace) -> Iterator[None]:
    """Puts back what traced code has changed, where it runs again; TraceError where that cannot be done."""
    try:
        yield
    except Exception as err:
        again = isinstance(err, (_PlainOnly, LookedAt, NotWithInputs, OtherInputs, Specialised,
                                 DeferredInitializationError))
        left = reader.restore() if again or trace.symbolic or isinstance(err, TraceError) else ""
        if left and (again or trace.symbolic):
            raise TraceError(f"{reader.line()}: {name or 'this function'} changes {left} and has to run once more, "
                             f"which would change it twice ({err}). Change it outside of the hybridized code."
                             ) from None
        raise


@contextmanager
def _active(trace: Trace) -> Iterator[None]:
    SCOPE.traces.append(trace)
    try:
        yield
    finally:
        SCOPE.traces.pop()


def _repeats(arrays: Sequence[NDArray]) -> Any:
    """Where one array object is given more than once (a change through one is seen through the other), else None."""
    ids = [id(a) for a in arrays]
    return tuple(map(ids.index, ids)) if len(set(ids)) < len(ids) else None


def _finish(trace: Trace) -> bool:
    """Initialize deferred parameters by the shapes that a trace found out; whether there were any. An error of one
    names the line that uses it."""
    deferred = [h for h in trace.holders if hasattr(h, "finish_from_trace")]
    some = any(h.is_deferred for h in deferred)
    for h in deferred:
        try:
            h.finish_from_trace()
        except HybridError as err:
            raise type(err)(f"{trace.asked.get(id(h), user_location())}: {err}") from None
    return some


class Hybridized:
    """A callable that compiles what another one does.

    fn: called with traced arguments. version: a function that gives a number which grows whenever something that the
    trace depends on changes. state: a function that gives (arrays, static part) of the owner's attributes, or None.
    """

    def __init__(self, fn: Callable[..., Any], name: str, version: Callable[[], Any] | None = None,
                 state: Callable[[], Any] | None = None,
                 options: dict[str, Any] | None = None, owner: Any = None):
        self.owner = owner
        self.fn, self.name, self.state, self.options = fn, name, state, options or {}
        self._own_version = version or (lambda: 0)
        self._guards: dict[Any, list[Guard]] = {}        # of the traces for each signature
        # Blocks that the traced code called and that the owner's version does not cover
        self._used: list[Any] = []
        # the counters of those Blocks when _steady, their versions, was made
        self._seen: Any = None
        self._lists: list[list[int]] = []
        self._steady: list[Any] = []
        self.entries: dict[Any, Entry] = {}
        self.cache_misses: list[str] = []
        self._sightings = Sightings()
        self._numbers = NumberArguments()
        self._any_size = AnySize()
        self._always_plain = False                              # whether all calls run as plain Python
        self._changing: dict[Any, int] = {}              # how often a kind of call has assigned what no program can
        self._lock = forking.LongLock()
        self._last: tuple[Entry, Any, bool, bool] | None = None
        self.counters: tuple[list[int], ...] | None = () if version is None and state is None else None
        self.rounds: Any = None                          # of training loops that begin with it (jit/deferred)
        self._ways = Ways()
        self.fast_path = self._ways.call                  # a call that sees by itself whether anything has changed

    def version(self) -> Any:
        """A value that differs when something that the traces depend on has changed."""
        own = self._own_version(), CASTS_VERSION[0]
        if not self._used:
            return own
        if self._seen is None or not self._lists or [n[0] for n in self._lists] != self._seen:
            counters = [b._counters() for b in self._used]
            self._lists = [n for c in counters if c for n in c]
            self._seen = [n[0] for n in self._lists]
            self._steady = [b._trace_version() if c is not None else None for b, c in zip(self._used, counters)]
        return own, *(v if v is not None else b._trace_version() for v, b in zip(self._steady, self._used))

    def _note_blocks(self, blocks: Sequence[Any]) -> None:
        covered: set[int] = set()
        for b in self._used:
            b._tree_ids(covered)
        if self.owner is not None:
            self.owner._tree_ids(covered)
        # a parent comes before its children; a Trainer counts once, however many traces met it
        for b in blocks:
            tree: set[int] = set()
            b._tree_ids(tree)
            if not tree <= covered:
                covered |= tree
                self._used.append(b)
                self._seen = None

    def _counters(self) -> tuple[list[int], ...] | None:
        """Numbers that grow whenever ``version`` may differ, or None when there are no such numbers."""
        every = [self.counters, *(b.counted if hasattr(b, "holds") else b._counters() for b in self._used)]
        return None if any(c is None for c in every) else tuple({id(n): n for c in every for n in c or ()}.values())

    # ---- calls
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fast = self.fast_path[0]
        if fast is not None:
            out = fast(*args, **kwargs)
            if out is not None:
                return out
        return self.slow_path(*args, **kwargs)

    def slow_path(self, *args: Any, **kwargs: Any) -> Any:
        """A call that the fast path did not take."""
        if pending.PUT_OFF[0] and not SCOPE.traces and (self.owner is None or not SCOPE.recording):
            pending.settle(f"{self.name} was called")
        last = self._last
        if last is not None and not kwargs and not SCOPE.recording and not SCOPE.traces and not OBSERVERS:
            entry, version, train, np_array = last
            if (entry.takes(args) and SCOPE.training == train and SCOPE.np_array == np_array
                and self.version() == version and entry.stamp == entry.guard.stamp()):
                self._lay_way(entry, args, None)
                out = entry.fast([a._data for a in args]) if entry.single else None
                return wrap(out[0], entry.ctx,
                            entry.cls) if out is not None else entry.run(args, lambda: self.fn(*args))
        if SCOPE.recording and self.owner is not None and not SCOPE.traces and not SCOPE.plain and pending.LATER:
            return pending.LATER[0].call(self, args, kwargs)     # a training loop, of which rounds may be put off
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
        taken = Taken(leaves, self.name)
        arrays = taken.arrays
        # the caller's own lists and dicts, unless other libraries' arrays in them are converted
        given = (args, kwargs) if all(x is a for x, a in zip(leaves, arrays)) else None
        every = [*arrays, *held]
        ctx = common_context(self.name, every) if every else current_context()
        cls = next((type(x) for x in every if isinstance(x, NDArray)), None)
        repeats = _repeats(every)
        plain = self._plain(structure, every, ctx, static, repeats)
        if self._runs_plainly(plain):
            return self._plainly((args, kwargs), structure, arrays)
        entry, numbers, new = self._entry_for(structure, plain, arrays, held, ctx, cls)
        if self._always_plain:
            self._keep_nothing()
        if entry is None:
            return self._plainly((args, kwargs) if self._runs_plainly(plain) else given, structure, arrays)
        if entry.numbers is not None:
            every += numbers.arrays(entry.numbers, ctx)
        def otherwise() -> Any:
            return self.fn(*args, **kwargs) if given is not None else self._plainly(None, structure, arrays)
        taken.refuse_read_only(entry.written)
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
        """The entry for a call, None where it runs as plain Python; the numbers among its arguments that are inputs;
        whether the entry is new. inputs: whether there may be such numbers."""
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
            self._sightings.warn(self.name, lambda: debug.difference(FIELDS, self.entries, signature))
            return None, numbers, False
        failed = None
        try:
            entry = self._compile(plain, structure, arrays, held, ctx, cls, numbers, missed)
        except _PlainOnce:
            return None, numbers, False
        except _PlainOnly as err:
            warnings.warn(str(err), stacklevel=3)
            if isinstance(err, _PlainAlways):
                self._always_plain = True
            else:
                self._changing[(structure, *plain[1:6])] = TRIES
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
        plain, structure, arrays, held = self._kind(args, kwargs)
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
        plain, structure, arrays, held = self._kind(args, {})
        cls = next((type(x) for x in [*arrays, *held] if isinstance(x, NDArray)), None)
        with self._lock, asked.answering(False):
            return self._trace(structure, arrays, held, plain[2], cls, NO_NUMBERS, shapes, asked, compiled=False)[0]

    def known(self, args: Any, kwargs: Any) -> Entry | None:
        """The entry of a call with these arguments, if there is one."""
        plain, structure, _, _ = self._kind(args, kwargs)
        return self._found(structure, plain)[2]

    def _kind(self, args: Any, kwargs: Any) -> tuple[Any, Any, list[NDArray], list[NDArray]]:
        """The signature of a call but for what its code reads; the arguments' structure and arrays, the owner's
        arrays."""
        leaves: list[Any] = []
        structure = self._structure((args, kwargs), leaves)
        held, static = self.state() if self.state else ([], None)
        arrays = Taken(leaves, self.name).arrays
        every = [*arrays, *held]
        ctx = common_context(self.name, every) if every else current_context()
        return self._plain(structure, every, ctx, static, _repeats(every)), structure, arrays, held

    def _plain(self, structure: Any, every: Sequence[NDArray], ctx: Context, static: Any, repeats: Any) -> Any:
        """A call's signature but for what is read of objects."""
        return (structure, tuple((a._data.shape, a._data.dtype, type(a)) for a in every), ctx, SCOPE.training,
                SCOPE.recording, SCOPE.np_array, self.version(), static, repeats)

    def _found(self, structure: Any, plain: Any, inputs: bool = True) -> tuple[Any, Any, Entry | None, GivenNumbers]:
        """The signature of a call, without and with what is read of objects, the entry for it, and the numbers among
        its arguments that are inputs. inputs: whether there may be such."""
        key, numbers = self._numbers.of(structure) if inputs else (structure, NO_NUMBERS)
        signature, entry = self._known((key, *plain[1:]))
        if entry is None and inputs and self._numbers.new_program(structure):
            key, numbers = self._numbers.of(structure)
            signature, entry = self._known((key, *plain[1:]))
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
        made, a parameter replaced) though the program is still right, if it is asked for often.
        """
        if (entry.whole or entry.is_step) and not OBSERVERS and entry.is_compiled():
            if entry.missed % RENEW == 0 and not self._ways.again(entry):
                self._ways.add(entry, None)
                self._ways.add(entry, self._new_way(entry, arguments, form))
            entry.missed += 1

    def shorten(self, entry: Entry, arguments: Sequence[NDArray]) -> None:
        """Lay the fast path for calls with such arrays by position, where there may be one."""
        if _repeats(arguments) is None:
            self._lay_way(entry, arguments, None)

    def _new_way(self, entry: Entry, arguments: Sequence[NDArray], form: Any) -> Callable[..., Any] | None:
        """Such a way, if the owner has counters that say when it ends."""
        counters = self._counters()
        if entry.tells_apart and len(arguments) > 1:           # that way does not see an array that is given twice
            return None
        if counters is None or not arguments or entry.guard.stamp() != entry.stamp or entry.bind() is None:
            return None
        holds = [b.holds() for b in self._used if hasattr(b, "holds")]
        step = step_call(entry, arguments, holds) if entry.is_step else None
        if step is None and (entry.is_step or holds) or entry.cls is None:
            return None
        fast = make_fast_path(entry.bound, entry.ctx, entry.cls, SCOPE.training, counters, entry.structure, entry.guard,
                           form, step)
        return fast if entry.numbers is None or fast is None else entry.numbers.computing(fast)

    def _structure(self, value: Any, leaves: list[Any]) -> Any:
        return flatten(value, lambda v: isinstance(v, NDArray) or is_numeric(v) or is_foreign_array(v), leaves,
                       by_identity=True)

    # ---- compiling
    def _known(self, plain: Any) -> tuple[Any, Entry | None]:
        """The whole signature of a call, with what is read of objects, and the entry for it."""
        signature = (*plain, ())
        for guard in self._guards.get(plain, ()):
            signature = (*plain, guard.stamp())
            entry = self.entries.get(signature)
            if entry is not None:
                return signature, entry
        return signature, None

    def _guard(self, plain: Any, guard: Guard) -> Guard:
        """Remember a guard; an equal one that is known already stands for it."""
        known = self._guards.setdefault(plain, [])
        for old in known:
            if old.key == guard.key:
                return old
        if len(known) >= GUARDS:
            gone = known.pop(0)
            self.entries = {k: e for k, e in self.entries.items() if e.guard is not gone}
        known.append(guard)
        return guard

    def _compile(self, plain: Any, structure: Any, arrays: list[NDArray], held: list[NDArray], ctx: Context,
                 cls: Any, numbers: GivenNumbers, missed: bool = False) -> Entry:
        """The entry, new or made by another thread meanwhile. missed: whether the cache miss is noted already."""
        with self._lock:
            signature, entry = self._known(plain)
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
                    self._changing[plain[:6]] = TRIES
                    return entry
                if entry.once:
                    self._once_more(plain[:6], entry.once)
                    return entry
                final = (*plain[:6], self.version(), *plain[7:])       # tracing may have finished deferred parameters
                entry.guard = self._guard(final, guard)
                entry.stamp = entry.guard.stamp_of(values)
                if final != plain:
                    self._guard(plain, entry.guard)
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

    def _once_more(self, kind: Any, what: str) -> None:
        """Note that a program was made that is right for one call."""
        if len(self._changing) >= REMEMBERED:
            self._changing.clear()
        self._changing[kind] = self._changing.get(kind, 0) + 1
        if self._changing[kind] == TRIES:
            warnings.warn(f"{what} at every call, and no program can do that. Such calls run as plain Python from "
                          f"here on. Keep what changes in an array of one size "
                          "(self.count = nd.zeros(1); self.count += 1), or change it outside of the compiled code.",
                          stacklevel=2)

    def _note_miss(self, signature: Any) -> None:
        # without a guard for such calls nothing is known of what they read
        seen = len(signature) if signature[-1] else -1
        self.cache_misses.append(debug.difference(FIELDS, [s[:seen] for s in self.entries], signature[:seen]))
        debug.missed(self.name, self.cache_misses[-1])
        progress.log("DEBUG", "%s: cache miss, %s", self.name, self.cache_misses[-1])

    def _trace(self, structure: Any, arrays: list[NDArray], held: list[NDArray], ctx: Context,
               cls: Any, numbers: GivenNumbers, shapes: Any = None,
               asked: Asked | None = None, compiled: bool = True) -> tuple[Entry, Guard, list[Any]]:
        wanted, refused = numbers.first(), None
        while True:
            trace = self._new_trace(arrays, held, ctx)
            trace.compiled, trace.shows_symbols = compiled, refused is not None
            traced = NumbersOfTrace(trace, numbers, wanted)
            try:
                with asked.answering(True) if asked is not None else nullcontext():
                    leaves, out_structure, reader, changes = self._run_traced(trace, structure, arrays, held, traced,
                                                                              shapes)
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
                if not _finish(trace):
                    raise
                continue
            break
        self._note_blocks(trace.blocks)
        _finish(trace)
        reader.library([type(self.owner), *(c for b in trace.blocks for c in classes_of(b))])
        fixed = {*map(id, trace.holders), *map(id, trace.numbers)}
        guard, values = reader.guard(lambda place, x: id(x) in fixed)
        entry = self._entry(trace, leaves, out_structure, trace.cls or cls, changes)
        entry.numbers, entry.tells_apart = traced.inputs(), reader.tells_apart
        return entry, guard, values

    def _new_trace(self, arrays: list[NDArray], held: list[NDArray], ctx: Context) -> Trace:
        trace = Trace(ctx, SCOPE.training)
        trace.given = [*arrays, *held]
        trace.np_semantics = any(getattr(a, "np_semantics", False) for a in [*arrays, *held])
        return trace

    @collector.waits
    def _run_traced(self, trace: Trace, structure: Any, arrays: list[NDArray], held: list[NDArray],
                    numbers: NumbersOfTrace, shapes: Any = None) -> tuple[list[Symbol], Any, Reader, list[Change]]:
        """The results of the traced code, how they were put together, what the code read and what it assigned. shapes:
        of the arrays, where they are others than those (with sizes that are known at the call)."""
        trace.symbolic = shapes is not None
        with _active(trace):
            titles = ["data"] if len(arrays) == 1 else [f"data{i}" for i in range(len(arrays))]
            symbols = [trace.variable(n, None, s, a._data.dtype)
                       for n, a, s in zip(titles, arrays, shapes or [a.shape for a in arrays])]
            first = {id(a): s for a, s in zip(reversed(arrays), reversed(symbols))}
            symbols = [first[id(a)] for a in arrays]             # one array given twice is one value
            for i, h in enumerate(held):
                own = trace.variable(f"state{i}", None, h.shape, h._data.dtype)
                trace.known[id(h)] = first.get(id(h), own)
            numbers.make_variables()
            args, kwargs = unflatten(numbers.put_into(structure), iter(symbols))
            nested, form = _nested((args, kwargs))
            drawn = foreign_rng.states()
            reader = Reader(lambda x, place: trace.places.setdefault(id(x), place))
            reader.start(self.fn, (args, kwargs))
            with names.kept():
                with _restoring(reader, self.name, trace), Changes(trace, self.fn, args, kwargs) as assigned:
                    with reader, _errors_of(self.name, assigned, trace), numbers.watched(assigned.first_line):
                        result = self.fn(*args, **kwargs)
                    if trace.refused:                        # and code of the user's went on without the value
                        raise trace.refused[0]
                    if reader.callers:
                        raise TraceError(f"{reader.callers}: {self.name} looks at the code that called it, which a "
                                         "compiled program cannot know. Give it as an argument what it needs, or call "
                                         "this block or function without hybridize.")
                    numbers.settle()
                    trace.settle_sizes()
                    if reader.types:
                        line, variable, how = reader.types[0]
                        raise _PlainOnly(
                            f"{line}: {self.name} asks what {variable} is by {how}(), whose answer is not the one for "
                            f"array while it is compiled: such calls run as plain Python. Use isinstance({variable}, "
                            f"NDArray).")
                    if not _as_given((args, kwargs), form, nested):
                        raise _PlainOnly(
                            f"{assigned.first_line()}: {self.name} changes a list or dict among its arguments, which a "
                            f"compiled program cannot do again: such calls run as plain Python. Return a new one.")
                    refuse_concealed(result, f"{self.name} returns", assigned.first_line(), trace.texts, True)
                    changes = assigned.settle()
                    written = reader.written()
                    trace.writes = written and (assigned.first_line(), written)
                trace.names = assigned.mentioned()
                MENTIONED.update(trace.names)
                result = separate(assigned.own(result))
            reader.finish(self.name)
            reader.library({NDArray, *map(type, trace.given), *([NP_CLASS[0]] if trace.np_semantics else [])})
            if reader.methods():
                raise _PlainOnly(
                    f"{assigned.first_line()}: {self.name} runs where {reader.methods()} is not this library's any "
                    "more, and a compiled program has the library's own: such calls run as plain Python. Give what "
                    "takes its place a name of its own.")
            if reader.weak and not reader.outside:
                raise _PlainAlways(
                    f"{assigned.first_line()}: {self.name} looks through a weak reference, and a program that looks at "
                    "an object keeps it alive: such calls run as plain Python. Give the object itself.")
            for place, x in assigned.settled_places({*trace.known, *map(id, trace.numbers)}):
                reader.places.setdefault(place.key, place)
                reader.values.setdefault(place.key, x)
            trace.drew, trace.outside = foreign_rng.moved(drawn) or reader.drew, reader.outside
            leaves: list[Any] = []
            try:
                out_structure = flatten(result, lambda v: isinstance(v, (Symbol, NDArray)), leaves,
                                        objects=holds_traced)
            except TypeError as err:
                raise TraceError(f"{assigned.first_line()}: {self.name} returns something that is neither an array of "
                                 "hybrid nor hashable "
                                 f"({err}). Return arrays made by hybrid's functions "
                                 "(nd.array(x) of a NumPy array), numbers, text, or lists, tuples and dicts of them.") from None  # noqa: E501
            return [trace.capture(x) if isinstance(x, NDArray) else x for x in leaves], out_structure, reader, changes

    def _entry(self, trace: Trace, leaves: list[Symbol], structure: Any, cls: Any, changes: list[Change]) -> Entry:
        trace.finish(leaves)
        changed = trace.changed()
        originals = {id(h): i for i, (h, _) in enumerate(trace.handles)}
        picks: list[tuple[str, int]] = []
        outputs: list[Symbol] = []
        leaves = list(leaves)
        # a value that is assigned is a result too, the same array where it is returned as well
        for c in changes:
            for s in c.traced:
                at = next((i for i, known in enumerate(leaves) if known is s), len(leaves))
                leaves += [s] if at == len(leaves) else []
                c.results.append(at)
        views: dict[int, Any] = {}
        given: dict[int, Any] = {}                           # what a value is given back as
        for s in leaves:
            if id(s) in originals:                           # an input handed through: the caller's own array
                picks.append(("input", originals[id(s)]))
                continue
            if id(s) in given:                               # the same array twice
                picks.append(given[id(s)])
                continue
            given[id(s)] = ("output", len(outputs))
            if not trace.recording and (of := view_steps(s, originals)) is not None:
                views[len(outputs)] = "input", *of
            picks.append(("output", len(outputs)))
            outputs.append(Symbol([cut(s._one()) if trace.recording else s._one()]))
        if not trace.recording:
            views.update(_views_of_results(leaves, given))
        results = len(outputs)
        with _active(trace):
            for w in trace.watches:
                outputs += [Symbol([detached(s._one()) if trace.recording else s._one()]) for s in w.values]
        if trace.demands:
            with _active(trace):
                told = outcome(trace.demands)._one()
            outputs.append(Symbol([cut(told) if trace.recording else told]))
        group = Symbol([e for s in [*outputs, *(h for _, h in changed)] for e in s.entries])
        program, draws = lower(group, trace.variables, trace.train, trace.stateful)
        n = len(outputs)
        updates = {slot: node for slot, node in program.updates}
        updates.update({i: node for (i, _), node in zip(changed, program.outputs[n:])})
        if trace.demands:
            updates = unless_refused(program, program.outputs[n - 1], updates)
        origins = program.memo["origins"]
        program = Program(program.inputs, program.outputs[:n], tuple(updates.items()))
        program.memo.update(origins=origins, name=self.name)
        trace.precision = self.options.get("precision")
        entry = Entry(program, draws, trace, structure, picks, cls, [i for i, _ in changed],
                      [c for c in changes if c.traced])
        entry.drew, entry.outside = trace.drew, trace.outside
        entry.leaves_traces = bool(changes) or trace.remembered
        entry.watched = results
        entry.look_at(views)
        entry.once = next((f"{c.at}: {self.name} assigns to {c.what()}" for c in changes if not c.kept), "") or (
            trace.writes and f"{trace.writes[0]}: {self.name} changes {trace.writes[1]}")
        if trace.recording:
            entry.graph = Symbol([s._one() for s in outputs]), list(trace.variables)
        return entry

    def _runs_plainly(self, plain: Any) -> bool:
        """Whether calls of a kind run as plain Python, with what the caller gave."""
        return self._always_plain or bool(self._changing) and self._changing.get(plain[:6], 0) >= TRIES

    def _keep_nothing(self) -> None:
        """Let go of the objects of earlier calls: this function runs as plain Python from here on."""
        self.clear()
        self._changing, self._sightings = {}, Sightings()
        gc.collect()

    def clear(self) -> None:
        """Forget every compiled program."""
        self.entries.clear()
        self._guards.clear()
        self._ways.clear()
        self._last = None
        self._any_size.clear()
        self._numbers.clear()

    def programs(self) -> list[ProgramInfo]:
        """The compiled programs, the oldest first."""
        return programs(self.entries)

    def report(self) -> Any:
        """The compile report of the newest entry, or None."""
        if not self.entries:
            return None
        found = list(self.entries.values())[-1].report()
        found.numbers = self._numbers.lines()
        found.sizes = self._any_size.lines()
        found.loop = str(self.rounds or "")
        found.programs = [str(p) for p in self.programs()]
        return found
