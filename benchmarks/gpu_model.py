"""How long a kernel takes on a GPU, by a model: instructions counted in its SASS, its launch, bytes of its arrays.

The rules and constants are those of a review of the kernels before tensor cores were fed by asynchronous copies:
a scheduler issues an instruction a clock; a slice of a tile whose loads go through registers has a latency of 420
clocks; 90 % of the memory's bandwidth. gpu_model_async.py has the rules for the later forms. It is optimistic where few
warps run; nothing here is a measurement.
"""
from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

import gpu_sass
from gpu_sass import Instruction


@dataclass(frozen=True)
class Gpu:
    """clock: Hz; dram, l2: bytes a second; mma: clocks of an SM for an HMMA of 2048 products."""
    name: str
    arch: str
    clock: float
    sms: int
    dram: float
    l2: float
    mma: float
    shared: int                                            # bytes of an SM


LATENCY = 420                   # clocks of a slice whose loads wait in registers
# H100: the review's constants. HMMA: 62 % of the rate of wgmma.
H100 = Gpu("H100", "sm_90a", 1.755e9, 132, 3.35e12 * 0.90, 5.5e12, 1.6, 228 * 1024)
# A100 (whitepaper: 108 SMs, 1.41 GHz, 1.555 TB/s, 1024 products a clock and SM, which mma.sync reaches: W. Sun et al.,
# "Dissecting Tensor Cores via Microbenchmarks", 2022); the L2 by the clocks and SMs of the H100's
A100 = Gpu("A100", "sm_80", 1.41e9, 108, 1.555e12 * 0.90, 5.5e12 * 108 * 1.41 / 132 / 1.755, 2.0, 164 * 1024)


class Kernel(NamedTuple):
    """A launch with all that is known of it."""
    name: str
    text: str                                              # CUDA, behind its parameters' parenthesis
    blocks: int
    threads: int
    registers: int
    shared: int                                            # bytes of a block
    spills: int
    code: list[Instruction]
    bytes: int                                             # of the arrays that it reads and writes


class Time(NamedTuple):
    """What the model says of a launch."""
    form: str
    us: float
    bound: str
    warps: int                                             # of an SM
    main: int                                              # instructions of the main loop
    products: int                                          # FFMA or HMMA among them
    bank: float                                            # factor of the worst store to shared memory
    roofline: float                                        # us: memory and the arithmetic's peak alone


def occupancy(k: Kernel, gpu: Gpu) -> int:
    """Blocks of an SM."""
    warps = k.threads // 32
    by_registers = 65536 // (-(-k.registers * 32 // 256) * 256 * warps) if k.registers else 99
    return max(1, min(by_registers, 2048 // k.threads, gpu.shared // (k.shared + 1024) if k.shared else 99, 32))


def model(k: Kernel, gpu: Gpu) -> Time:
    """The time of one launch."""
    # imported here: those modules import this one
    from gpu_model_async import (is_async, over_pixels, several, shares, summed_pixels,       # noqa: PLC0415
                                 tile as async_tile)
    from gpu_model_launches import over_time, steps                                           # noqa: PLC0415
    from gpu_model_shares import equal_shares, shares_of                                      # noqa: PLC0415
    from gpu_model_sort import radix, select, selects, sorts                                  # noqa: PLC0415
    if selects(k):
        t = select(k, gpu)
    elif sorts(k):
        t = radix(k, gpu)
    elif steps(k):
        t = over_time(k, gpu)
    elif shares_of(k.text):
        t = equal_shares(k, gpu)
    elif is_async(k):
        t = async_tile(k, gpu)
    elif "As[" in k.text or "Bs[" in k.text:
        t = _tile(k, gpu)
    elif summed_pixels(k):
        t = over_pixels(k, gpu)
    elif shares(k) > 1:
        t = several(k, gpu)
    else:
        t = _rows(k, gpu)
    memory = k.bytes / (gpu.dram if k.bytes > 40e6 else gpu.l2) * 1e6
    t = t._replace(roofline=max(t.roofline, memory))
    return t._replace(us=memory, bound="memory") if memory > t.us else t


def _passes(op: str) -> int:
    return 4 if ".128" in op else 2 if ".64" in op else 1


def transposing_conflict(text: str) -> int:
    """The factor of the stores of halves that go into a tile transposed."""
    worst = 1
    pattern = (r"int s = e % (\d+) \* (\d+), d = e / \d+;\s*#pragma unroll\s*for \(int j = 0; j < \d+; j\+\+\) ([AB]s)"
               r"\[buffer\]\[s \+ j\]\[d\]")
    for across, width, _ in re.findall(pattern, text):
        banks: dict[int, set[int]] = {}
        for lane in range(32):
            word = (lane % int(across) * int(width) * 80 + lane // int(across) * 2) // 4
            banks.setdefault(word % 32, set()).add(word)
        worst = max(worst, *(len(v) for v in banks.values()))
    return worst


def _main_loop(k: Kernel) -> tuple[int, int, list[Instruction]]:
    """The loop of a tile: barriers, loads from both memories, and most products."""
    def value(loop: tuple[int, int, list[Instruction]]) -> int:
        ops = [i.op for i in loop[2]]
        if not all(any(o.startswith(p) for o in ops) for p in ("LDS", "BAR", "LDG")):
            return -1
        return sum(o.startswith(("FFMA", "HMMA", "DFMA", "IMAD")) for o in ops)
    return max(gpu_sass.loops(k.code), key=value)


def _epilogue(k: Kernel, behind: int) -> tuple[int, int, int]:
    """Instructions, turns, and elements a thread and turn of the loops that store a tile."""
    found = [x for x in gpu_sass.loops(k.code) if x[0] >= behind and any("STG" in i.op for i in x[2])
             and any(i.op.startswith("LDS") for i in x[2])]
    turn, element = re.search(r"turn < (\d+)", k.text), re.search(r"e < (\d+); e \+= 256", k.text)
    turns, per = int(turn[1]) if turn else 1, -(-int(element[1]) // 256) if element else 1
    if not found:
        return 0, turns, per
    inner, outer = (len(f(found, key=lambda x: len(x[2]))[2]) for f in (min, max))
    return turns * (per * inner + (max(0, outer - inner) if outer != inner else 20)), turns, per


def _tile(k: Kernel, gpu: Gpu) -> Time:
    """Tiles whose slices go through registers."""
    mma = "hy_mma" in k.text
    step = int(re.search(r"low = \(\w[\w ]*\)part \* (\d+)", k.text)[1])            # type: ignore[index]
    depth = int(re.search(r"high = low \+ \d+ < (\d+)", k.text)[1])                 # type: ignore[index]
    slices = -(-min(step, depth) // int(re.search(r"k0 \+= (\d+)\)", k.text)[1]))   # type: ignore[index]
    _, end, body = _main_loop(k)
    epilogue, turns, per = _epilogue(k, end)
    bank = transposing_conflict(k.text)
    loads = sum(_passes(i.op) * (1 if mma else 0.75) for i in body if i.op.startswith("LDS"))
    stores = sum(bank if ".U16" in i.op else _passes(i.op) for i in body if i.op.startswith("STS"))
    fma, hmma = (sum(i.op.startswith(p) for i in body) * slices for p in ("FFMA", "HMMA"))
    warps = k.threads // 32
    tensor, float32 = hmma * warps * gpu.mma, fma * warps / 4 * 1.05
    issue = (len(body) * slices + epilogue + 150) * warps / 4
    latency = slices * LATENCY + turns * (per * 60 + 150) + 1500
    throughput = max(issue, (loads + stores) * slices * warps, tensor, float32)
    per_sm, at_once = math.ceil(k.blocks / gpu.sms), occupancy(k, gpu)
    waiting, working = math.ceil(per_sm / at_once) * latency, per_sm * throughput
    bound = ("latency" if waiting > working else "issue" if throughput == issue else
             "fma or tensor" if throughput in (tensor, float32) else "shared memory")
    return Time("mma" if mma else "tile", max(waiting, working) / gpu.clock * 1e6, bound, at_once * warps, len(body),
                (hmma or fma) // slices, bank, per_sm * max(tensor, float32 / 1.05) / gpu.clock * 1e6)


def _number(text: str) -> int:
    try:
        return int(eval(text, {"__builtins__": {}}))       # noqa: S307  an arithmetic expression of a generated text
    except Exception:                                      # noqa: BLE001  names a variable: once
        return 1


def _rows(k: Kernel, gpu: Gpu) -> Time:
    """Rows, reductions and elements: the straight part and each loop as often as the text says."""
    row = "hy_block_reduce" in k.text or "hy_warp_reduce" in k.text
    issued, texts = len(k.code), re.findall(
        r"for \((?:int|long long) q\w* = [^;]*; q\w* < ([^;]+); q\w* \+= (\d+)\)", k.text)
    if row:
        bodies = [len(x[2]) for x in sorted(gpu_sass.loops(k.code))]
        trips = [max(1, -(-_number(a) // int(s))) for a, s in texts]
        issued -= sum(bodies)
        single = len(bodies) < 2 * len(trips)              # else each is there twice: by ones, and by fours
        for n, trip in enumerate(trips):
            if single:
                body = bodies[n] if n < len(bodies) else 0
                issued += (trip // 4 if trip % 4 == 0 else trip) * body
            else:
                issued += trip // 4 * bodies[2 * n + 1] + trip % 4 * bodies[2 * n]
    at_once, warps = occupancy(k, gpu), k.threads // 32
    waiting = math.ceil(k.blocks / gpu.sms / at_once) * (1200 + 900 * len(texts))
    working = issued * warps / 4 * math.ceil(k.blocks / gpu.sms)
    return Time("row" if row else "flat", max(working, waiting) / gpu.clock * 1e6,
                "issue" if working > waiting else "latency", at_once * warps, issued, 0, 1, 0)
