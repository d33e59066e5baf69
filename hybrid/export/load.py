"""Weights of an exported model on the way back into Python."""
from __future__ import annotations

import json
import os
import zlib
from typing import Any

import numpy as np

from ..base import dtype as dt
from ..base.errors import AttributeValueError, FileFormatError
from ..optimizer.step import flat
from .training import COUNT
from .weights import CODES

_DTYPES = {code: name for name, code in CODES.items()}


def load_weights(path: str | os.PathLike[str], target: Any = None) -> dict[str, np.ndarray]:
    """The arrays of a weights file, by name. target: a Block or a Trainer, whose parameters become those of the file;
    a Trainer's states and counts of updates too.

    >>> load_weights("learned.weights", trainer)                   # doctest: +SKIP
    """
    with open(path, "rb") as f:
        arrays = _parsed(f.read(), os.fspath(path))
    if target is None:
        return arrays
    if hasattr(target, "_updaters"):
        _into_trainer(arrays, target, os.fspath(path))
    elif hasattr(target, "_collect_params_with_prefix"):
        for key, p in target._collect_params_with_prefix().items():
            _set(p, _found(arrays, (key, p.name), os.fspath(path)))
    else:
        raise AttributeValueError(f"load_weights takes a Block or a Trainer, got {type(target).__name__}")
    return arrays


def _parsed(content: bytes, path: str) -> dict[str, np.ndarray]:
    try:
        size = int.from_bytes(content[:8], "little")
        header, data = json.loads(content[8:8 + size].decode()), content[8 + size:]
        about = header.pop("__metadata__", {})
        if "hybrid.crc32" in about and f"{zlib.crc32(data):08x}" != about["hybrid.crc32"]:
            raise ValueError("the checksum differs")
        out = {}
        for name, e in header.items():
            begin, end = e["data_offsets"]
            kind = dt.bfloat16 if e["dtype"] == "BF16" else np.dtype(_DTYPES[e["dtype"]])
            if not 0 <= begin <= end <= len(data):
                raise ValueError(f"{name} lies outside of the file")
            out[name] = np.frombuffer(data[begin:end], kind).reshape(e["shape"]).copy()
        return out
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise FileFormatError(f"{path} is no weights file of an exported model, or a damaged one: {err}") from None


def _found(arrays: dict[str, np.ndarray], names: tuple[str, ...], path: str) -> np.ndarray:
    for name in names:
        if name in arrays:
            return arrays[name]
    raise FileFormatError(f"{path} has no array {names[0]!r}; it has {', '.join(list(arrays)[:8])}")


def _set(p: Any, value: np.ndarray) -> None:
    p.set_data(value)


def _into_trainer(arrays: dict[str, np.ndarray], trainer: Any, path: str) -> None:
    updater, optimizer = trainer._updaters[0], trainer._optimizer
    for i, p in enumerate(trainer._params):
        if p.grad_req == "null" and p.name not in arrays:
            continue
        _set(p, _found(arrays, (p.name,), path))
        if p.grad_req == "null":
            continue                                         # it is not updated
        w = p.data()
        state = updater.state(i, w)
        held = optimizer.states_of(w, state, True) if optimizer.low_precision(w) else flat(state)
        for n, x in enumerate(held):
            x[:] = _found(arrays, (f"{p.name}.state{n}",), path)
        if COUNT in arrays:
            optimizer._index_update_count[i] = int(arrays[COUNT])
    if COUNT in arrays:
        optimizer.num_update = max(optimizer.num_update, int(arrays[COUNT]))
