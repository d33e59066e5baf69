"""Names for kernels, after their operators, and for their parameters, after what they point to."""
from __future__ import annotations

import re
from typing import Iterable, Mapping, Sequence

from hybrid.codegen.loops import Printed
from hybrid.codegen.program.comments import comment, operators
from hybrid.codegen.program.kernel_deduplication import STATIC, with_head

from ..ir.kernel import Kernel
from ..ir.node import Node, describe
from ..ir.parse import flat, parsed, substituted
from ..ir.stmt import Code, Stmt
from ..runtime.build import Listing
from .specialized import RESERVED

LONGEST = 40                     # characters of a kernel's operators in its name
# of C's library, which a parameter had better not hide
LIBRARY = frozenset("""abs acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh div erf erfc exp exp2 expm1 fabs
    floor fmax fmin fmod free gamma hypot index j0 j1 jn lgamma log log10 log1p log2 max min pow remainder remove rename
    rint round select signal sin sinh sqrt tan tanh tgamma time trunc y0 y1 yn""".split())


def kernel_name(k: Kernel) -> str:
    """Operators of a kernel, each once, as part of a C name."""
    words = dict.fromkeys(re.sub(r"\W", "_", describe(n).split("[")[0]) for n in operators(k))
    name = ""
    for w in words or {"copy" if k.kind == "elementwise" else k.kind: None}:
        if len(name) + len(w) >= LONGEST:
            break
        name += f"_{w}"
    return name or f"_{k.kind}"


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


def named(listing: Listing, prefix: str, names: Sequence[str]) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
    """The functions of a printed program with comments and names after their operators, and the one that runs them."""
    kernels = [k for g in listing.planned.groups for k in g.kernels if k.root.size]
    functions: list[Printed] = listing.text.functions
    helpers = len(functions) - len(kernels)
    titles = {str(k.number): kernel_name(k) for k in kernels}

    def renamed(w: str, after: str) -> str:
        kernel = w.partition("_")[0]
        number = kernel[1:]
        if kernel[:1] != "k" or not number.isdecimal() or after != "(":      # a variable of a loop over the depth
            return w
        return f"{prefix}{number}{titles.get(number, '')}{w[len(kernel):]}"

    def tidy(code: Iterable[Stmt], own: Mapping[str, str]) -> list[Stmt]:
        return list(parsed(substituted(tuple(map(renamed, line, (*line[1:], ""))), own) for line in flat(code)))
    out = tidy([s for p in functions[:helpers] for s in p.code], {})
    said: dict[str, list[str]] = {}
    for p, k in zip(functions[helpers:], kernels):
        said.setdefault(p.name, []).append(comment(k, names))
    for p in functions[helpers:]:
        if p.code:
            out += [Code((c,)) for c in said.pop(p.name, [])]
            out += tidy(with_head(p, ("HY_APART", " ", *STATIC)) if listing.text.large else p.code,
                        parameters(p, names))
    return tuple(out), tuple(tidy(listing.text.net, {}))
