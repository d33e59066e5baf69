"""The first call of a hybridized function or block, which runs as plain Python where compilers work in the background.

A trace costs a third of a millisecond an operator, as much as small operators themselves; the answer comes first. The
second call is traced, and what a trace refuses is refused then. A note in the disk cache says that some process made
two such calls: then the first call is traced too, and compiled at once. Another note says that such a call took long
though it was made once: it is traced, as its program may be on disk or be compiled for a later process. A short call
that processes make once each (for example to give parameters their shapes) is plain Python in all of them, and does not
occupy compilers that others need.
"""
from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import time
import weakref
from types import CodeType
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from ..base import config
from ..base.names import module_of
from ..base.pytree import unflatten
from ..base.scope import SCOPE
from ..buffers.array import NDArray, wrap
from ..runtime import background, cache, plan_names, warm_folder
from ..runtime.observers import OBSERVERS
from .compile_policy import eagerly
from .fingerprint import codes_of

# options that change what the code computes, or which calls are refused, from the first call on
_AT_ONCE = ("precision", "dynamic")
LONG = 0.3                                       # seconds of a call that is worth a trace though it is made once
_unwritten: set[tuple[str, str]] = set()         # folders and names of notes that are to be written
_at_exit: list[Callable[[], None]] = []
_FRAMES = frozenset({"_getframe", "currentframe", "f_back"})


class FirstCall:
    """Whether the next call of one function is its first one, and runs as plain Python; what it was."""

    def __init__(self) -> None:
        background.begin_early()
        self._over = False
        self._was_plain = False                          # whether the first call ran so
        # what is the same in all processes of its signature (_kind_of); None once the note of a second call exists
        self._like: tuple[Any, ...] | None = None
        self._note: str | None = None                    # the name of its note; None: not asked for yet
        self._traced_now = False                         # whether the first call is traced: it comes to ``later``
        self._kind: tuple[Any, ...] | None = None        # what a trace of that call needs, until there is one
        self._programs: list[str] = []                   # names of the recipes that the first traced call used

    def takes(self, engine: Any, plain: Any, leaves: Sequence[Any]) -> bool:
        """Whether a call is to run as plain Python, since it is the first. plain: what its signature begins with;
        leaves: the arrays among its arguments. It asks for no more than it needs: the first answer waits for it."""
        if self._over:
            return False
        waits = (config.compile_mode() == "background" and not config.verify() and not config.debug_level()
                 and plain[2].device_type == "cpu" and not OBSERVERS and not warm_folder.exists()
                 and all(engine.options.get(o) in (None, True, False) for o in _AT_ONCE)
                 and all(isinstance(x, NDArray) for x in leaves)       # what it writes into others, a trace tells
                 and not _looks_at_its_caller(engine))
        self._like, self._note = _kind_of(plain) if waits else None, None
        self._over = not waits or self._look_up_notes(engine)
        return not self._over

    def _look_up_notes(self, engine: Any) -> bool:
        """Read the notes on this kind of call; whether it is to be traced at once. A compiling process starts then if
        it is needed."""
        if not (_unwritten or os.path.exists(config.cache_dir())) or (note := self._name(engine)) is None:
            return False
        twice = os.path.exists(config.cache_dir() / _twice(note))
        self._traced_now = twice or _is_noted(note)
        if self._traced_now:
            self._look_up_programs(note)
            if self._programs:
                self._expect()
        if twice:                                        # jobs that are made from now on begin at once
            background.CALLS.again = time.monotonic()
            self._like = None
        return self._traced_now

    def _look_up_programs(self, note: str) -> None:
        """Read which recipes an earlier process used in its first traced call of this kind."""
        with contextlib.suppress(OSError, ValueError):
            self._programs = cache.read_text(cache.folder() / _programs_file(note)).split()

    def _name(self, engine: Any) -> str | None:
        """The name of the call's note, found out when it is first needed."""
        like = self._like                                # read once: another thread may forget it
        if self._note is None and like is not None:
            self._note = note_name("call", engine, like)
        return self._note

    def call(self, engine: Any, structure: Any, arrays: Sequence[NDArray], call: Callable[[], Any]) -> Any:
        """Make it. Where it fails, the next call is the first."""
        begin = time.perf_counter()
        with eagerly(), background.CALLS.running_call():
            out = call()
        self._over = self._was_plain = True
        if time.perf_counter() - begin >= LONG and (note := self._name(engine)) is not None:
            _note_later(note)
        self._kind = (structure, [(weakref.ref(x), x._data.shape, x._data.dtype, x._ctx, type(x)) for x in arrays],
                      SCOPE.training, SCOPE.recording, SCOPE.np_array)
        return out

    @contextlib.contextmanager
    def later(self, engine: Any, plain: Any) -> Iterator[None]:
        """Scope of a later call: compilers may begin, for the first answer was given. plain: its signature."""
        second = self._kind is not None                  # it is traced now, and compiled
        if second:
            if (note := self._name(engine)) is not None:
                self._look_up_programs(note)
            self._expect()
        if self._like is not None and not self._traced_now and _kind_of(plain) == self._like:
            note, self._like = self._name(engine), None
            if note is not None:
                _write_notes()
                cache.mark(cache.folder() / _twice(note))
        traced_at_once, self._traced_now = self._traced_now, False
        before, SCOPE.answered = SCOPE.answered, self._was_plain
        try:
            with background.CALLS.running_call(), plan_names.asked_for() as names:
                yield
        finally:
            SCOPE.answered, self._kind = before, None
        if (second or traced_at_once) and names != self._programs:
            self._keep(engine, names)

    def _expect(self) -> None:
        """Start a compiling process unless the disk cache has all recipes that an earlier process used in its first
        traced call of this kind."""
        if not (self._programs and plan_names.all_there(self._programs)):
            background.queue().expect()

    def _keep(self, engine: Any, names: list[str]) -> None:
        """Note in the disk cache which programs the first traced call asked for."""
        self._programs = names
        if (note := self._name(engine)) is not None:
            with contextlib.suppress(OSError):
                cache.write(cache.folder() / _programs_file(note), "\n".join(names).encode())

    def trace(self, engine: Any) -> bool:
        """Trace the first call now, for a report, where no later call was traced. Whether there was such a call."""
        kind, self._kind = self._kind, None
        if kind is None:
            return False
        structure, arrays, training, recording, np_array = kind
        args, kwargs = unflatten(structure, iter([_again(*a) for a in arrays]))
        before = SCOPE.training, SCOPE.recording, SCOPE.np_array
        SCOPE.training, SCOPE.recording, SCOPE.np_array = training, recording, np_array
        try:
            engine.specialization(*args, **kwargs)
            return bool(engine.entries)
        finally:
            SCOPE.training, SCOPE.recording, SCOPE.np_array = before


def _again(ref: "weakref.ref[NDArray]", shape: Any, dtype: Any, ctx: Any, cls: Any) -> NDArray:
    """An argument of the first call, or an array of its kind where it is gone."""
    found = ref()
    fits = found is not None and found._data.shape == shape and found._data.dtype == dtype
    return found if fits else wrap(np.broadcast_to(np.zeros((), dtype), shape), ctx, cls)  # type: ignore[return-value]


def note_name(title: str, engine: Any, kind: Any) -> str | None:
    """The file name of a note on calls of a kind of some code. It changes with the code, the version of Python and the
    kind. kind: its ``repr`` must be the same in all processes."""
    known: dict[int, str] = {}
    if engine.owner is not None:
        code = [_code_of_block(b, known) for b in _blocks_of(engine.owner)]
    else:
        code = [_printed(c) for c in _codes_of_function(engine.fn)]
        if not code:
            return None
    return f"{title}-{cache.digest('1', sys.version, *code, repr(kind))}.txt"


def _is_noted(note: str) -> bool:
    """Whether this process or an earlier one made such a call, which took long. The file is never read: that it exists
    is enough."""
    folder = str(config.cache_dir())
    return (folder, note) in _unwritten or os.path.exists(os.path.join(folder, note))


def _note_later(note: str) -> None:
    """Have a note written later, so that the first answer does not wait for it: when a second call is made, or when the
    process ends."""
    if not _at_exit:
        _at_exit.append(atexit.register(_write_notes))
    _unwritten.add((str(config.cache_dir()), note))


def _write_notes() -> None:
    folder = str(config.cache_dir())
    for where, note in list(_unwritten):
        if where == folder:
            cache.mark(cache.folder() / note)
        _unwritten.discard((where, note))


def _twice(note: str) -> str:
    """The name of the note that a process made two calls. note: the name of the one that it made one."""
    return f"twice-{note.partition('-')[2]}"


def _programs_file(note: str) -> str:
    """The name of the list of programs that the first traced call asked for, which is mostly the second one."""
    return f"second-{note.partition('-')[2]}"


def _kind_of(plain: Any) -> tuple[Any, ...]:
    """The parts of a signature that tell calls of the same code apart and are the same in all processes."""
    return plain[1], plain[3:6]


def _codes_of_function(fn: Any) -> Sequence[CodeType]:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return codes_of(fn) or codes_of(vars(type(fn)).get("__call__"))


def _looks_at_its_caller(engine: Any) -> bool:
    """Whether code names what gives frames: the caller's would be one of this library's."""
    if engine.owner is None:
        codes = _codes_of_function(engine.fn)
    else:
        codes = [c for b in _blocks_of(engine.owner) if module_of(type(b)).split(".")[0] != "hybrid"
                 for n in ("forward", "hybrid_forward") for c in codes_of(getattr(type(b), n, None))]
    return any(not _FRAMES.isdisjoint(c.co_names) for c in codes)


def _blocks_of(block: Any) -> Iterator[Any]:
    yield block
    for child in block._children.values():
        yield from _blocks_of(child)


def _code_of_block(block: Any, known: dict[int, str]) -> str:
    """What tells the code of a block from that of others: its class, and of a user's class what the methods that
    compute are made of."""
    cls = type(block)
    if id(cls) not in known:
        methods = () if module_of(cls).split(".")[0] == "hybrid" else ("forward", "hybrid_forward")
        codes = [_printed(c) for n in methods for c in codes_of(getattr(cls, n, None))]
        known[id(cls)] = f"{module_of(cls)}.{cls.__qualname__} {' '.join(codes)}"
    return known[id(cls)]


def _printed(code: CodeType) -> str:
    """Code as text, the same in each process."""
    constants = [repr(sorted(map(repr, c))) if isinstance(c, frozenset) else repr(c) for c in code.co_consts
                 if not isinstance(c, CodeType)]         # ``codes_of`` gives these too
    return repr((code.co_filename, code.co_firstlineno, code.co_names, code.co_code, constants))
