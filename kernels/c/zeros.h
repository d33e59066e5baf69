// What products with an operand that is often zero ask of it (codegen/printers/products/sparsity.py).

// whether fewer than ``most`` numbers are not zero, NaN among these: ``count`` runs of ``n``, whose beginnings lie
// ``step`` apart
#define HY_SPARSE_OF(name, T, magnitude) \
HY_FN int name(const T *a, long count, long n, long step, long most) { \
    long found = 0; \
    for (long i = 0; i < count; i++) { \
        int some = 0; \
        _Pragma("omp simd reduction(+:some)") \
        for (long j = 0; j < n; j++) some += magnitude(a[i * step + j]) != 0; \
        found += some; \
    } \
    return found < most; \
}
#define HY_HALF_MAGNITUDE(x) ((x) & 0x7fff)
HY_SPARSE_OF(hy_sparse, float, )
HY_SPARSE_OF(hy_sparse_halves, unsigned short, HY_HALF_MAGNITUDE)         // of either half type
// whether none of such runs has an infinity or a NaN, of which zero times it is NaN: with an exponent of ones, one more
// is a negative number
#define HY_NOT_FINITE(x) (((x) & 0x7fffffff) + 0x00800000)
typedef unsigned hy_zi __attribute__((vector_size(64), aligned(4), may_alias));
HY_FN int hy_finite(const float *a, long count, long n, long step) {
    hy_zi some = {}, more = {};
    unsigned rest = 0;
    for (long i = 0; i < count; i++, a += step) {
        long j = 0;
        for (; j + 32 <= n; j += 32) {
          some |= HY_NOT_FINITE(*(const hy_zi *)(a + j));
          more |= HY_NOT_FINITE(*(const hy_zi *)(a + j + 16));
        }
        for (; j + 16 <= n; j += 16) some |= HY_NOT_FINITE(*(const hy_zi *)(a + j));
        for (; j < n; j++) { union hy_bits b; b.f = a[j]; rest |= HY_NOT_FINITE(b.u); }
    }
    some |= more;
    for (int q = 0; q < 16; q++) rest |= some[q];
    return !(rest >> 31);
}
// a bit for each of n numbers, at most 64, the first one's the lowest: set where it is not zero
#if defined(__AVX512F__) && !defined(__clang__)
typedef float hy_z __attribute__((vector_size(64)));
typedef float hy_zu __attribute__((vector_size(64), aligned(4)));
HY_FN unsigned long hy_nonzero(const float *a, long n) {
    unsigned long out = 0;
    for (long i = 0; i < n; i += 16) {
        const unsigned short mk = n - i < 16 ? (unsigned short)((1u << (n - i)) - 1) : 0xffff;
        const hy_z x = __builtin_ia32_loadups512_mask(a + i, (hy_z){}, mk);
        out |= (unsigned long)(unsigned short)__builtin_ia32_cmpps512_mask(x, (hy_z){}, 4, 0xffff, 4) << i;
    }
    return out;
}
#elif defined(__AVX__) && !defined(__clang__)
typedef float hy_z __attribute__((vector_size(32)));
typedef float hy_zu __attribute__((vector_size(32), aligned(4)));
HY_FN unsigned long hy_nonzero(const float *a, long n) {
    unsigned long out = 0;
    long i = 0;
    for (; i + 8 <= n; i += 8) {
        const hy_z x = *(const hy_zu *)(a + i);
        out |= (unsigned long)__builtin_ia32_movmskps256(__builtin_ia32_cmpps256(x, (hy_z){}, 4)) << i;
    }
    for (; i < n; i++) out |= (unsigned long)(a[i] != 0) << i;
    return out;
}
#else
HY_FN unsigned long hy_nonzero(const float *a, long n) {
    unsigned long out = 0;
    for (long i = 0; i < n; i++) out |= (unsigned long)(a[i] != 0) << i;
    return out;
}
#endif
