"""Long functions that kernels call, as those that transform tiles of a convolution: where they differ in sizes alone,
kernels share one, which gets the sizes as arguments. Networks whose layers all differ in width are compiled in a third
of the time.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Sequence

from hybrid.codegen.loops import Printed
from hybrid.ir.parse import Words, closing, flat, parsed, substituted, words
from hybrid.ir.stmt import Function, Stmt

from .kernel_deduplication import NOINLINE, STATIC, Template, declaration, is_fixed, is_whole, with_arguments

MANY = 6                        # kernels that share a function
# characters of one: short ones are the inner loops, whose strides had better be constants
LONG = 3000
MOST_NUMBERS = 48               # arguments for what differs

_APART = words("static __attribute__((noinline)) void ")


@dataclass
class _Helper:
    """A function of a kernel, and its template."""
    kernel: int
    function: Function
    template: Template


def _candidates(p: Printed) -> list[Function]:
    return [s for s in p.code if isinstance(s, Function) and s.before == _APART and s.name.startswith("k")]


def _found(kernel: int, p: Printed) -> list[_Helper]:
    out = []
    for f in _candidates(p):
        text = flat([f])
        if sum(len(w) for line in text for w in line) + len(text) < LONG or _calls(p.name, f.name, text):
            continue
        lines = [substituted(line, {f.name: "@"}) if f.name in line else line for line in text]
        spots = [(i, j) for i, line in enumerate(lines) if i and not is_fixed(line) and not _calls_compiler(line)
                 for j, w in enumerate(line) if w[0] in "0123456789" and is_whole(w)]
        out.append(_Helper(kernel, f, Template(lines, spots)))
    return out


def _calls_compiler(line: Words) -> bool:
    """Whether a line calls functions of the compiler, some of whose arguments have to be constants."""
    return any(w[0] == "_" and w.startswith("__builtin_") for w in line)


def _calls(kernel: str, name: str, lines: Sequence[Words]) -> bool:
    """Whether a function calls others of its kernel, or is compiled in several ways."""
    return (any(w.startswith(f"{kernel}_") for w in set().union(*lines) - {name})
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
    alike: dict[str, list[_Helper]] = {}
    if sum(map(bool, map(_candidates, kernels))) < MANY:
        return [], list(kernels)
    for i, p in enumerate(kernels):
        for h in _found(i, p):
            alike.setdefault(h.template.key(), []).append(h)
    functions, out = [], list(kernels)
    for group in alike.values():
        name = group[0].function.name
        found = with_arguments(name, [h.template for h in group], MOST_NUMBERS)
        if len({h.kernel for h in group}) < MANY or found is None:
            continue
        (f,), numbers = found
        assert isinstance(f, Function)
        shared = replace(f, before=STATIC)
        functions.append(Printed(name, (declaration(shared, *NOINLINE), shared), [], "helper"))
        for h, given in zip(group, numbers):
            added = words("".join(f", {n}" for n in given))
            out[h.kernel] = _calling(out[h.kernel], h.function.name, name, added)
    return functions, out


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
