"""The variables that a stretch of printed C declares: their names and types."""
from __future__ import annotations

import re
from dataclasses import dataclass

_TYPE = (r"(?:const )?(?:(?:union|struct) \w+|(?:unsigned )?long long|(?:unsigned|signed) "
         r"(?:char|short|int|long)|unsigned|long|int|short|char|"
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
    """The variables and parameters that are in scope where a text ends, the innermost of each name."""
    at_place: dict[int, list[Declared]] = {}
    for m in _START.finditer(text):
        at_place.setdefault(m.start(1), []).extend(_declarators(text, m))
    scopes: list[tuple[list[Declared], int]] = [([], 0)]
    waiting: list[Declared] = []                         # declared in parentheses: of the statement that follows
    depth = 0
    for i, c in enumerate(text):
        if i in at_place:
            (waiting if depth else scopes[-1][0]).extend(at_place[i])
        if c in "()":
            depth += 1 if c == "(" else -1
        elif c == "{":
            scopes.append((waiting, depth))
            waiting, depth = [], 0
        elif c == "}":
            depth = scopes.pop()[1]
        elif c == ";" and depth == 0:
            waiting = []
    found: dict[str, Declared] = {}
    for d in (d for scope, _ in scopes for d in scope):
        found.pop(d.name, None)
        found[d.name] = d
    return list(found.values())


def _declarators(text: str, m: re.Match[str]) -> list[Declared]:
    """The variables of one declaration."""
    out: list[Declared] = []
    at = m.end()
    while True:
        d = _DECLARATOR.match(text, at)
        if d is None or d[3] in ("const", "long", "int"):
            return out
        out.append(Declared(d[3], m[1], d[1] + "*" * d[4].count("[")))
        at = _after_initializer(text, d.end())
        if at >= len(text) or text[at] != ",":
            return out
        at += 1
        if _START.match(text, at):                       # the next parameter of a function
            return out


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
