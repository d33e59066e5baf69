"""Statements within loops, and loops around statements."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable

from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Val, Var

Key = tuple[Node, Index, Guard]


@dataclass
class Block:
    """Statements inside some loops. A child's statements are printed into its parent when the child is closed."""
    parent: "Block | None"
    vars: frozenset[Var | Val]
    lines: list[str] = field(default_factory=list)
    memo: dict[Key, str] = field(default_factory=dict)

    def child(self, new: Iterable[Var]) -> "Block":
        """A block inside further loops."""
        return Block(self, self.vars | frozenset(new))


def loop_nest(loops: Iterable[Var], body: list[str], pragma: str = "", index: str = "long") -> list[str]:
    """Loops around statements, counted by integers of type ``index``; the pragma goes on the innermost."""
    loops = list(loops)
    out = []
    for depth, v in enumerate(loops):
        if pragma and depth == len(loops) - 1:
            out.append("  " * depth + pragma)
        out.append("  " * depth + f"for ({index} {v.name} = 0; {v.name} < {v.extent}; {v.name}++) {{")
    out += ["  " * len(loops) + line for line in body]
    return out + ["  " * depth + "}" for depth in reversed(range(len(loops)))]
