"""SymbolBlock: a block made of a Symbol, for instance of an exported model."""
from __future__ import annotations

from typing import Any

from .. import serialize
from ..buffers.array import NDArray
from ..base.device import current_context
from ..base.errors import AttributeValueError
from ..graph.inference import shapes_of
from ..graph.symbol import Group, Symbol, var
from .graph import run_graph
from .hybrid_block import HybridBlock
from .parameter import ParameterDict


class SymbolBlock(HybridBlock):
    """Runs a Symbol, outputs (or a list of them): its variables are parameters, but for those named as inputs.

    As in MXNet the variables' notes ``__lr_mult__``, ``__wd_mult__`` and ``__init__`` stay in the graph and do not
    count for the parameters.

    >>> net = SymbolBlock.imports('model-symbol.json', ['data'], 'model-0000.params')     # doctest: +SKIP
    """

    @staticmethod
    def imports(symbol_file: Any, input_names: Any, param_file: Any = None, ctx: Any = None,
                allow_missing: bool = False, ignore_extra: bool = False) -> "SymbolBlock":
        """The block of a ``-symbol.json`` file, with the parameters of a ``.params`` file."""
        sym = serialize.symbol_json.load(symbol_file)
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        unknown = [n for n in names if n not in sym.list_inputs()]
        if unknown:
            raise AttributeValueError(f"{symbol_file} has no input {', '.join(map(repr, unknown))}; its variables are "
                                      f"{', '.join(sym.list_inputs()[:8])}, …")
        net = SymbolBlock(sym, [var(n) for n in names])
        if param_file is not None:
            net.collect_params().load(param_file, ctx, allow_missing, ignore_extra, cast_dtype=True,
                                      dtype_source="saved")
        return net

    def __init__(self, outputs: Any, inputs: Any, params: ParameterDict | None = None):
        super().__init__(prefix=None, params=None)
        d = self.__dict__
        d["_prefix"], d["_empty_prefix"] = "", True
        d["_params"] = ParameterDict("", params)
        if isinstance(outputs, (list, tuple)):
            outputs = Group(list(outputs)) if len(outputs) > 1 else outputs[0]
        inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if not isinstance(outputs, Symbol) or not all(isinstance(i, Symbol) for i in inputs):
            raise AttributeValueError("SymbolBlock takes Symbols as outputs and inputs")
        computed = [i.name for i in inputs if i.entries[0][0].opdef is not None]
        if computed:
            raise AttributeValueError(f"SymbolBlock: inputs must be variables, but {', '.join(computed)} is what an "
                                      f"operator gives")
        d["_outputs"], d["_inputs"] = outputs, [i.list_outputs()[0] for i in inputs]
        self._register(outputs, set(d["_inputs"]))

    def __repr__(self) -> str:
        d = self.__dict__
        return f"{type(self).__name__}(\n{d['_outputs']!r} : {len(d['_inputs'])} -> {len(d['_outputs'].entries)}\n)"

    def _register(self, outputs: Symbol, inputs: set[str]) -> None:
        arguments, aux = outputs._variables()
        found = []
        for nodes, req in ((arguments, "write"), (aux, "null")):
            for n in nodes:
                if n.name in inputs:
                    continue
                shape, dtype = n.info[0]
                self.params.get(n.name, allow_deferred_init=True, grad_req=req, shape=shape,
                                **({"dtype": dtype} if dtype is not None else {}))
                found.append(n.name)
        cut = _common_prefix(found)
        self.__dict__["_reg_params"] = {name[cut:]: self.params[name] for name in found}
        self._touched()

    def forward(self, *args: Any) -> Any:                         # type: ignore[override]
        """Run the Symbol on arrays or on Symbols."""
        d = self.__dict__
        if len(args) != len(d["_inputs"]):
            raise AttributeValueError(f"this block takes {len(d['_inputs'])} inputs ({', '.join(d['_inputs'])}), got "
                                      f"{len(args)}")
        values = dict(zip(d["_inputs"], args))
        eager = not args or isinstance(args[0], NDArray)
        ctx = args[0]._ctx if eager and args else current_context()
        if eager and any(p._data is None and p._deferred is not None for p in self.params.values()):
            self._finish(args)
        names = {p.name: p for p in self.params.values()}

        def value_of(name: str) -> Any:
            if name in values:
                return values[name]
            return names[name].data(ctx) if eager else names[name].var()
        return run_graph(d["_outputs"], value_of, eager)

    def _finish(self, args: Any) -> None:
        outputs = self.__dict__["_outputs"]
        order = outputs.nodes()
        shapes = shapes_of(order, {n: a.shape for n, a in zip(self.__dict__["_inputs"], args)})
        for n in order:
            if n.opdef is None and n.name in self.params and shapes.get(id(n)) is not None:
                self.params[n.name].shape = shapes[id(n)]
                self.params[n.name]._finish_deferred_init()

    def _symbol(self) -> Symbol:
        return self.__dict__["_outputs"]


def _common_prefix(names: list[str]) -> int:
    if not names:
        return 0
    first, last = min(names), max(names)
    n = 0
    while n < min(len(first), len(last)) and first[n] == last[n]:
        n += 1
    return n
