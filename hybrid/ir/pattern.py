"""Patterns of functions and reductions, as data: ("div", {"e": ("exp", "x")}, ("sum", "e")) is a softmax."""
from __future__ import annotations

from typing import Any

from .access import beneath
from .node import Node
from .reductions import REDUCTIONS

_COMMUTE = frozenset({"add", "mul", "maximum", "minimum"})
# what softmax takes exponentials of, and softmax
BELOW_ITS_MAXIMUM: Any = ("sub", "x", ("max", "x", "greatest"))
SOFTMAX: Any = ("div", {"e": ("exp", BELOW_ITS_MAXIMUM)}, ("sum", "e", "total"))


def constant(n: Node) -> float | int | bool | None:
    """The value of a constant of any shape, else None."""
    n = beneath(n, ("expand", "reshape"))
    if n.prim != "const":
        return None
    value: float | int | bool = n.attrs["value"]
    return float(value) if isinstance(value, float) else value        # a plain number: nan is not itself


def spread(n: Node) -> Node | None:
    """The reduction whose results a value has, each at all places that it is of; None for other values."""
    inner = beneath(n, ("expand",))
    r = beneath(inner, ("reshape",))
    if r.prim != "reduce":
        return None
    kept = tuple(1 if a in r.attrs["axes"] else d for a, d in enumerate(r.args[0].shape))
    return r if inner is r or inner.shape == kept else None


def matched(n: Node, pattern: Any, known: dict[str, Node] | None = None) -> dict[str, Node] | None:
    """The nodes that a pattern names, if a value has its form; the same name stands for the same node.

    A pattern is a name; a number (a constant of that value); {name: pattern}; (function, patterns of its arguments …),
    in any order where that does not matter; or (reduction, pattern of what it is of, name of the reduction), whose
    results may be spread over its axes again.

    >>> x = build.input(0, (3, 4), "float32")
    >>> matched(x * 2 + 1, ("add", 1, ("mul", "x", "by")))["x"] is x                                # doctest: +SKIP
    True
    """
    known = known or {}
    if isinstance(pattern, str):
        return {**known, pattern: n} if known.get(pattern, n) is n else None
    if isinstance(pattern, (int, float)):
        c = constant(n)
        return known if c is not None and float(c) == pattern else None
    if isinstance(pattern, dict):
        (name, inner), = pattern.items()
        return matched(n, name, known) and matched(n, inner, {**known, name: n})
    if pattern[0] in REDUCTIONS:
        r, (op, inner, *name) = spread(n), pattern
        if r is None or r.attrs["op"] != op:
            return None
        return matched(r.args[0], inner, {**known, **dict.fromkeys(name, r)})
    if n.fn != pattern[0]:
        return None
    for args in (n.args, n.args[::-1]) if n.fn in _COMMUTE else (n.args,):
        found: dict[str, Node] | None = known
        for a, inner in zip(args, pattern[1:]):
            found = found if found is None else matched(a, inner, found)
        if found is not None:
            return found
    return None
