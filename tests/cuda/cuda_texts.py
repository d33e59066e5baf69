"""CUDA sources for tests: the same text goes to NVRTC and to the emulator."""
from __future__ import annotations

ELEMENTWISE = r"""
#include "hybrid_cuda.cuh"
extern "C" __global__ void fused(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ o) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 100003) return;
    float v = a[i] * b[i] + 1.f;
    v = v > 0.f ? v : 0.f;
    o[i] = tanhf(v) * expf(-v);
}
extern "C" __global__ void fused4(const float4 *__restrict__ a, const float4 *__restrict__ b, float4 *__restrict__ o) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 25000; i += gridDim.x * blockDim.x) {
        float4 x = a[i], y = b[i];
        o[i] = make_float4(x.x * y.x, x.y * y.y, x.z * y.z, x.w * y.w);
    }
}
"""

REDUCE = r"""
#include "hybrid_cuda.cuh"
#define EACH(i) for (int i = threadIdx.x; i < 5000; i += blockDim.x)
extern "C" __global__ void block_sum(const float *x, float *out) {
    __shared__ float scratch[32];
    const float *row = x + blockIdx.x * 5000;
    float v = 0.f;
    EACH(i) v += row[i];
    v = hy_block_reduce(v, hy_sum_op(), 0.f, scratch);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
}
extern "C" __global__ void block_argmax(const double *x, long long *out) {
    __shared__ hy_indexed<double> scratch[32];
    hy_indexed<double> none = {-HY_INF, 0x7fffffffffffffffll}, v = none;
    const double *row = x + blockIdx.x * 5000;
    EACH(i) {
        hy_indexed<double> here = {row[i], i};
        v = hy_argmax_op()(v, here);
    }
    v = hy_block_reduce(v, hy_argmax_op(), none, scratch);
    if (threadIdx.x == 0) out[blockIdx.x] = v.index;
}
extern "C" __global__ void block_range(const short *x, short *out) {
    __shared__ short scratch[32];
    short low = 32767, high = -32768;
    const short *row = x + blockIdx.x * 5000;
    EACH(i) low = hy_min_op()(low, row[i]), high = hy_max_op()(high, row[i]);
    low = hy_block_reduce(low, hy_min_op(), (short)32767, scratch);
    high = hy_block_reduce(high, hy_max_op(), (short)-32768, scratch);
    if (threadIdx.x == 0) out[blockIdx.x * 2] = low, out[blockIdx.x * 2 + 1] = high;
}
extern "C" __global__ void softmax(const float *x, float *y) {
    extern __shared__ float row[];
    __shared__ float scratch[32];
    float m = -HY_INF, s = 0.f;
    EACH(i) m = fmaxf(m, row[i] = x[blockIdx.x * 5000 + i]);
    m = hy_block_reduce(m, hy_max_op(), -HY_INF, scratch);
    EACH(i) s += row[i] = expf(row[i] - m);
    s = hy_block_reduce(s, hy_sum_op(), 0.f, scratch);
    EACH(i) y[blockIdx.x * 5000 + i] = row[i] / s;
}
"""

# C = relu(A @ B + bias), row major, 130 x 50 @ 50 x 77; 256 threads, 4 x 4 outputs a thread
MATMUL = r"""
#define TM 64
#define TN 64
#define TK 16
enum { M = 130, N = 77, K = 50 };
extern "C" __global__ void __launch_bounds__(256)
matmul(const float *__restrict__ A, const float *__restrict__ B, const float *__restrict__ bias, float *__restrict__ C) {
    __shared__ float As[TK][TM + 4], Bs[TK][TN];
    int tx = threadIdx.x & 15, ty = threadIdx.x >> 4, m0 = blockIdx.y * TM, n0 = blockIdx.x * TN;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += TK) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int e = threadIdx.x + j * 256, m = e / TK, k = e % TK;
            As[k][m] = m0 + m < M && k0 + k < K ? A[(m0 + m) * K + k0 + k] : 0.f;
            int kb = e / TN, n = e % TN;
            Bs[kb][n] = n0 + n < N && k0 + kb < K ? B[(k0 + kb) * N + n0 + n] : 0.f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TK; k++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] = fmaf(As[k][ty * 4 + i], Bs[k][tx * 4 + j], acc[i][j]);
        NEXT_TILE_BARRIER
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            int m = m0 + ty * 4 + i, n = n0 + tx * 4 + j;
            if (m < M && n < N) C[m * N + n] = fmaxf(acc[i][j] + bias[n], 0.f);
        }
}
"""  # noqa: E501

HALF = r"""
#include "hybrid_cuda.cuh"
extern "C" __global__ void to_half(const float *x, hy_half *h, hy_bf16 *b, float *back, float *back_bf16) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    h[i] = hy_store_half(x[i]);
    b[i] = hy_store_bf16(x[i]);
    back[i] = hy_load_half(h[i]);
    back_bf16[i] = hy_load_bf16(b[i]);
}
extern "C" __global__ void from_half(const hy_half *h, float *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = hy_load_half(h[i]);
}
extern "C" __global__ void scatter(const int *at, const float *x, float *f, double *d, long long *l, hy_half *h, hy_bf16 *b,
                                   signed char *c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    hy_atomic_add(f + at[i], x[i]);
    hy_atomic_add(d + at[i], (double)x[i]);
    hy_atomic_add(l + at[i], (long long)x[i]);
    hy_atomic_add_half(h + at[i], x[i]);
    hy_atomic_add_bf16(b + at[i], x[i]);
    hy_atomic_add(c + at[i], (signed char)x[i]);
}
"""  # noqa: E501

# A whole MLP in one cooperative launch, a warp an output; the barrier of a real GPU spins
PERSISTENT = r"""
static __device__ void grid_sync(unsigned *bar) {
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned inc = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
        __threadfence();
        unsigned old = atomicAdd(bar, inc);
        while (((old ^ *(volatile unsigned *)bar) & 0x80000000u) == 0) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
}
#ifdef CUDA_ON_CPU
#define GRID_SYNC(bar) emu_grid_sync()
#else
#define GRID_SYNC(bar) grid_sync(bar)
#endif
extern "C" __global__ void mlp(const float *w, float *a, float *b, unsigned *bar) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, warps = gridDim.x * blockDim.x >> 5, lane = threadIdx.x & 31;
    for (int layer = 0; layer < 3; layer++) {
        for (int o = warp; o < 64; o += warps) {
            float s = 0;
            for (int i = lane; i < 64; i += 32) s = fmaf(w[(layer * 64 + o) * 64 + i], a[i], s);
            for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
            if (lane == 0) b[o] = fmaxf(s, 0.f);
        }
        float *t = a;
        a = b;
        b = t;
        GRID_SYNC(bar);
    }
}
extern "C" __global__ void spin(int *x, unsigned *bar) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = i;
    grid_sync(bar);
    x[256 + i] = *(volatile int *)(x + 255 - i);
}
"""  # noqa: E501

# Misuse, and the right way beside it
MISUSE = r"""
extern "C" __global__ void divergent(float *x) {
    if (threadIdx.x < 16) __syncthreads();
    else x[threadIdx.x] += __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
}
extern "C" __global__ void wrong_mask(float *x) {
    if (threadIdx.x < 16) x[threadIdx.x] += __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
    else __syncthreads();
}
extern "C" __global__ void not_in_mask(float *x) { x[threadIdx.x] += __shfl_xor_sync(0x0000ffffu, x[threadIdx.x], 1); }
extern "C" __global__ void race(float *x) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[255 - threadIdx.x];
}
extern "C" __global__ void no_race(float *x) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[255 - threadIdx.x];
}
extern "C" __global__ void reverse_rows(float *x) {
    __shared__ float s[256];
    s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    x[blockIdx.x * 256 + threadIdx.x] = s[255 - threadIdx.x];
}
extern "C" __global__ void half_warps(float *x) {
    unsigned mask = (threadIdx.x & 31) < 16 ? 0x0000ffffu : 0xffff0000u;
    float v = x[threadIdx.x];
    for (int r = 0; r < ((threadIdx.x & 16) ? 1 : 3); r++)
        for (int o = 8; o; o >>= 1) v += __shfl_xor_sync(mask, v, o);
    x[threadIdx.x] = v + __shfl_xor_sync(0xffffffffu, v, 16);
}
extern "C" __global__ void many_masks(float *x) {
    float v = x[threadIdx.x];
    for (int first = 0; first < 31; first++) {
        unsigned mask = 3u << first;
        if (mask >> (threadIdx.x & 31) & 1) v += __shfl_sync(mask, v, first);
    }
    x[threadIdx.x] = v;
}
extern "C" __global__ void arrivals(int *next, int *order) { order[atomicAdd(next, 1)] = threadIdx.x; }
extern "C" __global__ void uses_garbage(float *x) {
    __shared__ float s[32];
    x[threadIdx.x] = s[threadIdx.x & 31];
}
"""

# C (32 x 24, float) = A (32 x 64) B^T (24 x 64), bfloat16; one warp a 16 x 8 tile
TENSOR_CORES = r"""
#include "hybrid_async.cuh"
extern "C" __global__ void mma(const hy_bf16 *A, const hy_bf16 *B, float *C) {
    int lane = threadIdx.x, g = lane >> 2, t = lane & 3, m = blockIdx.y * 16, n = blockIdx.x * 8;
    float d[4] = {0, 0, 0, 0};
    for (int k = 0; k < 64; k += 16) {
        const hy_bf16 *a0 = A + (m + g) * 64 + k + t * 2, *b0 = B + (n + g) * 64 + k + t * 2;
        unsigned a[4] = {*(const unsigned *)a0, *(const unsigned *)(a0 + 8 * 64), *(const unsigned *)(a0 + 8),
                         *(const unsigned *)(a0 + 8 * 64 + 8)};
        unsigned b[2] = {*(const unsigned *)b0, *(const unsigned *)(b0 + 8)};
        hy_mma_bf16(d, a, b);
    }
    for (int i = 0; i < 4; i++) C[(m + g + i / 2 * 8) * 24 + n + t * 2 + i % 2] = d[i];
}
"""

# y = x in 8 tiles of 128 floats through two buffers
COPIES = r"""
#include "hybrid_async.cuh"
extern "C" __global__ void pipeline(const float *x, float *y) {
    __shared__ __align__(16) float tile[2][128];
    hy_cp_async16(&tile[0][threadIdx.x * 4], x + threadIdx.x * 4);
    hy_cp_async_commit();
    for (int i = 0; i < 8; i++) {
        if (i < 7) hy_cp_async16(&tile[(i + 1) & 1][threadIdx.x * 4], x + (i + 1) * 128 + threadIdx.x * 4);
        hy_cp_async_commit();
        WAIT
        __syncthreads();
        for (int k = threadIdx.x; k < 128; k += 32) y[i * 128 + 127 - k] = tile[i & 1][127 - k];
        __syncthreads();
    }
    hy_cp_async_wait<0>();
}
"""
