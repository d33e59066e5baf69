"""Printed C of one lane as standard C11 without GNU's words: for compilers that have no vectors and no attributes."""
from __future__ import annotations

import re

from hybrid.base.errors import HybridError

_BUILTIN = re.compile(r"__builtin_(\w+)")
# functions of the C library have the names of GCC's
_LIBRARY = frozenset("""memcpy memset acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp
    exp2 expm1 fabs floor fma fmax fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 lrint llrint nearbyint pow
    remainder
    rint round sin sinh sqrt tan tanh tgamma trunc abs labs""".split())  # noqa: E501
_OWN = {"prefetch": "hy_prefetch", "expect": "hy_expect", "ctzl": "hy_lowest", "ctzll": "hy_lowest"}
SUPPORT = """#define hy_prefetch(...) ((void)0)
#define hy_expect(value, likely) (value)
static inline int hy_lowest(uint64_t bits) { int n = 0; while (!(bits >> n & 1)) n++; return n; }"""


def _without_attributes(text: str) -> str:
    """The text without ``__attribute__((…))``."""
    out, at = [], 0
    while (found := text.find("__attribute__", at)) >= 0:
        end, depth = text.index("(", found), 0
        while True:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        out.append(text[at:found].rstrip(" ") + (" " if text[end:end + 1] not in ";),\n" else ""))
        at = end + (text[end:end + 1] == " ")
    return "".join([*out, text[at:]])


def _builtin(m: re.Match[str]) -> str:
    name = m[1]
    if name in _OWN:
        return _OWN[name]
    if name in _LIBRARY or name.endswith("f") and name[:-1] in _LIBRARY:
        return name
    raise HybridError(f"this network cannot be exported to C in its plain form: a kernel needs GCC's __builtin_{name}. "
                      f"Leave out plain=True")


def sized(text: str, wide: bool = True) -> str:
    """A text in which integers of 64 bits have types that are so long on every machine. wide: whether a ``long`` may be
    one; else it is an index, which is as long as the machine's addresses are."""
    text = re.sub(r"\bunsigned long( long)?\b", "uint64_t", text)
    text = re.sub(r"\b(0x[0-9a-fA-F]+|[0-9]+)ul\b", r"\1ull", text)
    if wide:
        text = re.sub(r"\blong( long)?\b", "int64_t", text)
        text = re.sub(r"\b(0x[0-9a-fA-F]+|[0-9]+)l\b", r"\1ll", text)
    return text


def standard(text: str, wide: bool = True) -> str:
    """A text of one lane in standard C. wide: as of ``sized``."""
    text = _without_attributes(text)
    text = re.sub(r'__builtin_nanf?\(""\)', "NAN", text)
    text = re.sub(r"__builtin_inff?\(\)", "INFINITY", text)
    text = text.replace("__builtin_##f", "f")
    text = _BUILTIN.sub(_builtin, text)
    text = re.sub(r'__asm__ ?\([^;]*\); ?', "", text)
    text = sized(text, wide)
    if "({" in text or "__asm__" in text or "vector_size" in text or "HYV_" in text:
        raise HybridError("this network cannot be exported to C in its plain form: a kernel is printed as vectors. "
                          "Leave "
                          "out plain=True")
    return text
