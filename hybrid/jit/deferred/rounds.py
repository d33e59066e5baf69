"""Rounds of training loops: the events between the first recorded call and ``Trainer.step``.

Rounds that were met are a tree of events. Where a round follows a path that was gone twice, its events are not done:
calls return promises (arrays with empty slots), and what the events will read or write is taken out of its slot too, so
nothing that looks at it can be missed. At ``step`` one program does all of it. Whatever comes before, ``settle`` does
the events the ordinary way, in their order, and everything is where it would have been.
"""
from __future__ import annotations

import time
import weakref
from typing import Any, Callable, Sequence

from ...base import pending
from ...base.device import Context
from ...base.errors import user_location
from ...base.pytree import flatten
from ...base.scope import RECORDS, SCOPE
from ...buffers import evict
from ...buffers.array import REBINDS, NDArray
from ...buffers.promise import Promise
from . import followed, joined
from .events import Assign, Backward, Event, Grad, Node, Root, Step
from .followed import FINISH, LIVE, ROUNDS, STATE, as_when_put_off, busy, current, not_watched
from .held import Held, collects, hold, is_variable
from .promised import hold_gradients, promises, see
from .round import Round
from .streams import OTHER_STREAM, as_on_null_stream, on_other_stream
from .unrelated import lacks_calls, later_half, rounds_ended

TIMES = 2                       # so often a round is met before it is put off
MOST_EVENTS, TOO_MANY = 64, "a round has too many calls"      # of a round; what report() says of longer ones
MOST_UPDATES = 4096             # events of a round with its updates by hand
SHARED = "an array was used that shares memory with one that the round writes"
MOST_OTHERS = 256               # operators in the middle of a round that have nothing to do with it
LEFT = f"more than {MOST_OTHERS} other operators were called before the step"
MOST_STRANGE = 16               # rounds that cannot be followed, until that is given up
MOST_SETTLED = 3                # rounds that were looked into, for each round that was not (and one)
LOCK = evict.LOCK               # what is put off is done by one thread; buffers go and come under the same lock


def begin(root: Root, ctx: Context | None) -> Round:
    """A new round of this thread. ctx: of the arrays of its first call; None where it takes none."""
    STATE.round = made = Round(root, ctx)
    root.why = root.why or "no two rounds were equal so far"
    pending.WATCHED[0] += 1
    made.counted = weakref.finalize(made, not_watched)              # also where its thread ends first
    return made


def end(r: Round) -> None:
    """A round is over, or is not followed any more."""
    if STATE.round is r:
        STATE.round = None
        r.counted()


def note_other_operator(at: Any) -> None:
    """An operator outside of ``record`` has nothing to do with this thread's round. After many of them the loop was
    left, and the round ends: operators are faster where none is watched. at: tells how far the round has come."""
    if at != STATE.others_at:
        STATE.others_at, STATE.others = at, 0
    STATE.others += not SCOPE.recording
    if STATE.others > MOST_OTHERS and (r := current()) is not None:
        settle(r, LEFT)
        r.root.why = r.root.why if r.root.joined else LEFT
        end(r)


# ---- events
def event(what: Any, leaves: Sequence[Any], structure: Any, ordinary: Callable[[], Any],
          check: Callable[[Node], str], numbers: Sequence[Any] = ()) -> Any:
    """One event of this thread's round: put off where the tree knows it, else done now and noted. ordinary: does it.
    check: why an event that was done cannot be put off, noting what is known of it. numbers: those it takes that may
    differ from round to round."""
    r = STATE.round
    assert r is not None
    if r.gpu is not None and on_other_stream(r.gpu):
        strange(OTHER_STREAM)
        return ordinary()
    with LOCK:
        if len(r.trail) >= MOST_EVENTS and not r.deferred and not r.went_back:
            r = later_half(r, end, begin) or r
        off = r.deferred or r.node is r.root
        node = _likely(r, what, leaves, structure) if off else None
        if node is not None:
            return put_off(r, node, numbers)
        refs = r.refs(leaves)
        if isinstance(refs, str) or len(r.trail) >= (MOST_EVENTS if not r.went_back else MOST_UPDATES):
            strange(refs if isinstance(refs, str) else TOO_MANY)
            return ordinary()
        key = Event(what, refs, SCOPE.training, SCOPE.recording, SCOPE.np_array, structure, len(numbers))
        node = r.node.next.get(key)
        if (node is not None and node.ready and off and node.as_it_was()
            and not (node.waiting and node.waits(r.root.seconds))):
            r.node.likely = node
            return put_off(r, node, numbers)
        settle(r, "another call followed than in the rounds before it")
    r.values += numbers
    return _now(r, key, leaves, ordinary, check)


def _likely(r: Round, what: Any, leaves: Sequence[Any], structure: Any) -> Node | None:
    """The place of an event where it is the one that came here in the last round."""
    node = r.node.likely
    if node is None or not node.ready or node.waiting and node.waits(r.root.seconds):
        return None
    e = node.event
    if (e.what == what and e.training is SCOPE.training and e.recording is SCOPE.recording
        and e.np_array is SCOPE.np_array and e.structure == structure and len(e.inputs) == len(leaves)
        and node.as_it_was() and r.match(e.inputs, leaves)):
        return node
    return None


def _now(r: Round, key: Event, leaves: Sequence[Any], ordinary: Callable[[], Any], check: Callable[[Node], str]) -> Any:
    """An event is done now, and noted."""
    r.fresh = []
    node = r.node.next.get(key)
    known = node is not None
    if node is None:
        node = Node(key)
    before = [(x, x._version) for ref in r.outside if (x := ref()) is not None]
    fixed = [(x, x._version) for i in key.inputs if type(i) is Held and (x := i.array()) is not None]
    try:
        with busy():
            made = ordinary()
    except BaseException:
        end(r)
        raise
    why = _note(r, node, made) if not isinstance(key.what, (Backward, Step)) else ""
    if not known and not why:
        why = check(node) or r.root.add(r.node, node)
    written = [x for x, v in fixed if x._version != v and not key.recording]
    node.updates, node.writes = any(map(is_variable, written)), any(not collects(x) for x in written)
    if isinstance(key.what, Backward):
        hold_gradients(r)
    if isinstance(key.what, Assign) and not why:
        node.whole = len({(x.shape, x.dtype) for x in leaves}) == 1
    for x in [*(x for x, v in before if x._version != v), *r.among_outside(node)]:
        hold(x)                                          # from the next round on the key of its events is another one
    if why:
        strange(why)
    else:
        r.node = node
        r.trail.append(node)
        r.taped = r.taped or node.taped_inputs
        if isinstance(key.what, Step) or r.taped and isinstance(key.what, Backward):
            _met(r)
    return made


def another(r: Round) -> None:
    """A round with updates by hand is over, for the next one begins: it ended with the last of them."""
    settle(r, "a round ended earlier than those before it")
    if STATE.round is r:
        while not r.trail[-1].writes:
            r.trail.pop()
        _met(r)


def _note(r: Round, node: Node, made: Any) -> str:
    """The results of an event that was done; why it cannot be put off another time."""
    arrays: list[Any] = []
    structure = flatten(made, lambda v: isinstance(v, NDArray), arrays, by_identity=True)
    if any(r.has(x) or any(x is ref() for ref in r.outside) or x.stype != "default" for x in arrays):
        return "a call hands an argument through"
    if len({id(x) for x in arrays}) < len(arrays):
        return "a call gives one array twice"
    node.made = structure, tuple((x._data.shape, x._data.dtype, x._ctx, type(x)) for x in arrays)
    node.taped = any(x._ag is not None for x in arrays)
    for x in arrays:
        r.add(x)
    return ""


def over() -> None:
    """A step ends what is left of this thread's round."""
    r = current()
    if r is not None:
        end(r)
    STATE.broken = False


def strange(why: str) -> None:
    """The rest of this thread's round is not followed; what was put off is done."""
    r = current()
    if r is None:
        return
    settle(r, why)
    r.root.strange, r.root.why = r.root.strange + 1, f"{why} ({user_location()})"
    r.root.refused = r.root.refused or r.root.strange > MOST_STRANGE
    end(r)
    STATE.broken = RECORDS.number


def _met(r: Round) -> None:
    """A round that was done now ended; if that was the second time, the next one is put off."""
    if lacks_calls(r):
        return strange(TOO_MANY)
    end(r)
    _took(r)
    for root, trail in rounds_ended(r):
        node = trail[-1]
        node.ends = not isinstance(node.event.what, Step)
        node.met, root.strange = node.met + 1, 0
        if node.met >= TIMES and not node.ready and not root.refused:
            for place in trail:
                place.ready = True


def _took(r: Round) -> None:
    """A round ended that no program did."""
    r.root.seconds += time.monotonic() - r.began


# ---- putting off
def put_off(r: Round, node: Node, numbers: Sequence[Any]) -> Any:
    """Put an event off; its results are promises. If it ends the round, all of the round is done."""
    r.node, r.draws, r.taped = node, r.draws or node.draws, r.taped or node.taped_inputs
    r.trail.append(node)
    r.values += numbers
    if type(node.event.what) is Step:
        finish(r, node)
        return None
    if not r.deferred:
        r.deferred = True
        ROUNDS.append(r)
        pending.PUT_OFF[0] += 1
        evict.EVICTED[0] = True
    hidden = r.hidden
    for x, raw, old in r.fresh:
        r.arguments.append(x)
        hidden.append((x, raw, old))
        x._away = Promise(raw.shape, raw.dtype, r)
        del x._data
    r.fresh = []
    if node.seen != REBINDS[0] or any([x._ag is not slot or slot.grad is not g for x, slot, g in node.slots]):
        see(r, node)
    for x, promise in node.away:
        hidden.append((x, x._data, x._away))             # where another thread's round hid it, that is settled first
        promise.round = r
        x._away = promise
        del x._data
    made = promises(r, node) if node.made is not None else None
    if node.ends and node.met >= TIMES:
        finish(r, node)
    return made


def _come_back(r: Round) -> None:
    """Nothing of a round is put off any more: buffers come back, its results are about to be filled."""
    r.show()
    r.deferred = False
    ROUNDS.remove(r)
    pending.PUT_OFF[0] -= 1


def finish(r: Round, node: Node) -> None:
    """A round ends: one program does all of it, or all but a step that cannot be in it and follows."""
    if r.deferred:                                       # else its track did that
        _come_back(r)
    end(r)
    follows = ""
    if isinstance(node.event.what, Step):
        follows = node.event.what.trainer().step_follows() or node.follows      # type: ignore[union-attr]
    if follows:
        r.trail.pop()
    try:
        with busy(), as_on_null_stream(r.gpu):
            why = joined.run(r, r.trail[-1])
            if why:
                _not_joined(r.root, why)
    except BaseException as err:
        failed(r, err)
        raise
    if why:
        _took(r)
    else:
        r.root.joined, r.root.follows = r.root.joined + 1, follows
        if not follows:
            joined.lay_track(r, node)
    if follows:
        node.event.do({}, (), iter(()))


def finish_track(track: Any, step: Step | None) -> bool:
    """End a round that is followed in C: one program does all of it. step: what ends it; None where its last event
    does, which was put off. Whether the round was done so."""
    path = track.path
    try:
        out = track.finish(step)
    except BaseException as err:
        failed(path.round_of(track)[1], err)
        raise
    if out is NotImplemented:
        if step is None:                                 # other results are alive than before
            r = current()
            if r is not None:
                finish(r, r.node)
        return False
    if out:
        path.done += 1
        path.root.joined += 1
    else:                                                # the program has to be bound anew, or the like
        with LOCK:
            _, r = path.round_of(track)
            finish(r, r.node)
    return True


FINISH.append(finish_track)


def settle(r: Any, why: str) -> None:
    """What a round (or its track) put off is done now: behind ``backward``, where that happens often, by one program,
    else the ordinary way."""
    with LOCK:
        if r is not None and type(r) is not Round:
            r = followed.taken_over(r)
        if r is None or not r.deferred:                  # another thread was first
            return
        node, root = r.node, r.root
        node.settled += 1
        _come_back(r)
        try:
            with busy(), as_when_put_off(), as_on_null_stream(r.gpu):
                if isinstance(node.event.what, (Backward, Grad)) and node.settled > 1:
                    instead = joined.run(r, node)
                    if not instead:
                        root.joined += 1
                        return
                    why = joined.COMING if instead == joined.COMING else why
                else:
                    joined.one_by_one(r)
                _not_joined(root, why)
        except BaseException as err:
            failed(r, err)
            raise


def failed(r: Round, err: BaseException) -> None:
    """What was put off could not be done: whoever looks at a result gets the error."""
    for ref in r.results:
        x = ref()
        if x is not None and type(x._away) is Promise:
            x._away.error = err
    end(r)


def _not_joined(root: Root, why: str) -> None:
    """What was put off was done the ordinary way. why: in words."""
    if why == joined.COMING:
        root.why = why if not root.joined else root.why
        return
    root.settled_times += 1
    if root.settled_times > MOST_SETTLED * (1 + root.joined) and not root.refused:
        root.refused = True
        root.next.clear()
    if not root.joined or root.refused:
        root.why = f"{why} ({user_location()})"


def settle_all(why: str, raw: Any = None, drawn: bool = False,
               concerns: Callable[[Sequence[Node]], bool] = lambda nodes: True) -> None:
    """What all threads put off is done now; only what depends on some memory, draws random numbers, or has events of
    some kind, if so asked."""
    if STATE.busy and raw is None:                       # this thread's own round is not put off just now
        return
    with LOCK:
        for track in list(LIVE):
            if ((raw is None or followed.reads(track, raw)) and (track.path.draws or not drawn)
                and concerns(track.path.nodes)):
                followed.taken_over(track)
        for r in list(ROUNDS):
            if (raw is None or r.reads(raw)) and (r.draws or not drawn) and concerns(r.trail):
                settle(r, why)


def give_up() -> None:
    """An exception ends this thread's round."""
    r = current()
    if r is not None and not STATE.busy:
        settle(r, "an exception left record()")
        end(r)
