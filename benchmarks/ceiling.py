"""What the machine can do: multiply-adds of one thread, reading and writing at a given footprint; measured, not looked
up."""
from __future__ import annotations

import functools
import time
from typing import Any

import cffi
import numpy as np

from hybrid.runtime import shared_objects, toolchain

SOURCE = """
typedef float V __attribute__((vector_size(%d)));
double fma_loop(long n) {              /* 10 chains, enough to hide the latency of 4 cycles at 2 a cycle */
  V x, y, a, b, c, d, e, f, g, h, i, j;
  for (unsigned k = 0; k < sizeof(V) / 4; k++) x[k] = 0.999f, y[k] = 1e-3f;
  a = y; b = y + 1; c = y + 2; d = y + 3; e = y + 4; f = y + 5; g = y + 6; h = y + 7; i = y + 8; j = y + 9;
  for (long k = 0; k < n; k++) {
    a = a * x + y; b = b * x + y; c = c * x + y; d = d * x + y; e = e * x + y;
    f = f * x + y; g = g * x + y; h = h * x + y; i = i * x + y; j = j * x + y;
  }
  V s = a + b + c + d + e + f + g + h + i + j;
  return s[0];
}
double read_loop(const float *p, long n, long times) {
  V s[8] = {{0}};
  for (long t = 0; t < times; t++) {
    for (long i = 0; i + 8 * sizeof(V) / 4 <= n; i += 8 * sizeof(V) / 4)
      _Pragma("GCC unroll 8")                        /* or the sums stand in memory */
      for (int q = 0; q < 8; q++) s[q] += *(const V *)(p + i + q * sizeof(V) / 4);
    __asm__ volatile("" ::: "memory");
  }
  double out = 0;
  for (int q = 0; q < 8; q++) out += s[q][0];
  return out;
}
double write_loop(float *p, long n, long times) {
  V v = {1.0f};
  for (long t = 0; t < times; t++) {
    for (long i = 0; i + sizeof(V) / 4 <= n; i += sizeof(V) / 4) *(V *)(p + i) = v;
    __asm__ volatile("" ::: "memory");
  }
  return p[0];
}
"""


@functools.lru_cache(None)
def _library() -> tuple[Any, Any]:
    ffi = cffi.FFI()
    ffi.cdef("double fma_loop(long); double read_loop(const float *, long, long); double write_loop(float *, long, "
             "long);")
    so, _ = shared_objects.build(SOURCE % toolchain.vector_bytes())
    return ffi, ffi.dlopen(str(so))


def _best(call: Any, times: int = 5) -> float:
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    return min(spent)


@functools.lru_cache(None)
def flops() -> float:
    """Floating-point operations a second of one thread: a multiply-add counts as two."""
    _, lib = _library()
    n = 2_000_000
    return n * 10 * 2 * toolchain.vector_bytes() / 4 / _best(lambda: lib.fma_loop(n))


@functools.lru_cache(None)
def bandwidth(footprint: int, kind: str) -> float:
    """Bytes a second that one thread reads or writes within a footprint (a power of two)."""
    ffi, lib = _library()
    raw = np.ones(footprint // 4 + 16, np.float32)
    at = -raw.ctypes.data % 64 // 4
    a = raw[at:at + footprint // 4]
    times = max(1, (1 << 26) // footprint)
    loop = lib.read_loop if kind == "read" else lib.write_loop
    return footprint * times / _best(lambda: loop(ffi.cast("float *", a.ctypes.data), a.size, times))


def least_seconds(operations: float, read: int, written: int) -> float:
    """The least time of one thread: all multiply-adds at full speed, or all memory once at the speed of its
    footprint."""
    footprint = 1 << max(14, min(28, (read + written - 1).bit_length()))
    return max(operations / flops(), read / bandwidth(footprint, "read") + written / bandwidth(footprint, "write"))
