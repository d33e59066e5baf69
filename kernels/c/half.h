// Vectors of float32 from and to float16 and bfloat16 in memory, as many numbers of half the bytes. What vectors they
// become, and what is stored of a vector, are those of hy_load_half, hy_store_half, hy_load_bf16 and hy_store_bf16
// (prelude.h).
typedef unsigned short hy_halves __attribute__((vector_size(HYV_BYTES / 2)));
typedef unsigned short hy_halvesu __attribute__((vector_size(HYV_BYTES / 2), aligned(2)));

#if HYV_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
typedef short hy_shorts __attribute__((vector_size(HYV_BYTES / 2)));
HY_FN hy_v hyv_from_half(hy_halves h) { return __builtin_ia32_vcvtph2ps512_mask((hy_shorts)h, (hy_v){}, HYV_ALL, 4); }
HY_FN hy_halves hyv_to_half(hy_v v) {
  return (hy_halves)__builtin_ia32_vcvtps2ph512_mask(v, 0, (hy_shorts){}, HYV_ALL);
}
#define HYV_WIDEN(h) ((hy_vi)__builtin_ia32_pmovzxwd512_mask((hy_shorts)(h), (hy_vi){}, HYV_ALL))
#elif HYV_BYTES == 32 && defined(__F16C__) && !defined(__clang__)
typedef short hy_shorts __attribute__((vector_size(HYV_BYTES / 2)));
HY_FN hy_v hyv_from_half(hy_halves h) { return __builtin_ia32_vcvtph2ps256((hy_shorts)h); }
HY_FN hy_halves hyv_to_half(hy_v v) { return (hy_halves)__builtin_ia32_vcvtps2ph256(v, 0); }
#ifdef __AVX2__
#define HYV_WIDEN(h) ((hy_vi)__builtin_ia32_pmovzxwd256((hy_shorts)(h)))
#endif
#else
HY_FN hy_v hyv_from_half(hy_halves h) {
  hy_v v; for (int i = 0; i < HYV_LANES; i++) v[i] = hy_load_half(h[i]); return v;
}
HY_FN hy_halves hyv_to_half(hy_v v) {
  hy_halves h; for (int i = 0; i < HYV_LANES; i++) h[i] = hy_store_half(v[i]); return h;
}
#endif

#ifndef HYV_WIDEN
/* GCC makes two vectors of it, and one of those */
#define HYV_WIDEN(h) __builtin_convertvector(h, hy_vi)
#endif

HY_FN hy_v hyv_from_bf16(hy_halves h) { return HYV_FLOAT(HYV_WIDEN(h) << 16); }
// the bits of the nearest bfloat16, in the lower half of each element
HY_FN hy_vi hyv_near_bf16(hy_v v) {
    const hy_vu32 b = (hy_vu32)v, near = (b + 0x7fff + ((b >> 16) & 1)) >> 16;
    return HYV_BITS(HYV_SELECT(HYV_NAN(v, v), HYV_FLOAT(HYV_IB(0x7fc0)), HYV_FLOAT(near)));
}
#if HYV_BYTES == 64 && defined(__AVX512BF16__) && defined(__AVX512DQ__) && !defined(__clang__)
// the instruction has zeros for denormals, and NaNs of its own
HY_FN hy_halves hyv_to_bf16(hy_v v) {
    if (__builtin_expect(__builtin_ia32_fpclassps512_mask(v, 0xa1, HYV_ALL) != 0, 0))
        return __builtin_convertvector(hyv_near_bf16(v), hy_halves);
    return (hy_halves)__builtin_ia32_cvtneps2bf16_v16sf(v);
}
#else
HY_FN hy_halves hyv_to_bf16(hy_v v) { return __builtin_convertvector(hyv_near_bf16(v), hy_halves); }
#endif

// lanes of a mask; the others are neither read nor written
#if HYV_BYTES == 64 && defined(__AVX512BW__) && defined(__AVX512VL__) && !defined(__clang__)
#define HYV_SOME(m, p) ((hy_halves)__builtin_ia32_loaddquhi256_mask((const short *)(p), (hy_shorts){}, m))
#define HYV_PUT_SOME(m, p, h) __builtin_ia32_storedquhi256_mask((short *)(p), (hy_shorts)(h), m)
#else
HY_FN hy_halves HYV_SOME(hy_m m, const unsigned short *p) {
  hy_halves h = {}; for (int i = 0; i < HYV_LANES; i++) if (HYV_HAS(m, i)) h[i] = p[i]; return h;
}
HY_FN void HYV_PUT_SOME(hy_m m, unsigned short *p, hy_halves h) {
  for (int i = 0; i < HYV_LANES; i++) if (HYV_HAS(m, i)) p[i] = h[i];
}
#endif

#define HYV_LOAD_HALF(p) hyv_from_half(*(const hy_halvesu *)(p))
#define HYV_LOAD_BF16(p) hyv_from_bf16(*(const hy_halvesu *)(p))
#define HYV_LOADM_HALF(m, p) hyv_from_half(HYV_SOME(m, p))
#define HYV_LOADM_BF16(m, p) hyv_from_bf16(HYV_SOME(m, p))
#define HYV_STORE_HALF(p, v) (*(hy_halvesu *)(p) = hyv_to_half(v))
#define HYV_STORE_BF16(p, v) (*(hy_halvesu *)(p) = hyv_to_bf16(v))
#define HYV_STOREM_HALF(m, p, v) HYV_PUT_SOME(m, p, hyv_to_half(v))
#define HYV_STOREM_BF16(m, p, v) HYV_PUT_SOME(m, p, hyv_to_bf16(v))
// loads a square block of HYV_LANES x HYV_LANES halves, its rows ``step`` apart, and stores it as floats
HY_FN void hyv_square_HALF(float *to, const unsigned short *from, long step) {
  for (int i = 0; i < HYV_LANES; i++) HYV_STORE(to + i * HYV_LANES, HYV_LOAD_HALF(from + i * step));
}
HY_FN void hyv_square_BF16(float *to, const unsigned short *from, long step) {
  for (int i = 0; i < HYV_LANES; i++) HYV_STORE(to + i * HYV_LANES, HYV_LOAD_BF16(from + i * step));
}
// rounds a vector to a half type
#define HYV_NEAR_HALF(v) hyv_from_half(hyv_to_half(v))
#define HYV_NEAR_BF16(v) HYV_FLOAT(hyv_near_bf16(v) << 16)
