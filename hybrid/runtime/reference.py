"""The reference backend: every primitive's NumPy or CuPy row, in order. Oracle of the tests, and what runs eagerly
or where there is no compiler."""
from __future__ import annotations

from ..ir.evaluate import run

__all__ = ["run"]
