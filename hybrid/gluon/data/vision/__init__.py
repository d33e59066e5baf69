"""Picture datasets and transforms."""
from __future__ import annotations
