"""What is told of compilations: events to ``logging`` (logger "hybrid"), and, where standard error is a terminal, a
line about those that take more than half a second."""
from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Any, Iterator

from ..base import config

SECONDS = 0.5                            # after which a terminal is told


class _Depth(threading.local):
    now = 0


_depth = _Depth()


def log(level: str, text: str, *values: Any) -> None:
    """A message to the logger "hybrid". Nobody can listen before ``logging`` was imported, and hybrid does not."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("hybrid").log(getattr(logging, level), text, *values)


@contextlib.contextmanager
def announced(name: str) -> Iterator[None]:
    """Scope of a compilation, of which a terminal is told if it takes long; what is compiled for another compilation is
    a part of that one."""
    _depth.now += 1
    shown = _Shown(name) if _depth.now == 1 and config.progress() and _is_terminal() else None
    try:
        yield
    finally:
        _depth.now -= 1
        if shown is not None:
            shown.end()


def compiled(name: str, exe: Any, seconds: float) -> None:
    """Log that a program was compiled, or found in the disk cache."""
    report = exe.__dict__.get("_report") if hasattr(exe, "__dict__") else None
    if report is not None:
        log("INFO", "compiled %s in %.3f s: %d kernels, source %s", name, seconds, len(report.kernels),
            report.source_path)
    else:
        log("INFO", "loaded %s in %.3f s (%s)", name, seconds, type(exe).__name__)


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:                                   # closed
        return False


def _size(stream: Any) -> dict[str, int]:
    """The size that tqdm is told of a terminal which does not know its own and says 0; tqdm would show nothing."""
    try:
        return {} if all(os.get_terminal_size(stream.fileno())) else {"ncols": 80, "nrows": 24}
    except (OSError, ValueError, AttributeError):
        return {}


class _Shown(threading.Thread):
    """A line on standard error from the first half second to the end: tqdm's clock, or plain text without tqdm."""

    def __init__(self, name: str):
        super().__init__(name="hybrid-progress", daemon=True)
        self._what, self._ended, self._begin = name, threading.Event(), time.perf_counter()
        self._stream = sys.stderr
        self.start()

    def run(self) -> None:
        """Wait, and show."""
        if self._ended.wait(SECONDS):
            return
        try:
            from tqdm import tqdm                        # noqa: PLC0415  only if it is there, and only now
        except ImportError:
            self._plain()
            return
        with contextlib.suppress(OSError, ValueError), tqdm(
                desc=f"hybrid: compiling {self._what}", bar_format="{desc} {elapsed}", file=self._stream,
                **_size(self._stream)) as bar:
            while not self._ended.wait(SECONDS):
                bar.refresh()
            bar.bar_format = "{desc}"
            bar.set_description_str(f"hybrid: compiled {self._what} in {time.perf_counter() - self._begin:.1f} s")

    def _plain(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(f"hybrid: compiling {self._what} ...", end="", flush=True, file=self._stream)
            self._ended.wait()
            print(f" {time.perf_counter() - self._begin:.1f} s", flush=True, file=self._stream)

    def end(self) -> None:
        """The compilation has ended, with a program or an error."""
        self._ended.set()
        self.join()
