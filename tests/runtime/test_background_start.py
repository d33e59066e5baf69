"""When the process that compiles in the background is started, and what it loads."""
from __future__ import annotations

import _thread
import ast
import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator

import pytest

import hybrid as mx
from hybrid import nd
from hybrid.base import config
from hybrid.jit import first_call
from hybrid.jit.trace import Hybridized
from hybrid.runtime import background, worker, worker_start
from hybrid.runtime.switch_interval import SWITCH_INTERVAL

pytestmark = pytest.mark.skipif(os.environ.get("HYBRID_CC") == "none", reason="needs a compiler")


@pytest.fixture
def in_background(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Programs are compiled in the background, in an empty cache."""
    for name, value in {"HYBRID_CACHE": str(tmp_path / "cache"), "HYBRID_COMPILE": "background", "HYBRID_VERIFY": "0",
                        "HYBRID_DEBUG": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HYBRID_WARM", raising=False)
    background.shut_down()
    yield
    background.shut_down()


def test_a_first_call_has_the_machine_for_itself(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it has answered there is no thread that compiles, no file in the cache, and nothing is asked of its code
    that only a program needs, however long it takes."""
    def fail(*_: Any) -> Any:
        raise AssertionError("not before the first answer")
    seen: list[bool] = []

    def first(x: Any) -> Any:
        time.sleep(0.1)
        seen.append(background.working() or config.cache_dir().exists())
        return nd.tanh(x) * 21
    f = mx.hybridize(first)
    with monkeypatch.context() as m:
        m.setattr(first_call, "note_name", fail)
        m.setattr(Hybridized, "version", fail)
        m.setattr(_thread, "start_new_thread", fail)
        f(nd.ones((3, 3)))
    assert seen == [False]
    f(nd.ones((3, 3)))
    assert background.working()


@pytest.mark.skipif(config.usable_cores() == 1, reason="needs two processors")
def test_its_session_has_a_low_priority() -> None:
    """Linux shares processors out to sessions before it looks at the priorities of their processes."""
    process = background._start()
    try:
        group = Path(f"/proc/{process.pid}/autogroup")
        if not group.exists() or not group.read_text().strip():
            pytest.skip("this system does not group processes by session")
        assert group.read_text().split()[-1] == str(worker.NICE)
    finally:
        process.kill()
        process.communicate()


def test_the_process_loads_only_what_compiles() -> None:
    """It is there sooner without the operators' namespaces, Gluon and all that users need."""
    text = worker_start.CODE.replace("worker.main()", "worker.load(); print([*sys.modules])")
    ran = subprocess.run([sys.executable, "-c", text], input=worker_start.folders(), capture_output=True, text=True,
                         check=True)
    loaded = set(ast.literal_eval(ran.stdout))
    assert "hybrid.runtime.build" in loaded
    assert not loaded & {"hybrid.gluon", "hybrid.nd", "hybrid.buffers.array", "hybrid.runtime.staged", "_hashlib",
                         "difflib"}


def test_a_process_starts_beside_jobs_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """``expect`` starts a process although no job in the queue may begin."""
    started: list[float] = []
    monkeypatch.setattr(background, "_start", lambda: started.append(time.monotonic()))
    monkeypatch.setattr(background.Job, "is_ripe", lambda self: False)
    q = background.Queue()
    q.submit(background.Job("a", lambda: (None, ""), frozenset()))
    time.sleep(0.1)
    assert not started
    q.expect()
    end = time.monotonic() + 20
    while not started and time.monotonic() < end:
        time.sleep(0.01)
    q.close()
    assert started


def test_threads_switch_as_usual_while_a_process_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """They switch more often only until the thread that starts it runs, and while it does short work."""
    before, seen = sys.getswitchinterval(), []
    running, noted = threading.Event(), threading.Event()

    def run(self: background._Compiler) -> None:
        running.set()
        noted.wait(20)
    with monkeypatch.context() as m:
        m.setattr(background._Compiler, "run", run)
        background._Compiler(background.Queue(), at_once=True).start()
        assert running.wait(20)
        assert sys.getswitchinterval() == before
        noted.set()

    def answer() -> str:
        seen.append(sys.getswitchinterval())
        return "key"
    compiler = background._Compiler(background.Queue(), at_once=False)
    pipes: Any = SimpleNamespace(stdin=io.StringIO(), stdout=SimpleNamespace(readline=answer))
    compiler.process = pipes
    assert compiler._compile(background.Job("a", lambda: ("key", "text"), frozenset()))
    assert seen == [before]


@pytest.mark.parametrize("ask", [lambda q, job: q.submit(job), lambda q, job: (q.expect(), q.submit(job))])
def test_where_no_thread_can_be_started_callers_compile(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    before, q, job = sys.getswitchinterval(), background.Queue(), background.Job("a", lambda: (None, ""), frozenset())
    ask(q, job)
    assert job.failed and job.ended.is_set() and not q.has_compilers()
    assert sys.getswitchinterval() == before and not SWITCH_INTERVAL._users
