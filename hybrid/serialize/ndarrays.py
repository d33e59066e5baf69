"""``nd.save``, ``nd.load`` and ``load_frombuffer``."""
from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import device
from ..buffers import evict
from ..buffers.array import RECORDS, NDArray, array, wrap
from ..base.errors import AttributeValueError, FileFormatError
from ..nd.functions import resolve
from ..base.scope import SCOPE
from .params import ParamsFile, read_file, read_record, write_params
from .safetensors_file import is_safetensors, read_safetensors, write_safetensors
from .sparse_parts import SparseParts


def save(fname: str | os.PathLike[str], data: Any, version: int | None = None) -> None:
    """Save an NDArray, a list of them or a dict from names to them as MXNet does, sparse ones too.

    version: 2 or 3 of MXNet's format (``npx.save`` writes 3); None takes 2, and 3 with NumPy's shapes (``npx.set_np``),
    as MXNet then needs it, or where an array has shape () or a size of 0. The file appears whole or not at all. Raises
    TypeError for anything else, DTypeError for a dtype that MXNet's files do not know (int16, uint32, uint64). A name
    that ends in ``.safetensors`` takes that format.

    >>> nd.save("w.params", {"weight": nd.ones((2, 3))})      # doctest: +SKIP
    """
    names, arrays = _named_arrays(data)
    if is_safetensors(fname):
        if len(names) != len(arrays):
            raise TypeError(f"{os.fspath(fname)}: a safetensors file holds arrays by name: give a dict")
        return write_safetensors(fname, dict(zip(names, map(_host, arrays))))
    if version is None and SCOPE.np_shape:
        version = 3
    contexts = [(a.ctx.device_typeid, a.ctx.device_id) for a in arrays]
    write_params(fname, [_host(a) if a.stype == "default" else _parts(a) for a in arrays], names, contexts, version)


def _host(a: NDArray) -> np.ndarray:
    made = evict.read(a)
    return made if made is not None else a._data if isinstance(a._data, np.ndarray) else a.asnumpy()


def _parts(a: Any) -> SparseParts:
    return SparseParts(a.stype, a.shape, a._values, a._aux)


def _named_arrays(data: Any) -> tuple[list[str], list[NDArray]]:
    if isinstance(data, NDArray):
        return [], [data]
    if isinstance(data, Mapping):
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, NDArray):
                raise TypeError(f"save takes a dict from str to NDArray; {key!r:.80} is a {type(key).__name__} for a "
                                f"{type(value).__name__}")
        return list(data), list(data.values())
    if isinstance(data, (list, tuple)):
        for k, value in enumerate(data):
            if not isinstance(value, NDArray):
                raise TypeError(f"save takes a list of NDArray; item {k} is a {type(value).__name__}")
        return [], list(data)
    raise AttributeValueError(f"save takes an NDArray, a list of them or a dict from str to them, not a "
                              f"{type(data).__name__}")


def load(fname: str | os.PathLike[str], cls: type[NDArray] = NDArray) -> Any:
    """What ``save`` wrote: a list where there are no names, a dict where there are. ``.safetensors`` files are read
    too.

    An array that was saved on a GPU comes back on it where it is there, else on the CPU.

    >>> nd.load("w.params")["weight"].shape                    # doctest: +SKIP
    (2, 3)
    """
    if is_safetensors(fname):
        return {k: wrap(a, device.cpu(0), cls) for k, a in read_safetensors(fname).items()}
    return _wrapped(read_file(fname, sparse=True), os.fspath(fname), cls)


def load_frombuffer(buf: bytes | bytearray | memoryview, cls: type[NDArray] = NDArray) -> Any:
    """``load`` of bytes in memory."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError(f"load_frombuffer takes bytes, not a {type(buf).__name__}")
    return _wrapped(read_file(buf, sparse=True), "<buffer>", cls)


def _wrapped(found: ParamsFile, source: str, cls: type[NDArray]) -> Any:
    arrays = [_to_device(a, context, cls, f"{source}: array {k}")
              for k, (a, context) in enumerate(zip(found.arrays, found.contexts, strict=True))]
    if not found.names:
        return arrays
    out = dict(zip(found.names, arrays, strict=True))
    if len(out) < len(arrays):
        twice = Counter(found.names).most_common(1)[0][0]
        raise FileFormatError(f"{source}: the name {twice!r:.80} stands there twice")
    return out


def _to_device(found: np.ndarray | SparseParts | None, context: tuple[int, int], cls: type[NDArray],
               where: str) -> NDArray:
    if found is None:
        raise FileFormatError(f"{where} has no value: it was saved before it was initialized")
    kind, number = context
    there = kind == 2 and number < device.num_gpus()
    if isinstance(found, SparseParts) and cls is NDArray:
        sparse = resolve("nd", "sparse")
        return sparse.make(sparse.KINDS[found.kind], found.shape, found.values, found.indices,
                           device.gpu(number) if there else device.cpu(0))
    if isinstance(found, SparseParts):              # arrays under NumPy's rules are dense
        found = found.dense()
    if there:
        return array(found, device.gpu(number), cls=cls)
    return wrap(found, device.cpu(0), cls)


def _from_pickle(state: Any, cls: type[NDArray]) -> NDArray:
    """The array of a state in one of MXNet's pickles."""
    handle = state.get("handle") if isinstance(state, dict) else None
    if not isinstance(handle, (bytes, bytearray)):
        raise FileFormatError(f"a pickled {cls.__name__} has a state that holds no array")
    found = _to_device(*read_record(bytes(handle), sparse=True), NDArray if cls.stype != "default" else cls,
                       "a pickled array")
    if found.stype != cls.stype:
        raise FileFormatError(f"a pickled {cls.__name__} holds an array of storage type {found.stype}")
    return found


RECORDS.append(_from_pickle)
