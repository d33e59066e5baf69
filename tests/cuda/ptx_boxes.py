"""The instructions of tests/cuda/ptx.py that copy boxes of arrays through tensor maps, as "PTX ISA 8.5" ("Tensors") has
them: cp.async.bulk.tensor of tiles, prefetch.tensormap; and setmaxnreg, which belongs to the warps that do so."""
from __future__ import annotations

import numpy as np

from hybrid.codegen.cuda import TensorMap

from .ptx import GLOBAL, Block
from .ptx_steps import step, vector
from .ptx_text import PtxError

TILE = {"async", "bulk", "tensor", "shared::cluster", "shared::cta", "global", "tile", "mbarrier::complete_tx::bytes"}


def map_at(b: Block, arg: str) -> tuple[TensorMap, int]:
    """The tensor map at an address, and where its array lies."""
    at = set(b.get(arg, "u64").tolist())
    if len(at) > 1 or not at <= set(b.maps):
        raise PtxError("an address at which there is no tensor map")
    return b.maps[at.pop()]


def copy_box(b: Block, op: list[str], args: list[str], barrier: int) -> None:
    """One thread copies a box: zeros where it is outside of the array; an mbarrier counts all of its bytes."""
    map_name, _, coordinates = args[1].strip("[]").partition(",")
    m, base = map_at(b, map_name.strip())
    first = [int(b.get(c, "s32")[0]) for c in vector(coordinates.strip())]
    if not set(op[1:]) <= TILE | {f"{len(m.sizes)}d"} or len(first) != len(m.sizes) or len(b.who) != 1:
        raise PtxError(f"no instruction {'.'.join(op)}")
    to = int(b.address(args[0])[0])
    if to % 128:
        raise PtxError("a box at a misaligned address")
    size = 8 if m.dtype == "float64" else 4 if m.dtype == "float32" else 2
    at = np.indices(m.box[::-1]).reshape(len(m.box), -1)[::-1] + np.array(first)[:, None]
    inside = ((at >= 0) & (at < np.array(m.sizes)[:, None])).all(0)
    source = np.array([size, *m.strides]) @ at
    places = np.arange(at.shape[1]) * size
    source, places = ((x[:, None] + np.arange(size)).reshape(-1) for x in (source, places))
    inside, landing = np.repeat(inside, size), to + places
    landing = landing ^ (landing >> 7 & max(0, m.swizzle // 16 - 1)) << 4
    order = np.argsort(~inside, kind="stable")                 # bytes that are read come first
    b.place("shared", np.array([to + len(places) - 1]), 1)
    if inside.any():
        b.place("global", base + source[inside][[0, -1]], 1)
    b.later.begin(landing[order][None], (base + source - GLOBAL)[order][None], np.array([inside.sum()]), barrier)


@step("prefetch")
def prefetch(b: Block, op: list[str], args: list[str]) -> None:
    """Nothing but of what it is."""
    if op[1:] != ["tensormap"]:
        raise PtxError(f"no instruction {'.'.join(op)}")
    map_at(b, args[0].strip("[]"))


@step("setmaxnreg")
def registers(b: Block, op: list[str], args: list[str]) -> None:
    """A warpgroup's threads have more or fewer registers."""
    count = int(args[0])
    if len(b.who) % 128 or not 24 <= count <= 256 or count % 8:
        raise PtxError(f"no instruction {'.'.join(op)} {count}")
