"""Kernels as text that a C programmer reads: parameters are named after what they point to, a line holds one statement,
constants are decimal, and there are no products with one, no sums with zero and no parentheses around one word."""
from __future__ import annotations

import re
from typing import Callable, Mapping, Sequence

import numpy as np

from hybrid.codegen.loops import Printed

from ..ir import Node
from ..ir.node import describe
from ..ir.parse import Words, closing, is_name
from .specialized import RESERVED
from .variables import Variables

WIDEST = 120                             # characters of a line that holds several statements
# of C's library, which a parameter had better not hide
LIBRARY = frozenset("""abs acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh div erf erfc exp exp2 expm1 fabs
    floor fmax fmin fmod free gamma hypot index j0 j1 jn lgamma log log10 log1p log2 max min pow remainder remove rename
    rint round select signal sin sinh sqrt tan tanh tgamma time trunc y0 y1 yn""".split())
ZERO, ONE = ("0", "0l"), ("1", "1l")
INFINITIES = {"__builtin_inf": "INFINITY", "__builtin_inff": "INFINITY", "__builtin_nan": "NAN",
              "__builtin_nanf": "NAN"}
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
    return [line] if _is_directive(line) else _statements(tuple(names.get(w, w) for w in line))


def _is_directive(line: Words) -> bool:
    return not line or line[0] == "#" or line[0].isspace() and line[1:2] == ("#",)


def simplified(line: Words, found: Variables) -> Words:
    """A line of a function as one would write it by hand."""
    if _is_directive(line):
        return line
    steps: Sequence[Callable[[Words], Words]] = (_decimal, lambda w: _bare(w, found), lambda w: _short(w, found),
                                                 lambda w: _simplified(w, found))
    while True:
        before = line
        for step in steps:
            line = step(line)
        if line == before:
            return line


def _decimal(line: Words) -> Words:
    """A line whose floating constants are decimal: the shortest ones that mean the same numbers."""
    out: list[str] = []
    at = 0
    while at < len(line):
        w = line[at]
        if w in INFINITIES and line[at + 1:at + 2] == ("(",):
            out.append(INFINITIES[w])
            at = closing(line, at + 1) + 1
            continue
        out.append(_number(w) if w.startswith("0x") and "p" in w else w)
        at += 1
    return tuple(out)


def _number(w: str) -> str:
    single = w.endswith("f")
    value = float.fromhex(w.removesuffix("f"))
    text = str(np.float32(value)) if single else repr(value)
    if (np.float32(text) if single else float(text)) != value:
        return w
    return text + ("" if "." in text or "e" in text else ".0") + ("f" if single else "")


def _bare(line: Words, found: Variables) -> Words:
    """A line without parentheses around a variable, a whole value or other parentheses."""
    for at, w in enumerate(line):
        after = line[at - 1] if at else " "
        if w != "(" or is_name(after) or after in ")]" or "__attribute__" in line[max(at - 2, 0):at]:
            continue
        end = closing(line, at)
        inside, before = line[at + 1:end], _last(line[:at])
        alone = len(inside) == 1 and (inside[0] in found.types or inside[0].isdecimal() and before != "")
        whole = before in ("=", "(", "[") and line[end + 1:end + 2] in ((";",), (")",), ("]",)) and not _listed(inside)
        if (alone or whole) and before not in ("sizeof", "if", "while", "for", "switch", ""):
            return _bare((*line[:at], *inside, *line[end + 1:]), found)
    return line


def _listed(line: Words) -> bool:
    """Whether words are a list, a type or statements, which need their parentheses."""
    depth = 0
    for w in line:
        depth += (w in "([{") - (w in ")]}")
        if w == "," and not depth:
            return True
    names = len(line) > 1 and all(w.isspace() or is_name(w) for w in line)
    return not line or line[-1] == "*" or line[0] == "{" or names


def _short(line: Words, found: Variables) -> Words:
    """A line without the suffix of whole factors of what is long without it."""
    out = list(line)
    for i, w in enumerate(line):
        if not (w[0].isdecimal() and w.endswith("l") and w[:-1].isdecimal() and int(w[:-1]) < 1 << 31):
            continue
        if line[i - 3:i] == (" ", "*", " ") and _is_long(line[:i - 3], found):
            out[i] = w[:-1]
    return tuple(out)


def _is_long(line: Words, found: Variables) -> bool:
    """Whether the last factor of an expression is a variable that is long, or arithmetic with one."""
    if line[-1:] != (")",):
        return line[-1:] != () and found.is_long(line[-1]) and line[-2:-1] not in ((".",), (">",))
    depth = 0
    for i in range(len(line) - 1, -1, -1):
        depth += (line[i] == ")") - (line[i] == "(")
        if not depth:
            inside = [w for w in line[i + 1:-1] if not w.isspace()]
            return ((not i or not is_name(line[i - 1])) and any(map(found.is_long, inside))
                    and all(found.is_long(w) or w.isdecimal() or w in "()+-*/%" for w in inside))
    return False


def _simplified(line: Words, found: Variables) -> Words:
    """A line without ``1 * ``, `` * 1``, `` / 1``, `` + 0``, `` - 0``, ``0 + `` and parentheses around a number; 0 for
    x % 1 and 0 * x."""
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
            if sign == "%" and number in ONE and (factors := _factors(out)):
                out[-factors:] = ["0"]
                at += 4
                continue
        if line[at] in ONE and line[at + 1:at + 4] == (" ", "*", " ") and _last(out) in BEFORE:
            at += 4
            continue
        if line[at] in ZERO and line[at + 1:at + 4] == (" ", "+", " ") and _last(out) in BEFORE[:-2]:
            at += 4
            continue
        if (line[at] in ZERO and line[at + 1:at + 4] == (" ", "*", " ") and _last(out) in BEFORE
                and (line[at + 4].removesuffix("l").isdecimal() or found.is_long(line[at + 4]))):
            line = (*line[:at + 1], *line[at + 5:])
            continue
        out.append(line[at])
        at += 1
    return tuple(out)


def _factors(words: Sequence[str]) -> int:
    """How many words at the end are a product of names and numbers, and nothing binds to it from the left."""
    n = 0
    while n < len(words) and (words[-n - 1] in " */%" or words[-n - 1].isalnum() or is_name(words[-n - 1])):
        n += 1
    n -= n > 0 and words[-n].isspace()
    return n if _last(words[:len(words) - n]) in BEFORE[:-1] else 0


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
