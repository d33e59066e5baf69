"""Index expressions: quotients and remainders simplified by ranges are what integer arithmetic gives, and never of
negative numbers."""
from __future__ import annotations

import itertools
import random
from typing import Callable

import pytest

from hybrid.ir.index import Ix, Quot, Rem, Var, div, mod, text, unlinear, var


def value(x: Ix, env: dict[Var, int]) -> int:
    """The expression's value as C computes it: both operands of / and % must not be negative."""
    total = x.const
    for atom, factor in x.terms:
        if isinstance(atom, (Quot, Rem)):
            inner = value(atom.x, env)
            assert inner >= 0, f"{text(x)} divides a negative number"
            total += factor * (inner // atom.d if isinstance(atom, Quot) else inner % atom.d)
        else:
            total += factor * env[atom]                    # type: ignore[index]
    return total


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions(seed: int) -> None:
    rnd = random.Random(seed)
    for _ in range(150):
        vs = [Var(f"v{i}", rnd.choice([2, 3, 4, 5, 6, 8])) for i in range(3)]
        x = Ix(rnd.choice([0, 0, 1, -1, 3, -7, 4]),
               tuple((v, rnd.choice([1, 1, 2, 3, 4, 6, 8, 12, -1, -4])) for v in vs))
        d, e = rnd.choice([2, 3, 4, 6, 8, 12, 24]), rnd.choice([2, 3, 4, 6])
        pairs: list[tuple[Ix, Callable[[int], int]]] = [
            (div(x, d), lambda t: t // d), (mod(x, d), lambda t: t % d), (mod(div(x, d), e), lambda t: t // d % e),
            (div(mod(x, d), e), lambda t: t % d // e), (mod(x * e + 1, d), lambda t: (t * e + 1) % d)]
        for at in itertools.product(*(range(v.extent) for v in vs)):
            env = dict(zip(vs, at))
            t = value(x, env)
            for y, f in pairs:
                assert value(y, env) == f(t), (text(x), d, e, env, text(y))


def test_a_few_lanes_never_cross_a_row() -> None:
    """Elements 4q + j of rows of 12: the row does not depend on j, and the column is j beyond a multiple of 4."""
    q, j = Var("q", 30), Var("j", 4)
    row, column = unlinear(var(q) * 4 + var(j), (10, 12))
    assert row == Ix(0, ((Quot(var(q), 3), 1),))
    assert set(column.terms) == {(Rem(var(q), 3), 4), (j, 1)}
