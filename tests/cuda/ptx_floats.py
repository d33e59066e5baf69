"""Which numbers of a kernel that tests/cuda/ptx.py runs were computed in float32 on their way: a double among them is
as near to another compiler's as a float is.

Registers are followed through the text, whatever threads hold in them; global memory byte by byte, as it is written;
shared memory and that of threads as one place.
"""
from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from .ptx_text import Entry, Line, call_of

Place = tuple[str, str]                                    # a function, and a register or a parameter of it
ROUNDED = {"add", "sub", "mul", "fma", "mad", "div", "sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh",
           "mma", "wgmma"}
MEMORY = {"st", "red", "setp", "bra", "ret", "exit", "bar", "barrier"}        # nothing goes from operand to operand


def _places(home: str, args: Iterable[str]) -> list[Place]:
    return [(home, name) for arg in args for name in re.findall(r"%\w+", arg)]


class Singles:
    """What a launch has computed in float32: registers and parameters, bytes of global memory, whether any other."""

    def __init__(self, entry: Entry, memory: np.ndarray):
        self.bytes, self.elsewhere = memory, False         # of what was launched before too
        self.places: set[Place] = set()
        self.next: dict[Place, list[Place]] = {}           # where the number of a place goes
        for line in entry.lines:
            for to, sources in self._moved(entry, line):
                for source in sources:
                    self.next.setdefault(source, []).append(to)
        for line in entry.lines:
            if line.op[0] in ROUNDED and "f32" in line.op or line.op[0] == "cvt" and line.op[-2:] == ["f32", "f64"]:
                self._spread(_places(line.home, line.args[:1]))

    @staticmethod
    def _moved(entry: Entry, line: Line) -> Iterable[tuple[Place, list[Place]]]:
        """The places that an instruction writes, each with those whose numbers it is of."""
        home = line.home
        if line.op[0] == "call":
            results, name, given = call_of(line)
            if name in entry.functions:
                f = entry.functions[name]
                yield from (((name, to), [(home, of)]) for to, of in zip(f.params, given))
                yield from (((home, to), [(name, of)]) for to, of in zip(results, f.results))
        elif "param" in line.op:
            parameter = home, next(a for a in line.args if a.startswith("[")).strip("[]").partition("+")[0]
            registers = _places(home, (a for a in line.args if not a.startswith("[")))
            yield from [(parameter, registers)] if line.op[0] == "st" else [(r, [parameter]) for r in registers]
        elif line.op[0] not in MEMORY and "[" not in line.text:
            sources = _places(home, line.args[1:3] if line.op[0] == "selp" else line.args[1:])
            yield from ((to, sources) for to in _places(home, line.args[:1]))

    def _spread(self, places: Iterable[Place]) -> None:
        """Note places, and all that their numbers go to."""
        new = [p for p in places if p not in self.places]
        while new:
            self.places.update(new)
            new = list({to for p in new for to in self.next.get(p, ()) if to not in self.places})

    def store(self, home: str, arg: str, at: np.ndarray | None) -> None:
        """Threads write registers to bytes of global memory, or (None) to another."""
        single = any(p in self.places for p in _places(home, [arg]))
        if at is None:
            self.elsewhere |= single
        else:
            self.bytes[at] = single

    def load(self, home: str, arg: str, at: np.ndarray | None) -> None:
        """Threads read registers from bytes of global memory, or (None) from another."""
        if self.elsewhere if at is None else self.bytes[at].any():
            self._spread(_places(home, [arg]))

    def add(self, home: str, args: Iterable[str], result: str, at: np.ndarray | None) -> None:
        """An atomic instruction reads bytes into a register and adds others to them."""
        self.load(home, result, at)
        if any(p in self.places for p in _places(home, args)):
            if at is None:
                self.elsewhere = True
            else:
                self.bytes[at] = True
