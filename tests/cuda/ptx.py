"""Runs the PTX that NVRTC gives, thread by thread in NumPy: an oracle of kernels that shares nothing with the emulator.

All threads of a block that stand at one instruction execute it together, those that are furthest behind first. Written
from NVIDIA's "PTX ISA 8.5"; an instruction that is not known is an error. For small grids: an instruction of a block
takes some microseconds.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hybrid.runtime.cuda.interface import Launch

from .ptx_floats import Roundings, rounds_to
from .ptx_later import MBARRIER, Later, Products
from .ptx_text import Entry, Line, PtxError, TooLong, call_of

GLOBAL, CONSTANT, LOCAL, PARAMETERS, GAP = 1 << 32, 1 << 47, 1 << 48, 1 << 49, 1024
KINDS: dict[str, Any] = {"s8": np.int8, "u8": np.uint8, "b8": np.uint8, "s16": np.int16, "u16": np.uint16,
                         "b16": np.uint16, "s32": np.int32, "u32": np.uint32, "b32": np.uint32, "s64": np.int64,
                         "u64": np.uint64, "b64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64,
                         "pred": np.bool_}
DTYPES = {name: np.dtype(kind) for name, kind in KINDS.items()}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
WARP = 16                                                  # barriers of a block have lower numbers than those of warps
CONTROL = {"bra", "call", "ret", "exit", "bar", "barrier", "mbarrier"}   # where threads part, wait or end
LANES = {"shfl", "vote"}                                   # with an operand that names the lanes
TURN = 400                                                 # instructions of a block before another one's, in turns


class Block:
    """The threads of one block: registers, where each stands, memory."""

    def __init__(self, entry: Entry, memory: np.ndarray, pointers: Sequence[int], launch: Launch, index: int,
                 roundings: Roundings | None = None):
        x, y, z = launch.block
        self.roundings = roundings
        self.entry, self.memory, self.threads, self.home = entry, memory, x * y * z, entry.name
        self.local = np.full((self.threads, entry.depth), 0xFF, np.uint8)
        self.shared = np.full(entry.size + launch.shared + 16, 0xFF, np.uint8)
        self.registers: dict[tuple[str, str], np.ndarray] = {}
        self.constants: dict[tuple[str, str, int], np.ndarray] = {}
        self.who = np.arange(self.threads)
        lanes = np.arange(self.threads, dtype=np.uint32)
        self.special = {"%laneid": lanes % 32}
        for name, sizes, at in (("tid", launch.block, lanes), ("ctaid", launch.grid, np.full_like(lanes, index))):
            for axis, place in zip("xyz", (at % sizes[0], at // sizes[0] % sizes[1], at // (sizes[0] * sizes[1]))):
                self.special[f"%{name}.{axis}"] = place.astype(np.uint32)
                self.special[f"%n{name}.{axis}"] = np.full_like(lanes, sizes["xyz".index(axis)])
        # the parameters of each function, 16 bytes a thread; where each thread goes on behind a call
        self.params: dict[tuple[str, str], np.ndarray] = {}
        self.returns: dict[str, np.ndarray] = {}
        # tensor maps among the parameters, with where their arrays lie, by address; the addresses by name
        self.maps = {PARAMETERS + 128 * i: (m, pointers[i] + m.offset) for i, m in launch.maps}
        self.objects = {entry.params[i]: PARAMETERS + 128 * i for i, _ in launch.maps}
        for name, value in zip(entry.params, pointers, strict=True):
            self.param(name)[:, :8] = np.array([value], np.uint64).view(np.uint8)
        self.at, self.carry = np.zeros(self.threads, np.int64), np.zeros(self.threads, bool)
        # which barrier each thread is at, -1: none; how many threads each takes (0: all), or lanes of a warp's
        self.done, self.waiting = np.zeros(self.threads, bool), np.full(self.threads, -1)
        self.needs: dict[int, int] = {}
        self.parted = np.zeros(self.threads, bool)         # who stands where all of a warp must be, and waits for it
        self.later, self.products = Later(self), Products(self.threads)

    # ---- operands
    def register(self, name: str) -> np.ndarray:
        """A register of all threads."""
        found = self.special.get(name) if "." in name or name == "%laneid" else self.registers.get((self.home, name))
        if found is None:
            known = self.entry.registers
            kind = known.get((self.home, name)) or known.get((self.home, name.rstrip("0123456789")))
            if kind is None:
                raise PtxError(f"no register {name}")
            found = self.registers[self.home, name] = np.zeros(self.threads, KINDS[kind])
        return found

    def param(self, name: str) -> np.ndarray:
        """The bytes of a parameter of the function that is executed, a row for each thread."""
        return self.params.setdefault((self.home, name), np.zeros((self.threads, 16), np.uint8))

    def get(self, arg: str, kind: str) -> np.ndarray:
        """An operand of the threads that execute, as a type of PTX; not to be written."""
        dtype = DTYPES[kind]
        if arg.startswith("%"):
            r = self.register(arg)
            v = r if len(self.who) == self.threads else r[self.who]
            if v.dtype == dtype or kind == "pred":
                return v
            v = v.view(UNSIGNED[v.dtype.itemsize])
            return (v if v.dtype.itemsize == dtype.itemsize else v.astype(UNSIGNED[dtype.itemsize])).view(dtype)
        key = arg, kind, len(self.who)
        if key not in self.constants:
            self.constants[key] = np.broadcast_to(self.constant(arg, dtype), len(self.who))
        return self.constants[key]

    def constant(self, arg: str, dtype: np.dtype) -> np.ndarray:
        """An operand that is a number, or a place in an array (``name`` or ``name+8``)."""
        places = (self.entry.shared, 0), (self.entry.constants, CONSTANT), (self.entry.local, LOCAL), (
            self.objects, 0)
        name, _, offset = arg.partition("+")
        start = next((at + known[name] + int(offset or "0") for known, at in places if name in known), None)
        if start is not None:
            value = np.array(start, np.uint64)
        elif found := re.match(r"0[fFdD]([0-9a-fA-F]{8,16})$", arg):
            size = len(found[1]) // 2
            value = np.array(int(found[1], 16), UNSIGNED[size]).view(f"f{size}")
        elif not re.fullmatch(r"-?(0x)?[0-9a-fA-F]+U?", arg):
            raise PtxError(f"no operand {arg}")
        else:
            bits = int(arg.rstrip("U"), 0) & (1 << 8 * dtype.itemsize) - 1
            value = np.array(bits, UNSIGNED[dtype.itemsize]).view(dtype) if dtype != np.bool_ else np.array(bool(bits))
        return value.astype(dtype)

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
        """A memory, and where in it the bytes of each thread are. Addresses of all spaces are apart from each other."""
        if (at % size).any():
            raise PtxError(f"{size} bytes at a misaligned address")
        if space == "generic":
            space = "local" if (at >= LOCAL).all() else "shared" if (at < GLOBAL).all() else "global"
        if space == "local":
            memory, start, end = self.local.reshape(-1), at - LOCAL, self.entry.depth
        elif space == "shared":
            memory, start, end = self.shared, at, len(self.shared)
        elif (at >= CONSTANT).all():
            memory, start, end = np.frombuffer(self.entry.table, np.uint8), at - CONSTANT, len(self.entry.table)
        else:
            memory, start, end = self.memory, at - GLOBAL, len(self.memory)
        if (start < 0).any() or (start + size > end).any():
            raise PtxError(f"an access outside of {space} memory")
        first = start + self.who * end if space == "local" else start
        return memory, first[:, None] + np.arange(size)

    # ---- running
    def run(self, most: int) -> Iterator[int]:
        """To the end of all threads, some instructions at a time; gives how many there were."""
        lines, count, told = self.entry.lines, 0, 0
        while count < most:
            ready = ~self.done & (self.waiting < 0)
            if not (ready & ~self.parted).any():
                if self.done.all():
                    return
                if not self.release() and not self.later.come():
                    parted = np.flatnonzero(self.parted)
                    raise PtxError(f"{'.'.join(lines[self.at[parted[0]]].op)} by parts of a warp" if parted.size else
                                   "threads wait at barriers that nobody else comes to")
                count += 1
                continue
            pc = int(self.at[ready & ~self.parted].min())
            here = np.flatnonzero(ready & (self.at == pc))
            others = self.at[ready & (self.at != pc)]
            end = int(others.min()) if others.size else len(lines)
            if pc >= len(lines):
                raise PtxError("a thread ran past the end")
            here = self.whole(here, lines[pc])
            if not len(here):
                count += 1
                continue
            pc, done = self.straight(here, pc, end, min(TURN, most - count))
            if not done:                                   # one at which threads may part
                line, self.at[here] = lines[pc], pc + 1
                self.home, self.who = line.home, self.guarded(line, here)
                if len(self.who):
                    self.step(line)
            count += max(1, done)
            if count >= told + TURN:
                told = count
                yield count
        raise TooLong(f"{self.entry.name} executes more than {most} instructions a block")

    def whole(self, here: np.ndarray, line: Line) -> np.ndarray:
        """Those threads that execute an instruction now. If it is one that a whole warp, a whole warpgroup or
        the lanes of a mask execute together, threads wait until the others have come, too, by whatever branch."""
        lanes = line.op[0] in LANES and "sync" in line.op
        if not lanes and "aligned" not in line.op or line.op[0] in CONTROL:
            return here
        group = 128 if line.op[0] in ("wgmma", "setmaxnreg") else 32
        missing = ~self.done
        missing[here] = False
        if lanes:
            self.home, self.who = line.home, here
            bits = np.packbits(np.pad(missing, (0, -self.threads % 32)), bitorder="little").view(np.uint32)
            complete = self.get(line.args[-1], "b32") & bits[here // 32] == 0
        else:
            complete = np.bincount(np.flatnonzero(missing) // group,
                                   minlength=-(-self.threads // group))[here // group] == 0
        self.parted[here] = ~complete
        return here[complete]

    def guarded(self, line: Line, here: np.ndarray) -> np.ndarray:
        """Those of some threads that execute an instruction."""
        if not line.guard:
            return here
        holds = self.register(line.guard.lstrip("!"))[here] != line.guard.startswith("!")
        return here if holds.all() else here[holds]

    def straight(self, here: np.ndarray, pc: int, end: int, most: int) -> tuple[int, int]:
        """Instructions of threads that stay together, up to where others stand: where they are then, how many."""
        lines, first = self.entry.lines, pc
        for count in range(most):
            if pc >= end:
                break
            line = lines[pc]
            self.home = line.home
            if pc != first and len(self.whole(here, line)) < len(here):
                break
            if line.op[0] in CONTROL:
                some = self.guarded(line, here) if line.op[0] == "bra" else here[:0]
                if line.op[0] != "bra" or 0 < len(some) < len(here):
                    break
                pc = self.entry.labels[line.args[0]] if len(some) else pc + 1
                continue
            self.who = self.guarded(line, here)
            if len(self.who):
                self.step(line)
            pc += 1
        else:
            count = most
        self.at[here] = pc
        return pc, count

    def step(self, line: Line) -> None:
        """One instruction of the threads that stand there."""
        op, args = line.op, line.args
        if op[0] == "bra":
            self.at[self.who] = self.entry.labels[args[0]]
        elif op[0] == "call":
            self.call(line)
        elif op[0] in ("ret", "exit"):
            self.leave(op[0])
        elif op[0] in ("bar", "barrier"):
            self.barrier(op, args)
        elif op[0] not in _STEPS:
            raise PtxError(f"no instruction {line.text}")
        else:
            _STEPS[op[0]](self, op, args)

    def barrier(self, op: list[str], args: list[str]) -> None:
        """Wait at a barrier of the block, of some of its threads, or of lanes of a warp."""
        if "sync" not in op or "red" in op:
            raise PtxError(f"no instruction {'.'.join(op)}")
        if op[1] == "warp":
            self.waiting[self.who] = WARP + self.who // 32
            self.needs.update(zip((WARP + self.who // 32).tolist(), self.get(args[0], "b32").tolist()))
        else:
            self.waiting[self.who] = int(args[0])
            self.needs[int(args[0])] = int(args[1]) if len(args) > 1 else 0
        self.release()

    def release(self) -> bool:
        """Let go on whoever is at a barrier that all came to; whether anybody was."""
        found = False
        for key in np.unique(self.waiting[(self.waiting >= 0) & (self.waiting < MBARRIER)]).tolist():
            here, need = self.waiting == key, self.needs[key]
            if key >= WARP:
                lanes = np.arange(self.threads) - 32 * (key - WARP)
                named = (lanes >= 0) & (lanes < 32) & (need >> np.clip(lanes, 0, 31) & 1 == 1)
                need = int((named & ~self.done).sum())
            if here.sum() >= (need or int((~self.done).sum())):
                self.waiting[here], found = -1, True
        return found

    def call(self, line: Line) -> None:
        """Enter a function: it has registers and parameters of its own."""
        _, name, given = call_of(line)
        if name not in self.entry.functions:
            raise PtxError(f"no function {name}")
        values, f = [self.param(g)[self.who] for g in given], self.entry.functions[name]
        self.returns.setdefault(name, np.zeros(self.threads, np.int64))[self.who] = self.at[self.who]
        self.home, self.at[self.who] = name, f.first
        for formal, value in zip(f.params, values, strict=True):
            self.param(formal)[self.who] = value

    def leave(self, how: str) -> None:
        """End threads, or go back to where their function was called."""
        name = self.home
        if how == "exit" or name not in self.entry.functions:
            self.done[self.who] = True
            return
        self.at[self.who] = self.returns[name][self.who]
        for pc in np.unique(self.at[self.who]):
            line, here = self.entry.lines[pc - 1], self.who[self.at[self.who] == pc]
            self.home = name
            values = [self.param(r)[here] for r in self.entry.functions[name].results]
            self.home = line.home
            for result, value in zip(call_of(line)[0], values, strict=True):
                self.param(result)[here] = value


class Memory:
    """Arrays in one memory, with gaps between that hold NaN; ``close`` writes them back."""

    def __init__(self, arrays: dict[int, np.ndarray]):
        self.arrays, self.starts, end = sorted(arrays.items()), [], GAP
        for _, a in self.arrays:
            self.starts.append(end)
            end += -(-a.nbytes // 256) * 256 + GAP
        self.bytes = np.full(end, 0xFF, np.uint8)
        self.rounded = np.zeros(end, np.uint8)             # to which type its numbers were, as of Roundings
        for start, (_, a) in zip(self.starts, self.arrays):
            self.bytes[start:start + a.nbytes] = _raw(a)

    def address(self, pointer: int) -> int:
        """Where a pointer into one of the arrays points, for kernels."""
        for start, (at, a) in zip(self.starts, self.arrays):
            if at <= pointer < at + max(1, a.nbytes):
                return GLOBAL + start + pointer - at
        raise PtxError(f"no array holds {pointer:#x}")

    def launch(self, entry: Entry, launch: Launch, pointers: Sequence[int], most: int = 2_000_000) -> None:
        """One block after the other; those of a cooperative launch in turns. ``most``: instructions of all blocks."""
        x, y, z = launch.grid
        places = [self.address(p) for p in pointers]
        roundings = Roundings(entry, self.rounded) if any(map(rounds_to, entry.lines)) else None
        runs = [Block(entry, self.bytes, places, launch, i, roundings).run(most) for i in range(x * y * z)]
        for turn in range(most // TURN):
            with np.errstate(all="ignore"):
                for run in list(runs) if launch.cooperative else runs[:1]:
                    if next(run, None) is None:
                        runs.remove(run)
            if not runs:
                return
        raise TooLong(f"{entry.name} executes more than {most} instructions")

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


_STEPS: dict[str, Callable[[Block, list[str], list[str]], None]] = {}
from . import ptx_async, ptx_boxes, ptx_steps, ptx_warpgroup, ptx_warps  # noqa: E402, F401  fills in the instructions
