"""Which calls get a program at once, and which run as plain Python first.

A program costs a second or so of compiling, and many a function meets sizes that never come again: the steps of a
decoder, images of any size. Signatures are compiled when they come, until there are many programs that were used
once; from then on what is new runs eagerly once and is compiled when it comes again.
"""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

from ..base import config
from ..base.errors import user_location, warn_user
from ..base.scope import SCOPE

REMEMBERED = 4096               # signatures seen once that are kept


class Sightings:
    """The signatures that one hybridized function was called with once."""

    def __init__(self) -> None:
        self._unproved: set[Any] = set()                # those that have a program
        self._eager: dict[Any, None] = {}               # those that ran as plain Python
        self._warned = False

    def again(self, signature: Any) -> None:
        """A program is used again."""
        self._unproved.discard(signature)

    def compiles(self, signature: Any) -> bool:
        """Whether a signature without a program gets one now; the next time it does."""
        most = config.signatures()
        if most and len(self._unproved) >= most and signature not in self._eager:
            if len(self._eager) >= REMEMBERED:
                del self._eager[next(iter(self._eager))]
            self._eager[signature] = None
            return False
        if signature in self._eager:
            del self._eager[signature]
        else:
            self._unproved.add(signature)
        return True

    def warn(self, name: str, difference: Callable[[], str]) -> None:
        """Say so, when it begins."""
        if not self._warned:
            self._warned = True
            warn_user(f"{user_location()}: {name} was compiled for {len(self._unproved)} calls that did not come "
                      f"again, and another one came ({difference()}). "
                      "From here on what is new runs eagerly once and is compiled when it comes again; "
                      "HYBRID_SIGNATURES sets the number (8), 0 compiles "
                      "everything at once.")


@contextmanager
def eagerly() -> Iterator[None]:
    """Hybridized blocks and functions run as plain Python."""
    before, SCOPE.plain = SCOPE.plain, True
    try:
        yield
    finally:
        SCOPE.plain = before
