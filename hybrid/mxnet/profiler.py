"""MXNet's ``profiler``: times of eager operators, of compiled programs and each of their kernels, of tasks, frames,
events, counters and markers, as a table or a file for https://ui.perfetto.dev and chrome://tracing.

While the profiler runs, a compiled program on the CPU runs as a form of it that times its kernels, compiled at its
first call; what its kernels compute, and for which lines of the user's, is in ``net.report()`` and in the file.
"""
from __future__ import annotations

import json
import os
import threading
import time
from contextlib import contextmanager
from typing import Any, Iterator

from ..autograd import custom, dispatch
from ..runtime.observers import observe
from ..runtime.timed import Took, timed
from ..base.errors import AttributeValueError
from ..base.atomic import write_bytes

_OPTIONS = {"profile_all", "profile_symbolic", "profile_imperative", "profile_memory", "profile_api", "contiguous_pid",
            "filename", "continuous_dump",
            "dump_period", "aggregate_stats", "profile_process", "profile_python"}
_SORTS = {"total": 1, "avg": 4, "min": 2, "max": 3, "count": 0}


CUSTOM = "Custom Operator"                               # MXNet's category


class _Inside(threading.local):
    """The custom operators that run, the innermost last, and the seconds of the operators they called."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.seconds = 0.0


class _Log:
    """What has been seen: events for the file, and durations (ms) by category and name."""

    def __init__(self) -> None:
        self.filename, self.running, self.paused = "profile.json", False, False
        self.options: dict[str, Any] = {}
        self.inside = _Inside()
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.events: list[dict[str, Any]] = []
        self.threads: dict[tuple[int, int], str] = {}        # names by the numbers of process and thread
        self.times: dict[str, dict[str, list[float]]] = {}

    @property
    def active(self) -> bool:
        """Whether something is noted now."""
        return self.running and not self.paused

    def span(self, name: str, category: str, begin: float, end: float, **more: Any) -> None:
        """Something that took from begin to end (seconds). more: shown beside it in the file."""
        self.times.setdefault(category, {}).setdefault(name, []).append((end - begin) * 1e3)
        self._note(name, category, "X", begin, dur=(end - begin) * 1e6, **({"args": more} if more else {}))

    def point(self, name: str, category: str, kind: str, **more: Any) -> None:
        """Something that happened now."""
        self._note(name, category, kind, time.perf_counter(), **more)

    def _note(self, name: str, category: str, kind: str, at: float, **more: Any) -> None:
        thread = os.getpid(), threading.get_native_id()      # numbers of 32 bits; Perfetto takes no larger ones
        self.threads.setdefault(thread, threading.current_thread().name)
        self.events.append({"name": name, "cat": category, "ph": kind, "ts": at * 1e6, "pid": thread[0],
                            "tid": thread[1], **more})

    def names(self) -> list[dict[str, Any]]:
        """The events that name the processes and threads of the others."""
        return ([{"name": "process_name", "ph": "M", "pid": p, "tid": t, "args": {"name": "hybrid"}}
                 for p, t in {p: t for p, t in reversed(self.threads)}.items()]
                + [{"name": "thread_name", "ph": "M", "pid": p, "tid": t, "args": {"name": name}}
                   for (p, t), name in self.threads.items()])


_log = _Log()


def _timed(call: Any, d: Any, args: Any) -> Any:
    begin, around = time.perf_counter(), _log.inside.names
    try:
        return call(d, *args)
    finally:
        end = time.perf_counter()
        if around:
            _log.span(f"{around[-1]}::{d.name}", CUSTOM, begin, end)
            _log.inside.seconds += end - begin
        else:
            _log.span(d.name, "operator", begin, end)


@contextmanager
def _custom(name: str) -> Iterator[None]:
    """A call of a custom operator: its own Python code, without the operators that it calls."""
    inside, begin = _log.inside, time.perf_counter()
    before, inside.seconds = inside.seconds, 0.0
    inside.names.append(name)
    try:
        yield
    finally:
        inside.names.pop()
        own = time.perf_counter() - begin - inside.seconds
        inside.seconds = before
        _log.span(f"{name}::pure_python", CUSTOM, begin, begin + own)


def _program(program: Any, exe: Any, raw: Any, call: Any) -> Any:
    """A call of a program, noted with its kernels."""
    name, form = program.memo.get("name") or "a program", timed(exe)
    found: list[Took] = []
    begin = time.perf_counter()
    outputs = call(exe if form is None else lambda arrays: form.timed(arrays, found))
    end = time.perf_counter()
    _log.span(name, "program", begin, end)
    # the blocks of a batch take turns, and threads work beside each other: their sums are shown one after another
    whole = sum(t.seconds for t in found)
    share, at = min(1.0, (end - begin) / whole) if whole else 1.0, begin
    for t in found:
        k, at = t.kernel, max(at, min(t.began, end))
        last = min(end, at + t.seconds * share)
        _log.span(f"{name}: {k.name} {' '.join(w.split('[')[0] for w in k.nodes)}"[:100], "kernel", at, last,
                  kind=k.kind,
                  computes=k.nodes, reads=k.reads, writes=k.writes, lines=[f"{line}: {op}" for op, line in k.lines])
        at = last
    return outputs


def _watch() -> None:
    """Begin or end to look at eager operators and compiled programs."""
    observe(_program, _log.active)
    dispatch.TIMERS[:] = [t for t in dispatch.TIMERS if t is not _timed]
    custom.WATCHERS[:] = [_custom] if _log.active else []
    if _log.active:
        dispatch.TIMERS.insert(0, _timed)


# ---- settings
def set_config(**kwargs: Any) -> None:
    """Settings: ``filename`` is where ``dump`` writes; ``profile_all`` and MXNet's others are accepted (everything
    eager is timed)."""
    unknown = sorted(set(kwargs) - _OPTIONS)
    if unknown:
        raise AttributeValueError(f"profiler.set_config: unknown {', '.join(unknown)}; known: "
                                  f"{', '.join(sorted(_OPTIONS))}")
    _log.options.update(kwargs)
    _log.filename = kwargs.get("filename", _log.filename)


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """``run`` or ``stop``. KeyError for anything else, as in MXNet."""
    if state not in ("run", "stop"):
        raise KeyError(f"profiler.set_state takes 'run' or 'stop', got {state!r}")
    _log.running, _log.paused = state == "run", False
    _watch()


def pause(profile_process: str = "worker") -> None:
    """Note nothing until ``resume``."""
    _log.paused = True
    _watch()


def resume(profile_process: str = "worker") -> None:
    """Go on after ``pause``."""
    _log.paused = False
    _watch()


def state() -> str:
    """``run`` or ``stop``."""
    return "run" if _log.running else "stop"


# ---- results
def dumps(reset: bool = False, format: str = "table", sort_by: str = "total",
          ascending: bool = False) -> str:  # noqa: A002  MXNet's name
    """Counts and times (ms) by category, as a table or as JSON; forgotten afterwards with ``reset``."""
    assert format in ("table", "json"), f"format must be table or json, got {format!r}"
    assert sort_by in _SORTS, f"sort_by must be one of {', '.join(_SORTS)}, got {sort_by!r}"
    found = {category: dict(sorted(((n, _sums(t)) for n, t in rows.items()), key=lambda r: r[1][_SORTS[sort_by]],
                                   reverse=not ascending))
             for category, rows in _log.times.items()}
    out = _as_json(found) if format == "json" else _as_table(found)
    if reset:
        _log.clear()
    return out


def _sums(times: list[float]) -> tuple[int, float, float, float, float]:
    return len(times), sum(times), min(times), max(times), sum(times) / len(times)


def _as_json(found: dict[str, Any]) -> str:
    fields = ("Count", "Total", "Min", "Max", "Avg")
    return json.dumps({"Time": {c: {n: dict(zip(fields, row)) for n, row in rows.items()}
                                for c, rows in found.items()}, "Memory": {},
                       "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4)


def _as_table(found: dict[str, Any]) -> str:
    lines = ["", "Profile Statistics:"]
    for category, rows in found.items():
        lines += [category, "=" * 17]
        lines.append(f"{'Name':<26}{'Total Count':>15}"
                     + "".join(f"{t:>17}" for t in ("Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)")))
        lines += [f"{n:<26}{row[0]:>15}" + "".join(f"{v:>17.4f}" for v in row[1:]) for n, row in rows.items()]
        lines.append("")
    return "\n".join(lines)


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the file that was named in ``set_config``; open it at https://ui.perfetto.dev or with chrome://tracing.
    Stops unless ``finished`` is False."""
    events = [*_log.names(), *_log.events]
    write_bytes(_log.filename, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}).encode())
    if finished:
        set_state("stop")


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """MXNet's older ``set_config``."""
    set_config(filename=filename)


profiler_set_state, dump_profile = set_state, dump


# ---- what users note themselves
class Domain:
    """Groups what is noted."""

    def __init__(self, name: str):
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> "Task":
        """A task of this domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> "Frame":
        """A frame of this domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: float | None = None) -> "Counter":
        """A counter of this domain."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> "Marker":
        """A marker of this domain."""
        return Marker(self, name)


class _Span:
    """Something with a start and a stop; also a ``with`` block."""

    def __init__(self, domain: Domain, name: str):
        self.domain, self.name = domain, name
        self._begin: float | None = None

    def __str__(self) -> str:
        return self.name

    def start(self) -> None:
        """It begins."""
        self._begin = time.perf_counter()

    def stop(self) -> None:
        """It ends."""
        if self._begin is not None and _log.active:
            _log.span(self.name, self.domain.name, self._begin, time.perf_counter())
        self._begin = None

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


class Task(_Span):
    """A piece of work: ``start()``, ``stop()``."""


class Frame(_Span):
    """A piece of work that comes again and again: ``start()``, ``stop()``."""


class Event(_Span):
    """A piece of work without a domain: ``start()``, ``stop()``."""

    def __init__(self, name: str):
        super().__init__(Domain("event"), name)


class Counter:
    """A number that changes: ``set_value``, ``increment``, ``decrement``, ``+=``, ``-=``."""

    def __init__(self, domain: Domain, name: str, value: float | None = None):
        self.domain, self.name, self._value = domain, name, 0.0
        if value is not None:
            self.set_value(value)

    def __str__(self) -> str:
        return self.name

    def set_value(self, value: float) -> None:
        """The number is this now."""
        self._value = value
        if _log.active:
            _log.point(self.name, self.domain.name, "C", args={self.name: value})

    def increment(self, delta: float = 1) -> None:
        """More."""
        self.set_value(self._value + delta)

    def decrement(self, delta: float = 1) -> None:
        """Less."""
        self.set_value(self._value - delta)

    def __iadd__(self, value: float) -> "Counter":
        self.increment(value)
        return self

    def __isub__(self, value: float) -> "Counter":
        self.decrement(value)
        return self


class Marker:
    """A moment: ``mark()``."""

    def __init__(self, domain: Domain, name: str):
        self.domain, self.name = domain, name

    def __str__(self) -> str:
        return self.name

    def mark(self, scope: str = "process") -> None:
        """It is now, for the process, thread, global, task or marker."""
        if scope not in ("global", "process", "thread", "task", "marker"):
            raise AttributeValueError(f"a marker's scope is global, process, thread, task or marker, got {scope!r}")
        if _log.active:
            _log.point(self.name, self.domain.name, "i", s={"global": "g", "process": "p"}.get(scope, "t"))


@contextmanager
def scope(name: str = "<unk>:", append_mode: bool = True) -> Iterator[None]:
    """A named part of the program, noted as a task."""
    with Task(Domain("scope"), name):
        yield


__all__ = ["Counter", "Domain", "Event", "Frame", "Marker", "Task", "dump", "dump_profile", "dumps", "pause",
           "profiler_set_config", "profiler_set_state",
           "resume", "scope", "set_config", "set_state", "state"]
