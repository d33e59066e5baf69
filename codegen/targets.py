"""Profiles of C compilers: one row each. The printer is the same for all; a row gives the widest vector, and a prelude
that stands before every program.

Register a further compiler from outside::

    from hybrid.codegen.targets import Row, register

    register(Row("lcc", ("lcc",), vector=NO_VECTORS, before=standard))
"""
from __future__ import annotations

from typing import Callable

from hybrid.base.records import dataclass
from hybrid.kernels import text as kernel_text

# functions of C's library that have the names of GCC's own, those of floats with an f behind
LIBRARY = frozenset("""memcpy memset acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp
    exp2 expm1 fabs floor fma fmax fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 lrint llrint nearbyint pow
    remainder rint round sin sinh sqrt tan tanh tgamma trunc abs labs""".split())
NO_VECTORS = 4                  # bytes of a vector that is one float32
ALL_PASSES = "/* with all passes */\n"          # begins a text that is compiled without ``toolchain.quick``


@dataclass(frozen=True)
class Row:
    """A family of compilers.

    compilers: words that are looked for in a compiler's path and its ``--version``; () is the fallback. vector: bytes
    of the widest vector, 4 for compilers without vectors. before: gives the prelude's text.
    """
    name: str
    compilers: tuple[str, ...]
    vector: int
    before: Callable[[], str] = str


def standard() -> str:
    """A prelude that defines GCC's built-in functions by those of C's standard library."""
    named = (f"#define __builtin_{n}{f} {n}{f}" for n in sorted(LIBRARY) for f in ("", "f"))
    return "\n".join((kernel_text("c", "standard.h"), *named))


GNU = Row("GNU C", (), 64)
ROWS: list[Row] = [GNU]


def register(row: Row) -> Row:
    """Add a row, which is asked before those that are there. A name that is taken is an error."""
    if any(r.name == row.name for r in ROWS):
        raise ValueError(f"there is a target {row.name!r} already")
    ROWS.insert(0, row)
    return row


def unregister(row: Row) -> None:
    """Take a row out again (tests)."""
    ROWS.remove(row)


def row_of(version: str) -> Row:
    """The row of a compiler, by its path and the text of its --version."""
    words = version.lower().replace("/", " ").split()
    return next((r for r in ROWS if any(w in words for w in r.compilers)), GNU)


register(Row("C99", ("tcc",), NO_VECTORS, standard))
