"""What a kernel computes, as the comment above its function."""
from __future__ import annotations

from typing import Iterable, Iterator, Sequence

from hybrid.ir import Node
from hybrid.ir.access import MOVEMENT
from hybrid.ir.kernel import Kernel
from hybrid.ir.node import describe

LEAVES = frozenset({"input", "const", "data", "iota"})
WIDEST = 112                    # characters of a line
MOST = 12                       # operators that are named


def operators(k: Kernel) -> list[Node]:
    """What a kernel computes, in order."""
    return [m for m in reversed(list(k.members)) if m.prim not in LEAVES and m.prim not in MOVEMENT]


def comment(k: Kernel, names: Sequence[str] | None = None, others: int = 0) -> str:
    """What a kernel computes, of what, with all sizes. names: of the program's inputs, by slot. others: how many
    more kernels the function computes."""
    inside = " -> ".join(map(describe, operators(k)[:MOST])) or "a copy in another order"
    reads, writes = (", ".join(_said(n, names) for n in nodes) or "nothing" for nodes in (k.reads, k.stores))
    said = [f"{_kind(k)}: {inside}", f"reads {reads}; writes {writes}"]
    if others:
        said.append(f"also computes {others} more with other arrays or numbers")
    return "/* " + "\n   ".join(line for part in said for line in _lines(part)) + " */"


def _lines(text: str) -> Iterator[str]:
    """A text in lines, broken between values."""
    line = ""
    for piece in _pieces(text.split(" ")):
        if line and len(line) + len(piece) >= WIDEST:
            yield line
            line = ""
        line += f" {piece}" if line else piece
    yield line


def _pieces(words: Iterable[str]) -> Iterator[str]:
    """Words, those of a value's sizes together."""
    waiting: list[str] = []
    for w in words:
        waiting.append(w)
        if sum(v.count("[") - v.count("]") for v in waiting) <= 0:
            yield " ".join(waiting)
            waiting = []
    if waiting:
        yield " ".join(waiting)


def _said(n: Node, names: Sequence[str] | None) -> str:
    if names is None or n.prim != "input":
        return describe(n)
    slot = n.attrs["slot"]
    return f"{names[slot] if slot < len(names) else 'packed weights'}{list(n.shape)}"


def _kind(k: Kernel) -> str:
    """What a kernel is; convolutions are products of windows, matrices are packed as their filters are."""
    if k.kind not in ("contraction", "convolution"):
        return k.kind
    windows = [m.attrs["size"] for m in k.members if m.prim == "window"]
    windows += [m.attrs["kernel"] for m in k.members if m.prim == "conv" and (
        max(m.attrs["kernel"]) > 1 or max(m.attrs["stride"]) > 1 or m.attrs["out"][0] != 1)]
    return f"convolution {'x'.join(map(str, windows[0]))}" if windows else "matrix product"
