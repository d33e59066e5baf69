"""The fast path for training iterations that repeat a known sequence of events: a Track (kernels/c/launcher_rounds.h)
holds the expected events, matches each call against the next one and defers it, in C. On a mismatch ``taken_over``
turns the events deferred so far into a Python Round, which goes on from there.
"""
from __future__ import annotations

import functools
import threading
import weakref
from contextlib import contextmanager
from typing import Any, Iterator, Sequence

from ...autograd.dispatch import TIMERS
from ...base import pending
from ...base.pytree import LEAF, flatten, unflatten
from ...base.scope import SCOPE
from ...buffers.array import REBINDS, NDArray
from ...buffers.derived import OUTSIDE
from ...buffers.evict import LOCK
from ...buffers.extents import Extents, extent
from ...buffers.promise import Promise
from ...buffers.tape import Slot
from ...runtime import launcher
from ...runtime.observers import OBSERVERS
from .events import OPEN, PLAIN, Node, Operator, Root, Step
from .held import Held
from .round import Round

NONE = flatten(None, lambda v: False, [])                # the structure of None
ONE, TUPLE, NOTHING = 0, 1, 3           # what the results of an event come in, for the launcher
LONGEST = 10                            # back-off: after k tracks the next one waits 2 ** min(k, LONGEST) rounds
ALLOWED = 4                             # a track is dropped when mismatches exceed ALLOWED * (1 + completed rounds)


class State(threading.local):
    """The current thread's round. track: the Track that matches it in C, if any. busy: whether deferred events are
    being executed right now."""
    round: Round | None = None
    track: Any = None
    # the scope of ``record`` in which a round was given up: nothing is put off before its end, ``backward`` or a step
    broken: int = False                                  # False: C reads it
    busy = False
    # operators outside of ``record`` that had nothing to do with the round since it came as far as ``others_at``
    others = 0
    others_at: Any = None


STATE = State()
pending.STATE.append(STATE)
FINISH: list[Any] = []          # does a round that a track has put off (rounds.py)
ROUNDS: list[Round] = []        # of all threads, those that put something off
LIVE: list[Any] = []            # tracks that put something off
_handed: dict[tuple[Any, int], Round] = {}      # rounds that another thread took over, by track and their own thread


def not_watched() -> None:
    """A round is over that ``pending.WATCHED`` counts."""
    pending.WATCHED[0] -= 1


@contextmanager
def busy() -> Iterator[None]:
    """Scope in which events are done and not watched."""
    old, STATE.busy = STATE.busy, True
    try:
        yield
    finally:
        STATE.busy = old


@contextmanager
def as_when_put_off() -> Iterator[None]:
    """Scope in which events run as where they were put off, even if a result is first looked at within a trace."""
    old = {k: getattr(SCOPE, k) for k in ("traces", "plain", "symbolic", "shadows", "watching", "numbers_refused")}
    SCOPE.traces, SCOPE.watching = [], None
    SCOPE.plain = SCOPE.symbolic = SCOPE.shadows = SCOPE.numbers_refused = False
    try:
        yield
    finally:
        for k, v in old.items():
            setattr(SCOPE, k, v)


def current() -> Round | None:
    """This thread's round, as Python knows it."""
    track = STATE.track
    if track is not None:
        with LOCK:
            found = _handed.pop((track, threading.get_ident()), None)
            if found is not None:
                STATE.round, STATE.track = found, None
            else:
                taken_over(track)
    return STATE.round


def taken_over(track: Any) -> Round | None:
    """The round that a track has put off, as Python knows it; None where it has put off nothing. Under ``LOCK``."""
    if track not in LIVE:
        return None
    LIVE.remove(track)
    path: Path = track.path
    thread, made = path.round_of(track)
    made.deferred, made.counted = True, weakref.finalize(made, not_watched)
    ROUNDS.append(made)
    if thread == threading.get_ident():
        STATE.round, STATE.track = made, None
    else:
        _handed[track, thread] = made
    path.left += 1
    if path.left > ALLOWED * (1 + path.done):
        path.root.track = None
    return made


def reads(track: Any, raw: Any) -> bool:
    """Whether memory is among what a track has put off."""
    return Extents(track.memory()).meets(*extent(raw))


def take(track: Any, what: Any, leaves: Sequence[Any], structure: Any, numbers: tuple[Any, ...] = ()) -> Any:
    """The result of an event, which is put off; NotImplemented where a track does not go that way."""
    return given_back(track, track.take(what, leaves, structure, numbers))


def given_back(track: Any, out: Any) -> Any:
    """The result of an event of a track as the caller gets it. After the last event of a round, the round is done."""
    if type(out) is tuple:
        out = unflatten(track.path.nodes[track.at - 1].made[0], iter(out))
    if track.at == track.events and out is not NotImplemented:
        FINISH[0](track, None)
    return out


def is_promised(x: Any) -> bool:
    """Whether an array is one of a round that is put off."""
    return x is not None and type(x._away) is Promise


class Path:
    """What Python knows of a track: the places of its events in the tree, and how it went."""

    def __init__(self, root: Root, nodes: Sequence[Node], draws: bool):
        self.root, self.nodes, self.draws = root, tuple(nodes), draws
        self.done = self.left = 0                        # rounds that a track did, and that left it
        # what its events read or write beside their arguments
        self.memory = Extents(x._data for node in nodes for x, _ in node.away)

    def meets(self, x: Any) -> bool:
        """Whether an array that is no event's shares memory with some of that."""
        return x is not None and x.stype == "default" and type(x._away) is not Promise and self.memory.meets(
            *extent(x._data))

    def round_of(self, track: Any) -> tuple[int, Round]:
        """The thread and the Round of what a track has put off; the track is free then."""
        thread, at, given, results, hidden, numbers = track.give()
        made = Round(self.root)
        made.node, made.trail = self.nodes[at - 1], list(self.nodes[:at])
        made.outside, made.arguments = [weakref.ref(x) for x in given], given
        made.hidden, made.results, made.draws, made.values = hidden, results, self.draws, numbers
        for i, ref in enumerate(results):
            x = ref()
            if x is not None:
                made.numbers[id(x)] = i
                x._away.round = made
        for x, _, _ in hidden:
            x._away.round = made
        return thread, made


# ---- laying one
def lay(r: Round, fast: list[Any], alive: Sequence[int], copied: int | None) -> Any:
    """A track for rounds that go the way of one that was just done; None where there is none, or not yet. fast: holds
    the program. alive: numbers of the results that it gives. copied: of the result that the last event writes."""
    root, old = r.root, r.root.track() if r.root.track is not None else None
    if old is not None and old.rebinds == REBINDS[0] or root.joined < root.lay_again:
        return None
    made, outside = launcher.part("Track"), [ref() for ref in r.outside]
    if made is None or any(x is None or x._ctx.device_type != "cpu" for x in outside) or any(
            node.seen != REBINDS[0] or not node.as_it_was() for node in r.trail if type(node.event.what) is not Step):
        return None
    root.laid += 1
    root.lay_again = root.joined + (1 << min(root.laid, LONGEST))
    kept = tuple(i in alive if i != copied else None for i in range(len(r.results)))
    track = made(NDArray, Promise, Slot, (SCOPE, STATE, LOCK, REBINDS, OUTSIDE, pending.WATCHED, pending.PUT_OFF, LIVE,
                                          fast, kept, (TIMERS, OBSERVERS)),
                 tuple(_described(node, outside) for node in r.trail))
    track.path = Path(root, r.trail, r.draws)
    root.track = weakref.ref(track)
    front = launcher.part("Front")
    for i, node in enumerate(r.trail):
        e = node.event
        if hasattr(e.what, "lead") and e.structure == PLAIN.get(len(e.inputs)) and node.made[0] == LEAF:
            e.what.lead(functools.partial(front, track, i))
    return track


def _described(node: Node, outside: Sequence[NDArray]) -> tuple[Any, ...]:
    """What the launcher is told of an event."""
    e = node.event
    inputs = tuple(i if type(i) is int else (i.array(),) if type(i) is Held else
                   (i.number, *i[1:4], outside[i.number]._ctx, Promise(i.shape, i.dtype, None))
                   for i in e.inputs)
    structure, made = node.made if node.made is not None else (None, ())
    kind = NOTHING if node.made is None or structure == NONE else ONE if structure == LEAF else TUPLE
    last = isinstance(e.what, Step)
    return (e.what, inputs, e.structure, e.training, e.recording, e.np_array, kind, made,
            () if last else tuple(node.away), tuple(node.slots),
            node.entry.guard.pinned() if node.entry is not None else (), e.numbers, _as_operator(e.what))


def _as_operator(what: Any) -> Any:
    """What the launcher is told of an operator; None of other events, and of one that writes several arrays."""
    if type(what) is not Operator or what.outs > 1:
        return None
    attrs = tuple((k, kind if v is OPEN else v, kind if isinstance(kind, type) else type(v))
                  for (k, v), kind in zip(what.attrs, what.kinds))
    return what.opdef, what.cls, what.given, what.outs, attrs
