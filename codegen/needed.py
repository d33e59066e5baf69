"""What a program uses of the texts in kernels/: functions and macros that it does not name are left out. The compiler would read all of them
for every program, which takes it longer than to compile a small kernel.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_FUNCTION = re.compile(r"(?:HY_FN|HYBRID_PHILOX_FN) [^()]*?(\w+)\(")
_MACRO = re.compile(r"#define (\w+)")
_MADE = re.compile(r"[A-Z_]+\((\w+),.*\)$")                  # a function that a macro makes, which names it first
_WORD = re.compile(r"[A-Za-z_]\w+")
_ELSE = ("#else", "#elif")


@dataclass(frozen=True)
class _Piece:
    """Some lines, the name that they give a meaning (None: they stay), and the words in them; comments before them go where they go."""
    text: str
    name: str | None
    words: frozenset[str]


def _end(lines: list[str], at: int) -> int:
    """The line after a macro or function that begins at a line."""
    if lines[at].startswith("#"):
        while lines[at].endswith("\\"):
            at += 1
        return at + 1
    depth, begun = 0, False
    while at < len(lines):
        code = lines[at].split("//")[0]
        depth += code.count("{") - code.count("}")
        begun = begun or "{" in code
        at += 1
        if depth == 0 and (begun or code.rstrip().endswith(";")):
            break
    return at


def _comment(lines: list[str], at: int) -> int:
    """The line after a comment that begins at a line; the line itself where none does."""
    if lines[at].startswith("//"):
        return at + 1
    if not lines[at].startswith("/*"):
        return at
    while "*/" not in lines[at]:
        at += 1
    return at + 1


@lru_cache(maxsize=16)
def _pieces(text: str) -> tuple[_Piece, ...]:
    lines = text.split("\n")
    out: list[_Piece] = []
    at = begin = 0
    while at < len(lines):
        code = _comment(lines, at)
        if code > at and code < len(lines) and lines[code].strip():
            at = code                                            # belongs to what follows
            continue
        found = _FUNCTION.match(lines[at]) or _MACRO.match(lines[at])
        made = _MADE.match(lines[at])
        end = code if code > at else _end(lines, at) if found else at + 1
        words = frozenset(w for line in lines[at:end] if code == at for w in _WORD.findall(line.split("//")[0]))
        name = found[1] if found else made[1] if made else None
        out.append(_Piece("\n".join(lines[begin:end]), name, words))
        at = begin = end
    return tuple(out)


def needed(text: str, program: str) -> str:
    """Those lines of ``text``, which stands before a program, that the program uses."""
    pieces = _pieces(text)
    names = {p.name for p in pieces if p.name is not None}
    wanted = {name for name in names if name in program}         # more than are used, where one name is the beginning of another
    fresh = set(wanted).union(*(p.words & names for p in pieces if p.name is None))
    wanted |= fresh
    while fresh:
        used = set().union(*(p.words for p in pieces if p.name in fresh)) & names
        fresh = used - wanted
        wanted |= fresh
    return "\n".join(_without_empty([p.text for p in pieces if (p.name is None or p.name in wanted) and p.text.strip()]))


def _without_empty(texts: list[str]) -> list[str]:
    """The texts without conditions, and comments before them, that nothing depends on any more."""
    out: list[str] = []
    for text in texts:
        out.append(text)
        if text.startswith("#endif"):
            first = next(i for i in range(len(out) - 2, -1, -1) if not out[i].startswith(_ELSE))
            if out[first].rsplit("\n", 1)[-1].startswith("#if"):
                del out[first:]
    return out
