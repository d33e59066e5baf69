// Products of a warpgroup (4 warps, 128 threads; sm_90a): PTX on a GPU, functions in the emulator.
//
// D (64 x N, float) += A (64 x 16) B (16 x N): halves in shared memory, both with the depth innermost, in lines of 128
// bytes; piece p (16 bytes) of line r lies at p ^ r % 8. 8 lines are 1024 bytes, on a boundary of as many; `stride`
// bytes lie between such groups. Warp w has rows 16 w + lane / 4 and 8 more, columns 8 j + lane % 4 * 2 and the next:
// d[4 j] and on.
// Between the first hy_wgmma and its wait nobody may touch d, nor write where A and B lie.
#ifndef HYBRID_WGMMA_CUH
#define HYBRID_WGMMA_CUH
#include "hybrid_async.cuh"

#ifdef CUDA_ON_CPU
typedef emu::Matrix hy_matrix;
HY_FN hy_matrix hy_matrix_of(hy_shared at, unsigned stride = 1024) { return {at, stride}; }
// The same from another place on: 16 deep further is 32 bytes.
HY_FN hy_matrix hy_matrix_at(hy_matrix m, unsigned bytes) { return {m.at + bytes, m.stride}; }
HY_FN void hy_wgmma_fence() {}
// What threads wrote into shared memory (cp.async too) is seen by wgmma and bulk copies behind it.
HY_FN void hy_proxy_fence() {}
HY_FN void hy_wgmma_commit() { emu::wgmma_commit(); }
template <int GROUPS> HY_FN void hy_wgmma_wait() { emu::wgmma_wait(GROUPS); }
#define hy_wgmma_bf16_n64 emu::wgmma<emu::BFLOAT, 64>
#define hy_wgmma_bf16_n128 emu::wgmma<emu::BFLOAT, 128>
#define hy_wgmma_half_n64 emu::wgmma<emu::HALF, 64>
#define hy_wgmma_half_n128 emu::wgmma<emu::HALF, 128>
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
typedef unsigned long long hy_matrix;
HY_FN hy_matrix hy_matrix_of(hy_shared at, unsigned stride = 1024) {
    return (at & 0x3ffff) >> 4 | 1ull << 16 | (unsigned long long)(stride >> 4) << 32 | 1ull << 62;
}
HY_FN hy_matrix hy_matrix_at(hy_matrix m, unsigned bytes) { return m + (bytes >> 4); }
HY_FN void hy_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
HY_FN void hy_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }
HY_FN void hy_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
template <int GROUPS> HY_FN void hy_wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(GROUPS) : "memory");
}
#define HY_WGMMA_64(name, type)                                                                                 \
    HY_FN void name(float *d, hy_matrix a, hy_matrix b) {                                                       \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; "                                                    \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." type " "                                     \
                     "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,"                                                  \
                     "%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"                                         \
                     "%24,%25,%26,%27,%28,%29,%30,%31},"                                                        \
                     "%32, %33, p, 1, 1, 0, 0; }"                                                               \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),                  \
                       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),                \
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),            \
                       "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),            \
                       "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),            \
                       "+f"(d[30]), "+f"(d[31])                                                                 \
                     : "l"(a), "l"(b) : "memory");                                                              \
    }
#define HY_WGMMA_128(name, type)                                                                                \
    HY_FN void name(float *d, hy_matrix a, hy_matrix b) {                                                       \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; "                                                    \
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32." type " "                                    \
                     "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,"                                                  \
                     "%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"                                         \
                     "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,"                                         \
                     "%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                                         \
                     "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,"                                         \
                     "%60,%61,%62,%63},"                                                                        \
                     "%64, %65, p, 1, 1, 0, 0; }"                                                               \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),                  \
                       "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),                \
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),            \
                       "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),            \
                       "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),            \
                       "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),            \
                       "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),            \
                       "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),            \
                       "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),            \
                       "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),            \
                       "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])                                       \
                     : "l"(a), "l"(b) : "memory");                                                              \
    }

HY_WGMMA_64(hy_wgmma_bf16_n64, "bf16.bf16")
HY_WGMMA_64(hy_wgmma_half_n64, "f16.f16")
HY_WGMMA_128(hy_wgmma_bf16_n128, "bf16.bf16")
HY_WGMMA_128(hy_wgmma_half_n128, "f16.f16")
#endif

#endif
