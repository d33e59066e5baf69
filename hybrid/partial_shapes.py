"""Shapes of which only some lengths are known: what ``infer_shape`` and ``infer_shape_partial`` find out from them."""
from __future__ import annotations

from typing import Any, MutableMapping, Sequence

from . import dtype as dt
from .errors import DTypeError, ShapeError
from .inference import key_of, shapes_of
from .ops.elementwise import one_shape
from .symnode import SymNode, effective

UNKNOWN = -1
PROBES = (240, 480)                   # lengths put in place of unknown ones: what differs between the results depends on them


def partial_shapes_of(order: Sequence[SymNode], given: Any) -> dict[Any, Any]:
    """Like ``shapes_of``, with -1 for lengths that stay unknown."""
    shapes = shapes_of(order, given)
    for n in order:
        if n.opdef is None and shapes[id(n)] is not None:
            shapes[id(n)] = tuple(d if d > 0 else UNKNOWN for d in shapes[id(n)])
    for _ in range(8):
        before = dict(shapes)
        for n in (*order, *reversed(order)):
            if n.opdef is not None and not _complete(shapes, n):
                _step(n, shapes)
        if shapes == before:
            break
        known = {n.name: tuple(max(d, 0) for d in s) for n in order if n.opdef is None and (s := shapes[id(n)]) is not None}
        found = shapes_of(order, known)
        shapes.update({k: s if s is None else tuple(d if d > 0 else UNKNOWN for d in s) if not isinstance(k, tuple) else s
                       for k, s in found.items() if s is not None and (not isinstance(k, tuple) or UNKNOWN not in s)})
    return shapes


def _complete(shapes: MutableMapping[Any, Any], n: SymNode) -> bool:
    keys = [key_of(m, k) for m, k in n.inputs] + [(id(n), 0)]
    return all(shapes.get(k) is not None and UNKNOWN not in shapes[k] for k in keys)


def _step(n: SymNode, shapes: MutableMapping[Any, Any]) -> None:
    """What one operator tells."""
    assert n.opdef is not None
    at = [key_of(m, k) for m, k in n.inputs]
    if n.opdef.params is one_shape:
        _merge(shapes, [*at, (id(n), 0)])
        return
    ins = [shapes.get(k) for k in at]
    if n.opdef.params is not None and ins and ins[0] is not None:
        full = n.opdef.complete([tuple(PROBES[0] if d == UNKNOWN else d for d in s) if s is not None else None for s in ins], effective(n))
        again = n.opdef.complete([tuple(PROBES[1] if d == UNKNOWN else d for d in s) if s is not None else None for s in ins], effective(n))
        for key, old, a, b in zip(at, ins, full, again):
            if old is None and a is not None and b is not None:
                shapes[key] = _common(a, b)
        ins = [shapes.get(k) for k in at]
    if any(s is None for s in ins):
        return
    results = [_probe(n, ins, length) for length in PROBES]
    if results[0] is None or results[1] is None:
        return
    for k, (a, b) in enumerate(zip(*results)):
        if len(a) == len(b):
            shapes[(id(n), k)] = _common(a, b)


def _common(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(x if x == y else UNKNOWN for x, y in zip(a, b))


def _probe(n: SymNode, ins: Sequence[Any], length: int) -> list[tuple[int, ...]] | None:
    """The results' shapes with a length in place of every unknown one; None where that does not fit."""
    d = n.opdef
    assert d is not None
    filled = [tuple(length if v == UNKNOWN else v for v in s) for s in ins]
    padded = [None] * (len(d.inputs) - len(ins) if not d.variadic else 0)
    for t in (dt.float32, dt.int32):
        try:
            return [s for s, _ in d.infer([*filled, *padded], [*[t] * len(ins), *padded], effective(n))]
        except DTypeError:
            continue
        except ShapeError:
            return None
    return None


def _merge(shapes: MutableMapping[Any, Any], keys: Sequence[Any]) -> None:
    """Arrays of one shape: each gets the lengths that any of them knows."""
    known = [shapes[k] for k in keys if shapes.get(k) is not None]
    if not known or len({len(s) for s in known}) != 1:
        return
    columns = [{d for d in column if d != UNKNOWN} for column in zip(*known)]
    if any(len(c) > 1 for c in columns):                       # broadcast, or an error that the operator itself reports
        return
    merged = tuple(next(iter(c), UNKNOWN) for c in columns)
    for k in keys:
        shapes[k] = merged
