"""Lines of at most 120 columns: longer ones go on in the next line, after a comma or before an operator."""
from __future__ import annotations

import textwrap
from typing import Iterable, Sequence

from ..ir.parse import Words, words as lexed

WIDEST = 120
INDENT = "    "                        # of what goes on, beside the statement's own
_OPERATORS = frozenset("+-*/&|?:")


def wrapped(lines: Iterable[Words]) -> list[str]:
    """The text of lines, none longer than ``WIDEST`` where words separate."""
    return [text for line in lines for text in _parts(line)]


def _parts(line: Words) -> list[str]:
    text = "".join(line)
    if len(text) <= WIDEST or "\n" in text:
        return [text]
    if line[-1].startswith("//"):
        return _commented(line)
    indent = line[0] if line[0].isspace() else ""
    end = " \\" if line[bool(indent)] == "#" else ""
    out: list[str] = []
    rest: Sequence[str] = line
    while rest:
        room = WIDEST - len(end) - (len(indent) + len(INDENT) if out else 0)
        at = _break(rest, room)
        out.append((indent + INDENT if out else "") + "".join(rest[:at]).rstrip())
        rest = rest[at:]
        while rest and rest[0] == " ":
            rest = rest[1:]
    return [*(part + end for part in out[:-1]), out[-1]]


def _commented(line: Words) -> list[str]:
    """A line with a comment at its end, which stands before it instead."""
    indent = line[0] if line[0].isspace() else ""
    code = "".join(line[:-1]).rstrip()
    said = textwrap.wrap(line[-1][2:].strip(), WIDEST - len(indent) - 3, break_long_words=False, break_on_hyphens=False)
    return [f"{indent}// {part}" for part in said] + (wrapped([line[:len(lexed(code))]]) if code else [])


def _break(line: Sequence[str], room: int) -> int:
    """Where a line is broken so that what comes before fits: as far to the right as possible, in few parentheses."""
    if sum(map(len, line)) <= room:
        return len(line)
    width = depth = 0
    found: list[tuple[int, int]] = []                      # depth and index of each place
    for i, w in enumerate(line):
        width += len(w)
        if width > room:
            break
        depth += (w in "([{") - (w in ")]}")
        after, operator = line[i + 1:i + 2] == (" ",) or line[i + 1:i + 2] == [" "], line[i + 2:i + 4]
        if after and (w in ",;" or operator[:1] and operator[0] in _OPERATORS and operator[1:] and operator[1] == " "):
            found.append((depth, i + 1))
    if not found:
        return next((i + 1 for i, w in enumerate(line) if w in ",;"), len(line))
    far = [(d, i) for d, i in found if sum(map(len, line[:i])) > room // 2] or found
    least = min(d for d, _ in far)
    return max(i for d, i in far if d == least)
