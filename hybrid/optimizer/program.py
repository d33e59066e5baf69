"""One program that updates many parameters: the optimizer's rule, said once on nodes, for every parameter.

Inputs of the program, by slot: 0 the numbers (float64: those all parameters share, then those of each parameter), 1 the
key of random draws if the optimizer draws, then for each parameter its weight, its gradient, its states and, with
multi_precision, the float32 copy of the weight. Weights and states are its ``updates``; it has no outputs. Numbers that
change from step to step (learning rates, ...) are inputs, so a change never compiles anything.
"""
from __future__ import annotations

from typing import Any, Callable, Hashable, Sequence, TypeVar

import numpy as np

from ..base import collector, dtype as dt
from ..base.records import dataclass
from .. import ir
from ..base.errors import DTypeError, ShapeError
from ..ir import Node, Program

Numbers = TypeVar("Numbers", bound=Callable[..., tuple[float, ...]])


def ignores_index(numbers: Numbers) -> Numbers:
    """Decorator for ``numbers`` methods that depend only on (lr, wd, t) and have no side effects. Consecutive
    parameters with equal arguments share one call. Overriding methods need the mark themselves."""
    numbers.ignores_index = True                             # type: ignore[attr-defined]
    return numbers


def numbers_of_all(numbers: Callable[..., Any], indices: Sequence[Any], lrs: Sequence[float], wds: Sequence[float],
                   times: Sequence[int]) -> list[float]:
    """What an optimizer's method ``numbers`` gives for one parameter after the other, in one list. times: the number of
    the update of each parameter."""
    shares, known = getattr(numbers, "ignores_index", False), None
    if shares and _are_equal(lrs) and _are_equal(wds) and _are_equal(times):
        return [*numbers(indices[0], lrs[0], wds[0], times[0])] * len(times)
    out: list[float] = []
    values: Sequence[float] = ()
    for i, lr, wd, t in zip(indices, lrs, wds, times):
        if not shares or (lr, wd, t) != known:
            known, values = (lr, wd, t), numbers(i, lr, wd, t)
        out += values
    return out


def _are_equal(values: Sequence[Any]) -> bool:
    """Whether there are values, and all are the same."""
    return len(values) > 0 and values.count(values[0]) == len(values)


@dataclass(frozen=True)
class Row:
    """What the program has to know of one parameter."""
    shape: tuple[int, ...]
    weight: np.dtype
    grad: np.dtype
    states: tuple[tuple[tuple[int, ...], np.dtype], ...]
    master: bool                                     # whether a float32 copy of the weight follows the states
    form: Hashable = None                            # what else the rule depends on, said by the optimizer
    # whether rows (along the first axis) without a gradient stay as they are, states too
    lazy: bool = False

    @property
    def compute(self) -> np.dtype:
        """The dtype the rule computes in."""
        return dt.float64 if self.weight == dt.float64 else dt.float32


class Scalars:
    """The numbers of an update, as nodes: ``s.lr``, ``s.wd``, ``s.rescale_grad``, ... in the dtype the rule computes
    in.

    form: the parameter's ``form``. key: of its random draws, the next one of the generator for each parameter. stored:
    the weight as it is stored, where ``w`` is its float32 copy.
    """

    def __init__(self, numbers: Node, at: dict[str, int], row: Row, clips: bool, key: Any, stored: Node):
        self._numbers, self._at, self._row, self._clips = numbers, at, row, clips
        self.form, self.key, self.stored = row.form, key, ir.cast(stored, row.compute)

    def __getattr__(self, name: str) -> Node:
        at = self.__dict__["_at"].get(name)
        if at is None:
            raise AttributeError(f"the update rule asks for {name!r}; its numbers are {', '.join(self._at)}: "
                                 "name it in the optimizer's `shared` or `scalars`")
        return ir.cast(ir.reshape(ir.slice(self._numbers, (at,), (1,)), ()), self._row.compute)

    def clip(self, x: Node) -> Node:
        """x within [-clip_gradient, clip_gradient]; x itself when the optimizer does not clip."""
        if not self._clips:
            return x
        bound = self.clip_gradient
        return ir.map("minimum", ir.map("maximum", x, -bound), bound)

    def gradient(self, g: Node) -> Node:
        """The gradient times rescale_grad, clipped."""
        return self.clip(g * self.rescale_grad)


def row_of(weight: Any, grad: Any, states: Sequence[Any], master: bool, form: Hashable, lazy: bool = False) -> Row:
    """The row of a parameter; an error when weight and gradient do not fit."""
    w, g = weight._data, grad._data
    if w.shape != g.shape:
        raise ShapeError(f"the weight has shape {w.shape}, its gradient {g.shape}")
    if not (dt.is_float(w.dtype) and dt.is_float(g.dtype)):
        raise DTypeError(f"only floating-point weights are trained, got a weight of {w.dtype} and a gradient of "
                         f"{g.dtype}")
    return Row(w.shape, w.dtype, g.dtype, tuple((s._data.shape, s._data.dtype) for s in states), master, form,
               lazy and w.ndim > 0)


@collector.waits
def build(optimizer: Any, rows: Sequence[Row]) -> Program:
    """The program that updates parameters described by rows, in their order."""
    shared, scalars = optimizer.shared, optimizer.scalars
    numbers = ir.input(0, (len(shared) + len(scalars) * len(rows),), dt.float64)
    leaves = [numbers]
    key = None
    if optimizer.draws:
        key = ir.input(1, (2,), dt.uint32)
        leaves.append(key)
    updates: list[tuple[int, Node]] = []
    for k, row in enumerate(rows):
        at = {name: i for i, name in enumerate(shared)}
        at.update({name: len(shared) + k * len(scalars) + i for i, name in enumerate(scalars)})
        first = len(leaves)
        for shape, dtype in ((row.shape, row.weight), (row.shape, row.grad), *row.states):
            leaves.append(ir.input(len(leaves), shape, dtype))
        own = ir.map("add", key, ir.data(np.array([0, k], np.uint32))) if key is not None and k else key
        new = _apply(optimizer, row, leaves[first:], Scalars(numbers, at, row, optimizer.clips(), own, leaves[first]))
        slots = [first, *range(first + 2, len(leaves))]
        updates += [(slot, node) for slot, node in zip(slots, new) if node is not leaves[slot]]
    return Program(tuple(leaves), (), tuple(updates))


def _apply(optimizer: Any, row: Row, leaves: Sequence[Node], s: Scalars) -> list[Node]:
    """New weight, states and float32 copy of one parameter, as they are stored."""
    held = leaves[2:-1] if row.master else leaves[2:]
    w, g = (ir.cast(x, row.compute) for x in (leaves[-1] if row.master else leaves[0], leaves[1]))
    states = [ir.cast(_normal(x), row.compute) for x in held]
    name = type(optimizer).__name__
    try:
        new_w, new_states = optimizer.rule(w, g, states, s)
    except (ShapeError, IndexError, ValueError) as err:
        # a rule's own complaint
        if not isinstance(err, (ShapeError, IndexError)) and "to unpack" not in str(err):
            raise
        raise ShapeError(f"{name}: the states (shapes {[x.shape for x in states]}) do not fit a weight of shape "
                         f"{row.shape}: {err}. "
                         "Were they made or saved for another network?") from err
    if len(new_states) != len(states) or any(n.shape != x.shape for n, x in zip([new_w, *new_states], [w, *states])):
        raise ShapeError(f"{name}.rule: from a weight of shape {row.shape} and states of shapes "
                         f"{[x.shape for x in states]} it made a weight of shape "
                         f"{new_w.shape} and states of shapes {[n.shape for n in new_states]}; they must be the same")
    if row.lazy:
        touched = _rows_with_gradient(g)
        new_w, *new_states = (ir.map("where", ir.expand(touched, n.shape), n, x) if n.shape == g.shape else n
                              for n, x in zip([new_w, *new_states], [w, *states]))
    out = [ir.cast(new_w, row.weight), *(ir.cast(n, leaf.dtype) for n, leaf in zip(new_states, held))]
    return [*out, ir.cast(new_w, leaves[-1].dtype)] if row.master else out


def _normal(state: Node) -> Node:
    """A state with 0 in the place of subnormal numbers. An average of gradients that are zero (of a unit that no ReLU
    lets through) shrinks to the smallest subnormals, which times 0.9 are rounded to themselves, and stays there:
    processors take longer for each operation on it, at every step to come.
    """
    if state.dtype not in (dt.float32, dt.float64):
        return state
    return ir.map("where", ir.map("lt", ir.map("abs", state), float(np.finfo(state.dtype).tiny)), 0.0, state)


def _rows_with_gradient(g: Node) -> Node:
    """Whether a row of the gradient has a number other than zero: (rows, 1, …). MXNet's lazy updates leave the other
    rows as they are."""
    size = ir.map("abs", g)
    return ir.map("ne", ir.reduce("max", size, tuple(range(1, g.ndim)), keepdims=True) if g.ndim > 1 else size, 0.0)
