"""Nodes of the operator graph: variables and operators, with the shapes and dtypes that are known of them."""
from __future__ import annotations

import functools
from typing import Any, Iterable, Mapping, Sequence

from ..base import dtype as dt
from ..base.errors import AttributeValueError, user_location
from ..ir.node import inputs_first
from ..ops.attributes import Shape
from ..ops.registry import Attrs, OpDef
from ..base.scope import SCOPE


SIZE_NAMES = "__size_names__"      # a note on an input: the names of its sizes that vary, one for each axis, "n,,"
DETACHED = "__detached__"          # a note on BlockGrad: not even losses below have a gradient, as of NDArray.detach


class SymNode:
    """A node of the operator graph: a variable (``opdef`` None) or an operator. ``inputs``: (node, output number) of
    the inputs that are there. ``extra``: notes such as ``__shape__``. ``info``: shape and dtype of each output, None if
    unknown.
    """
    __slots__ = ("opdef", "name", "attrs", "inputs", "extra", "info", "holder", "serial", "train", "recorded",
                 "at")
    _count = [0]

    def __init__(self, opdef: OpDef | None, name: str, attrs: Attrs | None, inputs: Sequence[tuple["SymNode", int]],
                 extra: dict[str, str] | None = None):
        self.opdef, self.name, self.attrs, self.inputs, self.extra = opdef, name, attrs, tuple(
                inputs), extra if extra is not None else {}
        self.holder: Any = None                          # what a captured variable stands for
        traced = bool(SCOPE.traces)
        # F.zeros((0, 5)) in hybrid_forward
        if traced and SCOPE.symbolic and opdef is not None and has_unknown(opdef, attrs):
            self.attrs = _with_ones(opdef, attrs)
        self.train = SCOPE.training if traced else None  # the mode its code ran in; None: that of the whole graph
        self.recorded = SCOPE.recording and traced       # whether gradients flow through it
        self.at = user_location() if traced and opdef is not None else ""
        SymNode._count[0] += 1
        self.serial = SymNode._count[0]                  # creation order: random operators draw in it
        self.info: list[Any] = [noted(self.extra)] if opdef is None else infer_node(self)

    @property
    def outputs(self) -> int:
        """Number of outputs, hidden ones included."""
        return 1 if self.opdef is None else self.opdef.num_outputs(self.attrs)                  # type: ignore[arg-type]


def in_order(roots: Iterable[tuple[SymNode, int]], cuts: Iterable[tuple[SymNode, int]] = ()) -> list[SymNode]:
    """Every node below some outputs, inputs before users, depth first as MXNet orders them; none below the outputs of
    ``cuts``."""
    cut = {(id(n), k) for n, k in cuts}

    def kept(outputs: Iterable[tuple[SymNode, int]]) -> list[SymNode]:
        return [n for n, k in outputs if (id(n), k) not in cut] if cut else [n for n, _ in outputs]
    return inputs_first(kept(roots), lambda n: kept(n.inputs))


def noted(extra: Mapping[str, str]) -> tuple[Any, Any]:
    """Shape and dtype written on a variable."""
    shape = _shape(extra["__shape__"]) if "__shape__" in extra else None
    code = int(extra.get("__dtype__", -1))
    return shape, dt.MX_CODES.get(code)


@functools.lru_cache(1024)
def _shape(text: str) -> tuple[int, ...]:
    return tuple(Shape().convert(text))


def known(shape: Any) -> bool:
    """Whether every length is known (0 and -1 mean unknown in a variable's shape)."""
    return shape is not None and all(d is not None and d >= 0 for d in shape)


def can_complete(d: OpDef, unsure: Sequence[bool], any_input: bool = True) -> bool:
    """Whether an operator can tell unknown shapes of its inputs: from the first one, or (elementwise) from any."""
    if d.params is None or all(unsure):
        return False
    return any_input if getattr(d.params, "from_any", False) else not unsure[0]


def effective(n: SymNode) -> Attrs:
    """The attributes with which a node is computed.

    In a graph, and in a trace where it came from the namespace of Symbols, 0 in the shape of a constant means a length
    that is not known: the first states of MXNet's recurrent cells are such zeros. It counts as 1, which broadcasts.
    """
    d, a = n.opdef, n.attrs
    assert d is not None and a is not None
    return _with_ones(d, a) if n.train is None and has_unknown(d, a) else a


def has_unknown(d: OpDef, a: Any) -> bool:
    """Whether a constant has a length that is not known."""
    return d.name in CONSTANTS and not SCOPE.np_shape and 0 in a.shape


def _with_ones(d: OpDef, a: Any) -> Attrs:
    return d.parse({**a._given, "shape": tuple(v or 1 for v in a.shape)})


def infer_node(node: SymNode) -> list[Any]:
    """Shapes and dtypes of an operator's outputs, where its inputs' are known; completes variables on the way."""
    d, a = node.opdef, effective(node)
    assert d is not None and a is not None
    count = d.num_outputs(a)
    if not 0 < count <= MOST_OUTPUTS:
        raise AttributeValueError(f"operator {d.name} would have {count} outputs; 1 to {MOST_OUTPUTS} are possible")
    shapes = [n.info[k][0] for n, k in node.inputs]
    dtypes = [n.info[k][1] for n, k in node.inputs]
    partial = [s is None or (n.opdef is None and any(v <= 0 for v in s) and n.holder is not CONCRETE)
               for s, (n, _) in zip(shapes, node.inputs)]
    # elementwise operators broadcast here, so only a parameter's shape is taken from the other side, never a user's
    # variable's
    if any(partial) and can_complete(d, partial, SCOPE.shadows or bool(SCOPE.traces)):
        full = d.complete(shapes, a)
        for i, (n, _) in enumerate(node.inputs):
            if partial[i] and n.opdef is None and full[i] is not None:
                n.info[0] = (tuple(full[i]), n.info[0][1])
                shapes[i], partial[i] = tuple(full[i]), any(v <= 0 for v in full[i])
    if any(partial):
        return [(None, None)] * count
    first = next((t for t in dtypes if t is not None), dt.float32)
    for i, (n, _) in enumerate(node.inputs):
        if dtypes[i] is None:
            dtypes[i] = first if dt.is_float(first) else dt.float32
    padded = len(d.inputs) - len(shapes) if not d.variadic else 0
    return d.infer([*shapes, *[None] * padded], [*dtypes, *[None] * padded], a, bool(node.train))


def graph_text(order: Sequence[SymNode], heads: Sequence[tuple[SymNode, int]]) -> str:
    """MXNet's text of a graph, inputs first. The version of a variable counts the operators before that wrote it."""
    if len(order) == 1 and order[0].opdef is None:
        return f"Variable:{order[0].name}\n"
    lines = ["Symbol Outputs:", *(f"\toutput[{i}]={n.name}({k})" for i, (n, k) in enumerate(heads))]
    versions: dict[int, int] = {}
    for n in order:
        if n.opdef is None or n.attrs is None:
            lines.append(f"Variable:{n.name}")
            continue
        lines += ["-" * 20, f"Op:{n.opdef.name}, Name={n.name}", "Inputs:"]
        written = n.opdef.states(n.attrs, len(n.inputs))
        for i, (m, k) in enumerate(n.inputs):
            versions[id(m)] = versions.get(id(m), 0) + (i in written)
            lines.append(f"\targ[{i}]={m.name}({k})" + (f" version={versions[id(m)]}" if m.opdef is None else ""))
        given = {**n.attrs.given(), **n.extra}
        lines += ["Attrs:", *(f"\t{k}={given[k]}" for k in sorted(given))] if given else []
    return "\n".join(lines) + "\n"


MOST_OUTPUTS = 1 << 16                # more in a file is no model
CONSTANTS = ("_zeros", "_ones", "_full")
CONCRETE = object()                   # holder of variables that stand for arrays: a 0 in their shape is a length
