"""Runs the programs of sanit_programs.py in this process, whose compiled code has sanitizers: started by
test_sanitized.py as ``python -c "from tests.codegen import sanit_worker; sanit_worker.main()" configuration``, with the
sanitizer's library preloaded.

Each array lies at the very end of a block of its own and begins one element off; values between kernels lie apart, and
what is between them is forbidden ground. Results are compared with float64. A line of JSON says how each program went.
"""
from __future__ import annotations

import ctypes
import json
import os
import pkgutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Iterator, Sequence

import numpy as np

import hybrid.codegen
from hybrid.base import dtype as dt
from hybrid.codegen.printers.products import epilogue
from hybrid.passes import layout, batch_in_lanes
from hybrid.passes.memory import MemoryPlan, Span, rounded
from hybrid.passes.pipeline import Planned
from hybrid.runtime import build, cpu, reference, toolchain
from hybrid.runtime.net_ffi import ffi

from . import sanit_programs

MEMORY = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")
RACES = ("-fsanitize=thread", "-g1")
# functions of vectors stay functions: the compiler has less to watch
CALLED = "-DHY_FN=static __attribute__((unused, noinline))"
SPACE = 64                                # bytes between values in the arena


@dataclass(frozen=True)
class Configuration:
    """A machine as the code generator sees it, and what watches the code."""
    vector: int                            # bytes of a vector
    machine: tuple[str, ...]               # flags
    sanitize: tuple[str, ...]
    sizes: tuple[int, ...]
    optimize: str = "-O0"
    threads: bool = False                  # every loop that may have threads has them
    fixed: tuple[str, ...] = ("packed", "pictures")   # groups of programs of one size


# Masked loads of AVX-512 are one instruction, which no sanitizer looks into: "masks" compiles the same text for a
# machine without them.
CONFIGURATIONS = {
    "avx512": Configuration(64, ("-march=native", "-fopenmp"), MEMORY, (17, 65), "-O1", threads=True,
                            fixed=("together",)),
    "masks": Configuration(64, ("-march=native", "-mno-avx512f", "-fopenmp"), MEMORY, (1, 3, 63),
                           fixed=tuple(sanit_programs.FIXED)),
    "avx2": Configuration(32, ("-mavx2", "-mfma", "-fopenmp"), MEMORY, (7, 31)),
    "plain": Configuration(16, ("-fopenmp",), MEMORY, (13,)),
    "races": Configuration(64, ("-march=native", "-fopenmp"), RACES, (17,), threads=True,
                           fixed=("packed", "pictures", "together")),
}


def prepare(c: Configuration) -> None:
    """Make the code generator and the compiler those of a configuration."""
    os.environ.pop("LD_PRELOAD", None)                   # the sanitizer is loaded here; the compiler runs without
    toolchain.FLAGS = (*(f for f in toolchain.FLAGS if f != "-O2"), c.optimize, CALLED, *c.sanitize)
    toolchain.machine_flags = lambda cc: c.machine           # type: ignore[assignment]
    toolchain.vector_bytes = lambda: c.vector
    layout.LEAST_WORK = batch_in_lanes.LEAST_WORK = epilogue.FAR = 1
    plan = build.plan
    build.plan = lambda *args: apart(plan(*args))
    if c.threads:
        for found in pkgutil.walk_packages(hybrid.codegen.__path__, "hybrid.codegen."):
            module = import_module(found.name)
            if hasattr(module, "PARALLEL_WORK"):
                module.PARALLEL_WORK = 1                     # type: ignore[attr-defined]


def apart(planned: Planned) -> Planned:
    """Values in the arena at places of their own, but for those that are written over others."""
    memory, at = planned.memory, 0
    for n in memory.offsets:
        if n in memory.in_place:
            memory.offsets[n] = memory.offsets[memory.in_place[n]]
        else:
            memory.offsets[n] = at
            at += rounded(n.nbytes) + SPACE
    memory.arena = memory.whole = at
    memory.spans = [Span(at, 0, len(planned.groups))]          # working memory comes after all of them
    return planned


def block(like: np.ndarray) -> np.ndarray:
    """Memory for an array: of numbers that are none, at the end of its block, one element off."""
    raw = np.full(like.nbytes + like.dtype.itemsize, 0xff, np.uint8)
    return raw[like.dtype.itemsize:].view(like.dtype).reshape(like.shape)


def copied(a: np.ndarray) -> np.ndarray:
    """A copy in such memory."""
    out = block(a)
    out[...] = a
    return out


def forbid(address: int, nbytes: int) -> None:
    """Reading or writing there is an error from now on, where the sanitizer of addresses is here."""
    function = getattr(ctypes.CDLL(None), "__asan_poison_memory_region", None) if nbytes > 0 else None
    if function is not None:
        function(ctypes.c_void_p(address), ctypes.c_size_t(nbytes))


def allow(a: np.ndarray) -> None:
    """The opposite, before memory is given back."""
    function = getattr(ctypes.CDLL(None), "__asan_unpoison_memory_region", None)
    if function is not None:
        function(ctypes.c_void_p(a.ctypes.data), ctypes.c_size_t(a.nbytes))


def arena(exe: cpu.CpuProgram, planned: Planned | None) -> tuple[np.ndarray, int]:
    """A block with the program's arena in it, and where that begins. Between its values nothing may be touched."""
    raw = np.full(exe._arena_bytes + 128, 0xff, np.uint8)
    start = -(-raw.ctypes.data // 64) * 64
    memory = planned.memory if planned is not None else MemoryPlan()
    for n, at in memory.offsets.items():
        if n not in memory.in_place:
            forbid(start + at + n.nbytes, rounded(n.nbytes) + SPACE - n.nbytes)
    forbid(start + exe._arena_bytes, raw.ctypes.data + raw.nbytes - start - exe._arena_bytes)
    return raw, start


def run(exe: cpu.CpuProgram, arrays: Sequence[np.ndarray],
        planned: Planned | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Outputs and the inputs' new values."""
    given = [copied(a) for a in arrays]
    prepared = [copied(a) for a in run(exe.prepare,
                                       [given[s] for s in exe.slots])[0]] if exe.prepare is not None else []
    fresh = [block(np.empty(shape, dtype)) for shape, dtype in exe._new]
    slots = [*given, *prepared, *exe._constants, *fresh]
    memory, start = arena(exe, planned)
    exe._net(ffi.new("void *[]", [ffi.cast("void *", a) for a in (*(s.ctypes.data for s in slots), start)]))
    allow(memory)
    return results(exe, slots)


def results(exe: cpu.CpuProgram, slots: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Outputs and the inputs' new values, from what is in a program's slots after it ran."""
    new = {slot: slots[i].reshape(shape) for slot, i, shape in exe._updates}
    new.update({slot: slots[slot] for slot in exe._written})
    return [slots[i].reshape(shape) for i, shape in exe._results], [new[slot] for slot in sorted(new)]


def difference(got: Sequence[np.ndarray], want: Sequence[Any], tol: float) -> str:
    """What is wrong, or nothing. Numbers may be off by ``tol`` of the largest one of their array."""
    for k, (a, b) in enumerate(zip(got, map(np.asarray, want), strict=True)):
        if a.shape != b.shape:
            return f"result {k}: shape {a.shape}, not {b.shape}"
        if not dt.is_float(a.dtype):
            if not np.array_equal(a, b):
                return f"result {k}: {np.count_nonzero(a != b)} of {a.size} differ"
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(y)
        if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
            return f"result {k}: NaN or infinity at other places"
        off = np.abs(x - y)[finite].max(initial=0) / max(np.abs(y[finite]).max(initial=0), 1e-30)
        if not off <= tol:
            return f"result {k} {a.dtype}{a.shape}: off by {off:.2g}, more than {tol:g}"
    return ""


def expected(case: sanit_programs.Case) -> tuple[Sequence[Any], Sequence[Any]]:
    """Results of the reference, in float64 where the program is of float32."""
    p, arrays = case
    wide = sanit_programs.widened(p)
    if wide is None:
        return reference.run(p, [a.copy() for a in arrays], np)
    return reference.run(wide, [a.astype(np.float64) if a.dtype == np.float32 else a.copy() for a in arrays], np)


def wrong(case: sanit_programs.Case, outputs: Sequence[np.ndarray], updates: Sequence[np.ndarray], tol: float) -> str:
    """What is wrong with the results of a program and the new values of its inputs, or nothing."""
    want = expected(case)
    new = {slot: value for (slot, _), value in zip(case[0].updates, want[1])}
    return difference(outputs, want[0], tol) or difference(updates, [new[slot] for slot in sorted(new)], tol)


def cases(c: Configuration) -> Iterator[tuple[str, sanit_programs.Case, float]]:
    yield from sanit_programs.sized(c.sizes)
    for group in c.fixed:
        yield from sanit_programs.FIXED[group]()


def compiled(p: Any) -> tuple[cpu.CpuProgram, Planned]:
    """The program, as the runtime compiles it, and its plan."""
    planned = build.planned(p, p.memo.get("frozen", frozenset()))
    return cpu.CpuProgram(planned), planned


def main() -> None:
    """Everything of the configuration that is named in the arguments."""
    c = CONFIGURATIONS[sys.argv[1]]
    prepare(c)
    with ThreadPoolExecutor(2) as pool:
        jobs = [(name, case, tol, pool.submit(compiled, case[0])) for name, case, tol in cases(c)]
        for name, case, tol, job in jobs:
            try:
                exe, planned = job.result()
            except Exception as err:                              # said, and the others go on
                print(json.dumps({"name": name, "wrong": f"{type(err).__name__}: {err}"}), flush=True)
                continue
            print(json.dumps({"name": name, "source": exe.report.source_path}), flush=True)
            outputs, updates = run(exe, case[1], planned)
            print(json.dumps({"name": name, "wrong": wrong(case, outputs, updates, tol)}), flush=True)
    print(json.dumps({"name": "end", "wrong": ""}), flush=True)


def networks() -> None:
    """Small networks as users have them: training, inference, several threads of Python, arrays that are dropped
    meanwhile."""
    prepare(CONFIGURATIONS[sys.argv[1]])
    from . import sanit_networks  # noqa: PLC0415  after the code generator is that of the configuration
    for function in sanit_networks.ALL:
        function()
    print("ended", flush=True)
