"""The model of gpu_model.py for launches of several kernels, stage after stage.

Between two barriers, a block takes the sum of the times of the stages that it runs, and all take as long as the slowest
block; a stage takes as long as its kernel in a launch of its own. Where each figure comes from:
- A barrier of the grid is four round trips to the L2 (the stores before it, the atomic sum, one and a half reads of the
  word on average until it has changed, half of one for the fence after it) and two barriers of the block. A round trip
  takes 263 clocks (W. Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via
  Microbenchmarking", 2024: latency of the L2 of an H100; 261 of an A100).
- A launch within a CUDA graph is assumed to take 1 us beside its kernel.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_model import Gpu

L2 = 263                        # clocks
SYNC = 33                       # clocks of a barrier of the block, as in gpu_model_async.py
LAUNCH = 1.0                    # us that each launch adds


def barrier(gpu: Gpu, whole: bool) -> float:
    """Time in us between two stages; whole: all blocks of the grid wait for each other."""
    return ((4 * L2 if whole else 0) + 2 * SYNC) / gpu.clock * 1e6


def launched(launch: Any, us: Callable[[Any], float], gpu: Gpu) -> float:
    """Time of a launch. us: of a kernel that is launched alone."""
    if not launch.waves:
        return us(launch)
    total = barrier(gpu, launch.cooperative) * (len(launch.waves) - 1)
    for wave in launch.waves:
        blocks = [us(stage) for stage in wave for _ in range(stage.blocks)]
        total += max(sum(blocks[first::launch.blocks]) for first in range(launch.blocks))
    return total
