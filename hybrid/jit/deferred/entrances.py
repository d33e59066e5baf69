"""Where blocks, operators, ``backward`` and ``Trainer.step`` tell of themselves, and what of them is never put off."""
from __future__ import annotations

import sys
import weakref
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from ...autograd.dispatch import TIMERS
from ...base import config, pending
from ...base.pytree import flatten
from ...base.scope import CASTS, RECORDS, SCOPE
from ...buffers.array import NDArray
from ...buffers.promise import Promise
from ...ops.attributes import told_apart
from ...runtime.observers import OBSERVERS
from ..replaced import LibraryClass
from . import rounds
from .events import BACKWARD, PLAIN, Call, Loss, Method, Node, Operator, Root, Scale, hashable
from .followed import STATE, current, is_promised, take
from .joined import unfit
from .rounds import event, give_up, settle, settle_all, strange

LOOKED_INTO = "a profiler or a check of each operator is on"
_STEADY = (FunctionType, BuiltinFunctionType, CodeType, ModuleType, type)


def call(engine: Any, args: Any, kwargs: Any) -> Any:
    """A call of a hybridized block under ``record``."""
    def ordinary() -> Any:
        return engine._slow(args, kwargs)
    if STATE.busy:
        return ordinary()
    track, begins = STATE.track, False
    if track is None and STATE.round is None:
        if STATE.broken == RECORDS.number or not _begins(engine, args):
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
        rounds.begin(engine.rounds)
    if TIMERS or OBSERVERS:
        strange(LOOKED_INTO)
        return ordinary()
    return event(what, leaves, structure, ordinary, lambda node: _check_call(node, engine, args, kwargs))


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
    if r is None or not any([isinstance(x, NDArray) and r.has(x) for x in leaves]):
        return ordinary()
    return event(what, leaves, structure, ordinary, lambda node: "")


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
    if any([isinstance(x, NDArray) and x._ag is not None for x in args]):
        root.why = "a call takes an array with a gradient of its own"
        return False
    return True


def _check_call(node: Node, engine: Any, args: Any, kwargs: Any) -> str:
    """Why a call cannot be put off; what is known of it is noted."""
    entry = engine.known(args, kwargs)
    if entry is None:
        return f"{engine.name} runs as plain Python"
    if config.compile_mode() == "never":
        return "no programs are compiled (HYBRID_COMPILE)"
    if entry.ctx.device_type != "cpu":
        return "it does not run on the CPU"
    if engine.counters is None:
        return f"{engine.name} has lists or dicts in its attributes, whose contents may change"
    if any(kind != "output" for kind, _ in entry.picks) or not entry.recorded:
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


def operator(d: Any, inputs: Sequence[Any], attrs: Mapping[str, Any], cls: Any,
             ordinary: Callable[[Sequence[Any]], Any]) -> Any:
    """An operator that is called while a round is watched. ordinary: calls it with some inputs."""
    if STATE.busy or STATE.round is None and STATE.track is None:
        return ordinary(inputs)
    track = STATE.track
    if track is not None and not any([is_promised(x) for x in inputs]):
        return ordinary(inputs)
    given = tuple([x is not None for x in inputs])
    what = Operator(d, tuple(attrs.items()), tuple(map(told_apart, attrs.values())), given, cls)
    if track is not None:
        out = take(track, what, [x for x in inputs if x is not None], None)
        if out is not NotImplemented:
            return out
    r = current()
    if r is None:
        return ordinary(inputs)
    if not any([r.has(x) for x in inputs]):
        return ordinary([r.seen(x) for x in inputs] if r.deferred else inputs)
    if TIMERS or OBSERVERS:
        strange(LOOKED_INTO)
        return ordinary(inputs)
    try:
        hash(what)
    except TypeError:
        strange(f"attributes of operator {d.name} cannot be compared")
        return ordinary(inputs)
    return event(what, [x for x in inputs if x is not None], None, lambda: ordinary(inputs),
                 lambda node: _check_operator(node, d, attrs))


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
    if r is None or not r.has(x):
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
    if r is None or not any(map(r.has, losses)):
        return ordinary()
    return event(what, losses, None, ordinary, lambda node: "")


def backward(heads: Any, head_grads: Any, retain_graph: bool, train_mode: bool, ordinary: Callable[..., None]) -> None:
    """``autograd.backward``. If this thread's round was given up, calls after it are noted again: perhaps no step
    comes. ordinary: computes the gradients, given the other four arguments."""
    several, track = heads if isinstance(heads, (list, tuple)) else (heads,), STATE.track
    if (track is not None and head_grads is None and not retain_graph
        and track.take(BACKWARD[bool(train_mode)], several, None) is None):
        return None
    if STATE.busy:
        return ordinary(heads, head_grads, retain_graph, train_mode)
    try:
        if STATE.round is None and track is None:
            return ordinary(heads, head_grads, retain_graph, train_mode)
        return _watched_backward(several, head_grads, retain_graph, train_mode,
                                 lambda: ordinary(heads, head_grads, retain_graph, train_mode))
    finally:
        STATE.broken = False


def _watched_backward(several: Sequence[Any], head_grads: Any, retain_graph: bool, train_mode: bool,
                      ordinary: Callable[[], None]) -> None:
    r = current()
    if r is None:
        return ordinary()
    if head_grads is not None or retain_graph:
        strange("backward is given gradients of its heads, or told to keep the recording")
        return ordinary()
    if not several or not all(map(r.has, several)):
        strange("backward begins at an array that no call of the round gave")
        return ordinary()
    event(BACKWARD[bool(train_mode)], several, None, ordinary, lambda node: _check_backward(r))
    return None


def _check_backward(r: Any) -> str:
    for entry in (node.entry for node in r.trail if node.entry is not None):
        for x in entry.fixed():
            if x.stype != "default" or x._ag is not None and x._ag.grad is not None and x._ag.grad.stype != "default":
                return "a parameter or its gradient is sparse"
    return ""


def step(trainer: Any, batch_size: Any, ignore_stale_grad: bool, ordinary: Callable[..., None]) -> None:
    """``Trainer.step``: the end of a round. ordinary: does the step, given batch_size and ignore_stale_grad."""
    if STATE.busy:
        return ordinary(batch_size, ignore_stale_grad)
    STATE.broken = False
    track = STATE.track
    if (track is not None and type(batch_size) in (int, float) and batch_size and not ignore_stale_grad
        and not trainer.step_follows()):
        trainer.size.value = batch_size
        if rounds.finish_track(track, trainer.size.step):
            return None
    r = current()
    if r is None:
        return ordinary(batch_size, ignore_stale_grad)
    if (ignore_stale_grad or SCOPE.recording or r.node is r.root or len(trainer._contexts) > 1
        or not isinstance(batch_size, (int, float, np.number)) or not batch_size):
        strange("trainer.step was called inside autograd.record, with ignore_stale_grad, with a batch_size that is 0 "
                "or no number, without a call before it, or with parameters on several devices")
        STATE.broken = False
        return ordinary(batch_size, ignore_stale_grad)
    trainer.size.value = batch_size
    try:
        event(trainer.size.step, [], None, lambda: ordinary(batch_size, ignore_stale_grad),
              lambda node: _note_step(node, trainer))
    finally:
        rounds.over()
    return None


def _note_step(node: Node, trainer: Any) -> str:
    """Notes why a step cannot be in the program of its round, if so; never a reason not to put it off."""
    node.follows = "" if trainer.prepared() else "the optimizer's update is not one program of all parameters"
    return ""


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


def _calls(what: Any, block: Any) -> bool:
    """Whether an event calls a block, itself or within another one."""
    if not isinstance(what, (Call, Loss)):
        return False
    called: set[int] = set()
    for b in (what.block,) if isinstance(what, Loss) else (what.engine.owner, *what.engine.used.blocks):
        b._tree_ids(called)
    return id(block) in called


__all__ = ["backward", "call", "give_up", "loss", "method", "operator", "scaled", "settle", "settle_all", "settle_for",
           "step"]
pending.LATER.append(sys.modules[__name__])
