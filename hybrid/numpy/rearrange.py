"""Functions that split, join and move elements, made of operators: they have gradients and can be traced."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as _np

from ..nd import functions
from ..base.scope import SCOPE
from ..buffers.array import NDArray, wrap
from ..autograd.demands import demand_within
from ..autograd.dispatch import invoke
from ..nd.views import in_order
from ..nd.dynamic import refuse_traced
from ..base.names import named
from ..base.errors import RangeError, ShapeError, user_location
from ..ops import registry
from ..ops.documentation import document
from ..ops.registry import OPS
from ..ops.shape import normal_axis
from . import composed, fallback
from .creation import full_like, parts, shape_tuple
from .multiarray import also_named, as_np, as_value, finish, is_value, ndarray


def _call(name: str, *inputs: Any, **attrs: Any) -> Any:
    return functions.resolve("np", name)(*inputs, **attrs)


def _op(name: str, *inputs: Any, **attrs: Any) -> Any:
    return as_np(invoke(OPS[name], inputs, {k: v for k, v in attrs.items() if v is not None}, hint=name.lstrip("_")))


# ---- parts of an array
def _sections(name: str, ary: Any, given: Any, axis: int, equal: bool) -> Any:
    if isinstance(given, NDArray):
        given = given.asnumpy().tolist()
    n = ary.shape[normal_axis(axis, len(ary.shape), f"np.{name}")] if ary.shape is not None else None
    if not isinstance(given, (int, _np.integer)):
        return (0, *(int(i) if n is None else max(0, min(n, int(i) if i >= 0 else int(i) + n)) for i in given))
    if given <= 0:
        raise ShapeError(f"np.{name}: the number of parts must be positive, got {given}")
    if n is None or n % given == 0:
        return int(given)
    if equal:
        raise ShapeError(f"np.{name}: an axis of length {n} cannot be split into {given} equal parts; np.array_split "
                         f"takes unequal ones")
    size, more = divmod(n, given)
    return tuple(i * size + min(i, more) for i in range(given))


def _split(name: str, ary: Any, given: Any, axis: int, equal: bool = True) -> list[Any]:
    ary = as_value(ary)
    if ary.shape is not None and not -len(ary.shape) <= axis < len(ary.shape):
        raise ShapeError(f"np.{name}: an array of shape {tuple(ary.shape)} has no axis {axis}")
    cuts = _sections(name, ary, given, axis, equal)
    if isinstance(cuts, tuple) and any(b < a for a, b in zip(cuts, cuts[1:])):
        ends = [*cuts[1:], ary.shape[axis]]
        lead = (slice(None),) * (axis % len(ary.shape))
        return [ary[(*lead, slice(a, max(a, b)))] for a, b in zip(cuts, ends)]
    attrs = {"indices": (), "sections": cuts} if isinstance(cuts, int) else {"indices": cuts}
    return parts(functions.resolve("nd", "split_v2")(ary, axis=axis, **attrs))


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis: so many equal ones, or those between the given places."""
    return _split("split", ary, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis, the first ones longer by one where they cannot be equal."""
    return _split("array_split", ary, indices_or_sections, axis, False)


def _along(name: str, least: int, axis: int) -> Any:
    def function(ary: Any, indices_or_sections: Any) -> list[Any]:
        ary = as_value(ary)
        if ary.shape is not None and len(ary.shape) < least:
            raise ShapeError(f"np.{name} needs an array of {least} axes or more, got shape {tuple(ary.shape)}")
        return _split(name, ary, indices_or_sections, 0 if name == "hsplit" and len(ary.shape or (1, 1)) == 1 else axis)
    return named(function, name, "hybrid.numpy",
                 f"Parts along axis {axis}" + (" (0 of a vector)." if name == "hsplit" else "."))


vsplit, hsplit, dsplit = _along("vsplit", 2, 0), _along("hsplit", 1, 1), _along("dsplit", 3, 2)


# ---- joined arrays
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """values behind arr along an axis; both flattened for None."""
    return concatenate((arr, values), axis=axis)


def _plain(x: Any) -> bool:
    """Whether an array is computed with at once, on the CPU and without a gradient: its memory may be looked at."""
    return (type(x) is ndarray and x.context.device_type != "gpu" and not SCOPE.traces
            and not composed.needs_operators(x))


def _flat(x: Any) -> Any:
    """All elements in one row, to be read."""
    return wrap(x._data.reshape(-1), x._ctx, ndarray) if _plain(x) else x.reshape(-1)


def _joined(name: str) -> Any:
    def function(*arrays: Any, **kwargs: Any) -> Any:
        given = kwargs.pop("seq", kwargs.pop("arrays", kwargs.pop("tup", None)))
        given = arrays[0] if given is None else given
        rest = arrays[1:] if len(arrays) > 1 else ()
        plain = _plain(given)
        if is_value(given) and not hasattr(given, "entries") and not plain:
            given = [given[i] for i in range(len(given))]
        out, dtype = kwargs.pop("out", rest[1] if len(rest) > 1 else None), kwargs.pop("dtype", None)
        if rest:
            kwargs["axis"] = rest[0]
        if not len(given):
            raise ShapeError(f"np.{name} needs at least one array")
        if plain:                                            # NumPy joins its rows
            found = fallback.numpy_function("vstack" if name == "row_stack" else name, ndarray)(given, **kwargs)
            return finish(found if dtype is None else found.astype(dtype), out)
        values = [as_value(x) for x in given]
        if "axis" in kwargs and kwargs["axis"] is None:           # of the flattened arrays
            values, kwargs["axis"] = [_flat(x) for x in values], 0
        found = _call(name, *values, **kwargs)
        return finish(found if dtype is None else found.astype(dtype), out)
    return named(function, name, "hybrid.numpy", document(registry.namespace("np")[name], name, "arrays"))


concatenate, stack, vstack, hstack, dstack, column_stack, row_stack = (
    _joined(_n) for _n in ("concatenate", "stack", "vstack", "hstack", "dstack", "column_stack", "row_stack"))


def broadcast_arrays(*args: Any) -> list[Any]:
    """Arrays broadcast to their common shape."""
    values = [as_value(x) for x in args]
    shape = _np.broadcast_shapes(*(tuple(v.shape) for v in values))
    return [_call("broadcast_to", v, shape=shape) for v in values]


def broadcast_to(array: Any, shape: Any) -> Any:
    """The array repeated to a shape."""
    return _call("broadcast_to", as_value(array), shape=shape_tuple(shape))


@also_named("a")
def ravel(x: Any, order: str = "C") -> Any:
    """All elements on one axis, in the order of rows ('C') or of columns ('F'). """
    return in_order("ravel", as_value(x), (-1,), order)


def resize(a: Any, new_shape: Any) -> Any:
    """The elements in order, again from the first where they do not suffice, in another shape."""
    given, shape = as_value(a), shape_tuple(new_shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"{user_location()}: np.resize: lengths must not be negative, got {new_shape}")
    count = int(_np.prod(shape))
    if _plain(given) and given.size:
        return fallback.numpy_function("resize", ndarray)(given, shape)
    a = given.reshape(-1)
    if not a.shape[0] and count:
        return full_like(_call("broadcast_to", a.sum(), shape=shape), 0)
    if count > a.shape[0]:
        a = _call("tile", a, reps=(-(-count // max(a.shape[0], 1)),))
    return a[:count].reshape(shape)


def tile(A: Any, reps: Any) -> Any:  # noqa: N803
    """The array repeated so often along each axis."""
    return _call("tile", as_value(A), reps=reps if isinstance(reps, int) else shape_tuple(reps))


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Each element so often, along an axis or of the flattened array; repeats: a number, or one for each position."""
    a = as_value(a)
    if is_value(repeats) and not isinstance(repeats, NDArray):
        refuse_traced("repeat", repeats)
    counts = repeats.asnumpy() if isinstance(repeats, NDArray) else _np.asarray(repeats)
    if counts.size == 1:
        return _call("repeat", a, repeats=int(counts.reshape(-1)[0]), axis=axis)
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = normal_axis(axis, len(a.shape), "np.repeat")
    if counts.shape != (a.shape[axis],):
        raise ShapeError(f"np.repeat: {counts.size} counts for the {a.shape[axis]} positions along axis {axis}")
    return _pick(a, _np.repeat(_np.arange(len(counts)), counts), axis)


def _pick(a: Any, places: Any, axis: int) -> Any:
    """Known positions along an axis."""
    return a[(slice(None),) * (axis % len(a.shape)) + (_np.asarray(places, _np.int64),)]


def flip(m: Any, axis: Any = None, out: Any = None) -> Any:
    """The elements in reverse order along an axis, several, or all."""
    m = as_value(m)
    return finish(_call("flip", m, axis=axis) if m.shape != () else m.copy(), out)


def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """A quarter turn in the plane of two axes, k times."""
    axes, m = tuple(int(i) for i in axes), as_value(m)
    if len(axes) != 2 or axes[0] == axes[1] or m.shape is not None and abs(axes[0] - axes[1]) == len(m.shape):
        raise ShapeError(f"np.rot90: axes must be two different ones, got {axes}")
    return _call("rot90", m, k=int(k), axes=axes)


def fliplr(m: Any) -> Any:
    """Columns in reverse order."""
    return flip(_of(m, 2, "fliplr"), 1)


def flipud(m: Any) -> Any:
    """Rows in reverse order."""
    return flip(_of(m, 1, "flipud"), 0)


def _of(m: Any, least: int, name: str) -> Any:
    m = as_value(m)
    if m.shape is not None and len(m.shape) < least:
        raise ShapeError(f"np.{name} needs an array of {least} axes or more, got shape {tuple(m.shape)}")
    return m


# ---- single elements
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """values before the places obj (a number, a slice, an array of integers) along an axis, or of the flattened
    array."""
    arr = as_value(arr)
    number = isinstance(values, (int, float, bool, _np.number)) and not isinstance(values, _np.ndarray)
    rest = () if number else (as_value(values),)
    val = values.item() if isinstance(values, _np.generic) else values if number else None
    if isinstance(obj, slice):
        return _op("_npi_insert_slice", arr, *rest, val=val, start=obj.start, stop=obj.stop, step=obj.step, axis=axis)
    if isinstance(obj, (int, _np.integer)):
        _check_place("insert", arr, int(obj), axis, 1)
        if _plain(arr) and (number or _plain(rest[0])):
            return fallback.numpy_function("insert", ndarray)(arr, int(obj), values, axis)
        return _op("_npi_insert_scalar", arr, *rest, val=val, int_ind=int(obj), axis=axis)
    if not is_value(obj) or isinstance(obj, NDArray):
        host = obj.asnumpy() if isinstance(obj, NDArray) else _np.asarray(obj)
        if host.dtype == bool:                                   # a mask of places
            host = obj = _np.flatnonzero(host)
        n = arr.shape[normal_axis(axis, len(arr.shape), "np.delete")] if axis is not None else int(_np.prod(arr.shape))
        if ((host < -n) | (host > n)).any():
            raise RangeError(f"np.insert: place {host[(host < -n) | (host > n)][0]} is out of range for length {n}")
        obj = obj if isinstance(obj, NDArray) else _index(host)
    return _op("_npi_insert_tensor", arr, *rest, obj, val=val, axis=axis)


def _check_place(name: str, arr: Any, place: int, axis: Any, more: int) -> None:
    if arr.shape is None or axis is not None and not -len(arr.shape) <= axis < len(arr.shape):
        return                                                   # the operator tells
    n = math.prod(arr.shape) if axis is None else arr.shape[axis]
    if not -n <= place < n + more:
        raise RangeError(f"{user_location()}: np.{name}: place {place} is out of range for length {n}")


def _index(host: Any) -> Any:
    return as_value(_np.asarray(host, _np.int64))


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """arr without the positions obj (a number, a slice, an array of integers) along an axis, or of the flattened
    array."""
    arr = as_value(arr)
    along = axis is None or isinstance(axis, int) and -len(arr.shape or ()) <= axis < len(arr.shape or ())
    if isinstance(obj, slice):
        if along and _plain(arr):
            return fallback.numpy_function("delete", ndarray)(arr, obj, axis)
        return _op("_npi_delete", arr, start=obj.start, stop=obj.stop, step=obj.step, axis=axis,
                   places=None if obj != slice(None) else ())
    if isinstance(obj, (int, _np.integer)):
        _check_place("delete", arr, int(obj), axis, 0)
        if _plain(arr):
            return fallback.numpy_function("delete", ndarray)(arr, int(obj), axis)
        return _op("_npi_delete", arr, int_ind=int(obj), axis=axis)
    if is_value(obj) and not isinstance(obj, NDArray):
        refuse_traced("delete", obj)
    host = obj.asnumpy() if isinstance(obj, NDArray) else _np.asarray(obj)
    n = arr.shape[normal_axis(axis, len(arr.shape), "np.delete")] if axis is not None else int(_np.prod(arr.shape))
    host = _np.flatnonzero(host) if host.dtype == bool else host.astype(_np.int64).reshape(-1)
    wrong = host[(host < -n) | (host >= n)]
    if len(wrong):
        raise RangeError(f"np.delete: index {wrong[0]} is out of range for length {n}")
    return _pick(arr if axis is not None else arr.reshape(-1), _np.delete(_np.arange(n), host), axis or 0)


def take(a: Any, indices: Any, axis: Any = None, mode: str = "raise", out: Any = None) -> Any:
    """Elements at indices along an axis, or of the flattened array. mode: what becomes of indices out of range, clip,
    wrap or raise."""
    a, indices = as_value(a), as_value(indices)
    if mode not in ("raise", "clip", "wrap"):
        raise ShapeError(f"np.take: mode must be raise, clip or wrap, got {mode!r}")
    n = (None if a.shape is None else math.prod(a.shape) if axis is None
         else a.shape[normal_axis(axis, len(a.shape), "np.take")])
    if mode == "raise" and n is not None and n >= 0:
        demand_within(indices, -n, n - 1, RangeError, "np.take: index {value} is out of range for length {n}", n=n)
    return finish(_call("take", a, indices, axis=axis, mode="wrap" if mode == "raise" else mode), out)


# ---- indices
def diag_indices_from(arr: Any) -> Any:
    """Indices of the main diagonal, one array an axis."""
    arr = as_value(arr)
    if arr.shape is not None and (len(arr.shape) < 2 or len(set(arr.shape)) > 1):
        raise ShapeError(f"np.diag_indices_from: all axes must be equally long, and two at least, got "
                         f"{tuple(arr.shape)}")
    found = _op("_npi_diag_indices_from", arr)
    return tuple(found[i] for i in range(len(arr.shape)))


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """Places in a shape of the elements with these numbers in order: one array an axis."""
    if order != "C":
        raise NotImplementedError(f"np.unravel_index: order must be 'C', got {order!r}")
    indices = as_value(_np.asarray(indices) if isinstance(indices, (int, list, tuple)) else indices)
    found, rest, shape = [], indices, shape_tuple(shape)
    if _plain(indices) and _np.dtype(indices.dtype).kind in "iu":
        try:
            whole = fallback.numpy_function("unravel_index", ndarray)(indices, shape)
        except ValueError:                                       # the check below raises our own error
            whole = None
        if whole is not None:
            return tuple(v.astype(indices.dtype, copy=False) for v in whole)
    if (isinstance(indices, NDArray) and indices.size
        and not 0 <= int(indices.asnumpy().min()) <= int(indices.asnumpy().max()) < math.prod(shape)):
        raise ValueError(f"np.unravel_index: an index is not within an array of shape {shape}, which has "
                         f"{math.prod(shape)} elements")
    for n in reversed(shape):
        found.append(rest % n)
        rest = rest // n
    return tuple(reversed(found))


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether two arrays have memory in common."""
    if not isinstance(a, NDArray) or not isinstance(b, NDArray):
        return False
    if isinstance(a._data, _np.ndarray) and isinstance(b._data, _np.ndarray):
        return bool(_np.may_share_memory(a._data, b._data))
    return a._data is b._data or getattr(a._data, "data", 0) == getattr(b._data, "data", 1)


may_share_memory = shares_memory


MODES = ("wrap", "mean", "median", "linear_ramp", "empty")      # of NumPy alone: eagerly


@also_named("array")
def pad(x: Any, pad_width: Any = None, mode: str = "constant", **kwargs: Any) -> Any:
    """The array with elements around it: constant (``constant_values``), edge, reflect, symmetric, maximum or
    minimum."""
    if mode in MODES or isinstance(kwargs.get("constant_values"), (list, tuple)):
        return fallback.numpy_function("pad", ndarray)(x, pad_width, mode, **kwargs)
    x = as_value(x)
    known = {"constant": {"constant_values"}, "reflect": {"reflect_type"}, "symmetric": {"reflect_type"},
             "maximum": {"stat_length"}, "minimum": {"stat_length"}}
    wrong = set(kwargs) - known.get(mode, set())
    if wrong:
        raise ShapeError(f"np.pad: mode {mode!r} has no {', '.join(sorted(wrong))}")
    if pad_width is None or not isinstance(pad_width, (int, list, tuple, _np.ndarray, _np.integer)):
        raise TypeError(f"np.pad: pad_width must be a number, a pair, or a pair for each axis, got {pad_width!r}")
    if kwargs.get("stat_length") is not None or kwargs.get("reflect_type", "even") != "even":
        raise NotImplementedError("np.pad: stat_length and reflect_type='odd' are not supported")
    widths = [tuple(map(int, p)) for p in _np.broadcast_to(_np.asarray(pad_width), (len(x.shape), 2))]
    if any(w < 0 for p in widths for w in p):
        raise ShapeError(f"np.pad: widths must not be negative, got {pad_width}")
    if mode != "constant" and _plain(x) and all(0 <= w < n for p, n in zip(widths, x.shape) for w in p):
        return fallback.numpy_function("pad", ndarray)(x, widths, mode)
    if mode in ("maximum", "minimum"):
        return _pad_extreme(x, widths, "max" if mode == "maximum" else "min")
    value = kwargs.get("constant_values", 0)
    if mode == "constant" and not isinstance(value, (int, float, _np.number)):
        raise NotImplementedError("np.pad: constant_values must be one number")
    return _call("pad", x, pad_width=tuple(widths), mode=mode,
                 **({"constant_value": float(value)} if mode == "constant" and value else {}))


def _pad_extreme(x: Any, widths: Sequence[tuple[int, int]], how: str) -> Any:
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        if not x.shape[axis]:
            raise ShapeError(f"np.pad: the {how}imum of an empty axis {axis} of {tuple(x.shape)}")
        edge = _call(how, x, axis=axis, keepdims=True)
        pieces = [_call("repeat", edge, repeats=n, axis=axis) for n in (before, after) if n]
        x = _call("concatenate", *pieces[:1 if before else 0], x, *pieces[1 if before else 0:], axis=axis)
    return x
