"""RecordIO files (``.rec`` with ``.idx``) and the image records in them, byte for byte as MXNet writes them.

A record is ``magic, flag << 29 | length, data, zeros up to 4 bytes``, all little-endian. Where the data holds the magic
number at a multiple of 4 bytes the record is cut there: the parts have the flags 1 (first), 2 (middle), 3 (last), a
whole record 0, and the reader puts the magic number back between the parts (dmlc-core, ``recordio.h``).
"""
from __future__ import annotations

import numbers
import os
import struct
import threading
from collections import namedtuple
from typing import Any, BinaryIO, Callable

import numpy as np

from ..base import codec
from ..base.errors import FileFormatError, HybridError, OrderError
from ..base.atomic import existing

MAGIC = 0xCED7230A
_MAGIC = struct.pack("<I", MAGIC)
_HEAD = struct.Struct("<II")
_LIMIT = 1 << 29                       # the length has 29 bits
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)


def _cuts(data: bytes) -> list[int]:
    """Where the magic number stands in the data, at multiples of 4."""
    out, at = [], data.find(_MAGIC)
    while at >= 0:
        if at % 4 == 0:
            out.append(at)
        at = data.find(_MAGIC, at + (4 if at % 4 == 0 else 1))
    return out


def encode(data: bytes) -> bytes:
    """The bytes of one record in a file."""
    if len(data) >= _LIMIT:
        raise HybridError(f"a record holds less than 2^29 bytes (512 MiB), this one has {len(data)}: split it")
    parts, begin = [], 0
    for cut in _cuts(data):
        parts += [_HEAD.pack(MAGIC, (_MIDDLE if begin else _FIRST) << 29 | cut - begin), data[begin:cut]]
        begin = cut + 4
    parts += [_HEAD.pack(MAGIC, (_LAST if begin else _WHOLE) << 29 | len(data) - begin), data[begin:],
              bytes(-len(data) % 4)]
    return b"".join(parts)


class MXRecordIO:
    """Reads (``flag="r"``) or writes (``"w"``) a record file in order.

    A reader may be pickled: the copy starts at the first record. The other process of a fork must not use it; ``reset``
    opens the file again there.

    >>> record = MXRecordIO("/tmp/some.rec", "w")      # doctest: +SKIP
    >>> record.write(b"first"); record.close()         # doctest: +SKIP
    >>> MXRecordIO("/tmp/some.rec", "r").read()        # doctest: +SKIP
    b'first'
    """

    def __init__(self, uri: str | os.PathLike[str], flag: str):
        self.uri = os.fspath(uri)
        self.flag = flag
        self.pid: int | None = None
        self.is_open = False
        self.writable = flag == "w"
        self._file: BinaryIO | None = None
        if flag not in ("r", "w"):
            raise ValueError(f"the flag of a record file is 'r' or 'w', got {flag!r}")
        self.open()

    def open(self) -> None:
        """Open the file, from its start; one that is written is emptied."""
        self._file = open(existing(self.uri), "rb") if self.flag == "r" else open(self.uri, "wb")
        self._lock = threading.Lock()              # one position for all threads
        self.pid, self.is_open = os.getpid(), True

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.is_open and self._file is not None:
            self._file.close()
            self.is_open, self.pid = False, None

    def reset(self) -> None:
        """Back to the first record; a file that is written is emptied."""
        self.close()
        self.open()

    def __del__(self) -> None:
        if getattr(self, "is_open", False):
            self.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self.writable:
            raise TypeError(f"{self.uri} is being written: only a reader can be copied to another process")
        return {k: v for k, v in self.__dict__.items() if k not in ("_file", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._file, was_open, self.is_open = None, self.is_open, False
        if was_open:
            self.open()

    def _ready(self, writing: bool, allow_reset: bool = False) -> BinaryIO:
        """The open file, in the process that opened it."""
        if self.writable != writing:
            raise OrderError(f"{self.uri} was opened with the flag {self.flag!r}, which does not "
                             f"{'write' if writing else 'read'}")
        if not self.is_open:
            raise HybridError(f"{self.uri} is closed; reset() opens it again")
        if self.pid != os.getpid():
            if not allow_reset:
                raise RuntimeError(f"{self.uri} was opened by another process, with which this one would share its "
                                   f"position; call reset() first")
            # the parent's: closing it here would not disturb the parent, but is not ours to do
            self._file = None
            self.open()
        assert self._file is not None
        return self._file

    def write(self, buf: bytes) -> None:
        """Append a record."""
        if not isinstance(buf, (bytes, bytearray, memoryview)):
            raise TypeError(f"a record is bytes, got {type(buf).__name__}"
                            + ("; encode the text first" if isinstance(buf, str) else ""))
        self._ready(writing=True).write(encode(bytes(buf)))

    def tell(self) -> int:
        """Where the next record will be written (the byte in the file)."""
        return self._ready(writing=True).tell()

    def read(self) -> bytes | None:
        """The next record, or None after the last. FileFormatError when the file is cut off or is something else."""
        file = self._ready(writing=False)
        with self._lock:
            return self._record(file)

    def _record(self, file: BinaryIO) -> bytes | None:
        parts: list[bytes] = []
        while True:
            at = file.tell()
            head = file.read(8)
            if not head and not parts:
                return None
            if len(head) < 8:
                raise self._broken(at, f"{len(head)} bytes where a record's head of 8 belongs: the file is cut off")
            magic, word = _HEAD.unpack(head)
            if magic != MAGIC:
                raise self._broken(at,
                                   f"0x{magic:08x} where the magic number 0x{MAGIC:08x} belongs: the file is damaged, "
                                   f"is no record file, or its index "
                                       "is that of another one")
            flag, length = word >> 29, word & _LIMIT - 1
            padded = length + -length % 4
            data = file.read(padded)
            if len(data) < padded:
                raise self._broken(at,
                                   f"a record of {length} bytes of which {len(data)} are there: the file is cut off")
            if flag > _LAST or (flag in (_WHOLE, _FIRST)) != (not parts):
                raise self._broken(at,
                                   f"a record part with the flag {flag} "
                                   f"{'at the start of a record' if not parts else 'inside a record'}")
            parts.append(data[:length])
            if flag in (_WHOLE, _LAST):
                return parts[0] if len(parts) == 1 else _MAGIC.join(parts)

    def _broken(self, at: int, what: str) -> FileFormatError:
        return FileFormatError(f"{self.uri}, byte {at}: {what}")


class MXIndexedRecordIO(MXRecordIO):
    """A record file with an index of ``key <tab> position`` lines, for reading in any order.

    ``keys`` lists the keys in file order, ``idx`` maps them to positions. Reading with ``read_idx`` works in forked
    processes and from several threads.
    """

    def __init__(self, idx_path: str | os.PathLike[str], uri: str | os.PathLike[str], flag: str,
                 key_type: Callable[[Any], Any] = int):
        self.idx_path = os.fspath(idx_path)
        self.key_type = key_type
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.fidx: Any = None
        super().__init__(uri, flag)

    def open(self) -> None:
        """Open both files; a reader reads the whole index."""
        super().open()
        self.idx, self.keys = {}, []
        if self.writable:
            self.fidx = open(self.idx_path, "w")
            return
        with open(existing(self.idx_path), encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    key, position = line.rstrip("\n").split("\t")[:2]
                    self.idx[self.key_type(key)] = int(position)
                except ValueError:
                    raise FileFormatError(f"{self.idx_path}, line {number}: {line[:80]!r} is not 'key <tab> position'; "
                                          "is it the index of a record file?") from None
                self.keys.append(self.key_type(key))

    def close(self) -> None:
        """Close both files."""
        super().close()
        if self.fidx is not None:
            self.fidx.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "fidx": None}

    def _position(self, idx: Any) -> int:
        try:
            return self.idx[idx]
        except KeyError:
            known = f", from {self.keys[0]!r} to {self.keys[-1]!r}" if self.keys else ""
            raise KeyError(f"{self.idx_path} has no record {idx!r}; it has {len(self.keys)}{known}") from None

    def seek(self, idx: Any) -> None:
        """Read the record of this key next."""
        self._ready(writing=False, allow_reset=True).seek(self._position(idx))

    def read_idx(self, idx: Any) -> bytes:
        """The record of a key."""
        file = self._ready(writing=False, allow_reset=True)
        with self._lock:
            at = self._position(idx)
            file.seek(at)
            record = self._record(file)
        if record is None:
            raise self._broken(at,
                               f"the end of the file, where the index has record {idx!r}: the file is cut off, or the "
                               f"index is that of another one")
        return record

    def write_idx(self, idx: Any, buf: bytes) -> None:
        """Append a record and its line of the index."""
        key, position = self.key_type(idx), self.tell()
        self.write(buf)
        self.fidx.write(f"{key}\t{position}\n")
        self.idx[key] = position
        self.keys.append(key)


IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])         # type: ignore[name-match]
IRHeader.__doc__ = """Head of an image record: ``flag`` (number of labels, 0 for a single one), ``label`` (a number or
float32 array), ``id`` and ``id2`` (lower and upper half of an identifier)."""
_IR = struct.Struct("<IfQQ")


def pack(header: Any, s: bytes) -> bytes:
    """An image record: the header (an IRHeader or a tuple of four) before the bytes of an image.

    >>> pack(IRHeader(0, 3, 7, 0), b"...")[:4]
    b'\\x00\\x00\\x00\\x00'
    """
    header = IRHeader(*header)
    try:
        if isinstance(header.label, numbers.Number):
            return _IR.pack(0, header.label, header.id, header.id2) + s
        label = np.ascontiguousarray(header.label, dtype="<f4")
        return _IR.pack(label.size, 0, header.id, header.id2) + label.tobytes() + s
    except (struct.error, TypeError, ValueError) as err:
        raise HybridError(f"pack: the label is a number or an array of numbers, id and id2 are integers from 0 to "
                          f"2^64 - 1; got {header} ({err})") from None


def unpack(s: bytes) -> tuple[Any, bytes]:
    """Header and image bytes of an image record. FileFormatError when it is too short to be one."""
    if len(s) < _IR.size:
        raise FileFormatError(f"an image record begins with a header of {_IR.size} bytes, this one has {len(s)} bytes "
                              f"in all")
    header, rest = IRHeader(*_IR.unpack(s[:_IR.size])), s[_IR.size:]
    if header.flag > 0:
        if len(rest) < 4 * header.flag:
            raise FileFormatError(f"the header of an image record promises {header.flag} labels, but {len(rest)} "
                                  f"bytes follow it: this is no image record")
        header, rest = header._replace(label=np.frombuffer(rest, "<f4", header.flag)), rest[4 * header.flag:]
    return header, rest


def pack_img(header: Any, img: np.ndarray, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """An image record of an image in OpenCV's layout: uint8, (height, width) or (height, width, 3), blue first.

    quality: 1 to 100 for JPEG, compression 0 to 9 for PNG. Needs Pillow.
    """
    return pack(header, codec.encode(np.asarray(img), quality, img_fmt))


def unpack_img(s: bytes, iscolor: int = -1) -> tuple[Any, np.ndarray]:
    """Header and image of an image record, as OpenCV gives it: uint8, blue first.

    iscolor: 1 (height, width, 3); 0 gray, (height, width); -1 as stored. Needs Pillow.
    """
    header, data = unpack(s)
    return header, codec.decode(data, iscolor, to_rgb=False)
