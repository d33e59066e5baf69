"""The model of gpu_model.py for tiles that asynchronous copies feed: cp.async, ldmatrix, and what Hopper adds.

Where each figure comes from:
- LDSM.x4 and LDS.128 of a warp move 512 bytes, LDGSTS.128 writes as many: 4 clocks each of shared memory that takes 128
  bytes a clock (CUDA C Programming Guide; Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture", 2018).
- A copy's latency is that of a load through registers (420 clocks), spread over the slices that are under way: 3 of 4
  stages. A round has at least a barrier, an LDSM and two dependent HMMA, about 33 clocks each: rounded from W. Sun et
  al., "Dissecting Tensor Cores via Microbenchmarks", 2022, and W. Luo et al., "Benchmarking and Dissecting the Nvidia
  Hopper GPU Architecture via Microbenchmarking", 2024.
- An HMMA of 16x8x16 halves or 16x8x8 tf32 has the rate of gpu_model.py, one of half the depth half of it.
- HGMMA m64nNk16 runs at the peak: 64 N 16 products at 2048 a clock and SM (H100 whitepaper: 989 TFLOPS dense; of tf32,
  8 deep, half as many). It reads B, and A where that is not in registers, from shared memory at 128 bytes a clock (W.
  Luo et al.: from shared memory as fast as from registers where that is enough). Its kernels have two slices under way,
  three where warps of their own copy: those issue beside the others, on the same schedulers.
- A block of a launch of several kernels' elements issues the instructions of one of them, which are taken as equal.
- A gradient of filters of small groups waits for a pixel's loads as a slice through registers does (420 clocks).
- A copy of a box (UTMALDG) is issued by one warp; the other ones of its warpgroup have ended. That it writes shared
  memory at 128 bytes a clock as other copies do (the bytes that an mbarrier is told of), and has the latency of a load,
  is assumed.
"""
from __future__ import annotations

import math
import re

import gpu_sass
from gpu_model import LATENCY, Gpu, Kernel, Time, occupancy
from gpu_sass import Instruction

STAGES = 4
STALL = 33                      # clocks by which a barrier, an LDSM or an HMMA delays what depends on it


def is_async(k: Kernel) -> bool:
    """Whether the main loop is fed by asynchronous copies, or goes through the same stages by registers."""
    ops = {i.op.split(".")[0] for i in k.code}
    staged = bool(ops & {"LDGSTS", "UBLKCP", "UTMALDG"}) or "tile_memory" in k.text and "round < " in k.text
    return staged and bool(ops & {"HMMA", "HGMMA", "FFMA"})


def shares(k: Kernel) -> int:
    """Kernels whose elements a launch computes, each in blocks of its own."""
    return len(re.findall(r"t = \((?:int|long long)\)b \* \d+ \+", k.text))


def several(k: Kernel, gpu: Gpu) -> Time:
    """Blocks that each compute elements of one of several kernels: a block issues its share, and finds it by halves."""
    count, at_once, warps = shares(k), occupancy(k, gpu), k.threads // 32
    issued = round(len(k.code) / count + 4 * math.log2(count))
    per_sm = math.ceil(k.blocks / gpu.sms)
    waiting, working = math.ceil(per_sm / at_once) * 1200, issued * warps / 4 * per_sm
    return Time("many", max(working, waiting) / gpu.clock * 1e6, "issue" if working > waiting else "latency",
                at_once * warps, issued, 0, 1, 0)


def summed_pixels(k: Kernel) -> int:
    """Pixels of a thread of a gradient of filters of small groups, one after the other; 0 of other kernels."""
    turns = re.search(r"high = low \+ (\d+) .*?pixel \+= (\d+)\)", k.text, re.S)
    return -(-int(turns[1]) // int(turns[2])) if turns else 0


def over_pixels(k: Kernel, gpu: Gpu) -> Time:
    """A loop over pixels, each of which waits for its loads, then the sums of the block."""
    body, turns, warps, at_once = main_loop(k)[0], summed_pixels(k), k.threads // 32, occupancy(k, gpu)
    per_sm = math.ceil(k.blocks / gpu.sms)
    waiting = math.ceil(per_sm / at_once) * (turns * LATENCY + 3000)
    working = per_sm * warps / 4 * (len(body) * turns + len(k.code) - len(body))
    return Time("pixels", max(working, waiting) / gpu.clock * 1e6, "issue" if working > waiting else "latency",
                at_once * warps, len(body), 0, 1, 0)


def main_loop(k: Kernel) -> tuple[list[Instruction], int]:
    """The loop with most products, and the rounds that one pass of it makes (its barriers, or waits for slices)."""
    loops = gpu_sass.loops(k.code)
    if not loops:
        return k.code, 1
    body = max(loops, key=lambda x: (sum(i.op.startswith(("HMMA", "HGMMA", "FFMA")) for i in x[2]), -len(x[2])))[2]
    return body, max(1, sum(i.op.startswith("BAR") or "PHASECHK" in i.op for i in body))


def feeding(k: Kernel) -> tuple[list[Instruction], int]:
    """The loop of warps that do nothing but copy slices, and how many there are; no warps where all multiply."""
    multiply = multiplying(k)
    if multiply == k.threads // 32:
        return [], 0
    copying = [x[2] for x in gpu_sass.loops(k.code) if not any(i.op.startswith("HGMMA") for i in x[2])]
    return (max(copying, key=lambda x: sum(i.op.startswith(("LDGSTS", "UTMALDG")) for i in x)),
            1 if box_bytes(k) else k.threads // 32 - multiply)


def multiplying(k: Kernel) -> int:
    """Warps of a block that multiply."""
    others = re.search(r"if \(threadIdx\.x >= (\d+)\) \{", k.text)
    copy = "hy_cp_async_arrive" in k.text or box_bytes(k)
    return int(others[1]) // 32 if others and copy else k.threads // 32


def box_bytes(k: Kernel) -> int:
    """Bytes of a slice that comes as boxes through tensor maps; 0 of others."""
    told = re.search(r"hy_mbarrier_expect\(\w+, (\d+)\)", k.text)
    return int(told[1]) if told else 0


def _shape(i: Instruction) -> tuple[int, int]:
    """Columns and depth of a warpgroup's product."""
    shape = re.search(r"64x(\d+)x(\d+)", i.op)
    assert shape, i
    return int(shape[1]), int(shape[2])


def products_clocks(i: Instruction, gpu: Gpu) -> float:
    """Clocks of an SM's tensor cores for one warp's instruction."""
    if i.op.startswith("HGMMA"):
        n, deep = _shape(i)
        return 64 * n * deep / (1024 if deep == 8 else 2048) / 4
    if not i.op.startswith("HMMA"):
        return 0
    half = "1684" in i.op or ("1688" in i.op and "TF32" not in i.op)
    return gpu.mma / 2 if half else gpu.mma


def shared_clocks(i: Instruction) -> float:
    """Clocks of an SM's shared memory for one warp's instruction."""
    if i.op.startswith("HGMMA"):
        n, deep = _shape(i)
        bytes_of = 4 if deep == 8 else 2
        return (n + (0 if re.match(r"R\d+, R\d+", i.operands) else 64)) * deep * bytes_of / 128 / 4
    if i.op.startswith("LDSM"):
        return 4 if i.op.endswith(".4") else 2 if i.op.endswith(".2") else 1
    if i.op.startswith(("LDS", "STS", "LDGSTS")):
        return 4 if ".128" in i.op else 2 if ".64" in i.op else 1
    return 0


def tile(k: Kernel, gpu: Gpu) -> Time:
    """Rounds over slices of the depth, and what is before and behind them once."""
    from gpu_model_launches import adding                  # noqa: PLC0415  it imports this module
    body, unrolled = main_loop(k)
    stated = re.search(r"round < (\d+)", k.text)
    rounds = int(stated[1]) if stated else unrolled
    turns = re.search(r"turn <= (\d+)", k.text)            # of attention, which brings the next keys meanwhile
    if turns:
        rounds, unrolled = int(turns[1]), 1
    feed, feeders = feeding(k)
    passes, warps, own = rounds / unrolled, k.threads // 32, multiplying(k)
    issue = (len(body) * passes * own + len(feed) * rounds * feeders
             + (len(k.code) - len(body) - len(feed)) * warps) / 4
    shared = (sum(map(shared_clocks, body)) * passes * own + sum(map(shared_clocks, feed)) * rounds * feeders
              + box_bytes(k) / 128 * rounds)
    tensor = sum(products_clocks(i, gpu) for i in body) * passes * own
    float32 = sum(i.op.startswith("FFMA") for i in body) * passes * own / 4 * 1.05
    hmma = sum(i.op.startswith(("HMMA", "HGMMA")) for i in body)
    together = any(i.op.startswith("HGMMA") for i in body) and not feeders
    under_way = 1 if turns else 2 if together else STAGES - 1
    latency = rounds * max(LATENCY / under_way, 4 * STALL) + LATENCY + 1500 + adding(k, gpu)
    throughput = max(issue, shared, tensor, float32)
    per_sm, at_once = math.ceil(k.blocks / gpu.sms), occupancy(k, gpu)
    waiting, working = math.ceil(per_sm / at_once) * latency, per_sm * throughput
    bound = ("latency" if waiting > working else "issue" if throughput == issue else
             "shared memory" if throughput == shared else "fma or tensor")
    return Time("async", max(waiting, working) / gpu.clock * 1e6, bound, at_once * warps,
                len(body) // unrolled + len(feed) * feeders // own, hmma // unrolled, 1,
                per_sm * max(tensor, float32 / 1.05) / gpu.clock * 1e6)
