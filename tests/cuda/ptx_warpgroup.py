"""wgmma for tests/cuda/ptx.py: products of four warps, as "PTX ISA 8.5", "Asynchronous Warpgroup Level Matrix
Instructions", lays out descriptors, matrices in shared memory and fragments.

A product is computed where it begins; at its wait, what it read of shared memory must still be there.
"""
from __future__ import annotations

import re

import ml_dtypes
import numpy as np

from .ptx import Block
from .ptx_steps import step, vector
from .ptx_text import PtxError

FACTORS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}
WIDTHS = {1: 128, 2: 64, 3: 32}                            # bytes of a swizzle's line, by its mode
LANE, WARP = np.arange(128) % 32, np.arange(128) // 32
ROW = 16 * WARP + LANE // 4                                # of a thread's first number


def warpgroups(b: Block, op: list[str]) -> np.ndarray:
    """Threads that execute, a row for each warpgroup; all its threads must be there."""
    if len(b.who) % 128 or not (b.who.reshape(-1, 128) % 128 == np.arange(128)).all():
        raise PtxError(f"{'.'.join(op)} by parts of a warpgroup")
    return np.arange(len(b.who)).reshape(-1, 128)


def places(descriptor: int, size: int, count: int, depth: int, along: bool) -> np.ndarray:
    """Where the bytes of a matrix lie in shared memory: by row or column, depth, byte. ``along``: neighbours in memory
    are at one depth (M- or N-major), not in one row or column (K-major)."""
    start, lead, stride = ((descriptor >> bit & 0x3fff) << 4 for bit in (0, 16, 32))
    if descriptor >> 49 & 7:
        raise PtxError("a matrix whose swizzle does not begin at its boundary")
    mode = descriptor >> 62 & 3
    line, tall, deep = WIDTHS.get(mode, 16), np.arange(count)[:, None, None], np.arange(depth)[None, :, None]
    inner, outer = (tall, deep) if along else (deep, tall)
    byte = inner * size + np.arange(size)
    if along:                                              # a step along memory is `lead`, where lines are not swizzled
        steps = (lead, stride) if mode else (stride, lead)
    else:
        steps = lead, stride
    at = start + byte // line * steps[0] + outer // 8 * steps[1] + outer % 8 * line + byte % line
    bits = line // 16 - 1                                  # of an address, those above 4 change by those above 7
    return at ^ (at >> 7 & bits) << 4


def factor(b: Block, arg: str, first: int, size: int, count: int, depth: int, along: bool) -> np.ndarray:
    """The bits of a matrix in shared memory of a warpgroup: by row or column, and depth."""
    given = b.get(arg, "b64")[first:first + 128]
    if (given != given[0]).any():
        raise PtxError("a warpgroup with several descriptors")
    where = places(int(given[0]), size, count, depth, along)
    if where.max() >= len(b.shared):
        raise PtxError("a matrix outside of shared memory")
    found = b.products.begin(b.shared, int(b.who[first]), where)
    return found.view(f"u{size}")[..., 0]


def from_registers(b: Block, arg: str, first: int, size: int, depth: int) -> np.ndarray:
    """The bits of A (64 x depth) in registers: word w of a thread is in row ROW + w % 2 * 8."""
    per = 4 // size
    A = np.zeros((64, depth), f"u{size}")
    for w, name in enumerate(vector(arg)):
        words = np.ascontiguousarray(b.get(name, "b32")[first:first + 128]).view(f"u{size}").reshape(128, per)
        for h in range(per):
            A[ROW + w % 2 * 8, LANE % 4 * per + h + w // 2 * 4 * per] = words[:, h]
    return A


def numbers(bits: np.ndarray, kind: str) -> np.ndarray:
    """As float64; tf32 has ten bits behind the point."""
    if kind == "tf32":
        bits = bits & np.uint32(0xffffe000)
    return np.ascontiguousarray(bits).view(FACTORS[kind]).astype(np.float64)


@step("wgmma")
def wgmma(b: Block, op: list[str], args: list[str]) -> None:
    """D = A B (+ D); groups of products, and the wait for them."""
    rows = warpgroups(b, op)
    if op[1] == "mma_async":
        if not b.products.fenced[b.who].all():
            raise PtxError("wgmma without wgmma.fence behind the last wait")
        multiply(b, op, args, rows)
    elif op[1] == "commit_group":
        b.products.groups[b.who] += 1
    elif op[1] == "wait_group":
        if not all([b.products.wait(b.shared, int(b.who[r[0]]), int(args[0])) for r in rows]):
            raise PtxError("shared memory of a wgmma under way was changed")
        b.products.fenced[b.who] = False
    elif op[1] == "fence":
        b.products.fenced[b.who] = True
    else:
        raise PtxError(f"no instruction {'.'.join(op)}")


def multiply(b: Block, op: list[str], args: list[str], rows: np.ndarray) -> None:
    """Column 8 j + LANE % 4 * 2 and the next of row ROW, then of that 8 below, are a thread's numbers 4 j and on."""
    shape, kind = re.fullmatch(r"m64n(\d+)k(\d+)", op[4]), op[-1]
    if not shape or op[5] != "f32" or kind not in FACTORS or args[4:6] != ["1", "1"]:
        raise PtxError(f"no instruction {'.'.join(op)}")
    n, depth, size = int(shape[1]), int(shape[2]), 4 if kind == "tf32" else 2
    turned, names, adds = [int(a) for a in args[6:]], vector(args[0]), b.get(args[3], "pred")
    D = [b.get(name, "f32").copy() for name in names]
    for first in rows[:, 0].tolist():
        if args[1].startswith("{"):
            A = from_registers(b, args[1], first, size, depth)
        else:
            A = factor(b, args[1], first, size, 64, depth, bool(turned and turned[0]))
        B = factor(b, args[2], first, size, n, depth, bool(turned and turned[-1]))
        C = numbers(A, kind) @ numbers(B, kind).T
        for i, d in enumerate(D):
            here = slice(first, first + 128)
            own = C[ROW + i // 2 % 2 * 8, i // 4 * 8 + LANE % 4 * 2 + i % 2]
            d[here] = own + np.where(adds[here], d[here].astype(np.float64), 0)
    for name, d in zip(names, D):
        b.set(name, d)
