"""``Trainer.step`` inside hybridized code: the update becomes part of the program, weights and states are changed in
place."""
from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

import numpy as np

from .. import ir
from ..base.errors import HybridError, user_location
from ..ir import Node
from ..ir.at_sizes import OfSize
from ..ir.size import fixed, hint
from ..ops.updates_many import finite as all_finite
from ..optimizer import Optimizer
from ..optimizer.step import Step, flat
from ..passes.rewrite import rebuild
from ..base.scope import tracing
from ..graph.symbol import Symbol
from ..base.scope import untraced
from ..autograd.traced_grad import gradient_of, inline, updated
from .per_device import VERSION


SMALL = [1 << 17]                        # elements of a table whose lazy update is a part of the program


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
    """The part of a Trainer that a trace depends on, as a Block is one (see jit.used_blocks)."""
    counted = (VERSION,)

    def __init__(self, trainer: Any):
        self.trainer = trainer

    def _tree_ids(self, into: set[int]) -> None:
        into.add(id(self.trainer))

    def classes(self) -> tuple[type, ...]:
        """Those whose methods run in a step."""
        return type(self.trainer), type(self.trainer._optimizer)

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


def _refuse_elsewhere(trace: Any, trainer: Any) -> None:
    """Refuses a Trainer whose step is not all on the trace's device; one that shares states out runs as plain
    Python."""
    if len(trainer._contexts) != 1 or trainer._contexts[0] != trace.ctx:
        raise HybridError(f"{user_location()}: a compiled training step runs on one device; the Trainer's parameters "
                          f"are on {', '.join(map(str, trainer._contexts))}, the inputs on {trace.ctx}")
    if trainer._own_store is not None:
        raise HybridError(f"{user_location()}: gradients go through a kvstore of type {trainer._own_store.type!r}, "
                          "whose code cannot be compiled: call trainer.step outside of the hybridized function")
    if trainer._shards is not None:
        trace.plain_only("updates a share of the parameters on each rank (shard_states)")


def step(trainer: Any, batch_size: Any, ignore_stale_grad: bool) -> None:
    """One update of all parameters in the active trace."""
    trace = tracing()
    _refuse_elsewhere(trace, trainer)
    trainer._rescale(hint(batch_size))
    numbers = _parameters(trace, trainer, ignore_stale_grad)
    if not numbers:
        return
    late, touched = _by_rows(trace, trainer, numbers)
    if trainer._ranks is not None and any(id(trainer._params[k]) in {id(trace.owner(i)) for i in trace.rows}
                                          for k in numbers):
        raise trainer._ranks.refuse_rows(user_location())
    scaler, updater = trainer._amp_loss_scaler, trainer._updaters[0]
    undo: list[Callable[[], None]] = []
    skipped = [False]
    prepared = _update_in_program(trace, trainer, [k for k in numbers if k not in late],
                                  [s for g in late.values() for _, s in g.pairs], touched)
    at = {id(trace.owner(i)): i for i in range(len(trace.handles))}
    for k in numbers:
        if k not in late:
            p = trainer._params[k]
            trace.updated[id(p)] = functools.partial(updated, at[id(p)])

    def prepare(batch_size: Any) -> None:
        trainer._rescale(batch_size)
        if trainer._ranks is not None:
            trainer._begin()
        updater.optimizer._set_current_context(trace.ctx.device_id)
        undo[:] = [_uncount(updater.optimizer)] if scaler is not None or trace.demands else []
        if prepared is not None:
            prepared.advance()

    def settle() -> None:
        skipped[0] = scaler.left_out(trace.ctx)
        if skipped[0]:
            undo[0]()                                        # a step that is left out is not counted
    trace.before.append(functools.partial(prepare, batch_size) if fixed(batch_size) else OfSize(prepare, batch_size))
    trace.steps.append((trainer, prepared))
    trace.undo.append(lambda: undo[0]())
    if scaler is not None and any(isinstance(b, Update) for b in trace.blocks):
        raise HybridError(f"{user_location()}: a compiled function makes one step of a Trainer whose losses are "
                          f"scaled (amp); make a function of each step")
    if scaler is not None:
        trace.after.insert(0, settle)                        # before what may raise an error
    if late:
        trace.after.append(lambda: None if skipped[0] else _update_rows(trainer, list(late), trace.ctx))
        trace.late.update((id(trainer._params[k]), user_location()) for k in late)
    trace.blocks.append(Update(trainer))


def _by_rows(trace: Any, trainer: Any, numbers: Sequence[int]) -> tuple[dict[int, Any], dict[int, list[Symbol]]]:
    """Of some parameters those whose rows alone are updated: large tables, whose rows are updated after the program has
    run, with their gradients; and small ones, which the program updates as a whole, with the numbers of the rows that
    change.
    """
    inputs = {id(trace.owner(i)): i for i in trace.rows}
    late: dict[int, Any] = {}
    touched: dict[int, list[Symbol]] = {}
    for k in numbers:
        p = trainer._params[k]
        if (i := inputs.get(id(p))) is not None:
            with untraced():
                w = p.data(trace.ctx)
            if trainer._optimizer.is_lazy(k, w, w._ag.grad, True):
                if w.size <= SMALL[0]:
                    touched[k] = [rows for rows, _ in trace.rows[i].pairs]
                else:
                    late[k] = trace.rows[i]
                    trace.used_up.add(i)
    return late, touched


def _update_rows(trainer: Any, numbers: list[int], ctx: Any) -> None:
    """The rows of some parameters by their row_sparse gradients, with the numbers that the step has set."""
    weights = [trainer._params[k].data(ctx) for k in numbers]
    trainer._updaters[0].update(numbers, [w._ag.grad for w in weights], weights)
    for w in weights:
        w._ag.fresh = False


def _update_in_program(trace: Any, trainer: Any, numbers: list[int], rows: Sequence[Symbol],
                       touched: dict[int, list[Symbol]]) -> Step | None:
    """The update of parameters as a part of the program; with a loss scale only if all gradients, ``rows`` too, are
    finite. What counts its steps.

    touched: by parameter the numbers of the rows that are updated, where others stay as they are.
    """
    scaler, updater = trainer._amp_loss_scaler, trainer._updaters[0]
    if not numbers and scaler is None:
        return None
    prepared = None
    if numbers:
        with untraced():
            weights = [trainer._params[i].data(trace.ctx) for i in numbers]
            states = [updater.state(i, w) for i, w in zip(numbers, weights)]
            prepared = Step(trainer._optimizer, numbers, weights, [w._ag.grad for w in weights], states, True,
                            list(touched))
    inputs, grad_slots = _inputs(trace, trainer, updater, numbers, prepared) if prepared is not None else ([], [])
    written = [slot for slot, _ in prepared.program.updates] if prepared is not None else []
    every = list(rows) if scaler is not None else []

    if trainer._ranks is not None and grad_slots:
        _sum_over_ranks(trace, trainer, numbers, inputs, grad_slots)

    def lowering(nodes: list[Any]) -> Any:
        given, extra, marks = (list(nodes[:len(inputs)]), nodes[len(inputs):len(inputs) + len(every)],
                               iter(nodes[len(inputs) + len(every):]))
        finite = all_finite([*(given[i] for i in grad_slots), *extra]) if scaler is not None else None
        new = _updated(prepared.program, given, finite) if prepared is not None else []
        for k, some in touched.items():
            first = grad_slots[numbers.index(k)] - 1
            stop = min((s - 1 for s in grad_slots if s - 1 > first), default=len(inputs))
            mask = _marked([next(marks) for _ in some], given[first].shape[0])
            new = [_where(mask, value, given[s]) if first <= s < stop else value for s, value in zip(written, new)]
        return new if finite is None else [*new, ir.reshape(ir.cast(finite, np.int32), (1,))]
    info = [(prepared.program.inputs[s].shape, prepared.program.inputs[s].dtype)
            for s in written] if prepared is not None else []
    results = inline("update", [*inputs, *every, *(s for some in touched.values() for s in some)], lowering,
                     info if scaler is None else [*info, ((1,), np.dtype(np.int32))])
    for slot, value in zip(written, results):
        inputs[slot].entries = list(value.entries)
    if scaler is not None:
        trace.capture(scaler.finite(trace.ctx)).entries = list(results[-1].entries)
    return prepared


def _updated(program: ir.Program, given: Sequence[Node], finite: Node | None) -> list[Node]:
    """The update values of a program, re-emitted over other nodes in place of its inputs. finite: each new value is
    where(finite, new, old) right at its definition, so that what is computed from it fuses with it."""
    old = {value: given[slot] for slot, value in program.updates}
    new = dict(zip(program.inputs, given))
    for n in (n for n in program.order() if n not in new):
        m = rebuild(n, [new[a] for a in n.args])
        new[n] = ir.map("where", finite, m, old[n]) if finite is not None and n in old else m
    return [new[value] for _, value in program.updates]


def _sum_over_ranks(trace: Any, trainer: Any, numbers: Sequence[int], inputs: list[Symbol],
                    slots: Sequence[int]) -> None:
    """The sums over the ranks in the place of gradients, which are the inputs of some slots. They become the gradients
    where the weights are not updated in the store, as in a step by itself."""
    totals = inline("sums_over_ranks", [inputs[s] for s in slots],
                    lambda nodes: trainer._ranks.in_program(numbers, nodes, trace.ctx),
                    [(inputs[s].shape, np.dtype(inputs[s].dtype)) for s in slots])
    for s, total in zip(slots, totals):
        if trainer._update_on_kvstore:
            inputs[s] = total
        else:
            inputs[s].entries = list(total.entries)


def _marked(rows: Sequence[Node], size: int) -> Node:
    """Whether each of ``size`` rows is among some numbers of rows: (size,)."""
    count = ir.full(0, (size,), np.int32)
    for r in rows:
        count = count + ir.scatter_add(r, ir.full(1, r.shape, np.int32), 0, size)
    return ir.map("gt", count, 0)


def _where(mask: Node, new: Node, old: Node) -> Node:
    """The marked rows of a new value, the others of the old one; arrays without these rows are new."""
    if old.shape[:1] != mask.shape:
        return new
    return ir.map("where", ir.expand(ir.reshape(mask, (-1,) + (1,) * (old.ndim - 1)), old.shape), new, old)


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
        if i is not None and (i in trace.fresh or i in trace.rows) and i not in trace.used_up:
            out.append(k)
        elif not ignore_stale_grad:
            raise trainer.stale(p)
    return out


def _inputs(trace: Any, trainer: Any, updater: Any, numbers: list[int],
            prepared: Step) -> tuple[list[Symbol], list[int]]:
    """The traced handles of the update program's inputs, by slot, and the slots of gradients."""
    out = [trace.renew(prepared.numbers)]
    if prepared.key is not None:
        out.append(trace.renew(prepared.key))
    inputs = {id(trace.owner(i)): i for i in range(len(trace.handles))}
    # of an earlier step
    states = {(id(h.updater), h.index, h.number): trace.handles[i][0]
              for i, h in enumerate(trace.holders) if isinstance(h, State)}
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
        for n, x in enumerate(held):
            known = states.get((id(updater), k, n))
            out.append(known if known is not None else trace.variable(f"state{k}_{n}", State(updater, k, p, n),
                                                                      x.shape, x._data.dtype))
    return out, grads
