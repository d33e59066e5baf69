"""What MXNet keeps in ``contrib``: mixed precision (``contrib.amp``)."""
from __future__ import annotations

from . import amp

__all__ = ["amp"]
