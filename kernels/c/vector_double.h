// C only, after vector.h: whole vectors of float64, by the names of vector.h with HYD_ for HYV_ and hyd_ for hyv_.
// Before this text stand HYD_B(x) (a vector of equal elements), HYD_IB(x) and HYD_COUNT (0, 1, 2 ...).
typedef double hy_dv __attribute__((vector_size(HYV_BYTES)));
typedef double hy_du __attribute__((vector_size(HYV_BYTES), aligned(8)));
typedef long hy_di __attribute__((vector_size(HYV_BYTES)));
#define HYD_LANES (HYV_BYTES / 8)
#define HYD_REAL double
#define HYD_WHOLE long
#define HYD_TOP ((long)((unsigned long)1 << 63))
#define HYD_MOST 1.7976931348623157e308
#define HYD_OF(name) __builtin_##name
// s such that 1 / (s * d) is a normal number for every normal or subnormal d
HY_FN double hyd_scale(double d) {
    double a = __builtin_fabs(d);
    return a < 2.2250738585072014e-308 ? 0x1p128 : a > 4.4e307 ? 0x1p-128 : 1.0;
}

#define HYD_BYTES HYV_BYTES
#define HYD_I(before, after) __builtin_ia32_##before##pd##after
#define HYD_MASK unsigned char
typedef hy_long_long hy_dll __attribute__((vector_size(HYV_BYTES)));
#define HYD_WHOLES(a, b, p) __builtin_ia32_cmpq512_mask((hy_dll)(a), (hy_dll)(b), p, HYD_ALL)
#include "vector_either.h"

// exp, as hy_exp: two factors for 2^n, n reaching 1024 and -1076. NaN stays: MAX and MIN give their second.
HY_FN hy_dv hyd_exp(hy_dv x) {
    hy_dv c = HYD_MIN(HYD_B(710.0), HYD_MAX(HYD_B(-746.0), x));
    hy_dv t = c * HYD_B(1.4426950408889634) + HYD_B(6755399441055744.0), n = t - HYD_B(6755399441055744.0);
    hy_dv r = c - n * HYD_B(6.93147180369123816490e-01); r -= n * HYD_B(1.90821492927058770002e-10);
    hy_dv p = r * HYD_B(1.0 / 6227020800.0) + HYD_B(1.0 / 479001600.0);
    p = p * r + HYD_B(1.0 / 39916800.0); p = p * r + HYD_B(1.0 / 3628800.0); p = p * r + HYD_B(1.0 / 362880.0);
    p = p * r + HYD_B(1.0 / 40320.0);
    p = p * r + HYD_B(1.0 / 5040.0); p = p * r + HYD_B(1.0 / 720.0); p = p * r + HYD_B(1.0 / 120.0);
    p = p * r + HYD_B(1.0 / 24.0);
    p = p * r + HYD_B(1.0 / 6.0); p = p * r + HYD_B(0.5);
    p = p * (r * r) + r + HYD_B(1.0);
    hy_di e = HYD_BITS(t) - 0x4338000000000000l + 2046, h = e >> 1;
    return p * HYD_FLOAT(h << 52) * HYD_FLOAT((e - h) << 52);
}
// sin, cos and tan: x less n pi / 2, whose first two parts (33 bits each) times n are exact; polynomials of fdlibm;
// beyond 2^20 the C library does it
struct hyd_angle { hy_dv sine, cosine; hy_di n; };
HY_FN struct hyd_angle hyd_angle(hy_dv x) {
    hy_dv t = x * HYD_B(0.63661977236758134) + HYD_B(6755399441055744.0), n = t - HYD_B(6755399441055744.0);
    hy_dv r = x - n * HYD_B(1.57079632673412561417e+00) - n * HYD_B(6.07710050630396597660e-11) - n
        * HYD_B(2.02226624879595063154e-21), z = r * r;
    hy_dv s = z * HYD_B(1.58969099521155010221e-10) - HYD_B(2.50507602534068634195e-08),
        c = z * HYD_B(-1.13596475577881948265e-11) + HYD_B(2.08757232129817482790e-09);
    s = s * z + HYD_B(2.75573137070700676789e-06); s = s * z - HYD_B(1.98412698298579493134e-04);
    s = s * z + HYD_B(8.33333333332248946124e-03);
    s = s * z - HYD_B(1.66666666666666324348e-01);
    c = c * z - HYD_B(2.75573143513906633035e-07); c = c * z + HYD_B(2.48015872894767294178e-05);
    c = c * z - HYD_B(1.38888888888741095749e-03);
    c = c * z + HYD_B(4.16666666666666019037e-02);
    hy_dv half = z * HYD_B(0.5), w = HYD_B(1.0) - half;
    return (struct hyd_angle){ r + r * z * s, w + ((HYD_B(1.0) - w - half) + z * z * c), HYD_BITS(t) };
}
// one where the bit is set, else the other
HY_FN hy_dv hyd_by(hy_di bit, hy_dv one, hy_dv other) {
  hy_di m = -(bit & 1); return HYD_FLOAT((HYD_BITS(one) & m) | (HYD_BITS(other) & ~m));
}
#define HYD_ANGLE(name, library, result) \
    HY_FN hy_dv name(hy_dv x) { \
        hy_dm far = HYD_NOT(HYD_LT(HYD_ABS(x), HYD_B(1048576.0))); \
        struct hyd_angle a = hyd_angle(HYD_SELECT(far, (hy_dv){}, x)); \
        union { hy_dv v; double f[HYD_LANES]; } in = { x }, out = { result }; \
        if (__builtin_expect(HYD_ANY(far) != 0, 0)) \
            for (int i = 0; i < HYD_LANES; i++) if (!(__builtin_fabs(in.f[i]) < 1048576.0)) out.f[i] = \
                library(in.f[i]); \
        return out.v; \
    }
#define HYD_TURNED(a, n, one, other) HYD_FLOAT(HYD_BITS(hyd_by(n, one, other)) ^ (((n) & 2) << 62))
HYD_ANGLE(hyd_sin, __builtin_sin, HYD_SELECT(HYD_EQ(x, (hy_dv){}), x, HYD_TURNED(a, a.n, a.cosine, a.sine)))
HYD_ANGLE(hyd_cos, __builtin_cos, HYD_TURNED(a, (a.n + 1), a.cosine, a.sine))
HYD_ANGLE(hyd_tan, __builtin_tan,
    HYD_SELECT(HYD_EQ(x, (hy_dv){}), x, hyd_by(a.n, -a.cosine, a.sine) / hyd_by(a.n, a.sine, a.cosine)))
