"""What stands for an array whose contents are put off: the result of a call that was not made yet, or an array that
such a call reads or writes. Whoever asks for the contents has the call made first.
"""
from __future__ import annotations

from typing import Any

from ..base import pending


class Promise:
    """The contents of an array that are still to come; it stands in the slot ``_away``, as ``evict.StandIn`` does."""
    __slots__ = ("shape", "dtype", "round", "error")
    packed, raw, times, tokens = True, None, 0, ()

    def __init__(self, shape: Any, dtype: Any, of: Any):
        self.shape, self.dtype, self.round = shape, dtype, of
        self.error: BaseException | None = None              # why the contents never came

    def fulfil(self) -> None:
        """Have the calls made that were put off."""
        if self.error is not None:
            raise self.error
        pending.LATER[0].settle(self.round, "a value that was still to come was looked at before the step")
