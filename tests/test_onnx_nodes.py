"""The node tests of the ``onnx`` package: which pass stays as recorded. A part of them, chosen by their names, runs by
default; all run with HYBRID_ONNX_NODES=all."""
from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as mx
from hybrid.base.errors import HybridError

onnx = pytest.importorskip("onnx", minversion="1.23")

import onnx_nodes  # noqa: E402

ALL = os.environ.get("HYBRID_ONNX_NODES") == "all"
EVERY = 12                              # one of so many runs by default
PARTS = 4
MUTATIONS = 4000 if ALL else 300


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    return onnx_nodes.cases()


def test_enough_node_tests_pass(cases: list[Any]) -> None:
    known = {c.name for c in cases}
    failing = onnx_nodes.recorded()
    assert onnx.__version__ != "1.23.2" or not set(failing) - known, "the list names tests that do not exist"
    assert len(known) - len(set(failing) & known) >= 1600


@pytest.mark.parametrize("part", range(PARTS))
def test_node_tests_pass_as_recorded(part: int, cases: list[Any], tmp_path: Path) -> None:
    failing, wrong = onnx_nodes.recorded(), []
    for c in cases:
        number = zlib.crc32(c.name.encode())
        if number % PARTS != part or not ALL and number // PARTS % EVERY:
            continue
        reason = onnx_nodes.run(c, str(tmp_path))
        if bool(reason) != (c.name in failing):
            wrong.append(f"{c.name}: {reason or 'passes, and is in the list of failing ones'}")
    assert not wrong, "\n".join(wrong)
