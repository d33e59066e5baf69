"""Small behaviours of Gluon, Symbols and Modules that programs and their tests rely on, against what MXNet 1.9.1
does."""
from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import hybrid as mx

from ..paths import DATA, TESTS

RECORDED = json.loads((DATA / "gluon_habits.json").read_text())
_spec = importlib.util.spec_from_file_location("gluon_habits", TESTS / "oracle" / "gluon_habits.py")
assert _spec is not None and _spec.loader is not None
habits = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(habits)


def same(found: Any, expected: Any) -> bool:
    """Equal, numbers nearly so."""
    if isinstance(expected, float):
        return bool(found == pytest.approx(expected, rel=1e-4, abs=1e-6))
    if isinstance(expected, list):
        return isinstance(found, (list, tuple)) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[k], v) for k, v in expected.items())
    return bool(found == expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", habits.HABITS)
def test_as_mxnet(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    expected = RECORDED[name]
    with mx.name.NameManager():
        found = habits.HABITS[name](mx)
    assert same(found, expected), f"{found}\n{expected}"
