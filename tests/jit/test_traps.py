"""Each trap is right, or refused with the user's line."""
from __future__ import annotations

import zlib

import pytest

from ..traps.tools import CASES, judge, load

load()


SHARE = 3                      # of so many traps one is set after every change, all of them by make check-all


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.thorough] if zlib.crc32(n.encode()) % SHARE else []) for n in sorted(CASES)])
def test_trap(name: str) -> None:
    verdict = judge(CASES[name])
    assert verdict.good, f"{verdict.word}: {verdict.reason}"
