"""Kernels as text that a C programmer reads: parameters are named after what they point to, a line holds one statement,
and there are no products with one and no sums with zero."""
from __future__ import annotations

import re
from typing import Mapping, Sequence

from hybrid.codegen.loops import Printed

from ..ir import Node
from ..ir.node import describe
from ..ir.parse import Words, is_name
from .specialized import RESERVED

WIDEST = 120                             # characters of a line that holds several statements
# of C's library, which a parameter had better not hide
LIBRARY = frozenset("""abs acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh div erf erfc exp exp2 expm1 fabs
    floor fmax fmin fmod free gamma hypot index j0 j1 jn lgamma log log10 log1p log2 max min pow remainder remove rename
    rint round select signal sin sinh sqrt tan tanh tgamma time trunc y0 y1 yn""".split())
ZERO, ONE = ("0", "0l"), ("1", "1l")
BEFORE = ("<", "=", "(", "[", ",", "+", "-", "return")   # and what before its first factor
AFTER = ("", ")", "]", ";", ",", "+", "-", "?", ":")    # what may follow a sum's term, so that nothing binds to it


def parameters(p: Printed, names: Sequence[str]) -> dict[str, str]:
    """Names for a kernel's pointers ``p0``, ``p1`` and so on. names: of the program's inputs, by slot."""
    used = {w for line in p.lines for w in line} | RESERVED | LIBRARY
    out: dict[str, str] = {}
    for i, n in enumerate(p.args):
        base, number = _base(n, names), 1
        name = base
        while name in used:
            number += 1
            name = f"{base}{number}"
        used.add(name)
        out[f"p{i}"] = name
    return out


def _base(n: Node, names: Sequence[str]) -> str:
    """A word for an array: the last one of a weight's name, or the operator that computes it."""
    slot = n.attrs["slot"] if n.prim == "input" else -1
    if slot >= len(names):
        return "packed"
    plain = re.sub(r"\W", "_", names[slot].rsplit(".", 1)[-1] if slot >= 0 else describe(n).split("[")[0]).strip("_")
    return plain if plain[:1].isalpha() else f"array_{plain}".rstrip("_")


def tidied(line: Words, names: Mapping[str, str]) -> list[Words]:
    """A line with other names, as one or several lines."""
    if not line or line[0] == "#" or line[0].isspace() and line[1:2] == ("#",):
        return [line]
    return _statements(_simplified(tuple(names.get(w, w) for w in line)))


def _simplified(line: Words) -> Words:
    """A line without ``1 * ``, `` * 1``, `` / 1``, `` + 0``, `` - 0`` and parentheses around a number; 0 for x % 1."""
    out: list[str] = []
    at = 0
    while at < len(line):
        if line[at] == "(" and line[at + 2:at + 3] == (")",) and line[at + 1].isdecimal() and out[-1:] == [" "]:
            line = (*line[:at], line[at + 1], *line[at + 3:])
            continue
        if line[at] == " " and line[at + 2:at + 3] == (" ",) and at + 3 < len(line):
            sign, number = line[at + 1], line[at + 3]
            after = next((w for w in line[at + 4:] if not w.isspace()), "")
            if number == "(" and line[at + 5:at + 6] == (")",) and line[at + 4] in (*ZERO, *ONE):
                line = (*line[:at + 3], line[at + 4], *line[at + 6:])
                continue
            if sign in "*/" and number in ONE or sign in "+-" and number in ZERO and after in AFTER:
                at += 4
                continue
            if sign == "%" and number in ONE and _last(out[:-1]) in BEFORE and is_name(out[-1]):
                out[-1] = "0"
                at += 4
                continue
        if line[at] in ONE and line[at + 1:at + 4] == (" ", "*", " ") and _last(out) in BEFORE:
            at += 4
            continue
        out.append(line[at])
        at += 1
    return tuple(out)


def _last(words: Sequence[str]) -> str:
    """The last word that is no space."""
    return next((w for w in reversed(words) if not w.isspace()), "")


def _statements(line: Words) -> list[Words]:
    """The statements of a long line, a line each."""
    if sum(map(len, line)) <= WIDEST or line.count("{") != line.count("}"):
        return [line]
    indent = line[:1] if line[0].isspace() else ()
    out: list[Words] = []
    begin = len(indent)
    depth = 0
    for i, w in enumerate(line):
        depth += (w in "([{") - (w in ")]}")
        if w == ";" and not depth:
            out.append((*indent, *line[begin:i + 1]))
            begin = i + 1 + (line[i + 1:i + 2] == (" ",))
    rest = line[begin:]
    return [*out, *([(*indent, *rest)] if any(not w.isspace() for w in rest) else [])]
