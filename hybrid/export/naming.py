"""Names for kernels, after their operators."""
from __future__ import annotations

import re
from typing import Iterable, Mapping, Sequence

from hybrid.codegen.loops import Printed
from hybrid.codegen.program.comments import comment, operators
from hybrid.codegen.program.kernel_deduplication import STATIC, with_head

from ..ir.kernel import Kernel
from ..runtime.build import Listing
from ..ir.node import describe
from ..ir.parse import flat, parsed
from ..ir.stmt import Code, Stmt
from .readable import parameters, tidied

LONGEST = 40                     # characters of a kernel's operators in its name


def kernel_name(k: Kernel) -> str:
    """Operators of a kernel, each once, as part of a C name."""
    words = dict.fromkeys(re.sub(r"\W", "_", describe(n).split("[")[0]) for n in operators(k))
    name = ""
    for w in words or {"copy" if k.kind == "elementwise" else k.kind: None}:
        if len(name) + len(w) >= LONGEST:
            break
        name += f"_{w}"
    return name or f"_{k.kind}"


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
        return list(parsed(part for line in flat(code)
                           for part in tidied(tuple(map(renamed, line, (*line[1:], ""))), own)))
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
