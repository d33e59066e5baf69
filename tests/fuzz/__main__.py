"""``python -m tests.fuzz [--seconds S] [-n N] [--seed SEED] [--kind graph|network|casts|sized|loop]``: random programs,
eager against compiled."""
from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import time
from typing import Any

os.environ.setdefault("HYBRID_COMPILE", "now")              # in the background, no program would be ready in time
os.environ.setdefault("HYBRID_TUNE", "0")
os.environ.setdefault("HYBRID_SIGNATURES", "0")

from . import generate, loops, minimise, oracle  # noqa: E402  after the settings

MOST_PLAIN = 20                               # programs that may happen to have nothing to compile


def programs(seed: int, kinds: tuple = generate.KINDS_OF_PROGRAM):
    """Endless programs; number k of a seed is always the same."""
    for k in itertools.count():
        rng = random.Random(f"{seed} {k}")
        yield k, rng.choice(kinds)(rng)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz",
                                     description="Random programs, eager against compiled.")
    parser.add_argument("--seconds", type=float, default=0, help="for how long (default 60 where no -n is given)")
    parser.add_argument("-n", type=int, default=0, help="how many programs")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--kind", choices=("graph", "network", "casts", "sized", "loop"))
    parser.add_argument("--most", type=int, default=5, help="failures after which to stop")
    given = parser.parse_args(words)
    seed = random.randrange(10**6) if given.seed is None else given.seed
    seconds = given.seconds or (0 if given.n else 60)
    kinds = (getattr(generate, given.kind),) if given.kind else generate.KINDS_OF_PROGRAM
    print(f"seed {seed}", flush=True)
    begin, bad, done = time.monotonic(), 0, 0
    for k, program in programs(seed, kinds):
        if (given.n and k >= given.n) or (seconds and time.monotonic() - begin > seconds) or bad >= given.most:
            break
        done += 1
        judge: Any = loops if isinstance(program, loops.Loop) else oracle
        if judge.fault(program):
            bad += 1
            small = (loops if judge is loops else minimise).smaller(program)
            print(f"\n# program {k} of seed {seed}: {judge.fault(small)}\n{small.alone()}\n", flush=True)
    judged, compiled = (a + b for a, b in zip(oracle.COMPILED, loops.JOINED))
    print(f"{done} programs, {bad} bad, {compiled} ran compiled, {time.monotonic() - begin:.0f} s, seed {seed}")
    if judged > MOST_PLAIN and not compiled:
        print("nothing ran compiled: this run has shown nothing (HYBRID_COMPILE, a compiler?)")
    return int(bad > 0 or judged > MOST_PLAIN and not compiled)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
