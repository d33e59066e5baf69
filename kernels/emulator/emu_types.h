// CUDA's built-in types and bit casts for the emulator. Included by cuda_on_cpu.h.
#pragma once

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

typedef unsigned char emu_uchar;
typedef unsigned short emu_ushort;
typedef long long emu_longlong;
typedef unsigned long long emu_ulonglong;

// name2 and name4 are aligned as on the GPU (at most 16 bytes), name3 is not
#define EMU_VECTOR_2_4(T, name)                                                   \
    struct __align__(sizeof(T) * 2 > 16 ? 16 : sizeof(T) * 2) name##2 {           \
        T x, y;                                                                   \
    };                                                                            \
    struct __align__(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) name##4 {           \
        T x, y, z, w;                                                             \
    };                                                                            \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; }             \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define EMU_VECTOR_3(T, name)                                                     \
    struct name##3 {                                                              \
        T x, y, z;                                                                \
    };                                                                            \
    static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }

EMU_VECTOR_2_4(float, float)
EMU_VECTOR_3(float, float)
EMU_VECTOR_2_4(double, double)
EMU_VECTOR_3(double, double)
EMU_VECTOR_2_4(int, int)
EMU_VECTOR_3(int, int)
EMU_VECTOR_2_4(unsigned, uint)
EMU_VECTOR_2_4(signed char, char)
EMU_VECTOR_2_4(emu_uchar, uchar)
EMU_VECTOR_2_4(short, short)
EMU_VECTOR_2_4(emu_ushort, ushort)
EMU_VECTOR_2_4(emu_longlong, longlong)
EMU_VECTOR_2_4(emu_ulonglong, ulonglong)

namespace emu {
template <class To, class From> static inline To cast_bits(From v) {
    static_assert(sizeof(To) == sizeof(From), "bit casts keep the size");
    To out;
    memcpy(&out, &v, sizeof out);
    return out;
}
}  // namespace emu

static inline float __int_as_float(int v) { return emu::cast_bits<float>(v); }
static inline int __float_as_int(float v) { return emu::cast_bits<int>(v); }
static inline float __uint_as_float(unsigned v) { return emu::cast_bits<float>(v); }
static inline unsigned __float_as_uint(float v) { return emu::cast_bits<unsigned>(v); }
static inline double __longlong_as_double(long long v) { return emu::cast_bits<double>(v); }
static inline long long __double_as_longlong(double v) { return emu::cast_bits<long long>(v); }
static inline double __hiloint2double(int hi, int lo) {
    return emu::cast_bits<double>((uint64_t)(unsigned)hi << 32 | (unsigned)lo);
}
