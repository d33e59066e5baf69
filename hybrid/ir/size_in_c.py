"""Symbolic sizes as C expressions."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .dimension import ASKED, Dim

if TYPE_CHECKING:
    from .size import Atom, Int, Terms


def sum_in_c(terms: "Terms") -> str:
    """The sum of terms."""
    parts = []
    for m, c in terms:
        names = [_atom_in_c(a) for a in m]
        parts.append(" * ".join([*names, *([str(c) if c >= 0 else f"({c})"] if c != 1 or not names else [])]))
    return " + ".join(parts)


def _atom_in_c(a: "Atom") -> str:
    if isinstance(a, Dim):
        return f"{ASKED.prefix}{a.name}"
    x, y = in_c(a.a), in_c(a.b)
    return f"({x} {a.kind} {y})" if a.kind in "/%" else f"({x} {a.kind} {y} ? {x} : {y})"


def in_c(x: "Int") -> str:
    """A number or a size."""
    return str(x) if isinstance(x, int) else x.c_text()
