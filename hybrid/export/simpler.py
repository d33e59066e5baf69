"""Kernels without what their making leaves behind: loops of one iteration, second names of a value, variables and
parameters that nothing reads, braces around braces, products with one. The values that are computed, and their order,
stay.
"""
from __future__ import annotations

import re
from dataclasses import replace
from typing import Iterable, Mapping, Sequence

from ..ir.expressions import HEADS, LABELS, Expression, Head, Part, Tree, rebuilt, simplified, text_of, trees
from ..ir.line_reader import arguments, changed_line, declared, parameters, read
from ..ir.parse import Words, flat, is_name, nested, substituted, words
from ..ir.stmt import Block, Code, For, Function, Scope, Stmt, spelled
from .variables import Variables, changes, changes_nothing

ROUNDS = 6
_NUMBERED = re.compile(r"([tv]\d{4,})((?:_\d+)*)")
_LEAVES = frozenset(("break", "continue", "goto", "return"))


def simpler(code: Iterable[Stmt]) -> tuple[Stmt, ...]:
    """The statements of a program in which each function is simplified."""
    return tuple(_function(s) if isinstance(s, Function) and s.before[:1] != ("HY_FN",) else s for s in code)


def _function(f: Function) -> Function:
    for _ in range(ROUNDS):
        found = Variables(f)
        body = nested(changed_line(line, lambda p: simplified(p, found.is_long))
                      for line in flat(_body(f.body, found, _names(f.parameters))))
        if body == f.body:
            break
        f = replace(f, body=body)
    numbers = _numbered(f)
    return replace(f, body=nested(substituted(line, numbers) for line in flat(f.body)))


def _numbered(f: Function) -> dict[str, str]:
    """Small numbers for the values of a function that are named by numbers: v3001 is v1."""
    used = {w for line in (f.parameters, *flat(f.body)) for w in line}
    stems: dict[str, str] = {}
    out: dict[str, str] = {}
    for line in flat(f.body):
        for found in filter(None, map(_NUMBERED.fullmatch, line)):
            stem, copy = found.groups()
            out[found.group()] = stems.setdefault(stem, f"{stem[0]}{len(stems) + 1}") + copy
    return out if used.isdisjoint(out.values()) else {}


def _names(line: Words) -> set[str]:
    return {d.name for d in parameters(line)}


def _body(body: Sequence[Stmt], found: Variables, outer: set[str]) -> tuple[Stmt, ...]:
    """The statements of a function, a loop or braces. outer: names that they may not declare again."""
    out: list[Stmt] = []
    rest = list(body)
    while rest:
        s = rest.pop(0)
        hinted = bool(out) and _is_hint(out[-1])
        s = s if hinted else _at_its_depth(s)
        if isinstance(s, Code):
            first, *more = [s] if hinted else _separated(s)
            rest[:0] = more
            parts = () if hinted else read(first.words) or ()
            if len(parts) != 1 or isinstance(parts[0], Head):
                out.append(first)
                continue
            name = found.alias(parts[0], rest)
            if name is not None:
                rest = list(nested(substituted(line, {name[0]: name[1]}) for line in flat(rest)))
            elif found.is_read(parts[0], rest) and not changes_nothing(parts[0]):
                out.append(first)
        elif isinstance(s, For) and not hinted and _is_once(s):
            out += _spread(_body(_once(s), found, outer), [*out, *rest], outer, not rest)
        elif isinstance(s, Scope) and not hinted:
            out += _spread(_body(s.body, found, outer), [*out, *rest], outer, not rest)
        else:
            own = {s.var} if isinstance(s, For) else set()
            out.append(replace(s, body=_body(s.body, found, own)) if isinstance(s, (For, Scope, Block)) else s)
    return tuple(out)


def _separated(s: Code) -> list[Code]:
    """The statements of a line, a line each; those with braces stay together."""
    groups: list[list[Part]] = []
    begins = True
    for p in read(s.words) or ():
        if isinstance(p, Head) and p.word in ("{", "}"):
            return [s]
        if begins and not (isinstance(p, Head) and p.word.startswith("/")):
            groups.append([])
        if not groups:
            return [s]
        groups[-1].append(p)
        begins = not isinstance(p, Head) or p.word not in (*HEADS, *LABELS, "else")
    return [Code(words(text_of(g))) for g in groups] if len(groups) > 1 else [s]


def _at_its_depth(s: Stmt) -> Stmt:
    """A statement without more indentation than its depth gives."""
    if isinstance(s, Code) and s.words[:1] and s.words[0].isspace() and s.words[1:2] != ("#",):
        return Code(s.words[1:])
    if isinstance(s, Block) and s.head[:1] and s.head[0].isspace():
        return replace(s, head=s.head[1:], end=s.end[1:] if s.end[:1] and s.end[0].isspace() else s.end)
    return s


def _is_hint(s: Stmt) -> bool:
    """Whether a line speaks of the statement that follows: a pragma, a condition or a loop without braces."""
    code = [w for w in s.words if not w.isspace()] if isinstance(s, Code) else []
    return bool(code) and (code[0] in ("#", "HY_OMP") or code[-1] not in (";", "}") and not code[0].startswith("/"))


def _spread(body: tuple[Stmt, ...], beside: list[Stmt], outer: set[str], last: bool) -> tuple[Stmt, ...]:
    """Statements that stood in braces: without them where nothing else has the names that they declare. beside: the
    statements around them. last: whether none follows; else arrays give their memory back."""
    names = _declared(body)
    if not names:
        return body
    arrays = any(d.lengths for s in body if isinstance(s, Code) for d in declared(s.words))
    free = names.isdisjoint(outer) and names.isdisjoint(w for line in flat(beside) for w in line)
    return body if free and (last or not arrays) else (Scope(body),)


def _declared(body: Iterable[Stmt]) -> set[str]:
    """Names that may be declared by the lines among some statements."""
    lines = [s.words for s in body if isinstance(s, Code)]
    return {d.name for line in lines for d in declared(line)}.union(*(line for line in lines if read(line) is None))


def _is_once(s: For) -> bool:
    """Whether a loop has one iteration, which neither leaves it nor changes its variable."""
    first, last = (spelled(x).removesuffix("l") for x in (s.first, s.last))
    if not (first.isdecimal() and last.isdecimal() and 0 < int(last) - int(first) <= s.step):
        return False
    lines = flat(s.body)
    return not any(w in _LEAVES or w == "#" and "pragma" not in line for line in lines for w in line) and not changes(
        lines, s.var)


def _once(s: For) -> tuple[Stmt, ...]:
    """The statements of a loop's only iteration."""
    number = spelled(s.first).removesuffix("l")
    return nested(substituted(line, {s.var: number}) for line in flat(s.body))


# ---- parameters
def with_read_parameters(code: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The functions of a program without parameters that they do not read, and calls without those arguments. A
    function that is called through a pointer, or from elsewhere, keeps its own."""
    for _ in range(ROUNDS):
        lines = flat(code)
        unread = {f.name: gone for f in code if isinstance(f, Function) and (gone := _unread(f))}
        unread = {n: gone for n, gone in unread.items() if _is_called(n, lines)}
        if not unread:
            break
        code = [_without(s, unread) for s in code]
    return tuple(code)


def _unread(f: Function) -> set[int]:
    """The numbers of parameters that a function does not read."""
    used = {w for line in flat(f.body) for w in line}
    split = arguments(f.parameters)
    return {i for i, p in enumerate(split) if is_name(p[-1]) and p[-1] not in used and len(p) > 1}


def _is_called(name: str, lines: Iterable[Words]) -> bool:
    """Whether a function is named where it is called, at least once, and where its text is, and nowhere else."""
    calls = 0
    for line in lines:
        if name in line:
            here = sum(t.op == "call" and t.args[0] == name for p in read(line) or () for t in trees(p)
                       if isinstance(t, Tree))
            if here != line.count(name) and not _begins(line, name):
                return False
            calls += here
    return calls > 0


def _begins(line: Words, name: str) -> bool:
    """Whether a line begins a function's text."""
    return line[-1:] == ("{",) and line.count(name) == 1 and is_name(line[0]) and is_name(line[line.index(name) - 2])


def _without(s: Stmt, unread: Mapping[str, set[int]]) -> Stmt:
    def called(x: Expression) -> Expression:
        """An expression whose calls have the arguments that are read."""
        if not isinstance(x, Tree) or x.op != "call":
            return x
        gone = unread.get(str(x.args[0]), ())
        return replace(x, args=(x.args[0], *(a for i, a in enumerate(x.args[1:]) if i not in gone)))

    def line(given: Words) -> Words:
        return changed_line(given, lambda p: rebuilt(p, called)) if not unread.keys().isdisjoint(given) else given
    if isinstance(s, Function):
        kept = [p for i, p in enumerate(arguments(s.parameters)) if i not in unread.get(s.name, ())]
        listed = tuple(w for i, a in enumerate(kept) for w in ((",", " ", *a) if i else a))
        return replace(s, parameters=listed or ("void",), body=nested(map(line, flat(s.body))))
    return Code(line(s.words)) if isinstance(s, Code) else s
