"""What traced code gives back: results that are inputs, views and new values, and the program that computes them."""
from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ContextManager, Sequence

from .. import runtime
from ..autograd.demands import outcome
from ..base.pytree import like
from ..graph.lower import lower, unless_refused
from ..graph.node_notes import cut, detached
from ..graph.symbol import Symbol
from ..ir import Program
from ..ir.roundable import rounding
from .changes import Change
from .compiled_call import Entry
from .trace_state import Trace, active
from .view_steps import view_steps


def _views_of_results(leaves: Sequence[Symbol], given: dict[int, tuple[str, int]]) -> dict[int, Any]:
    """Results that are views of another result: where each stands, and of which one it is a view, and how."""
    own = {id(s): given[id(s)][1] for s in leaves if given.get(id(s), ("input", 0))[0] == "output"}

    def of(s: Symbol, among: dict[int, int]) -> Any:
        return view_steps(s, {k: i for k, i in among.items() if k != id(s)}) if s._base is not None else None
    whole = {id(s): own[id(s)] for s in leaves if id(s) in own and of(s, own) is None}
    return {own[id(s)]: ("output", *of(s, whole)) for s in leaves if id(s) in own and id(s) not in whole}


def separate(value: Any) -> Any:
    """Results with Symbols of several outputs as lists, as eager calls give them."""
    if isinstance(value, Symbol) and len(value.entries) > 1:
        return [Symbol([e]) for e in value.entries]
    if isinstance(value, dict):
        items = {k: separate(v) for k, v in value.items()}
        return items if type(value) is dict else like(type(value), getattr(value, "default_factory", None), items)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(separate(v) for v in value)
    return value


def _picked(trace: Trace, leaves: list[Symbol], changes: Sequence[Change],
            ) -> tuple[list[tuple[str, int]], list[Symbol], dict[int, Any]]:
    """Where each result comes from, an input or an output of the program; the outputs; those that are views, of what
    and how."""
    originals = {id(h): i for i, (h, _) in enumerate(trace.handles)}
    picks: list[tuple[str, int]] = []
    outputs: list[Symbol] = []
    leaves = list(leaves)
    # a value that is assigned is a result too, the same array where it is returned as well
    for c in changes:
        for s in c.traced:
            at = next((i for i, known in enumerate(leaves) if known is s), len(leaves))
            leaves += [s] if at == len(leaves) else []
            c.results.append(at)
    views: dict[int, Any] = {}
    given: dict[int, Any] = {}                           # what a value is given back as
    for s in leaves:
        if id(s) in originals:                           # an input handed through: the caller's own array
            picks.append(("input", originals[id(s)]))
            continue
        if id(s) in given:                               # the same array twice
            picks.append(given[id(s)])
            continue
        given[id(s)] = ("output", len(outputs))
        if not trace.recording and (of := view_steps(s, originals)) is not None:
            views[len(outputs)] = "input", *of
        picks.append(("output", len(outputs)))
        outputs.append(Symbol([cut(s._one()) if trace.recording else s._one()]))
    if not trace.recording:
        views.update(_views_of_results(leaves, given))
    return picks, outputs, views


def _lowered(trace: Trace, outputs: Sequence[Symbol], changed: Sequence[tuple[int, Symbol]], name: str,
             ) -> tuple[Program, Any]:
    """The program of the outputs and of the inputs' new values, and what it draws."""
    group = Symbol([e for s in [*outputs, *(h for _, h in changed)] for e in s.entries])
    with _precision_of(trace):
        program, draws = lower(group, trace.variables, trace.train, trace.stateful)
    n = len(outputs)
    updates = {slot: node for slot, node in program.updates}
    updates.update({i: node for (i, _), node in zip(changed, program.outputs[n:])})
    if trace.demands:
        updates = unless_refused(program, program.outputs[n - 1], updates)
    origins = program.memo["origins"]
    program = Program(program.inputs, program.outputs[:n], tuple(updates.items()))
    program.memo.update(origins=origins, name=name)
    return program, draws


def _precision_of(trace: Trace) -> ContextManager[None]:
    """Where gradients are wanted, the scope in which products with parameters are made in a lower precision."""
    learns = trace.recording or trace.gradients or trace.leaves
    if trace.precision != "bf16" or not learns or "bfloat16" not in runtime.words(trace.ctx):
        return nullcontext()
    given = len(trace.given)
    return rounding({i for i, h in enumerate(trace.holders) if i >= given and not hasattr(h, "of_call")})


def entry_of(trace: Trace, leaves: list[Symbol], structure: Any, cls: Any, changes: list[Change], name: str,
             precision: str | None) -> Entry:
    """The compiled call of a trace. leaves, structure: its results, and how they are put together. cls: the class of
    array that they are. changes: what the code assigned. precision: of products with parameters."""
    trace.finish(leaves)
    changed = trace.changed()
    picks, outputs, views = _picked(trace, leaves, changes)
    results = len(outputs)
    with active(trace):
        for w in trace.watches:
            outputs += [Symbol([detached(s._one()) if trace.recording else s._one()]) for s in w.values]
    if trace.demands:
        with active(trace):
            told = outcome(trace.demands)._one()
        outputs.append(Symbol([cut(told) if trace.recording else told]))
    trace.precision = precision
    program, draws = _lowered(trace, outputs, changed, name)
    entry = Entry(program, draws, trace, structure, picks, cls, [i for i, _ in changed],
                  [c for c in changes if c.traced])
    entry.paused = trace.paused()
    entry.drew, entry.outside, entry.precision = trace.drew, trace.outside, precision
    entry.leaves_traces = bool(changes) or trace.remembered
    entry.watched = results
    entry.look_at(views)
    entry.once = next((f"{c.at}: {name} assigns to {c.what()}" for c in changes if not c.kept), "") or (
        trace.writes and f"{trace.writes[0]}: {name} changes {trace.writes[1]}")
    if trace.recording:
        entry.graph = Symbol([s._one() for s in outputs]), list(trace.variables)
    return entry
