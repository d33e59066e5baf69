"""Vectors of a contraction: their types, horizontal sums, square blocks transposed in registers."""
from __future__ import annotations

from typing import Iterator

import numpy as np

from hybrid.codegen.dialect import C
from hybrid.codegen.schedule.tiling import Target


def vector_type(d: np.dtype, lanes: int) -> str:
    """Typedef of a vector, loadable from any address."""
    c = C.storage(d)
    if lanes == 1:
        return f"typedef {c} v{c}1;\ntypedef {c} u{c}1;\n"
    return (f"typedef {c} v{c}{lanes} __attribute__((vector_size({lanes * d.itemsize})));\n"
            f"typedef {c} u{c}{lanes} __attribute__((vector_size({lanes * d.itemsize}), aligned({d.itemsize})));\n"
            f"typedef {'int' if d.itemsize == 4 else 'long'} m{c}{lanes} "
            f"__attribute__((vector_size({lanes * d.itemsize})));\n")


def hsum(d: np.dtype, lanes: int) -> str:
    """Horizontal sum of a vector, by halves."""
    c = C.storage(d)
    v, m = f"v{c}{lanes}", f"m{c}{lanes}"
    if lanes == 1:
        return f"HY_FN {c} hsum_{v}({v} v) {{ return v; }}\n"
    halves = [h for h in (8, 4, 2, 1) if h < lanes]
    shuffles = " ".join(f"v += HY_SHUFFLE(v, v, (({m}){{{order}}}), {order});" for h in halves
                        for order in [", ".join(str(i ^ h) for i in range(lanes))])
    return f"HY_FN {c} hsum_{v}({v} v) {{ {shuffles} return v[0]; }}\n"


def _rounds(d: np.dtype, lanes: int) -> Iterator[tuple[int, str, str, str]]:
    """Rounds in which vectors that lie ``half`` apart exchange the halves of their groups: the distance, declarations
    of the two orders, and the templates of both results of vectors {0} and {1}."""
    half = lanes // 2
    while half:
        low = ", ".join(str(i if not i & half else lanes + i - half) for i in range(lanes))
        high = ", ".join(str(i + half if not i & half else lanes + i) for i in range(lanes))
        yield (half, f"const m{C.storage(d)}{lanes} low = {{{low}}}, high = {{{high}}};",
               f"HY_SHUFFLE({{0}}, {{1}}, low, {low})", f"HY_SHUFFLE({{0}}, {{1}}, high, {high})")
        half //= 2


def turn(d: np.dtype, lanes: int) -> str:
    """A square block of as many rows as a vector has elements, transposed in registers."""
    c, v = C.storage(d), f"v{C.storage(d)}{lanes}"
    out = [f"HY_FN void turn_{v}({c} *to, long step, const {c} *from, long stride) {{",
           "  " + " ".join(f"{v} r{i} = *(const u{c}{lanes} *)(from + {i} * stride);" for i in range(lanes))]
    for half, orders, low, high in _rounds(d, lanes):
        pairs = [(f"r{i}", f"r{i + half}") for i in range(lanes) if not i & half]
        out += [f"  {{ {orders} {v} t;", *(f"    t = {low.format(a, b)}; {b} = {high.format(a, b)}; {a} = t;"
                                           for a, b in pairs), "  }"]
    return "\n".join([*out, "  " + " ".join(f"*(u{c}{lanes} *)(to + {i} * step) = r{i};" for i in range(lanes)), "}",
                      ""])


def sums(d: np.dtype, lanes: int) -> str:
    """The horizontal sums of as many vectors as one has elements, as one vector: in each round, vectors that lie
    ``half`` apart become one, which has the sums of their halves' groups."""
    v = f"v{C.storage(d)}{lanes}"
    out = [f"HY_FN {v} sums_{v}({', '.join(f'{v} r{i}' for i in range(lanes))}) {{"]
    for half, orders, low, high in _rounds(d, lanes):
        both = f"{low} + {high}"
        out += [f"  {{ {orders}", *(f"    r{i} = {both.format(f'r{i}', f'r{i + half}')};" for i in range(half)), "  }"]
    return "\n".join([*out, "  return r0;", "}", ""])


SHUFFLE = """#ifndef HY_SHUFFLE
#ifdef __clang__
#define HY_SHUFFLE(a, b, mask, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define HY_SHUFFLE(a, b, mask, ...) __builtin_shuffle(a, b, mask)
#endif
#endif
"""


def support(d: np.dtype, target: Target) -> str:
    """Types and functions a contraction of this dtype needs."""
    lanes = target.lanes(d)
    return vector_type(d, lanes) + (SHUFFLE if lanes > 1 else "") + hsum(d, lanes) + turn(d, lanes) + sums(d, lanes)
