// Tiles in shared memory whose next slices are under way: asynchronous copies where the GPU has them (compute
// capability 8.0 and later), else loads into registers that are stored when the tile before is done.
#ifndef HYBRID_TILES_CUH
#define HYBRID_TILES_CUH
#include "hybrid_async.cuh"

#if defined(CUDA_ON_CPU) || __CUDA_ARCH__ >= 800
struct hy_chunk {};
// Begins to bring 16 bytes, zeros where not inside.
HY_FN void hy_fetch(hy_chunk &, hy_shared to, const void *from, bool inside) {
  hy_cp_async<16>(to, from, inside ? 16 : 0);
}
HY_FN void hy_put(const hy_chunk &, hy_shared) {}
HY_FN void hy_commit() { hy_cp_async_commit(); }
template <int GROUPS> HY_FN void hy_wait() { hy_cp_async_wait<GROUPS>(); }
#else
struct hy_chunk {
    unsigned x[4];
};
HY_FN void hy_fetch(hy_chunk &c, hy_shared, const void *from, bool inside) {
    hy_pack<unsigned, 4> v = {{0, 0, 0, 0}};
    if (inside) v = *(const hy_pack<unsigned, 4> *)from;
    #pragma unroll
    for (int i = 0; i < 4; i++) c.x[i] = v.x[i];
}
HY_FN void hy_put(const hy_chunk &c, hy_shared to) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" : : "r"(to), "r"(c.x[0]), "r"(c.x[1]), "r"(c.x[2]),
        "r"(c.x[3])
                 : "memory");
}
HY_FN void hy_commit() {}
template <int GROUPS> HY_FN void hy_wait() {}
#endif

// A word of shared memory.
#ifdef CUDA_ON_CPU
HY_FN unsigned hy_word_at(hy_shared at) { return *(const unsigned *)at; }
#else
HY_FN unsigned hy_word_at(hy_shared at) {
    unsigned v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}
#endif

// Waits until a flag is not 0, by which another block says that all it wrote before is there, and makes it 0 again, as
// the next launch needs it.
HY_FN void hy_wait_for(unsigned *word) {
    volatile unsigned *state = word;
    while (*state == 0)
#ifdef CUDA_ON_CPU
        __nanosleep(20);                        // other threads run meanwhile
#else
        ;
#endif
    __threadfence();
    *state = 0;
}

// 2 to the power of x: to 2^-22 of it, and zero below 2^-126.
#ifdef CUDA_ON_CPU
HY_FN float hy_exp2(float x) { return x < -126.f ? 0.f : exp2f(x); }
#else
HY_FN float hy_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

// A float as the sum of two whose last 13 bits tensor cores may leave out: x = big + small but for 2^-22 of it
// (H. Ootomo, R. Yokota, "Recovering single precision accuracy from Tensor Cores", 2022). Of an infinity small is zero.
HY_FN void hy_two_tf32(unsigned &x, unsigned &small) {
    unsigned big = x & 0xffffe000u;
    float rest = __uint_as_float(x) - __uint_as_float(big);
    small = __float_as_uint(rest == rest ? rest : 0.f);
    x = big;
}
#if !defined(CUDA_ON_CPU) && __CUDA_ARCH__ < 800
// hy_mma_tf32 where tensor cores take no floats: each lane takes its rows and columns from the lanes that hold them.
HY_FN void hy_mma_tf32(float d[4], const unsigned *a, const unsigned *b) {
    const int lane = threadIdx.x % 32, row = lane / 4 * 4, column = lane % 4 * 8;
    #pragma unroll
    for (int k = 0; k < 2; k++)
        #pragma unroll 1
        for (int t = 0; t < 4; t++) {
            const unsigned x[2] = {__shfl_sync(~0u, a[2 * k], row + t), __shfl_sync(~0u, a[2 * k + 1], row + t)};
            const unsigned y[2] = {__shfl_sync(~0u, b[k], column + t), __shfl_sync(~0u, b[k], column + 4 + t)};
            #pragma unroll
            for (int n = 0; n < 4; n++) d[n] += __uint_as_float(x[n / 2]) * __uint_as_float(y[n % 2]);
        }
}
#endif
// D += A B of floats, A as hy_two_tf32 gives it.
HY_FN void hy_three_tf32(float d[4], const unsigned *a, const unsigned *a_small, const unsigned *b) {
    unsigned big[2] = {b[0], b[1]}, small[2];
    #pragma unroll
    for (int i = 0; i < 2; i++) hy_two_tf32(big[i], small[i]);
    hy_mma_tf32(d, a_small, big);
    hy_mma_tf32(d, a, small);
    hy_mma_tf32(d, a, big);
}
// Two numbers as a word of halves, the first in the low half.
HY_FN unsigned hy_two_half(float low, float high) {
    return hy_store_half(low) | (unsigned)hy_store_half(high) << 16;
}
HY_FN unsigned hy_two_bf16(float low, float high) {
    return hy_store_bf16(low) | (unsigned)hy_store_bf16(high) << 16;
}
// The nearest number that tensor cores take whole.
#if defined(CUDA_ON_CPU) || __CUDA_ARCH__ < 800
HY_FN unsigned hy_one_tf32(unsigned x) { return (x & 0x7f800000u) == 0x7f800000u ? x : (x + 0x1000u) & 0xffffe000u; }
#else
HY_FN unsigned hy_one_tf32(unsigned x) {
    unsigned y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(x)));
    return y;
}
#endif
#endif
