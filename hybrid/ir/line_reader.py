"""Lines of C as values (hybrid/ir/expressions.py): what stands in a line, by the grammar of C.

>>> from hybrid.ir.expressions import simplified, text_of
>>> from hybrid.ir.parse import words
>>> parts = read(words("if (n > 0) a[i + 0] = ((1 * b)) / (c);"))
>>> text_of(parts)
'if (n > 0) a[i + 0] = 1 * b / c;'
>>> text_of([simplified(p, lambda name: False) for p in parts])
'if (n > 0) a[i] = b / c;'
"""
from __future__ import annotations

from functools import lru_cache
from typing import Callable, Iterator, Sequence

from .expressions import (ASSIGNMENTS, HEADS, LABELS, PRECEDENCE, Declaration, Expression, Head, Part, Tree, text_of,
                          trees)
from .parse import Words, closing, is_name, words

_TYPES = frozenset("long int short char float double void unsigned signed".split())
STATEMENTS = HEADS | LABELS | frozenset(("return", "else", "goto", "do", "break", "continue"))
_LONGER = frozenset("|| && == != <= >= << >> ++ -- -> += -= *= /= %= &= |= ^= <<= >>=".split())


class Unreadable(Exception):
    """Raised for a line that the reader cannot parse."""


def _tokens(line: Words) -> list[str]:
    """The words of a line that are no spaces, operators whole, a comment together with the operand before it."""
    out: list[str] = []
    joins = False                                            # whether the next word may go on with an operator
    for w in line:
        if w.isspace():
            joins = False
            continue
        if joins and out[-1] + w in _LONGER:
            out[-1] += w
        elif w.startswith("/*") and out and out[-1][-1].isalnum():
            out[-1] += f" {w}"
        else:
            out.append(w)
        joins = not (w[0].isalnum() or w[0] == "_")
    return out


class _Reader:
    """Reads the parts of a line from its words."""

    def __init__(self, line: Words):
        self.code = _tokens(line)
        self.at = 0

    def next(self, by: int = 0) -> str:
        """Returns the next word, or the one so many after it, without reading it; "" behind the last one."""
        return self.code[self.at + by] if self.at + by < len(self.code) else ""

    def take(self, *given: str) -> str:
        """Reads the next word if it is one of these; else returns ""."""
        w = self.next()
        self.at += w in given and w != ""
        return w if w in given else ""

    def need(self, w: str) -> None:
        """Reads the next word, which has to be this one."""
        if not self.take(w):
            raise Unreadable(w)

    def parts(self) -> Iterator[Part]:
        """What the line is made of, in order."""
        while self.at < len(self.code):
            comment = self.next() if self.next().startswith(("/*", "//")) else ""
            w = self.take("{", "}", "else", *HEADS, *LABELS, "return", "break", "continue", comment)
            if w in HEADS:
                self.need("(")
                yield Head(w, tuple(self._loop()) if w == "for" else ((self.value(),),))
                self.need(")")
            elif w in LABELS:
                yield Head(w, ((self.value(),),) if w == "case" else ())
                self.need(":")
            elif comment or w in ("{", "}", "else"):
                yield Head(w)
            elif w:
                yield Head(w, ((self.value(),),) if self.next() != ";" else ())
                self.need(";")
            else:
                yield from self._statement()
                self.need(";")

    def _loop(self) -> Iterator[tuple[Expression | Declaration, ...]]:
        for end in (";", ";", ")"):
            found = tuple(self._statement()) if self.next() != end else ()
            while self.take(","):
                found += (self.value(),)
            if end == ";":
                self.need(end)
            yield found

    def value(self) -> Expression:
        """An expression without commas."""
        x = self._binary(1)
        if self.take("?"):
            yes = self.value()
            self.need(":")
            return Tree("?:", (x, yes, self.value()))
        op = self.take(*ASSIGNMENTS)
        return Tree(op, (x, self.value())) if op else x

    def _binary(self, least: int) -> Expression:
        x = self._unary()
        while PRECEDENCE.get(op := self.next(), 0) >= least:
            self.at += 1
            x = Tree(op, (x, self._binary(PRECEDENCE[op] + 1)))
        return x

    def _unary(self) -> Expression:
        op = self.take("-", "+", "!", "~", "*", "&", "++", "--")
        if op:
            return Tree(f"{op}_", (self._unary(),))
        if self.take("("):
            kind = self._type()
            if kind:
                return Tree("cast", (kind, self._braces() if self.next() == "{" else self._unary()))
            x = self.value()
            self.need(")")
            return self._postfix(x)
        w = self.next()
        if w[:1] == '"' or not w or not (w[0].isalnum() or w[0] in "_.'") or w in STATEMENTS:
            raise Unreadable(w)
        self.at += 1
        if w == "sizeof" and self.next() != "(":
            raise Unreadable(w)
        return self._postfix(w)

    def _type(self) -> str:
        """Reads the type in parentheses that are open; returns "" where they hold something else."""
        end = self.at
        while end < len(self.code) and (is_name(self.code[end]) or self.code[end] == "*"):
            end += 1
        inside, following = self.code[self.at:end], self.code[end + 1:end + 2]
        if not inside or self.code[end:end + 1] != [")"] or not is_name(inside[0]):
            return ""
        operand = following and (following[0] in ("(", "{") or following[0][0].isalnum() or following[0][0] in "_.")
        sign = following and following[0] in ("-", "*", "&", "~", "!")
        alone = len(inside) == 1 and (operand or sign and _is_type(inside[0]))
        if not (alone or inside[-1] == "*" or len(inside) > 1 and inside[1] != "*"):
            return ""
        self.at = end + 1
        stars = inside.index("*") if "*" in inside else len(inside)
        return f"{' '.join(inside[:stars])} {''.join(inside[stars:])}".rstrip()

    def _braces(self) -> Expression:
        self.need("{")
        return Tree("braces", self._list("}", self._initial))

    def _initial(self) -> Expression:
        if self.take("."):
            name = self.next()
            self.at += 1
            self.need("=")
            return Tree(".=", (name, self._initial()))
        return self._braces() if self.next() == "{" else self.value()

    def _list(self, end: str, one: Callable[[], Expression]) -> tuple[Expression, ...]:
        out: list[Expression] = []
        while not self.take(end):
            if out:
                self.need(",")
            out.append(one())
        return tuple(out)

    def _postfix(self, x: Expression) -> Expression:
        while op := self.take("(", "[", ".", "->", "++", "--"):
            if op == "(":
                x = Tree("call", (x, *self._list(")", self.value)))
            elif op == "[":
                x = Tree("[]", (x, self.value()))
                self.need("]")
            elif op in (".", "->"):
                x = Tree(op, (x, self.next()))
                self.at += 1
            else:
                x = Tree(f"_{op}", (x,))
        return x

    def _statement(self) -> "Iterator[Expression | Declaration]":
        """An expression, or the declarations of a statement."""
        first, second, third = (self.next(i) or " " for i in range(3))
        if is_name(first) and first not in STATEMENTS and (
                is_name(second) or second == "*" and _is_type(first) and (is_name(third) or third == "*")):
            yield from self._declarations()
        else:
            yield self.value()

    def _declarations(self) -> Iterator[Declaration]:
        end = self.at
        while end < len(self.code) and is_name(self.code[end]) and self.code[end] != "__attribute__":
            end += 1
        kind = self.code[self.at:end if self.code[end:end + 1] == ["*"] else end - 1]
        self.at += len(kind)
        while True:
            yield self._declaration(" ".join(kind))
            if not self.take(","):
                return

    def _declaration(self, kind: str) -> Declaration:
        stars = ""
        while w := self.take("*", "const", "restrict"):
            stars += w if w == "*" else f"{w} "
        name, lengths, after = self.next(), [], ""
        if not is_name(name or " "):
            raise Unreadable(name)
        self.at += 1
        while self.take("["):
            lengths.append(self.value() if self.next() != "]" else "")
            self.need("]")
        if self.next() == "__attribute__":
            end = closing(self.code, self.at + 1) + 1
            after = f" {''.join(self.code[self.at:end])}"
            self.at = end
        value = self._initial() if self.take("=") else None
        return Declaration(kind, stars, name, tuple(lengths), after, value)


def _is_type(w: str) -> bool:
    return w in _TYPES or w.endswith("_t") or w.startswith("hy_") or "float" in w or "double" in w


@lru_cache(maxsize=8192)
def read(line: Words) -> tuple[Part, ...] | None:
    """The parts of a line; None where it is something else."""
    try:
        return tuple(_Reader(line).parts())
    except Unreadable:
        return None


def changed_line(line: Words, change: Callable[[Part], Part]) -> Words:
    """A line with other parts, as far as it is known."""
    parts = read(line)
    return line if not parts else (*line[:line[0].isspace()], *words(text_of(map(change, parts))))


@lru_cache(maxsize=8192)
def declared(line: Words) -> tuple[Declaration, ...]:
    """What a line declares, in the heads of its loops too, as far as it is known."""
    return tuple(t for p in read(line) or () for t in trees(p) if isinstance(t, Declaration))


def parameters(line: Words) -> list[Declaration]:
    """The parameters of a function."""
    return [d for p in arguments(line) for d in declared((*p, ";"))]


def arguments(line: Sequence[str]) -> list[Words]:
    """What stands between the commas of a list."""
    out: list[list[str]] = [[]]
    depth = 0
    for w in line:
        depth += (w in "([{") - (w in ")]}")
        if w == "," and not depth:
            out.append([])
        elif out[-1] or not w.isspace():
            out[-1].append(w)
    return [tuple(a) for a in out if a]
