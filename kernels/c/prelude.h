// Bits of half types and of floats.
typedef unsigned short hy_half;
typedef unsigned short hy_bf16;
union hy_bits { float f; unsigned u; int i; };

// a copy by the C library: of a size that it knows the compiler makes a rep movs
HY_FN void hy_copy(void *to, const void *from, unsigned long n) {
  __asm__("" : "+r"(n)); __builtin_memcpy(to, from, n);
}

// x as a number of its type: compilers do not compute a product and what is subtracted from it in one rounding
#if defined(__GNUC__) && defined(__x86_64__) \
    && !defined(__AVX512F__)         // in memory where vectors are longer than registers
#define HY_ROUNDED(x) __builtin_choose_expr(sizeof(x) > 32, \
    ({ __auto_type hy_x = (x); __asm__("" : "+m"(hy_x)); hy_x; }), \
    ({ __auto_type hy_x = (x); __asm__("" : "+x"(hy_x)); hy_x; }))
#elif defined(__GNUC__) && defined(__x86_64__)
#define HY_ROUNDED(x) ({ __auto_type hy_x = (x); __asm__("" : "+v"(hy_x)); hy_x; })
#elif defined(__GNUC__) && defined(__aarch64__)
#define HY_ROUNDED(x) ({ __auto_type hy_x = (x); __asm__("" : "+w"(hy_x)); hy_x; })
#else
#define HY_ROUNDED(x) (x)
#endif

HY_FN float hy_load_bf16(hy_bf16 h) { union hy_bits b; b.u = (unsigned)h << 16; return b.f; }
HY_FN hy_bf16 hy_store_bf16(float f) {
    union hy_bits b; b.f = f;
    return f != f ? 0x7fc0 : (hy_bf16)((b.u + 0x7fff + ((b.u >> 16) & 1)) >> 16);
}
// half: three cases (infinity and NaN, normal, subnormal), of which compilers make masks; several times faster than
// conversions one by one
HY_FN float hy_load_half(hy_half h) {
    union hy_bits normal, small, out; unsigned rest = (unsigned)(h & 0x7fff) << 13;
    normal.u = rest + (rest >= 0x0f800000u ? 0x70000000u : 0x38000000u);
    small.u = rest + 0x38800000u; small.f -= 6.103515625e-5f;                        // 2^-14 (1 + m) - 2^-14
    out.u = (rest < 0x00800000u ? small.u : normal.u) | (unsigned)(h & 0x8000) << 16;
    return out.f;
}
HY_FN hy_half hy_store_half(float f) {
    union hy_bits b, m; b.f = f; unsigned sign = (b.u >> 16) & 0x8000, a = b.u & 0x7fffffff;
    // rounds where a subnormal half ends
    m.u = a; m.f += 0.5f;
    unsigned out = a < 0x38800000u ? m.u - 0x3f000000u : (a - 0x38000000u + 0xfff + ((a >> 13) & 1)) >> 13;
    out = a >= 0x477ff000u ? 0x7c00 : out;
    return (hy_half)(sign | (a > 0x7f800000u ? 0x7e00 : out));
}

// exp: 2^n (1 + r + r^2 q(r)), Cody-Waite reduction, minimax q of degree 4; 1 ulp. Overflow to inf, gradual underflow;
// NaN fails both comparisons and stays. more: a power of two besides.
HY_FN float hy_expf_by(float x, int more) {
    float c = x < -104.0f ? -104.0f : x;
    c = c > 90.0f ? 90.0f : c;
    float n = c * 1.44269504088896341f + 12582912.0f;        // round to nearest by the float's own end
    union hy_bits k, s1, s2; k.f = n; n -= 12582912.0f;
    float r = c - n * 0.693359375f; r += n * 2.12194440e-4f;
    float p = r * 1.38145e-3f + 8.36878e-3f;
    p = p * r + 4.1668390e-2f; p = p * r + 1.6666520e-1f; p = p * r + 4.9999993e-1f;
    p = p * (r * r) + r + 1.0f;
    int e = k.i - 0x4B400000 + more, h = e >> 1;             // two factors: n reaches 130 and -150
    s1.i = (h + 127) << 23; s2.i = (e - h + 127) << 23;
    return p * s1.f * s2.f;
}
HY_FN float hy_expf(float x) { return hy_expf_by(x, 0); }
// log: mantissa in [sqrt(1/2), sqrt 2), polynomial after Cephes; 1 ulp; subnormals by scaling.
HY_FN float hy_logf(float x) {
    int tiny = x < 1.17549435e-38f;
    union hy_bits b; b.f = tiny ? x * 8388608.0f : x;
    int e = (int)((b.u >> 23) & 0xff) - 126 - (tiny ? 23 : 0);
    b.u = (b.u & 0x007fffffu) | 0x3f000000u;
    int low = b.f < 0.707106781186547524f;
    float m = low ? b.f + b.f - 1.0f : b.f - 1.0f, fe = (float)(e - low), z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f; p = p * m + 1.1676998740e-1f; p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f; p = p * m + 2.0000714765e-1f; p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float y = m * z * p - 2.12194440e-4f * fe - 0.5f * z;
    y = m + y + 0.693359375f * fe;
    y = x > 3.4028234663852886e38f ? x : y;
    y = x == 0 ? -__builtin_inff() : y;
    return x < 0 || x != x ? __builtin_nanf("") : y;
}
// tanh: t / (t + 2) with t = exp(2|x|) - 1, whose polynomial has no constant term; 2 ulp.
HY_FN float hy_tanhf(float x) {
    float a = __builtin_fabsf(x), c = a + a > 18.1f ? 18.1f : a + a;
    float n = c * 1.44269504088896341f + 12582912.0f;
    union hy_bits k, s; k.f = n; n -= 12582912.0f;
    float r = c - n * 0.693359375f; r += n * 2.12194440e-4f;
    float p = r * 1.98458854e-4f + 1.39407202e-3f;
    p = p * r + 8.33338957e-3f; p = p * r + 4.16663598e-2f; p = p * r + 1.66666664e-1f; p = p * r + 0.5f;
    p = p * (r * r) + r;
    s.i = (k.i - (0x4B400000 - 127)) << 23;
    p = p * s.f + (s.f - 1.0f);
    float d = p + 2.0f, lost = p - (d - 2.0f), y = p / d;
    y -= y * (a < 0.4f ? lost * 0.48f : 0.0f);               // what d rounds away counts where d is near 2
    return __builtin_copysignf(y, x);
}
// erf: x + x q(x^2) below 0.93, else 1 - exp(polynomial); 1 ulp (coefficients after N. Juffa).
HY_FN float hy_erff(float x) {
    float a = __builtin_fabsf(x), s = x * x;
    float r = -1.72853470e-5f * a + 3.83197126e-4f, u = -3.88396438e-3f * a + 2.42546219e-2f;
    r = r * s + u; r = r * a - 1.06777877e-1f; r = r * a - 6.34846687e-1f; r = r * a - 1.28717512e-1f; r = r * a - a;
    float large = __builtin_copysignf(1.0f - hy_expf(r), x);
    float q = -5.96761703e-4f * s + 4.99119423e-3f;
    q = q * s - 2.67681349e-2f; q = q * s + 1.12819925e-1f; q = q * s - 3.76125336e-1f; q = q * s + 1.28379166e-1f;
    return a > 0.927734375f ? large : q * x + x;
}
// sigmoid: of e = exp(-|x|), which neither overflows nor loses small results: 1 / (1 + e), or e / (1 + e) below zero;
// 2 ulp.
HY_FN float hy_sigmoidf(float x) {
    float e = hy_expf(-__builtin_fabsf(x)), d = 1.0f + e, lost = e - (d - 1.0f), y = (x < 0 ? e : 1.0f) / d;
    return y - y * (lost - lost * e * 0.5f);                 // what d rounds away, over d
}
// exp of doubles: as hy_expf, the series up to r^13; 1 ulp.
HY_FN double hy_exp(double x) {
    double c = x < -746.0 ? -746.0 : x;
    c = c > 710.0 ? 710.0 : c;
    union { double f; unsigned long u; } k, s1, s2;
    k.f = c * 1.4426950408889634 + 6755399441055744.0;
    double n = k.f - 6755399441055744.0, r = c - n * 6.93147180369123816490e-01; r -= n * 1.90821492927058770002e-10;
    double p = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0; p = p * r + 1.0 / 3628800.0; p = p * r + 1.0 / 362880.0; p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0; p = p * r + 1.0 / 120.0; p = p * r + 1.0 / 24.0; p = p * r + 1.0 / 6.0; p = p * r + 0.5;
    p = p * (r * r) + r + 1.0;
    // two factors, their exponents with the bias
    unsigned long e = k.u - 0x4338000000000000ul + 2046, h = e >> 1;
    s1.u = h << 52; s2.u = (e - h) << 52;
    return p * s1.f * s2.f;
}
HY_FN double hy_sigmoid(double x) { double e = hy_exp(-__builtin_fabs(x)); return (x < 0 ? e : 1.0) / (1.0 + e); }

// What NumPy gives beyond the range of the integers: x86 processors have the lowest one there, for NaN too; others the
// nearest, and 0 for NaN. What is beyond is told from the bits of x, without a branch, and is part of every result:
// after a comparison or a branch compilers that ignore traps make (float)(int)x a truncation, which keeps the sign of
// -0.5.
#if defined(__x86_64__) || defined(__i386__)
#define HY_BEYOND(nan, negative, lowest) (lowest)
#else
#define HY_BEYOND(nan, negative, lowest) (((lowest) - 1 + (negative)) & ((nan) - 1u))
#endif
#define HY_TO_INT(name, from, bits, to, whole, end, nans) \
  HY_FN to name(from x) { \
    union { from f; bits u; } b; b.f = x; \
    bits top = (bits)1 << (sizeof(bits) * 8 - 1), a = b.u & ~top, out = a >= end; \
    whole negative = (b.u & top) != 0, nan = a > nans; \
    b.u &= out - 1; \
    return (to)((whole)(to)b.f | (HY_BEYOND(nan, negative, (whole)1 << (sizeof(to) * 8 - 1)) & -(whole)out)); \
  }
HY_TO_INT(hy_float_to_int, float, unsigned, int, unsigned, 0x4f000000u, 0x7f800000u)
HY_TO_INT(hy_double_to_int, double, unsigned long, int, unsigned, 0x41e0000000000000ul, 0x7ff0000000000000ul)
HY_TO_INT(hy_float_to_long, float, unsigned, long, unsigned long, 0x5f000000u, 0x7f800000u)
HY_TO_INT(hy_double_to_long, double, unsigned long, long, unsigned long, 0x43e0000000000000ul, 0x7ff0000000000000ul)
// integers without a sign, in two halves: what x86 processors do for lack of an instruction
HY_FN unsigned long hy_float_to_ulong(float x) {
    unsigned long big = x >= 0x1p63f;
    return (unsigned long)hy_float_to_long(x - (big ? 0x1p63f : 0.0f)) ^ big << 63;
}
HY_FN unsigned long hy_double_to_ulong(double x) {
    unsigned long big = x >= 0x1p63;
    return (unsigned long)hy_double_to_long(x - (big ? 0x1p63 : 0.0)) ^ big << 63;
}
