"""Processes whose programs are compiled in the background: how they end, fork, and share what they build."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.base.errors import CompileError
from hybrid.runtime import background, cache, compiler_process, launcher, toolchain

from .test_background import in_background, until  # noqa: F401  a fixture

SCRIPT = """
    import os, signal, sys, time
    import hybrid as mx
    from hybrid import nd
    from hybrid.runtime import background
    f = mx.hybridize(lambda x: nd.tanh(x) * 9)
    f(nd.ones((3, 3))), f(nd.ones((3, 3)))
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    print([c.process.pid for c in background.queue()._compilers if c.process][0], flush=True)
"""


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGKILL)", "raise KeyboardInterrupt",
                                 "os._exit(3)"])
def test_processes_end_with_the_one_that_began_them(in_background: None, end: str, tmp_path: Path) -> None:  # noqa: F811
    """Also the compiler, which would go on for a minute."""
    cc, begun = tmp_path / "cc", tmp_path / "begun"
    cc.write_text(f'#!/bin/sh\ncase "$*" in *net.so*) touch {begun}; sleep 60;; esac\n'
                  f'exec {toolchain.compiler()} "$@"\n')
    cc.chmod(0o755)
    script = textwrap.dedent(SCRIPT) + end
    begin = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", script, str(begun)], capture_output=True, text=True, timeout=100,
                         env={**os.environ, "HYBRID_CC": str(cc)})
    assert ran.stdout, ran.stderr
    group = int(ran.stdout)
    assert time.monotonic() - begin < 40
    until(lambda: not members(group), 15)


def members(group: int) -> list[int]:
    """Processes of a process group."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_compiles_what_it_wants(in_background: None) -> None:  # noqa: F811
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 7), nd.ones((3, 3))
    f(x), f(x)
    child = os.fork()
    if child == 0:
        try:
            ok = abs(float(f(x).asnumpy()[0, 0]) - 7 * np.tanh(1)) < 1e-5
            os._exit(0 if ok and list(f._engine.entries.values())[0].is_compiled() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("ends", [False, True])
def test_the_launcher_waits_for_programs(in_background: None, monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:  # noqa: F811
    """On the core that calls leave it would take their compilers' time. A process that ends leaves it to others."""
    loaded, building = threading.Event(), launcher._Building()
    monkeypatch.setattr(launcher, "load", loaded.set)
    monkeypatch.setattr(launcher, "HEAD_START", 0.01)
    with background.CALLS.compiling():
        building.thread.start()
        assert not loaded.wait(0.3)
        if ends:
            launcher._end(building)
            building.thread.join(60)
            assert not building.thread.is_alive()
    building.thread.join(60)
    assert loaded.is_set() != ends


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="needs posix_spawn")
def test_a_program_interrupts_the_launcher(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Its compiler ends when a process begins to compile, and begins again when that has ended."""
    begun, calls, made, building = threading.Event(), [], [], launcher._Building()

    def build(*_: object) -> tuple[Path, Path]:
        calls.append(background.CALLS.compilers)
        if len(calls) == 1:
            process, paper = compiler_process.start([sys.executable, "-c", "import time; time.sleep(100)"])
            begun.set()
            status = compiler_process.ended(process)
            raise CompileError(f"{compiler_process.said(paper)} {status}")
        return Path("made"), Path()
    monkeypatch.setattr(launcher.shared_objects, "build", build)
    monkeypatch.setattr(launcher, "load", lambda: made.append(launcher._compiled()))
    monkeypatch.setattr(launcher, "HEAD_START", 0.01)
    monkeypatch.setattr(launcher, "_coming", [building])
    building.thread.start()
    assert begun.wait(60)
    with background.CALLS.compiling():
        building.thread.join(0.3)
        assert building.thread.is_alive() and len(calls) == 1 and not made
    building.thread.join(60)
    assert made == [Path("made")] and calls == [0, 0]


def test_only_a_compiler_of_the_launcher_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """None after the launcher was built, and one that failed by itself does not begin again."""
    ended: list[int] = []
    building = launcher._Building()
    building.begun = time.monotonic()
    monkeypatch.setattr(launcher, "_coming", [building])
    monkeypatch.setattr(compiler_process, "_low_priority", [12345])
    monkeypatch.setattr(compiler_process.system, "kill", ended.append)
    with background.CALLS.compiling():                           # its thread does not run
        assert not ended and not building.interrupted
    monkeypatch.setattr(building.thread, "is_alive", lambda: True)
    with background.CALLS.compiling():
        assert ended == [12345] and building.interrupted
    assert building.begins_again() and not building.begins_again()
    compiler_process._low_priority.clear()                       # between two of its units
    with background.CALLS.compiling():
        assert not building.interrupted
    assert background.CALLS.listeners.count(launcher._make_room) == 1


@pytest.mark.parametrize("before", [0.0, 0.5, 1000.0])
def test_the_end_waits_for_the_launcher_as_long_as_it_took(monkeypatch: pytest.MonkeyPatch, before: float) -> None:
    """The end waits no longer than the compiler has run already, and never longer than ``LAST_WAIT``."""
    free, begun, ended, building = threading.Event(), threading.Event(), [], launcher._Building()
    monkeypatch.setattr(launcher, "load", lambda: begun.set() or free.wait(60))
    monkeypatch.setattr(launcher.config, "compile_mode", lambda: "now")
    monkeypatch.setattr(launcher.compiler_process, "end_compilers", lambda: ended.append(1) or free.set())
    monkeypatch.setattr(launcher, "LAST_WAIT", 1.0)
    building.thread.start()
    assert begun.wait(60)
    building.begun = time.monotonic() - before
    start = time.monotonic()
    launcher._end(building)
    assert ended and min(before, 1.0) <= time.monotonic() - start
    building.thread.join(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_the_launcher(in_background: None) -> None:  # noqa: F811
    """Which its parent is building still."""
    script = textwrap.dedent("""
        import os, signal
        import hybrid as mx
        from hybrid import nd
        from hybrid.runtime import launcher
        from hybrid.runtime.once import once
        with once("launcher"):                                   # as long as it is not there
            f, x = mx.hybridize(lambda x: nd.tanh(x) * 27), nd.ones((3, 3))
            want = f(x).asnumpy()
            child = os.fork()
            if child == 0:
                signal.alarm(40)
                while not launcher.coming():                         # after some calls it is asked for again
                    assert (f(x).asnumpy() == want).all()
                os._exit(0 if (f(x).asnumpy() == want).all() else 1)
            print(os.waitpid(child, 0)[1], flush=True)
            os._exit(0)
    """)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100,
                         env={**os.environ, "HYBRID_COMPILE": "now"})
    assert ran.stdout == "0\n", ran.stdout + ran.stderr


def test_processes_that_want_the_same_program_build_it_once(in_background: None, monkeypatch: pytest.MonkeyPatch,  # noqa: F811
                                                             tmp_path: Path) -> None:
    """The compiler is asked what it is, and for one program, once by two processes which begin at the same time. They
    wait for the launcher, which is otherwise built beside the program: the end of a process cuts it off, and the other
    process makes it again."""
    log, cc = tmp_path / "log", tmp_path / "cc"
    cc.write_text(f'#!/bin/sh\necho "$@" >> {log}\nsleep 1\nexec {toolchain.compiler()} "$@"\n')
    cc.chmod(0o755)
    script = textwrap.dedent("""
        import hybrid as mx
        from hybrid import nd
        from hybrid.runtime import launcher
        launcher.load()
        mx.hybridize(lambda x: nd.tanh(x) * 8)(nd.ones((3, 3))).asnumpy()
    """)
    env = {**os.environ, "HYBRID_COMPILE": "now", "HYBRID_CC": str(cc)}
    both = [subprocess.Popen([sys.executable, "-c", script], env=env) for _ in range(2)]
    assert [p.wait(100) for p in both] == [0, 0]
    plan, = Path(cache.folder()).glob("plan-*.txt")
    units = re.compile(r"-DHY_UNIT=\d+")
    built = [(name, *units.findall(line)) for line in log.read_text().splitlines() if (name := source_of(line))]
    assert sum(name in plan.read_text() for name, *_ in built) == 1, log.read_text()
    assert len(set(built)) == len(built) > 1, log.read_text()            # the launcher and the pool as well
    assert log.read_text().count("--version") == 1


def source_of(line: str) -> str:
    """The name of the C file of the cache among a compiler's arguments; what flags are tried with is elsewhere."""
    return next((Path(word).stem for word in line.split() if re.fullmatch(r".*/[0-9a-f]{32}\.c", word)), "")


def test_processes_that_compile_build_no_launcher(tmp_path: Path) -> None:
    """Building it would delay the programs that calls wait for."""
    script = textwrap.dedent("""
        import hybrid as mx
        from hybrid import nd
        from hybrid.runtime import launcher
        launcher.prepare = lambda: None                              # nor does this one
        for k in range(2):
            f = mx.hybridize(lambda x: nd.tanh(x) * (k + 31))
            for _ in range(3):
                f(nd.ones((3, 3)))
            f.report()                                               # waits for the compiler
    """)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100, env={
        **os.environ, "HYBRID_COMPILE": "background", "HYBRID_CACHE": str(tmp_path), "HYBRID_WARM": "",
        "HYBRID_VERIFY": "0"})
    texts = [p.read_text() for p in tmp_path.glob("*.c")]
    assert len(texts) >= 2 and not any("PyInit_" in t for t in texts)
