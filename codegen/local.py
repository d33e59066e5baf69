"""Arrays that a kernel's thread has for itself: on its stack, or, where they are large, on the heap: threads that users start have 8 MB of stack, or 256 KB."""
from __future__ import annotations

STACK = 1 << 16                    # bytes of an array that a stack takes


def array(kind: str, name: str, count: int, itemsize: int = 4) -> str:
    """The declaration of an array of ``count`` elements of a C type, at a cache line, which ends with its scope."""
    if count * itemsize <= STACK:
        return f"{kind} {name}[{count}] __attribute__((aligned(64)));"
    return f"{kind} *{name} __attribute__((cleanup(hy_free))) = ({kind} *)hy_large({count * itemsize}l);"
