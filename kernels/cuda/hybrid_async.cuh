// Tensor cores and asynchronous copies (compute capability 8.0 and later): PTX on a GPU, functions in the emulator.
#ifndef HYBRID_ASYNC_CUH
#define HYBRID_ASYNC_CUH
#include "hybrid_cuda.cuh"

#ifdef CUDA_ON_CPU
#define hy_mma_bf16 emu_mma_m16n8k16<true>
#define hy_mma_half emu_mma_m16n8k16<false>
HY_FN void hy_cp_async16(void *shared, const void *global) { emu_cp_async(shared, global, 16); }
HY_FN void hy_cp_async_commit() { emu_cp_async_commit(); }
template <int GROUPS> HY_FN void hy_cp_async_wait() { emu_cp_async_wait(GROUPS); }
#else
// D (16 x 8, float) += A (16 x 16, bfloat16) B (16 x 8, bfloat16), by one warp. With g = lane / 4 and t = lane % 4:
// d: rows g, g, g + 8, g + 8 and columns 2t, 2t + 1; a: pairs at (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8);
// b: pairs of rows 2t, 2t + 8 in column g.
#if __CUDA_ARCH__ >= 800
HY_FN void hy_mma_bf16(float d[4], const unsigned a[4], const unsigned b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The same with float16.
HY_FN void hy_mma_half(float d[4], const unsigned a[4], const unsigned b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
// Before sm_80 tensor cores take float16 alone, eight deep.
HY_FN void hy_mma_half(float d[4], const unsigned a[4], const unsigned b[2]) {
    #pragma unroll
    for (int k = 0; k < 2; k++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[k]));
}
#endif
#endif

#if defined(CUDA_ON_CPU) || __CUDA_ARCH__ < 800
// hy_mma_bf16 without tensor cores: each lane takes its rows and columns of both factors from the lanes that hold them.
HY_FN void hy_mma_bf16_by_lanes(float d[4], const unsigned a[4], const unsigned b[2]) {
    const int lane = threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8;
    #pragma unroll
    for (int k = 0; k < 2; k++)
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

// 16 bytes from global to shared memory, both on 16-byte boundaries; they are there after commit and wait.
HY_FN void hy_cp_async16(void *shared, const void *global) {
    unsigned address = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(address), "l"(global) : "memory");
}
HY_FN void hy_cp_async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// Waits until at most GROUPS of this thread's committed groups are under way. Other threads' bytes need a barrier too.
template <int GROUPS> HY_FN void hy_cp_async_wait() { asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS) : "memory"); }
#endif

#endif
