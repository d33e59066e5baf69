"""The programs in benchmarks/: each has a ``--help`` that measures nothing."""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from ..paths import ROOT

PROGRAMS = sorted(p.name for p in (ROOT / "benchmarks").glob("*.py") if "__main__" in p.read_text())
NEEDS = {"plot.py": "matplotlib"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_help(name: str) -> None:
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs {NEEDS[name]}")
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / name), "--help"], capture_output=True, text=True,
                          timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode in (0, 1) and not done.stderr.count("Traceback"), done.stderr
    assert "python" in done.stdout + done.stderr or "usage" in done.stdout


@pytest.mark.parametrize("name", ["eager.py", "low_precision.py"])
def test_what_there_is_not(name: str) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / name), "nothing"], capture_output=True, text=True,
                          timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 2 and "there is no" in done.stderr and "nothing" in done.stderr
