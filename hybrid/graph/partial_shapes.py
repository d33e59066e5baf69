"""Shapes of which only some lengths are known: what ``infer_shape`` and ``infer_shape_partial`` find out from them."""
from __future__ import annotations

from typing import Any, MutableMapping, Sequence

from ..base import dtype as dt
from ..base.errors import DTypeError, ShapeError
from .inference import key_of, least_length, shapes_of
from ..ops.elementwise import one_shape
from .symnode import SymNode, effective

UNKNOWN = -1
LENGTHS = (2, 3, 5, 7, 11, 13, 17)    # of a trial input whose axes are looked for in the result
# lengths put in place of unknown ones: what differs between the results depends on them
PROBES = (240, 480)


def partial_shapes_of(order: Sequence[SymNode], given: Any) -> dict[Any, Any]:
    """Like ``shapes_of``, with -1 for lengths that stay unknown."""
    shapes, least = shapes_of(order, given), least_length()
    for n in order:
        if n.opdef is None and shapes[id(n)] is not None:
            shapes[id(n)] = tuple(d if d >= least else UNKNOWN for d in shapes[id(n)])
    for _ in range(8):
        before = dict(shapes)
        for n in (*order, *reversed(order)):
            if n.opdef is not None and not _complete(shapes, n):
                _step(n, shapes)
        if shapes == before:
            break
        known = {n.name: tuple(max(d, least - 1) for d in s) for n in order if n.opdef is None
                 and (s := shapes[id(n)]) is not None}
        found = shapes_of(order, known)
        shapes.update({k: s if s is None else tuple(d if d >= least else UNKNOWN for d in s)
                       if not isinstance(k, tuple) else s
                       for k, s in found.items() if s is not None and (not isinstance(k, tuple) or UNKNOWN not in s)})
    return shapes


def _complete(shapes: MutableMapping[Any, Any], n: SymNode) -> bool:
    """Whether nothing is left to find out about an operator."""
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
        full, again = (_completed(n, ins, length) for length in PROBES)
        for key, old, a, b in zip(at, ins, full, again):
            if a is not None and b is not None and (old is None or UNKNOWN in old and len(a) == len(b) == len(old)):
                told = _common(a, b)
                shapes[key] = told if old is None else tuple(t if o == UNKNOWN else o for o, t in zip(old, told))
        ins = [shapes.get(k) for k in at]
    if len(ins) == 1 and ins[0] is None:
        _alike(n, shapes, at[0])
        return
    if any(s is None for s in ins):
        return
    _solve(n, shapes, at, ins)
    ins = [shapes[k] for k in at]
    results = [_probe(n, ins, length) for length in PROBES]
    if results[0] is None or results[1] is None:
        return
    for k, (a, b) in enumerate(zip(*results)):
        if len(a) == len(b):
            old = shapes.get((id(n), k))
            new = _common(a, b)
            shapes[(id(n), k)] = tuple(o if v == UNKNOWN else v
                                       for o, v in zip(old, new)) if old is not None and len(old) == len(new) else new


def _completed(n: SymNode, ins: Sequence[Any], length: int) -> Sequence[Any]:
    """What the operator says of its parameters when the data's unknown lengths are this long."""
    assert n.opdef is not None
    data = tuple(length if d == UNKNOWN else d for d in ins[0])
    return n.opdef.complete([data, *(s if s is None or UNKNOWN not in s else None for s in ins[1:])], effective(n))


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


def _alike(n: SymNode, shapes: MutableMapping[Any, Any], key: Any) -> None:
    """The only input of an operator that keeps its lengths (at other places, or with axes of length 1 beside them) has
    those of the result."""
    out = shapes.get((id(n), 0))
    if out is None:
        return
    trials: dict[int, tuple[int, ...]] = {}
    for ndim in range(1, len(out) + 2):
        found = _probe(n, [LENGTHS[:ndim]], 1) if ndim <= len(LENGTHS) else None
        if found is not None and len(found) == 1 and len(found[0]) == len(out):
            trials[ndim] = found[0]
    if len(trials) != 1:                                       # inputs of several kinds have such a result
        return
    (ndim, result), = trials.items()
    at = {length: i for i, length in enumerate(result)}
    if (sorted(d for d in result if d != 1) == sorted(LENGTHS[:ndim])
        and all(o in (1, UNKNOWN) for d, o in zip(result, out) if d == 1)):
        shapes[key] = tuple(out[at[length]] for length in LENGTHS[:ndim])


def _solve(n: SymNode, shapes: MutableMapping[Any, Any], at: Sequence[Any], ins: Sequence[Any]) -> None:
    """Unknown lengths of inputs from known lengths of results: a result's length grows evenly with the input's."""
    axes = sorted({j for s in ins for j, d in enumerate(s) if d == UNKNOWN})
    for axis in axes:
        rows = []
        for length in PROBES:
            trial = [tuple(length if v == UNKNOWN and j == axis else v for j, v in enumerate(s)) for s in ins]
            rows.append(_probe(n, trial, PROBES[0]))
        if rows[0] is None or rows[1] is None:
            continue
        for k, (a, b) in enumerate(zip(*rows)):
            out = shapes.get((id(n), k))
            if out is None or not len(a) == len(b) == len(out):
                continue
            moved = [i for i, (x, y) in enumerate(zip(a, b)) if x != y]
            if len(moved) != 1 or out[moved[0]] == UNKNOWN:
                continue
            slope = (b[moved[0]] - a[moved[0]]) / (PROBES[1] - PROBES[0])
            length = round((out[moved[0]] - a[moved[0]]) / slope + PROBES[0])
            solved = [tuple(length if v == UNKNOWN and j == axis else v for j, v in enumerate(s)) for s in ins]
            check = _probe(n, solved, PROBES[0]) if length > 0 else None
            if check is not None and check[k][moved[0]] == out[moved[0]]:
                for key, s in zip(at, solved):
                    shapes[key] = s
                ins = solved
                break


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
