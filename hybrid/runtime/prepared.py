"""Values that a compiled CPU program takes beside its inputs, computed from parameters by a program of their own: once, and
again only when a parameter was written or replaced.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from .. import watch


class Prepared:
    """``values`` were computed from ``sources``; ``fits`` as long as these are the arrays, unchanged."""

    def __init__(self, sources: Sequence[np.ndarray], program: Callable[[Sequence[np.ndarray]], list[np.ndarray]]):
        self.sources = list(sources)
        self.token = watch.watch(self.sources)               # before they are read: a write in the meantime is seen
        self.values = program(self.sources)

    def fits(self, sources: Sequence[np.ndarray]) -> bool:
        """Whether the values are those of these arrays now."""
        return not self.token.stale and len(sources) == len(self.sources) and all(a is b for a, b in zip(sources, self.sources))


def prepared(old: Prepared | None, sources: Sequence[np.ndarray], program: Any) -> Prepared | None:
    """Values for these arrays, the old ones if they still are; None where others may write the arrays unseen."""
    if watch.is_shared(sources):
        return None
    return old if old is not None and old.fits(sources) else Prepared(sources, program)
