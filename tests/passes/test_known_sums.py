"""Sums that follow from others: which do, and that their numbers stay what they are."""
from __future__ import annotations

from typing import Callable

import numpy as np
import pytest

from hybrid import cpu, ir, runtime
from hybrid.passes.differentiate import cotangents
from hybrid.passes.known_sums import known_sums

SHAPE = (6, 5, 4)
COUNT = 30


def centred(x: ir.Node) -> ir.Node:
    return x - ir.reshape(ir.reduce("sum", x, (0, 1)) / COUNT, (1, 1, 4))


def spread(c: ir.Node) -> ir.Node:
    return ir.expand(ir.reshape(c, (1, 1, 4)), SHAPE)


def total(x: ir.Node) -> ir.Node:
    return ir.reduce("sum", x, (0, 1))


def scale(x: ir.Node) -> ir.Node:
    """One by the deviation."""
    c = centred(x)
    return ir.map("rsqrt", total(c * c) / COUNT + 1e-5)


def number(x: ir.Node) -> ir.Node:
    return ir.expand(ir.reshape(ir.reduce("sum", scale(x), (0,)), (1, 1, 1)), SHAPE)


CASES: dict[str, tuple[Callable[[ir.Node, ir.Node], tuple[ir.Node, ...]], bool]] = {
    "with differences from a mean": (lambda g, x: (total(g * spread(scale(x)) + centred(x) * spread(scale(x))),), True),
    "of two factors": (lambda g, x: (total(ir.map("neg", spread(scale(x)) * (g * spread(scale(x)))) - centred(x)),),
                       True),
    "of a factor that is one number": (lambda g, x: (total(g * number(x) + centred(x)),), True),
    "not of a product alone, kept small by a factor": (lambda g, x: (total(g), total(g * spread(scale(x)))), False),
    "not twice the same": (lambda g, x: (total(g), total(g * spread(scale(x)) + g * spread(scale(x)))), False),
    "not of two values, which may cancel out": (lambda g, x: (total(g), total(x), total(g - x)), False),
    "not of differences alone": (lambda g, x: (total(centred(x)),), False),
    "not where nan would be lost": (lambda g, x: (total(g), total(g * 2 + centred(x))), False),
    "not over other axes": (lambda g, x: (ir.reduce("sum", g, (0,)), total(g * spread(scale(x)))), False)}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("broken", [False, True])
def test_case(name: str, broken: bool) -> None:
    """broken: with a nan among the numbers."""
    fn, changes = CASES[name]
    g, x = (ir.input(i, SHAPE, "float32") for i in range(2))
    program = ir.Program((g, x), fn(g, x))
    assert (known_sums(program) is not program) == changes
    arrays = [np.random.default_rng(i).standard_normal(SHAPE).astype(np.float32) for i in range(2)]
    if broken:
        arrays[1][3, 2, 1] = np.nan
    for a, b in zip(runtime.run(known_sums(program), cpu(), arrays), runtime.reference.run(program, arrays, np)[0]):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_gradients_of_batch_normalization() -> None:
    """Of three sums over all elements two are left, and nothing that only the third one read."""
    g, x = (ir.input(i, SHAPE, "float32") for i in range(2))
    beta = ir.input(2, (4,), "float32")
    y = centred(x) * spread(scale(x)) + spread(beta)
    program = known_sums(ir.Program((g, x, beta), tuple(cotangents([y], [g], [x, beta]))))
    of_all = [n for n in program.order() if n.prim == "reduce" and n.args[0].shape == SHAPE]
    backward = [n for n in of_all if g in ir.toposort([n])]
    assert len(backward) == 2
