"""Row kernels with several rows under way: while one row is summed, the next is searched for its greatest element and
the one before is stored.

A row's loops wait for each other, and each leaves much of a core idle: the first reads memory, the second calculates,
the last writes. Here turn t of the loop over rows does the first loop of row t, the second of row t - 1 and so on, all
in one loop over their elements (softmax: 0.75 of the time). What lives from one loop to a later one is kept for as many
rows as lie between them.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Sequence

from hybrid.ir.index import Var

from .lanes import LaneLoop, copies, lane_loop

ROWS = 4                        # rows of a loop from which it pays
NEAR = 1 << 16                  # bytes of rows under way that stay in a core's own caches while functions are computed
FIRST = 3 << 12                 # and beside parameters and what is written in its first one
AHEAD = 1 << 11                 # floats between what is read and what is asked for
_NAME = r"[A-Za-z_]\w*"
_TYPES = "hy_vi|hy_v|hy_m|float|double|long|unsigned long|unsigned|int|short|unsigned short|signed char|unsigned char"
_DEFINED = re.compile(rf"(?:const )?({_TYPES}) ({_NAME} = .*);$")
_ARRAY = re.compile(rf"({_TYPES}) ({_NAME})(\[\d+\])( __attribute__.*)?;$")
_ASKED = re.compile(r"__builtin_prefetch\((.+) \+ (\d+) \* \d+\);$")          # what a later row will read
_CHANGED = re.compile(rf"({_NAME} (?:[-+*|]?=) .*|__builtin_prefetch.*|p\d+\[.*\] = .*);$")


@dataclass
class _Value:
    """A name that lives from its stage on: its C type, of an array its length and attributes, and how many stages later
    it is last used."""
    kind: str
    stage: int
    array: str = ""
    attributes: str = ""
    age: int = 0


def in_stages(row: Var, lines: Sequence[str], loops: Sequence[tuple[int, int, LaneLoop]], last: LaneLoop | None,
              width: int, fetch: str,
              pragma: str, item: int, far: bool, filled: bool) -> list[str] | None:
    """The loop over rows; None where its statements are of another form. lines: a row's statements; loops: the loops
    among them (where they begin and end, and of what); last: the loop behind them. fetch: a statement that asks for
    what the last loop will write. pragma: of threads that share the rows. item: bytes of an element; far: whether the
    arrays do not stay in the caches; filled: whether the result's lines come from afar before they are written.
    """
    stages = [LaneLoop(s.lane, [_asked(line) for line in s.lines], s.unroll)
              for s in (*(loop for _, _, loop in loops), *([last] if last else []))]
    if row.extent < ROWS or len(stages) < 2 or len({s.lane.extent for s in stages}) > 1:
        return None
    heavy = any("hyv_" in line for s in stages for line in s.lines)
    if stages[0].lane.extent * item * len(stages) > (NEAR if heavy else FIRST * 2 // 3 if filled
                                                     else FIRST) or far and not heavy and len(stages) == 2:
        return None
    ends = [0, *(end for _, end, _ in loops)]
    begins = [*(begin for begin, _, _ in loops), len(lines)]
    values: dict[str, _Value] = {}
    parts = [_assigned(lines[a:b], u, values) for u, (a, b) in enumerate(zip(ends, begins))]
    known = [p for p in parts if p is not None]
    if len(known) < len(parts) or any("for (" in line for s in stages for line in s.lines):
        return None
    return _Stages(row, known, stages, values, width, fetch).print(pragma)


def _asked(line: str) -> str:
    """A row that a later turn reads is asked for sooner, as the first stage reads one that is further than the
    statement's own, and into the second cache."""
    found = _ASKED.match(line)
    return f"__builtin_prefetch({found[1]} + {found[2]} * {max(3, AHEAD // int(found[2]))}, 0, 2);" if found else line


def _assigned(lines: Sequence[str], stage: int, values: dict[str, _Value]) -> list[str] | None:
    """A row's statements between two loops, its definitions as assignments; None where one is of another form."""
    out = []
    for line in lines:
        if array := _ARRAY.match(line):
            values[array[2]] = _Value(array[1], stage, array[3], array[4] or "")
        elif found := _DEFINED.match(line):
            for part in _parts(found[2]):
                name, value = part.split(" = ", 1)
                values[name] = _Value(found[1], stage)
                out.append(f"{name} = {f'({found[1]}){value}' if value.startswith('{') else value};")
        elif _CHANGED.match(line) and "{" not in line:
            out.append(line)
        else:
            return None
    return out


def _parts(text: str) -> list[str]:
    """What commas outside of brackets separate."""
    out, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            out.append("")
        else:
            out[-1] += c
    return [part.strip() for part in out]


class _Stages:
    def __init__(self, row: Var, parts: list[list[str]], stages: list[LaneLoop], values: dict[str, _Value], width: int,
                 fetch: str):
        self.row, self.parts, self.stages, self.values, self.width, self.fetch = (row, parts, stages, values, width,
                fetch)
        self.words = re.compile(rf"\b({'|'.join(values)})\b") if values else None
        self.turns = max(s.unroll for s in stages)
        self.whole = stages[0].lane.extent // (self.turns * width) * self.turns * width
        self.bodies = [[s for q in range(stage.unroll) for s in copies(stage.lines, q)] for stage in stages]
        for u, part in enumerate(parts):
            for line in [*part, *(self.bodies[u] if u < len(stages) else ())]:
                for name in self.words.findall(line) if self.words else ():
                    values[name].age = max(values[name].age, u - values[name].stage)

    def _older(self, stage: int, lines: Sequence[str]) -> list[str]:
        """A stage's statements, which use values of its own row."""
        def named(m: re.Match[str]) -> str:
            return _aged(m[0], stage - self.values[m[0]].stage)
        return [self.words.sub(named, line) for line in lines] if self.words else list(lines)

    def _of_row(self, stage: int, lines: Sequence[str]) -> list[str]:
        return [f"{{ const long {self.row.name} = t_ - {stage};", *("  " + s for s in self._older(stage, lines)), "}"]

    def print(self, pragma: str) -> list[str]:
        """The loop over rows, in as many parts as threads may take."""
        body = [*self._kept(), f"for (long t_ = from_; t_ < to_ + {len(self.parts) - 1}; t_++) {{",
                *("  " + s for s in self._turn()), "}"]
        n = self.row.extent
        if not pragma:
            return [f"{{ const long from_ = 0, to_ = {n};", *("  " + s for s in body), "}"]
        return [f"const long parts_ = hy_threads < {n // ROWS} ? hy_threads : {n // ROWS};", pragma,
                "for (long part_ = 0; part_ < parts_; part_++) {",
                f"  const long from_ = {n} * part_ / parts_, to_ = {n} * (part_ + 1) / parts_;",
                *("  " + s for s in body), "}"]

    def _kept(self) -> list[str]:
        out = []
        for name, v in self.values.items():
            names = [_aged(name, a) for a in range(v.age + 1)]
            if v.array:
                out.append(f"{v.kind} {name}_of[{v.age + 1}]{v.array}{v.attributes};")
                out.append(f"{v.kind} " + ", ".join(f"*{n} = {name}_of[{a}]" for a, n in enumerate(names)) + ";")
            else:
                out.append(f"{v.kind} " + ", ".join(f"{n} = {{0}}" for n in names) + ";")
        return out

    def _turn(self) -> list[str]:
        """Values grow older by a row; what stands before each loop; the loops."""
        out = []
        for name, v in self.values.items():
            names = [_aged(name, a) for a in range(v.age + 1)]
            moves = " ".join(f"{to} = {of};" for of, to in reversed(list(zip(names, names[1:]))))
            if v.age:
                out.append(f"{{ {v.kind} *last_ = {names[-1]}; {moves} {name} = last_; }}" if v.array else moves)
        active = [f"t_ >= from_ + {u} && t_ < to_ + {u}" for u in range(len(self.parts))]
        for u, part in enumerate(self.parts):
            if part:
                out += [f"if ({active[u]})", *self._of_row(u, part)]
        out += [f"if (t_ >= from_ + {len(self.stages) - 1} && t_ < to_) {{", *("  " + s for s in self._together()),
                "} else {"]
        for u, stage in enumerate(self.stages):
            out += [f"  if ({active[u]})", *("  " + s
                                             for s in self._of_row(u,
                                                                   lane_loop(stage.lane, stage.lines, self.width,
                    stage.unroll)))]
        return [*out, "}"]

    def _together(self) -> list[str]:
        """All stages in one loop, each at its own row."""
        out = []
        if self.whole:
            out.append(f"for (long b_ = 0; b_ < {self.whole}; b_ += {self.turns * self.width}) {{")
            if self.fetch:
                for q in range(self.turns):
                    out += ["  " + s for s in self._at(len(self.stages) - 2, self.stages[-1], [self.fetch], q)]
            for u, stage in enumerate(self.stages):
                for q in range(self.turns):
                    out += ["  " + s for s in self._at(u, stage, copies(stage.lines, q % stage.unroll), q)]
            out.append("}")
        for u, stage in enumerate(self.stages):
            rest = lane_loop(stage.lane, stage.lines, self.width, stage.unroll,
                             start=self.whole) if self.whole < stage.lane.extent else []
            out += self._of_row(u, rest) if rest else []
        return out

    def _at(self, u: int, stage: LaneLoop, lines: Sequence[str], q: int) -> list[str]:
        return [f"{{ const long {self.row.name} = t_ - {u}, {stage.lane.name} = b_ + {q * self.width};",
                *("  " + s for s in self._older(u, lines)), "}"]


def _aged(name: str, age: int) -> str:
    return f"{name}_o{age}" if age else name
