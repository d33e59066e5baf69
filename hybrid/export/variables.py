"""Variables of a printed function: their types, which of them are second names, and which nothing reads."""
from __future__ import annotations

from functools import lru_cache
from typing import Iterable, Iterator, Sequence

from ..ir.expressions import ASSIGNMENTS, Declaration, Part, Tree, integer, trees
from ..ir.line_reader import declared, parameters, read
from ..ir.parse import Words, flat, is_name
from ..ir.stmt import Function, Stmt

_LONG = frozenset(("int64_t", "long"))
_STEPS = frozenset(("++_", "--_", "_++", "_--"))


@lru_cache(maxsize=8192)
def _changed(line: Words, pointers: bool) -> frozenset[str]:
    """The names that a line may change, declare or take the address of. pointers: of variables that are pointers, which
    do not change where an element of what they point to does. A member's name is among them: it is a name of something
    else, for which no variable's may be substituted."""
    parts = None if "#" in line[:2] else read(line)
    if parts is None:
        return frozenset(filter(is_name, line))
    out: set[str] = set()
    for t in (t for p in parts for t in trees(p)):
        if isinstance(t, Declaration):
            out.add(t.name)
        elif isinstance(t, Tree) and t.op in (".", "->"):
            out.add(str(t.args[1]))
        elif isinstance(t, Tree) and (t.op in ASSIGNMENTS or t.op in _STEPS or t.op == "&_"):
            at = t.args[0]
            while isinstance(at, Tree) and (t.op == "&_" or at.op == "." or at.op == "[]" and not pointers):
                at = at.args[0]
            if isinstance(at, str):
                out.add(at)
    return frozenset(out)


def changes(lines: Iterable[Words], name: str, pointer: bool = False) -> bool:
    """Whether lines change a variable or a part of it, declare another of its name, or take its address. pointer: its
    elements are no parts of it."""
    return any(name in line and name in _changed(line, pointer) for line in lines)


def changes_nothing(x: Part) -> bool:
    """Whether a statement is one such as ``x /= 1;`` or ``x += 0;``."""
    return isinstance(x, Tree) and integer(x.args[-1]) == {"*=": 1, "/=": 1, "+=": 0, "-=": 0}.get(x.op, -1)


class Variables:
    """What a function declares."""

    def __init__(self, f: Function):
        self.types: dict[str, set[str]] = {}
        self._kept: dict[int, tuple[Stmt, list[Words]]] = {}
        for d in parameters(f.parameters):
            self.types.setdefault(d.name, set()).add(d.kind)
        for line in flat(f.body):
            unknown = [(w, "") for w in line] if read(line) is None else []
            for name, kind in (*unknown, *((d.name, d.kind) for d in declared(line))):
                self.types.setdefault(name, set()).add(kind)

    def _lines(self, body: Iterable[Stmt]) -> Iterator[Words]:
        """The words of each line of some statements; a statement's are made once, although many variables ask."""
        for s in body:
            if id(s) not in self._kept:
                self._kept[id(s)] = s, flat([s])                   # held, so that its id() is not reused
            yield from self._kept[id(s)][1]

    def is_long(self, name: str) -> bool:
        """Whether a name is an integer of 64 bits wherever it is declared."""
        return bool(self.types.get(name)) and self.types[name] <= _LONG

    def alias(self, x: Part, rest: Sequence[Stmt]) -> tuple[str, str] | None:
        """A name that a declaration gives to what has a name already or is a whole number, and that one, where neither
        changes in the statements that follow."""
        if not isinstance(x, Declaration) or not isinstance(x.value, str) or x.lengths:
            return None
        if x.value.isdecimal() and self.is_long(x.name):
            return None if changes(self._lines(rest), x.name) else (x.name, x.value)
        if self.types.get(x.value) != {x.kind} or self.types.get(x.name) != {x.kind}:
            return None
        pointer = bool(x.pointers)
        return None if any(changes(self._lines(rest), n, pointer) for n in (x.name, x.value)) else (x.name, x.value)

    def is_read(self, x: Part, rest: Sequence[Stmt]) -> bool:
        """False for a declaration that no statement after it names, and whose value calls and changes nothing. Loads
        may go: printed programs have no volatile variables."""
        if not isinstance(x, Declaration) or x.after or any(x.name in words for words in self._lines(rest)):
            return True
        return any(isinstance(t, Tree) and (t.op in ASSIGNMENTS or t.op in _STEPS or t.op == "call") for t in trees(x))
