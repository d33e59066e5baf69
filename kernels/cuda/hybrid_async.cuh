// Tensor cores, their loads and asynchronous copies: PTX on a GPU (compute capability 8.0 and later, where nothing else
// is said), functions in the emulator.
//
// With g = lane / 4 and t = lane % 4, a warp holds for D (16 x 8, float) += A (16 x depth) B (depth x 8):
//   d: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
//   16 deep, halves: a: pairs at (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8);
//                    b: pairs of rows 2t, 2t + 8, column g
//   8 deep, halves:  a: pairs at (g, 2t), (g + 8, 2t); b: pair of rows 2t, column g
//   8 deep, tf32:    a: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4); b: (t, g), (t + 4, g)
#ifndef HYBRID_ASYNC_CUH
#define HYBRID_ASYNC_CUH
#include "hybrid_cuda.cuh"

// ---- an address in shared memory, which may be moved by bytes
#ifdef CUDA_ON_CPU
typedef char *hy_shared;
HY_FN hy_shared hy_shared_of(const void *p) { return (char *)p; }
#else
typedef unsigned hy_shared;
HY_FN hy_shared hy_shared_of(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
#endif

#ifdef CUDA_ON_CPU
#define hy_mma_bf16 emu::mma<emu::BFLOAT, 16>
#define hy_mma_half emu::mma<emu::HALF, 16>
#define hy_mma_tf32 emu::mma<emu::TF32, 8>
#define hy_mma_bf16_k8 emu::mma<emu::BFLOAT, 8>
#define hy_mma_half_k8 emu::mma<emu::HALF, 8>
#define hy_mma_tf32_k4 emu::mma<emu::TF32, 4>
template <int COUNT> HY_FN void hy_ldmatrix(unsigned *to, hy_shared row) { emu::ldmatrix<COUNT, false>(to, row); }
template <int COUNT> HY_FN void hy_ldmatrix_trans(unsigned *to, hy_shared row) { emu::ldmatrix<COUNT, true>(to, row); }
template <int SIZE> HY_FN void hy_cp_async(hy_shared to, const void *from, int filled = SIZE) {
    emu_cp_async(to, from, SIZE, filled);
}
HY_FN void hy_cp_async16(void *shared, const void *global) { emu_cp_async(shared, global, 16, 16); }
HY_FN void hy_cp_async_commit() { emu_cp_async_commit(); }
template <int GROUPS> HY_FN void hy_cp_async_wait() { emu_cp_async_wait(GROUPS); }
HY_FN void hy_cp_async_arrive(hy_shared barrier) { emu_cp_async_arrive(barrier); }
HY_FN void hy_mbarrier_init(hy_shared barrier, unsigned count) { emu_mbarrier_init(barrier, count); }
HY_FN void hy_mbarrier_arrive(hy_shared barrier) { emu_mbarrier_arrive(barrier); }
HY_FN void hy_mbarrier_expect(hy_shared barrier, unsigned bytes) { emu_mbarrier_expect(barrier, bytes); }
HY_FN void hy_mbarrier_wait(hy_shared barrier, unsigned parity) { emu_mbarrier_wait(barrier, parity); }
// What threads wrote into shared memory (cp.async too) is seen by wgmma and bulk copies behind it.
HY_FN void hy_proxy_fence() { emu::emu_watch_sync(emu::PROXY_FENCE, nullptr); }
HY_FN void hy_cp_async_bulk(hy_shared to, const void *from, unsigned bytes, hy_shared barrier) {
    emu_cp_async_bulk(to, from, bytes, barrier);
}
#else
#define HY_MMA(name, shape, types, a_list, b_list, ...)                                                          \
    HY_FN void name(float d[4], const unsigned *a, const unsigned *b) {                                          \
        asm volatile("mma.sync.aligned." shape ".row.col.f32." types ".f32 {%0,%1,%2,%3}," a_list "," b_list     \
                     ",{%0,%1,%2,%3};"                                                                           \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : __VA_ARGS__);                            \
    }
#define HY_FOUR "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
#if __CUDA_ARCH__ >= 800
HY_MMA(hy_mma_bf16, "m16n8k16", "bf16.bf16", "{%4,%5,%6,%7}", "{%8,%9}", HY_FOUR, "r"(b[0]), "r"(b[1]))
HY_MMA(hy_mma_half, "m16n8k16", "f16.f16", "{%4,%5,%6,%7}", "{%8,%9}", HY_FOUR, "r"(b[0]), "r"(b[1]))
HY_MMA(hy_mma_tf32, "m16n8k8", "tf32.tf32", "{%4,%5,%6,%7}", "{%8,%9}", HY_FOUR, "r"(b[0]), "r"(b[1]))
HY_MMA(hy_mma_bf16_k8, "m16n8k8", "bf16.bf16", "{%4,%5}", "{%6}", "r"(a[0]), "r"(a[1]), "r"(b[0]))
HY_MMA(hy_mma_tf32_k4, "m16n8k4", "tf32.tf32", "{%4,%5}", "{%6}", "r"(a[0]), "r"(a[1]), "r"(b[0]))
#endif
// Before sm_80 tensor cores take float16 alone, eight deep.
HY_MMA(hy_mma_half_k8, "m16n8k8", "f16.f16", "{%4,%5}", "{%6}", "r"(a[0]), "r"(a[1]), "r"(b[0]))
#if __CUDA_ARCH__ < 800
HY_FN void hy_mma_half(float d[4], const unsigned *a, const unsigned *b) {
    hy_mma_half_k8(d, a, b);
    hy_mma_half_k8(d, a + 2, b + 1);
}
#endif
#undef HY_FOUR
#undef HY_MMA

// ---- matrices of 8 rows of 16 bytes from shared memory (sm_75 and later): lanes 8 i .. 8 i + 7 give the addresses of
// the rows of matrix i. A lane gets of each the word (g, t); of transposed ones the halves (2t, g) and (2t + 1, g).
#define HY_LDMATRIX(name, spelling)                                                                                  \
    template <int COUNT> HY_FN void name(unsigned *to, hy_shared row) {                                              \
        if (COUNT == 4)                                                                                              \
            asm volatile("ldmatrix.sync.aligned.m8n8.x4" spelling ".shared.b16 {%0,%1,%2,%3}, [%4];"                 \
                         : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");                \
        else if (COUNT == 2)                                                                                         \
            asm volatile("ldmatrix.sync.aligned.m8n8.x2" spelling ".shared.b16 {%0,%1}, [%2];"                       \
                         : "=r"(to[0]), "=r"(to[1]) : "r"(row) : "memory");                                          \
        else                                                                                                         \
            asm volatile("ldmatrix.sync.aligned.m8n8.x1" spelling ".shared.b16 {%0}, [%1];"                          \
                         : "=r"(to[0]) : "r"(row) : "memory");                                                       \
    }
HY_LDMATRIX(hy_ldmatrix, "")
HY_LDMATRIX(hy_ldmatrix_trans, ".trans")
#undef HY_LDMATRIX
#endif

#if defined(CUDA_ON_CPU) || __CUDA_ARCH__ < 800
// hy_mma_bf16 without tensor cores: each lane takes its rows and columns of both factors from the lanes that hold them.
HY_FN void hy_mma_bf16_by_lanes(float d[4], const unsigned *a, const unsigned *b) {
    const int lane = threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8;
    #pragma unroll
    for (int k = 0; k < 2; k++)
        #pragma unroll 1
        for (int t = 0; t < 4; t++) {
            const unsigned x[2] = {__shfl_sync(~0u, a[2 * k], row + t), __shfl_sync(~0u, a[2 * k + 1], row + t)};
            const unsigned y[2] = {__shfl_sync(~0u, b[k], column + t), __shfl_sync(~0u, b[k], column + 4 + t)};
            #pragma unroll
            for (int n = 0; n < 4; n++) {
                d[n] += __uint_as_float(x[n / 2] << 16) * __uint_as_float(y[n % 2] << 16);
                d[n] += __uint_as_float(x[n / 2] & 0xffff0000u) * __uint_as_float(y[n % 2] & 0xffff0000u);
            }
        }
}
#endif
#ifndef CUDA_ON_CPU
#if __CUDA_ARCH__ < 800
#define hy_mma_bf16 hy_mma_bf16_by_lanes
#endif

// SIZE (4, 8 or 16) bytes from global to shared memory, both on boundaries of as many; `filled` of them are read, the
// rest are zeros. They are there after commit and wait.
template <int SIZE> HY_FN void hy_cp_async(hy_shared to, const void *from, int filled = SIZE) {
    if (SIZE == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(to), "l"(from), "r"(filled) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     : : "r"(to), "l"(from), "n"(SIZE), "r"(filled) : "memory");
}
HY_FN void hy_cp_async16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(hy_shared_of(shared)), "l"(global) : "memory");
}
HY_FN void hy_cp_async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// Waits until at most GROUPS of this thread's committed groups are under way. Other threads' bytes need a barrier too.
template <int GROUPS> HY_FN void hy_cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS) : "memory");
}

// ---- mbarriers: 8 bytes of shared memory that count arrivals and, of bulk copies, bytes. Phases have parity 0, 1, ...
HY_FN void hy_mbarrier_init(hy_shared barrier, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(barrier), "r"(count) : "memory");
}
HY_FN void hy_mbarrier_arrive(hy_shared barrier) {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" : : "r"(barrier) : "memory");
}
// The copies of this thread until now count as its arrival when they are there.
HY_FN void hy_cp_async_arrive(hy_shared barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(barrier) : "memory");
}
#if __CUDA_ARCH__ >= 900
// An arrival that announces bytes of bulk copies.
HY_FN void hy_mbarrier_expect(hy_shared barrier, unsigned bytes) {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1; }"
                 : : "r"(barrier), "r"(bytes) : "memory");
}
HY_FN void hy_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }
// A multiple of 16 bytes, both on 16-byte boundaries, by one thread.
HY_FN void hy_cp_async_bulk(hy_shared to, const void *from, unsigned bytes, hy_shared barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 : : "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
#endif
// Waits until the phase of this parity is complete.
HY_FN void hy_mbarrier_wait(hy_shared barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }"
                 : : "r"(barrier), "r"(parity) : "memory");
#else
    asm volatile("{ .reg .pred p; AGAIN: mbarrier.test_wait.parity.shared.b64 p, [%0], %1; @!p bra AGAIN; }"
                 : : "r"(barrier), "r"(parity) : "memory");
#endif
}
#endif

#endif
