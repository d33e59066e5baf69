// Words of 32 bits that hold 2 bfloat16 numbers or 4 of 8 bits, and the instructions that multiply the words of two
// vectors number by number and add the products of each word to a sum of 32 bits. HYV_PAIRS_SLOW: the processor takes
// longer for pairs of bfloat16 so than for two of float32.
typedef int hy_word __attribute__((may_alias));
typedef int hy_words __attribute__((vector_size(HYV_BYTES)));
typedef int hy_wordsu __attribute__((vector_size(HYV_BYTES), aligned(1), may_alias));
#define HYV_WORDS(p) (*(const hy_wordsu *)(p))
#define HYV_WORD(x) ({ const int x_ = (x); (hy_words){} + x_; })
#if defined(__AVX512BF16__) && HYV_BYTES == 64 && !defined(HYV_PAIRS_SLOW)
typedef short hy_pairs __attribute__((vector_size(64)));
#define HYV_DOT_BF16(s, a, b) __builtin_ia32_dpbf16ps_v16sf(s, (hy_pairs)(a), (hy_pairs)(b))
#else
#define HYV_DOT_BF16(s, a, b) \
    ((s) + (hy_v)((a) << 16) * (hy_v)((b) << 16) + (hy_v)((a) & -65536) * (hy_v)((b) & -65536))
#endif
#if defined(__AVX512VNNI__) && HYV_BYTES == 64
/* of unsigned and signed numbers; no sum saturates */
#define HYV_DOT_BYTES(s, a, b) __builtin_ia32_vpdpbusd_v16si(s, a, b)
#else
#define HYV_DOT_BYTES(s, a, b) \
    ((s) + ((a) & 255) * ((b) << 24 >> 24) + ((a) >> 8 & 255) * ((b) << 16 >> 24) + ((a) >> 16 & 255) \
    * ((b) << 8 >> 24) \
  + ((a) >> 24 & 255) * ((b) >> 24))
#endif
