"""The first call: plain Python where compilers work in the background; of a compiled signature, the program runs once,
and Python's collector waits only while it is traced and planned."""
from __future__ import annotations

import gc
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base import collector, config
from hybrid.gluon import nn
from hybrid.jit import first_call, trace
from hybrid.runtime import background, cache, calls, cpu, launcher, plans, toolchain

from ..runtime.test_background import hold, in_background, until  # noqa: F401  a fixture


def test_the_program_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    call = cpu.Bound.__call__

    def counted(self: cpu.Bound, *arrays: np.ndarray) -> Any:
        runs.append(1)
        return call(self, *arrays)
    monkeypatch.setattr(cpu.Bound, "__call__", counted)
    net = nn.Dense(3, in_units=4)
    net.initialize()
    x = nd.array([[1.0, 2.0, 3.0, 4.0]])
    eager = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-6, atol=1e-6)
    assert len(runs) == 1


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_the_collector_is_as_it_was(enabled: bool) -> None:
    @collector.waits
    def outer(fails: bool) -> bool:
        try:
            inner(fails)
        except ValueError:
            pass
        return gc.isenabled()

    @collector.waits
    def inner(fails: bool) -> None:
        if fails:
            raise ValueError
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        for fails in (False, True):
            assert outer(fails) is False and gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_collects() -> None:
    @collector.waits
    def status() -> int:
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        return os.waitpid(child, 0)[1]
    before = gc.isenabled()
    gc.enable()
    try:
        assert status() == 0 and gc.isenabled()
    finally:
        if not before:
            gc.disable()


def test_no_thread_for_a_launcher_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread would hold the interpreter's lock while the first program is found."""
    # an earlier test may have loaded it from a cache of its own
    monkeypatch.setattr(launcher, "_loaded", [])
    if launcher.load() is None:
        pytest.skip("no launcher here")
    assert plans.known("launcher") is not None and plans.known("no such library") is None
    monkeypatch.setattr(launcher, "_loaded", [])
    monkeypatch.setattr(launcher.threading, "Thread", None)
    launcher.prepare()
    assert launcher.load() is not None


SLOW = """
import sys, time
from hybrid.runtime import launcher
launcher.LAST_WAIT = 0.1
launcher.load = lambda: time.sleep(300)
launcher.prepare()
assert launcher.coming()
"""


def test_the_end_of_a_process_waits_for_no_slow_compiler(tmp_path: Path) -> None:
    """A launcher is compiled with low priority: on a busy machine that takes long."""
    (tmp_path / "cache").mkdir(mode=0o700)
    environment = {**os.environ, "HYBRID_CACHE": str(tmp_path / "cache"), "HYBRID_WARM": ""}
    subprocess.run([sys.executable, "-c", SLOW], env=environment, check=True, timeout=200)


FORKS = """
import os, threading, time
import hybrid as mx
from hybrid import nd
f, x = mx.hybridize(lambda x: (x * 2 + 1).sum(axis=1)), nd.ones((3, 4))
first = threading.Thread(target=lambda: f(x))
first.start()
while not os.path.exists(os.environ["STARTED"]):
    time.sleep(0.01)
child = os.fork()
if not child:
    os._exit(0 if f(x).asnumpy().tolist() == mx.hybridize(lambda x: x * 12)(nd.ones(3)).asnumpy().tolist() else 1)
print(os.waitpid(child, 0)[1])
first.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork") or os.environ.get("HYBRID_CC") == "none" or toolchain.compiler() is None,
                    reason="needs fork and a compiler")
def test_a_fork_while_another_thread_compiles(tmp_path: Path) -> None:
    """The child compiles for itself: it does not wait for a thread that it has not."""
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\ncase \"$*\" in *net.so*) touch {tmp_path}/started; sleep 1;; esac\nexec "
                    f"{toolchain.compiler()} \"$@\"\n")
    slow.chmod(0o700)
    env = {**os.environ, "HYBRID_WARM": "", "HYBRID_CC": str(slow), "HYBRID_CACHE": str(tmp_path / "cache"),
           "STARTED": str(tmp_path / "started"), "HYBRID_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", FORKS], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "0\n", done.stderr


# ---- where compilers work in the background
@pytest.fixture
def short_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any call is long enough for a note."""
    monkeypatch.setattr(first_call, "LONG", 0.0)


def test_short_calls_that_are_made_once_are_plain_python_in_all_processes(in_background: None,  # noqa: F811
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """A later process traces a first call that took long in an earlier one, or that was made twice there."""
    def code(x: Any) -> Any:
        return nd.tanh(x) * 41

    def programs(size: int, calls: int = 1) -> int:
        f = mx.hybridize(code)
        for _ in range(calls):
            f(nd.ones((size,)))
        return len(f.programs)
    assert [programs(3) for _ in range(3)] == [0, 0, 0]
    assert [programs(4), programs(4, 2), programs(4)] == [0, 1, 1]
    monkeypatch.setattr(first_call, "LONG", 0.0)
    assert [programs(3) for _ in range(3)] == [0, 1, 1]


def test_the_first_call_is_plain_python(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The second is traced, and later ones are the program's."""
    traced: list[int] = []
    run = trace.run_traced
    monkeypatch.setattr(trace, "run_traced", lambda *a: traced.append(1) or run(*a))
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 31), nd.array([1.0, 2.0])
    for times in (0, 1, 1):
        np.testing.assert_allclose(f(x).asnumpy(), np.tanh([1.0, 2.0]) * 31, rtol=1e-6)
        assert len(traced) == len(f.programs) == times


def test_a_refusal_comes_at_the_second_call_and_then_at_the_first(in_background: None) -> None:  # noqa: F811
    """A later process, as one that hybridizes the same code again, traces at once. What eager code refuses is refused
    at once, and does not count."""
    def code(x: Any, y: Any) -> Any:
        return x + y if x.sum() > 0 else x - y
    f, x = mx.hybridize(code), nd.ones((3,))
    with pytest.raises(mx.HybridError, match="shape"):
        f(x, nd.ones((4,)))
    np.testing.assert_array_equal(f(x, x).asnumpy(), [2, 2, 2])
    line = code.__code__.co_firstlineno + 1
    for g in (f, mx.hybridize(code)):
        with pytest.raises(mx.HybridError, match=rf"{Path(__file__).name}:{line}: this `if` needs the value"):
            g(x, x)


def test_a_note_is_of_code_and_of_arguments(in_background: None, short_ones_too: None) -> None:  # noqa: F811
    def made(times: int) -> Any:
        net = nn.HybridSequential()
        net.add(*[nn.Dense(3) for _ in range(times)])
        net.initialize()
        net.hybridize()
        return net
    x = nd.ones((2, 3))
    for net, given, programs in ((made(1), x, 0), (made(1), x, 1), (made(2), x, 0), (made(1), nd.ones((5, 3)), 0),
                                 (made(1), x.astype("float64").astype("float32"), 1)):
        net(given)
        assert len(net.programs) == programs


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("kept", [True, False], ids=["array kept", "array gone"])
def test_a_report_after_the_first_call(in_background: None, recorded: bool, kept: bool) -> None:  # noqa: F811
    """It traces that call."""
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 33), nd.ones((3, 4))
    with autograd.record() if recorded else nullcontext():
        f(x)
    if not kept:
        del x
    assert "tanh[3, 4]" in str(f.report()) and len(f.programs) == 1
    assert "recording " + str(recorded) in f.programs[0].guards


def test_what_is_traced_at_once(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Other libraries' arrays, which the code may write into; sizes and precision that were asked for; where a caller
    waits for the compiler."""
    def programs(x: Any, **options: Any) -> int:
        f = mx.hybridize(lambda x: nd.tanh(x) * 34, **options)
        f(x)
        return len(f.programs)
    monkeypatch.setattr(first_call, "note_name", lambda *_: None)                     # no note
    assert programs(np.ones((2, 3), "float32")) == programs(nd.ones((2, 3)), dynamic={"x": {0: "n"}}) == 1
    assert programs(nd.ones((2, 3)), dynamic=False) == 0
    with config.at_once():
        assert programs(nd.ones((2, 3))) == 1


def test_compilers_begin_with_the_second_call(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    jobs, x = hold(monkeypatch), nd.ones((3, 3))
    f = mx.hybridize(lambda x: nd.tanh(x) * 35)
    f(x)
    assert not jobs
    f(x)
    assert len(jobs) == 1 and jobs[0].is_ripe()


def test_compilers_begin_at_once_where_a_process_made_two_calls(in_background: None, short_ones_too: None,  # noqa: F811
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """A later process that traces its first call leaves compilers to other programs, if no process made two of its
    kind."""
    jobs = hold(monkeypatch)
    monkeypatch.setattr(background.Job, "is_silent", lambda self: False)
    monkeypatch.setattr(background.Queue, "expect", lambda self: None)        # no process starts

    def new_process(layers: int) -> Any:
        jobs.clear()
        background.CALLS.again = -calls.LONGEST_CALL
        net = nn.HybridSequential()
        net.add(*[nn.Dense(3, in_units=3) for _ in range(layers)])
        net.initialize()
        net.hybridize()
        return net
    x = nd.ones((3, 3))
    for _ in range(2):                                   # the second time it is traced, and recorded calls follow
        f = new_process(1)
        f(x)
        assert not any(job.is_ripe() for job in jobs)
        with autograd.record():
            f(x)
    f = new_process(1)
    f(x)
    assert len(jobs) == 1 and not jobs[0].is_ripe()
    f = new_process(2)
    f(x)
    f(x)
    new_process(2)(x)
    assert len(jobs) == 1 and jobs[0].is_ripe()


def test_notes_are_written_after_the_first_answer(in_background: None, short_ones_too: None) -> None:  # noqa: F811
    """With the second call, or when the process ends; another function of the same code knows of them before."""
    def code(x: Any) -> Any:
        return nd.tanh(x) * 37

    def notes(kind: str) -> int:
        return len([*cache.folder().glob(f"{kind}-*.txt")])
    f, x = mx.hybridize(code), nd.ones((3,))
    f(x)
    g = mx.hybridize(code)
    g(x)
    assert notes("call") == notes("twice") == len(f.programs) == 0 and len(g.programs) == 1
    f(x)
    assert notes("call") == notes("twice") == 1
    mx.hybridize(lambda x: nd.tanh(x) * 38)(x)
    first_call._write_notes()                            # as at the end of a process
    assert notes("call") == 2 and notes("twice") == 1 and not first_call._unwritten


def test_code_that_looks_at_its_caller_is_refused_at_once(in_background: None) -> None:  # noqa: F811
    """As plain Python it would see a frame of the library."""
    @mx.hybridize
    def f(x: Any) -> Any:
        return x * (2 if sys._getframe(1).f_code.co_name == "test" else 3)
    with pytest.raises(mx.HybridError, match="looks at the code that called it"):
        f(nd.ones((2,)))


def test_a_program_that_only_the_first_call_used_comes_last(in_background: None,  # noqa: F811
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """A training step's first call is plain Python, and its optimizer's update a program of its own, which the compiled
    step has no use for."""
    jobs: dict[str, background.Job] = {}
    net = gluon.nn.Dense(3, in_units=4)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    real = background.Queue.submit
    monkeypatch.setattr(background._Compiler, "start", lambda self: None)      # nobody takes a job
    monkeypatch.setattr(background.Queue, "submit", lambda self, job: jobs.setdefault(job.name, real(self, job)))

    @mx.hybridize
    def step(x):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(1)
        return loss
    for _ in range(2):
        step(nd.ones((2, 4)))
    first, *_, last = jobs.values()
    first.seconds = 1.0
    monkeypatch.setattr(background.Job, "is_silent", lambda self: False)
    assert len(jobs) > 1 and not first.is_ripe() and last.is_ripe() and background.queue().take() is last


def test_nothing_is_silent_while_code_is_traced_or_runs_plainly(in_background: None,  # noqa: F811
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    running = []
    monkeypatch.setattr(background._Compiler, "start", lambda self: None)

    @mx.hybridize
    def f(x):
        running.append(background.CALLS.running)
        return nd.tanh(x) * 22
    for _ in range(2):
        f(nd.ones((2, 2)))
    assert running == [1, 1] and not background.CALLS.running and background.queue().has_compilers()


def test_no_process_starts_where_there_is_no_compiler(in_background: None,  # noqa: F811
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(background, "_start", lambda: started.append(1))
    monkeypatch.setattr(toolchain, "found_compiler", lambda: None)
    monkeypatch.setattr(toolchain, "warned", [True])
    f = mx.hybridize(lambda x: nd.tanh(x) * 23)
    for _ in range(3):
        np.testing.assert_allclose(f(nd.ones((2, 2))).asnumpy(), np.full((2, 2), np.tanh(1) * 23), rtol=1e-6)
    until(lambda: not background.working())
    assert not started
