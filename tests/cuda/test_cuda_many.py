"""Independent elementwise kernels in one CUDA launch: what may go together, and that together they compute the same."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir, nd, optimizer, runtime
from hybrid.base.device import cpu
from hybrid.ir import Node, Program
from hybrid.passes.memory import in_place_updates
from hybrid.passes.pipeline import plan
from hybrid.runtime.cuda.program import JOINING

from .cuda_tools import orders


def groups(program: Program) -> list[int]:
    """Kernels in each launch."""
    return [len(g.kernels) for g in plan(program, JOINING).groups]


def leaves(*shapes: tuple[int, ...]) -> list[Node]:
    return [ir.input(i, s, "float32") for i, s in enumerate(shapes)]


def test_updates_of_several_arrays_go_together() -> None:
    a, b, c, s = leaves((3, 4), (5,), (2, 2), ())
    assert groups(Program((a, b, c, s), (), ((0, a * s), (1, b - s), (2, c + 1.0)))) == [3]


def test_a_kernel_goes_after_the_one_it_reads() -> None:
    a, b = leaves((4, 6), (6,))
    total = ir.reduce("sum", a, (0, 1))
    assert groups(Program((a, b), (), ((0, a / total), (1, b * 2.0))))[-1] == 1


def test_an_input_is_not_overwritten_beside_its_reader() -> None:
    """The first kernel reads a, the last writes a's new value over it: b's and c's updates may go together, a's goes
    later."""
    a, b, c = leaves((7,), (2, 7), (4,))
    program = Program((a, b, c), (), ((1, b + ir.expand(a, (2, 7))), (2, c * 2.0),
                                      (0, ir.map("exp", ir.map("tanh", a)))))
    assert in_place_updates(plan(program).fused) and sorted(groups(program)) == [1, 2]


@pytest.mark.parametrize("name", ["sgd", "adam", "lamb"])
def test_one_launch_updates_all_parameters(name: str, cuda_device: Any) -> None:
    rng = np.random.RandomState(0)
    shapes = [(3, 5), (5,), (), (0, 2), (300, 7), (7,)]
    start = [np.asarray(rng.randn(*s), "float32") for s in shapes]
    grads = [np.asarray(rng.randn(*s), "float32") for s in shapes]

    def train(ctx: Any) -> tuple[list[np.ndarray], Any]:
        weights = [nd.array(w, ctx=ctx) for w in start]
        updater = optimizer.get_updater(optimizer.create(name, learning_rate=0.1))
        for _ in range(2):
            updater(list(range(len(shapes))), [nd.array(g, ctx=ctx) for g in grads], weights)
        step, = updater._steps.values()
        return [w.asnumpy() for w in weights], step
    want, _ = train(cpu())
    for _ in orders():
        got, step = train(cuda_device)
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    if name != "lamb":                                   # whose lengths are reductions
        assert step.parts[0].exe.report.source.count("__global__") == 1


def test_many_arrays_are_a_few_launches(cuda_device: Any) -> None:
    """A launch has room for some hundred pointers."""
    xs = leaves(*[(3,)] * 600)
    program = Program(tuple(xs), (), tuple((i, x + float(i)) for i, x in enumerate(xs)))
    exe = runtime.compile(program, cuda_device)
    arrays = [nd.zeros((3,), ctx=cuda_device) for _ in xs]
    exe([a._data for a in arrays])
    assert [a.asnumpy().tolist() for a in arrays] == [[float(i)] * 3 for i in range(600)]
    assert exe.report.source.count("__global__") == 3
