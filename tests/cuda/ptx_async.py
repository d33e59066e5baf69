"""The instructions of tests/cuda/ptx.py that copy later and count arrivals: cp.async, cp.async.bulk, mbarrier."""
from __future__ import annotations

import numpy as np

from .ptx import GLOBAL, Block
from .ptx_boxes import copy_box
from .ptx_later import MBARRIER, Barrier
from .ptx_steps import step
from .ptx_text import PtxError

BULK = {"async", "bulk", "shared::cluster", "shared::cta", "global", "mbarrier::complete_tx::bytes"}


@step("cp")
def asynchronous(b: Block, op: list[str], args: list[str]) -> None:
    """cp.async: bytes are copied at the wait, and NaN before."""
    if "bulk" in op:
        return bulk(b, op, args)
    if "mbarrier" in op:
        if "noinc" not in op:
            raise PtxError(f"no instruction {'.'.join(op)}")
        for at, thread in zip(mbarriers_at(b, args[0]), b.who.tolist()):
            b.later.arrivals.append((at, thread, b.later.begun))
    elif "commit_group" in op:
        b.later.groups[b.who] += 1
    elif "wait_group" in op or "wait_all" in op:
        b.later.wait(int(args[0]) if args else -1)
    else:
        size = int(args[2])
        _, to = b.place("shared", b.address(args[0]), size)
        filled = b.get(args[3], "u32").astype(np.int64) if len(args) > 3 else np.full(len(b.who), size)
        at = np.where(filled > 0, b.address(args[1]), b.address(args[1]) // size * size) - GLOBAL
        b.later.begin(to, at[:, None] + np.arange(size), filled)
    return None


def bulk(b: Block, op: list[str], args: list[str]) -> None:
    """From global to shared memory, whole pieces of 16 bytes; an mbarrier counts the bytes."""
    if "tensor" in op:
        return copy_box(b, op, args, mbarriers_at(b, args[2])[0])
    if not set(op[1:]) <= BULK or len(args) != 4:
        raise PtxError(f"no instruction {'.'.join(op)}")
    to, source, sizes = b.address(args[0]), b.address(args[1]), b.get(args[2], "u32").astype(np.int64)
    if ((to | source | sizes) % 16).any():
        raise PtxError("cp.async.bulk of misaligned bytes")
    barriers, whole = mbarriers_at(b, args[3]), b.who
    for i, size in enumerate(sizes.tolist()):
        b.who = whole[i:i + 1]
        b.place("shared", to[i:i + 1] + size - 16, 16)
        b.place("global", source[i:i + 1] + size - 16, 16)
        places = np.arange(size)[None]
        b.later.begin(to[i] + places, source[i] - GLOBAL + places, np.array([size]), barriers[i])
    b.who = whole
    return None


def mbarriers_at(b: Block, arg: str) -> list[int]:
    """The addresses in an operand, by thread; PtxError unless mbarriers were initialised there."""
    found = b.address(arg).tolist()
    if not set(found) <= set(b.later.barriers):
        raise PtxError("an mbarrier that was not initialised")
    return found


@step("mbarrier")
def mbarrier(b: Block, op: list[str], args: list[str]) -> None:
    """64 bits that count arrivals and bytes; what they hold is known to these instructions alone."""
    if op[1] == "init":
        b.place("shared", b.address(args[0]), 8)
        for at, count in zip(b.address(args[0]).tolist(), b.get(args[1], "u32").tolist()):
            b.later.barriers[at] = Barrier(count, count)
    elif op[1] == "inval":
        for at in mbarriers_at(b, args[0]):
            b.later.barriers.pop(at)
    elif op[1] == "arrive" and not {"drop", "noComplete"} & set(op):
        arrive(b, op, args)
    elif op[1] in ("test_wait", "try_wait"):
        wait(b, op, args)
    else:
        raise PtxError(f"no instruction {'.'.join(op)}")


def arrive(b: Block, op: list[str], args: list[str]) -> None:
    """An arrival of each thread, or as many as it says, or one that announces bytes; gives the phase."""
    given = b.get(args[2], "u32").tolist() if len(args) > 2 else [0 if "expect_tx" in op else 1] * len(b.who)
    phases = []
    for at, number in zip(mbarriers_at(b, args[1]), given):
        phases.append(b.later.barriers[at].phase)
        b.later.arrive(at, *((1, number) if "expect_tx" in op else (number, 0)))
    b.set(args[0], np.array(phases, np.uint64))


def wait(b: Block, op: list[str], args: list[str]) -> None:
    """Whether a phase is over: that of a parity, or the one that an arrival gave. Threads stand still until it is."""
    places = mbarriers_at(b, args[1])
    for at in set(places):
        b.later.deliver_to(at)
    now = np.array([b.later.barriers[at].phase for at in places])
    over = now % 2 != b.get(args[2], "u32") if "parity" in op else now != b.get(args[2], "u64")
    behind = b.who[~over]
    b.waiting[behind], b.at[behind] = MBARRIER + np.array(places)[~over], b.at[behind] - 1
    b.who = b.who[over]
    b.set(args[0], np.ones(len(b.who), bool))
