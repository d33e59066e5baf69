// For programs that include nothing and say long where they mean 64 bits. Exported ones include <stdint.h> and say
// int64_t.
typedef __SIZE_TYPE__ hy_size;
#define HY_ANY(x) ((void *)(x))                   // an address of any type
#ifdef _WIN32
#define long __INT64_TYPE__                       // which has 32 bits there
#endif
