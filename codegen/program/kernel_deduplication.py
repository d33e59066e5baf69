"""Kernels of one program that do the same: one function, called with other pointers and numbers, so that it is compiled
once.

Unrolled loops and repeated layers make hundreds of kernels that differ in their name, or in the offset of a slice, or
in a constant. A number that differs becomes an argument of the function where at least ``MANY`` kernels share it: fewer
keep theirs, which the compiler can then calculate with. Elementwise kernels that are like no other one share a function
with those that differ in sizes: layers of many widths, updates of many parameters.
"""
from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Iterable, Sequence

from hybrid.codegen.loops import Printed

MANY = 4
# characters of kernels that are compiled in several units: they take the compiler about a quarter of a second
LARGE = 40_000
MOST_NUMBERS = 64               # arguments for what differs

UNITS = "#if HY_UNIT == HY_UNITS - 1"          # a line of every text that can be compiled in units
_KERNEL = re.compile(r"\bk[0-9]+")
# offsets, which follow a plus sign within an address, and constants of float and double, which are printed in base 16
_NUMBER = re.compile(r"(?<=\+ )[0-9]+(?=[\])])|(?<=\+ \()[0-9]+(?=\))|0x[0-9a-f]\.[0-9a-f]+p[+-][0-9]+f?")
# and whole numbers anywhere but behind a division, which takes longer by a number that the compiler does not know
_SIZE = re.compile(_NUMBER.pattern + r"|(?<![\w./%])(?<![/%] )[0-9]+l?(?![\w.])")
# of a line: its numbers may have to be constants
_FIXED = re.compile(r"\[[0-9]+\]|^\s*#|\bstatic\b|__builtin_prefetch|_Pragma", re.MULTILINE)


def _general(p: Printed) -> str:
    """The text without its own name."""
    return _KERNEL.sub(lambda m: "@" if m[0] == p.name else m[0], p.source)


def _numbers(text: str, kind: re.Pattern[str] = _NUMBER) -> list[re.Match[str]]:
    """The numbers in the body of the kernel's function, the last one of its text, that need not be constants."""
    start = text.rfind("static void @(")
    found: list[re.Match[str]] = []
    if start < 0 or "\nstatic " in text[start:]:
        return found
    for line in re.finditer(r".+", text[start:]):
        if not _FIXED.search(line[0]):
            found += kind.finditer(text, start + line.start(), start + line.end())
    return found


def _template(text: str, numbers: Sequence[re.Match[str]]) -> str:
    """The text with each number's kind in its place."""
    return filled(text, numbers, ("\x00f" if m[0].endswith("f") else "\x00d" if m[0].startswith("0x") else "\x00l"
                                  for m in numbers))


def filled(text: str, numbers: Sequence[re.Match[str]], new: Iterable[str]) -> str:
    """The text with other words in the numbers' places."""
    parts, at = [], 0
    for m, value in zip(numbers, new):
        parts += [text[at:m.start()], value]
        at = m.end()
    return "".join([*parts, text[at:]])


_TYPES = {"f": "float", "d": "double", "l": "long"}


def _kind(number: str) -> str:
    return ("f" if number.endswith("f") else "d") if number.startswith("0x") else "l"


def _with_arguments(p: Printed, text: str, numbers: Sequence[re.Match[str]],
                    columns: Sequence[tuple[str, ...]]) -> str | None:
    """The function with arguments in place of the numbers that differ. columns: each number's values in all kernels."""
    names: dict[tuple[str, ...], str] = {}
    for column in columns:
        if len(set(column)) > 1:
            names.setdefault(column, f"num{len(names)}_")
    if len(names) > MOST_NUMBERS:
        return None
    body = filled(text, numbers, (names.get(column, m[0]) for m, column in zip(numbers, columns)))
    head = body.index(") {\n", body.rindex("static void @("))
    added = "".join(f", const {_TYPES[_kind(column[0])]} {name}" for column, name in names.items())
    return (body[:head] + added + body[head:]).replace("@", p.name)


def _joined(kernels: list[Printed], texts: list[str], numbers: list[list[re.Match[str]]]) -> list[Printed]:
    """Kernels of one template as one function."""
    columns = list(zip(*([m[0] for m in found] for found in numbers)))
    source = _with_arguments(kernels[0], texts[0], numbers[0], columns)
    if source is None:
        return kernels
    differing = list(dict.fromkeys(c for c in columns if len(set(c)) > 1))
    first = kernels[0]
    return [replace(p, name=first.name, source=source if p is first else "", numbers=tuple(c[i] for c in differing))
            for i, p in enumerate(kernels)]


def _declared(p: Printed) -> str:
    """The head of a kernel's function."""
    start = p.source.rindex(f"static void {p.name}(")
    return p.source[start:p.source.index(") {\n", start) + 1]


def _apart(p: Printed) -> Printed:
    """A function that is not written into its callers: where there are many, that would take the compiler long."""
    head = _declared(p)
    return replace(p, source=p.source.replace(f"{head} {{", f"{head} __attribute__((noinline));\n{head} {{"))


def units(kernels: Sequence[Printed], net: str) -> str:
    """The kernels and the function that runs them, so that they can be compiled in several units at the same time
    (pool.h)."""
    heads, bodies = [], []
    # the longest ones in different units
    for i, p in enumerate(sorted((p for p in kernels if p.source), key=lambda p: -len(p.source))):
        own = f"HY_KERNEL void {p.name}("
        heads.append(_declared(p).replace(f"static void {p.name}(", own) + ";")
        bodies += [f"#if HY_HAS({i})", p.source.replace(f"static void {p.name}(", own), "#endif"]
    return "\n".join([*heads, *bodies, UNITS, net, "#endif", ""])


def share(kernels: Sequence[Printed]) -> list[Printed]:
    """Each kernel with the function that does what it does; the first that uses a function has its text."""
    first: dict[str, Printed] = {}                               # by text, the kernel that has it
    texts = [_general(p) for p in kernels]
    owner = [first.setdefault(t, p) for t, p in zip(texts, kernels)]
    alike: dict[str, list[tuple[Printed, str, list[re.Match[str]]]]] = {}
    for text, p in first.items():
        numbers = _numbers(text)
        alike.setdefault(_template(text, numbers), []).append((p, text, numbers))
    new: dict[str, Printed] = {}
    for group in alike.values():
        members, own_texts, numbers_of = (list(x) for x in zip(*group))
        joined = _joined(members, own_texts, numbers_of) if len(group) >= MANY else members
        new.update((p.name, q) for p, q in zip(members, joined))
    calls = Counter(new[o.name].name for o in owner)
    out = []
    for p, o in zip(kernels, owner):
        f = new[o.name]
        q = replace(p, name=f.name, source=f.source if o is p else "", numbers=f.numbers)
        out.append(_apart(q) if q.source and calls[q.name] >= MANY else q)
    return _of_many_sizes(out, calls)


def _of_many_sizes(kernels: list[Printed], calls: Counter[str]) -> list[Printed]:
    """Elementwise kernels of which few are the same share a function with those that differ in sizes alone."""
    alike: dict[str, list[tuple[Printed, str, list[re.Match[str]]]]] = {}
    for p in kernels:
        if p.source and p.kind == "elementwise" and not p.numbers and calls[p.name] < MANY:
            text = _general(p)
            numbers = _numbers(text, _SIZE)
            alike.setdefault(_template(text, numbers), []).append((p, text, numbers))
    new: dict[str, Printed] = {}
    for group in alike.values():
        if len(group) >= MANY:
            members, texts, numbers_of = (list(x) for x in zip(*group))
            joined = _joined(members, texts, numbers_of)
            new.update((p.name, _apart(q) if q.source and q.numbers else q) for p, q in zip(members, joined))
    return [replace(p, name=q.name, source=q.source if p.source else "", numbers=q.numbers)
            if (q := new.get(p.name)) is not None else p for p in kernels]
