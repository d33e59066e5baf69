"""What the namespace can do, asked of ``xp.__array_namespace_info__()``."""
from __future__ import annotations

from typing import Any

import numpy as np

from ...base.device import cpu, current_context, gpu, num_gpus
from .creation import COMPLEX, FLOAT

DTYPES = {"bool": ("bool",), "signed integer": ("int8", "int16", "int32", "int64"),
          "unsigned integer": ("uint8", "uint16", "uint32", "uint64"), "real floating": ("float32", "float64"),
          "complex floating": ("complex64", "complex128")}
GROUPS = {"integral": ("signed integer", "unsigned integer"),
          "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating")}


class Inspection:
    """The standard's inspection functions."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional behaviours there are: masks as indices, shapes that depend on numbers, axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """The device of new arrays."""
        return current_context()

    def devices(self) -> list[Any]:
        """The devices of this machine."""
        return [cpu(), *(gpu(i) for i in range(num_gpus()))]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of new arrays from Python's numbers."""
        return {"real floating": FLOAT, "complex floating": COMPLEX, "integral": np.dtype("int64"),
                "indexing": np.dtype("int64")}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The dtypes by name: all, or those of a kind, or of several."""
        kinds = tuple(DTYPES) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        wide = [k for given in kinds for k in GROUPS.get(given, (given,))]
        unknown = [k for k in wide if k not in DTYPES]
        if unknown:
            raise ValueError(f"no such kind of dtypes: {unknown[0]!r}; there are {', '.join([*DTYPES, *GROUPS])}")
        return {name: np.dtype(name) for k in wide for name in DTYPES[k]}
