// Elementary functions without branches, which the compiler turns into vector code; those of floats within 2 ulp, of
// doubles within 3. Polynomials are minimax fits of the functions that their lines name.
union hy_wide_bits { double f; unsigned long u; };
#define HY_LOG2_HIGH 6.93147180369123816490e-01
#define HY_LOG2_LOW 1.90821492927058770002e-10

// e^x - 1 over four: 2^n (e^r - 1) + 2^n - 1 of quarters, since 2^1024 is no double. NaN stays.
HY_FN double hy_quarter_expm1(double x) {
    double c = x < -40.0 ? -40.0 : x;
    c = c > 710.6 ? 710.6 : c;
    union hy_wide_bits k, s; k.f = c * 1.4426950408889634 + 6755399441055744.0;
    double n = k.f - 6755399441055744.0, r = c - n * HY_LOG2_HIGH; r -= n * HY_LOG2_LOW;
    double p = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0; p = p * r + 1.0 / 3628800.0; p = p * r + 1.0 / 362880.0; p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0; p = p * r + 1.0 / 120.0; p = p * r + 1.0 / 24.0; p = p * r + 1.0 / 6.0; p = p * r + 0.5;
    p = p * (r * r) + r;
    s.u = (k.u - 0x4338000000000000ul + 1021) << 52;
    return p * s.f + (s.f - 0.25);
}
HY_FN double hy_expm1(double x) { double q = hy_quarter_expm1(x); return __builtin_fabs(x) < 1e-300 ? x : 4 * q; }
HY_FN double hy_tanh(double x) {
    double a = __builtin_fabs(x), t = 4 * hy_quarter_expm1(a < 20.0 ? a + a : 40.0), d = t + 2.0, y = t / d;
    y -= y * (t - (d - 2.0)) / d;                            // what d rounds away
    return a < 1e-300 || x != x ? x : __builtin_copysign(y, x);
}
HY_FN double hy_sinh(double x) {
    double a = __builtin_fabs(x), q = hy_quarter_expm1(a);
    return a < 1e-300 ? x : __builtin_copysign(2 * q + 2 * (q / (4 * q + 1)), x);
}
HY_FN double hy_cosh(double x) {
    double h = 2 * hy_quarter_expm1(__builtin_fabs(x)) + 0.5;
    return h + 0.25 / h;
}
// log of (1 + f) 2^n, f in sqrt(1/2) - 1 ... sqrt 2 - 1: 2 atanh(s) of s = f / (2 + f)
HY_FN double hy_log_of(double f, double n, double scale, double high, double low) {
    double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    double p = z * 0.14795998191601037 + 0.15314045959164443;
    p = p * z + 0.18183564493317234; p = p * z + 0.2222219857024224; p = p * z + 0.2857142874241375;
    p = p * z + 0.39999999999414565; p = p * z + 0.6666666666666734;
    double rest = s * (h + p * z);
    return n * high + ((f - (h - rest)) * scale + n * low);
}
// e = n + 1024 of the exponent n for which x / 2^n lies in sqrt(1/2) ... sqrt 2 (x positive, normal), and n as a double
#define HY_EXPONENT(bits) (((bits) + 0x00195f619980c433ul) >> 52)
HY_FN double hy_count(unsigned long e) {
  union hy_wide_bits k; k.u = e + 0x4338000000000000ul; return k.f - (6755399441055744.0 + 1024.0);
}
HY_FN double hy_log_base(double x, double scale, double high, double low) {
    int tiny = x < 2.2250738585072014e-308;
    union hy_wide_bits b; b.f = tiny ? x * 18014398509481984.0 : x;
    unsigned long e = HY_EXPONENT(b.u);
    b.u -= (e - 1024) << 52;
    double y = hy_log_of(b.f - 1.0, hy_count(e) - (tiny ? 54.0 : 0.0), scale, high, low);
    y = x > 1.7976931348623157e308 ? x : y;
    y = x == 0 ? -__builtin_inf() : y;
    return x < 0 || x != x ? __builtin_nan("") : y;
}
HY_FN double hy_log(double x) { return hy_log_base(x, 1.0, HY_LOG2_HIGH, HY_LOG2_LOW); }
HY_FN double hy_log2(double x) { return hy_log_base(x, 1.4426950408889634, 1.0, 0.0); }
HY_FN double hy_log10(double x) {
  return hy_log_base(x, 0.43429448190325183, 3.01029995663611771306e-01, 3.69423907715893078616e-13);
}
HY_FN double hy_log1p_inside(double x) {
    union hy_wide_bits b, s; b.f = x + 1.0;
    unsigned long e = HY_EXPONENT(b.u);
    s.u = (2049 - e) << 52;                   // 4 / 2^n is never subnormal
    double f = x * s.f * 0.25 + (s.f * 0.25 - 1.0);
    return hy_log_of(f, hy_count(e), 1.0, HY_LOG2_HIGH, HY_LOG2_LOW);
}
HY_FN double hy_log1p(double x) {
    double y = hy_log1p_inside(x);
    y = x > 1.7976931348623157e308 || x == 0 ? x : y;
    y = x == -1.0 ? -__builtin_inf() : y;
    return x < -1.0 || x != x ? __builtin_nan("") : y;
}
HY_FN double hy_softplus(double x) { return (x < 0 ? 0 : x) + hy_log1p_inside(hy_exp(-__builtin_fabs(x))); }
// erf: x p(x^2) below 1, else 1 - e^(-x^2) q((x - 2) / (x + 2)), q being erfc(x) e^(x^2)
HY_FN double hy_erf_near(double z) {
    double p = z * -7.779516963330245e-10 + 1.3711007256960163e-08;
    p = p * z - 1.6206320214014592e-07; p = p * z + 1.64471324543566e-06; p = p * z - 1.4924712377861678e-05;
    p = p * z + 0.00012055293581159282;
    p = p * z - 0.0008548325929472166; p = p * z + 0.005223977606122257; p = p * z - 0.026866170643112024;
    p = p * z + 0.11283791670944189;
    p = p * z - 0.3761263890318352; return p * z + 1.1283791670955126;
}
HY_FN double hy_erf_far(double c) {
    double t = (c - 2.0) / (c + 2.0), q = t * -1.1352571477273627e-06 + 1.272567661840228e-06;
    q = q * t + 4.011749647325067e-06; q = q * t + 1.3058577122278017e-06; q = q * t - 1.3998283772784976e-05;
    q = q * t - 2.7562209161129353e-05;
    q = q * t + 2.7527175557227246e-05; q = q * t + 0.00017435947400205157; q = q * t + 4.355558686575482e-05;
    q = q * t - 0.0009819769411038642;
    q = q * t - 0.00084714325299195; q = q * t + 0.006997461736971578; q = q * t + 0.0037328924043978336;
    q = q * t - 0.07897858101570611;
    q = q * t + 0.24165819424246585; q = q * t - 0.4271858474139585; return q * t + 0.25539567631050575;
}
HY_FN double hy_erf(double x) {
    double a = __builtin_fabs(x), z = a * a, c = a > 6.0 ? 6.0 : a, p = hy_erf_near(z > 1.0 ? 1.0 : z);
    double large = __builtin_copysign(1.0 - hy_exp(-c * c) * hy_erf_far(c), x);
    return x != x ? x : a > 1.0 ? large : x * p;
}
// inverse of erf: polynomials of w = -log(1 - x^2) (below 5 those of Giles, 2010) within 5e-7, and a step of Halley on
// erf, or on erfc above 1
HY_FN double hy_erfinv(double x) {
    double a = __builtin_fabs(x), w = -hy_log((1.0 - a) * (1.0 + a)), v = w - 2.5, u = __builtin_sqrt(w) - 3.0;
    double p = v * 2.81022636e-08 + 3.43273939e-07;
    p = p * v - 3.5233877e-06; p = p * v - 4.39150654e-06; p = p * v + 0.00021858087; p = p * v - 0.00125372503;
    p = p * v - 0.00417768164;
    p = p * v + 0.246640727; p = p * v + 1.50140941;
    double q = u * -1.32862864e-06 + 1.24325061e-05;
    q = q * u - 2.01928502e-05; q = q * u - 0.000197736132; q = q * u + 0.00122407134; q = q * u - 0.00334522873;
    q = q * u + 0.00574020324;
    q = q * u - 0.00773562565; q = q * u + 0.00944557576; q = q * u + 1.00168494; q = q * u + 2.83297676;
    double y = (w < 5.0 ? p : q) * a, c = y > 6.0 ? 6.0 : y, z = c * c, e = hy_exp(-z);
    double near = c * hy_erf_near(z > 1.0 ? 1.0 : z) - a, far = 1.0 - a - e * hy_erf_far(c),
        d = (c > 1.0 ? far : near) / (e * 1.1283791670955126);
    y = a == 1.0 ? __builtin_inf() : c - d / (1.0 + c * d);
    return a <= 1.0 ? __builtin_copysign(y, x) : __builtin_nan("");
}
HY_FN float hy_erfinvf(float x) { return (float)hy_erfinv(x); }
// arctan: by arctan a = pi / 4 + arctan((a - 1) / (a + 1)) or pi / 2 - arctan(1 / a), whose argument is at most
// tan(pi / 8)
HY_FN double hy_atan(double x) {
    double a = __builtin_fabs(x), up = a > 2.414213562373095 ? -1.0 : a - 1.0,
        down = a > 2.414213562373095 ? a : a + 1.0;
    int near = a < 0.4142135623730950;
    double t = (near ? a : up) / (near ? 1.0 : down), z = t * t;
    double base = near ? 0.0 : a > 2.414213562373095 ? 1.5707963267948966 : 0.78539816339744831,
        low = near ? 0.0 : a > 2.414213562373095 ? 6.123233995736766e-17 : 3.061616997868383e-17;
    double p = z * -0.017920908732436583 + 0.03807709796494802;
    p = p * z - 0.05039798462722206; p = p * z + 0.058479987033247964; p = p * z - 0.06663119009325226;
    p = p * z + 0.0769206151848228;
    p = p * z - 0.09090897829894619; p = p * z + 0.11111110785913882; p = p * z - 0.14285714280244147;
    p = p * z + 0.1999999999995404; p = p * z - 0.333333333333332;
    return __builtin_copysign(base + (t + (t * z * p + low)), x);
}
// arcsin(t) - t of t = sqrt(z) up to 1 / 2
HY_FN double hy_asin_rest(double t, double z) {
    double p = z * 0.03195854252533117 - 0.01629336077998864;
    p = p * z + 0.019573390884987586; p = p * z + 0.006511063120236573; p = p * z + 0.012173226357296698;
    p = p * z + 0.013884607047014054;
    p = p * z + 0.017359770217387795; p = p * z + 0.02237175358033324; p = p * z + 0.03038195932918686;
    p = p * z + 0.04464285682351539;
    p = p * z + 0.07500000000343048; p = p * z + 0.16666666666665383;
    return t * z * p;
}
// beyond 1 / 2: pi / 2 - 2 arcsin(sqrt((1 - a) / 2)), NaN beyond 1 as the root's
HY_FN double hy_asin(double x) {
    double a = __builtin_fabs(x), z = a < 0.5 ? a * a : 0.5 - 0.5 * a, t = a < 0.5 ? a : __builtin_sqrt(z),
        r = hy_asin_rest(t, z);
    return __builtin_copysign(a < 0.5 ? t + r : 1.5707963267948966 - (2.0 * t - (6.123233995736766e-17 - 2.0 * r)), x);
}
HY_FN double hy_acos(double x) {
    double a = __builtin_fabs(x), z = a < 0.5 ? a * a : 0.5 - 0.5 * a, t = a < 0.5 ? a : __builtin_sqrt(z),
        r = hy_asin_rest(t, z);
    double far = 2.0 * (t + r), near = __builtin_copysign(t, x), low = 6.123233995736766e-17 - __builtin_copysign(r, x);
    return a < 0.5 ? 1.5707963267948966 - (near - low) : x > 0 ? far : x < 0
        ? 3.141592653589793 - (far - 1.2246467991473532e-16) : x;
}
// beyond 2^28 the square in the argument no longer counts, nor would it fit
HY_FN double hy_asinh(double x) {
    double a = __builtin_fabs(x), c = a > 268435456.0 ? 1.0 : a,
        y = hy_log1p(a > 268435456.0 ? a - 1.0 : c + c * c / (1.0 + __builtin_sqrt(c * c + 1.0)));
    return x == 0 ? x : __builtin_copysign(a > 268435456.0 ? y + 0.69314718055994531 : y, x);
}
HY_FN double hy_acosh(double x) {
    double t = x - 1.0, y = hy_log1p(x > 268435456.0 ? t : t + __builtin_sqrt(t + t + t * t));
    return x > 268435456.0 ? y + 0.69314718055994531 : x < 1.0 ? __builtin_nan("") : y;
}
HY_FN double hy_atanh(double x) {
    double a = __builtin_fabs(x);
    return __builtin_copysign(0.5 * hy_log1p((a + a) / (1.0 - a)), x);
}
// cube root of m 2^(3 k), m in 0.35 ... 2.83: a polynomial, then two of Halley's steps
HY_FN double hy_cbrt(double x) {
    double a = __builtin_fabs(x);
    int tiny = a < 2.2250738585072014e-308;
    union hy_wide_bits b, s; b.f = tiny ? a * 18014398509481984.0 : a;
    double third = (hy_count(HY_EXPONENT(b.u))) * 0.33333333333333331 + 6755399441055744.0;
    union hy_wide_bits k; k.f = third;
    unsigned long n = k.u - 0x4338000000000000ul;
    b.u -= (n * 3) << 52; s.u = (n + 1023 - (tiny ? 18 : 0)) << 52;
    double m = b.f, y = m * -0.01954783434501868 + 0.15331147567015538;
    y = y * m - 0.473869493251113; y = y * m + 0.8983831077994505; y = y * m + 0.44356058284648253;
    double c = y * y * y;
    y *= (c + m + m) / (c + c + m);
    c = y * y * y; y -= y * (c - m) / (c + c + m);
    return x == 0 || x - x != 0 ? x : __builtin_copysign(y * s.f, x);
}

HY_FN float hy_atanf(float x) {
    float a = __builtin_fabsf(x), t = (a > 1.0f ? 1.0f : a) / (a > 1.0f ? a : 1.0f), z = t * t;
    float p = z * 0.0029209880158f - 0.016369137913f;
    p = p * z + 0.043213870376f; p = p * z - 0.075523868203f; p = p * z + 0.10666079786f; p = p * z - 0.14211075008f;
    p = p * z + 0.19993774593f; p = p * z - 0.33333152533f;
    p = t * z * p;
    return __builtin_copysignf(a > 1.0f ? 1.57079637f - (t + (p + 4.37113883e-8f)) : t + p, x);
}
HY_FN float hy_asin_restf(float t, float z) {
    float p = z * 0.042219810188f + 0.024146854877f;
    p = p * z + 0.045477248729f; p = p * z + 0.074952408671f; p = p * z + 0.1666675359f;
    return t * z * p;
}
HY_FN float hy_asinf(float x) {
    float a = __builtin_fabsf(x), z = a < 0.5f ? a * a : 0.5f - 0.5f * a, t = a < 0.5f ? a : __builtin_sqrtf(z),
        r = hy_asin_restf(t, z);
    return __builtin_copysignf(a < 0.5f ? t + r : 1.57079637f - (2.0f * t + (2.0f * r + 4.37113883e-8f)), x);
}
HY_FN float hy_acosf(float x) {
    float a = __builtin_fabsf(x), z = a < 0.5f ? a * a : 0.5f - 0.5f * a, t = a < 0.5f ? a : __builtin_sqrtf(z),
        r = hy_asin_restf(t, z);
    float far = 2.0f * (t + r), near = __builtin_copysignf(t, x), low = -4.37113883e-8f - __builtin_copysignf(r, x);
    return a < 0.5f ? 1.57079637f - (near - low) : x > 0 ? far : x < 0 ? 3.14159274f - (far + 8.74227766e-8f) : x;
}
HY_FN float hy_sinhf(float x) {
    float a = __builtin_fabsf(x), z = x * x, h = hy_expf_by(a, -1);
    float p = z * 2.89642935e-6f + 1.98144524e-4f; p = p * z + 0.008333534f; p = p * z + 0.166666627f;
    return a < 1.5f ? x * z * p + x : __builtin_copysignf(h - 0.25f / h, x);
}
HY_FN float hy_coshf(float x) { float h = hy_expf_by(__builtin_fabsf(x), -1); return h + 0.25f / h; }
// the others by those of doubles
#define HY_BY_DOUBLES(name, of) HY_FN float name(float x) { return (float)of((double)x); }
HY_BY_DOUBLES(hy_asinhf, hy_asinh)
HY_BY_DOUBLES(hy_acoshf, hy_acosh)
HY_BY_DOUBLES(hy_atanhf, hy_atanh)
HY_BY_DOUBLES(hy_cbrtf, hy_cbrt)
HY_BY_DOUBLES(hy_log2f, hy_log2)
HY_BY_DOUBLES(hy_log10f, hy_log10)
HY_BY_DOUBLES(hy_log1pf, hy_log1p)
HY_BY_DOUBLES(hy_expm1f, hy_expm1)
HY_BY_DOUBLES(hy_softplusf, hy_softplus)
