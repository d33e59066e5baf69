"""Choice by measurement: where two forms of a kernel compete, each is compiled alone and timed on the real shapes,
once; the disk cache remembers the fastest (for the same library, compiler and processor).

``HYBRID_TUNE`` is how many seconds a process may spend (default 0.5). With 0 the form is chosen by rule, everywhere and
always. That form is also taken for small kernels, which cannot pay back their compilation, for what the seconds did not
reach, and unless another one is clearly faster. All forms compute the same up to rounding.

A process that compiles in the background defers the measurements until nobody waits for it any more (``deferred``): a
program's first process runs the forms of the rule, later ones those that were chosen.
"""
from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from hybrid.codegen.schedule.tiling import Alone

from ..base import config
from ..base.device import aligned_bytes
from ..base.errors import CompileError
from . import buffers, cache, plans, shared_objects
from .libraries import opened
from .net_ffi import ffi

LEAST_WORK = 1 << 24            # products of a kernel worth measuring: about a quarter of a millisecond
CLEARLY = 0.95                  # of the rule's time: what another form must stay below
SECONDS, ROUNDS = 0.02, 5       # of one form's measurement; turns it takes at least

_known: dict[str, tuple[str, str]] = {}
_spent = [0.0]
_deferred: list[list[str]] = []         # names of choices, by scope
Makers = Mapping[str, Callable[[], "Alone | None"]]


def choose(rule: str, what: str, forms: Makers, work: int) -> tuple[str, str]:
    """Which of some forms to take, and why ("" where the rule decides). rule: the form that is taken without a
    measurement. what: text that no other choice between these forms has. forms: how each is made, as a program of one
    kernel; None where it cannot be. work: its products.
    """
    if work < LEAST_WORK or not config.tune_seconds() or len(forms) < 2 or rule not in forms:
        return rule, ""
    around = plans.conditions()
    if around is None:
        return rule, ""
    name = cache.digest("choice 1", around, rule, " ".join(sorted(forms)), what)
    found = _known.get(name) or _read(name, forms)
    if found is None and _spent[0] < config.tune_seconds():
        if _deferred:
            _deferred[-1].append(name)
            return rule, ""
        found = _measured(rule, forms)
        if found is not None:
            _keep(name, found)
    if found is None:
        return rule, ""
    # of threads that measured at once all take the first one's choice
    return _known.setdefault(name, found)


@contextlib.contextmanager
def deferred() -> Iterator[list[str]]:
    """Scope in which nothing is measured: the rule decides what is not known. Yields the names of choices that would
    have been measured."""
    _deferred.append([])
    try:
        yield _deferred[-1]
    finally:
        _deferred.pop()


def names_deferred() -> list[str]:
    """The names of choices that were deferred in this scope so far."""
    return [*_deferred[-1]] if _deferred else []


def defer(names: list[str]) -> None:
    """Note that choices were deferred, by an earlier process."""
    if _deferred:
        _deferred[-1] += names


def _read(name: str, forms: Makers) -> tuple[str, str] | None:
    """What was chosen before, if the file is whole."""
    try:
        check, form, why = cache.read_text(cache.folder() / f"choice-{name}.txt").split("\n", 2)
    except (OSError, ValueError):
        return None
    return (form, why) if check == cache.digest(name, form, why) and form in forms else None


def _keep(name: str, found: tuple[str, str]) -> None:
    try:
        cache.write(cache.folder() / f"choice-{name}.txt", "\n".join((cache.digest(name, *found), *found)).encode())
    except OSError:
        pass                                                     # the next process measures again


def _measured(rule: str, forms: Makers) -> tuple[str, str] | None:
    """The fastest form; None where one of them does not compile."""
    begin = time.perf_counter()
    try:
        made = {form: a for form, make in forms.items() if (a := make()) is not None}
        built = [shared_objects.begin(a.source) for a in made.values()]             # beside each other
        libraries = [finish()[0] for finish in built]
        given: dict[tuple[int, int], np.ndarray] = {}
        calls = {form: _call(a, opened(path), given)
                 for (form, a), path in zip(made.items(), libraries)}
        seconds = _times(calls) if len(calls) > 1 else {rule: 0.0}
    except (CompileError, OSError):
        return None
    finally:
        _spent[0] += time.perf_counter() - begin
    best = min(seconds, key=lambda form: seconds[form])
    form = best if seconds[best] < CLEARLY * seconds[rule] else rule
    return form, "measured: " + ", ".join(f"{f} {s * 1e3:.3g} ms" for f, s in sorted(seconds.items()))


def _call(a: Alone, library: Any, given: dict[tuple[int, int], np.ndarray]) -> Callable[[], None]:
    """A call of the kernel by one thread: how it divides over several is the same question for all forms. given: memory
    of (argument, bytes), which the forms share."""
    arrays = []
    for k, (shape, dtype) in enumerate(a.arrays):
        size = buffers.size_of(shape, dtype)
        if (k, size) not in given:
            given[k, size] = aligned_bytes(size)
            given[k, size].view(dtype).fill(dtype.kind == "f")   # indices are 0
        arrays.append(given[k, size])
    arrays.append(aligned_bytes(a.arena))
    table = ffi.new("void *[]", [ffi.cast("void *", x.ctypes.data) for x in arrays])

    def call(kept: Any = arrays) -> None:
        library.net(table)
    return call


def _times(calls: Mapping[str, Callable[[], None]]) -> dict[str, float]:
    """Seconds of each form: the least of turns that all take one after another, so that what else the machine does
    counts less."""
    best = dict.fromkeys(calls, float("inf"))
    stop = time.perf_counter() + SECONDS * len(calls)
    turn = 0
    while turn <= ROUNDS or time.perf_counter() < stop:
        for form, call in calls.items():
            begin = time.perf_counter()
            call()
            if turn:                                             # the first reads everything into the caches
                best[form] = min(best[form], time.perf_counter() - begin)
        turn += 1
    return best
