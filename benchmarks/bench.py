"""Latency beside the peers that are installed, taking turns in one run: medians, ratio to the best peer, share of what
the machine can do. One thread unless HYBRID_NUM_THREADS says otherwise; then everyone is held to as many cores.

``make bench`` installs onnx, onnxruntime, openvino and matplotlib; torch and jax take part where they are installed
(``pip install -e '.[peers]'``), MXNet where MXNET_PYTHON names a Python that has it. The last rows are first results,
each in a process of its own, with all cores. Figures and a plot are kept (``--json``, ``--plot``). The share counts all
products of a network, also those of zeros that are left out (docs/how-it-works.md) or saved by Winograd's form: it may
pass 100 %.
"""
from __future__ import annotations

import os

THREADS = os.environ.setdefault("HYBRID_NUM_THREADS", "1")
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, THREADS)
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
if CORES:                                         # JAX has no setting for its threads
    os.sched_setaffinity(0, sorted(CORES)[-int(THREADS):])

import argparse  # noqa: E402
import gc  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import ceiling  # noqa: E402
import nets  # noqa: E402
import numpy as np  # noqa: E402
import peers  # noqa: E402
import starts  # noqa: E402
from nets import Step, Workload  # noqa: E402

import hybrid as mx  # noqa: E402
from hybrid import nd  # noqa: E402
from hybrid.runtime import launcher  # noqa: E402

OWN = ("hybrid", "hybrid eager", "hybrid, ordinary loop")
WIDTH = 47                      # of the titles' column
WARM = 8                        # calls before one is timed
ONE_BY_ONE = 5e-5               # seconds of a call from which on the clock costs nothing beside it


def participants(work: Workload | Step, without: set[str]) -> dict[str, peers.Timed]:
    """Everyone who can run a workload, their results compared with the eager one."""
    out = {}
    want = None if isinstance(work, Step) else peers.eager(work)[1]
    expected = want() if want is not None else None
    for name, make in peers.makers(work):
        made = None if name in without else make()
        if made is None:
            continue
        out[name], result = made
        if result is not None:
            np.testing.assert_allclose(np.asarray(result()), expected, rtol=2e-3,
                                       atol=2e-3 * float(np.abs(expected).max()), err_msg=name)
    return out


def measure(named: dict[str, peers.Timed], seconds: float) -> dict[str, float]:
    """Median seconds a call, taking turns of 20 milliseconds. Calls that take long enough are timed one by one: what
    others left in the caches is then the first call's alone. The first calls are not timed: an ordinary loop is one
    program from its third round on, and follows it in C some rounds later.
    """
    for run in named.values():
        run(WARM)
    takes = {name: max(run(1), 1e-7) for name, run in named.items()}
    together = {name: 1 if t > ONE_BY_ONE else int(0.001 / t) for name, t in takes.items()}
    samples: dict[str, list[float]] = {name: [] for name in named}
    stop = time.perf_counter() + seconds
    gc.collect()
    while time.perf_counter() < stop or len(next(iter(samples.values()))) < 7:
        for name, run in named.items():
            for _ in range(max(1, int(0.02 / takes[name] / together[name]))):
                samples[name].append(run(together[name]) / together[name])
    return {name: float(np.median(s)) for name, s in samples.items()}


def least(work: Workload | Step) -> float:
    """Seconds the machine needs at least: products and memory of the network's eager graph."""
    xs = [nd.zeros(work.shape)] if isinstance(work, Step) else [nd.array(x) for x in peers.data(work)]
    net = peers.network(work)
    weights = sum(p.data().size for p in net.collect_params().values()) * 4
    traced = mx.hybridize(lambda *inputs: net(*inputs))
    out = traced(*xs)
    entry = list(traced._engine.entries.values())[-1]
    times = gradients(entry) if isinstance(work, Step) else {}
    total = sum(2.0 * n.size * contracted(n) * times.get(n, 1) for n in entry.exe.planned.source.order()
                if n.prim == "dot")
    updates = weights if isinstance(work, Step) else 0
    return ceiling.least_seconds(total, weights + sum(x.size for x in xs) * 4, out.size * 4 + updates)


def gradients(entry: Any) -> dict[Any, int]:
    """How many products of its size each product of a network takes in training: itself, and one for each factor that
    depends on a parameter."""
    depends: dict[Any, bool] = {}
    for n in entry.exe.planned.source.order():
        depends[n] = n.attrs["slot"] >= entry.arguments if n.prim == "input" else any(depends[a] for a in n.args)
    return {n: 1 + sum(depends[a] for a in n.args) for n in depends if n.prim == "dot"}


def contracted(dot: Any) -> int:
    """Elements summed for each element of a product."""
    (axes, _), a = dot.attrs["contract"], dot.args[0]
    return int(np.prod([a.shape[i] for i in axes]))


def row(work: Workload | Step, seconds: float, without: set[str]) -> dict[str, Any]:
    """The figures of a workload."""
    times = measure(participants(work, without), seconds)
    return {**beside(times), "ceiling": least(work) / times["hybrid"]}


def beside(times: dict[str, float]) -> dict[str, Any]:
    """Seconds of all participants, the best peer and the ratio to it."""
    others = {k: v for k, v in times.items() if k not in OWN}
    best = min(others, key=others.__getitem__) if others else None
    return {"seconds": times, "best peer": best, **({"ratio": times["hybrid"] / others[best]} if best else {})}


def start_rows(title: str, without: set[str]) -> dict[str, dict[str, Any]]:
    """The rows of a workload's first results: from nothing, and with what an earlier process cached."""
    if CORES:
        os.sched_setaffinity(0, CORES)
    found = starts.measured(title, 3, without)
    return {f"{name}, {title}": beside({peer: took[kind] for peer, took in found.items()})
            for name, kind in (("first result", "first"), ("cached start", "cached"))}


def show(title: str, figures: dict[str, Any]) -> None:
    """One line of the table."""
    times = figures["seconds"]
    best, ratio = figures["best peer"] or "-", f"{figures['ratio']:.2f}" if "ratio" in figures else "-"
    share = f"{figures['ceiling']:.0%}" if "ceiling" in figures else ""
    rest = "  ".join(f"{k} {micro(v)}" for k, v in times.items() if k != "hybrid")
    print(f"{title:{WIDTH}s} {micro(times['hybrid']):>9s} {ratio:>6s} {best:14s} {share:>6s}   {rest}", flush=True)


def micro(seconds: float) -> str:
    """Microseconds with as many digits as mean something."""
    return f"{seconds * 1e6:.1f}" if seconds < 1e-4 else f"{seconds * 1e6:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only workloads whose title has one of these words")
    parser.add_argument("--seconds", type=float, default=3.0, help="per workload")
    parser.add_argument("--without", action="append", default=[], metavar="PEER",
                        help="leave a peer out, as it is named in the table")
    parser.add_argument("--json", help="write the figures here", default="build/bench/bench.json")
    parser.add_argument("--plot", help="draw the ratios here (PNG or SVG; needs matplotlib)",
                        default="build/bench/bench.png")
    args = parser.parse_args()

    def wanted(title: str) -> bool:
        return not args.words or any(word.lower() in title.lower() for word in args.words)
    chosen = [w for w in nets.INFERENCE + nets.TRAINING if wanted(w.title)]
    first = [title for title in starts.WORKLOADS if wanted(f"first result, cached start, {title}")]
    if not chosen and not first:
        parser.error(f"no workload has {' or '.join(args.words)} in its title; there are: "
                     + "; ".join(w.title for w in nets.INFERENCE + nets.TRAINING)
                     + "; first result and cached start of " + "; ".join(starts.WORKLOADS))
    machine = f"{processor()}, {THREADS} thread(s), Python {platform.python_version()}, NumPy {np.__version__}"
    print(f"{machine}\nMedian microseconds a call; ratio to the best peer's time (less is better); share of the "
          f"ceiling "
          f"({ceiling.flops() / 1e9:.0f} GFLOP/s and memory, one thread)\n{'':{WIDTH}s} {'hybrid':>9s} {'ratio':>6s} "
          f"{'best peer':14s} {'share':>6s}   others")
    # else it is compiled in the background while the first rows are timed
    launcher.load()
    rows: dict[str, dict[str, Any]] = {}
    for work in chosen:
        rows[work.title] = row(work, args.seconds, set(args.without))
        show(work.title, rows[work.title])
    for title in first:
        some = start_rows(title, set(args.without))
        rows.update(some)
        for name, figures in some.items():
            show(name, figures)
    save({"machine": machine, "gflops": ceiling.flops() / 1e9, "rows": rows}, args.json, args.plot)


def save(figures: dict[str, Any], file: str, picture: str) -> None:
    """Keep the figures as JSON and, where matplotlib is there, as an image."""
    for name in (file, picture):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(json.dumps(figures, indent=1))
    print(f"\nfigures: {file}")
    if importlib.util.find_spec("matplotlib") is None:
        print("no picture: pip install matplotlib")
        return
    from plot import draw, headline
    short = str(Path(picture).with_stem(Path(picture).stem + "_short"))
    draw(figures["machine"], figures["rows"], picture)
    headline(figures["machine"], figures["rows"], short)
    print(f"pictures: {picture}, {short}")


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main())
