"""Statements: what a kernel does, between its loop nest and the text of a target.

A statement binds a name (``Let``), changes one (``Assign``), writes memory (``Store``) or holds other statements
(``For``, ``Scope``, ``When``). Expressions are names, literals, index expressions (hybrid.ir.index), reads of memory
(``Load``) and operations (``Op``), which carry the target's spelling. Transformations take statements and give
statements; the text is made once, at the end.

A statement inside a loop over a *lane variable* is a pattern: ``copy(s, q)`` is the statement for the q-th vector of an
unrolled iteration, ``masked(s)`` the one for the last vector, in which only the lanes of the mask ``mk`` count. Names
that end in ``@`` are different for each copy.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Iterable, Iterator, Mapping, Sequence, Union

from .index import Atom, Ix, Quot, Rem, Val, Var, substitute, text as index_text

MASK = "mk"                     # the mask of a lane loop's last iteration
COPIED = "@"                    # the end of names of which every unrolled copy has its own


class Name(str):
    """The name of a value, an array or a pointer."""

    __slots__ = ()

    def of_copy(self, q: int) -> "Name":
        """The name in copy q of an unrolled iteration."""
        return Name(f"{self[:-1]}_{q}") if self.endswith(COPIED) else self


class Literal(str):
    """A constant as the target spells it."""

    __slots__ = ()


# ---- expressions
@dataclass(frozen=True)
class Op:
    """An operation: ``form`` is its spelling, with {0} {1} … where the arguments stand."""
    form: str
    args: tuple["Expr", ...]

    def __str__(self) -> str:
        return self.form.format(*map(spelled, self.args))


@dataclass(frozen=True)
class Load:
    """An element of an array; ``vector``: the name of the macro that reads neighbours of it as a vector, and how."""
    pointer: Name
    at: Ix
    vector: str = ""
    how: str = COPIED              # of vectors: "@" not decided, "" whole, "M" masked

    def __str__(self) -> str:
        if not self.vector:
            return f"{self.pointer}[{index_text(self.at)}]"
        return f"{_macro(self.vector, self.how)}{self.pointer} + {index_text(self.at)})"


@dataclass(frozen=True)
class Keep:
    """A vector's value, in lanes beyond the mask another one that does not count."""
    value: "Expr"
    other: "Expr"
    how: str = COPIED

    def __str__(self) -> str:
        head = {"": "HYV_FIRSTARG(", "M": f"HYV_SELECT({MASK}, "}.get(self.how, "HYV_KEEP@(")
        return f"{head}{spelled(self.value)}, {spelled(self.other)})"


Expr = Union[str, Ix, Op, Load, Keep]       # a text that is neither Name nor Literal is not structured yet


def spelled(x: Expr) -> str:
    """The text of an expression."""
    return x if isinstance(x, str) else index_text(x) if isinstance(x, Ix) else str(x)


def _macro(vector: str, how: str) -> str:
    """The head of a macro that reads or writes a vector: HYV_LOAD(, HYV_LOADM(mk, HYV_LOAD_HALF( …"""
    word, _, kind = vector.partition("_")
    end = f"_{kind}" if kind else ""
    if how == "M" and word == "PAIR":                # two vectors, which have a mask each
        return f"HYV_{word}M{end}("
    if how == "M":
        return f"HYV_{'STORE' if word == 'STREAM' else word}M{end}({MASK}, "
    return f"HYV_{word}{end}{how}("


# ---- statements
class _Statement:
    """What all statements have: their text."""

    def __str__(self) -> str:
        return "\n".join(lines([self]))              # type: ignore[list-item]


@dataclass(frozen=True)
class Let(_Statement):
    """A name for a value; ``const``: which does not change."""
    type: str
    name: Name
    value: Expr
    const: bool = False


@dataclass(frozen=True)
class Assign(_Statement):
    """A change of a name: by ``=``, or by ``+=`` and the like."""
    name: Name
    value: Expr
    by: str = "="


@dataclass(frozen=True)
class Do(_Statement):
    """An operation that is done for its effect: a prefetch, a call."""
    value: Expr


@dataclass(frozen=True)
class Store(_Statement):
    """A write of an element, or of a vector of neighbours (``vector``, ``how``: as of ``Load``)."""
    pointer: Name
    at: Ix
    value: Expr
    vector: str = ""
    how: str = COPIED


@dataclass(frozen=True)
class Prefetch(_Statement):
    """Asks for the cache line of an element, ``ahead`` times ``step`` elements further on. how: the arguments of the
    compiler's function after the address: whether to write, and which cache."""
    pointer: Name
    at: Ix
    step: int = 0
    ahead: int = 0
    how: str = ""


@dataclass(frozen=True)
class Local(_Statement):
    """An array of a function's own, at a cache line; ``rows``: of so many rows of ``count`` elements."""
    type: str
    name: Name
    count: int
    rows: int = 0


@dataclass(frozen=True)
class For(_Statement):
    """A loop: ``var`` counts from ``first`` to before ``last`` by ``step``. pragma: what stands before it."""
    var: str
    first: Expr
    last: Expr
    body: tuple["Stmt", ...]
    step: int = 1
    pragma: str = ""
    type: str = "long"


@dataclass(frozen=True)
class Scope(_Statement):
    """Statements whose names end with them."""
    body: tuple["Stmt", ...]


@dataclass(frozen=True)
class When(_Statement):
    """Statements under a condition, and those for when it does not hold."""
    condition: Expr
    body: tuple["Stmt", ...]
    other: tuple["Stmt", ...] = ()


# a text: a line that is not structured yet
Stmt = Union[Let, Assign, Do, Store, Prefetch, Local, For, Scope, When, str]


# ---- text
def lines(body: Iterable[Stmt]) -> list[str]:
    """Statements as lines of text."""
    return [line for s in body for line in _lines(s)]


def _indented(body: Iterable[Stmt]) -> list[str]:
    return ["  " + line for line in lines(body)]


def _lines(s: Stmt) -> list[str]:
    if isinstance(s, str):
        return [s]
    if isinstance(s, For):
        step = f"{s.var}++" if s.step == 1 else f"{s.var} += {s.step}"
        head = f"for ({s.type} {s.var} = {spelled(s.first)}; {s.var} < {spelled(s.last)}; {step}) {{"
        return [*([s.pragma] if s.pragma else []), head, *_indented(s.body), "}"]
    if isinstance(s, Scope):
        return ["{", *_indented(s.body), "}"]
    if isinstance(s, When):
        other = ["} else {", *_indented(s.other)] if s.other else []
        return [f"if ({spelled(s.condition)}) {{", *_indented(s.body), *other, "}"]
    return [_line(s)]


def _line(s: Stmt) -> str:
    if isinstance(s, Let):
        return f"{'const ' if s.const else ''}{s.type} {s.name} = {spelled(s.value)};"
    if isinstance(s, Assign):
        return f"{s.name} {s.by} {spelled(s.value)};"
    if isinstance(s, Do):
        return f"{spelled(s.value)};"
    if isinstance(s, Prefetch):
        further = f" + {s.step} * {s.ahead}" if s.step else ""
        return f"__builtin_prefetch({s.pointer} + {index_text(s.at)}{further}{s.how});"
    if isinstance(s, Local):
        rows = f"[{s.rows}]" if s.rows else ""
        return f"{s.type} {s.name}{rows}[{s.count}] __attribute__((aligned(64)));"
    assert isinstance(s, Store)
    if not s.vector:
        return f"{s.pointer}[{index_text(s.at)}] = {spelled(s.value)};"
    return f"{_macro(s.vector, s.how)}{s.pointer} + {index_text(s.at)}, {spelled(s.value)});"


# ---- walking and changing
def inside(s: Stmt) -> tuple[Stmt, ...]:
    """The statements that a statement holds."""
    if isinstance(s, When):
        return (*s.body, *s.other)
    return s.body if isinstance(s, (For, Scope)) else ()


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
        for e in expressions(t):
            for x in parts(e):
                if isinstance(x, str) and not isinstance(x, (Name, Literal)):
                    raise Unstructured(x)
                if isinstance(x, Name):
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
    return change(s, lambda x: _decided(x, "", q), lambda t: replace(t, how="") if isinstance(t, Store) else t)


def masked(s: Stmt) -> Stmt:
    """The statement for the last vector: only the lanes of the mask ``mk`` count."""
    return change(s, lambda x: _decided(x, "M", 0), lambda t: replace(t, how="M") if isinstance(t, Store) else t)


def _decided(x: Expr, how: str, q: int) -> Expr:
    if isinstance(x, Name):
        return x.of_copy(q)
    return replace(x, how=how) if isinstance(x, (Load, Keep)) else x


__all__ = ["COPIED", "Assign", "Do", "Expr", "For", "Keep", "Let", "Literal", "Load", "Local", "Name", "Op",
           "Prefetch", "Scope", "Stmt", "Store", "Unstructured",
           "Val", "When", "calls", "change", "copy", "defined", "expressions", "inside", "length", "lines", "masked",
           "renamed", "shifted",
           "spelled", "used", "walk", "Sequence"]
