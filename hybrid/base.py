"""MXNet's ``base``: the error class and a few type names."""
from __future__ import annotations

import numpy as np

from .errors import HybridError, MXNetError

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)
__all__ = ["HybridError", "MXNetError", "integer_types", "numeric_types", "string_types"]
