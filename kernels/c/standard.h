// C99: GCC's built-in functions by the names that C's own library has. For compilers that have neither these nor
// vectors.
#include <math.h>
#include <string.h>
#define __builtin_prefetch(...) ((void)0)
#define __builtin_expect(value, likely) (value)
#define __builtin_inff() INFINITY
#define __builtin_inf() ((double)INFINITY)
#define __builtin_nanf(text) NAN
#define __builtin_nan(text) ((double)NAN)
static int hy_lowest_bit(unsigned long bits) { int n = 0; while (!(bits >> n & 1)) n++; return n; }
#define __builtin_ctzl hy_lowest_bit
#define __builtin_ctzll hy_lowest_bit
