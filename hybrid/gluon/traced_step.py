"""``Trainer.step`` inside hybridized code: the update becomes part of the program, weights and states are changed in
place."""
from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

import numpy as np

from .. import ir
from ..base.errors import HybridError, user_location
from ..ir import Node
from ..optimizer import Optimizer
from ..optimizer.step import Step, flat
from ..passes.rewrite import applied
from ..base.scope import tracing
from ..graph.symbol import Symbol
from ..jit.trace import untraced
from ..autograd.traced_grad import gradient_of, inline
from .per_device import VERSION


class State:
    """Stands for an array of a parameter's optimizer state, which loading states may replace."""

    def __init__(self, updater: Any, index: int, weight: Any, number: int):
        self.updater, self.index, self.weight, self.number = updater, index, weight, number

    def data(self, ctx: Any) -> Any:
        """The array."""
        w = self.weight.data(ctx)
        return arrays_of(self.updater.optimizer, w, self.updater.state(self.index, w))[self.number]


def arrays_of(optimizer: Any, weight: Any, state: Any) -> list[Any]:
    """The arrays of a state in the order of the update program."""
    return optimizer.states_of(weight, state, True) if optimizer.low_precision(weight) else flat(state)


class Update:
    """The part of a Trainer that a trace depends on, as a Block is one (see Hybridized._note_blocks)."""
    counted = (VERSION,)

    def __init__(self, trainer: Any):
        self.trainer = trainer

    def _tree_ids(self, into: set[int]) -> None:
        into.add(id(self.trainer))

    def _trace_version(self) -> Any:
        t = self.trainer
        form = t._optimizer.form
        return id(t), id(t._optimizer), t._optimizer.flags(), tuple([form(i)
                                                                     for i in range(len(t._params))]), tuple(
                [p.grad_req for p in t._params])

    def _counters(self) -> None:
        """An optimizer's attributes are not counted: ``holds`` looks at them."""

    def holds(self) -> Callable[[], bool]:
        """A function that says whether ``_trace_version`` is what it is now, as long as ``counted`` are."""
        t, o = self.trainer, self.trainer._optimizer
        flags, plain, numbers = o.flags(), type(o).form is Optimizer.form, range(len(t._params))
        forms = None if plain else [o.form(i) for i in numbers]

        def same() -> bool:
            return (t._optimizer is o and len(t._params) == len(numbers) and o.flags() == flags
                    and (plain or [o.form(i) for i in numbers] == forms))
        return same


def step(trainer: Any, batch_size: Any, ignore_stale_grad: bool) -> None:
    """One update of all parameters in the active trace."""
    trace = tracing()
    if len(trainer._contexts) != 1 or trainer._contexts[0] != trace.ctx:
        raise HybridError(f"{user_location()}: a compiled training step runs on one device; the Trainer's parameters "
                          f"are on "
                          f"{', '.join(map(str, trainer._contexts))}, the inputs on {trace.ctx}")
    trainer._rescale(batch_size)
    numbers = _parameters(trace, trainer, ignore_stale_grad)
    if not numbers:
        return
    updater = trainer._updaters[0]
    with untraced():
        weights = [trainer._params[i].data(trace.ctx) for i in numbers]
        grads = [w._ag.grad for w in weights]
        states = [updater.state(i, w) for i, w in zip(numbers, weights)]
        prepared = Step(trainer._optimizer, numbers, weights, grads, states, True)
    inputs, grad_slots = _inputs(trace, trainer, updater, numbers, prepared)
    written = [slot for slot, _ in prepared.program.updates]
    program, scaler = prepared.program, trainer._amp_loss_scaler
    undo: list[Callable[[], None]] = []

    def lowering(nodes: list[Any]) -> Any:
        new = applied(program, nodes)
        if scaler is None:
            return new
        finite = _all_finite([nodes[i] for i in grad_slots])             # else everything stays as it is
        return [*(ir.map("where", finite, value, nodes[slot]) for slot, value in zip(written, new)),
                ir.reshape(ir.cast(finite, np.int32), (1,))]
    info = [(program.inputs[s].shape, program.inputs[s].dtype) for s in written]
    results = inline("update", inputs, lowering, info if scaler is None else [*info, ((1,), np.dtype(np.int32))])
    for slot, value in zip(written, results):
        inputs[slot].entries = list(value.entries)

    def prepare() -> None:
        trainer._rescale(batch_size)
        updater.optimizer._set_current_context(trace.ctx.device_id)
        undo[:] = [_uncount(updater.optimizer)] if scaler is not None else []
        prepared.advance()

    def settle() -> None:
        if scaler.left_out(trace.ctx):
            undo[0]()                                        # a step that is left out is not counted
    trace.before.append(prepare)
    if scaler is not None:
        trace.capture(scaler.finite(trace.ctx)).entries = list(results[-1].entries)
        trace.after.insert(0, settle)                        # before what may raise an error
    trace.blocks.append(Update(trainer))


def _all_finite(grads: Sequence[Node]) -> Node:
    """Whether no gradient has an infinity or a NaN in it: a node without axes."""
    parts = [ir.reduce("min", ir.cast(ir.map("isfinite", g), np.int32), tuple(range(g.ndim))) for g in grads]
    return ir.map("gt", functools.reduce(lambda a, b: ir.map("minimum", a, b), parts), 0)


def _uncount(optimizer: Any) -> Callable[[], None]:
    """What sets the counts and numbers of an optimizer and its schedule back to what they are now."""
    holders = [h for h in (optimizer, optimizer.lr_scheduler) if hasattr(h, "__dict__")]
    numbers, counts = [{k: v for k, v in vars(h).items() if type(v) in (int, float)}
                       for h in holders], dict(optimizer._index_update_count)

    def undo() -> None:
        for h, values in zip(holders, numbers):
            h.__dict__.update(values)
        optimizer._index_update_count.clear()
        optimizer._index_update_count.update(counts)
    return undo


def _parameters(trace: Any, trainer: Any, ignore_stale_grad: bool) -> list[int]:
    """Numbers of the parameters to update: those whose gradient was computed in this trace and not used yet."""
    inputs = {id(trace.owner(i)): i for i in range(len(trace.handles))}
    out = []
    for k, p in enumerate(trainer._params):
        if p.grad_req == "null":
            continue
        i = inputs.get(id(p))
        if i is not None and i in trace.fresh and i not in trace.used_up:
            out.append(k)
        elif not ignore_stale_grad:
            raise trainer.stale(p)
    return out


def _inputs(trace: Any, trainer: Any, updater: Any, numbers: list[int],
            prepared: Step) -> tuple[list[Symbol], list[int]]:
    """The traced handles of the update program's inputs, by slot, and the slots of gradients."""
    out = [trace.capture(prepared.numbers)]
    if prepared.key is not None:
        out.append(trace.capture(prepared.key))
    inputs = {id(trace.owner(i)): i for i in range(len(trace.handles))}
    grads = []
    for k in numbers:
        p = trainer._params[k]
        i = inputs[id(p)]
        grads.append(len(out) + 1)
        out += [trace.parameter(p), gradient_of(trace, i)]
        if p.grad_req == "write":
            trace.used_up.add(i)
        with untraced():
            w = p.data(trace.ctx)
            held = arrays_of(trainer._optimizer, w, updater.state(k, w))
        out += [trace.variable(f"state{k}_{n}", State(updater, k, p, n), x.shape, x._data.dtype) for n,
                x in enumerate(held)]
    return out, grads
