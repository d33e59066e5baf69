"""What a program uses of the texts in kernels/: functions and macros that it does not name are left out. The compiler
would read all of them for every program, which takes it longer than to compile a small kernel.
"""
from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_FUNCTION = re.compile(r"(?:HY_FN|HYBRID_PHILOX_FN) [^()]*?(\w+)\(")
_MACRO = re.compile(r"#define (\w+)")
_MADE = re.compile(r"[A-Z_]+\((\w+),.*\)$")                  # a function that a macro makes, which names it first
_WORD = re.compile(r"[A-Za-z_]\w+")
_ELSE = ("#else", "#elif")


class _Piece(NamedTuple):
    """Some lines, the name that they give a meaning (None: they stay), and the other pieces' names in them; comments
    before them go where they go."""
    text: str
    name: str | None
    uses: tuple[str, ...]


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
    found: list[tuple[int, int, int, str | None]] = []             # first line, that of code, end, name
    at = begin = 0
    while at < len(lines):
        code = _comment(lines, at)
        if code > at and code < len(lines) and lines[code].strip():
            at = code                                            # belongs to what follows
            continue
        given = _FUNCTION.match(lines[at]) or _MACRO.match(lines[at])
        made = _MADE.match(lines[at])
        end = code if code > at else _end(lines, at) if given else at + 1
        found.append((begin, max(at, code), end, given[1] if given else made[1] if made else None))
        at = begin = end
    names = {name: name for *_, name in found if name is not None}

    def uses(begin: int, end: int) -> tuple[str, ...]:
        return tuple({names[w] for line in lines[begin:end] for w in _WORD.findall(line.split("//")[0]) if w in names})
    return tuple(_Piece("\n".join(lines[begin:end]), name, uses(code, end)) for begin, code, end, name in found)


def needed(text: str, program: str) -> str:
    """Those lines of ``text``, which stands before a program, that the program uses."""
    pieces = _pieces(text)
    names = {p.name for p in pieces if p.name is not None}
    # more than are used, where one name is the beginning of another
    wanted = {name for name in names if name in program}
    fresh = wanted.union(*(p.uses for p in pieces if p.name is None))
    wanted |= fresh
    while fresh:
        used = set().union(*(p.uses for p in pieces if p.name in fresh))
        fresh = used - wanted
        wanted |= fresh
    return "\n".join(_without_empty([p.text for p in pieces if (p.name is None or p.name in wanted)
                                     and p.text.strip()]))


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
