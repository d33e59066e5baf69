// C only, after sort.h: rows side by side: one in each lane, sorted by the same exchanges. Keys are compared as signed
// numbers.
#ifdef __AVX512F__
#define HY_ROWS 8
#elif defined(__AVX2__)
#define HY_ROWS 4
#else
#define HY_ROWS 2
#endif
typedef hy_long_long hy_keys __attribute__((vector_size(8 * HY_ROWS), may_alias));
#define HY_SIGNED(key) ((hy_long_long)((key) ^ (unsigned long)1 << 63))
// what may stand before what comes d places later changes with it: keys that are all different, keys with places
#if defined(__AVX512F__) && !defined(__clang__)
#define HY_ORDER(x, y) do { const hy_keys a_ = (x), b_ = (y); \
    (x) = __builtin_ia32_pminsq512_mask(a_, b_, a_, (unsigned char)-1); \
    (y) = __builtin_ia32_pmaxsq512_mask(a_, b_, a_, (unsigned char)-1); } while (0)
#define HY_ORDER_BOTH(x, y, u, v) do { const hy_keys a_ = (x), b_ = (y), c_ = (u), d_ = (v); \
    const unsigned char m_ = __builtin_ia32_cmpq512_mask(b_, a_, 1, (unsigned char)-1) | \
        (__builtin_ia32_cmpq512_mask(b_, a_, 0, (unsigned char)-1) \
            & __builtin_ia32_cmpq512_mask(d_, c_, 1, (unsigned char)-1)); \
    (x) = __builtin_ia32_blendmq_512_mask(a_, b_, m_); (y) = __builtin_ia32_blendmq_512_mask(b_, a_, m_); \
    (u) = __builtin_ia32_blendmq_512_mask(c_, d_, m_); (v) = __builtin_ia32_blendmq_512_mask(d_, c_, m_); } while (0)
#else
#define HY_ORDER(x, y) do { const hy_keys a_ = (x), b_ = (y), m_ = (hy_keys)(b_ < a_); (x) = (b_ & m_) | (a_ & ~m_); \
    (y) = (a_ & m_) | (b_ & ~m_); } while (0)
#define HY_ORDER_BOTH(x, y, u, v) do { \
  const hy_keys a_ = (x), b_ = (y), c_ = (u), d_ = (v), m_ = (hy_keys)((b_ < a_) | ((b_ == a_) & (d_ < c_))); \
    (x) = (b_ & m_) | (a_ & ~m_); (y) = (a_ & m_) | (b_ & ~m_); (u) = (d_ & m_) | (c_ & ~m_); \
    (v) = (c_ & m_) | (d_ & ~m_); } while (0)
#endif
// Batcher's exchanges by merging, for any n (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M)
#define HY_NETWORK(n, order) \
    long top = 1; \
    while (2 * top < n) top *= 2; \
    for (long p = top; p; p /= 2) \
        for (long q = top, r = 0, d = p; ; d = q - p, q /= 2, r = p) { \
            for (long b = r; b < n - d; b += 2 * p) \
                for (long i = b, end = b + p < n - d ? b + p : n - d; i < end; i++) order; \
            if (q == p) break; \
        }
__attribute__((unused)) static void hy_sort_rows(hy_keys *a, long n) { HY_NETWORK(n, HY_ORDER(a[i], a[i + d])) }
__attribute__((unused)) static void hy_sort_pairs(hy_keys *a, hy_keys *at, long n) {
  HY_NETWORK(n, HY_ORDER_BOTH(a[i], a[i + d], at[i], at[i + d]))
}
