"""Which form a kernel takes: the first of a list that fits, those of other packages before our own. Forms that do not
fit leave their reasons at the kernel, and ``report()`` shows them.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence, TypeVar

from hybrid.ir.kernel import Kernel

from hybrid.codegen.lanes import Refused
from .registered import FORMS

P = TypeVar("P")                                  # a printed kernel of C or of CUDA
Form = tuple[str, Callable[..., P]]               # its name, and what prints a kernel or raises Refused


def first_that_fits(k: Kernel, forms: Sequence[Form[P]], *given: Any) -> P:
    """The kernel in the first form that fits. The last form always fits; it may itself choose among further forms.
    given: what forms take after the kernel."""
    reasons: list[tuple[str, str]] = []
    for name, make in forms[:-1]:
        try:
            printed = make(k, *given)
        except Refused as err:
            reasons.append((name, str(err)))
            continue
        k.form, k.not_taken = name, reasons
        return printed
    (k.form, make), k.not_taken = forms[-1], []
    printed = make(k, *given)
    k.not_taken = [*reasons, *k.not_taken]
    return printed


def first_registered(target: str, k: Kernel, built_in: Callable[..., P], *given: Any) -> P:
    """The kernel in the first form of another package that accepts it, else as this one prints it."""
    return first_that_fits(k, [*((f.name, f.print) for f in FORMS if f.target == target), ("", built_in)], *given)
