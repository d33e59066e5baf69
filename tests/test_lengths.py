"""Files of at most 400 lines, functions of at most 50. What is still longer is listed, and leaves the list when it is
not."""
from __future__ import annotations

import ast
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("hybrid", "codegen", "kernels", "tests", "benchmarks", "examples", ".ci")
FILE, FUNCTION = 400, 50
LONG_FILES = set("""
    hybrid/buffers/array.py hybrid/gluon/one_parameter.py hybrid/gluon/trainer.py hybrid/ir/size.py
    hybrid/jit/trace.py hybrid/runtime/cpu.py tests/traps/surroundings_standard.py
""".split())
LONG_FUNCTIONS = set("""
    hybrid/gluon/traced_step.py:step hybrid/jit/compiled_call.py:__init__ hybrid/jit/trace.py:__init__
    hybrid/jit/trace.py:_entry hybrid/jit/trace.py:_run_traced
""".split())


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".h", ".c", ".cuh", ".cpp", ".js"))


def long_files() -> set[str]:
    return {str(p.relative_to(ROOT)) for p in files() if len(p.read_text().splitlines()) > FILE}


def long_functions() -> set[str]:
    return {f"{p.relative_to(ROOT)}:{n.name}" for p in files() if p.suffix == ".py" for n in ast.walk(
        ast.parse(p.read_text())) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
            and n.end_lineno is not None and n.end_lineno - n.lineno + 1 > FUNCTION}


def test_files_are_short() -> None:
    found = long_files()
    assert not found - LONG_FILES, "split these: a reader takes in a file of 400 lines"
    assert not LONG_FILES - found, "these are short now: take them off the list"


def test_functions_are_short() -> None:
    found = long_functions()
    assert not found - LONG_FUNCTIONS, "split these: a reader takes in a function of 50 lines"
    assert not LONG_FUNCTIONS - found, "these are short now: take them off the list"
