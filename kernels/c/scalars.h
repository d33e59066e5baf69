// each function is compiled into its callers
#ifndef HY_FN
#define HY_FN static inline __attribute__((always_inline, unused))
#endif
#define HY_NAN __builtin_nan("")
#define HY_NANf __builtin_nanf("")
#define HY_MATH(f) __builtin_##f
typedef long long hy_long_long;                   // as instructions of x86 name their type
typedef long hy_long;
typedef unsigned long hy_ulong;
