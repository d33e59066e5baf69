"""The model of gpu_model.py for the radix sort of long rows (kernels/cuda/hybrid_sort.cuh).

Its loops go over the pairs of a tile, which the general rule for rows does not count. A launch takes the longest of
1. the instructions of its loops, as often as they run, and of what is around them;
2. its loads, one after the other where they wait for each other: those of one pass of a loop are under way together
   (LATENCY of gpu_model.py), and what tiles wait for in tiles before them;
3. its bytes at the rate of the L2, which holds a million pairs. A pair that is moved to its place writes a sector of 32
   bytes there, since its neighbours seldom have the same digit; a key is read and written as a pair.
Tiles that begin together look at WINDOW tiles before them at a time (D. Merrill, M. Garland, "Single-pass Parallel
Prefix Scan with Decoupled Look-back", 2016). After s round trips to the L2 the first s (s + 1) / 2 windows are done, so
that the last of T tiles waits for about sqrt(2 T / WINDOW) round trips, each of 263 clocks (as in
gpu_model_launches.py).
"""
from __future__ import annotations

import math
import re

import gpu_sass
from gpu_model import LATENCY, Gpu, Kernel, Time, occupancy
from gpu_model_launches import BEGIN, L2

TILE = 4096                     # pairs of a block
WINDOW = 4
SECTOR = 32                     # bytes


def sorts(k: Kernel) -> bool:
    """Whether a kernel is one of a radix sort."""
    return "hy_radix_" in k.text


def _walked(k: Kernel) -> int:
    """Elements that a thread goes through."""
    tiles = re.search(r"hy_radix_totals\([^;]* (\d+)\);", k.text)
    if tiles:
        return -(-int(tiles[1]) * 32 // k.threads)
    counts = re.search(r"hy_radix_scan\(.* (\d+)\);", k.text)
    return -(-int(counts[1]) // k.threads) if counts else TILE // k.threads


def _passes(k: Kernel) -> tuple[float, float]:
    """Instructions that a warp issues, and round trips of loads that it waits for."""
    loops = gpu_sass.loops(k.code)                         # innermost ones: others are branches to code set apart
    bodies = [c for a, b, c in loops if not any(a <= x and y <= b and (a, b) != (x, y) for x, y, _ in loops)]
    loads = [sum(i.op.startswith("LDG") for i in body) for body in bodies]
    issued, trips = float(len(k.code)), 0.0
    for body, n in zip(bodies, loads):
        if n and n == max(loads) and "STRONG" not in "".join(i.op for i in body):
            times = math.ceil(_walked(k) / n)
            issued, trips = issued + (times - 1) * len(body), trips + times
        elif not n and any(i.op.startswith("ATOMS") for i in body):        # of counts of what was loaded before
            issued += (_walked(k) - 1) * len(body)
    return issued, trips


def radix(k: Kernel, gpu: Gpu) -> Time:
    """A launch of a radix sort."""
    issued, trips = _passes(k)
    at_once, warps, per_sm = occupancy(k, gpu), k.threads // 32, math.ceil(k.blocks / gpu.sms)
    back = math.sqrt(2 * k.blocks / WINDOW) * L2 if "hy_radix_ticket(" in k.text else 0
    waiting = math.ceil(per_sm / at_once) * (BEGIN + trips * LATENCY) + back
    working = issued * warps / 4 * per_sm
    pair = 8 + SECTOR if "hy_radix_scatter" in k.text else 12 if "hy_radix_count(" in k.text else 0
    moved = k.blocks * TILE * pair / gpu.l2 * gpu.clock
    most = max(working, waiting, moved)
    return Time("radix", most / gpu.clock * 1e6,
                "issue" if most == working else "latency" if most == waiting else "L2", at_once * warps, round(issued),
                0, 1, k.blocks * TILE * pair / gpu.l2 * 1e6)
