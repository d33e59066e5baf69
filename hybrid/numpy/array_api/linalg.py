"""Linear algebra by the array API standard: NumPy's functions on arrays, operators in graphs."""
from __future__ import annotations

import numpy as _np

from .calls import function as _function
from .own import OPERATORS as _OPERATORS

_NAMES = """cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose
outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm""".split()
_SHARED = frozenset("cross diagonal matmul matrix_transpose outer tensordot trace vecdot".split())   # of np itself

globals().update({_name: _function(getattr(_np.linalg, _name), _name if _name in _SHARED else f"linalg.{_name}",
                                   _OPERATORS.get(_name)) for _name in _NAMES})

__all__ = list(_NAMES)
