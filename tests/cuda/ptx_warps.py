"""The instructions of tests/cuda/ptx.py that the lanes of a warp execute together."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .ptx import Block
from .ptx_steps import step, vector
from .ptx_text import PtxError


def warps(b: Block, op: list[str]) -> np.ndarray:
    """Threads that execute, a row for each warp; all lanes must be there."""
    if len(b.who) % 32 or not (b.who.reshape(-1, 32) % 32 == np.arange(32)).all():
        raise PtxError(f"{'.'.join(op)} by parts of a warp")
    return np.arange(len(b.who)).reshape(-1, 32)


def of_lanes(b: Block, values: np.ndarray, otherwise: Any) -> np.ndarray:
    """Values of threads that execute, a row for each warp; ``otherwise`` for lanes that do not."""
    whole = np.full(-(-b.threads // 32) * 32, otherwise, values.dtype)
    whole[b.who] = values
    return whole.reshape(-1, 32)


@step("shfl")
def shuffle(b: Block, op: list[str], args: list[str]) -> None:
    """Values of other lanes; those outside of the segment keep theirs. What a lane has that does not execute is not
    defined."""
    x = b.get(args[1], "b32")
    by, c = (b.get(a, "u32").astype(np.int64) for a in args[2:4])
    lane = b.who % 32
    limit, segment = c & 31, c >> 8 & 31
    low = lane & segment
    high = low | limit & ~segment
    source = {"bfly": lane ^ by, "up": lane - by, "down": lane + by, "idx": low | by & ~segment}[op[2]]
    inside = source >= high if op[2] == "up" else source <= high
    name, _, flag = args[0].partition("|")
    b.set(name, of_lanes(b, x, 0xFFFFFFFF)[b.who // 32, np.where(inside, source, lane)])
    if flag:
        b.set(flag, inside)


@step("vote")
def vote(b: Block, op: list[str], args: list[str]) -> None:
    """``vote``: ballot, any or all of the lanes that execute it."""
    p = b.get(args[1].lstrip("!"), "pred") != args[1].startswith("!")
    rows = of_lanes(b, p, op[2] == "all")
    found = {"ballot": (rows * (np.uint64(1) << np.arange(32, dtype=np.uint64))).sum(1).astype(np.uint32),
             "any": rows.any(1), "all": rows.all(1)}[op[2]]
    b.set(args[0], found[b.who // 32])


@step("ldmatrix")
def matrices(b: Block, op: list[str], args: list[str]) -> None:
    """Matrix i has its rows' addresses from lanes 8 i and on; a lane gets two neighbours of a row, or of a column."""
    rows, at = warps(b, op), b.address(args[1])
    g, t = np.arange(32) // 4, np.arange(32) % 4
    for i, name in enumerate(vector(args[0])):
        _, where = b.place("shared", at[rows[:, 8 * i:8 * i + 8]].ravel(), 16)
        matrix = b.shared[where].view(np.uint16).reshape(-1, 8, 8)
        if "trans" in op:
            matrix = matrix.transpose(0, 2, 1)
        pair = matrix[:, g, 2 * t].astype(np.uint32) | matrix[:, g, 2 * t + 1].astype(np.uint32) << np.uint32(16)
        b.set(name, pair.ravel())


@step("mma")
def mma(b: Block, op: list[str], args: list[str]) -> None:
    """D = A B + C, whole matrices in double precision, as the ISA lays out their fragments."""
    rows, kind = warps(b, op), op[-2]
    depth = int(op[3].split("k")[1])
    g, t = np.arange(32) // 4, np.arange(32) % 4

    def words(arg: str) -> list[np.ndarray]:
        return [b.get(a, "b32")[rows] for a in vector(arg)]

    def numbers(w: np.ndarray) -> list[np.ndarray]:
        if kind == "tf32":
            return [(w & np.uint32(0xffffe000)).view(np.float32).astype(np.float64)]
        halves = (w & np.uint32(0xffff)).astype(np.uint16), (w >> np.uint32(16)).astype(np.uint16)
        return [h.view(ml_dtypes.bfloat16 if kind == "bf16" else np.float16).astype(np.float64) for h in halves]
    A, B = np.zeros((len(rows), 16, depth)), np.zeros((len(rows), depth, 8))
    per = 1 if kind == "tf32" else 2
    for i, w in enumerate(words(args[1])):
        for h, v in enumerate(numbers(w)):
            A[:, g + i % 2 * 8, per * t + h + i // 2 * 4 * per] = v
    for i, w in enumerate(words(args[2])):
        for h, v in enumerate(numbers(w)):
            B[:, per * t + h + i * 4 * per, g] = v
    D = A @ B
    for i, (name, c) in enumerate(zip(vector(args[0]), vector(args[3]))):
        v = D[:, g + i // 2 * 8, 2 * t + i % 2] + b.get(c, "f32")[rows]
        b.set(name, v.astype(np.float32).ravel())
