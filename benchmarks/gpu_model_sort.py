"""The model of gpu_model.py for the radix sort of long rows (kernels/cuda/hybrid_sort.cuh) and for their first elements
(hybrid_select.cuh).

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

What finds the first elements in one launch goes over the keys of its tiles once a digit and once more. To the longer
of 1 and 2 come its barriers of the grid, as in gpu_model_launches.py, and behind each two round trips to the L2; then
one block puts what is taken in order, in steps of its instructions, two reads of shared memory and a barrier.
"""
from __future__ import annotations

import math
import re

import gpu_sass
from gpu_model import LATENCY, Gpu, Kernel, Time, occupancy
from gpu_model_async import STALL
from gpu_model_launches import BEGIN, L2, barrier

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


def selects(k: Kernel) -> bool:
    """Whether a kernel finds the first elements of long rows."""
    return "hy_select<" in k.text


def _smallest(k: Kernel, *ops: str, without: str = "?") -> list[gpu_sass.Instruction]:
    """The shortest loop that has all of these instructions."""
    def has(body: list[gpu_sass.Instruction], op: str) -> bool:
        return any(i.op.startswith(op) for i in body)
    return min((body for _, _, body in gpu_sass.loops(k.code)
                if all(has(body, op) for op in ops) and not has(body, without)), key=len)


def select(k: Kernel, gpu: Gpu) -> Time:
    """The launch that finds the first elements."""
    digits = int(re.search(r"hy_select<(\d+)", k.text)[1])                                 # type: ignore[index]
    size = int(re.search(r"hy_select_tables<\d+, (\d+)>", k.text)[1])                      # type: ignore[index]
    tiles, blocks = map(int, re.search(r"share \* (\d+)ll / (\d+)", k.text).groups())       # type: ignore[union-attr]
    tiles, warps, per_sm = math.ceil(tiles / blocks), k.threads // 32, math.ceil(k.blocks / gpu.sms)
    passes = [(_smallest(k, "LDG", "ATOMS", "STG"), 1), (_smallest(k, "LDG", "ATOMS", without="STG"), digits - 1),
              (_smallest(k, "LDG", "BAR", "STG", "VOTE"), 1)]
    issued, trips = len(k.code) + 200.0 * tiles * digits, 0.0      # bins are cleared and added up
    for body, n in passes:
        times = TILE // k.threads * tiles / max(1, sum(i.op.startswith("LDG") for i in body)) * n
        issued, trips = issued + times * len(body), trips + times
    at_once, steps = occupancy(k, gpu), (size.bit_length() - 1) * size.bit_length() / 2
    step = math.ceil(size / 2 / k.threads) * len(_smallest(k, "LDS", "STS", "BAR", "ISETP", without="LDG")) * warps / 4
    waiting = math.ceil(per_sm / at_once) * (BEGIN + trips * LATENCY)
    working = issued * warps / 4 * per_sm
    clocks = max(waiting, working) + steps * (step + 3 * STALL) + (digits + 2) * 2 * L2
    return Time("select", clocks / gpu.clock * 1e6 + (digits + 2) * barrier(gpu, blocks > 1),
                "issue" if working > waiting else "latency", at_once * warps, round(issued), 0, 1,
                k.blocks * tiles * TILE * 4 * (digits + 2) / gpu.l2 * 1e6)


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
