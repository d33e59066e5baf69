"""Examples of operators, by the operator's name: ``examples.txt`` holds the calls and what they print.

``python -m hybrid.stubs.examples`` runs the calls and writes what they print.
"""
from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

PATH = Path(__file__).with_name("examples.txt")


@lru_cache(maxsize=1)
def examples() -> dict[str, list[str]]:
    """The lines of each operator's example: calls after ``>>>``, then what they print."""
    return read(PATH)


def read(path: Path) -> dict[str, list[str]]:
    """The examples of a file, by name."""
    out = {}
    for part in path.read_text(encoding="utf-8").split("\n\n"):
        name, *lines = part.strip("\n").split("\n")
        out[name.removeprefix("# ")] = lines
    return out


def imports(lines: list[str]) -> str:
    """The line that imports what an example uses."""
    calls = " ".join(line for line in lines if line[:3] in (">>>", "..."))
    used = [n for n in ("nd", "np", "npx") if re.search(rf"\b{n}\.", calls)]
    return f">>> from hybrid import {', '.join(used)}"


__all__ = ["PATH", "examples", "imports", "read"]
