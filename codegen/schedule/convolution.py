"""Convolutions in C: the form that takes least by a count of operations, or by measurement where the counts are near
each other."""
from __future__ import annotations

from functools import partial
from typing import Callable, TypeVar

from hybrid.ir.access import depth_of
from hybrid.ir.contraction import convolves
from hybrid.ir.kernel import Kernel
from hybrid.ir.size import fixed, same

from hybrid.codegen.lanes import F32, Refused
from hybrid.codegen.loops import Printed
from hybrid.codegen.printers.convolutions.channels_in_lanes import ChannelsInLanes
from hybrid.codegen.printers.convolutions.depthwise_gradient import DepthwiseGradient
from hybrid.codegen.printers.convolutions.filters_in_lanes import FiltersInLanes
from hybrid.codegen.printers.convolutions.pixels_in_lanes import PixelsInLanes
from hybrid.codegen.printers.convolutions.shift_and_add import ShiftAndAdd
from hybrid.codegen.printers.convolutions.weight_gradient import Correlation
from hybrid.codegen.printers.products.contraction import Contraction
from .choose import Form, first_that_fits
from .tiling import Alone, Target

NEAR = 3.0                      # times the least count: forms beyond it are not worth a measurement
ALONE = "k"                     # the name of a kernel that is measured: what is known of it holds for others too
GATHERED = "gathered windows"   # a product whose tiles are copied together from the windows (contraction.py)
# forms of gradients of weights, and of convolutions and gradients of data, as reports name them
WEIGHTS: dict[str, type[Correlation]] = {"weight gradient, pixels in lanes": Correlation,
                                         "weight gradient, filters in lanes": FiltersInLanes,
                                         "weight gradient, channels in lanes": DepthwiseGradient}
DATA: dict[str, type[PixelsInLanes]] = {"pixels in lanes": PixelsInLanes, "channels in lanes": ChannelsInLanes,
                                        "shift-and-add": ShiftAndAdd}
AnyForm = TypeVar("AnyForm", PixelsInLanes, Correlation)


def print_convolution(k: Kernel, name: str, target: Target, alone: Callable[[Printed], Alone]) -> Printed:
    """C of a product with windows. alone: a kernel as a program of its own, to be measured."""
    assert k.dot is not None

    def gathered(called: str) -> Printed:
        return Contraction(k, called, target).print()
    if k.dot.dtype != F32 or k.root.dtype != F32 or same(k.dot.size, 0) or same(k.dot.args[0].size, 0):
        return gathered(name)

    def prepared(form: type[AnyForm], called: str) -> AnyForm:
        return _prepared(form, k, called, target)

    def data(*_: object) -> Printed:
        found: dict[str, PixelsInLanes] = {}
        refused = []
        for title, form in () if k.once else DATA.items():
            try:
                found[title] = prepared(form, name)
            except Refused as err:
                refused.append((title, str(err)))
        printed = _by_rule(k, found, partial(gathered, name))
        k.not_taken += refused
        if target.choose is None or not found or not fixed(k.dot.size):          # type: ignore[union-attr]
            return printed
        ways = {title: lambda called, form=DATA[title]: prepared(form, called).finish() for title in found}
        return _measured(k, name, target, found, printed, {**ways, GATHERED: gathered}, alone)
    return first_that_fits(k, [*FORMS_OF_WEIGHTS, ("", data)], name, target)


def _prepared(form: type[AnyForm], k: Kernel, name: str, target: Target) -> AnyForm:
    p = form(k, name, target)
    p.prepare()
    return p


def _of_weights(form: type[Correlation], k: Kernel, name: str, target: Target) -> Printed:
    return _prepared(form, k, name, target).print()


FORMS_OF_WEIGHTS: list[Form[Printed]] = [(title, partial(_of_weights, form)) for title, form in WEIGHTS.items()]


def print_over_any_image(k: Kernel, name: str, target: Target) -> Printed:
    """C of a product with windows over images whose height and width are known at a call only; Refused where it has no
    form that is about as fast as one that is printed for a size."""
    if k.dot is None or not convolves(k.dot) or k.dot.dtype != F32 or k.root.dtype != F32:
        raise Refused("no product with windows")
    return first_that_fits(k, FORMS_OF_WEIGHTS, name, target)


def _by_rule(k: Kernel, found: dict[str, PixelsInLanes], gathered: Callable[[], Printed]) -> Printed:
    """The form of least cost that can be printed; gathered windows where they cost less."""
    return first_that_fits(k, [*((title, lambda _, p=p: p.finish())                            # type: ignore[misc]
                                 for title, p in sorted(found.items(), key=lambda f: f[1].tile.cost)
                                 if p.tile.cost <= p.gathered()), (GATHERED, lambda _: gathered())])


def _measured(k: Kernel, name: str, target: Target, found: dict[str, PixelsInLanes], printed: Printed,
              ways: dict[str, Callable[[str], Printed]], alone: Callable[[Printed], Alone]) -> Printed:
    """The kernel in the form that was fastest, of those whose counts are near the least. found: prepared forms;
    printed: the kernel in the form of least count, ``k.form``; ways: what prints each form, given the kernel's name."""
    assert k.dot is not None and target.choose is not None
    costs = {**{title: p.tile.cost for title, p in found.items()}, GATHERED: next(iter(found.values())).gathered()}
    near = [title for title in costs if costs[title] <= NEAR * min(costs.values())]
    if k.form not in near or len(near) < 2:
        return printed

    def program(form: str) -> Alone | None:
        try:
            return alone(ways[form](ALONE))
        except Refused:
            return None
    first = program(k.form)
    assert first is not None
    form, _ = target.choose(k.form, first.source, {f: partial(program, f) for f in near}, k.dot.size * depth_of(k.dot))
    if form == k.form:
        return printed
    k.form = form
    return ways[form](name)
