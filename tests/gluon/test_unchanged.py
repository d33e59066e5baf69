"""What the attributes of a network hold is told again when it may have changed, and only then
(hybrid/gluon/unchanged.py)."""
from __future__ import annotations

import types
from collections import OrderedDict
from typing import Any, Callable

import numpy as np
import pytest

from hybrid.jit import fingerprint
from hybrid import nd
from hybrid.jit.fingerprint import Watched
from hybrid.gluon import HybridBlock
from hybrid.gluon.unchanged import Contents


def values() -> dict[str, Any]:
    """Attributes of many kinds; ``same`` is in memory once."""
    same = [1, 2]
    return {"options": {"kernel": (3, 3), "bias": True, "name": "a"}, "sizes": [[1, 2], [3]],
            "pair": (same, {"k": same}), "plain": SimpleClass(), "empty": [],
            "array": np.zeros(2), "ordered": OrderedDict(a=1, b=2), "set": {1, 2},
            "mixed": [same, SimpleClass(), np.zeros(1)], "fn": len, "f32": np.float32(1)}


class SimpleClass:
    def __init__(self) -> None:
        self.alpha, self.rows = 1, [1]


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a number for a truth value": lambda v: v["options"].update(bias=1),
    "another float": lambda v: v["options"].update(bias=1.0),
    "a new key": lambda v: v["options"].update(new=None),
    "a key less": lambda v: v["options"].pop("name"),
    "order of keys": lambda v: v["options"].update(kernel=v["options"].pop("kernel")),
    "a nested element": lambda v: v["sizes"][0].__setitem__(1, 5),
    "an element moves to the next list": lambda v: v["sizes"][1].insert(0, v["sizes"][0].pop()),
    "another list": lambda v: v["sizes"].__setitem__(1, [4]),
    "a list in a tuple": lambda v: v["pair"][0].append(3),
    "a list that grows": lambda v: v["empty"].append(0),
    "an object's attribute": lambda v: setattr(v["plain"], "alpha", 2),
    "a list in an object": lambda v: v["plain"].rows.append(2),
    "an array": lambda v: v["array"].__setitem__(0, 1),
    "the order of an ordered dict": lambda v: v["ordered"].move_to_end("a"),
    "a set": lambda v: v["set"].add(3),
    "an object in a list": lambda v: setattr(v["mixed"][1], "alpha", 7),
    "an array in a list": lambda v: v["mixed"][2].__setitem__(0, 4),
    "a dict within": lambda v: v["pair"][1].update(more={}),
}


@pytest.mark.parametrize("what", list(CHANGES))
def test_every_change_is_seen(what: str) -> None:
    v = values()
    told = Contents([Watched(x, None) for x in v.values()])
    first = told.stamp()
    assert told.stamp() == first
    CHANGES[what](v)
    second = told.stamp()
    assert second != first and told.stamp() == second


def test_what_comes_later_is_watched_too() -> None:
    rows: list[Any] = [[1]]
    told = Contents([Watched(rows, None)])
    inner = {"a": [1]}
    rows.append(inner)
    before = told.stamp()
    inner["a"].append(2)
    assert told.stamp() != before
    rows.append(rows)                                        # a list that holds itself
    before = told.stamp()
    assert told.stamp() == before


def test_equal_contents_are_told_equal() -> None:
    row = [1000, "x"]
    told = Contents([Watched(row, None)])
    before = told.stamp()
    row[0] = int("1000")                                     # another object
    assert told.stamp() == before


def test_a_network_compiles_again_and_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaled(HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.scales, self.config = [2, 3], types.SimpleNamespace(shift=0)

        def forward(self, x: Any) -> Any:
            return x * self.scales[1] + self.config.shift
    net, x = Scaled(), nd.ones((2,))
    net.hybridize()
    asked: list[Any] = []
    walk = fingerprint._Walk.walk
    monkeypatch.setattr(fingerprint._Walk, "walk", lambda self, value: asked.append(value) or walk(self, value))
    for _ in range(3):
        assert net(x).asnumpy().tolist() == [3, 3]
    net.scales[1] = 5
    assert net(x).asnumpy().tolist() == [5, 5]
    net.config.shift = 1
    assert net(x).asnumpy().tolist() == [6, 6]
    asked.clear()
    net(x)
    assert not any(value is net.scales for value in asked)
    net.scales[1] = 3
    net.config.shift = 0
    assert net(x).asnumpy().tolist() == [3, 3] and len(net._engine.cache_misses) == 3
