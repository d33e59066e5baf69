"""Symbolic sizes: integer expressions over named dimensions whose values are known only when a program is called.

A dimension has a *range*, from which comparisons are proved for all its values, and a *hint*, its value when the code
was traced, which serves heuristics alone (heights of tiles, say) that stay right for any value. A comparison that the
range does not decide goes to ``answering``: during a trace the hint decides it, and the answer is recorded as a guard;
elsewhere it raises ``Specialised``, and the caller compiles for one concrete size.
"""
from __future__ import annotations

import math
import operator
import sys
from operator import attrgetter
from typing import Any, Callable, Mapping, Union

from ..base import indexing
from ..base.errors import asked_by_user, user_location
from .asked_of_integers import AskedAsInteger
from .dimension import ASKED, Dim, Part, Specialised, answering
from .quotients import lower_bound_without_quotient
from .size_in_python import compared
from .size_in_c import in_c, sum_in_c

Atom = Union[Dim, Part]
Int = Union[int, "Size"]
Terms = tuple[tuple[tuple[Atom, ...], int], ...]


class Size(AskedAsInteger):
    """A symbolic integer: a polynomial with integer coefficients over dimensions, quotients, remainders, minima and
    maxima."""
    __slots__ = ("terms", "_hash", "_ends", "_least", "_at_trace")
    terms: Terms

    def __init__(self, terms: Terms):
        self.terms = terms
        self._hash = hash(("size", tuple([(m, str(c)) for m, c in terms])))      # numbers: -1 and -2 have one hash
        self._ends: tuple[int, int] | None = None
        self._least: dict[int, bool] = {}
        self._at_trace: int | None = None

    # ---- arithmetic
    def __add__(self, other: Any) -> Any:
        return gathered([*self.terms, *_terms(other)]) if isinstance(other, (int, Size)) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, (int, Size)) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, (int, Size)) else NotImplemented

    def __neg__(self) -> "Size":
        return Size(tuple((m, -c) for m, c in self.terms))

    def __mul__(self, other: Any) -> Any:
        return product(self, other) if isinstance(other, (int, Size)) else NotImplemented

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Any) -> Any:
        return quotient(self, other) if isinstance(other, (int, Size)) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return quotient(other, self) if isinstance(other, int) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return self - quotient(self, other) * other if isinstance(other, (int, Size)) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return other - quotient(other, self) * self if isinstance(other, int) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __abs__(self) -> "Int":
        return self if self >= 0 else -self

    # ---- comparisons
    def __eq__(self, other: object) -> bool:
        if isinstance(other, Size):
            if self.terms == other.terms:
                return True
        elif not isinstance(other, int):
            return compared(operator.eq, self, other)
        return _zero(self - other)

    def __ne__(self, other: object) -> bool:
        return not self == other if isinstance(other, (int, Size)) else compared(operator.ne, self, other)

    def __lt__(self, other: Any) -> bool:
        if type(other) is int and at_least(self, other):       # which remembers its proofs
            return False
        if not isinstance(other, (int, Size)):
            return compared(operator.lt, self, other)
        return not _is_negative(other - self - 1)

    def __ge__(self, other: Any) -> bool:
        return not self < other if isinstance(other, (int, Size)) else compared(operator.ge, self, other)

    def __gt__(self, other: Any) -> bool:
        if type(other) is int and at_least(self, other + 1):
            return True
        if not isinstance(other, (int, Size)):
            return compared(operator.gt, self, other)
        return not _is_negative(self - other - 1)

    def __le__(self, other: Any) -> bool:
        return not self > other if isinstance(other, (int, Size)) else compared(operator.le, self, other)

    def __hash__(self) -> int:
        if ASKED.traced and asked_by_user(sys._getframe(1)):
            raise Specialised(f"{user_location()}: the number {self.c_text()} is needed: a set or a dict holds it")
        return self._hash

    @property                                                # type: ignore[misc]
    def __class__(self) -> Any:                              # type: ignore[override]
        """``int`` for the user's code, so that ``isinstance(size, int)`` holds there; ``Size`` for this library."""
        return int if ASKED.traced and asked_by_user(sys._getframe(1)) else Size

    def __bool__(self) -> bool:
        return not _zero(self)

    # ---- numbers
    def __index__(self) -> int:
        raise Specialised(f"{user_location()}: the number {self.c_text()} is needed")

    __int__ = __float__ = __index__                          # type: ignore[assignment]

    @property
    def hint(self) -> int:
        """The value at trace."""
        if self._at_trace is None:
            self._at_trace = self.value({d.name: d.hint for d in dims(self)})
        return self._at_trace

    def value(self, dims: Mapping[str, int]) -> int:
        """The value for values of dimensions."""
        return sum([c * math.prod([_valued(a, dims) for a in m]) for m, c in self.terms])

    def __repr__(self) -> str:
        if ASKED.traced:                                    # Python code may go by it
            raise Specialised(f"{user_location()}: the size {self.c_text()} is shown as text")
        return self.c_text()

    __str__ = __repr__

    def c_text(self) -> str:
        """The C expression, in brackets where it is not one name."""
        text = sum_in_c(self.terms)
        one = len(self.terms) == 1 and len(self.terms[0][0]) == 1 and self.terms[0][1] == 1
        return text if one else f"({text})"

    def __format__(self, spec: str) -> str:
        if spec:
            raise Specialised(f"{user_location()}: the number {self.c_text()} is needed as text")
        return str(self)


indexing.also_basic(Size)


def _valued(a: Atom, dims: Mapping[str, int]) -> int:
    if isinstance(a, Dim):
        return dims[a.name]
    x, y = (v.value(dims) if isinstance(v, Size) else v for v in (a.a, a.b))
    return x // y if a.kind == "/" else x % y if a.kind == "%" else min(x, y) if a.kind == "<" else max(x, y)


def _terms(x: Int) -> Terms:
    return x.terms if type(x) is Size else (((), x),) if x else ()   # type: ignore[return-value]


def gathered(terms: Any) -> Int:
    """The sum of terms: a number where no dimension is left."""
    out: dict[tuple[Atom, ...], int] = {}
    for m, c in terms:
        out[m] = out.get(m, 0) + c
    kept = tuple([(m, c) for m, c in out.items() if c])
    if len(kept) > 1:
        kept = tuple(sorted(kept, key=lambda t: (-len(t[0]), " ".join([a.key for a in t[0]]))))
    return 0 if not kept else kept[0][1] if len(kept) == 1 and not kept[0][0] else Size(kept)


def size(d: Dim) -> Size:
    """A dimension as a size."""
    return Size((((d,), 1),))


def product(x: Int, y: Int) -> Int:
    """x * y."""
    return gathered((tuple(sorted((*m, *k), key=attrgetter("key"))) if m and k else m or k, c * d)
                    for m, c in _terms(x) for k, d in _terms(y))


def quotient(x: Int, d: Int) -> Int:
    """x // d, d positive."""
    if not surely(lambda: d >= 1) and (ASKED.answer is None or d < 1):       # an answer makes it a guard
        raise Specialised(f"{in_c(x)} // {in_c(d)}, which may be no positive number")
    if same(d, 1) or isinstance(x, int) and not x:
        return x
    if at_least(-x, 0):                                      # C's quotient is another one below 0
        return -quotient(d - 1 - x, d)
    q, r = divided(x, d)
    for k in (0, -1, 1):                                     # 0 <= r - k d < d
        if at_least(r - k * d, 0) and at_least((k + 1) * d - 1 - r, 0):
            return q + k
    if not at_least(r, 0):
        q, r = 0, x
        if not at_least(x, 0):
            less = _below(x, d)
            return quotient(x + less * d, d) - less
    return q + Size((((Part("/", r, d),), 1),))


def _below(x: Int, d: Int) -> int:
    """How many d make x not negative."""
    for k in (1, 2, 3, 4, 8):
        if at_least(x + k * d, 0):
            return k
    raise Specialised(f"{in_c(x)} // {in_c(d)}, which may be negative")


def divided(x: Int, d: Int) -> tuple[Int, Int]:
    """x = q * d + r by long division with the leading term of d."""
    lead, k = _terms(d)[0]
    q: Int = 0
    r: Int = x
    for m, c in _terms(x):
        rest = list(m)
        if all(a in rest and not rest.remove(a) for a in lead) and c // k:       # type: ignore[func-returns-value]
            part = gathered([(tuple(rest), c // k)])
            q, r = q + part, r - part * d
    return q, r


def smaller(x: Int, y: Int) -> Any:
    """The smaller one of two, as an expression where the ranges do not tell."""
    return _chosen("<", x, y)


def greater(x: Int, y: Int) -> Any:
    """The greater one of two, as an expression where the ranges do not tell."""
    return _chosen(">", x, y)


def _chosen(kind: str, x: Int, y: Int) -> Int:
    if isinstance(x, int) and isinstance(y, int):
        return min(x, y) if kind == "<" else max(x, y)
    less = at_least(y - x, 0)
    if less or at_least(x - y, 0):
        return x if less == (kind == "<") else y
    return Size((((Part(kind, x, y),), 1),))


# ---- ranges
def _ends(a: Atom) -> tuple[int, int]:
    """Least and greatest value of an atom."""
    low, high = _range(a)
    return (max(low, ASKED.least[a]), high) if a in ASKED.least else (low, high)


def _range(a: Atom) -> tuple[int, int]:
    """Least and greatest value of an atom without what guards prove."""
    if isinstance(a, Dim):
        return a.low, a.high
    (la, ha), (lb, hb) = ends(a.a), ends(a.b)
    if a.kind == "/":
        return max(la, 0) // hb, ha // max(lb, 1)
    if a.kind == "%":
        return 0, hb - 1
    return (min(la, lb), min(ha, hb)) if a.kind == "<" else (max(la, lb), max(ha, hb))


def ends(x: Int) -> tuple[int, int]:
    """Bounds of an expression."""
    if isinstance(x, int):
        return x, x
    if ASKED.least:                                          # what these guards prove holds in their scope alone
        return _ends_of(x)
    if x._ends is None:
        x._ends = _ends_of(x)
    return x._ends


def _ends_of(x: Size) -> tuple[int, int]:
    low, high = 0, 0
    for m, c in x.terms:
        least = most = c
        for l, h in map(_ends, m):
            products = least * l, least * h, most * l, most * h
            least, most = min(products), max(products)
        low, high = low + least, high + most
    return low, high


def at_least(x: Int, n: int) -> bool:
    """Whether x >= n is proved by the ranges; False may also mean that it is unknown."""
    if isinstance(x, int):
        return x >= n
    found = x._least.get(n)
    if found is None and not ASKED.least:
        found = x._least[n] = _at_least(x, n)
    return found or bool(ASKED.least) and _at_least(x, n)


def _at_least(x: Size, n: int) -> bool:
    if ends(x)[0] >= n:
        return True
    # dimensions as low + what is above it: no term is negative then
    moved: Int = -n
    for m, c in x.terms:
        part: Int = c
        for a in m:
            low = _ends(a)[0]
            part = part * (Size((((a,), 1),)) + low)
        moved = moved + part
    return all(c >= 0 for _, c in _terms(moved)) or (
        rest := lower_bound_without_quotient((x - n).terms)) is not None and at_least(gathered(rest), 0)


def surely(question: Callable[[], bool]) -> bool:
    """Whether ``question()`` is proved to be true; False if it is false or undecided."""
    with answering(None, ASKED.traced):
        try:
            return bool(question())
        except Specialised:
            return False


def _zero(x: Int) -> bool:
    if isinstance(x, int):
        return x == 0
    if at_least(x, 1) or at_least(-x, 1):
        return False
    if at_least(x, 0) and at_least(-x, 0):
        return True
    return ask("==", x, x.hint == 0)


def _is_negative(x: Int) -> bool:
    """Whether x < 0: proved from the ranges, else asked."""
    if isinstance(x, int):
        return x < 0
    if at_least(x, 0):
        return False
    if at_least(-x, 1):
        return True
    return ask("<", x, x.hint < 0)


def ask(kind: str, x: Size, answer: bool) -> bool:
    """What is asked of a size where ranges do not tell: ``x == 0`` or ``x < 0``. answer: that at trace."""
    if ASKED.answer is None:
        raise Specialised(f"whether {x.c_text()} {kind} 0")
    return ASKED.answer(kind, x, answer)


# ---- what callers use
def hint(x: Int) -> int:
    """A number, or the value that a size had at trace: for choices that are right for any value."""
    return x.hint if type(x) is Size else x              # type: ignore[return-value]


def may_exceed(x: Int, n: int) -> bool:
    """Whether x may be greater than n; a symbolic size always may, whatever its range."""
    return type(x) is Size or x > n


def dims(x: Any) -> set[Dim]:
    """The dimensions in an expression."""
    out: set[Dim] = set()
    stack = [x]
    while stack:
        x = stack.pop()
        if isinstance(x, Size):
            for m, _ in x.terms:
                for a in m:
                    if isinstance(a, Dim):
                        out.add(a)
                    else:
                        stack += [a.a, a.b]
    return out


def fixed(x: Any) -> bool:
    """Whether a number is concrete, no symbolic size."""
    return type(x) is not Size


def same(x: Any, y: Any) -> bool:
    """Whether two numbers are the same expression; asks nothing and records no guard."""
    return bool(x.terms == y.terms if type(x) is type(y) is Size else type(x) is not Size is not type(y) and x == y)
