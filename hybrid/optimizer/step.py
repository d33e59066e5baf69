"""A prepared update of some parameters: arrays collected once, then numbers filled in and one program called at each
step, or a few times where many parameters are alike (parts.py)."""
from __future__ import annotations

import functools
from typing import Any, Sequence

import numpy as np

from ..base import pending, rng
from .. import runtime
from ..base import dtype as dt
from ..buffers.array import REBINDS, NDArray, wrap
from ..base.device import Context, array_module, zeros
from ..buffers.moving import put
from ..autograd.dispatch import common_context
from ..base.errors import DTypeError, HybridError
from ..ir import Program
from . import parts
from .program import Row, row_of


def flat(state: Any) -> list[NDArray]:
    """The arrays in a state, in order."""
    if state is None:
        return []
    if isinstance(state, NDArray):
        return [state]
    if isinstance(state, (tuple, list)):
        return [x for part in state for x in flat(part)]
    raise DTypeError(f"an optimizer's state is None, an array, or a tuple of them, got {type(state).__name__}")


class HostNumbers(NDArray):
    """Numbers that are filled in on the host before each update. A compiled program takes them by value with its
    launches (``host_values``); whoever reads the array on the GPU has them copied there first.
    """
    __slots__ = ("host_values", "_copy", "_stale")
    host_values: np.ndarray
    _copy: Any
    _stale: bool

    @classmethod
    def make(cls, host: np.ndarray, ctx: Context) -> NDArray:
        """Such an array of host memory; on the CPU a plain array of that very memory."""
        if array_module(ctx) is np:
            return wrap(host, ctx)                           # type: ignore[no-any-return]
        out: HostNumbers = wrap(zeros(host.shape, host.dtype, ctx), ctx, cls)
        out.host_values = host
        return out

    @property
    def _data(self) -> Any:
        if self._stale:
            put(self._copy, ..., self.host_values, self._ctx)
            self._stale = False
        return self._copy

    @_data.setter
    def _data(self, raw: Any) -> None:
        self._copy, self._stale = raw, False


def fill(numbers: NDArray, host: np.ndarray, values: Any) -> None:
    """Put values into the host memory of an array that HostNumbers made."""
    host[:] = values
    if isinstance(numbers, HostNumbers):
        numbers._stale = True


class Part:
    """Some parameters of an update, the program that updates them, and its inputs by slot."""

    def __init__(self, step: "Step", members: Sequence[int], held: Sequence[Sequence[NDArray]]):
        optimizer = step.optimizer
        self.ctx, self.program = step.ctx, optimizer.program([step.rows[k] for k in members])
        each, shared = len(optimizer.scalars), len(optimizer.shared)
        self.numbers, self.host = step.numbers, step.host
        # the places of its numbers among those of all parameters; None: it has all of them
        self.places: np.ndarray | None = None
        if len(members) < len(step.rows):
            self.places = np.array([*range(shared), *(shared + each * k + i for k in members for i in range(each))])
            self.host = np.zeros(len(self.places), dt.float64)
            self.numbers = HostNumbers.make(self.host, self.ctx)
        self.inputs: list[NDArray] = [self.numbers, *([step.key] if step.key is not None else []),
                                      *(x for row in held for x in row)]
        self.written = [self.inputs[slot] for slot, _ in self.program.updates]
        self.exe: Any = None                                 # compiled when it is first needed
        self.seen = -1

    def has_shapes(self) -> bool:
        """Whether the arrays still are what the program takes."""
        return all(x._data.shape == leaf.shape and x._data.dtype == leaf.dtype
                   for x, leaf in zip(self.inputs, self.program.inputs))

    def run(self, step: "Step") -> None:
        """Run the program on the arrays, with the numbers of the step."""
        if self.places is not None:
            fill(self.numbers, self.host, step.host[self.places])
        exe = runtime.compile(self.program, self.ctx)
        if exe is not self.exe:                              # the first call, or a compiler in the background is done
            self.exe, self.seen = exe, -1
        if self.seen != REBINDS[0]:
            self._bind()
        if runtime.OBSERVERS:
            self.program.memo.setdefault("name", f"{type(step.optimizer).__name__}.update")
            runtime.run(self.program, self.ctx, [x._data for x in self.inputs])
        elif self.bound is None or self.bound() is None:
            self.exe([x._data for x in self.inputs])
        for x in self.written:
            x._bump()

    def _bind(self) -> None:
        """Note where the arrays are, so that a call need not look."""
        now, raw = REBINDS[0], [x if isinstance(x, HostNumbers) else x._data for x in self.inputs]
        self.bound: Any = self.exe.bind(range(len(raw)), raw) if hasattr(self.exe, "bind") else None
        self.seen = now


class Step:
    """The update of some parameters, by one program or one for each part.

    ``advance()`` counts an update and fills in the numbers (learning rates, ...); ``apply()`` runs the programs, which
    write weights and states in place. whole: indices whose rows are all updated, lazy or not. ``program`` updates all
    parameters, for those who put it into a program of theirs; its numbers and key are ``numbers`` and ``key``.
    """

    def __init__(self, optimizer: Any, indices: Sequence[Any], weights: Sequence[NDArray], grads: Sequence[NDArray],
                 states: Sequence[Any],
                 multi_precision: bool, whole: Sequence[Any] = ()):
        for x in (*weights, *grads):
            if not isinstance(x, NDArray):
                raise DTypeError(f"optimizers update arrays, got {type(x).__name__}")
        self.optimizer, self.indices, self.weights, self.grads = optimizer, list(indices), list(weights), list(grads)
        self.states, self.multi_precision = list(states), multi_precision
        self.ctx = common_context(f"update by {type(optimizer).__name__}", [*weights, *grads])
        self.flags = optimizer.flags()
        # weights and states with sparse storage and the dense copies that are updated
        self.sparse: list[tuple[Any, NDArray]] = []
        # whether it is of dense copies, so that it cannot be run again
        self.once = any(x.stype != "default" for x in (*weights, *grads))
        self.rows: list[Row] = []
        self._held: list[list[NDArray]] = []                 # weight, gradient and states of each
        for i, w, g, state in zip(indices, weights, grads, states):
            master = multi_precision and optimizer.low_precision(w)
            arrays = optimizer.states_of(w, state, master)
            held = [x if x.stype == "default" else x.tostype("default") for x in (w, g, *arrays)]
            self._held.append(held)
            self.sparse += [(x, dense) for x, dense in zip((w, *arrays), (held[0], *held[2:])) if x is not dense]
            self.rows.append(row_of(w, held[1], held[2:], master, optimizer.form(i),
                                    i not in whole and optimizer.is_lazy(i, w, g, multi_precision)))
        self.host = np.zeros(len(optimizer.shared) + len(optimizer.scalars) * len(self.rows), dt.float64)
        self.numbers = HostNumbers.make(self.host, self.ctx)
        self.key: NDArray | None = None
        if optimizer.draws:
            self.key_host = np.zeros(2, dt.uint32)
            self.key = HostNumbers.make(self.key_host, self.ctx)

    @functools.cached_property
    def program(self) -> Program:
        """The program that updates all parameters."""
        return self.optimizer.program(self.rows)             # type: ignore[no-any-return]

    @functools.cached_property
    def parts(self) -> list[Part]:
        """The parts of the update, in the order in which they run."""
        arrays = [x for held in self._held for x in held]
        # draws are numbered within a program, on a GPU each part is a launch, shared arrays must be updated together
        whole = self.key is not None or self.ctx.device_type != "cpu" or len(set(map(id, arrays))) < len(arrays)
        members = [list(range(len(self.rows)))] if whole else parts.alike(self.rows)
        return [Part(self, some, [self._held[k] for k in some]) for some in members]

    def fits(self, weights: Sequence[NDArray], grads: Sequence[NDArray], states: Sequence[Any]) -> bool:
        """Whether this is still the update of these arrays (the same objects) under the optimizer's present flags."""
        return (not self.once and self.flags == self.optimizer.flags() and _same(self.weights, weights)
                and _same(self.grads, grads) and _same(self.states, states)
                and all(p.seen == REBINDS[0] or p.has_shapes() for p in self.parts))

    def unchanged(self, states: dict[Any, Any]) -> bool:
        """Whether the arrays are where they were, the states those of ``states``, and the optimizer's flags the
        same."""
        if any(p.seen != REBINDS[0] for p in self.parts) or self.flags != self.optimizer.flags():
            return False
        for i, s in zip(self.indices, self.states):
            if states.get(i) is not s:
                return False
        return True

    def advance(self) -> None:
        """Count an update of every parameter and fill in the numbers it uses."""
        pending.settle_for("parameters were updated", [self.numbers, *(x for held in self._held for x in held)])
        values = self.optimizer.advance(self.indices)
        if len(values) != self.host.shape[0]:
            raise HybridError(f"{type(self.optimizer).__name__}.numbers must give {len(self.optimizer.scalars)} "
                              f"numbers a parameter: "
                              f"{', '.join(self.optimizer.scalars)}")
        fill(self.numbers, self.host, values)
        if self.key is not None:
            fill(self.key, self.key_host, rng.next_key(len(self.weights)))

    def apply(self) -> None:
        """Run the programs on the arrays."""
        for part in self.parts:
            part.run(self)
        for x, dense in self.sparse:
            x[:] = dense

    def run(self) -> None:
        """One update."""
        self.advance()
        self.apply()


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))
