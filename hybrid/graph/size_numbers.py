"""Numbers that traced code computes from symbolic sizes (ir/size.py), as in ``x / x.shape[0]`` and ``1 / len ** 0.5``.

They are traced numbers (traced_number.py): Python computes them, by its own rules, once for each set of sizes, and what
meets an array is an input of the program. Code that looks at one has a program for each size.
"""
from __future__ import annotations

import operator
import weakref
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..base import dtype as dt
from ..base.device import Context
from ..base.errors import user_location
from ..base.scope import tracing
from ..buffers.array import NDArray, array
from ..ir.at_sizes import at_values
from ..ir.size import Size, Specialised, hint
from .traced_number import TracedNumber, is_number, is_real


class SizeNumbers:
    """The numbers of one trace that are computed from sizes. make: makes the input for one of them, from what computes
    it for concrete sizes, and its dtype."""

    def __init__(self, make: Callable[["Computed", np.dtype], Any]):
        self._make = make
        self.values: list[Any] = []                          # at the sizes of the trace
        self._how: list[Any] = []                            # of each a size, or a function and operands
        self._inputs: dict[int, Any] = {}
        self._made: list[Any] = []

    def number(self, x: Any) -> Any:
        """A size as a number; what is none stays as it is."""
        return self._new(hint(x), x) if type(x) is Size else x

    def _new(self, value: Any, how: Any) -> TracedNumber:
        self.values.append(value)
        self._how.append(how)
        made = TracedNumber(self, len(self.values) - 1)      # type: ignore[arg-type]
        self._made.append(weakref.ref(made))
        return made

    def look(self, at: int, why: str) -> Any:
        """Raises Specialised: the code looks at the number."""
        raise Specialised(f"{user_location()}: {why}, a number computed from a size")

    def derive(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """What a function gives for numbers, some of them traced."""
        operands = [self.number(x) for x in operands]
        given = tuple((True, x._at) if type(x) is TracedNumber else (False, x) for x in operands)
        if any(type(x) is TracedNumber and x._trace is not self for x in operands):
            raise Specialised(f"{user_location()}: a size meets a number among the arguments")
        value = function(*(self.values[x] if traced else x for traced, x in given))
        made = self._new(value, (function, given))
        return made if is_number(value) else self.look(made._at, f"{function.__name__} of it gives no number")

    def at(self, k: int, sizes: Mapping[str, int]) -> Any:
        """A number for concrete sizes."""
        how = self._how[k]
        if type(how) is Size:
            return at_values(how, sizes)
        function, given = how
        return function(*(self.at(x, sizes) if traced else x for traced, x in given))

    def symbol(self, at: int, dtype: np.dtype) -> Any:
        """The input for a number."""
        if at not in self._inputs:
            real = is_real(type(self.values[at]))
            self._inputs[at] = self._make(Computed(self, at), dt.float64 if real else dt.int64)
        return self._inputs[at]

    def at_each_call(self, at: int) -> Callable[[], Any]:
        """Raises Specialised: what is done before each call is the same for all sizes."""
        raise Specialised(f"{user_location()}: a number computed from a size is set")

    def settle(self) -> None:
        """Raises Specialised where the code keeps or returns a number."""
        if any(made() is not None for made in self._made):
            raise Specialised("the code keeps or returns a number computed from a size")


class Computed:
    """What gives the array of an input that is computed from sizes."""

    def __init__(self, numbers: SizeNumbers, k: int, sizes: Mapping[str, int] | None = None):
        self._numbers, self._k, self._sizes = numbers, k, sizes
        self._arrays: dict[Context, NDArray] = {}

    def value(self) -> Any:
        """The number."""
        return self._numbers.values[self._k] if self._sizes is None else self._numbers.at(self._k, self._sizes)

    def data(self, ctx: Context) -> NDArray:
        """The array, on a device."""
        if ctx not in self._arrays:
            real = is_real(type(self._numbers.values[self._k]))
            self._arrays[ctx] = array(np.array(self.value(), dt.float64 if real else dt.int64), ctx)
        return self._arrays[ctx]

    def fits(self) -> bool:
        """Whether it is a number of the class that it had in the trace."""
        try:
            return type(self.value()) is type(self._numbers.values[self._k]) and abs(self.value()) < 2 ** 63
        except ArithmeticError:
            return False

    def at(self, sizes: Mapping[str, int]) -> "Computed":
        """The same for concrete sizes."""
        return Computed(self._numbers, self._k, sizes)


def with_numbers(*values: Any) -> list[Any]:
    """Values with numbers in the place of sizes, in traced code."""
    numbers = getattr(tracing(), "size_numbers", None)
    if numbers is None:
        raise Specialised(f"{user_location()}: a size is used as a number")
    return [numbers().number(x) for x in values]


def _arithmetic(function: Callable[..., Any], swapped: bool, plain: Any) -> Any:
    def method(self: Size, other: Any) -> Any:
        found = plain(self, other) if plain is not None else NotImplemented
        if found is not NotImplemented or not isinstance(other, (int, float, Size, TracedNumber, np.generic)):
            return found
        x, y = with_numbers(*((other, self) if swapped else (self, other)))
        return (x if type(x) is TracedNumber else y)._trace.derive(function, (x, y))
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _prefix in ("", "r"):
        _method = f"__{_prefix}{_name}__"
        setattr(Size, _method, _arithmetic(pow if _name == "pow" else getattr(operator, _name), bool(_prefix),
                                           vars(Size).get(_method)))
