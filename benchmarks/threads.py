"""What threads bring: a call with one, a call with several, and several threads of Python that each call the same
network with one. All take turns in one run, so that a busy machine is busy for everyone; the last column is what the
machine gives at that time: programs that share nothing could not be faster together.

python benchmarks/threads.py [words of titles] [--seconds 4] [--threads 2]
"""
from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from typing import Any, Callable  # noqa: E402

import nets  # noqa: E402
import numpy as np  # noqa: E402
import peers  # noqa: E402

from hybrid.runtime import threads  # noqa: E402

TURN = 0.03                       # seconds of a turn


class Programs:
    """The libraries of all programs that are loaded, whose threads can be set again."""

    def __init__(self) -> None:
        self.loaded: list[Any] = []
        real = threads.share

        def share(program: Any) -> None:
            self.loaded.append(program)
            real(program)
        threads.share, self.share = share, real

    def use(self, count: int) -> None:
        """Threads from now on."""
        os.environ["HYBRID_NUM_THREADS"] = str(count)
        for program in self.loaded:
            self.share(program)


def turn(call: Callable[[], Any], times: int) -> float:
    """Seconds a call."""
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def beside(call: Callable[[], Any], times: int, count: int) -> float:
    """Seconds a call when as many threads of Python call at once: of all calls together."""
    others = [threading.Thread(target=turn, args=(call, times)) for _ in range(count - 1)]
    begin = time.perf_counter()
    for t in others:
        t.start()
    turn(call, times)
    for t in others:
        t.join()
    return (time.perf_counter() - begin) / times / count


def measure(work: nets.Workload | nets.Step, programs: Programs, count: int,
            seconds: float) -> tuple[list[float], list[float], list[float]]:
    """Seconds a call: one thread, several, several of Python (an empty list for training steps, which change what they
    share)."""
    programs.loaded.clear()
    programs.use(count)
    made = peers.hybridized(work) if isinstance(work, nets.Workload) else peers.hybrid_step(work)
    assert made is not None
    run = made[0]

    def call() -> Any:
        return run(1)
    call()
    times = max(1, int(TURN / max(turn(call, 3), 1e-7)))
    one, several, together = [], [], []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(one) < 9:
        programs.use(1)
        one.append(run(times))
        if isinstance(work, nets.Workload):
            together.append(beside(lambda: run(times) and None, 1, count) / times)
        programs.use(count)
        several.append(run(times))
    return [t / times for t in one], [t / times for t in several], together


def main() -> None:
    """The table."""
    options = argparse.ArgumentParser()
    options.add_argument("words", nargs="*", help="workloads whose titles have one of these words")
    options.add_argument("--seconds", type=float, default=4)
    options.add_argument("--threads", type=int, default=2)
    given = options.parse_args()
    programs, count = Programs(), given.threads
    print(f"{'':40} {'one, ms':>9} {f'{count}, ms':>9} {'ratio':>6} {'of the best':>12} {f'{count} of Python':>12}")
    for work in (*nets.INFERENCE, *nets.TRAINING):
        if given.words and not any(w in work.title for w in given.words):
            continue
        one, several, together = measure(work, programs, count, given.seconds)
        beside_ = f"{np.median(one) / np.median(together):12.2f}" if together else " " * 12
        print(f"{work.title:40} {np.median(one) * 1e3:9.3f} {np.median(several) * 1e3:9.3f} "
              f"{np.median(one) / np.median(several):6.2f} "
              f"{min(one) / min(several):12.2f} {beside_}", flush=True)


if __name__ == "__main__":
    main()
