"""Sizes of an exported network that each call gives: ``("batch", 3, 224, 224)`` or ``(None, 3, 224, 224)``.

The network is traced with a symbol for such a size (hybrid/ir/size.py), and its C functions take ``int64_t n_batch``.
A comparison that a size's range does not decide has, in the exported program, the answer of the trace; the program
checks that the sizes of a call have the same answers, and refuses others with an error code.
"""
from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

from ..base.errors import AttributeValueError
from ..ir.asked import Asked
from ..ir.size import Dim, Int, Part, Size, ends, gathered, greater, hint, quotient, size, smaller, surely

MOST = 1 << 30                           # of a size
MOST_BYTES = 1 << 44                     # of all arrays of a call
HINT, HINT_FIRST = 48, 12                # at which heuristics look: of a size, and of one along the first axis
_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")
Shape = tuple[Int, ...]
COMPILER = ("hybrid.ir.", "hybrid.passes.", "hybrid.codegen.")
ASKED_BY_WAY_OF = ("hybrid.ir.size", "hybrid.ir.asked", __name__)


class Answers(Asked):
    """The answers of one trace. Where the compiler itself asks what 1 alone answers in another way than all larger
    sizes ("is this axis longer than one?"), the answer is theirs, without a guard: a loop of one iteration is a loop
    too. Questions of the user's code and of operators are guards."""

    def answer(self, kind: str, x: Size, at_trace: bool) -> bool:
        if _compiler_asks():
            longer = _from_two(x)
            if surely(lambda: (longer < 0) if kind == "<" else longer == 0):
                return True
            if surely(lambda: (longer >= 0) if kind == "<" else longer != 0):
                return False
        return super().answer(kind, x, at_trace)


def _compiler_asks() -> bool:
    """Whether the code that compares sizes is the compiler's, on index maps, kernels and their C text."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals["__name__"] in ASKED_BY_WAY_OF:
        frame = frame.f_back
    return frame is not None and frame.f_globals["__name__"].startswith(COMPILER)


def _from_two(x: Int) -> Any:
    """The expression over the same dimensions, from 2 on."""
    if not isinstance(x, Size):
        return x
    total: Int = 0
    for atoms, coefficient in x.terms:
        term: Int = coefficient
        for a in atoms:
            if isinstance(a, Dim):
                own: Int = size(Dim(a.name, max(a.low, 2), a.high, a.hint, a.serial))
            else:
                left, right = _from_two(a.a), _from_two(a.b)
                own = {"/": quotient, "%": lambda p, q: p % q, "<": smaller, ">": greater}[a.kind](left, right)
            term = term * own
        total = total + term
    return total


@dataclass
class OpenSizes:
    """The sizes that a call gives, and what their values must fulfil."""
    dims: list[Dim] = field(default_factory=list)
    asked: Answers = field(default_factory=Answers)
    most: int = MOST

    def __bool__(self) -> bool:
        return bool(self.dims)

    @property
    def names(self) -> list[str]:
        """The names of the sizes in C."""
        return [d.name for d in self.dims]

    def table(self) -> str:
        """The values in the order of the compiled program's parameters."""
        return ", ".join(sorted(self.names))

    def declared(self) -> str:
        """Parameters of a C function, behind others."""
        return "".join(f", int64_t {n}" for n in self.names)

    def given(self) -> str:
        """Arguments of a call, behind others."""
        return "".join(f", {n}" for n in self.names)

    def limit(self, nbytes: Sequence[Int]) -> None:
        """Lower the greatest size to one at which arrays of so many bytes still have addresses."""
        while self.most > 1 and sum(max(_at_most(n, self.most), 0) for n in nbytes) > MOST_BYTES:
            self.most //= 2

    def conditions(self) -> list[str]:
        """C conditions under which the program is right."""
        return [*(f"{d.name} >= {d.low} && {d.name} <= {self.most}" for d in self.dims),
                *(f"{x.c_text()} {('!=', '==')[answer] if kind == '==' else ('>=', '<')[answer]} 0"
                  for (kind, x), (answer, _) in self.asked.facts.items())]


def _at_most(x: Int, most: int) -> int:
    """An upper bound where no dimension is greater than ``most``."""
    if not isinstance(x, Size):
        return x
    return ends(_bounded(x, most))[1]


def _bounded(x: Int, most: int) -> Any:
    if not isinstance(x, Size):
        return x

    def own(a: Any) -> Any:
        if isinstance(a, Dim):
            return Dim(a.name, a.low, max(most, a.low), a.hint, a.serial)
        return Part(a.kind, _bounded(a.a, most), _bounded(a.b, most))
    return gathered((tuple(map(own, m)), c) for m, c in x.terms)


def shapes_of(values: Sequence[Any]) -> tuple[list[tuple[Shape, Any]], OpenSizes]:
    """Shapes, and dtypes of those that have one, in which names and None are sizes; and these sizes."""
    sizes = OpenSizes()
    known: dict[str, Size] = {}

    def one(value: Any, axis: int) -> Int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if value is not None and (not isinstance(value, str) or not _NAME.fullmatch(value)):
            raise AttributeValueError(f"a length is a whole number from 1 on, None, or a name of lower case letters, "
                                      f"digits and underscores for a size that each call gives; got {value!r}")
        name = f"n_{value}" if value is not None else f"n{len(known)}"
        if name not in known:
            dim = Dim(name, 1, MOST, HINT if axis else HINT_FIRST, serial=-1)
            sizes.dims.append(dim)
            known[name] = size(dim)
        return known[name]
    out = []
    for shape, dtype in values:
        out.append((tuple(one(d, axis) for axis, d in enumerate(shape)), dtype))
    return out, sizes


def is_open(shape: Sequence[Any]) -> bool:
    """Whether a shape has a length that is no number."""
    return any(d is None or isinstance(d, str) for d in shape)


def at_hint(shape: Shape) -> tuple[int, ...]:
    """A shape with the values at which heuristics look."""
    return tuple(map(hint, shape))


def _cases(arrays: Sequence[Any], what: Callable[[Any], str]) -> str:
    return "\n".join(f"    case {i}: {what(a)}" for i, a in enumerate(arrays)) or "    case -1: break;"


def _lengths(a: Any) -> str:
    stores = "".join(f"shape[{k}] = {d}; " for k, d in enumerate(a.shape))
    return f"{stores}return {len(a.shape)};"


def words(sizes: OpenSizes, given: Sequence[Any], results: Sequence[Any]) -> dict[str, object]:
    """What the texts of kernels/export say of sizes that a call gives; nothing where there are none. given, results:
    the arrays of a call."""
    if not sizes:
        return {}
    alone, values = sizes.declared()[2:], sizes.given()[2:]
    count = len(sizes.dims)
    read = "".join(f"  const int64_t {n} = argc > {3 + k} ? atoll(argv[{3 + k}]) : 1;\n"
                   for k, n in enumerate(sizes.names))
    return {"SIZES": sizes.given(), "SIZES_TYPE": sizes.declared(), "ALONE": alone, "VALUES": values,
            "SIZES_LIST": ", ".join(f"{n} from 1 to {sizes.most}" for n in sizes.names),
            "CONDITIONS": "\n         && ".join(f"({c})" for c in sizes.conditions()),
            "FIT": f"  if (!hy_fit({values})) return @NAME@_ERROR_SIZES;\n", "AND_FIT": f" && hy_fit({values})",
            "INPUT_BYTES": f"@name@_input_bytes(i, {values})", "OUTPUT_BYTES": f"@name@_output_bytes(i, {values})",
            "BYTES_IN": _cases(given, lambda a: f"return (size_t)({a.nbytes});"),
            "BYTES_OUT": _cases(results, lambda a: f"return (size_t)({a.nbytes});"),
            "SHAPES_IN": _cases(given, _lengths), "SHAPES_OUT": _cases(results, _lengths),
            "FILES": 3 + count, "SIZES_READ": read, "SIZES_WORDS": "".join(f"{n} " for n in sizes.names),
            "SIZES_SAID": f" {' and '.join(sizes.names)}: 1 where not given."}
