"""``python -m tests.traps [words]``: plays the cases whose names hold a word, and counts verdicts by category."""
from __future__ import annotations

import os
import sys
from collections import Counter

os.environ.setdefault("HYBRID_TUNE", "0")
os.environ.setdefault("HYBRID_SIGNATURES", "0")

from .tools import judge, load  # noqa: E402  after the settings


def main(words: list[str]) -> int:
    counts: dict[str, Counter[str]] = {}
    for case in load().values():
        if words and not any(word in case.name for word in words):
            continue
        verdict = judge(case)
        counts.setdefault(case.name.split(".")[0], Counter())[verdict.word] += 1
        if not verdict.good or words:
            print(f"{verdict.word:8s}{case.name}: {verdict.reason}", flush=True)
    names = ("right", "refused", "WRONG", "unclear", "crash")
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"\n{'category':16s}" + "".join(f"{name:>9s}" for name in names))
    for category, found in [*counts.items(), ("all", total)]:
        print(f"{category:16s}" + "".join(f"{found[name]:9d}" for name in names))
    return int(any(total[name] for name in names[2:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
