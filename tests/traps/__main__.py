"""``python -m tests.traps [words]``: plays the cases whose names hold a word, and counts verdicts by category.

``python -m tests.traps --write`` plays all and makes ``known.txt`` the list of those that are not right or refused.
"""
from __future__ import annotations

import os
import sys
from collections import Counter

os.environ.setdefault("HYBRID_TUNE", "0")
os.environ.setdefault("HYBRID_SIGNATURES", "0")

from .tools import KNOWN, judge, known, load  # noqa: E402  after the settings


def main(words: list[str]) -> int:
    counts: dict[str, Counter[str]] = {}
    bad, listed = [], known()
    write = "--write" in words
    words = [word for word in words if word != "--write"]
    for case in load().values():
        if words and not any(word in case.name for word in words):
            continue
        verdict = judge(case)
        counts.setdefault(case.name.split(".")[0], Counter())[verdict.word] += 1
        if not verdict.good:
            bad.append(case.name)
        if not verdict.good or words:
            print(f"{verdict.word:8s}{'' if case.name in listed or verdict.good else 'NEW '}{case.name}: "
                  f"{verdict.reason}", flush=True)
        elif case.name in listed:
            print(f"mended  {case.name}: take it out of known.txt", flush=True)
    if write and not words:
        lines = ["# Traps that are neither right nor refused today; a case that is mended leaves the list.",
                 *sorted(bad)]
        KNOWN.with_suffix(".new").write_text("\n".join(lines) + "\n", encoding="utf-8")
        KNOWN.with_suffix(".new").replace(KNOWN)
    names = ("right", "refused", "WRONG", "unclear", "crash")
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"\n{'category':16s}" + "".join(f"{name:>9s}" for name in names))
    for category, found in [*counts.items(), ("all", total)]:
        print(f"{category:16s}" + "".join(f"{found[name]:9d}" for name in names))
    return int(bool(set(bad) - listed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
