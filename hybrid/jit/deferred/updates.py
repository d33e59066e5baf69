"""Where the computation of gradients and the writing of parameters are reported: ``backward``, ``autograd.grad``,
``Trainer.step``, and writes by hand."""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from ...buffers.array import NDArray
from ...ops.attributes import told_apart
from . import rounds
from .events import ASSIGN_ALL, BACKWARD, Assign, Backward, Grad, Node, hashable
from .followed import STATE, current, given_back, take
from .held import held, hold, is_variable
from .rounds import event, strange

ALL = slice(None)
OF_NO_CALL = "backward begins at an array that no call of the round gave"


def nothing(made: Any) -> None:
    """The result of an event that writes into arrays: None, whatever the call gave."""


def current_updated() -> Any:
    """This thread's round if variables were written by hand in it, else None. The next recorded call begins another."""
    track = STATE.track
    if track is not None and not any([node.updates for node in track.path.nodes[:track.at]]):
        return None
    r = current() if track is not None else STATE.round
    return r if r is not None and r.updated else None


def backward(heads: Any, head_grads: Any, retain_graph: bool, train_mode: bool, ordinary: Callable[..., None]) -> None:
    """``autograd.backward``. If this thread's round was given up, calls after it are noted again: perhaps no step
    comes. ordinary: computes the gradients, given the other four arguments."""
    several, track = heads if isinstance(heads, (list, tuple)) else (heads,), STATE.track
    if (track is not None and head_grads is None and not retain_graph
        and track.take(BACKWARD[bool(train_mode)], several, None, ()) is None):
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
    given, seeds = _seeds(several, head_grads)
    what = BACKWARD[bool(train_mode)]
    if given or retain_graph:
        what = Backward(bool(train_mode), given, bool(retain_graph))
    if STATE.track is not None and seeds is not None and take(STATE.track, what, [*several, *seeds], None) is None:
        return None
    r = current()
    if r is None:
        return ordinary()
    if not r.trail and several and all(map(r.knows, several)):
        rounds.end(r)                                    # from what Python code gave, with no call behind it
        return ordinary()
    if not several or not all(map(r.has, several)):
        strange(OF_NO_CALL)
        return ordinary()
    if seeds is None:
        strange("backward is given gradients of other dtypes or shapes than its heads")
        return ordinary()
    event(what, [*several, *seeds], None, ordinary, lambda node: _check_backward(r))
    return None


def _seeds(heads: Sequence[Any], head_grads: Any) -> tuple[tuple[bool, ...], list[Any] | None]:
    """For which heads gradients are given, and these gradients; None for them where the call fails or converts them."""
    if head_grads is None:
        return (), []
    several = list(head_grads) if isinstance(head_grads, (list, tuple)) else [head_grads]
    fine = len(several) == len(heads) and all(
        g is None or isinstance(g, NDArray) and g.stype == "default" and isinstance(h, NDArray) and g.shape == h.shape
        and g.dtype == h.dtype for h, g in zip(heads, several))
    return tuple([g is not None for g in several]), [g for g in several if g is not None] if fine else None


def _check_backward(r: Any) -> str:
    for entry in (node.entry for node in r.trail if node.entry is not None):
        for x in entry.fixed():
            if x.stype != "default" or x._ag is not None and x._ag.grad is not None and x._ag.grad.stype != "default":
                return "a parameter or its gradient is sparse"
    return ""


def grad(heads: Any, variables: list[Any], head_grads: Any, retain_graph: bool | None, create_graph: bool,
         train_mode: bool, ordinary: Callable[..., Any]) -> Any:
    """``autograd.grad``. ordinary: computes the gradients, given the other six arguments."""
    def now() -> Any:
        return ordinary(heads, variables, head_grads, retain_graph, create_graph, train_mode)
    if STATE.busy or STATE.round is None and STATE.track is None:
        return now()
    several = heads if isinstance(heads, (list, tuple)) else (heads,)
    given, seeds = _seeds(several, head_grads)
    what = Grad(bool(train_mode), given, bool(retain_graph), len(variables))
    leaves = [*several, *(seeds or ()), *variables]
    if STATE.track is not None and not create_graph and seeds is not None:
        out = take(STATE.track, what, leaves, None)
        if out is not NotImplemented:
            return out
    r = current()
    if r is None:
        return now()
    why = ("autograd.grad is asked for gradients that can be differentiated again (create_graph=True)" if create_graph
           else OF_NO_CALL.replace("backward", "autograd.grad") if not several or not all(map(r.has, several))
           else "autograd.grad goes on to calls before the round" if r.taped
           else "autograd.grad is given gradients of other dtypes or shapes than its heads" if seeds is None
           else "autograd.grad is asked for the gradient of an array that collects none"
           if not all(r.has(x) or is_variable(x) for x in variables) else "")
    if why:
        strange(why)
        STATE.broken = False
        return now()
    return event(what, leaves, None, now, lambda node: _check_backward(r))


def assign(x: Any, key: Any, value: Any, ordinary: Callable[[], None]) -> None:
    """``x[key] = value`` outside of ``record``. ordinary: does it."""
    track = STATE.track
    if track is not None and type(key) is slice and key == ALL:
        made = track.take(ASSIGN_ALL, (x, value), None, ())
        if made is not NotImplemented:
            if track.at == track.events:
                given_back(track, made)
            return None
    if track is None and STATE.round is None or STATE.busy:
        return ordinary()
    known = held(x)
    number = type(value) in (int, float, bool)
    if not number and not isinstance(value, NDArray) or known is None and track is not None:
        return ordinary()
    try:
        what = ASSIGN_ALL if not number and type(key) is slice and key == ALL else Assign(
            hashable(key), value if number else None, told_apart(value) if number else None)
    except TypeError:
        return ordinary()
    leaves = [x] if number else [x, value]
    if track is not None and take(track, what, leaves, None) is None:
        return None
    r = current()
    if r is None:
        return ordinary()
    if (known is None and not r.deferred and r.went_back and isinstance(x, NDArray) and x.stype == "default"
        and (r.concerns(value) or any([ref() is x for ref in r.outside]))):
        known = hold(x)                                  # a state of the user's own is held from now on
    if known is None or value is x or r.has(x):
        return ordinary()
    return event(what, leaves, None, ordinary, lambda node: "")


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
    if (ignore_stale_grad or r.node is r.root or not isinstance(batch_size, (int, float, np.number)) or not batch_size):
        strange("trainer.step was called with ignore_stale_grad, with a batch_size that is 0 or no number, or without "
                "a call before it")
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
