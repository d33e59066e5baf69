"""einsum, made of transposes, diagonals, sums and pairwise contractions."""
from __future__ import annotations

import math
from typing import Any, Sequence

from .. import ir
from ..base import dtype as dt
from ..base.errors import ShapeError
from ..ir import Node
from .arrange import diagonal_of
from .attributes import Attrs
from .registry import Int, Str, op

_LONG = 1 << 12                        # sums of so many elements NumPy's einsum rounds more than its sums do
Term = tuple[str, Node]                # the letters of a node's axes, and the node


def _parse(text: str, nodes: Sequence[Any]) -> tuple[list[str], str]:
    """Letters of every operand and of the result; an ellipsis becomes capital letters not in use, counted from the
    end."""
    left, arrow, out = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(nodes):
        raise ShapeError(f"einsum {text!r} is about {len(terms)} arrays, got {len(nodes)}")
    spare = [c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in text]
    widest = ""
    for k, (term, x) in enumerate(zip(terms, nodes)):
        rest = x.ndim - len(term.replace("...", ""))
        if rest < 0 or (rest and "..." not in term):
            raise ShapeError(f"einsum {text!r}: {term!r} does not name the {x.ndim} axes of {x.shape}")
        letters = "".join(spare[:rest][::-1])
        widest = max(widest, letters, key=len)
        terms[k] = term.replace("...", letters)
    joined = "".join(terms)
    if not arrow:
        out = widest + "".join(sorted(c for c in set(joined) - set(widest) if joined.count(c) == 1))
    out = out.replace("...", widest)
    bad = [c for c in out if c not in joined or out.count(c) > 1]
    if bad or not joined.isalpha() and joined:
        raise ShapeError(f"einsum {text!r}: the result's letters must be letters of the operands, each once")
    return terms, out


def _check(text: str, terms: list[Term]) -> None:
    sizes: dict[str, int] = {}
    for letters, x in terms:
        for c, d in zip(letters, x.shape):
            if sizes.setdefault(c, d) != d and d != 1 and sizes[c] != 1:
                raise ShapeError(f"einsum {text!r}: axis {c!r} is {sizes[c]} in one array and {d} in another")
            sizes[c] = max(sizes[c], d) if d else 0


def _diagonal(term: Term) -> Term:
    """A letter that stands twice: the diagonal."""
    letters, x = term
    for c in letters:
        while letters.count(c) > 1:
            i = letters.index(c)
            j = letters.index(c, i + 1)
            x = diagonal_of(x, 0, i, j)
            letters = "".join(v for k, v in enumerate(letters) if k not in (i, j)) + c
    return letters, x


def _sum_out(term: Term, keep: str) -> Term:
    letters, x = term
    gone = tuple(i for i, c in enumerate(letters) if c not in keep)
    return "".join(c for c in letters if c in keep), ir.reduce("sum", x, gone) if gone else x


def _thin(term: Term, other: Term) -> Term:
    """Without the axes of length 1 that are longer in the other operand: they are broadcast."""
    sizes = dict(zip(other[0], other[1].shape))
    kept = [(c, d) for c, d in zip(term[0], term[1].shape) if not (d == 1 and sizes.get(c, 1) > 1)]
    return "".join(c for c, _ in kept), ir.reshape(term[1], [d for _, d in kept])


def _pair(p: Term, q: Term, keep: str) -> Term:
    """Two operands become one: letters that nothing else needs are summed over."""
    p, q = _thin(p, q), _thin(q, p)
    p, q = _sum_out(p, keep + q[0]), _sum_out(q, keep + p[0])
    common = [c for c in p[0] if c in q[0]]
    batch = [c for c in common if c in keep]
    contract = [c for c in common if c not in keep]
    node = ir.dot(p[1], q[1], ([p[0].index(c) for c in contract], [q[0].index(c) for c in contract]),
                  ([p[0].index(c) for c in batch], [q[0].index(c) for c in batch]))
    return "".join(batch + [c for c in p[0] if c not in common] + [c for c in q[0] if c not in common]), node


def _eager(xp: Any, arrays: Sequence[Any], a: Attrs) -> list[Any] | None:
    """NumPy's own sums of one array, which take less time than those that the operator is made of."""
    if len(arrays) != 1 or arrays[0].dtype not in (dt.float32, dt.float64):
        return None
    (letters,), out = _parse(a.subscripts, arrays)
    summed = math.prod(d for c, d in zip(letters, arrays[0].shape) if c not in out)
    return [xp.einsum(a.subscripts, arrays[0])] if summed < _LONG else None


@op("_npi_einsum", "*data", eager=_eager, np=("einsum",), arity_attr="num_args", num_args=Int(None), subscripts=Str(),
    optimize=Int(0))
def einsum(data: list[Node], a: Attrs) -> Node:
    """NumPy's einsum; operands are contracted from left to right."""
    letters, out = _parse(a.subscripts, data)
    terms = list(zip(letters, data))
    _check(a.subscripts, terms)
    terms = [_diagonal(t) for t in terms]
    while len(terms) > 1:
        p, q, *rest = terms
        terms = [_pair(p, q, out + "".join(t[0] for t in rest)), *rest]
    found, x = _sum_out(terms[0], out)
    return ir.permute(x, [found.index(c) for c in out])
