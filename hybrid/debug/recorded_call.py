"""One call of a program, with everything that it takes to run it again: its arrays as they were, and what it gave."""
from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .. import runtime
from ..base import config
from ..base.device import Context, array_module
from ..ir import PRIMS, Node, Program
from ..runtime.observers import observe

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@dataclass
class Call:
    """A call of a program. given: its arrays as they were before; outputs, written: what it gave, and what it left in
    the inputs that it updates; live: the arrays themselves."""
    program: Program
    given: list[Any]
    live: list[Any]
    outputs: list[Any] = field(default_factory=list)
    written: dict[int, Any] = field(default_factory=dict)

    def undo(self) -> None:
        """Put back what the call has overwritten."""
        for slot in self.written:
            self.live[slot][...] = self.given[slot]

    def results(self) -> list[Any]:
        """Values of the program's roots, in their order."""
        return [*self.outputs, *(self.written[slot] for slot, _ in self.program.updates)]


@contextmanager
def recorded() -> Iterator[list[Call]]:
    """Scope in which calls of programs are noted, and wait for the compiler."""
    calls: list[Call] = []

    def note(program: Program, exe: Any, raw: Sequence[Any], call: Callable[[Any], Any]) -> Any:
        made = Call(program, [x.copy() for x in raw], list(raw))
        outputs = call(exe)
        made.outputs = [x.copy() for x in outputs]
        made.written = {slot: raw[slot].copy() for slot, _ in program.updates}
        calls.append(made)
        return outputs
    observe(note)
    try:
        with config.at_once():
            yield calls
    finally:
        observe(note, False)


@contextmanager
def slow_calls() -> Iterator[None]:
    """Scope in which no call takes the fast path into compiled code, so that all of it can be left out."""
    def look(program: Program, exe: Any, raw: Sequence[Any], call: Callable[[Any], Any]) -> Any:
        return call(exe)
    observe(look)
    try:
        yield
    finally:
        observe(look, False)


def by_primitives(program: Program, raw: Sequence[Any]) -> dict[Node, Any]:
    """The value of every node of a program."""
    xp = module_of(raw)
    values: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        for n in program.order():
            values[n] = raw[n.attrs["slot"]] if n.prim == "input" else PRIMS[n.prim].eager(
                xp, n, *(values[a] for a in n.args))
    return values


def compiled(program: Program, raw: Sequence[Any]) -> list[Any]:
    """Values of the roots of a program, compiled. The arrays stay as they are."""
    plain = Program(program.inputs, program.roots)
    with config.at_once():
        found: list[Any] = runtime.compile(plain, context_of(raw))(list(raw))    # type: ignore[arg-type]
    return found


def module_of(raw: Sequence[Any]) -> Any:
    """NumPy, or where an array is on a GPU, CuPy."""
    return np if all(isinstance(x, np.ndarray) for x in raw) else array_module(Context("gpu"))


def context_of(raw: Sequence[Any]) -> Context:
    """The device of raw arrays."""
    return Context("cpu", 0) if module_of(raw) is np else Context("gpu", raw[0].device.id)


def far(a: Any, b: Any, roundings: float) -> Any:
    """Where two arrays differ by more than so many roundings of the largest number in the first."""
    a, b = (x if isinstance(x, np.ndarray) else x.get() if hasattr(x, "get") else np.asarray(x) for x in (a, b))
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.ones(a.shape, bool)
    if a.dtype.name not in EPS:
        return a != b
    wide, other = a.astype(np.float64), b.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    slack = roundings * EPS[a.dtype.name] * (float(finite.max()) if finite.size else 0.0)
    return ~np.isclose(wide, other, rtol=roundings * EPS[a.dtype.name], atol=slack, equal_nan=True)
