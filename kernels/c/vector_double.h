// C only, after vector.h: whole vectors of float64, by the names of vector.h with HYD_ for HYV_ and hyd_ for hyv_.
// Before this text stand HYD_B(x) (a vector of equal elements), HYD_IB(x) and HYD_COUNT (0, 1, 2 ...).
typedef double hy_dv __attribute__((vector_size(HYV_BYTES)));
typedef double hy_dvu __attribute__((vector_size(HYV_BYTES), aligned(8)));
typedef long hy_di __attribute__((vector_size(HYV_BYTES)));
#define HYD_LANES (HYV_BYTES / 8)
#define HYD_LOAD(p) (*(const hy_dvu *)(p))
#define HYD_STORE(p, v) (*(hy_dvu *)(p) = (v))
#define HYD_BITS(v) ((hy_di)(v))
#define HYD_FLOAT(v) ((hy_dv)(v))
#define HYD_EACH(f, x) ({ union { hy_dv v; double each[HYD_LANES]; } a_ = { x }, b_; \
    _Pragma("omp simd") for (int i_ = 0; i_ < HYD_LANES; i_++) b_.each[i_] = f(a_.each[i_]); b_.v; })
// s such that 1 / (s * d) is a normal number for every normal or subnormal d
HY_FN double hyd_scale(double d) {
    double a = __builtin_fabs(d);
    return a < 2.2250738585072014e-308 ? 0x1p128 : a > 4.4e307 ? 0x1p-128 : 1.0;
}

#if HYV_BYTES == 64 && defined(__AVX512F__) && !defined(__clang__)
typedef unsigned char hy_dm;
#define HYD_ALL ((unsigned char)-1)
#define HYD_CMP(a, b, p) __builtin_ia32_cmppd512_mask(a, b, p, HYD_ALL, 4)
#define HYD_EQ(a, b) HYD_CMP(a, b, 0)
#define HYD_LT(a, b) HYD_CMP(a, b, 1)
#define HYD_LE(a, b) HYD_CMP(a, b, 2)
#define HYD_NE(a, b) HYD_CMP(a, b, 4)
#define HYD_NAN(a, b) HYD_CMP(a, b, 3)
#define HYD_SELECT(m, a, b) __builtin_ia32_blendmpd_512_mask(b, a, m)
#define HYD_NOT(m) ((hy_dm)~(m))
#define HYD_IEQ(a, b) __builtin_ia32_cmpq512_mask((__attribute__((vector_size(64))) long long)(a), (__attribute__((vector_size(64))) long long)(b), 0, HYD_ALL)
#define HYD_ILT(a, b) __builtin_ia32_cmpq512_mask((__attribute__((vector_size(64))) long long)(a), (__attribute__((vector_size(64))) long long)(b), 1, HYD_ALL)
#define HYD_MAX(a, b) __builtin_ia32_maxpd512_mask(a, b, (hy_dv){}, HYD_ALL, 4)     // the second where one is NaN
#define HYD_MIN(a, b) __builtin_ia32_minpd512_mask(a, b, (hy_dv){}, HYD_ALL, 4)
#define HYD_SQRT(a) __builtin_ia32_sqrtpd512_mask(a, (hy_dv){}, HYD_ALL, 4)
#define HYD_ROUND(a, how) __builtin_ia32_rndscalepd_mask(a, how, (hy_dv){}, HYD_ALL, 4)
#define HYD_FIRST(n) ((hy_dm)((1u << (n)) - 1))
#define HYD_LOADM(m, p) __builtin_ia32_loadupd512_mask((const double *)(p), (hy_dv){}, m)
#define HYD_STOREM(m, p, v) __builtin_ia32_storeupd512_mask((double *)(p), v, m)
#define HYD_ANY(m) (m)
#else
typedef hy_di hy_dm;
#define HYD_EQ(a, b) ((hy_dm)((a) == (b)))
#define HYD_LT(a, b) ((hy_dm)((a) < (b)))
#define HYD_LE(a, b) ((hy_dm)((a) <= (b)))
#define HYD_NE(a, b) ((hy_dm)((a) != (b)))
#define HYD_NAN(a, b) ((hy_dm)(((a) != (a)) | ((b) != (b))))
#define HYD_IEQ(a, b) ((hy_dm)((a) == (b)))
#define HYD_ILT(a, b) ((hy_dm)((a) < (b)))
#define HYD_NOT(m) (~(m))
#if HYV_BYTES == 32 && defined(__AVX2__)
#define HYD_SELECT(m, a, b) ((hy_dv)__builtin_ia32_blendvpd256(b, a, (hy_dv)(m)))
#define HYD_MAX(a, b) __builtin_ia32_maxpd256(a, b)
#define HYD_MIN(a, b) __builtin_ia32_minpd256(a, b)
#define HYD_SQRT(a) __builtin_ia32_sqrtpd256(a)
#define HYD_ROUND(a, how) __builtin_ia32_roundpd256(a, how)
#else
#define HYD_SELECT(m, a, b) ((hy_dv)(((m) & (hy_di)(a)) | (~(m) & (hy_di)(b))))
HY_FN hy_dv HYD_MAX(hy_dv a, hy_dv b) { return HYD_SELECT(HYD_LT(b, a), a, b); }
HY_FN hy_dv HYD_MIN(hy_dv a, hy_dv b) { return HYD_SELECT(HYD_LT(a, b), a, b); }
HY_FN hy_dv HYD_SQRT(hy_dv a) { for (int i = 0; i < HYD_LANES; i++) a[i] = __builtin_sqrt(a[i]); return a; }
#endif
HY_FN hy_dm HYD_FIRST(int n) { hy_dm m; for (int i = 0; i < HYD_LANES; i++) m[i] = i < n ? -1 : 0; return m; }
HY_FN int HYD_ANY(hy_dm m) { long any = 0; for (int i = 0; i < HYD_LANES; i++) any |= m[i]; return any != 0; }
HY_FN hy_dv HYD_LOADM(hy_dm m, const double *p) {
    union { hy_dv v; double f[HYD_LANES]; } u = { (hy_dv){} };
    for (int i = 0; i < HYD_LANES; i++) if (m[i]) u.f[i] = p[i];
    return u.v;
}
HY_FN void HYD_STOREM(hy_dm m, double *p, hy_dv v) { for (int i = 0; i < HYD_LANES; i++) if (m[i]) p[i] = v[i]; }
#endif

#ifdef HYD_ROUND
#define HYD_RINT(a) HYD_ROUND(a, 8)
#define HYD_FLOOR(a) HYD_ROUND(a, 9)
#define HYD_CEIL(a) HYD_ROUND(a, 10)
#define HYD_TRUNC(a) HYD_ROUND(a, 11)
#else
#define HYD_RINT(a) HYD_EACH(__builtin_rint, a)
#define HYD_FLOOR(a) HYD_EACH(__builtin_floor, a)
#define HYD_CEIL(a) HYD_EACH(__builtin_ceil, a)
#define HYD_TRUNC(a) HYD_EACH(__builtin_trunc, a)
#endif

#if defined(__AVX512F__) && HYV_BYTES == 64
#define HYD_PAST(p, v) __builtin_ia32_movntpd512(p, v)
#elif defined(__AVX__) && HYV_BYTES == 32
#define HYD_PAST(p, v) __builtin_ia32_movntpd256(p, v)
#elif defined(__SSE2__) && HYV_BYTES == 16
#define HYD_PAST(p, v) __builtin_ia32_movntpd(p, v)
#else
#define HYD_PAST(p, v) HYD_STORE(p, v)
#endif
#define HYD_STREAMED HYV_STREAMED
#define HYD_STREAM(p, v) ({ double *p_ = (p); const hy_dv v_ = (v); if (past) HYD_PAST(p_, v_); else HYD_STORE(p_, v_); })

#define HYD_GT(a, b) HYD_LT(b, a)
#define HYD_GE(a, b) HYD_LE(b, a)
#define HYD_IGT(a, b) HYD_ILT(b, a)
#define HYD_ILE(a, b) HYD_NOT(HYD_ILT(b, a))
#define HYD_IGE(a, b) HYD_NOT(HYD_ILT(a, b))
#define HYD_INE(a, b) HYD_NOT(HYD_IEQ(a, b))
#define HYD_FIRSTARG(a, b) (a)
#define HYD_ABS(a) HYD_FLOAT(HYD_BITS(a) & 0x7fffffffffffffffl)
#define HYD_SIGN(a, s) HYD_FLOAT((HYD_BITS(a) & 0x7fffffffffffffffl) | (HYD_BITS(s) & (long)(1ul << 63)))
#define HYD_RELU(a) HYD_MAX((hy_dv){}, a)
#define HYD_MAXN(a, b) ({ hy_dv a_ = (a), b_ = (b); HYD_SELECT(HYD_NAN(a_, a_), a_, HYD_MAX(a_, b_)); })
#define HYD_MINN(a, b) ({ hy_dv a_ = (a), b_ = (b); HYD_SELECT(HYD_NAN(a_, a_), a_, HYD_MIN(a_, b_)); })

// Reductions of one vector, by halves; those of the greatest and least element leave NaN out.
#ifdef __clang__
#define HYD_FOLD(f, last) union { hy_dv v; double f_[HYD_LANES]; } u; u.v = v; \
    for (int h = HYD_LANES / 2; h; h /= 2) for (int i = 0; i < h; i++) u.f_[i] = last(u.f_[i], u.f_[i + h]); \
    return u.f_[0];
#else
#define HYD_FOLD(f, last) for (int h = HYD_LANES / 2; h; h /= 2) v = f(v, __builtin_shuffle(v, HYD_COUNT ^ h)); return v[0];
#endif
#define HYD_PLUS(a, b) ((a) + (b))
#define HYD_TIMES(a, b) ((a) * (b))
HY_FN double hyd_sum(hy_dv v) { HYD_FOLD(HYD_PLUS, HYD_PLUS) }
HY_FN double hyd_prod(hy_dv v) { HYD_FOLD(HYD_TIMES, HYD_TIMES) }
HY_FN double hyd_max(hy_dv v) { HYD_FOLD(HYD_MAX, hy_max) }
HY_FN double hyd_min(hy_dv v) { HYD_FOLD(HYD_MIN, hy_min) }
// as hyv_first_of and hyv_first
HY_FN void hyd_first_of(hy_dv *best, hy_di *where, hy_dv x, hy_di at, int least) {
    hy_dm old = HYD_NAN(*best, *best), new = HYD_NAN(x, x), sooner = HYD_ILT(at, *where);
    hy_dm value = (hy_dm)(HYD_LT(least ? x : *best, least ? *best : x) & HYD_NOT(old)), tie = (hy_dm)((HYD_EQ(x, *best) | (old & new)) & sooner);
    hy_dm m = (hy_dm)(value | tie | (new & HYD_NOT(old)));
    *best = HYD_SELECT(m, x, *best), *where = HYD_BITS(HYD_SELECT(m, HYD_FLOAT(at), HYD_FLOAT(*where)));
}
HY_FN long hyd_first(hy_dv best, hy_di where, int least) {
    hy_dm nan = HYD_NAN(best, best);
    hy_dm m = HYD_ANY(nan) ? nan : HYD_EQ(best, HYD_B(least ? hyd_min(best) : hyd_max(best)));
    union { double f; long i; } first = { hyd_min(HYD_SELECT(m, HYD_FLOAT(where), HYD_B(1.7976931348623157e308))) };        // bits of places are in the order of the floats
    return first.i;
}

// exp, as hy_exp: two factors for 2^n, n reaching 1024 and -1076. NaN stays: MAX and MIN give their second.
HY_FN hy_dv hyd_exp(hy_dv x) {
    hy_dv c = HYD_MIN(HYD_B(710.0), HYD_MAX(HYD_B(-746.0), x));
    hy_dv t = c * HYD_B(1.4426950408889634) + HYD_B(6755399441055744.0), n = t - HYD_B(6755399441055744.0);
    hy_dv r = c - n * HYD_B(6.93147180369123816490e-01); r -= n * HYD_B(1.90821492927058770002e-10);
    hy_dv p = r * HYD_B(1.0 / 6227020800.0) + HYD_B(1.0 / 479001600.0);
    p = p * r + HYD_B(1.0 / 39916800.0); p = p * r + HYD_B(1.0 / 3628800.0); p = p * r + HYD_B(1.0 / 362880.0); p = p * r + HYD_B(1.0 / 40320.0);
    p = p * r + HYD_B(1.0 / 5040.0); p = p * r + HYD_B(1.0 / 720.0); p = p * r + HYD_B(1.0 / 120.0); p = p * r + HYD_B(1.0 / 24.0);
    p = p * r + HYD_B(1.0 / 6.0); p = p * r + HYD_B(0.5);
    p = p * (r * r) + r + HYD_B(1.0);
    hy_di e = HYD_BITS(t) - 0x4338000000000000l + 2046, h = e >> 1;
    return p * HYD_FLOAT(h << 52) * HYD_FLOAT((e - h) << 52);
}
// sin, cos and tan: x less n pi / 2, whose first two parts (33 bits each) times n are exact; polynomials of fdlibm; beyond 2^20 the C library does it
struct hyd_angle { hy_dv sine, cosine; hy_di n; };
HY_FN struct hyd_angle hyd_angle(hy_dv x) {
    hy_dv t = x * HYD_B(0.63661977236758134) + HYD_B(6755399441055744.0), n = t - HYD_B(6755399441055744.0);
    hy_dv r = x - n * HYD_B(1.57079632673412561417e+00) - n * HYD_B(6.07710050630396597660e-11) - n * HYD_B(2.02226624879595063154e-21), z = r * r;
    hy_dv s = z * HYD_B(1.58969099521155010221e-10) - HYD_B(2.50507602534068634195e-08), c = z * HYD_B(-1.13596475577881948265e-11) + HYD_B(2.08757232129817482790e-09);
    s = s * z + HYD_B(2.75573137070700676789e-06); s = s * z - HYD_B(1.98412698298579493134e-04); s = s * z + HYD_B(8.33333333332248946124e-03);
    s = s * z - HYD_B(1.66666666666666324348e-01);
    c = c * z - HYD_B(2.75573143513906633035e-07); c = c * z + HYD_B(2.48015872894767294178e-05); c = c * z - HYD_B(1.38888888888741095749e-03);
    c = c * z + HYD_B(4.16666666666666019037e-02);
    hy_dv half = z * HYD_B(0.5), w = HYD_B(1.0) - half;
    return (struct hyd_angle){ r + r * z * s, w + ((HYD_B(1.0) - w - half) + z * z * c), HYD_BITS(t) };
}
// one where the bit is set, else the other
HY_FN hy_dv hyd_by(hy_di bit, hy_dv one, hy_dv other) { hy_di m = -(bit & 1); return HYD_FLOAT((HYD_BITS(one) & m) | (HYD_BITS(other) & ~m)); }
#define HYD_ANGLE(name, library, result) \
    HY_FN hy_dv name(hy_dv x) { \
        hy_dm far = HYD_NOT(HYD_LT(HYD_ABS(x), HYD_B(1048576.0))); \
        struct hyd_angle a = hyd_angle(HYD_SELECT(far, (hy_dv){}, x)); \
        union { hy_dv v; double f[HYD_LANES]; } in = { x }, out = { result }; \
        if (__builtin_expect(HYD_ANY(far) != 0, 0)) \
            for (int i = 0; i < HYD_LANES; i++) if (!(__builtin_fabs(in.f[i]) < 1048576.0)) out.f[i] = library(in.f[i]); \
        return out.v; \
    }
#define HYD_TURNED(a, n, one, other) HYD_FLOAT(HYD_BITS(hyd_by(n, one, other)) ^ (((n) & 2) << 62))
HYD_ANGLE(hyd_sin, __builtin_sin, HYD_SELECT(HYD_EQ(x, (hy_dv){}), x, HYD_TURNED(a, a.n, a.cosine, a.sine)))
HYD_ANGLE(hyd_cos, __builtin_cos, HYD_TURNED(a, (a.n + 1), a.cosine, a.sine))
HYD_ANGLE(hyd_tan, __builtin_tan, HYD_SELECT(HYD_EQ(x, (hy_dv){}), x, hyd_by(a.n, -a.cosine, a.sine) / hyd_by(a.n, a.sine, a.cosine)))
