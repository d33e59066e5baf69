"""As a plugin of pytest (``-p tests.cuda.ptx_beside``): what tests run in the emulator, the PTX interpreter runs too.

Each kernel, once, on the arrays and with the grid of the first launches that are small enough; both must leave the same
in memory. The list at the end says how many kernels there were, how many of them the interpreter knows, and why not the
others.
"""
from __future__ import annotations

import math
import os
import re
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from hybrid.base.errors import CompileError
from hybrid.runtime.cuda import emulator, watch
from hybrid.runtime.cuda.interface import Launch

from . import watch_record as record
from .ptx import Memory
from .ptx_floats import COARSER
from .ptx_text import Entry, PtxError, TooLong, arch_of, compile_ptx, parse
from .watch_record import pytest_runtest_setup  # noqa: F401  a hook

MOST = int(os.environ.get("HYBRID_PTX_STEPS", "200000"))   # instructions of a launch, each of some microseconds
TRIES, BYTES = 2, 1 << 26
_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([\d, ]+\) )?(\w+)\(([^)]*)\)')
# by type in the text: the type, and how far two values may be apart of what is largest
TYPES: dict[str, tuple[Any, float]] = {
    "float": (np.float32, 2e-5), "hy_half": (np.float16, 4e-3), "hy_bf16": (ml_dtypes.bfloat16, 3e-2),
    "double": (np.float64, 1e-12), "__half": (np.float16, 4e-3)}
WHOLE = {"int", "unsigned", "long", "short", "char"}
outcomes: dict[str, str] = {}                              # by kernel: "agrees", or why it does not count
names: dict[str, str] = {}                                 # by kernel: what a test called it
tries: Counter[str] = Counter()
entries: dict[str, Entry | str] = {}
arrays: dict[int, weakref.ref[Any]] = {}                   # where the arrays are that were made known lately


def root(array: np.ndarray) -> np.ndarray:
    """The array whose memory a view shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def remember(array: Any) -> None:
    """An array that launches use; it lives no longer for that. Those it lies across are gone."""
    whole = root(array)
    begin, end = whole.ctypes.data, whole.ctypes.data + whole.nbytes
    for at, known in list(arrays.items()):
        a = known()
        if a is None or (at < end and begin < at + a.nbytes):
            del arrays[at]
    arrays[begin] = weakref.ref(whole)


def roots_of(pointers: Sequence[int]) -> dict[int, Any] | None:
    """By address: the arrays in which pointers lie; None where one lies in none of them."""
    alive = {at: a for at, known in arrays.items() if (a := known()) is not None}
    found = [[at for at, a in alive.items() if at <= p <= at + a.nbytes] for p in pointers]
    return {at: alive[at] for some in found for at in some} if all(found) else None


def texts(source: str) -> dict[str, str]:
    """By kernel: the text of it alone, with the functions that stand before it."""
    head, *parts = re.split(r'(?=extern "C" __global__)', source)
    out = {}
    for part in parts:
        m, (kernel, end, more) = _KERNEL.match(part), part.partition("\n}\n")
        if m:
            out[m[1]] = head + re.sub(rf"\b{m[1]}\b", "kernel", kernel + end)
        head += more
    return out


def compile_all(source: str, known: dict[str, str]) -> None:
    """The instructions of the new kernels of a module, compiled together: most of the time is the headers'."""
    new = {name: text for name, text in known.items() if text not in entries and key_of(text) not in record.known}
    for arch in {arch_of(text) for text in new.values()}:
        names = {name for name, text in new.items() if arch_of(text) == arch}
        head, *parts = re.split(r'(?=extern "C" __global__)', source)
        for part in parts:
            m = _KERNEL.match(part)
            head += part if not m or m[1] in names else part.partition("\n}\n")[2]
        if len(names) > 1:
            with suppress(CompileError):
                entries.update({new[name]: e for name, e in parse(compile_ptx(head)).items() if name in names})


def entry_of(text: str) -> Entry | str:
    """A kernel's instructions; why there are none."""
    if text not in entries:
        try:
            entries[text] = next(iter(parse(compile_ptx(text)).values()))
        except CompileError as err:
            entries[text] = f"does not compile: {str(err).splitlines()[-1][:60]}"
    return entries[text]


def largest(given: Iterable[np.ndarray]) -> dict[Any, float]:
    """By type of float, the largest number of some arrays."""
    out: dict[Any, float] = {}
    for a in given:
        if a.dtype in [kind for kind, _ in TYPES.values()]:
            with np.errstate(invalid="ignore"):
                numbers = np.abs(a.astype(np.float64))
            out[a.dtype] = max(out.get(a.dtype, 0), float(numbers[np.isfinite(numbers)].max(initial=0)))
    return out


def held(a: np.ndarray, types: set[str]) -> set[str]:
    """Of the types of a text, those whose numbers an array may hold: its own if that is a float's, so that none is a
    whole number; else all."""
    own = {t for t in types if t in TYPES and TYPES[t][0] == a.dtype}
    return own or types


def differ(got: np.ndarray, expected: np.ndarray, types: set[str],
           most_of: Mapping[Any, float] = MappingProxyType({}), rounded: np.ndarray | None = None) -> str:
    """What is different in bytes that hold numbers of one of the types, or an empty text. Whole numbers are those of
    which a float's exponent would be 0. ``most_of``: the largest numbers of what a launch reads and writes; a result
    that is nothing but what rounding left of them may be another. ``rounded``: for each
    byte, to which of COARSER its number was rounded on the way: it is as near as those are, whatever it is now."""
    if (got == expected).all():
        return ""
    wrong = "bytes"
    for dtype, tolerance in (TYPES[t] for t in types if t in TYPES):
        size = np.dtype(dtype).itemsize
        n = len(got) // size * size
        a, b = (x[:n].view(dtype).astype(np.float64) for x in (got, expected))
        at = np.flatnonzero(got[:n].view(f"u{size}") != expected[:n].view(f"u{size}"))
        x, y, most = a[at], b[at], np.abs(b[np.isfinite(b)]).max(initial=0)
        whole = np.maximum(np.abs(x), np.abs(y)) < (ml_dtypes.finfo(dtype).tiny if types & WHOLE else 0)
        own = max(tolerance * most, 2 * float(ml_dtypes.finfo(dtype).eps) * most_of.get(np.dtype(dtype), 0))
        levels = np.zeros(len(at), np.uint8) if rounded is None else rounded[:n:size][at]
        room = np.array([max(own, TYPES[t][1] * most if i else 0) for i, t in enumerate(COARSER)])[levels]
        with np.errstate(invalid="ignore"):
            near = (np.abs(x - y) <= room) & ~whole | (x == y) | (np.isnan(x) & np.isnan(y))
        if near.all():
            return ""
        wrong = f"{np.dtype(dtype).name} {x[~near][:3]}, not {y[~near][:3]}, at {at[~near][:3]} of {n // size}"
    return wrong


def interpret(text: str, launch: Launch, pointers: Sequence[int]) -> tuple[str, Memory | None]:
    """What the interpreter leaves in memory; why there is nothing."""
    entry = entry_of(text)
    if isinstance(entry, str):
        return entry, None
    roots = roots_of(pointers)
    if roots is None:
        return "an array is not known", None
    if sum(a.nbytes for a in roots.values()) > BYTES:
        return "too long", None
    if math.prod(launch.grid) * math.prod(launch.block) > MOST:            # not even an instruction a thread
        return "too long", None
    try:
        memory = Memory(roots)
        memory.launch(entry, launch, pointers, MOST)
    except TooLong:
        return "too long", None
    except PtxError as err:
        return str(err)[:70], None
    return "", memory


def key_of(text: str) -> str:
    """A name of a kernel that agrees."""
    return record.key_of("ptx*.py", text)


def beside(plan: Any, i: int, pointers: Sequence[int], run: Any) -> None:
    """Run a launch in both, and compare."""
    launch, known = plan._launches[i], plan._module.texts
    text = known.get(launch.kernel, "")
    if record.on_purpose or not text or outcomes.get(text) == "agrees" or tries[text] >= TRIES:
        return run()
    tries[text] += 1
    names[text] = launch.kernel
    if key_of(text) in record.known:
        outcomes[text] = "agrees"
        return run()
    compile_all(plan._module.source, known)
    why, memory = interpret(text, launch, [pointers[a] for a in launch.args])
    run()
    if memory is None:
        outcomes[text] = why
        return None
    types, most_of = set(re.findall(r"\b(\w+) ?\*", text)), largest(a for _, a in memory.arrays)
    for start, (_, a) in zip(memory.starts, memory.arrays):
        got, rounded = (of[start:start + a.nbytes] for of in (memory.bytes, memory.rounded))
        what = differ(got, a.reshape(-1).view(np.uint8), held(a, types), most_of, rounded)
        if what:
            outcomes[text] = f"differs: {what}"
            raise AssertionError(f"the interpreter of PTX and the emulator differ in kernel {launch.kernel}: {what}; "
                                 f"{plan._module.source_path}")
    outcomes[text] = "agrees"
    record.note(key_of(text))
    return None


def pytest_sessionstart() -> None:
    """From here on both run what tests launch."""
    record.read()
    init, point = emulator.EmulatorModule.__init__, emulator.EmulatorDriver.pointer

    def prepare(self: Any, source: str, kernels: Sequence[str], *more: Any, **named: Any) -> None:
        init(self, source, kernels, *more, **named)
        self.source, self.texts = source, texts(source)

    def pointer(self: Any, array: Any) -> int:
        remember(array)
        return point(self, array)

    def run_all(self: Any, pointers: Sequence[int], table: Any, options: Any) -> None:
        watcher = self._module.watcher
        with watch.one:
            for i, launch in enumerate(self._launches):
                def one(i: int = i) -> None:
                    if watcher is not None:
                        self._watch_one(watcher, i, table, options)
                    elif self._module.library.emu_run(self._native + i, 1, self._index, table, options):
                        raise self._error(i)
                if watcher is not None:
                    watch.begin(watcher, [pointers[a] for a in launch.args], i == 0)
                beside(self, i, pointers, one)
    emulator.EmulatorModule.__init__ = prepare             # type: ignore[method-assign]
    emulator.EmulatorDriver.pointer = pointer              # type: ignore[method-assign]
    emulator.EmulatorPlan._run_all = run_all               # type: ignore[method-assign]


def pytest_sessionfinish(session: Any) -> None:
    """A worker of xdist hands over what it compared."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["ptx"] = [outcomes, names]


def pytest_testnodedown(node: Any) -> None:
    """What a worker compared; a kernel that agrees with one of them agrees."""
    some, called = getattr(node, "workeroutput", {}).get("ptx", [{}, {}])
    outcomes.update({text: why for text, why in some.items() if outcomes.get(text) != "agrees"})
    names.update(called)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many kernels were compared, and which were not and why."""
    kinds: dict[str, list[str]] = {}
    for text, why in outcomes.items():
        kind = "differs" if why.startswith("differs") else re.sub(r"[%$]\S+|\b[\d.]+(e-\d+)?\b", "..", why)
        kinds.setdefault(kind, []).append(names.get(text, "?"))
    agree = len(kinds.pop("agrees", []))
    terminalreporter.write_line(f"PTX: {len(outcomes)} kernels, {agree} of them agree with the emulator")
    for why, kernels in sorted(kinds.items(), key=lambda k: -len(k[1])):
        some = ", ".join(f"{n} {name}" for name, n in Counter(kernels).most_common())
        terminalreporter.write_line(f"PTX: {len(kernels)} kernels: {why}: {some}")
