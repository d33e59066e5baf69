"""Choice by measurement: where two forms of a kernel compete, each is compiled alone and timed on the real shapes, once; the disk
cache remembers the fastest (for the same library, compiler and processor).

``HYBRID_TUNE=0`` takes the form that is chosen by rule, everywhere and always. That form is also taken for small kernels, which
cannot pay back their compilation, unless another one is clearly faster, and when the process has spent ``BUDGET`` seconds.
All forms compute the same up to rounding.
"""
from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Mapping

import numpy as np

from .. import config
from ..errors import CompileError
from ..ir import Program
from ..passes.pipeline import plan
from . import cache, plans
from .cpu import CpuProgram

LEAST_WORK = 1 << 24            # products of a kernel worth measuring: about a quarter of a millisecond
BUDGET = 0.5                    # seconds that a process may spend; what it does not reach is chosen by rule
CLEARLY = 0.95                  # of the rule's time: what another form must stay below
SECONDS, ROUNDS = 0.02, 5       # of one form's measurement; turns it takes at least

_known: dict[str, tuple[str, str]] = {}
_spent = [0.0]


def choose(rule: str, candidates: Mapping[str, Program], work: int) -> tuple[str, str]:
    """Which of some forms to take, and why ("" where the rule decides). rule: the form that is taken without a measurement.
    candidates: for each form, a program of one kernel. work: its products.
    """
    if work < LEAST_WORK or not config.tune() or len(candidates) < 2:
        return rule, ""
    name = _name(rule, candidates)
    if name is None:
        return rule, ""
    found = _known.get(name) or _read(name, candidates)
    if found is None and _spent[0] < BUDGET:
        found = _measured(rule, candidates)
        if found is not None:
            _keep(name, found)
    if found is None:
        return rule, ""
    return _known.setdefault(name, found)                        # of threads that measured at once all take the first one's choice


def _name(rule: str, candidates: Mapping[str, Program]) -> str | None:
    """What the choice depends on; None where that cannot be told."""
    around = plans.surroundings()
    if around is None:
        return None
    return cache.digest("choice 1", around, rule, *(f"{form} {plans.program_text(p)}" for form, p in sorted(candidates.items())))


def _read(name: str, candidates: Mapping[str, Program]) -> tuple[str, str] | None:
    """What was chosen before, if the file is whole."""
    try:
        check, form, why = (cache.folder() / f"choice-{name}.txt").read_text("utf-8").split("\n", 2)
    except (OSError, ValueError):
        return None
    return (form, why) if check == cache.digest(name, form, why) and form in candidates else None


def _keep(name: str, found: tuple[str, str]) -> None:
    try:
        cache.write(cache.folder() / f"choice-{name}.txt", "\n".join((cache.digest(name, *found), *found)).encode())
    except OSError:
        pass                                                     # the next process measures again


def _measured(rule: str, candidates: Mapping[str, Program]) -> tuple[str, str] | None:
    """The fastest form; None where one of them does not compile."""
    begin = time.perf_counter()
    try:
        with ThreadPoolExecutor(2) as pool:
            made = dict(zip(candidates, pool.map(_compiled, candidates.values())))
        seconds = _times({form: (exe, _arrays(candidates[form])) for form, exe in made.items()})
    except CompileError:
        return None
    finally:
        _spent[0] += time.perf_counter() - begin
    best = min(seconds, key=lambda form: seconds[form])
    form = best if seconds[best] < CLEARLY * seconds[rule] else rule
    return form, "measured: " + ", ".join(f"{f} {s * 1e3:.3g} ms" for f, s in sorted(seconds.items()))


def _compiled(program: Program) -> CpuProgram:
    """A program for one thread: how it divides over several is the same question for all forms."""
    before, config.LIMIT.threads = config.LIMIT.threads, 1
    try:
        return CpuProgram(plan(program))
    finally:
        config.LIMIT.threads = before


def _arrays(program: Program) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(n.shape, np.float32).astype(n.dtype) for n in program.inputs]


def _times(made: Mapping[str, tuple[CpuProgram, list[np.ndarray]]]) -> dict[str, float]:
    """Seconds of each form: the least of turns that all take one after another, so that what else the machine does counts less."""
    best = dict.fromkeys(made, float("inf"))
    stop = time.perf_counter() + SECONDS * len(made)
    turn = 0
    while turn <= ROUNDS or time.perf_counter() < stop:
        for form, (exe, arrays) in made.items():
            begin = time.perf_counter()
            exe(arrays)
            if turn:                                             # the first reads everything into the caches
                best[form] = min(best[form], time.perf_counter() - begin)
        turn += 1
    return best
