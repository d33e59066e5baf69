"""What is done to the functions of a module before it is compiled: equal kernels become one function, and long ones are
split into several texts."""
from __future__ import annotations

from dataclasses import replace
from typing import Iterable, Sequence

from hybrid.codegen.cuda import Launch

from ...ir.parse import Words, flat, substituted
from ...ir.stmt import Function, Stmt


def is_kernel(s: Stmt) -> bool:
    """Whether a function is launched from outside."""
    return isinstance(s, Function) and s.before[:1] == ("extern",)


def share_functions(code: Iterable[Stmt], names: Sequence[str]) -> tuple[list[Stmt], list[str]]:
    """The module with one of several kernels that differ in their names alone, and for each name the one that stands
    for it: what a layer's kernels compute is written with pointers and sizes, so the same layer again is the same.

    >>> from hybrid.ir.parse import parse
    >>> k = 'extern "C" __global__ void %s(float *x) {\\n  x[0] = 1;\\n}\\n'
    >>> share_functions(parse(k % "k0" + k % "k1"), ["k0", "k1"])[1]
    ['k0', 'k0']
    """
    first: dict[tuple[Words, ...], str] = {}
    stands: dict[str, str] = {}
    out: list[Stmt] = []
    for s in code:
        if isinstance(s, Function) and is_kernel(s):
            same = first.setdefault(tuple(substituted(line, {s.name: "kernel"}) for line in flat([s])), s.name)
            stands[s.name] = same
            if same != s.name:
                continue
        out.append(s)
    return out, [stands.get(name, name) for name in names]


def share_kernels(code: Iterable[Stmt], launches: Iterable[Launch]) -> tuple[list[Stmt], list[Launch]]:
    """The code with equal kernels once (``share_functions``), and its launches with the names that are left."""
    given = list(launches)
    out, names = share_functions(code, [launch.name for launch in given])
    return out, [replace(launch, name=name) for launch, name in zip(given, names)]


def _length(s: Function, functions: dict[str, Function]) -> int:
    """The length of a kernel's text with those of all functions that it calls."""
    called: dict[str, Function] = {s.name: s}
    new = [s]
    while new:
        named = {w for line in flat(new) for w in line}
        new = [f for name, f in functions.items() if name in named and name not in called]
        called.update((f.name, f) for f in new)
    return sum(len(str(f)) for f in called.values())


def split(code: Sequence[Stmt], parts: int) -> list[list[Stmt]]:
    """Cuts code into modules that can be compiled at the same time. Each has all that stands around kernels. The
    modules' kernels, with the functions that they call, are about equally long together.

    >>> from hybrid.ir.parse import parse
    >>> k = 'extern "C" __global__ void %s(float *x) {\\n  %s;\\n}\\n'
    >>> f = "static void f(float *x) {\\n  x[0] = x[1] + x[2];\\n}\\n"
    >>> code = parse(f + k % ("k0", "f(x)") + k % ("k1", "x[0] = 2") + k % ("k2", "x[0] = 3"))
    >>> [[s.name for s in part if is_kernel(s)] for part in split(code, 2)]
    [['k0'], ['k1', 'k2']]
    """
    functions = {s.name: s for s in code if isinstance(s, Function) and not is_kernel(s)}
    kernels = sorted(((_length(s, functions), s) for s in code if isinstance(s, Function) and is_kernel(s)),
                     key=lambda k: k[0], reverse=True)
    sizes = [0] * max(1, min(parts, len(kernels)))
    own: list[list[Stmt]] = [[] for _ in sizes]
    for size, s in kernels:
        at = sizes.index(min(sizes))
        sizes[at] += size
        own[at].append(s)
    rest = [s for s in code if not is_kernel(s)]
    return [[*rest, *part] for part in own] if len(own) > 1 else [list(code)]
