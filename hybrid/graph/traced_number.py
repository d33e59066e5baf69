"""Numbers among the arguments of traced code that may be others at each call of the program.

A ``TracedNumber`` stands in the place of a Python number while code is traced. Arithmetic with other numbers is noted,
and done again by Python at each call, with Python's own rules; what meets an array becomes an input of the program.
Where the code looks at the number itself (``if t > 0``, ``range(n)``, ``float(t)``, a shape, a text), it gets the
number of this call, and that is noted: the program is then right for this number alone.
"""
from __future__ import annotations

import operator
import weakref
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.errors import user_location
from ..base.scope import CASTS, tracing

NUMBERS = (int, float, np.floating, np.integer)
EXACT = 1 << 53                        # integers up to it are floats too


def is_number(value: Any) -> bool:
    """Whether a value is a number that may become an input: a truth value is none."""
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def is_real(cls: type) -> bool:
    """Whether numbers of a class may have a fraction."""
    return issubclass(cls, (float, np.floating))


class NumberTrace:
    """The traced numbers of one trace: what is computed from them, what becomes an input, what was looked at.

    values: the numbers of this call. inputs: for the numbers that are inputs, by their place among all, their
    variables.
    """

    def __init__(self, values: Sequence[Any], make: Callable[[int, np.dtype], Any]):
        self._make = make                                # makes the variable of a number
        self.given = len(values)
        self.values: list[Any] = list(values)
        self.steps: list[tuple[Callable[..., Any], tuple[tuple[bool, Any], ...]]] = []
        self.bases: list[frozenset[int]] = [frozenset([i]) for i in range(len(values))]
        # by the place of a number among ``values``: its variable, and the least and greatest integer it may be
        self.inputs: dict[int, Any] = {}
        self.bounds: dict[int, tuple[int, int]] = {}
        # numbers of the arguments that the code looks at: why, and where
        self.looked: dict[int, str] = {}
        self.numbers = [TracedNumber(self, i) for i in range(len(values))]
        self._made: list[tuple[Any, frozenset[int]]] = []
        # by place: what a call's numbers are, for what is done before the program runs
        self.now: dict[int, Any] = {}
        self.asked_for = False                                # whether anything asks for them

    def look(self, at: int, why: str) -> Any:
        """The number at a place, which the code looks at."""
        for base in self.bases[at]:
            self.looked.setdefault(base, f"{user_location()}: {why}")
        return self.values[at]

    def derive(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """What a function gives for numbers, some of them traced."""
        given = tuple((True, x._at) if type(x) is TracedNumber else (False, x) for x in operands)
        value = function(*(self.values[x] if traced else x for traced, x in given))
        bases = frozenset(b for traced, x in given if traced for b in self.bases[x])
        self.values.append(value)
        self.steps.append((function, given))
        self.bases.append(bases)
        if not is_number(value):
            return self.look(len(self.values) - 1, f"{function.__name__} of the number is a {type(value).__name__}")
        made = TracedNumber(self, len(self.values) - 1)
        self._made.append((weakref.ref(made), bases))
        return made

    def base_and_offset(self, at: int) -> tuple[int, int]:
        """Write a number as base + integer constant, by following additions and subtractions of constants back.

        Returns the base's index and the constant."""
        more = 0
        while at >= self.given:
            function, operands = self.steps[at - self.given]
            numbers, constants = ([x for own, x in operands if own is traced] for traced in (True, False))
            if (function not in (operator.add, operator.sub) or [type(c) for c in constants] != [int]
                    or function is operator.sub and not operands[0][0]):
                break
            at, more = numbers[0], more + function(0, constants[0])
        return at, more

    def kept(self) -> list[frozenset[int]]:
        """The arguments from which numbers were computed that somebody keeps."""
        return [bases for made, bases in self._made if made() is not None]

    def at_each_call(self, at: int) -> Callable[[], Any]:
        """A function that gives the number at a place in the call that is being made."""
        now, self.asked_for = self.now, True
        self.symbol(at, np.dtype(dt.float64))
        return lambda: now[at]

    def symbol(self, at: int, dtype: np.dtype) -> Any:
        """The input for the number at a place, to be read in a dtype."""
        real = is_real(type(self.values[at]))
        if not real:
            kind = (-EXACT, EXACT) if dt.is_float(dtype) else (int(np.iinfo(dtype).min),
                                                              min(int(np.iinfo(dtype).max), 2**63 - 1))
            low, high = self.bounds.get(at, kind)
            self.bounds[at] = max(low, kind[0]), min(high, kind[1])
        if at not in self.inputs:
            self.inputs[at] = self._make(at, dt.float64 if real else dt.int64)
        return self.inputs[at]


class TracedNumber:
    """One of them. For code that asks, it is of the number's class."""
    __slots__ = ("_trace", "_at", "__weakref__")
    __array_priority__ = 500.0                           # below that of traced arrays

    def __init__(self, trace: NumberTrace, at: int):
        self._trace, self._at = trace, at

    @property                                              # type: ignore[misc]
    def __class__(self) -> Any:                          # type: ignore[override]
        return type(self._trace.values[self._at])

    def _plain(self) -> Any:
        """The number of this call, for what does not depend on it later."""
        return self._trace.values[self._at]

    def _looked(self, why: str) -> Any:
        return self._trace.look(self._at, why)

    def _operand(self, dtype: Any) -> Any:
        """The traced input that takes the number's place beside an array of a dtype; None where what the operation
        computes in depends on the number."""
        if dtype is None or CASTS:
            return None
        dtype = np.dtype(dtype)
        if not dt.is_float(dtype) and (dtype.kind not in "iu" or is_real(type(self._plain()))):
            return None
        if not is_real(type(self._plain())):
            low, high = (-EXACT, EXACT) if dt.is_float(dtype) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
            if not low <= self._plain() <= high:
                return None
        found = self._trace.symbol(self._at, dtype)
        return found if found.dtype == dtype else found.astype(dtype)

    # ---- positions
    def between(self, low: int, high: int) -> Any:
        """The input that takes the place of a whole number, for calls where it lies from low to high; None where it
        does not in this call."""
        trace, at = self._trace, self._at
        if type(trace) is not NumberTrace or is_real(type(trace.values[at])) or not low <= trace.values[at] <= high:
            return None
        found = trace.symbol(at, np.dtype(dt.int64))
        trace.bounds[at] = max(low, trace.bounds[at][0]), min(high, trace.bounds[at][1])
        return found

    def distance(self, other: "TracedNumber") -> int | None:
        """How much greater it is than another number, at each call; None where that may differ."""
        if type(self._trace) is not NumberTrace or self._trace is not other._trace:
            return None
        (base, more), (its, less) = self._trace.base_and_offset(self._at), self._trace.base_and_offset(other._at)
        return more - less if base == its else None

    # ---- arithmetic with numbers
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and ufunc.nout == 1 and all(
                type(x) is TracedNumber or isinstance(x, (int, float, np.generic)) for x in inputs):
            return self._trace.derive(ufunc, inputs)
        if any(hasattr(x, "entries") or hasattr(x, "_ag") for x in inputs):
            return NotImplemented
        plain = [x._looked(f"NumPy's {ufunc.__name__} is given it") if type(x) is TracedNumber else x for x in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.array(self._looked("a NumPy array is made of it"), *args, **kwargs)

    # ---- what looks at it
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(type(self._trace.values[self._at]), name):
            raise AttributeError(f"{type(self._plain()).__name__!r} object has no attribute {name!r}")
        return getattr(self._looked(f"its {name} is read"), name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._looked("it is copied").__reduce_ex__(protocol)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def _arithmetic(function: Callable[..., Any], swapped: bool) -> Any:
    def method(self: TracedNumber, other: Any, *more: Any) -> Any:
        if hasattr(other, "entries") or hasattr(other, "_ag"):          # arrays, traced ones too, know what to do
            return NotImplemented
        operands = (other, self) if swapped else (self, other)
        if type(other) is TracedNumber or isinstance(other, (int, float, np.generic)):
            return self._trace.derive(function, (*operands, *more))
        plain = self._looked(f"it meets a {type(other).__name__}")
        return function(other, plain, *more) if swapped else function(plain, other, *more)
    return method


def _alone(function: Callable[..., Any]) -> Any:
    def method(self: TracedNumber, *more: Any) -> Any:
        return self._trace.derive(function, (self, *more))
    return method


def _look(function: Callable[..., Any], why: str) -> Any:
    def method(self: TracedNumber, *more: Any) -> Any:
        return function(self._looked(why), *(x._looked(why) if type(x) is TracedNumber else x for x in more))
    return method


def _compared(function: Callable[..., Any], why: str) -> Any:
    looked = _look(function, why)

    def method(self: TracedNumber, other: Any) -> Any:
        if (hasattr(other, "entries") or hasattr(other, "_ag")) and not isinstance(self._plain(), np.generic):
            return NotImplemented                            # NumPy's numbers compare themselves, as arrays
        return looked(self, other)
    return method


def _floor(x: Any) -> Any:
    return x.__floor__()


def _ceil(x: Any) -> Any:
    return x.__ceil__()


def _truncated(x: Any) -> Any:
    return x.__trunc__()


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"):
    _function = pow if _name == "pow" else getattr(operator, _name)
    setattr(TracedNumber, f"__{_name}__", _arithmetic(_function, False))
    setattr(TracedNumber, f"__r{_name}__", _arithmetic(_function, True))
for _name, _function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
    setattr(TracedNumber, f"__{_name}__", _arithmetic(_function, False))
    setattr(TracedNumber, f"__r{_name}__", _arithmetic(_function, True))
for _name, _function in (("neg", operator.neg), ("pos", operator.pos), ("abs", abs), ("invert", operator.invert),
                         ("round", round), ("floor", _floor), ("ceil", _ceil), ("trunc", _truncated)):
    setattr(TracedNumber, f"__{_name}__", _alone(_function))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(TracedNumber, f"__{_name}__", _compared(getattr(operator, _name), "it is compared with a number"))
for _name, _function, _why in (("bool", bool, "if, while, and, or or not tests it"), ("float", float, "float() of it"),
                               ("int", int, "int() of it"), ("index", operator.index, "it is a size, index or axis"),
                               ("complex", complex, "complex() of it"), ("hash", hash, "its hash is asked for"),
                               ("str", str, "a text is made of it"), ("repr", repr, "a text is made of it"),
                               ("format", format, "a text is made of it"), ("divmod", divmod, "divmod() of it")):
    setattr(TracedNumber, f"__{_name}__", _look(_function, _why))


def set_at_each_call(owner: Any, name: str, value: Any) -> None:
    """Give an attribute of an object of this library a number: in traced code at each call, before the program runs."""
    trace = tracing()
    if not hasattr(trace, "before") or trace.in_body:
        setattr(owner, name, value)
        return
    old = getattr(owner, name)
    number = value._trace.at_each_call(value._at) if type(value) is TracedNumber else lambda: value
    trace.before.append(lambda: setattr(owner, name, number()))
    trace.put_back.append(lambda: setattr(owner, name, old))
    setattr(owner, name, value)


def looked_at(value: Any, why: str) -> Any:
    """A value with the numbers of this call in the place of traced ones, which the code looks at."""
    if type(value) is TracedNumber:
        return value._looked(why)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(looked_at(v, why) for v in value)
    return value


def looked_at_in(operator_name: str, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
    """An operator's attributes, which are constants of a program."""
    return {k: looked_at(v, f"operator {operator_name} takes it as its {k}") for k, v in attrs.items()}


def of_this_call(value: Any) -> Any:
    """A value, nested in lists, tuples and dicts, with the numbers of this call in the place of traced ones."""
    if type(value) is TracedNumber:
        return value._plain()
    if isinstance(value, dict):
        return {k: of_this_call(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [of_this_call(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
