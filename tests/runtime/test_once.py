"""Work that is done once by threads and processes with one cache."""
from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hybrid.base import system
from hybrid.runtime import once as module
from hybrid.runtime.once import once

pytestmark = pytest.mark.skipif(not system.LOCKS, reason="files have no locks here")
OTHER = """
import sys
from hybrid.runtime import once
once.LONGEST_WAIT = float(sys.argv[2])
with once.once(sys.argv[1]):
    print("begun", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache."""
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))


def other(what: str, most: float = 60.0) -> subprocess.Popen[str]:
    """Another process that wants to do some work. most: seconds that it waits."""
    return subprocess.Popen([sys.executable, "-c", OTHER, what, str(most)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def begins(process: subprocess.Popen[str]) -> str:
    """Wait until another process begins with its work."""
    assert process.stdout is not None
    return process.stdout.readline()


def test_another_process_waits_whatever_else_is_done_meanwhile() -> None:
    """Other work of this process that ends, also in another thread, lets go of nothing but itself."""
    def briefly() -> None:
        with once("b"):
            pass
    with once("a"):
        briefly()
        beside = threading.Thread(target=briefly)
        beside.start(), beside.join()
        process, free = other("a"), other("b")
        assert begins(free) == "begun\n"                    # it is as fast to start as the one that waits
        seen: list[str] = []
        reader = threading.Thread(target=lambda: seen.append(begins(process)))
        reader.start()
        reader.join(0.5)
        assert not seen
    reader.join(60)
    assert seen == ["begun\n"]
    for each in (process, free):
        each.communicate("\n", timeout=60)


def test_threads_take_turns() -> None:
    made: list[int] = []

    def work() -> None:
        with once("a"):
            if not made:
                time.sleep(0.05)
                made.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert made == [1] and not module._files


def test_a_process_that_is_killed_lets_go() -> None:
    process = other("a")
    assert begins(process) == "begun\n"
    process.kill()
    begin = time.monotonic()
    with once("a"):
        assert time.monotonic() - begin < module.LONGEST_WAIT / 2
    process.communicate()


def test_a_process_that_stands_still_is_waited_for_so_long_and_no_longer() -> None:
    with once("a"):
        late = other("a", 0.2)
        assert begins(late) == "begun\n"
    late.communicate("\n", timeout=60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_none_of_the_locks() -> None:
    """Nor does its end give them away."""
    with once("a"):
        child = os.fork()
        if child == 0:
            with once("b"):
                os._exit(0 if "a" not in module._files else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        late = other("a", 0.5)
        begin = time.monotonic()
        assert begins(late) == "begun\n" and time.monotonic() - begin > 0.5
    late.communicate("\n", timeout=60)


def test_where_the_file_cannot_be_opened_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError
    monkeypatch.setattr(module.os, "open", refuse)
    with once("a"), once(None):
        pass
