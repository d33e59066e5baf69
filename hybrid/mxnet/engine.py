"""MXNet's ``engine``: how many eager operators are run in bulk. Operators run at once here, so the number changes
nothing."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

_size = [15]                             # MXNet's default


def set_bulk_size(size: int) -> int:
    """Set the number of operators in a bulk; returns what it was.

    >>> old = set_bulk_size(30); set_bulk_size(old)
    30
    """
    old, _size[0] = _size[0], int(size)
    return old


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """Scope of ``set_bulk_size``."""
    old = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(old)


__all__ = ["bulk", "set_bulk_size"]
