"""Lines of C as values: trees of operations, declarations and heads of statements, whose text has the parentheses that
it needs (hybrid/ir/line_reader.py reads them)."""
from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Iterable, Iterator, Sequence, Union

import numpy as np

from ..base.records import dataclass


@dataclass(frozen=True)
class Tree:
    """An operation. op: a binary operator or an assignment; "?:"; "call", of a function and its arguments; "[]"; "." or
    "->", of an object and a member; "cast", of a type and an operand; "braces", an initializer's, in which ".=" gives a
    member its value; a unary operator with "_" where its operand stands: "-_", "++_" before it, "_++" behind it."""
    op: str
    args: tuple["Expression", ...]


Expression = Union[str, Tree]              # a name, a type or a constant is its text


@dataclass(frozen=True)
class Declaration:
    """A declaration of a variable, without a semicolon. type: with its qualifiers; lengths: of an array; after: an
    attribute."""
    type: str
    stars: str
    name: str
    lengths: tuple[Expression, ...] = ()
    after: str = ""
    value: Expression | None = None

    @property
    def kind(self) -> str:
        """The type of the variable, without qualifiers."""
        names = " ".join(w for w in self.type.split() if w not in _QUALIFIERS)
        return names + self.pointers

    @property
    def pointers(self) -> str:
        """The stars of a pointer to what it points to, arrays among them."""
        return "*" * (self.stars.count("*") + len(self.lengths))

    @property
    def member(self) -> str:
        """As a member of a structure, which may be assigned at its initialization alone."""
        base = self.type if self.pointers else self.type.removeprefix("const ")
        return f"{base} {self.pointers}{self.name}"

    @property
    def constant(self) -> str:
        """As a variable that does not change."""
        base = self.type if self.pointers else f"const {self.type.removeprefix('const ')}"
        return f"{base} {self.pointers}{'const ' if self.pointers else ''}{self.name}"


@dataclass(frozen=True)
class Head:
    """A keyword with what belongs to it (a condition, a loop, ``case``, ``return``, ``else``), a brace or a comment.
    groups: the expressions and declarations in its parentheses, between semicolons, or behind its word."""
    word: str
    groups: tuple[tuple["Expression | Declaration", ...], ...] = ()


Part = Union[Expression, Declaration, Head]          # of a line


_QUALIFIERS = frozenset(("const", "static", "register"))
HEADS = frozenset(("for", "if", "while", "switch"))
LABELS = frozenset(("case", "default"))
# of binary operators, from 1; assignments have -1, conditional expressions 0
PRECEDENCE = {op: precedence for precedence, ops in enumerate((
    "||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"), 1) for op in ops.split()}
ASSIGNMENTS = frozenset("= += -= *= /= %= &= |= ^= <<= >>=".split())
INFINITIES = {"__builtin_inf": "INFINITY", "__builtin_inff": "INFINITY", "__builtin_nan": "NAN",
              "__builtin_nanf": "NAN"}
_UNARY, _POSTFIX, _ATOM = 11, 12, 13
_NAMES = {".": 1, "->": 1, ".=": 0, "cast": 0}       # which argument of an operation is a member or a type
_LEAVE = ("return", "break", "continue")
_CLEAR = frozenset("+ - * / %".split())    # operators among each other that are read without parentheses


# ---- text
def text_of(parts: Iterable[Part]) -> str:
    """The text of a line."""
    return " ".join(f"{spelled(p)};" if not isinstance(p, Head) or p.word in _LEAVE else spelled(p) for p in parts)


def spelled(x: Part, least: int = -1) -> str:
    """The text of a part of a line; an expression of lower precedence than ``least`` is in parentheses."""
    if isinstance(x, str):
        return x
    if isinstance(x, Declaration):
        return f"{x.type} {_declarator(x)}"
    if isinstance(x, Head):
        inside = "; ".join(map(_group, x.groups))
        text = f"{x.word} ({inside})" if x.word in HEADS else f"{x.word} {inside}".rstrip()
        return f"{text}:" if x.word in LABELS else text
    own, text = _spelled(x)
    return f"({text})" if own < least else text


def _declarator(x: Declaration) -> str:
    """A declaration without its type."""
    value = "" if x.value is None else f" = {spelled(x.value)}"
    return f"{x.stars}{x.name}{''.join(f'[{spelled(n)}]' for n in x.lengths)}{x.after}{value}"


def _group(of: Sequence[Expression | Declaration]) -> str:
    """Expressions and declarations beside each other; these are of one type."""
    return ", ".join(_declarator(x) if i and isinstance(x, Declaration) else spelled(x) for i, x in enumerate(of))


def _spelled(x: Tree) -> tuple[int, str]:
    """The precedence and the text of an operation."""
    op, args = x.op, x.args
    if op in PRECEDENCE:
        own = PRECEDENCE[op]
        return own, f"{_operand(args[0], op, own)} {op} {_operand(args[1], op, own + 1)}"
    if op in ASSIGNMENTS:
        return -1, f"{spelled(args[0], _UNARY)} {op} {spelled(args[1])}"
    if op == "?:":
        return 0, f"{spelled(args[0], 6)} ? {spelled(args[1], 0)} : {spelled(args[2], 0)}"
    if op == "call":
        return _POSTFIX, f"{spelled(args[0], _POSTFIX)}({', '.join(map(spelled, args[1:]))})"
    if op == "braces":
        return _ATOM, f"{{{', '.join(map(spelled, args))}}}"
    if op == ".=":
        return -1, f".{args[0]} = {spelled(args[1])}"
    if op == "cast":
        prefix = isinstance(args[1], Tree) and args[1].op[-1] == "_"
        return _UNARY, f"({args[0]}){spelled(args[1], _POSTFIX if prefix else _UNARY)}"
    if op == "[]":
        return _POSTFIX, f"{spelled(args[0], _POSTFIX)}[{spelled(args[1])}]"
    if op in (".", "->"):
        return _POSTFIX, f"{spelled(args[0], _POSTFIX)}{op}{args[1]}"
    if op[0] == "_":
        return _POSTFIX, f"{spelled(args[0], _POSTFIX)}{op[1:]}"
    inner = spelled(args[0], _UNARY)
    return _UNARY, f"{op[:-1]}({inner})" if inner[0] == op[0] else f"{op[:-1]}{inner}"


def _operand(x: Expression, op: str, least: int) -> str:
    """An operand of a binary operation; in parentheses also where compilers warn about operators of different
    precedence (&& within ||, + within <<)."""
    clear = not isinstance(x, Tree) or x.op not in PRECEDENCE or x.op == op or (
        x.op in _CLEAR if op in _CLEAR or PRECEDENCE[op] in (6, 7) else PRECEDENCE[x.op] >= 6 and op in ("&&", "||"))
    return spelled(x, least if clear else _UNARY)


# ---- others
def rebuilt(x: Part, change: Callable[[Expression], Expression]) -> Any:
    """A part in which each expression is changed, after those within it, but no types and names of members."""
    def expression(p: Expression) -> Expression:
        if isinstance(p, str):
            return change(p)
        name = _NAMES.get(p.op)
        return change(Tree(p.op, tuple(a if i == name else expression(a) for i, a in enumerate(p.args))))
    if isinstance(x, Head):
        return replace(x, groups=tuple(tuple(rebuilt(p, change) for p in group) for group in x.groups))
    if isinstance(x, Declaration):
        return replace(x, lengths=tuple(map(expression, x.lengths)),
                       value=None if x.value is None else expression(x.value))
    return expression(x)


def simplified(x: Part, is_long: Callable[[str], bool]) -> Part:
    """A part without what changes nothing, such as products with one and sums with zero, and with decimal constants.
    is_long: whether a name is an integer of 64 bits."""
    return rebuilt(x, lambda p: _simple(p, is_long))


def _simple(x: Expression, is_long: Callable[[str], bool]) -> Expression:
    if isinstance(x, str):
        return _decimal(x)
    if x.op == "call" and x.args[0] in INFINITIES:
        return INFINITIES[str(x.args[0])]
    return x if x.op not in _CLEAR else _arithmetic(x, is_long)


def _arithmetic(x: Tree, is_long: Callable[[str], bool]) -> Expression:
    a, b = x.args
    if x.op in "*/" and integer(b) == 1 or x.op in "+-" and integer(b) == 0:
        return a
    if x.op == "*" and integer(a) == 1 or x.op == "+" and integer(a) == 0:
        return b
    if x.op == "%" and integer(b) == 1 and _pure(a) or x.op == "*" and (
            integer(a) == 0 and _whole(b, is_long) or integer(b) == 0 and _whole(a, is_long)):
        return "0"
    number = integer(b)
    if x.op == "*" and number is not None and number < 1 << 31 and _is_long(a, is_long):
        b = str(number)
    if x.op == "+" and isinstance(b, Tree) and b.op == "-_" and integer(b.args[0]) is not None:
        return Tree("-", (a, b.args[0]))
    return replace(x, args=(a, b))


def _decimal(w: str) -> str:
    """The shortest decimal constant that means the same number as one in base 16."""
    if not w.startswith("0x") or "p" not in w:
        return w
    single = w.endswith("f")
    value = float.fromhex(w.removesuffix("f"))
    text = str(np.float32(value)) if single else repr(value)
    if (np.float32(text) if single else float(text)) != value:
        return w
    return text + ("" if "." in text or "e" in text else ".0") + ("f" if single else "")


def integer(x: Expression) -> int | None:
    """The value of a constant that is an integer."""
    digits = x.removesuffix("l") if isinstance(x, str) else ""
    return int(digits) if digits.isdecimal() else None


def _pure(x: Expression) -> bool:
    """Whether an expression is arithmetic alone."""
    return isinstance(x, str) or x.op in PRECEDENCE and all(map(_pure, x.args))


def _whole(x: Expression, is_long: Callable[[str], bool]) -> bool:
    return integer(x.args[0] if isinstance(x, Tree) and x.op == "-_" else x) is not None or _is_long(x, is_long)


def _is_long(x: Expression, is_long: Callable[[str], bool]) -> bool:
    """Whether an expression is a variable that is long, or arithmetic of such and of numbers."""
    if isinstance(x, str):
        return is_long(x)
    return x.op in _CLEAR and all(_whole(a, is_long) for a in x.args) and any(_is_long(a, is_long) for a in x.args)


def trees(x: Part) -> Iterator[Expression | Declaration]:
    """A part, and all expressions within it."""
    if not isinstance(x, Head):
        yield x
    inner: Iterable[Part] = () if isinstance(x, str) else x.args if isinstance(x, Tree) else (
        (p for group in x.groups for p in group) if isinstance(x, Head) else
        (*x.lengths, *([] if x.value is None else [x.value])))
    for a in inner:
        yield from trees(a)
