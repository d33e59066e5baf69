"""Passes over thousands of kernels: what they keep at hand gives what looking at everything gives."""
from __future__ import annotations

import random
import sys
from typing import Callable

import pytest

from hybrid import ir
from hybrid.ir import Program
from hybrid.passes.fuse import fuse
from hybrid.passes.memory import MemoryPlan, Span, _place, _place_by_time
from hybrid.passes.pipeline import plan
from hybrid.passes.horizontal_fusion import Group, Joining, together


def spans(seed: int) -> list[Span]:
    rng = random.Random(seed)
    out = []
    for _ in range(rng.choice((1, 7, 60, 200))):
        first = rng.randrange(80)
        out.append(Span(64 * rng.choice((1, 1, 2, 5, 40)), first, first + rng.choice((0, 1, 3, 30))))
    return sorted(out, key=lambda s: s.first)


@pytest.mark.parametrize("seed", range(40))
def test_gaps_give_the_lowest_places(seed: int) -> None:
    every = spans(seed)
    end = _place(every)
    want = [s.at for s in every]
    assert _place_by_time(every) == end and [s.at for s in every] == want


@pytest.mark.parametrize("seed", range(10))
def test_room_for_working_memory_is_between_what_is_alive(seed: int) -> None:
    every = spans(seed)
    plan = MemoryPlan(arena=_place(every), spans=sorted(every, key=lambda s: s.at))
    rng = random.Random(seed)
    for group in [*range(0, 115, 3), 5, 5, 90, 2]:
        size = 64 * rng.choice((1, 3, 50))
        at = plan.room(group, size)
        alive = [s for s in every if s.first <= group <= s.last]
        assert all(at + size <= s.at or s.at + s.size <= at for s in alive) and plan.whole >= at + size
        ends = [0, *(s.at + s.size for s in alive)]
        assert at in ends and not any(e < at and all(e + size <= s.at or s.at + s.size <= e for s in alive)
                                      for e in ends)


def meets(g: Group, reads: set, writes: set) -> bool:
    return bool(g.writes & reads or g.writes & writes or g.reads & writes)


@pytest.mark.parametrize("seed", range(8))
def test_groups_are_those_of_looking_at_all_groups(seed: int) -> None:
    rng = random.Random(seed)
    leaves = [ir.input(i, (4, 3), "float32") for i in range(4)]
    values = list(leaves)
    for _ in range(60):
        a, b = rng.choice(values), rng.choice(values)
        values.append(ir.dot(a, ir.permute(b, (1, 0)), ((1,), (0,))) if a.shape == b.shape == (4, 3)
                      and rng.random() < 0.5 else ir.map("tanh", a) * float(len(values)))
        if values[-1].shape != (4, 3):
            values[-1] = ir.slice(values[-1], (0, 0), (4, 3))
    fused = fuse(Program(tuple(leaves), tuple(values[-20:])))
    groups = together(fused, Joining(lambda k: True))
    assert sorted(k.number for g in groups for k in g.kernels) == [k.number for k in fused.kernels]
    want: list[Group] = []
    for k in fused.kernels:
        reads, writes = set(k.reads), set(k.stores)
        home = None
        for g in reversed(want):
            if meets(g, reads, writes):
                break
            home = g
        if home is None:
            home = Group([])
            want.append(home)
        home.kernels.append(k)
        home.reads |= reads
        home.writes |= writes
    assert [[k.number for k in g.kernels] for g in groups] == [[k.number for k in g.kernels] for g in want]
    assert len(groups) < len(fused.kernels)


def slices_in_one_concat(n: int) -> Program:
    x = ir.input(0, (n + 5,), "float32")
    return Program((x,), (ir.concat([ir.slice(x, (i,), (2,)) for i in range(n)], 0),))


def chain_of_elements(n: int) -> Program:
    x = y = ir.input(0, (8,), "float32")
    for i in range(n):
        y = ir.map("tanh", y) + ir.slice(x, (i % 8,), (1,))
    return Program((x,), (y,))


def calls(program: Program) -> int:
    """Python calls that planning a program takes."""
    count = 0

    def see(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"
    sys.setprofile(see)
    try:
        plan(program)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("graph", [slices_in_one_concat, chain_of_elements])
def test_planning_wide_and_deep_graphs_is_linear(graph: Callable[[int], Program]) -> None:
    # what is imported and remembered at the first plan is not counted
    calls(graph(20))
    assert calls(graph(1000)) < 2.6 * calls(graph(500))
