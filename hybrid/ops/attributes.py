"""Types of operator attributes: each parses Python objects and MXNet's strings alike. Strings are data: no eval."""
from __future__ import annotations

import ast
import math
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from ..ir.size import Size
from ..base import dtype as dt
from ..base.errors import AttributeValueError, DTypeError, HybridError, ShapeError

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "required"})()
_NONE = ("None", "", "null")
MAX_TEXT = 65536                      # longer attribute strings in a file are no attribute


class Attribute:
    """An attribute's type, default and parser."""
    kind = "value"
    takes_none = False                 # whether None is a value of its own, not a word for the default

    def __init__(self, default: Any = REQUIRED, *, doc: str = ""):
        self.default, self.doc = default, doc

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is REQUIRED

    def parse(self, value: Any) -> Any:
        """The canonical value; ValueError or TypeError when it does not fit."""
        optional = self.default is None or self.takes_none
        if value is None or (isinstance(value, str) and value in _NONE and optional):
            if optional:
                return None
            if not self.required:
                return self.default
            if value is None:
                raise ValueError("it has no default")
        return self.convert(value)

    def convert(self, value: Any) -> Any:
        """Parse a value that is not None."""
        return value


def _number(value: Any) -> Any:
    if isinstance(value, str):
        text = value.strip().rstrip("L")
        try:
            return int(text)
        except ValueError:
            return float(text)
    if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0:
        return value.item()
    if isinstance(value, (bool, int, float)):
        return value
    raise TypeError("not a number")


class Int(Attribute):
    """An integer of 64 bits (or None with ``none=True``)."""
    kind = "int"

    def __init__(self, default: Any = REQUIRED, *, none: bool = False, doc: str = ""):
        super().__init__(default, doc=doc)
        self.takes_none = none

    def convert(self, value: Any) -> int:
        if type(value) is Size:
            return value                                     # type: ignore[return-value]
        if isinstance(value, str) and value in ("True", "False"):
            return int(value == "True")
        n = _number(value)
        if isinstance(n, float) and not n.is_integer():
            raise ValueError("not an integer")
        if not -2**63 <= n < 2**63:
            raise ValueError("does not fit 64 bits")
        return int(n)


class Float(Attribute):
    """A real number."""
    kind = "float"

    def convert(self, value: Any) -> float:
        if isinstance(value, str) and value.strip() in ("True", "False"):
            return float(value.strip() == "True")
        return float(_number(value))


class Number(Attribute):
    """An integer or a real number, kept apart: ``x + 1`` stays an integer."""
    kind = "number"

    def convert(self, value: Any) -> Any:
        if isinstance(value, str) and value.strip() in ("True", "False"):
            return value.strip() == "True"
        return value if type(value) is Size else _number(value)


class Bool(Attribute):
    """True or False."""
    kind = "bool"

    def convert(self, value: Any) -> bool:
        if isinstance(value, str):
            if value.lower() in ("true", "1"):
                return True
            if value.lower() in ("false", "0"):
                return False
            raise ValueError("write True or False")
        return bool(value)


class Str(Attribute):
    """Text."""
    kind = "str"

    def convert(self, value: Any) -> str:
        return str(value)


class Enum(Attribute):
    """One of some words. beyond: those of them that MXNet does not have."""
    kind = "str"

    def __init__(self, default: Any = REQUIRED, *choices: str, beyond: tuple[str, ...] = (), doc: str = ""):
        super().__init__(default, doc=doc)
        self.choices = (*choices, *beyond)
        self.beyond = beyond

    def convert(self, value: Any) -> str:
        if str(value) not in self.choices:
            raise ValueError(f"choose one of {', '.join(map(repr, self.choices))}")
        return str(value)


def _literal(text: str) -> Any:
    if len(text) > MAX_TEXT or text.count("(") + text.count("[") > 64:
        raise ValueError("too long")
    try:
        return ast.literal_eval(text.replace("L", ""))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError("not a tuple of integers") from None


class Shape(Attribute):
    """A tuple of integers (None entries allowed with ``none=True``); a single integer is a tuple of one. empty: None is
    ()."""
    kind = "shape"

    def __init__(self, default: Any = REQUIRED, *, none: bool = False, empty: bool = False, doc: str = ""):
        super().__init__(default, doc=doc)
        self.none, self.empty = none, empty

    def convert(self, value: Any) -> tuple[Any, ...]:
        if type(value) is tuple and all(type(v) is int and -2**63 <= v < 2**63 for v in value):
            return value
        if isinstance(value, str):
            value = _literal(value)
        if isinstance(value, (np.ndarray, np.generic)):
            value = value.tolist()
        if isinstance(value, (int, float)):
            value = (value,)
        if value is None and self.empty:
            return ()
        if not isinstance(value, Sequence):
            raise TypeError("not a tuple of integers")
        return tuple(self._entry(v) for v in value)

    def _entry(self, v: Any) -> Any:
        if v is None and self.none or type(v) is Size:
            return v
        n = _number(v)
        if isinstance(n, float) and not n.is_integer() or not math.isfinite(n) or not -2**63 <= n < 2**63:
            raise ValueError("entries must be integers of 64 bits")
        return int(n)


class Axes(Shape):
    """An axis, several, or None for all of them."""
    kind = "axes"

    def __init__(self, default: Any = None, *, doc: str = ""):
        super().__init__(default, doc=doc)

    def convert(self, value: Any) -> Any:
        if isinstance(value, str):
            value = _literal(value)
        return int(value) if isinstance(value, (int, np.integer)) else super().convert(value)


class Floats(Attribute):
    """A tuple of real numbers."""
    kind = "floats"

    def convert(self, value: Any) -> tuple[float, ...]:
        if isinstance(value, str):
            value = _literal(value)
        return tuple(float(_number(v)) for v in (value if isinstance(value, Sequence) else (value,)))


class DType(Attribute):
    """A dtype, by name, type or NumPy dtype; canonically its name."""
    kind = "dtype"

    def convert(self, value: Any) -> str:
        return dt.name(dt.as_dtype(value))


class OneDType(Enum):
    """One of some dtypes, by name, type or NumPy dtype."""

    def convert(self, value: Any) -> str:
        try:
            name = dt.name(dt.as_dtype(value))
        except HybridError:
            name = str(value)
        return super().convert(name)


class Any_(Attribute):
    """Anything hashable."""
    kind = "any"


class Attrs:
    """Parsed attributes of one call: a frozen, hashable namespace. ``given()`` is what was passed, as MXNet's
    strings."""
    __slots__ = ("_given", "_hash", "__dict__")              # __dict__ holds the values: reading one calls no function
    _given: dict[str, Any]

    def __init__(self, values: dict[str, Any], given: dict[str, Any]):
        vars(self).update(values)
        object.__setattr__(self, "_given", given)
        object.__setattr__(self, "_hash", hash(tuple(values.items())))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no attribute {name!r}; there are {', '.join(vars(self))}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("attributes of an operator call are frozen")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attrs) and vars(self) == vars(other) and _types(self) == _types(other)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def __repr__(self) -> str:
        return f"Attrs({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"

    def given(self) -> dict[str, str]:
        """The attributes that the caller gave, printed as MXNet prints them."""
        return {k: to_string(v) for k, v in self._given.items()}

    def gives(self, name: str) -> bool:
        """Whether the caller gave an attribute."""
        return name in self._given

    def asdict(self) -> dict[str, Any]:
        """All values, defaults included."""
        return dict(vars(self))

    def extended(self, **more: Any) -> "Attrs":
        """With further values that only the lowering sees (``train``, ``key``)."""
        return Attrs({**vars(self), **more}, self._given)

    def written(self, **others: Any) -> "Attrs":
        """The same values, some of which files hold as others."""
        return Attrs(vars(self), {**self._given, **others})


def told_apart(value: Any) -> Any:
    """What tells values apart that Python calls equal: 1, 1.0 and True, 0.0 and -0.0."""
    return math.copysign(1, value) if type(value) is float and value == 0 else type(value)


def _types(a: Attrs) -> list[Any]:
    return [told_apart(v) for v in vars(a).values()]


def to_string(value: Any) -> str:
    """MXNet's text of an attribute value."""
    if isinstance(value, (np.dtype, type)):
        return dt.name(dt.as_dtype(value))
    return str(_plain(value))


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, also within lists and tuples (NumPy 2 would print ``np.int64(3)``)."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value] if isinstance(value, list) else tuple(_plain(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


def parse_attrs(table: Mapping[str, Attribute], given: Mapping[str, Any]) -> Attrs:
    """Check and convert what was given for an operator's attributes. AttributeValueError when something is wrong, whose
    text goes on behind the operator's name."""
    unknown = [k for k in given if k not in table]
    if unknown:
        raise AttributeValueError(f" has no attribute {', '.join(map(repr, unknown))}; "
                                  f"it has {', '.join(table) or 'none'}")
    values = {}
    for name, kind in table.items():
        if name not in given:
            if kind.required:
                raise AttributeValueError(f" needs the attribute {name!r} ({kind.kind})")
            values[name] = kind.default
            continue
        try:
            values[name] = kind.parse(given[name])
        except (ValueError, TypeError, OverflowError, DTypeError) as err:
            raise AttributeValueError(f": attribute {name}={given[name]!r} is not a valid "
                                      f"{kind.kind}: {err}") from None
    return Attrs(values, {k: _plain(v) for k, v in given.items() if v is not None or table[k].takes_none
                          or table[k].default is None})


# numbers in a table within a program: of a picture resized from 4096 to 4096 lines
MOST_WRITTEN = 2**24


def written(count: int, what: str, most: int = MOST_WRITTEN) -> int:
    """``count``, if a program can hold so many of something; ShapeError where it would only fill the memory."""
    if count > most:
        raise ShapeError(f"this takes {count} {what}; {most} are the most")
    return count
