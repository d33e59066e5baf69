"""Which form a kernel takes: the first of a list that fits. Those that do not leave their reasons at the kernel, and
``report()`` shows them.
"""
from __future__ import annotations

from typing import Callable, Sequence, TypeVar

from hybrid.ir.kernel import Kernel

from hybrid.codegen.lanes import Refused

P = TypeVar("P")                                  # a printed kernel of C or of CUDA
Form = tuple[str, Callable[[], P]]                # its name, and what prints it or raises Refused


def first_that_fits(k: Kernel, forms: Sequence[Form[P]]) -> P:
    """The kernel in the first form that fits; the last form fits always."""
    reasons: list[tuple[str, str]] = []
    for name, make in forms[:-1]:
        try:
            printed = make()
        except Refused as err:
            reasons.append((name, str(err)))
            continue
        k.form, k.not_taken = name, reasons
        return printed
    name, make = forms[-1]
    k.form, k.not_taken = name, reasons
    return make()
