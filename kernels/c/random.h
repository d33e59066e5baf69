// C only, after vector.h: Philox4x32-10 (include/philox.h) of neighbouring elements. Lanes hold the four words of one
// block after another, as they lie in the result: the words that a round multiplies are the lower halves of 64-bit
// lanes, the others the upper ones.
typedef unsigned long hy_vl __attribute__((vector_size(HYV_BYTES)));
#if HYV_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
typedef hy_long_long hy_vll __attribute__((vector_size(HYV_BYTES)));
#define HYV_PRODUCT(a, b) ((hy_vi)__builtin_ia32_pmuludq512_mask(a, b, (hy_vll){}, 255))
#elif HYV_BYTES == 32 && defined(__AVX2__)
#define HYV_PRODUCT(a, b) ((hy_vi)__builtin_ia32_pmuludq256(a, b))
#elif HYV_BYTES == 16 && defined(__SSE2__)
#define HYV_PRODUCT(a, b) ((hy_vi)__builtin_ia32_pmuludq128(a, b))
#else
#define HYV_PRODUCT(a, b) ((hy_vi)(((hy_vl)(a) & 0xfffffffful) * ((hy_vl)(b) & 0xfffffffful)))
#endif
#ifdef __clang__
HY_FN hy_vi HYV_BACK(hy_vi a) { hy_vi o; for (int i = 0; i < HYV_LANES; i++) o[i] = a[i ^ 3]; return o; }
#else
#define HYV_BACK(a) __builtin_shuffle(a, HYV_COUNT ^ 3)  // the four words of each block in turned order
#endif
#define HYV_SHR(a, n) ((hy_vi)((hy_vu32)(a) >> (n)))
// the words of the blocks from ``block`` on
HY_FN hy_vi hyv_philox_blocks(unsigned seed, unsigned call, unsigned stream, unsigned long block) {
    const hy_vi word = HYV_COUNT & 3;
    const hy_vu32 low = (hy_vu32)(word == 0) & 1u, high = (hy_vu32)(word == 2) & 1u;
    const hy_vu32 times = low * 0xD2511F53u + high * 0xCD9E8D57u, step = low * 0x9E3779B9u + high * 0xBB67AE85u;
    const hy_vl lower = (hy_vl)(word < 2), number = (hy_vl)((hy_vu32)(HYV_COUNT >> 2) * low);
    hy_vu32 key = low * seed + high * (0x9E3779B9u ^ stream);
    hy_vi c = (hy_vi)(((number + block) & lower) | (((hy_vl){} + ((unsigned long)stream << 32 | call)) & ~lower));
    _Pragma("GCC unroll 10")
    for (int round = 0; round < 10; round++) {
        c = HYV_BACK(HYV_PRODUCT(c, (hy_vi)times)) ^ (hy_vi)((hy_vl)c >> 32) ^ (hy_vi)key;
        key += step;
    }
    return c;
}
// the random bits of the elements from ``offset`` on
HY_FN hy_vi hyv_philox(unsigned seed, unsigned call, unsigned stream, unsigned long offset) {
    const hy_vi whole = hyv_philox_blocks(seed, call, stream, offset >> 2);
    if (!(offset & 3)) return whole;
    union { hy_vi v[2]; int i[2 * HYV_LANES];
    } both = { { whole, hyv_philox_blocks(seed, call, stream, (offset >> 2) + HYV_LANES / 4) } };
    return *(const hy_viu *)(both.i + (offset & 3));
}
