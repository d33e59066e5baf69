// Products of a warpgroup (4 warps, 128 threads; sm_90a): PTX on a GPU, functions in the emulator.
//
// D (64 x N, float) += A (64 x 16) B (16 x N): halves in shared memory. With the depth innermost: lines of 128 bytes;
// piece p (16 bytes) of line r lies at p ^ r % 8, in lines of 64 bytes at p ^ r / 2 % 4. 8 lines are a group, on a
// boundary of its size; `stride` bytes lie between groups. Turned (HY_TURNED_A, HY_TURNED_B): a line of 128 bytes is 64
// rows or columns at one depth, and `lead` bytes lie between those of the next 64. Warp w has rows 16 w + lane / 4 and
// 8 more, columns 8 j + lane % 4 * 2 and the next: d[4 j] and on.
// tf32 is 8 deep, with A from registers (as hy_mma_tf32 has it) and B with the depth innermost; where `adds` is 0, what
// d held is forgotten.
// Between the first hy_wgmma and its wait nobody may touch d or A's registers, nor write where A and B lie.
#ifndef HYBRID_WGMMA_CUH
#define HYBRID_WGMMA_CUH
#include "hybrid_async.cuh"

// How halves lie.
#define HY_TURNED_A 1
#define HY_TURNED_B 2

#ifdef CUDA_ON_CPU
typedef emu::Matrix hy_matrix;
HY_FN hy_matrix hy_matrix_of(hy_shared at, unsigned stride = 1024, unsigned lead = 0, unsigned line = 128) {
    return {at, stride, lead, line};
}
// The same from another place on: 16 deep further is 32 bytes.
HY_FN hy_matrix hy_matrix_at(hy_matrix m, unsigned bytes) { return {m.at + bytes, m.stride, m.lead, m.line}; }
HY_FN void hy_wgmma_fence() { emu::wgmma_fence(); }
HY_FN void hy_wgmma_commit() { emu::wgmma_commit(); }
template <int GROUPS> HY_FN void hy_wgmma_wait() { emu::wgmma_wait(GROUPS); }
#define HY_WGMMA(kind, name, n, ...)                                                                    \
    template <int HOW = 0> HY_FN void hy_wgmma_##name##_n##n(float *d, hy_matrix a, hy_matrix b) {      \
        emu::wgmma<emu::kind, n>(d, a, b, HOW);                                                         \
    }
#define HY_WGMMA_TF32(n, ...)                                                                           \
    HY_FN void hy_wgmma_tf32_n##n(float *d, const unsigned *a, hy_matrix b, int adds = 1) {             \
        emu::wgmma_tf32<n>(d, a, b, adds);                                                              \
    }
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
typedef unsigned long long hy_matrix;
HY_FN hy_matrix hy_matrix_of(hy_shared at, unsigned stride = 1024, unsigned lead = 16, unsigned line = 128) {
    return (at & 0x3ffff) >> 4 | (unsigned long long)(lead >> 4) << 16 | (unsigned long long)(stride >> 4) << 32 |
           (line == 128 ? 1ull : 2ull) << 62;
}
HY_FN hy_matrix hy_matrix_at(hy_matrix m, unsigned bytes) { return m + (bytes >> 4); }
HY_FN void hy_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
HY_FN void hy_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
template <int GROUPS> HY_FN void hy_wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(GROUPS) : "memory");
}
// Eight numbers of D as operands.
#define HY_D8(i)                                                                                                 \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),  \
        "+f"(d[i + 7])
#define HY_D32 HY_D8(0), HY_D8(8), HY_D8(16), HY_D8(24)
#define HY_D64 HY_D32, HY_D8(32), HY_D8(40), HY_D8(48), HY_D8(56)
#define HY_D128 HY_D64, HY_D8(64), HY_D8(72), HY_D8(80), HY_D8(88), HY_D8(96), HY_D8(104), HY_D8(112), HY_D8(120)
#define HY_NAMES32                                                                                               \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11," \
    "%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23," \
    "%24,%25,%26,%27,%28,%29,%30,%31"
#define HY_NAMES64                                                                                               \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11," \
    "%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23," \
    "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35," \
    "%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
    "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59," \
    "%60,%61,%62,%63"
#define HY_NAMES128                                                                                           \
    HY_NAMES64 \
    ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
    ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95" \
    ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
    ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define HY_TYPE_BFLOAT "bf16.bf16"
#define HY_TYPE_HALF "f16.f16"
// count: numbers of D in a thread. a_, b_, of_a, of_b: operand numbers (%n) of the descriptors and transposition flags.
#define HY_WGMMA(kind, name, n, count, a_, b_, of_a, of_b)                                                       \
    template <int HOW = 0> HY_FN void hy_wgmma_##name##_n##n(float *d, hy_matrix a, hy_matrix b) {               \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32."      \
                     HY_TYPE_##kind " {" HY_NAMES##count "}, %" #a_ ", %" #b_ ", p, 1, 1, %" #of_a ", %" #of_b "; }" \
                     : HY_D##count : "l"(a), "l"(b), "n"(HOW & 1), "n"(HOW >> 1 & 1) : "memory");                \
    }
#define HY_WGMMA_TF32(n, count, a0, a1, a2, a3, b_, adds_)                                                       \
    HY_FN void hy_wgmma_tf32_n##n(float *d, const unsigned *a, hy_matrix b, int adds = 1) {                      \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #adds_ ", 0; wgmma.mma_async.sync.aligned.m64n" #n       \
                     "k8.f32.tf32.tf32 {" HY_NAMES##count "}, {%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #b_      \
                     ", p, 1, 1; }"                                                                              \
                     : HY_D##count : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds) : "memory");  \
    }
#endif
#ifdef HY_WGMMA
HY_WGMMA(BFLOAT, bf16, 64, 32, 32, 33, 34, 35)
HY_WGMMA(BFLOAT, bf16, 128, 64, 64, 65, 66, 67)
HY_WGMMA(BFLOAT, bf16, 256, 128, 128, 129, 130, 131)
HY_WGMMA(HALF, half, 64, 32, 32, 33, 34, 35)
HY_WGMMA(HALF, half, 128, 64, 64, 65, 66, 67)
HY_WGMMA(HALF, half, 256, 128, 128, 129, 130, 131)
HY_WGMMA_TF32(64, 32, 32, 33, 34, 35, 36, 37)
HY_WGMMA_TF32(128, 64, 64, 65, 66, 67, 68, 69)
#endif

#endif
