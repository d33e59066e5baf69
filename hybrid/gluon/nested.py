"""Arrays in nested lists as a flat list and a structure, in MXNet's form: code beside Gluon uses these two
functions."""
from __future__ import annotations

from typing import Any

from ..buffers.array import NDArray
from ..graph.symbol import Symbol


def _flatten(args: Any, inout_str: str) -> tuple[list[Any], Any]:
    """The values, and the structure: 0 for an array or a Symbol of one output, their number for a Symbol of several, -1
    for None, a list for a list or tuple. ``inout_str`` ("input", "output") says in the error what was given.

    >>> _flatten([None, [None]], "input")
    ([None, None], [-1, [-1]])
    """
    if isinstance(args, NDArray):
        return [args], 0
    if isinstance(args, Symbol):
        outputs = len(args.list_outputs())
        return [args], outputs if outputs > 1 else 0
    if args is None:
        return [None], -1
    if not isinstance(args, (list, tuple)):
        raise ValueError(f"{inout_str} must be an array, a Symbol, None or a (nested) list of them, got "
                         f"{type(args).__name__}: {args!r}"[:300])
    parts = [_flatten(a, inout_str) for a in args]
    return [x for flat, _ in parts for x in flat], [fmt for _, fmt in parts]


def _regroup(args: Any, fmt: Any) -> tuple[Any, list[Any]]:
    """The nested values of a structure from the beginning of a flat list, and the rest of the list.

    >>> _regroup([1, 2, 3], [0, [0]])
    ([1, [2]], [3])
    """
    if fmt == -1:
        if args[0] is not None:
            raise ValueError(f"there is no value at this place of the structure, but {args[0]!r} was given"[:300])
        return None, args[1:]
    if isinstance(fmt, int):
        return (args[0], args[1:]) if fmt == 0 else (args[:fmt], args[fmt:])
    out = []
    for f in fmt:
        value, args = _regroup(args, f)
        out.append(value)
    return out, args
