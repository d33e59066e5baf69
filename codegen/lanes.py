"""How a vector loop's body, printed once as a template, becomes C: ``@`` in a name stands for the number of an unrolled
copy, and ``HYV_LOAD@(``, ``HYV_STORE@(``, ``HYV_KEEP@(`` become masked forms in the last turn.
"""
from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import AbstractSet, Iterable, Sequence

import numpy as np

from hybrid.base.records import dataclass
from hybrid.ir.size import fixed, same
from hybrid.ir import Node, rewriting
from hybrid.ir.index import Ix, Var
from hybrid.ir.parse import Words, lines_of, words
from hybrid.ir.rewriting import copy, renamed, shifted, walk
from hybrid.ir.stmt import COPIED, MASK, Assign, Code, Do, For, Let, Name, Op, Prefetch, Scope, Stmt, Store, When
from hybrid.kernels import text as kernel_text

from . import partial_sums

VECTORS = ("hy_v", "hy_m", "hy_vi")                       # types of vectors, masks and vectors of integers
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
# types whose numbers are float32 in vectors: ends of names of macros (kernels/c/half.h, bytes.h)
HALVES = {"float16": "_HALF", "bfloat16": "_BF16"}
BYTES = {"int8": "_I8", "uint8": "_U8"}
HALF_LANES = 8                                            # lanes from which on half types are converted as vectors
BOOL = "_BOOL"                                            # of truth values, which are masks (kernels/c/bools.h)


PAIRS = "hyv_pairs_"                                      # begins the names of functions that put operands in order
# texts that only programs with such words need (``uses``)
RARE = {"power.h": ("hyv_pow",), "random.h": ("hyv_philox",), "vector_double.h": ("HYD_",),
        "words.h": ("HYV_DOT_", "HYT_", PAIRS), "tiles.h": ("HYT_",),
        "half.h": (*HALVES.values(), PAIRS), "bytes.h": tuple(BYTES.values()), "bools.h": (BOOL,), "pairs.h": (PAIRS,),
        "functions.h": tuple(f"hyv_{f}" for f in "expm1 log1p softplus log2 log10 sin cos tan".split())}


@lru_cache
def half(d: np.dtype) -> str:
    """The end of the names of macros for what a dtype is in memory: "" but for half types and those of 8 bits."""
    return HALVES.get(d.name) or BYTES.get(d.name, "")


class Refused(Exception):
    """This cannot be printed as vectors. ``members``: values that could be computed by kernels of their own instead."""

    members: frozenset[Node] = frozenset()


@dataclass
class LaneLoop:
    """A loop over a lane variable: the pattern of its body, and how many vectors an iteration does."""
    lane: Var
    body: list[Stmt]
    unroll: int


def support(lanes: int, used: AbstractSet[str] = frozenset()) -> str:
    """The text that vector kernels need; used: the words in them."""
    rare = [name for name, words in RARE.items() if uses(used, words)]
    wide = _constants("D", lanes // 2, "double", "hy_dv", "long", "hy_di") if "vector_double.h" in rare else []
    return "\n".join([f"#define HYV_BYTES {lanes * 4}", *_constants("V", lanes, "float", "hy_v", "int", "hy_vi"), *wide,
                      *map(_header, ["vector.h", *rare])])


def _header(name: str) -> str:
    """A text of kernels/c, with what both kinds of vectors have in common where it asks for that."""
    text, asked, rest = kernel_text("c", name).partition('#include "vector_either.h"\n')
    both = kernel_text("c", "vector_either.h") if asked else ""
    if name == "vector_double.h":
        both = "\n".join("".join(in_doubles(line)) for line in lines_of(both))
    return text + both + rest


def _constants(letter: str, lanes: int, real: str, reals: str, whole: str, wholes: str) -> list[str]:
    """Macros for vectors of equal elements, and of 0, 1, 2 …"""
    same = ", ".join(["x_"] * lanes)
    return [f"#define HY{letter}_B(x) ({{ {real} x_ = (x); ({reals}){{{same}}}; }})",
            f"#define HY{letter}_IB(x) ({{ {whole} x_ = (x); ({wholes}){{{same}}}; }})",
            f"#define HY{letter}_COUNT (({wholes}){{{', '.join(map(str, range(lanes)))}}})"]


_DOUBLES = {"hy_v": "hy_dv", "hy_m": "hy_dm", "hy_vi": "hy_di", "hy_vu": "hy_du", "hy_scale": "hyd_scale"}


def in_doubles(line: Words) -> Words:
    """A line of statements that are printed for vectors of float32, for those of float64."""
    return tuple(_DOUBLES.get(w) or f"{w[:2]}{'D' if w[2] == 'V' else 'd'}{w[3:]}"
                 if w.startswith(("HYV_", "hyv_")) or w in _DOUBLES else w for w in line)


def uses(used: AbstractSet[str], words: tuple[str, ...]) -> bool:
    """Whether a program uses one of some words; one that ends in _ stands for all that begin with it, one that begins
    with _ for all that end with it."""
    first = tuple(w for w in words if w.endswith("_"))
    last = tuple(w for w in words if w.startswith("_"))
    return not used.isdisjoint(words) or bool(first or last) and any(
        w.startswith(first) or w.endswith(last) for w in used)


def copies(body: Iterable[Stmt], q: int) -> list[Stmt]:
    """The pattern's statements for copy q."""
    return [copy(Code(words(s)) if isinstance(s, str) else s, q) for s in body]


def masked(body: Iterable[Stmt]) -> list[Stmt]:
    """The pattern's statements for the last iteration, in which only the lanes of mask mk count."""
    return [rewriting.masked(Code(words(s)) if isinstance(s, str) else s) for s in body]


def unmasked(body: Iterable[Stmt]) -> list[Stmt]:
    """The pattern's statements for a vector of which all lanes count."""
    return copies(body, 0)


def jammed(v: Var, body: Iterable[Stmt], lanes: int, unroll: int) -> list[Stmt]:
    """Statements with loops in them for ``unroll`` vectors that go through the loops together."""
    body = tuple(body)
    return _jammed(v, body, lanes, unroll, {s.name for s in walk(body) if isinstance(s, Let) and s.type in VECTORS})


def _jammed(v: Var, body: Iterable[Stmt], lanes: int, unroll: int, own: set[Name]) -> list[Stmt]:
    out: list[Stmt] = []
    for s in body:
        out += ([replace(s, body=tuple(_jammed(v, s.body, lanes, unroll, own)))] if isinstance(s, For)
                else _copies_of(v, s, lanes, unroll, own))
    return out


def _copies_of(v: Var, s: Stmt, lanes: int, unroll: int, own: set[Name]) -> list[Stmt]:
    """A statement for each vector; once where it is the same for all."""
    new = [copy(shifted(renamed(s, {n: f"{n}_{q}" for n in own if not n.endswith(COPIED)}), v, q * lanes), q)
           for q in range(unroll)]
    return list(dict.fromkeys(new))


def can_jam(body: Iterable[Stmt]) -> bool:
    """Whether statements with loops among them are all of a known form."""
    return all(isinstance(s, (Let, Assign, Store, Do, For, Prefetch)) for s in walk(body))


def iterations(v: Var, body: Iterable[Stmt], lanes: int, unroll: int, pragma: str = "", once: str = "",
               start: int = 0, flush: Sequence[Stmt] = ()) -> list[Stmt]:
    """All iterations of a lane variable from ``start`` on: whole groups of vectors, then single vectors, then what is
    left; once: pragma of what is left; flush: statements behind every block of whole groups (partial_sums.py)."""
    body = tuple(body)
    step = lanes * unroll
    if not fixed(v.extent):
        return _any_number(v, body, lanes, unroll, pragma, once, flush)
    whole, n = v.extent // step * step, v.extent
    vectors = (n - whole) // lanes * lanes
    jam = whole > start and any(isinstance(s, For) for s in body) and can_jam(body)
    out: list[Stmt] = []
    if jam:
        out += partial_sums.iterations(v.name, start, whole, step, jammed(v, body, lanes, unroll), partial_sums.TERMS,
                                       flush, pragma)
    elif whole > start:
        name, groups = _group(v, body, lanes, unroll)
        out += partial_sums.iterations(name, start, whole, step, groups, partial_sums.TERMS, flush, pragma)
    if jam and vectors:
        out += [*([once] if once else []), _at(v, Ix(whole), jammed(v, body, lanes, vectors // lanes))]
    elif vectors:
        out.append(For(v.name, Ix(whole), Ix(whole + vectors), tuple(copies(body, 0)), lanes, once))
    if n % lanes:
        mask = Let("hy_m", Name(MASK), Op(f"HYV_FIRST({n % lanes})", ()), True)
        out += [*([once] if once else []), _at(v, Ix(n - n % lanes), [mask, *masked(body)])]
    return out


def _any_number(v: Var, body: tuple[Stmt, ...], lanes: int, unroll: int, pragma: str, once: str,
                flush: Sequence[Stmt]) -> list[Stmt]:
    """The same where the number of iterations is known only at the call."""
    step, n = lanes * unroll, v.extent
    whole = n // step * step
    if any(isinstance(s, For) for s in body):
        name, groups = v.name, jammed(v, body, lanes, unroll) if can_jam(body) else []
        whole = whole if groups else 0
    else:
        name, groups = _group(v, body, lanes, unroll)
    if same(whole, 0):                                       # fewer than a group has, whatever their number is
        groups = []
    out = partial_sums.iterations(name, 0, whole, step, groups, partial_sums.TERMS, flush, pragma) if groups else []
    if not same(whole, n // lanes * lanes):
        out.append(For(v.name, Ix(whole), Ix(n // lanes * lanes), tuple(copies(body, 0)), lanes, once))
    mask = Let("hy_m", Name(MASK), Op(f"HYV_FIRST({n % lanes})", ()), True)
    last = When(Op(f"{n // lanes * lanes} < {n}", ()), (_at(v, Ix(n // lanes * lanes), [mask, *masked(body)]),))
    return [*out, *([once] if once else []), last]


def _group(v: Var, body: Sequence[Stmt], lanes: int, unroll: int) -> tuple[str, list[Stmt]]:
    """The variable of a loop over groups of vectors, and its statements."""
    if unroll == 1:
        return v.name, copies(body, 0)
    base = Var(f"{v.name}_b", v.extent)
    return base.name, [_at(v, Ix(q * lanes, ((base, 1),)), copies(body, q)) for q in range(unroll)]


def _at(v: Var, value: Ix, body: Iterable[Stmt]) -> Scope:
    """Statements for one value of a loop variable."""
    return Scope((Let("long", Name(v.name), value, True), *body))
