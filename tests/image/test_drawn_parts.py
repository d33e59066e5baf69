"""Parts of pictures with objects that are drawn for a seed, as MXNet draws them."""
from __future__ import annotations

import json

import pytest

import hybrid as mx

from ..oracle import drawn_parts as cases
from ..paths import DATA

RECORDED = json.loads((DATA / "drawn_parts.json").read_text())


@pytest.mark.parametrize("name", cases.CASES)
def test_parts_are_drawn_as_in_mxnet(name: str) -> None:
    assert cases.outcome(name, mx) == RECORDED[name]
