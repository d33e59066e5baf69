"""Gradients inside hybridized code: ``record``, ``backward`` and ``grad`` on traced values.

A gradient is one more node of the operator graph, which becomes primitives when the trace is lowered, so forward,
backward and update are one program. Arrays that collect gradients (parameters, arrays with attach_grad) get theirs
written after the call as in eager code, unless a Trainer used them up within the same program (``Slot.lost``).
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ..base import dtype as dt
from .. import ir
from ..buffers.array import NDArray
from ..base.errors import HybridError, user_location
from ..ir import Node
from ..ops.registry import OpDef, find
from ..passes.differentiate import cotangents
from ..base.scope import tracing
from ..graph.symbol import Symbol, create
from ..graph.symnode import SymNode
from . import traced_rows
from .traced_rows import DenseCopy, RowGradient, is_sparse, laid_out

Info = Sequence["tuple[Any, Any]"]


class Inlined(OpDef):
    """An operator made up on the way: a function from nodes to nodes, with known shapes and dtypes of its results."""

    def __init__(self, name: str, lowering: Callable[[list[Node]], Sequence[Node]], info: Info):
        super().__init__(name, lambda nodes, a: tuple(lowering(nodes)), ("data",), frozenset(), True, (), {}, {},
                         outputs=lambda a: len(info))
        self.info = list(info)

    def infer(self, *_: Any) -> list[Any]:
        """What was said."""
        return list(self.info)


def inline(name: str, inputs: Sequence[Symbol], lowering: Callable[[list[Node]], Sequence[Node]],
           info: Info) -> list[Symbol]:
    """Results of such an operator."""
    d = Inlined(name, lowering, info)
    node = SymNode(d, name, d.parse({}), [s._one() for s in inputs])
    return [Symbol([(node, k)]) for k in range(len(info))]


class Gradient:
    """Stands for the array that collects an owner's gradient: a Parameter's, a captured array's or an argument's."""

    def __init__(self, owner: Any, argument: int | None):
        self.owner, self.argument = owner, argument

    def slot(self, inputs: Sequence[NDArray], ctx: Any) -> Any:
        """The owner's slot on the tape, for a call with these inputs."""
        x = inputs[self.argument] if self.argument is not None else self.owner if isinstance(self.owner,
                NDArray) else self.owner.data(ctx)
        return x._ag

    def of_call(self, inputs: Sequence[NDArray], ctx: Any) -> NDArray:
        """The array."""
        return self.slot(inputs, ctx).grad


def request(owner: Any) -> str:
    """grad_req of a Parameter or an array: write, add or null."""
    if isinstance(owner, NDArray):
        slot = owner._ag
        return slot.req if slot is not None and slot.entry is None and slot.grad is not None else "null"
    return getattr(owner, "_grad_req", "null")


def gradient_of(trace: Any, number: int, read: bool = True) -> Symbol:
    """The traced handle of the gradient array of the trace's input of a number. read: whether what the array holds
    before the call matters."""
    if number not in trace.gradients:
        owner = trace.owner(number)
        node = trace.handles[number][1]
        shape, dtype = node.info[0]
        trace.gradients[number] = len(trace.handles)
        holder: Any = Gradient(owner, number if number < len(trace.given)
                               else None) if not is_sparse(owner, trace.ctx) else DenseCopy(
            trace, number, owner, request(owner) == "add" or read and number not in trace.rows)
        trace.variable(f"grad{number}", holder, shape, dtype)
        if number in trace.rows:                             # it was computed by rows: from here on it is dense
            _put(trace, number, trace.rows.pop(number).dense(inline))
    return trace.handles[trace.gradients[number]][0]


def parameter_gradient(trace: Any, parameter: Any) -> Symbol:
    """``Parameter.grad()`` in a trace."""
    trace.parameter(parameter)
    return gradient_of(trace, next(i for i in range(len(trace.handles)) if trace.owner(i) is parameter))


def _targets(trace: Any, heads: Sequence[Symbol]) -> list[int]:
    """Numbers of the trace's inputs that collect gradients and on which the heads depend."""
    reached = {id(n) for n in Symbol([e for h in heads for e in h.entries]).nodes()}
    return [i for i, (_, node) in enumerate(trace.handles)
            if id(trace.leaves_of.get(i, node)) in reached and request(trace.owner(i)) != "null"
            and dt.has_gradient(node.info[0][1])]


def _heads(heads: Any, head_grads: Any) -> tuple[list[Symbol], list[Symbol]]:
    trace = tracing()
    heads = list(heads) if isinstance(heads, (list, tuple)) else [heads]
    given = ([None] * len(heads) if head_grads is None else list(head_grads) if isinstance(head_grads, (list, tuple))
             else [head_grads])
    traced = [h if isinstance(h, Symbol) else trace.capture(h) for h in heads]
    for h in traced:
        if h._one()[0].opdef is not None and not h._one()[0].recorded:
            raise HybridError(f"{user_location()}: {h!r} was not computed inside autograd.record(), so it has no "
                              f"gradient")
    seeds = [create(find("ones_like"), [h], {}, None) if g is None else g if isinstance(g, Symbol)
             else trace.capture(g) for h, g in zip(traced, given)]
    return traced, seeds


def gradients(heads: Sequence[Symbol], seeds: Sequence[Symbol], wanted: Sequence[Symbol],
              sparse: Sequence[bool] = ()) -> list[Any]:
    """Gradients of the heads times the seeds with respect to traced values, zeros where nothing flows; of those marked
    as sparse lists of (row numbers, rows), where they are gradients of looked-up rows."""
    n = len(heads)
    if any(sparse):
        return _gradients_by_rows(heads, seeds, wanted, sparse)

    def lowering(nodes: list[Node]) -> Sequence[Node]:
        return cotangents(nodes[:n], nodes[n:2 * n], nodes[2 * n:])
    entries = [w._one() for w in wanted]
    return inline("backward", [*heads, *seeds, *wanted], lowering, [m.info[k] for m, k in entries])


def _gradients_by_rows(heads: Sequence[Symbol], seeds: Sequence[Symbol], wanted: Sequence[Symbol],
                       sparse: Sequence[bool]) -> list[Any]:
    layout, info = laid_out(heads, seeds, wanted, sparse, tracing().train)

    def lowering(nodes: list[Node]) -> Sequence[Node]:
        flat, found = traced_rows.gradients(nodes, len(heads), sparse)
        assert found == layout, "the gradient has another form than when it was traced"
        return flat
    values = iter(inline("backward", [*heads, *seeds, *wanted], lowering, info))
    return [next(values) if count is None else [(next(values), next(values)) for _ in range(count)] for count in layout]


def backward(heads: Any, head_grads: Any = None) -> None:
    """``autograd.backward`` on traced values."""
    trace = tracing()
    traced, seeds = _heads(heads, head_grads)
    targets = _targets(trace, traced)
    leaves = [leaf for leaf in trace.leaves if leaf.reached(traced)]
    if not targets and not leaves:
        raise HybridError(f"{user_location()}: nothing that {traced[0]!r} depends on collects gradients: call "
                          f"attach_grad() on an array, or use "
                          "initialized Parameters, before autograd.record()")
    wanted = [*(Symbol([(trace.leaves_of.get(i, trace.handles[i][1]), 0)]) for i in targets),
              *(leaf.value for leaf in leaves)]
    sparse = [i >= len(trace.given) and is_sparse(trace.owner(i), trace.ctx) for i in targets]
    found = gradients(traced, seeds, wanted, [*sparse, *(False for _ in leaves)])
    for i, g in zip(targets, found):
        if isinstance(g, list):
            _put_rows(trace, i, g)
        else:
            _put(trace, i, g)
        trace.used_up.discard(i)                             # another step may use it
    for leaf, g in zip(leaves, found[len(targets):]):
        leaf.take(g)


def _put(trace: Any, number: int, g: Symbol) -> None:
    """Note the dense gradient of an input."""
    handle = gradient_of(trace, number, False)
    new: Any = handle + g if request(trace.owner(number)) == "add" else g  # type: ignore[operator]
    handle.entries = list(new.entries)
    trace.fresh.add(number)


def _put_rows(trace: Any, number: int, pairs: list[tuple[Symbol, Symbol]]) -> None:
    """Note the gradient of an input that the program computes by rows."""
    owner, (shape, dtype) = trace.owner(number), trace.handles[number][1].info[0]
    made = RowGradient(trace, owner, pairs, shape, dtype)
    if number in trace.gradients:                            # a dense one is in use already
        _put(trace, number, made.dense(inline))
        return
    if number in trace.rows:
        if request(owner) == "add":
            made.drop()
            made = RowGradient(trace, owner, [*trace.rows[number].pairs, *pairs], shape, dtype)
        trace.rows[number].drop()
    trace.rows[number] = made


def grad(heads: Any, variables: Any, head_grads: Any = None) -> Any:
    """``autograd.grad`` on traced values."""
    trace = tracing()
    traced, seeds = _heads(heads, head_grads)
    wanted = [v if isinstance(v, Symbol) else trace.capture(v)
              for v in (variables if isinstance(variables, (list, tuple)) else [variables])]
    return gradients(traced, seeds, [Symbol([w._one()]) for w in wanted])


class Leaf:
    """A traced value with attach_grad: gradients stop and are collected here."""

    def __init__(self, value: Symbol, req: str):
        self.value, self.req = Symbol(list(value.entries)), req
        self.grad: Symbol | None = None

    def reached(self, heads: Sequence[Symbol]) -> bool:
        """Whether the heads depend on it."""
        node = self.value._one()[0]
        return any(n is node for n in Symbol([e for h in heads for e in h.entries]).nodes())

    def take(self, g: Symbol) -> None:
        """Collect a gradient."""
        self.grad = self.grad + g if self.req == "add" and self.grad is not None else g      # type: ignore[operator]


def new_variable(value: Symbol) -> Symbol:
    """A traced value through which no gradient flows, as a variable of its own: values that are equal are several."""
    trace = tracing()
    node, k = value._one()
    leaf = next(trace.variables_made)
    [cut] = inline("leaf", [value], lambda nodes: (ir.detach(nodes[0], leaf),), [node.info[k]])
    cut._one()[0].recorded = True
    value.entries = list(cut.entries)
    return cut


def updated(number: int) -> None:
    """An input that a Trainer has updated is a new variable from here on."""
    trace = tracing()
    trace.leaves_of[number] = new_variable(trace.handles[number][0])._one()[0]


def attach_grad(value: Symbol, req: str = "write", stype: Any = None) -> None:
    """``attach_grad`` of a traced value: what comes after depends on it as on a new variable."""
    trace = tracing()
    if trace is None:
        raise HybridError("attach_grad() of a Symbol outside of hybridized code; call it on arrays")
    number = next((i for i, (h, n) in enumerate(trace.handles) if h is value and h._one()[0] is n), None)
    if number is not None and request(trace.owner(number)) != "null":
        return
    cut = new_variable(value)
    if req != "null":
        trace.leaves.append(Leaf(cut, req))


def collected(value: Symbol) -> Symbol | None:
    """``.grad`` of a traced value."""
    trace = tracing()
    if trace is None:
        return None
    for i, (h, _) in enumerate(trace.handles):
        if h is value and request(trace.owner(i)) != "null":
            return gradient_of(trace, i)
    leaf = next((x for x in reversed(trace.leaves) if x.value._one() == value._one()), None)
    if leaf is None:
        return None
    return leaf.grad if leaf.grad is not None else create(find("zeros_like"), [value], {}, None)

