"""Independent kernels of a C program that run together: one multi-tensor kernel, any number of threads, the same
values."""
from __future__ import annotations

import numpy as np
import pytest

from hybrid import ir, nd, optimizer, runtime
from hybrid.base.device import cpu
from hybrid.ir import Node, Program
from hybrid.passes import horizontal_fusion
from hybrid.passes.pipeline import plan
from hybrid.runtime.build import JOINING
from hybrid.runtime.cpu import CpuProgram

SHAPES = [(), (1,), (1, 5), (7,), (0, 3), (601, 211), (1, 4099), (64, 3, 3, 3), (2, 1)]


def programs() -> dict[str, tuple[Program, list[np.ndarray]]]:
    """Updates of arrays of all shapes: plain and heavy functions, and reductions, each written over what it reads."""
    rng = np.random.RandomState(0)
    arrays = [rng.uniform(0.5, 1.5, s).astype("float32") for s in SHAPES]
    xs = [ir.input(i, s, "float32") for i, s in enumerate(SHAPES)]

    def updates(*values: Node) -> Program:
        return Program(tuple(xs), (), tuple(enumerate(values)))
    return {"plain": (updates(*[x * x + 1.0 for x in xs]), arrays),
            "heavy": (updates(*[ir.map("tanh", x) * ir.map("exp", x) for x in xs]), arrays),
            "sums": (updates(*[x + ir.expand(ir.reduce("sum", x, (x.ndim - 1,)), x.shape) if x.ndim == 1 else x * 3.0
                               for x in xs]), arrays)}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", programs())
def test_a_team_computes_the_same(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place: an element that two threads update would be updated twice."""
    monkeypatch.setenv("HYBRID_NUM_THREADS", str(threads))
    program, arrays = programs()[name]
    _, want = runtime.reference.run(program, arrays, np)
    exe = CpuProgram(plan(program, JOINING))
    if name != "sums":
        assert ([k.kind for k in exe.report.kernels] == ["multi-tensor"]
                and "#pragma omp parallel num_threads" in exe.report.source)
    got = [a.copy() for a in arrays]
    exe(got)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "nag", "adam", "adamw", "adagrad", "adadelta", "rmsprop", "adamax", "nadam",
                                  "ftrl", "ftml", "signum", "sgld", "lars", "lamb"])
def test_an_update_is_one_kernel_not_one_a_parameter(name: str) -> None:
    """Two, where all of a parameter must be known before it changes, or a value is needed at two places."""
    weights = [nd.ones((n, 3)) for n in range(1, 9)]
    updater = optimizer.get_updater(optimizer.create(name, learning_rate=0.1))
    updater(list(range(len(weights))), [w * 0.5 for w in weights], weights)
    step, = updater._steps.values()
    kernels = step.parts[0].exe.report.kernels
    assert len(kernels) <= (2 if name in ("adadelta", "lamb", "lars") else 1), [k.kind for k in kernels]


def test_values_between_kernels_of_a_group_are_few() -> None:
    """Kernels that run together keep their intermediate values at the same time, so long ones do not run together."""
    xs = [ir.input(i, (1000, 50), "float32") for i in range(4)]
    program = Program(tuple(xs), tuple(ir.reduce("sum", ir.map("exp", ir.concat([x, x], 0)), (0, 1)) for x in xs))
    alone, joined = plan(program), plan(program, JOINING)
    assert joined.memory.arena <= alone.memory.arena + horizontal_fusion.MOST_ARENA
    want = runtime.compile(program, cpu())
    arrays = [np.full((1000, 50), 0.1 * i, "float32") for i in range(4)]
    for a, b in zip(want(arrays), CpuProgram(alone)(arrays)):
        np.testing.assert_allclose(a, b, rtol=1e-4)      # a plan made by hand sums in one chain, without chunks
