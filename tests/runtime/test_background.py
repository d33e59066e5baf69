"""Compiling in the background: calls go on without the compiler, with the same results; processes end when they
should."""
from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Iterator

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, ir, nd
from hybrid.base import config
from hybrid.gluon import nn
from hybrid.ir.size import Specialised
from hybrid.runtime import background, blas, calls, compiler_process, cpu, launcher, shared_objects, sized, toolchain
from hybrid.runtime.pending import PendingProgram, run_by_primitives

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="needs a C compiler")


@pytest.fixture
def in_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache, programs compiled in the background."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("HYBRID_CACHE", str(folder))
    monkeypatch.setenv("HYBRID_COMPILE", "background")
    monkeypatch.delenv("HYBRID_WARM", raising=False)
    monkeypatch.setenv("HYBRID_VERIFY", "0")                     # programs whose passes are checked compile at once
    monkeypatch.setattr(background.CALLS, "again", -1e9)
    yield
    background.shut_down()


def until(done: "object", seconds: float = 60.0) -> None:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not done():                                            # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def hold(monkeypatch: pytest.MonkeyPatch) -> list[background.Job]:
    """Jobs are noted and never begun."""
    jobs: list[background.Job] = []
    monkeypatch.setattr(background.Queue, "submit", lambda self, job: jobs.append(job) or job)
    return jobs


def test_calls_do_not_wait_and_switch_over(in_background: None) -> None:
    def code(x):
        return nd.softmax(nd.dot(x, x) / 8, axis=-1)
    f, x = mx.hybridize(code), nd.random.uniform(shape=(32, 32))
    want = code(x).asnumpy()
    np.testing.assert_allclose([f(x).asnumpy(), f(x).asnumpy()], [want, want], rtol=1e-5)
    entry = list(f._engine.entries.values())[0]
    assert type(entry.exe) is PendingProgram or entry.is_compiled()

    def done() -> bool:
        np.testing.assert_allclose(f(x).asnumpy(), want, rtol=1e-5)
        return entry.is_compiled()
    until(done)
    assert type(entry.exe) is cpu.CpuProgram
    for _ in range(3):
        np.testing.assert_allclose(f(x).asnumpy(), want, rtol=1e-5)
    assert f._engine.fast_path[0] is not None                     # the fast path is there


def test_a_report_waits_for_the_compiler(in_background: None) -> None:
    f = mx.hybridize(lambda x: nd.exp(x) + 1)
    f(nd.ones((7, 3)))
    assert f.report().kernels and "exp" in str(f.report())


@pytest.mark.parametrize("how", ["recorded", "step"])
def test_training_goes_over_from_one_to_the_other(in_background: None, how: str) -> None:
    """Losses and parameters are those of eager code, before and after programs are compiled."""
    def make():
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(16, activation="relu"), gluon.nn.BatchNorm(), gluon.nn.Dense(3))
        net.initialize(mx.init.Constant(0.1))
        net(nd.ones((8, 5)))
        for i, p in enumerate(net.collect_params().values()):
            p.set_data(nd.array(np.random.RandomState(i).uniform(-1, 1, p.shape)))
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
        loss = gluon.loss.L2Loss()

        def step(x, y):
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(8)
            return value
        return net, step
    x, y = nd.array(np.random.RandomState(9).uniform(size=(8, 5))), nd.ones((8, 3))
    (eager, eager_step), (net, step) = make(), make()
    if how == "step":
        step = mx.hybridize(step)
    else:
        net.hybridize()
    for _ in range(40):
        np.testing.assert_allclose(step(x, y).asnumpy(), eager_step(x, y).asnumpy(), rtol=2e-4, atol=1e-5)
        time.sleep(0.05)
    for a, b in zip(eager.collect_params().values(), net.collect_params().values()):
        np.testing.assert_allclose(b.data().asnumpy(), a.data().asnumpy(), rtol=2e-3, atol=1e-4)


def test_random_numbers_are_the_same_on_both_sides(in_background: None) -> None:
    f, x = mx.hybridize(lambda x: x + nd.random.uniform(shape=(4, 4))), nd.zeros((4, 4))
    mx.random.seed(3)
    early = [f(x).asnumpy() for _ in range(2)]
    until(lambda: f(x) is not None and list(f._engine.entries.values())[0].is_compiled())
    mx.random.seed(3)
    for a in early:
        np.testing.assert_array_equal(f(x).asnumpy(), a)


def test_equal_programs_are_one_job(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(background._Compiler, "start", lambda self: started.append(self))
    q = background.Queue()
    first = q.submit(background.Job("aa", lambda: ("aa", ""), frozenset()))
    assert q.submit(background.Job("aa", lambda: ("aa", ""), frozenset())) is first and len(started) == 1


def test_the_program_whose_calls_take_most_is_next(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background._Compiler, "start", lambda self: None)      # nobody takes a job
    q = background.Queue()
    jobs = [q.submit(background.Job(f"{i}", lambda: (None, ""), frozenset())) for i in range(3)]
    jobs[0].calls, jobs[1].calls, jobs[2].calls, jobs[2].seconds = 2, 5, 2, 0.5
    assert q.take() is jobs[2] and q.take() is jobs[1] and q.take() is jobs[0]


def test_the_first_calls_run_no_compiler(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to ask what it is, as with an empty cache, nor to compile: that begins when the calls are over."""
    asked: list[tuple[bool, int]] = []
    for known in vars(toolchain).values():
        getattr(known, "cache_clear", lambda: None)()
    real = compiler_process.ask
    monkeypatch.setattr(compiler_process, "ask", lambda *a, **k: asked.append(
        (threading.get_ident() == threading.main_thread().ident, background.CALLS.running)) or real(*a, **k))
    f = mx.hybridize(lambda x: nd.tanh(x) * 21)
    f(nd.ones((3, 3))), f(nd.ones((3, 3)))
    until(lambda: f.programs[0].state == "compiled")
    assert asked and set(asked) == {(False, 0)} and f.programs[0].waited == 0


def test_what_comes_after_a_call_that_came_again_begins(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step is over then; not what was called in it alone, nor what comes much later."""
    def made() -> background.Job:
        return background.Job("", lambda: (None, ""), frozenset())
    one, other = made(), made()
    with background.CALLS.running_call():                                 # no silence
        for job in (one, other):
            with background.CALLS.without_program(job):
                assert not job.is_ripe()
        with background.CALLS.without_program(one):
            assert one.is_ripe() and not other.is_ripe()
        assert made().is_ripe()
        monkeypatch.setattr(background.CALLS, "again", time.monotonic() - calls.LONGEST_CALL)
        assert not made().is_ripe()


def test_compilers_begin_at_once_where_such_a_call_is_known(in_background: None, monkeypatch: pytest.MonkeyPatch
                                                            ) -> None:
    jobs = hold(monkeypatch)
    monkeypatch.setattr(background.Queue, "expect", lambda self: None)                   # no process starts

    def double(x: object) -> object:
        return nd.tanh(x) * 2
    f = mx.hybridize(double)
    f(nd.ones((3, 3)))                                           # plain Python, noted
    assert not jobs
    f(nd.ones((3, 3)))                                           # there may be more
    jobs.clear()
    mx.hybridize(double)(nd.ones((3, 3)))
    job, = jobs
    with background.CALLS.running_call():
        assert job.calls == 1 and job.is_ripe()
    job.end(failed=True)


def test_one_process_where_no_core_is_idle(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[background._Compiler] = []
    monkeypatch.setattr(background._Compiler, "start", lambda self: started.append(self))
    for idle, count in ((1, 1), (3, 3)):
        monkeypatch.setattr(background, "_most", lambda n=idle: n)
        started.clear()
        q = background.Queue()
        for i in range(6):
            q.submit(background.Job(f"{i}", lambda: (None, ""), frozenset()))
        assert len(started) == count


def test_products_of_numpy_leave_compilers_a_core() -> None:
    found = blas._functions()
    if found is None:
        pytest.skip("NumPy multiplies by another library than OpenBLAS")
    job, before = background.Job("x", lambda: (None, ""), frozenset()), found[1]()
    with background.CALLS.without_program(job):
        assert found[1]() == before
        with background.CALLS.compiling():                           # one that starts beside a call
            assert found[1]() == max(1, before - 1)
            with background.CALLS.compiling(), background.CALLS.without_program(job):
                assert found[1]() == max(1, before - 2)
        assert found[1]() == max(1, before - 2)                      # what follows them takes the cores
    assert found[1]() == before
    with background.CALLS.compiling():
        assert found[1]() == before                                  # nothing waits
        with background.CALLS.running_call():                        # a first one, too
            assert found[1]() == max(1, before - 1)
    assert found[1]() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_products_of_a_forked_process_have_all_cores() -> None:
    """Nobody compiles for it, and the calls of other threads are the parent's."""
    calls = background.CALLS

    def counted() -> bool:
        return bool(blas._left[0] or calls._cores_left_free or calls.compilers or calls.running)
    before = calls.running
    try:
        with calls.running_call(), calls.compiling():
            child = os.fork()
            wrong = child == 0 and counted()
            if child:
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                assert calls.compilers == 1 and (blas._functions() is None or blas._left[0] == 1)
    finally:
        if child == 0:                                       # where the calls end in the child, they were not counted
            os._exit(int(wrong or counted()))
    assert calls.running == before


def test_sizes_meet_one_program_for_any_size(in_background: None) -> None:
    """Sizes that come while it is built run at once; those that come later, and those, by the one program."""
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(16, activation="relu", in_units=5), gluon.nn.Dense(3, in_units=16))
    net.initialize(mx.init.Xavier())
    (w, b), (v, c) = [[p.data().asnumpy() for p in layer.collect_params().values()] for layer in net]
    net.hybridize()

    def right(n: int) -> None:
        x = np.random.RandomState(n).uniform(-1, 1, (n, 5)).astype("f")
        want = np.maximum(x @ w.T + b, 0) @ v.T + c
        np.testing.assert_allclose(net(nd.array(x)).asnumpy(), want, rtol=1e-4, atol=1e-5)
    for n in (3, 4, 7, 9):
        right(n)
    assert len(net.programs) == 2 and net.programs[1].waited == 0        # of the first size, of any size
    until(lambda: right(9) is None and net.programs[1].state == "compiled")
    for n in range(2, 30):
        right(n)
    assert len(net.programs) == 1 and net.programs[0].waited == 0        # it serves the first size, too


def test_sizes_whose_one_program_cannot_be_built(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a program of its own then."""
    def cannot(program: object) -> None:
        raise Specialised("a number is needed")
    monkeypatch.setattr(sized, "SizedProgram", cannot)
    f = mx.hybridize(lambda x: nd.tanh(x) * 25)
    for n in (3, 4, 4):
        np.testing.assert_allclose(f(nd.ones((n,))).asnumpy(), 25 * np.tanh(np.ones(n)), rtol=1e-5)
    entry = list(f._engine.entries.values())[-1]
    until(lambda: f(nd.ones((4,))) is not None and type(entry.exe) is cpu.CpuProgram)
    np.testing.assert_allclose(f(nd.ones((4,))).asnumpy(), 25 * np.tanh(np.ones(4)), rtol=1e-5)


def test_threads_meet_a_program_that_becomes_ready(in_background: None) -> None:
    """Each of them has right results before and after, also where the call is refused for its data now and then."""
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 17), nd.random.uniform(shape=(16, 16))
    want, wrong, stop = np.tanh(x.asnumpy()) * 17, [], time.monotonic() + 60

    def work() -> None:
        try:
            while not (f.programs and f.programs[0].state == "compiled"):
                np.testing.assert_allclose(f(x).asnumpy(), want, rtol=1e-5)
                with pytest.raises(Exception):                   # noqa: B017  whatever eager code raises
                    f("no array", x)
                assert time.monotonic() < stop
            np.testing.assert_allclose(f(x).asnumpy(), want, rtol=1e-5)
        except BaseException as err:                             # noqa: BLE001  for the test's own thread
            wrong.append(err)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(90)
    assert not wrong and len(f.programs) == 1 and f.programs[0].background == 1, wrong


def test_an_interrupt_of_the_terminal_does_not_end_the_worker(in_background: None) -> None:
    """Ctrl-C goes to the whole foreground group: the worker has a session of its own, lower priority, and goes on."""
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 18), nd.ones((3, 3))
    f(x), f(x)
    until(lambda: any(c.process is not None for c in background.queue()._compilers))
    worker = next(c.process for c in background.queue()._compilers if c.process is not None)
    assert os.getsid(worker.pid) == worker.pid != os.getsid(0)
    until(lambda: f.programs[0].state == "compiled")
    if config.usable_cores() > 1:
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    os.killpg(worker.pid, signal.SIGINT)
    time.sleep(0.2)
    assert worker.poll() is None
    g = mx.hybridize(lambda x: nd.tanh(x) * 19)
    g(x), g(x)
    until(lambda: g.programs[0].state == "compiled")
    assert worker.poll() is None and g.programs[0].waited == 0   # the same process has made it


def test_a_worker_that_dies_leaves_its_program_to_the_caller(in_background: None) -> None:
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 5), nd.ones((3, 3))
    f(x), f(x)
    until(lambda: any(c.process is not None for c in background.queue()._compilers) or
          list(f._engine.entries.values())[0].is_compiled())
    for c in list(background.queue()._compilers):
        if c.process is not None:
            os.killpg(c.process.pid, signal.SIGKILL)
    until(lambda: f(x) is not None and list(f._engine.entries.values())[0].is_compiled())
    np.testing.assert_allclose(f(x).asnumpy(), np.tanh(np.ones((3, 3))) * 5, rtol=1e-5)


def test_a_program_that_no_worker_can_start_for(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 6), nd.ones((3, 3))
    f(x)
    until(lambda: f(x) is not None and list(f._engine.entries.values())[0].is_compiled())


def test_never_compiles_nothing(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", "never")
    monkeypatch.setattr(shared_objects, "build", lambda *a: pytest.fail("a compiler ran"))
    np.testing.assert_allclose(mx.hybridize(lambda x: nd.exp(x))(nd.zeros((2,))).asnumpy(), [1, 1])
    for name in ("_loaded", "_coming"):                          # as in a process that has no launcher yet
        monkeypatch.setattr(launcher, name, [])
    launcher.prepare()
    assert not launcher._coming


def test_other_words_are_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", "later, please")
    with pytest.warns(RuntimeWarning, match="background, now, never"):
        assert config.compile_mode() == "background"


def test_results_without_a_compiler_share_no_memory() -> None:
    """With inputs or each other, also where the program hands them through, or only reshapes or swaps them."""
    a, b = (ir.input(i, (2, 3), np.float32) for i in range(2))
    s = ir.map("add", a, b)
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)
    outputs = (s, s, ir.reshape(s, (6,)), a, ir.permute(s, (1, 0)), ir.reshape(a, (6,)))
    found = run_by_primitives(ir.Program((a, b), outputs, ((0, b), (1, a))), [x, y], np)
    for i, one in enumerate(found):
        assert one.flags.writeable and not any(np.shares_memory(one, other) for other in [x, y, *found[:i]])
    assert [float(one.ravel()[0]) for one in found] == [3, 3, 3, 1, 3, 1] and x[0, 0] == 2 and y[0, 0] == 1


def test_the_default_does_not_wait(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """But what looks into a program waits for it, as within ``config.at_once``, and so does a deterministic run."""
    monkeypatch.delenv("HYBRID_COMPILE")
    jobs = hold(monkeypatch)
    f, x = mx.hybridize(lambda x: nd.tanh(x) * 23), nd.ones((3, 3))
    f(x), f(x)
    assert len(jobs) == 1 and f.programs[0].state == "waiting"
    jobs[0].end(failed=True)
    with config.at_once():
        assert config.compile_mode() == "now"
        g = mx.hybridize(lambda x: nd.tanh(x) * 24)
        g(x)
    assert g.programs[0].state == "compiled" and len(jobs) == 1
    monkeypatch.setenv("HYBRID_DETERMINISTIC", "1")
    assert config.compile_mode() == "now"


def test_parameters_that_change_after_a_few_calls(in_background: None) -> None:
    """As with validation after each epoch: a program that packs no matrices replaces the first one, and calls do not
    wait for it either."""
    mx.random.seed(0)
    net, x = nn.HybridSequential(), nd.random.normal(shape=(64, 96))
    net.add(nn.Dense(64, activation="relu", in_units=96), nn.Dense(48, in_units=64))
    net.initialize()
    net.hybridize()
    for _ in range(3):
        net(x).wait_to_read()
    net.report()                                                 # waits for the compiler
    for step in range(12):
        for _ in range(3):
            y = net(x)
        assert abs(y - net[1](net[0](x))).max().asscalar() < 1e-5
        net[0].weight.data()[:] *= 1 + step / 100
