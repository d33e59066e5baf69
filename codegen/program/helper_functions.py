"""Long functions that kernels call, as those that transform tiles of a convolution: where they differ in sizes alone,
kernels share one, which gets the sizes as arguments. Networks whose layers all differ in width are compiled in a third
of the time.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Sequence

from hybrid.codegen.loops import Printed
from .kernel_deduplication import filled

MANY = 6                        # kernels that share a function
# characters of one: short ones are the inner loops, whose strides had better be constants
LONG = 3000
MOST_NUMBERS = 48               # arguments for what differs

_HEAD = re.compile(r"^static __attribute__\(\(noinline\)\) void (k[0-9]+_\w+)\((.*)\) \{$", re.MULTILINE)
_KERNEL = re.compile(r"\bk[0-9]+_|^#", re.MULTILINE)
# whole numbers; constants of float and double, which are printed in base 16, are none
_NUMBER = re.compile(r"0x[0-9a-f]\.[0-9a-f]+p[+-][0-9]+f?|(?<![\w.])([0-9]+)l?(?![\w.])")
# lines of which no number has to be a constant
_FREE = re.compile(r"^(?!.*(?:\[[0-9]+\]|__builtin_|_Pragma)).+", re.MULTILINE)


@dataclass
class _Helper:
    """A function in a kernel's text: where it stands, its text as a template, and the numbers that a template leaves
    open."""
    kernel: int
    name: str
    text: str
    template: str
    numbers: list[re.Match[str]]


def _found(kernel: int, p: Printed) -> list[_Helper]:
    out = []
    for m in _HEAD.finditer(p.source):
        text = p.source[m.start():p.source.index("\n}", m.end()) + 2]
        general = text.replace(m[1], "@")
        if len(text) < LONG or _KERNEL.search(general):
            continue                                             # it calls others
        numbers = [n for line in _FREE.finditer(general, general.index("\n"))
                   for n in _NUMBER.finditer(general, line.start(), line.end()) if n[1]]
        out.append(_Helper(kernel, m[1], general, filled(general, numbers, ["\x00"] * len(numbers)), numbers))
    return out


def _called(source: str, name: str, other: str, added: Sequence[str]) -> str:
    """The text in which calls of a function are calls of another one with more arguments."""
    first, *calls = source.split(f"{name}(")
    out = [first]
    for text in calls:
        end, depth = 0, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        out += [f"{other}(", text[:end - 1], *(f", {n}" for n in added), text[end - 1:]]
    return "".join(out)


def share_helpers(kernels: Sequence[Printed]) -> tuple[list[Printed], list[Printed]]:
    """The functions that several kernels share, and the kernels that call them."""
    alike: dict[str, list[_Helper]] = {}
    for i, p in enumerate(kernels):
        for h in _found(i, p):
            alike.setdefault(h.template, []).append(h)
    functions, out = [], list(kernels)
    for group in alike.values():
        columns = list(zip(*([n[0] for n in h.numbers] for h in group)))
        differing = list(dict.fromkeys(c for c in columns if len(set(c)) > 1))
        if len({h.kernel for h in group}) < MANY or len(differing) > MOST_NUMBERS:
            continue
        names = {c: f"num{i}_" for i, c in enumerate(differing)}
        first = group[0]
        text = filled(first.text, first.numbers, [names.get(c, c[0]) for c in columns])
        head, rest = text.split(") {\n", 1)
        arguments = head.split("@(", 1)[1] + "".join(f", const long {name}" for name in names.values())
        own = f"static void {first.name}({arguments})"
        functions.append(Printed(first.name, f"{own} __attribute__((noinline));\n{own} {{\n{rest}", [], "helper"))
        for i, h in enumerate(group):
            p = out[h.kernel]
            rest_of = p.source.replace(h.text.replace("@", h.name), "")
            out[h.kernel] = replace(p, source=_called(rest_of, h.name, first.name, [c[i] for c in differing]))
    return functions, out
