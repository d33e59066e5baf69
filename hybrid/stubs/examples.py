"""``python -m hybrid.stubs.examples`` runs the calls of ``ops/examples.txt`` and writes what they print below them;
given a path, those of another file.

``printed`` runs an example, ``differs`` compares what was printed with what is shown: numbers within a rounding, since
processors differ in the last digits.
"""
from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy

import hybrid
from ..gluon import loss, nn, rnn
from ..ops.examples import PATH, read

NUMBER = re.compile(r"[-+]?\d+\.\d*(?:e[-+]?\d+)?|[-+]?\d+e[-+]?\d+")


def printed(lines: list[str]) -> list[str]:
    """An example's lines with what its calls print now."""
    around: dict[str, Any] = {"nd": hybrid.nd, "np": hybrid.np, "npx": hybrid.npx, "nn": nn, "rnn": rnn, "loss": loss,
                              "optimizer": hybrid.optimizer, "metric": hybrid.metric}
    out, calls = [], [line for line in lines if line.startswith((">>> ", "... "))]
    source = re.split(r"^>>> ", "\n".join(calls), flags=re.M)[1:]
    for text in source:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(text.replace("\n... ", "\n"), "an example", "single"), around)
        out += [*f">>> {text.strip()}".split("\n"), *said.getvalue().rstrip("\n").split("\n")]
    return [line for line in out if line]


def differs(shown: list[str], now: list[str]) -> bool:
    """Whether two texts differ in more than the last digits of numbers and in spaces."""
    texts = ["".join("\n".join(t).split()) for t in (shown, now)]
    if NUMBER.sub("#", texts[0]) != NUMBER.sub("#", texts[1]):
        return True
    first, second = ([float(n) for n in NUMBER.findall(t)] for t in texts)
    return not numpy.allclose(first, second, rtol=1e-4, atol=1e-6)


def main(path: Path) -> int:
    """Write a file anew, with the names in order."""
    hybrid.random.seed(0)
    known = read(path)
    found = {name: printed(lines) for name, lines in known.items()}
    kept = {name: known[name] if not differs(known[name], lines) else lines for name, lines in found.items()}
    rows = sorted(kept.items(), key=lambda row: row[0].lower())
    beside = path.with_suffix(".new")
    beside.write_text("\n\n".join("\n".join([f"# {name}", *lines]) for name, lines in rows) + "\n", encoding="utf-8")
    beside.replace(path)
    print(f"wrote {len(rows)} examples", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if sys.argv[1:] else PATH))
