"""What differs between operating systems: what Linux alone has, and what is done where it is not there.

Linux and macOS are told apart by what ``os`` offers. On Windows files have no owners by number and no such locks,
processes do not fork, and programs are started by ``subprocess``.
"""
from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable

try:
    import fcntl
except ImportError:
    fcntl = None                                             # type: ignore[assignment]

WINDOWS = sys.platform == "win32"
OWNERS = hasattr(os, "geteuid")                              # whether files belong to users that have numbers
LOCKS = fcntl is not None
# of libraries: what they need is looked for at once; they stay when their handle goes
AT_ONCE = getattr(os, "RTLD_NOW", 0)
FOR_EVER = AT_ONCE | getattr(os, "RTLD_NODELETE", 0)
# a shared library needs no flag for its place on Windows, and clang refuses one
SHARED = ("-shared",) if WINDOWS else ("-shared", "-fPIC")
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
FILE = _READ | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
FOLDER = _READ | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


def user() -> int:
    """The number of the user whose rights this process has; 0 where users have none."""
    return os.geteuid() if OWNERS else 0


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def idle_cores() -> int:
    """Cores on which no other thread of the machine runs now, this thread's own core included: 1 at least. All usable
    cores where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/loadavg") as load:
        running = int(load.read().split()[3].split("/")[0])              # this process is one of them
        return max(1, min(cores(), cores() - running + 1))
    return cores()


@lru_cache(maxsize=1)
def processor() -> dict[str, str]:
    """Returns /proc/cpuinfo's fields of the first processor (``vendor_id``, ``flags``, …); {} on other systems."""
    said = {}
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if not name.strip():
                break
            said[name.strip()] = value.strip()
    return said


def splits_wide_vectors() -> bool:
    """Whether the processor executes a 64-byte vector as two 32-byte operations, as AMD's Zen 4 does (Zen 3 has the
    same family but no such vectors)."""
    said = processor()
    return said.get("vendor_id") == "AuthenticAMD" and said.get("cpu family") == "25"


def cache_root() -> Path:
    """The folder for what programs may make again, as each system has it."""
    if WINDOWS and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    try:
        return Path(os.path.abspath(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"))
    except RuntimeError:                                     # no home folder
        return Path(tempfile.gettempdir()) / f"hybrid-{user()}"


def take_lock(file: int, byte: int) -> bool:
    """Lock a byte of an open file for this process, not its children. The lock is lost when the process closes any
    descriptor of that file. False where another process has it; True where there are no locks."""
    return fcntl is None or _locked(lambda: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte))


def give_lock(file: int, byte: int) -> None:
    """Let go of a byte of an open file."""
    if fcntl is not None:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)


def take_folder(file: int) -> bool:
    """Lock an open folder until this process and its children end. False where others have it; True where there are no
    locks."""
    return fcntl is None or _locked(lambda: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB))


def _locked(take: Callable[[], None]) -> bool:
    with contextlib.suppress(BlockingIOError):
        take()
        return True
    return False


# ---- programs that are started
def paper() -> int | None:
    """A file in memory that a program may write to; None where there are none. Not a pipe: that stays open in processes
    that are forked meanwhile."""
    with contextlib.suppress(AttributeError, OSError):
        return os.memfd_create("hybrid")
    return None


def give_way(process: int, by: int) -> None:
    """Lower the priority of a process and of what it starts. by: added to its niceness."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, process, os.getpriority(os.PRIO_PROCESS, process) + by)
    # Linux divides processor time between sessions first (autogroups); niceness counts only within a session. So a
    # session that the process leads gets the niceness too; one that another process leads is the user's
    with contextlib.suppress(OSError, AttributeError):
        if os.getsid(process) == process:
            with open(f"/proc/{process}/autogroup", "w") as group:
                group.write(str(by))


def start(command: list[str], stream: int, to: int, environment: dict[str, str], session: bool = False) -> Any:
    """Start a program that writes a stream (1 or 2) to an open file: the process. OSError where it is no program. No
    other open file is open in it: not the connection of an MPI library to its launcher, which would wait for its end.
    session: it leads one of its own, where the system can.

    ``subprocess`` does more, and takes a quarter of a megabyte.
    """
    if hasattr(os, "posix_spawn"):
        nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3) if fd != stream]
        # the file first: it may be one of the first three itself
        files = [(os.POSIX_SPAWN_DUP2, to, stream), *nothing, *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable())]
        if session:
            with contextlib.suppress(NotImplementedError):
                return os.posix_spawn(command[0], command, environment, file_actions=files, setsid=True)
        return os.posix_spawn(command[0], command, environment, file_actions=files)
    import subprocess  # noqa: PLC0415  slow, and needed on Windows alone
    streams: dict[str, Any] = {"stdout" if stream == 1 else "stderr": to}
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                            **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams})


def _inheritable() -> list[int]:
    """Open files above the first three that programs would have open, too: those that other libraries opened so. Linux
    alone does not mind that one is closed meanwhile."""
    found = []
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for fd in map(int, os.listdir("/proc/self/fd")):
                with contextlib.suppress(OSError):           # the folder itself is closed again
                    if fd > 2 and os.get_inheritable(fd):
                        found.append(fd)
    return found


def close_for_good(file: int) -> None:
    """Close a file, and let nothing else have its number: whoever knows that finds an empty file."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, file, inheritable=False)
    os.close(nothing)


def waited(process: Any) -> int:
    """Wait for a process: its status, negative where a signal ended it."""
    if isinstance(process, int):
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return int(process.wait())


def kill(process: Any) -> None:
    """End a process at once, and where it leads a group, what it started."""
    with contextlib.suppress(ProcessLookupError):            # it ended at that moment
        if isinstance(process, int):
            if os.getpgid(process) == process:
                kill_group(process)
            else:
                os.kill(process, signal.SIGKILL)
        else:
            process.kill()


def kill_group(number: int) -> None:
    """End a process that leads a group, and all that it started; itself where there are no groups."""
    if hasattr(os, "killpg"):
        os.killpg(number, signal.SIGKILL)
    else:
        os.kill(number, signal.SIGTERM)


def content(file: int) -> bytes:
    """All that is in an open file, which is closed."""
    try:
        os.lseek(file, 0, os.SEEK_SET)
        return os.read(file, os.fstat(file).st_size)
    finally:
        os.close(file)


# ---- Python without a global lock
def check_lock() -> None:
    """Warn where Python runs without its global lock: calls of one program from several threads at once rely on it."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        warnings.warn("hybrid is not safe without Python's global lock: start Python with PYTHON_GIL=1, or use hybrid "
                      "in one thread at a time", RuntimeWarning, stacklevel=3)
