"""A row of the tables of operator cases (op_cases_tensor.py, op_cases_index.py): one call and NumPy's answer."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

from hybrid.ir import Program
from hybrid.ops import registry

rng = np.random.default_rng(11)


@dataclass(frozen=True)
class Case:
    """One call of an operator. expect: function of the inputs (and nothing else), giving an array or several."""
    name: str
    inputs: tuple[np.ndarray, ...]
    expect: Callable[..., Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    grad: bool = True
    tol: float = 2e-6
    train: bool = False

    def program(self, inputs: tuple[np.ndarray, ...] | None = None) -> Program:
        """The operator's program for these inputs (default: the row's own)."""
        xs = self.inputs if inputs is None else inputs
        d = registry.find(self.name)
        given = dict(self.attrs)
        if d.arity_attr:
            given.setdefault(d.arity_attr, len(xs))
        missing = [] if d.variadic else [None] * (len(d.inputs) - len(xs))
        return d.program([x.shape for x in xs] + missing, [x.dtype for x in xs] + missing, d.parse(given), self.train)

    def expected(self) -> list[np.ndarray]:
        """NumPy's answers."""
        with np.errstate(all="ignore"):
            out = self.expect(*self.inputs)
        return [np.asarray(o) for o in (out if isinstance(out, (list, tuple)) else [out])]


CASES: list[Case] = []


def case(name: str, inputs: Any, expect: Callable[..., Any], *, grad: bool = True, tol: float = 2e-6,
         **attrs: Any) -> None:
    """Add a row."""
    CASES.append(Case(name, tuple(np.asarray(x) for x in inputs), expect, attrs, grad, tol))


def f(*shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> np.ndarray:
    """Floats that keep away from integers and halves, where rounding and comparisons jump."""
    x = rng.uniform(low, high, shape)
    return np.where(np.abs(2 * x - np.round(2 * x)) < 0.05, x + 0.06, x).astype(dtype)


def i(*shape: int, low: int = -5, high: int = 6, dtype: str = "int32") -> np.ndarray:
    """Integers."""
    return rng.integers(low, high, shape).astype(dtype)


def like(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose result takes the dtype of its first argument."""
    return lambda x, *more: np.asarray(fn(x, *more)).astype(x.dtype)


def one_axis(fn: Callable[..., Any]) -> Callable[..., Any]:
    """MXNet's arrays have an axis at least: a scalar result has shape (1,)."""
    def wrapped(*xs: Any) -> Any:
        y = np.asarray(fn(*xs))
        return y.astype(xs[0].dtype).reshape(y.shape or (1,))
    return wrapped
