"""Names that NumPy had in MXNet's time and has no longer (``np.int``, ``np.product``): programs written then use them.

They are put on the module ``numpy`` only while ``import mxnet`` means this library, and only where NumPy lacks them.
"""
from __future__ import annotations

import numpy as np

OLD = {"int": int, "float": float, "bool": bool, "object": object, "complex": complex, "str": str, "long": np.int64, "float_": np.float64,
       "complex_": np.complex128, "unicode_": np.str_, "string_": np.bytes_, "Inf": np.inf, "Infinity": np.inf, "infty": np.inf, "NaN": np.nan,
       "product": np.prod, "cumproduct": np.cumprod, "sometrue": np.any, "alltrue": np.all, "round_": np.round,
       "row_stack": np.vstack}
_added: list[str] = []


def add() -> None:
    """Put the names that this NumPy lacks on it."""
    for name, value in OLD.items():
        if name not in vars(np):
            setattr(np, name, value)
            _added.append(name)


def take_away() -> None:
    """Take the added names away."""
    while _added:
        name = _added.pop()
        if vars(np).get(name) is OLD[name]:
            delattr(np, name)
