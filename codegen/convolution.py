"""Convolutions in C: the form that takes least."""
from __future__ import annotations

from hybrid.ir.kernel import Kernel

from .tiling import Target
from .correlate import Correlation
from .direct import Direct
from .loops import Printed
from .spread import Spread
from .turned import Turned
from .vector import F32, Refused


def print_convolution(k: Kernel, name: str, target: Target) -> Printed | None:
    """C of a convolution in the form that takes least; None where it is none, or gathered windows take less."""
    if k.dot is None or k.dot.dtype != F32 or k.root.dtype != F32 or not k.dot.size or not k.dot.args[0].size:
        return None
    weights = Correlation(k, name, target)
    try:
        weights.prepare()
        return weights.print()
    except Refused:
        pass
    if k.once:
        return None
    found: list[Direct] = []
    for form in (Direct, Turned, Spread):
        p = form(k, name, target)
        try:
            p.prepare()
            found.append(p)
        except Refused:
            pass
    for p in sorted(found, key=lambda p: p.tile.cost):
        if p.tile.cost > p.gathered():
            return None
        try:
            return p.finish()
        except Refused:
            pass
    return None
