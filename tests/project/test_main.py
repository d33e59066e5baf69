"""``python -m hybrid`` tells what is installed and whether it works."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hybrid
from hybrid.runtime import toolchain

from ..runtime.test_toolchain import BROKEN, ON_CPU, put


def report(cache: Path, **env: str) -> "tuple[int, dict[str, str]]":
    around = {k: v for k, v in os.environ.items() if k not in ("HYBRID_CC", "HYBRID_VERIFY", "HYBRID_WARM")}
    done = subprocess.run([sys.executable, "-m", "hybrid"], env={**around, "HYBRID_CACHE": str(cache), **env},
                          capture_output=True, text=True, check=False, timeout=300)
    assert not done.stderr, done.stderr
    return done.returncode, {k: v.strip() for k, _, v in (line.partition(":") for line in done.stdout.splitlines())}


def test_help_names_every_command() -> None:
    """Those that users start: each folder of the package with a ``__main__``; stubs are this repository's own."""
    done = subprocess.run([sys.executable, "-m", "hybrid", "--help"], capture_output=True, text=True, check=True)
    commands = {p.parent.name for p in Path(hybrid.__file__).parent.glob("*/__main__.py")} - {"stubs"}
    assert commands >= {"as_mxnet", "export"}
    assert not [name for name in commands if f"    python -m hybrid.{name} " not in done.stdout]
    wrong = subprocess.run([sys.executable, "-m", "hybrid", "--selftest"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "unrecognized arguments: --selftest" in wrong.stderr


@ON_CPU
@pytest.mark.skipif(toolchain.compiler() is None, reason="needs a compiler")
def test_the_report_says_what_is_here(tmp_path: Path) -> None:
    status, rows = report(tmp_path / "cache", HYBRID_NUM_THREADS="1")
    assert status == 0 and rows["self-test"].startswith("a function and its gradient, compiled and eager, agree")
    assert rows["hybrid"].startswith(hybrid.__version__) and str(tmp_path / "cache") in rows["cache"]
    assert rows["compiler"].startswith(str(toolchain.compiler())) and "-O2" in rows["flags"]
    assert rows["threads"].startswith("1 of") and "HYBRID_NUM_THREADS=1" in rows["settings"]
    assert list((tmp_path / "cache").glob("*.so"))


@ON_CPU
def test_without_a_compiler_the_report_says_how_to_get_one(tmp_path: Path) -> None:
    status, rows = report(tmp_path / "cache", HYBRID_CC="none")
    assert status == 0 and "pip install ziglang" in rows["compiler"]


@ON_CPU
def test_a_compiler_that_fails_is_shown(tmp_path: Path) -> None:
    put(tmp_path / "bin", ("cc",), BROKEN["fails"])
    status, rows = report(tmp_path / "cache", HYBRID_CC=str(tmp_path / "bin" / "cc"))
    assert status == 1 and rows["self-test"].startswith("FAILED: CompileError: the C compiler")


def test_without_a_compiler_the_report_says_why(tmp_path: Path) -> None:
    status, rows = report(tmp_path / "cache", HYBRID_CC="python -m ziglang cc")
    assert status == 0 and "hybridized, on NumPy, and eager, agree" in rows["self-test"]
    assert "names no program (it is one name or path, without options)" in rows["compiler"]
