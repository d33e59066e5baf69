"""To which type the numbers of a kernel that tests/cuda/ptx.py runs were rounded on their way: a double that was
computed in float32 is as near to another compiler's as a float is, a float that was a half as a half is.

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
COARSER = ("double", "float", "hy_half", "hy_bf16")        # types, as texts name them, with ever fewer digits
MEMORY = {"st", "red", "setp", "bra", "ret", "exit", "bar", "barrier"}        # nothing goes from operand to operand


def rounds_to(line: Line) -> int:
    """The place in COARSER of the type to which an instruction rounds; 1 where it widens floats, 0 where it does
    neither."""
    if line.op[0] != "cvt" or line.op[-1] != "f32":
        return 0
    return {"f64": 1, "f16": 2, "f16x2": 2, "bf16": 3, "bf16x2": 3}.get(line.op[-2], 0)


def _places(home: str, args: Iterable[str]) -> list[Place]:
    return [(home, name) for arg in args for name in re.findall(r"%\w+", arg)]


class Roundings:
    """The coarsest type to which the numbers of a launch were rounded: of registers and parameters, of bytes of global
    memory, of any other memory. As numbers: places of COARSER, 0 for none."""

    def __init__(self, entry: Entry, memory: np.ndarray):
        self.bytes, self.elsewhere = memory, 0             # of what was launched before too
        self.places: dict[Place, int] = {}
        self.next: dict[Place, list[Place]] = {}           # where the number of a place goes
        for line in entry.lines:
            for to, sources in self._moved(entry, line):
                for source in sources:
                    self.next.setdefault(source, []).append(to)
        for line in entry.lines:
            if line.op[0] in ROUNDED and "f32" in line.op or line.op[0] == "cvt" and line.op[-2:] == ["f32", "f64"]:
                self._spread(_places(line.home, line.args[:1]), 1)
        for line in entry.lines:
            level = rounds_to(line)
            if level > 1 and self.of(line.home, line.args[1:]):        # else it was no float before
                self._spread(_places(line.home, line.args[:1]), level)

    @staticmethod
    def _moved(entry: Entry, line: Line) -> Iterable[tuple[Place, list[Place]]]:
        """The places that an instruction writes, each with the places from which its number comes."""
        home = line.home
        if line.op[0] == "call":
            results, name, given = call_of(line)
            if name in entry.functions:
                f = entry.functions[name]
                yield from (((name, to), [(home, of)]) for to, of in zip(f.params, given))
                yield from (((home, to), [(name, of)]) for to, of in zip(results, f.results))
        elif "param" in line.op and line.op[0] != "cvta":
            parameter = home, next(a for a in line.args if a.startswith("[")).strip("[]").partition("+")[0]
            registers = _places(home, (a for a in line.args if not a.startswith("[")))
            yield from [(parameter, registers)] if line.op[0] == "st" else [(r, [parameter]) for r in registers]
        elif line.op[0] not in MEMORY and "[" not in line.text:
            sources = _places(home, line.args[1:3] if line.op[0] == "selp" else line.args[1:])
            yield from ((to, sources) for to in _places(home, line.args[:1]))

    def _spread(self, places: Iterable[Place], level: int) -> None:
        """Note a rounding for places, and for all places that their numbers go to."""
        new = list(places)
        while new:
            new = [p for p in new if self.places.get(p, 0) < level]
            self.places.update(dict.fromkeys(new, level))
            new = list({to for p in new for to in self.next.get(p, ())})

    def of(self, home: str, args: Iterable[str]) -> int:
        """The coarsest rounding of what operands hold."""
        return max((self.places.get(p, 0) for p in _places(home, args)), default=0)

    def store(self, home: str, arg: str, at: np.ndarray | None) -> None:
        """Threads write registers to bytes of global memory, or (None) to another."""
        level = self.of(home, [arg])
        if at is None:
            self.elsewhere = max(self.elsewhere, level)
        else:
            self.bytes[at] = level

    def load(self, home: str, arg: str, at: np.ndarray | None) -> None:
        """Threads read registers from bytes of global memory, or (None) from another."""
        level = self.elsewhere if at is None else int(self.bytes[at].max(initial=0))
        if level:
            self._spread(_places(home, [arg]), level)

    def add(self, home: str, args: Iterable[str], result: str, at: np.ndarray | None) -> None:
        """An atomic instruction reads bytes into a register and adds others to them."""
        self.load(home, result, at)
        level = self.of(home, args)
        if at is None:
            self.elsewhere = max(self.elsewhere, level)
        else:
            self.bytes[at] = np.maximum(self.bytes[at], level)
