"""Attributes and shapes of enormous size, as a damaged file may hold them: an error, or a shape inferred at once, with nothing of that size in memory."""
from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from hybrid import HybridError
from hybrid.ops.registry import OPS

from .packed_arrays import load

HERE = Path(__file__).parent / "oracle"
ARRAYS = load(HERE / "ops.npz")
HUGE = 10**9


def samples() -> dict[str, list[tuple[dict[str, Any], list[Any]]]]:
    """By operator: attributes and inputs of the recorded calls that differ in which attributes they give."""
    found: dict[str, dict[Any, tuple[dict[str, Any], list[Any]]]] = {}
    for i, line in enumerate(json.loads((HERE / "ops.json").read_text())):
        if line is not None and line["op"] in OPS:
            inputs = [ARRAYS[f"{i}.in{k}"] for k in range(line["inputs"])]
            found.setdefault(line["op"], {}).setdefault(tuple(sorted(line["attrs"])), (line["attrs"], inputs))
    return {name: list(rows.values()) for name, rows in found.items()}


SAMPLES = samples()


def attempts(name: str) -> list[tuple[list[Any], list[Any], dict[str, Any]]]:
    """Shapes, dtypes and attributes with one of them enormous."""
    out = []
    for attrs, inputs in SAMPLES[name]:
        shapes, dtypes = [x.shape for x in inputs], [x.dtype for x in inputs]
        for key in OPS[name].attrs:
            out += [(shapes, dtypes, {**attrs, key: value}) for value in (str(HUGE), f"({HUGE},)", f"({HUGE},{HUGE})", f"({HUGE},{HUGE},{HUGE})", str(-HUGE))]
        for k, shape in enumerate(shapes):
            out += [([*shapes[:k], (*shape[:axis], HUGE, *shape[axis + 1:]), *shapes[k + 1:]], dtypes, attrs) for axis in range(len(shape))]
        out += [([(*s[:axis], HUGE, *s[axis + 1:]) if axis < len(s) else s for s in shapes], dtypes, attrs) for axis in range(max(map(len, shapes), default=0))]
    return out


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_enormous_sizes(name: str) -> None:
    definition = OPS[name]
    tracemalloc.start()
    begin = time.process_time()
    try:
        for shapes, dtypes, attrs in attempts(name):
            try:
                definition.infer(shapes, dtypes, definition.parse(attrs))
            except HybridError as err:
                assert len(str(err)) < 2000
            assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
        definition.cache.clear()
    assert time.process_time() - begin < 20
