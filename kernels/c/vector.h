// Whole vectors of float32 with GCC's vector extensions. HYV_BYTES is the width of a vector, HYV_B(x) a vector of equal
// elements, and hy_m a mask: bits on AVX-512, else a vector of -1 and 0.
typedef float hy_v __attribute__((vector_size(HYV_BYTES)));
typedef float hy_vu __attribute__((vector_size(HYV_BYTES), aligned(4)));
typedef int hy_vi __attribute__((vector_size(HYV_BYTES)));
typedef unsigned hy_vu32 __attribute__((vector_size(HYV_BYTES)));         // wraps around
typedef int hy_viu __attribute__((vector_size(HYV_BYTES), aligned(4)));
#define HYV_LANES (HYV_BYTES / 4)
#define HYV_REAL float
#define HYV_WHOLE int
#define HYV_TOP ((int)0x80000000)
#define HYV_MOST 3.4028234663852886e38f
#define HYV_OF(name) __builtin_##name##f

// s such that 1 / (s * d) is a normal number for every normal or subnormal d
HY_FN float hy_scale(float d) {
    float a = __builtin_fabsf(d);
    return a < 1.17549435e-38f ? 18446744073709551616.0f : a > 8.5e37f ? 5.421010862427522e-20f : 1.0f;
}
// an integer as a 32-bit one that compares with 0 … 2147483646 the same way
HY_FN int hy_int(long i) { return i < -1 ? -1 : i > 2147483647l ? 2147483647 : (int)i; }

#define HYV_I(before, after) __builtin_ia32_##before##ps##after            // an instruction of x86
#define HYV_MASK unsigned short
#define HYV_WHOLES(a, b, p) __builtin_ia32_cmpd512_mask(a, b, p, HYV_ALL)
#if HYV_BYTES == 32 && defined(__AVX2__)
#define HYV_LOADM(m, p) __builtin_ia32_maskloadps256((const hy_v *)(p), m)
#endif
#include "vector_either.h"

#ifdef HYV_CMP
#define HYV_LOADO(m, p, old) __builtin_ia32_loadups512_mask((const float *)(p), old, m)  // elsewhere those of old
#define HYV_SCALE(p, t) __builtin_ia32_scalefps512_mask(p, (t) - HYV_B(12582912.0f), (hy_v){}, HYV_ALL, 4)
#else
#define HYV_LOADO(m, p, old) ({ const hy_m m_ = (m); HYV_SELECT(m_, HYV_LOADM(m_, p), old); })
// p times 2^n, the integer n being the last bits of t = n + 12582912, in two steps: n reaches 128 and -150
HY_FN hy_v HYV_SCALE(hy_v p, hy_v t) {
    hy_vi e = HYV_BITS(t) - 0x4B400000, h = e >> 1;
    return p * HYV_FLOAT((h + 127) << 23) * HYV_FLOAT((e - h + 127) << 23);
}
#endif

// sums of the first 1, 2, … elements of a vector, and its last element everywhere
HY_FN hy_v hyv_running(hy_v v) {
    for (int s = 1; s < HYV_LANES; s *= 2) v += HYV_SHUFFLE(v, HYV_B(-0.0f), (HYV_COUNT - s) & (2 * HYV_LANES - 1));
    return v;
}
HY_FN hy_v hyv_last(hy_v v) { return HYV_SHUFFLE(v, v, HYV_IB(HYV_LANES - 1)); }
// every second element of two vectors, the others, and two vectors as pairs
#define HYV_EVEN(a, b) HYV_SHUFFLE(a, b, HYV_COUNT * 2)
#define HYV_ODD(a, b) HYV_SHUFFLE(a, b, HYV_COUNT * 2 + 1)
#define HYV_ZIP(a, b) HYV_SHUFFLE(a, b, (HYV_COUNT >> 1) + (HYV_COUNT & 1) * HYV_LANES)
#define HYV_ZAP(a, b) HYV_SHUFFLE(a, b, (HYV_COUNT >> 1) + (HYV_COUNT & 1) * HYV_LANES + HYV_LANES / 2)
#define HYV_PAIR_FIRST(p) HYV_LOAD(p)
#define HYV_PAIR_LAST(p) HYV_LOAD((p) + HYV_LANES)
#define HYV_PAIR_STORE(p, a, b) do { HYV_STORE(p, HYV_ZIP(a, b)); HYV_STORE((p) + HYV_LANES, HYV_ZAP(a, b)); } while (0)
// of the last pairs of a line: masks mk_a and mk_b of the two vectors
#define HYV_PAIRM_FIRST(p) HYV_LOADM(mk_a, p)
#define HYV_PAIRM_LAST(p) HYV_LOADM(mk_b, (p) + HYV_LANES)
#define HYV_PAIRM_STORE(p, a, b) do { HYV_STOREM(mk_a, p, HYV_ZIP(a, b)); \
    HYV_STOREM(mk_b, (p) + HYV_LANES, HYV_ZAP(a, b)); } while (0)

// exp: 2^n (1 + r + r^2 q(r)), Cody-Waite reduction, minimax q of degree 4; 1 ulp. NaN stays: MAX and MIN give their
// second.
HY_FN hy_v hyv_exp(hy_v x) {
    hy_v c = HYV_MIN(HYV_B(89.0f), HYV_MAX(HYV_B(-104.0f), x));
    hy_v t = c * HYV_B(1.44269504088896341f) + HYV_B(12582912.0f), n = t - HYV_B(12582912.0f);
    hy_v r = c - n * HYV_B(0.693359375f); r += n * HYV_B(2.12194440e-4f);
    hy_v p = r * HYV_B(1.38145e-3f) + HYV_B(8.36878e-3f);
    p = p * r + HYV_B(4.1668390e-2f); p = p * r + HYV_B(1.6666520e-1f); p = p * r + HYV_B(4.9999993e-1f);
    p = p * (r * r) + r + HYV_B(1.0f);
    return HYV_SCALE(p, t);
}
// 2^(n + r), r in -1/2 ... 1/2 and the integer n being the last bits of t = n + 12582912: a polynomial of degree 6,
// 1e-8 of the result.
HY_FN hy_v hyv_two(hy_v r, hy_v t) {
    hy_v p = r * HYV_B(0.000154531634f) + HYV_B(0.00133908633f);
    p = p * r + HYV_B(0.00961808302f); p = p * r + HYV_B(0.0555035695f); p = p * r + HYV_B(0.240226507f);
    p = p * r + HYV_B(0.693147182f);
    return HYV_SCALE(p * r + HYV_B(1.0f), t);
}
// 2^x for any x; 2.4 ulp. 2^x of the fraction that lies above the next lower integer, a polynomial of degree 5, 7e-8 of
// the result.
#if HYV_BYTES == 64 && defined(__AVX512DQ__) && !defined(__clang__)
HY_FN hy_v hyv_two_to(hy_v x) {
    hy_v r = __builtin_ia32_reduceps512_mask_round(x, 1, (hy_v){}, HYV_ALL, 4),
        p = r * HYV_B(0.00188085783f) + HYV_B(0.00898066453f);
    p = p * r + HYV_B(0.0558344865f); p = p * r + HYV_B(0.240150452f); p = p * r + HYV_B(0.693153474f);
    p = p * r + HYV_B(0.999999934f);
    return __builtin_ia32_scalefps512_mask(p, x, (hy_v){}, HYV_ALL, 4);
}
#else
HY_FN hy_v hyv_two_to(hy_v x) {
    hy_v c = HYV_MIN(HYV_B(130.0f), HYV_MAX(HYV_B(-151.0f), x)), t = c + HYV_B(12582912.0f);
    return hyv_two(c - (t - HYV_B(12582912.0f)), t);
}
#endif
// exp of x <= 0 (what softmax needs) by powers of two, which takes less; its error grows with -x, from 2.2 ulp to
// 1.3e-6 of results near the smallest.
#if (defined(__FMA__) || defined(__ARM_FEATURE_FMA)) && !defined(HYV_CMP)
// the polynomial's results are 2^-32 of themselves, so that one factor, 2^(n + 32), gives subnormal ones too
HY_FN hy_v hyv_exp_below(hy_v x) {
    hy_v c = HYV_MAX(HYV_B(-104.0f), x), t = c * HYV_B(1.44269504088896341f) + HYV_B(12583071.0f),
        r = c * HYV_B(1.44269504088896341f) - (t - HYV_B(12583071.0f));
    // degree 5: 8e-8 of the result
    hy_v p = r * HYV_B(0.00132746334f * 0x1p-32f) + HYV_B(0.00967196168f * 0x1p-32f);
    p = p * r + HYV_B(0.0555067837f * 0x1p-32f); p = p * r + HYV_B(0.240222353f * 0x1p-32f);
    p = p * r + HYV_B(0.693147062f * 0x1p-32f);
    return (p * r + HYV_B(0x1p-32f)) * HYV_FLOAT((HYV_BITS(t) - 0x4B400000) << 23);
}
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
HY_FN hy_v hyv_exp_below(hy_v x) {
    hy_v c = HYV_MAX(HYV_B(-104.0f), x), t = c * HYV_B(1.44269504088896341f) + HYV_B(12582912.0f),
        r = c * HYV_B(1.44269504088896341f) - (t - HYV_B(12582912.0f));
    hy_v p = r * HYV_B(0.00132746334f) + HYV_B(0.00967196168f);         // degree 5: 8e-8 of the result
    p = p * r + HYV_B(0.0555067837f); p = p * r + HYV_B(0.240222353f); p = p * r + HYV_B(0.693147062f);
    return HYV_SCALE(p * r + HYV_B(1.0f), t);
}
#else
#define hyv_exp_below hyv_exp
#endif
// log of 2^e (1 + m), m in sqrt(1/2) - 1 ... sqrt 2 - 1
HY_FN hy_v hyv_log_of(hy_v m, hy_v e) {
    hy_v z = m * m, p = HYV_B(7.0376836292e-2f) * m - HYV_B(1.1514610310e-1f);
    p = p * m + HYV_B(1.1676998740e-1f); p = p * m - HYV_B(1.2420140846e-1f); p = p * m + HYV_B(1.4249322787e-1f);
    p = p * m - HYV_B(1.6668057665e-1f); p = p * m + HYV_B(2.0000714765e-1f); p = p * m - HYV_B(2.4999993993e-1f);
    p = p * m + HYV_B(3.3333331174e-1f);
    hy_v y = m * z * p - HYV_B(2.12194440e-4f) * e - HYV_B(0.5f) * z;
    return m + y + HYV_B(0.693359375f) * e;
}
// log: mantissa in [sqrt(1/2), sqrt 2), polynomial after Cephes; 1 ulp; subnormals by scaling.
HY_FN hy_v hyv_log(hy_v x) {
    hy_m tiny = HYV_LT(x, HYV_B(1.17549435e-38f));
    hy_vi b = HYV_BITS(HYV_SELECT(tiny, x * HYV_B(8388608.0f), x));
    hy_v e = __builtin_convertvector(((b >> 23) & 0xff) - 126, hy_v) - HYV_SELECT(tiny, HYV_B(23.0f), (hy_v){});
    hy_v f = HYV_FLOAT((b & 0x007fffff) | 0x3f000000);
    hy_m low = HYV_LT(f, HYV_B(0.707106781186547524f));
    hy_v m = HYV_SELECT(low, f + f, f) - HYV_B(1.0f);
    e -= HYV_SELECT(low, HYV_B(1.0f), (hy_v){});
    hy_v y = hyv_log_of(m, e);
    y = HYV_SELECT(HYV_LT(HYV_B(3.4028234663852886e38f), x), x, y);
    y = HYV_SELECT(HYV_EQ(x, (hy_v){}), HYV_B(-__builtin_inff()), y);
    return HYV_SELECT(HYV_LE((hy_v){}, x), y, HYV_B(__builtin_nanf("")));
}
// tanh: t / (t + 2) with t = exp(2|x|) - 1, whose polynomial has no constant term; 2 ulp.
HY_FN hy_v hyv_tanh(hy_v x) {
    hy_v a = HYV_ABS(x), c = HYV_MIN(HYV_B(18.1f), a + a);
    hy_v t = c * HYV_B(1.44269504088896341f) + HYV_B(12582912.0f), n = t - HYV_B(12582912.0f);
    hy_v r = c - n * HYV_B(0.693359375f); r += n * HYV_B(2.12194440e-4f);
    hy_v p = r * HYV_B(1.98458854e-4f) + HYV_B(1.39407202e-3f); p = p * r + HYV_B(8.33338957e-3f);
    p = p * r + HYV_B(4.16663598e-2f); p = p * r + HYV_B(1.66666664e-1f); p = p * r + HYV_B(0.5f);
    p = p * (r * r) + r;
    hy_v s = HYV_FLOAT((HYV_BITS(t) - (0x4B400000 - 127)) << 23);
    p = p * s + (s - HYV_B(1.0f));
    hy_v d = p + HYV_B(2.0f), lost = p - (d - HYV_B(2.0f)), y = p / d;
    // what d rounds away counts where d is near 2
    y -= y * HYV_SELECT(HYV_LT(a, HYV_B(0.4f)), lost * HYV_B(0.48f), (hy_v){});
    return HYV_SIGN(y, x);
}
// erf: x + x q(x^2) below 0.93, else 1 - exp(polynomial); 1 ulp (coefficients after N. Juffa).
HY_FN hy_v hyv_erf(hy_v x) {
    hy_v a = HYV_ABS(x), s = x * x;
    hy_v r = HYV_B(-1.72853470e-5f) * a + HYV_B(3.83197126e-4f), u = HYV_B(-3.88396438e-3f) * a + HYV_B(2.42546219e-2f);
    r = r * s + u; r = r * a - HYV_B(1.06777877e-1f); r = r * a - HYV_B(6.34846687e-1f);
    r = r * a - HYV_B(1.28717512e-1f); r = r * a - a;
    hy_v large = HYV_SIGN(HYV_B(1.0f) - hyv_exp(r), x);
    hy_v q = HYV_B(-5.96761703e-4f) * s + HYV_B(4.99119423e-3f);
    q = q * s - HYV_B(2.67681349e-2f); q = q * s + HYV_B(1.12819925e-1f); q = q * s - HYV_B(3.76125336e-1f);
    q = q * s + HYV_B(1.28379166e-1f);
    return HYV_SELECT(HYV_LT(HYV_B(0.927734375f), a), large, q * x + x);
}
// sigmoid: of e = exp(-|x|), which neither overflows nor loses small results: 1 / (1 + e), or e / (1 + e) below zero;
// 2 ulp.
HY_FN hy_v hyv_sigmoid(hy_v x) {
    hy_v e = hyv_exp(-HYV_ABS(x)), d = HYV_B(1.0f) + e, lost = e - (d - HYV_B(1.0f));
    hy_v y = HYV_SELECT(HYV_LT(x, (hy_v){}), e, HYV_B(1.0f)) / d;
    return y - y * (lost - lost * e * HYV_B(0.5f));          // what d rounds away, over d
}
// 1 + erf(x), 6e-8: log2(erfc(a)) = a p(a), a fit of p over 0 ... 10.1 that weighs errors of the result; below -1 it
// keeps digits that 1 + erf(x) has not.
HY_FN hy_v hyv_erf1(hy_v x) {
    hy_v a = HYV_MIN(HYV_B(10.1f), HYV_ABS(x)), p = a * HYV_B(-3.21269084e-07f) + HYV_B(9.7755601e-06f);
    p = p * a - HYV_B(0.000115438619f); p = p * a + HYV_B(0.000673556991f); p = p * a - HYV_B(0.00188967912f);
    p = p * a - HYV_B(0.000374403578f);
    p = p * a + HYV_B(0.0280266181f); p = p * a - HYV_B(0.148412585f); p = p * a - HYV_B(0.918426156f);
    p = p * a - HYV_B(1.62790811f);
    p *= a;
    hy_v e = hyv_two_to(p);
    return HYV_SELECT(HYV_LT(x, (hy_v){}), e, HYV_B(2.0f) - e);
}
