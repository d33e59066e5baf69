"""Integer index expressions: sums of loop variables, with division and remainder simplified by ranges.

They carry every movement primitive (reshape, permute, slice, window …) into the address of a load.
"""
from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Iterable, Sequence

from ..base.records import dataclass
from .dimension import kept_with_guards
from .size import Int, Size, at_least, divided, hint, same


def hashed_once(cls: type) -> type:
    """A frozen dataclass whose objects keep their hash: expressions are keys of dictionaries many times over."""
    count: Any = cls.__hash__

    def keep(self: Any) -> int:
        try:
            return self._hash                                # type: ignore[no-any-return]
        except AttributeError:
            found = self.__dict__["_hash"] = count(self)
            return found                                     # type: ignore[no-any-return]
    setattr(cls, "__hash__", keep)
    return cls


@hashed_once
@dataclass(frozen=True)
class Var:
    """A loop variable with values 0 … extent-1."""
    name: str
    extent: int


@hashed_once
@dataclass(frozen=True)
class Val:
    """An index read from an array while the program runs (gather), known to lie in 0 … extent-1."""
    name: str
    extent: int


@hashed_once
@dataclass(frozen=True)
class Quot:
    """Quotient of an expression and a positive constant."""
    x: "Ix"
    d: int


@hashed_once
@dataclass(frozen=True)
class Rem:
    """Remainder of an expression and a positive constant."""
    x: "Ix"
    d: int


Atom = Var | Val | Quot | Rem


@hashed_once
@dataclass(frozen=True)
class Ix:
    """const + sum(coef * atom)."""
    const: int = 0
    terms: tuple[tuple[Atom, int], ...] = ()

    def __add__(self, other: "Ix | int") -> "Ix":
        if isinstance(other, (int, Size)):
            return Ix(self.const + other, self.terms) if type(other) is Size or other else self
        if not (self.terms and other.terms):
            return Ix(self.const + other.const, self.terms or other.terms)
        return total((self, other))

    def __mul__(self, k: int) -> "Ix":
        if type(k) is int and k == 1:
            return self
        return Ix(self.const * k, tuple((a, c * k) for a, c in self.terms)) if type(k) is Size or k else ZERO

    def __sub__(self, other: "Ix | int") -> "Ix":
        return self + (other * -1 if isinstance(other, Ix) else -other)

    @property
    def is_const(self) -> bool:
        """Whether no variable occurs."""
        return not self.terms


ZERO = Ix()


def var(v: Var | Val) -> Ix:
    """A variable as an expression; one of extent 1 is zero."""
    return ZERO if same(v.extent, 1) else Ix(0, ((v, 1),))


def total(xs: Iterable[Ix]) -> Ix:
    """Sum, in which d * (x // d) + x % d is put together again."""
    const = 0
    terms: dict[Atom, int] = {}
    for x in xs:
        const += x.const
        for a, c in x.terms:
            terms[a] = terms.get(a, 0) + c
    for a in [a for a in terms if type(a) is Rem]:
        q = _quotient(a.x, a.d)
        c = terms.get(a, 0)
        if not same(c, 0) and same(terms.get(q, 0), c * a.d):
            del terms[a], terms[q]
            return total((Ix(const, tuple((t, k) for t, k in terms.items() if not same(k, 0))), a.x * c))
    return Ix(const, tuple((a, c) for a, c in terms.items() if not same(c, 0)))


def _quotient(x: Ix, d: int) -> Quot:
    """The atom x // d; a quotient of a quotient is one."""
    if not x.const and len(x.terms) == 1 and x.terms[0][1] == 1 and isinstance(x.terms[0][0], Quot):
        inner = x.terms[0][0]
        return Quot(inner.x, inner.d * d)
    return Quot(x, d)


@kept_with_guards
def bounds(x: Ix) -> tuple[int, int]:
    """Least and greatest value."""
    lo = hi = x.const
    for a, c in x.terms:
        if isinstance(a, (Var, Val)):
            l, h = 0, a.extent - 1
        elif isinstance(a, Quot):
            l, h = (b // a.d for b in bounds(a.x))
        else:
            l, h = 0, a.d - 1
            bl, bh = bounds(a.x)
            if at_least(bl, 0) and at_least(h - bh, 0):
                h = bh
        if not at_least(c, 0):
            l, h = h, l
        lo += c * l
        hi += c * h
    return lo, hi


def _exactly(x: Int, d: Int) -> Any:
    """x / d if it is proved to be exact, else None."""
    if type(x) is not Size and type(d) is not Size:
        return None if x % d else x // d
    q, r = divided(x, d)
    return q if same(r, 0) else None


def _split(x: Ix, d: int) -> tuple[Ix, Ix]:
    """x = d * q + r with as much as possible in q, and r not negative: C's division rounds towards zero."""
    parts = [(a, c, _exactly(c, d)) for a, c in x.terms]
    most = x.const // d if type(d) is int and type(x.const) is int else _exactly(x.const, d) or 0
    q = Ix(most, tuple((a, e) for a, c, e in parts if e is not None))
    r = Ix(x.const - most * d, tuple((a, c) for a, c, e in parts if e is None))
    low = bounds(r)[0]
    if at_least(low, 0):
        return q, r
    below = low // d
    return q + below, r + -below * d


def _carry(r: Ix, d: int) -> tuple[int, Ix, Ix] | None:
    """(g, high, low) with r = g * high + low, g a divisor of d and low in 0 … g-1, which cannot carry into r // d."""
    if type(d) is Size or any(type(c) is Size for _, c in r.terms):
        return None
    for g in sorted({math.gcd(d, c) for _, c in r.terms} - {1}, reverse=True):
        low = Ix(r.const % g, tuple((a, c) for a, c in r.terms if c % g))
        lo, hi = bounds(low)
        if lo >= 0 and hi < g:
            return g, Ix(r.const // g, tuple((a, c // g) for a, c in r.terms if c % g == 0)), low
    return None


def _everywhere(r: Ix, d: int) -> int | None:
    """r // d, where that is one number for all values."""
    lo, hi = bounds(r)
    if type(d) is type(lo) is type(hi) is int:
        return lo // d if lo // d == hi // d else None
    return 0 if at_least(lo, 0) and at_least(d - 1 - hi, 0) else None


def div(x: Ix, d: int) -> Ix:
    """x // d for a positive constant d."""
    if d == 1:
        return x
    q, r = _split(x, d)
    one = _everywhere(r, d)
    if one is not None:
        return q + one
    found = _carry(r, d)
    if found:
        return q + div(found[1], d // found[0])
    return q + Ix(0, ((_quotient(r, d), 1),))


def mod(x: Ix, d: int) -> Ix:
    """x % d for a positive constant d."""
    if d == 1:
        return ZERO
    _, r = _split(x, d)
    one = _everywhere(r, d)
    if one is not None:
        return r - one * d
    found = _carry(r, d)
    if found:
        return mod(found[1], d // found[0]) * found[0] + found[2]
    return Ix(0, ((Rem(r, d), 1),))


def linear(shape: Sequence[int], idx: Sequence[Ix]) -> Ix:
    """Row-major offset of an index."""
    return _linear(tuple(shape), tuple(idx))


@kept_with_guards
def _linear(shape: tuple[int, ...], idx: tuple[Ix, ...]) -> Ix:
    stride, parts = 1, []
    for n, i in zip(reversed(shape), reversed(idx)):
        parts.append(i * stride)
        stride *= n
    return total(parts)


def unlinear(x: Ix, shape: Sequence[int]) -> list[Ix]:
    """Index of a row-major offset."""
    return list(_unlinear(x, tuple(shape)))


@kept_with_guards
def _unlinear(x: Ix, shape: tuple[int, ...]) -> tuple[Ix, ...]:
    out, stride = [], 1
    for k, n in reversed(list(enumerate(shape))):
        q = div(x, stride)
        out.append(q if k == 0 else mod(q, n))
        stride *= n
    return tuple(out[::-1])


def _is_variable(i: Ix) -> bool:
    return not i.const and len(i.terms) == 1 and type(i.terms[0][0]) is Var and i.terms[0][1] == 1


def regroup(old: Sequence[int], new: Sequence[int], idx: Sequence[Ix]) -> tuple[Ix, ...]:
    """Index into shape ``old`` of what stands at ``idx`` in shape ``new`` (a reshape), by the smallest groups of
    axes. An index into an axis of one element must be 0 wherever the element exists, so 0 stands for it where it is
    computed (under a padding's guard it may be another number); a loop's variable stays, for its place in the loops."""
    if 0 in old:
        return tuple(ZERO for _ in old)
    idx = [ZERO if same(d, 1) and not _is_variable(i) else i for d, i in zip(new, idx)]
    out: list[Ix] = []
    i = j = 0
    while i < len(old) or j < len(new):
        i0, j0 = i, j
        a = b = 1
        if i < len(old):
            a, i = old[i], i + 1
        if j < len(new):
            b, j = new[j], j + 1
        while not same(a, b):
            if hint(a) < hint(b) and i < len(old):
                a, i = a * old[i], i + 1
            elif j < len(new):
                b, j = b * new[j], j + 1
            else:
                a, i = a * old[i], i + 1
        if i - i0 == 1 and j - j0 == 1:
            out.append(idx[j0])
        else:
            out.extend(unlinear(linear(new[j0:j], idx[j0:j]), old[i0:i]))
    return tuple(out)


@lru_cache(maxsize=65536)
def variables(x: Ix) -> frozenset[Var | Val]:
    """Loop variables and run-time values in an expression."""
    out: set[Var | Val] = set()
    stack = [x]
    while stack:
        for a, _ in stack.pop().terms:
            if isinstance(a, (Quot, Rem)):
                stack.append(a.x)
            else:
                out.add(a)
    return frozenset(out)


def coefficient(x: Ix, v: Var) -> int | None:
    """The factor of a variable; None when it also occurs inside a quotient or remainder."""
    out = 0
    for a, c in x.terms:
        if a == v:
            out = c
        elif isinstance(a, (Quot, Rem)) and v in variables(a.x):
            return None
    return out


def text(x: Ix) -> str:
    """C expression."""
    parts = []
    for a, c in x.terms:
        if isinstance(a, (Var, Val)):
            t = a.name
        else:
            t = f"({text(a.x)}) {'/' if isinstance(a, Quot) else '%'} {a.d}"
            t = f"({t})"
        parts.append(t if c == 1 else f"{t} * {c}" if type(c) is Size or c > 0 else f"{t} * ({c})")
    if type(x.const) is Size or x.const or not parts:
        parts.append(str(x.const) if type(x.const) is Size or x.const >= 0 else f"({x.const})")
    return " + ".join(parts)


def substitute(x: Ix, names: dict[Var, Ix]) -> Ix:
    """x with variables replaced by expressions."""
    parts = [Ix(x.const)]
    for a, c in x.terms:
        if isinstance(a, Quot):
            parts.append(div(substitute(a.x, names), a.d) * c)
        elif isinstance(a, Rem):
            parts.append(mod(substitute(a.x, names), a.d) * c)
        elif isinstance(a, Var) and a in names:
            parts.append(names[a] * c)
        else:
            parts.append(Ix(0, ((a, c),)))
    return total(parts)


def fills(address: Ix, size: int) -> bool:
    """Whether an address reaches every one of ``size`` places once: its variables count through them as digits do, in
    any order."""
    step, places = 1, [(coefficient(address, v) if isinstance(v, Var) else None, v.extent) for v in variables(address)]
    left = [(c, extent) for c, extent in places if c is not None and extent > 1]
    for _ in range(len(left)):
        found = next((i for i, (c, _) in enumerate(left) if same(c, step) or same(-c, step)), None)
        if found is None:
            return False
        step *= left.pop(found)[1]
    return same(step, size) and all(c is not None for c, _ in places)
