"""Errors that a client reads: a status of HTTP and words."""
from __future__ import annotations

from ..base.errors import HybridError


class RequestError(HybridError):
    """A request that is not answered with results. status: HTTP's number for why."""

    def __init__(self, status: int, words: str):
        super().__init__(words)
        self.status = status
