"""Exporting a Symbol with its parameters: the two files of ``HybridBlock.export``."""
from __future__ import annotations

from collections.abc import Mapping

from ..buffers.array import NDArray
from ..graph.symbol import Symbol
from . import ndarrays, symbol_json


def export_symbol(symbol: Symbol, params: Mapping[str, NDArray], aux: Mapping[str, NDArray], prefix: str,
                  epoch: int = 0, remove_amp_cast: bool = True) -> tuple[str, str]:
    """Write ``prefix-symbol.json`` and ``prefix-0000.params`` (the epoch in four digits), as ``HybridBlock.export``.

    params, aux: arrays by the names of the Symbol's arguments and auxiliary states; names that the Symbol does not
    have are left out. They are written in the order of the graph. Returns the two file names.
    """
    values = {**{name: f"arg:{name}" for name in params}, **{name: f"aux:{name}" for name in aux}}
    arrays = {**params, **aux}
    inputs = [node.name for node, _ in symbol_json.in_order(symbol.entries) if node.opdef is None]
    data = {values[name]: arrays[name] for name in inputs if name in arrays}
    names = f"{prefix}-symbol.json", f"{prefix}-{epoch:04d}.params"
    symbol_json.save(symbol, names[0], remove_amp_cast)
    ndarrays.save(names[1], data)
    return names
