"""Printed text of C and CUDA as statements again: ``parse(text)`` gives functions, loops and lines of words, whose text
(``stmt.lines``) is the one they were made of.

>>> from hybrid.ir.stmt import lines
>>> print("\\n".join(lines(parse("void f(int *p) {\\n  p[0] = 1;\\n}"))))
void f(int *p) {
  p[0] = 1;
}

A line's indentation is that of its depth; what it has beyond that is its first word.
"""
from __future__ import annotations

import re
from functools import lru_cache
from typing import Iterable, Mapping, NamedTuple, Sequence

from ..base.records import dataclass
from .stmt import Block, Code, For, Function, Scope, Stmt, lines

Words = tuple[str, ...]
# what is frequent first: names; spaces; signs that begin nothing longer; ends of lines; numbers, constants of float
# in base 16 among them; texts and comments; the end of a line that goes on; other signs
_WORD = re.compile(r'[A-Za-z_]\w*|[^\S\n]+|[^\w\s"\'/\\.]|\n|\.?\d(?:[eEpP][+-]|[\w.])*|"(?:[^"\\\n]|\\.)*"'
                   r'|\'(?:[^\'\\\n]|\\.)+\'|//[^\n]*|/\*(?s:.*?)\*/|\\\n|[^\w\s]')


# ---- words
def words(text: str) -> Words:
    """All words of a text, those that separate others too."""
    return tuple(_WORD.findall(text))


def is_name(w: str) -> bool:
    """Whether a word is an identifier, or a word of the language."""
    return w[0].isalpha() or w[0] == "_"


def lines_of(text: str) -> list[Words]:
    """The words of each line. A comment, or a macro that goes on, is a part of its first line."""
    found = _WORD.findall(text)
    found.append("\n")
    out, at = [], 0
    for _ in range(found.count("\n")):
        end = found.index("\n", at)
        out.append(tuple(found[at:end]))
        at = end + 1
    return out


def flat(body: Iterable[Stmt]) -> list[Words]:
    """The words of each line of some statements."""
    out: list[Words] = []
    _flatten(body, "", out)
    return out


def _flatten(body: Iterable[Stmt], indent: str, out: list[Words]) -> None:
    for s in body:
        if isinstance(s, Code):
            out.append(_indented(s.words, indent))
        elif isinstance(s, (Block, Function)):
            if s.head:
                out.append(_indented(s.head, indent))
            if isinstance(s, Function) and not indent:
                out += _lines_within(s.body)
            else:
                _flatten(s.body, f"{indent}  ", out)
            if s.end:
                out.append(_indented(s.end, indent))
        else:
            out += [_indented(line, indent) for line in _lines_again("\n".join(lines([s])))]


@lru_cache(maxsize=1024)
def _lines_again(text: str) -> tuple[Words, ...]:
    """What ``lines_of`` gives, of a text that several passes read until ``forget``."""
    return tuple(lines_of(text))


# by the id of a function's body: the body, which stays alive so that the id stays its own, and its lines
_within: dict[int, tuple[tuple[Stmt, ...], list[Words]]] = {}
MOST_BODIES = 1024


def _lines_within(body: tuple[Stmt, ...]) -> list[Words]:
    """The words of each line of a function's body, which several passes read until ``forget``."""
    known = _within.get(id(body))
    if known is None:
        found: list[Words] = []
        _flatten(body, "  ", found)
        if len(_within) >= MOST_BODIES:
            _within.clear()
        known = _within[id(body)] = body, found
    return known[1]


def forget() -> None:
    """Drop what is kept while a program is printed."""
    _lines_again.cache_clear()
    _within.clear()


def _indented(line: Words, indent: str) -> Words:
    if not line or not indent:
        return line
    return (f"{indent}{line[0]}", *line[1:]) if line[0].isspace() else (indent, *line)


def used_words(body: Iterable[Stmt]) -> set[str]:
    """All words that stand in some statements."""
    return set().union(*flat(body))


def closing(line: Sequence[str], at: int) -> int:
    """The index of the parenthesis that closes the one at an index."""
    depth = 0
    for i in range(at, len(line)):
        depth += (line[i] in "([{") - (line[i] in ")]}")
        if not depth:
            return i
    raise ValueError(f"a parenthesis is not closed: {''.join(line)!r}")


def substituted(line: Words, names: Mapping[str, str]) -> Words:
    """A line with other words for some."""
    return tuple(names.get(w, w) for w in line)


# ---- statements
def parse(text: str) -> tuple[Stmt, ...]:
    """The statements of a text."""
    return parsed(lines_of(text)) if text else ()


def parsed(given: Iterable[Words]) -> tuple[Stmt, ...]:
    """The statements of the lines of a text."""
    return tuple(_function(s) if isinstance(s, Block) else s for s in nested(given))


@dataclass
class _Open:
    """Braces that are not closed yet: their first line, and what they hold."""
    head: Words
    body: list[Stmt]


def nested(given: Iterable[Words]) -> tuple[Stmt, ...]:
    """Lines of words as statements within each other."""
    opened = [_Open((), [])]
    for line in given:
        if "{" not in line and "}" not in line:
            opened[-1].body.append(Code(_dedented(line, 2 * (len(opened) - 1))))
            continue
        least, net = _braces(line)
        least = max(least, 1 - len(opened))
        line = _dedented(line, 2 * (len(opened) - 1 + least))
        for last in range(least, 0):
            inner = opened.pop()
            opened[-1].body.append(_statement(inner, line if last == -1 and net == least else ()))
        if net > least:
            opened += [_Open(line if i == 0 else (), []) for i in range(net - least)]
        elif not least:
            opened[-1].body.append(Code(line))
    while len(opened) > 1:
        inner = opened.pop()
        opened[-1].body.append(_statement(inner, ()))
    return tuple(opened[0].body)


def _braces(line: Words) -> tuple[int, int]:
    """How far a line goes out of braces, as a negative number, and how far it is in or out at its end."""
    if line[0] == "#" or line[0].isspace() and line[1] == "#":
        return 0, 0
    least = depth = 0
    for w in line:
        if w == "{":
            depth += 1
        elif w == "}":
            depth -= 1
            if depth < least:
                least = depth
    return least, depth


def _dedented(line: Words, by: int) -> Words:
    """A line without the indentation of its depth."""
    if not line or not line[0].isspace():
        return line
    rest = line[0][by:]
    return (rest, *line[1:]) if rest else line[1:]


def _statement(s: _Open, end: Words) -> Stmt:
    body = tuple(s.body)
    if end != ("}",):
        return Block(s.head, body, end)
    if s.head == ("{",):
        return Scope(body)
    loop = counted(s.head)
    if loop is None or loop.rest != (" ", "{") or loop.step and not loop.step.isdigit():
        return Block(s.head, body)
    return For(loop.var, Code(loop.first), Code(loop.last), body, int(loop.step or 1))


class Counted(NamedTuple):
    """A loop's head: ``for (long var = first; var < last; var += step)`` and what follows it; "" for ``var++``."""
    var: str
    first: Words
    last: Words
    step: str
    rest: Words


def counted(line: Words) -> Counted | None:
    """The head of a loop that counts upwards, if a line begins with one."""
    if line[:5] != ("for", " ", "(", "long", " ") or line[6:9] != (" ", "=", " "):
        return None
    var, end = line[5], closing(line, 2)
    stops = [i for i in range(9, end) if line[i] == ";"]
    if len(stops) != 2 or line[stops[0] + 1:stops[0] + 6] != (" ", var, " ", "<", " "):
        return None
    step = line[stops[1] + 2:end]
    if step != (var, "+", "+") and (step[:5] != (var, " ", "+", "=", " ") or len(step) != 6):
        return None
    return Counted(var, line[9:stops[0]], line[stops[0] + 6:stops[1]], "" if len(step) == 3 else step[5],
                   line[end + 1:])


def _function(s: Block) -> Stmt:
    """A function, where braces of the outermost level are those of one."""
    head = s.head
    if ")" not in head or "=" in head[:head.index("(")]:
        return s
    end = depth = len(head) - 1 - head[::-1].index(")")
    level = 0
    for depth in range(end, -1, -1):
        level += (head[depth] == ")") - (head[depth] == "(")
        if not level:
            break
    if depth < 2 or not is_name(head[depth - 1]):
        return s
    return Function(head[:depth - 1], head[depth - 1], head[depth + 1:end], head[end + 1:], s.body, s.end)
