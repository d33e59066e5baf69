"""The weights file of an exported model: safetensors, with the version, the model's fingerprint and a checksum."""
from __future__ import annotations

import json
import os
import zlib
from typing import Mapping

import numpy as np

from ..base.atomic import write_bytes
from ..base.errors import DTypeError

VERSION = 1                              # of the file's metadata and of the program that reads it
CODES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
         "int16": "I16", "int8": "I8", "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
         "bool": "BOOL"}


def code_of(dtype: np.dtype) -> str:
    """The format's name of a dtype."""
    if dtype.name not in CODES:
        raise DTypeError(f"an exported model has arrays of {', '.join(CODES)}, not of {dtype}")
    return CODES[dtype.name]


def contents(arrays: Mapping[str, np.ndarray], fingerprint: str) -> bytes:
    """The bytes of the file."""
    entries: dict[str, object] = {}
    data = bytearray()
    for name, a in arrays.items():
        begin = len(data)
        data += np.ascontiguousarray(a).tobytes()
        entries[name] = {"dtype": code_of(a.dtype), "shape": list(a.shape), "data_offsets": [begin, len(data)]}
    about = {"format": "np", "hybrid.version": str(VERSION), "hybrid.fingerprint": fingerprint,
             "hybrid.crc32": f"{zlib.crc32(data):08x}"}
    text = json.dumps({"__metadata__": about, **entries}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + bytes(data)


def write(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], fingerprint: str) -> None:
    """Write the file, whole or not at all."""
    write_bytes(path, contents(arrays, fingerprint))
