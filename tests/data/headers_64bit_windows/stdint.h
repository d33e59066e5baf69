#ifndef STDINT_H
#define STDINT_H
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#define UINT64_C(x) x##ull
#define INT64_C(x) x##ll
#define SIZE_MAX 0xffffffffffffffffull
#define INT64_MAX 0x7fffffffffffffffll
#endif
