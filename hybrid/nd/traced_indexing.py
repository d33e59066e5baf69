"""Brackets on traced values, and on arrays that record: every index that NumPy knows, as operators with a gradient.

Basic keys become ``slice`` and ``_slice_assign`` and give views (a change of ``x[1:3]`` is a change of ``x``). Advanced
keys become one ``take`` from, or one ``_scatter_set_nd`` into, the flattened array. Index arrays may be traced values
themselves; masks may not where they would decide a shape.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import indexing, spelling
from ..buffers.array import NDArray, array
from ..autograd.dispatch import TRACED_OUT, invoke
from ..base.errors import AttributeValueError, KeyKindError, ShapeError, TraceError, user_location
from ..ops.registry import OPS, OpDef
from ..base.scope import SCOPE
from ..graph.symbol import ALIAS, DETACHED, REREAD, Symbol
from . import positions
from .flat_offsets import ARRAYS, check_range, demand_index, flat, of_shape, places_of

NUMBERS = (int, float, bool, np.number, np.bool_)


def is_np(x: Any) -> bool:
    """Whether a value follows NumPy's rules (hybrid.np.ndarray, or a Symbol under npx.set_np or in a trace of such
    arrays)."""
    return getattr(x, "np_semantics", False) or isinstance(x,
                                                           Symbol) and (SCOPE.np_array or bool(SCOPE.traces)
                                                                        and SCOPE.traces[-1].np_semantics)


# ---- reading
def symbol_item(self: Symbol, key: Any) -> Any:
    """s[0] of several outputs; x[1:3], x[0], x[..., None], x[index], x[:, [0, 2]] of a value."""
    if len(self.entries) > 1 or isinstance(key, str) and key in self.list_outputs():
        return _output(self, key)
    if self.shape is None and isinstance(key, (*ARRAYS, np.ndarray, list)):
        return _rows(self, key)
    if isinstance(key, str) and not SCOPE.traces:
        raise KeyKindError(f"Cannot find output that matches name {key!r}, and it is no index; there is "
                           f"{self.list_outputs()[0]}")
    if self.shape is None and SCOPE.np_array and not SCOPE.traces and isinstance(key, (int, slice)):
        return _unshaped_item(self, key)
    if self.shape is None and (isinstance(key, int) or isinstance(key, slice) and not SCOPE.traces):
        if key in (0, -1, slice(0, 1), slice(None)):
            return self                                       # MXNet: the only output of an untyped symbol
        raise IndexError(f"output {key} of a Symbol with one output")
    key = indexing.check_key(key, self.shape)
    indexing.check_traced(key, self.shape)
    if not indexing.is_basic(key):
        return advanced_item(self, key)
    out = basic_item(self, key)
    return out._view_of(self, key) if indexing.one_range(positions.plain(key), self.shape) else out


def _unshaped_item(self: Symbol, key: int | slice) -> Symbol:
    """x[0], x[1:3] along the first axis of a Symbol under ``npx.set_np``, whose shape is not known yet."""
    if isinstance(key, slice):
        return invoke(OPS["slice"], [self], {"begin": (key.start,), "end": (key.stop,), "step": (key.step,)})
    end = None if key == -1 else key + 1
    row = invoke(OPS["slice_axis"], [self], {"axis": 0, "begin": key, "end": end})
    return invoke(OPS["_npx_reshape"], [row], {"newshape": (-3, -4)})


def _read_again(view: Symbol) -> None:
    """The view's value, from what it is a view of and how that is now."""
    parent, key = view._base
    shape = tuple(view._entries[0][0].info[view._entries[0][1]][0])
    fresh = of_shape(parent, shape) if key is ALIAS else basic_item(parent, key)
    view._entries, view._seen = fresh._entries, parent.entries


REREAD.append(_read_again)


def _output(self: Symbol, key: Any) -> Symbol:
    """An output of several by number, name or slice."""
    names = self.list_outputs()
    if isinstance(key, slice):
        return Symbol(self.entries[key])
    if isinstance(key, str):
        if names.count(key) != 1:
            raise ValueError(f"{names.count(key)} outputs are named {key!r}; there are "
                             f"{', '.join(names[:8])}{', …' if len(names) > 8 else ''}")
        return Symbol([self.entries[names.index(key)]])
    if not isinstance(key, (int, np.integer)) or not -len(names) <= key < len(names):
        raise IndexError(f"output {key!r} of a Symbol with {len(names)} outputs: {', '.join(names[:8])}")
    return Symbol([self.entries[key]])


def basic_item(x: Any, key: Any) -> Any:
    """A basic index by slice, squeeze and expand_dims, which every MXNet can load."""
    key, places = positions.split_key(key, x.shape)
    x = positions.take_at(x, places)
    parts = indexing.expand_key(key, len(x.shape))
    ranges, _ = indexing.basic_ranges(key, tuple(x.shape))
    whole = [r == (None, None, None) or r[:2] in ((None, None), (0, None)) and r[2] in (None, 1) for r in ranges]
    if not all(whole):
        x = invoke(OPS["slice"], [x], _slice_attrs(ranges, whole), hint="slice")
    real = [p for p in parts if p is not None]
    axes = [k for k, p in enumerate(real) if not isinstance(p, slice)]
    if axes and len(axes) == len(parts) and not is_np(x):     # an element of an nd array has shape (1,)
        axes.pop()
    if axes:
        x = invoke(OPS["_np_squeeze" if is_np(x) else "squeeze"], [x], {"axis": tuple(axes)}, hint="squeeze")
    for at, p in enumerate([p for p in parts if p is None or isinstance(p, slice)]):
        if p is None:
            x = invoke(OPS["expand_dims"], [x], {"axis": at}, hint="expand_dims")
    return invoke(OPS["_copy"], [x], {}, hint="_copy") if all(whole) and not axes and None not in parts else x


def _slice_attrs(ranges: list[Any], whole: list[bool]) -> dict[str, Any]:
    n = max((i for i, w in enumerate(whole) if not w), default=0) + 1
    attrs = {"begin": tuple(r[0] for r in ranges[:n]), "end": tuple(r[1] for r in ranges[:n])}
    if any(r[2] not in (None, 1) for r in ranges[:n]):
        attrs["step"] = tuple(r[2] for r in ranges[:n])
    return attrs


def _kind(part: Any) -> str:
    return np.dtype(part.dtype).kind if getattr(part, "dtype", None) is not None else "f"


def _is_mask(part: Any) -> bool:
    return isinstance(part, ARRAYS) and _kind(part) == "b"


def _rows(x: Any, index: Any) -> Any:
    if x.shape and x.shape[0] is not None:
        demand_index(index, x.shape[0])
    return invoke(OPS["take"], [x, index if isinstance(index, ARRAYS) else np.asarray(index)],
                  {"axis": 0, "mode": "wrap"}, hint="take")


def _static(part: Any) -> Any:
    """An index whose values are known now, as NumPy has it: lists, NumPy arrays, and (outside of traces) masks."""
    if isinstance(part, NDArray) and not SCOPE.traces and _is_mask(part):
        return part.asnumpy()
    if isinstance(part, (list, range)):
        part = np.asarray(part, np.int64 if not len(part) else None)
    if isinstance(part, np.ndarray) and part.dtype.kind == "f":
        return part.astype(np.int64)
    return part


def _split(x: Any, key: Any) -> tuple[tuple[Any, ...], bool]:
    """The key's parts with known ones as NumPy arrays, and whether all are known."""
    parts = tuple(_static(p) for p in (key if isinstance(key, tuple) else (key,)))
    dynamic = [p for p in parts if isinstance(p, ARRAYS)]
    for p in dynamic:
        if _is_mask(p):
            raise TraceError(f"{user_location()}: how many elements a mask selects is known only when the program "
                             f"runs, so x[mask] has no shape; "
                             f"use {spelling.functions()}.where(mask, x, 0), or run this code without hybridize")
    return parts, not dynamic


def advanced_item(x: Any, key: Any) -> Any:
    """x[key] with index arrays: a copy."""
    parts, known = _split(x, key)
    if len(parts) == 1 and isinstance(parts[0], (*ARRAYS, np.ndarray)) and _kind(parts[0]) != "b":
        if isinstance(parts[0], np.ndarray):
            check_range(parts[0], x.shape[0] if x.shape else 0)
        return _rows(x, parts[0])
    return invoke(OPS["take"], [flat(x), places_of(x, parts, known)], {"axis": 0, "mode": "clip"}, hint="take")


# ---- writing
def assign(target: Symbol, new: Any) -> None:
    """Give a traced handle a new value; a view hands it on to what it is a view of."""
    if not isinstance(new, Symbol):                    # an array, perhaps NumPy's, all of which is assigned
        new = invoke(OPS["_copy"], [new], {})
    if tuple(new.shape or ()) != tuple(target.shape or ()):
        raise TraceError(f"{user_location()}: in-place change of shape {target.shape} to {new.shape}")
    if new.dtype != target.dtype:
        new = invoke(OPS["Cast"], [new], {"dtype": np.dtype(target.dtype).name})
    if SCOPE.recording and target._base is not None and DETACHED in target._one()[0].extra:
        raise TraceError(f"{user_location()}: an array that detach() gave shares memory with the recorded one, and is "
                         "changed in place here: a compiled gradient cannot pass by that. Write to a copy "
                         "(x.detach().copy()), or to x itself")
    target.entries = new.entries
    # its value is the new one, not what is read from there
    target._seen = target._base and target._base[0].entries
    if target._base is not None:
        parent, key = target._base
        if key is ALIAS:
            assign(parent, of_shape(target, tuple(parent.shape)))
        else:
            set_item(parent, key, target)
        target._seen = parent.entries


def set_item(self: Symbol, key: Any, value: Any) -> None:
    """x[key] = value on a traced value: a new value of x, written back to the caller's array if x is one."""
    assign(self, updated(self, key, value))


def write_out(d: OpDef, made: Symbol, out: Any) -> Any:
    """``out=`` of a traced operator: its results are new values of the arrays, the caller's among them."""
    targets = list(out) if isinstance(out, (list, tuple)) else [out]
    for k, t in enumerate(targets):
        new = Symbol([made.entries[k]])
        target = SCOPE.traces[-1].capture(t) if isinstance(t, NDArray) else t
        if tuple(target.shape or ()) != tuple(new.shape or ()):
            raise AttributeValueError(f"{user_location()}: operator {d.name}: out has shape {target.shape}, the "
                                      f"result {new.shape}")
        assign(target, new)
    return out


TRACED_OUT.append(write_out)


def updated(self: Any, key: Any, value: Any) -> Any:
    """What x is after x[key] = value, as a new value that a gradient flows through."""
    shape = self.shape
    key = indexing.check_key(key, shape)
    indexing.check_traced(key, shape)
    if value is None or isinstance(value, (str, bytes, dict)):
        raise TypeError(f"x[{key!r:.60}] = value takes numbers and arrays, got {value!r:.60}")
    if not isinstance(value, ARRAYS):
        # a traced value is on the device of its trace
        where = {} if isinstance(self, Symbol) else {"ctx": self.context}
        value = invoke(OPS["_full"], [], {"shape": (),
                                          "value": value.item() if isinstance(value, np.generic) else value,
                                          "dtype": np.dtype(self.dtype).name, **where}) \
            if isinstance(value, NUMBERS) else np.asarray(value, self.dtype)
        if isinstance(value, np.ndarray) and where:
            value = array(value, self.context)
    if indexing.is_basic(key):
        new = _set_basic(self, key, value)
    elif _is_mask(key) and SCOPE.traces:
        new = _set_mask(self, key, value)
    else:
        parts, known = _split(self, key)
        places = places_of(self, parts, known)
        wide = _fit(value, tuple(places.shape))
        new = of_shape(invoke(OPS["_scatter_set_nd"], [flat(self), flat(wide), _one_row(places)], {}), shape)
    return (new if np.dtype(new.dtype) == np.dtype(self.dtype)
            else invoke(OPS["Cast"], [new], {"dtype": np.dtype(self.dtype).name}))


def _one_row(places: Any) -> Any:
    return places.reshape(1, -1) if isinstance(places,
                                               np.ndarray) else invoke(OPS["Reshape"], [places], {"shape": (1, -1)})


def _set_basic(x: Symbol, key: Any, value: Any) -> Any:
    key, places = positions.split_key(key, x.shape)
    ranges, shape = indexing.basic_ranges(key, tuple(x.shape))
    sizes = tuple(len(range(*slice(*r).indices(n))) for r, n in zip(ranges, x.shape))
    wide = _fit(value, tuple(shape))
    if 0 in sizes:
        return x
    if tuple(wide.shape) != sizes:
        wide = of_shape(wide, sizes)
    for place in places:
        ranges[place.axis] = (None, None, None)
    if places:
        wide = positions.replace_at(basic_item(x, tuple(slice(*r) for r in ranges)), places, wide)
    whole = [r[0] is None and r[1] is None and r[2] in (None, 1) for r in ranges]
    return wide if not ranges or all(whole) else invoke(OPS["_slice_assign"], [x, wide], _slice_attrs(ranges, whole))


def _set_mask(x: Symbol, mask: Any, value: Any) -> Any:
    """x[mask] = value by where: the value is one number, or one for each of the axes behind the mask's."""
    shape, over = tuple(x.shape), len(mask.shape)
    if tuple(mask.shape) != shape[:over]:
        raise IndexError(f"a mask of shape {tuple(mask.shape)} does not fit an array of shape {shape}")
    if len(value.shape) > len(shape) - over and math.prod(value.shape) != 1:
        raise TraceError(f"{user_location()}: how many elements the mask selects is known only when the program runs, "
                         f"so a value of shape "
                         f"{tuple(value.shape)} cannot be spread over them; use "
                         f"{spelling.functions()}.where(mask, values, x)")
    wide = _fit(value, shape[over:] if math.prod(value.shape) != 1 else ())
    return invoke(OPS["_npi_where"], [of_shape(mask, (*mask.shape, *(1,) * (len(shape) - over))), wide, x], {})


def _fit(value: Any, shape: tuple[int, ...]) -> Any:
    """The value broadcast to a shape, with NumPy's leave to drop leading axes of length 1."""
    own = tuple(value.shape)
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if own != tuple(value.shape):
        value = value.reshape(own) if isinstance(value, np.ndarray) else of_shape(value, own)
    if own == shape:
        return value
    try:
        fits = np.broadcast_shapes(own, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"{user_location()}: a value of shape {tuple(value.shape)} does not fit the place of shape "
                         f"{shape} it is assigned to")
    return np.broadcast_to(value, shape) if isinstance(value,
                                                       np.ndarray) else invoke(OPS["broadcast_to"], [value],
            {"shape": shape})
