"""make check-all ends with a list of what ran, what was skipped and why, and what failed."""
from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..paths import ROOT

SCRIPT = ROOT / ".ci" / "check_all.py"
TESTS = """
import pytest
def test_right(): pass
def test_wrong(): assert 1 == 2, "one is not two"
@pytest.mark.skip(reason="needs a planet")
def test_left(): pass
"""


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("check_all", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list(script: Any, tmp_path: Path) -> None:
    (tmp_path / "test_planets.py").write_text(TESTS)
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=r.xml",
                    "test_planets.py"], cwd=tmp_path, capture_output=True)
    found = script.results_of(tmp_path / "r.xml")
    text = script.summary([("documentation", 2, 3.4, []), ("thorough tests", 1, 5.0, found)])
    assert "documentation: failed (2), 3 s" in text and "documentation: status 2" in text
    assert "thorough tests: 1 passed, 1 failed, 1 skipped, 5 s" in text
    assert "test_planets: 1 (needs a planet)" in text and "test_planets::test_wrong: AssertionError: one is not" in text
    assert script.results_of(tmp_path / "none.xml") == []


def test_each_step_runs_where_one_fails(script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(script, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(script, "steps", lambda more: [("one", ["false"], False), ("two", ["true"], False)])
    assert script.main([]) == 1
    said = capsys.readouterr().out
    assert "one: failed (1)" in said and "two: passed" in said and "what failed" in said
    assert (tmp_path / "results" / "summary.txt").read_text().strip() == said.strip()
