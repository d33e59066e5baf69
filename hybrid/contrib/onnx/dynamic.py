"""Lengths that vary: a graph is built for two sets of lengths, and what differs between the two is read off the inputs
when the model runs.

Only the shapes of Reshape and Expand, and how far is counted, may differ; where anything else does, an operator needs a
length that is known, and the error names it.
"""
from __future__ import annotations

from itertools import count
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ...base.errors import AttributeValueError, HybridError
from .builder import Graph, Sized, Value

Make = Callable[[Mapping[str, tuple[int, ...]]], tuple[Graph, list[Value]]]
Pair = tuple[int, int]
# lengths of different axes are told apart by them
FACTORS = ((2, 3), (3, 5), (5, 7), (7, 11), (11, 13), (13, 17), (17, 19), (19, 23))


def varying(make: Make, shapes: Mapping[str, tuple[int, ...]],
            wanted: Any) -> tuple[Graph, list[Value], dict[str, list[Any]]]:
    """The graph, its outputs (None in shapes: a length that varies), and the inputs' shapes as they are declared.

    make: builds a graph for shapes. wanted: for each input, a length, or None or a name for one that varies; None:
    every length that can vary.
    """
    if wanted is not None:
        marks = _with_names(_marks(shapes, wanted))
        return (*_two(make, shapes, marks), _declared(shapes, marks))
    groups: list[Any] = []
    for shape in shapes.values():
        groups += [key for key in enumerate(shape) if key not in groups]
    kept: list[Any] = []
    for key in groups:                                        # the first axis (the batch) comes first
        try:
            _two(make, shapes, _grouped(shapes, [*kept, key]))
        except HybridError:
            continue
        kept.append(key)
    marks = _with_names(_grouped(shapes, kept))
    return (*_two(make, shapes, marks), _declared(shapes, marks))


def _grouped(shapes: Mapping[str, tuple[int, ...]], keys: Sequence[Any]) -> dict[str, list[Any]]:
    """Axes of the same number and length vary together."""
    return {name: [key if key in keys else None for key in enumerate(shape)] for name, shape in shapes.items()}


def _with_names(marks: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The same with a name for each length that the caller gave none."""
    given = [m for row in marks.values() for m in row if m is not None]
    free = (name for k in count() if (name := f"n{k}") not in given)
    names = {m: m if isinstance(m, str) else next(free) for m in dict.fromkeys(given)}
    return {k: [m if m is None else names[m] for m in row] for k, row in marks.items()}


def _marks(shapes: Mapping[str, tuple[int, ...]], wanted: Any) -> dict[str, list[Any]]:
    """For each axis what it varies with: a name, (axis, length), or None where it does not."""
    if wanted and not isinstance(wanted[0], (list, tuple)):
        wanted = [wanted]
    if len(wanted) != len(shapes) or any(len(w) != len(s) for w, s in zip(wanted, shapes.values())):
        raise AttributeValueError(f"dynamic_input_shapes={wanted!r} does not fit the inputs: "
                                  f"{', '.join(f'{k} {v}' for k, v in shapes.items())}")
    out: dict[str, list[Any]] = {}
    for (name, shape), given in zip(shapes.items(), wanted):
        out[name] = [d if isinstance(d, str) else key if d is None else None for d, key in zip(given, enumerate(shape))]
        wrong = next(((d, n) for d, n in zip(given, shape) if not (d is None or isinstance(d, str)) and d != n), None)
        if wrong is not None:
            raise AttributeValueError(f"dynamic_input_shapes says {wrong[0]!r} where in_shapes says {wrong[1]} (input "
                                      f"{name!r}); None or a name is a length that varies")
    return out


def _declared(shapes: Mapping[str, tuple[int, ...]], marks: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    return {name: [n if m is None else m for n, m in zip(shape, marks[name])] for name, shape in shapes.items()}


def _two(make: Make, shapes: Mapping[str, tuple[int, ...]],
         marks: Mapping[str, Sequence[Any]]) -> tuple[Graph, list[Value]]:
    """The graph for both sets of lengths."""
    keys = list(dict.fromkeys(m for row in marks.values() for m in row if m is not None))
    if len(keys) > len(FACTORS):
        raise AttributeValueError(f"{len(keys)} lengths are to vary; {len(FACTORS)} can")
    sets = [{name: tuple(n if m is None else max(n, 1) * FACTORS[keys.index(m)][side]
                         for n, m in zip(shape, marks[name])) for name, shape in shapes.items()}
            for side in (0, 1)]
    (g, outputs), (other, others) = make(sets[0]), make(sets[1])
    lengths = {(a, b): (name, axis) for name in shapes
               for axis, (a, b) in enumerate(zip(sets[0][name], sets[1][name])) if a != b}
    _merge(g, other, lengths)
    names = {pair: marks[name][axis] for pair, (name, axis) in lengths.items()}
    return g, [Value(v.name, tuple(_shown(names, p) for p in zip(v.shape, w.shape)), v.dtype)
               for v, w in zip(outputs, others)]     # type: ignore[misc]


def _shown(names: Mapping[Pair, Any], pair: Pair) -> Any:
    return pair[0] if pair[0] == pair[1] else names.get(pair)


def _refuse(owner: str) -> HybridError:
    return HybridError(f"node {owner!r} needs lengths that are known: export it without dynamic, or name fewer "
                       f"lengths in dynamic_input_shapes")


def _merge(g: Graph, other: Graph, lengths: Mapping[Pair, tuple[str, int]]) -> None:
    """Make ``g`` a graph for both."""
    for n, m, owner in zip(g.nodes, other.nodes, g.owners):
        if n != m:
            raise _refuse(owner)
    if len(g.nodes) != len(other.nodes) or set(g.constants) != set(other.constants):
        raise _refuse(g.owners[-1])
    computed = {i: (s, t) for i, s in g.sized.items() if (t := other.sized[i]).target != s.target}
    sized = {g.nodes[i].input[1] for i in computed}
    first = Graph(g.opset, g)                                 # what is computed of the inputs alone
    for name, a in list(g.constants.items()):
        b = other.constants[name]
        if name not in sized and (a.shape != b.shape or a.tobytes() != b.tobytes()):
            first.owner = next((o for n, o in zip(g.nodes, g.owners) if name in n.input), name)
            _range(first, name, a, b, lengths)
            del g.constants[name]
    nodes, owners = list(first.nodes), list(first.owners)
    for i, (n, owner) in enumerate(zip(g.nodes, g.owners)):
        if i in computed:
            before = Graph(g.opset, g)
            before.owner = owner
            del g.constants[n.input[1]]
            n.input[1] = _computed(before, *computed[i], lengths)
            nodes += before.nodes
            owners += before.owners
        nodes.append(n)
        owners.append(owner)
    g.nodes, g.owners = nodes, owners


def _range(g: Graph, name: str, a: np.ndarray, b: np.ndarray, lengths: Mapping[Pair, tuple[str, int]]) -> None:
    """0, 1, 2, … up to a length that varies."""
    if a.dtype != np.int64 or any(v.ndim != 1 or (v != np.arange(len(v))).any() for v in (a, b)):
        raise _refuse(g.owner)
    end = g.node("Squeeze", [_length(g, (len(a), len(b)), lengths)])
    g.node("Range", [g.const(0, np.int64), end, g.const(1, np.int64)], [name])


def _computed(g: Graph, a: Sized, b: Sized, lengths: Mapping[Pair, tuple[str, int]]) -> str:
    """The name of a shape. In Reshape 0 is the length that was there, and one -1 what is left."""
    reshape = a.kind == "Reshape"
    pairs = list(zip(a.target, b.target))
    if reshape and any(0 in p for p in pairs):
        raise _refuse(g.owner)
    source = list(zip(a.source, b.source))
    dims: list[Any] = [0 if reshape and x != y and i < len(source) and source[i] == (x, y) else x if x == y else (x, y)
                       for i, (x, y) in enumerate(pairs)]
    left = [i for i, d in enumerate(dims) if isinstance(d, tuple)]
    if reshape and left:
        rest = next((i for i in left if _multiple(dims[i], lengths) is None), left[0])
        dims[rest] = -1
    if not any(isinstance(d, tuple) for d in dims):
        return g.const(dims, np.int64)
    return g.node("Concat", [_length(g, d, lengths) if isinstance(d, tuple) else g.const([d], np.int64) for d in dims],
                  axis=0)


def _multiple(pair: Pair, lengths: Mapping[Pair, tuple[str, int]]) -> tuple[str, int, int] | None:
    """The input, its axis, and how often its length goes into one that varies."""
    for (x, y), (name, axis) in lengths.items():
        if pair[0] % x == 0 and pair[0] // x * y == pair[1]:
            return name, axis, pair[0] // x
    return None


def _length(g: Graph, pair: Pair, lengths: Mapping[Pair, tuple[str, int]]) -> str:
    found = _multiple(pair, lengths)
    if found is None:
        raise _refuse(g.owner)
    name, axis, times = found
    size = g.node("Gather", [g.node("Shape", [name]), g.const([axis], np.int64)], axis=0)
    return size if times == 1 else g.node("Mul", [size, g.const([times], np.int64)])
