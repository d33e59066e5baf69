"""Optimizer states as bytes: an .npz archive of arrays, and JSON that says what they are. Reading it runs no code.

Members: ``header.npy`` (the JSON text as uint8) and ``0.npy``, ``1.npy``, ... (the arrays). Nothing is compressed, so
an archive cannot unpack to more than its size, and every member has a checksum.
"""
from __future__ import annotations

import io
import json
import zipfile
from typing import Any, Callable

import numpy as np

from ..base import dtype as dt
from ..buffers.array import NDArray, array
from ..base.device import Context, cpu, num_gpus
from ..base.errors import FileFormatError, HybridError
from . import mxnet_states

FORMAT = "hybrid optimizer states"
SKIPPED = ("param_dict", "_programs", "sym_info", "lr_scheduler", "_index_update_count", "idx2name")


# ---- values that JSON holds, with the types Python had
def _pack(value: Any, keep: Callable[[NDArray], int]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        return value.item()
    if isinstance(value, NDArray):
        return {"array": keep(value)}
    if isinstance(value, (tuple, list)):
        return {type(value).__name__ if type(value) in (tuple, list) else "tuple": [_pack(v, keep) for v in value]}
    if isinstance(value, dict):
        if not all(isinstance(k, (str, int)) for k in value):
            raise HybridError(f"optimizer states are kept by numbers and text, not by "
                              f"{next(type(k).__name__ for k in value if not isinstance(k, (str, int)))}")
        return {"dict": [[k, _pack(v, keep)] for k, v in value.items()]}
    raise HybridError(f"optimizer states hold a {type(value).__name__}, which cannot be saved; numbers, text, arrays, "
                      f"and tuples, lists and dicts of them can")


def _unpack(value: Any, arrays: Callable[[int], NDArray]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict) and len(value) == 1:
        (kind, content), = value.items()
        if kind == "array" and isinstance(content, int):
            return arrays(content)
        if kind in ("tuple", "list") and isinstance(content, list):
            return (tuple if kind == "tuple" else list)(_unpack(v, arrays) for v in content)
        if kind == "dict" and isinstance(content, list) and all(isinstance(row, list) and len(row) == 2
                                                                for row in content):
            if all(isinstance(k, (str, int)) for k, _ in content):
                return {k: _unpack(v, arrays) for k, v in content}
    raise FileFormatError("the optimizer states are damaged: their description is of no known form")


def attributes(owner: Any, keep: Callable[[NDArray], int], skipped: tuple[str, ...] = ()) -> dict[str, Any]:
    """The attributes of an optimizer or scheduler that are numbers, text, arrays, or lists, tuples and dicts of
    them."""
    out = {}
    for name, value in owner.__dict__.items():
        if name not in skipped:
            try:
                out[name] = _pack(value, keep)
            except HybridError:
                continue                              # a logger, a function: belongs to the program, not to the state
    return out


def restore(owner: Any, packed: Any, arrays: Callable[[int], NDArray], what: str) -> dict[str, Any]:
    """Attribute values for ``owner``, checked: only those it has, of the kind they have."""
    if not isinstance(packed, dict):
        raise FileFormatError("the optimizer states are damaged: attributes are missing")
    out = {}
    for name, value in packed.items():
        if name in SKIPPED or name not in owner.__dict__:
            raise FileFormatError(f"the states set {name!r}, which {what} does not have: they were saved by another "
                                  f"version of it")
        new, old = _unpack(value, arrays), owner.__dict__[name]
        if not _alike(new, old):
            raise FileFormatError(f"the states set {name!r} of {what} to a {type(new).__name__}, it is a "
                                  f"{type(old).__name__}")
        out[name] = new
    return out


def _alike(new: Any, old: Any) -> bool:
    number = (int, float, bool, np.number)
    return new is None or old is None or type(new) is type(old) or isinstance(new, number) and isinstance(old, number)


# ---- writing
def dump_states(states: dict[Any, Any], optimizer: Any = None, loss_scaler: Any = None) -> bytes:
    """States of an updater, and if an optimizer is given, what it counts and how it is set; of a loss scaler its scale
    and count."""
    held: list[np.ndarray] = []
    dtypes: list[str] = []
    devices: list[list[Any]] = []

    def keep(x: NDArray) -> int:
        raw = x.asnumpy()
        dtypes.append(raw.dtype.name)
        devices.append([x.ctx.device_type, x.ctx.device_id])
        # NumPy's format knows no bfloat16
        held.append(raw.view(np.uint16) if raw.dtype.name == "bfloat16" else raw)
        return len(held) - 1
    header: dict[str, Any] = {"format": FORMAT, "version": 1, "states": _pack(states, keep), "dtypes": dtypes,
                              "devices": devices}
    if optimizer is not None:
        header["optimizer"] = {"class": type(optimizer).__name__.lower(),
                               "attributes": attributes(optimizer, keep, SKIPPED)}
        if optimizer.lr_scheduler is not None:
            header["lr_scheduler"] = {"class": type(optimizer.lr_scheduler).__name__,
                                      "attributes": attributes(optimizer.lr_scheduler, keep)}
    if loss_scaler is not None:
        header["loss_scaler"] = loss_scaler.state()
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, header=text, **{str(i): a for i, a in enumerate(held)})
    return out.getvalue()


# ---- reading
def _open(data: bytes) -> tuple[dict[str, Any], Callable[[int], NDArray]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(m.compress_type != zipfile.ZIP_STORED or m.file_size > len(data) for m in archive.infolist()):
                raise ValueError("a compressed member")
            raw = {name: _read(archive.read(name)) for name in archive.namelist()}
        header = json.loads(raw.pop("header.npy").tobytes())
        if header["format"] != FORMAT:
            raise ValueError("another format")
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError, OSError, NotImplementedError,
            RecursionError, RuntimeError) as err:
        raise FileFormatError(f"these are no optimizer states of this library, or they are truncated or damaged "
                              f"({str(err)[:200]})") from None
    if header.get("version") != 1:
        raise FileFormatError(f"the optimizer states have version {header.get('version')!r}, this library reads 1")

    def arrays(i: int) -> NDArray:
        a, dtypes = raw.get(f"{i}.npy"), header.get("dtypes")
        if a is None or not isinstance(dtypes, list) or not 0 <= i < len(dtypes):
            raise FileFormatError(f"the optimizer states are damaged: array {i} is missing")
        if dtypes[i] == "bfloat16" and a.dtype == np.uint16:
            a = a.view(dt.as_dtype("bfloat16"))
        return array(a, _device(header.get("devices"), i), a.dtype)
    return header, arrays


def _device(devices: Any, i: int) -> Context:
    """Where an array was, if that device is here; else the CPU (an updater moves states to their weights)."""
    try:
        kind, number = devices[i]
        return Context("gpu", int(number)) if kind == "gpu" and 0 <= int(number) < num_gpus() else cpu()
    except (TypeError, ValueError, IndexError):
        raise FileFormatError("the optimizer states are damaged: devices are missing") from None


def _read(data: bytes) -> np.ndarray:
    """One .npy member; the array must fill it exactly."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    size = int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize
    if dtype.hasobject or size != len(data) - file.tell():
        raise ValueError("an array that does not fill its place")
    flat = np.frombuffer(data, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def load_states(data: bytes, optimizer: Any, loss_scaler: Any = None) -> dict[Any, Any]:
    """States by index. What was saved of the optimizer, its scheduler and a loss scaler is taken over, after all of it
    is checked."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise FileFormatError(f"optimizer states are bytes, got {type(data).__name__}")
    if bytes(data[:1]) == b"\x80":
        return _of_mxnet(bytes(data), optimizer)
    header, arrays = _open(bytes(data))
    states = _unpack(header.get("states"), arrays)
    if not isinstance(states, dict):
        raise FileFormatError("the optimizer states are damaged: no states by index")
    saved, schedule = header.get("optimizer"), header.get("lr_scheduler")
    scale = None if loss_scaler is None else loss_scaler.checked(header.get("loss_scaler"))
    if saved is None:
        return states
    name = type(optimizer).__name__
    if not isinstance(saved, dict) or saved.get("class") != name.lower():
        raise FileFormatError(f"the states are of the optimizer "
                              f"{saved.get('class') if isinstance(saved, dict) else saved!r}, this one is "
                              f"{name.lower()!r}")
    new = restore(optimizer, saved.get("attributes"), arrays, name)
    if schedule is not None:
        own = optimizer.lr_scheduler
        if not isinstance(schedule, dict) or own is None or schedule.get("class") != type(own).__name__:
            raise FileFormatError(f"the states were saved with the lr_scheduler "
                                  f"{schedule.get('class') if isinstance(schedule, dict) else schedule!r}, "
                                  f"this optimizer has {type(own).__name__ if own is not None else 'none'}")
        own.__dict__.update(restore(own, schedule.get("attributes"), arrays, type(own).__name__))
    optimizer.__dict__.update(new)
    if scale is not None:
        loss_scaler.resume(*scale)
    counts = optimizer._all_index_update_counts
    optimizer._index_update_count = counts.setdefault(0, {})
    return states


# ---- MXNet's own files
def _of_mxnet(data: bytes, optimizer: Any) -> dict[Any, Any]:
    """States of a file that MXNet wrote; what its optimizer and scheduler counted and how they were set is taken over
    where ours have it."""
    states, saved = mxnet_states.read(data)
    if saved is None:
        return states
    name, kind = type(optimizer).__name__.lower(), saved.name.rpartition(".")[2]
    if kind.lower() != name:
        raise FileFormatError(f"the states are of MXNet's optimizer {kind}, this one is {name!r}")
    schedule, own = saved.state.get("lr_scheduler"), optimizer.lr_scheduler
    if (type(own).__name__ if own is not None else None) != (schedule.name.rpartition(".")[2] if schedule is not None
                                                             else None):
        raise FileFormatError(f"the states were saved with the lr_scheduler "
                              f"{schedule.name if schedule is not None else 'none'}, this optimizer has "
                              f"{type(own).__name__ if own is not None else 'none'}")
    if own is not None and schedule is not None:
        own.__dict__.update(_known(own, schedule.state))
    optimizer.__dict__.update(_known(optimizer, saved.state))
    optimizer._index_update_count = optimizer._all_index_update_counts.setdefault(0, {})
    return states


def _known(owner: Any, attributes_: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in attributes_.items() if k not in SKIPPED and k in owner.__dict__
            and _alike(v, owner.__dict__[k])}
