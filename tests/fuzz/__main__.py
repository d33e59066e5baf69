"""``python -m tests.fuzz [--seconds S] [-n N] [--seed SEED] [--kind graph|network|casts|sized|loop] [--first K]
[--cheap]``: random programs, eager against compiled."""
from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("HYBRID_COMPILE", "now")              # in the background, no program would be ready in time
os.environ.setdefault("HYBRID_TUNE", "0")
os.environ.setdefault("HYBRID_SIGNATURES", "0")

from . import cheap, generate, loops, minimise, oracle  # noqa: E402  after the settings
from .sized import sized  # noqa: E402

KINDS = {"graph": generate.graph, "casts": generate.casts, "network": generate.network, "sized": sized,
         "loop": loops.loop}
SHARES = ("graph",) * 4 + ("casts", "network", "sized", "loop")
MOST_PLAIN = 20                               # programs that may happen to have nothing to compile


def programs(seed: int, kinds: tuple[str, ...] = SHARES, first: int = 0) -> Iterator[tuple[int, Any]]:
    """Endless programs from number ``first`` on; number k of a seed is always the same."""
    for k in itertools.count(first):
        rng = random.Random(f"{seed} {k}")
        yield k, KINDS[rng.choice(kinds)](rng)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz",
                                     description="Random programs, eager against compiled.")
    parser.add_argument("--seconds", type=float, default=0, help="for how long (default 60 where no -n is given)")
    parser.add_argument("-n", type=int, default=0, help="how many programs")
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--kind", choices=tuple(KINDS))
    parser.add_argument("--first", type=int, default=0, help="number of the first program, to go on with a seed")
    parser.add_argument("--cheap", action="store_true", help="compile most without optimisation (cheap.py)")
    parser.add_argument("--most", type=int, default=5, help="failures after which to stop")
    given = parser.parse_args(words)
    seed = random.randrange(10**6) if given.seed is None else given.seed
    seconds = given.seconds or (0 if given.n else 60)
    kinds = (given.kind,) if given.kind else SHARES
    print(f"seed {seed}", flush=True)
    begin, bad, done = time.monotonic(), 0, 0
    for k, program in programs(seed, kinds, given.first):
        if (given.n and done >= given.n) or (seconds and time.monotonic() - begin > seconds) or bad >= given.most:
            break
        done += 1
        judge: Any = loops if isinstance(program, loops.Loop) else oracle
        with cheap.compiler(k, len(getattr(program, "rows", ())) > 1) if given.cheap else contextlib.nullcontext():
            if judge.fault(program):
                bad += 1
                small = (loops if judge is loops else minimise).smaller(program)
                print(f"\n# program {k} of seed {seed}: {judge.fault(small)}\n{small.alone()}\n", flush=True)
    judged, compiled = (a + b for a, b in zip(oracle.COMPILED, loops.JOINED))
    print(f"{done} programs, {bad} bad, {compiled} ran compiled, {oracle.COMPILED[2]} by one for any size, "
          f"{time.monotonic() - begin:.0f} s, seed {seed}")
    if judged > MOST_PLAIN and not compiled:
        print("nothing ran compiled: this run has shown nothing (HYBRID_COMPILE, a compiler?)")
    return int(bad > 0 or judged > MOST_PLAIN and not compiled)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
