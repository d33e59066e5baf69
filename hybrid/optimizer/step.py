"""A prepared update of some parameters: arrays collected once, then numbers filled in and one program called at each
step."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ..base import pending, rng
from .. import runtime
from ..base import dtype as dt
from ..buffers.array import REBINDS, NDArray, wrap
from ..base.device import Context, array_module
from ..autograd.dispatch import common_context
from ..base.errors import DTypeError, HybridError
from ..ir import Program
from .program import row_of


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
        xp = array_module(ctx)
        if xp is np:
            return wrap(host, ctx)                           # type: ignore[no-any-return]
        out: HostNumbers = wrap(xp.zeros(host.shape, host.dtype), ctx, cls)
        out.host_values = host
        return out

    @property
    def _data(self) -> Any:
        if self._stale:
            self._copy[...] = array_module(self._ctx).asarray(self.host_values)
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


class Step:
    """The update of some parameters by one program.

    ``advance()`` counts an update and fills in the numbers (learning rates, ...); ``apply()`` runs the program, which
    writes weights and states in place. whole: indices whose rows are all updated, lazy or not. ``program`` and
    ``inputs`` (arrays by slot) are all that is needed to run it elsewhere.
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
        rows, held = [], []
        for i, w, g, state in zip(indices, weights, grads, states):
            master = multi_precision and optimizer.low_precision(w)
            arrays = optimizer.states_of(w, state, master)
            held.append([x if x.stype == "default" else x.tostype("default") for x in (w, g, *arrays)])
            self.sparse += [(x, dense) for x, dense in zip((w, *arrays), (held[-1][0], *held[-1][2:]))
                            if x is not dense]
            rows.append(row_of(w, held[-1][1], held[-1][2:], master, optimizer.form(i),
                               i not in whole and optimizer.is_lazy(i, w, g, multi_precision)))
        self.program: Program = optimizer.program(rows)
        self._collect(held)

    def _collect(self, held: Sequence[Sequence[NDArray]]) -> None:
        size = self.program.inputs[0].shape[0]
        self.host = np.zeros(size, dt.float64)
        self.numbers = HostNumbers.make(self.host, self.ctx)
        self.inputs: list[NDArray] = [self.numbers]
        self.key: NDArray | None = None
        if self.optimizer.draws:
            self.key_host = np.zeros(2, dt.uint32)
            self.key = HostNumbers.make(self.key_host, self.ctx)
            self.inputs.append(self.key)
        self.inputs += [x for row in held for x in row]
        self.written = [self.inputs[slot] for slot, _ in self.program.updates]
        self.exe: Any = None                                 # compiled when it is first needed
        self.seen = -1

    def fits(self, weights: Sequence[NDArray], grads: Sequence[NDArray], states: Sequence[Any]) -> bool:
        """Whether this is still the update of these arrays (the same objects) under the optimizer's present flags."""
        return (not self.once and self.flags == self.optimizer.flags() and _same(self.weights, weights)
                and _same(self.grads, grads) and _same(self.states, states)
                and (self.seen == REBINDS[0] or self._shapes()))

    def unchanged(self, states: dict[Any, Any]) -> bool:
        """Whether the arrays are where they were, the states those of ``states``, and the optimizer's flags the
        same."""
        if self.seen != REBINDS[0] or self.flags != self.optimizer.flags():
            return False
        for i, s in zip(self.indices, self.states):
            if states.get(i) is not s:
                return False
        return True

    def _shapes(self) -> bool:
        return all(x._data.shape == leaf.shape and x._data.dtype == leaf.dtype
                   for x, leaf in zip(self.inputs, self.program.inputs))

    def advance(self) -> None:
        """Count an update of every parameter and fill in the numbers it uses."""
        pending.settle_for("parameters were updated", self.inputs)
        values = self.optimizer.advance(self.indices)
        if len(values) != self.host.shape[0]:
            raise HybridError(f"{type(self.optimizer).__name__}.numbers must give {len(self.optimizer.scalars)} "
                              f"numbers a parameter: "
                              f"{', '.join(self.optimizer.scalars)}")
        fill(self.numbers, self.host, values)
        if self.key is not None:
            fill(self.key, self.key_host, rng.next_key(len(self.weights)))

    def apply(self) -> None:
        """Run the program on the arrays."""
        exe = runtime.compile(self.program, self.ctx)
        if exe is not self.exe:                              # the first call, or a compiler in the background is done
            self.exe, self.seen = exe, -1
        if self.seen != REBINDS[0]:
            self._bind()
        if runtime.OBSERVERS:
            self.program.memo.setdefault("name", f"{type(self.optimizer).__name__}.update")
            runtime.run(self.program, self.ctx, [x._data for x in self.inputs])
        elif self.bound is None or self.bound() is None:
            self.exe([x._data for x in self.inputs])
        for x in self.written:
            x._bump()
        for x, dense in self.sparse:
            x[:] = dense

    def _bind(self) -> None:
        """Note where the arrays are, so that a call need not look."""
        now, raw = REBINDS[0], [x if isinstance(x, HostNumbers) else x._data for x in self.inputs]
        self.bound: Any = self.exe.bind(range(len(raw)), raw) if hasattr(self.exe, "bind") else None
        self.seen = now

    def run(self) -> None:
        """One update."""
        self.advance()
        self.apply()


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))
