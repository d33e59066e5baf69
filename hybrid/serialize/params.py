"""MXNet's binary list of arrays (``.params`` files): read and written byte for byte as MXNet 1.9.1 does.

Layout, little-endian: ``uint64`` magic 0x112, ``uint64`` reserved, ``uint64`` count, that many arrays,
``uint64`` count of names (0 or as many as arrays), each a ``uint64`` length and UTF-8 bytes.
One array: ``uint32`` magic (its version), ``int32`` storage type (versions 2 and 3), ``int32`` rank and
``int64`` sizes, device as two ``int32``, dtype as ``int32``, then the elements.

The file is data: every size is compared with the bytes that are left before anything is allocated.
"""
from __future__ import annotations

import io
import math
import os
import struct
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..base import dtype as dtypes
from ..base.device import aligned_empty
from ..base.errors import DTypeError, FileFormatError
from ..base.atomic import existing, replacing
from .kinds import looks_like
from .sparse_parts import STORAGE, SparseParts

LIST_MAGIC = 0x112
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_DEVICES = (1, 2, 3, 5)                         # cpu, gpu, cpu_pinned, cpu_shared
_MAX_RANK = 32                                  # NumPy 1.26's limit; MXNet's own files stay far below it
_CPU0 = (1, 0)
# bytes that a sparse array may take as a dense one, whatever the file's size
_DENSE = 1 << 26


class ParamsFile(NamedTuple):
    """What a ``.params`` file holds. ``names`` is empty for a list; ``contexts`` are (device type, id) numbers.

    ``arrays`` holds None where MXNet saved an array that has no value; ``versions`` are 0 (legacy), 1, 2 or 3.
    """
    arrays: list[np.ndarray | SparseParts | None]
    names: list[str]
    contexts: list[tuple[int, int]]
    versions: list[int]


class _Reader:
    """A file and how much of it is left; every error names the file and the offset."""

    def __init__(self, file: BinaryIO, name: str, sparse: bool = False):
        self.file, self.name, self.sparse = file, name, sparse
        self.size = file.seek(0, os.SEEK_END)
        file.seek(0)
        self.offset = 0

    @property
    def left(self) -> int:
        return self.size - self.offset

    def error(self, what: str, at: int | None = None) -> FileFormatError:
        return FileFormatError(f"{self.name}: offset {self.offset if at is None else at}: {what}")

    def need(self, count: int, what: str) -> None:
        if count > self.left:
            raise self.error(f"{what} needs {count} bytes, but {self.left} are left: the file is truncated or damaged")

    def take(self, layout: str, what: str) -> tuple[Any, ...]:
        count = struct.calcsize("<" + layout)
        self.need(count, what)
        data = self.file.read(count)
        if len(data) != count:
            raise self.error(f"{what}: the file became shorter while it was read")
        self.offset += count
        return struct.unpack("<" + layout, data)

    def one(self, layout: str, what: str) -> int:
        return self.take(layout, what)[0]

    def fill(self, array: np.ndarray, what: str) -> None:
        self.need(array.nbytes, what)
        got = self.file.readinto(array.reshape(-1).view(np.uint8).data)  # type: ignore[attr-defined]
        if got != array.nbytes:
            raise self.error(f"{what}: the file became shorter while it was read")
        self.offset += array.nbytes


def read_file(source: str | os.PathLike[str] | bytes | bytearray | memoryview, sparse: bool = False) -> ParamsFile:
    """Everything in a ``.params`` file or in a buffer with the same bytes.

    Raises FileFormatError with the file's name and the offset for what is truncated or damaged. Sparse arrays are read
    as dense ones, or with ``sparse`` as their parts.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _read_list(_Reader(io.BytesIO(source), "<buffer>", sparse))
    with open(existing(source), "rb") as file:
        if not file.seekable():
            return _read_list(_Reader(io.BytesIO(file.read()), os.fspath(source), sparse))
        return _read_list(_Reader(file, os.fspath(source), sparse))


def read_params(source: str | os.PathLike[str] | bytes | bytearray | memoryview
                ) -> tuple[list[np.ndarray | None], list[str]]:
    """The arrays and the names (empty for a list without names) of a ``.params`` file or buffer.

    >>> write_params("a.params", [np.zeros(3, "float32")], ["w"])     # doctest: +SKIP
    >>> read_params("a.params")                                       # doctest: +SKIP
    ([array([0., 0., 0.], dtype=float32)], ['w'])
    """
    found = read_file(source)
    arrays: Any = found.arrays                      # dense ones alone
    return arrays, found.names


def read_array(data: bytes) -> np.ndarray:
    """The array of one record, as MXNet pickles an array; FileFormatError when it is damaged or holds no values."""
    found: np.ndarray = read_record(data)[0]
    return found


def read_record(data: bytes, sparse: bool = False) -> tuple[Any, tuple[int, int]]:
    """The array of one record (with ``sparse`` a sparse one as its parts) and its device; FileFormatError when it is
    damaged or holds no values."""
    reader = _Reader(io.BytesIO(data), "<array>", sparse)
    found, device, _ = _read_array(reader, 0)
    if found is None or reader.left:
        raise reader.error("a pickled array holds no values, or more than its shape says")
    return found, device


def _read_list(reader: _Reader) -> ParamsFile:
    magic, _reserved = reader.take("QQ", "the file's header")
    if magic != LIST_MAGIC:
        raise reader.error(f"this is not an MXNet .params file: it begins with {magic:#x}, not "
                           f"{LIST_MAGIC:#x}{looks_like(magic.to_bytes(8, 'little'))}", 0)
    count = reader.one("Q", "the number of arrays")
    if count > reader.left // 4:                # the smallest array is a magic number
        raise reader.error(f"{count} arrays do not fit in the {reader.left} bytes that are left")
    out = ParamsFile([], [], [], [])
    for index in range(count):
        array, context, version = _read_array(reader, index)
        out.arrays.append(array)
        out.contexts.append(context)
        out.versions.append(version)
    out.names.extend(_read_names(reader, count))
    if reader.left:
        raise reader.error(f"{reader.left} bytes follow the end of the list")
    return out


def _read_names(reader: _Reader, arrays: int) -> list[str]:
    count = reader.one("Q", "the number of names")
    if count not in (0, arrays):
        raise reader.error(f"{count} names for {arrays} arrays; expected none or one each")
    names = []
    for index in range(count):
        length = reader.one("Q", f"the length of name {index}")
        reader.need(length, f"name {index}")
        start = reader.offset
        data, = reader.take(f"{length}s", f"name {index}")
        try:
            names.append(data.decode("utf-8"))  # type: ignore[attr-defined]
        except UnicodeDecodeError as err:
            raise reader.error(f"name {index} is not UTF-8: {err.reason}", start) from err
    return names


def _read_array(reader: _Reader, index: int) -> tuple[Any, tuple[int, int], int]:
    what = f"array {index}"
    start = reader.offset
    magic = reader.one("I", f"the version of {what}")
    version = {V1: 1, V2: 2, V3: 3}.get(magic, 0)
    if version >= 2:
        storage = reader.one("i", f"the storage type of {what}")
        if storage in STORAGE:
            return (*_read_sparse(reader, STORAGE[storage], what), version)
        if storage != 0:
            raise reader.error(f"{what} has storage type {storage}; known: 0 (dense), 1 (row_sparse), 2 (csr)", start)
    if version:
        shape = _read_shape(reader, reader.one("i", f"the rank of {what}"), "q", what)
    else:
        if magic > _MAX_RANK:                   # before version 1 the rank stood where the magic number stands
            raise reader.error(f"{what} begins with {magic:#x}, which is no version of the format", start)
        shape = _read_shape(reader, magic, "I", what)
    if shape is None or (not shape and version < 3):
        return None, _CPU0, version
    device = _read_device(reader, what)
    return _read_values(reader, shape, what), device, version


def _read_device(reader: _Reader, what: str) -> tuple[int, int]:
    device, device_id = reader.take("ii", f"the device of {what}")
    if device not in _DEVICES:
        raise reader.error(f"{what} has device type {device}; known: 1 (cpu), 2 (gpu), 3, 5", reader.offset - 8)
    return device, device_id


def _read_sparse(reader: _Reader, kind: str, what: str) -> tuple[np.ndarray | SparseParts | None, tuple[int, int]]:
    """After the storage type: shape of the values, shape, device, dtype; dtype and shape of each list of indices; the
    values; the indices."""
    start = reader.offset
    stored, shape = (_read_shape(reader, reader.one("i", f"the rank of {what}"), "q", what) for _ in range(2))
    if not shape or stored is None:
        return None, _CPU0
    device = _read_device(reader, what)
    dt = _read_dtype(reader, what)
    lists = [(_read_dtype(reader, f"indices of {what}"),
              _read_shape(reader, reader.one("i", f"the rank of {what}"), "q", what))
             for _ in range(1 if kind == "row_sparse" else 2)]
    values = _read_elements(reader, stored, dt, what)
    indices = tuple(_read_elements(reader, s or (0,), t, f"indices of {what}") for t, s in lists)
    if not reader.sparse and math.prod(shape) * dt.itemsize > max(_DENSE, 64 * reader.size):
        raise reader.error(f"{what} is {kind} and would have the shape {shape} as a dense array, too large for what "
                           f"the file holds", start)
    try:
        parts = SparseParts(kind, shape, values, indices).checked()
        return parts if reader.sparse else parts.dense(), device
    except (ValueError, IndexError) as err:
        raise reader.error(f"{what} is {kind} of shape {shape}, which its values {stored} and indices do not fit: {err}", start) from None  # noqa: E501


def _read_shape(reader: _Reader, rank: int, layout: str, what: str) -> tuple[int, ...] | None:
    start = reader.offset
    if rank == -1:                              # an unknown shape: no value was saved
        return None
    if not 0 <= rank <= _MAX_RANK:
        raise reader.error(f"{what} has {rank} dimensions; expected 0 to {_MAX_RANK}", start)
    shape = reader.take(f"{rank}{layout}", f"the shape of {what}")
    if any(size < 0 for size in shape):
        raise reader.error(f"{what} has the shape {shape}, with a negative size", start)
    return shape


def _read_values(reader: _Reader, shape: tuple[int, ...], what: str) -> np.ndarray:
    return _read_elements(reader, shape, _read_dtype(reader, what), what)


def _read_dtype(reader: _Reader, what: str) -> np.dtype:
    start = reader.offset
    code = reader.one("i", f"the dtype of {what}")
    if code == 12 and dtypes.bfloat16 is None:
        raise DTypeError(f"{reader.name}: {what} is bfloat16, which needs the package ml_dtypes: pip install ml_dtypes")
    dt = dtypes.MX_CODES.get(code)
    if dt is None:
        known = ", ".join(f"{number} ({kind.name})" for number, kind in dtypes.MX_CODES.items())
        raise reader.error(f"{what} has dtype number {code}; known: {known}", start)
    return dt


def _read_elements(reader: _Reader, shape: tuple[int, ...], dt: np.dtype, what: str) -> np.ndarray:
    start = reader.offset
    reader.need(math.prod(shape) * dt.itemsize, f"{what} of shape {shape} and dtype {dt.name}")
    try:
        array = aligned_empty(shape, dt.newbyteorder("<") if dt.kind in "fiu" else dt)
    except (ValueError, MemoryError) as err:    # sizes like (0, 2**62) pass the check above
        raise reader.error(f"{what} cannot have the shape {shape}: {err}", start) from err
    reader.fill(array, f"{what} of shape {shape} and dtype {dt.name}")
    if dt.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        array = array.view(np.uint8) != 0       # NumPy's bool must hold 0 or 1 and nothing else
    return array


def write_params(path: str | os.PathLike[str] | BinaryIO, arrays: Sequence[np.ndarray | SparseParts | None],
                 names: Sequence[str] = (), contexts: Sequence[tuple[int, int]] | None = None,
                 version: int | None = None) -> None:
    """Write arrays and their names as MXNet 1.9.1 does; ``path`` appears whole or not at all.

    version: 2, which every MXNet 1.x loads, or 3 (NumPy shapes), which alone can hold 0-d and zero-size
    arrays; None takes 2 where it can. Raises DTypeError for a dtype that MXNet's files do not know.

    >>> write_params("a.params", [np.zeros(3, "float32")], ["w"])     # doctest: +SKIP
    """
    if names and len(names) != len(arrays):
        raise ValueError(f"{len(names)} names for {len(arrays)} arrays; expected none or one each")
    labels = list(names) or [f"array {i}" for i in range(len(arrays))]
    for label, array in zip(labels, arrays):
        if array is not None and array.dtype not in dtypes.CODE_OF:
            known = ", ".join(dt.name for dt in dtypes.CODE_OF)
            raise DTypeError(f"{label!r} has dtype {array.dtype}, which MXNet's files cannot hold; cast it to one of: "
                             f"{known}")
    if version is None:
        version = 3 if any(isinstance(a, np.ndarray) and (a.size == 0 or a.ndim == 0) for a in arrays) else 2
    if not isinstance(path, (str, os.PathLike)):
        _write_list(path, arrays, names, contexts, version)
        return
    with replacing(path) as out:
        _write_list(out, arrays, names, contexts, version)


def _write_list(out: BinaryIO, arrays: Sequence[np.ndarray | SparseParts | None], names: Sequence[str],
                contexts: Sequence[tuple[int, int]] | None, version: int) -> None:
    out.write(struct.pack("<QQQ", LIST_MAGIC, 0, len(arrays)))
    for array, context in zip(arrays, contexts or [_CPU0] * len(arrays)):
        (_write_sparse if isinstance(array, SparseParts) else _write_array)(out, array, context, version)
    out.write(struct.pack("<Q", len(names)))
    for name in names:
        data = name.encode("utf-8")
        out.write(struct.pack("<Q", len(data)) + data)


def _sized(shape: tuple[int, ...]) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


def _write_sparse(out: BinaryIO, parts: Any, context: tuple[int, int], version: int) -> None:
    kind = next(number for number, name in STORAGE.items() if name == parts.kind)
    out.write(struct.pack("<Ii", V3 if version == 3 else V2, kind) + _sized(parts.values.shape) + _sized(parts.shape))
    out.write(struct.pack("<iii", *context, dtypes.CODE_OF[parts.dtype]))
    for i in parts.indices:
        out.write(struct.pack("<i", dtypes.CODE_OF[i.dtype]) + _sized(i.shape))
    for a in (parts.values, *parts.indices):
        _write_elements(out, a)


def _write_elements(out: BinaryIO, array: np.ndarray) -> None:
    data = np.ascontiguousarray(array)
    if data.dtype.byteorder == ">":             # pragma: no cover - files are little-endian on every machine
        data = data.byteswap()
    out.write(data.reshape(-1).view(np.uint8).data)


def _write_array(out: BinaryIO, array: Any, context: tuple[int, int], version: int) -> None:
    out.write(struct.pack("<Ii", V3 if version == 3 else V2, 0))
    if array is None:
        out.write(struct.pack("<i", -1 if version == 3 else 0))
        return
    out.write(_sized(array.shape) + struct.pack("<iii", *context, dtypes.CODE_OF[array.dtype]))
    _write_elements(out, array)
