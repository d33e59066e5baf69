"""The first call of a compiled signature: the program runs once, and Python's collector waits only while it is traced
and planned."""
from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hybrid.base import collector
from hybrid import nd
from hybrid.gluon import nn
from hybrid.runtime import cpu, launcher, plans, toolchain


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
    np.testing.assert_allclose(net(x).asnumpy(), eager, rtol=1e-6)
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
    env = {**os.environ, "HYBRID_CC": str(slow), "HYBRID_CACHE": str(tmp_path / "cache"),
           "STARTED": str(tmp_path / "started"), "HYBRID_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", FORKS], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "0\n", done.stderr
