"""Each trap is right, or refused with the user's line."""
from __future__ import annotations

import pytest

from ..traps.tools import CASES, judge, load

load()


@pytest.mark.share(4)
@pytest.mark.parametrize("name", sorted(CASES))
def test_trap(name: str) -> None:
    verdict = judge(CASES[name])
    assert verdict.good, f"{verdict.word}: {verdict.reason}"
