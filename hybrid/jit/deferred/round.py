"""What is known of a round while it lasts: where in the tree it is, its arrays and results, what was put off."""
from __future__ import annotations

import time
import weakref
from typing import Any, Callable, Sequence

from ...base.device import Context
from ...base.scope import SCOPE
from ...buffers.array import NDArray, wrap
from ...buffers.derived import OUTSIDE, is_shared
from ...buffers.extents import Extents, extent
from ...buffers.promise import Promise
from .events import Backward, Call, Grad, Node, Outside, Root
from .held import Held, held, hold, is_held, unfit

OWN_GRADIENT = "a call takes an array with a gradient of its own"
ALSO_ARGUMENT = "an array that an earlier round wrote is an argument of several calls"


class Round:
    """One round: where in the tree it is, its arrays from outside, its results (weakly until they are put off)."""

    __slots__ = ("root", "gpu", "node", "began", "trail", "deferred", "outside", "fresh", "arguments", "results",
                 "numbers", "hidden", "draws", "counted", "forgotten", "values", "memory", "taped", "code_results",
                 "__weakref__")

    def __init__(self, root: Root, ctx: Context | None = None):
        self.gpu = ctx if ctx is not None and ctx.device_type == "gpu" else None     # where it runs, if that is a GPU
        self.root, self.node, self.deferred = root, root, False      # type: Root, Node, bool
        self.began = time.monotonic()
        self.trail: list[Node] = []                      # the places of the tree that it came by
        self.outside: list[Any] = []                     # weak references
        # arrays from outside that no event took before the last one: (array, buffer, what stood for it before)
        self.fresh: list[tuple[NDArray, Any, Any]] = []
        self.arguments: list[NDArray] = []               # of what is put off, from outside
        self.results: list[Any] = []                     # weak references, by number
        self.numbers: dict[int, int] = {}                # id of a result -> its number
        self.hidden: list[tuple[NDArray, Any, Any]] = []             # array, buffer, what stood for it before
        self.values: list[Any] = []                      # the numbers of its events that may differ from round to round
        self.memory: Any = None                          # after so many events: of hidden arrays, not of arguments
        self.draws = False
        self.taped = False                               # whether it takes results of calls before it, on the tape
        self.code_results: Sequence[Any] = ()            # weak references: results of the Python code that it follows
        self.counted: Callable[[], Any] = int            # ends its being watched
        self.forgotten: dict[int, Any] = {}              # by id: compiled calls of the earlier half that was dropped

    def has(self, x: Any) -> bool:
        """Whether an array is a result of this round (ids of those that are gone come again)."""
        n = self.numbers.get(id(x))
        return n is not None and self.results[n]() is x

    def knows(self, x: Any) -> bool:
        """Whether an array is a result of this round, or of the Python code that it follows."""
        return self.has(x) or any([ref() is x for ref in self.code_results])

    @property
    def updated(self) -> bool:
        """Whether variables were written by hand."""
        return any([node.updates for node in self.trail])

    @property
    def went_back(self) -> bool:
        """Whether gradients were computed since the last recorded call."""
        return went_back(self.trail)

    def held(self, x: Any) -> Held | None:
        """The ``Held`` of an array that every round uses; None for others."""
        found = held(x)
        if found is None and isinstance(x, NDArray) and any(
                x is y for node in self.trail if node.entry is not None for y in node.entry.fixed()):
            found = hold(x)
        return found

    def concerns(self, x: Any) -> bool:
        """Whether what is done with an array is an event of the round."""
        return x is not None and (self.knows(x) or self.held(x) is not None
                                  or on_tape(x) and any([ref() is x for ref in self.outside]))

    def among_outside(self, node: Node) -> list[NDArray]:
        """Arrays that came from outside as arguments and that the code of an event reads as well."""
        fixed = node.entry.fixed() if node.entry is not None else ()
        return [x for ref in self.outside if (x := ref()) is not None and any([x is y for y in fixed])]

    def refs(self, leaves: Sequence[Any]) -> tuple[Any, ...] | str:
        """What arrays of an event are, as ``Event.inputs`` holds them; why that cannot be said, where it cannot."""
        out: list[Any] = []
        self.fresh = []
        for x in leaves:
            if self.has(x):
                out.append(self.numbers[id(x)])
                continue
            if (h := self.held(x)) is not None:
                if (why := unfit(x)):
                    return why
                if self.deferred and any([x is y for y in self.arguments]):
                    return ALSO_ARGUMENT
                out.append(h)
                continue
            k = next((k for k, y in enumerate(self.outside) if y() is x), len(self.outside))
            if k == len(self.outside):
                if (why := _strange(x)):
                    return why
                self.outside.append(weakref.ref(x))
                self.fresh.append((x, x._data, x._away))
            spec = x._spec
            out.append(Outside(k, spec.shape, spec.dtype, type(x), x._ctx.device_id, on_tape(x)))
        return tuple(out)

    def match(self, inputs: Sequence[Any], leaves: Sequence[Any]) -> bool:
        """Whether arrays are what an event takes, as ``refs`` would say: the fast path for a round that puts off."""
        outside, known = self.outside, len(self.outside)
        fresh: list[tuple[NDArray, Any, Any]] = []
        for ref, x in zip(inputs, leaves):
            if type(ref) is int:
                if self.results[ref]() is x:
                    continue
            elif type(ref) is Held:
                if ref.ref() is x and not (OUTSIDE and unfit(x)):  # type: ignore[arg-type]  # others may write it since
                    continue
            elif ref.number < len(outside):
                if outside[ref.number]() is x and (not ref.taped or on_tape(x)):
                    continue
            elif type(x) is ref.cls and (away := x._away).__class__ is not Promise:
                raw = x._data
                if (not is_held(x) and on_tape(x) is ref.taped and raw.shape == ref.shape and raw.dtype == ref.dtype
                    and x._ctx.device_id == ref.device and not _strange(x) and not any([x is y for y, _, _ in fresh])):
                    outside.append(weakref.ref(x))
                    fresh.append((x, raw, away))
                    continue
            del outside[known:]
            return False
        self.fresh = fresh
        return True

    def add(self, x: Any) -> None:
        """One more result."""
        self.numbers[id(x)] = len(self.results)
        self.results.append(weakref.ref(x))

    def alive(self) -> tuple[int, ...]:
        """Numbers of the results that somebody still holds."""
        return tuple([i for i, ref in enumerate(self.results) if ref() is not None])

    def seen(self, x: Any) -> Any:
        """What an operator may read in the place of an array: what is put off reads its arguments too, and changes none
        of them."""
        if any([x is y for y in self.arguments]):
            raw = next(raw for y, raw, _ in self.hidden if y is x)
            return wrap(raw, x._ctx, type(x))
        return x

    def show(self) -> None:
        """Buffers come back into their slots."""
        for x, raw, old in self.hidden:
            x._away.round = None                         # it is kept for other rounds
            x._data, x._away = raw, old
        self.hidden = []

    def changes(self, x: Any) -> bool:
        """Whether an array that is no event's shares memory with what events that are put off may write."""
        if not self.deferred or not self.went_back or x.stype != "default" or type(x._away) is Promise:
            return False
        if self.memory is None or self.memory[0] != len(self.trail):
            self.memory = len(self.trail), Extents(raw for y, raw, _ in self.hidden
                                                   if not any([y is a for a in self.arguments]))
        return self.memory[1].meets(*extent(x._data))

    def reads(self, raw: Any) -> bool:
        """Whether memory is among what the events read or write."""
        return Extents(held for _, held, _ in self.hidden).meets(*extent(raw))


def went_back(nodes: Sequence[Node]) -> bool:
    """Whether gradients were computed after the last recorded call among some events."""
    for node in reversed(nodes):
        what = node.event.what
        if type(what) is Call and node.event.recording or isinstance(what, (Backward, Grad)):
            return type(what) is not Call
    return False


def on_tape(x: Any) -> bool:
    """Whether gradients flow on from what an event takes to the calls that gave it; not from NumPy's arrays."""
    return SCOPE.recording and isinstance(x, NDArray) and x._ag is not None and x._ag.entry is not None


def has_gradient(x: NDArray) -> bool:
    """Whether an array has a gradient of its own (``OWN_GRADIENT``)."""
    return x._ag is not None and x._ag.entry is None


def _strange(x: Any) -> str:
    """Why an array from outside makes a round one that is not put off."""
    if not isinstance(x, NDArray) or x.stype != "default":
        return "a call takes other than dense arrays"
    if type(x._away) is Promise:                         # of an event of this round, which writes it
        return "an array that the round changes is given to one of its calls"
    if has_gradient(x):
        return OWN_GRADIENT
    return "a call takes an array whose memory others may write (from_numpy, DLPack)" if is_shared([x._data]) else ""
