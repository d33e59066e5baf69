// each function is compiled into its callers
#ifndef HY_FN
#define HY_FN static inline __attribute__((always_inline, unused))
#endif
#define HY_NAN __builtin_nan("")
#define HY_NANf __builtin_nanf("")
#define HY_MATH(f) __builtin_##f
// Computes fmod as a - trunc(a / b) * b, exact (with an fma for double) for quotients below 2^29 or 2^52. Division may
// round the quotient up by one; the remainder then has the wrong sign, and hy_rem_within corrects it. Other cases call
// C's fmod, which is slow.
// hy_rem_within returns r with a's sign, and |b| - |r| with it where r has the wrong one.
HY_FN double hy_rem_within(double r, double a, double b) {
    return __builtin_copysign(r != 0 && (r < 0) != (a < 0) ? __builtin_fabs(b) - __builtin_fabs(r) : r, a);
}
HY_FN float hy_remf(float a, float b) {
    double q = __builtin_trunc((double)a / b);
    if (!(__builtin_fabs(q) < 536870912.0)) return __builtin_fmodf(a, b);
    return (float)hy_rem_within(q == 0 ? a : a - q * b, a, b);
}
HY_FN double hy_rem(double a, double b) {
    double q = __builtin_trunc(a / b);
    if (!(__builtin_fabs(q) < 4503599627370496.0 && __builtin_fabs(b) > 1e-290)) return __builtin_fmod(a, b);
    return hy_rem_within(q == 0 ? a : __builtin_fma(-q, b, a), a, b);
}
typedef long long hy_long_long;                   // as instructions of x86 name their type
typedef long hy_long;
typedef unsigned long hy_ulong;
