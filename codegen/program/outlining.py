"""Printed C without OpenMP: each parallel region becomes a function of its own, which a team of threads calls
(kernels/export/team.h), and memory of a thread's own lies in the caller's workspace.

The texts that the printers make have regions of two kinds, ``#pragma omp parallel for`` before a loop and ``#pragma omp
parallel`` before a statement with ``#pragma omp for`` loops in it. What a region reads of its surroundings is passed in
a structure.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field

from .declarations import Declared, declared_in

TEAM = "const hy_team *hy"
_PARALLEL = re.compile(r"^(\s*)#pragma omp parallel( for)?( simd)?(?:.*?num_threads\((.*?)\))??(?: if \((.*)\))?\s*$")
_SHARED = re.compile(r"^(\s*)#pragma omp for( simd)?.*$")
_SINGLE = re.compile(r"^(\s*)#pragma omp single.*$")
_LOOP = re.compile(r"^(\s*)for \(long (\w+) = (.*?); \2 < (.*?); (?:\2\+\+|\2 \+= (\w+))\)(?: |$)")
_THREADS = re.compile(r"^ *#pragma omp (?!simd).*\n", re.MULTILINE)
_LARGE = re.compile(r"(\w+(?: \w+)?) \*(\w+) __attribute__\(\(cleanup\(hy_free\)\)\) = \(\1 \*\)hy_large\((\d+)l\);")
_NAME = re.compile(r"[A-Za-z_]\w*")
_HEAD = re.compile(r"^(?:static |HY_FN )[^=;]*?\b(\w+)\(([^;]*)\) \{", re.MULTILINE)
CACHE_LINE = 64


@dataclass
class Function:
    """A function of a printed text: its lines, from the head to the closing brace."""
    name: str
    lines: list[str]

    @property
    def body(self) -> str:
        """All lines after the head."""
        return "\n".join(self.lines[1:])


@dataclass
class Outlined:
    """A text without pragmas for threads. own: bytes that each thread has in the workspace."""
    text: str
    own: int = 0
    with_team: set[str] = field(default_factory=set)


def without_threads(text: str) -> str:
    """A printed text for one thread: without pragmas of OpenMP that make or divide work among threads."""
    return _THREADS.sub("", text)


def statement_end(lines: list[str], at: int) -> int:
    """The line after the statement that begins at a line."""
    depth = 0
    for i in range(at, len(lines)):
        depth += lines[i].count("{") - lines[i].count("}")
        if depth == 0 and lines[i].rstrip().endswith((";", "}")):
            return i + 1
    raise ValueError(f"a statement of a printed program does not end: {lines[at]!r}")


def functions(text: str) -> list[Function | str]:
    """A printed text as its functions, and what stands between them."""
    out: list[Function | str] = []
    lines, at = text.split("\n"), 0
    while at < len(lines):
        head = re.match(r"(?:HY_APART )?(?:static|void) .*?\b(\w+)\(.*\) \{", lines[at])
        if head is None or "=" in lines[at].split("(")[0]:
            out.append(lines[at])
            at += 1
            continue
        end = statement_end(lines, at)
        out.append(Function(head[1], lines[at:end]))
        at = end
    return out


class Outliner:
    """Makes the functions of a text free of OpenMP.

    names: of functions outside of the text that take the team as well.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.own = 0

    # ---- whole texts
    def run(self, text: str) -> Outlined:
        """The text with regions as functions; every function that has one, or calls one that does, takes the team."""
        text = _LARGE.sub(self._memory, text)
        parts = functions(text)
        wanted = _with_team([p for p in parts if isinstance(p, Function)])
        out = []
        for p in parts:
            if isinstance(p, str):
                out.append(_declared_with_team(p, wanted))
                continue
            lines = p.lines
            if p.name in wanted:
                lines = self._function(Function(p.name, _calls_with_team(lines, wanted)))
            out.append("\n".join(lines))
        return Outlined("\n".join(out), self.own, wanted)

    def _memory(self, m: re.Match[str]) -> str:
        """An array that is too large for a stack, in the thread's own part of the workspace."""
        at, self.own = self.own, self.own + -(-int(m[3]) // CACHE_LINE) * CACHE_LINE
        return f"{m[1]} *{m[2]} = ({m[1]} *)(void *)(hy->own + {at}l);"

    # ---- one function
    def _function(self, f: Function) -> list[str]:
        head, lines = f.lines[0], f.lines[1:]
        self.parts = []
        out: list[str] = []
        at = 0
        while at < len(lines):
            m = _PARALLEL.match(lines[at])
            if m is None:
                at = self._plain(lines, at, out)
                continue
            end = statement_end(lines, at + 1)
            out += self._region(f.name, [head, *lines[:at]], m, lines[at + 1:end])
            at = end
        text = [*self.parts, head, *out]
        return [re.sub(r"\bhy_threads\b", "hy->threads", line) for line in text]

    def _plain(self, lines: list[str], at: int, out: list[str]) -> int:
        """A line outside of regions; of a function that is called within one, its shared loops."""
        shared, single = _SHARED.match(lines[at]), _SINGLE.match(lines[at])
        if shared is None and single is None:
            out.append(lines[at])
            return at + 1
        end = statement_end(lines, at + 1)
        out += _divided(lines[at + 1:end], bool(shared and shared[2])) if shared else _first(lines[at + 1:end])
        return end

    def _region(self, name: str, before: list[str], m: re.Match[str], statement: list[str]) -> list[str]:
        indent, loop, simd, count, condition = m.groups()
        count = f"({condition}) ? {count or 'hy_threads'} : 1" if condition else count or "hy_threads"
        statement = _alone(statement)
        inside = _divided(statement, bool(simd)) if loop else self._shared(statement)
        body = "\n".join(statement)
        words = set(_NAME.findall(body))
        taken = [d for d in declared_in("\n".join(before)) if d.name in words and d.name != "hy"]
        part, kind = f"{name}_part{len(self.parts) or ''}", f"struct {name}_shared{len(self.parts) or ''}"
        self.parts.append("\n".join([*_structure(kind, taken),
                                     f"static void {part}(const void *hy_given, {TEAM}) {{",
                                     *_unpacked(kind, taken), *inside, "}"]))
        values = ", ".join(d.name for d in taken) or "0"
        return [f"{indent}{{", f"{indent}  const {kind} hy_shared = {{{values}}};",
                f"{indent}  hy_run(hy, {part}, &hy_shared, {count});", f"{indent}}}"]

    def _shared(self, statement: list[str]) -> list[str]:
        """A statement that every thread runs: its shared loops are divided."""
        out: list[str] = []
        at = 0
        while at < len(statement):
            at = self._plain(statement, at, out)
        return out


def _alone(statement: list[str]) -> list[str]:
    """A region's statement without regions in it: a thread runs those alone."""
    out: list[str] = []
    at = 0
    while at < len(statement):
        m = _PARALLEL.match(statement[at])
        if m is None:
            out.append(statement[at])
            at += 1
            continue
        end = statement_end(statement, at + 1)
        out += [f"{m[1]}#pragma omp simd"] if m[3] else []
        inner = _alone(statement[at + 1:end])
        out += inner if m[2] else [line for line in inner if not (_SHARED.match(line) or _SINGLE.match(line))]
        at = end
    return out


def _structure(kind: str, taken: list[Declared]) -> list[str]:
    members = [f"{d.member};" for d in taken] or ["char nothing;"]
    return [f"{kind} {{ {' '.join(members)} }};"]


def _unpacked(kind: str, taken: list[Declared]) -> list[str]:
    if not taken:
        return ["  (void)hy_given, (void)hy;"]
    return [f"  const {kind} *const hy_shared = (const {kind} *)hy_given;", "  (void)hy;",
            *(f"  {d.constant} = hy_shared->{d.name};" for d in taken)]


def _divided(loop: list[str], simd: bool) -> list[str]:
    """A loop of which each thread does its share: the first iterations by the first thread, as OpenMP's static
    schedule."""
    m = _LOOP.match(loop[0])
    if m is None:
        raise ValueError(f"a parallel loop of a printed program has another form: {loop[0]!r}")
    indent, v, first, bound, step = m.groups()
    start = "" if first == "0" else f"({first}) + "
    count = bound if not start else f"({bound}) - ({first})"
    begin, end = (f"{start}{x}" + (f" * {step}" if step else "") for x in ("hy_begin", "hy_end"))
    if step:
        count, stop, advance = (f"(({count}) + {step} - 1) / {step}", f"{v} < {end} && {v} < {bound}", f"{v} += {step}")
    else:
        stop, advance = f"{v} < {end}", f"{v}++"
    rest = loop[0][m.end():]
    return [f"{indent}{{", f"{indent}long hy_begin, hy_end;", f"{indent}hy_divide({count}, hy, &hy_begin, &hy_end);",
            *([f"{indent}#pragma omp simd"] if simd else []),
            f"{indent}for (long {v} = {begin}; {stop}; {advance}) {rest}", *loop[1:], f"{indent}}}"]


def _first(statement: list[str]) -> list[str]:
    """A statement that one thread runs."""
    return ["  if (hy->number == 0) {", *statement, "  }"]


def _with_team(found: list[Function]) -> set[str]:
    """Names of functions that have to know the team, or that call such functions."""
    wanted = {f.name for f in found if re.search(r"\bhy_threads\b|#pragma omp (?:parallel|for|single)|\bhy->", f.body)}
    grown = True
    while grown:
        more = {f.name for f in found if f.name not in wanted and any(
            re.search(rf"\b{w}\(", f.body) for w in wanted)}
        wanted |= more
        grown = bool(more)
    return wanted


def _calls_with_team(lines: list[str], wanted: set[str]) -> list[str]:
    """Calls, and the function's own head, with the team as the first argument."""
    head = re.sub(r"(\b\w+)\((.*)\) \{", lambda m: f"{m[1]}({TEAM}, {m[2]}) {{", lines[0], count=1)
    calls = re.compile(rf"\b({'|'.join(sorted(wanted, key=len, reverse=True))})\(")
    return [head, *(calls.sub(r"\1(hy, ", line) for line in lines[1:])]


def _declared_with_team(line: str, wanted: set[str]) -> str:
    """A declaration of a function before its text."""
    m = re.match(r"(?:HY_APART )?static .*?\b(\w+)\(", line)
    return line[:m.end()] + f"{TEAM}, " + line[m.end():] if m is not None and m[1] in wanted else line
