"""The model of gpu_model.py for launches of several kernels, stage after stage.

Between two barriers, a block takes the sum of the times of the stages that it runs, and all take as long as the slowest
block; a stage takes as long as its kernel in a launch of its own. Where each figure comes from:
- A barrier of the grid is four round trips to the L2 (the stores before it, the atomic sum, one and a half reads of the
  word on average until it has changed, half of one for the fence after it) and two barriers of the block. A round trip
  takes 263 clocks (W. Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via
  Microbenchmarking", 2024: latency of the L2 of an H100; 261 of an A100).
- Where the last block of a tile adds up the parts of its sums, it takes three round trips (its stores and the fence;
  the ticket; the fence behind it), two barriers of the block, and one more round trip for each two parts, whose bytes
  come at 64 a clock (Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture", 2018: from the L2 to an SM), or at
  the L2's rate if that is less.
- A launch within a CUDA graph is assumed to take 1 us beside its kernel.

For a loop over time that is one launch (matrices in registers), the modelled time of a step is the sum of
1. a barrier of the grid, as above, or two of the block where no block waits for another;
2. the loads from L2: a round trip, and their bytes at the L2's rate;
3. the larger of issue time and shared-memory time of all warps, as in gpu_model_async.py;
4. 4 clocks for each instruction that is no product, as if each depended on the one before (Z. Jia et al., "Dissecting
   the NVIDIA Volta GPU Architecture", 2018, find 4 clocks; W. Luo et al. as many on later GPUs);
5. 33 clocks for each barrier of the block, and for each of two reads of shared memory.
That should be an upper bound: nothing overlaps, 3 and 4 count the same instructions, and only the warps that have units
run those after the products.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import gpu_sass
from gpu_model import Gpu, Kernel, Time
from gpu_model_async import STALL, shared_clocks

L2 = 263                        # clocks
LAUNCH = 1.0                    # us that each launch adds
PORT = 64                       # bytes a clock from the L2 to an SM
DEPENDENT = 4                   # clocks of an instruction that waits for the one before
SELECT = r"hy_select<(\d+), true>"
BEGIN = 1500                    # clocks of a launch and its first loads, as for tiles in gpu_model.py


def barrier(gpu: Gpu, whole: bool) -> float:
    """Time in us between two stages; whole: all blocks of the grid wait for each other."""
    return ((4 * L2 if whole else 0) + 2 * STALL) / gpu.clock * 1e6


def shared_sums(k: Kernel) -> int:
    """Bytes of the sums that blocks of a product leave to the one that finishes their tile; 0 of other kernels."""
    found = re.search(r"\(hy_sums \*\)scratch \+ \(size_t\)(?:blockIdx\.x|\((\d+) - number\)) \* (\d+)", k.text)
    return 16 * int(found[2]) * (int(found[1]) + 1 if found[1] else k.blocks) if found else 0


def adding(k: Kernel, gpu: Gpu) -> float:
    """Clocks in which the last block of a tile adds up the parts of its sums."""
    found, total = re.search(r"from < (\d+)", k.text), shared_sums(k)
    if not found or not total:
        return 0
    parts = int(found[1])
    rate = min(PORT, gpu.l2 / min(gpu.sms, k.blocks / parts) / gpu.clock)
    return (3 + -(-parts // 2)) * L2 + 2 * STALL + total / k.blocks * parts / rate


def steps(k: Kernel) -> int:
    """Steps of a loop over time that is one launch; 0 of other kernels."""
    found = re.search(r"for \(int s = 0; s < (\d+); s\+\+\)", k.text)
    return int(found[1]) if found and "matrix0[" in k.text else 0


def barriers(launch: Any, text: str) -> int:
    """Barriers of the grid within a launch. text: of its kernel."""
    if not launch.cooperative:
        return 0
    select = re.search(SELECT, text)
    if select:
        return int(select[1]) + 2                          # counts are 0; one a digit; all pairs are there
    found = re.search(r"for \(int s = 0; s < (\d+); s\+\+\)", text)
    each = len(re.findall(r"^ +hy_grid_barrier", text, re.M)) * int(found[1]) if found else 0
    return each + (int(found[1]) - 1 if found and "if (s) hy_grid_barrier" in text else 0) or len(launch.waves) - 1


def over_time(k: Kernel, gpu: Gpu) -> Time:
    """A loop over time that is one launch."""
    body = max(gpu_sass.loops(k.code), key=lambda x: len(x[2]))[2]
    warps, products = k.threads // 32, sum(i.op.startswith("FFMA") for i in body)
    loads = [i.op for i in body if i.op.startswith("LDG")]
    moved = sum(512 if ".128" in op else 256 if ".64" in op else 128 for op in loads) * warps
    issue, shared = len(body) * warps / 4, sum(map(shared_clocks, body)) * warps
    syncs = sum(i.op.startswith("BAR") for i in body)
    step = (L2 + moved / (gpu.l2 / gpu.sms / gpu.clock) + max(issue, shared) + DEPENDENT * (len(body) - products)
            + STALL * (syncs + 2))
    once = BEGIN + (len(k.code) - len(body)) * (warps / 4 + DEPENDENT)
    waits = "hy_grid_barrier" in k.text
    us = (once + step * steps(k)) / gpu.clock * 1e6 + barrier(gpu, waits) * steps(k)
    return Time("steps", us, "latency", warps, len(body), products, 1,
                products * warps / 4 * steps(k) / gpu.clock * 1e6)


def launched(launch: Any, us: Callable[[Any], float], gpu: Gpu) -> float:
    """Time of a launch. us: of a kernel that is launched alone."""
    if not launch.waves:
        return us(launch)
    total = barrier(gpu, launch.cooperative) * (len(launch.waves) - 1)
    for wave in launch.waves:
        blocks = [us(stage) for stage in wave for _ in range(stage.blocks)]
        total += max(sum(blocks[first::launch.blocks]) for first in range(launch.blocks))
    return total
