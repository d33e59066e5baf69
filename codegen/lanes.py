"""How a vector loop's body, printed once as a template, becomes C: ``@`` in a name stands for the number of an unrolled
copy, and ``HYV_LOAD@(``, ``HYV_STORE@(``, ``HYV_KEEP@(`` become masked forms in the last turn.
"""
from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Iterable, Sequence

import numpy as np

from hybrid.ir import Node
from hybrid.ir.index import Var
from hybrid.kernels import text as kernel_text

from . import partial_sums

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
HALVES = {"float16": "_HALF", "bfloat16": "_BF16"}       # ends of names of macros (kernels/c/half.h)


# texts that only programs with these words need
RARE = {"power.h": ("hyv_pow(",), "random.h": ("hyv_philox(",), "vector_double.h": ("HYD_",),
        "half.h": tuple(f"{kind}(" for kind in HALVES.values()),
        "functions.h": ("hyv_expm1(", "hyv_log1p(", "hyv_softplus(", "hyv_log2(", "hyv_log10(", "hyv_sin(", "hyv_cos(",
                        "hyv_tan(")}


@lru_cache
def half(d: np.dtype) -> str:
    """The end of the names of macros for what a dtype is in memory: "" but for half types."""
    return HALVES.get(d.name, "")


class Refused(Exception):
    """This cannot be printed as vectors. ``members``: values that could be computed by kernels of their own instead."""

    members: frozenset[Node] = frozenset()


@dataclass
class LaneLoop:
    """A loop over a lane variable: the template of its body, and how many vectors a turn does."""
    lane: Var
    lines: list[str]
    unroll: int


def support(lanes: int, sources: Sequence[str] = ()) -> str:
    """The text that vector kernels need; sources: of the kernels."""
    wide = _constants("D", lanes // 2, "double", "hy_dv", "long",
                      "hy_di") if _has(sources, RARE["vector_double.h"]) else []
    return "\n".join([f"#define HYV_BYTES {lanes * 4}", *_constants("V", lanes, "float", "hy_v", "int", "hy_vi"), *wide,
                      *(_header(name) for name in ["vector.h",
                                                   *(n for n, words in RARE.items() if _has(sources, words))])])


def _header(name: str) -> str:
    """A text of kernels/c, with what both kinds of vectors have in common where it asks for that."""
    text, asked, rest = kernel_text("c", name).partition('#include "vector_either.h"\n')
    both = kernel_text("c", "vector_either.h") if asked else ""
    return text + (in_doubles(both) if name == "vector_double.h" else both) + rest


def _constants(letter: str, lanes: int, real: str, reals: str, whole: str, wholes: str) -> list[str]:
    """Macros for vectors of equal elements, and of 0, 1, 2 …"""
    same = ", ".join(["x_"] * lanes)
    return [f"#define HY{letter}_B(x) ({{ {real} x_ = (x); ({reals}){{{same}}}; }})",
            f"#define HY{letter}_IB(x) ({{ {whole} x_ = (x); ({wholes}){{{same}}}; }})",
            f"#define HY{letter}_COUNT (({wholes}){{{', '.join(map(str, range(lanes)))}}})"]


def in_doubles(text: str) -> str:
    """Statements that are printed for vectors of float32, for those of float64."""
    return re.sub(r"\bhy_(v|m|vi|vu)\b", lambda m: f"hy_d{m[1][-1]}",
                  text.replace("HYV_", "HYD_").replace("hyv_", "hyd_").replace("hy_scale(", "hyd_scale("))


def _has(sources: Iterable[str], words: Iterable[str]) -> bool:
    return any(w in s for w in words for s in sources)


_WHOLE = {"HYV_LOAD@(": "HYV_LOAD(", "HYV_STORE@(": "HYV_STORE(", "HYV_STREAM@(": "HYV_STREAM(",
          "HYV_KEEP@(": "HYV_FIRSTARG("}
_MASKED = {"HYV_LOAD@(": "HYV_LOADM(mk, ", "HYV_STORE@(": "HYV_STOREM(mk, ", "HYV_STREAM@(": "HYV_STOREM(mk, ",
           "HYV_KEEP@(": "HYV_SELECT(mk, "}
for _do, _kind in itertools.product(("LOAD", "STORE"), HALVES.values()):
    _WHOLE[f"HYV_{_do}{_kind}@("], _MASKED[f"HYV_{_do}{_kind}@("] = f"HYV_{_do}{_kind}(", f"HYV_{_do}M{_kind}(mk, "


def copies(lines: list[str], q: int) -> list[str]:
    """The template's statements for copy q."""
    return [_filled(line, _WHOLE, q) for line in lines]


def masked(lines: list[str]) -> list[str]:
    """The template's statements for the last turn, in which only the lanes of mask mk count."""
    return [_filled(line, _MASKED, 0) for line in lines]


def _filled(line: str, words: dict[str, str], q: int) -> str:
    for old, new in words.items():
        line = line.replace(old, new)
    return line.replace("@", f"_{q}")


def beside(v: Var, lines: list[str], lanes: int, unroll: int) -> list[str] | None:
    """Statements with loops in them for ``unroll`` vectors that go through the loops together; None where they
    cannot."""
    own = set(re.findall(r"\bhy_(?:v|m|vi) (\w+)", " ".join(lines)))
    names = re.compile(r"\b(" + "|".join(sorted(own)) + r")\b") if own else None
    where = re.compile(rf"\b{v.name}\b")
    out: list[str] = []
    for line in lines:
        if line.lstrip().startswith(("for (", "}", "#")):
            if not line.endswith(("{", "}")):
                return None
            out.append(line)
            continue
        if "for (" in line:
            return None
        turns = [_filled(where.sub(f"({v.name} + {q * lanes})" if q else v.name, names.sub(rf"\g<1>_{q}", line)
                                   if names else line), _WHOLE, q) for q in range(unroll)]
        out += list(dict.fromkeys(turns))
    return out


def lane_loop(v: Var, lines: list[str], lanes: int, unroll: int, pragma: str = "", once: str = "",
              start: int = 0, flush: Sequence[str] = ()) -> list[str]:
    """All turns of a lane variable from ``start`` on: whole groups of vectors, then single vectors, then what is left;
    once: pragma of what is left; flush: statements behind every block of whole groups (partial_sums.py)."""
    step = lanes * unroll
    whole, n = v.extent // step * step, v.extent
    out: list[str] = []
    together = beside(v, lines, lanes, unroll) if whole > start and any("for (" in line for line in lines) else None
    if together is not None:
        out += partial_sums.turns(v.name, start, whole, step, together, partial_sums.TERMS, flush, pragma)
    elif whole > start:
        body = []
        for q in range(unroll):
            body += [f"{{ const long {v.name} = {v.name}_b + {q * lanes};", *("  " + s for s in copies(lines, q)), "}"]
        out += partial_sums.turns(f"{v.name}_b", start, whole, step, body, partial_sums.TERMS, flush, pragma)
    vectors = (n - whole) // lanes * lanes
    rest = beside(v, lines, lanes, vectors // lanes) if together is not None and vectors else None
    if rest is not None:
        out += [*([once] if once else []), f"{{ const long {v.name} = {whole};", *("  " + s for s in rest), "}"]
    elif vectors:
        out += [*([once] if once else []),
                f"for (long {v.name} = {whole}; {v.name} < {whole + vectors}; {v.name} += {lanes}) {{",
                *("  " + s for s in copies(lines, 0)), "}"]
    if n % lanes:
        out += [*([once] if once else []),
                f"{{ const long {v.name} = {n - n % lanes}; const hy_m mk = HYV_FIRST({n % lanes});",
                *("  " + s for s in masked(lines)), "}"]
    return out
