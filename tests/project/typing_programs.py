"""Programs for type checkers (``typing/*.txt``), and pyright on them:
``python tests/project/typing_programs.py EMPTY_FOLDER``.

Pyright is taken from its build on PyPI, ``basedpyright``, which brings its own node.
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]                  # it is run as a file


def programs(name: str) -> dict[str, str]:
    """The programs of a file, by their names."""
    parts = re.split(r"^# program: (\w+)\n", (ROOT / "tests/typing" / name).read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def lay_out(folder: Path, package: Path) -> None:
    """Write the programs into a folder, and make the package of links to the sources."""
    package.mkdir(parents=True)
    for beside in [*(ROOT / "hybrid").iterdir(), ROOT / "codegen", ROOT / "kernels"]:
        (package / beside.name).symlink_to(beside)
    for name, text in {**programs("accepted.txt"), **programs("refused.txt")}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


def main(folder: Path) -> int:
    """Check; 1 where a program is refused that is right, or accepted that is wrong."""
    lay_out(folder, folder / "hybrid")
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard", "ignore": ["hybrid"]}))
    files = [str(p) for p in sorted(folder.glob("*.py"))]
    done = subprocess.run([sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(folder), *files],
                          capture_output=True, text=True, cwd=folder)
    found: dict[str, set[int]] = {}
    for row in json.loads(done.stdout)["generalDiagnostics"]:
        if row["severity"] == "error":
            name, line = Path(row["file"]).stem, row["range"]["start"]["line"] + 1
            found.setdefault(name, set()).add(line)
            print(f"{name}:{line}: {row['message']}")
    wanted = {n: {i for i, line in enumerate(text.splitlines(), 1) if "# error: " in line}
              for n, text in programs("refused.txt").items()}
    wrong = {n for n in {*found, *wanted} if found.get(n, set()) != wanted.get(n, set())}
    print("wrong:", ", ".join(sorted(wrong)) or "none")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
