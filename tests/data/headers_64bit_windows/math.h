#define INFINITY ((float)1e300)
#define NAN (-(float)(INFINITY * 0.0f))
#define ONE(name) double name(double); float name##f(float);
#define TWO(name) double name(double, double); float name##f(float, float);
ONE(acos) ONE(acosh) ONE(asin) ONE(asinh) ONE(atan) ONE(atanh) ONE(cbrt) ONE(ceil) ONE(cos) ONE(cosh) ONE(erf) ONE(erfc)
ONE(exp) ONE(exp2) ONE(expm1) ONE(fabs) ONE(floor) ONE(lgamma) ONE(log) ONE(log10) ONE(log1p) ONE(log2) ONE(nearbyint)
ONE(rint) ONE(round) ONE(sin) ONE(sinh) ONE(sqrt) ONE(tan) ONE(tanh) ONE(tgamma) ONE(trunc)
TWO(atan2) TWO(copysign) TWO(fmax) TWO(fmin) TWO(fmod) TWO(hypot) TWO(pow) TWO(remainder)
double fma(double, double, double), ldexp(double, int), frexp(double, int *);
float fmaf(float, float, float), ldexpf(float, int), frexpf(float, int *);
long lrint(double), lrintf(float);
