// Barriers, warp collectives, atomics and arithmetic of CUDA C for the emulator. Included by cuda_on_cpu.h.
#pragma once

// ---- barriers
static inline void __syncthreads() { emu::block_barrier(0); }
static inline int __syncthreads_count(int p) { return emu::block_barrier(p != 0); }
static inline int __syncthreads_or(int p) { return emu::block_barrier(p != 0) != 0; }
static inline int __syncthreads_and(int p) { return emu::block_barrier(p == 0) == 0; }
static inline void emu_grid_sync() { emu::grid_barrier(); }
// A barrier of the block's first threads alone, which others and __syncthreads() do not meet.
static void emu_sync_first(unsigned threads) {
    using namespace emu;
    Block *b = M.current_block;
    if (M.current->tid >= threads)
        fail(BAD_COLLECTIVE, "a thread calls a barrier of fewer threads that it is not one of");
    if (++b->first_arrived < threads || M.error) return wait_at(AT_FIRST_BARRIER, b->first_generation);
    emu_watch_sync(FIRST_SYNC, (const void *)(uintptr_t)threads);
    b->first_arrived = 0;
    b->first_generation++;
    b->low = 0;
    b->paused = M.interleaved;
}

static inline void __threadfence() { emu::emu_watch_sync(emu::FENCE, nullptr); }
static inline void __threadfence_block() {}
static inline void __threadfence_system() { __threadfence(); }

// Must be in every spin loop: it lets the other threads run.
static inline void __nanosleep(unsigned) {
    emu::Fiber *me = emu::M.current;
    me->state = emu::READY;
    emu::M.current_block->spinning = true;
    emu::M.current_block->low = 0;
    if (++emu::M.spins > 10000000) emu::fail(emu::ENDLESS_SPIN, "a spin loop does not end");
    if (emu::M.resident == 1) return emu::leave(me, &me->stack);
    emu::M.switches++;
    emu::switch_stack(&me->stack, emu::M.main_stack);
    emu::resume(me);
}

// ---- warp collectives
namespace emu {
template <class T> static inline uint64_t to_word(T v) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t word = 0;
    memcpy(&word, &v, sizeof v);
    return word;
}
template <class T> static inline T from_word(uint64_t word) {
    T v;
    memcpy(&v, &word, sizeof v);
    return v;
}
template <class T> static inline T shuffle(unsigned mask, T v, int source, bool inside, const char *what) {
    unsigned slot;
    const Rendezvous *r = meet(mask, what, to_word(v), 0, &slot);
    if (!inside) return v;
    if (!(mask >> source & 1)) fail(BAD_COLLECTIVE, "a shuffle reads a lane that its mask does not name");
    return from_word<T>(r->value[slot][source][0]);
}
}  // namespace emu

static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    unsigned slot;
    emu::meet(mask, "__syncwarp", 0, 0, &slot);
}
template <class T> static inline T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
    int first = emu::lane() & ~(width - 1);
    return emu::shuffle(mask, v, first + (source & (width - 1)), true, "__shfl_sync");
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32) {
    int lane = emu::lane(), source = lane - (int)delta;
    return emu::shuffle(mask, v, source, source >= (lane & ~(width - 1)), "__shfl_up_sync");
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32) {
    int lane = emu::lane(), source = lane + (int)delta;
    return emu::shuffle(mask, v, source, source < (lane & ~(width - 1)) + width, "__shfl_down_sync");
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
    int lane = emu::lane(), source = lane ^ bits;
    return emu::shuffle(mask, v, source, source < (lane & ~(width - 1)) + width, "__shfl_xor_sync");
}
static inline unsigned __ballot_sync(unsigned mask, int p) {
    unsigned slot, out = 0, live = mask & emu::warp_of(emu::M.current).live;
    const emu::Rendezvous *r = emu::meet(mask, "__ballot_sync", p != 0, 0, &slot);
    for (int i = 0; i < 32; i++)
        if (live >> i & 1) out |= (unsigned)r->value[slot][i][0] << i;
    return out;
}
static inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
static inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }

// ---- atomics: one OS thread, so plain reads and writes
template <class T> static inline T atomicExch(T *p, T v) {
    emu::Atomic mark;
    T old = *p;
    *p = v;
    return old;
}
template <class T> static inline T atomicCAS(T *p, T expected, T v) {
    emu::Atomic mark;
    T old = *p;
    if (old == expected) *p = v;
    return old;
}
template <class T> static inline T atomicAdd(T *p, T v) { emu::Atomic mark; return atomicExch(p, (T)(*p + v)); }
template <class T> static inline T atomicSub(T *p, T v) { emu::Atomic mark; return atomicExch(p, (T)(*p - v)); }
template <class T> static inline T atomicMax(T *p, T v) { emu::Atomic mark; return atomicExch(p, v > *p ? v : *p); }
template <class T> static inline T atomicMin(T *p, T v) { emu::Atomic mark; return atomicExch(p, v < *p ? v : *p); }
template <class T> static inline T atomicOr(T *p, T v) { emu::Atomic mark; return atomicExch(p, (T)(*p | v)); }
template <class T> static inline T atomicAnd(T *p, T v) { emu::Atomic mark; return atomicExch(p, (T)(*p & v)); }

// ---- memory access hints
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline void __stcs(T *p, T v) { *p = v; }

// ---- arithmetic
#define __expf(x) expf(x)                       // glibc declares these names itself
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
static inline float __fdividef(float a, float b) { return a / b; }
static inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
static inline double rsqrt(double x) { return 1. / sqrt(x); }
static inline float rcbrtf(float x) { return 1.f / cbrtf(x); }
static inline double rcbrt(double x) { return 1. / cbrt(x); }
static inline float __frsqrt_rn(float x) { return 1.f / sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { volatile float y = a + b; return y; }      // never contracted
static inline float __fmul_rn(float a, float b) { volatile float y = a * b; return y; }
static inline double __dadd_rn(double a, double b) { volatile double y = a + b; return y; }
static inline double __dmul_rn(double a, double b) { volatile double y = a * b; return y; }
static inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }               // NaN gives 0
static inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678f); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline float __int2float_rn(int x) { return (float)x; }
static inline int __float2int_rz(float x) { return (int)x; }

// erfinv: a rational start (Giles 2010), then Newton steps on erf, which settle to the last bits
static inline double erfinv(double x) {
    if (!(x > -1 && x < 1)) return x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
    double w = -log((1 - x) * (1 + x)), y;
    if (w < 5) {
        w -= 2.5;
        y = 1.50140941 + w * (0.246640727 + w * (-0.00417768164 + w * (-0.00125372503 + w * 0.00021858087)));
    } else {
        w = sqrt(w) - 3;
        y = 2.83297682 + w * (1.00167406 + w * (0.00943887047 + w * (-0.0076224613 + w * 0.00573950773)));
    }
    y *= x;
    for (int i = 0; i < 4; i++) {
        double error = x < 0 ? (1 + x) - erfc(-y) : x > 0 ? erfc(y) - (1 - x) : 0;
        error = x < 0 ? -error : error;
        y += (x < 0 ? -error : error) * 0.88622692545275801 * exp(y * y);
    }
    return y;
}
static inline float erfinvf(float x) { return (float)erfinv((double)x); }

#define EMU_MIN_MAX(T)                                              \
    static inline T min(T a, T b) { return a < b ? a : b; }         \
    static inline T max(T a, T b) { return a > b ? a : b; }
EMU_MIN_MAX(int)
EMU_MIN_MAX(unsigned)
EMU_MIN_MAX(long)
EMU_MIN_MAX(unsigned long)
EMU_MIN_MAX(long long)
EMU_MIN_MAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
