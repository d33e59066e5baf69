"""Shapes and dtypes of a whole operator graph from those of some variables: ``infer_shape``, ``infer_type``."""
from __future__ import annotations

from itertools import islice, product
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.errors import AttributeValueError, DTypeError, HybridError, ShapeError
from ..base.scope import SCOPE
from .symnode import SymNode, can_complete, effective, noted

HALVES = tuple(d for d in (dt.float16, dt.bfloat16) if d is not None)
MOST_GUESSES = 400                          # combinations of shapes that stand for unknown ones
STATISTICS = ("gamma", "beta", "moving_mean", "moving_var")           # float32 in BatchNorm of half types, as in MXNet


def named_arguments(what: str, arguments: Sequence[str], inputs: Sequence[str], args: Sequence[Any],
                    kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What was given by position and by name, by name; AttributeValueError for too many or unknown ones."""
    if args and kwargs:
        raise AttributeValueError(f"{what} takes its values either by position or by name, not both")
    if len(args) > len(arguments):
        raise AttributeValueError(f"{what}: {len(args)} values for {len(arguments)} arguments ({', '.join(arguments)})")
    unknown = [k for k in kwargs if k not in set(inputs)]
    if unknown:
        raise AttributeValueError(f"{what}: the graph has no variable {', '.join(map(repr, unknown))}; it has "
                                  f"{', '.join(inputs)}")
    return {**dict(zip(arguments, args)), **kwargs}


def given_shapes(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given to ``infer_shape``; TypeError for what is no shape."""
    known = {name: shape for name, shape in given.items() if shape is not None}
    for name, shape in known.items():
        if not isinstance(shape, (tuple, list)) or not all(isinstance(d, (int, np.integer)) for d in shape):
            raise TypeError(f"infer_shape: a shape is a tuple of integers, but {name!r} is {shape!r}")
    return {name: tuple(shape) for name, shape in known.items()}


def least_length() -> int:
    """The least length that is known: 0 under np_shape; else 0 stands for an unknown one."""
    return 0 if SCOPE.np_shape else 1


def key_of(n: SymNode, k: int) -> Any:
    """What stands for an output of a node in the results of ``shapes_of`` and ``types_of``."""
    return id(n) if n.opdef is None else (id(n), k)


def _uncast(n: SymNode, k: int) -> tuple[SymNode, int]:
    """What a value is cast from, which has its shape: a parameter's shape is found out through casts too."""
    while n.opdef is not None and n.opdef.name in ("amp_cast", "amp_multicast"):
        n, k = n.inputs[k if n.opdef.name == "amp_multicast" else 0]
    return n, k


def shapes_of(order: Sequence[SymNode], given: Mapping[str, Any],
              known: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
    """Shapes by id of a variable and by (id, output) of an operator; what stays unknown is None, or has 0 or -1 in it.

    given: by a variable's name. known: by the same keys as the result.
    """
    shapes: dict[Any, Any] = dict(known or {})
    # a shape that differs from what its variable said: what followed from that counts no more
    other = any(n.opdef is None and given.get(n.name) is not None and n.info[0][0] not in (None, tuple(given[n.name]))
                for n in order)
    for n in order:
        if n.opdef is None and id(n) not in shapes:
            own = noted(n.extra)[0] if other and n.holder is None else n.info[0][0]
            shapes[id(n)] = tuple(given[n.name]) if given.get(n.name) is not None else own
    back_inferred: set[Any] = set()
    for _ in range(8):                                     # a later operator may tell the shape of an earlier variable
        before = dict(shapes)
        for n in order:
            if n.opdef is not None and ((id(n), 0) not in shapes or (id(n), 0) in back_inferred):
                _step(n, shapes, back_inferred)
        if shapes == before:
            break
    return shapes


def _of_some_dtype(d: Any, ins: list[Any], count: int, a: Any) -> Any:
    """Results of an operator over inputs of the first dtype that it takes: its shapes do not depend on that."""
    for dtype in (dt.float32, dt.int32):
        try:
            return d.infer(ins, [*[dtype] * count, *[None] * (len(ins) - count)], a)
        except DTypeError:
            pass
    return d.infer(ins, [*[dt.int8] * count, *[None] * (len(ins) - count)], a)


def _step(n: SymNode, shapes: dict[Any, Any], back_inferred: set[Any]) -> None:
    """Infer the missing shapes of an operator's inputs, then those of its results. back_inferred: keys of results whose
    shapes were inferred from later operators; ShapeError where this operator gives another shape."""
    d, a = n.opdef, effective(n)
    assert d is not None
    sources = [_uncast(m, k) for m, k in n.inputs]
    at = [key_of(m, k) for m, k in sources]
    ins = [shapes.get(key) for key in at]
    least = least_length()
    unsure = [s is None or (m.opdef is None and any(v < least for v in s)) for s, (m, _) in zip(ins, sources)]
    try:
        if any(unsure) and can_complete(d, unsure):
            for key, u, full in zip(at, unsure, d.complete(ins, a)):
                if u and full is not None:
                    shapes[key] = tuple(full)
                    back_inferred |= {key} if isinstance(key, tuple) else set()
            ins = [shapes.get(key) for key in at]
        if any(s is None or any(v < 0 for v in s) or (m.opdef is None and any(v < least for v in s))
               for s, (m, _) in zip(ins, sources)):
            return
        padded = len(d.inputs) - len(ins) if not d.variadic else 0
        found = _of_some_dtype(d, [*ins, *[None] * padded], len(ins), a)
    except ShapeError as err:
        raise ShapeError(f"node {n.name!r}: {err}") from None
    for k, (shape, _) in enumerate(found):
        later = shapes[id(n), k] if (id(n), k) in back_inferred else shape
        if later != shape and all(v >= least for v in later):
            raise ShapeError(f"node {n.name!r}: its result has shape {shape}, a later operator needs {later}")
        shapes[(id(n), k)] = shape
        back_inferred.discard((id(n), k))


def types_of(order: Sequence[SymNode], given: Mapping[str, Any],
             default: np.dtype | None = dt.float32) -> dict[Any, Any]:
    """Dtypes by the same keys. Parameters take the dtype of the data they meet; ``default`` where nothing is said."""
    shapes = shapes_of(order, {})
    types: dict[Any, Any] = {id(n): dt.as_dtype(given[n.name]) if given.get(n.name) is not None else n.info[0][1]
                             for n in order if n.opdef is None}
    for _ in range(8 if default is None else 1):            # a later operator may tell the dtype of an earlier variable
        _types_forward(order, shapes, types, default)
        if default is not None or not _types_backward(order, shapes, types):
            break
    return {key: found or default for key, found in types.items()}


def _types_forward(order: Sequence[SymNode], shapes: Mapping[Any, Any], types: dict[Any, Any],
                   default: np.dtype | None) -> None:
    """Dtypes of parameters and results from those of the data."""
    for n in order:
        if n.opdef is None or n.attrs is None:
            continue
        at = [key_of(m, k) for m, k in n.inputs]
        first = next((types[key] for key in at if types.get(key) is not None), default)
        if first is None and at:
            _unknown_inputs(n, types)
            continue
        told = default is None and all(types.get(key) is not None for key in at)
        for key, name in zip(at, n.opdef.inputs if not n.opdef.variadic else [""] * len(at)):
            if types.get(key) is None:
                types[key] = _of_parameter(n, name, np.dtype(first))
        for k, found in enumerate(_outputs(n, [shapes.get(key) for key in at], [types[key] for key in at], told)):
            types[(id(n), k)] = found


def _types_backward(order: Sequence[SymNode], shapes: Mapping[Any, Any], types: dict[Any, Any]) -> bool:
    """Dtypes of inputs of which nothing is known, from that of the result, where the operator keeps a dtype; whether
    there were any."""
    some = False
    for n in reversed(order):
        at = [key_of(m, k) for m, k in n.inputs]
        found = types.get((id(n), 0))
        if n.opdef is None or n.attrs is None or not at or found is None or any(types.get(key) is not None
                                                                                for key in at):
            continue
        other = dt.float32 if found == dt.float64 else dt.float64
        try:
            kept = all(_outputs(n, [shapes.get(key) for key in at], [d] * len(at))[0] == d for d in (found, other))
        except HybridError:
            kept = False
        if kept:
            types.update(dict.fromkeys(at, found))
            some = True
    return some


def _unknown_inputs(n: SymNode, types: dict[Any, Any]) -> None:
    """Dtypes of the results of an operator of whose inputs nothing is known: what it says itself, else unknown."""
    assert n.opdef is not None and n.attrs is not None
    own = n.attrs.asdict().get("dtype")
    for k in range(n.opdef.num_outputs(n.attrs)):
        types[(id(n), k)] = dt.as_dtype(own) if own else types.get((id(n), k))


def _of_parameter(n: SymNode, name: str, first: np.dtype) -> np.dtype:
    own = (n.attrs.asdict().get("dtype") if n.attrs is not None and n.opdef is not None and n.opdef.params is not None
           else None)
    if own:
        return dt.as_dtype(own)
    if n.opdef is not None and getattr(n.opdef.params, "from_any", False):          # one dtype for all
        return first
    if not dt.is_float(first) or first in HALVES and name in STATISTICS:
        return dt.float32
    return first


def _outputs(n: SymNode, shapes: list[Any], types: list[np.dtype], told: bool = False) -> list[np.dtype]:
    """Dtypes of the results. told: whether the inputs' dtypes were all said; then ones that do not fit are an error."""
    d, a = n.opdef, n.attrs
    assert d is not None and a is not None
    padded = len(d.inputs) - len(shapes) if not d.variadic else 0
    if all(s is not None and all(v > 0 for v in s) for s in shapes):
        return [t for _, t in d.infer([*shapes, *[None] * padded], [*types, *[None] * padded], a)]
    if types and (guess := _with_any_shapes(n, shapes, types, told)) is not None:
        return guess
    own = a.asdict().get("dtype")
    if own or not types:
        return [dt.as_dtype(own)] * d.num_outputs(a)
    # its result has the dtype of the data
    layer = d.params is not None and not getattr(d.params, "from_any", False)
    return [types[0] if layer else dt.promote(*types)] * d.num_outputs(a)


def _with_any_shapes(n: SymNode, shapes: list[Any], types: list[np.dtype], told: bool) -> list[np.dtype] | None:
    """Dtypes of the results for small shapes in place of unknown ones: dtypes hardly ever depend on shapes. None where
    none of them fit; DTypeError where the operator does not take dtypes that were told, whatever the shapes."""
    d, a = n.opdef, n.attrs
    assert d is not None and a is not None
    padded = [None] * (len(d.inputs) - len(shapes) if not d.variadic else 0)
    refused = None
    for guess in _small_shapes(d, a, shapes):
        try:
            return [t for _, t in d.infer([*guess, *padded], [*types, *padded], a)]
        except DTypeError as err:
            refused = err
        except (HybridError, ValueError):
            continue
    if told and refused is not None:
        raise refused
    return None


def _small_shapes(d: Any, a: Any, shapes: list[Any]) -> Iterator[list[Any]]:
    """Shapes that an operator may take where some are unknown: those of parameters follow from its data's; else all are
    alike; one number for each array of a list; single numbers beside data."""
    unknown = [s is None or not all(v > 0 for v in s) for s in shapes]
    given = a.asdict()
    window = 4 * max([1, *(k for name in ("kernel", "dilate") for k in given.get(name) or ())])
    channels = 4 * (given.get("num_group") or 1)
    rows = ((2, 2), (2, 2, 3), (2, channels, *[window] * 2), (4,), (2, channels, window), (2, channels, *[window] * 3))
    for small in rows if d.params is not None else ():
        start = [small if k == 0 and u else None if u else s for k, (s, u) in enumerate(zip(shapes, unknown))]
        try:
            full = d.complete(start, a)
        except (HybridError, TypeError, ValueError):
            continue
        yield [small if s is None or not all(v > 0 for v in s) else s for s in full]
    many = given.get("num_weights") or given.get("num_tensors") or 1
    for small in (*rows, (1,), (many,)):
        yield [small if u else s for s, u in zip(shapes, unknown)]
    for small in rows:
        for count in range(1, len(shapes)):
            yield [(small if k < count else (1,)) if u else s for k, (s, u) in enumerate(zip(shapes, unknown))]
    some = ((2, 2), (2,), (2, channels, window, window), (1, 5), (1, 2, 4), (1, 1, 4), (2, 1, 4), (1, 2))    # boxes
    for found in islice(product(*[some if u else (s,) for s, u in zip(shapes, unknown)]), MOST_GUESSES):
        yield list(found)
