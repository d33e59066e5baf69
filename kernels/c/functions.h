// C only, after vector.h: functions of vectors that fewer programs need; within 2 ulp.
// 2^(n - 1) of the integer n that ends t = n + 12582912
#define HYV_HALF_POWER(t) HYV_FLOAT((HYV_BITS(t) - (0x4B400000 - 126)) << 23)
// the integer e for which x / 2^e lies in sqrt(1/2) ... sqrt 2; any for what is no positive number
#define HYV_EXPONENT(bits) ((hy_vi)((hy_vu32)(bits) - 0x3f3504f3u) >> 23)
// expm1: 2^n (e^r - 1) + 2^n - 1, in halves, since 2^128 is no float; -1 below -18.
HY_FN hy_v hyv_expm1(hy_v x) {
    hy_v c = HYV_MIN(HYV_B(89.0f), HYV_MAX(HYV_B(-18.0f), x));
    hy_v t = c * HYV_B(1.44269504088896341f) + HYV_B(12582912.0f), n = t - HYV_B(12582912.0f);
    hy_v r = c - n * HYV_B(0.693359375f); r += n * HYV_B(2.12194440e-4f);
    hy_v p = r * HYV_B(1.98458854e-4f) + HYV_B(1.39407202e-3f); p = p * r + HYV_B(8.33338957e-3f);
    p = p * r + HYV_B(4.16663598e-2f); p = p * r + HYV_B(1.66666664e-1f); p = p * r + HYV_B(0.5f);
    p = p * (r * r) + r;
    hy_v s = HYV_HALF_POWER(t), y = p * s + (s - HYV_B(0.5f));
    return HYV_SIGN(y + y, x);
}
// log(1 + x) of x > -1: 1 + x = 2^e (1 + f), f in sqrt(1/2) - 1 ... sqrt 2 - 1 from x itself, so that no digit of x is
// lost.
HY_FN hy_v hyv_log1p_inside(hy_v x) {
    hy_vi e = HYV_EXPONENT(HYV_BITS(x + HYV_B(1.0f)));
    // s = 4 / 2^e is never subnormal
    hy_v s = HYV_FLOAT((hy_vu32)(129 - e) << 23), f = x * s * HYV_B(0.25f) + (s * HYV_B(0.25f) - HYV_B(1.0f));
    return hyv_log_of(f, __builtin_convertvector(e, hy_v));
}
HY_FN hy_v hyv_log1p(hy_v x) {
    hy_v y = HYV_SIGN(hyv_log1p_inside(x), x);
    y = HYV_SELECT(HYV_LT(HYV_B(3.4028234663852886e38f), x), x, y);
    y = HYV_SELECT(HYV_EQ(x, HYV_B(-1.0f)), HYV_B(-__builtin_inff()), y);
    return HYV_SELECT(HYV_LE(HYV_B(-1.0f), x), y, HYV_B(__builtin_nanf("")));
}
// log(1 + e^x)
HY_FN hy_v hyv_softplus(hy_v x) {
    hy_v y = HYV_MAX((hy_v){}, x) + hyv_log1p_inside(hyv_exp(-HYV_ABS(x)));
    return HYV_SELECT(HYV_NAN(x, x), x, y);
}
// logarithms of base 2 and 10: the exponent's part apart
HY_FN hy_v hyv_log_base(hy_v x, float exponent, float rest, float mantissa) {
    hy_m tiny = HYV_LT(x, HYV_B(1.17549435e-38f));
    hy_vi b = HYV_BITS(HYV_SELECT(tiny, x * HYV_B(8388608.0f), x)), up = HYV_EXPONENT(b);
    hy_v e = __builtin_convertvector(up, hy_v) - HYV_SELECT(tiny, HYV_B(23.0f), (hy_v){});
    hy_v y = hyv_log_of(HYV_FLOAT((hy_vu32)b - ((hy_vu32)up << 23)) - HYV_B(1.0f), (hy_v){}) * HYV_B(mantissa) + e
        * HYV_B(rest) + e * HYV_B(exponent);
    y = HYV_SELECT(HYV_LT(HYV_B(3.4028234663852886e38f), x), x, y);
    y = HYV_SELECT(HYV_EQ(x, (hy_v){}), HYV_B(-__builtin_inff()), y);
    return HYV_SELECT(HYV_LE((hy_v){}, x), y, HYV_B(__builtin_nanf("")));
}
HY_FN hy_v hyv_log2(hy_v x) { return hyv_log_base(x, 1.0f, 0.0f, 1.44269504088896341f); }
HY_FN hy_v hyv_log10(hy_v x) { return hyv_log_base(x, 0.30078125f, 0.00024874566f, 0.43429448190325183f); }
// sin(x + quarter pi / 2): x less a multiple of pi / 2 in doubles, a polynomial of degree 7 or 6; beyond 2^20 the C
// library does it.
typedef double hy_wide __attribute__((vector_size(HYV_BYTES)));
typedef float hy_narrow __attribute__((vector_size(HYV_BYTES / 2)));
union hy_parts { hy_v v; hy_narrow h[2]; };
HY_FN hy_v hyv_sine(hy_v x, int quarter) {
    hy_m far = HYV_NOT(HYV_LT(HYV_ABS(x), HYV_B(1048576.0f)));
    hy_v in = HYV_SELECT(far, (hy_v){}, x);
    union hy_parts from = { in }, r, q;
    for (int i = 0; i < 2; i++) {
        hy_wide w = __builtin_convertvector(from.h[i], hy_wide), t = w * 0.63661977236758134 + 6755399441055744.0,
            n = t - 6755399441055744.0;
        r.h[i] = __builtin_convertvector(w - n * 1.5707963267341256 - n * 6.0771005065061922e-11, hy_narrow);
        q.h[i] = __builtin_convertvector(n, hy_narrow);
    }
    hy_vi k = __builtin_convertvector(q.v, hy_vi) + quarter;
    hy_v z = r.v * r.v, s = z * HYV_B(-1.9515295891e-4f) + HYV_B(8.3321608736e-3f),
        c = z * HYV_B(2.443315711809948e-5f) + HYV_B(-1.388731625493765e-3f);
    s = s * z + HYV_B(-1.6666654611e-1f); s = s * z * r.v + r.v;
    c = c * z + HYV_B(4.166664568298827e-2f); c = c * (z * z) - HYV_B(0.5f) * z + HYV_B(1.0f);
    hy_v y = HYV_SELECT(HYV_IEQ(k & 1, HYV_IB(1)), c, s);
    y = HYV_FLOAT(HYV_BITS(y) ^ ((k & 2) << 30));
    if (__builtin_expect(HYV_ANY(far) != 0, 0)) {
        union { hy_v v; float f[HYV_LANES]; } a = { x }, b = { y };
        for (int i = 0; i < HYV_LANES; i++)
            if (!(__builtin_fabsf(a.f[i]) < 1048576.0f)) b.f[i] = quarter ? __builtin_cosf(a.f[i])
                : __builtin_sinf(a.f[i]);
        y = b.v;
    }
    return quarter ? y : HYV_SELECT(HYV_EQ(x, (hy_v){}), x, y);
}
#define hyv_sin(x) hyv_sine(x, 0)
#define hyv_cos(x) hyv_sine(x, 1)
// tan in doubles: of x less a multiple of pi / 2, the sine's polynomial over the cosine's, or the other way round;
// beyond 2^20 the C library does it
typedef long hy_wide_int __attribute__((vector_size(HYV_BYTES)));
HY_FN hy_v hyv_tan(hy_v x) {
    hy_m far = HYV_NOT(HYV_LT(HYV_ABS(x), HYV_B(1048576.0f)));
    union hy_parts from = { HYV_SELECT(far, (hy_v){}, x) }, out;
    for (int i = 0; i < 2; i++) {
        hy_wide w = __builtin_convertvector(from.h[i], hy_wide), t = w * 0.63661977236758134 + 6755399441055744.0,
            n = t - 6755399441055744.0;
        hy_wide r = w - n * 1.5707963267341256 - n * 6.0771005065061922e-11, z = r * r;
        hy_wide s = z * 2.755731370707e-6 - 1.98412698298579e-4, c = z * -2.75573143513907e-7 + 2.48015872894767e-5;
        s = s * z + 8.33333333332249e-3; s = s * z - 0.166666666666666; s = s * z * r + r;
        c = c * z - 1.38888888888741e-3; c = c * z + 4.16666666666666e-2; c = c * z - 0.5; c = c * z + 1.0;
        hy_wide_int odd = -((hy_wide_int)t & 1);
        hy_wide top = (hy_wide)(((hy_wide_int)s & ~odd) | ((hy_wide_int)-c & odd)),
            below = (hy_wide)(((hy_wide_int)c & ~odd) | ((hy_wide_int)s & odd));
        out.h[i] = __builtin_convertvector(top / below, hy_narrow);
    }
    if (__builtin_expect(HYV_ANY(far) != 0, 0)) {
        union { hy_v v; float f[HYV_LANES]; } a = { x }, b = { out.v };
        for (int i = 0; i < HYV_LANES; i++) if (!(__builtin_fabsf(a.f[i]) < 1048576.0f)) b.f[i] =
            __builtin_tanf(a.f[i]);
        out.v = b.v;
    }
    return HYV_SELECT(HYV_EQ(x, (hy_v){}), x, out.v);
}
