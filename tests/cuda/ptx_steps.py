"""The instructions of tests/cuda/ptx.py: each takes the block, the opcode's parts and the operands."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from .ptx import _STEPS, KINDS, UNSIGNED, Block

Step = Callable[[Block, list[str], list[str]], None]


def step(*names: str) -> Callable[[Step], Step]:
    """Registers an instruction."""
    def put(f: Step) -> Step:
        _STEPS.update(dict.fromkeys(names, f))
        return f
    return put


def vector(arg: str) -> list[str]:
    """Registers of {..}, or the one."""
    return [a.strip() for a in arg.strip("{}").split(",")]


# ---- arithmetic
def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        return a / b
    q = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.array([x * (1 if (int(s) < 0) == (int(t) < 0) else -1) for x, s, t in zip(q, a, b)], a.dtype)


def _least(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmin(a, b) if a.dtype.kind == "f" else np.minimum(a, b)


def _most(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmax(a, b) if a.dtype.kind == "f" else np.maximum(a, b)


TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "div": _quotient, "min": _least, "max": _most, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "rem": np.fmod, "copysign": lambda a, b: np.copysign(b, a)}
ONE: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "rcp": lambda a: 1 / a,
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "mov": lambda a: a}


def _flushed(x: np.ndarray) -> np.ndarray:
    """Under .ftz numbers below the least normal one are zeros."""
    small = np.abs(x) < np.finfo(x.dtype).tiny
    return np.where(small, np.copysign(np.zeros_like(x), x), x)


@step(*TWO)
def two(b: Block, op: list[str], args: list[str]) -> None:
    """d = a op b."""
    kind = op[-1]
    if "cc" in op:
        return carried(b, op, args)
    x, y = b.get(args[1], kind), b.get(args[2], kind)
    if "ftz" in op:
        x, y = _flushed(x), _flushed(y)
    v = np.asarray(TWO[op[0]](x, y)).astype(KINDS[kind])
    b.set(args[0], _flushed(v) if "ftz" in op else v)


@step(*(n for n in ONE if n != "mov"), "not", "cnot")
def one(b: Block, op: list[str], args: list[str]) -> None:
    """d = op a."""
    x = b.get(args[1], op[-1])
    if op[0] == "not":
        return b.set(args[0], ~x)
    if "ftz" not in op:
        return b.set(args[0], np.asarray(ONE[op[0]](x)).astype(x.dtype))
    b.set(args[0], _flushed(np.asarray(ONE[op[0]](_flushed(x))).astype(x.dtype)))


@step("mul", "mad", "fma")
def products(b: Block, op: list[str], args: list[str]) -> None:
    """d = a b, or a b + c."""
    kind = op[-1]
    if "cc" in op:
        return carried(b, op, args)
    dtype = np.dtype(KINDS[kind])
    x, y = b.get(args[1], kind), b.get(args[2], kind)
    added = op[0] != "mul"
    if dtype.kind == "f":
        wide = np.longdouble if dtype == np.float64 else np.float64
        v = x.astype(wide) * y.astype(wide) + (b.get(args[3], kind).astype(wide) if added else 0)
        if not added:
            v = x.astype(wide) * y.astype(wide)            # -0 stays -0
        if "rm" in op:                                     # rounded down
            r = v.astype(dtype)
            v = np.where(r.astype(wide) > v, np.nextafter(r, dtype.type(-np.inf)), r)
        v = np.asarray(v).astype(dtype)
        return b.set(args[0], np.clip(np.nan_to_num(v, nan=0.0), 0, 1).astype(dtype) if "sat" in op else v)
    out = 2 * dtype.itemsize if "wide" in op else dtype.itemsize
    more = b.get(args[3], kind[0] + str(8 * out)) if added else np.zeros_like(x)
    if dtype.itemsize < 8 or "lo" in op:                   # modulo 2^64
        exact = x.astype(f"{dtype.kind}8") * y.astype(f"{dtype.kind}8")
        exact = (exact >> exact.dtype.type(8 * dtype.itemsize) if "hi" in op else exact) + more.astype(exact.dtype)
        return b.set(args[0], exact.astype(UNSIGNED[out]))
    exact = x.astype(object) * y.astype(object)
    exact = (exact >> 8 * dtype.itemsize if "hi" in op else exact) + more.astype(object)
    b.set(args[0], np.array([int(v) & (1 << 8 * out) - 1 for v in exact], UNSIGNED[out]))


@step("addc", "subc", "madc")
def carried(b: Block, op: list[str], args: list[str]) -> None:
    """d = a + b, a - b or a b + c, with the carry that the one before left (addc ..), leaving one (.cc)."""
    bits, name = 8 * np.dtype(KINDS[op[-1]]).itemsize, op[0].rstrip("c")
    x, y, *rest = (b.get(a, f"u{bits}").astype(object) for a in args[1:])
    if name == "mad":
        x, y = x * y >> bits if "hi" in op else x * y & (1 << bits) - 1, rest[0]
    carry = b.carry[b.who].astype(object) if op[0].endswith("c") else 0
    total = x - y - carry if name == "sub" else x + y + carry
    if "cc" in op:
        b.carry[b.who] = (total < 0) | (total >> bits > 0)
    b.set(args[0], (total & (1 << bits) - 1).astype(UNSIGNED[bits // 8]))


@step("shl", "shr")
def shifts(b: Block, op: list[str], args: list[str]) -> None:
    """By as many bits or more gives zero, or signs."""
    x, n = b.get(args[1], op[-1]), b.get(args[2], "u32")
    bits = 8 * x.dtype.itemsize
    by = np.minimum(n, bits - 1).astype(x.dtype)
    v = x << by if op[0] == "shl" else x >> by
    over = np.where(x < 0, -1, 0).astype(x.dtype) if op[0] == "shr" and x.dtype.kind == "i" else np.zeros_like(x)
    b.set(args[0], np.where(n >= bits, over, v))


@step("prmt", "shf")
def pairs(b: Block, op: list[str], args: list[str]) -> None:
    """Bytes of two words, and both shifted as one."""
    x, y, by = (b.get(a, "u32").astype(np.uint64) for a in args[1:])
    both, word = x | y << np.uint64(32), np.uint64(0xffffffff)
    if op[0] == "prmt":
        v = np.zeros_like(both)
        for i in range(4):
            which = by >> np.uint64(4 * i)
            byte = both >> (which & np.uint64(7)) * np.uint64(8) & np.uint64(0xff)
            signs = (byte >> np.uint64(7)) * np.uint64(0xff)             # repeats its first bit
            v |= np.where(which & np.uint64(8), signs, byte) << np.uint64(8 * i)
    else:
        n = np.minimum(by, 32) if "clamp" in op else by & np.uint64(31)
        v = (both >> n if "r" in op else both << n >> np.uint64(32)) & word
    b.set(args[0], np.asarray(v).astype(np.uint32))


@step("bfi", "bfe", "brev", "bfind", "popc", "clz")
def bits(b: Block, op: list[str], args: list[str]) -> None:
    """Fields of bits, one thread after the other."""
    kind = op[-1]
    size = 8 * np.dtype(KINDS[kind]).itemsize
    given = [[int(v) & (1 << 64) - 1 for v in b.get(a, kind if n < 1 or op[0] == "bfi" else "u32")]
             for n, a in enumerate(args[1:])]
    b.set(args[0], np.array([_field(op, size, v) for v in zip(*given)], np.uint64).astype(
        np.uint32 if size < 64 or op[0] in ("popc", "clz", "bfind") else np.uint64))


def _field(op: list[str], size: int, v: tuple[int, ...]) -> int:
    whole = (1 << size) - 1
    x = v[0] & whole
    if op[0] == "bfi":
        field = (1 << (v[3] & 0xff)) - 1 << (v[2] & 0xff)
        return (v[1] & ~field | x << (v[2] & 0xff) & field) & whole
    if op[0] == "bfe":
        return x >> (v[1] & 0xff) & (1 << (v[2] & 0xff)) - 1
    if op[0] == "brev":
        return int(f"{x:0{size}b}"[::-1], 2)
    if op[0] == "bfind":
        top = x.bit_length() - 1
        return (0xffffffff if top < 0 else size - 1 - top if "shiftamt" in op else top)
    return bin(x).count("1") if op[0] == "popc" else size - x.bit_length()


# ---- conversions, moves, choices
@step("mov")
def move(b: Block, op: list[str], args: list[str]) -> None:
    """Also packs and unpacks words."""
    to, source = vector(args[0]), vector(args[1])
    width = np.dtype(KINDS[op[-1]]).itemsize
    if len(to) > 1:
        x, part = b.get(source[0], op[-1]).view(UNSIGNED[width]), width // len(to)
        for i, t in enumerate(to):
            b.set(t, (x >> UNSIGNED[width](8 * part * i)).astype(UNSIGNED[part]))
    elif len(source) > 1:
        part = width // len(source)
        words = [b.get(s, f"b{8 * part}").astype(UNSIGNED[width]) << UNSIGNED[width](8 * part * i)
                 for i, s in enumerate(source)]
        b.set(to[0], np.bitwise_or.reduce(words))
    else:
        b.set(to[0], b.get(source[0], op[-1]))


@step("dp2a")
def two_products(b: Block, op: list[str], args: list[str]) -> None:
    """The 16-bit halves of a times two neighbouring bytes of b (the lower or the upper ones), and c."""
    letter, from_ = {"u32": "u", "s32": "i"}, 0 if op[1] == "lo" else 2
    x = b.get(args[1], "b32").copy().view(letter[op[2]] + "2").reshape(-1, 2).astype(np.int64)
    y = b.get(args[2], "b32").copy().view(letter[op[3]] + "1").reshape(-1, 4).astype(np.int64)
    b.set(args[0], ((x * y[:, from_:from_ + 2]).sum(1) + b.get(args[3], "b32")).astype(np.uint32))


@step("cvta")
def generic(b: Block, op: list[str], args: list[str]) -> None:
    """Addresses are the same in each space: shared memory lies below global memory."""
    b.set(args[0], b.get(args[1], op[-1]))


@step("cvt")
def convert(b: Block, op: list[str], args: list[str]) -> None:
    """Between types, with rounding to whole numbers and saturation."""
    to, kind = op[-2], op[-1]
    if kind == "bf16" or to.startswith("bf16"):
        return _bfloat(b, to, args)
    if to == "tf32":                                       # ten bits behind the point, ties away from zero
        bits = b.get(args[1], "b32")
        near = np.where(bits & 0x7f800000 == 0x7f800000, bits, bits + np.uint32(0x1000))
        return b.set(args[0], near & ~np.uint32(0x1fff))
    x, dtype = b.get(args[1], kind), np.dtype(KINDS[to])
    whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    for name, f in whole.items():
        if name in op:
            x = f(x)
    if dtype.kind in "iu" and x.dtype.kind == "f":
        info = np.iinfo(dtype)
        x = np.where(np.isnan(x), 0, x).astype(np.longdouble)
        b.set(args[0], np.array([int(min(max(v, info.min), info.max)) for v in x], object).astype(dtype))
    elif "sat" in op and dtype.kind == "f":
        b.set(args[0], np.clip(np.nan_to_num(x, nan=0.0), 0, 1).astype(dtype))
    elif dtype.kind in "iu":
        b.set(args[0], _extended(b, args[0], x.astype(dtype)))
    else:
        b.set(args[0], x.astype(dtype))


def _bfloat(b: Block, to: str, args: list[str]) -> None:
    if to == "f32":
        return b.set(args[0], b.get(args[1], "b16").astype(np.uint32) << np.uint32(16))
    halves = [b.get(a, "f32").astype(ml_dtypes.bfloat16).view(np.uint16) for a in args[1:]]
    b.set(args[0], halves[0] if len(halves) == 1 else halves[0].astype(np.uint32) << np.uint32(16) | halves[1])


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": lambda a, c: (a != c) & (a == a) & (c == c), "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater,
    "hs": np.greater_equal, "num": lambda a, c: (a == a) & (c == c), "nan": lambda a, c: (a != a) | (c != c)}


@step("setp")
def compare(b: Block, op: list[str], args: list[str]) -> None:
    """p = a op b, of which u at the end holds for NaN too; with and, or, xor of another."""
    x, y = b.get(args[1], op[-1]), b.get(args[2], op[-1])
    name = op[1]
    if name in COMPARE:
        v = COMPARE[name](x, y)
    else:
        v = COMPARE[name[:-1]](x, y) | (x != x) | (y != y)
    if len(op) > 3 and op[2] in ("and", "or", "xor"):
        negated = args[3].startswith("!")
        v = TWO[op[2]](v, b.get(args[3].lstrip("!"), "pred") != negated)
    b.set(args[0], v)


@step("selp")
def choose(b: Block, op: list[str], args: list[str]) -> None:
    """d = p ? a : b."""
    b.set(args[0], np.where(b.get(args[3], "pred"), b.get(args[1], op[-1]), b.get(args[2], op[-1])))


# ---- memory
def _parts(op: list[str]) -> tuple[str, int, np.dtype]:
    space = next((s for s in op if s in ("global", "shared", "param", "const", "local")), "generic")
    return space, next((int(o[1]) for o in op if o in ("v2", "v4")), 1), np.dtype(KINDS[op[-1]])


def _extended(b: Block, name: str, v: np.ndarray) -> np.ndarray:
    """A short number in a longer register, with its sign."""
    r = b.register(name).dtype
    return v.astype(f"{v.dtype.kind}{r.itemsize}") if v.dtype.kind in "iu" and v.dtype.itemsize < r.itemsize else v


def _parameter(b: Block, arg: str, size: int) -> np.ndarray:
    name, _, offset = arg.strip("[]").partition("+")
    return b.param(name)[:, int(offset or 0):int(offset or 0) + size]


@step("ld", "ldu")
def load(b: Block, op: list[str], args: list[str]) -> None:
    """From a parameter, global or shared memory."""
    space, n, dtype = _parts(op)
    if space == "param":
        values = _parameter(b, args[1], n * dtype.itemsize)[b.who].view(dtype)
    else:
        memory, bytes_ = b.place(space, b.address(args[1]), n * dtype.itemsize)
        values = memory[bytes_].view(dtype)
        if b.roundings:
            b.roundings.load(b.home, args[0], bytes_ if memory is b.memory else None)
    for i, name in enumerate(vector(args[0])):
        b.set(name, _extended(b, name, np.ascontiguousarray(values[:, i])))


@step("st")
def store(b: Block, op: list[str], args: list[str]) -> None:
    """To a parameter of a call, global or shared memory."""
    space, n, dtype = _parts(op)
    values = np.ascontiguousarray(np.stack([b.get(v, op[-1]) for v in vector(args[1])], 1)).view(np.uint8)
    if space == "param":
        _parameter(b, args[0], n * dtype.itemsize)[b.who] = values
        return
    memory, bytes_ = b.place(space, b.address(args[0]), n * dtype.itemsize)
    memory[bytes_] = values
    if b.roundings:
        b.roundings.store(b.home, args[1], bytes_ if memory is b.memory else None)


@step("atom", "red")
def atomic(b: Block, op: list[str], args: list[str]) -> None:
    """One thread after the other."""
    space, _, dtype = _parts(op)
    operands = args[1:] if op[0] == "atom" else args
    memory, bytes_ = b.place(space, b.address(operands[0]), dtype.itemsize)
    given = [b.get(a, op[-1]) for a in operands[1:]]
    old = np.empty(len(b.who), dtype)
    for i, where in enumerate(bytes_):
        old[i] = memory[where].view(dtype)[0]
        if "cas" in op:
            new = given[1][i] if old[i] == given[0][i] else old[i]
        elif "exch" in op:
            new = given[0][i]
        else:
            new = TWO[next(o for o in op if o in TWO)](old[i], given[0][i])
        memory[where] = np.array([new], dtype).view(np.uint8)
    if b.roundings:
        result = args[0] if op[0] == "atom" else "_"
        b.roundings.add(b.home, operands[1:], result, bytes_ if memory is b.memory else None)
    if op[0] == "atom":
        b.set(args[0], old)


@step("membar", "fence", "nanosleep")
def nothing(b: Block, op: list[str], args: list[str]) -> None:
    """All memory is seen by all at once."""
