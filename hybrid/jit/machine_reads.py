"""What traced Python code reads of the machine that it runs on: clocks, files, folders, the system's random bytes.

Such values differ from call to call and no guard can tell that, so code which reads them runs as plain Python. What is
read only to be written to a log, or by this library and Python's own services for their own sake, is left out.
"""
from __future__ import annotations

import _io  # type: ignore[import-not-found]  # the base of the files that are no ABC
import datetime
import io
from types import FrameType
from typing import Any, Callable

from ..base.errors import warn_user
from ..base.profiling import LOADERS
from .answers import MEMO

_CLOCKS = frozenset({"time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time",
                     "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns",
                     "localtime", "gmtime", "ctime", "strftime", "asctime"})
_OF_SYSTEM = frozenset({"stat", "lstat", "fstat", "listdir", "scandir", "getcwd", "getcwdb", "access", "readlink",
                        "read", "pread"})
_FILES = frozenset({"read", "read1", "readall", "readinto", "readline", "readlines"})
_TODAY = frozenset({"now", "today", "utcnow"})
_MODES = frozenset({"is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled",
                    "get_default_dtype", "is_deterministic", "are_deterministic_algorithms_enabled"})
# their names
READERS = _CLOCKS | _OF_SYSTEM | _FILES | _TODAY | _MODES | {"urandom", "getrandom", "open", "cache_info"}
# modules of Python's library that look at clocks and files for their own sake; of this library those that do not load
_SERVICES = frozenset({"logging", "warnings", "linecache", "traceback", "importlib", "tempfile", "threading", "queue",
                       "concurrent", "subprocess", "multiprocessing", "inspect", "tokenize", "unittest", "shutil"})


def kind_of(function: Any, frame: FrameType) -> str | None:
    """What a built-in function that some code calls reads, in words, or None."""
    name, module, owner = function.__name__, function.__module__, getattr(function, "__self__", None)
    if name in _CLOCKS and module == "time" or name in _TODAY and isinstance(owner, type) and issubclass(
            owner, datetime.date):
        return "a clock"
    if name == "cache_info" and isinstance(owner, MEMO):
        return "how often a function with a cache was called"
    if name in _MODES and (module or getattr(owner, "__name__", "")).split(".")[0] == "torch":
        return "a mode of PyTorch"
    if name in ("urandom", "getrandom") and module in ("posix", "nt"):
        return "the system's random bytes"
    if name in _OF_SYSTEM and module in ("posix", "nt"):
        return "files or folders"
    if name in _FILES and isinstance(owner, _io._IOBase) and not isinstance(owner, (io.StringIO, io.BytesIO)):
        return "a file"
    if name == "open" and module in ("io", "_io") and not _writes(frame):
        return "a file"
    return None


def _writes(frame: FrameType) -> bool:
    """Whether code that opens a file names a mode of writing: as its variable, or as a constant."""
    mode = frame.f_locals.get("mode")
    modes = [mode] if isinstance(mode, str) else [c for c in frame.f_code.co_consts if isinstance(c, str)
                                                  and len(c) < 4]
    return any(set(m) & set("wax") and set(m) <= set("wax+bt") for m in modes)


def line_of(frame: FrameType | None, kind: str, is_library: Callable[[str], bool]) -> str | None:
    """The line of the user's for which a frame reads; None where a service does it for its own sake."""
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if not is_library(module):
            file = frame.f_code.co_filename
            # progress bars and the like
            return None if kind == "a clock" and "-packages" in file else f"{file}:{frame.f_lineno}"
        if module.split(".")[0] in _SERVICES or module.split(".")[0] == "hybrid" and not module.startswith(LOADERS):
            return None
        frame = frame.f_back
    return None


def warn(read: dict[str, str], name: str) -> None:
    """Say that something called ``name`` read of the machine, and what follows."""
    where = next(iter(read.values()))
    warn_user(f"{where}: {name or 'this function'} reads {' and '.join(read)}, which a compiled program cannot do "
              f"again: such calls run as plain Python. Read outside of it and give what was read as an argument.")
