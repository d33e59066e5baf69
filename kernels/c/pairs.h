// Operands of bfloat16 products put in order, by squares of as many words as a vector has, from float32 or bfloat16
// (FROM: how a vector is loaded, some of it by a mask). A word has two numbers that are neighbours along the depth.
HY_FN hy_words hyv_word_pairs(hy_v a, hy_v b) {
  return (hy_words)(HYV_WIDEN(hyv_to_bf16(a)) | HYV_WIDEN(hyv_to_bf16(b)) << 16);
}

// words of two vectors beside each other in memory
HY_FN hy_words hyv_words_beside(hy_v a, hy_v b) {
    union { hy_halves h[2]; hy_words w; } both = {.h = {hyv_to_bf16(a), hyv_to_bf16(b)}};
    return both.w;
}

// transposes a block: in each round, vectors that lie ``h`` apart exchange the halves of their groups
HY_FN void hyv_words_turn(hy_words *r) {
#pragma GCC unroll 8
    for (int h = HYV_LANES / 2; h; h /= 2)
#pragma GCC unroll 64
        for (int i = 0; i < HYV_LANES; i++) if (!(i & h)) {
            const hy_words a = r[i], b = r[i + h];
            const hy_vi low = HYV_COUNT + (((HYV_COUNT & h) != 0) & (HYV_LANES - h));
            r[i] = HYV_SHUFFLE(a, b, low);
            r[i + h] = HYV_SHUFFLE(a, b, low + h);
        }
}

#define HYV_EACH_WORD for (int i = 0; i < HYV_LANES; i++)
#define HYV_PAIRS_OF(T, END, LOAD, LOADM) \
/* packs columns that are contiguous along the depth, ``stride`` apart: reads ``count`` of them \
 and fills the others with zeros */ \
HY_FN void hyv_pairs_along##END(hy_word *out, long step, const T *from, long stride, long count) { \
    hy_words r[HYV_LANES]; \
    _Pragma("GCC unroll 64") HYV_EACH_WORD { \
      const T *p = from + i * stride; \
      r[i] = i < count ? hyv_words_beside(LOAD(p), LOAD(p + HYV_LANES)) : (hy_words){}; \
    } \
    hyv_words_turn(r); \
    _Pragma("GCC unroll 64") HYV_EACH_WORD *(hy_wordsu *)(out + i * step) = r[i]; \
} \
/* packs columns that are neighbours in memory, steps of the depth ``stride`` apart: reads ``count`` columns \
 and writes ``room``. Columns from ``count`` on, and steps from ``depth`` on, are filled with zeros */ \
HY_FN void hyv_pairs_across##END(hy_word *out, long step, const T *from, long stride, long count, long room, \
    long depth, long words) { \
    const hy_m some = HYV_RANGE(0, count), all = HYV_RANGE(0, room); long k = 0; \
    for (; k < depth / 2; k++, out += step, from += 2 * stride) \
        HYV_STOREM(all, (float *)out, (hy_v)hyv_word_pairs(LOADM(some, from), LOADM(some, from + stride))); \
    for (; k < words; k++, out += step) \
        HYV_STOREM(all, (float *)out, 2 * k < depth ? (hy_v)hyv_word_pairs(LOADM(some, from), (hy_v){}) : (hy_v){}); \
}
HYV_PAIRS_OF(float, , HYV_LOAD, HYV_LOADM)
HYV_PAIRS_OF(unsigned short, _BF16, HYV_LOAD_BF16, HYV_LOADM_BF16)
