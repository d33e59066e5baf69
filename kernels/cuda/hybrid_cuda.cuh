// What every generated CUDA module starts with: half types, reductions in a fixed order, atomic sums.
// Needs no CUDA header: NVRTC takes it from memory, and the emulator (cuda_on_cpu.h) runs the same text.
// Threads of a block are numbered by threadIdx.x alone, and blockDim.x is a multiple of 32.
#ifndef HYBRID_CUDA_CUH
#define HYBRID_CUDA_CUH

#ifndef HY_FN
#define HY_FN static __device__ __forceinline__
#endif
#ifndef HY_INF
#define HY_INF (__int_as_float(0x7f800000))
#endif
#ifndef HY_NAN
#define HY_NAN (__int_as_float(0x7fc00000))
#define HY_NANf HY_NAN
#endif
#ifndef CUDA_ON_CPU
#ifndef INFINITY
#define INFINITY (__int_as_float(0x7f800000))
#endif
#ifndef NAN
#define NAN (__int_as_float(0x7fc00000))
#endif
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
#ifdef __CUDACC_RTC__
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else                                             // nvcc: the system's headers say them, as long on Linux
#define int64_t hy_long
#define uint64_t hy_ulong
#endif
#endif

#include "philox.h"

#ifdef CUDA_ON_CPU
#define HY_ASSUME(condition) ((void)0)
#else
#define HY_ASSUME(condition) __builtin_assume(condition)
#endif

// ---- several neighbouring elements at once, on a boundary of their size (16 bytes at most)
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) hy_pack {
    T x[N];
};

// Block b of a copy: 16 bytes a thread. Both arrays begin on a 16-byte boundary.
HY_FN void hy_copy(void *to, const void *from, long long bytes, unsigned b) {
    long long at = ((long long)b * blockDim.x + threadIdx.x) * 16;
    if (at + 16 <= bytes)
        *(hy_pack<unsigned, 4> *)((char *)to + at) = *(const hy_pack<unsigned, 4> *)((const char *)from + at);
    else for (; at < bytes; at++) ((char *)to)[at] = ((const char *)from)[at];
}

// ---- random bits: four elements of a draw share one block of Philox
struct hy_words {
    unsigned w[4];
};
HY_FN hy_words hy_philox(unsigned seed, unsigned call, unsigned stream, unsigned long long block) {
    hy_words c = {{(unsigned)block, (unsigned)(block >> 32), call, stream}};
    philox4x32_block(c.w, seed, 0x9E3779B9u ^ stream);
    return c;
}
HY_FN unsigned hy_word(const hy_words &c, unsigned i) {      // no indexing by a variable: the block stays in registers
    unsigned low = i & 1 ? c.w[1] : c.w[0], high = i & 1 ? c.w[3] : c.w[2];
    return i & 2 ? high : low;
}

// ---- half types: 16 bits in memory, float in registers
typedef unsigned short hy_half;
typedef unsigned short hy_bf16;

HY_FN float hy_load_bf16(hy_bf16 h) { return __uint_as_float((unsigned)h << 16); }
#if !defined(CUDA_ON_CPU) && __CUDA_ARCH__ >= 800
HY_FN hy_bf16 hy_store_bf16(float f) {                      // to nearest even
    hy_bf16 h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
#else
HY_FN hy_bf16 hy_store_bf16(float f) {                      // to nearest even, as ml_dtypes
    unsigned u = __float_as_uint(f);
    return f != f ? (hy_bf16)(u >> 16 & 0x8000 | 0x7fc0) : (hy_bf16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
#endif
#ifndef CUDA_ON_CPU
HY_FN float hy_load_half(hy_half h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
HY_FN hy_half hy_store_half(float f) {
    hy_half h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
#else
HY_FN float hy_load_half(hy_half h) {
    unsigned sign = (unsigned)(h & 0x8000) << 16, rest = (unsigned)(h & 0x7fff) << 13;
    if ((h & 0x7c00) == 0x7c00) return __uint_as_float(sign | 0x7f800000u | rest);
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest) * 0x1p112f));      // moves the exponent
}
HY_FN hy_half hy_store_half(float f) {
    unsigned u = __float_as_uint(f), sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000u) return (hy_half)(sign | 0x7e00);                                  // NaN
    if (u >= 0x477ff000u) return (hy_half)(sign | 0x7c00);                                 // rounds to infinity
    // subnormal: the adder rounds
    if (u < 0x38800000u)
        return (hy_half)(sign | (__float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000u));
    return (hy_half)(sign | (u - 0x38000000u + 0xfff + (u >> 13 & 1)) >> 13);
}
#endif

// ---- reductions: the order of operations depends on the block size alone, so results repeat bit for bit

// Functors for hy_warp_reduce and hy_block_reduce. Max and min hand NaN on, as NumPy.
struct hy_sum_op { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
struct hy_prod_op { template <class T> __device__ T operator()(T a, T b) const { return a * b; } };
struct hy_max_op { template <class T> __device__ T operator()(T a, T b) const { return a > b || a != a ? a : b; } };
struct hy_min_op { template <class T> __device__ T operator()(T a, T b) const { return a < b || a != a ? a : b; } };

// A value with its position, for argmax and argmin: the first of equal values wins, the first NaN before all.
template <class T> struct hy_indexed {
    T value;
    long long index;
};
struct hy_argmax_op {
    template <class T> __device__ hy_indexed<T> operator()(hy_indexed<T> a, hy_indexed<T> b) const {
        bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        if (a_nan != b_nan) return a_nan ? a : b;
        if (!a_nan && a.value != b.value) return a.value > b.value ? a : b;
        return a.index < b.index ? a : b;
    }
};
struct hy_argmin_op {
    template <class T> __device__ hy_indexed<T> operator()(hy_indexed<T> a, hy_indexed<T> b) const {
        bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        if (a_nan != b_nan) return a_nan ? a : b;
        if (!a_nan && a.value != b.value) return a.value < b.value ? a : b;
        return a.index < b.index ? a : b;
    }
};

// Shuffles of anything: whole 32-bit words, so bytes, 16-byte structs and long long go alike.
template <class T> HY_FN T hy_shuffle_xor(T v, int lanes) {
    union words {
        T value;
        unsigned word[(sizeof(T) + 3) / 4];
        __device__ words() {}
    } in, out;
    in.word[(sizeof(T) + 3) / 4 - 1] = 0;
    in.value = v;
#pragma unroll
    for (int i = 0; i < (int)((sizeof(T) + 3) / 4); i++) out.word[i] = __shfl_xor_sync(0xffffffffu, in.word[i], lanes);
    return out.value;
}

// All 32 lanes call it, and all get the result.
template <class T, class Op> HY_FN T hy_warp_reduce(T v, Op op) {
#pragma unroll
    for (int lanes = 16; lanes; lanes >>= 1) {
        T other = hy_shuffle_xor(v, lanes);
        v = threadIdx.x & lanes ? op(other, v) : op(v, other);      // the lower lane is always on the left
    }
    return v;
}

// Sums of the values of a lane and of those before it.
template <class T> HY_FN T hy_warp_running(T v) {
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
        const T other = __shfl_up_sync(~0u, v, lanes);
        if ((threadIdx.x & 31) >= lanes) v = other + v;
    }
    return v;
}

// Merges statistics of 8 columns: sums, and squared differences from the mean. Each of the 8 lanes with the same
// lane % 4 has those of two rows; in the end sum[0] and square[0] of a lane are those of column lane / 4, of 16 rows.
HY_FN void hy_merge_columns(float (&sum)[8], float (&square)[8], int lane) {
    float share = 0.25f;                // of the squared difference of two sums: 1 / (their rows)
#pragma unroll
    for (int step = 4; step; step /= 2, share *= 0.5f) {
        const bool upper = lane / 4 & step;
#pragma unroll
        for (int n = 0; n < step; n++) {
            const float own = upper ? sum[n + step] : sum[n], within = upper ? square[n + step] : square[n];
            const float other = __shfl_xor_sync(~0u, upper ? sum[n] : sum[n + step], step * 4);
            square[n] = within + __shfl_xor_sync(~0u, upper ? square[n] : square[n + step], step * 4)
                        + (own - other) * (own - other) * share;
            sum[n] = own + other;
        }
    }
}

// Merges one reduction of 8 columns in the same way: in the end v[0] of a lane is that of column lane / 4.
template <class Op> HY_FN void hy_merge_columns(float (&v)[8], Op op, int lane) {
#pragma unroll
    for (int step = 4; step; step /= 2) {
        const bool upper = lane / 4 & step;
#pragma unroll
        for (int n = 0; n < step; n++) {
            const float other = __shfl_xor_sync(~0u, upper ? v[n] : v[n + step], step * 4);
            v[n] = op(upper ? v[n + step] : v[n], other);
        }
    }
}

// Merges a reduction of four neighbouring lanes, which all get it.
template <class Op> HY_FN float hy_merge_lanes(float v, Op op) {
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const float other = __shfl_xor_sync(~0u, v, step);
        v = threadIdx.x & step ? op(other, v) : op(v, other);       // the lower lane is always on the left
    }
    return v;
}

// A barrier of the first THREADS threads of a block, whole warps, all of which call it.
template <int THREADS> HY_FN void hy_sync() {
#ifdef CUDA_ON_CPU
    emu_sync_first(THREADS);
#else
    asm volatile("barrier.sync 1, %0;" : : "n"(THREADS) : "memory");
#endif
}

// All threads of the block call it, or its first THREADS, and all get the result. scratch: shared memory for 32 values,
// free to use again after the next barrier (the function begins with one, so two calls in a row may share it).
template <int THREADS = 0, class T, class Op> HY_FN T hy_block_reduce(T v, Op op, T identity, T *scratch) {
    const unsigned threads = THREADS ? THREADS : blockDim.x;
    v = hy_warp_reduce(v, op);
    if (threads <= 32) return v;
    if constexpr (THREADS > 0) hy_sync<THREADS>();
    else __syncthreads();
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
    if constexpr (THREADS > 0) hy_sync<THREADS>();
    else __syncthreads();
    return hy_warp_reduce((threadIdx.x & 31) < threads / 32 ? scratch[threadIdx.x & 31] : identity, op);
}

// ---- atomic sums for every dtype (the order is not fixed: only where nothing else will do)
HY_FN void hy_atomic_add(float *p, float v) { atomicAdd(p, v); }
HY_FN void hy_atomic_add(double *p, double v) { atomicAdd(p, v); }
HY_FN void hy_atomic_add(int *p, int v) { atomicAdd(p, v); }
HY_FN void hy_atomic_add(unsigned *p, unsigned v) { atomicAdd(p, v); }
HY_FN void hy_atomic_add(unsigned long long *p, unsigned long long v) { atomicAdd(p, v); }
HY_FN void hy_atomic_add(long long *p, long long v) { atomicAdd((unsigned long long *)p, (unsigned long long)v); }

// Types under 32 bits: replace the word that holds the element until nobody came between.
template <class T, class Step> HY_FN void hy_atomic_small(T *p, Step step) {
    unsigned *word = (unsigned *)((unsigned long long)p & ~3ull), shift = (unsigned)((unsigned long long)p & 3) * 8;
    unsigned mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift, seen = *word, before;
    do {
        before = seen;
        unsigned value = (unsigned)step((T)((before & mask) >> shift)) << shift & mask;
        seen = atomicCAS(word, before, (before & ~mask) | value);
    } while (seen != before);
}
template <class T> struct hy_add_step {
    T v;
    __device__ T operator()(T old) const { return (T)(old + v); }
};
struct hy_add_half_step {
    float v;
    __device__ hy_half operator()(hy_half old) const { return hy_store_half(hy_load_half(old) + v); }
};
struct hy_add_bf16_step {
    float v;
    __device__ hy_bf16 operator()(hy_bf16 old) const { return hy_store_bf16(hy_load_bf16(old) + v); }
};
HY_FN void hy_atomic_add(signed char *p, signed char v) { hy_atomic_small(p, hy_add_step<signed char>{v}); }
HY_FN void hy_atomic_add(unsigned char *p, unsigned char v) { hy_atomic_small(p, hy_add_step<unsigned char>{v}); }
HY_FN void hy_atomic_add(short *p, short v) { hy_atomic_small(p, hy_add_step<short>{v}); }
HY_FN void hy_atomic_add_half(hy_half *p, float v) { hy_atomic_small(p, hy_add_half_step{v}); }
HY_FN void hy_atomic_add_bf16(hy_bf16 *p, float v) { hy_atomic_small(p, hy_add_bf16_step{v}); }

#endif
