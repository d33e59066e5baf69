"""Threads around compiled programs: several of Python on one network, settings, forks in the middle, errors, Ctrl-C,
the end of the process while others still compute.
"""
from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd
from hybrid.base import config
from hybrid.gluon import nn
from hybrid.runtime.cpu import has_compiler

pytestmark = [pytest.mark.skipif(not has_compiler(), reason="needs a compiler"),
              pytest.mark.skipif(os.environ.get("HYBRID_DEVICE", "").startswith("gpu"), reason="of the CPU's threads")]

WIDE = """
import os, signal, sys, threading, time
import numpy as np
import hybrid as mx
from hybrid import nd
from hybrid.gluon import nn
net = nn.HybridSequential()
net.add(nn.Dense(256, activation="relu", in_units=300), nn.Dense(200, in_units=256))
net.initialize(mx.init.Xavier())
net.hybridize()
x = nd.array(np.random.RandomState(0).randn(128, 300))
wave = mx.hybridize(lambda a: (a.tanh() * a.exp()).sigmoid())
big = nd.array(np.random.RandomState(1).randn(1 << 19))
want, sums = net(x).asnumpy(), wave(big).asnumpy()
def right():
    return np.array_equal(net(x).asnumpy(), want) and np.array_equal(wave(big).asnumpy(), sums)
assert right()
"""


def run(tmp_path: Path, code: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """A process with two threads."""
    (tmp_path / "main.py").write_text(WIDE + code)
    return subprocess.run([sys.executable, "main.py"], cwd=tmp_path,
                          env={**os.environ, "HYBRID_NUM_THREADS": "2", "HYBRID_DEVICE": "cpu", **env},
                          capture_output=True,
                          text=True, check=False, timeout=300)


def done(ran: "subprocess.CompletedProcess[str]") -> None:
    assert ran.returncode == 0 and ran.stdout == "done\n", (ran.returncode, ran.stdout, ran.stderr[-3000:])


def wide() -> tuple[Any, Any]:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, padding=1, in_channels=8), nn.Activation("relu"), nn.MaxPool2D(2),
            nn.Dense(33, in_units=16 * 64))
    net.initialize(mx.init.Xavier())
    return net, nd.array(np.random.default_rng(0).standard_normal((16, 8, 16, 16)).astype("float32"))


def together(*functions: Any) -> None:
    """Run functions in threads of their own; the first error is raised."""
    errors: list[BaseException] = []

    def guarded(f: Any) -> None:
        try:
            f()
        except BaseException as err:
            errors.append(err)
    threads = [threading.Thread(target=guarded, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("threads", ["1", "2", "3", "7", "64"])
def test_results_do_not_depend_on_the_number(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also more threads than cores and than turns of a loop."""
    net, x = wide()
    want = net(x).asnumpy()
    monkeypatch.setenv("HYBRID_NUM_THREADS", threads)
    net.hybridize()
    for _ in range(5):
        np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-5)
    wave = mx.hybridize(lambda a: (a.tanh() * a).sum(axis=1))
    big = nd.array(np.random.default_rng(1).standard_normal((67, 8191)).astype("float32"))
    exact = (np.tanh(big.asnumpy().astype("float64")) * big.asnumpy()).sum(1)
    np.testing.assert_allclose(wave(big).asnumpy(), exact, rtol=1e-5)


@pytest.mark.parametrize("text", ["", "0", "-3", "two", "1.5"], ids=["empty", "zero", "negative", "word", "fraction"])
def test_what_is_no_number_of_threads_is_not_one(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYBRID_NUM_THREADS", raising=False)
    cores = config.num_threads()
    monkeypatch.setenv("HYBRID_NUM_THREADS", text)
    config._number.cache_clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert config.num_threads() == config.num_threads() == cores >= 1
    assert len(seen) == (text != "") and all("HYBRID_NUM_THREADS" in str(w.message)
                                             and "whole number from 1 on" in str(w.message) for w in seen)


@pytest.mark.parametrize("own, openmp, wanted", [
    (None, "3", 3), ("2", "3", 2), (None, "5,2", 5), (None, "", None), (None, "0", None), (None, "all", None)])
def test_openmp_sets_the_number_where_nothing_else_does(own: str | None, openmp: str, wanted: int | None,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYBRID_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = config.num_threads()
    if own is not None:
        monkeypatch.setenv("HYBRID_NUM_THREADS", own)
    monkeypatch.setenv("OMP_NUM_THREADS", openmp)
    assert config.num_threads() == (wanted or cores)


@pytest.mark.parametrize("name, text, ask, default",
                         [("HYBRID_TUNE", "fast", config.tune_seconds, 0.5),
                          ("HYBRID_TUNE", "nan", config.tune_seconds, 0.5),
                                                      ("HYBRID_SIGNATURES", "many", config.signatures, 8),
                                                      ("HYBRID_CACHE_SIZE", "-1", config.cache_bytes, 1024 << 20)])
def test_settings_that_are_no_numbers(name: str, text: str, ask: Callable[[], float], default: float,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    config._number.cache_clear()
    with pytest.warns(RuntimeWarning, match=f"{name}='{text}' is not a"):
        assert ask() == default


LIBRARIES = """
import numpy as np
import hybrid as mx
from hybrid import autograd, nd
from hybrid.gluon import nn
x = nd.random.normal(shape=(4, 3, 64, 64))
for f in (lambda a: nd.Pooling(a, kernel=(3, 3), pool_type="avg"), lambda a: nd.softmax(a), lambda a: nd.sort(a), lambda a: nd.cumsum(a, axis=3), lambda a: a.sum(axis=0)):
    mx.hybridize(f)(x)
net = nn.HybridSequential()
net.add(nn.Conv2D(16, 3), nn.MaxPool2D(), nn.Dense(10))
net.initialize()
net.hybridize()
net(x)
with autograd.record():
    loss = net(x).sum()
loss.backward()
mx.nd.waitall()
assert not [line for line in open("/proc/self/maps") if "libgomp" in line or "libomp" in line]
"""  # noqa: E501


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_programs_bring_their_own_threads() -> None:
    """A loop that waits for others at its end would ask for OpenMP's library, which need not be there and does not know
    of ours."""
    subprocess.run([sys.executable, "-c", LIBRARIES], check=True, env={**os.environ, "HYBRID_NUM_THREADS": "2"})


def test_one_network_in_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first call too, other shapes between, and an error in one thread is that thread's own."""
    monkeypatch.setenv("HYBRID_NUM_THREADS", "2")
    net, x = wide()
    other = nd.array(x.asnumpy()[:5])
    want = [net(a).asnumpy() for a in (x, other)]
    net.hybridize()
    begin = threading.Barrier(6)

    def use() -> None:
        begin.wait()
        for i in range(30):
            np.testing.assert_allclose(net((x, other)[i % 2]).asnumpy(), want[i % 2], rtol=1e-5, atol=1e-5)

    def fail() -> None:
        begin.wait()
        for _ in range(10):
            with pytest.raises(mx.HybridError):
                net(nd.zeros((2, 7, 16, 16)))
    together(*[use] * 5, fail)


def test_the_first_calls_after_a_change_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that find a program new, or its parameters replaced, at the same moment."""
    monkeypatch.setenv("HYBRID_NUM_THREADS", "2")
    net, x = wide()
    want = net(x).asnumpy()
    begin = threading.Barrier(6)

    def use() -> None:
        begin.wait()
        for _ in range(4):
            np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5, atol=1e-5)
    for turn in range(30):
        if turn % 2:
            net.hybridize()
        else:
            for p in net.collect_params().values():
                p.data()._rebind(p.data()._data.copy())
        together(*[use] * 6)


def test_parameters_and_inputs_are_replaced_while_others_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call keeps the arrays it began with: its result is that of one of them, and no memory is read that was given
    back."""
    monkeypatch.setenv("HYBRID_NUM_THREADS", "2")
    wave = mx.hybridize(lambda a: (a.tanh() * a.exp()).sigmoid() + a)
    raw = [np.full(1 << 18, v, "float32") for v in (0.5, 2.0)]
    want = [float(wave(nd.array(r)).asnumpy()[0]) for r in raw]
    x, end = nd.array(raw[0]), threading.Event()

    def replace() -> None:
        for i in range(200):
            x._rebind(raw[i % 2].copy())
        end.set()

    def use() -> None:
        while not end.is_set():
            got = wave(x).asnumpy()
            assert got[0] in want and (got == got[0]).all()
    together(use, use, replace)


def test_training_in_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread trains a network of its own while another infers: the same numbers as alone."""
    monkeypatch.setenv("HYBRID_NUM_THREADS", "2")

    def train(net: Any, x: Any) -> list[np.ndarray]:
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
        for _ in range(5):
            with autograd.record():
                loss = (net(x) ** 2).mean()
            loss.backward()
            trainer.step(1)
        return [p.data().asnumpy() for p in net.collect_params().values()]
    nets = [wide() for _ in range(4)]
    for net, _ in nets[1:]:
        for a, b in zip(net.collect_params().values(), nets[0][0].collect_params().values()):
            a.set_data(b.data())
    for net, _ in nets:
        net.hybridize()
    got: dict[int, list[np.ndarray]] = {}
    together(lambda: got.update({0: train(*nets[0])}))           # alone, in a thread that did nothing before
    together(*[lambda k=k: got.update({k: train(*nets[k])}) for k in (1, 2, 3)])
    for k in (1, 2, 3):
        for a, b in zip(got[k], got[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_forks_in_the_middle(tmp_path: Path) -> None:
    """While other threads are in loops of several threads; children of children too."""
    done(run(tmp_path, """
stop = threading.Event()
def busy():
    while not stop.is_set():
        assert right()
threads = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
for t in threads: t.start()
for attempt in range(15):
    child = os.fork()
    if not child:
        signal.alarm(60)
        good = right()
        if attempt % 5 == 0:
            grandchild = os.fork()
            if not grandchild:
                os._exit(0 if right() else 1)
            good &= os.waitpid(grandchild, 0)[1] == 0
        os._exit(0 if good and right() else 1)
    assert os.waitpid(child, 0)[1] == 0, attempt
stop.set()
for t in threads: t.join()
assert right()
print('done')
"""))


@pytest.mark.parametrize("how", ["returns", "exits", "raises"])
def test_the_end_while_others_compute(how: str, tmp_path: Path) -> None:
    """The process ends while threads of Python and of the pool are within compiled code: as it should, and without a
    crash."""
    code = f"""
def busy():
    while True:
        net(x), wave(big)
for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
time.sleep(0.1)
print('done', flush=True)
{ {'returns': '', 'exits': 'sys.exit(3)', 'raises': 'raise KeyError(5)'}[how] }
"""
    for _ in range(4):
        ran = run(tmp_path, code)
        assert ran.stdout == "done\n" and ran.returncode == {"returns": 0, "exits": 3,
                                                             "raises": 1}[how], (ran.returncode, ran.stderr[-2000:])
        assert ("KeyError" in ran.stderr) == (how == "raises")


def test_ctrl_c_in_the_middle(tmp_path: Path) -> None:
    """It is raised between two calls; what was half done is whole, and the next calls are right."""
    done(run(tmp_path, """
signal.signal(signal.SIGINT, signal.default_int_handler)
caught = 0
def later():
    time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)
for attempt in range(10):
    sender = threading.Thread(target=later)
    try:
        sender.start()
        while True:
            net(x), wave(big)
    except KeyboardInterrupt:
        caught += 1
    sender.join()
    assert right()
assert caught == 10
print('done')
"""))


def test_threads_are_changed(tmp_path: Path) -> None:
    """A new number counts for programs that are compiled from then on; those before keep theirs."""
    done(run(tmp_path, """
def count():
    return len(os.listdir('/proc/self/task')) if os.path.isdir('/proc/self/task') else 0
before = count()
for threads in ('1', '4', '3', 'x', '2'):
    os.environ['HYBRID_NUM_THREADS'] = threads
    fresh = mx.hybridize(lambda a: (a.tanh() * a.exp()).sigmoid())
    assert np.array_equal(fresh(big).asnumpy(), sums) and right()
    if threads == '1':
        assert count() <= before
    if threads == '4' and before:
        assert count() == before + 2, (before, count())
print('done')
""", HYBRID_NUM_THREADS="2"))


def test_loops_leave_cores_to_compilers(tmp_path: Path) -> None:
    """While a process compiles in the background, compiled loops have a thread for each other core; their results are
    the same. A forked process has no such compilers."""
    done(run(tmp_path, """
from hybrid.base import config
from hybrid.runtime import background, threads
pool = threads._shared_pool()
assert pool.hy_pool_most == threads.MOST_THREADS
with background.CALLS.compiling():
    assert pool.hy_pool_most == max(1, config.usable_cores() - 1)
    assert right()
    child = os.fork()
    if not child:
        os._exit(0 if pool.hy_pool_most == threads.MOST_THREADS and right() else 1)
    assert os.waitpid(child, 0)[1] == 0
assert pool.hy_pool_most == threads.MOST_THREADS and right()
print("done")
""", HYBRID_COMPILE="now"))
