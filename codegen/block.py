"""Statements within loops, and loops around statements."""
from __future__ import annotations

from dataclasses import field
from typing import Callable, Iterable, Sequence

from hybrid.base.records import dataclass
from hybrid.ir import Node
from hybrid.ir.access import Guard, Index
from hybrid.ir.index import Ix, Val, Var
from hybrid.ir.stmt import For, Stmt, lines

Key = tuple[Node, Index, Guard]


@dataclass
class Block:
    """Statements inside some loops. A child's statements are printed into its parent when the child is closed."""
    parent: "Block | None"
    vars: frozenset[Var | Val]
    body: list[Stmt] = field(default_factory=list)
    memo: dict[Key, str] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """The statements as text."""
        return lines(self.body)

    def child(self, new: Iterable[Var]) -> "Block":
        """A block inside further loops."""
        return Block(self, self.vars | frozenset(new))


def chain(loops: Iterable[Var], first: Block | None = None) -> list[Block]:
    """A list of nested blocks: a first one (None: a new one outside of all loops), then one for each loop, each inside
    of the one before."""
    blocks = [first or Block(None, frozenset())]
    for v in loops:
        blocks.append(blocks[-1].child([v]))
    return blocks


def loop(v: Var, body: Iterable[Stmt], pragma: str = "", index: str = "long") -> For:
    """A loop over all values of a variable."""
    return For(v.name, Ix(), Ix(v.extent), tuple(body), 1, pragma, index)


def nested(loops: Iterable[Var], body: Iterable[Stmt], pragma: str = "", index: str = "long") -> list[Stmt]:
    """Loops around statements, counted by integers of type ``index``; the pragma goes on the innermost."""
    out = list(body)
    for depth, v in enumerate(reversed(list(loops))):
        out = [loop(v, out, "" if depth else pragma, index)]
    return out


# variables of some loops, and what makes these loops around statements
Level = tuple[Sequence[Var], Callable[[list[Stmt]], list[Stmt]]]


def level(v: Var | None, pragma: str = "") -> Level:
    """A plain loop; None: no loop."""
    loops = [] if v is None else [v]
    return loops, lambda body: nested(loops, body, pragma)


def within_levels(known: Iterable[Var | Val], levels: Sequence[Level],
                  emit: Callable[[Block], object], outside: list[Stmt] | None = None) -> list[Stmt]:
    """Loops, the outermost first, around what ``emit`` puts into the block of the innermost one and those around it.
    known: variables of the loops around all of them; outside: a list for statements that depend on no loop at all."""
    top = Block(None, frozenset()) if outside is not None else None
    blocks = [Block(top, frozenset(known))]
    for loops, _ in levels:
        blocks.append(blocks[-1].child(loops))
    emit(blocks[-1])
    body = blocks[-1].body
    for (_, around), outer in reversed(list(zip(levels, blocks))):
        body = [*outer.body, *around(body)]
    if outside is not None and top is not None:
        outside += top.body
    return body
