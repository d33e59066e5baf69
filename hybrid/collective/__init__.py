"""Several processes that train together, over MPI: sums of arrays, and an end of all of them when one fails."""
from __future__ import annotations

from ..base.other_names import hinted as _hinted
from .world import CollectiveMismatch, RankLost, World, current, shutdown, start

__all__ = ["CollectiveMismatch", "RankLost", "World", "current", "shutdown", "start"]

_hinted(globals())
