"""Where blocks and operators report their calls, and which calls are never put off. For gradients and updates see
updates.py."""
from __future__ import annotations

import math
import sys
import weakref
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from ...autograd.dispatch import OF_NUMBER, TIMERS
from ...base import config, pending
from ...base.pytree import flatten
from ...base.scope import CASTS, RECORDS, SCOPE
from ...buffers import evict
from ...buffers.array import NDArray
from ...buffers.promise import Promise
from ...ops.attributes import told_apart
from ...runtime.observers import OBSERVERS
from ..replaced import LibraryClass
from . import rounds
from .events import OPEN, PLAIN, Call, Loss, Method, Node, Operator, Root, Scale, hashable
from .followed import LIVE, ROUNDS, STATE, current, given_back, is_promised, take, taken_over
from .held import held
from .joined import unfit
from .round import OWN_GRADIENT, has_gradient, on_tape, went_back
from .rounds import LOCK, event, give_up, settle, settle_all, strange
from .updates import assign, backward, current_updated, grad, nothing, step

LOOKED_INTO = "a profiler or a check of each operator is on"
_STEADY = (FunctionType, BuiltinFunctionType, CodeType, ModuleType, type)


def call(engine: Any, args: Any, kwargs: Any) -> Any:
    """A call of a hybridized block under ``record``, or in ``pause`` there."""
    def ordinary() -> Any:
        return engine._slow(args, kwargs)
    if STATE.busy:
        return ordinary()
    if SCOPE.recording and (r := current_updated()) is not None:
        rounds.another(r)
    if (r := STATE.round) is not None and r.code_results and not r.trail and not any(map(r.knows, args)):
        rounds.end(r)                                    # nothing was done with what the Python code gave
    track, begins = STATE.track, False
    if track is None and STATE.round is None:
        if not SCOPE.recording or STATE.broken == RECORDS.number or not _begins(engine, args):
            return ordinary()
        begins, track = True, engine.rounds.track and engine.rounds.track()
    leaves, structure = _arguments(args, kwargs)
    what = Call(engine, _root(engine).number(engine))
    if track is not None:
        out = take(track, what, leaves, structure)
        if out is not NotImplemented:
            return out
    r = current()
    if r is None:
        if not begins:
            return ordinary()
        rounds.begin(engine.rounds, next((x._ctx for x in leaves if isinstance(x, NDArray)), None))
    elif not SCOPE.recording and r.went_back:
        return ordinary()
    if TIMERS or OBSERVERS:
        strange(LOOKED_INTO)
        return ordinary()
    return event(what, leaves, structure, ordinary, lambda node: _check_call(node, engine, args, kwargs))


def is_event() -> bool:
    """Whether a call of a hybridized block may be an event of a round: it is recorded, or it comes in ``pause`` between
    this thread's first recorded call and ``backward``."""
    if SCOPE.traces or SCOPE.plain:
        return False
    if SCOPE.recording or not pending.WATCHED[0] or STATE.busy:
        return SCOPE.recording
    track, r = STATE.track, STATE.round
    nodes = track.path.nodes[:track.at] if track is not None else r.trail if r is not None else ()
    return bool(nodes) and not went_back(nodes)


def _arguments(args: Any, kwargs: Any) -> tuple[Sequence[Any], Any]:
    """The arrays among the arguments of a call, and what they stand in."""
    if not kwargs and len(args) in PLAIN and all([isinstance(x, NDArray) for x in args]):
        return args, PLAIN[len(args)]
    leaves: list[Any] = []
    return leaves, flatten((args, kwargs), lambda v: isinstance(v, (NDArray, np.ndarray)), leaves, by_identity=True)


def loss(block: Any, args: Any, kwargs: Any, ordinary: Callable[[], Any]) -> Any:
    """A call of a loss of this library that is not hybridized, while a round is watched: one event, as if it were."""
    if (STATE.round is None and STATE.track is None or STATE.busy or not SCOPE.recording or TIMERS
        or OBSERVERS):
        return ordinary()
    leaves, structure = _arguments(args, kwargs)
    what = Loss(block, block._version, type(block).hybrid_forward)
    if STATE.track is not None:
        out = take(STATE.track, what, leaves, structure)
        if out is not NotImplemented:
            return out
    r = current()
    if r is None or not any([isinstance(x, NDArray) and r.knows(x) for x in leaves]):
        return ordinary()
    return event(what, leaves, structure, ordinary, lambda node: "")


def python_code(name: str, inputs: Sequence[Any], ordinary: Callable[[], Any]) -> Any:
    """A recorded call of the user's Python code (``autograd.Function``, ``CustomOp``), which runs at its line. If its
    inputs come from the current round, that round ends first; a new one begins with what the code returns."""
    r = current() if not (STATE.busy or SCOPE.traces) else None
    if r is None or not any([isinstance(x, NDArray) and r.concerns(x) for x in inputs]):
        return ordinary()
    settle(r, f"the Python code of {name} runs in it")
    rounds.end(r)
    made = ordinary()
    arrays: list[Any] = []
    flatten(made, lambda v: isinstance(v, NDArray), arrays, by_identity=True)
    if STATE.round is None and any([on_tape(x) for x in arrays]):
        rounds.begin(r.root.behind_code(name), arrays[0]._ctx).code_results = [weakref.ref(x) for x in arrays]
    return made


def _root(engine: Any) -> Root:
    if engine.rounds is None:
        engine.rounds = Root(engine.name)
    root: Root = engine.rounds
    return root


def _begins(engine: Any, args: Any) -> bool:
    """Whether a call may be the first of a round."""
    root = _root(engine)
    if root.refused or not config.defer():
        return False
    if any([isinstance(x, NDArray) and has_gradient(x) for x in args]):
        root.why = OWN_GRADIENT
        return False
    return True


def _check_call(node: Node, engine: Any, args: Any, kwargs: Any) -> str:
    """Why a call cannot be put off; what is known of it is noted."""
    entry = engine.known(args, kwargs)
    if entry is None:
        return f"{engine.name} runs as plain Python"
    if config.compile_mode() == "never":
        return "no programs are compiled (HYBRID_COMPILE)"
    if engine.counters is None:
        return f"{engine.name} has lists or dicts in its attributes, whose contents may change"
    if any(kind != "output" for kind, _ in entry.picks) or SCOPE.recording and not entry.recorded:
        return "a call hands an argument through"
    for place in entry.guard.places:
        if not isinstance(place, LibraryClass) and not isinstance(place.get(), _STEADY) and not _of_block(place):
            what = getattr(place, "name", None)
            return f"{engine.name} reads {what!r}, a variable or the like, which may change before the step"
    node.entry, node.draws = entry, bool(entry.draws)
    why = unfit(entry)
    return f"{engine.name}: {why}" if why else ""


def _of_block(place: Any) -> bool:
    """Whether a place is an array in an attribute of a block. Before such an attribute is assigned, the calls that
    were put off are made."""
    return isinstance(place.get(), NDArray) and hasattr(type(place.where), "_signature_version")


def operator(d: Any, inputs: Sequence[Any], attrs: Mapping[str, Any], cls: Any, out: Any,
             ordinary: Callable[[Sequence[Any]], Any]) -> Any:
    """An operator that is called while a round is watched. out: arrays that it is told to write into. ordinary: calls
    it with some inputs."""
    track = STATE.track
    if track is None and STATE.round is None or STATE.busy:
        return ordinary(inputs)
    outs = () if out is None else tuple(out) if isinstance(out, (list, tuple)) else (out,)
    if track is not None and not any([is_promised(x) or held(x) is not None or track.path.meets(x)
                                      for x in (*inputs, *outs)]):
        rounds.note_other_operator((track.path.done, track.at))
        return ordinary(inputs)
    what, numbers = _operator(d, inputs, attrs, cls, len(outs))
    leaves = [x for x in (*inputs, *outs) if x is not None]
    if track is not None:
        made = take(track, what, leaves, None, numbers)
        if made is not NotImplemented:
            return made if out is None else out
    r = current()
    if r is None:
        return ordinary(inputs)
    if outs and (SCOPE.recording or any(map(r.has, outs))):
        return ordinary(inputs)
    if not any([r.concerns(x) for x in leaves]):
        if any(map(r.changes, leaves)):
            settle(r, rounds.SHARED)
        rounds.note_other_operator((r.began, len(r.trail)))
        return ordinary([r.seen(x) for x in inputs] if r.deferred else inputs)
    if TIMERS or OBSERVERS:
        strange(LOOKED_INTO)
        return ordinary(inputs)
    try:
        hash(what)
    except TypeError:
        strange(f"attributes of operator {d.name} cannot be compared")
        return ordinary(inputs)
    if not outs:
        return event(what, leaves, None, lambda: ordinary(inputs), lambda node: _check_operator(node, d, attrs),
                     numbers)
    event(what, leaves, None, lambda: nothing(ordinary(inputs)), lambda node: _check_operator(node, d, attrs), numbers)
    return out


def _operator(d: Any, inputs: Sequence[Any], attrs: Mapping[str, Any], cls: Any, outs: int) -> tuple[Operator, Any]:
    """A call of an operator as an event, and those of its numbers that may differ from round to round."""
    given, values = tuple([x is not None for x in inputs]), tuple(attrs.items())
    number: Any = attrs.get("scalar")
    kinds = tuple(map(told_apart, attrs.values()))
    if type(number) not in (int, float) or d.name not in OF_NUMBER or not math.isfinite(number):
        return Operator(d, values, kinds, given, cls, outs), ()
    kinds = tuple([type(number) if k == "scalar" else kind for k, kind in zip(attrs, kinds)])
    values = tuple([(k, OPEN if k == "scalar" else v) for k, v in values])
    return Operator(d, values, kinds, given, cls, outs), (number,)


def _check_operator(node: Node, d: Any, attrs: Mapping[str, Any]) -> str:
    node.draws = d.random is not None
    if CASTS and CASTS[0].attrs(d, attrs) is not attrs:
        return f"operator {d.name} is given the loss scale, which may change, as an attribute"
    return f"operator {d.name} may refuse values (an index out of range)" if d.within is not None else ""


def method(x: Any, name: str, given: Sequence[Any], ordinary: Callable[[], Any]) -> Any:
    """A method of an array under ``record``, which is no operator."""
    if STATE.round is None and STATE.track is None or STATE.busy or SCOPE.traces:
        return ordinary()
    try:
        what = Method(name, tuple(map(hashable, given)))
    except TypeError:
        return ordinary()
    if STATE.track is not None:
        if not is_promised(x):
            return ordinary()
        out = take(STATE.track, what, [x], None)
        if out is not NotImplemented:
            return out
    r = current()
    if r is None or not r.knows(x):
        return ordinary()
    return event(what, [x], None, ordinary,
                 lambda node: "" if x._ag is not None else f"{name} gives an array that shares memory")


def scaled(losses: list[Any], trainer: Any, scale: Callable[[list[Any], Any], list[Any]]) -> Any:
    """``amp.scale_loss``. scale: gives the losses times the Trainer's scale."""
    def ordinary() -> Any:
        return scale(losses, trainer)
    if (STATE.round is None and STATE.track is None or STATE.busy or SCOPE.traces or not SCOPE.recording
        or not all([isinstance(x, NDArray) for x in losses])):
        return ordinary()
    what = Scale(weakref.ref(trainer), scale)
    if STATE.track is not None:
        out = take(STATE.track, what, losses, None)
        if out is not NotImplemented:
            return out
    r = current()
    if r is None or not any(map(r.knows, losses)):
        return ordinary()
    return event(what, losses, None, ordinary, lambda node: "")


def settle_for(why: str, arrays: Iterable[Any], block: Any = None) -> None:
    """What this thread put off is done now, and what others put off that depends on some arrays or calls a block."""
    if STATE.busy:
        return
    r = current()
    if r is not None:
        settle(r, why)
    for x in arrays:
        away = x._away
        if type(away) is Promise:
            away.fulfil()
    if block is not None:
        settle_all(why, concerns=lambda nodes: any(_calls(node.event.what, block) for node in nodes))


def settle_written(x: Any) -> None:
    """What may write the memory of an array that is no event's is done now."""
    if STATE.busy or evict.of(x) is not None:            # an evicted array has memory of its own
        return
    with LOCK:
        for track in list(LIVE):
            if track.path.meets(x):
                taken_over(track)
        for r in list(ROUNDS):
            if r.changes(x):
                settle(r, rounds.SHARED)


def _calls(what: Any, block: Any) -> bool:
    """Whether an event calls a block, itself or within another one."""
    if not isinstance(what, (Call, Loss)):
        return False
    called: set[int] = set()
    for b in (what.block,) if isinstance(what, Loss) else (what.engine.owner, *what.engine.used.blocks):
        b._tree_ids(called)
    return id(block) in called


__all__ = ["assign", "backward", "call", "give_up", "given_back", "grad", "is_event", "loss", "method", "operator",
           "python_code", "scaled", "settle", "settle_all", "settle_for", "settle_written", "step"]
pending.LATER.append(sys.modules[__name__])
