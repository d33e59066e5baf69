"""What a compiled CPU program needs when it runs, as data: the layout of its pointer table, constants, and the shared
object.

A ``Recipe`` prints as text and is read back by the next process (plans.py), which then neither plans nor prints C. The
text is JSON: reading one runs nothing.
"""
from __future__ import annotations

import base64
import json
from dataclasses import field
from types import MappingProxyType
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ..base.records import dataclass
from ..ir.size import Dim, Size
from ..ir.size_text import plain, rich
from ..passes.unpack import Way

# its name (two of one name are the same program), inputs and results
Part = tuple[str, tuple[int, ...], tuple[int, ...]]
Spec = tuple[tuple[int, ...], np.dtype]            # shape and dtype of an array


@dataclass
class Recipe:
    """The pointer table holds inputs (the caller's, then prepared values), constants, fresh arrays and the arena, in
    this order."""
    library: str                                   # file name of the shared object in the cache folder; empty: none
    inputs: list[Spec]
    given: int                                     # of the inputs: those of the caller
    constants: list[np.ndarray]
    fresh: list[Spec]                              # arrays that each call makes
    arena_bytes: int
    results: list[tuple[int, tuple[int, ...]]]     # of each output: its place in the table and the shape to show it in
    updates: list[tuple[int, int, tuple[int, ...]]]            # input slot, place of its new value, shape
    written: list[int]                             # input slots that the program itself writes
    slots: tuple[int, ...] = ()                    # inputs that ``prepare`` reads
    prepare: "Recipe | None" = None                # computes the prepared values
    parts: list[Part] = field(default_factory=list)            # of a program that prepares: what can be computed apart
    # for each of slots that the program does not read itself: how it is read from prepared values
    ways: list[Way | None] = field(default_factory=list)
    work: int = 0                                  # rough additions of a call
    program: str = ""                              # without a library: the text of the program (by_primitives.py)

    @property
    def arena_slot(self) -> int:
        """The arena's place in the table, the last one."""
        return len(self.inputs) + len(self.constants) + len(self.fresh)

    @property
    def simple(self) -> bool:
        """Whether the fresh arrays, as they are, are the outputs."""
        first = self.arena_slot - len(self.fresh)
        return (len(self.fresh) == len(self.results) and not self.updates and
                all(i == first + k and shape == self.fresh[k][0] for k, (i, shape) in enumerate(self.results)))

    def own_results(self) -> list[Spec] | None:
        """Shape and dtype of each result, if each is an array of its own, which the call makes."""
        first = self.arena_slot - len(self.fresh)
        places = [i - first for i, _ in self.results]
        if self.updates or sorted(places) != list(range(len(self.fresh))):
            return None
        return [(shape, self.fresh[i][1]) for i, (_, shape) in zip(places, self.results)]


def _spec(s: Spec) -> list[Any]:
    shape, dtype = s
    if np.dtype(dtype.str) != dtype:
        raise ValueError(f"{dtype} has no text of its own")
    return [list(shape), dtype.str]


def _plain(r: Recipe) -> dict[str, Any]:
    return {"library": r.library, "inputs": [_spec(s) for s in r.inputs], "given": r.given,
            "constants": [[*_spec((a.shape, a.dtype)), base64.b64encode(a.tobytes()).decode()] for a in r.constants],
            "fresh": [_spec(s) for s in r.fresh], "arena_bytes": r.arena_bytes, "results": r.results,
            "updates": r.updates, "written": r.written,
            "work": r.work, "program": r.program, "slots": r.slots, "ways": r.ways, "parts": r.parts,
            "prepare": _plain(r.prepare) if r.prepare is not None else None}


def to_text(recipe: Recipe) -> str:
    """The recipe as text. ValueError where it has a dtype that is no NumPy type of its own."""
    return json.dumps(_plain(recipe), separators=(",", ":"), default=plain)


def library_of(text: str) -> str:
    """The file name of the library of a recipe; its text is the last line of ``text``. ValueError where that line is no
    recipe."""
    try:
        return str(json.loads(text.rpartition("\n")[2])["library"])
    except (KeyError, TypeError) as err:
        raise ValueError(f"no recipe of a compiled program: {err!r}") from None


def _shape(value: Any) -> tuple[int, ...]:
    shape = tuple(value)
    if not all(type(d) is int and d >= 0 or type(d) is Size for d in shape):
        raise ValueError(f"{value!r} is no shape")
    return shape


def _number(value: Any, end: int | None = None) -> int:
    if end is None and type(value) is Size:
        return value                                     # type: ignore[return-value]
    if type(value) is not int or value < 0 or end is not None and value >= end:
        raise ValueError(f"{value!r} is no number below {end}")
    return value


def _specs(values: Sequence[Any]) -> list[Spec]:
    dtypes: dict[str, np.dtype] = {}
    return [(_shape(shape), dtypes.get(name) or dtypes.setdefault(name, np.dtype(str(name)))) for shape, name in values]


def _constant(value: Any) -> np.ndarray:
    shape, name, content = value
    return np.frombuffer(base64.b64decode(content, validate=True), np.dtype(str(name))).reshape(_shape(shape))


def _pairs(values: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(_shape(pair) for pair in values)


def _way(value: Any, prepared: int) -> Way | None:
    if value is None:
        return None
    place, steps = value
    readers: dict[str, Callable[[Any], Any]] = {"slice": _pairs, "permute": _shape, "reshape": _shape, "cast": str}
    return _number(place, prepared), tuple((kind, readers[kind](how)) for kind, how in steps)


def _rich(d: dict[str, Any]) -> Recipe:
    inputs, constants, fresh = _specs(d["inputs"]), [_constant(c) for c in d["constants"]], _specs(d["fresh"])
    n, places = len(inputs), len(inputs) + len(constants) + len(fresh)
    library, program = str(d["library"]), str(d["program"])
    if "/" in library or "\\" in library or not library.endswith(".so") and (library or not program):
        raise ValueError(f"{library!r} is no file of the cache folder")
    return Recipe(library, inputs, _number(d["given"], n + 1), constants, fresh, _number(d["arena_bytes"]),
                  [(_number(i, places), _shape(shape)) for i, shape in d["results"]],
                  [(_number(slot, n), _number(i, places), _shape(shape)) for slot, i, shape in d["updates"]],
                  [_number(i, n) for i in d["written"]],
                  tuple(_number(i, n) for i in d["slots"]), _rich(d["prepare"]) if d["prepare"] is not None else None,
                  [(str(name), _shape(slots), _shape(results)) for name, slots, results in d["parts"]],
                  [_way(w, n - d["given"]) for w in d["ways"]], _number(d["work"]),
                  program)


def from_text(text: str, known: Mapping[str, Dim] = MappingProxyType({})) -> Recipe:
    """The recipe that ``to_text`` printed. known: dimensions of its sizes, by name. ValueError where the text is not
    one."""
    try:
        return _rich(json.loads(text, object_hook=lambda value: rich(value, known)))
    except (KeyError, TypeError, RecursionError) as err:
        raise ValueError(f"no recipe of a compiled program: {err!r}") from None
