"""Each trap is right or refused with the user's line; those of known.txt are not yet, and the list holds no other."""
from __future__ import annotations

import pytest

from .traps.tools import CASES, judge, known, load

load()


@pytest.mark.parametrize("name", sorted(CASES))
def test_trap(name: str) -> None:
    verdict = judge(CASES[name])
    if name in known():
        assert not verdict.good, f"{name} is {verdict.word} now: take it out of known.txt"
        pytest.xfail(verdict.reason)
    assert verdict.good, f"{verdict.word}: {verdict.reason}"


def test_known_cases_exist() -> None:
    assert known() <= set(CASES), known() - set(CASES)
