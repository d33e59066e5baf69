"""Printed C of one lane as standard C11 without GNU's words: for compilers that have no vectors and no attributes."""
from __future__ import annotations

from typing import Iterable, Sequence

from hybrid.base.errors import HybridError
from hybrid.ir.expressions import INFINITIES
from hybrid.ir.parse import Words, closing, flat
from hybrid.ir.stmt import Stmt

from ..targets import LIBRARY

_OWN = {"prefetch": "hy_prefetch", "expect": "hy_expect", "ctzl": "hy_lowest", "ctzll": "hy_lowest", "": ""}
_SUPPORT = {
    "hy_prefetch": "#define hy_prefetch(...) ((void)0)", "hy_expect": "#define hy_expect(value, likely) (value)",
    "hy_lowest": "static inline int hy_lowest(uint64_t bits) { int n = 0; while (!(bits >> n & 1)) n++; return n; }"}


def support(code: Iterable[Stmt]) -> list[str]:
    """Definitions of what stands for GCC's functions in the standard text of some statements, a line each."""
    used = {_OWN.get(w.removeprefix("__builtin_")) for line in flat(code) for w in line if w.startswith("__builtin_")}
    return [text for name, text in _SUPPORT.items() if name in used]


def _builtin(name: str) -> str:
    if name in _OWN:
        return _OWN[name]
    if name in LIBRARY or name.endswith("f") and name[:-1] in LIBRARY:
        return name
    raise HybridError(f"this network cannot be exported to C in its plain form: a kernel needs GCC's __builtin_{name}. "
                      f"Leave out plain=True")


def _sized(line: Sequence[str], wide: bool) -> Words:
    out: list[str] = []
    at = 0
    while at < len(line):
        w = line[at]
        kind = "uint64_t" if line[at:at + 3] == ("unsigned", " ", "long") else "int64_t" if w == "long" and wide else ""
        if kind == "int64_t" and line[at + 1:at + 3] == (" ", "long"):           # has 64 bits everywhere
            out += [w, " "]
            at += 2
        elif kind:
            at += 2 if w == "unsigned" else 0
            at += 2 if line[at + 1:at + 3] == (" ", "long") else 0
            w = kind
        elif w[0].isdecimal() and w.endswith("ul"):
            w = f"{w[:-2]}ull"
        elif w[0].isdecimal() and w.endswith("l") and not w.endswith("ll") and "." not in w and wide:
            w = f"{w[:-1]}ll"
        out.append(w)
        at += 1
    return tuple(out)


def _standard(line: Words) -> Words:
    """A line without attributes, statements in assembly and GCC's names. A macro that makes a variable of its argument
    (HY_ROUNDED) is the argument itself."""
    if "__auto_type" in line:
        return (*line[:line.index(")") + 1], " ", "(x)")
    out: list[str] = []
    at = 0
    while at < len(line):
        w = line[at]
        if w in ("__attribute__", "__asm__"):
            at = closing(line, line.index("(", at)) + 1
            at += w == "__asm__" and line[at:at + 1] == (";",)
            at += line[at:at + 1] == (" ",)
            if w == "__attribute__" and out[-1:] == [" "]:
                out.pop()
            out += [" "] if w == "__attribute__" and line[at:at + 1] not in ((";",), (")",), (",",), ()) else []
            continue
        if w in INFINITIES:
            out.append(INFINITIES[w])
            at = closing(line, at + 1) + 1
            continue
        if w.startswith("__builtin_"):
            w = _builtin(w.removeprefix("__builtin_"))
            at += 2 if not w and line[at + 1:at + 3] == ("#", "#") else 0
        out += [w] if w else []
        at += 1
    return tuple(out)


def sized(code: Iterable[Stmt], wide: bool = True) -> str:
    """The text of statements in which integers of 64 bits have types that are so long on every machine. wide: whether a
    ``long`` may be one; else it is an index, which is as long as the machine's addresses are."""
    return "\n".join("".join(_sized(line, wide)) for line in flat(code))


def standard(code: Iterable[Stmt], wide: bool = True) -> str:
    """The text of statements of one lane in standard C. wide: as of ``sized``."""
    lines = [_sized(_standard(line), wide) for line in flat(code)]
    if any(w in ("__asm__", "vector_size") or w.startswith("HYV_") or w == "(" and line[i + 1:i + 2] == ("{",)
           for line in lines for i, w in enumerate(line)):
        raise HybridError("this network cannot be exported to C in its plain form: a kernel is printed as vectors. "
                          "Leave out plain=True")
    return "\n".join(map("".join, lines))
