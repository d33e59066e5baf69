"""Statements: what a kernel does, between its loop nest and the text of a target.

A statement binds a name (``Let``), changes one (``Assign``), writes memory (``Store``) or holds other statements
(``For``, ``Scope``, ``When``). Expressions are names, literals, index expressions (hybrid.ir.index), reads of memory
(``Load``) and operations (``Op``), which carry the target's spelling. Transformations take statements and give
statements; the text is made once, at the end.

A statement inside a loop over a *lane variable* is a pattern: names that end in ``@`` are different for each copy of an
unrolled iteration, and reads and writes of vectors are whole or masked (hybrid/ir/rewriting.py decides).
"""
from __future__ import annotations

from typing import Iterable, Union

from ..base.records import dataclass
from .index import Ix, text as index_text

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
        return f"{vector_macro(self.vector, self.how)}{self.pointer} + {index_text(self.at)})"


@dataclass(frozen=True)
class Keep:
    """A vector's value, in lanes beyond the mask another one that does not count."""
    value: "Expr"
    other: "Expr"
    how: str = COPIED

    def __str__(self) -> str:
        return f"{vector_macro('KEEP', self.how)}{spelled(self.value)}, {spelled(self.other)})"


# a text that is neither Name nor Literal is not structured yet
Expr = Union[str, Ix, Op, Load, Keep, "Code"]


def spelled(x: Expr) -> str:
    """The text of an expression."""
    return x if isinstance(x, str) else index_text(x) if isinstance(x, Ix) else str(x)


def vector_macro(vector: str, how: str) -> str:
    """The head of a macro that reads or writes a vector: HYV_LOAD(, HYV_LOADM(mk, HYV_LOAD_HALF( …"""
    if vector == "KEEP" and how != COPIED:
        return f"HYV_SELECT({MASK}, " if how == "M" else "HYV_FIRSTARG("
    word, _, kind = vector.partition("_")
    end = f"_{kind}" if kind else ""
    if how == "M" and word == "PAIR":                # two vectors, which have a mask each
        return f"HYV_{word}M{end}("
    if how == "M":
        return f"HYV_{'STORE' if word == 'PAST' else word}M{end}({MASK}, "
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


@dataclass(frozen=True)
class Code(_Statement):
    """A statement, or a line of one, as words of the target (hybrid/ir/parse.py), with the spaces between them."""
    words: tuple[str, ...]

    def __str__(self) -> str:
        return "".join(self.words)


@dataclass(frozen=True)
class Block(_Statement):
    """Statements in braces: the words of the line that opens them, and of the one that closes them."""
    head: tuple[str, ...]
    body: tuple["Stmt", ...]
    end: tuple[str, ...] = ("}",)


@dataclass(frozen=True)
class Function(_Statement):
    """A function: the words before its name, those between the parentheses, and those behind them."""
    before: tuple[str, ...]
    name: str
    parameters: tuple[str, ...]
    after: tuple[str, ...]
    body: tuple["Stmt", ...]
    end: tuple[str, ...] = ("}",)

    @property
    def head(self) -> tuple[str, ...]:
        """The words of its first line."""
        return (*self.before, self.name, "(", *self.parameters, ")", *self.after)


# a text: a line that is not structured yet
Stmt = Union[Let, Assign, Do, Store, Prefetch, Local, For, Scope, When, Code, Block, Function, str]


# ---- text
def lines(body: Iterable[Stmt]) -> list[str]:
    """Statements as lines of text."""
    return [line for s in body for line in _lines(s)]


def text_of(body: Iterable[Stmt]) -> str:
    """Statements as a text."""
    return "\n".join(lines(body))


def _indented(body: Iterable[Stmt]) -> list[str]:
    return ["  " + line if line else line for line in lines(body)]


def _lines(s: Stmt) -> list[str]:
    if isinstance(s, (str, Code)):
        return [str(s)]
    if isinstance(s, For):
        step = f"{s.var}++" if s.step == 1 else f"{s.var} += {s.step}"
        head = f"for ({s.type} {s.var} = {spelled(s.first)}; {s.var} < {spelled(s.last)}; {step}) {{"
        return [*([s.pragma] if s.pragma else []), head, *_indented(s.body), "}"]
    if isinstance(s, Scope):
        return ["{", *_indented(s.body), "}"]
    if isinstance(s, (Block, Function)):
        return [*(["".join(s.head)] if s.head else []), *_indented(s.body), *(["".join(s.end)] if s.end else [])]
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
    return f"{vector_macro(s.vector, s.how)}{s.pointer} + {index_text(s.at)}, {spelled(s.value)});"
