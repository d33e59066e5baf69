// Scalar functions of every target. HY_FN, HY_NAN, HY_MATH, hy_rem (fmod) and the integers of 64 bits are the target's
// own: c/scalars.h, cuda/hybrid_scalars.cuh.
#define hy_max(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define hy_min(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))

// Integers: quotient rounded down, remainder with the sign of the divisor; a zero divisor gives 0, as NumPy.
HY_FN hy_long hy_ifloordiv(hy_long a, hy_long b) {
    if (b == 0) return 0;
    if (b == -1) return (hy_long)(0 - (hy_ulong)a);
    hy_long q = a / b;
    return q - ((a % b != 0) & ((a < 0) != (b < 0)));
}
HY_FN hy_long hy_imod(hy_long a, hy_long b) {
    if (b == 0 || b == -1) return 0;
    hy_long r = a % b;
    return r + ((r != 0) & ((r < 0) != (b < 0)) ? b : 0);
}
HY_FN hy_long hy_irem(hy_long a, hy_long b) { return b == 0 || b == -1 ? 0 : a % b; }
HY_FN hy_long hy_iquot(hy_long a, hy_long b) { return b == 0 ? 0 : b == -1 ? (hy_long)(0 - (hy_ulong)a) : a / b; }
HY_FN hy_long hy_ipow(hy_long a, hy_long n) {
    if (n < 0) return a == 1 ? 1 : a == -1 ? (n & 1 ? -1 : 1) : 0;
    hy_ulong r = 1, x = (hy_ulong)a;
    for (; n; n >>= 1, x *= x)
        if (n & 1) r *= x;
    return (hy_long)r;
}
HY_FN hy_long hy_clamp(hy_long i, hy_long last) { return i < 0 ? 0 : i > last ? last : i; }

// Remainder with the sign of the divisor.
HY_FN float hy_modf(float a, float b) {
    float r = hy_remf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r == 0 ? HY_MATH(copysignf)(0.0f, b) : r;
}
HY_FN double hy_mod(double a, double b) {
    double r = hy_rem(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r == 0 ? HY_MATH(copysign)(0.0, b) : r;
}

// Quotient rounded down, by way of the remainder as NumPy: 1 // 0.1 is 9, though 1 / 0.1 rounds to 10.
#define HY_FLOORDIV(name, T, f, rem) \
    HY_FN T name(T a, T b) { \
        if (b == 0) return a / b; \
        T r = rem(a, b), q = (a - r) / b; \
        if (r != 0 && (b < 0) != (r < 0)) q -= 1; \
        if (q == 0) return HY_MATH(copysign##f)((T)0, a / b); \
        T n = HY_MATH(floor##f)(q); \
        return q - n > (T)0.5 ? n + 1 : n; \
    }
HY_FLOORDIV(hy_floordivf, float, f, hy_remf)
HY_FLOORDIV(hy_floordiv, double, , hy_rem)

// Derivative of log gamma: recurrence up to 8, then Abramowitz and Stegun 6.3.18.
HY_FN double hy_digamma(double x) {
    double v = 0, z = x < 0.5 ? 1 - x : x;
    for (int i = 0; i < 8; i++)
        if (z < 8) {
            v -= 1 / z;
            z += 1;
        }
    double q = 1 / (z * z);
    v += HY_MATH(log)(z) - 0.5 / z - q * (1.0 / 12 - q * (1.0 / 120 - q * (1.0 / 252 - q * (1.0 / 240 - q / 132))));
    if (x <= 0 && x == HY_MATH(floor)(x)) return -HY_MATH(log)(0.0);     // a pole: infinity, as in MXNet
    return x < 0.5 ? v - 3.141592653589793 / HY_MATH(tan)(3.141592653589793 * x) : v;
}
HY_FN float hy_digammaf(float x) { return (float)hy_digamma(x); }

// Derivative of digamma: recurrence up to 8, then Abramowitz and Stegun 6.4.12.
HY_FN double hy_trigamma(double x) {
    double v = 0, z = x < 0.5 ? 1 - x : x;
    for (int i = 0; i < 8; i++)
        if (z < 8) {
            v += 1 / (z * z);
            z += 1;
        }
    double q = 1 / (z * z), s = 3.141592653589793 / HY_MATH(sin)(3.141592653589793 * x);
    v += 1 / z + 0.5 * q
        + q * (1.0 / 6 - q * (1.0 / 30 - q * (1.0 / 42 - q * (1.0 / 30 - q * (5.0 / 66 - q * (691.0 / 2730)))))) / z;
    return x < 0.5 ? s * s - v : v;
}
HY_FN float hy_trigammaf(float x) { return (float)hy_trigamma(x); }
