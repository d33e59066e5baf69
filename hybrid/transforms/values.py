"""Arrays in nested arguments and results, and functions of arrays as programs that run at once."""
from __future__ import annotations

import itertools
from typing import Any, Callable, Sequence

from .. import ir
from ..autograd import traced_grad
from ..autograd.dispatch import apply_program, common_context
from ..base import pytree, rng
from ..base.device import current_context
from ..base.errors import AttributeValueError, DTypeError, HybridError, user_location
from ..base.scope import SCOPE, tracing
from ..buffers.array import NDArray, wrap
from ..buffers.moving import copied, move
from ..graph.lower import lower
from ..graph.node_notes import detached
from ..graph.symbol import Symbol
from ..ir import Node
from ..ir.vjp import register_grad
from ..jit.trace_state import Trace, active, finish_parameters
from ..jit.watches import show

_serials = itertools.count(1)


def is_array(x: Any) -> bool:
    """Whether a value is an array or a traced array."""
    return isinstance(x, (NDArray, Symbol))


def flatten(value: Any, what: str) -> tuple[list[Any], Any]:
    """The arrays in nested lists, tuples, dicts and objects (base/pytree.py), and the structure. DTypeError where there
    are none."""
    leaves: list[Any] = []
    structure = pytree.flatten(value, is_array, leaves, objects=lambda v: True)
    if not leaves:
        raise DTypeError(f"{user_location()}: {what} must be an array or lists, tuples and dicts of arrays, got "
                         f"{type(value).__name__}: make arrays with nd.array or np.array")
    return leaves, structure


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """The nested value again."""
    return pytree.unflatten(structure, iter(leaves))


def chosen(args: Sequence[Any], argnums: int | Sequence[int], what: str) -> list[int]:
    """Numbers of arguments, none of them negative. AttributeValueError where there is no such argument."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for i in numbers:
        if not -len(args) <= i < len(args):
            raise AttributeValueError(f"{user_location()}: {what}: argnums={argnums}, but the function was called with "
                                      f"{len(args)} positional arguments")
    return [i % len(args) for i in numbers]


@register_grad("variable")
def _through(g: Node, attrs: Any, value: Node, x: Node) -> tuple[Node]:
    return (g,)


def variable(x: Any) -> Any:
    """A value equal to x that a derivative can be taken for, apart from other uses of x; gradients flow on to x."""
    if isinstance(x, Symbol):
        node, k = x._one()
        serial = next(_serials)
        [traced] = traced_grad.inline("variable", [x],
                                      lambda nodes: (ir.with_grad(nodes[0], nodes, "variable", serial),),
                                   [node.info[k]])
        return traced
    program = ir.Program((leaf := ir.input(0, x.shape, x._data.dtype),), (ir.with_grad(leaf, (leaf,), "variable"),))
    if x._ag is not None and SCOPE.recording:
        [out] = apply_program(program, [x])
        return out
    out = wrap(copied(x._data, x._ctx), x._ctx, type(x))
    out.attach_grad()
    return out


def run_traced(fn: Callable[..., Any], arrays: Sequence[NDArray]) -> list[NDArray]:
    """Results of ``fn(*symbols) -> list of symbols`` for arrays: traced, and run at once by NumPy or CuPy.

    Nothing is compiled; the whole is one entry of the tape while recording.
    """
    ctx = common_context("a transformed function", arrays) if arrays else current_context()
    trace = Trace(ctx, SCOPE.training)
    trace.given, trace.transformed = list(arrays), True
    trace.np_semantics = any(getattr(a, "np_semantics", False) for a in arrays)
    with active(trace):
        symbols = [trace.variable(f"data{i}", None, a.shape, a._data.dtype) for i, a in enumerate(arrays)]
        results = [trace.capture(x) if isinstance(x, NDArray) else x for x in fn(*symbols)]
    finish_parameters(trace)
    if trace.changed():
        raise HybridError("a transformed function changes an array in place: return the new value instead")
    with active(trace):
        watched = [detached(s._one()) for w in trace.watches for s in w.values]
    group = Symbol([*(s._one() for s in results), *watched])
    program, draws = lower(group, trace.variables, trace.train, trace.stateful)
    if program.updates:
        raise HybridError("a transformed function changes a layer's state (BatchNorm's running statistics): call it "
                          "in autograd.predict_mode(), or take the layer out")
    held = [h if isinstance(h, NDArray) else h.data(ctx) for h in trace.holders[len(arrays):]]
    inputs = [*arrays, *held]
    if draws:
        key = rng.next_key(draws)
        inputs.append(wrap(move(key, ctx, False), ctx))
    outputs = apply_program(program, inputs, cls=type(arrays[0]) if arrays else None)
    show(trace.watches, outputs[len(results):], ctx, type(arrays[0]) if arrays else NDArray, set())
    return outputs[:len(results)]


def call(fn: Callable[..., Any], leaves: Sequence[Any]) -> list[Any]:
    """``fn(*symbols) -> list of symbols`` on arrays or traced values."""
    trace = tracing()
    if trace is None:
        return run_traced(fn, leaves)
    return fn(*(x if isinstance(x, Symbol) else trace.capture(x) for x in leaves))
