"""Rounds of training loops: the events between the first recorded call and ``Trainer.step``.

Rounds that were met are a tree of events. Where a round follows a path that was gone twice, its events are not done:
calls return promises (arrays with empty slots), and what the events will read or write is taken out of its slot too, so
nothing that looks at it can be missed. At ``step`` one program does all of it. Whatever comes before, ``settle`` does
the events the ordinary way, in their order, and everything is where it would have been.
"""
from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

from ...base import pending
from ...base.errors import user_location
from ...base.pytree import LEAF, flatten, unflatten
from ...base.scope import SCOPE
from ...buffers import evict
from ...buffers.array import REBINDS, NDArray, wrap
from ...buffers.derived import is_shared
from ...buffers.extents import Extents, extent
from ...buffers.promise import Promise
from . import joined
from .events import Backward, Event, Node, Root, Step

TIMES = 2                       # so often a round is met before it is put off
MOST_EVENTS = 64                # of a round
MOST_KINDS = 16                 # of events that come after the same events
MOST_STRANGE = 16               # rounds that cannot be followed, until that is given up
MOST_SETTLED = 3                # rounds that were looked into, for each round that was not (and one)
LOCK = evict.LOCK               # what is put off is done by one thread; buffers go and come under the same lock


class Round:
    """One round: where in the tree it is, its arrays from outside, its results (weakly until they are put off)."""

    __slots__ = ("root", "node", "deferred", "outside", "kept", "results", "numbers", "hidden", "draws")

    def __init__(self, root: Root):
        self.root, self.node, self.deferred = root, root, False      # type: Root, Node, bool
        self.outside: list[Any] = []                     # weak references
        self.kept: list[NDArray] = []                    # what a round that puts off keeps alive
        self.results: list[Any] = []                     # weak references, by number
        self.numbers: dict[int, int] = {}                # id of a result -> its number
        self.hidden: list[tuple[NDArray, Any, Any]] = []             # array, buffer, what stood for it before
        self.draws = False

    def path(self) -> Iterator[Node]:
        """The places of the tree that it came by."""
        at: Node = self.root
        for key in self.node.events:
            at = at.next[key]
            yield at

    def has(self, x: Any) -> bool:
        """Whether an array is a result of this round (ids of those that are gone come again)."""
        n = self.numbers.get(id(x))
        return n is not None and self.results[n]() is x

    def refs(self, leaves: Sequence[Any]) -> tuple[Any, ...] | str:
        """What arrays of an event are, as ``Event.inputs`` holds them; why that cannot be said, where it cannot."""
        out: list[Any] = []
        for x in leaves:
            n = self.numbers.get(id(x))
            if n is not None and self.results[n]() is x:
                out.append(n)
                continue
            k = 0
            for y in self.outside:
                if y() is x:
                    break
                k += 1
            else:
                if (why := _strange(x)):
                    return why
                self.outside.append(weakref.ref(x))
            spec = x._spec
            out.append((-1 - k, spec.shape, spec.dtype, type(x), x._ctx.device_id))
        return tuple(out)

    def add(self, x: Any) -> None:
        """One more result."""
        self.numbers[id(x)] = len(self.results)
        self.results.append(weakref.ref(x))

    def alive(self) -> tuple[int, ...]:
        """Numbers of the results that somebody still holds."""
        return tuple([i for i, ref in enumerate(self.results) if ref() is not None])

    def hide(self, x: NDArray, promise: Promise) -> None:
        """Take an array's buffer out of its slot: whoever looks at it comes to ``settle``."""
        self.hidden.append((x, x._data, x._away))        # where another thread's round hid it, that is settled first
        promise.round = self
        x._away = promise
        del x._data

    def seen(self, x: Any) -> Any:
        """What an operator may read in the place of an array: what is put off reads its arguments too, and changes none
        of them."""
        if any([x is y for y in self.kept]):
            raw = next(raw for y, raw, _ in self.hidden if y is x)
            return wrap(raw, x._ctx, type(x))
        return x

    def show(self) -> None:
        """Buffers come back into their slots."""
        for x, raw, old in self.hidden:
            x._away.round = None                         # it is kept for other rounds
            x._data, x._away = raw, old
        self.hidden = []

    def reads(self, raw: Any) -> bool:
        """Whether memory is among what the events read or write."""
        return Extents(held for _, held, _ in self.hidden).meets(*extent(raw))


def _strange(x: Any) -> str:
    """Why an array from outside makes a round one that is not put off."""
    if not isinstance(x, NDArray) or x.stype != "default":
        return "a call takes other than dense arrays"
    if type(x._away) is Promise:                         # of an event of this round, which writes it
        return "an array that the round changes is given to one of its calls"
    if x._ag is not None:
        return "a call takes an array with a gradient of its own"
    if x._ctx.device_type != "cpu":
        return "it does not run on the CPU"
    return "a call takes an array whose memory others may write (from_numpy, DLPack)" if is_shared([x._data]) else ""


class State(threading.local):
    """The round of the running thread. busy: events that were put off are done just now."""
    round: Round | None = None
    broken = False                                       # whether the rest of a round up to its step is not followed
    busy = False


STATE = State()
ROUNDS: list[Round] = []        # of all threads, those that put something off


def begin(root: Root) -> Round:
    """A new round of this thread."""
    STATE.round = made = Round(root)
    root.why = root.why or "no two rounds were equal so far"
    pending.WATCHED[0] += 1
    return made


def end(r: Round) -> None:
    """A round is over, or is not followed any more."""
    if STATE.round is r:
        STATE.round = None
        pending.WATCHED[0] -= 1


@contextmanager
def busy() -> Iterator[None]:
    """Scope in which events are done and not watched."""
    old, STATE.busy = STATE.busy, True
    try:
        yield
    finally:
        STATE.busy = old


# ---- events
def event(what: Any, leaves: Sequence[Any], structure: Any, ordinary: Callable[[], Any],
          check: Callable[[Node], str]) -> Any:
    """One event of this thread's round: put off where the tree knows it, else done now and noted. ordinary: does it.
    check: why an event that was done cannot be put off, noting what is known of it."""
    r = STATE.round
    assert r is not None
    with LOCK:
        refs = r.refs(leaves)
        if not isinstance(refs, str):
            key = Event(what, refs, SCOPE.training, SCOPE.recording, structure)
            try:
                node = r.node.next.get(key)
            except TypeError:
                refs = "its attributes cannot be compared"
        if isinstance(refs, str) or len(r.node.events) >= MOST_EVENTS:
            strange(refs if isinstance(refs, str) else "a round has too many calls")
        elif node is not None and node.ready and (r.deferred or r.node is r.root) and _as_it_was(node):
            return put_off(r, node, leaves)
        elif r.deferred:
            settle(r, "another call followed than in the rounds before it")
    if STATE.round is not r:
        return ordinary()
    return _now(r, key, ordinary, check)


def _now(r: Round, key: Event, ordinary: Callable[[], Any], check: Callable[[Node], str]) -> Any:
    """An event is done now, and noted."""
    node = r.node.next.get(key)
    known = node is not None
    if node is None:
        node = Node((*r.node.events, key))
    before = [(x, x._version) for ref in r.outside if (x := ref()) is not None]
    try:
        with busy():
            made = ordinary()
    except BaseException:
        end(r)
        raise
    why = _note(r, node, made) if not isinstance(key.what, (Backward, Step)) else ""
    if not known and not why:
        why = check(node) or _kinds(r.node)
        if not why:
            r.node.next[key] = node
    if any(x._version != v for x, v in before):
        why = "an operator changes its arguments"
    if why:
        strange(why)
    else:
        r.node = node
        if isinstance(key.what, Step):
            _met(r)
    return made


def _kinds(node: Node) -> str:
    """Whether too many different events come after the same ones."""
    if len(node.next) < MOST_KINDS:
        return ""
    node.next.clear()
    return "the calls of its rounds, or numbers in them, are others each time"


def _note(r: Round, node: Node, made: Any) -> str:
    """The results of an event that was done; why it cannot be put off another time."""
    arrays: list[Any] = []
    structure = flatten(made, lambda v: isinstance(v, NDArray), arrays, by_identity=True)
    if any(r.has(x) or any(x is ref() for ref in r.outside) or x.stype != "default" for x in arrays):
        return "a call hands an argument through"
    node.made = structure, tuple((x._data.shape, x._data.dtype, x._ctx, type(x)) for x in arrays)
    for x in arrays:
        r.add(x)
    return ""


def over() -> None:
    """A step ends what is left of this thread's round."""
    if STATE.round is not None:
        end(STATE.round)
    STATE.broken = False


def strange(why: str) -> None:
    """The rest of this thread's round is not followed; what was put off is done."""
    r = STATE.round
    if r is None:
        return
    settle(r, why)
    r.root.strange, r.root.why = r.root.strange + 1, why
    r.root.refused = r.root.refused or r.root.strange > MOST_STRANGE
    end(r)
    STATE.broken = True


def _as_it_was(node: Node) -> bool:
    """Whether what a call's code reads of Python's objects is as it was."""
    entry = node.entry
    return entry is None or not entry.guard.places or entry.guard.stamp() == entry.stamp


def _met(r: Round) -> None:
    """A round that was done now ended; if that was the second time, the next one is put off."""
    node, root = r.node, r.root
    end(r)
    node.met, root.strange = node.met + 1, 0
    if node.met >= TIMES and not node.ready and not root.refused:
        for place in r.path():
            place.ready = True


# ---- putting off
def put_off(r: Round, node: Node, leaves: Sequence[NDArray]) -> Any:
    """An event is not done now; its results are promises. A step does all of the round."""
    what = node.events[-1].what
    if isinstance(what, Step):
        finish(r, node)
        return None
    if not r.deferred:
        r.deferred = True
        ROUNDS.append(r)
        pending.PUT_OFF[0] += 1
        evict.GIVEN_UP[0] = True
    r.node, r.draws = node, r.draws or node.draws
    for x in leaves:
        if type(x._away) is not Promise:                 # no result of the round, and not seen before
            r.kept.append(x)
            r.hide(x, Promise(x.shape, x._data.dtype, r))
    if node.seen != REBINDS[0] or type(what) is Backward:
        _see(r, node)
    for x, promise in node.away:
        r.hide(x, promise)
    if isinstance(what, Backward):
        return None
    structure, infos = node.made
    out: list[Any] = []
    for shape, dtype, ctx, cls in infos:
        x = object.__new__(cls)
        x._ctx, x._version, x._away = ctx, 0, Promise(shape, dtype, r)
        r.add(x)
        out.append(x)
    return out[0] if structure == LEAF else unflatten(structure, iter(out))


def _see(r: Round, node: Node) -> None:
    """Note what an event reads or writes beside its arguments, and no event before it: parameters and running
    statistics, and behind ``backward`` gradients."""
    now = REBINDS[0]
    if isinstance(node.events[-1].what, Backward):
        slots = [x._ag for place in r.path() if place.entry is not None for x in place.entry.fixed()]
        found = [slot.grad for slot in slots if slot is not None and slot.grad is not None]
        if node.seen == now and len(found) == len(node.away) and all(x is y for x, (y, _) in zip(found, node.away)):
            return
    else:
        found = node.entry.fixed() if node.entry is not None else []
    before = {id(x) for place in r.path() if place is not node for x, _ in place.away}
    new = {id(x): x for x in found if id(x) not in before}
    node.away = [(x, Promise(x.shape, x._spec.dtype, r)) for x in new.values()]
    node.seen = now


def _come_back(r: Round) -> None:
    """Nothing of a round is put off any more: buffers come back, its results are about to be filled."""
    r.show()
    r.deferred = False
    ROUNDS.remove(r)
    pending.PUT_OFF[0] -= 1


def finish(r: Round, node: Node) -> None:
    """The step that ends a round: all of it is done, by one program."""
    _come_back(r)
    end(r)
    old, STATE.busy = STATE.busy, True
    try:
        why = joined.run(r, node)
        if why:
            _note_settled(r.root, why)
            _one_by_one(r, node)
        else:
            r.root.joined += 1
    except BaseException as err:
        _failed(r, err)
        raise
    finally:
        STATE.busy = old


def settle(r: Round | None, why: str) -> None:
    """What a round put off is done now: behind ``backward``, where that happens often, by one program, else the
    ordinary way."""
    with LOCK:
        if r is None or not r.deferred:                  # another thread was first
            return
        node, root = r.node, r.root
        node.settled += 1
        _come_back(r)
        try:
            with busy():
                if isinstance(node.events[-1].what, Backward) and node.settled > 1 and not joined.run(r, node):
                    root.joined += 1
                    return
                _note_settled(root, why)
                _one_by_one(r, node)
        except BaseException as err:
            _failed(r, err)
            raise


def _failed(r: Round, err: BaseException) -> None:
    """What was put off could not be done: whoever looks at a result gets the error."""
    for ref in r.results:
        x = ref()
        if x is not None and type(x._away) is Promise:
            x._away.error = err
    end(r)


def _note_settled(root: Root, why: str) -> None:
    root.settled_times += 1
    if root.settled_times > MOST_SETTLED * (1 + root.joined) and not root.refused:
        root.refused = True
        root.next.clear()
    if not root.joined or root.refused:
        root.why = f"{why} ({user_location()})"


def _one_by_one(r: Round, node: Node) -> None:
    """The ordinary way: events in their order, and promises filled with their results."""
    results: list[Any] = []
    outside = [ref() for ref in r.outside]
    for e in node.events:
        made = e.do(results, outside)
        if not isinstance(e.what, (Backward, Step)):
            flatten(made, lambda v: isinstance(v, NDArray), results, by_identity=True)
    for ref, y in zip(r.results, results):
        x = ref()
        if x is not None:
            x._ag, x._data, x._away = y._ag, y._data, None
            if y._ag is not None and y._ag.entry is not None:
                y._ag.entry.outputs[y._ag.index] = x     # backward takes it off the tape


def settle_all(why: str, raw: Any = None, drawn: bool = False) -> None:
    """What all threads put off is done now; only what depends on some memory, or draws random numbers, if so asked."""
    if STATE.busy:
        return
    with LOCK:
        for r in list(ROUNDS):
            if (raw is None or r.reads(raw)) and (r.draws or not drawn):
                settle(r, why)


def give_up() -> None:
    """An exception ends this thread's round."""
    r = STATE.round
    if r is not None and not STATE.busy:
        settle(r, "an exception left record()")
        end(r)
