"""Convolutions in C: the form that takes least by a count of operations, or by measurement where the counts are near
each other."""
from __future__ import annotations

from functools import partial
from typing import Callable

from hybrid.ir.access import depth_of
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, same

from hybrid.codegen.printers.convolutions.depthwise_gradient import DepthwiseGradient
from hybrid.codegen.printers.convolutions.weight_gradient import Correlation
from hybrid.codegen.printers.convolutions.pixels_in_lanes import Direct
from hybrid.codegen.printers.convolutions.filters_in_lanes import FiltersInLanes
from hybrid.codegen.loops import Printed
from hybrid.codegen.printers.convolutions.shift_and_add import Spread
from .tiling import Alone, Target
from hybrid.codegen.printers.convolutions.channels_in_lanes import Turned
from hybrid.codegen.lanes import F32, Refused

NEAR = 3.0                      # times the least count: forms beyond it are not worth a measurement


ALONE = "k"                     # the name of a kernel that is measured: what is known of it holds for others too


def print_convolution(k: Kernel, name: str, target: Target, gathered: Callable[[str], Printed],
                      alone: Callable[[Printed], Alone]) -> Printed | None:
    """C of a convolution; None where it is none, or tiles of gathered windows take less.

    gathered: prints those under a name. alone: a kernel as a program of its own, to be measured.
    """
    if k.dot is None or k.dot.dtype != F32 or k.root.dtype != F32:
        return None
    if same(k.dot.size, 0) or same(k.dot.args[0].size, 0):
        return None
    for form in (Correlation, FiltersInLanes, DepthwiseGradient):
        weights = form(k, name, target)
        try:
            weights.prepare()
            return weights.print()
        except Refused:
            pass
    if k.once:
        return None
    forms = _prepared(k, name, target)
    rule, printed = _by_rule(forms)
    if target.choose is None or not forms or not fixed(k.dot.size):
        return printed
    return _measured(k, name, target, forms, rule, printed, gathered, alone)


def _prepared(k: Kernel, name: str, target: Target) -> list[Direct]:
    """The forms that this convolution can have, by rising cost."""
    found: list[Direct] = []
    for form in (Direct, Turned, Spread):
        p = form(k, name, target)
        try:
            p.prepare()
            found.append(p)
        except Refused:
            pass
    return sorted(found, key=lambda p: p.tile.cost)


def _by_rule(forms: list[Direct]) -> tuple[str, Printed | None]:
    """The form of least cost that can be printed; gathered windows where they cost less."""
    for p in forms:
        if p.tile.cost > p.gathered():
            break
        try:
            return _name(p), p.finish()
        except Refused:
            pass
    return "gathered", None


def _name(p: Direct) -> str:
    return type(p).__name__.lower()


def _measured(k: Kernel, name: str, target: Target, forms: list[Direct], rule: str, printed: Printed | None,
              gathered: Callable[[str], Printed],
              alone: Callable[[Printed], Alone]) -> Printed | None:
    """The form that was fastest."""
    assert k.dot is not None and target.choose is not None
    most = NEAR * min(forms[0].tile.cost, forms[0].gathered())
    near: dict[str, Callable[[str], Printed]] = {_name(p): partial(_named, p) for p in forms if p.tile.cost <= most}
    if forms[0].gathered() <= most:
        near["gathered"] = gathered
    if rule not in near or len(near) < 2:
        return printed

    def program(form: str) -> Alone | None:
        try:
            return alone(near[form](ALONE))
        except Refused:
            return None
    first = program(rule)
    assert first is not None
    work = k.dot.size * depth_of(k.dot)
    form, _ = target.choose(rule, first.source, {f: partial(program, f) for f in near}, work)
    return (printed or gathered(name)) if form == rule else near[form](name)


def _named(p: Direct, name: str) -> Printed:
    """A form under a name."""
    again = type(p)(p.k, name, p.target)
    again.prepare()
    return again.finish()
