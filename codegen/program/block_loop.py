"""The C function of a program that computes its batch in blocks (hybrid/passes/minibatch_tiling.py)."""
from __future__ import annotations

from typing import Mapping

from hybrid.codegen.dialect import PARALLEL

ONE = "static void block(void **b)"             # the head of the function for one block


def block_loop(block: str, count: int, moved: Mapping[int, int], arena: int, room: int, parts: int,
               more: int = 0) -> str:
    """The function of a program for all blocks. block: that for one, under the head ``ONE``. moved: by place in the
    pointer table, bytes of an array's part in a block. arena: its place, the last one; each of so many parts, which
    threads take, has ``room`` bytes of it. more: places behind it that all blocks share.
    """
    places = "".join(f" c[{slot}] = (char *)b[{slot}] + i * {nbytes}l;" for slot, nbytes in moved.items())
    return "\n".join([
        block, "void net(void **b) {", *([PARALLEL] if parts > 1 else []),
        f"  for (long part = 0; part < {parts}; part++) {{",
        f"    void *c[{arena + 1 + more}];", "    __builtin_memcpy(c, b, sizeof c);",
        f"    c[{arena}] = (char *)b[{arena}] + part * {room}l;",
        f"    for (long i = part * {count // parts}; i < (part + 1) * {count // parts}; i++) {{{places} block(c); }}",
        "  }", "}"])
