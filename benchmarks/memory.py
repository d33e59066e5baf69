"""Resident memory of each workload, eager and hybridized, each in a fresh process; and what the compiled program plans
beside the least that must be alive at once.

``python benchmarks/memory.py ResNet`` prints the rows whose names hold one of some words; without words all. Columns:
the peak of the process eagerly, hybridized with nothing cached on disk, and hybridized with the program cached;
resident memory after some calls, eagerly and hybridized; the bytes of results, intermediate values and working memory
that the report plans, and their ratio to its liveness bound; the bytes that each thread has beside those on its stack,
at most.
"""
from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MIB = 1 << 20
CALLS = 4


def resident() -> tuple[int, int]:
    """Peak and present bytes of this process. The peak that ``getrusage`` gives may be the one of the process that
    started this one."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        peak, now = (int(lines[name].split()[0]) * 1024 for name in ("VmHWM", "VmRSS"))
    except (OSError, KeyError):
        peak = now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return peak, now


def one(title: str, hybridized: bool) -> dict[str, int]:
    """In a process of its own: bytes after some calls of a workload."""
    import nets
    import numpy as np
    from nets import mx
    work: Any = next(w for w in nets.INFERENCE + nets.TRAINING if w.title == title)
    rng = np.random.RandomState(0)
    net = work.make()
    net.initialize(mx.init.Xavier())
    if isinstance(work, nets.Step):
        args = [mx.nd.array(rng.rand(*work.shape)), mx.nd.array(rng.randint(0, 10, work.shape[0]))]
        call = nets.gluon_step(net, work)
        called = call = mx.hybridize(call) if hybridized else call
    else:
        args = [mx.nd.array(rng.standard_normal(s).astype("float32")) for s in work.shapes]
        called = call = net
        if hybridized:
            net.hybridize(static_alloc=True, static_shape=True)
    for _ in range(CALLS):
        call(*args).wait_to_read()
    peak, now = resident()
    report = called.report() if hybridized else None
    found = {"peak": peak, "after": now}
    return found if report is None else {**found, "planned": report.planned_bytes + report.scratch_bytes,
                                         "bound": report.bound_bytes,
                                              "thread": report.thread_bytes}


def fresh(title: str, how: str, cache: str) -> dict[str, int]:
    """The figures of a process that keeps what it caches in a folder."""
    env = {"HYBRID_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ, "HYBRID_CACHE": cache}
    run = subprocess.run([sys.executable, __file__, "--one", title, how], env=env, capture_output=True, text=True,
                         cwd=Path(__file__).parent, check=False)
    if run.returncode:
        raise SystemExit(f"{title}, {how}: {run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])           # type: ignore[no-any-return]


def row(title: str) -> dict[str, Any]:
    """All figures of a workload."""
    with tempfile.TemporaryDirectory() as cache:
        return {"eager": fresh(title, "eager", cache), "first": fresh(title, "hybridized", cache),
                "cached": fresh(title, "hybridized", cache)}


def text(title: str, found: dict[str, Any]) -> str:
    """A line of the table."""
    cells = [found["eager"]["peak"], found["first"]["peak"], found["cached"]["peak"], found["eager"]["after"],
             found["cached"]["after"]]
    c = found["cached"]
    return f"{title:36s} " + " ".join(f"{n / MIB:8.1f}"
                                      for n in cells) + f" {c['planned']:12d} {c['bound']:12d} {c['planned'] / max(c['bound'], 1):6.2f} {c['thread']:8d}"  # noqa: E501


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="rows whose names hold one of these")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--one", nargs=2, metavar=("TITLE", "HOW"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(args.one[0], args.one[1] == "hybridized")))
        return
    import nets
    rows: dict[str, Any] = {}
    print(f"{'MiB':36s} {'peak':>8s} {'peak':>8s} {'peak':>8s} {'after':>8s} {'after':>8s} {'bytes':>12s} "
          f"{'liveness':>12s} {'':6s} {'a':>8s}")
    print(f"{'':36s} {'eager':>8s} {'first':>8s} {'cached':>8s} {'eager':>8s} {'cached':>8s} {'planned':>12s} "
          f"{'bound':>12s} {'ratio':>6s} {'thread':>8s}")
    for work in nets.INFERENCE + nets.TRAINING:
        if not args.words or any(word in work.title for word in args.words):
            rows[work.title] = row(work.title)
            print(text(work.title, rows[work.title]), flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
