"""Python's operators on arrays and symbols."""
from __future__ import annotations

import math
import operator
import weakref
from typing import Any, Callable

import numpy as np

from ..buffers.array import NP_CLASS, NDArray, full_like, wrap
from ..buffers.moving import cast, copied
from ..autograd.dispatch import NEW_VALUE, OF_NUMBER, into, invoke
from ..base import pending
from ..base.errors import DTypeError, ShapeError, shortened, user_location
from ..ops.registry import OPS
from ..base.scope import SCOPE
from ..graph.symbol import ALIAS, Symbol
from ..graph.size_numbers import with_numbers
from ..graph.traced_number import TracedNumber
from ..ir.size import Size
from .traced_indexing import NUMBERS, assign, basic_item, is_np, of_shape, updated

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
CHANGING = (TracedNumber, Size)                          # numbers that are others at each call
# of these MXNet joins the words: _plusscalar, not _plus_scalar
_JOINED = frozenset({"_plus", "_minus", "_mul", "_div", "_mod", "_power", "_maximum", "_minimum", "_hypot"})


def binary(row: tuple[str, str, str, str, str], lhs: Any, rhs: Any, reversed_hint: str | None = None) -> Any:
    """An operation on two values, at least one of them an array; NotImplemented for what is neither array nor
    number."""
    array_op, scalar_op, reversed_op, hint, np_name = row
    tail = "scalar" if hint in _JOINED else "_scalar"
    if (type(rhs) is float or type(rhs) is int) and (type(lhs) is NDArray or type(lhs) in NP_CLASS):
        name = scalar_op if type(lhs) is NDArray else f"_npi_{np_name}_scalar"
        return invoke(OPS[name], (lhs,), {"scalar": rhs}, None, None, None, hint + tail)
    if (type(lhs) is float or type(lhs) is int) and (type(rhs) is NDArray or type(rhs) in NP_CLASS):
        name = reversed_op if type(rhs) is NDArray else f"_npi_r{np_name}_scalar"
        back = "_r" + hint[1:] if name.startswith("_r") else hint
        return invoke(OPS[name], (rhs,), {"scalar": lhs}, None, None, None, reversed_hint or back + tail)
    if SCOPE.numbers and (type(lhs) in CHANGING or type(rhs) in CHANGING):
        out = binary(row, _beside(lhs, rhs), _beside(rhs, lhs), reversed_hint)
        array = rhs if type(lhs) in CHANGING else lhs
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
        beside = type(rhs) is complex and is_np(lhs) or type(lhs) is complex and is_np(rhs)
        return BESIDE_COMPLEX[0](np_name, lhs, rhs) if beside else NotImplemented
    return invoke(OPS[array_op], [lhs, rhs], {}, hint=hint)

for _name in ("add", "sub", "mul", "truediv", "pow"):
    _row = BINARY[_name]
    for _op in (_row[2], f"_npi_r{_row[4]}_scalar"):
        OF_NUMBER[_op] = (lambda row: lambda x, number: binary(row, number, x))(_row)
    for _op in (_row[1], f"_npi_{_row[4]}_scalar"):
        OF_NUMBER[_op] = (lambda row: lambda x, number: binary(row, x, number))(_row)

# what computes with an np array and a complex number, by the operation's name (numpy/complex_parts.py)
BESIDE_COMPLEX: list[Callable[[str, Any, Any], Any]] = []
_STRANGERS = (str, bytes, list, tuple, dict, set, type(None))
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "floor_divide": "//", "mod": "%",
          "power": "**"}


def _refuse_stranger(row: tuple[str, str, str, str, str], lhs: Any, rhs: Any) -> None:
    """TypeError for arithmetic with what is neither array nor number and has no arithmetic with arrays of its own."""
    for x, array in ((rhs, lhs), (lhs, rhs)):
        strange = isinstance(x, _STRANGERS) and not hasattr(x, "__array_ufunc__")        # complex arrays are tuples
        if row[4] in _SIGNS and strange and isinstance(array, (NDArray, Symbol)):
            way = ("make it an array: nd.array(...)" if isinstance(x, (list, tuple)) else
                   "a function without return, or a variable that was not set, gives None" if x is None else
                   "use arrays and numbers")
            raise TypeError(f"{user_location()}: {_SIGNS[row[4]]} takes arrays and numbers, got an array of shape "
                            f"{array.shape} and {'None' if x is None else f'a {type(x).__name__} ({x!r:.40})'}; {way}")


def _beside(x: Any, other: Any) -> Any:
    """A value; of a traced number the input that takes its place beside another value, or the number of this call."""
    if type(x) is Size:
        x, = with_numbers(x)
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
    """The method of an operator. Two arrays of one class, and an array and a number, go to the dispatcher as they
    are."""
    array_op, scalar_op, _, hint, np_op = *row[:4], f"_npi_{row[4]}"
    tail = hint + ("scalar" if hint in _JOINED else "_scalar")

    def method(self: Any, other: Any) -> Any:
        try:
            if type(self) is type(other) is NDArray:
                return invoke(OPS[array_op], (self, other), _NOTHING, None, None, None, hint)
            if type(self) is NDArray and (type(other) is float or type(other) is int):
                return invoke(OPS[scalar_op], (self,), {"scalar": other}, None, None, None, tail)
            if type(self) is type(other) and getattr(self, "np_semantics", False):
                return invoke(OPS[np_op], (self, other), _NOTHING, None, None, None, hint)
            return binary(row, self, other)
        except Exception as err:
            shortened(err)
            raise
    return method


def _reversed(row: tuple[str, str, str, str, str], reversed_hint: str | None) -> Callable[[Any, Any], Any]:
    """The reversed method of an operator, such as ``__radd__``: the array is the right operand."""
    name, hint = row[2], reversed_hint or ("_r" + row[3][1:] if row[2].startswith("_r") else row[3]) + (
        "scalar" if row[3] in _JOINED else "_scalar")

    def method(self: Any, other: Any) -> Any:
        if type(self) is NDArray and type(other) is float:
            return invoke(OPS[name], (self,), {"scalar": other}, None, None, None, hint)
        return binary(row, other, self, reversed_hint)
    return method


def _attach_operators(cls: type) -> None:
    for name, row in BINARY.items():
        setattr(cls, f"__{name}__", _operator(row))
        if name not in ("eq", "ne", "gt", "ge", "lt", "le"):
            setattr(cls, f"__r{name}__", _reversed(row, "_rpower_scalar" if name == "pow" else None))
            setattr(cls, f"__i{name}__", (lambda r: lambda self, other: _in_place(r, self, other))(row))
    setattr(cls, "__neg__", lambda self: invoke(OPS["_mul_scalar" if isinstance(self, Symbol) and not is_np(self)
                                                    else "negative"], [self],
                                                {"scalar": -1.0} if isinstance(self, Symbol) and not is_np(self)
                                                else {}, hint="_mulscalar"))
    setattr(cls, "__pos__", lambda self: self)
    setattr(cls, "__abs__", lambda self: invoke(OPS["abs"], [self], {}, hint="abs"))
    setattr(cls, "__invert__", lambda self: invoke(OPS["_npi_bitwise_not"], [self], {}, hint="invert"))
    setattr(cls, "__matmul__", lambda self, other: invoke(OPS["_npi_matmul"], [self, other], {}, hint="matmul"))


def _written_over(row: Any, self: Any, other: Any) -> bool:
    """Compute an in-place operation (x += y) straight into x, where that can be done; whether it was. row: of the table
    of operators."""
    kind = type(self)
    if kind is not NDArray and kind not in NP_CLASS or self._ag is not None:
        return False
    if type(other) is kind:
        return into(OPS[row[0] if kind is NDArray else f"_npi_{row[4]}"], (self, other), _NOTHING, self)
    if type(other) is float or type(other) is int:
        return into(OPS[row[1] if kind is NDArray else f"_npi_{row[4]}_scalar"], (self,), {"scalar": other}, self)
    return False


def _in_place(row: Any, self: Any, other: Any) -> Any:
    if not pending.WATCHED[0] and _written_over(row, self, other):
        return self
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
        return rewrite(self, new)
    if pending.WATCHED[0] and not SCOPE.traces:
        pending.LATER[0].assign(self, self._whole, new, lambda: _put_into(self, new))
    else:
        _put_into(self, new)
    return self


def _put_into(self: NDArray, new: NDArray) -> None:
    self._write(cast(new._data, self._data.dtype, new._ctx))


def _snapshot(x: NDArray) -> NDArray:
    """The array as it is now: the tape keeps this one when x gets another value. What is not on the tape is written
    over: a copy stays."""
    return wrap(x._data if x._ag is not None else copied(x._data, x._ctx), x._ctx, type(x), x)


def rewrite(self: NDArray, new: NDArray) -> NDArray:
    """x += y and x[key] = y while recording: the same object, a new value on the tape; so have its ranges and the array
    that it is a range of."""
    if new._data.dtype != self._data.dtype:
        new = new.astype(self._data.dtype)
    old = self._ag
    if old is not None and old.part is not None:
        whole, key = old.part
        rewrite(whole, of_shape(new, whole.shape) if key is ALIAS
                 else updated(_snapshot(whole), key, new))            # and of that anew
        return self
    _new_value(self, new)
    return self


NEW_VALUE.append(rewrite)


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
            _new_value(part, of_shape(self, part.shape) if key is ALIAS
                       else basic_item(self, key))
