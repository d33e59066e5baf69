"""MXNet's ``util``: switches of NumPy semantics."""
from __future__ import annotations

from typing import Any

from .numpy_extension import is_np_array, is_np_shape, reset_np, set_np


def use_np(cls: Any) -> Any:
    """MXNet's decorator: returns what it is given, since both kinds of array work everywhere here."""
    return cls


__all__ = ["is_np_array", "is_np_shape", "reset_np", "set_np", "use_np"]
