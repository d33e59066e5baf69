"""How the C compiler is run (hybrid/runtime/toolchain.py): beside forks, in processes with closed streams or ignored
signals, interrupted, gone."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hybrid.base.errors import CompileError
from hybrid.runtime import toolchain

pytestmark = pytest.mark.skipif(toolchain.compiler() is None or not hasattr(os, "fork"), reason="needs a compiler")
LONG = 60                       # seconds that nothing here takes

STRANGE = """
import os, signal
os.close(0), os.close(1)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from hybrid.errors import CompileError
from hybrid.runtime import toolchain
so, c = toolchain.build("void net(void **b) { }")
wrong = ""
try:
    toolchain.build("void net(void **b) { no_such_thing; }")
except CompileError as err:
    wrong = str(err)
os.write(2, f"{so.exists()} {'no_such_thing' in wrong}".encode())
"""


def test_closed_streams_and_ignored_children(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STRANGE], stderr=subprocess.PIPE,
                          env={**os.environ, "HYBRID_CACHE": str(tmp_path)}, timeout=300)
    assert done.stderr == b"True True"


def test_a_process_forked_meanwhile_holds_nothing_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path))
    children: list[int] = []
    spawn = os.posix_spawn

    def and_fork(*args: Any, **kwargs: Any) -> int:
        started = spawn(*args, **kwargs)
        child = os.fork()
        if not child:
            time.sleep(LONG)
            os._exit(0)
        children.append(child)
        return started
    monkeypatch.setattr(os, "posix_spawn", and_fork)
    begin = time.monotonic()
    try:
        so, _ = toolchain.build("void net(void **b) { /* beside a fork */ }")
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert so.exists() and children and time.monotonic() - begin < LONG


def test_an_interrupt_ends_the_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    spawn = os.posix_spawn

    def noted(*args: Any, **kwargs: Any) -> int:
        started.append(spawn(*args, **kwargs))
        return started[-1]
    monkeypatch.setattr(os, "posix_spawn", noted)

    def interrupt() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)
    before, begin = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0, time.monotonic()
    thread = threading.Thread(target=interrupt)
    # a shell's background jobs ignore interrupts
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            toolchain._run([["/bin/sleep", str(LONG)], ["/bin/sleep", str(LONG)]], Path("x.c"))
        thread.join()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert time.monotonic() - begin < LONG
    assert len(started) == 2
    for process in started:                                  # none is left
        with pytest.raises(ChildProcessError):
            os.waitpid(process, os.WNOHANG)
    assert not before or len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("without_memory", [False, True], ids=["memory", "disk"])
def test_what_compilers_say(without_memory: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if without_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    says = tmp_path / "cc"
    says.write_text("#!/bin/sh\necho out; echo wrong >&2; exit $1\n")
    says.chmod(0o755)
    assert toolchain._ask([str(says), "3"]) == (3, "out\n")
    assert toolchain._run([[str(says), "0"]] * 2, Path("x.c")) == "wrong\nwrong\n"
    with pytest.raises(CompileError, match=r"refused the generated program x\.c:\nwrong"):
        toolchain._run([[str(says), "0"], [str(says), "1"]], Path("x.c"))
    says.unlink()
    with pytest.raises(CompileError,
                       match="cc cannot be run: No such file or directory. Set HYBRID_CC to a C compiler, or to none"):
        toolchain._run([[str(says), "0"]], Path("x.c"))


def test_a_compiler_that_is_killed(tmp_path: Path) -> None:
    dies = tmp_path / "cc"
    dies.write_text("#!/bin/sh\nkill -9 $$\n")
    dies.chmod(0o755)
    with pytest.raises(CompileError, match=r"ended with status -9 \(killed: is there too little memory\?\)"):
        toolchain._run([[str(dies)]], Path("x.c"))
