"""Kernels that are alike are printed once, and only those."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir
from hybrid.codegen import c as printer
from hybrid.codegen.loops import Printed
from hybrid.codegen.program import kernel_likeness
from hybrid.ir import Node, Program
from hybrid.passes.pipeline import plan
from hybrid.runtime import reference
from hybrid.runtime.build import JOINING

from ..programs import normal


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that are printed."""
    names: list[str] = []
    print_kernel = printer.print_kernel

    def noted(k: Any, name: str, target: Any) -> Printed:
        names.append(name)
        return print_kernel(k, name, target)
    monkeypatch.setattr(printer, "print_kernel", noted)
    monkeypatch.setenv("HYBRID_VERIFY", "0")
    return names


def text(p: Program) -> str:
    """The C of a program."""
    planned = plan(p, JOINING)
    return printer.print_program(planned.groups, lambda n: "b[0]", lambda group, nbytes: "b[1]", 32)[0]


def layers(x: Node, weights: list[Node]) -> Node:
    """Layers with what comes before the next one's product stored."""
    for w in weights:
        x = ir.map("relu", ir.dot(x, w, ((1,), (0,)))) + x
    return x


def program(count: int, width: int = 24) -> Program:
    x, *weights = (ir.input(i, (7, width) if i == 0 else (width, width), "float32") for i in range(count + 1))
    return Program((x, *weights), (layers(x, weights),))


def test_layers_that_repeat_are_printed_once(counted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    once = text(program(16))
    assert len(counted) < 9                                  # the first ones differ in what is before them
    monkeypatch.setattr(printer, "printed_once",
                        lambda kernels, one: [one(team, k, f"k{k.number}") for team, k in kernels])
    assert text(program(16)) == once


def test_each_has_its_own_values_and_its_form() -> None:
    from hybrid.runtime.cpu import CpuProgram  # noqa: PLC0415
    p = program(9)
    arrays = [normal(*n.shape) * np.float32(0.2) for n in p.inputs]
    exe = CpuProgram(plan(p, JOINING))
    np.testing.assert_allclose(exe(arrays)[0], reference.run(p, arrays, np)[0][0], rtol=1e-4, atol=1e-5)
    kernels = [k for k in exe.report.kernels if k.kind == "contraction"]
    assert len(kernels) == 9 and len({k.form for k in kernels}) == 1


def key(n: Node, team: bool = False) -> Any:
    """The key of the kernel that stores a value."""
    read = {x.attrs["slot"]: x for x in ir.toposort([n]) if x.prim == "input"}
    planned = plan(Program(tuple(read.get(i) or leaf(i, 1) for i in range(max(read) + 1)), (n,)))
    kernel, = (k for k in planned.fused.kernels if k.root is n)
    return kernel_likeness.Likeness(kernel, team).key


def leaf(slot: int, *shape: int, dtype: str = "float32") -> Node:
    return ir.input(slot, shape, dtype)


def test_what_kernels_are_alike_in() -> None:
    a, b, other = leaf(0, 6, 40), leaf(1, 6, 40), leaf(2, 6, 41)
    assert key(ir.map("exp", a) * 2) == key(ir.map("exp", b) * 2)
    assert key(a + b) != key(a + a)
    assert key(a - b) == key(b - a)                          # the same of other values
    different = [ir.map("exp", a) * 2, ir.map("exp", a) * 3, ir.map("exp", other) * 2, ir.map("log", a) * 2,
                 ir.map("exp", leaf(0, 6, 40, dtype="float64")) * 2, ir.permute(ir.map("exp", a), (1, 0)) * 2]
    assert len({key(n) for n in different}) == len(different)
    assert key(a + b) != key(a + b, True)


def test_what_is_before_a_kernel_counts() -> None:
    """A product leaves out zeros behind a ReLU, and only there."""
    def last(fn: str) -> Any:
        x = ir.dot(ir.map(fn, ir.dot(leaf(0, 64, 64), leaf(1, 64, 64), ((1,), (0,)))), leaf(2, 64, 64), ((1,), (0,)))
        return key(x)
    assert last("relu") != last("tanh")


def test_what_is_far_before_a_kernel_counts() -> None:
    """Zeros stay zeros through any number of reshapes."""
    def last(fn: str) -> Any:
        x = ir.map(fn, leaf(0, 64, 64))
        for i in range(kernel_likeness.NEAR + 3):
            x = ir.map("mul", x, leaf(1 + i, 64, 64))
        return key(ir.dot(x, leaf(40, 64, 64), ((1,), (0,))))
    assert last("relu") != last("tanh")


def updates(count: int) -> Program:
    """Weights less their gradients times a rate of their own, and times one that all share."""
    rates = ir.input(0, (1 + count,), "float64")
    leaves, new = [rates], []
    for k in range(count):
        w, g = (ir.input(1 + 2 * k + i, (40, 30), "float32") for i in range(2))
        both = [ir.cast(ir.reshape(ir.slice(rates, (at,), (1,)), ()), "float32") for at in (0, 1 + k)]
        new.append((1 + 2 * k, w - g * both[0] * both[1]))
        leaves += [w, g]
    return Program(tuple(leaves), (), tuple(new))


def test_numbers_in_other_places_are_written_into_the_text(counted: list[str], monkeypatch: pytest.MonkeyPatch
                                                           ) -> None:
    from hybrid.runtime.cpu import CpuProgram  # noqa: PLC0415
    p = updates(7)
    once = text(p)
    assert len(counted) == 1
    monkeypatch.setattr(printer, "printed_once",
                        lambda kernels, one: [one(team, k, f"k{k.number}") for team, k in kernels])
    assert text(p) == once
    monkeypatch.undo()
    arrays = [np.arange(1, 9) * 0.5, *(normal(40, 30) for _ in range(14))]
    wanted = reference.run(p, arrays, np)[1]
    CpuProgram(plan(p, JOINING))(arrays)
    for (slot, _), value in zip(p.updates, wanted):
        np.testing.assert_allclose(arrays[slot], value, rtol=1e-5, atol=1e-6)


def test_an_array_that_is_also_read_as_a_whole_keeps_its_text(counted: list[str]) -> None:
    rates = ir.input(0, (40,), "float32")
    x = [ir.input(1 + k, (40,), "float32") for k in range(3)]
    out = [v * rates * ir.expand(ir.slice(rates, (k,), (1,)), (40,)) for k, v in enumerate(x)]
    text(Program((rates, *x), tuple(out)))
    assert len(counted) == 3
