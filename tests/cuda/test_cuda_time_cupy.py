"""Loops over time on CUDA through CuPy's stand-in, whose driver is asked how many blocks run at once."""
from __future__ import annotations

from typing import Any

import pytest

import hybrid as mx
from hybrid.base.errors import CompileError
from hybrid.codegen.printers.cuda import resident
from hybrid.gluon import rnn
from hybrid.runtime.cuda import cupy_driver

from . import fake_cupy
from .test_cuda_cupy import stand_in  # noqa: F401  a fixture
from .test_cuda_time import IN_ONE, close, filled, forms, made, predicted  # noqa: F401  made is a fixture


@pytest.fixture(autouse=True)
def few_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices are too large for one block."""
    monkeypatch.setattr(resident, "REGISTERS", 12)


def test_values_and_graphs(made: list[Any]) -> None:  # noqa: F811
    """The launch is cooperative when it is launched, and in a graph."""
    want = predicted(rnn.RNN(64, input_size=8), (3, 4, 8), mx.cpu())
    net, arguments = filled(rnn.RNN(64, input_size=8), (3, 4, 8), mx.gpu(0))
    for _ in range(4):
        out, states = net(*arguments)
        close([a.asnumpy() for a in (out, *states)], want, 1e-5)
    assert any(launch.cooperative for launch in made[-1]._launches)
    assert fake_cupy.STATE.graphs > 0


@pytest.mark.parametrize("why", ["few blocks at once", "too much shared memory"])
def test_launches_that_wait_for_nobody_where_they_cannot(why: str, made: list[Any],  # noqa: F811
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    want = predicted(rnn.RNN(64, input_size=8), (3, 4, 8), mx.cpu())
    if why == "few blocks at once":
        monkeypatch.setattr(fake_cupy.CUPY.cuda.driver, "occupancyMaxActiveBlocksPerMultiprocessor", lambda *_: 0)
    else:
        compiled = fake_cupy.compile_for_fake

        def refused(source: str, *given: Any) -> Any:
            if "hy_grid_barrier" in source:
                raise CompileError("ptxas: too much shared data")
            return compiled(source, *given)
        monkeypatch.setattr(cupy_driver.nvrtc, "compile", refused)
    close(predicted(rnn.RNN(64, input_size=8), (3, 4, 8), mx.gpu(0)), want, 1e-5)
    assert not any(launch.cooperative for launch in made[-1]._launches) and IN_ONE not in forms(made)
