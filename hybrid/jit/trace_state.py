"""A trace: what stands for arrays while code runs on Symbols, and what the code did meanwhile."""
from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ..autograd.demands import Demand
from ..base.device import Context
from ..base.errors import DeviceError, DTypeError, HybridError, TraceError, user_location
from ..base.pytree import flatten
from ..base.scope import SCOPE, untraced
from ..buffers.array import NP_CLASS, NDArray, array
from ..graph.node_notes import is_cut
from ..graph.size_numbers import Computed, SizeNumbers
from ..graph.symbol import Symbol, create
from ..graph.symnode import CONCRETE, SymNode
from ..ir.size import Specialised
from ..ops.registry import find
from .fingerprint import seen_array
from .plain_calls import PlainOnly
from .taken import dense
from .watches import UNDER_WAY, Watch


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
        self.precision: str | None = None               # the option of ``hybridize``, for products with parameters
        self._no_gradients()
        self._nothing_noted()

    def _no_gradients(self) -> None:
        """Of gradients and updates (autograd/traced_grad.py, gluon/traced_step.py)."""
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

    def _nothing_noted(self) -> None:
        """Of what the code did beside computing."""
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
        if not self.symbolic:
            raise Specialised(f"{user_location()}: a size is used as a number")
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
            error = PlainOnly(f"{at}: {what} in the body of a loop or branch is called for each step, which a "
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
        error = PlainOnly(f"{line}: this code {what}, which a compiled program cannot do again: such calls run as "
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


    def paused(self) -> frozenset[int]:
        """The numbers of the inputs to which a recorded call gives new values in ``autograd.pause``, off the tape."""
        return frozenset(i for i, h in self.changed() if self.recording and is_cut(h._one()))

    def collects(self, i: int) -> bool:
        """Whether an input collects a gradient."""
        holder = self.given[i] if i < len(self.given) else self.holders[i]
        x = holder.get() if hasattr(holder, "get") else holder
        return getattr(holder, "grad_req", "null") != "null" or getattr(x, "_ag", None) is not None


def new_trace(ctx: Context, given: list[NDArray]) -> Trace:
    """A trace of code that is given arrays, in the mode that holds now."""
    trace = Trace(ctx, SCOPE.training)
    trace.given = given
    trace.np_semantics = any(getattr(a, "np_semantics", False) for a in given)
    return trace


@contextmanager
def active(trace: Trace) -> Iterator[None]:
    """Scope in which code is traced."""
    SCOPE.traces.append(trace)
    UNDER_WAY.add(id(trace))
    try:
        yield
    finally:
        UNDER_WAY.discard(id(trace))
        SCOPE.traces.pop()


def finish_parameters(trace: Trace) -> bool:
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
