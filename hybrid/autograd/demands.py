"""What the data of a call must hold: indices within an array, matrices that have an inverse, probabilities.

Eagerly a demand is looked at where it is made. In traced code it becomes a part of the program: the program tells with
its results which demands were not met, and by what value, and the call raises the error. What such a call would have
updated stays as it was.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, Sequence

from ..base import scope
from ..base.records import dataclass
from ..base.errors import RangeError, user_location
from ..buffers.array import NDArray
from ..graph.symbol import Symbol
from ..ir.at_sizes import at_values
from ..ops.indexing import beyond
from ..ops.registry import OPS
from .dispatch import DEMANDS, invoke


@dataclass
class Demand:
    """A demand of traced code. wrong: a number that is not 0 if the demand fails. value: fills ``{value}`` in the text.
    sizes: fill its other fields; may be symbolic."""
    wrong: Symbol
    value: Symbol
    error: type[Exception]
    text: str
    at: str
    sizes: Mapping[str, Any]

    def raise_for(self, value: float) -> None:
        """Raise the error, with the line that made the demand."""
        raise self.error(f"{self.at}: {self.text.format(value=_plain(value), **self.sizes)}")

    def for_sizes(self, values: Mapping[str, int]) -> "Demand":
        """The demand in a call with these values of symbolic sizes."""
        return replace(self, sizes={k: at_values(n, values) for k, n in self.sizes.items()}) if self.sizes else self


def demand(wrong: Any, value: Any, error: type[Exception], text: str, **sizes: Any) -> None:
    """Raise ``error(text.format(value=..., **sizes))`` where ``wrong`` is not 0. wrong, value: arrays or traced values
    of one element. sizes: integers, or symbolic ones. Of Symbols outside of a trace, and in the body of a compiled
    loop, nothing is demanded.

    >>> demand(nd.sum(x < 0), nd.min(x), ValueError, "scale must be 0 or more, got {value}")      # doctest: +SKIP
    """
    trace = scope.tracing()
    if trace is not None and isinstance(wrong, (Symbol, NDArray)):
        if not trace.in_body:
            trace.demands.append(Demand(_one(wrong), _one(value), error, text, user_location(), sizes))
    elif isinstance(wrong, NDArray) and wrong.context.device_type != "gpu" and float(wrong.asnumpy().reshape(())):
        raise error(text.format(value=_plain(float(value.asnumpy().reshape(()))), **sizes))


def _one(x: Any) -> Symbol:
    """A number of a program as float64."""
    return invoke(OPS["Reshape"], [invoke(OPS["Cast"], [x], {"dtype": "float64"})], {"shape": (1,)})


def demand_within(x: Any, least: float, most: float, error: type[Exception], text: str, **sizes: Any) -> None:
    """Demand that no element of ``x`` is below ``least`` or above ``most``; ``{value}`` in the text is one that is.
    sizes: see ``demand``."""
    traced = scope.tracing() is not None
    if isinstance(x, NDArray) and not traced and x.context.device_type != "gpu" and x.size:
        host = x._data
        if host.min() >= least and host.max() <= most:
            return
        beyond = host[(host < least) | (host > most)]
        if beyond.size:
            raise error(text.format(value=_plain(float(beyond.flat[0])), **sizes))
    elif isinstance(x, (NDArray, Symbol)) and traced and 0 not in (x.shape or ()):
        low, high = (invoke(OPS[name], [x], {}) for name in ("min", "max"))
        above = _compared("_greater_scalar", high, most)
        wrong = invoke(OPS["broadcast_add"], [_compared("_lesser_scalar", low, least), above], {})
        demand(wrong, invoke(OPS["where"], [above, high, low], {}), error, text, **sizes)


def _plain(number: float) -> float:
    return int(number) if number.is_integer() else number


def _compared(name: str, x: Any, number: float) -> Any:
    return invoke(OPS["Cast"], [invoke(OPS[name], [x], {"scalar": number})], {"dtype": "float64"})


def outcome(demands: Sequence[Demand]) -> Symbol:
    """All demands of a program as one value: for each whether it is not met, and the number that its text names."""
    return invoke(OPS["Concat"], [x for d in demands for x in (d.wrong, d.value)], {"dim": 0})


def check(demands: Sequence[Demand], found: NDArray) -> None:
    """Raise the error of the first demand that a call did not meet. found: its ``outcome``."""
    numbers = found.asnumpy().tolist()
    for k, d in enumerate(demands):
        if numbers[2 * k]:
            d.raise_for(numbers[2 * k + 1])


def of_operator(d: Any, inputs: Sequence[Any], attrs: Any) -> None:
    """What a traced operator demands of its indices (the ``within`` of its row)."""
    shapes = [getattr(x, "shape", None) for x in inputs]
    if any(s is None or any(n is None or n < 0 for n in s) for s in shapes):
        return
    for k, row, least, most in d.within(shapes, attrs):
        index = inputs[k]
        if row is not None:
            index = invoke(OPS["slice_axis"], [index], {"axis": 0, "begin": row, "end": row + 1})
        demand_within(index, least, most, RangeError, beyond(d.name), length=most + 1)


DEMANDS.append(of_operator)
