"""The profiler: compiled programs kernel by kernel, as a table and as a trace that Perfetto and Chrome read."""
from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import autograd, gluon, nd, profiler
from hybrid.gluon import nn
from hybrid.runtime import background
from hybrid.runtime.observers import OBSERVERS


def profiled(call: Any, path: Path) -> tuple[list[dict[str, Any]], str]:
    """Events of a profiled call, and the table."""
    profiler.set_config(filename=str(path / "p.json"))
    profiler.dumps(reset=True)
    profiler.set_state("run")
    try:
        call()
    finally:
        profiler.set_state("stop")
    table = profiler.dumps()
    profiler.dump()
    profiler.dumps(reset=True)
    return json.loads((path / "p.json").read_text())["traceEvents"], table


def test_kernels_of_a_training_step(tmp_path: Path) -> None:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(32, activation="relu", in_units=8), nn.Dense(4, in_units=32))
    net.initialize()
    net.hybridize()
    x = nd.array(np.random.RandomState(0).randn(16, 8))
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    want = net(x).asnumpy()

    def step() -> None:
        assert np.allclose(net(x).asnumpy(), want, 1e-5, 1e-6)
        with autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        trainer.step(1)
    events, table = profiled(step, tmp_path)
    programs = [e for e in events if e.get("cat") == "program"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert [e["name"] for e in programs if e["name"].endswith("net")] == ["net", "net", "gradient of net"]
    first = programs[0]
    inner = [e for e in kernels if first["ts"] <= e["ts"] and e["ts"] + e["dur"] <= first["ts"] + first["dur"] + 1]
    assert [e["name"] for e in inner] == ["net: k0 dot add relu", "net: k1 dot add"]
    assert inner[0]["args"]["reads"] and inner[0]["args"]["lines"] and all(e["dur"] > 0 for e in inner)
    assert any("test_profiler.py" in line for line in inner[0]["args"]["lines"])
    ends = [e["ts"] + e["dur"] for e in inner]
    assert all(b["ts"] >= a - 1e-3 for a, b in zip(ends, inner[1:]))             # one after another, as Perfetto wants
    assert "net: k0 dot add relu" in table and "gradient of net" in table and "SGD" in table
    assert any(e["ph"] == "M" and e["name"] == "process_name" for e in events)


def test_calls_are_as_they_were_afterwards(tmp_path: Path) -> None:
    f, x = mx.hybridize(lambda x: nd.softmax(x) * 3), nd.ones((4, 5))
    f(x)
    f(x)
    events, _ = profiled(lambda: (f(x), f(x)), tmp_path)
    assert len([e for e in events if e.get("cat") == "program"]) == 2 and not OBSERVERS
    for _ in range(70):
        f(x)
    assert f._fast_path[0] is not None and f._fast_path[0](x) is not None         # the fast path is laid again
    assert len(f.cache_misses) == 1


def test_kernels_in_blocks_of_the_batch_and_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_NUM_THREADS", "2")
    net = nn.HybridSequential(prefix="big_")
    with net.name_scope():
        net.add(nn.Conv2D(16, 3, padding=1, in_channels=8, activation="relu"),
                nn.Conv2D(16, 3, padding=1, in_channels=16, activation="relu"))
    net.initialize()
    net.hybridize()
    x = nd.array(np.random.RandomState(0).randn(16, 8, 48, 48))
    want = net(x).asnumpy()
    got: list[Any] = []
    events, _ = profiled(lambda: got.append(net(x).asnumpy()), tmp_path)
    assert np.allclose(got[0], want, 1e-4, 1e-4)
    whole, = [e for e in events if e.get("cat") == "program" and e["name"] == "big"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert kernels and sum(e["dur"] for e in kernels) <= whole["dur"] * 1.001
    assert sum(e["dur"] for e in kernels) > whole["dur"] * 0.3


def test_what_has_no_kernels_is_shown_as_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", "never")
    f = mx.hybridize(lambda x: nd.tanh(x) * 7)
    x = nd.ones((2, 2))
    events, _ = profiled(lambda: f(x), tmp_path)
    assert [e["cat"] for e in events if e["ph"] == "X"] == ["program"]


def test_a_program_that_waits_for_the_compiler_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HYBRID_COMPILE", "background")
    monkeypatch.setenv("HYBRID_VERIFY", "0")                     # programs whose passes are checked compile at once
    f = mx.hybridize(lambda x: nd.tanh(x) * 7.5)
    x = nd.ones((2, 2))
    try:
        for _ in range(2):
            f(x)
        events, _ = profiled(lambda: f(x), tmp_path)
    finally:
        background.shut_down()
    assert [e["cat"] for e in events if e["ph"] == "X"] == ["program", "kernel"]


def test_threads_are_told_apart_by_numbers_that_perfetto_reads(tmp_path: Path) -> None:
    """Its reader takes numbers of 32 bits; others would put the events of all threads into one row."""
    def call() -> None:
        other = threading.Thread(target=lambda: nd.ones((2,)) * 3, name="another")
        other.start()
        other.join()
        nd.ones((2,)) * 2
    events, _ = profiled(call, tmp_path)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {names[e["pid"], e["tid"]] for e in events if e["ph"] == "X"} == {"another", threading.current_thread().name}
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["hybrid"]
    assert all(0 < e[k] < 2 ** 32 for e in events for k in ("pid", "tid"))


def test_an_unknown_state() -> None:
    with pytest.raises(KeyError, match="takes 'run' or 'stop', got 'go'"):
        profiler.set_state("go")
