"""Models for inference in mixed precision: casts are written into the graph of a trained float32 model, once, by the
lists of operators."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from ...base import dtype as dt
from ...base.errors import AttributeValueError
from ...gluon.hybrid_block import HybridBlock
from ...gluon.symbol_block import SymbolBlock
from ...graph.inference import _of_parameter, _outputs, shapes_of
from ...ops.registry import find
from ...base.scope import CASTS
from ...serialize.symbol_json import without_casts
from ...graph.symbol import Symbol, var
from ...graph.node_notes import output_name
from ...graph.symnode import SymNode
from .amp import target_of
from .policy import Conditional, Rules, usual_names

Entry = tuple[SymNode, int]
Names = Sequence[str] | None


def convert_symbol(sym: Symbol, target_dtype: Any = "float16", target_dtype_ops: Names = None, fp32_ops: Names = None,
                   conditional_fp32_ops: Conditional | None = None, excluded_sym_names: Names = None,
                   data_names: Names = None,
                   cast_optional_params: bool = False) -> Symbol:
    """A float32 graph with casts, so that operators run in the types that the lists give them. Its outputs stay
    float32.

    target_dtype_ops, fp32_ops, conditional_fp32_ops: lists in place of the usual ones. excluded_sym_names: nodes that
    stay float32. data_names: variables that are data; the others are parameters (when it is not given: those with a
    known dtype). cast_optional_params: parameters that are used in low precision alone are to be stored so;
    ``__dtype__`` says which.
    """
    if not isinstance(sym, Symbol):
        raise AttributeValueError(f"convert_symbol takes a Symbol, got {type(sym).__name__}")
    rules = Rules(target_of(target_dtype), target_dtype_ops, conditional_fp32_ops, fp32_ops)
    unlisted = {*(target_dtype_ops or ()), *(fp32_ops or ()),
                *(n for n, _, _ in conditional_fp32_ops or ())} - usual_names()
    if unlisted:
        raise AttributeValueError(f"{', '.join(sorted(unlisted))}: in none of the lists of amp (list_lp16_ops, "
                                  f"list_fp32_ops, list_lp16_fp32_ops, "
                                  "list_conditional_fp32_ops), so it cannot be put in another one")
    names = {n.name for n in sym.nodes()}
    strange = [n for n in excluded_sym_names or () if n not in names]
    if strange:
        raise AttributeValueError(f"excluded_sym_names: the graph has no node {', '.join(map(repr, strange))}")
    if data_names is None:
        data_names = [n.name for n in sym.nodes() if n.opdef is None and "__dtype__" not in n.extra]
    return _Conversion(without_casts(sym), rules, set(excluded_sym_names or ()), set(data_names),
                       cast_optional_params).result()


class _Conversion:
    """One walk through a graph. ``types``: the dtype of each new value by (id of the old node, output), None where it
    is not known."""

    def __init__(self, sym: Symbol, rules: Rules, excluded: set[str], data: set[str], offline: bool):
        self.sym, self.rules, self.excluded, self.data = sym, rules, excluded, data
        self.order = sym.nodes()
        self.shapes = shapes_of(self.order, {})
        self.new: dict[int, SymNode] = {}
        self.types: dict[tuple[int, int], np.dtype | None] = {}
        self.casts: dict[tuple[int, int, np.dtype], Entry] = {}
        self.offline = self._offline() if offline else set()

    def _offline(self) -> set[int]:
        """Parameters that are read in low precision alone."""
        low: set[int] = set()
        other: set[int] = set()
        for n in self.order:
            wanted = self._low_inputs(n) if n.opdef is not None and self._kind(n) == "low" else []
            for i, (m, _) in enumerate(n.inputs):
                if m.opdef is None:
                    (low if i in wanted and m.name not in self.data else other).add(id(m))
        return low - other - {id(n) for n, _ in self.sym.entries}

    def _kind(self, n: SymNode) -> str | None:
        assert n.opdef is not None and n.attrs is not None
        return "float32" if n.name in self.excluded else self.rules.kind(n.opdef, n.attrs)

    def _infer(self, n: SymNode, first: np.dtype) -> tuple[list[np.dtype], list[np.dtype]]:
        """Dtypes of the inputs and outputs of a node whose first input has a dtype."""
        assert n.opdef is not None
        names = n.opdef.inputs if not n.opdef.variadic else [""] * len(n.inputs)
        inputs = [first, *(_of_parameter(n, name, first) for _, name in zip(n.inputs[1:], names[1:]))]
        shapes = [self.shapes.get(id(m) if m.opdef is None else (id(m), k)) for m, k in n.inputs]
        return inputs, _outputs(n, shapes, inputs)

    def _low_inputs(self, n: SymNode) -> list[int]:
        """Which inputs of a node in low precision are cast: not its states, nor what stays float32 beside it."""
        assert n.opdef is not None
        names = n.opdef.inputs if not n.opdef.variadic else [""] * len(n.inputs)
        return [i for i, t in enumerate(self._infer(n, self.rules.target)[0]) if t == self.rules.target
                and names[i] not in n.opdef.aux]

    # ---- values
    def _as_is(self, entry: Entry) -> Entry:
        return self.new[id(entry[0])], entry[1]

    def _cast(self, entry: Entry, target: np.dtype) -> Entry:
        """A value through a cast; one cast serves all that read it."""
        n, k = entry
        if self.types[id(n), k] == target:
            return self._as_is(entry)
        key = id(n), k, target
        if key not in self.casts:
            name = f"{_value_name(n, k)}_amp_cast_{target.name}"
            d = find("amp_cast")
            self.casts[key] = SymNode(d, name, d.parse({"dtype": target.name}), [self._as_is(entry)]), 0
        return self.casts[key]

    def _multicast(self, n: SymNode) -> list[Entry]:
        d = find("amp_multicast")
        node = SymNode(d, f"{_value_name(*n.inputs[0])}_amp_multicast", d.parse({"num_outputs": len(n.inputs)}),
                       [self._as_is(e) for e in n.inputs])
        return [(node, k) for k in range(len(n.inputs))]

    # ---- nodes
    def result(self) -> Symbol:
        """The new graph."""
        for n in self.order:
            if n.opdef is None:
                self._variable(n)
            else:
                inputs, types = self._operator(n)
                self.new[id(n)] = SymNode(n.opdef, n.name, n.attrs, inputs, dict(n.extra))
                self.types.update({(id(n), k): t for k, t in enumerate(types)})
        return Symbol([self._cast(e, dt.float32) for e in self.sym.entries])

    def _variable(self, n: SymNode) -> None:
        extra = dict(n.extra)
        if id(n) in self.offline:
            extra["__dtype__"] = str(dt.CODE_OF[self.rules.target])
        elif n.name not in self.data:
            extra.setdefault("__dtype__", str(dt.CODE_OF[n.info[0][1] or dt.float32]))
        self.new[id(n)] = made = SymNode(None, n.name, None, (), extra)
        made.info = [(n.info[0][0], self.rules.target if id(n) in self.offline else n.info[0][1])]
        made.holder = n.holder
        self.types[id(n), 0] = self.rules.target if id(n) in self.offline else None

    def _operator(self, n: SymNode) -> tuple[list[Entry], list[np.dtype | None]]:
        """New inputs of a node, and the dtypes of its outputs."""
        kind, known = self._kind(n), [self.types[id(m), k] for m, k in n.inputs]
        count = n.outputs
        if not n.inputs:
            return [], [None] * count
        if kind == "float32":                              # variables are float32 as it is, data and all
            assert n.opdef is not None
            return [self._as_is(e) if e[0].opdef is None and t is None else self._cast(e, dt.float32)
                    for e, t in zip(n.inputs, known)], [dt.float32] * count
        if kind == "low":
            cast = self._low_inputs(n)
            inputs = [self._cast(e, self.rules.target) if i in cast else self._as_is(e) for i, e in enumerate(n.inputs)]
            return inputs, self._known(self._infer(n, self.rules.target)[1])
        if kind == "widest":
            if None in known:
                return self._multicast(n), [None] * count
            widest = self.rules.target if all(t == self.rules.target for t in known) else dt.float32
            return [self._cast(e, widest) for e in n.inputs], [widest] * count
        inputs = [self._as_is(e) for e in n.inputs]
        return inputs, self._known(self._infer(n, known[0])[1]) if known[0] is not None else [None] * count

    def _known(self, types: Sequence[np.dtype]) -> list[np.dtype | None]:
        return [t if t in (self.rules.target, dt.float32) else None for t in types]


def _value_name(n: SymNode, k: int) -> str:
    """The name that a cast of a value begins with."""
    if n.opdef is None:
        return n.name
    return output_name(n, k)


# ---- models
def convert_model(sym: Symbol, arg_params: Mapping[str, Any], aux_params: Mapping[str, Any],
                  target_dtype: Any = "float16", target_dtype_ops: Names = None,
                  fp32_ops: Names = None, conditional_fp32_ops: Conditional | None = None,
                  excluded_sym_names: Names = None,
                  cast_optional_params: bool = False) -> tuple[Symbol, dict[str, Any], dict[str, Any]]:
    """``convert_symbol`` with the parameters: (Symbol, arguments, auxiliary states). The arrays given stay as they
    are."""
    for what, given in (("arg_params", arg_params), ("aux_params", aux_params)):
        if not isinstance(given, Mapping):
            raise AttributeValueError(f"{what} must be a dict of arrays by name, got {type(given).__name__}")
    if not isinstance(sym, Symbol):
        raise AttributeValueError(f"convert_model takes a Symbol, got {type(sym).__name__}")
    data = [n for n in sym.list_inputs() if n not in arg_params and n not in aux_params]
    out = convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names, data,
                         cast_optional_params)
    low = _stored_low(out, target_of(target_dtype))
    return out, _stored(arg_params, low, target_dtype), _stored(aux_params, low, target_dtype)


def _stored_low(sym: Symbol, target: np.dtype) -> set[str]:
    code = str(dt.CODE_OF[target])
    return {n.name for n in sym.nodes() if n.opdef is None and n.extra.get("__dtype__") == code}


def _stored(params: Mapping[str, Any], low: set[str], target: Any) -> dict[str, Any]:
    return {k: v.astype(target_of(target)) if k in low and v._data.dtype == dt.float32 else v
            for k, v in params.items()}


def convert_hybrid_block(block: HybridBlock, target_dtype: Any = "float16", target_dtype_ops: Names = None,
                         fp32_ops: Names = None,
                         conditional_fp32_ops: Conditional | None = None, excluded_sym_names: Names = None,
                         ctx: Any = None,
                         cast_optional_params: bool = False) -> SymbolBlock:
    """A SymbolBlock that does in mixed precision what a float32 block does; hybridize it too. Call the block once
    before.

    ctx: the device of its parameters; the block's own by default (MXNet's default is ``gpu(0)``). Parameters are
    copies.

    >>> fast = convert_hybrid_block(net, 'bfloat16'); fast.hybridize()                  # doctest: +SKIP
    """
    if not isinstance(block, HybridBlock):
        raise AttributeValueError(f"convert_hybrid_block takes a HybridBlock, got {type(block).__name__}")
    with _uncast():
        sym = without_casts(block._symbol())
    params = {p.name: p for p in block.collect_params().values() if p.name in set(sym.list_inputs())}
    inputs = [n for n in sym.list_inputs() if n not in params]
    out = convert_symbol(sym, target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names,
                         inputs, cast_optional_params)
    made = SymbolBlock(out, [var(n) for n in _in_order(block, inputs)])
    low = _stored_low(out, target_of(target_dtype))
    for name, p in made.collect_params().items():
        values = params[name].list_data()
        if name in low:
            p.cast(target_dtype)
        p.shape = params[name].shape
        p.initialize(ctx=[v.ctx for v in values] if ctx is None else ctx, force_reinit=True)
        p.set_data(values[0].astype(target_of(target_dtype)) if name in low else values[0])
    return made


def _in_order(block: HybridBlock, inputs: Sequence[str]) -> Sequence[str]:
    """Names of the data in the order in which a call gives them."""
    given = block.__dict__.get("_inputs")                      # a SymbolBlock has names of its own
    if given is not None:
        return given
    return sorted(inputs, key=lambda n: int(n[4:] or 0))       # data, or data0, data1 …


@contextmanager
def _uncast() -> Iterator[None]:
    """Scope without the casts of ``amp.init``."""
    old = CASTS[:]
    CASTS.clear()
    try:
        yield
    finally:
        CASTS[:] = old
