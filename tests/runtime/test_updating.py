"""New values of inputs that are written as soon as nobody reads the old ones."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hybrid import ir
from hybrid.buffers import derived
from hybrid.ir import Node, Program
from hybrid.runtime import reference, updating

from ..programs import normal


def leaf(slot: int, *shape: int) -> Node:
    return ir.input(slot, shape or (6, 5), np.float32)


def ran(p: Program, arrays: list[np.ndarray]) -> tuple[list[Any], list[int]]:
    """The outputs, and the slots that were written before the program's end. Holds that all is as by the reference."""
    outputs, new = reference.run(p, [a.copy() for a in arrays], np)
    found, left = updating.run(p, arrays)
    for (slot, _), value in zip(p.updates, new):
        np.testing.assert_array_equal(dict(left).get(slot, arrays[slot]), value)
    for a, b in zip(found, outputs):
        np.testing.assert_array_equal(a, b)
    return found, [slot for slot, _ in p.updates if slot not in dict(left)]


def test_each_is_written_behind_its_last_reader() -> None:
    w, g, m = leaf(0), leaf(1), leaf(2)
    mean = ir.map("where", ir.map("lt", m, g), g, m) * 0.5
    p = Program((w, g, m), (ir.map("exp", w) + m,), ((0, w - mean), (2, mean)))
    assert ran(p, [normal(6, 5) for _ in range(3)])[1] == [0, 2]


@pytest.mark.parametrize("new", [
    lambda a, b: ((0, b), (1, a)),                                       # swapped: each is the other's new value
    lambda a, b: ((0, ir.permute(b, (1, 0))), (1, b + 1)),
    lambda a, b: ((0, ir.expand(ir.slice(a, (0, 0), (1, 5)), (5, 5)) + b), (1, b * 2))])
def test_what_is_a_result_or_shown_in_another_way_waits(new: Any) -> None:
    a, b = leaf(0, 5, 5), leaf(1, 5, 5)
    p = Program((a, b), (ir.permute(a, (1, 0)),), new(a, b))
    assert 0 not in ran(p, [normal(5, 5), normal(5, 5)])[1]


def test_arrays_that_share_memory_wait() -> None:
    a, b, c = leaf(0, 5), leaf(1, 5), leaf(2, 5)
    p = Program((a, b, c), (), ((0, a + 1), (1, b + a), (2, c * 2)))
    both, owned = normal(10), normal(9)
    assert ran(p, [both[:5], both[5:], normal(5)])[1] == [0, 1, 2]
    assert ran(p, [np.frombuffer(owned.data, np.float32, 5), np.frombuffer(owned.data, np.float32, 5, 12),
                   normal(5)])[1] == [2]                        # two arrays that know nothing of each other


def test_an_error_in_the_middle_leaves_nothing_prepared_from_old_values(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = leaf(0, 5), leaf(1, 5)
    p = Program((a, b), (), ((0, a + 1), (1, ir.map("exp", b))))
    arrays = [normal(5), normal(5)]
    before, token = arrays[0].copy(), derived.watch([arrays[0]])
    made = updating.plan(p, np)
    last = made.steps[-1]

    def fails(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt
    broken = made._replace(steps=(*made.steps[:-1], last._replace(call=fails)))
    monkeypatch.setattr(updating, "plan", lambda *_: broken)
    with pytest.raises(KeyboardInterrupt):
        updating.run(p, arrays)
    np.testing.assert_array_equal(arrays[0], before + 1)
    assert token.stale
