"""The code in the README and in the docs runs as it stands there, and prints what stands below it."""
from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.S | re.M)
MARK = "---- end of a block ----"


def blocks(page: Path) -> list[tuple[str, str | None]]:
    """Code and the output that the page shows below it, or None where it shows none."""
    return [(code, shown or None) for code, shown in BLOCK.findall(page.read_text())]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.name)
def test_the_code_blocks_run(page: Path, tmp_path: Path) -> None:
    code = "".join(f"{text}\nprint({MARK!r})\n" for text, _ in blocks(page))
    readers = {k: v for k, v in os.environ.items() if k != "HYBRID_COMPILE"}         # the tests' own, not a reader's
    env = {**readers, "HYBRID_CACHE": str(tmp_path / "cache"), "HYBRID_DEVICE": "cpu"}
    program = tmp_path / "program.py"            # a file, as a reader's: errors tell lines of it
    program.write_text(code)
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, env=env, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(MARK + "\n")
    for (text, shown), got in zip(blocks(page), printed):
        if shown is not None:
            same = doctest.OutputChecker().check_output(shown, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            assert same, f"{page.name} shows\n{shown}\nand the code prints\n{got}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_block_of_python_is_run(page: Path) -> None:
    """Blocks are Python that runs here or in notebooks (``make docs NOTEBOOKS=1``), output, data, or commands."""
    kinds = {line[3:].split()[0] for line in re.findall(r"^```[^`\n]+$", page.read_text(), re.M)}
    assert kinds <= {"python", "text", "json", "{code-cell}", "{include}", "{toctree}"}


def test_the_readme_shows_output() -> None:
    assert sum(shown is not None for _, shown in blocks(ROOT / "README.md")) >= 2


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^    make (\S+)", (ROOT / "README.md").read_text(), re.M):
        assert re.search(rf"^{command}:", makefile, re.M), command
