"""ONNX networks whose graph depends on input lengths in a way that no single Symbol expresses: it is read
again for each set of lengths, or once with
lengths that are symbols, which gives one program for all."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

from ... import gluon, nd
from ...base.errors import AttributeValueError
from ...buffers.array import NDArray
from ...gluon.graph import run_graph
from ...graph.symbol import Group, Symbol, var
from .open_lengths import two_lengths
from .reader import Reader, dtype_of

MOST_GRAPHS = 32                        # sets of lengths for which a network that is not hybridized keeps its graph


class AnyLengthNet(gluon.SymbolBlock):
    """A network whose graph computes shapes from the lengths of its inputs. AttributeValueError where numbers depend on
    these in a way that operators do not say. shapes: of inputs whose lengths the caller gives.

    >>> net = import_to_gluon('net.onnx'); net.hybridize()                                  # doctest: +SKIP
    >>> for n in range(2, 100): y = net(nd.ones((1, n, 64)))     # two programs: one size, any size   # doctest: +SKIP
    """

    def __init__(self, model: Any, shapes: Mapping[str, Sequence[int]]):
        first, second = (_read(model, _variables(model, given)) for given in two_lengths(model, shapes))
        differing = [k for k, v in first.params.items()
                     if k not in second.params or v.shape != second.params[k].shape or v.dtype != second.params[k].dtype
                     or v.tobytes() != second.params[k].tobytes()]
        if differing or set(first.params) != set(second.params):
            raise AttributeValueError(f"the numbers of {', '.join(map(repr, differing))} depend on lengths that the "
                                      f"file leaves open")
        head = _head(first)
        super().__init__(head, [var(name) for name in first.inputs])
        used = set(head.list_inputs())
        # numbers: of the parameters, which whoever makes the network loads
        self.__dict__.update(model=model, graphs={}, numbers={
            k: nd.array(v, dtype=v.dtype) for k, v in first.params.items() if k in used})

    def forward(self, *args: Any) -> Any:
        """Run the graph for the lengths of the arguments."""
        d = self.__dict__
        if len(args) != len(d["_inputs"]):
            raise AttributeValueError(f"this network takes {len(d['_inputs'])} inputs ({', '.join(d['_inputs'])}), got "
                                      f"{len(args)}")
        names = {p.name: p for p in self.params.values()}
        given = dict(zip(d["_inputs"], args))
        if not isinstance(args[0], NDArray):
            found = _read(d["model"], given, {k: p.var() for k, p in names.items()}).outputs
            return found[0] if len(found) == 1 else found
        key = tuple(a.shape for a in args)
        if key not in d["graphs"]:
            while len(d["graphs"]) >= MOST_GRAPHS:
                d["graphs"].pop(next(iter(d["graphs"])))
            d["graphs"][key] = _head(_read(d["model"], _variables(d["model"], {k: a.shape for k, a in given.items()})))
        ctx = args[0]._ctx
        return run_graph(d["graphs"][key], lambda k: given[k] if k in given else names[k].data(ctx), True)

    def _symbol(self) -> Symbol:
        return gluon.HybridBlock._symbol(self)               # for the lengths of the last call


def _variables(model: Any, shapes: Mapping[str, Any]) -> dict[str, Symbol]:
    """The inputs of a model as variables of some shapes."""
    constants = {t.name for t in model.graph.initializer}
    return {i.name: var(i.name, shape=shapes.get(i.name), dtype=dtype_of(i.type.tensor_type.elem_type))
            for i in model.graph.input if i.name not in constants}


def _read(model: Any, given: Mapping[str, Symbol], parameters: Mapping[str, Symbol] | None = None) -> Reader:
    return Reader(model, {}, given, parameters)


def _head(reader: Reader) -> Symbol:
    return reader.outputs[0] if len(reader.outputs) == 1 else Group(reader.outputs)
