"""The PTX that NVRTC makes of a CUDA text, as instructions of its kernels for tests/cuda/ptx.py."""
from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from hybrid.runtime.cuda import nvrtc, sources


class PtxError(Exception):
    """An instruction that is not known, or a kernel that does what PTX does not define."""


class TooLong(PtxError):
    """A kernel that executes more instructions than it may."""


@dataclass
class Line:
    """An instruction: guard (with ! where it is negated), opcode's parts, operands, the function that it is of."""
    guard: str
    op: list[str]
    args: list[str]
    text: str
    home: str


@dataclass
class Function:
    """What a kernel calls: parameters, results, where its instructions begin."""
    params: list[str]
    results: list[str]
    first: int


@dataclass
class Entry:
    """A kernel and the functions it may call: instructions, the index of each label, offsets of shared arrays, of those
    of each thread and of constant ones, bytes of them; types of registers, by function and (begin of a) name."""
    name: str
    params: list[str]
    lines: list[Line] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    size: int = 0
    local: dict[str, int] = field(default_factory=dict)
    depth: int = 0
    functions: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    table: bytes = b""
    registers: dict[tuple[str, str], str] = field(default_factory=dict)


def arch_of(text: str) -> str:
    """For what a text is compiled: other architectures have other forms of it."""
    return "compute_90a" if any(w in text for w in ("hy_wgmma", "hy_mbarrier", "_registers<")) else "compute_80"


def compile_ptx(source: str) -> str:
    """The PTX of a CUDA text."""
    flags = (f"--gpu-architecture={arch_of(source)}", "--std=c++17", "--ftz=false")
    return nvrtc._compile(source, "kernel.cu", flags, sources.device_headers())[0].rstrip(b"\0").decode()


def split(operands: str) -> list[str]:
    """Operands, with vectors in braces and addresses in brackets whole."""
    return [a.strip() for a in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", operands)]


# arrays with their values; instructions in braces, with registers of their own
_CONSTANT = re.compile(r"\.(?:global|const) \.align \d+ \.[a-z](\d+) (\w+)\[\d+\] = \{([^}]*)\};")
_SCOPE = re.compile(r"\{((?:[^{};]*(?:\{[^{};]*\}[^{};]*)*;)+)\s*\}")
_BODY = re.compile(r"\.(entry|func)\s+(?:\(([^)]*)\)\s*)?(\w+)\s*\(([^)]*)\)([^;{]*)\{(.*?)\n\}", re.S)


def names(parameters: str) -> list[str]:
    """The names of parameters, without their types."""
    return [p.split("[")[0].split()[-1] for p in (parameters or "").split(",") if p.strip()]


def call_of(line: Line) -> tuple[list[str], str, list[str]]:
    """The parts of a call: where results go, what is called, the parameters."""
    found = re.match(r"@?\S* ?call\S* (?:\(([^)]*)\) ?, ?)?(\w+)(?: ?, ?\(([^)]*)\))?$", line.text)
    if not found:
        raise PtxError(f"no instruction {line.text}")
    return names(found[1] or ""), found[2], names(found[3] or "")


def _place(e: Entry, body: str) -> None:
    """Places for the arrays of a text in shared memory and in that of each thread."""
    found = re.findall(r"\.shared \.align (\d+) \.[a-z]+(\d+) ([^\s\[;]+)(?:\[(\d+)\])?;", body)
    for align, bits, name, count in found:
        e.size = -(-e.size // int(align)) * int(align)
        e.shared[name], e.size = e.size, e.size + int(bits) // 8 * int(count or 1)
    for name, count in re.findall(r"\.local \.align \d+ \.b8\s+(\w+)\[(\d+)\];", body):
        e.local[name], e.depth = e.depth, e.depth + -(-int(count) // 16) * 16
    for bits, name, values in _CONSTANT.findall(body):
        e.table += b"\0" * (-len(e.table) % 16)
        e.constants[name] = len(e.table)
        e.table += b"".join(int(v).to_bytes(int(bits) // 8, "little") for v in values.split(","))


def _alone(scopes: Iterator[int], found: re.Match[str]) -> str:
    """A part of a function with registers and labels of its own, whose names then stand for them alone."""
    text, number = found[1], next(scopes)
    for label in re.findall(r"(?<![\w:.$])([A-Za-z_]\w*):(?!:)", text):
        text = re.sub(rf"(?<![\w.]){label}\b(?!::)", f"{label}_{number}", text)
    text = re.sub(r"(?<![\w:.$])([A-Za-z_]\w*:)(?!:)", r"\n\1\n", text)
    for declared in re.findall(r"\.reg \.\w+\s+([^;]+);", text):
        for name in map(str.strip, declared.split(",")):
            begin, many, _ = name.partition("<")
            text = re.sub(rf"(?<![\w%]){re.escape(begin)}" + (r"(?=[\d<])" if many else r"(?!\w)"),
                          f"%{begin.lstrip('%')}_{number}_" if many else f"%{begin.lstrip('%')}_{number}", text)
    return text


def _put(e: Entry, home: str, body: str) -> None:
    """Append the instructions of a kernel or of a function."""
    scopes, before = itertools.count(), ""
    while body != before:
        before, body = body, _SCOPE.sub(partial(_alone, scopes), body)
    for statement in re.findall(r"[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*;", re.sub(r"^(\$?\w+:)", r"\1;", body, flags=re.M)):
        s = " ".join(statement.split()).rstrip(";").strip()
        if s.endswith(":"):
            e.labels[s[:-1]] = len(e.lines)
        elif s.startswith(".reg"):
            kind, registers = s[6:].split(None, 1)
            e.registers.update({(home, name.strip().partition("<")[0]): kind for name in registers.split(",")})
        elif s and not s.startswith("."):
            g = re.match(r"@(!?%\w+) (.*)", s)
            op, _, rest = (g[2] if g else s).partition(" ")
            e.lines.append(Line(g[1] if g else "", op.split("."), split(rest), s, home))


def _called(body: str, bodies: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The functions that a kernel calls, those that they call as well, in the order of the text."""
    reached, new = set(), {body}
    while new:
        words = {w for b in new for w in re.findall(r"[\w$]+", b)}
        new = {f[5] for f in bodies if f[0] == "func" and f[2] in words} - reached
        reached |= new
    return [f for f in bodies if f[5] in reached]


def parse(text: str) -> dict[str, Entry]:
    """The kernels of a PTX text."""
    text = re.sub(r"//[^\n]*", "", text)
    dynamic = re.findall(r"\.extern \.shared \.align \d+ \.b8 ([\w$]+)\[\]", text)
    bodies = [m.groups() for m in _BODY.finditer(text)]
    outside = _BODY.sub("", text)
    entries: dict[str, Entry] = {}
    for kind, _, name, params, _, body in bodies:
        if kind == "entry":
            e = entries[name] = Entry(name, names(params))
            _put(e, name, body)
            functions = _called(body, bodies)
            for part in (outside, body, *(f[5] for f in functions)):
                _place(e, part)
            e.size = -(-e.size // 1024) * 1024
            e.shared |= dict.fromkeys(dynamic, e.size)
            for _, results, called, given, _, inner in functions:
                e.functions[called] = Function(names(given), names(results or ""), len(e.lines))
                _put(e, called, inner)
    return entries
