"""What rounds of a training loop are made of: calls of hybridized blocks, operators on their results, ``backward``,
``Trainer.step``. Each can be done again, on arrays (as it would have been done at once) or on traced values.
"""
from __future__ import annotations

import weakref
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from ... import autograd
from ...autograd.dispatch import OF_NUMBER, invoke
from ...base.pytree import LEAF, unflatten
from ...base.scope import CASTS_VERSION, SCOPE
from ...buffers.derived import OUTSIDE
from ...buffers.extents import Extents
from ...buffers.tape import flags
from .held import Held, unfit

MOST_KINDS = 16                 # of events that come after the same events
MOST_BRANCHES = 256             # of a tree: events that came after events after which others had come
MOST_STATES = 16                # of a block that are remembered
OPEN = object()                 # in the place of a number that may differ from round to round: a value of the program
PLAIN_NUMBERS = (int, float, type(None))
# structures of so many arrays by position
PLAIN = {n: ("tuple", (("tuple", (LEAF,) * n), ("dict", ()))) for n in (1, 2, 3)}


class Call(NamedTuple):
    """A call of a hybridized block under ``record``."""
    engine: Any                                          # the block's ``Hybridized``
    version: int                                         # number of the state of all that its traces depend on

    def do(self, values: Sequence[Any], structure: Any) -> Any:
        """Make the call."""
        args, kwargs = unflatten(structure, iter(values))
        if SCOPE.traces:
            SCOPE.traces[-1].blocks.append(self.engine.owner)        # what the trace depends on
        return self.engine.slow_path(*args, **kwargs)

    def lead(self, front: Callable[[Any], Any]) -> None:
        """Install a fast path by which the next such call goes directly to the Track. front(places): makes it; it is
        valid while the places (free_variables.py) hold the same values."""
        counters, used = self.engine.counters, self.engine.used.blocks
        if counters is not None and not used and self.version == self.engine.rounds.number(self.engine):
            every = (*counters, CASTS_VERSION, used)
            self.engine._ways.add(self.engine.rounds, front(tuple((c, None, tuple(c)) for c in every)))


class Loss(NamedTuple):
    """A call of a loss of this library that is not hybridized: its code depends on its attributes alone."""
    block: Any
    version: int                                         # of its attributes
    code: Any                                            # its ``hybrid_forward``

    def do(self, values: Sequence[Any], structure: Any) -> Any:
        """Make the call."""
        args, kwargs = unflatten(structure, iter(values))
        return self.block(*args, **kwargs)

    def lead(self, front: Callable[[Any], Any]) -> None:
        """As that of a Call; what changes the block takes the way away (``HybridBlock._touched``)."""
        if self.version == self.block._version:
            self.block.__dict__["_fast_path"] = [front(((type(self.block), "hybrid_forward", self.code),))]


class Operator(NamedTuple):
    """An operator on a result of the round, or on an array that is held."""
    opdef: Any
    attrs: tuple[tuple[str, Any], ...]                   # OPEN in the place of a number that may differ
    kinds: tuple[Any, ...]                               # what tells attributes apart that are equal
    given: tuple[bool, ...]                              # which of its inputs are there
    cls: Any
    outs: int                                            # how many arrays it is told to write into: its last inputs

    def do(self, values: Sequence[Any], structure: Any) -> Any:
        """Call it; where it writes into arrays, it gives nothing."""
        rest = iter(values)
        inputs = [next(rest) if g else None for g in self.given]
        outs = [next(rest) for _ in range(self.outs)]
        attrs = {k: next(rest) if v is OPEN else v for k, v in self.attrs}
        number = attrs.get("scalar")
        if type(number) not in PLAIN_NUMBERS and self.opdef.name in OF_NUMBER:
            made = OF_NUMBER[self.opdef.name](inputs[0], number)
            if outs:
                outs[0][...] = made
        else:
            made = invoke(self.opdef, inputs, attrs, (outs if self.outs > 1 else outs[0]) if outs else None,
                          cls=self.cls)
        return None if outs else made


class Method(NamedTuple):
    """A method of a result: ``x.detach()``, ``x.reshape(…)``, ``x[…]`` with numbers and slices."""
    name: str
    given: Any                                           # arguments, as ``hashable`` gives them

    def do(self, values: Sequence[Any], structure: Any) -> Any:
        """Call it."""
        return getattr(values[0], self.name)(*map(_back, self.given))


def hashable(value: Any) -> Any:
    """A number, text or None, or slices, lists and tuples of them, as what can be compared; TypeError for others."""
    if isinstance(value, (list, tuple)):
        return type(value), *map(hashable, value)
    if isinstance(value, slice):
        return slice, *map(hashable, (value.start, value.stop, value.step))
    if value is None or value is Ellipsis or type(value) in (int, str, bool):
        return (value,)
    raise TypeError


def _back(form: Any) -> Any:
    if len(form) == 1 and not isinstance(form[0], type):
        return form[0]
    return slice(*map(_back, form[1:])) if form[0] is slice else form[0](map(_back, form[1:]))


WHOLE = hashable(slice(None))


class Assign(NamedTuple):
    """``x[key] = value`` where x is held."""
    key: Any                                             # as ``hashable`` gives it
    value: Any                                           # a number, if it is no array
    kind: Any                                            # what tells the number from equal ones, as 1 from True

    def do(self, values: Sequence[Any], structure: Any) -> None:
        """Write it."""
        values[0][_back(self.key)] = values[1] if len(values) > 1 else self.value


ASSIGN_ALL = Assign(WHOLE, None, None)                   # ``x[:] = array``


class Backward(NamedTuple):
    """``backward`` from results. Its inputs are the heads and gradients given for some of them."""
    train_mode: bool
    given: tuple[bool, ...] = ()                         # for which heads there are gradients; none if empty
    keeps: bool = False                                  # ``retain_graph``

    def do(self, values: Sequence[Any], structure: Any) -> None:
        """Compute the gradients."""
        heads, seeds = _apart(values, self.given)
        with flags(False, None):
            autograd.backward(heads, seeds, self.keeps, self.train_mode)


class Grad(NamedTuple):
    """``autograd.grad``: as ``Backward``, and its last inputs are the variables."""
    train_mode: bool
    given: tuple[bool, ...]
    keeps: bool
    variables: int

    def do(self, values: Sequence[Any], structure: Any) -> Any:
        """Compute the gradients."""
        at = len(values) - self.variables
        heads, seeds = _apart(values[:at], self.given)
        with flags(False, None):
            return autograd.grad(heads, list(values[at:]), seeds, self.keeps, False, self.train_mode)


def _apart(values: Sequence[Any], given: Sequence[bool]) -> tuple[list[Any], list[Any] | None]:
    """Heads, and their gradients if any are given."""
    if not any(given):
        return list(values), None
    rest = iter(values[len(given):])
    return list(values[:len(given)]), [next(rest) if g else None for g in given]


BACKWARD = {mode: Backward(mode) for mode in (False, True)}      # by train_mode: the usual ones


class Scale(NamedTuple):
    """``amp.scale_loss``: losses times the loss scale of a Trainer."""
    trainer: "weakref.ref[Any]"
    scale: Callable[[list[Any], Any], list[Any]]         # computes them

    def do(self, values: Sequence[Any], structure: Any) -> Any:
        """Compute them."""
        return self.scale(list(values), self.trainer())


class Size:
    """What a Trainer's steps divide gradients by: another number at each step, in one and the same program."""

    def __init__(self, trainer: Any) -> None:
        self.value: Any = 1
        self.step = Step(weakref.ref(trainer))           # the event that each of its steps is

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.value


class Step(NamedTuple):
    """``Trainer.step``, the end of a round."""
    trainer: "weakref.ref[Any]"

    def do(self, values: Sequence[Any], structure: Any) -> None:
        """Update the parameters."""
        trainer = self.trainer()
        assert trainer is not None                       # a round that it ends is its own
        with flags(False, None):
            trainer.step(trainer.size if SCOPE.traces else trainer.size.value)


class Outside(NamedTuple):
    """An array from outside the round that an event takes, and what tells it from others in keys of events."""
    number: int                                          # among the round's arrays from outside
    shape: tuple[int, ...]
    dtype: Any
    cls: type
    device: int                                          # the number of its device
    taped: bool = False                                  # whether gradients flow on from it, to calls before the round


class Event(NamedTuple):
    """One event, as the key that tells it from others. inputs: a number of a result of the round, a ``Held``, or a
    ``Outside``."""
    what: Any
    inputs: tuple[Any, ...]
    training: bool
    recording: bool
    np_array: bool
    structure: Any
    numbers: int = 0                                     # how many numbers it takes that may differ

    def do(self, results: Mapping[int, Any], outside: Mapping[int, Any] | Sequence[Any], numbers: Iterator[Any],
           value: Callable[[Held], Any] = Held.array) -> Any:
        """Do it, with results of the round so far, its arrays from outside, and the next of its numbers. value: of a
        held array."""
        values = [results[i] if type(i) is int else value(i) if type(i) is Held else outside[i.number]
                  for i in self.inputs]
        values += [next(numbers) for _ in range(self.numbers)]
        old, SCOPE.np_array = SCOPE.np_array, self.np_array
        try:
            with flags(self.recording, self.training):
                return self.what.do(values, self.structure)
        finally:
            SCOPE.np_array = old


class Node:
    """A place in the tree of the rounds that begin with one block: an event after others, and what is known of it."""

    def __init__(self, event: Any = None):
        self.event: Event = event
        self.next: dict[Event, Node] = {}
        self.likely: Node | None = None                  # where the last round that was put off went on
        self.plans: dict[Any, Any] = {}                  # by the results that are still alive: the program
        self.met = self.settled = 0                      # rounds that ended here; that were looked into here
        self.ready = False                               # whether the event is put off
        self.made: Any = None                            # (structure, ((shape, dtype, device, class) of each result))
        self.taped = False                               # whether results are on the tape
        # whether gradients flow on from an array that it takes, to calls before the round
        self.taped_inputs = event is not None and any(type(i) is Outside and i.taped for i in event.inputs)
        # outside of ``record``: whether the event writes variables; whether it writes those, or other held arrays
        self.updates = self.writes = False
        self.whole = False                               # whether it writes an array of its target's shape and dtype
        self.ends = False                                # whether rounds end here, though no Trainer steps
        self.follows = ""                                # of a step: why it follows the program of its round
        self.entry: Any = None                           # of a call: the compiled signature that it takes alone
        self.draws = False                               # whether the event draws random numbers
        # of the last event of a round, once it is known: which of its results no program returns (NotFromProgram)
        self.not_from_program: Any = None
        # by the numbers of the results that stay on the tape: the parts of the round (parts.py), or why it has none
        self.parts: dict[frozenset[int], Any] = {}
        # of the first event of a round: programs of such rounds that a compiler in the background works on, how many
        # events each of them does, and which seconds of the rounds (``Root.seconds``) it has been told of
        self.waiting: list[tuple[Any, int, float]] = []
        # what the event reads or writes beside its arguments, and no event before it: (array, what stands for it), as
        # long as ``seen`` is the count of rebinds and the slots are those of the arrays
        self.away: list[tuple[Any, Any]] = []
        self.slots: list[tuple[Any, Any, Any]] = []      # of ``backward``: array, slot, gradient
        self.seen = -1
        # of the last event of a round: a count of rebinds, and the memory of what all its events read or write beside
        # their arguments then, and whether some of that is another's too (joined.py)
        self.memory: tuple[int, Extents, bool] | None = None

    @property
    def count(self) -> int:
        """How many results the event gives."""
        return len(self.made[1]) if self.made is not None else 0

    def copy_of(self, other: "Node") -> None:
        """Take over what is known of the same event in another tree."""
        for name in ("made", "taped", "updates", "writes", "whole", "entry", "draws", "follows"):
            setattr(self, name, getattr(other, name))

    def note_slots(self, slots: list[tuple[Any, Any, Any]]) -> None:
        """Note the slots of a backward pass. If they are of other arrays than before, its programs go."""
        if {id(x) for x, _, _ in slots} != {id(x) for x, _, _ in self.slots}:
            self.plans.clear()
        self.slots = slots

    def as_it_was(self) -> bool:
        """Whether what a call's code reads of Python's objects is as it was, and nobody else may write its arrays by
        now."""
        entry = self.entry
        if OUTSIDE and any(map(unfit, entry.fixed() if entry is not None else [grad for *_, grad in self.slots])):
            return False
        return entry is None or not entry.guard.places or entry.guard.stamp() == entry.stamp

    def waits(self, seconds: float) -> bool:
        """Whether rounds that begin with this event run as they are, since their program is being compiled. seconds:
        that rounds took so far, by which the compiler sees that their program saves more than those of their parts."""
        self.waiting = [(entry, n, seconds) for entry, n, told in self.waiting
                        if not entry.is_compiled(n, seconds - told)]
        return bool(self.waiting)


class Root(Node):
    """Where the rounds that begin with one block begin."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.joined = 0                                  # rounds that programs did
        self.follows = ""                                # why their steps followed it, if they did
        self.seconds = 0.0                               # that rounds took which no program did
        self.settled_times = 0                           # rounds that were looked into too early
        self.strange = 0                                 # rounds that could not be followed, one after another
        self.refused = False                             # whether all that is given up
        self.why = ""                                    # why rounds are not joined
        self.programs = 1                                # programs for the last round: one for each device
        self.behind: dict[str, Root] = {}                # rounds behind Python code that ends a round, by its name
        # a weak reference to the track of rounds that are followed in C (followed.py), or None; how many there were,
        # and after how many rounds there may be another one
        self.track: Any = None
        self.laid = self.lay_again = 0
        self.missed = 0                                  # counts where a way ends, as for a compiled signature
        self._branches = 0
        self._counts = -1
        self._numbers: dict[Any, int] = {}               # of the states that the block's traces were made for
        self._number = self._last = 0

    def add(self, place: Node, node: Node) -> str:
        """Note an event that comes after that of a place in this tree; why not, where too many different ones do. A
        tree with too many branches begins anew, so that loops whose rounds always differ take no more memory."""
        self._branches += bool(place.next)
        if self._branches > MOST_BRANCHES:
            self.next.clear()
            self.likely, self._branches = None, 0
        elif len(place.next) >= MOST_KINDS:
            place.next.clear()
        else:
            place.next[node.event] = node
            return ""
        return "the calls of its rounds, or numbers in them, are others each time"

    def number(self, engine: Any) -> int:
        """A number for the state of all that the block's traces depend on: another one for each, as far as they are
        remembered."""
        counters = engine.counters
        counts = -1 if counters is None or engine.used.blocks else sum([c[0] for c in counters]) + CASTS_VERSION[0]
        if counts < 0 or counts != self._counts:
            version = engine.version()
            if version not in self._numbers:
                if len(self._numbers) >= MOST_STATES:
                    self._numbers.clear()
                self._last += 1
                self._numbers[version] = self._last
            self._number = self._numbers[version]
            self._counts = counts
        return self._number

    def behind_code(self, name: str) -> "Root":
        """The root of the rounds that begin after a call of this Python code."""
        return self.behind.setdefault(name, Root(self.name))

    def __str__(self) -> str:
        found = [f"the training loop is cut where the Python code of {name} runs, and behind it {root}"
                 for name, root in self.behind.items()]
        if not found or self.joined or self.refused:         # there are loops without this code too
            found.insert(0, self._of_rounds())
        return "; ".join(found)

    def _of_rounds(self) -> str:
        """What became of its own rounds, which no Python code ends."""
        programs = "one program" if self.programs == 1 else f"{self.programs} programs, one for each device"
        done = f"{self.joined} rounds of the training loop ran as {programs}" if self.joined else ""
        done += f", each followed by its step: {self.follows}" if done and self.follows else ""
        if (not self.joined or self.refused) and self.why:
            return f"{done}{'; ' if done else ''}the training loop is not joined to one program: {self.why}"
        return done
