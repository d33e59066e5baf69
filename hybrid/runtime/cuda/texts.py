"""What is done to the text of a module before it is compiled: equal kernels become one function, and long ones are
split into several texts."""
from __future__ import annotations

import re
from collections.abc import Sequence

_KERNEL = re.compile(r'^extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(.*?^}\n?', re.M | re.S)


def share_functions(source: str, names: Sequence[str]) -> tuple[str, list[str]]:
    """The text with one of several kernels that differ in their names alone, and for each name the one that stands for
    it: what a layer's kernels compute is written with pointers and sizes, so the same layer again gives the same text.

    >>> k = 'extern "C" __global__ void %s(float *x) {\\n  x[0] = 1;\\n}\\n'
    >>> share_functions(k % "k0" + k % "k1", ["k0", "k1"])[1]
    ['k0', 'k0']
    """
    first: dict[str, str] = {}
    stands: dict[str, str] = {}

    def keep(found: re.Match[str]) -> str:
        name = found[1]
        text = re.sub(rf"\b{name}\b", "kernel", found[0])
        stands[name] = first.setdefault(text, name)
        return found[0] if stands[name] == name else ""
    shared = _KERNEL.sub(keep, source)
    return shared, [stands.get(name, name) for name in names]


def split(source: str, parts: int) -> list[str]:
    """Texts of about equally long kernels, each with all that stands around them: they can be compiled side by side."""
    kernels = [found[0] for found in _KERNEL.finditer(source)]
    rest, own = _KERNEL.split(source)[::2], [""] * max(1, min(parts, len(kernels)))
    for text in sorted(kernels, key=len, reverse=True):
        at = min(range(len(own)), key=lambda i: len(own[i]))
        own[at] += text
    return ["".join(rest) + text for text in own] if len(own) > 1 else [source]
