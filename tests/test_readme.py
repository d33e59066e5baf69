"""The code in the README runs as it stands there."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_code_blocks_run(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    assert "@hybridize" in code and "Trainer" in code
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path,
                          env={**os.environ, "HYBRID_CACHE": str(tmp_path / "cache")}, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "kernels" in done.stdout and (tmp_path / "mlp-symbol.json").is_file()


def test_links_and_commands_exist() -> None:
    text = (ROOT / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^    make (\S+)", text, re.M):
        assert re.search(rf"^{command}:", makefile, re.M), command
