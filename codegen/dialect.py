"""Targets: one row of spellings each. The printer in emit.py is the same for all."""
from __future__ import annotations

from functools import lru_cache

import numpy as np

from hybrid.base import dtype as dt
from hybrid.base.records import dataclass
from hybrid.ir.stmt import Expr, Literal, Op

# what stands before a loop that threads share
PARALLEL = "#pragma omp parallel for schedule(static) num_threads(hy_threads)"
TEAM, OF_TEAM = "#pragma omp parallel num_threads(hy_threads)", "#pragma omp for schedule(static) nowait"    # in two
ONE = "#pragma omp parallel num_threads(1)"                 # for a loop of a team that has one thread
PARALLEL_SIMD = "#pragma omp parallel for simd schedule(static) num_threads(hy_threads)"      # and vectors


@dataclass(frozen=True)
class Dialect:
    """Spellings of a target."""
    name: str
    types: dict[str, str]
    half_load: dict[str, str]
    half_store: dict[str, str]
    inf: str
    nan: str
    philox: str

    def storage(self, d: np.dtype) -> str:
        """C type of an element in memory."""
        return self.types[_name(d)]

    def compute(self, d: np.dtype) -> str:
        """C type of a value in a register: half types are computed in float."""
        return "float" if dt.is_half(d) else self.types[_name(d)]

    def rounded(self, d: np.dtype, value: Expr) -> Expr:
        """A value as it would be read back from memory: half types keep fewer digits than what computes them."""
        if not dt.is_half(d):
            return value
        return Op(self.half_load[_name(d)], (Op(self.half_store[_name(d)], (value,)),))

    def half_stored(self, d: np.dtype, value: Expr) -> Op:
        """A value as the 16 bits that are stored of it."""
        return Op(self.half_store[_name(d)], (value,))

    def literal(self, value: object, d: np.dtype) -> Literal:
        """A constant."""
        return Literal(self._literal(value, d))

    def _literal(self, value: object, d: np.dtype) -> str:
        if d.kind == "b":
            return "1" if value else "0"
        if not dt.is_float(d):
            v = int(value)                                 # type: ignore[call-overload]
            if d.itemsize == 8:
                return f"{v}{'ul' if d.kind == 'u' else 'l'}" if v != -2**63 else "(-9223372036854775807l - 1)"
            return f"{v}u" if d.kind == "u" else f"({v})" if v != -2**31 else "(-2147483647 - 1)"
        v = float(value)                                   # type: ignore[arg-type]
        suffix = "" if d == np.float64 else "f"
        if v != v:
            return self.nan + suffix + ("()" if self.name == "c" and self.nan.startswith("__builtin") else "")
        if v in (float("inf"), float("-inf")):
            return f"({'-' if v < 0 else ''}{self.inf})"
        if suffix and abs(v) > 3.4028234663852886e38:
            return f"({'-' if v < 0 else ''}{self.inf})"
        if suffix:
            v = float(np.float32(v))
        text = v.hex()
        return f"({text}{suffix})" if v < 0 or text.startswith("-") else text + suffix


@lru_cache
def _name(d: np.dtype) -> str:
    return d.name                                          # NumPy makes the text anew each time


_INTS = {"int8": "signed char", "int16": "short", "int32": "int", "int64": "long", "uint8": "unsigned char",
         "uint16": "unsigned short",
         "uint32": "unsigned", "uint64": "unsigned long", "bool": "unsigned char", "float32": "float",
         "float64": "double"}

C = Dialect("c", {**_INTS, "float16": "hy_half", "bfloat16": "hy_bf16"},
            {"float16": "hy_load_half({0})", "bfloat16": "hy_load_bf16({0})"},
            {"float16": "hy_store_half({0})", "bfloat16": "hy_store_bf16({0})"},
            "__builtin_inf()", "HY_NAN", "philox4x32")
CUDA = Dialect("cuda", {**_INTS, "int64": "long long", "uint64": "unsigned long long", "float16": "hy_half",
                        "bfloat16": "hy_bf16"},
               {"float16": "hy_load_half({0})", "bfloat16": "hy_load_bf16({0})"},
               {"float16": "hy_store_half({0})", "bfloat16": "hy_store_bf16({0})"},
               "HY_INF", "HY_NAN", "philox4x32")
