"""Places of values in the arena: none overlaps another that is alive at the same time, working memory lies between
them, and the whole is near the most that is alive at once.
"""
from __future__ import annotations

import numpy as np
import pytest

from hybrid import ir
from hybrid.ir import Program
from hybrid.passes import memory
from hybrid.passes.memory import MemoryPlan, Span
from hybrid.passes.pipeline import plan
from hybrid.runtime import cpu

from ..cpu_kernels import random


def random_spans(seed: int, count: int) -> list[Span]:
    """Values of a network: most are short-lived, sizes differ much."""
    rng = np.random.default_rng(seed)
    return [Span(64 * int(2 ** rng.uniform(0, 10)), i // 2, i // 2 + int(rng.geometric(0.4))) for i in range(count)]


def overlap(a: Span, b: Span) -> bool:
    return a.first <= b.last and b.first <= a.last and a.at < b.at + b.size and b.at < a.at + a.size


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", (1, 3, 17, 65))
def test_places_do_not_overlap(seed: int, count: int) -> None:
    spans = random_spans(seed, count)
    groups = max(s.last for s in spans) + 1
    alive = [sum(s.size for s in spans if s.first <= i <= s.last) for i in range(groups)]
    ends = []
    for order in memory._orders(spans, alive):
        ends.append(memory._place(order))
        assert not any(overlap(a, b) for i, a in enumerate(spans) for b in spans[:i])
        assert max(s.at + s.size for s in spans) == ends[-1] and all(s.at % memory.ALIGN == 0 for s in spans)
    assert max(alive) <= min(ends) <= 1.25 * max(alive)


@pytest.mark.parametrize("seed", range(8))
def test_working_memory_lies_between_values(seed: int) -> None:
    spans = random_spans(seed, 33)
    end = memory._place(sorted(spans, key=lambda s: s.first))
    p = MemoryPlan(arena=end, spans=sorted(spans, key=lambda s: s.at), whole=end)
    for group, nbytes in ((0, 1), (3, 640), (7, 6400), (11, 1 << 20), (2, 0)):
        own = Span(nbytes, group, group, p.room(group, nbytes))
        assert not nbytes or not any(overlap(own, s) for s in spans)
        assert own.at + nbytes <= p.whole
    assert p.room(10**6, 64) == 0                             # nothing is alive there


def test_many_values_have_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MANY", 10)
    assert len(list(memory._orders(random_spans(0, 11),
                                   [0] * 99))) == 1 < len(list(memory._orders(random_spans(0, 10), [0] * 99)))


def chain(sizes: list[int]) -> Program:
    """Products one after another, (4, d) -> (4, next d), and the first result again at the end."""
    leaves = [ir.input(0, (4, sizes[0]), "float32"),
              *(ir.input(i + 1, (a, b), "float32") for i, (a, b) in enumerate(zip(sizes, sizes[1:])))]
    values = [leaves[0]]
    for w in leaves[1:]:
        values.append(ir.map("tanh", ir.dot(values[-1], w, ((1,), (0,)))))
    return Program(tuple(leaves), (ir.reduce("sum", values[-1], (1,)) + ir.reduce("sum", values[1], (1,)),))


@pytest.mark.parametrize("sizes", ([3, 17, 65], [63, 31, 127, 1, 89, 65, 17], [97, 96, 95, 94, 93, 92, 91]),
                         ids=lambda sizes: "-".join(map(str, sizes)))
def test_a_program_stays_at_its_bound_and_right(sizes: list[int]) -> None:
    p = chain(sizes)
    found = plan(p).memory
    assert found.arena <= 1.05 * found.bound
    arrays = [random(*leaf.shape) * 0.3 for leaf in p.inputs]
    exe = cpu.compiled(p)
    for _ in range(2):                                        # an arena that was used before
        values = [arrays[0].astype(np.float64)]
        for w in arrays[1:]:
            values.append(np.tanh(values[-1] @ w))
        np.testing.assert_allclose(exe(arrays)[0], values[-1].sum(1) + values[1].sum(1), rtol=1e-5, atol=1e-5)
