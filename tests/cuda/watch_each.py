"""As a plugin of pytest (``-p tests.cuda.watch_each``, with HYBRID_EMU_WATCH=traffic): every kernel that tests launch
is watched, at the first launch of its text with a grid, in three orders of threads.

One is the test's own, one runs blocks interleaved; all must leave the same in memory. Other launches are not watched,
and modules of which each launch was watched before are compiled without the watcher. Kernels found right, with no hot
conflict of banks, are noted (``watch_record``), and not looked at again while they, the watcher and the emulator are
the same.
"""
from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from hybrid.runtime.cuda import emulator, watch
from hybrid.runtime.cuda.interface import checked

from . import cuda_tools, watch_record as record, watch_summary
from .ptx_beside import differ, held, largest, remember, roots_of, texts
from .watch_record import pytest_runtest_setup  # noqa: F401  a hook

# order of threads, seed, blocks that take turns
ORDERS = ((0, 1, 1), (1, 1, 1), (2, 3, 3))
SLOW, LONG = 0.5, 10.0                                     # seconds of launches watched, and run, in one order alone
counts: Counter[str] = Counter()
alone: set[str] = set()                                    # launches that ran in one order, and why


def key_of(text: str, launch: Any = None) -> str:
    """A name of a kernel, or of a launch of it."""
    return record.key_of("watch_*.py", text, launch)


class Contents:
    """What lies in those of a launch's arrays that may change."""

    def __init__(self, arrays: dict[int, np.ndarray]):
        self.arrays = list(arrays.values())
        self.written = [a for a in self.arrays if a.size and a.flags.writeable]
        self.places = [a.reshape(-1, order="A").view(np.uint8) for a in self.written]
        self.copies = [a.copy() for a in self.places]

    def restore(self) -> None:
        """Put it back."""
        for a, copy in zip(self.places, self.copies):
            a[:] = copy

    def differ(self, types: set[str]) -> str:
        """What is different now, or an empty text."""
        if all(np.array_equal(a, copy) for a, copy in zip(self.places, self.copies)):
            return ""
        most = largest(self.arrays)
        return next((w for a, place, copy in zip(self.written, self.places, self.copies)
                     if (w := differ(place, copy, held(a, types), most))), "")


def in_all_orders(run: Any, options: Any, pointers: Sequence[int], watcher: Any, text: str) -> str:
    """Run a launch as its test wants it, then in the other orders: what is different, or an empty text. Memory is as
    the first run leaves it. The other orders are watched for races alone, and not where that takes long."""
    arrays = roots_of(pointers)
    before = Contents(arrays or {})
    begin = time.process_time()
    run()
    took = time.process_time() - begin
    if arrays is None or took > LONG:
        alone.add(f"{'an array is not known' if arrays is None else 'takes long'}: {text[:60]}")
        return ""
    after, own = Contents(arrays), (options.order, options.seed, options.resident)
    types = set(re.findall(r"\b(\w+) ?\*", text))
    for order in ORDERS:
        if order[0] == own[0] and order[2] == own[2]:
            continue
        before.restore()
        options.order, options.seed, options.resident = (*order[:2], max(order[2], own[2]))     # they may wait
        with asleep(watcher) if took > SLOW else races(watcher, pointers):
            run()
        counts["runs in other orders" + ", unwatched" * (took > SLOW)] += 1
        wrong = after.differ(types)
        if wrong:
            return f"order {order}: {wrong}"
    after.restore()
    options.order, options.seed, options.resident = own
    return ""


@contextmanager
def races(watcher: Any, pointers: Sequence[int]) -> Iterator[None]:
    """The next launch is watched for races, and not counted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYBRID_EMU_WATCH", "races")
        watch.begin(watcher, pointers, False)
    yield


@contextmanager
def asleep(watcher: Any) -> Iterator[None]:
    """Launches are not watched."""
    watcher.emu_watch_sleep(1)
    try:
        yield
    finally:
        watcher.emu_watch_sleep(0)


def pytest_sessionstart() -> None:
    """From here on launches are watched once. Tests run programs in one order, as each launch is run in the others."""
    record.read()
    cuda_tools.THREE = cuda_tools.THREE[:1]
    init, watch_one = emulator.EmulatorModule.__init__, emulator.EmulatorPlan._watch_one
    point, plan = emulator.EmulatorDriver.pointer, emulator.EmulatorModule.plan

    def prepare(self: Any, source: str, kernels: Sequence[str], *more: Any, **named: Any) -> None:
        found = {k: text for k, text in texts(source).items() if k in kernels}
        known = (not record.on_purpose and len(found) == len(kernels)
                 and all(key_of(text) in record.known for text in found.values()))
        with pytest.MonkeyPatch.context() as patch:
            if known:
                patch.delenv("HYBRID_EMU_WATCH", raising=False)
            init(self, source, kernels, *more, **named)
        self.source, self.texts = source, found
        self.watch_now = lambda: init(self, source, kernels, *more, **named)
        counts[f"modules {'known before' if known else 'watched'}"] += bool(watch.mode())

    def plan_watched(self: Any, launches: Sequence[Sequence[Any]]) -> Any:
        some = checked(launches, self.kernels)
        if watch.mode() and self.watcher is None and any(key_of(self.texts.get(launch.kernel, ""), launch)
                                                         not in record.known for launch in some):
            self.watch_now()                               # its kernels were watched with other grids
            counts["modules watched for other grids"] += 1
        return plan(self, launches)

    def pointer(self: Any, array: Any) -> int:
        remember(array)
        return point(self, array)
    emulator.EmulatorModule.__init__ = prepare             # type: ignore[method-assign]
    emulator.EmulatorModule.plan = plan_watched            # type: ignore[method-assign]
    emulator.EmulatorDriver.pointer = pointer              # type: ignore[method-assign]
    emulator.EmulatorPlan._watch_one = _once(watch_one)    # type: ignore[method-assign]


def _once(watch_one: Any) -> Any:
    """A launch that is watched where that was not done before."""
    def once(self: Any, watcher: Any, i: int, table: Any, options: Any) -> None:
        if record.on_purpose:
            return watch_one(self, watcher, i, table, options)
        launch = self._launches[i]
        text = self._module.texts.get(launch.kernel, launch.kernel + self._module.source)
        key = key_of(text, launch)
        if key in record.known:
            with asleep(watcher):
                return watch_one(self, watcher, i, table, options)
        pointers = [int(emulator.ffi.cast("uintptr_t", table[a])) for a in launch.args]
        wrong = in_all_orders(lambda: watch_one(self, watcher, i, table, options), options, pointers, watcher,
                              text[text.find('extern "C"'):])
        if wrong:
            raise self._error(i, wrong + ".")
        counts["launches watched"] += 1
        counts["kernels watched"] += key_of(text) not in record.known
        if not watch_summary.hot(self._module.source_path, launch.kernel):
            record.note(key_of(text), key)
        return None
    return once


def pytest_sessionfinish(session: Any) -> None:
    """A worker of xdist hands over what it counted."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["watched"] = [dict(counts), sorted(alone)]


def pytest_testnodedown(node: Any) -> None:
    """What a worker counted."""
    some, single = getattr(node, "workeroutput", {}).get("watched", [{}, []])
    counts.update(some)
    alone.update(single)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How much was watched, and what in one order alone."""
    terminalreporter.write_line("watched: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    for text in sorted(alone):
        terminalreporter.write_line(f"watched in one order: {text}")
