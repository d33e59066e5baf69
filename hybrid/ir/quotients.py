"""Lower bounds of symbolic sizes in which a quotient is replaced by what it lies between.

Of a size S = c q + R with q = a // k, k q is at least a - k + 1 and at most a. So k S is at least c (a - k + 1) + k R
where c > 0, and at least c a + k R where c < 0. Halves of a height that are put together again (2 * ((n + 1) // 2) - n,
which is 0 or 1) have no other bounds."""
from __future__ import annotations

from typing import Any, Sequence

from .dimension import Part


def lower_bound_without_quotient(terms: Sequence[tuple[Any, int]]) -> list[tuple[Any, int]] | None:
    """The terms of a sum that is at most k times that of the given terms, k > 0: the outermost quotient by a number k
    is replaced. None if no quotient by a number is a term of its own."""
    alone = [(m[0], c) for m, c in terms
             if len(m) == 1 and type(m[0]) is Part and m[0].kind == "/" and type(m[0].b) is int]
    if not alone:
        return None
    q, c = max(alone, key=lambda found: len(found[0].key))   # what is within another has a shorter key
    k: int = q.b                                             # type: ignore[assignment]
    above: Sequence[Any] = [((), q.a)] if isinstance(q.a, int) else q.a.terms
    return [*((m, k * d) for m, d in terms if m != (q,)), *((m, c * d) for m, d in above),
            *([((), -c * (k - 1))] if c > 0 else [])]
