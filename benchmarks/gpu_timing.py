"""How the GPU benchmarks time and report: benchmarks/gpu.py and benchmarks/gpu_peers.py."""
from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOTE = ("**No measurement:** this ran on a stand-in for a GPU, where kernels run in an emulator or not at all; the "
        "table shows that the benchmark runs from end to end, its figures mean nothing.")


@dataclass
class Row:
    """Times of one program in microseconds: of a call and waiting for it, of one of many back to back, of a call until
    it returns. pool: the most bytes that CuPy's memory pool held for it."""
    program: str
    by: str
    alone: float = float("nan")
    in_a_row: float = float("nan")
    host: float = float("nan")
    pool: int = 0
    error: str = ""


def stand_in() -> bool:
    """Whether there is no GPU, but a stand-in for one."""
    return bool(os.environ.get("HYBRID_STAND_IN"))


def gpu_name() -> str:
    """The GPU's name, or that it is none."""
    if stand_in():
        return "none (a stand-in: no measurement)"
    try:
        from cupy.cuda import runtime  # noqa: PLC0415  only where it is installed
    except ImportError:
        return "not named (no CuPy)"
    return str(runtime.getDeviceProperties(0)["name"].decode())


def pool_bytes(empty: bool = False) -> int:
    """What CuPy's memory pool holds, which it gives back only when asked. empty: have it give back what nobody uses."""
    try:
        import cupy  # noqa: PLC0415  only where it is installed
    except ImportError:
        return 0
    pool = cupy.get_default_memory_pool()
    if empty:
        gc.collect()
        pool.free_all_blocks()
    return int(pool.total_bytes())


def measure(program: str, by: str, make: Callable[[], Callable[[], Any]], wait: Callable[[], Any], quick: bool,
            budget: float = 20) -> Row:
    """Time what ``make`` gives; its first calls compile and are not counted. An error becomes the row's text.

    ``quick``: a few calls, to see that it runs."""
    first, repeats, in_a_row = (2, 1, 2) if quick else (5, 50, 10)
    try:
        before = pool_bytes(empty=True)
        call = make()
        for _ in range(first):
            call()
        wait()
        alone, rows, host = [], [], []
        end = time.perf_counter() + budget
        while len(alone) < repeats and (not alone or time.perf_counter() < end):
            begin = time.perf_counter()
            call()
            returned = time.perf_counter()
            wait()
            alone.append(time.perf_counter() - begin)
            host.append(returned - begin)
            begin = time.perf_counter()
            for _ in range(in_a_row):
                call()
            wait()
            rows.append((time.perf_counter() - begin) / in_a_row)
        return Row(program, by, *(1e6 * statistics.median(times) for times in (alone, rows, host)),
                   pool=pool_bytes() - before)
    except Exception as err:                                 # noqa: BLE001  one program less, the others go on
        return failed(program, by, err)


def failed(program: str, by: str, err: Exception) -> Row:
    """The row of what raises an error: its first line."""
    return Row(program, by, error=f"{type(err).__name__}: {str(err).splitlines()[0] if str(err) else ''}"[:120])


def report(title: str, gpu: str, rows: list[Row], path: Path) -> str:
    """The table as markdown, written to a file; an image beside it where matplotlib is installed."""
    lines = [f"# {title}", "", f"GPU: {gpu}", ""] + ([NOTE, ""] if stand_in() else [])
    lines += ["| program | by | one call, us | back to back, us | until it returns, us | CuPy's memory pool, MB |",
              "|---|---|---|---|---|---|"]
    for r in rows:
        pool = f"{r.pool / 1e6:.1f}" if r.pool else "-"
        times = f"{r.alone:.1f} | {r.in_a_row:.1f} | {r.host:.1f} | {pool}" if not r.error else f"{r.error} | | |"
        lines.append(f"| {r.program} | {r.by} | {times} |")
    text = "\n".join(lines) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    scratch.write_text(text)
    scratch.replace(path)
    timed = [r for r in rows if not r.error]
    if timed:
        _picture(title, gpu, timed, path.with_suffix(".png"))
    return text


def _picture(title: str, gpu: str, rows: list[Row], path: Path) -> None:
    try:
        import matplotlib  # noqa: PLC0415  optional
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(9, 1 + 0.3 * len(rows)))
    axes.barh([f"{r.program}, {r.by}" for r in rows][::-1], [r.in_a_row for r in rows][::-1])
    axes.set_xscale("log")
    axes.set_xlabel("microseconds a call, back to back")
    axes.set_title(f"{title}\nGPU: {gpu}")
    figure.tight_layout()
    figure.savefig(path)
