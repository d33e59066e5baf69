"""Models whose inputs have lengths that the file leaves open: they are read for two sets of lengths, and what differs
must follow from the data.

Reshape can say so (0 is the length that was there, one -1 what is left), and broadcast_to where the length is there
already.
"""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from ...base.errors import AttributeValueError, FileFormatError, HybridError
from ...graph.symbol import Group, Symbol, var
from ...graph.symnode import SymNode
from .reader import Reader
from .scalars import READ

LENGTHS = ((2, 3), (3, 5), (5, 7), (7, 11), (11, 13), (13, 17))           # for the first open length, the second, …
SPATIAL = 64                            # factor for the trial lengths of spatial axes (inputs of rank 4 or more)
SHAPES = {"Reshape": "shape", "_np_reshape": "newshape", "broadcast_to": "shape"}
BROADCAST = {row[0] for row in READ.values() if row[0].startswith(("broadcast_", "_npi_"))}
ASK = "give input_shapes={'name': shape}, and the network is read for these"


def read(model: Any, given: Mapping[str, Sequence[int]]) -> tuple[Symbol, dict[str, np.ndarray], list[str]]:
    """The Symbol, the numbers of its parameters, the names of its inputs. given: shapes by input."""
    first, second = two_lengths(model, given)
    a = Reader(model, first)
    head = _head(a)
    used = set(head.list_inputs())
    inputs = [name for name in a.inputs if name in used]
    if first != second:
        head = _merged(head, a.params, *_again(model, second), inputs)
    else:
        free: dict[str, Any] = {name: var(name) for name in inputs}
        head = head(**free)                                                # the file's shapes are no conditions
    return head, {k: v for k, v in a.params.items() if k in used}, inputs


def _head(reader: Reader) -> Symbol:
    head = reader.outputs[0] if len(reader.outputs) == 1 else Group(reader.outputs)
    loose = next((name for name in head.list_inputs() if name not in reader.params and name not in reader.inputs), None)
    if loose is not None:                                     # a variable made for an input that is missing
        raise FileFormatError(f"a node of the ONNX model lacks an input: nothing gives {loose!r}")
    return head


def _again(model: Any, shapes: Mapping[str, Any]) -> tuple[Symbol, dict[str, np.ndarray]]:
    b = Reader(model, shapes)
    return _head(b), b.params


def two_lengths(model: Any, given: Mapping[str, Sequence[int]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two shapes for each input, the same where no length is open."""
    keys: list[Any] = []
    out: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    constants = {t.name for t in model.graph.initializer}
    for v in model.graph.input:
        if v.name in constants or v.name not in given and not v.type.tensor_type.HasField("shape"):
            continue
        dims = list(given.get(v.name, v.type.tensor_type.shape.dim))
        for side in (0, 1):
            out[side][v.name] = tuple(_length(d, i, len(dims), keys, side) for i, d in enumerate(dims))
    return out


def _length(d: Any, axis: int, rank: int, keys: list[Any], side: int) -> int:
    """A length. Open ones of one name are equal, as are those without a name that are of one axis."""
    if isinstance(d, (int, np.integer)):
        return int(d)
    if d.HasField("dim_value") and d.dim_value > 0:
        return int(d.dim_value)
    key = d.dim_param or axis
    if key not in keys:
        keys.append(key)
    if keys.index(key) >= len(LENGTHS):
        raise AttributeValueError(f"the file leaves more than {len(LENGTHS)} lengths open: {ASK}")
    return LENGTHS[keys.index(key)][side] * (SPATIAL if rank >= 4 and axis >= 2 else 1)


def _merged(a: Symbol, params: dict[str, np.ndarray], b: Symbol, others: Mapping[str, np.ndarray],
            inputs: Sequence[str]) -> Symbol:
    order, again = a.nodes(), b.nodes()
    if [(n.opdef, n.name) for n in order] != [(n.opdef, n.name) for n in again]:
        raise AttributeValueError(f"the network is another one for other lengths, which the file leaves open: {ASK}")
    new: dict[int, SymNode] = {}
    for n, m in zip(order, again):
        if n.opdef is None:
            new[id(n)] = var(n.name).entries[0][0] if n.name in inputs else _parameter(n, order, params, others)
            continue
        attrs = n.attrs if n.attrs == m.attrs else _common(n, m)
        new[id(n)] = SymNode(n.opdef, n.name, attrs, [(new[id(k)], j) for k, j in n.inputs], dict(n.extra))
    return Symbol([(new[id(n)], k) for n, k in a.entries])


def _parameter(n: SymNode, order: Sequence[SymNode], params: dict[str, np.ndarray],
               others: Mapping[str, np.ndarray]) -> SymNode:
    """A parameter that is the same for both lengths, or the same all along the lengths that are open, and broadcast by
    elementwise operators."""
    x, y = params[n.name], others[n.name]
    if x.shape == y.shape and x.tobytes() == y.tobytes():
        return n
    users = {m.opdef.name for m in order if m.opdef is not None and any(k is n for k, _ in m.inputs)}
    if users <= BROADCAST and x.ndim == y.ndim and x.size and y.size:
        first = x[tuple(slice(None if d == e else 1) for d, e in zip(x.shape, y.shape))]
        if (x == first).all() and np.broadcast_shapes(first.shape, y.shape) == y.shape and (y == first).all():
            params[n.name] = first
            return var(n.name, shape=first.shape, dtype=x.dtype).entries[0][0]
    raise AttributeValueError(f"the numbers of {n.name!r} depend on lengths that the file leaves open: {ASK}")


def _common(n: SymNode, m: SymNode) -> Any:
    """Attributes that are right for both lengths."""
    assert n.opdef is not None and n.attrs is not None and m.attrs is not None
    key = SHAPES.get(n.opdef.name)
    differing = [k for k in n.attrs if getattr(n.attrs, k) != getattr(m.attrs, k)]
    if key is not None and differing == [key]:
        (x, i), (y, j) = n.inputs[0], m.inputs[0]
        target = _target(n.opdef.name, list(zip(x.info[i][0], y.info[j][0])),
                         list(zip(getattr(n.attrs, key), getattr(m.attrs, key))))
        if target is not None:
            try:
                return n.opdef.parse({**n.attrs.given(), key: tuple(target)})
            except HybridError:
                pass
    raise AttributeValueError(f"{', '.join(differing)} of node {n.name!r} ({n.opdef.name}) depend on lengths that the "
                              f"file leaves open: {ASK}")


def _target(name: str, source: Sequence[tuple[int, int]], pairs: Sequence[tuple[int, int]]) -> list[int] | None:
    """A shape in which 0 stands for the length at the same place, and one -1 for what is left; None where that does not
    say it."""
    if name == "_np_reshape":
        return None if sum(x != y for x, y in pairs) > 1 else [x if x == y else -1 for x, y in pairs]
    dims = [0 if x != y and i < len(source) and source[i] == (x, y) else x if x == y else None
            for i, (x, y) in enumerate(pairs)]
    if dims.count(None) > (name == "Reshape" and -1 not in dims):
        return None
    return [-1 if d is None else d for d in dims]
