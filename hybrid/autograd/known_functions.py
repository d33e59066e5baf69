"""Calls of public functions (``np.where``, ``x.sum``) that are remembered by the kind of their arguments: the shapes
and dtypes of arrays, the values of others. At the first calls of a kind it is noted which operator the function calls;
if its result is that operator's, or has the bits of what a function of NumPy's gives, later calls of this kind run the
operator or NumPy's function from C, and not the function's own Python code (kernels/c/launcher_functions.h).
"""
from __future__ import annotations

import contextlib
import threading
from functools import wraps
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..base import forking, pending
from ..base.scope import CASTS
from ..buffers.array import NP_CLASS, NDArray
from ..ops import registry
from ..runtime import launcher
from . import known_calls
from .dispatch import TIMERS

CALL: list[Callable[..., Any]] = []                     # at most one, once the launcher is there: ``function_call``
MOST = 4096                                             # kinds of calls that are remembered of a function
TRIES = 3                                               # calls of a kind that are looked at, until that is given up
SMALL = 4096                                            # most elements of all arrays for which NumPy's function is run
IN_ONE_STEP = ("Elementwise", "Strided", "ufunc")       # classes of operators' functions that NumPy's cannot beat
NUMBERS = (bool, int)                                   # classes of results that are no arrays
# for each function, by key: the entry with which C does such calls, or how many of them have given none
_known: list[dict[bytes, Any]] = []
_noting = threading.Lock()                              # held while one call's operators are noted
_now: list[tuple[int, Any]] = []                         # the thread that notes a call, and what ``IN_C`` had before

# what is known of the operator's calls, by key (``OpDef.known``); inputs, attributes, result (None: not done in C)
OperatorCall = tuple[dict[Any, Any], tuple[Any, ...], dict[str, Any], Any]


def known(function: Callable[..., Any], numpys: Callable[..., Any] | None = None,
          replayed: bool = True) -> Callable[..., Any]:
    """The function, but so that it remembers its calls. numpys: a function that does the same with NumPy arrays; where
    it raises an error, the function itself is called. replayed: whether later calls may run the operator that the
    function called: not where the function chooses it by the numbers in the arrays."""
    kinds: dict[bytes, Any] = {}
    _known.append(kinds)

    @wraps(function)
    def remembering(*args: Any, **kwargs: Any) -> Any:
        if not CALL:
            return function(*args, **kwargs)
        found = CALL[0](kinds, args, kwargs)
        return _call_and_remember(kinds, function, numpys, replayed, args, kwargs) if found is None else found
    return remembering


def _call_and_remember(kinds: dict[bytes, Any], function: Callable[..., Any], numpys: Callable[..., Any] | None,
                       replayed: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call of which C knows nothing. If it can be done in C, that is remembered in ``kinds``."""
    found = launcher.part("function_key")(args, kwargs)
    if found is None or kinds.get(found[0], 0) == TRIES or not _noting.acquire(blocking=False):
        return function(*args, **kwargs)
    key, arrays = found
    try:
        out, calls = _with_operator_calls(function, args, kwargs)
        entry = _entry_of_operator(out, calls, arrays, _numbers((args, *kwargs.values()))) if replayed else None
        if numpys is not None and (entry is None or type(entry[0]).__name__ not in IN_ONE_STEP):
            entry = _entry_of_numpys(numpys, out, arrays, args, kwargs) or entry
        if len(kinds) >= MOST:
            kinds.clear()
        tries = kinds.get(key, 0)
        kinds[key] = entry if entry is not None else tries + 1 if isinstance(tries, int) else tries
        return out
    finally:
        _noting.release()


def _with_operator_calls(function: Callable[..., Any], args: tuple[Any, ...],
                         kwargs: Mapping[str, Any]) -> tuple[Any, list[OperatorCall]]:
    """A call's result, and the calls of operators that it made in this thread through ``known_calls.IN_C``."""
    calls: list[OperatorCall] = []
    thread, call = threading.get_ident(), known_calls.IN_C[0]

    def noting(of: dict[Any, Any], inputs: Sequence[Any], attrs: Mapping[str, Any], cls: Any) -> Any:
        found = call(of, inputs, attrs, cls)
        if threading.get_ident() == thread:
            calls.append((of, tuple(inputs), dict(attrs), found))
        return found
    _now.append((thread, call))
    known_calls.IN_C[0] = noting
    try:
        return function(*args, **kwargs), calls
    finally:
        known_calls.IN_C[0] = call
        _now.clear()


def _in_child() -> None:
    """A thread that was noting a call is not there in a forked process."""
    if _now and _now[0][0] != threading.get_ident():
        known_calls.IN_C[0] = _now.pop()[1]
        _noting.release()


forking.in_child(_in_child)


def _numbers(value: Any) -> list[Any]:
    """The numbers among arguments."""
    if isinstance(value, (tuple, list)):
        return [n for v in value for n in _numbers(v)]
    return [value] if isinstance(value, (bool, int, float)) else []


def _entry_of_operator(out: Any, calls: Sequence[OperatorCall], arrays: tuple[Any, ...],
                       numbers: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    """The entry (``function_call`` in C) that runs a call's operator; None unless the call made one operator call
    alone, with all of its arrays, and gave that one's result. out: the call's result; arrays, numbers: those among its
    arguments."""
    if len(calls) != 1 or not isinstance(out, NDArray) or len({*map(id, arrays)}) < len(arrays):
        return None
    (of, inputs, attrs, found), = calls
    places = tuple(next((i for i, x in enumerate(arrays) if x is given), _constant(given, numbers)) for given in inputs)
    unread = {*range(len(arrays))} - {p for p in places if isinstance(p, int)}
    if found is None or found._data is not out._data or unread or any(p is None for p in places):
        return None
    call = of.get(known_calls.key_of([x._data for x in inputs], attrs))
    if call is None or call.function is None or call.visible != 1:
        return None
    return call.function, places, None, type(out)


def _constant(x: Any, numbers: Sequence[Any]) -> np.ndarray | None:
    """A copy of the raw array of one element that the function made of one of the call's numbers: it is the same at
    each call of the kind. None for other values, which may have been computed of the arrays."""
    raw = x._data if isinstance(x, NDArray) else None
    if type(raw) is not np.ndarray or raw.size != 1 or raw.base is not None or not raw.flags.owndata:
        return None
    with contextlib.suppress(OverflowError, ValueError):
        if any(np.array(n).astype(raw.dtype).tobytes() == raw.tobytes() for n in numbers):
            return raw.copy()
    return None


def _entry_of_numpys(numpys: Callable[..., Any], out: Any, arrays: tuple[Any, ...], args: tuple[Any, ...],
                     kwargs: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The entry (``function_call`` in C) that runs NumPy's function; None unless the arrays are small and it gives the
    bits of ``out``, the call's result."""
    made = type(out) if isinstance(out, (tuple, list)) else None
    items = [x for x in (out if made is not None else (out,)) if type(x) not in NUMBERS]
    classes = {*map(type, items)}
    if sum(x.size for x in arrays) > SMALL or len(classes) > 1 or not classes <= {NDArray, *NP_CLASS}:
        return None
    if "out" in kwargs or any(np.may_share_memory(x._data, a._data) for x in items for a in arrays):
        return None                                      # the function wrote into an array, or gave one of its own
    entry = (numpys, None, made, type(items[0]) if items else NP_CLASS[0])
    again = launcher.part("function_key")(args, kwargs)      # None where another thread began to watch calls
    found = CALL[0]({again[0]: entry}, args, kwargs) if again is not None else None
    return entry if found is not None and _comparable(found) == _comparable(out) else None


def _comparable(found: Any) -> Any:
    """A result as a value that ``==`` compares: classes, dtypes, shapes and bits."""
    if isinstance(found, NDArray):
        raw = found.asnumpy()
        return type(found), raw.dtype, raw.shape, raw.tobytes()
    return type(found), [_comparable(x) for x in found] if isinstance(found, (tuple, list)) else found


def _begin() -> None:
    """The launcher is there: calls are done in C from now on."""
    launcher.part("functions_setup")(pending.WATCHED, CASTS, TIMERS)
    CALL[:] = [launcher.part("function_call")]


def _forget() -> None:
    """Forget all calls: an operator was registered, perhaps in place of another one."""
    for kinds in _known:
        kinds.clear()


known_calls.READY.append(_begin)
registry.CHANGED.append(_forget)
