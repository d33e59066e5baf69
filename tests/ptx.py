"""Runs the PTX that NVRTC gives, thread by thread in NumPy: an oracle of kernels that shares nothing with the emulator.

All threads of a block that stand at one instruction execute it together, those that are furthest behind first. Written
from NVIDIA's "PTX ISA 8.5"; an instruction that is not known is an error. For small grids: an instruction of a block
takes some microseconds.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybrid.runtime.cuda import nvrtc, sources
from hybrid.runtime.cuda.emulator import EmulatorDriver
from hybrid.runtime.cuda.interface import Launch, Module, Plan, checked

GLOBAL, GAP = 1 << 32, 1024
KINDS: dict[str, Any] = {"s8": np.int8, "u8": np.uint8, "b8": np.uint8, "s16": np.int16, "u16": np.uint16,
                         "b16": np.uint16, "s32": np.int32, "u32": np.uint32, "b32": np.uint32, "s64": np.int64,
                         "u64": np.uint64, "b64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
                         "pred": np.bool_}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
REGISTERS = {"%p": np.bool_, "%rs": np.uint16, "%r": np.uint32, "%rd": np.uint64, "%f": np.float32, "%fd": np.float64,
             "%h": np.uint16}
SPECIAL = ("%tid.x", "%ctaid.x", "%ntid.x", "%nctaid.x", "%laneid")


class PtxError(Exception):
    """An instruction that is not known, or a kernel that does what PTX does not define."""


@dataclass
class Line:
    """An instruction: guard (with ! where it is negated), opcode's parts, operands."""
    guard: str
    op: list[str]
    args: list[str]
    text: str


@dataclass
class Entry:
    """A kernel: its instructions, the index of each label, offsets of its shared arrays, bytes of them."""
    name: str
    params: list[str]
    lines: list[Line] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    size: int = 0


def compile_ptx(source: str, arch: str = "compute_80") -> str:
    """The PTX of a CUDA text."""
    flags = (f"--gpu-architecture={arch}", "--std=c++17", "--ftz=false")
    return nvrtc._compile(source, "kernel.cu", flags, sources.device_headers())[0].rstrip(b"\0").decode()


def split(operands: str) -> list[str]:
    """Operands, with vectors in braces and addresses in brackets whole."""
    return [a.strip() for a in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", operands)]


def parse(text: str) -> dict[str, Entry]:
    """The kernels of a PTX text."""
    entries: dict[str, Entry] = {}
    dynamic = re.findall(r"\.extern \.shared \.align \d+ \.b8 (\w+)\[\]", text)
    for m in re.finditer(r"\.entry (\w+)\((.*?)\)(.*?)\n\}", re.sub(r"//[^\n]*", "", text), re.S):
        e = entries[m[1]] = Entry(m[1], re.findall(r"(\w+)(?:,|$)", m[2].replace("\n", "")))
        body = re.sub(r"^(\$?\w+:)", r"\1;", m[3][m[3].index("{") + 1:], flags=re.M)
        for s in re.findall(r"\.shared \.align (\d+) \.b8 (\S+)\[(\d+)\];", body):
            e.size = -(-e.size // int(s[0])) * int(s[0])
            e.shared[s[1]], e.size = e.size, e.size + int(s[2])
        e.size = -(-e.size // 128) * 128
        e.shared |= dict.fromkeys(dynamic, e.size)
        for statement in re.findall(r"[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*;", body):
            s = " ".join(statement.split()).rstrip(";").strip()
            if s.endswith(":"):
                e.labels[s[:-1]] = len(e.lines)
            elif s and not s.startswith("."):
                g = re.match(r"@(!?%p\d+) (.*)", s)
                op, _, rest = (g[2] if g else s).partition(" ")
                e.lines.append(Line(g[1] if g else "", op.split("."), split(rest), s))
    return entries


class Block:
    """The threads of one block: registers, where each stands, memory."""

    def __init__(self, entry: Entry, memory: np.ndarray, params: dict[str, int], index: int, grid: int, threads: int,
                 dynamic: int):
        self.entry, self.memory, self.params, self.threads = entry, memory, params, threads
        self.shared = np.full(entry.size + dynamic + 16, 0xFF, np.uint8)
        self.registers: dict[str, np.ndarray] = {}
        lanes = np.arange(threads, dtype=np.uint32)
        values = (lanes, index, threads, grid, lanes % 32)
        for name, value in zip(SPECIAL, values):
            self.registers[name] = np.broadcast_to(np.asarray(value, np.uint32), threads).copy()
        self.at = np.zeros(threads, np.int64)
        self.done, self.waiting = np.zeros(threads, bool), np.zeros(threads, bool)
        self.copies: list[tuple[int, np.ndarray, np.ndarray, int, np.ndarray]] = []
        self.group = 0
        self.who = np.arange(threads)

    # ---- operands
    def register(self, name: str) -> np.ndarray:
        """A register of all threads."""
        if name not in self.registers:
            kind = next((k for prefix, k in sorted(REGISTERS.items(), key=lambda p: -len(p[0]))
                         if re.fullmatch(re.escape(prefix) + r"\d+", name)), None)
            if kind is None:
                raise PtxError(f"no register {name}")
            self.registers[name] = np.zeros(self.threads, kind)
        return self.registers[name]

    def get(self, arg: str, kind: str) -> np.ndarray:
        """An operand of the threads that execute, as a type of PTX."""
        dtype = np.dtype(KINDS[kind])
        if arg.startswith("%"):
            v = self.register(arg)[self.who]
            if v.dtype == dtype or dtype == np.bool_:
                return v
            v = v.view(UNSIGNED[v.dtype.itemsize])
            return (v if v.dtype.itemsize == dtype.itemsize else v.astype(UNSIGNED[dtype.itemsize])).view(dtype)
        if re.match(r"0[fF][0-9a-fA-F]{8}$", arg):
            value = np.array(int(arg[2:], 16), np.uint32).view(np.float32)
        elif re.match(r"0[dD][0-9a-fA-F]{16}$", arg):
            value = np.array(int(arg[2:], 16), np.uint64).view(np.float64)
        elif arg in self.entry.shared:
            value = np.array(self.entry.shared[arg], np.uint64)
        else:
            bits = int(arg.rstrip("U"), 0) & (1 << 8 * dtype.itemsize) - 1
            value = np.array(bits, UNSIGNED[dtype.itemsize]).view(dtype) if dtype != np.bool_ else np.array(bool(bits))
        return np.broadcast_to(value.astype(dtype), len(self.who))

    def set(self, arg: str, value: np.ndarray) -> None:
        """Write a register of the threads that execute, bit for bit."""
        if arg == "_":
            return
        r = self.register(arg)
        value = np.asarray(value)
        if value.dtype != r.dtype and r.dtype != np.bool_:
            bits = value.view(UNSIGNED[value.dtype.itemsize])
            value = bits.astype(UNSIGNED[r.dtype.itemsize]).view(r.dtype)
        r[self.who] = value

    def address(self, arg: str) -> np.ndarray:
        """The address in brackets."""
        name, _, offset = arg.strip("[]").replace("+-", "+ -").partition("+")
        base = self.get(name.strip(), "u32" if re.fullmatch(r"%r\d+", name.strip()) else "u64").astype(np.int64)
        return base + int(offset.replace(" ", "") or "0")

    def place(self, space: str, at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """A memory, and where in it the bytes of each thread are."""
        memory = self.shared if space == "shared" else self.memory
        start = at if space == "shared" else at - GLOBAL
        if (at % size).any():
            raise PtxError(f"{size} bytes at a misaligned address")
        if (start < 0).any() or (start + size > len(memory)).any():
            raise PtxError(f"an access outside of {space} memory")
        return memory, start[:, None] + np.arange(size)

    # ---- running
    def run(self) -> None:
        """To the end of all threads."""
        lines = self.entry.lines
        for _ in range(2_000_000):
            ready = ~self.done & ~self.waiting
            if not ready.any():
                if self.done.all():
                    return
                self.waiting[:] = False                    # all that are left came to the barrier
                continue
            pc = int(self.at[ready].min())
            if pc >= len(lines):
                raise PtxError("a thread ran past the end")
            here = np.flatnonzero(ready & (self.at == pc))
            line = lines[pc]
            self.at[here] = pc + 1
            if line.guard:
                holds = self.register(line.guard.lstrip("!"))[here] != line.guard.startswith("!")
                here = here[holds]
            if len(here):
                self.who = here
                self.step(line)
        raise PtxError("a kernel does not end")

    def step(self, line: Line) -> None:
        """One instruction of the threads that stand there."""
        op, args = line.op, line.args
        if op[0] == "bra":
            self.at[self.who] = self.entry.labels[args[0]]
        elif op[0] in ("ret", "exit"):
            self.done[self.who] = True
        elif op[0] in ("bar", "barrier"):
            self.waiting[self.who] = True
        elif op[0] not in _STEPS:
            raise PtxError(f"no instruction {line.text}")
        else:
            with np.errstate(all="ignore"):
                _STEPS[op[0]](self, op, args)


class Memory:
    """Arrays in one memory, with gaps between that hold NaN; ``close`` writes them back."""

    def __init__(self, arrays: dict[int, np.ndarray]):
        self.arrays, self.starts, end = sorted(arrays.items()), [], GAP
        for _, a in self.arrays:
            self.starts.append(end)
            end += -(-a.nbytes // 256) * 256 + GAP
        self.bytes = np.full(end, 0xFF, np.uint8)
        for start, (_, a) in zip(self.starts, self.arrays):
            self.bytes[start:start + a.nbytes] = _raw(a)

    def address(self, pointer: int) -> int:
        """Where a pointer into one of the arrays points, for kernels."""
        for start, (at, a) in zip(self.starts, self.arrays):
            if at <= pointer < at + max(1, a.nbytes):
                return GLOBAL + start + pointer - at
        raise PtxError(f"no array holds {pointer:#x}")

    def launch(self, entry: Entry, launch: Launch, pointers: Sequence[int]) -> None:
        """One block after the other."""
        params = {name: self.address(p) for name, p in zip(entry.params, pointers)}
        for index in range(launch.grid[0]):
            Block(entry, self.bytes, params, index, launch.grid[0], launch.block[0], launch.shared).run()

    def close(self) -> None:
        """The gaps must be as they were."""
        for start, (_, a) in zip(self.starts, self.arrays):
            _raw(a)[:] = self.bytes[start:start + a.nbytes]
            self.bytes[start:start + a.nbytes] = 0xFF
        if (self.bytes != 0xFF).any():
            raise PtxError("a kernel wrote outside of its arrays")


def _raw(a: np.ndarray) -> np.ndarray:
    raw = a.reshape(-1).view(np.uint8) if a.ndim else a.reshape(1).view(np.uint8)
    if a.size and not np.shares_memory(raw, a):
        raise PtxError("an array that is not in one piece")
    return raw


class _Plan(Plan):
    def __init__(self, driver: PtxDriver, entries: dict[str, Entry], launches: list[Launch]):
        self.driver, self.entries, self.launches = driver, entries, launches

    def run(self, pointers: Sequence[int]) -> None:
        """See ``Plan.run``."""
        memory = Memory(self.driver.known)
        self.driver.known = {}
        for launch in self.launches:
            memory.launch(self.entries[launch.kernel], launch, [pointers[a] for a in launch.args])
        memory.close()

    def freeze(self, pointers: Sequence[int]) -> Callable[[], None]:
        """Not for tests that look at one run."""
        raise NotImplementedError


class _Module(Module):
    def __init__(self, driver: PtxDriver, source: str, kernels: Sequence[str]):
        self.driver, self.kernels, self.source_path = driver, tuple(kernels), "kernel.cu"
        self.entries = parse(compile_ptx(source, driver.target))

    def plan(self, launches: Sequence[Sequence[Any]]) -> _Plan:
        """See ``Module.plan``."""
        return _Plan(self.driver, self.entries, checked(launches, self.kernels))


class PtxDriver(EmulatorDriver):
    """gpu(0) whose kernels are compiled to PTX by NVRTC and interpreted."""
    target = "compute_80"

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, np.ndarray] = {}

    @property
    def processors(self) -> int:
        """None: blocks run one after the other, so no launch has stages that wait for each other."""
        return 0

    def load(self, source: str, kernels: Sequence[str]) -> Any:
        """See ``Driver.load``."""
        return _Module(self, source, kernels)

    def pointer(self, array: Any) -> int:
        """Address of a NumPy array, which the next run may use."""
        at = super().pointer(array)
        self.known[at] = array
        return at


def run_ptx(source: str, launches: Sequence[Sequence[Any]], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run launches on copies of arrays (a launch's args are positions in them); returns the copies."""
    driver, copies = PtxDriver(), [a.copy() for a in arrays]
    module = driver.load(source, sorted({str(launch[0]) for launch in launches}))
    module.plan(launches).run([driver.pointer(a) for a in copies])
    return copies


_STEPS: dict[str, Callable[[Block, list[str], list[str]], None]] = {}
from . import ptx_steps  # noqa: E402, F401  fills in the instructions
