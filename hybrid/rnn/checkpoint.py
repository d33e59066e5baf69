"""Checkpoints of networks with recurrent cells: files hold the weights unpacked, one array a gate, whatever cell made
them."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from ..mxnet.checkpoint import load_checkpoint, save_checkpoint
from ..graph.symbol import Symbol
from .cell import BaseRNNCell


def _listed(cells: Any) -> Sequence[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else cells


def rnn_unroll(cell: BaseRNNCell, length: int, inputs: Any = None, begin_state: Any = None, input_prefix: str = "",
               layout: str = "NTC") -> Any:
    """``cell.unroll``, its old name."""
    return cell.unroll(length, inputs, begin_state, layout)


def save_rnn_checkpoint(cells: Any, prefix: str, epoch: int, symbol: Symbol | None, arg_params: Mapping[str, Any],
                        aux_params: Mapping[str, Any]) -> None:
    """Write ``prefix-symbol.json`` and ``prefix-%04d.params`` with the weights of a cell, or of a list of cells,
    unpacked."""
    for cell in _listed(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells: Any, prefix: str, epoch: int) -> tuple[Symbol, dict[str, Any], dict[str, Any]]:
    """The symbol, its arguments with the cells' weights packed, and its auxiliary states."""
    symbol, args, aux = load_checkpoint(prefix, epoch)
    for cell in _listed(cells):
        args = cell.pack_weights(args)
    return symbol, args, aux


def do_rnn_checkpoint(cells: Any, prefix: str, period: int = 1) -> Callable[..., None]:
    """An epoch_end_callback that calls ``save_rnn_checkpoint`` every ``period`` epochs."""
    period = max(1, int(period))

    def callback(epoch: int, symbol: Any = None, arg_params: Any = None, aux_params: Any = None) -> None:
        if (epoch + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, epoch + 1, symbol, arg_params or {}, aux_params or {})
    return callback


__all__ = ["do_rnn_checkpoint", "load_checkpoint", "load_rnn_checkpoint", "rnn_unroll", "save_checkpoint",
           "save_rnn_checkpoint"]
