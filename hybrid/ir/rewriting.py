"""Walks through statements (hybrid/ir/stmt.py) and changes them: other names, shifted indices, copies of patterns.

A statement inside a loop over a *lane variable* is a pattern: ``copy(s, q)`` is the statement for the q-th vector of an
unrolled iteration, ``masked(s)`` the one for the last vector, in which only the lanes of the mask ``mk`` count.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Callable, Iterable, Iterator, Mapping

from .index import Atom, Ix, Quot, Rem, Var, substitute
from .parse import is_name
from .stmt import (Assign, Block, Code, Do, Expr, For, Function, Keep, Let, Literal, Load, Local, Name, Op, Prefetch,
                   Scope, Stmt, Store, When, vector_macro)


def inside(s: Stmt) -> tuple[Stmt, ...]:
    """The statements that a statement holds."""
    if isinstance(s, When):
        return (*s.body, *s.other)
    return s.body if isinstance(s, (For, Scope, Block, Function)) else ()


def walk(body: Iterable[Stmt]) -> Iterator[Stmt]:
    """Statements and all that they hold."""
    for s in body:
        yield s
        yield from walk(inside(s))


def length(body: Iterable[Stmt]) -> int:
    """How many statements there are, those in loops included; others that hold statements count as one."""
    return sum(1 + length(s.body) if isinstance(s, For) else 1 for s in body)


def calls(body: Iterable[Stmt], prefix: str) -> bool:
    """Whether an operation is a function of the target whose name begins so."""
    return any(isinstance(x, Op) and x.form.startswith(prefix) for s in walk(body) for e in expressions(s)
               for x in parts(e))


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions of one statement, without those of the statements that it holds."""
    if isinstance(s, (Let, Assign, Do)):
        return (s.value,)
    if isinstance(s, Store):
        return (s.pointer, s.at, s.value)
    if isinstance(s, Prefetch):
        return (s.pointer, s.at)
    if isinstance(s, For):
        return (s.first, s.last)
    return (s.condition,) if isinstance(s, When) else ()


def operands(x: Expr) -> tuple[Expr, ...]:
    """What an expression is made of."""
    if isinstance(x, Op):
        return x.args
    if isinstance(x, Load):
        return (x.pointer, x.at)
    return (x.value, x.other) if isinstance(x, Keep) else ()


def parts(x: Expr) -> Iterator[Expr]:
    """An expression and all that it is made of."""
    yield x
    for a in operands(x):
        yield from parts(a)


class Unstructured(ValueError):
    """A statement or expression is a text, of which no transformation may guess what it means."""


def used(s: Stmt) -> set[str]:
    """The names that a statement reads or changes, those of the statements that it holds included."""
    out: set[str] = set()
    for t in walk([s]):
        if isinstance(t, Assign):
            out.add(t.name)
        if isinstance(t, str):
            raise Unstructured(t)
        if isinstance(t, Code):
            out |= set(filter(is_name, t.words))
        for e in expressions(t):
            for x in parts(e):
                if isinstance(x, str) and not isinstance(x, (Name, Literal)):
                    raise Unstructured(x)
                if isinstance(x, Code):
                    out |= set(filter(is_name, x.words))
                elif isinstance(x, Name):
                    out.add(x)
                elif isinstance(x, Ix):
                    out |= _named(x)
    return out


def _named(x: Ix) -> set[str]:
    out: set[str] = set()
    for a, _ in x.terms:
        out |= _named(a.x) if isinstance(a, (Quot, Rem)) else {a.name}
    return out


def defined(s: Stmt) -> set[str]:
    """The names that a statement brings into being."""
    return {t.name for t in walk([s]) if isinstance(t, (Let, Local))}


Change = Callable[[Expr], Expr]


def change_expression(x: Expr, f: Change) -> Expr:
    """An expression in which ``f`` was applied to every part, the innermost first."""
    if isinstance(x, Op):
        x = Op(x.form, tuple(change_expression(a, f) for a in x.args))
    elif isinstance(x, Load):
        pointer, at = f(x.pointer), f(x.at)
        assert isinstance(pointer, Name) and isinstance(at, Ix)
        x = replace(x, pointer=pointer, at=at)
    elif isinstance(x, Keep):
        x = replace(x, value=change_expression(x.value, f), other=change_expression(x.other, f))
    return f(x)


def change(s: Stmt, f: Change, to: Callable[[Stmt], Stmt] = lambda s: s) -> Stmt:
    """A statement in which ``f`` was applied to every expression and name, and ``to`` to every statement after it."""
    def name(n: Name) -> Name:
        new = f(n)
        assert isinstance(new, Name)
        return new
    if isinstance(s, (Let, Assign)):
        return to(replace(s, name=name(s.name), value=change_expression(s.value, f)))
    if isinstance(s, Do):
        return to(Do(change_expression(s.value, f)))
    if isinstance(s, Store):
        at = f(s.at)
        assert isinstance(at, Ix)
        return to(replace(s, pointer=name(s.pointer), at=at, value=change_expression(s.value, f)))
    if isinstance(s, Prefetch):
        at = f(s.at)
        assert isinstance(at, Ix)
        return to(replace(s, pointer=name(s.pointer), at=at))
    if isinstance(s, Local):
        return to(replace(s, name=name(s.name)))
    if isinstance(s, For):
        return to(replace(s, first=change_expression(s.first, f), last=change_expression(s.last, f),
                          body=tuple(change(t, f, to) for t in s.body)))
    if isinstance(s, Scope):
        return to(Scope(tuple(change(t, f, to) for t in s.body)))
    if isinstance(s, When):
        return to(When(change_expression(s.condition, f), tuple(change(t, f, to) for t in s.body),
                       tuple(change(t, f, to) for t in s.other)))
    return to(s)


def renamed(s: Stmt, names: Mapping[str, str]) -> Stmt:
    """A statement with other names, also where index expressions use them."""
    def new(x: Expr) -> Expr:
        if isinstance(x, Name):
            return Name(names.get(x, x))
        return _renamed_index(x, names) if isinstance(x, Ix) else x
    return change(s, new)


def _renamed_index(x: Ix, names: Mapping[str, str]) -> Ix:
    if _named(x).isdisjoint(names):
        return x
    return Ix(x.const, tuple((_renamed_atom(a, names), c) for a, c in x.terms))


def _renamed_atom(a: Atom, names: Mapping[str, str]) -> Atom:
    if isinstance(a, (Quot, Rem)):
        return type(a)(_renamed_index(a.x, names), a.d)
    return type(a)(names.get(a.name, a.name), a.extent)


def shifted(s: Stmt, v: Var, by: int) -> Stmt:
    """A statement with ``v + by`` for a loop variable."""
    def new(x: Expr) -> Expr:
        return substitute(x, {v: Ix(by, ((v, 1),))}) if isinstance(x, Ix) else x
    return change(s, new)


# ---- patterns of lane loops
def copy(s: Stmt, q: int) -> Stmt:
    """The statement for the q-th vector of an unrolled iteration."""
    return _of_pattern(s, "", q)


def masked(s: Stmt) -> Stmt:
    """The statement for the last vector: only the lanes of the mask ``mk`` count."""
    return _of_pattern(s, "M", 0)


def _of_pattern(s: Stmt, how: str, q: int) -> Stmt:
    """A pattern's statement for copy q. how: as of ``Load``."""
    def decided(t: Stmt) -> Stmt:
        if isinstance(t, Code):
            return Code(_decided_words(t.words, how, q))
        return replace(t, how=how) if isinstance(t, Store) else t
    return change(s, lambda x: _decided(x, how, q), decided)


def _decided_words(line: tuple[str, ...], how: str, q: int) -> tuple[str, ...]:
    """A line of a pattern, in which ``@`` stands behind names of copies, and behind macros of vectors."""
    out: list[str] = []
    i = 0
    while i < len(line):
        if line[i] != "@":
            out.append(line[i])
        elif out[-1].startswith("HYV_"):
            out[-1] = vector_macro(out[-1][4:], how)
            i += 1                                       # its parenthesis
        else:
            out[-1] = f"{out[-1]}_{q}"
        i += 1
    return tuple(out)


def _decided(x: Expr, how: str, q: int) -> Expr:
    if isinstance(x, Name):
        return x.of_copy(q)
    return replace(x, how=how) if isinstance(x, (Load, Keep)) else x
