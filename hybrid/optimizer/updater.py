"""Updater: an optimizer with the states of the parameters it has met."""
from __future__ import annotations

from typing import Any

from ..buffers.array import REBINDS, NDArray
from . import rows
from .base import Optimizer
from .states import dump_states, load_states
from .step import Step, flat

KEPT = 64                        # prepared steps an updater keeps


class Updater:
    """Updates weights by index, keeping their states: ``updater(index, grad, weight)``; lists update many in one
    program.

    >>> from hybrid import nd
    >>> updater, w = get_updater(Optimizer.create_optimizer("test")), nd.ones((2,))
    >>> updater(0, nd.ones((2,)), w); w.asnumpy().tolist()
    [2.0, 2.0]
    """

    def __init__(self, optimizer: Optimizer):
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}
        self.aggregate_updates = True
        self._steps: dict[Any, Step] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_steps": {}}               # prepared again: they are of these very arrays

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        if isinstance(index, (list, tuple)):
            self.update(list(index), list(grad), list(weight))
        else:
            self.update([index], [grad], [weight])

    def update(self, indices: list[Any], grads: list[Any], weights: list[Any]) -> Step | None:
        """Update the parameters of some indices. The prepared step, if the optimizer's rule is a program."""
        indices = [i.decode() if isinstance(i, bytes) else i for i in indices]
        if not indices:
            return None
        self.optimizer._set_current_context(weights[0].ctx.device_id)
        states = [self.state(i, w) for i, w in zip(indices, weights)]
        if self.optimizer.is_compiled():
            if any(g.stype != "default" for g in grads if isinstance(g, NDArray)):
                return rows.update(self.optimizer, indices, weights, grads, states, True, self._whole)
            step = self.prepared(indices, grads, weights, states)
            step.run()
            return step
        if self.optimizer.takes_lists:
            self.optimizer.update_multi_precision(indices, weights, grads, states)
            return None
        for row in zip(indices, weights, grads, states):
            self.optimizer.update_multi_precision(*row)
        return None

    def state(self, index: Any, weight: NDArray) -> Any:
        """The state of a parameter, made when it is first asked for, on the weight's device."""
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
            self.states_synced[index] = True
        elif not self.states_synced.get(index, True):
            state = self.sync_state_context(self.states[index], weight.ctx)
            self.states[index] = with_new_copy(self.optimizer, index, weight, state)
            self.states_synced[index] = True
        return self.states[index]

    def _whole(self, _: Any, indices: list[Any], weights: list[Any], grads: list[Any], states: list[Any],
               multi_precision: bool) -> Step:
        return self.prepared(indices, grads, weights, states)

    def prepared(self, indices: list[Any], grads: list[Any], weights: list[Any], states: list[Any]) -> Step:
        """The prepared step of these arrays: the last one of these indices if it is for the same arrays."""
        key = tuple(indices)
        step = self._steps.get(key)
        if step is None or step.optimizer is not self.optimizer or not step.fits(weights, grads, states):
            if len(self._steps) >= KEPT:
                self._steps.clear()
            step = self._steps[key] = Step(self.optimizer, indices, weights, grads, states, True)
        return step

    def sync_state_context(self, state: Any, context: Any) -> Any:
        """A state on a device."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(s, context) for s in state)
        return state

    def get_states(self, dump_optimizer: bool = False, loss_scaler: Any = None) -> bytes:
        """States as bytes; with dump_optimizer also counts, hyperparameters and the position of the lr_scheduler; with
        a loss_scaler (mixed precision) also its scale.

        The format is an .npz archive of arrays and JSON, not MXNet's pickle: reading it runs no code.
        """
        return dump_states(self.states, self.optimizer if dump_optimizer else None, loss_scaler)

    def set_states(self, states: bytes, loss_scaler: Any = None) -> None:
        """Take over what :meth:`get_states` gave, here or in MXNet. FileFormatError when it is damaged, of another kind
        or another optimizer's."""
        self.states = load_states(states, self.optimizer, loss_scaler)
        self.states_synced = dict.fromkeys(self.states, False)
        REBINDS[0] += 1                                  # compiled steps look for the states again
        self._steps.clear()


def with_new_copy(optimizer: Optimizer, index: Any, weight: NDArray, state: Any) -> Any:
    """A state that was saved without a float32 copy of its weight, with a copy where multi_precision now asks for one:
    earlier versions had none of float16 weights with sparse storage. Any other state as it is."""
    own = type(optimizer).create_state_multi_precision is not Optimizer.create_state_multi_precision
    if own or not optimizer.low_precision(weight):
        return state
    made = optimizer.create_state_multi_precision(index, weight)
    inner, _ = optimizer.parted_state(made)
    if not _alike(state, inner):
        return state
    for new, old in zip(flat(inner), flat(state)):
        new[:] = old.astype(new.dtype)
    return made


def _alike(state: Any, other: Any) -> bool:
    """Whether states are arrays of the same shapes, in tuples (or lists) of the same lengths."""
    if isinstance(state, NDArray) and isinstance(other, NDArray):
        return bool(state.shape == other.shape)
    if isinstance(state, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(state) == len(other) and all(map(_alike, state, other))
    return state is None and other is None


def get_updater(optimizer: Optimizer) -> Updater:
    """An :class:`Updater` of an optimizer."""
    return Updater(optimizer)
