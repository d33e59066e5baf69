"""Calls of public functions that were made before with arguments of the same kind: arrays of the same shapes and
dtypes, other arguments of the same values. What the function did then, one operator or one function of NumPy's, is done
again in C without it (kernels/c/launcher_functions.h).
"""
from __future__ import annotations

import contextlib
import os
import threading
from functools import wraps
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..base import pending
from ..base.scope import CASTS
from ..buffers.array import NP_CLASS, NDArray
from ..ops import registry
from ..runtime import launcher
from . import known_calls
from .dispatch import TIMERS

CALL: list[Callable[..., Any]] = []                     # at most one, once the launcher is there: ``function_call``
MOST = 4096                                             # kinds of calls that are remembered of a function
TRIES = 3                                               # calls of a kind that are looked at
SMALL = 4096                                            # elements of the arrays that NumPy's own function is given
IN_ONE_STEP = ("Elementwise", "Strided", "ufunc")       # classes of operators' functions that NumPy's cannot beat
NUMBERS = (bool, int)                                   # classes of results that are no arrays
_known: list[dict[bytes, Any]] = []                     # of all functions
_noting = threading.Lock()
_now: list[tuple[int, Any]] = []                         # the thread that notes a call, and what ``IN_C`` had before

Leaf = tuple[dict[Any, Any], tuple[Any, ...], dict[str, Any], Any]


def known(function: Callable[..., Any], numpys: Callable[..., Any] | None = None,
          replayed: bool = True) -> Callable[..., Any]:
    """A function whose calls are remembered. numpys: a function of NumPy's arrays that does the same, or raises an
    error, which leaves the call to the function itself. replayed: whether an operator that the function called may be
    called without it: it must not look at the numbers in arrays."""
    kinds: dict[bytes, Any] = {}
    _known.append(kinds)

    @wraps(function)
    def remembering(*args: Any, **kwargs: Any) -> Any:
        if not CALL:
            return function(*args, **kwargs)
        found = CALL[0](kinds, args, kwargs)
        return _first(kinds, function, numpys, replayed, args, kwargs) if found is None else found
    return remembering


def _first(kinds: dict[bytes, Any], function: Callable[..., Any], numpys: Callable[..., Any] | None, replayed: bool,
           args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call of a kind that is not known, which it may be from now on."""
    found = launcher.part("function_key")(args, kwargs)
    if found is None or kinds.get(found[0], 0) == TRIES or not _noting.acquire(blocking=False):
        return function(*args, **kwargs)
    key, arrays = found
    try:
        out, leaves = _noted(function, args, kwargs)
        entry = _again(out, leaves, arrays, _numbers((args, *kwargs.values()))) if replayed else None
        if numpys is not None and (entry is None or type(entry[0]).__name__ not in IN_ONE_STEP):
            entry = _by_numpy(numpys, out, arrays, args, kwargs) or entry
        if len(kinds) >= MOST:
            kinds.clear()
        tries = kinds.get(key, 0)
        kinds[key] = entry if entry is not None else tries + 1 if isinstance(tries, int) else tries
        return out
    finally:
        _noting.release()


def _noted(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, list[Leaf]]:
    """A call's result, and the calls of operators in this thread that were known."""
    leaves: list[Leaf] = []
    thread, call = threading.get_ident(), known_calls.IN_C[0]

    def noting(of: dict[Any, Any], inputs: Sequence[Any], attrs: Mapping[str, Any], cls: Any) -> Any:
        found = call(of, inputs, attrs, cls)
        if threading.get_ident() == thread:
            leaves.append((of, tuple(inputs), dict(attrs), found))
        return found
    _now.append((thread, call))
    known_calls.IN_C[0] = noting
    try:
        return function(*args, **kwargs), leaves
    finally:
        known_calls.IN_C[0] = call
        _now.clear()


def _in_child() -> None:
    """A thread that was noting a call is not there in a forked process."""
    if _now and _now[0][0] != threading.get_ident():
        known_calls.IN_C[0] = _now.pop()[1]
        _noting.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _numbers(value: Any) -> list[Any]:
    """The numbers among arguments."""
    if isinstance(value, (tuple, list)):
        return [n for v in value for n in _numbers(v)]
    return [value] if isinstance(value, (bool, int, float)) else []


def _again(out: Any, leaves: Sequence[Leaf], arrays: tuple[Any, ...],
           numbers: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """What C does in the place of a call that gave what its one operator gave of its arrays; None for others."""
    if len(leaves) != 1 or not isinstance(out, NDArray) or len({*map(id, arrays)}) < len(arrays):
        return None
    (of, inputs, attrs, found), = leaves
    places = tuple(next((i for i, x in enumerate(arrays) if x is given), _constant(given, numbers)) for given in inputs)
    unread = {*range(len(arrays))} - {p for p in places if isinstance(p, int)}
    if found is None or found._data is not out._data or unread or any(p is None for p in places):
        return None
    call = of.get(known_calls.key_of([x._data for x in inputs], attrs))
    if call is None or call.function is None or call.visible != 1:
        return None
    return call.function, places, None, type(out)


def _constant(x: Any, numbers: Sequence[Any]) -> np.ndarray | None:
    """The raw array of one of the call's numbers that the function made an array of; None for other values, which may
    have been computed of the arrays."""
    raw = x._data if isinstance(x, NDArray) else None
    if type(raw) is not np.ndarray or raw.size != 1 or raw.base is not None or not raw.flags.owndata:
        return None
    with contextlib.suppress(OverflowError, ValueError):
        if any(np.array(n).astype(raw.dtype).tobytes() == raw.tobytes() for n in numbers):
            return raw.copy()
    return None


def _by_numpy(numpys: Callable[..., Any], out: Any, arrays: tuple[Any, ...], args: tuple[Any, ...],
              kwargs: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What C does in the place of a call of small arrays that gave what NumPy's function gives, to the last bit."""
    made = type(out) if isinstance(out, (tuple, list)) else None
    items = [x for x in (out if made is not None else (out,)) if type(x) not in NUMBERS]
    classes = {*map(type, items)}
    if sum(x.size for x in arrays) > SMALL or len(classes) > 1 or not classes <= {NDArray, *NP_CLASS}:
        return None
    if "out" in kwargs or any(np.may_share_memory(x._data, a._data) for x in items for a in arrays):
        return None                                      # the function wrote into an array, or gave one of its own
    entry = (numpys, None, made, type(items[0]) if items else NP_CLASS[0])
    kinds = {launcher.part("function_key")(args, kwargs)[0]: entry}
    found = CALL[0](kinds, args, kwargs)
    return entry if found is not None and _told(found) == _told(out) else None


def _told(found: Any) -> Any:
    """A result as what can be compared."""
    if isinstance(found, NDArray):
        raw = found.asnumpy()
        return type(found), raw.dtype, raw.shape, raw.tobytes()
    return type(found), [_told(x) for x in found] if isinstance(found, (tuple, list)) else found


def _begin() -> None:
    launcher.part("functions_setup")(pending.WATCHED, CASTS, TIMERS)
    CALL[:] = [launcher.part("function_call")]


def _forget() -> None:
    """Operators are others now."""
    for kinds in _known:
        kinds.clear()


known_calls.READY.append(_begin)
registry.CHANGED.append(_forget)
