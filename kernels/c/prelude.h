// C only: half types, and elementary functions without branches, which the compiler turns into vector code.
typedef unsigned short hy_half;
typedef unsigned short hy_bf16;
union hy_bits { float f; unsigned u; int i; };

HY_FN float hy_load_bf16(hy_bf16 h) { union hy_bits b; b.u = (unsigned)h << 16; return b.f; }
HY_FN hy_bf16 hy_store_bf16(float f) {
    union hy_bits b; b.f = f;
    return f != f ? 0x7fc0 : (hy_bf16)((b.u + 0x7fff + ((b.u >> 16) & 1)) >> 16);
}
#ifdef __FLT16_MAX__
HY_FN float hy_load_half(hy_half h) { union { hy_half u; _Float16 f; } b; b.u = h; return (float)b.f; }
HY_FN hy_half hy_store_half(float f) { union { hy_half u; _Float16 f; } b; b.f = (_Float16)f; return b.u; }
#else
HY_FN float hy_load_half(hy_half h) {
    union hy_bits b, scale; unsigned sign = (unsigned)(h & 0x8000) << 16, rest = (unsigned)(h & 0x7fff) << 13;
    scale.u = 0x77800000u;                                   // 2^112 moves the exponent
    b.u = rest; b.f *= scale.f;
    if ((h & 0x7c00) == 0x7c00) b.u = 0x7f800000u | rest;
    b.u |= sign;
    return b.f;
}
HY_FN hy_half hy_store_half(float f) {
    union hy_bits b, m; b.f = f; unsigned sign = (b.u >> 16) & 0x8000; b.u &= 0x7fffffff;
    if (b.u > 0x7f800000u) return (hy_half)(sign | 0x7e00);
    if (b.u >= 0x477ff000u) return (hy_half)(sign | 0x7c00);
    if (b.u < 0x38800000u) { m.u = 0x3f000000u; b.f += m.f; return (hy_half)(sign | (b.u - m.u)); }
    return (hy_half)(sign | ((b.u - 0x38000000u + 0xfff + ((b.u >> 13) & 1)) >> 13));
}
#endif

// exp: 2^n * p(r), Cody-Waite reduction, minimax polynomial of degree 6; 1 ulp. Overflow to inf, gradual underflow.
HY_FN float hy_expf(float x) {
    float c = x < -104.0f ? -104.0f : x;
    c = c > 89.0f ? 89.0f : c;
    float n = c * 1.44269504088896341f + 12582912.0f;        // round to nearest by the float's own end
    union hy_bits k, s1, s2; k.f = n; n -= 12582912.0f;
    float r = c - n * 0.693359375f; r += n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f; p = p * r + 8.3334519073e-3f; p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f; p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    int e = k.i - 0x4B400000, h = e >> 1;                    // two factors: n reaches 128 and -150
    s1.i = (h + 127) << 23; s2.i = (e - h + 127) << 23;
    float y = p * s1.f * s2.f;
    return x != x ? x : y;
}
// log: mantissa in [sqrt(1/2), sqrt 2), polynomial after Cephes; 1 ulp; subnormals by scaling.
HY_FN float hy_logf(float x) {
    int tiny = x < 1.17549435e-38f;
    union hy_bits b; b.f = tiny ? x * 8388608.0f : x;
    int e = (int)((b.u >> 23) & 0xff) - 126 - (tiny ? 23 : 0);
    b.u = (b.u & 0x007fffffu) | 0x3f000000u;
    int low = b.f < 0.707106781186547524f;
    float m = low ? b.f + b.f - 1.0f : b.f - 1.0f, fe = (float)(e - low), z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f; p = p * m + 1.1676998740e-1f; p = p * m - 1.2420140846e-1f; p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f; p = p * m + 2.0000714765e-1f; p = p * m - 2.4999993993e-1f; p = p * m + 3.3333331174e-1f;
    float y = m * z * p - 2.12194440e-4f * fe - 0.5f * z;
    y = m + y + 0.693359375f * fe;
    y = x > 3.4028234663852886e38f ? x : y;
    y = x == 0 ? -__builtin_inff() : y;
    return x < 0 || x != x ? __builtin_nanf("") : y;
}
// tanh: odd polynomial below 0.625 (Cephes), else through exp; 2 ulp.
HY_FN float hy_tanhf(float x) {
    float a = __builtin_fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f; p = p * z - 5.37397155531e-2f; p = p * z + 1.33314422036e-1f; p = p * z - 3.33332819422e-1f;
    float small = p * z * x + x, e = hy_expf(2.0f * (a > 9.5f ? 9.5f : a)), large = 1.0f - 2.0f / (e + 1.0f);
    large = a > 9.0108f ? 1.0f : large;
    float y = a < 0.625f ? small : __builtin_copysignf(large, x);
    return x != x ? x : y;
}
// erf: Abramowitz-style split; below 1 a Maclaurin-like polynomial, above 1 - exp(-x^2) q(1/x) (fdlibm coefficients, float).
HY_FN float hy_erff(float x) {
    float a = __builtin_fabsf(x), z = x * x;
    float p = 1.28379166e-01f, q;
    float n0 = -2.37630166e-5f; n0 = n0 * z - 5.77027029e-3f; n0 = n0 * z - 2.84817495e-2f; n0 = n0 * z - 3.25042107e-1f; n0 = n0 * z + p;
    float d0 = -3.96022827e-6f; d0 = d0 * z + 1.32494738e-4f; d0 = d0 * z + 5.08130628e-3f; d0 = d0 * z + 6.50222499e-2f;
    d0 = d0 * z + 3.97917223e-1f; d0 = d0 * z + 1.0f;
    float small = x + x * (n0 / d0);
    float s = a - 1.0f;
    float n1 = -2.16637559e-3f; n1 = n1 * s + 3.54783043e-2f; n1 = n1 * s - 1.10894694e-1f; n1 = n1 * s + 3.18346619e-1f;
    n1 = n1 * s - 3.72207876e-1f; n1 = n1 * s + 4.14856118e-1f; n1 = n1 * s - 2.36211856e-3f;
    float d1 = 1.19844998e-2f; d1 = d1 * s + 1.36370839e-2f; d1 = d1 * s + 1.26171219e-1f; d1 = d1 * s + 7.18286544e-2f;
    d1 = d1 * s + 5.40397917e-1f; d1 = d1 * s + 1.06420880e-1f; d1 = d1 * s + 1.0f;
    float mid = 8.45062911e-1f + n1 / d1;
    float w = a < 1.25f ? 1.25f : a > 6.0f ? 6.0f : a;
    float i = 1.0f / (w * w);
    float n2 = -9.81432934f; n2 = n2 * i - 8.12874355e1f; n2 = n2 * i - 1.84605093e2f; n2 = n2 * i - 1.62396669e2f;
    n2 = n2 * i - 6.23753324e1f; n2 = n2 * i - 1.05586262e1f; n2 = n2 * i - 6.93858573e-1f; n2 = n2 * i - 9.86494403e-3f;
    float d2 = -6.04244152e-2f; d2 = d2 * i + 6.57024977f; d2 = d2 * i + 1.08635005e2f; d2 = d2 * i + 4.29008140e2f;
    d2 = d2 * i + 6.45387272e2f; d2 = d2 * i + 4.34565877e2f; d2 = d2 * i + 1.37657754e2f; d2 = d2 * i + 1.96512717e1f; d2 = d2 * i + 1.0f;
    float large = 1.0f - hy_expf(-w * w - 0.5625f + n2 / d2) / w;   // beyond 2.857 the true value rounds the same way
    q = a < 0.84375f ? small : __builtin_copysignf(a < 1.25f ? mid : a < 4.0f ? large : 1.0f, x);
    return x != x ? x : q;
}
#define hy_exp __builtin_exp
#define hy_log __builtin_log
#define hy_tanh __builtin_tanh
#define hy_erf __builtin_erf
