"""CUDA texts of tests/cuda/test_cuda_async.py: loads, copies and products of tensor cores, from hybrid_async.cuh."""
from __future__ import annotations

HEAD = '#include "hybrid_async.cuh"\n'

# every shape of mma: A (16 x DEPTH) by rows, B (8 x DEPTH) by rows, C (16 x 8); words of 32 bits
MMA = HEAD + r"""
extern "C" __global__ void product(const unsigned *A, const unsigned *B, float *C) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4, line = WORDS * 4;
    unsigned a[4], b[2];
    float d[4] = {};
    for (int w = 0; w < 2 * WORDS; w++) a[w] = A[(g + w % 2 * 8) * line + w / 2 * 4 + t];
    for (int w = 0; w < WORDS; w++) b[w] = B[g * line + w * 4 + t];
    FUNCTION(d, a, b);
    for (int i = 0; i < 4; i++) C[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}
"""

# 64 x 64 x 64 of bfloat16 by four warps: three stages of cp.async, a swizzle, ldmatrix; B by rows of depth, transposed
# on the way
PIPELINE = HEAD + r"""
extern "C" __global__ void __launch_bounds__(128) product(const unsigned short *A, const unsigned short *B, float *C) {
    extern __shared__ __align__(128) unsigned char memory[];
    const hy_shared base = hy_shared_of(memory);
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, K = 64;
    float acc[8][4] = {};
    auto load = [&](int s) {
        if (s < K / 16) {
            hy_shared to = base + s % 3 * 4096;
            hy_cp_async<16>(to + (t / 2) * 32 + (t % 2 ^ t / 8 % 2) * 16, A + t / 2 * K + s * 16 + t % 2 * 8);
            hy_cp_async<16>(to + 2048 + t / 8 * 128 + (t % 8 ^ t / 8 % 8) * 16, B + (s * 16 + t / 8) * 64 + t % 8 * 8);
        }
        hy_cp_async_commit();
    };
    load(0), load(1);
    for (int s = 0; s < K / 16; s++) {
        hy_cp_async_wait<1>();
        __syncthreads();
        load(s + 2);
        const hy_shared from = base + s % 3 * 4096;
        const int row = warp * 16 + lane % 16;
        unsigned a[4], b[4][4];
        hy_ldmatrix<4>(a, from + row * 32 + (lane / 16 ^ row / 4 % 2) * 16);
        for (int y = 0; y < 4; y++) {
            const int k = lane % 16, c = 2 * y + lane / 16;
            hy_ldmatrix_trans<4>(b[y], from + 2048 + k * 128 + (c ^ k % 8) * 16);
        }
        for (int y = 0; y < 8; y++) hy_mma_bf16(acc[y], a, &b[y / 2][y % 2 * 2]);
    }
    for (int y = 0; y < 8; y++)
        for (int i = 0; i < 4; i++)
            C[(warp * 16 + lane / 4 + i / 2 * 8) * 64 + y * 8 + lane % 4 * 2 + i % 2] = acc[y][i];
}
"""

# a warp that copies and a warp that uses, by barriers: two slots of 1 KB
PRODUCER = HEAD + r"""
extern "C" __global__ void __launch_bounds__(64) ring(const float *x, float *y) {
    __shared__ __align__(128) float slot[2][256];
    __shared__ __align__(8) unsigned long long full[2], empty[2];
    if (threadIdx.x < 2) {
        hy_mbarrier_init(hy_shared_of(&full[threadIdx.x]), FULL);
        hy_mbarrier_init(hy_shared_of(&empty[threadIdx.x]), 32);
#if __CUDA_ARCH__ >= 900
        hy_proxy_fence();
#endif
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < 6; i++) {
        const int s = i % 2;
        const hy_shared ready = hy_shared_of(&full[s]), used = hy_shared_of(&empty[s]);
        if (threadIdx.x < 32) {
            if (i >= 2) hy_mbarrier_wait(used, (i / 2 - 1) % 2);
            __syncwarp();                       // else a lane could be two phases behind, and wait for ever
            COPY
        } else {
            WAIT
            for (int k = lane; k < 256; k += 32) y[i * 256 + k] = slot[s][255 - k];
            hy_mbarrier_arrive(used);
        }
    }
}
"""
BY_LANES = """for (int k = 0; k < 2; k++)
                hy_cp_async<16>(hy_shared_of(&slot[s][k * 128 + lane * 4]), x + i * 256 + k * 128 + lane * 4);
            hy_cp_async_arrive(ready);"""
IN_BULK = """if (lane == 0) {
                hy_mbarrier_expect(ready, 1024);
                hy_cp_async_bulk(hy_shared_of(slot[s]), x + i * 256, 1024, ready);
            }"""

# a copy of which the last bytes are zeros
PARTLY = HEAD + r"""
extern "C" __global__ void partly(const float *x, float *y) {
    __shared__ __align__(16) float line[32 * 4];
    hy_cp_async<16>(hy_shared_of(&line[threadIdx.x * 4]), x + threadIdx.x * 4, (int)threadIdx.x % 5 * 4);
    hy_cp_async_commit();
    hy_cp_async_wait<0>();
    __syncwarp();
    for (int i = 0; i < 4; i++) y[i * 32 + threadIdx.x] = line[i * 32 + threadIdx.x];
}
extern "C" __global__ void off(const float *x, float *y) {
    __shared__ __align__(16) float line[64];
    WRONG
}
"""

# blocks that count how many others run between two of their barriers
TURNS = r"""
extern "C" __global__ void turns(int *now, int *most) {
    if (threadIdx.x == 0) atomicAdd(now, 1);
    __syncthreads();
    if (threadIdx.x == 0) atomicMax(most, *now);
    __syncthreads();
    if (threadIdx.x == 0) atomicSub(now, 1);
}
"""

# 64 x COLUMNS x 64 of a warpgroup: tiles copied with the swizzle, four products 16 deep, two groups of them
WARPGROUP = HEAD + r"""
#include "hybrid_wgmma.cuh"
extern "C" __global__ void __launch_bounds__(128) product(const unsigned short *A, const unsigned short *B, float *C) {
#if defined(CUDA_ON_CPU) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ __align__(1024) unsigned char a[64 * 128], b[COLUMNS * 128];
    const int t = threadIdx.x;
    for (int e = t; e < 64 * 8; e += 128)
        hy_cp_async<16>(hy_shared_of(a + e / 8 * 128 + (e % 8 ^ e / 8 % 8) * 16), A + e * 8);
    for (int e = t; e < COLUMNS * 8; e += 128)
        hy_cp_async<16>(hy_shared_of(b + e / 8 * 128 + (e % 8 ^ e / 8 % 8) * 16), B + e * 8);
    hy_cp_async_commit();
    hy_cp_async_wait<0>();
    hy_proxy_fence();
    __syncthreads();
    float d[COLUMNS / 2];
    for (int i = 0; i < COLUMNS / 2; i++) d[i] = 0;
    const hy_matrix x = hy_matrix_of(hy_shared_of(a)), y = hy_matrix_of(hy_shared_of(b));
    hy_wgmma_fence();
    for (int k = 0; k < 4; k++) {
        FUNCTION(d, hy_matrix_at(x, k * 32), hy_matrix_at(y, k * 32));
        if (k % 2) hy_wgmma_commit();
    }
    WAIT
    for (int i = 0; i < COLUMNS / 2; i++)
        C[(t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) * COLUMNS + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
#endif
}
"""

# boxes of an array through a tensor map: BOX elements, a box a turn in two slots
BOXES = r"""
extern "C" __global__ void __launch_bounds__(64) boxes(const ELEMENT *x, const hy_tensor_map __grid_constant__ map,
                                                       ELEMENT *y) {
    __shared__ __align__(1024) ELEMENT slot[2][BOX];
    __shared__ __align__(8) unsigned long long full[2], empty[2];
    const unsigned size = sizeof slot[0];
    if (threadIdx.x < 2) {
        hy_mbarrier_init(hy_shared_of(&full[threadIdx.x]), 1);
        hy_mbarrier_init(hy_shared_of(&empty[threadIdx.x]), 32);
        hy_proxy_fence();
    }
    __syncthreads();
    if (threadIdx.x >= 32) {
        if (threadIdx.x > 32) return;
        hy_prefetch_map(map);
        for (int i = 0; i < TURNS; i++) {
            const int s = i % 2;
            hy_mbarrier_wait(hy_shared_of(&empty[s]), (i / 2 + 1) & 1);
            hy_mbarrier_expect(hy_shared_of(&full[s]), size);
            hy_copy_box(hy_shared_of(slot[s]), map, hy_shared_of(&full[s]), PLACE);
        }
        return;
    }
    for (int i = 0; i < TURNS; i++) {
        const int s = i % 2;
        hy_mbarrier_wait(hy_shared_of(&full[s]), i / 2 & 1);
        for (int k = threadIdx.x; k < BOX; k += 32) y[i * BOX + k] = slot[s][k];
        hy_mbarrier_arrive(hy_shared_of(&empty[s]));
    }
}
"""
