"""What a binding needs to know of a model: its arrays, as one language writes them."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Callable, Sequence

from ..specialized import RESERVED, Array, Specialized

KEYWORDS = RESERVED | frozenset("""abstract arguments as assert async await base bool boolean byte chan checked crate
    debugger decimal def defer delegate dyn elif end eval event except explicit export extends extern fallthrough
    false final finally fixed fn foreach from func function global go implements implicit impl import in instanceof
    interface internal is lambda lazy let local lock loop macro map match mod module move mut my native nil none not
    null object or and out override package params pass pub quote raise range readonly ref sbyte sealed select self
    stackalloc std strictfp string super synchronized throws trait transient true type typeof uint ulong unchecked
    undef unsafe use ushort using val var when where with yield""".split())
# names that the generated functions use themselves
LOCALS = frozenset("""args argc argv c code err error f float32 float64 handle i inputs len m main math model n os
    outputs path r result results room s sys threads value values x""".split())


@dataclass(frozen=True)
class Slot:
    """An input or output as a language writes it. place: of its file among the example's arguments."""
    i: int
    name: str
    ident: str
    dtype: str
    type: str
    shape: tuple[int, ...]
    place: int
    const: str

    @property
    def size(self) -> int:
        """Elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n

    def words(self) -> dict[str, object]:
        """For the texts of templates."""
        return {"i": self.i, "n": self.i + 1, "name": self.name, "ident": self.ident, "Ident": self.ident[0].upper() +
                self.ident[1:], "dtype": self.dtype, "type": self.type, "size": self.size, "place": self.place,
                "shape": ", ".join(map(str, self.shape)), "place1": self.place + 1, "kind": self.const}


Words = dict[str, tuple[str, str, str]]


@dataclass(frozen=True)
class Binding:
    """A language: its name, the files that are written, from which templates, its types of elements, and what its
    templates say of every input or output.

    files: by their paths in the binding's folder. each: by a word of the templates, ``inputs``, ``outputs`` or
    ``every`` for both, the text for each of them, and what stands between. one, several: words that depend on how many
    outputs there are. needs:
    another binding that this one is written upon.
    """
    title: str
    files: dict[str, str]
    types: dict[str, str]
    each: Words
    one: dict[str, str] = field(default_factory=dict)
    several: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    more: Callable[[str], dict[str, str]] = lambda name: {}


def identifiers(wanted: Sequence[str], used: set[str]) -> list[str]:
    """Names of variables, in any of the languages, which differ from each other."""
    out = []
    for w in wanted:
        plain = re.sub(r"\W", "_", w).strip("_") or "value"
        plain = f"x{plain}" if plain[0].isdecimal() else plain
        plain = plain[0].lower() + plain[1:]
        name, n = f"{plain}_" if plain in KEYWORDS | LOCALS else plain, 1
        while name in used:
            n += 1
            name = f"{plain}{n}"
        used.add(name)
        out.append(name)
    return out


def slots(what: Specialized, types: dict[str, str]) -> tuple[list[Slot], list[Slot]]:
    """Inputs and outputs in a language."""
    used: set[str] = set()
    given, results = what.inputs[:what.arguments], what.outputs
    titles = identifiers(what.titles, used), identifiers([a.name for a in results], used)

    def made(arrays: Sequence[Array], idents: list[str], first: int, const: str) -> list[Slot]:
        return [Slot(i, a.name, t, a.dtype.name, types[a.dtype.name], a.shape, first + i, const)
                for i, (a, t) in enumerate(zip(arrays, idents))]
    return made(given, titles[0], 2, "const "), made(results, titles[1], 2 + len(given), "")
