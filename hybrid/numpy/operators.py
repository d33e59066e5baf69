"""The operators of ``np`` and ``npx`` by the names that files have (``_npi_add``, ``_np_sum``, ``_npx_relu``), with or
without their prefix.

``np._internal.add`` and ``np._op.sum`` are these, as in MXNet.
"""
from __future__ import annotations

from typing import Any

from ..nd import functions
from ..ops.registry import OPS, namespace

PREFIXES = ("", "_npi_", "_np_", "_npx_")


def find(name: str) -> Any:
    """The function of an operator, or None where there is no such operator."""
    for known in (p + name for p in PREFIXES):
        if known in OPS and known.startswith("_np"):
            return _function(known)
    return None


def _function(name: str) -> Any:
    """The public function where there is one, so that both names are the same object."""
    space, _, rest = name[1:].partition("_")
    space = "npx" if space == "npx" else "np"
    if namespace(space).get(rest) is OPS[name]:
        return functions.resolve(space, rest)
    made = _made.get(name)
    if made is None or made[0] is not OPS[name]:
        made = _made[name] = OPS[name], functions.make_function(OPS[name], name, space)
    return made[1]


_made: dict[str, Any] = {}
_get_builtin_op = find                          # MXNet's name of it


def __getattr__(name: str) -> Any:
    """An operator as a function."""
    found = None if name.startswith("__") else find(name)
    if found is None:
        raise AttributeError(f"there is no operator {name!r} of np or npx")
    return found


def __dir__() -> list[str]:
    return sorted(n for n in OPS if n.startswith(("_np_", "_npi_", "_npx_")))


__all__ = ["find"]
