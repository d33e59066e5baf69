"""Methods of arrays and symbols that give another shape: views where memory allows."""
from __future__ import annotations

import weakref
from functools import partial
from typing import Any

import numpy as np

from . import functions
from ..base import pending
from ..buffers.array import NDArray, wrap
from ..base.errors import ShapeError, user_location
from ..ir.build import ints
from ..ops.shape import mx_reshape
from ..base.scope import SCOPE
from ..graph.symbol import ALIAS, Symbol
from .traced_indexing import is_np


def _is_part(part: NDArray, whole: NDArray, key: Any) -> None:
    """Note that a recorded array shares its elements with another: a range of it, or (ALIAS) all in another shape."""
    assert part._ag is not None and whole._ag is not None
    part._ag.part, parts = (whole, key), whole._ag.parts
    parts[id(part)] = weakref.ref(part, partial(_dropped, parts, id(part))), key


def _dropped(parts: dict[int, Any], number: int, _: Any) -> None:
    parts.pop(number, None)


def _view(self: NDArray, name: str, *args: Any) -> Any:
    """The result of an operator that only renames axes, as a view of the array's memory; recorded and traced as
    ``reshape`` is."""
    if not isinstance(self, NDArray) or SCOPE.recording or SCOPE.traces:
        out = functions.resolve("nd", name)(self, *args)
        known = isinstance(self, NDArray) or SCOPE.traces
        return reshape(self, shape=out.shape) if known and 0 not in out.shape else out
    shape = functions.resolve("nd", name)(self, *args).shape
    return wrap(self._data.reshape(shape), self._ctx, type(self))


def expand_dims(self: Any, axis: int, inplace: bool = False) -> Any:
    """With a new axis of length 1. inplace: a view that shares the memory."""
    return _view(self, "expand_dims",
                 axis) if inplace else functions.resolve("np" if is_np(self) else "nd", "expand_dims")(self, axis)


def squeeze(self: Any, axis: Any = None, inplace: bool = False) -> Any:
    """Without axes of length 1 (all of them, or those given). inplace: a view that shares the memory."""
    if inplace:
        return _view(self, "squeeze", axis)
    return functions.resolve("np" if is_np(self) else "nd", "squeeze")(self, axis=axis)


def in_order(name: str, x: Any, shape: tuple[int, ...], order: str) -> Any:
    """An array in another shape: its elements in the order of rows ('C', and 'A' and 'K', as all arrays here lie) or of
    columns ('F')."""
    if order in ("C", "A", "K"):
        return functions.resolve("np", "reshape")(x, newshape=shape)
    if order != "F":
        raise ValueError(f"{user_location()}: {name}: order must be 'C', 'F', 'A' or 'K', got {order!r}")
    turned = functions.resolve("np", "transpose")
    return turned(functions.resolve("np", "reshape")(turned(x), newshape=shape[::-1]))


def flatten(self: Any, order: str = "C", inplace: bool = False) -> Any:
    """All axes but the first as one; under NumPy's rules all of them. inplace: a view that shares the memory."""
    if inplace:
        return _view(self, "flatten")
    if is_np(self):
        return in_order("flatten", self, (-1,), order)
    if order != "C":
        raise ValueError("flatten: only order='C' is supported")
    return functions.resolve("nd", "flatten")(self)


def reshape(self: Any, *shape: Any, **kwargs: Any) -> Any:
    """Another shape: x.reshape((2, -1)), x.reshape(2, -1), with MXNet's codes. An array shares its memory with the
    result."""
    if not kwargs and shape and type(self) is NDArray:
        new = shape[0] if len(shape) == 1 else shape
        if type(new) is tuple and (found := _reshaped_plainly(self, new)) is not None:
            return found
    given = kwargs.pop("shape", None)
    order = kwargs.pop("order", "C")
    new = given if given is not None else shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
    if new is None or isinstance(new, tuple) and not new and given is None and not shape:
        raise ShapeError("reshape needs a shape, as in x.reshape((2, -1))")
    new = type(new)(ints(new)) if isinstance(new, (list, tuple)) else ints((new,))
    if is_np(self):
        return in_order("reshape", self, tuple(new), order)
    if order != "C":
        raise ValueError("reshape: only order='C' is supported")
    reverse = bool(kwargs.pop("reverse", False))
    if kwargs:
        raise TypeError(f"reshape has no {', '.join(map(repr, kwargs))}; it has shape and reverse")
    if pending.WATCHED[0] and SCOPE.recording and isinstance(self, NDArray):
        return pending.LATER[0].method(self, "reshape", (new,), lambda: _reshaped(self, new, reverse)) if not reverse \
            else _reshaped(self, new, reverse)
    return _reshaped(self, new, reverse)


def _reshaped_plainly(self: NDArray, shape: tuple[Any, ...]) -> Any:
    """An array in a shape without MXNet's codes, where it is a view of its memory and nothing is recorded or traced;
    else None."""
    if SCOPE.recording or SCOPE.traces:
        return None
    size = 1
    for n in shape:
        if type(n) is not int or n < 1:
            return None
        size *= n
    raw = self._data
    if type(raw) is not np.ndarray or raw.size != size or not raw.flags.c_contiguous:
        return None
    return wrap(raw.reshape(shape), self._ctx)


def _reshaped(self: Any, new: Any, reverse: bool) -> Any:
    if isinstance(self, NDArray) and not (SCOPE.recording
                                          and self._ag is not None) and not SCOPE.traces and self._data.flags.c_contiguous:  # noqa: E501
        return wrap(self._data.reshape(mx_reshape(self.shape, new, reverse)), self._ctx, type(self))
    out = functions.resolve("nd", "reshape")(self, shape=new, **({"reverse": True} if reverse else {}))
    # as eagerly: a change of the result is a change of the source
    if isinstance(out, Symbol) and SCOPE.traces:
        out._view_of(self if isinstance(self, Symbol) else SCOPE.traces[-1].capture(self), ALIAS)
    elif isinstance(self, NDArray) and out is not self and self._ag is not None and out._ag is not None:
        _is_part(out, self, ALIAS)
    return out


def transpose(self: Any, *axes: Any, **kwargs: Any) -> Any:
    """Axes in another order."""
    if not axes and not kwargs:
        return functions.resolve("nd", "transpose")(self)
    given = kwargs.get("axes", axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (list, tuple)))
                       else axes or None)
    return functions.resolve("nd", "transpose")(self, **({"axes": given} if given else {}))


def _matrix_transposed(self: Any) -> Any:
    """With the last two axes exchanged."""
    if len(self.shape) < 2:
        raise ValueError(f"{user_location()}: x.mT needs two axes at least, this array has {len(self.shape)}")
    return functions.resolve("np" if is_np(self) else "nd", "swapaxes")(self, -2, -1)
