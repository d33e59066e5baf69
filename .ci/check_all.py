"""Everything that takes too long for every change; at its end, a list of what ran, what was skipped and why, and what
failed. A step that fails does not keep the others from running.

    python .ci/check_all.py [pytest's arguments for the thorough tests]
"""
from __future__ import annotations

import glob
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "check-all"
KINDS = ("passed", "failed", "skipped")
EVERYWHERE = ("HYBRID_EMU_ORDER=random:3", "HYBRID_EMU_BLOCKS=3", "HYBRID_EMU_SUMS=truncated",
              "HYBRID_TEST_ARCHS=none")


def results_of(path: Path) -> list[tuple[str, str, str, str]]:
    """The file, name, outcome and reason of each test of a JUnit report."""
    out = []
    for case in ElementTree.parse(path).iter("testcase") if path.exists() else ():
        wrong = next((e for e in case if e.tag in ("failure", "error")), None)
        left = next((e for e in case if e.tag == "skipped"), None)
        kind = "failed" if wrong is not None else "skipped" if left is not None else "passed"
        said = wrong if wrong is not None else left
        reason = "" if said is None else (said.get("message") or "").split("\n")[0][:100]
        file = next((p for p in case.get("classname", "").split(".") if p.startswith("test_")), "collection")
        out.append((file, case.get("name", ""), kind, reason))
    return out


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{kinds[k]} {k}" for k in KINDS if kinds[k]) or "nothing"


def summary(steps: list[tuple[str, int, float, list[tuple[str, str, str, str]]]]) -> str:
    """The list: of each step how it ended, of each file its tests' outcomes, and the reasons of what was skipped."""
    lines = ["", "check-all: what ran"]
    skipped: Counter[tuple[str, str]] = Counter()
    failed = []
    for title, status, seconds, tests in steps:
        how = _counted(Counter(t[2] for t in tests)) if tests else "passed" if status == 0 else f"failed ({status})"
        lines.append(f"  {title}: {how}, {seconds:.0f} s")
        for file in sorted({t[0] for t in tests}):
            lines.append(f"    {file}: {_counted(Counter(t[2] for t in tests if t[0] == file))}")
        skipped.update((t[0], t[3]) for t in tests if t[2] == "skipped")
        failed += [f"  {t[0]}::{t[1]}: {t[3]}" for t in tests if t[2] == "failed"]
        failed += [f"  {title}: status {status}"] if status and not any(t[2] == "failed" for t in tests) else []
    lines += ["what was skipped", *(f"  {file}: {n} ({reason})" for (file, reason), n in sorted(skipped.items()))]
    lines += ["what failed", *failed] if failed else ["nothing failed"]
    return "\n".join(lines)


def steps(more: list[str]) -> list[tuple[str, list[str], bool]]:
    """Titles, commands, and whether a command is pytest."""
    python, pytest = sys.executable, [sys.executable, "-m", "pytest", "-q"]
    files = ["-m", "not thorough", *sorted(glob.glob("tests/cuda/test_*.py"))]
    cuda = ["-n", "2", "--dist", "loadfile", *files]
    return [("documentation with the tutorials run", ["make", "docs", "NOTEBOOKS=1"], False),
            ("the site in a browser", [*pytest, "tests/project/test_site.py"], True),
            ("the compiler that pip brings is installed", [python, "-m", "pip", "install", "-q", "-e", ".[compiler]"],
             False),
            ("packaged compiler, examples of operators",
             [*pytest, "tests/runtime/test_packaged_compiler.py", "tests/project/test_operator_examples.py"], True),
            ("CUDA tests with each kernel watched, in three orders of threads and as PTX",
             ["make", "watch-gpu", "NEW=1", "TEST_ARGS=-n 2 --dist loadfile"], False),
            ("CUDA tests with blocks interleaved, sums cut off", ["env", *EVERYWHERE, *pytest, *cuda], True),
            ("kernels of the CUDA tests for all GPUs", ["make", "compile-gpu", "TEST_ARGS=-n 2 --dist loadfile"],
             False),
            ("benchmarks and tests of GPUs on real CuPy over the stand-in", ["make", "rehearse-gpu"], False),
            ("thorough tests", [*pytest, *(more or ["-n", "2", "--dist", "loadfile", "-m", "thorough"])], True)]


def main(more: list[str]) -> int:
    """Run all; the exit status."""
    os.chdir(ROOT)
    RESULTS.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "HYBRID_CHECK_ALL": "1", "HYBRID_VERIFY": "1"}
    done = []
    for i, (title, command, tests) in enumerate(steps(more)):
        report = RESULTS / f"{i}.xml"
        report.unlink(missing_ok=True)
        begin = time.monotonic()
        status = subprocess.run([*command, f"--junitxml={report}"] if tests else command, env=env).returncode
        done.append((title, status, time.monotonic() - begin, results_of(report) if tests else []))
    text = summary(done)
    (RESULTS / "summary.txt").write_text(text + "\n")
    print(text)
    return int(any(status for _, status, _, _ in done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
