"""Arrays that a kernel's thread has for itself: on its stack, or, where they are large, on the heap: threads that users
start have 8 MB of stack, or 256 KB."""
from __future__ import annotations

import re

_LOCAL = re.compile(r"^(?P<kernel>static |HY_KERNEL )|^ +(?P<kind>float|double|unsigned long) \w+\[(?P<count>\d+)\] "
                    r"__attribute__|hy_large\((?P<large>\d+)l\)", re.MULTILINE)

STACK = 1 << 16                    # bytes of an array that a stack takes


def array(kind: str, name: str, count: int, itemsize: int = 4) -> str:
    """The declaration of an array of ``count`` elements of a C type, at a cache line, which ends with its scope."""
    if count * itemsize <= STACK:
        return f"{kind} {name}[{count}] __attribute__((aligned(64)));"
    return f"{kind} *{name} __attribute__((cleanup(hy_free))) = ({kind} *)hy_large({count * itemsize}l);"


def thread_bytes(source: str) -> int:
    """The most bytes of such arrays that a kernel of a program has for each of its threads, all of its scopes
    together."""
    most = now = 0
    for m in _LOCAL.finditer(source):
        if m["kernel"]:
            now = 0
        now += int(m["large"] or int(m["count"] or 0) * (4 if m["kind"] == "float" else 8))
        most = max(most, now)
    return most
