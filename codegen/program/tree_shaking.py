"""What a program uses of the texts in kernels/: functions, macros and types that it does not name are left out. The
compiler would read all of them for every program, which takes it longer than to compile a small kernel.
"""
from __future__ import annotations

from functools import lru_cache
from typing import Iterator, NamedTuple

from hybrid.ir.parse import Words, flat, is_name, parse
from hybrid.ir.stmt import Code, Function, Stmt, text_of

_FUNCTIONS = ("HY_FN", "HYBRID_PHILOX_FN")
_KINDS = ("struct", "union", "enum")
_OPENS, _ELSE, _CLOSES = ("if", "ifdef", "ifndef"), ("else", "elif"), "endif"


class _Piece(NamedTuple):
    """Statements, the name that they give a meaning (None: they stay), and the other pieces' names in them and in the
    conditions that they stand under; comments before them go where they go. condition: the word of a directive that is
    no macro; it stays where something under it does, so it uses nothing itself."""
    text: str
    name: str | None
    uses: frozenset[str]
    condition: str = ""


def _is_comment(s: Stmt) -> bool:
    return isinstance(s, Code) and bool(s.words) and s.words[0].startswith(("//", "/*"))


def _given(s: Stmt) -> str | None:
    """The name that a statement of the outermost level gives a meaning."""
    if isinstance(s, Function):
        return s.name if s.before[:1] and s.before[0] in _FUNCTIONS else None
    line = s.words if isinstance(s, Code) else ()
    if line[:3] == ("#", "define", " "):
        return line[3]
    if line[:1] and line[0] in _FUNCTIONS:
        return line[line.index("(") - 1]
    if line[:1] == ("typedef",):
        return _typedef(line)
    if line[:1] and line[0] in _KINDS and line[3:5] == (" ", "{"):
        return line[2]
    # a function that a macro makes, which names it first
    if line[1:2] == ("(",) and line[0].isupper() and line[3:4] == (",",) and line[-1] == ")":
        return line[2]
    return None


def _typedef(line: Words) -> str | None:
    """The type that a line defines; None where it is in parentheses, of functions, or on the next line."""
    end = next((i for i, w in enumerate(line) if w in ("__attribute__", ";")), None)
    name = next((w for w in reversed(line[:end]) if not w.isspace()), "")
    return name if end is not None and is_name(name) else None


def _begins(s: Stmt) -> bool:
    """Whether a line begins a function whose head has several lines."""
    return (isinstance(s, Code) and bool(s.words) and s.words[0] in _FUNCTIONS and s.words[-1] not in ("}", ";")
            and "{" not in s.words)


def _groups(text: str) -> Iterator[list[Stmt]]:
    """The statements of a text, each with the comments before it. A function whose head has several lines is one."""
    waiting: list[Stmt] = []
    for s in parse(text):
        goes_on = bool(waiting) and _begins(waiting[-1])
        if waiting and not goes_on and isinstance(s, Code) and not s.words:
            yield waiting
            waiting = []
        waiting.append(s)
        if not _is_comment(s) and not _begins(s):
            yield waiting
            waiting = []
    if waiting:
        yield waiting


class _Part(NamedTuple):
    """Statements with the comments before them, the name that they give a meaning, the names in them and the word of
    their condition."""
    text: str
    name: str | None
    names: tuple[str, ...]
    condition: str


@lru_cache(maxsize=64)
def _parts(text: str) -> tuple[_Part, ...]:
    """The statements of one text; programs begin with many unions of the same texts."""
    found = []
    for group in _groups(text):
        code = [s for s in group if not _is_comment(s)]
        first = flat(code[:1])[0] if code else ()
        name = _given(code[0]) if code else None
        condition = first[1] if first[:1] == ("#",) and name is None and len(first) > 1 else ""
        names = tuple({w for line in flat(code) for w in line if is_name(w)})
        found.append(_Part(text_of(group), name, names, condition))
    return tuple(found)


@lru_cache(maxsize=16)
def _pieces(texts: tuple[str, ...]) -> tuple[_Piece, ...]:
    found = [part for text in texts for part in _parts(text)]
    given = {name for _, name, _, _ in found if name is not None}
    out = []
    over: list[frozenset[str]] = []  # the names in each condition that is open
    for text, name, names, condition in found:
        uses = frozenset(given.intersection(names))
        if condition in _OPENS:
            over.append(uses)
        elif condition in _ELSE:
            over[-1] |= uses
        elif condition == _CLOSES:
            over.pop()
        else:
            out.append(_Piece(text, name, uses.union(*over), condition))
            continue
        out.append(_Piece(text, name, frozenset(), condition))
    return tuple(out)


@lru_cache(maxsize=16)
def _reached(texts: tuple[str, ...]) -> dict[str | None, frozenset[str]]:
    """For each name of some texts, all names that are used with it; None: those that always are."""
    direct: dict[str | None, set[str]] = {}
    for p in _pieces(texts):
        direct.setdefault(p.name, set()).update(p.uses)
    out = {}
    for name, uses in direct.items():
        found, fresh = set(uses), set(uses)
        while fresh:
            fresh = set().union(*(direct[n] for n in fresh)) - found
            found |= fresh
        out[name] = frozenset(found)
    return out


def needed(texts: tuple[str, ...], used: set[str]) -> str:
    """Those lines of texts, which stand before a program, that the program uses. used: all words in it."""
    reached = _reached(texts)
    begin = used & reached.keys()
    wanted: set[str | None] = {None, *begin}.union(reached.get(None, ()), *(reached[n] for n in begin))
    return "\n".join(_without_empty([p for p in _pieces(texts) if p.name in wanted and p.text.strip()]))


def _without_empty(pieces: list[_Piece]) -> list[str]:
    """The texts without conditions, and comments before them, that nothing depends on any more."""
    out: list[_Piece] = []
    for p in pieces:
        out.append(p)
        if p.condition == _CLOSES:
            first = next(i for i in range(len(out) - 2, -1, -1) if out[i].condition not in _ELSE)
            if out[first].condition in _OPENS:
                del out[first:]
    return [p.text for p in out]
