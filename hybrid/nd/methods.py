"""Operators (+, <, []) and fluent methods of NDArray and Symbol, attached from one table each."""
from __future__ import annotations

import math
import operator
import weakref
from functools import partial
from typing import Any, Callable

import numpy as np

from . import copies, functions
from ..base import indexing
from ..autograd import traced_grad
from ..buffers.array import NDArray, full_like, wrap
from ..autograd.dispatch import invoke
from ..base.dtype import as_dtype
from ..base.errors import DeviceError, DTypeError, ShapeError, shortened, user_location
from ..ops.registry import OPS
from ..ops.shape import mx_reshape
from ..base.scope import SCOPE
from ..graph.symbol import ALIAS, Symbol
from ..graph.traced_number import TracedNumber
from .traced_indexing import NUMBERS, advanced_item, assign, basic_item, is_np, set_item, symbol_item, updated

# Python operator: (array operator, scalar operator, reversed scalar operator, hints, NumPy's name)
BINARY: dict[str, tuple[str, str, str, str, str]] = {
    "add": ("elemwise_add", "_plus_scalar", "_plus_scalar", "_plus", "add"),
    "sub": ("elemwise_sub", "_minus_scalar", "_rminus_scalar", "_minus", "subtract"),
    "mul": ("elemwise_mul", "_mul_scalar", "_mul_scalar", "_mul", "multiply"),
    "truediv": ("elemwise_div", "_div_scalar", "_rdiv_scalar", "_div", "true_divide"),
    "floordiv": ("_npi_floor_divide", "_npi_floor_divide_scalar", "_npi_rfloor_divide_scalar", "_floordiv",
                 "floor_divide"),
    "mod": ("_mod", "_mod_scalar", "_rmod_scalar", "_mod", "mod"),
    "pow": ("_power", "_power_scalar", "_rpower_scalar", "_power", "power"),
    "eq": ("_equal", "_equal_scalar", "_equal_scalar", "_equal", "equal"),
    "ne": ("_not_equal", "_not_equal_scalar", "_not_equal_scalar", "_not_equal", "not_equal"),
    "gt": ("_greater", "_greater_scalar", "_lesser_scalar", "_greater", "greater"),
    "ge": ("_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar", "_greater_equal", "greater_equal"),
    "lt": ("_lesser", "_lesser_scalar", "_greater_scalar", "_lesser", "less"),
    "le": ("_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar", "_lesser_equal", "less_equal"),
    "and": ("_npi_bitwise_and", "_npi_bitwise_and_scalar", "_npi_bitwise_and_scalar", "_and", "bitwise_and"),
    "or": ("_npi_bitwise_or", "_npi_bitwise_or_scalar", "_npi_bitwise_or_scalar", "_or", "bitwise_or"),
    "xor": ("_npi_bitwise_xor", "_npi_bitwise_xor_scalar", "_npi_bitwise_xor_scalar", "_xor", "bitwise_xor"),
    "lshift": ("_npi_left_shift", "_npi_left_shift_scalar", "_npi_rleft_shift_scalar", "_lshift", "left_shift"),
    "rshift": ("_npi_right_shift", "_npi_right_shift_scalar", "_npi_rright_shift_scalar", "_rshift", "right_shift"),
}
# nd functions of two values, either of which may be a number: nd.add(x, 2), nd.maximum(0, x)
TWO = {"add": "add", "pow": "pow", "subtract": "sub", "multiply": "mul", "divide": "truediv", "modulo": "mod",
       "power": "pow", "equal": "eq", "not_equal": "ne",
       "greater": "gt", "greater_equal": "ge", "lesser": "lt", "lesser_equal": "le", "true_divide": "truediv"}
EXTRA_TWO = {"maximum": ("_maximum", "_maximum_scalar", "_maximum_scalar", "_maximum", "maximum"),
             "minimum": ("_minimum", "_minimum_scalar", "_minimum_scalar", "_minimum", "minimum"),
             "logical_and": ("_logical_and", "_logical_and_scalar", "_logical_and_scalar", "_logical_and",
                             "logical_and"),
             "logical_or": ("_logical_or", "_logical_or_scalar", "_logical_or_scalar", "_logical_or", "logical_or"),
             "logical_xor": ("_logical_xor", "_logical_xor_scalar", "_logical_xor_scalar", "_logical_xor",
                             "logical_xor"),
             "hypot": ("_hypot", "_hypot_scalar", "_hypot_scalar", "_hypot", "hypot")}
# of these MXNet joins the words: _plusscalar, not _plus_scalar
_JOINED = frozenset({"_plus", "_minus", "_mul", "_div", "_mod", "_power", "_maximum", "_minimum", "_hypot"})


def binary(row: tuple[str, str, str, str, str], lhs: Any, rhs: Any, reversed_hint: str | None = None) -> Any:
    """An operation on two values, at least one of them an array; NotImplemented for what is neither array nor
    number."""
    array_op, scalar_op, reversed_op, hint, np_name = row
    tail = "scalar" if hint in _JOINED else "_scalar"
    if type(lhs) is NDArray and (type(rhs) is float or type(rhs) is int):
        return invoke(OPS[scalar_op], (lhs,), {"scalar": rhs}, None, None, None, hint + tail)
    if SCOPE.numbers and TracedNumber in (type(lhs), type(rhs)):
        out = binary(row, _beside(lhs, rhs), _beside(rhs, lhs), reversed_hint)
        array = rhs if type(lhs) is TracedNumber else lhs
        # beside a number nd's operations keep the array's dtype
        return out if is_np(array) or out is NotImplemented else out.astype(array.dtype, copy=False)
    if is_np(lhs) or is_np(rhs):
        array_op, scalar_op, reversed_op = f"_npi_{np_name}", f"_npi_{np_name}_scalar", f"_npi_r{np_name}_scalar"
    if isinstance(rhs, NUMBERS):
        return invoke(OPS[scalar_op], [lhs], {"scalar": _python(rhs, lhs)}, hint=hint + tail)
    if isinstance(lhs, NUMBERS):
        back = "_r" + hint[1:] if reversed_op.startswith("_r") else hint
        return invoke(OPS[reversed_op], [rhs], {"scalar": _python(lhs, rhs)}, hint=reversed_hint or back + tail)
    if not isinstance(lhs, (NDArray, Symbol, np.ndarray)) or not isinstance(rhs, (NDArray, Symbol, np.ndarray)):
        _refuse_stranger(row, lhs, rhs)
        return NotImplemented
    return invoke(OPS[array_op], [lhs, rhs], {}, hint=hint)


_STRANGERS = (str, bytes, list, tuple, dict, set, type(None))
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "floor_divide": "//", "mod": "%",
          "power": "**"}


def _refuse_stranger(row: tuple[str, str, str, str, str], lhs: Any, rhs: Any) -> None:
    """TypeError for arithmetic with what is neither array nor number and has no arithmetic with arrays of its own."""
    for x, array in ((rhs, lhs), (lhs, rhs)):
        if row[4] in _SIGNS and isinstance(x, _STRANGERS) and isinstance(array, (NDArray, Symbol)):
            way = ("make it an array: nd.array(...)" if isinstance(x, (list, tuple)) else
                   "a function without return, or a variable that was not set, gives None" if x is None else
                   "use arrays and numbers")
            raise TypeError(f"{user_location()}: {_SIGNS[row[4]]} takes arrays and numbers, got an array of shape "
                            f"{array.shape} and {'None' if x is None else f'a {type(x).__name__} ({x!r:.40})'}; {way}")


def _beside(x: Any, other: Any) -> Any:
    """A value; of a traced number the input that takes its place beside another value, or the number of this call."""
    if type(x) is not TracedNumber:
        return x
    dtype = getattr(other, "dtype", None)
    found = x._operand(dtype)
    if found is not None:
        return found
    what = f"an array of {np.dtype(dtype)}" if dtype is not None else "an array whose dtype is not known yet"
    return x._looked(f"beside {what} the dtype or the value of the result depends on the number")


def _python(x: Any, other: Any = None) -> Any:
    x = x.item() if isinstance(x, np.generic) else x
    # MXNet's files know no scalar True
    return int(x) if isinstance(x, bool) and isinstance(other, Symbol) else x


PLAIN: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
                                               "true_divide": operator.truediv, "mod": operator.mod,
                                               "power": operator.pow, "maximum": max, "minimum": min,
                                               "hypot": math.hypot}


def two(row: tuple[str, str, str, str, str], lhs: Any, rhs: Any) -> Any:
    """``binary`` for functions, where strangers are an error; of two Python numbers a number."""
    if isinstance(lhs, (int, float)) and isinstance(rhs, (int, float)):
        name = row[4]
        found = PLAIN[name](lhs, rhs) if name in PLAIN else getattr(np, name)(lhs, rhs).item()
        return int(found) if isinstance(found, bool) else found
    out = binary(row, lhs, rhs)
    if out is NotImplemented:
        raise TypeError(f"arrays or numbers are needed, got {type(lhs).__name__} and {type(rhs).__name__}")
    return out


_NOTHING: dict[str, Any] = {}


def _operator(row: tuple[str, str, str, str, str]) -> Callable[[Any, Any], Any]:
    """The method of an operator. Two arrays of one class go to the dispatcher as they are."""
    array_op, hint, np_op = row[0], row[3], f"_npi_{row[4]}"

    def method(self: Any, other: Any) -> Any:
        try:
            if type(self) is type(other) is NDArray:
                return invoke(OPS[array_op], (self, other), _NOTHING, None, None, None, hint)
            if type(self) is type(other) and getattr(self, "np_semantics", False):
                return invoke(OPS[np_op], (self, other), _NOTHING, None, None, None, hint)
            return binary(row, self, other)
        except Exception as err:
            shortened(err)
            raise
    return method


def _attach_operators(cls: type) -> None:
    for name, row in BINARY.items():
        setattr(cls, f"__{name}__", _operator(row))
        if name not in ("eq", "ne", "gt", "ge", "lt", "le"):
            setattr(cls, f"__r{name}__",
                    (lambda r, h: lambda self, other: binary(r, other, self,
                                                             h))(row, "_rpower_scalar" if name == "pow" else None))
            setattr(cls, f"__i{name}__", (lambda r: lambda self, other: _in_place(r, self, other))(row))
    setattr(cls, "__neg__", lambda self: invoke(OPS["_mul_scalar" if isinstance(self, Symbol) and not is_np(self)
                                                    else "negative"], [self],
                                                {"scalar": -1.0} if isinstance(self, Symbol) and not is_np(self)
                                                else {}, hint="_mulscalar"))
    setattr(cls, "__pos__", lambda self: self)
    setattr(cls, "__abs__", lambda self: invoke(OPS["abs"], [self], {}, hint="abs"))
    setattr(cls, "__invert__", lambda self: invoke(OPS["_npi_bitwise_not"], [self], {}, hint="invert"))
    setattr(cls, "__matmul__", lambda self, other: invoke(OPS["_npi_matmul"], [self, other], {}, hint="matmul"))


def _in_place(row: Any, self: Any, other: Any) -> Any:
    source = _snapshot(self) if SCOPE.recording and isinstance(self,
                                                               NDArray) and (self._ag is not None
            or getattr(other, "_ag", None) is not None) else self
    new = binary(row, source, other)
    if new is NotImplemented:
        return new
    if is_np(self) and self.dtype is not None and new.dtype is not None and np.dtype(self.dtype).kind in "iu" and (
            np.dtype(new.dtype).kind == "f"):
        raise DTypeError(f"{user_location()}: in place, an array of {np.dtype(self.dtype)} cannot hold the fractions "
                         f"of a result of {np.dtype(new.dtype)}; write x = x + y, or give "
                         f"y.astype({np.dtype(self.dtype).name!r})")
    if isinstance(self, Symbol):
        assign(self, new)
        return self
    if isinstance(new, Symbol):                       # an array from outside, changed by traced code: written back
        assign(SCOPE.traces[-1].capture(self), new)
        return self
    if new.shape != self.shape:
        raise ShapeError(f"in-place change of an array of shape {self.shape} by one of shape "
                         f"{getattr(other, 'shape', ())}: the result has shape {new.shape}; "
                         "write x = x + y instead")
    if SCOPE.recording and new._ag is not None:
        return _rewrite(self, new)
    self._write(new._data.astype(self._data.dtype, copy=False))
    return self


def _snapshot(x: NDArray) -> NDArray:
    """The array as it is now: the tape keeps this one when x gets another value. What is not on the tape is written
    over: a copy stays."""
    return wrap(x._data if x._ag is not None else x._data.copy(), x._ctx, type(x), x)


def _rewrite(self: NDArray, new: NDArray) -> NDArray:
    """x += y and x[key] = y while recording: the same object, a new value on the tape; so have its ranges and the array
    that it is a range of."""
    if new._data.dtype != self._data.dtype:
        new = new.astype(self._data.dtype)
    old = self._ag
    if old is not None and old.part is not None:
        whole, key = old.part
        _rewrite(whole, invoke(OPS["Reshape"], [new], {"shape": whole.shape}) if key is ALIAS
                 else updated(_snapshot(whole), key, new))            # and of that anew
        return self
    _new_value(self, new)
    return self


def _new_value(self: NDArray, new: NDArray) -> None:
    old = self._ag
    if old is None:
        self._write(new._data)                        # nothing on the tape needs the old value: the same buffer
        self._ag = new._ag
        return
    if new._ag is None:                               # nothing of the old value is left: its gradient is zero
        new = invoke(OPS["where"], [full_like(new, 1), new, _snapshot(self)], {})
    slot = new._ag
    assert slot is not None
    self._rebind(new._data)
    self._ag = slot
    slot.part, slot.parts = old.part, old.parts
    if slot.entry is not None and old.grad is not None:
        slot.grad, slot.req = old.grad, old.req
        before = next((s for x, s in old.entry.variables if x() is self), old) if old.entry is not None else old
        slot.entry.variables.append((weakref.ref(self), before))
    for held, key in list(slot.parts.values()):
        if (part := held()) is not None:
            _new_value(part, invoke(OPS["Reshape"], [self], {"shape": part.shape}) if key is ALIAS
                       else basic_item(self, key))


def _is_part(part: NDArray, whole: NDArray, key: Any) -> None:
    """Note that a recorded array shares its elements with another: a range of it, or (ALIAS) all in another shape."""
    assert part._ag is not None and whole._ag is not None
    part._ag.part, parts = (whole, key), whole._ag.parts
    parts[id(part)] = weakref.ref(part, partial(_dropped, parts, id(part))), key


def _dropped(parts: dict[int, Any], number: int, _: Any) -> None:
    parts.pop(number, None)


# ---- brackets
def array_item(self: NDArray, key: Any) -> Any:
    """Basic indices of one range of memory give views (copies on the tape while recording), others copies."""
    if SCOPE.traces:
        return symbol_item(SCOPE.traces[-1].capture(self), key)
    if isinstance(key, Symbol):
        return invoke(OPS["take"], [self, key], {"axis": 0, "mode": "wrap"}, hint="take")
    if indexing.is_basic(key):
        if SCOPE.recording and self._ag is not None:
            part = basic_item(self, key)
            view = self._data[key]
            if part._ag is not None and part._ag.entry is not None and (
                    isinstance(view, np.generic) or view.flags.c_contiguous or _is_range(self, key)):
                _is_part(part, self, key)
            return part
        try:
            view = self._data[key]
        except IndexError as err:
            raise IndexError(f"index {key!r} of an array of shape {self.shape}: {err}") from None
        if getattr(view, "flags", None) is not None and not view.flags.c_contiguous and not _is_range(self, key):
            view = view.copy()                       # MXNet's views are ranges of memory; other parts are copies
        return wrap(view if hasattr(view, "shape") and view.shape != () or is_np(self) else view.reshape(1), self._ctx,
                    type(self)) \
            if hasattr(view, "reshape") and not isinstance(view, np.generic) else _scalar(self, key)
    key = indexing.check_key(key, self.shape)
    if SCOPE.recording and self._ag is not None:
        return advanced_item(self, key)
    try:
        raw = self._data[indexing.plain_key(key)]            # a number where the key is one element of a vector
        return wrap(np.asarray(raw) if isinstance(raw, np.generic) else raw, self._ctx, type(self))
    except (IndexError, ValueError) as err:
        raise IndexError(f"index of an array of shape {self.shape}: {err}") from None


def _is_range(self: NDArray, key: Any) -> bool:
    """Whether a basic index is one range of an array, in the order of its elements: where they lie in another (x.T
    shares memory), it is a view all the same."""
    if self._data.flags.c_contiguous or not self.size:
        return False
    strides = [math.prod(self.shape[a + 1:]) for a in range(self.ndim)]
    return np.lib.stride_tricks.as_strided(np.empty(1, np.int8), self.shape, strides)[key].flags.c_contiguous


def _scalar(self: NDArray, key: Any) -> Any:
    """An element as an array that shares memory: of shape (1,), or () under NumPy's rules."""
    if isinstance(key, tuple) and not key:                   # x[()] of an array without axes: itself
        return wrap(self._data.view(), self._ctx, type(self))
    parts = tuple(int(k) for k in (key if isinstance(key, tuple) else (key,)))
    last = parts[-1] % self.shape[-1]
    view = self._data[parts[:-1] + (slice(last, last + 1),)]
    return wrap(view.reshape(()) if is_np(self) else view, self._ctx, type(self))


# ---- fluent methods
FLUENT = ("abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmin argmax_channel broadcast_like "
          "broadcast_axes broadcast_to cbrt ceil clip cos cosh "
          "degrees depth_to_space diag exp expand_dims expm1 fix flatten flip floor log log10 log1p log2 log_softmax "
          "max mean min nanprod nansum norm "
          "one_hot ones_like pad pick prod radians rcbrt reciprocal relu repeat reshape_like rint round rsqrt "
          "shape_array sigmoid sign sin sinh size_array "
          "slice slice_axis slice_like softmax softmin space_to_depth split split_v2 sqrt square squeeze sum swapaxes "
          "take tan tanh tile transpose "
          "trunc zeros_like sort argsort topk dot batch_dot cumsum").split()
NP_FLUENT = ("round argmax argmin argsort dot max mean min prod repeat std var sum take squeeze swapaxes all any").split()  # noqa: E501


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        space = "np" if is_np(self) and name in NP_FLUENT else "nd"
        for unset in ("dtype", "out"):                       # NumPy's functions pass them on: np.mean(x, axis=0)
            if unset in kwargs and kwargs[unset] is None:
                del kwargs[unset]
        return functions.resolve(space, name)(self, *args, **kwargs)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``nd.{name}`` of this array."
    return method


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
    given = kwargs.pop("shape", None)
    order = kwargs.pop("order", "C")
    new = given if given is not None else shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
    if new is None or isinstance(new, tuple) and not new and given is None and not shape:
        raise ShapeError("reshape needs a shape, as in x.reshape((2, -1))")
    new = type(new)(int(s) for s in new) if isinstance(new, (list, tuple)) else (int(new),)
    if is_np(self):
        return in_order("reshape", self, tuple(new), order)
    if order != "C":
        raise ValueError("reshape: only order='C' is supported")
    reverse = bool(kwargs.pop("reverse", False))
    if kwargs:
        raise TypeError(f"reshape has no {', '.join(map(repr, kwargs))}; it has shape and reverse")
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
    given = kwargs.get("axes", axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (list, tuple)))
                       else axes or None)
    return functions.resolve("nd", "transpose")(self, **({"axes": given} if given else {}))


def _matrix_transposed(self: Any) -> Any:
    """With the last two axes exchanged."""
    if len(self.shape) < 2:
        raise ValueError(f"{user_location()}: x.mT needs two axes at least, this array has {len(self.shape)}")
    return functions.resolve("np" if is_np(self) else "nd", "swapaxes")(self, -2, -1)


def _attach(cls: type) -> None:
    _attach_operators(cls)
    for name in FLUENT:
        if name not in cls.__dict__:
            setattr(cls, name, _method(name))
    setattr(cls, "squeeze", squeeze)
    setattr(cls, "expand_dims", expand_dims)
    setattr(cls, "flatten", flatten)
    setattr(cls, "reshape", reshape)
    setattr(cls, "transpose", transpose)
    setattr(cls, "T", property(lambda self: functions.resolve("nd", "transpose")(self)))
    setattr(cls, "mT", property(_matrix_transposed))
    setattr(cls, "cast", lambda self, dtype: functions.resolve("nd", "cast")(self, dtype=as_dtype(dtype).name))
    for name in ("all", "any", "std", "var"):
        setattr(cls, name, (lambda n: lambda self, *a, **k: functions.resolve("np", n)(self, *a, **k))(name))


def _backward(self: Any, out_grad: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Gradients of this array into the arrays with ``attach_grad``."""
    BACKWARD[0](self, out_grad, retain_graph, train_mode)


BACKWARD: list[Any] = []
for _cls in (NDArray, Symbol):
    _attach(_cls)


def _symbol_astype(self: Symbol, dtype: Any, copy: bool = True, **_: Any) -> Symbol:
    """Another dtype; itself when copy is False and nothing changes."""
    return (self if not copy and self.dtype is not None and np.dtype(self.dtype) == as_dtype(dtype)
            else self.cast(dtype))    # type: ignore[attr-defined]


def _symbol_tostype(self: Symbol, stype: str) -> Symbol:
    """A copy, in traced code; of a graph the value itself. Everything in both is dense: other storage types are an
    error."""
    if stype != "default":
        return functions.resolve("nd", "sparse.convert")(self, stype)
    return self.copy() if SCOPE.traces else self             # type: ignore[attr-defined]


Symbol.tostype = _symbol_tostype                                     # type: ignore[attr-defined]
Symbol.astype = _symbol_astype                                       # type: ignore[attr-defined]
Symbol.copyto = copies.symbol_copyto                                 # type: ignore[attr-defined]
Symbol.copy = lambda self, order="C": invoke(OPS["_copy"], [self], {}, hint="_copy")      # type: ignore[attr-defined]
Symbol.__getitem__ = symbol_item                                     # type: ignore[attr-defined]
Symbol.__setitem__ = set_item                                        # type: ignore[attr-defined]
Symbol.as_nd_ndarray = Symbol.as_np_ndarray = lambda self: self      # type: ignore[attr-defined]
NDArray.copy, NDArray.copyto = copies.copy, copies.copyto            # type: ignore[method-assign]
NDArray.__getitem__ = array_item                                     # type: ignore[attr-defined]
NDArray._at = array_item                                             # type: ignore[attr-defined]
NDArray._slice = lambda self, start, stop: self[start:stop]          # type: ignore[attr-defined]
NDArray.__iter__ = lambda self: (self[i] for i in range(len(self)))  # type: ignore[attr-defined]
_plain_setitem = NDArray.__setitem__


def _array_setitem(self: NDArray, key: Any, value: Any) -> None:
    """x[key] = value; inside a trace the array is captured and written back after the call, while recording it goes on
    the tape."""
    if SCOPE.traces:
        set_item(SCOPE.traces[-1].capture(self), key, value)
        return
    tracked = isinstance(value, NDArray) and value._ag is not None
    if SCOPE.recording and (tracked or self._ag is not None):
        if isinstance(value, NDArray) and value._ctx != self._ctx:
            raise DeviceError(f"the value is on {value._ctx}, the array on {self._ctx}")
        _rewrite(self, updated(_snapshot(self), key, value))
    else:
        _plain_setitem(self, key, value)


NDArray.__setitem__ = _array_setitem                                 # type: ignore[method-assign]
NDArray.backward = Symbol.backward = _backward                       # type: ignore[attr-defined]
Symbol.attach_grad = traced_grad.attach_grad                         # type: ignore[attr-defined]
Symbol.grad = property(traced_grad.collected)                        # type: ignore[attr-defined]


def _slice_assign(self: NDArray, rhs: Any, begin: Any, end: Any, step: Any = None) -> Any:
    """Put rhs into the range from begin to end (see ``slice``); returns the array."""
    _put(self, invoke(OPS["_slice_assign"], [self, rhs], {"begin": begin, "end": end, "step": step or ()}))
    return self


def _slice_assign_scalar(self: NDArray, value: Any, begin: Any, end: Any, step: Any = None) -> Any:
    """Put a number into every place from begin to end (see ``slice``); returns the array."""
    _put(self, invoke(OPS["_slice_assign_scalar"], [self],
                      {"scalar": value, "begin": begin, "end": end, "step": step or ()}))
    return self


def _put(self: Any, new: Any) -> None:
    if isinstance(self, Symbol):
        assign(self, new)
    elif SCOPE.recording and new._ag is not None:
        _rewrite(self, new)
    else:
        self._write(new._data)


for _cls in (NDArray, Symbol):
    setattr(_cls, "slice_assign", _slice_assign)
    setattr(_cls, "slice_assign_scalar", _slice_assign_scalar)
