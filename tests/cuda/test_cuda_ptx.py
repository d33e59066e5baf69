"""The PTX that NVRTC makes of kernels, run by an interpreter (ptx.py) that shares nothing with the emulator."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hybrid import runtime
from hybrid.base.device import find_cupy, gpu
from hybrid.runtime import cuda, reference
from hybrid.runtime.cuda import nvrtc
from hybrid.runtime.cuda.interface import Launch

from . import cuda_async_texts, cuda_texts
from .cuda_forms import FORMS, program
from .cuda_tools import run_cuda
from .ptx import Memory, PtxError
from .ptx_beside import differ, held, largest
from .ptx_driver import PtxDriver, run_ptx
from .ptx_text import compile_ptx, parse
from .test_cuda_kernels import same

pytestmark = [pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC (pip install nvidia-cuda-nvrtc)"),
              pytest.mark.skipif(find_cupy() is not None, reason="there is a GPU, which runs the kernels themselves")]
QUICK = 9                                                  # each so many-th form, without make check-all


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_CUDA", "emulator")
    monkeypatch.setitem(cuda._drivers, ("emulator", 0), PtxDriver())


def check(name: str) -> None:
    whole, arrays, of_outputs, of_updates = program([FORMS[name]])
    expected, updates = ([np.array(v) for v in values]
                         for values in reference.run(whole, [np.array(a) for a in arrays], np))
    given = [np.array(a) for a in arrays]
    got = runtime.compile(whole, gpu(0))(given)
    for k, (g, e, tol) in enumerate(zip(got, expected, of_outputs, strict=True)):
        same(np.asarray(g), e, tol, f"{name}: result {k}")
    for (slot, _), u, tol in zip(whole.updates, updates, of_updates, strict=True):
        same(given[slot], u, tol, f"{name}: input {slot}")


@pytest.mark.parametrize("name", list(FORMS)[::QUICK])
def test_forms_of_kernels(name: str, interpreted: None) -> None:
    check(name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMS)
def test_all_forms_of_kernels(name: str, interpreted: None) -> None:
    check(name)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def function(f: str, depth: int, item: int) -> str:
    return cuda_async_texts.MMA.replace("FUNCTION", f).replace("WORDS", str(depth * item // 16))


TILE = [normal(64, 64, dtype=ml_dtypes.bfloat16)] * 2 + [np.zeros((64, 64), np.float32)]
SOME = """#include "hybrid_stages.cuh"
#include "hybrid_async.cuh"
HY_STAGE float left(float *s, const float *x) {
  s[threadIdx.x] = x[threadIdx.x];
  hy_sync<64>();
  return s[63 - threadIdx.x];
}
extern "C" __global__ void some(float *x, float *state) {
  __shared__ float s[64];
  float v = 1;
  if (threadIdx.x < 64) v = left(s, x);
  hy_grid_barrier(state, 2, blockIdx.x == 1);
  if (blockIdx.x == 0) return;
  if (threadIdx.x >= 64) v = s[threadIdx.x - 64] + x[threadIdx.x];
  x[threadIdx.x] = v;
}"""
TEXTS: dict[str, tuple[str, tuple[Any, ...], list[np.ndarray]]] = {
    "barriers": (cuda_texts.MISUSE, ("no_race", (1, 1, 1), (256, 1, 1), 0, (0,)), [normal(256)]),
    "functions, barriers of some threads and of the grid": (
        SOME, ("some", (2, 1, 1), (128, 1, 1), 0, (0, 1), True), [normal(128), np.zeros(1, np.float32)]),
    "copies, ldmatrix, products": (cuda_async_texts.PIPELINE, ("product", (1, 1, 1), (128, 1, 1), 3 * 4096, (0, 1, 2)),
                                   TILE),
    "copies with zeros": (cuda_async_texts.PARTLY.replace("WRONG", ""), ("partly", (1, 1, 1), (32, 1, 1), 0, (0, 1)),
                          [normal(128), np.zeros(128, np.float32)]),
    **{f: (function(f, depth, np.dtype(kind).itemsize), ("product", (1, 1, 1), (32, 1, 1), 0, (0, 1, 2)),
           [normal(16, depth, dtype=kind), normal(8, depth, dtype=kind), np.zeros((16, 8), np.float32)])
       for f, kind, depth in (("hy_mma_half", np.float16, 16), ("hy_mma_bf16", ml_dtypes.bfloat16, 16),
                              ("hy_mma_tf32", np.float32, 8), ("hy_mma_half_k8", np.float16, 8))},
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_emulator_and_the_interpreter_agree(name: str) -> None:
    text, launch, arrays = TEXTS[name]
    for i, (got, expected) in enumerate(zip(run_ptx(text, [launch], arrays), run_cuda(text, [launch], arrays))):
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-5,
                                   err_msg=f"array {i}")


def test_what_differs_beside_the_emulator() -> None:
    """Floats that are near each other are the same, whole numbers are not; garbage is NaN in both."""
    a = np.array([1.5, -2, np.nan, 1e-9], np.float32)
    near, far = (a * np.float32(1 + e) for e in (1e-6, 1e-3))
    assert not differ(near.view(np.uint8), a.view(np.uint8), {"float", "int"})
    assert "1.50150013 -2.00200009], not" in differ(far.view(np.uint8), a.view(np.uint8), {"float"})
    left, other = np.array([2e-8, 0], np.float32), np.array([5e-8, 0], np.float32)
    assert differ(left.view(np.uint8), other.view(np.uint8), {"float"})
    assert not differ(left.view(np.uint8), other.view(np.uint8), {"float"}, largest([a]))      # rounding left it
    numbers = np.array([3, 7], np.int32)
    assert differ((numbers + 1).view(np.uint8), numbers.view(np.uint8), {"float", "int"})
    assert differ(a.view(np.uint8), np.roll(a, 1).view(np.uint8), {"int"}) == "bytes"
    small, last = np.array([5.519e-05, 1], np.float16), np.array([5.525e-05, 1], np.float16)
    types = {"hy_half", "int"}
    assert differ(small.view(np.uint8), last.view(np.uint8), types)                # it might be whole numbers
    assert held(small, types) == {"hy_half"} and held(numbers, types) == types
    assert not differ(small.view(np.uint8), last.view(np.uint8), held(small, types))


def rounded(memory: Memory, arrays: list[np.ndarray]) -> list[int]:
    """To what the numbers of each array were rounded; all of an array must be alike."""
    found = {at: set(memory.rounded[start:start + a.nbytes].tolist())
             for start, (at, a) in zip(memory.starts, memory.arrays)}
    (levels,) = zip(*(found[a.ctypes.data] for a in arrays), strict=True)
    return list(levels)


def test_doubles_that_were_computed_in_float() -> None:
    """They are as near as floats are, wherever they went in between; those beside them are as near as doubles."""
    text = """
__device__ __noinline__ double twice(double x) { return 2 * x; }
extern "C" __global__ void k(double *a, double *b, double *c, double *d, double *kept, const double *x) {
  int t = threadIdx.x;
  kept[t] = x[t] * 3 + (double)(float)t;
  __shared__ double s[32];
  s[t] = twice((double)logf((float)t + 1));
  __syncthreads();
  a[t] = s[31 - t] * x[t];
  b[t] = x[t] / 3;
  c[t] = t % 2 ? a[t] : 1;
  atomicAdd(&d[t], c[t]);
}"""
    entry, arrays = parse(compile_ptx(text))["k"], [np.zeros(32) for _ in range(6)]
    arrays[5][:] = normal(32)
    memory = Memory({a.ctypes.data: a for a in arrays})
    memory.launch(entry, Launch("k", (1, 1, 1), (32, 1, 1), 0, tuple(range(6))), [a.ctypes.data for a in arrays])
    assert rounded(memory, arrays) == [1, 0, 1, 1, 0, 0]
    x, y, first = np.array([1.5, 0.5]), np.array([1.5 + 1e-7, 0.5]), np.array([1, 0], np.uint8).repeat(8)
    assert differ(x.view(np.uint8), y.view(np.uint8), {"double"}, rounded=1 - first)
    assert not differ(x.view(np.uint8), y.view(np.uint8), {"double"}, rounded=first)


def test_floats_that_were_halves() -> None:
    """They are as near as halves are, if they were computed before; others are as near as floats."""
    text = """
#include "hybrid_cuda.cuh"
extern "C" __global__ void k(float *a, float *b, float *c, const float *x) {
  int t = threadIdx.x;
  float y = expf(x[t]);
  a[t] = 2 * hy_load_half(hy_store_half(y));
  b[t] = 2 * hy_load_half(hy_store_half(x[t]));
  c[t] = y;
}"""
    entry, arrays = parse(compile_ptx(text))["k"], [np.zeros(32, np.float32) for _ in range(4)]
    arrays[3][:] = normal(32)
    memory = Memory({a.ctypes.data: a for a in arrays})
    memory.launch(entry, Launch("k", (1, 1, 1), (32, 1, 1), 0, tuple(range(4))), [a.ctypes.data for a in arrays])
    assert rounded(memory, arrays) == [2, 1, 1, 0]


def test_mistakes_are_errors() -> None:
    head = 'extern "C" __global__ void k(float *x) {\n  '
    launch = [("k", (1, 1, 1), (32, 1, 1), 0, (0,))]
    with pytest.raises(PtxError, match="wrote outside|outside of global"):
        run_ptx(head + "x[threadIdx.x + 8] = 1;\n}", launch, [normal(32)])
    with pytest.raises(PtxError, match="misaligned"):
        run_ptx(head + "*(unsigned long long *)(x + 1) = 1;\n}", launch, [normal(64)])
    with pytest.raises(PtxError, match="no instruction|no register"):
        run_ptx(head + 'unsigned v; asm volatile("mov.u32 %0, %%smid;" : "=r"(v)); x[v] = 1;\n}', launch, [normal(64)])
    wrong = cuda_async_texts.PIPELINE.replace("hy_cp_async_wait<1>", "hy_cp_async_wait<2>")      # one stage too early
    name, grid, block, shared, args = TEXTS["copies, ldmatrix, products"][1]
    assert np.isnan(run_ptx(wrong, [(name, grid, block, shared, args)], TILE)[2]).any()


CARRIES = """extern "C" __global__ void wide(unsigned *x, const double *y, float *z) {
  unsigned t = threadIdx.x, low, high, other;
  asm("{ .reg .u32 a, %%r1; add.cc.u32 a, %2, %3; addc.u32 %1, %3, 7; sub.u32 %%r1, a, %3; mov.u32 %0, a; }"
      : "=r"(low), "=r"(high) : "r"(x[t]), "r"(0xfffffff0u));
  asm("{ .reg .b64 a; mov.b64 a, %1; mov.b64 {%0, _}, a; }" : "=r"(other) : "d"(y[t]));
  x[t] = low, x[t + 32] = high, x[t + 64] = other;
  z[t] = sinf(1e6f * (t + 1));
}"""


def test_carries_registers_of_parts_and_tables() -> None:
    """Sums that carry, registers that a part in braces has alone, and the table that sines of large numbers take."""
    x, y = np.zeros(96, np.uint32), np.arange(32) / 3
    x[:32] = np.arange(32)
    got, _, z = run_ptx(CARRIES, [("wide", (1, 1, 1), (32, 1, 1), 0, (0, 1, 2))], [x, y, np.zeros(32, np.float32)])
    first = np.arange(32, dtype=np.uint64) + np.uint64(0xfffffff0)
    np.testing.assert_array_equal(got[:32], first & np.uint64(0xffffffff))
    np.testing.assert_array_equal(got[32:64], (0xfffffff0 + 7 + (first >> np.uint64(32))).astype(np.uint32))
    np.testing.assert_array_equal(got[64:], (y.view(np.uint64) & np.uint64(0xffffffff)).astype(np.uint32))
    large = np.float32(1e6) * np.arange(1, 33, dtype=np.float32)
    np.testing.assert_allclose(z, np.sin(large, dtype=np.float64), atol=1e-6)


WORDS = """extern "C" __global__ void words(const unsigned *x, const unsigned *y, unsigned *z, unsigned long long *w) {
  unsigned t = threadIdx.x, a = x[t], b = y[t];
  unsigned long long l = (unsigned long long)a << 32 | b;
  asm("prmt.b32 %0, %1, %2, 0x4bc1;" : "=r"(z[t]) : "r"(a), "r"(b));
  if (t % 3) z[t + 32] = __funnelshift_l(a, b, b);
  z[t + 64] = __funnelshift_rc(a, b, a & 63);
  z[t + 96] = __umulhi(a, b), z[t + 128] = __mulhi((int)a, (int)b);
  w[t] = l * (l + 3), w[t + 32] = (long long)(int)a * (int)b + l, w[t + 64] = __umul64hi(l, l);
}"""


def test_words_and_products() -> None:
    """Bytes with repeated signs, two words shifted as one, whole products and their upper halves."""
    x, y = np.random.default_rng(3).integers(0, 1 << 32, (2, 32), np.uint32)
    z, w = np.zeros(160, np.uint32), np.zeros(96, np.uint64)
    launch = ("words", (1, 1, 1), (32, 1, 1), 0, (0, 1, 2, 3))
    _, _, z, w = run_ptx(WORDS, [launch], [x, y, z, w])
    for t, (a, b) in enumerate(zip(x.tolist(), y.tolist())):
        bytes_ = (a | b << 32).to_bytes(8, "little")
        signs = [0xff * (bytes_[k] >> 7) for k in (4, 3)]
        assert z[t] == int.from_bytes(bytes([bytes_[1], *signs, bytes_[4]]), "little")
        assert z[t + 32] == (((b << 32 | a) << (b & 31)) >> 32 & 0xffffffff if t % 3 else 0)
        assert z[t + 64] == (b << 32 | a) >> min(a & 63, 32) & 0xffffffff
        s, r, both = a - (a >> 31 << 32), b - (b >> 31 << 32), a << 32 | b
        assert z[t + 96] == a * b >> 32 and z[t + 128] == s * r >> 32 & 0xffffffff
        whole = both * (both + 3), s * r + both, both * both >> 64
        assert [int(v) for v in w[t::32]] == [v & (1 << 64) - 1 for v in whole]


PARTS = """static __device__ __noinline__ unsigned turned(unsigned a) {
  extern __shared__ unsigned memory[];                      // NVRTC gives it another name here, with a $
  memory[threadIdx.x ^ 1] = a;
  __syncthreads();
  return memory[threadIdx.x];
}
extern "C" __global__ void parts(const unsigned *x, const unsigned *y, unsigned *z) {
  extern __shared__ unsigned memory[];
  unsigned t = threadIdx.x, a = x[t], b = y[t];
  unsigned long long at;
  asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(z[t]) : "r"(a), "r"(b), "r"(t));
  asm("dp2a.hi.s32.u32 %0, %1, %2, %3;" : "=r"(z[t + 32]) : "r"(a), "r"(b), "r"(t));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(z[t + 64]) : "f"(__uint_as_float(a)));
  memory[t] = a;
  __syncthreads();
  asm("mov.u64 %0, memory+8;" : "=l"(at));
  asm("ld.shared.b32 %0, [%1];" : "=r"(z[t + 96]) : "l"(at));
  __syncthreads();
  z[t + 128] = turned(a);
}"""


def test_products_of_parts_tf32_and_places_in_arrays() -> None:
    x, y = np.random.default_rng(4).integers(0, 1 << 32, (2, 32), np.uint32)
    x[:3] = 0x3f801000, 0xbf800fff, 0x7f800000              # halfway away from zero, down, infinity
    _, _, z = run_ptx(PARTS, [("parts", (1, 1, 1), (32, 1, 1), 128, (0, 1, 2))], [x, y, np.zeros(160, np.uint32)])
    halves, bytes_ = x.view(np.uint16).reshape(32, 2).astype(int), y.view(np.uint8).reshape(32, 4).astype(int)
    lower = (halves * bytes_[:, :2]).sum(1) + np.arange(32)
    upper = (halves.astype(np.int16).astype(int) * bytes_[:, 2:]).sum(1) + np.arange(32)
    np.testing.assert_array_equal(z[:32], lower.astype(np.uint32))
    np.testing.assert_array_equal(z[32:64], upper.astype(np.uint32))
    assert z[64:67].tolist() == [0x3f802000, 0xbf800000, 0x7f800000] and (z[64:96] & 0x1fff == 0).all()
    assert (z[96:128] == x[2]).all() and (z[128:] == x.reshape(16, 2)[:, ::-1].ravel()).all()


PARTED = """.visible .entry parted(.param .u64 x) {
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
  .shared .align 16 .b8 rows[512];
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r2, rows;
  mad.lo.s32 %r3, %r1, 16, %r2;
  mov.u32 %r4, 5;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra $LATER;
$MEET:
  st.shared.b32 [%r3], %r4;
  bar.warp.sync -1;
  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r3];
  st.global.b32 [%rd3], %r5;
  ret;
$LATER:
  mov.u32 %r4, 7;
  bra $MEET;
}"""


def test_parts_of_a_warp_meet() -> None:
    """Behind a branch whose code stands later, as compilers put what is rare; not where a part never comes."""
    def run(text: str) -> np.ndarray:
        x = np.zeros(32, np.uint32)
        memory = Memory({x.ctypes.data: x})
        memory.launch(parse(text)["parted"], Launch("parted", (1, 1, 1), (32, 1, 1), 0, (0,)), [x.ctypes.data])
        memory.close()
        return x
    for text in (PARTED, PARTED.replace("  bar.warp.sync -1;\n", "")):
        assert (run(text)[::4] == 7).all()
    with pytest.raises(PtxError, match="ldmatrix.* by parts of a warp"):
        run(PARTED.replace("bar.warp.sync -1;", "").replace("bra $MEET", "ret"))


def test_lanes_that_a_mask_names() -> None:
    """They exchange values whether the others are there or not, and wait for each other on whatever way they come."""
    text = """
extern "C" __global__ void k(int *a, int *b) {
  int t = threadIdx.x, v = 100 + t;
  a[t] = -1, b[t] = -1;
  if (t % 32 < 8) a[t] = __shfl_xor_sync(0xffu, v, 1) + 1000 * __popc(__ballot_sync(0xffu, t % 2));
  else if (t % 32 >= 16) a[t] = __shfl_down_sync(0xffff0000u, v, 2, 16);
  if (t > 35) return;
  b[t] = __shfl_sync(t < 32 ? ~0u : 0xfu, v, 2);
}"""
    launch = [("k", (1, 1, 1), (40, 1, 1), 0, (0, 1))]
    a, b = run_ptx(text, launch, [np.zeros(40, np.int32) for _ in range(2)])
    t = np.arange(40)
    few, many = t % 32 < 8, t % 32 >= 16
    assert (a[few] == 4100 + (t ^ 1)[few]).all() and (a[~few & ~many] == -1).all()
    assert (a[many] == 100 + np.where(t % 16 < 14, t + 2, t)[many]).all()
    assert (b[:32] == 102).all() and (b[32:36] == 134).all() and (b[36:] == -1).all()
