"""Variables of a printed function: their types, which of them are second names, and which nothing reads."""
from __future__ import annotations

from typing import Iterable, Iterator, Sequence

from ..ir.parse import Words, flat, is_name
from ..ir.stmt import Function, Stmt

_QUALIFIERS = frozenset(("const", "static", "register"))
STATEMENTS = frozenset(("return", "else", "goto", "case", "for", "if", "while", "do", "switch"))
_TYPES = frozenset(("long", "int", "short", "char", "float", "double", "void", "unsigned", "signed"))
_LONG = frozenset(("int64_t", "long"))


def code_of(line: Iterable[str]) -> list[str]:
    """The words of a line that are no spaces."""
    return [w for w in line if not w.isspace()]


def declares(line: Words) -> set[str]:
    """Names that a line may declare for the lines after it."""
    code = code_of(line)
    if not code or not is_name(code[0]) or code[0] in STATEMENTS:
        return set()
    second = next((w for w in code[1:] if w != "*"), "")
    if len(code) < 2 or not second or not is_name(second) or not (is_name(code[1]) or code[1] == "*"):
        return set()
    out, depth = set(), 0
    for before, w in zip(code, code[1:]):
        depth += (before in "([{") - (before in ")]}")
        if not depth and is_name(w) and (is_name(before) or before in ("*", ",")):
            out.add(w)
    return out


def initialized(line: Words) -> tuple[str, str, list[str]] | None:
    """Type, name and value of a line that is one declaration: ``const T name = value;``."""
    code = code_of(line)
    if len(code) < 5 or code[-1] != ";" or "=" not in code:
        return None
    at = code.index("=")
    head, value = code[:at], code[at + 1:-1]
    kind, name = _type(head[:-1]), head[-1]
    if not kind or not is_name(name) or head[0] in STATEMENTS or _top_level(value, ",;="):
        return None
    return kind, name, value


def _type(code: Sequence[str]) -> str:
    """The type that words before a name mean, without qualifiers; nothing where they are something else."""
    code = [w for w in code if w not in _QUALIFIERS]
    stars = len(code) - next((i for i in range(len(code), 0, -1) if code[i - 1] != "*"), 0)
    names = code[:len(code) - stars]
    return " ".join([*names, *"*" * stars]) if names and all(map(is_name, names)) else ""


def separated(line: Words) -> list[Words]:
    """The statements and declarations of a line, a line each."""
    code = code_of(line)
    if line[-1:] != (";",) or not is_name(code[0]) or code[0] in STATEMENTS:
        return [line]
    parts = _divided(line, ";")
    return [part for p in parts for part in _declarations((*p, ";"))]


def _divided(line: Words, by: str) -> list[Words]:
    """What stands before each mark that is in no parentheses, without the spaces after it."""
    out, depth, at = [], 0, 0
    for i, w in enumerate(line):
        depth += (w in "([{") - (w in ")]}")
        if w == by and not depth:
            out.append(line[at:i])
            at = i + 1 + (line[i + 1:i + 2] == (" ",))
    return out


def _declarations(line: Words) -> list[Words]:
    """The declarations of a statement, a line each."""
    if "=" not in line or not declares(line) or not _top_level(line, ","):
        return [line]
    begin = 1 if line[0].isspace() else 0
    end = next(i for i, w in enumerate(line) if i >= begin and not is_name(w) and not w.isspace())
    if line[end] != "*":                                   # the last of the names is the variable's
        end = next((i for i in range(end - 1, begin, -1) if is_name(line[i])), begin)
    return [(*line[:end], *part, ";") for part in _divided((*line[end:-1], ","), ",")]


def _top_level(code: Sequence[str], of: str) -> bool:
    depth = 0
    for w in code:
        depth += (w in "([{") - (w in ")]}")
        if w in of and not depth:
            return True
    return False


def changes(lines: Iterable[Words], name: str) -> bool:
    """Whether lines change a variable, declare another of its name, or take its address."""
    for line in lines:
        if name not in line:
            continue
        code = code_of(line)
        for i, w in enumerate(code):
            if w != name:
                continue
            after, before = code[i + 1:i + 4], code[max(i - 2, 0):i]
            if after[:1] == ["="] and after[1:2] != ["="] or after[1:2] == ["="] and after[0] in "+-*/%&|^":
                return True
            if after[:2] in (["+", "+"], ["-", "-"]) or before in (["+", "+"], ["-", "-"]):
                return True
            if after[:3] in (["<", "<", "="], [">", ">", "="]) or before[-1:] in (["&"], ["."]):
                return True
            if before[-1:] and (is_name(before[-1]) and before[-1] not in STATEMENTS or before == ["-", ">"]):
                return True
    return False


def changes_nothing(line: Words) -> bool:
    """Whether a line is a statement such as ``x /= 1;`` or ``x += 0;``."""
    code = code_of(line)
    return (len(code) == 5 and is_name(code[0]) and code[2] == "=" and code[4] == ";"
            and code[3].removesuffix("l") == {"*": "1", "/": "1", "+": "0", "-": "0"}.get(code[1]))


class Variables:
    """What a function declares."""

    def __init__(self, f: Function):
        lines = [f.parameters, *flat(f.body)]
        self.types: dict[str, set[str]] = {}
        self._kept: dict[int, tuple[Stmt, list[Words]]] = {}
        for line in lines:
            self._note(code_of(line))

    def _lines(self, body: Iterable[Stmt]) -> Iterator[Words]:
        """The words of each line of some statements; a statement's are made once, although many variables ask."""
        for s in body:
            if id(s) not in self._kept:
                self._kept[id(s)] = s, flat([s])                   # held, so that its id() is not reused
            yield from self._kept[id(s)][1]

    def _note(self, code: list[str]) -> None:
        """Notes what is declared: names after the names of a type."""
        for i, w in enumerate(code):
            if not i or not is_name(w) or w in _TYPES or code[i + 1:i + 2] == ["("]:
                continue
            begin = i
            while begin and code[begin - 1] in ("*", "const") and "*" in code[:begin]:
                begin -= 1
            stars = begin
            while begin and is_name(code[begin - 1]):
                begin -= 1
            kind = _type(code[begin:i]) if begin < stars and code[begin] not in STATEMENTS else ""
            if kind not in ("", "struct", "union") and (stars == i or begin == 0 or code[begin - 1] in "(,;{"):
                self.types.setdefault(w, set()).add(kind)

    def is_long(self, name: str) -> bool:
        """Whether a name is an integer of 64 bits wherever it is declared."""
        return bool(self.types.get(name)) and self.types[name] <= _LONG

    def alias(self, line: Words, rest: Sequence[Stmt]) -> tuple[str, str] | None:
        """A name that a line gives to what has a name already or is a whole number, and that one, where neither changes
        in the statements that follow."""
        found = initialized(line)
        if found is None or len(found[2]) != 1:
            return None
        kind, name, (other,) = found
        if other.isdecimal() and self.is_long(name) and not changes(self._lines(rest), name):
            return name, other
        if self.types.get(other) != {kind} or self.types.get(name) != {kind}:
            return None
        return None if any(changes(self._lines(rest), n) for n in (name, other)) else (name, other)

    def is_read(self, line: Words, rest: Sequence[Stmt]) -> bool:
        """False for a declaration that no statement after it names, and whose value is arithmetic alone."""
        found = initialized(line)
        if found is None or any(found[1] in words for words in self._lines(rest)):
            return True
        value = found[2]
        return any(is_name(w) and value[i + 1:i + 2] == ["("] or value[i:i + 2] in (["+", "+"], ["-", "-"])
                   for i, w in enumerate(value))
