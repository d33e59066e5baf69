"""Files of at most 400 lines, functions of at most 50, lines of C of at most 120 columns (as ruff has those of
Python)."""
from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator

from ..paths import ROOT

FOLDERS = ("hybrid", "codegen", "kernels", "tests", "benchmarks", "examples", ".ci")
C = (".c", ".h", ".hpp", ".cuh", ".cpp")
FILE, FUNCTION, LINE = 400, 50, 120


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".js", *C))


def long_files() -> set[str]:
    return {str(p.relative_to(ROOT)) for p in files() if len(p.read_text().splitlines()) > FILE}


def long_functions() -> set[str]:
    return {f"{p.relative_to(ROOT)}:{n.name}" for p in files() if p.suffix == ".py" for n in ast.walk(
        ast.parse(p.read_text())) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
            and n.end_lineno is not None and n.end_lineno - n.lineno + 1 > FUNCTION}


def test_files_are_short() -> None:
    assert not long_files(), "split these: a reader takes in a file of 400 lines"


def test_functions_are_short() -> None:
    assert not long_functions(), "split these: a reader takes in a function of 50 lines"


def test_lines_of_c_are_short() -> None:
    """Not those of templates, nor the heads of functions that programs take one by one, which are one line."""
    long = {f"{p.relative_to(ROOT)}:{i}" for p in files() if p.suffix in C and not {"data", "export"} & set(p.parts)
            for i, line in enumerate(p.read_text().splitlines(), 1)
            if len(line) > LINE and not (line.startswith("HY_FN") and line.endswith("{"))}
    assert not long, f"break these: {sorted(long)}"
