"""Compilers in the background leave out what prepares values: NumPy computes these at first, and the compiled program
follows when nobody waits."""
from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid import nd
from hybrid.gluon import nn
from hybrid.runtime import background, by_primitives, cpu, recipe, toolchain

from .test_background import in_background, until  # noqa: F401  a fixture
from .test_plans import copied, small

pytestmark = pytest.mark.skipif(toolchain.compiler() is None or os.environ.get("HYBRID_DEVICE", "cpu") != "cpu",
                                reason="needs a C compiler")


def network() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, in_channels=16, padding=1), nn.BatchNorm(in_channels=32), nn.Activation("relu"),
            nn.Conv2D(32, 3, in_channels=32, padding=1), nn.GlobalAvgPool2D(), nn.Dense(5, in_units=32))
    net.initialize(mx.init.Xavier())
    return net


def exe_of(net: Any) -> Any:
    entry, = net._engine.entries.values()
    return entry.exe


def test_values_are_prepared_by_numpy_and_then_by_the_compiled_program(in_background: None) -> None:  # noqa: F811
    net, x = network(), nd.random.normal(shape=(2, 16, 12, 12))
    want = net(x).asnumpy()
    net.hybridize()
    until(lambda: net(x).asnumpy() is not None and net.programs and net.programs[0].state == "compiled")
    plain = exe_of(net).prepare
    assert type(plain) is by_primitives.Preparation and plain.recipe.parts and net.programs[0].background == 1
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-4, atol=1e-5)
    until(lambda: plain._found() is not None)
    assert type(plain._found()) is cpu.CpuProgram
    for p in net.collect_params().values():                          # the compiled one prepares them again
        p.set_data(p.data() * 0.5)
    got = net(x).asnumpy()
    net.hybridize(False)
    np.testing.assert_allclose(got, net(x).asnumpy(), rtol=1e-4, atol=1e-5)


def test_where_callers_wait_all_is_compiled(in_background: None) -> None:  # noqa: F811
    """A recipe that an earlier process left without it is used as it is, or replaced."""
    program, arrays = small()

    def made(mode: str) -> cpu.CpuProgram:
        os.environ["HYBRID_COMPILE"] = mode                          # the fixture sets it back
        return cpu.compiled(copied(program, frozenset({1, 2})))
    with by_primitives.left_out():
        first = made("now")
    again = made("background")
    assert type(first.prepare) is type(again.prepare) is by_primitives.Preparation and again._report is None
    assert recipe.from_text(recipe.to_text(first.recipe)).prepare == first.recipe.prepare
    whole, after = made("now"), made("background")
    assert type(whole.prepare) is type(after.prepare) is cpu.CpuProgram and after._report is None
    bound, other = again.bind([1, 2], arrays[1:]), after.bind([1, 2], arrays[1:])
    assert bound is not None and other is not None
    for got in (again(arrays)[0], bound(arrays[0])[0], after(arrays)[0]):        # type: ignore[index]
        np.testing.assert_array_equal(got, other(arrays[0])[0])                  # type: ignore[index]


def test_of_a_program_for_any_size(in_background: None) -> None:  # noqa: F811
    net = nn.HybridSequential()
    net.add(nn.Dense(64, in_units=48, activation="relu", flatten=False), nn.Dense(8, in_units=64, flatten=False))
    net.initialize()
    net.hybridize(dynamic={"data": {0: "n"}})

    def done() -> bool:
        net(nd.ones((9, 48)))
        return bool(net.programs) and net.programs[0].state == "compiled"
    until(done)
    x = nd.random.normal(shape=(13, 48))
    got = net(x).asnumpy()
    net.hybridize(False)
    np.testing.assert_allclose(got, net(x).asnumpy(), rtol=1e-5, atol=1e-6)


def test_a_job_that_failed_leaves_numpy(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(background._Compiler, "start", lambda self: None)
    program, arrays = small()
    with by_primitives.left_out():
        made = cpu.compiled(copied(program, frozenset({1, 2})))
    want = made(arrays)[0]
    cpu.follow_preparation(copied(program, frozenset({1, 2})), made)
    job, = (j for j in background.queue()._waiting if "whole" in j.around)
    other = background.Job("other", lambda: (None, ""), frozenset())
    other.count(9)
    assert not job.follows and job.last and job.wanted() < other.wanted()
    assert type(made.prepare) is by_primitives.Preparation
    job.end(failed=True)
    np.testing.assert_array_equal(made(arrays)[0], want)
    assert made.prepare._found() is None
