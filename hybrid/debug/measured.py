"""Compiled programs of one call, with times of their kernels on real runs, and what the machine can do."""
from __future__ import annotations

import functools
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import runtime
from ..base import config, rng
from ..base.scope import SCOPE
from ..ir import Node, Program, dot, full, reduce
from ..ir import input as leaf
from ..ir import map as map_
from ..runtime.report import KernelReport, Report
from ..runtime.timed import Took, timed
from .recorded_call import Call, context_of, recorded

CACHED = 1.05                            # x memory bandwidth: a kernel faster than this reads from caches
RUNS = 7                                 # of each program at least, of which each kernel's quickest counts
SECONDS = 0.1                            # more runs are made within so long


@dataclass
class Ceiling:
    """What this machine does at best: bytes a second between memory and registers, products a second."""
    bytes: float
    products: float

    def share(self, k: KernelReport, seconds: float) -> tuple[float, str]:
        """The share of its bound that a kernel reaches, and the bound: "memory" or "products" (also if data is in
        caches)."""
        by_bytes, by_products = k.moved_bytes / self.bytes, k.products / self.products
        if by_products > by_bytes or by_products and by_bytes > CACHED * seconds:
            return (by_products / seconds if seconds else 0.0), "products"
        return (by_bytes / seconds if seconds else 0.0), "memory"


@dataclass
class Measured:
    """A program of a call. seconds: of each kernel of the report, 0 where they cannot be timed."""
    name: str
    report: Report
    seconds: list[float]
    eager: list[int] = field(default_factory=list)        # bytes that are alive eagerly behind each operation


@functools.lru_cache(4)
def ceiling(threads: int) -> Ceiling:
    """Measured by two programs of this library: a sum of an array that no cache holds, and a product of matrices."""
    def best(program: Program, arrays: list[Any], runs: int) -> float:
        with config.at_once():
            exe, times = runtime.compile(program, context_of(arrays)), []
        for _ in range(runs):
            begin = time.perf_counter()
            exe(arrays)
            times.append(time.perf_counter() - begin)
        return min(times[1:])
    n, m = 1 << 25, 384
    v = leaf(0, (n,), np.float32)
    taken = best(Program((v,), (reduce("sum", map_("mul", v, full(2, (n,), np.float32)), (0,)),)),
                 [np.ones(n, np.float32)], 6)
    a, b = (leaf(i, (m, m), np.float32) for i in range(2))
    made = best(Program((a, b), (dot(a, b, ((1,), (0,))),)), [np.ones((m, m), np.float32)] * 2, 60)
    return Ceiling(4 * n / taken, m ** 3 / made)


def measured(call: Call) -> Measured:
    """Run a program of a call some times, on copies of its arrays."""
    program = call.program
    with config.at_once():
        exe: Any = runtime.compile(program, context_of(call.given))
    form, took = timed(exe), list[list[float]]()
    while form is not None and (len(took) < RUNS or sum(map(sum, took)) < SECONDS and len(took) < 20 * RUNS):
        found: list[Took] = []
        form.timed([x.copy() for x in call.given], found)
        took.append([t.seconds for t in found])
    seconds = quickest(took)
    report = exe.report
    return Measured(program.memo.get("name") or "a program", report, seconds or [0.0] * len(report.kernels),
                    _eager_bytes(program))


def quickest(runs: list[list[float]]) -> list[float]:
    """Of each kernel the least seconds of some runs: work of other programs lengthens some kernels of every run."""
    return [min(times) for times in zip(*runs)]


# operations whose eager result lies in the memory of what they read
VIEWS = frozenset("reshape expand permute slice window detach with_grad".split())


def _eager_bytes(program: Program) -> list[int]:
    """Bytes of intermediate values and results that are alive behind each operation, where each stores its result."""
    order = [n for n in program.order() if n.args]
    owner: dict[Node, Node] = {}                          # what a value's numbers lie in
    last: dict[Node, int] = {}                            # when an owner's memory is read last
    for i, n in enumerate(order):
        owner[n] = owner.get(n.args[0], n.args[0]) if n.prim in VIEWS else n
        last.update((owner.get(a, a), i) for a in (*n.args, n))
    last.update((owner.get(r, r), len(order)) for r in program.roots)
    alive, out = 0, []
    ends: dict[int, int] = {}
    for i, n in enumerate(order):
        size = n.nbytes if owner[n] is n else 0
        alive += size
        if size:
            ends[last[n]] = ends.get(last[n], 0) + size
        out.append(alive)
        alive -= ends.pop(i, 0)
    return out


def seconds_of(f: Any, args: Any, kwargs: Any) -> float:
    """The time of a whole call from Python, the best of some. The random state stays as it is."""
    state, times = rng.get_state(), []
    for _ in range(4 * RUNS):
        begin = time.perf_counter()
        f(*args, **kwargs)
        times.append(time.perf_counter() - begin)
    rng.set_state(state)
    return min(times)


def calls_of(f: Any, args: Any, kwargs: Any) -> tuple[list[Call], bool]:
    """The calls of programs in one call of a function, which changes neither arrays nor the random state; and whether
    the call may be made again unnoticed: it updated no array, assigned to no object, printed nothing, ran no hook."""
    state, effects = rng.get_state(), SCOPE.effects
    with recorded() as calls:
        f(*args, **kwargs)
    for call in reversed(calls):
        call.undo()
    rng.set_state(state)
    return calls, SCOPE.effects == effects and not any(c.program.updates for c in calls)


def machine() -> Ceiling:
    """The ceiling for as many threads as programs may use."""
    return ceiling(config.num_threads())
