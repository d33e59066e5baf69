"""Type checkers on programs as users write them: what they must accept, and the mistakes that they must find.

``typing/accepted.txt`` and ``typing/refused.txt`` hold the programs; in the latter a comment ``# error: word`` marks
each line that is wrong, with a word of the complaint.
"""
from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hybrid import stubs
from hybrid.stubs import signatures
from .typing_programs import lay_out, programs
from ..paths import ROOT

CHECKED = ("--config-file=", "--follow-imports=silent", "--no-error-summary", "--check-untyped-defs",
           "--no-color-output", "--no-warn-no-return", "--hide-error-context")


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """What mypy says about every program, by its name: lines and messages."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("typing")
    lay_out(folder, folder / "path" / "hybrid")
    given = [sys.executable, "-m", "mypy", *CHECKED, f"--cache-dir={folder / 'cache'}",
             *(str(p) for p in sorted(folder.glob("*.py")))]
    done = subprocess.run(given, capture_output=True, text=True, cwd=folder, timeout=600,
                          env={**os.environ, "MYPYPATH": str(folder / "path"), "PYTHONPATH": ""})
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, list[tuple[int, str]]] = {}
    for line in done.stdout.splitlines():
        hit = re.match(r"(?:.*/)?(\w+)\.pyi?:(\d+): error: (.*)", line)
        if hit:
            found.setdefault(hit[1], []).append((int(hit[2]), hit[3]))
    return found


def test_stub_files_are_those_of_the_registry() -> None:
    assert not stubs.stale(), "python -m hybrid.stubs writes them again"


def test_programs_are_accepted(complaints: dict[str, list[tuple[int, str]]]) -> None:
    names = programs("accepted.txt")
    assert len(names) >= 30
    assert {n: found for n, found in complaints.items() if n not in programs("refused.txt")} == {}


def test_mistakes_are_found(complaints: dict[str, list[tuple[int, str]]]) -> None:
    for name, text in programs("refused.txt").items():
        wanted = {i: line.split("# error: ")[1] for i, line in enumerate(text.splitlines(), 1) if "# error: " in line}
        found = dict(complaints.get(name, []))
        assert found.keys() == wanted.keys(), (name, found)
        for line, word in wanted.items():
            assert word in found[line], (name, found)


@pytest.mark.parametrize("name", list(stubs.texts()))
def test_every_function_says_its_parameters_and_result(name: str) -> None:
    """No result is Any, and no list of values that could be anything stands for the parameters."""
    takes_any = {"Custom", "reshape", "apply_along_axis", "piecewise", "fromfunction"}        # what is handed on
    for n in ast.walk(ast.parse(stubs.texts()[name])):
        if isinstance(n, ast.FunctionDef) and n.name not in ("made_here", "symbol_functions", "attach_files"):
            assert n.returns is not None and ast.unparse(n.returns) != "Any", n.name
            rest = [a for a in (n.args.vararg, n.args.kwarg) if a is not None and a.arg in ("args", "kwargs")
                    and a.annotation is not None and ast.unparse(a.annotation) == "Any"]
            assert not rest or n.name in takes_any, n.name


@pytest.mark.parametrize("path", signatures.of_numpy())
def test_numpys_functions_have_the_parameters_that_are_said(path: str) -> None:
    module, _, name = path.rpartition(".")
    fn = getattr(np.random.Generator if module == "random" else getattr(np, module) if module else np, name, None)
    try:
        known = inspect.signature(fn).parameters                                             # type: ignore[arg-type]
    except (ValueError, TypeError):
        pytest.skip(f"NumPy {np.__version__} says no parameters of {path}")
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return
    for parts, _ in signatures.said(path, "ndarray"):
        assert {p.name for p in parts if not p.star and p.name != "*"} <= {*known}


@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed")
def test_pyright_agrees(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tests/project/typing_programs.py"), str(tmp_path)],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout
