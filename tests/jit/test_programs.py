"""``f.programs``: the programs of a function or block, for which calls they are, and how often the compiler ran."""
from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

import hybrid as mx
from hybrid import autograd, nd
from hybrid.gluon import nn
from hybrid.runtime import background, toolchain

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HYBRID_VERIFY", "0")


def test_sizes_guards_and_runs_of_the_compiler() -> None:
    scale = 14.0

    def code(x: nd.NDArray, how: str = "up") -> nd.NDArray:
        return nd.tanh(x) * scale if how == "up" else nd.tanh(x) / scale
    f = mx.hybridize(code)
    assert f.programs == []
    f(nd.ones((3, 3)))
    first, = f.programs
    assert first.sizes == ("float32[3, 3]",) and first.state == "compiled" and "code" in first.name
    assert (first.waited, first.background) == (1, 0)
    f(nd.ones((2, 5)), "down")
    assert len(f.programs) == 2 and f.programs[0] == first
    second = f.programs[1]
    assert second.sizes == ("float32[2, 5]",) and any("'down'" in g for g in second.guards)
    assert any("scale" in g for g in second.guards) and "recording False" in second.guards
    assert f.report().programs == [str(p) for p in f.programs] and "one of 2 programs" in str(f.report())
    again = mx.hybridize(code)
    again(nd.ones((3, 3)))
    assert (again.programs[0].waited, again.programs[0].background) == (0, 0)      # from the disk cache


def test_blocks_and_recorded_calls() -> None:
    class Net(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.programs = ["an attribute of the user's own"]

        def forward(self, x: nd.NDArray) -> nd.NDArray:
            return x * 2
    own = Net()
    own.hybridize()
    own(nd.ones((2,)))
    assert own.programs == ["an attribute of the user's own"]
    net = nn.Dense(3)
    assert net.programs == []
    net.initialize()
    net.hybridize()
    with autograd.record():
        out = net(nd.ones((2, 4)))
    out.backward()
    info, = net.programs
    assert info.sizes == ("float32[2, 4]",) and "recording True" in info.guards and info.state == "compiled"
    assert info.waited == 2                                      # forward and backward


def test_a_program_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", "background")
    monkeypatch.delenv("HYBRID_WARM", raising=False)
    f = mx.hybridize(lambda x: nd.tanh(x) * 15)
    try:
        f(nd.ones((3, 3))), f(nd.ones((3, 3)))
        assert f.programs[0].state in ("waiting", "compiled") and f.programs[0].background == 1
        end = time.monotonic() + 60
        while f.programs[0].state == "waiting":
            assert time.monotonic() < end
            time.sleep(0.05)
        assert (f.programs[0].waited, f.programs[0].background) == (0, 1)
    finally:
        background.shut_down()


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_COMPILE", "never")
    f = mx.hybridize(lambda x: nd.tanh(x) * 16)
    f(nd.ones((3, 3)))
    assert (f.programs[0].state, f.programs[0].waited, f.programs[0].background) == ("not compiled", 0, 0)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_forgotten_programs_leave_the_memory() -> None:
    f = mx.hybridize(lambda x: nd.tanh(x) * 20)
    for size in (2, 3):
        f(nd.ones((size, 7)))
    libraries = [exe.recipe.library for exe in (e.exe for e in f._engine.entries.values())]
    mapped = Path("/proc/self/maps").read_text()
    assert libraries and all(name in mapped for name in libraries)
    f._engine.clear()
    gc.collect()
    mapped = Path("/proc/self/maps").read_text()
    assert not any(name in mapped for name in libraries) and f.programs == []
