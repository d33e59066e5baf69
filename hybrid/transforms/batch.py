"""``vmap``: a function of one example, over a batch of them at once."""
from __future__ import annotations

from typing import Any, Callable, ParamSpec, Sequence, TypeVar

from .. import ir
from ..autograd import traced_grad
from ..base import pytree
from ..base.errors import AttributeValueError, ShapeError, user_location
from ..graph.subgraph import GraphOp, Subgraph
from ..base.scope import tracing
from ..graph.symbol import Symbol
from ..jit.watches import Watch
from ..ir import Node
from ..nd.control_flow import _Scope
from ..ops.attributes import Attrs
from ..ops.registry import Int, Lowered
from ..passes.differentiate import cotangents
from ..passes.vectorize import batched, vectorize
from .transformed import Transformed
from .values import call, flatten, is_array, unflatten


class Vectorized(GraphOp):
    """An operator whose graph is done for each slice along axis 0 of its first ``mapped`` inputs, all at once."""
    parts = ("body",)

    def __init__(self, graph: Subgraph, mapped: int):
        self.mapped, self.size = mapped, 1
        self._set("_vmap", [graph], {"num_args": Int(), "num_outputs": Int()})

    def sliced(self, a: Attrs) -> int:
        return self.mapped

    def _lowered(self, nodes: list[Node], a: Attrs) -> Lowered:
        size = nodes[0].shape[0]
        given = [(n, i < self.mapped) for i, n in enumerate(nodes)]
        leaves = [ir.input(i, n.shape[1:] if flag else n.shape, n.dtype) for i, (n, flag) in enumerate(given)]
        roots, updates = self.graphs[0].lower(leaves, a.train, a.key)
        if updates:
            raise ShapeError("vmap: the function changes a layer's state (BatchNorm's running statistics), which "
                             "would differ from example to example: use predict_mode")
        known = dict(zip(leaves, given))
        return Lowered(tuple(batched(v, size) for v in vectorize(roots, known, size)), {})

    def _draws(self, a: Attrs, train: bool) -> int:
        return self.graphs[0].draws(train)


P = ParamSpec("P")
R = TypeVar("R")


def _frozen(axes: Any) -> Any:
    return tuple(axes) if isinstance(axes, list) else axes


class Mapped(Transformed):
    """What ``vmap`` gives."""
    what = "vmap"
    in_axes: Any
    out_axes: Any

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        axes = list(self.in_axes) if isinstance(self.in_axes, tuple) else [self.in_axes] * len(args)
        if len(axes) != len(args):
            raise AttributeValueError(f"{user_location()}: vmap: in_axes has {len(axes)} entries, the function was "
                                      f"called with {len(args)} positional arguments")
        leaves, structure = flatten(list(args), "the arguments")
        along = _axes(args, axes, leaves)
        known: dict[str, Any] = {}

        def run(*values: Any) -> list[Any]:
            rows = [v if a is None else _to_front(v, a) for v, a in zip(values, along)]

            def one(*examples: Any) -> list[Any]:
                result = self._fn(*unflatten(structure, examples), **kwargs)
                found, known["structure"] = flatten(result, "the result of a function under vmap")
                return found
            return [_from_front(x, self.out_axes) for x in vectorized(one, rows, [a is not None for a in along])]
        return unflatten(known_structure(call(run, leaves), known), known["results"])


def vmap(f: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0) -> Callable[P, R]:
    """A function that maps ``f`` over an axis of its arguments, as one program and not as a loop.

    in_axes: the axis to map over, None for an argument that is the same for all, or a list with one of those for each
    positional argument. out_axes: where the axis stands in the results. Random draws differ from example to example;
    loops (``foreach``, ``while_loop``, ``cond``) may do a different number of steps for each. f is traced: values
    cannot steer Python code in it. ShapeError where lengths of mapped axes differ.

    >>> from hybrid import np
    >>> vmap(lambda x, y: (x * y).sum(), in_axes=(0, None))(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """  # noqa: E501
    return Mapped(f, in_axes=_frozen(in_axes), out_axes=out_axes)


def known_structure(results: list[Any], known: dict[str, Any]) -> Any:
    """Keeps the results, and gives the structure that tracing has found out."""
    known["results"] = results
    return known["structure"]


def _axes(args: Sequence[Any], axes: Sequence[int | None], leaves: Sequence[Any]) -> list[int | None]:
    """The mapped axis of each array in the arguments. ShapeError where lengths differ."""
    out: list[int | None] = []
    for arg, axis in zip(args, axes):
        found: list[Any] = []
        pytree.flatten(arg, is_array, found, by_identity=True, objects=lambda v: True)
        out += [axis] * len(found)
    lengths = {}
    for x, axis in zip(leaves, out):
        if axis is not None:
            if not -len(x.shape) <= axis < len(x.shape):
                raise ShapeError(f"{user_location()}: vmap: in_axes={axis}, but an argument has shape {x.shape}")
            lengths[x.shape[axis]] = x.shape
    if len(lengths) != 1:
        what = f"shapes {list(lengths.values())}" if lengths else "no argument to map over"
        raise ShapeError(f"{user_location()}: vmap: mapped axes must have one length, got {what}")
    return out


def _to_front(x: Symbol, axis: int) -> Symbol:
    order = [axis % len(x.shape), *(i for i in range(len(x.shape)) if i != axis % len(x.shape))]
    return _permuted(x, order)


def _from_front(x: Symbol, axis: int) -> Symbol:
    order = list(range(1, len(x.shape)))
    order.insert(axis % len(x.shape), 0)
    return _permuted(x, order)


def _permuted(x: Symbol, order: Sequence[int]) -> Symbol:
    if list(order) == list(range(len(order))):
        return x
    node, k = x._one()
    info = (tuple(x.shape[i] for i in order), node.info[k][1])
    return traced_grad.inline("permute", [x], lambda nodes: (ir.permute(nodes[0], order),), [info])[0]


def vectorized(one: Callable[..., list[Any]], values: Sequence[Symbol], flags: Sequence[bool]) -> list[Symbol]:
    """Results of ``one`` for each slice along axis 0 of the values whose flag is set; traced values all."""
    order = [i for i, flag in enumerate(flags) if flag] + [i for i, flag in enumerate(flags) if not flag]
    watches: list[Watch] = []
    with _Scope("vmap", watches=watches) as scope:
        outer = [scope.outer(values[i]) for i in order]
        inner = [scope.variable(x, sliced=flags[i]) for x, i in zip(outer, order)]
        found = dict(zip(order, inner))
        results = [scope.root(x) for x in one(*(found[i] for i in range(len(values))))]
        roots = results + [scope.root(x) for w in watches for x in w.values]
    op = Vectorized(scope.subgraph(roots), sum(flags))
    given = scope.node(op, {"num_args": len(scope.inputs), "num_outputs": len(roots)})
    rest = iter(given[len(results):])
    trace = tracing()
    for w in watches:                                            # for each example, when the program has run
        trace.watch(unflatten(w.form, [next(rest) for _ in w.values]), w.call, w.what, w.at, w.mapped + 1)
    return given[:len(results)]


def over_rows(heads: Sequence[Symbol], h: int, wanted: Sequence[Symbol]) -> list[Symbol]:
    """Jacobians of one head with respect to the wanted values: the pullback over a batch of one-hot cotangents."""
    def lowering(nodes: list[Node]) -> list[Node]:
        head, inputs = nodes[0], nodes[1:]
        seed = ir.input(-1, head.shape, head.dtype)
        pulled = cotangents([head], [seed], inputs)
        size = head.size
        eye = ir.cast(ir.map("eq", ir.expand(ir.reshape(ir.iota(size), (size, 1)), (size, size)), ir.iota(size)),
                      head.dtype)
        known: dict[Node, Any] = {n: (n, False) for n in ir.toposort([head, *inputs])}
        known[seed] = (ir.reshape(eye, (size, *head.shape)), True)
        rows = vectorize(pulled, known, size)
        return [ir.reshape(batched(v, size), (*head.shape, *x.shape)) for v, x in zip(rows, inputs)]
    entries = [w._one() for w in wanted]
    info = [(tuple(heads[h].shape) + tuple(n.info[k][0]), n.info[k][1]) for n, k in entries]
    return traced_grad.inline("jacobian", [heads[h], *wanted], lowering, info)
