"""C of the transforms of fast convolutions (hybrid/ir/winograd.py): lines of a vector each, from named vectors to named
vectors."""
from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Sequence

from hybrid.ir.winograd import Rows


@lru_cache(maxsize=64)
def forward(bt: Rows) -> tuple[str, ...]:
    """v = Bᵀ d. Points stand in pairs p, -p after the first: their even and odd parts are shared."""
    n = len(bt)
    out = [f"const hy_v v0 = {_sum([(c, f'd{q}') for q, c in enumerate(bt[0])])};"]
    i = 1
    while i < n - 1:
        if i + 1 < n - 1 and all(a in (b, -b) for a, b in zip(bt[i], bt[i + 1])):
            even = [(a, f"d{q}") for q, (a, b) in enumerate(zip(bt[i], bt[i + 1])) if a == b]
            odd = [(a, f"d{q}") for q, (a, b) in enumerate(zip(bt[i], bt[i + 1])) if a != b]
            out.append(f"const hy_v e{i} = {_sum(even)}, o{i} = {_sum(odd)}, v{i} = e{i} + o{i}, v{i + 1} = e{i} - "
                       f"o{i};")
            i += 2
        else:
            out.append(f"const hy_v v{i} = {_sum([(c, f'd{q}') for q, c in enumerate(bt[i])])};")
            i += 1
    return *out, f"const hy_v v{n - 1} = {_sum([(c, f'd{q}') for q, c in enumerate(bt[n - 1])])};"


@lru_cache(maxsize=64)
def backward(at: Rows) -> tuple[str, ...]:
    """z = Aᵀ m, with sums and differences of the pairs."""
    n = len(at[0])
    pairs = [i for i in range(1, n - 2, 2) if at[1][i] == -at[1][i + 1]]
    paired = {j for i in pairs for j in (i, i + 1)}
    out = [f"const hy_v a{i} = m{i} + m{i + 1}, b{i} = m{i} - m{i + 1};" for i in pairs]
    for r, row in enumerate(at):
        terms = [(c, f"m{p}") for p, c in enumerate(row) if p not in paired]
        out.append(f"const hy_v z{r} = {_sum([*terms, *((row[i], ('b' if r % 2 else 'a') + str(i)) for i in pairs)])};")
    return tuple(out)


def _sum(terms: Sequence[tuple[Fraction, str]]) -> str:
    """Text of a sum of products."""
    out = ""
    for c, v in sorted((t for t in terms if t[0]), key=lambda t: (abs(t[0]) != 1, t[0] < 0)):
        product = v if abs(c) == 1 else f"HYV_B({float(abs(c))!r}f) * {v}"
        out = f"{out} {'-' if c < 0 else '+'} {product}" if out else f"-{product}" if c < 0 else product
    return out or "(hy_v){}"
