"""The numbers that an optimizer gives its update program at each step, as C expressions of the learning rate and of the
step's number.

An optimizer computes them in Python (``Optimizer.numbers``). They are computed once with symbols in the place of the
rate and the count; the expressions that result must then give the optimizer's own numbers for some rates and counts.
"""
from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any, Callable, Sequence

from ..base.errors import HybridError

# math.sqrt asks for a float: it is given the square of one of these numbers, and what it gives is known again
_ROOTS = itertools.count(7340033)
TRIALS = ((0.05, 1), (0.1, 2), (0.0007, 13), (1.5, 300))


class Number:
    """An expression of ``rate`` and ``t``. text: in C; value: a function that computes it."""
    roots: dict[float, "Number"] = {}

    def __init__(self, text: str, value: Callable[[float, float], float]):
        self.text, self.value = text, value

    def __float__(self) -> float:
        root = float(next(_ROOTS))
        Number.roots[root] = Number(f"sqrt({self.text})", lambda r, t: math.sqrt(self.value(r, t)))
        return root * root

    def __hash__(self) -> int:
        return hash(self.text)

    def _with(self, other: Any, sign: str, what: Callable[[float, float], float], turned: bool) -> "Number":
        a, b = (of(other), self) if turned else (self, of(other))
        return Number(f"({a.text} {sign} {b.text})", lambda r, t: what(a.value(r, t), b.value(r, t)))

    def __pow__(self, other: Any) -> "Number":
        return _power(self, of(other))

    def __rpow__(self, other: Any) -> "Number":
        return _power(of(other), self)

    def __neg__(self) -> "Number":
        return Number(f"-{self.text}", lambda r, t: -self.value(r, t))


def _operator(sign: str, what: Callable[[float, float], float], turned: bool) -> Callable[[Number, Any], Number]:
    return lambda self, other: self._with(other, sign, what, turned)


for _name, _sign, _do in (("add", "+", lambda a, b: a + b), ("sub", "-", lambda a, b: a - b),
                          ("mul", "*", lambda a, b: a * b), ("truediv", "/", lambda a, b: a / b)):
    setattr(Number, f"__{_name}__", _operator(_sign, _do, False))
    setattr(Number, f"__r{_name}__", _operator(_sign, _do, True))


def _power(a: Number, b: Number) -> Number:
    return Number(f"pow({a.text}, {b.text})", lambda r, t: a.value(r, t) ** b.value(r, t))


def of(x: Any) -> Number:
    """A number as an expression."""
    if isinstance(x, Number):
        return x
    value = float(x)
    if value in Number.roots:
        return Number.roots[value]
    return Number(f"({value!r})" if value < 0 else repr(value) if math.isfinite(value) else "NAN",
                  lambda r, t: value)


def numbers_of(step: Any) -> list[Number]:
    """The numbers of an update program, in its order. HybridError for an optimizer whose numbers are not those of the
    rate and the step's number alone."""
    Number.roots.clear()
    found = [of(v) for v in _computed(step, Number("rate", lambda r, t: r), Number("t", lambda r, t: t))]
    for rate, t in TRIALS:
        if [n.value(rate, t) for n in found] != [float(v) for v in _computed(step, rate, t)]:
            raise _refused(step.optimizer)
    return found


def _computed(step: Any, rate: Any, t: Any) -> Sequence[Any]:
    """What the optimizer computes for a rate and a count; it is left as it was."""
    o, before = step.optimizer, dict(vars(step.optimizer))
    try:
        o.lr, o.lr_scheduler = rate, None
        o._index_update_count = defaultdict(lambda: t)
        set_to = dict(vars(o))
        values = o.gather(step.indices, o._rates(step.indices), o._get_wds(step.indices))
        if any(o.__dict__[k] is not v and o.__dict__[k] != v for k, v in set_to.items()):
            raise _refused(o)
        return values
    except (TypeError, ValueError, AttributeError, ZeroDivisionError) as err:
        raise _refused(o) from err
    finally:
        o.__dict__.clear()
        o.__dict__.update(before)


def _refused(optimizer: Any) -> HybridError:
    return HybridError(f"a training step with {type(optimizer).__name__} cannot be exported to C: the numbers of its "
                       f"updates depend on more than the learning rate and the step's number. Use another optimizer, "
                       f"such as SGD or Adam")


def statements(numbers: Sequence[Number]) -> list[str]:
    """C that fills an array with the numbers; what several of them share is computed once."""
    names: dict[str, str] = {}
    out = []
    for i, n in enumerate(numbers):
        if "(" in n.text and n.text not in names:
            names[n.text] = f"x{len(names)}"
            out.append(f"const double {names[n.text]} = {n.text};")
        out.append(f"n[{i}] = {names.get(n.text, n.text)};")
    return out
