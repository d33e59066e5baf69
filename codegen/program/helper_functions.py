"""Functions that kernels call, as those that compute a tile: kernels share one where theirs are the same. Long ones, as
those that transform tiles of a convolution, are also shared where they differ in sizes alone, which are arguments then.
Networks whose layers all differ in width are compiled in a third of the time.
"""
from __future__ import annotations

from dataclasses import replace
from itertools import chain
from operator import methodcaller
from typing import Callable, Iterator, Sequence

from hybrid.base.records import dataclass
from hybrid.codegen.loops import Printed
from hybrid.ir.parse import Words, closing, flat, parsed, substituted, words
from hybrid.ir.stmt import Function, Stmt

from .kernel_deduplication import NOINLINE, STATIC, Template, declaration, is_fixed, is_whole, with_arguments

MANY = 6                        # kernels that share a function whose sizes are arguments
# characters of such a function: short ones are the inner loops, whose strides had better be constants
LONG = 3000
MOST_NUMBERS = 48               # arguments for what differs

_APART = words("static __attribute__((noinline)) void ")


@dataclass
class _Helper:
    """A function of a kernel, and its lines without its name."""
    kernel: int
    function: Function
    lines: list[Words]

    def is_long(self) -> bool:
        """Whether its sizes may be arguments."""
        return sum(map(len, chain.from_iterable(self.lines))) + len(self.lines) >= LONG

    def template(self) -> Template:
        """The lines, and the numbers in them that may differ."""
        return Template(self.lines, [
            (i, j) for i, line in enumerate(self.lines) if i and not is_fixed(line) and not _calls_compiler(line)
            for j, w in enumerate(line) if w[0] in "0123456789" and is_whole(w)])


def _candidates(p: Printed) -> list[Function]:
    return [s for s in p.code if isinstance(s, Function) and s.before == _APART and s.name.startswith("k")]


def _found(kernel: int, p: Printed) -> list[_Helper]:
    out = []
    for f in _candidates(p):
        text = flat([f])
        if not _calls(p.name, f.name, text):
            out.append(_Helper(kernel, f, [substituted(line, {f.name: "@"}) if f.name in line else line
                                           for line in text]))
    return out


def _calls_compiler(line: Words) -> bool:
    """Whether a line calls functions of the compiler, some of whose arguments have to be constants."""
    return any(w[0] == "_" and w.startswith("__builtin_") for w in line)


def _calls(kernel: str, name: str, lines: Sequence[Words]) -> bool:
    """Whether a function calls others of its kernel, or is compiled in several ways."""
    return (any(map(methodcaller("startswith", f"{kernel}_"), set().union(*lines) - {name}))
            or any("#" in line and "pragma" not in line for line in lines))


def _called(line: Words, name: str, other: str, added: Words) -> Words:
    """A line in which calls of a function are calls of another one with more arguments."""
    out, at = list(line), 0
    while name in out[at:]:
        at = out.index(name, at)
        end = closing(out, at + 1)
        out[at], out[end:end] = other, added
        at += 1
    return tuple(out)


def share_helpers(kernels: Sequence[Printed]) -> tuple[list[Printed], list[Printed]]:
    """The functions that several kernels share, and the kernels that call them."""
    if sum(map(bool, map(_candidates, kernels))) < 2:
        return [], list(kernels)
    functions, out = [], list(kernels)
    for group, function, numbers in _shared([h for i, p in enumerate(kernels) for h in _found(i, p)]):
        shared = replace(function, before=STATIC)
        functions.append(Printed(shared.name, (declaration(shared, *NOINLINE), shared), [], "helper"))
        for h, given in zip(group, numbers):
            added = words("".join(f", {n}" for n in given))
            out[h.kernel] = _calling(out[h.kernel], h.function.name, shared.name, added)
    return functions, out


def _shared(helpers: Sequence[_Helper]) -> Iterator[tuple[list[_Helper], Function, list[tuple[str, ...]]]]:
    """Groups of functions that become one: the functions, that one, and what each call gives it for its sizes."""
    templates = {id(h): h.template() for h in helpers if h.is_long()}
    rest = [h for h in helpers if id(h) not in templates]
    for group in _alike([h for h in helpers if id(h) in templates], lambda h: templates[id(h)].key()):
        found = with_arguments(group[0].function.name, [templates[id(h)] for h in group], MOST_NUMBERS)
        if len({h.kernel for h in group}) < MANY or found is None:
            rest += group
        else:
            (f,), numbers = found
            assert isinstance(f, Function)
            yield group, f, numbers
    for group in _alike(rest, lambda h: "\n".join(map("".join, h.lines))):
        if len(group) > 1:
            yield group, group[0].function, [()] * len(group)


def _alike(helpers: Sequence[_Helper], key: Callable[[_Helper], str]) -> list[list[_Helper]]:
    """Groups of helpers with the same key."""
    groups: dict[str, list[_Helper]] = {}
    for h in helpers:
        groups.setdefault(key(h), []).append(h)
    return [*groups.values()]


def _calling(p: Printed, name: str, other: str, added: Words) -> Printed:
    """A kernel without one of its functions, which calls another one instead."""
    rest: list[Stmt] = []
    for s in p.code:
        own = flat([s])
        if not any(name in line for line in own):
            rest.append(s)
        elif not (isinstance(s, Function) and s.name == name):
            rest += parsed(_called(line, name, other, added) for line in own)
    return replace(p, code=tuple(rest))
