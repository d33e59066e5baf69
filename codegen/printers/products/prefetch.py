"""What a tile's epilogue will touch, fetched into the caches while the tile is summed."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prefetch:
    """Rows of an array. start: address of the first one, in C; step: elements from row to row; written: whether they
    are only written: then the cache line is fetched to be owned by this core."""
    start: str
    step: int
    written: bool = False

    def line(self, address: str) -> str:
        """The statement that fetches the cache line at an address."""
        return f"__builtin_prefetch({address}{', 1' if self.written else ''});"
