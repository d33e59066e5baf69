"""Checkpoints of a Symbol with its arrays, the two files of ``HybridBlock.export``."""
from __future__ import annotations

import logging
from typing import Any, Mapping

from .. import serialize
from ..buffers.array import NDArray
from ..base.errors import FileFormatError
from ..graph.symbol import Symbol


def save_checkpoint(prefix: str, epoch: int, symbol: Symbol | None, arg_params: Mapping[str, NDArray],
                    aux_params: Mapping[str, NDArray],
                    remove_amp_cast: bool = True) -> None:
    """Write ``prefix-symbol.json`` (if there is a symbol) and ``prefix-%04d.params``."""
    if symbol is not None:
        serialize.symbol_json.save(symbol, f"{prefix}-symbol.json")
    path = f"{prefix}-{epoch:04d}.params"
    serialize.save(path, {**{f"arg:{k}": v for k, v in arg_params.items()},
                          **{f"aux:{k}": v for k, v in aux_params.items()}})
    logging.info('Saved checkpoint to "%s"', path)


def split_names(found: Any, path: str) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Arguments and auxiliary states out of the contents of a file, where names begin with ``arg:`` and ``aux:``."""
    found = found or {}
    if not isinstance(found, dict) or any(k[:4] not in ("arg:", "aux:") for k in found):
        raise FileFormatError(f"{path} is no checkpoint: names begin with arg: or aux: there; load it with nd.load or "
                              f"net.load_parameters")
    return tuple({k[4:]: v for k, v in found.items() if k.startswith(kind)}
                 for kind in ("arg:", "aux:"))      # type: ignore[return-value]


def load_params(prefix: str, epoch: int) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
    """Arguments and auxiliary states by name, from ``prefix-%04d.params``."""
    path = f"{prefix}-{epoch:04d}.params"
    return split_names(serialize.load(path), path)


def load_checkpoint(prefix: str, epoch: int) -> tuple[Symbol, dict[str, NDArray], dict[str, NDArray]]:
    """The symbol, its arguments and its auxiliary states.

    >>> symbol, arg_params, aux_params = load_checkpoint("lenet", 25)           # doctest: +SKIP
    """
    return serialize.symbol_json.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch)


__all__ = ["load_checkpoint", "load_params", "save_checkpoint", "split_names"]
