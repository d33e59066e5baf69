"""Kernels of one program that do the same: one function, called with other pointers and numbers, so that it is compiled
once.

Unrolled loops and repeated layers make hundreds of kernels that differ in their name, or in the offset of a slice, or
in a constant. A number that differs becomes an argument of the function where at least ``MANY`` kernels share it: fewer
keep theirs, which the compiler can then calculate with. Elementwise kernels that are like no other one share a function
with those that differ in sizes: layers of many widths, updates of many parameters.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Container, Iterable, Sequence

from hybrid.base.records import dataclass
from hybrid.codegen.loops import Printed
from hybrid.ir.parse import Words, flat, parsed, substituted, words
from hybrid.ir.stmt import Code, Function, Stmt

MANY = 4
# characters of C from which a program is compiled in several units (about 0.25 s of compile time)
LARGE = 26_600
MOST_NUMBERS = 64               # arguments for what differs

UNITS = "#if HY_UNIT == HY_UNITS - 1"          # a line of every text that can be compiled in units
STATIC, KERNEL = words("static void "), words("HY_KERNEL void ")
NOINLINE = words(" __attribute__((noinline))")
_TYPES = {"f": "float", "d": "double", "l": "long"}
_FIXED = {"static", "__builtin_prefetch", "_Pragma", "#"}      # words of lines whose numbers may have to be constants


@dataclass
class Template:
    """The lines of a function without its own name, and where its numbers stand that may differ: (line, word)."""
    lines: list[Words]
    spots: list[tuple[int, int]]

    @property
    def numbers(self) -> list[str]:
        """The numbers."""
        return [self.lines[i][j] for i, j in self.spots]

    def key(self) -> str:
        """The same for all functions that differ in these numbers alone."""
        return _text(self.filled([f"\\0{_kind(n)}" for n in self.numbers]))

    def filled(self, new: Sequence[str]) -> list[Words]:
        """The lines with other words in the numbers' places."""
        rows = [list(line) for line in self.lines]
        for (i, j), value in zip(self.spots, new):
            rows[i][j] = value
        return [tuple(line) for line in rows]


def _text(lines: Iterable[Words]) -> str:
    return "\n".join("".join(line) for line in lines)


def _kind(number: str) -> str:
    return ("f" if number.endswith("f") else "d") if number.startswith("0x") else "l"


def is_whole(w: str) -> bool:
    """Whether a word is a whole number in base 10."""
    return w.isdecimal() or w[-1] == "l" and w[:-1].isdecimal()


def is_fixed(line: Words, pointers: Container[str] = ()) -> bool:
    """Whether numbers of a line have to be constants: some words' arguments, sizes of arrays, and places in those that
    may be in registers. pointers: names of arrays in memory."""
    if "[" in line:
        at = -1
        for _ in range(line.count("[")):
            at = line.index("[", at + 1)
            if line[at + 2:at + 3] == ("]",) and line[at + 1].isdecimal() and line[at - 1] not in pointers:
                return True
    return not _FIXED.isdisjoint(line)


def _is_offset(line: Words, i: int) -> bool:
    """Whether a whole number follows a plus sign within an address, or is a place in memory."""
    if not line[i].isdecimal() or i + 1 == len(line):
        return False
    return (line[i - 2:i] == ("+", " ") and line[i + 1] in ")]" or line[i - 3:i] == ("+", " ", "(")
            and line[i + 1] == ")" or line[i - 1] == "[" and line[i + 1] == "]")


def _is_divisor(line: Words, i: int) -> bool:
    """Whether a number divides, which takes longer by one that the compiler does not know."""
    return i > 0 and (line[i - 1] in "/%" or i > 1 and line[i - 1] == " " and line[i - 2] in "/%")


def _may_differ(line: Words, i: int, sizes: bool) -> bool:
    """Whether a word is a number that need not be a constant: an offset, or a constant of float and double, which are
    printed in base 16; sizes: or any whole number that is no divisor."""
    w = line[i]
    return (w.startswith("0x") and "." in w or _is_offset(line, i)
            or sizes and is_whole(w) and not _is_divisor(line, i))


def _own(p: Printed) -> Function | None:
    """The kernel's own function, the last one of its text."""
    last = next((s for s in reversed(p.code) if not isinstance(s, Code) or s.words[:1] == ("static",)), None)
    return last if isinstance(last, Function) and last.name == p.name and last.before == STATIC else None


def _template(p: Printed, sizes: bool = False) -> Template:
    """The kernel without its name, and the numbers in its own function that may differ."""
    names = {w: f"@{w[len(p.name):]}" for w in set().union(*p.lines) if w == p.name or w.startswith(f"{p.name}_")}
    lines = [line if names.keys().isdisjoint(line) else substituted(line, names) for line in p.lines]
    own = _own(p)
    begin = len(flat(p.code[:p.code.index(own)])) + 1 if own is not None else len(lines)
    pointers = own.parameters if own is not None else ()
    spots = [(i, j) for i, line in enumerate(lines) if i >= begin and not is_fixed(line, pointers)
             for j, w in enumerate(line) if w[0] in "0123456789" and _may_differ(line, j, sizes)]
    return Template(lines, spots)


def arguments(columns: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Names for numbers of which functions have different ones. columns: each number's values in all functions."""
    differing = dict.fromkeys(c for c in columns if len(set(c)) > 1)
    return {column: f"num{i}_" for i, column in enumerate(differing)}


def with_arguments(name: str, templates: Sequence[Template], most: int
                   ) -> tuple[tuple[Stmt, ...], list[tuple[str, ...]]] | None:
    """One text for several that differ in numbers alone: the first one's code, in which the function ``name`` takes the
    numbers that differ as arguments; and these arguments for each template. None where they are more than ``most``."""
    columns = list(zip(*(t.numbers for t in templates)))
    names = arguments(columns)
    if len(names) > most:
        return None
    lines = templates[0].filled([names.get(c, c[0]) for c in columns])
    code = parsed(tuple(name + w[1:] if w[:1] == "@" else w for w in line) for line in lines)
    added = words("".join(f", const {_TYPES[_kind(column[0])]} {n}" for column, n in names.items()))
    return (tuple(replace(s, parameters=s.parameters + added) if isinstance(s, Function) and s.name == name else s
                  for s in code), [tuple(c[i] for c in names) for i in range(len(templates))])


def _joined(kernels: list[Printed], templates: list[Template]) -> list[Printed]:
    """Kernels of one template as one function."""
    found = with_arguments(kernels[0].name, templates, MOST_NUMBERS)
    if found is None:
        return kernels
    return [replace(p, name=kernels[0].name, code=() if i else found[0], numbers=numbers)
            for i, (p, numbers) in enumerate(zip(kernels, found[1]))]


def declaration(f: Function, *more: str) -> Code:
    """The declaration of a function. more: words behind it."""
    return Code((*f.before, f.name, "(", *f.parameters, ")", *more, ";"))


def _apart(p: Printed) -> Printed:
    """A function that is not written into its callers: where there are many, that would take the compiler long."""
    def apart(s: Stmt) -> list[Stmt]:
        return [declaration(s, *NOINLINE), s] if isinstance(s, Function) and s.name == p.name else [s]
    return replace(p, code=tuple(t for s in p.code for t in apart(s)))


def letters(lines: Iterable[Words]) -> int:
    """The characters of some lines, without the spaces between words."""
    every = [*chain.from_iterable(lines)]
    return sum(map(len, every)) - sum(map(len, filter(str.isspace, every)))


def units(kernels: Sequence[Printed], net: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The kernels and the function that runs them, so that they can be compiled in several units at the same time
    (pool.h)."""
    heads, bodies = [], []
    # the longest ones in different units
    for i, p in enumerate(sorted((p for p in kernels if p.code), key=lambda p: -len(p.source))):
        shared = with_head(p, KERNEL)
        heads += [declaration(s) for s in shared if isinstance(s, Function) and s.name == p.name]
        bodies += [Code(words(f"#if HY_HAS({i})")), *shared, Code(("#endif",))]
    return (*heads, *bodies, Code((UNITS,)), *net, Code(("#endif",)), Code(()))


def with_head(p: Printed, before: Words) -> list[Stmt]:
    """A kernel with other words before its function's name."""
    def headed(s: Stmt) -> Stmt:
        if isinstance(s, Function) and s.name == p.name:
            return replace(s, before=before)
        if isinstance(s, Code) and s.words[:len(STATIC) + 1] == (*STATIC, p.name):
            return Code((*before, *s.words[len(STATIC):]))
        return s
    return [headed(s) for s in p.code]


def share(kernels: Sequence[Printed]) -> list[Printed]:
    """Each kernel with the function that does what it does; the first that uses a function has its text."""
    first: dict[str, tuple[Printed, Template]] = {}              # by text, the kernel that has it
    known: dict[int, Printed] = {}                               # by what was printed for several
    owner = []
    for p in kernels:
        if id(p.code) not in known:
            t = _template(p)
            known[id(p.code)] = first.setdefault(_text(t.lines), (p, t))[0]
        owner.append(known[id(p.code)])
    new = _grouped(first.values())
    calls = Counter(new[o.name].name for o in owner)
    out = []
    for p, o in zip(kernels, owner):
        f = new[o.name]
        q = p if f is p else replace(p, name=f.name, code=f.code if o is p else (), numbers=f.numbers)
        out.append(_apart(q) if q.code and calls[q.name] >= MANY else q)
    return _of_many_sizes(out, calls)


def _grouped(given: Iterable[tuple[Printed, Template]]) -> dict[str, Printed]:
    """Kernels by name; those of which many have one template are one function."""
    alike: dict[str, list[tuple[Printed, Template]]] = {}
    for p, t in given:
        alike.setdefault(t.key(), []).append((p, t))
    new: dict[str, Printed] = {}
    for group in alike.values():
        kernels = [p for p, _ in group]
        joined = _joined(kernels, [t for _, t in group]) if len(group) >= MANY else kernels
        new.update((p.name, q) for p, q in zip(kernels, joined))
    return new


def _of_many_sizes(kernels: list[Printed], calls: Counter[str]) -> list[Printed]:
    """Elementwise kernels of which few are the same share a function with those that differ in sizes alone."""
    new = _grouped((p, _template(p, True)) for p in kernels
                   if p.code and p.kind == "elementwise" and not p.numbers and calls[p.name] < MANY)
    new = {name: _apart(q) if q.code and q.numbers else q for name, q in new.items()}
    return [replace(p, name=q.name, code=q.code if p.code else (), numbers=q.numbers)
            if (q := new.get(p.name, p)) is not p else p for p in kernels]
