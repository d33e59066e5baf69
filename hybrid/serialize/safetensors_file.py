"""Arrays in the safetensors format, through the package of that name: what ``nd.save`` and ``nd.load`` do with
``.safetensors`` files."""
from __future__ import annotations

import os
from collections.abc import Mapping
from types import ModuleType

import numpy as np

from ..base import dtype as dt
from ..base.errors import DTypeError, FileFormatError
from ..base.atomic import write_bytes

_TYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "I64": "int64", "I32": "int32", "I16": "int16",
          "I8": "int8", "U64": "uint64", "U32": "uint32",
          "U16": "uint16", "U8": "uint8", "BOOL": "bool"}


def is_safetensors(path: object) -> bool:
    """Whether a path names such a file."""
    return isinstance(path, (str, os.PathLike)) and os.fspath(path).endswith(".safetensors")


def _package() -> ModuleType:
    try:
        import safetensors.numpy  # noqa: PLC0415  optional
        return safetensors
    except ImportError:
        raise ImportError("files that end in .safetensors need the package safetensors: pip install safetensors") from None  # noqa: E501


def write_safetensors(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays. The file appears whole or not at all."""
    package = _package()
    write_bytes(path, package.numpy.save({k: np.ascontiguousarray(a).reshape(a.shape) for k, a in arrays.items()},
                                         {"format": "np"}))


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Arrays by name. FileFormatError for a damaged file, DTypeError for a type that NumPy does not have."""
    package = _package()
    with open(path, "rb") as f:
        content = f.read()
    try:
        found = package.deserialize(content)
    except package.SafetensorError as err:
        raise FileFormatError(f"{os.fspath(path)} is no safetensors file, or a damaged one: {err}") from None
    out = {}
    for name, row in found:
        code = row["dtype"]
        if code not in _TYPES and not (code == "BF16" and dt.bfloat16 is not None):
            raise DTypeError(f"{os.fspath(path)}: array {name!r} has the type {code}, which cannot be read here"
                             + (": it needs the package ml_dtypes" if code == "BF16" else ""))
        kind = dt.bfloat16 if code == "BF16" else np.dtype(_TYPES[code])
        out[name] = np.frombuffer(bytearray(row["data"]), kind).reshape(row["shape"])
    return out
