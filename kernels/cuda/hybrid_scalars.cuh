// What include/hy_common.h takes from its target, for CUDA.
#define HY_FN static __device__ __forceinline__
#define HY_INF (__int_as_float(0x7f800000))
#define HY_NAN (__int_as_float(0x7fc00000))
#define HY_NANf HY_NAN
#define HY_MATH(f) f
HY_FN float hy_remf(float a, float b) { return fmodf(a, b); }
HY_FN double hy_rem(double a, double b) { return fmod(a, b); }
typedef long long hy_long;
typedef unsigned long long hy_ulong;
