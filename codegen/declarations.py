"""The variables that a stretch of printed C declares: their names and types."""
from __future__ import annotations

import re
from dataclasses import dataclass

_TYPE = (r"(?:const )?(?:(?:union|struct) \w+|(?:unsigned|signed) (?:char|short|int|long)|unsigned|long|int|short|char|"
         r"float|double|void|hy_\w+)")
_START = re.compile(rf"(?:^|(?<=[;{{}}(,]))\s*(?:static )?({_TYPE})(?= [*\w])(?! \w+\()", re.MULTILINE)
_DECLARATOR = re.compile(r"\s*(\**)\s*((?:const )?)(?:restrict )?(\w+)((?:\[[^\]]*\])*)")


@dataclass(frozen=True)
class Declared:
    """A variable. type: without the stars; stars: of pointers, arrays among them."""
    name: str
    type: str
    stars: str

    @property
    def member(self) -> str:
        """As a member of a structure, which may be assigned at its initialization alone."""
        base = self.type if self.stars else self.type.removeprefix("const ")
        return f"{base} {self.stars}{self.name}"

    @property
    def constant(self) -> str:
        """As a variable that does not change."""
        base = self.type if self.stars else f"const {self.type.removeprefix('const ')}"
        return f"{base} {self.stars}{'const ' if self.stars else ''}{self.name}"


def declared_in(text: str) -> list[Declared]:
    """All variables and parameters that are declared, the last of each name."""
    found: dict[str, Declared] = {}
    for m in _START.finditer(text):
        at = m.end()
        while True:
            d = _DECLARATOR.match(text, at)
            if d is None or d[3] in ("const", "long", "int"):
                break
            stars = d[1] + "*" * d[4].count("[")
            found.pop(d[3], None)
            found[d[3]] = Declared(d[3], m[1], stars)
            at = _after_initializer(text, d.end())
            if at >= len(text) or text[at] != ",":
                break
            at += 1
            if _START.match(text, at):                   # the next parameter of a function
                break
    return list(found.values())


def _after_initializer(text: str, at: int) -> int:
    """The place of the comma, semicolon or parenthesis that ends a declarator."""
    depth = 0
    while at < len(text):
        c = text[at]
        if depth == 0 and c in ",;)":
            return at
        depth += (c in "([{") - (c in ")]}")
        if depth < 0:
            return at
        at += 1
    return at
