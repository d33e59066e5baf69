"""What HYBRID_DEBUG prints: 1 kernels and reasons, 2 memory map, 3 source, 4 cache misses. To standard error."""
from __future__ import annotations

import re
import sys
from typing import Any, Iterable, Sequence

from ..base import config
from ..runtime.report import Report

LAST_CHANGE = [""]                    # the block attribute that was assigned last, for the text of a cache miss
# of a call's signature (trace.py)
FIELDS = ("structure", "arrays", "device", "training", "recording", "numpy arrays", "attributes", "state",
          "repeated arrays", "objects read")
_FIRST_KERNEL = re.compile(r'^(static void k0\(|HY_KERNEL void k|extern "C" __global__)', re.MULTILINE)


def _print(text: str) -> None:
    print(text, file=sys.stderr)


def compiled(name: str, report: Report) -> None:
    """A program was compiled."""
    level = config.debug_level()
    if level >= 1:
        _print(f"hybrid: compiled {name} in {report.compile_seconds:.3f} s\n{report}")
    if level >= 2:
        for what, at, size in report.offsets:
            _print(f"  arena {at:>10} … {at + size:<10} {what}")
        for what, donor in report.in_place:
            _print(f"  in place: {what} over {donor}")
    if level >= 3:
        _print(own_part(report.source))


def own_part(source: str) -> str:
    """A generated source without the helper functions that stand in every one."""
    first = _FIRST_KERNEL.search(source)
    if first is None:
        return source
    skipped = source[:first.start()].count("\n")
    return (f"  ({skipped} lines of helper functions before this are in the source file)\n{source[first.start():]}"
            if skipped else source)


def missed(name: str, field: str) -> None:
    """A call matched no compiled program."""
    if config.debug_level() >= 4:
        _print(f"hybrid: {name}: cache miss, {field}")


# ---- what differed
def difference(fields: Sequence[str], known: Iterable[Sequence[Any]], new: Sequence[Any]) -> str:
    """The fields in which a signature differs from the nearest of those known, in words: ``arrays: input 0 float32(2,
    3) -> float32(4, 3)``."""
    old = max(known, key=lambda s: sum(a == b for a, b in zip(s, new)), default=None)
    if old is None:
        return "first call"
    return "; ".join(f"{name}: {_WORDS.get(name, _leaf)(a, b)}"
                     for name, a, b in zip(fields, old, new) if a != b) or "nothing"


def difference_of_calls(known: Iterable[Sequence[Any]], new: Sequence[Any]) -> str:
    """The same of calls' signatures; without a guard for such calls nothing is known of what they read."""
    seen = len(new) if new[-1] else -1
    return difference(FIELDS, [s[:seen] for s in known], new[:seen])


def _leaf(a: Any, b: Any) -> str:
    """The first place where two nested tuples differ."""
    while isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        a, b = next((x, y) for x, y in zip(a, b) if x != y)
    return f"{a!r:.80} -> {b!r:.80}"


def _arrays(a: Any, b: Any) -> str:
    if len(a) != len(b):
        return f"{len(a)} -> {len(b)}"

    def text(x: Any) -> str:
        shape, dtype, cls = x[:3]
        return f"{dtype.name}{shape}" + ("" if cls.__name__ == "NDArray" else f" {cls.__name__}")
    return ", ".join(f"input {i} {text(x)} -> {text(y)}" for i, (x, y) in enumerate(zip(a, b)) if x != y)


def _nesting(a: Any, b: Any) -> str:
    """Arguments that are there, or have another value, or are nested in another way."""
    before, after = arguments(a), arguments(b)
    return ", ".join(f"argument {k} {before.get(k, 'left out')} -> {after.get(k, 'left out')}"
                     for k in {**before, **after} if before.get(k) != after.get(k))


def arguments(structure: Any) -> dict[Any, str]:
    """Each argument of a call, by its place or name, in words."""
    positional, named = structure[1]
    return {**{i: _argument(s) for i, s in enumerate(positional[1])}, **{k: _argument(s) for k, s in named[1]}}


def _argument(s: Any) -> str:
    if isinstance(s, str):
        return "an array"
    kind, rest = s[0], s[1]
    if kind == "number":
        return f"a {rest.__name__}"
    if kind in ("value", "object"):
        return f"{s[2]!r:.60}"
    parts = [f"{k}: {_argument(v)}" for k, v in rest] if kind == "dict" else [_argument(v) for v in rest]
    return f"{kind if isinstance(kind, str) else kind.__name__} of ({', '.join(parts):.80})"


def _attributes(a: Any, b: Any) -> str:
    return f"{LAST_CHANGE[0]} was the last that was assigned" if LAST_CHANGE[
            0] else "a block's attributes, or the contents of a list, dict or object in them, changed"


_WORDS = {"arrays": _arrays, "structure": _nesting, "attributes": _attributes}
