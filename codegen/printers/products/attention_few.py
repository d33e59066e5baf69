"""Attention of a few queries, as in decoding with kept keys and values: these are read once, where they are, and
nothing is packed.

Scores are dot products along the depth, as many keys at a time as a vector has lanes; their sums are added up
crosswise.
"""
from __future__ import annotations

from .operand import Operand
from hybrid.codegen.lanes import F32
from hybrid.codegen.program.size_parameters import literal

ROWS = 4                        # queries up to which a packed key would be read too seldom


def in_place(o: Operand, along: object, across: object) -> int | None:
    """Elements from one key to the next of an operand that can be read where it is, else None. across: the variable of
    neighbours."""
    if o.base is None or o.base.dtype != F32 or o.stride(across) != 1:          # type: ignore[arg-type]
        return None
    return o.stride(along)                                                      # type: ignore[arg-type]


def score_function(name: str, rows: int, depth: int, lanes: int, a_row: int, stride: int, block: int) -> list[str]:
    """The function of scores S (rows, block) of some queries A with ``keys`` keys at K; S has room for whole
    vectors."""
    whole, rest = depth // lanes * lanes, depth % lanes
    keys = range(lanes)
    out = [f"static __attribute__((noinline)) void {name}(const float *A, const float *K, float *S, long keys) {{",
           f"  for (long c = 0; c < keys; c += {lanes}) {{", "    const long last = keys - 1 - c;",
           "    " + " ".join(f"const float *k{j} = K + (c + (last < {j} ? last : {j})) * {literal(stride)};"
                           for j in keys),
           f"    for (long i = 0; i < {rows}; i++) {{", f"      const float *a = A + i * {literal(a_row)};",
           "      " + " ".join(f"hy_v s{j} = {{0}};" for j in keys)]
    if whole:
        out += [f"      for (long d = 0; d < {whole}; d += {lanes}) {{ const hy_v q = HYV_LOAD(a + d);",
                *(f"        s{j} += q * HYV_LOAD(k{j} + d);" for j in keys), "      }"]
    if rest:
        out += [f"      {{ const hy_m mk = HYV_FIRST({rest}); const hy_v q = HYV_LOADM(mk, a + {whole});",
                *(f"        s{j} += q * HYV_LOADM(mk, k{j} + {whole});" for j in keys), "      }"]
    return [*out, *_crosswise(lanes), f"      HYV_STORE(S + i * {block}l + c, s0);", "    }",
            "  }", "}"]


def _crosswise(lanes: int) -> list[str]:
    """Vectors s0, s1 … become s0, whose lane j is the sum of all lanes of sj: pairs of vectors are added, half of the
    lanes of each."""
    out, m = [], 1
    while m < lanes:
        own = [(p, p + m) if p % (2 * m) < m else (lanes + p - m, lanes + p) for p in range(lanes)]
        low, high = (", ".join(str(pair[side]) for pair in own) for side in (0, 1))
        picks = [f"HY_SHUFFLE(s{{0}}, s{{1}}, ((hy_vi){{{{{text}}}}}), {text})" for text in (low, high)]
        out.append(" ".join(f"s{j} = {' + '.join(picks).format(j, j + m)};" for j in range(0, lanes, 2 * m)))
        m *= 2
    return out
