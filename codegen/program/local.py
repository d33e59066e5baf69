"""Arrays that a kernel's thread has for itself: on its stack, or, where they are large, on the heap: threads that users
start have 8 MB of stack, or 256 KB."""
from __future__ import annotations

from typing import Iterable

from hybrid.ir.parse import Words, flat
from hybrid.ir.stmt import Function, Stmt

STACK = 1 << 16                    # bytes of an array that a stack takes
_SIZES = {"float": 4, "double": 8, "long": 8}


def array(kind: str, name: str, count: int, itemsize: int = 4) -> str:
    """The declaration of an array of ``count`` elements of a C type, at a cache line, which ends with its scope."""
    if count * itemsize <= STACK:
        return f"{kind} {name}[{count}] __attribute__((aligned(64)));"
    return f"{kind} *{name} __attribute__((cleanup(hy_free))) = ({kind} *)hy_large({count * itemsize}l);"


def thread_bytes(code: Iterable[Stmt]) -> int:
    """The most bytes of such arrays that a function of a program has for each of its threads, all of its scopes
    together."""
    return max((sum(map(_bytes, flat(s.body))) for s in code if isinstance(s, Function)), default=0)


def _bytes(line: Words) -> int:
    if "__attribute__" not in line:
        return 0
    if "hy_large" in line:
        return int(line[line.index("hy_large") + 2].removesuffix("l"))
    at = line.index("__attribute__") if "aligned" in line else 0        # kind, name [ count ] __attribute__
    return int(line[at - 3]) * _SIZES.get(line[at - 7], 0) if at > 6 and line[at - 4] == "[" else 0
