"""The model of gpu_model.py for products of which each block has an equal share of the k-iterations (Stream-K).

A multiprocessor has as many k-iterations as its shares and whole tiles have, each as long as in gpu_model_async.py;
what is behind and before the k-iterations is issued once for each tile that a share has a part of. To that comes, for
the slowest block, and as if nothing of it overlapped:
- its own sums go to the L2, and those of each other block of the tile that it finishes come from there: their bytes at
  64 a clock (Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture", 2018), or at the L2's rate, which all
  multiprocessors share;
- three round trips (its stores and the fence; the number of its share; the word that says so), and two for each block
  whose sums it adds (the word, the sums), with two barriers: 263 and 33 clocks, as in gpu_model_launches.py;
- the latency of the first slices of each part, 420 clocks, which has no k-iteration before it to hide in.
"""
from __future__ import annotations

import math
import re
from typing import NamedTuple

import gpu_sass
from gpu_model import LATENCY, Gpu, Kernel, Time, occupancy
from gpu_model_async import STAGES, STALL, products_clocks, shared_clocks
from gpu_model_launches import BEGIN, L2, PORT
from gpu_sass import Instruction


class Shares(NamedTuple):
    """Shares of the first tiles, and k-iterations of a tile."""
    blocks: int
    tiles: int
    iterations: int


def shares_of(text: str) -> Shares | None:
    """What a kernel's text says; None of other kernels."""
    found = re.search(r"unsigned from = number < \d+ \?.*: \(number - (\d+)u \+ (\d+)u\) \* (\d+);", text)
    return Shares(*map(int, found.groups())) if found else None


def parts(s: Shares) -> tuple[int, int]:
    """The most tiles that a share has a part of, and the most shares behind the first of a tile."""
    each, rest = divmod(s.tiles * s.iterations, s.blocks)
    begins = [n * each + min(n, rest) for n in range(s.blocks + 1)]
    most = max((end - 1) // s.iterations - begin // s.iterations + 1 for begin, end in zip(begins, begins[1:]))
    inside = [0] * s.tiles
    for begin in begins[:-1]:
        inside[begin // s.iterations] += begin % s.iterations != 0
    return most, max(inside)


def _depth_loop(k: Kernel) -> tuple[list[Instruction], int]:
    """The loop over k-iterations, within that over tiles, and how many one pass of it makes (its barriers)."""
    loops = [x for x in gpu_sass.loops(k.code) if _products(x[2])]
    inner = [x for x in loops if not any(x[0] <= y[0] and y[1] <= x[1] and x is not y for y in loops)]
    body = max(inner, key=lambda x: _products(x[2]))[2]
    return body, max(1, sum(i.op.startswith(("BAR", "SYNCS")) for i in body))


def _products(body: list[Instruction]) -> int:
    return sum(i.op.startswith(("HMMA", "HGMMA")) for i in body)


def equal_shares(k: Kernel, gpu: Gpu) -> Time:
    """A product in equal shares."""
    s = shares_of(k.text)
    found = re.search(r"\(hy_sums \*\)scratch \+ \(size_t\)\(\d+ - number\) \* (\d+)", k.text)
    assert s is not None and found is not None
    body, unrolled = _depth_loop(k)
    warps, at_once, whole = k.threads // 32, occupancy(k, gpu), k.blocks - s.blocks
    most, behind = parts(s)
    resident, own = math.ceil(s.blocks / gpu.sms), math.ceil(whole / gpu.sms)
    share = math.ceil(s.tiles * s.iterations / s.blocks)
    rounds, pieces = resident * share + own * s.iterations, resident * most + own
    issue = (len(body) * rounds / unrolled + (len(k.code) - len(body)) * pieces) * warps / 4
    shared = sum(map(shared_clocks, body)) * rounds / unrolled * warps
    tensor = sum(products_clocks(i, gpu) for i in body) * rounds / unrolled * warps
    under_way = 2 if any(i.op.startswith("HGMMA") for i in body) else STAGES - 1
    rate = min(PORT, gpu.l2 / gpu.sms / gpu.clock / resident)
    adding = 16 * int(found[1]) * (1 + behind) / rate + (3 + 2 * behind) * L2 + 2 * (1 + behind) * STALL
    each = max(LATENCY / under_way, 4 * STALL)
    waiting = (math.ceil(resident / at_once) * (share * each + most * LATENCY + BEGIN)
               + math.ceil(own / at_once) * (s.iterations * each + LATENCY + BEGIN) + adding)
    throughput = max(issue, shared, tensor)
    working = throughput + adding + most * LATENCY
    bound = ("latency" if waiting > working else "issue" if throughput == issue else
             "shared memory" if throughput == shared else "fma or tensor")
    return Time("equal", max(waiting, working) / gpu.clock * 1e6, bound, at_once * warps, len(body) // unrolled,
                _products(body) // unrolled, 1, tensor / gpu.clock * 1e6)
