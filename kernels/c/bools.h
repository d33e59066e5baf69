// Masks from and to arrays of truth values, a byte each: any byte but 0 is true, and 1 is what is stored.
typedef unsigned char hy_flags __attribute__((vector_size(HYV_BYTES / 4)));
typedef unsigned char hy_flagsu __attribute__((vector_size(HYV_BYTES / 4), aligned(1), may_alias));
#if HYV_BYTES == 32 && defined(__AVX2__) && !defined(__clang__)
typedef char hy_chars __attribute__((vector_size(16)));
typedef short hy_words16 __attribute__((vector_size(16)));
typedef int hy_words32 __attribute__((vector_size(16)));
typedef hy_long_long hy_words64 __attribute__((vector_size(16)));
#define HYV_OF_FLAGS(f) HYV_INE((hy_vi)__builtin_ia32_pmovsxbd256((hy_chars)(hy_words64){ (hy_long_long)(f), 0 }), \
    (hy_vi){})
HY_FN hy_flags HYV_FLAGS(hy_m m) {
    union { hy_m m; hy_words32 half[2]; } u = { m };
    const hy_words16 words = __builtin_ia32_packssdw128(u.half[0], u.half[1]);
    return (hy_flags)((hy_words64)__builtin_ia32_packsswb128(words, words))[0] & 1;
}
#elif HYV_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
typedef char hy_chars __attribute__((vector_size(16)));
#define HYV_OF_FLAGS(f) HYV_INE((hy_vi)__builtin_ia32_pmovzxbd512_mask((hy_chars)(f), (hy_vi){}, HYV_ALL), (hy_vi){})
#define HYV_FLAGS(m) ((hy_flags)__builtin_ia32_pmovdb512_mask(HYV_BITS(HYV_SELECT(m, HYV_FLOAT(HYV_IB(1)), (hy_v){})), \
    (hy_chars){}, HYV_ALL))
#else
#define HYV_OF_FLAGS(f) HYV_INE(__builtin_convertvector(f, hy_vi), (hy_vi){})
#define HYV_FLAGS(m) __builtin_convertvector(HYV_BITS(HYV_SELECT(m, HYV_FLOAT(HYV_IB(1)), (hy_v){})), hy_flags)
#endif
#define HYV_LOAD_BOOL(p) HYV_OF_FLAGS(*(const hy_flagsu *)(p))
#define HYV_STORE_BOOL(p, m) (*(hy_flagsu *)(p) = HYV_FLAGS(m))
HY_FN hy_m HYV_LOADM_BOOL(hy_m some, const unsigned char *p) {
    union { hy_flags all; unsigned char each[HYV_LANES]; } u = { (hy_flags){} };
    for (int i = 0; i < HYV_LANES; i++) if (HYV_HAS(some, i)) u.each[i] = p[i];
    return HYV_OF_FLAGS(u.all);
}
HY_FN void HYV_STOREM_BOOL(hy_m some, unsigned char *p, hy_m m) {
    union { hy_flags all; unsigned char each[HYV_LANES]; } u = { HYV_FLAGS(m) };
    for (int i = 0; i < HYV_LANES; i++) if (HYV_HAS(some, i)) p[i] = u.each[i];
}
