"""Which targets take a schedule: each is one definition over primitives, planned, printed and run by every target that
lists it. What stands in the tables of one target alone is listed too, with what the other has in its place."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np
import pytest

from hybrid import ir, runtime
from hybrid.base.device import array_module, cpu, gpu
from hybrid.codegen import c, cuda
from hybrid.codegen.schedule.convolution import WEIGHTS
from hybrid.ir import Node, Program
from hybrid.ir.kernel import Kernel
from hybrid.ops.registry import OPS
from hybrid.passes.differentiate import vjp_program
from hybrid.runtime import build, reference
from hybrid.runtime.cuda.program import planned_for

from ..ir.printed_corpus import machine

Taken = Callable[[list[Kernel], str], bool]           # whether kernels, and their text, have a schedule


@dataclass(frozen=True)
class Schedule:
    """What a schedule is for. taken: by target, whether it was; inputs in frozen slots are parameters. instead: what a
    target that does not list it does, and why."""
    program: Callable[[], Program]
    taken: dict[str, Taken]
    frozen: frozenset[int] = frozenset()
    tolerance: float = 1e-5
    instead: str = ""


def program(make: Callable[..., Node], *shapes: Sequence[int]) -> Program:
    leaves = tuple(ir.input(i, tuple(s), "float32") for i, s in enumerate(shapes))
    return Program(leaves, (make(*leaves),))


def attention() -> Program:
    def make(q: Node, k: Node, v: Node) -> Any:
        scores = OPS["softmax"](OPS["batch_dot"](q, k, transpose_b=True) * 0.2)
        return OPS["batch_dot"](scores, v)
    return program(make, (2, 64, 32), (2, 64, 32), (2, 64, 32))


def convolution(layout: str, *shapes: Sequence[int]) -> Program:
    def make(x: Node, w: Node) -> Any:
        return OPS["Convolution"](x, w, kernel=(3, 3), pad=(1, 1), num_filter=w.shape[0], no_bias=True, layout=layout)
    return program(make, *shapes)


def kinds(*expected: str) -> Taken:
    """One kernel of each of these kinds, and no copies."""
    return lambda kernels, _: tuple(k.kind for k in kernels) == expected and not any(
        m.prim == "permute" for k in kernels for m in k.members)


def over_windows(kernels: list[Kernel], _: str) -> bool:
    """One product whose operand is windows of the image, of which no copy is made."""
    k, = kernels
    return k.kind == "contraction" and any(m.prim == "window" for m in k.members)


def in_parts(kernels: list[Kernel], _: str) -> bool:
    """A product for each part of the depth, and then their sum."""
    first, *others = kernels
    return first.dot is not None and bool(first.dot.attrs["batch"][0]) and {k.kind for k in others} == {"reduction"}


SCHEDULES = {
    "attention": Schedule(attention, {"c": kinds("attention"), "cuda": kinds("attention")}),
    "channels-last convolution": Schedule(lambda: convolution("NHWC", (2, 10, 10, 32), (32, 3, 3, 32)),
                                          {"c": kinds("convolution"), "cuda": kinds("contraction")}, frozenset({1})),
    "weight gradient": Schedule(
        lambda: vjp_program(convolution("NCHW", (2, 32, 10, 10), (32, 32, 3, 3)), (1,)),
        {"c": lambda kernels, _: [k.form in WEIGHTS for k in kernels] == [True], "cuda": over_windows}),
    "split depth": Schedule(lambda: program(lambda a, b: ir.dot(a, b, ((1,), (1,))), (3, 33 << 10), (2, 33 << 10)),
                            {"c": in_parts, "cuda": in_parts}),
    "pipelined rows": Schedule(
        lambda: program(lambda x: OPS["softmax"](x), (40, 200)),
        {"c": lambda kernels, text: [k.form for k in kernels] == ["vectors"] and "t_ < to_" in text},
        instead="while a row waits, a multiprocessor runs warps that have others")}


def test_a_product_of_long_vectors_is_shared_by_blocks(cuda_device: Any) -> None:
    """One warp would walk a million numbers."""
    p = program(lambda a, b: ir.dot(a, b, ((0,), (0,))), (1 << 20,), (1 << 20,))
    first, *others = cuda.print_program(planned_for(p, gpu(0)).groups).launches
    assert first.blocks >= 132 and len(others) == 2


def kernels_of(planned: Any) -> list[Kernel]:
    return [k for g in planned.groups for k in g.kernels]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_taken_by_its_targets(name: str, cuda_device: Any) -> None:
    s = SCHEDULES[name]
    with machine(64):
        planned = build.planned(s.program(), s.frozen)
        text = build.build(planned).source
    assert s.taken["c"](kernels_of(planned), text), [(k.kind, k.form) for k in kernels_of(planned)]
    planned = planned_for(s.program(), gpu(0), s.frozen)
    text = cuda.print_program(planned.groups).source
    assert ("cuda" in s.taken) == (not s.instead)
    if "cuda" in s.taken:
        assert s.taken["cuda"](kernels_of(planned), text), [(k.kind, k.form) for k in kernels_of(planned)]


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_all_targets_compute_the_same(name: str, device: str, cuda_device: Any) -> None:
    """Also those that do something else."""
    s = SCHEDULES[name]
    p, ctx = s.program(), cpu() if device == "cpu" else gpu(0)
    p.memo["frozen"] = s.frozen
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(n.shape).astype("float32") for n in p.inputs]
    expected = reference.run(p, [a.astype("float64") for a in arrays], np)[0]
    xp = array_module(ctx)
    for got, want in zip(runtime.compile(p, ctx)([xp.asarray(a) for a in arrays]), expected, strict=True):
        got = got if isinstance(got, np.ndarray) else got.get()
        np.testing.assert_allclose(got, want, rtol=0, atol=s.tolerance * np.abs(want).max())


# kinds of kernels by target, and what the other one makes of such a program
ALONE = {"c": {"convolution": "a contraction, whose operand is windows",
               "pairs": "elementwise: words of two bytes are a layout of the CPU's products"},
         "cuda": {"contraction": "known by its product (contraction.supported)",
                  "row": "printed in the forms of elementwise kernels and reductions (VECTORS)"}}


def test_both_targets_print_all_kinds() -> None:
    """A kind that one target's table lacks is listed with what it has instead."""
    tables = {"c": set(c.PRINTERS), "cuda": set(cuda.PRINTERS)}
    for target, other in (("c", "cuda"), ("cuda", "c")):
        assert tables[target] - tables[other] == set(ALONE[target]), target
