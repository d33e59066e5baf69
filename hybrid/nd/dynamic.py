"""Functions whose results' shapes depend on the numbers in an array. They run eagerly; hybridized code and Symbols
refuse them."""
from __future__ import annotations

from typing import Any

import numpy as np

from . import functions
from ..buffers.array import NDArray, array
from ..base.errors import DTypeError, ShapeError, TraceError, user_location
from ..base.scope import SCOPE


def refuse_traced(name: str, *values: Any) -> None:
    """TraceError where a value is not there yet."""
    if SCOPE.traces or SCOPE.symbolic or any(hasattr(v, "entries") for v in values):
        raise TraceError(f"{user_location()}: the shape of {name}'s result depends on the numbers in its arguments, "
                         f"which a compiled program does not know; "
                         "call it outside of the hybridized code, or keep the shape and use where, or SequenceMask")


def boolean_mask(data: Any, index: Any, axis: int = 0, out: Any = None, name: str | None = None) -> Any:
    """The slices of data along an axis where index (one number for each) is not 0. The gradient of the others is 0.

    >>> boolean_mask(nd.array([[1, 2], [3, 4]]), nd.array([0, 1])).asnumpy().tolist()
    [[3.0, 4.0]]
    """
    refuse_traced("boolean_mask", data, index)
    if not isinstance(data, NDArray):
        raise DTypeError(f"boolean_mask takes an array, got {type(data).__name__}")
    mask = index.asnumpy() if isinstance(index, NDArray) else np.asarray(index)
    if not -data.ndim <= axis < data.ndim:
        raise ShapeError(f"boolean_mask: an array of shape {data.shape} has no axis {axis}")
    if mask.shape != (data.shape[axis],):
        raise ShapeError(f"boolean_mask along axis {axis} of {data.shape} needs a mask of {data.shape[axis]} numbers, "
                         f"got {mask.shape}")
    places = array(np.flatnonzero(mask), data._ctx, np.int64, type(data))
    found = functions.resolve("nd", "take")(data, places, axis=axis)
    if out is not None:
        out[:] = found
        return out
    return found


def nonzero(x: Any) -> Any:
    """``npx.nonzero``: the places of the numbers that are not 0, one row each (n, axes), int64."""
    refuse_traced("nonzero", x)
    return array(np.argwhere(x.asnumpy()), x._ctx, np.int64, type(x))
