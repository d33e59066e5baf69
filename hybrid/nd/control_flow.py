"""``contrib.foreach``, ``while_loop`` and ``cond``: eager on arrays; on Symbols and in hybridized code one operator
with a subgraph."""
from __future__ import annotations

from collections import defaultdict
from typing import Any, Callable, Collection, Sequence

from . import functions
from ..base import names
from ..buffers.array import NDArray, full_like
from ..base.errors import AttributeValueError, HybridError, ShapeError, TraceError, user_location
from ..ops.registry import find
from ..base.scope import SCOPE, tracing
from ..graph.subgraph import Cond, Entry, Foreach, GraphOp, Subgraph, While
from ..graph.symbol import Symbol, create
from ..graph.node_notes import cut
from ..graph.symnode import CONCRETE, SymNode

_counters: defaultdict[str, int] = defaultdict(int)


# ---- nested lists of values
def flatten(value: Any, what: str) -> tuple[list[Any], Any]:
    """The arrays or Symbols in nested lists, and the structure: 0 for one of them, a list for a list."""
    if isinstance(value, (NDArray, Symbol)):
        return [value], 0
    if not isinstance(value, (list, tuple)):
        raise AttributeValueError(f"{what} must be an array or a (nested) list of arrays, got {type(value).__name__}")
    parts = [flatten(v, what) for v in value]
    return [x for flat, _ in parts for x in flat], [fmt for _, fmt in parts]


def regroup(flat: Sequence[Any], fmt: Any) -> Any:
    """The nested lists again."""
    rest = list(flat)

    def build(fmt: Any) -> Any:
        return rest.pop(0) if fmt == 0 else [build(f) for f in fmt]
    return build(fmt)


def _symbolic(*groups: Any) -> bool:
    return tracing() is not None or any(isinstance(x, Symbol) for g in groups for x in g)


def _pair(found: Any, who: str, second: str) -> tuple[Any, Any]:
    """What the body of a loop returned: its output, and what the next step is given."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        got = f"{len(found)} values" if isinstance(found, (tuple, list)) else type(found).__name__
        raise ValueError(f"{who} must return two values, (output, {second}), it returned {got}")
    return found[0], found[1]


# ---- foreach
def foreach(body: Callable[..., Any], data: Any, init_states: Any, name: str = "foreach") -> tuple[Any, Any]:
    """``body(slice, states) -> (output, states)`` for each slice along axis 0 of ``data``.

    data: an array or a list of arrays with the same length of axis 0. init_states: an array or nested list of arrays.
    Returns the outputs stacked along a new axis 0, in the structure that body gives them, and the last states. In
    hybridized code the body is traced once and compiled as a loop; the shapes of states must stay the same.

    >>> foreach(lambda x, s: (x + s, x + s), nd.array([1, 2, 3]), nd.zeros((1,)))[0].asnumpy().tolist()
    [[1.0], [3.0], [6.0]]
    """
    flat, data_fmt = flatten(data, "foreach: data")
    states, state_fmt = flatten(init_states, "foreach: init_states")
    if not flat:
        raise AttributeValueError("foreach: data is empty; give an array or a list of arrays")
    if _symbolic(flat, states):
        return _foreach_symbol(body, flat, data_fmt, states, state_fmt, name)
    lengths = {x.shape[:1] for x in flat}
    if len(lengths) > 1 or () in lengths:
        raise ShapeError(f"foreach goes over axis 0 of its data, which must have the same length; got "
                         f"{[x.shape for x in flat]}")
    if lengths == {(0,)}:
        raise ShapeError("foreach: the data has no slices (axis 0 has length 0), so the outputs' shapes are not known")
    outputs, fmt, now = [], None, init_states
    for i in range(flat[0].shape[0]):
        out, now = _pair(body(regroup([x[i] for x in flat], data_fmt), now), "foreach: body", "states")
        parts, fmt = flatten(out, "foreach: an output")
        outputs.append(parts)
    stack = functions.resolve("nd", "stack")
    return regroup([stack(*column) for column in zip(*outputs)], fmt), now


def _foreach_symbol(body: Callable[..., Any], data: list[Any], data_fmt: Any, states: list[Any], state_fmt: Any,
                    name: str) -> tuple[Any, Any]:
    with _Scope(name) as scope:
        data, states = [scope.outer(x) for x in data], [scope.outer(x) for x in states]
        parts = [scope.variable(x, sliced=True) for x in data]
        carried = [scope.variable(x) for x in states]
        out, new = _pair(body(regroup(parts, data_fmt), regroup(carried, state_fmt)), "foreach: body", "states")
        outs, out_fmt = flatten(out, "foreach: an output")
        new, new_fmt = flatten(new, "foreach: states")
        if new_fmt != state_fmt:
            raise HybridError(f"{user_location()}: the body of foreach must return states in the structure of "
                              f"init_states")
        given = {x.name for x in outs if isinstance(x, Symbol)}
        roots = [*(scope.root(x) for x in outs), *(scope.root(x, given) for x in new)]
    graph = scope.subgraph(roots)
    op = Foreach(graph)
    shape = data[0].shape
    op.steps = shape[0] if shape and shape[0] > 0 else 1
    places = {i: k for k, i in enumerate(graph.inputs)}
    locs = {"in_data_locs": [places.get(i, -1) for i in range(len(data))],
            "in_state_locs": [places.get(len(data) + i, -1) for i in range(len(states))],
            "remain_locs": [places[i] for i in range(len(data) + len(states), len(scope.inputs))]}
    results = scope.node(op, {"num_args": len(scope.inputs) + 1, "num_outputs": len(roots), "num_out_data": len(outs),
                              **locs})
    return regroup(results[:len(outs)], out_fmt), regroup(results[len(outs):], state_fmt)


# ---- while_loop
def _number(x: Any, what: str) -> int:
    try:
        return int(x.asscalar() if isinstance(x, NDArray) else x)
    except (TypeError, ValueError):
        raise ValueError(f"while_loop: {what} must be a number, got {x!r}") from None


def _listed(x: Any) -> list[Any]:
    return [] if x is None else list(x) if isinstance(x, (list, tuple)) else [x]


def while_loop(cond: Callable[..., Any], func: Callable[..., Any], loop_vars: Any, max_iterations: Any = None,
               name: str = "while_loop") -> tuple[Any, Any]:
    """``func(*loop_vars) -> (output, loop_vars)`` as long as ``cond(*loop_vars)`` holds, at most ``max_iterations``
    times.

    Returns the outputs, stacked along a new axis 0 of length max_iterations with zeros where no step was done, and the
    last loop_vars. Eagerly, outputs are [] when no step was done. In hybridized code cond and func are traced once and
    compiled as a loop that stops.

    >>> while_loop(lambda i, s: i <= 3, lambda i, s: (s, [i + 1, s + i]), [nd.array([1]), nd.array([0])], 5)[1][1].asscalar()
    6.0
    """  # noqa: E501
    if max_iterations is None:
        raise ValueError("while_loop: max_iterations must be given")
    limit = _number(max_iterations, "max_iterations")
    alone = isinstance(loop_vars, (NDArray, Symbol))
    variables = _listed(loop_vars)
    if not variables:
        raise ValueError("while_loop: loop_vars must hold at least one array")
    if _symbolic(flatten(variables, "while_loop: loop_vars")[0]):
        outputs, last = _while_symbol(cond, func, variables, limit, name)
    else:
        outputs, last = _while_eager(cond, func, variables, limit)
    return outputs, last[0] if alone else last


def _stepped(func: Callable[..., Any], variables: list[Any]) -> tuple[Any, list[Any]]:
    output, new = _pair(func(*variables), "while_loop: func", "loop_vars")
    new = _listed(new)
    if len(new) != len(variables):
        raise ValueError(f"while_loop: func must return as many loop_vars as it is given: {len(variables)}, got "
                         f"{len(new)}")
    return [] if output is None else list(output) if isinstance(output, tuple) else output, new


def _while_eager(cond: Callable[..., Any], func: Callable[..., Any], variables: list[Any],
                 limit: int) -> tuple[Any, list[Any]]:
    rows: list[list[Any]] = []
    fmt: Any = None
    while len(rows) < limit and bool(_number(cond(*variables), "the value of cond")):
        output, variables = _stepped(func, variables)
        row, fmt = flatten(output, "while_loop: an output")
        if rows and (len(row) != len(rows[0]) or any(a.shape != b.shape for a, b in zip(row, rows[0]))):
            raise ValueError(f"while_loop: outputs must be alike in each step, got shapes "
                             f"{[x.shape for x in rows[0]]} and {[x.shape for x in row]}")
        rows.append(row)
    if fmt is None:
        return [], variables
    stack = functions.resolve("nd", "stack")
    columns = [stack(*column, *(full_like(column[0], 0) for _ in range(limit - len(rows)))) for column in zip(*rows)]
    return regroup(columns, fmt), variables


def _while_symbol(cond: Callable[..., Any], func: Callable[..., Any], variables: list[Any], limit: int,
                  name: str) -> tuple[Any, list[Any]]:
    flat, fmt = flatten(variables, "while_loop: loop_vars")
    with _Scope(name + "_cond") as outer:
        flat = [outer.outer(x) for x in flat]
        go = cond(*regroup([outer.variable(x) for x in flat], fmt))
        if not isinstance(go, Symbol):
            raise ValueError(f"while_loop: cond must return a value computed from its arguments, got {go!r}")
        condition = [outer.root(go)]
    graph = outer.subgraph(condition)
    with _Scope(name + "_func", outer.inputs) as scope:
        parts = [scope.variable(x) for x in flat]
        output, new = _stepped(func, regroup(parts, fmt))
        outs, out_fmt = flatten(output, "while_loop: an output")
        new, new_fmt = flatten(new, "while_loop: loop_vars")
        if new_fmt != fmt:
            raise ValueError("while_loop: func must return loop_vars in the structure in which it is given them")
        roots = [scope.root(x) for x in [*outs, *new]]
    body = scope.subgraph(roots)
    # MXNet numbers inputs as the condition, then the body uses them
    order = list(dict.fromkeys([*graph.inputs, *body.inputs, *range(len(scope.inputs))]))
    number = {old: new for new, old in enumerate(order)}
    scope.inputs = [scope.inputs[i] for i in order]
    graph, body = (Subgraph(g.roots, g.cuts, tuple(number[i] for i in g.inputs)) for g in (graph, body))
    op = While(graph, body)
    op.variables = tuple(number[i] for i in scope.own.values())
    places = {i: k for k, i in enumerate(body.inputs)}
    results = scope.node(op, {"num_args": len(scope.inputs) + 2, "num_outputs": len(roots), "num_out_data": len(outs),
                              "max_iterations": limit,
                              "cond_input_locs": list(graph.inputs), "func_input_locs": list(body.inputs),
                              "func_var_locs": [places.get(i, -1) for i in op.variables]})
    return regroup(results[:len(outs)], out_fmt), regroup(results[len(outs):], fmt)


# ---- cond
def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """``then_func()`` if pred (an array of one element) holds, else ``else_func()``.

    In hybridized code both are traced, must give results alike in structure, shape and dtype, and only one is run.

    >>> x = nd.array([2.0]); cond(x > 1, lambda: x * 2, lambda: x).asscalar()
    4.0
    """
    if not isinstance(pred, Symbol) and not (tracing() is not None and isinstance(pred, NDArray)):
        return then_func() if bool(_truth(pred)) else else_func()
    scopes: list[_Scope] = []
    graphs: list[Subgraph] = []
    formats: list[Any] = []
    inputs: list[Entry] = []
    with _Scope(f"{name}_pred", inputs) as scope:
        root = scope.root(scope.outer(pred))
    graphs.append(scope.subgraph([root]))
    for what, f in (("then", then_func), ("else", else_func)):
        with _Scope(f"{name}_{what}", scope.inputs) as scope:
            outs, fmt = flatten(f(), f"cond: an output of {what}_func")
            roots = [scope.root(x) for x in outs]
        scopes.append(scope)
        graphs.append(scope.subgraph(roots))
        formats.append(fmt)
    if formats[0] != formats[1]:
        raise ValueError(f"cond: then_func and else_func must return the same structure, got {len(graphs[1].roots)} "
                         f"and {len(graphs[2].roots)} arrays")
    attrs: dict[str, Any] = {"num_args": len(scope.inputs) + 3, "num_outputs": len(graphs[1].roots)}
    attrs.update({f"{what}_input_locs": list(g.inputs) for what, g in zip(("cond", "then", "else"), graphs)})
    return regroup(scope.node(Cond(*graphs), attrs), formats[0])


def _truth(pred: Any) -> bool:
    try:
        return bool(pred.asscalar() if isinstance(pred, NDArray) else pred)
    except (TypeError, ValueError):
        raise ValueError(f"cond: pred must be one number, got {pred!r}") from None


# ---- tracing a body
class _Scope:
    """Code that becomes a subgraph: what was there before it began comes in through inputs of the operator."""

    def __init__(self, name: str, inputs: Sequence[Entry] = (), watches: Any = None):
        self.watches = watches                               # gets what is watched in it; None where nothing can be
        self.inputs: list[Entry] = list(inputs)              # of the operator
        self.own: dict[tuple[int, int], int] = {}           # the subgraph's variables -> number of the input
        self._keep: list[SymNode] = []                      # own variables: their ids must stay theirs
        self.trace = tracing()
        parent = names.notes().get("__subgraph_name__", "")
        full = f"{parent}${name}" if parent else name
        self._notes = names.AttrScope(__subgraph_name__=f"{full}{_counters[full]}") if self.trace is None else None
        _counters[full] += self.trace is None
        self._start = 0

    def __enter__(self) -> "_Scope":
        self._start = SymNode._count[0]
        self._before = {id(h): list(h.entries) for h, _ in self.trace.handles} if self.trace is not None else {}
        self._stateful = len(self.trace.stateful) if self.trace is not None else 0
        if self.trace is not None:
            self.trace.bodies.append(self.watches)
        if self._notes is not None:
            self._notes.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._notes is not None:
            self._notes.__exit__(*error)
        handles = self.trace.handles if self.trace is not None else []
        if self.trace is not None:
            # the loop or branch changes their states, not the code around it
            del self.trace.stateful[self._stateful:]
            self.trace.bodies.pop()
        changed = [(h, entries) for h, n in handles if h.entries != (entries := self._before.get(id(h), [(n, 0)]))]
        for h, entries in changed:
            h.entries = entries                              # type: ignore[method-assign]
        if changed and error[0] is None:
            raise TraceError(f"{user_location()}: the body of a loop or branch changes an array from outside in "
                             f"place, which a compiled loop cannot do; "
                             "pass it as a state and return its new value")

    def outer(self, x: Any) -> Symbol:
        """A value from outside as a Symbol."""
        if isinstance(x, Symbol):
            return Symbol([x._one()])
        if self.trace is None:
            raise AttributeValueError(f"{user_location()}: arrays and Symbols cannot be mixed here; use sym.var for "
                                      f"inputs")
        return self.trace.capture(x)

    def variable(self, x: Symbol, sliced: bool = False) -> Symbol:
        """The variable that stands for an input of the operator, or for a slice of it."""
        entry = x._one()
        node = SymNode(None, f"{entry[0].name}-{entry[1]}", None, (), names.notes() if self.trace is None else {})
        shape, dtype = entry[0].info[entry[1]]
        if sliced and shape == ():
            raise ShapeError("foreach goes over axis 0 of its data; a scalar has no axis")
        node.holder = CONCRETE
        node.info = [(shape[1:] if sliced and shape is not None else shape, dtype)]
        self.own[(id(node), 0)] = self._place(entry)
        self._keep.append(node)
        return Symbol([(node, 0)])

    def _place(self, entry: Entry) -> int:
        """The number of an input; each variable of a loop has one of its own."""
        taken = set(self.own.values())
        for i, known in enumerate(self.inputs):
            if known == entry and i not in taken:
                return i
        self.inputs.append(entry)
        return len(self.inputs) - 1

    def root(self, x: Any, given: Collection[str | None] = ()) -> Entry:
        """A result of the subgraph: what was not computed in it, or by a node that gives another result, is copied, as
        in MXNet."""
        entry = self.outer(x)._one() if not isinstance(x, Symbol) else x._one()
        if ((id(entry[0]), entry[1]) in self.own or entry[0].opdef is None or entry[0].serial <= self._start
            or entry[0].name in given):
            return create(find("_copy"), [Symbol([entry])], {}, None, "identity")._one()
        return entry

    def subgraph(self, roots: Sequence[Entry]) -> Subgraph:
        """The graph below the roots; what it uses of outside becomes inputs."""
        cuts: dict[tuple[int, int], tuple[Entry, int]] = {}
        # an input that is also a loop's first value comes in again as a constant
        changing = set(self.own.values())
        place = {(id(n), k): i for i, (n, k) in enumerate(self.inputs) if i not in changing}
        seen: set[int] = set()
        stack = list(reversed(roots))
        while stack:
            n, k = stack.pop()
            key = (id(n), k)
            if key in self.own:
                cuts.setdefault(key, ((n, k), self.own[key]))
            elif n.opdef is None or n.serial <= self._start:
                if key not in place:
                    place[key] = len(self.inputs)
                    self.inputs.append((n, k))
                cuts.setdefault(key, ((n, k), place[key]))
            elif id(n) not in seen:
                seen.add(id(n))
                stack += reversed(n.inputs)
        return Subgraph(tuple(roots), tuple(e for e, _ in cuts.values()), tuple(i for _, i in cuts.values()))

    def node(self, op: GraphOp, attrs: dict[str, Any]) -> list[Symbol]:
        """The operator's node; its results."""
        entries: list[Any] = [cut(e) for e in self.inputs] if SCOPE.recording and SCOPE.traces else self.inputs
        node = SymNode(op, names.current().get(None, op.name), op.parse(attrs), entries, names.notes())
        return [Symbol([(node, k)]) for k in range(node.outputs)]
