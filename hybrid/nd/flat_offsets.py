"""Where in a flattened array the elements of ``x[key]`` are, for keys with index arrays. Sizes may be symbolic."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from ..autograd.demands import demand_within
from ..autograd.dispatch import invoke
from ..base import indexing
from ..base.errors import user_location
from ..buffers.array import NDArray, array
from ..graph.symbol import Symbol
from ..ir.build import broadcast_shapes
from ..ir.size import fixed, same
from ..ops.registry import OPS

ARRAYS = (NDArray, Symbol)


def flat(x: Any) -> Any:
    """The array with one axis."""
    return x if len(x.shape) == 1 else invoke(OPS["Reshape"], [x], {"shape": (-1,)}, hint="reshape")


def places_of(x: Any, parts: tuple[Any, ...], known: bool) -> Any:
    """Where in the flattened array the elements of x[parts] are: a NumPy array when all is known, else a value."""
    shape = tuple(x.shape)
    if known and all(map(fixed, shape)):
        return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)[parts]
    parts = tuple(q for p in parts for q in (np.nonzero(p) if isinstance(p, np.ndarray) and p.dtype.kind == "b"
                                             else (p,)))
    spread = indexing.expand_key(parts, len(shape))
    chosen = [i for i, p in enumerate(spread) if p is not None and not isinstance(p, slice)]
    block = broadcast_shapes(*(tuple(getattr(spread[i], "shape", ())) for i in chosen))
    together = chosen == list(range(chosen[0], chosen[-1] + 1))
    rest = [p for i, p in enumerate(spread) if i not in chosen]
    # as in NumPy: if the index arrays are not adjacent, their axes come first
    first = sum(i not in chosen for i in range(chosen[0])) if together else 0
    total = len(rest) + len(block)
    constant = np.zeros((1,) * total, np.int64)
    computed: Any = None
    axis, free = 0, 0
    for p in spread:
        if p is None:
            free += 1
            continue
        n, stride = shape[axis], math.prod(shape[axis + 1:])
        axis += 1
        if isinstance(p, slice):
            at = free if free < first else free + len(block)
            free += 1
            start, step, count = indexing.slice_range(p.start, p.stop, p.step, n)
            along = tuple(count if k == at else 1 for k in range(total))
            computed, constant = _plus(computed, constant, _counted(start, step, count), stride, along)
            continue
        own = tuple(getattr(p, "shape", ()))
        at_block = (1,) * (first + len(block) - len(own)) + own + (1,) * (total - first - len(block))
        if isinstance(p, ARRAYS):
            computed, constant = _plus(computed, constant, _from_start(p, n), stride, at_block)
        elif fixed(n):
            computed, constant = _plus(computed, constant, np.arange(n, dtype=np.int64)[p], stride, at_block)
        else:
            check_range(np.asarray(p), n)
            index = p if np.min(p, initial=0) >= 0 else _from_start(array(np.asarray(p)), n)
            computed, constant = _plus(computed, constant, np.asarray(p, np.int64) if index is p else index, stride,
                                       at_block)
    return constant if computed is None else invoke(OPS["broadcast_add"], [computed, constant], {},
                                                    hint="broadcast_add")


def _counted(start: int, step: int, count: int) -> Any:
    """start, start + step, …: a NumPy array if all is known, else a value."""
    if fixed(start) and fixed(count):
        return np.arange(start, start + step * count, step, dtype=np.int64)
    every = invoke(OPS["_arange"], [], {"start": 0, "stop": count, "dtype": "int64"}, hint="arange")
    return _scaled_by(every, step, start)


def _scaled_by(x: Any, factor: int, more: int = 0) -> Any:
    x = invoke(OPS["_mul_scalar"], [x], {"scalar": factor}, hint="_mulscalar")
    return x if same(more, 0) else invoke(OPS["_plus_scalar"], [x], {"scalar": more}, hint="_plusscalar")


def _plus(computed: Any, constant: np.ndarray, index: Any, stride: int,
          shape: tuple[int, ...]) -> tuple[Any, np.ndarray]:
    """Adds one axis's offsets to (sum that operators compute, or None; NumPy's constant sum)."""
    if isinstance(index, np.ndarray) and fixed(stride):
        return computed, constant + index.reshape(shape) * stride
    if isinstance(index, np.ndarray):
        index = array(index)
    own = of_shape(_scaled_by(index, stride), shape, hint="reshape")
    return own if computed is None else invoke(OPS["broadcast_add"], [computed, own], {},
                                               hint="broadcast_add"), constant


def _from_start(index: Any, n: int) -> Any:
    """Index values along an axis as int64; negative ones count from the end."""
    demand_index(index, n)
    return invoke(OPS["_mod_scalar"], [invoke(OPS["Cast"], [index], {"dtype": "int64"}, hint="cast")], {"scalar": n},
                  hint="_modscalar")


def of_shape(x: Any, shape: Sequence[Any], **more: Any) -> Any:
    """An array in another shape of as many elements. Among the codes of MXNet's Reshape 0 is no size: it keeps an
    axis."""
    if any(type(d) is int and d == 0 for d in shape):
        return invoke(OPS["_np_reshape"], [x], {"newshape": tuple(shape)}, **more)
    return invoke(OPS["Reshape"], [x], {"shape": tuple(shape)}, **more)


def demand_index(index: Any, n: int) -> None:
    """Demand that index values lie within an axis of n elements."""
    demand_within(index, -n, n - 1, IndexError, "index {value} is out of bounds for axis with size {n}", n=n)


def check_range(index: np.ndarray, n: int) -> None:
    """IndexError where known index values are not within an axis of n elements."""
    if fixed(n):
        np.zeros((n,), np.bool_)[index]                                        # IndexError as NumPy gives it
    elif index.size and not (-n <= int(index.min()) and int(index.max()) < n):
        raise IndexError(f"{user_location()}: indices from {index.min()} to {index.max()} are out of bounds for an "
                         f"axis whose size varies")
