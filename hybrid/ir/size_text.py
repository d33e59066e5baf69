"""Sizes as plain data, which another process reads with dimensions of its own."""
from __future__ import annotations

from typing import Any, Mapping

from .asked import Asked
from .dimension import Dim, Part
from .size import Atom, Size, dims

KEY = "size"                             # of an object that stands for a size


def plain(x: Any) -> Any:
    """A size as what JSON can hold; numbers are what they are."""
    return {KEY: [[[_atom(a) for a in m], c] for m, c in x.terms]} if type(x) is Size else x


def _atom(a: Atom) -> Any:
    return a.name if isinstance(a, Dim) else [a.kind, plain(a.a), plain(a.b)]


def rich(value: Any, known: Mapping[str, Dim]) -> Any:
    """What ``plain`` made of a size; anything else as it is. known: dimensions by name. KeyError where one is not
    there."""
    if type(value) is not dict or value.keys() != {KEY}:
        return value
    return Size(tuple((tuple(_rich_atom(a, known) for a in m), c) for m, c in value[KEY]))


def _rich_atom(a: Any, known: Mapping[str, Dim]) -> Atom:
    return known[a] if type(a) is str else Part(a[0], rich(a[1], known), rich(a[2], known))


def as_key(x: Size) -> str:
    """Text that tells a size from others, whatever its value at trace: the next process traces with another one."""
    ranges = sorted((d.name, d.low, d.high) for d in dims(x))
    return f"size {x.c_text()} {ranges}"


def plain_guards(asked: Asked) -> list[Any]:
    """Guards as what JSON can hold."""
    return [[kind, plain(x), answer] for (kind, x), (answer, _) in asked.facts.items()]


def rich_guards(values: Any, known: Mapping[str, Dim]) -> list[tuple[str, Size, bool]]:
    """What ``plain_guards`` made of guards. ValueError where that is something else."""
    found = [(str(kind), rich(x, known), bool(answer)) for kind, x, answer in values]
    if not all(kind in ("==", "<") and type(x) is Size for kind, x, _ in found):
        raise ValueError("no guards of sizes")
    return found
