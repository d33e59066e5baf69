"""Kernel generators from other packages (*forms*): each prints some kernels of one target, and is tried before the
generators of this package.

A form is registered in one place, from outside::

    from hybrid.codegen.schedule.registered import Form, register

    def print_c(k, name, target):
        if k.kind != "elementwise":
            raise Refused("not elementwise")
        ...
        return Printed(name, source, args, k.kind)

    register(Form("my form", print_c, version="1"))

``report()`` shows the form's name at the kernels that have it, and its reason at those that do not.
"""
from __future__ import annotations

from typing import Any, Callable

from hybrid.base.records import dataclass


@dataclass(frozen=True)
class Form:
    """A form of kernels.

    print: takes a Kernel (hybrid.ir.kernel), the name of its function and, for C, the Target (tiling.py); gives Printed
    (loops.py) for C or PrintedCuda for CUDA, or raises Refused (lanes.py) with the reason. version: change it
    whenever the printed text changes; it is part of the disk cache's key. target: "c" or "cuda".
    """
    name: str
    print: Callable[..., Any]
    version: str
    target: str = "c"


FORMS: list[Form] = []


def register(form: Form) -> Form:
    """Add a form. A name that its target has already is an error."""
    if any((f.name, f.target) == (form.name, form.target) for f in FORMS):
        raise ValueError(f"a form {form.name!r} of {form.target} is registered already")
    FORMS.append(form)
    return form


def unregister(form: Form) -> None:
    """Take a form out again (tests)."""
    FORMS.remove(form)


def added() -> str:
    """All forms and their versions, as text for the key of compiled programs."""
    return repr([(f.name, f.target, f.version) for f in FORMS])
