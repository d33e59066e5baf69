"""Parameters of operators as a stub file writes them: names, types and defaults."""
from __future__ import annotations

import inspect
import keyword
import math
import textwrap
from dataclasses import dataclass
from typing import Any, Iterable, Sequence

from ..ops.attributes import Attribute, Axes, DType, Enum, Shape
from ..ops.registry import OpDef

TYPES = {"int": "int", "float": "float", "number": "float", "bool": "_bool", "str": "str",
         "shape": "int | Sequence[int]", "axes": "int | Sequence[int] | None", "floats": "float | Sequence[float]",
         "dtype": "DTypeLike | None"}
SAMPLES: dict[str, Any] = {"int": 2, "float": 1.0, "number": 1.0, "bool": False, "str": "x", "shape": (1,), "axes": 0,
                           "floats": (1.0,), "dtype": "float32"}


@dataclass(frozen=True)
class Parameter:
    """A parameter: its type, its default as text (none: it must be given), and whether it goes by name alone."""
    name: str
    type: str
    default: str | None = None
    star: str = ""                              # "*" before a list of values, "**" before named ones

    def __str__(self) -> str:
        return f"{self.star}{self.name}: {self.type}" + (f" = {self.default}" if self.default is not None else "")


def default_text(value: Any) -> str:
    """A default as source text; ``...`` where it has no short one."""
    if isinstance(value, float) and not math.isfinite(value):
        return "..."
    plain = value is None or isinstance(value, (bool, int, float, str)) or isinstance(value, (tuple, list)) and all(
        isinstance(v, (int, float)) for v in value)
    return repr(value) if plain else "..."


def attribute_type(a: Attribute) -> str:
    """The type of the values that an attribute takes."""
    if isinstance(a, Enum):
        found = f"Literal[{', '.join(map(repr, a.choices))}]"
    elif isinstance(a, Shape) and a.none:
        found = "int | Sequence[int | None]"
    elif a.kind in TYPES and (a.kind != "shape" or isinstance(a, Shape)):
        found = TYPES[a.kind]
    else:
        found = "object"
    nothing = (a.default is None or a.takes_none) and not isinstance(a, (Axes, DType))
    return f"{found} | None" if nothing and found != "object" else found


def attribute(name: str, a: Attribute, kind: str = "") -> Parameter:
    """The parameter of an attribute; ``kind`` in place of its own type."""
    return Parameter(name, kind or attribute_type(a), None if a.required else default_text(a.default))


def sample(a: Attribute) -> Any:
    """Some value that the attribute takes."""
    if not a.required:
        return a.default
    return a.choices[0] if isinstance(a, Enum) else SAMPLES.get(a.kind, 1)


def counts(d: OpDef, **changed: Any) -> int:
    """How many results a call with these attributes has, the others being at their defaults."""
    given = {k: sample(a) for k, a in d.attrs.items() if a.required}
    return d.num_visible(d.parse({**given, **changed}))


def controls(d: OpDef) -> tuple[str, list[Any], list[Any]] | None:
    """The attribute that decides between one result and several, with values for the one and for the other."""
    if d.visible is None and d.outputs is None:
        return None
    for name, a in d.attrs.items():
        values: Sequence[Any] = (a.choices if isinstance(a, Enum) else (False, True) if a.kind == "bool"
                                 else (1, 2) if a.kind == "int" else ())
        one = [v for v in values if counts(d, **{name: v}) == 1]
        several = [v for v in values if v not in one]
        if one and several:
            return name, one, several
    return None


def arranged(parts: Iterable[Parameter]) -> list[str]:
    """Parameters as texts; from the first one that needs a value after one that does not, they go by name alone."""
    out: list[str] = []
    optional = named = False
    for p in parts:
        if (p.name == "*" or p.default is None and optional and not p.star) and not named:
            out.append("*")
        named = named or p.star == "*" or bool(out) and out[-1] == "*"
        optional = optional or p.default is not None
        if p.name != "*":
            out.append(str(p))
    return out


def function(name: str, parts: Iterable[Parameter], result: str, before: Sequence[str] = (), indent: str = "",
             doc: str = "") -> str:
    """The text of a function, wrapped at 120 columns. before: decorators."""
    texts = arranged(parts)
    head = "".join(f"{indent}@{d}\n" for d in before)
    tail = f") -> {result}: ..."
    line = f"{indent}def {name}({', '.join(texts)}{tail}"
    if len(line) > 120:
        inner = textwrap.wrap(", ".join(t.replace(" ", "\0") for t in texts), 112 - len(indent),
                              break_long_words=False, break_on_hyphens=False)
        rows = [w for row in inner for w in _cut(row.replace("\0", " "), 112 - len(indent))]
        line = "\n".join([f"{indent}def {name}(", *(f"{indent}    {row}" for row in rows), f"{indent}{tail}"])
    return head + line + "\n"


def _cut(row: str, width: int) -> list[str]:
    """A row in parts, each at most as wide, cut after commas."""
    return textwrap.wrap(row, width, break_long_words=False, break_on_hyphens=False) if len(row) > width else [row]


def own_parameters(fn: Any) -> list[Parameter]:
    """The parameters of a Python function, with the types that it says itself."""
    out: list[Parameter] = []
    for p in inspect.signature(fn).parameters.values():
        kind = p.annotation if isinstance(p.annotation, str) else "Any"
        default = None if p.default is p.empty else default_text(p.default)
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")     # type: ignore[call-overload]
        if p.kind is p.KEYWORD_ONLY and not any(q.star == "*" or q.name == "*" for q in out):
            out.append(Parameter("*", ""))
        if kind == "bool":
            kind = "_bool"
        out.append(Parameter(p.name, kind if known_type(kind) else "Any", default, star))
    return out


KNOWN = frozenset("Any None _bool int float str bytes DTypeLike Context NDArray Sequence Callable Literal".split())


def known_type(text: str) -> bool:
    """Whether a type is written with names that every stub file knows."""
    names = "".join(c if c.isidentifier() or c.isdigit() else " " for c in text).split()
    return all(n in KNOWN for n in names)


def usable(name: str) -> bool:
    """Whether a name can stand after ``def``."""
    return name.isidentifier() and not keyword.iskeyword(name)
