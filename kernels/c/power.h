// C only, after vector.h: powers of vectors.
// pow: 2^(y log2|x|) in doubles, log2 by s = (m - 1) / (m + 1) for a mantissa m in [sqrt(1/2), sqrt 2); 1 ulp. Signs,
// zeros and infinities as C's pow.
typedef double hy_d __attribute__((vector_size(HYV_BYTES)));
typedef long hy_dl __attribute__((vector_size(HYV_BYTES)));
typedef float hy_vh __attribute__((vector_size(HYV_BYTES / 2)));
typedef int hy_vih __attribute__((vector_size(HYV_BYTES / 2)));
union hy_halves { hy_v v; hy_vi i; hy_vh h[2]; hy_vih ih[2]; };
#define HYV_D(x) ((hy_d){} + (x))
// Returns 2^t, t = by * log2(x), in float64 for half of a vector x = mantissa * 2^exponent, and stores t in *power; the
// caller handles overflow and underflow by t. The polynomials for log2 and 2^r are interpolated at Chebyshev points,
// accurate to 38 and 28.5 bits.
HY_FN hy_vh hyv_pow_half(hy_vh mantissa, hy_vih exponent, hy_vh by, hy_vh *power) {
    hy_d m = __builtin_convertvector(mantissa, hy_d), inverse = __builtin_convertvector(1.0f / (mantissa + 1.0f), hy_d);
    hy_d s = (m - 1.0) * inverse; s += ((m - 1.0) - s * (m + 1.0)) * inverse;
    hy_d z = s * s, p = z * 0.34075394668064773 + 0.41167160728170593; p = p * z + 0.577083600044554;
    p = p * z + 0.9617966732846566;
    p = p * z + 2.8853900817901095;
    hy_d t = (__builtin_convertvector(exponent, hy_d) + p * s) * __builtin_convertvector(by, hy_d);
    *power = __builtin_convertvector(t, hy_vh);
    hy_d big = t + 6755399441055744.0, r = t - (big - 6755399441055744.0);
    hy_d e = r * 0.00015461444698568514 + 0.0013400428177615916; e = e * r + 0.009618056678524643;
    e = e * r + 0.05550327226670302;
    e = e * r + 0.24022650922288757; e = e * r + 0.6931472067028326; e = e * r + 1.0;
    return __builtin_convertvector(e * (hy_d)(((hy_dl)big + 1023) << 52), hy_vh);
}
// Returns a^y for a > 0. Subnormals come multiplied by 2^23; ``less`` is 23 for those, else 0.
HY_FN hy_v hyv_pow_positive(hy_v a, hy_v y, hy_vi less) {
    hy_v none = {};
    hy_vi bits = HYV_BITS(a);
    hy_vi up = HYV_BITS(HYV_SELECT(HYV_LT(HYV_B(1.41421354f), HYV_FLOAT((bits & 0x007fffff) | 0x3f800000)),
        HYV_FLOAT(HYV_IB(1)), none));
    union hy_halves m, e, by, out, t;
    m.i = ((bits & 0x007fffff) | 0x3f800000) - (up << 23);
    e.i = ((bits >> 23) & 0xff) - 127 + up - less;
    by.v = y;
    for (int i = 0; i < 2; i++) out.h[i] = hyv_pow_half(m.h[i], e.ih[i], by.h[i], &t.h[i]);
    return HYV_SELECT(HYV_LT(HYV_B(150.5f), t.v), HYV_B(__builtin_inff()),
        HYV_SELECT(HYV_LT(t.v, HYV_B(-151.5f)), none, out.v));
}
HY_FN hy_v hyv_pow_any(hy_v x, hy_v y) {
    const float huge = 3.4028234663852886e38f;
    hy_v a = HYV_ABS(x), b = HYV_ABS(y), one = HYV_B(1.0f), none = {};
    hy_m tiny = HYV_LT(a, HYV_B(1.17549435e-38f));
    hy_v out = hyv_pow_positive(HYV_SELECT(tiny, a * HYV_B(8388608.0f), a), y,
        HYV_BITS(HYV_SELECT(tiny, HYV_FLOAT(HYV_IB(23)), none)));
    hy_v grows = HYV_SELECT(HYV_LT(none, y), HYV_B(__builtin_inff()), none),
        falls = HYV_SELECT(HYV_LT(none, y), none, HYV_B(__builtin_inff()));
    hy_v r = HYV_SELECT(HYV_EQ(a, none), falls, HYV_SELECT(HYV_LT(HYV_B(huge), a), grows, out));
    hy_v side = HYV_SELECT(HYV_EQ(a, one), one, HYV_SELECT(HYV_LT(a, one), falls, grows));
    r = HYV_SELECT(HYV_LT(HYV_B(huge), b), side, r);
    // a negative x: the sign of an odd power, NaN for one that is no integer (floats from 2^24 on are even)
    hy_m below = HYV_LT(HYV_FLOAT(HYV_BITS(x) & (int)0x80000000 | 0x3f800000), none),
        small = HYV_LT(b, HYV_B(16777216.0f));
    hy_vi whole = __builtin_convertvector(HYV_SELECT(small, y, none), hy_vi);
    hy_m integer = (hy_m)(HYV_NOT(small) | HYV_EQ(__builtin_convertvector(whole, hy_v), y)),
        odd = (hy_m)(small & HYV_IEQ(whole & 1, HYV_IB(1)));
    r = HYV_SELECT((hy_m)(below & odd & integer), -r, r);
    hy_m real = (hy_m)(integer | HYV_EQ(a, none) | HYV_LT(HYV_B(huge), a) | HYV_NOT(below));
    r = HYV_SELECT(real, r, HYV_B(__builtin_nanf("")));
    r = HYV_SELECT(HYV_NAN(x, y), x + y, r);
    return HYV_SELECT((hy_m)(HYV_EQ(y, none) | HYV_EQ(x, one)), one, r);
}
HY_FN hy_v hyv_pow(hy_v x, hy_v y) {
    hy_v infinite = HYV_B(__builtin_inff());
    hy_m usual = (hy_m)(HYV_LT(HYV_B(1.17549421e-38f), x) & HYV_LT(x, infinite) & HYV_LT(HYV_ABS(y), infinite));
    if (__builtin_expect(HYV_ANY(HYV_NOT(usual)) != 0, 0)) return hyv_pow_any(x, y);
    return hyv_pow_positive(x, y, (hy_vi){});
}
