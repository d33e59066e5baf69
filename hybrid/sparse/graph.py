"""Symbols of sparse arrays: run operator by operator on the arrays themselves, so that results and gradients have the
storage that eager calls give."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from ..autograd import dispatch
from ..buffers.array import NDArray
from ..graph.lower import mode_of
from ..graph.symbol import Symbol
from ..graph.symnode import SymNode
from ..buffers.tape import flags
from .create import cast_storage
from .rules import RULES
from .storage import make, storage_type

TYPES = {"0": "default", "1": "row_sparse", "2": "csr"}          # as __storage_type__ says them
_OTHERS = ("dot", "Embedding", "cast_storage", "_sparse_retain")


def by_storage(symbol: Symbol, stypes: Mapping[str, str]) -> bool:
    """Whether a graph is run operator by operator: where it changes the storage of an array, or an operator has a rule
    for a sparse argument."""
    for n in symbol.nodes():
        if n.opdef is None:
            continue
        if n.opdef.name == "cast_storage" and n.attrs.stype != "default":  # type: ignore[union-attr]
            return True
        if (n.opdef.name in RULES or n.opdef.name in _OTHERS) and any(m.opdef is None
                                                                      and stypes.get(m.name, "default") != "default"
                                                                      for m, _ in n.inputs):
            return True
    return False


def handle(x: Any, slot: Any) -> Any:
    """An argument with the slot in which its gradient is collected."""
    out = make(type(x), x.shape, x._values, x._aux,
               x._ctx)                                          # type: ignore[attr-defined]
    out._ag = slot
    return out


def evaluate(symbol: Symbol, arrays: Mapping[str, NDArray], train: bool) -> list[NDArray]:
    """The outputs of a graph for arrays by variable name."""
    values: dict[Any, Any] = {}
    for n in symbol.nodes():
        if n.opdef is None:
            values[(id(n), 0)] = arrays[n.name]
            continue
        with flags(None, mode_of(n, train)):
            found = _call(n, [values[(id(m), k)] for m, k in n.inputs])
        for k, x in enumerate(found if isinstance(found, (list, tuple)) else [found]):
            values[(id(n), k)] = x
    return [values[(id(n), k)] for n, k in symbol.entries]


def _call(n: SymNode, inputs: Sequence[Any]) -> Any:
    d, a = n.opdef, n.attrs
    assert d is not None and a is not None
    if d.name == "cast_storage":
        return cast_storage(inputs[0], a.stype)
    attrs = a.asdict()
    return dispatch.invoke(d, [*inputs, *[None] * (0 if d.variadic else len(d.inputs) - len(inputs))], attrs,
                           hint=d.name)


# ---- storage of new arrays
def storage_of(symbol: Symbol, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Storage types of a graph's variables, by name: as ``given``, or as ``sym.var(stype=...)`` said."""
    out = {n.name: TYPES.get(n.extra.get("__storage_type__", "0"), "default") for n in symbol.nodes()
           if n.opdef is None}
    out.update({name: storage_type(stype) for name, stype in (given or {}).items() if name in out})
    return out


def gradient_storage(symbol: Symbol, stypes: Mapping[str, str]) -> dict[str, str]:
    """Storage types of the gradients of a graph's variables: sparse where every operator that takes the variable has a
    sparse gradient for it."""
    found: dict[str, set[str]] = {}
    for n in symbol.nodes():
        if n.opdef is not None:
            for at, (m, _) in enumerate(n.inputs):
                if m.opdef is None:
                    found.setdefault(m.name, set()).add(_gradient_storage(n, at, m, [stypes.get(i.name, "default") if i.opdef is None else "" for i, _ in n.inputs]))  # noqa: E501
    return {name: kinds.pop() if len(kinds) == 1 else "default" for name, kinds in found.items()}


_KEPT = ("elemwise_add", "elemwise_sub", "add_n", "_mul_scalar", "_div_scalar", "_copy", "BlockGrad", "make_loss")


def _gradient_storage(n: SymNode, at: int, variable: SymNode, stypes: Sequence[str]) -> str:
    assert n.opdef is not None and n.attrs is not None
    name, a, own = n.opdef.name, n.attrs, stypes[at]
    if name == "dot":
        return ("row_sparse" if at == 1 and stypes[0] == "csr" and not a.transpose_a and not a.transpose_b
                else "default")
    if name == "Embedding":
        return "row_sparse" if at == 1 and a.sparse_grad else "default"
    if name == "cast_storage":
        return a.stype  # type: ignore[no-any-return]
    alike = all(s == own for s in stypes)
    return own if alike and (name in _KEPT or len(stypes) == 1 and name in RULES
                             and name not in ("sum", "mean", "norm", "slice")) else "default"
