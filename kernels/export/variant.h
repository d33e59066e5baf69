/* Kernels: in this file, or (@NAME@_VARIANT) in one of several that are compiled from it; see "Instruction sets"
 * below. */
#if defined(@NAME@_VARIANT) || !defined(@NAME@_DISPATCH)
#ifdef @NAME@_VARIANT
#define HY_JOIN_(a, b) a##b
#define HY_JOIN(a, b) HY_JOIN_(a, b)
#define hy_call HY_JOIN(@name@_call_, @NAME@_VARIANT)
#define hy_prepare HY_JOIN(@name@_prepare_, @NAME@_VARIANT)
#define HY_ENTRY __attribute__((visibility("hidden")))
#else
#define HY_ENTRY static
#endif
