"""The C launcher (kernels/c/launcher.c): a small extension module, compiled once for each Python and NumPy.

It needs Python's own headers. Where there are none, or it does not compile, ``load`` gives None and calls go through
Python (hybrid/jit/fast_path.py), which is slower by about two microseconds.
"""
from __future__ import annotations

import atexit
import contextlib
import importlib.machinery
import importlib.util
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from hybrid.kernels import self_contained

from ..base import config, forking
from ..base.errors import CompileError
from ..ir import philox
from . import background, compiler_process, shared_objects, toolchain, warmed

NAME, NOTE = "hybrid_launcher", "launcher"
_lock = forking.LongLock()
_loaded: list[Any] = []
_module: list[Any] = []
_coming: list["_Building"] = []
LAST_WAIT = 1.0                 # seconds that the end of a process waits for it at most
UNITS = 4                       # in which it is compiled, so that a later process continues where this one ended
HEAD_START = 0.5                # seconds before it is compiled
LONGEST_DELAY = 20.0            # seconds that it waits at most for programs that are being compiled
LOOK = 0.1                      # seconds between looks whether they are there


def built() -> Path | None:
    """The launcher's shared object; None where there are no headers."""
    return warmed.remembered(NOTE, _compiled)


def _build() -> Any:
    so = built()
    return _launcher(so) if so is not None else None


def _headers() -> Path:
    """The folder of Python's headers: where most systems have them, else what ``sysconfig`` says, whose tables take a
    megabyte."""
    usual = Path(sys.base_prefix, "include",
                 f"python{sys.version_info[0]}.{sys.version_info[1]}{getattr(sys, 'abiflags', '')}")
    if (usual / "Python.h").exists():
        return usual
    with forking.IMPORTS:
        import sysconfig                                 # noqa: PLC0415
        return Path(sysconfig.get_paths()["include"])            # loads more


def _compiled() -> Path | None:
    headers = _headers()
    if not (headers / "Python.h").exists() or sys.implementation.name != "cpython":
        return None
    include = (f"-I{headers}", f"-I{np.get_include()}", *toolchain.vectorizing())
    while True:
        try:
            return shared_objects.build(self_contained("c", "launcher.c"), include, f"{sys.version} {np.__version__}",
                                        UNITS, _between_units)[0]
        except (CompileError, OSError):
            if not any([building.begins_again() for building in _coming]):
                return None


def _between_units() -> None:
    """Programs come first, and the end of a process waits for one unit at most."""
    if not all(building.may_go_on() for building in _coming):
        raise CompileError("the process ends")


def _make_room(compilers: int) -> None:
    """Called with the number of processes that compile programs, when it changes."""
    for building in _coming:
        if compilers:
            building.interrupt()


background.CALLS.follow(_make_room)


def _launcher(so: Path) -> Any:
    try:
        loader = importlib.machinery.ExtensionFileLoader(NAME, str(so))
        spec = importlib.util.spec_from_loader(NAME, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        _module[:] = [module]
        philox.IN_C[:] = [module.random_bits]
        return module.Launcher
    except (ImportError, OSError):
        return None


def load() -> Any:
    """The Launcher class, or None."""
    with _lock:
        if not _loaded:
            _loaded.append(_build())
        return _loaded[0]


def known_call(*environment: Any) -> Any:
    """The function that does eager calls which were made before (kernels/c/launcher_eager.h says what its environment
    are), where the launcher is there without waiting for a compiler; else None, and it is being built."""
    soon()
    if not _module:
        return None
    _module[0].eager_calls(*environment)
    return _module[0].known_call


def soon() -> None:
    """Load it where an earlier process built it, else begin to build it: calls can do without it."""
    if not _loaded and not coming():
        load() if warmed.known(NOTE) is not None else prepare()


def found() -> Any:
    """The Launcher class, ``later`` while it is being built, or None. Never waits for a compiler, also not in a process
    that was forked while it was built."""
    soon()
    return _loaded[0] if _loaded else later if coming() else None


def part(name: str) -> Any:
    """A class or function of the launcher module, such as Track (kernels/c/launcher_rounds.h) or Front; None
    where the launcher is not there (yet)."""
    return getattr(_module[0], name) if _module else None


class Made:
    """The launchers of one bound program: of those with the same purpose the newest, and how often all were called."""

    def __init__(self) -> None:
        self._calls, self._of = 0, {}                    # type: int, dict[Any, Any]

    def add(self, purpose: Any, made: Any) -> None:
        """A launcher, which takes the place of the one that had its purpose."""
        old, self._of[purpose] = self._of.get(purpose), made
        self._calls += old.calls if old is not None else 0

    def calls(self) -> int:
        """How often they were called."""
        return self._calls + sum([made.calls for made in self._of.values()])


def prepare() -> None:
    """Start building it in the background, where no earlier process did and anything is compiled at all: the first
    result does not wait for it."""
    if not _loaded and not coming() and warmed.known(NOTE) is None and config.compile_mode() != "never":
        building = _Building()
        _coming[:] = [building]
        building.thread.start()
        atexit.register(_end, building)


class _Building:
    """The launcher while a thread builds it. ending: set when the process ends. begun: when its compiler began; None
    while it waits for programs, which come first, until ``late``."""

    def __init__(self) -> None:
        self.ending, self.begun = threading.Event(), None        # type: threading.Event, float | None
        self.late, self.interrupted = time.monotonic() + LONGEST_DELAY, False
        self.thread = threading.Thread(target=_quietly, args=(self,), name="hybrid-launcher", daemon=True)

    def may_go_on(self) -> bool:
        """Waits until no process compiles programs. False if this process ends before that."""
        self.interrupted = False                         # no compiler of its runs now
        while background.CALLS.compilers and time.monotonic() < self.late and not self.ending.wait(LOOK):
            pass
        return not self.ending.is_set()

    def interrupt(self) -> None:
        """Kill its compiler, since programs are compiled first. (A stopped one would outlive this process if that were
        killed.)"""
        if (self.begun is not None and self.thread.is_alive() and time.monotonic() < self.late
            and compiler_process.runs_low_priority()):
            self.interrupted = True                      # before its thread learns how the compiler ended
            compiler_process.end_low_priority()

    def begins_again(self) -> bool:
        """Waits until its compiler may begin again, where that was interrupted. False where it was not."""
        return self.interrupted and self.may_go_on()


def _end(building: _Building) -> None:
    """When the process ends, it waits for a unit of the launcher that is being compiled, for as long as the build took
    so far, at most ``LAST_WAIT``: later processes have it then. What has not begun is left to them."""
    building.ending.set()
    if building.begun is not None:
        building.thread.join(min(time.monotonic() - building.begun, LAST_WAIT))
    if building.thread.is_alive():
        compiler_process.end_compilers()


def _quietly(building: _Building) -> None:
    if config.compile_mode() == "background":
        building.ending.wait(HEAD_START)
    if not building.may_go_on():
        return
    building.begun = time.monotonic()
    # a cache folder that goes meanwhile; calls go through Python
    with contextlib.suppress(CompileError, OSError), compiler_process.low_priority():
        load()


def coming() -> bool:
    """Whether it is being built now, beside the program."""
    return bool(_coming) and _coming[0].thread.is_alive()


def do_without() -> None:
    """Never build the launcher in this process, which only compiles programs for another one."""
    _loaded[:] = [None]


def later(*_: Any, **__: Any) -> None:
    """Takes the launcher's place while that is built: it takes no call, and after some of them the fast path is laid
    again (hybrid/jit/trace.py)."""
