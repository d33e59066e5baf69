/* Inner loops of what NumPy has no universal function for, or one that takes an element at a time: casts, choices,
 * comparisons with what is done of them, some functions. Counts are copied first: a store of a byte might be to
 * them. */
#include "launcher_halves.h"
typedef void (*Loop)(char **, npy_intp const *, npy_intp const *, void *);
/* Types by what they hold: NPY_BOOL …; -1 for those that have no casts here. */
enum { HELD_b, HELD_i8, HELD_u8, HELD_i32, HELD_i64, HELD_f16, HELD_f32, HELD_f64, HELD };
HY_OF_ALL Loop cast_loop(int from, int to);
HY_OF_ALL Loop where_loop(npy_intp size);
/* A loop by its name, as hybrid/ir/inner_loops.py has it, for a number of registers and the type of the first and the
 * last; NULL where there is none. */
HY_OF_ALL Loop float_loop(const char *name, int count, int held);
HY_OF_ALL Loop integer_loop(const char *name, int count, int held);

#if HY_HAS(0)
#define CAST(name, F, T, value) \
  static void name(char **p, npy_intp const *n, npy_intp const *s, void *data) { \
    const npy_intp count = *n; \
    const char *a = p[0]; char *o = p[1]; \
    if (s[0] == sizeof(F) && s[1] == sizeof(T)) for (npy_intp i = 0; i < count; i++) { \
      F x = ((const F *)a)[i]; \
      ((T *)o)[i] = (T)(value); \
    } \
    else for (npy_intp i = 0; i < count; i++, a += s[0], o += s[1]) { F x = *(const F *)a; *(T *)o = (T)(value); } \
  }
/* X(from, to, their types, value) for each cast. There is none from floats to integers: C does not define what becomes
 * of numbers that are too large. */
#define INTEGERS(X, from, F) X(from, i8, F, npy_int8, x) X(from, u8, F, npy_uint8, x) \
  X(from, i32, F, npy_int32, x) X(from, i64, F, npy_int64, x)
#define FLOATS(X, from, F) X(from, b, F, npy_bool, x != 0) X(from, f32, F, npy_float32, x) \
  X(from, f64, F, npy_float64, x)
#define OF_NUMBER(X, from, F) INTEGERS(X, from, F) FLOATS(X, from, F) \
  X(from, f16, F, npy_half, half_of((npy_float32)x))
#define EVERY(X) INTEGERS(X, b, npy_bool) FLOATS(X, b, npy_bool) X(b, f16, npy_bool, npy_half, x ? HALF_ONE : 0) \
  OF_NUMBER(X, i8, npy_int8) OF_NUMBER(X, u8, npy_uint8) OF_NUMBER(X, i32, npy_int32) OF_NUMBER(X, i64, npy_int64) \
  FLOATS(X, f32, npy_float32) X(f32, f16, npy_float32, npy_half, half_of(x)) FLOATS(X, f64, npy_float64) \
  X(f16, b, npy_half, npy_bool, (x & HALF_SIZE) != 0) X(f16, f32, npy_half, npy_float32, of_half(x)) \
  X(f16, f64, npy_half, npy_float64, of_half(x))
#define DEFINE_CAST(from, to, F, T, value) CAST(cast_##from##_##to, F, T, value)
EVERY(DEFINE_CAST)

#define CAST_ENTRY(from, to, F, T, value) [HELD_##from][HELD_##to] = cast_##from##_##to,
static const Loop casts[HELD][HELD] = {EVERY(CAST_ENTRY)};

HY_OF_ALL Loop cast_loop(int from, int to) { return from < 0 || to < 0 ? NULL : casts[from][to]; }

/* where: the third argument's or the fourth's elements, as the first (a truth value) says. */
#define WHERE(name, T) \
  static void name(char **p, npy_intp const *n, npy_intp const *s, void *data) { \
    const char *c = p[0], *a = p[1], *b = p[2]; char *o = p[3]; \
    const npy_intp count = *n, w = sizeof(T); \
    const int packed = s[0] == 1 && s[3] == w && (s[1] == w || !s[1]) && (s[2] == w || !s[2]); \
    if (packed && s[1] && s[2]) for (npy_intp i = 0; i < count; i++) { \
      T x = ((const T *)a)[i], y = ((const T *)b)[i]; \
      ((T *)o)[i] = c[i] ? x : y; \
    } \
    else if (packed && s[2]) { T x = *(const T *)a; for (npy_intp i = 0; i < count; i++) { T y = ((const T *)b)[i]; \
    ((T *)o)[i] = c[i] ? x : y; } } \
    else if (packed && s[1]) { T y = *(const T *)b; for (npy_intp i = 0; i < count; i++) { T x = ((const T *)a)[i]; \
    ((T *)o)[i] = c[i] ? x : y; } } \
    else for (npy_intp i = 0; i < count; i++, c += s[0], a += s[1], b += s[2], o += s[3]) *(T *)o = *c ? *(const T *)a \
        : *(const T *)b; \
  }
WHERE(where_1, npy_uint8) WHERE(where_2, npy_uint16) WHERE(where_4, npy_uint32) WHERE(where_8, npy_uint64)

HY_OF_ALL Loop where_loop(npy_intp size) {
  return size == 1 ? where_1 : size == 2 ? where_2 : size == 4 ? where_4 : size == 8 ? where_8 : NULL;
}

#endif

/* ---- of one dtype */
#define LOOP1(name, T, value) \
  static void name(char **p, npy_intp const *n, npy_intp const *s, void *data) { \
    const npy_intp count = *n; \
    const char *a = p[0]; char *o = p[1]; \
    if (s[0] == sizeof(T) && s[1] == sizeof(T)) for (npy_intp i = 0; i < count; i++) { \
      T x = ((const T *)a)[i]; \
      ((T *)o)[i] = (value); \
    } \
    else for (npy_intp i = 0; i < count; i++, a += s[0], o += s[1]) { T x = *(const T *)a; *(T *)o = (value); } \
  }
/* a function of two, the second one an array or a number */
#define LOOP2(name, T, value) \
  static void name(char **p, npy_intp const *n, npy_intp const *s, void *data) { \
    const npy_intp count = *n, w = sizeof(T); \
    const char *a = p[0], *b = p[1]; char *o = p[2]; \
    if (s[0] == w && s[1] == w && s[2] == w) for (npy_intp i = 0; i < count; i++) { \
      T x = ((const T *)a)[i], y = ((const T *)b)[i]; ((T *)o)[i] = (value); } \
    else if (s[0] == w && !s[1] && s[2] == w) { \
      T y = *(const T *)b; \
      for (npy_intp i = 0; i < count; i++) { T x = ((const T *)a)[i]; ((T *)o)[i] = (value); } \
    } \
    else for (npy_intp i = 0; i < count; i++, a += s[0], b += s[1], o += s[2]) { \
      T x = *(const T *)a, y = *(const T *)b; *(T *)o = (value); } \
  }
/* The third or the fourth as the first two compare; the second an array or a number, and one of the last two as
 * well. */
#define CHOICE(name, T, test) \
  static void name(char **p, npy_intp const *n, npy_intp const *s, void *data) { \
    const char *a = p[0], *b = p[1], *c = p[2], *d = p[3]; char *o = p[4]; \
    const npy_intp count = *n, w = sizeof(T); \
    if (s[0] == w && !s[1] && !s[2] && s[3] == w && s[4] == w) { \
      T y = *(const T *)b, k = *(const T *)c; \
      for (npy_intp i = 0; i < count; i++) { \
        T x = ((const T *)a)[i], v = ((const T *)d)[i]; \
        ((T *)o)[i] = (test) ? k : v; \
      } \
    } else if (s[0] == w && !s[1] && s[2] == w && !s[3] && s[4] == w) { \
      T y = *(const T *)b, k = *(const T *)d; \
      for (npy_intp i = 0; i < count; i++) { \
        T x = ((const T *)a)[i], u = ((const T *)c)[i]; \
        ((T *)o)[i] = (test) ? u : k; \
      } \
    } else if (s[0] == w && !s[1] && s[2] == w && s[3] == w && s[4] == w) { \
      T y = *(const T *)b; \
      for (npy_intp i = 0; i < count; i++) { \
        T x = ((const T *)a)[i], u = ((const T *)c)[i], v = ((const T *)d)[i]; \
        ((T *)o)[i] = (test) ? u : v; \
      } \
    } else if (s[0] == w && s[1] == w && s[2] == w && s[3] == w && s[4] == w) { \
      for (npy_intp i = 0; i < count; i++) { \
        T x = ((const T *)a)[i], y = ((const T *)b)[i], u = ((const T *)c)[i], v = ((const T *)d)[i]; \
        ((T *)o)[i] = (test) ? u : v; } \
    } else for (npy_intp i = 0; i < count; i++, a += s[0], b += s[1], c += s[2], d += s[3], o += s[4]) { \
      T x = *(const T *)a, y = *(const T *)b; \
      *(T *)o = (test) ? *(const T *)c : *(const T *)d; \
    } \
  }
typedef struct { const char *name; int count; Loop loop[HELD]; } Named;
static inline Loop named(const Named *all, size_t n, const char *name, int count, int held) {
  for (size_t i = 0; i < n && held >= 0; i++)
      if (all[i].count == count && strcmp(all[i].name, name) == 0) return all[i].loop[held];
  return NULL;
}

#if HY_HAS(1)
#define COMPARISONS(X) X(equal, x == y) X(not_equal, x != y) X(less, x < y) X(less_equal, x <= y) X(greater, x > y) \
    X(greater_equal, x >= y)
#define OF_COMPARISON(name, test) LOOP2(name##_cast_f32, npy_float32, (test) ? 1.0f : 0.0f) \
    LOOP2(name##_cast_f64, npy_float64, (test) ? 1.0 : 0.0) \
  CHOICE(name##_where_f32, npy_float32, test) CHOICE(name##_where_f64, npy_float64, test)
COMPARISONS(OF_COMPARISON)
LOOP2(copysign_f32, npy_float32, __builtin_copysignf(x, y)) LOOP2(copysign_f64, npy_float64, __builtin_copysign(x, y))
LOOP1(sign_f32, npy_float32, x > 0 ? 1.0f : x < 0 ? -1.0f : x + 0.0f)
    LOOP1(sign_f64, npy_float64, x > 0 ? 1.0 : x < 0 ? -1.0 : x + 0.0)
LOOP1(direction_f32, npy_float32, x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f)
    LOOP1(direction_f64, npy_float64, x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0)
/* halves away from zero: with the number before one half */
LOOP1(round_f32, npy_float32, __builtin_truncf(__builtin_copysignf(0x1.fffffep-2f, x) + x))
    LOOP1(round_f64, npy_float64, __builtin_trunc(__builtin_copysign(0x1.fffffffffffffp-2, x) + x))
/* halves to the lower one */
LOOP1(lower_f32, npy_float32, __builtin_rintf(x) - (__builtin_rintf(x) - x == 0.5f ? 1.0f : 0.0f))
    LOOP1(lower_f64, npy_float64, __builtin_rint(x) - (__builtin_rint(x) - x == 0.5 ? 1.0 : 0.0))

/* The first argument, but at least the second and at most the third: arrays, or single numbers (stride 0). */
#define CLIP(name, T) \
  static void name(char **p, npy_intp const *n, npy_intp const *s, void *data) { \
    const char *a = p[0], *b = p[1], *c = p[2]; char *o = p[3]; \
    const npy_intp count = *n, w = sizeof(T); \
    if (s[0] == w && !s[1] && !s[2] && s[3] == w) { \
      const T low = *(const T *)b, high = *(const T *)c; \
      for (npy_intp i = 0; i < count; i++) { \
        T x = ((const T *)a)[i], y = x < low ? low : x; \
        ((T *)o)[i] = x > high ? high : y; \
      } \
    } else for (npy_intp i = 0; i < count; i++, a += s[0], b += s[1], c += s[2], o += s[3]) { \
      T x = *(const T *)a, low = *(const T *)b, high = *(const T *)c; \
      *(T *)o = x > high ? high : x < low ? low : x; \
    } \
  }
CLIP(clip_f32, npy_float32) CLIP(clip_f64, npy_float64)
/* the power 0.5: the square root, but 0 of -0.0 and inf of -inf */
LOOP1(root_f32, npy_float32, x == -__builtin_inff() ? __builtin_inff() : __builtin_sqrtf(x) + 0.0f)
    LOOP1(root_f64, npy_float64, x == -__builtin_inf() ? __builtin_inf() : __builtin_sqrt(x) + 0.0)
LOOP1(sign_f16, npy_half, half_sign(x)) LOOP1(direction_f16, npy_half, half_direction(x))
LOOP1(round_f16, npy_half, half_round(x)) LOOP1(lower_f16, npy_half, half_lower(x))

HY_OF_ALL Loop float_loop(const char *name, int count, int held) {
#define OF_NAME(text, c, loop) {text, c, {[HELD_f32] = loop##_f32, [HELD_f64] = loop##_f64}},
#define OF_HALVES_TOO(text, loop) {text, 2, {[HELD_f16] = loop##_f16, [HELD_f32] = loop##_f32, \
    [HELD_f64] = loop##_f64}},
#define NAMED_COMPARISON(name, test) OF_NAME(#name " cast", 3, name##_cast) OF_NAME(#name " where", 5, name##_where)
  static const Named all[] = {
    COMPARISONS(NAMED_COMPARISON) OF_NAME("copysign", 3, copysign)
    OF_HALVES_TOO("sign", sign) OF_HALVES_TOO("direction", direction) OF_HALVES_TOO("round", round)
    OF_HALVES_TOO("lower rint", lower)
    OF_NAME("root", 2, root) OF_NAME("clip", 4, clip)};
  return named(all, sizeof all / sizeof *all, name, count, held);
}
#endif

#if HY_HAS(2)
/* of integers: NumPy's take an element at a time where one operand is a number */
#define LIMITS(X) X(i8, npy_int8) X(u8, npy_uint8) X(i32, npy_int32) X(i64, npy_int64)
/* Powers of integers, by repeated squaring; negative exponents give 0, but of the bases 1 and -1 they give 1 or -1.
 * Where one exponent holds for all numbers, a block of them is squared together, in vectors. */
enum { POWERS = 512 };                                         /* numbers of such a block */
#define OF_POWER(f, T, U) \
  static inline T power_of_##f(T x, T y) { \
    npy_uint64 found = 1, base = (npy_uint64)x; \
    if (y < 0) return x == 1 ? 1 : x == (T)-1 ? (T)(1 - 2 * (y & 1)) : 0; \
    for (; y; y >>= 1, base *= base) if (y & 1) found *= base; \
    return (T)found; \
  } \
  LOOP2(powers_##f, T, power_of_##f(x, y)) \
  static void power_##f(char **p, npy_intp const *n, npy_intp const *s, void *data) { \
    if (s[0] != sizeof(T) || s[1] || s[2] != sizeof(T) || *(T *)p[1] < 0) { powers_##f(p, n, s, data); return; } \
    for (npy_intp start = 0; start < *n; start += POWERS) { \
      const int count = (int)(*n - start < POWERS ? *n - start : POWERS); \
      const U *x = (const U *)p[0] + start; \
      U base[POWERS], found[POWERS]; \
      T y = *(T *)p[1]; \
      for (int i = 0; i < count; i++) { U v = x[i]; found[i] = y & 1 ? v : 1; base[i] = v; } \
      while (y >>= 1) { \
        for (int i = 0; i < count; i++) base[i] = (U)(base[i] * base[i]); \
        if (y & 1) for (int i = 0; i < count; i++) found[i] = (U)(found[i] * base[i]); \
      } \
      memcpy((U *)p[2] + start, found, sizeof(U) * count); \
    } \
  }
OF_POWER(i8, npy_int8, npy_uint8) OF_POWER(u8, npy_uint8, npy_uint8) OF_POWER(i32, npy_int32, npy_uint32)
    OF_POWER(i64, npy_int64, npy_uint64)
#define OF_LIMIT(f, T) LOOP2(maximum_##f, T, x > y ? x : y) LOOP2(minimum_##f, T, x < y ? x : y)
LIMITS(OF_LIMIT)
/* Quotients of integers, truncated; 0 where the divisor is 0. Numbers of type W hold the operands exactly; floats are
 * divided in vectors. Instead of by 0 or -1, it is divided by 1, and the result is multiplied by 0 or -1. */
#define OF_QUOTIENT(f, T, U, W) \
  static inline T divisor_##f(T y) { return y && ((T)-1 > 0 || y != (T)-1) ? y : 1; } \
  static inline U factor_##f(T y) { return (T)-1 < 0 && y == (T)-1 ? (U)-1 : y != 0; } \
  LOOP2(quotients_##f, T, (T)((U)(T)((W)x / (W)divisor_##f(y)) * factor_##f(y))) \
  static void quotient_##f(char **p, npy_intp const *n, npy_intp const *s, void *data) { \
    const npy_intp count = *n, w = sizeof(T); \
    const T *a = (const T *)p[0], *b = (const T *)p[1]; \
    T *o = (T *)p[2]; \
    if (s[0] == w && !s[1] && s[2] == w) { \
      const W by = (W)divisor_##f(*b); \
      const U factor = factor_##f(*b); \
      for (npy_intp i = 0; i < count; i++) o[i] = (T)((U)(T)((W)a[i] / by) * factor); \
    } else if (!s[0] && s[1] == w && s[2] == w) { \
      const T x = *a; \
      for (npy_intp i = 0; i < count; i++) { \
        T y = b[i]; \
        o[i] = (T)((U)(T)((W)x / (W)divisor_##f(y)) * factor_##f(y)); \
      } \
    } else quotients_##f(p, n, s, data); \
  }
OF_QUOTIENT(i8, npy_int8, npy_uint8, npy_float32) OF_QUOTIENT(u8, npy_uint8, npy_uint8, npy_float32)
    OF_QUOTIENT(i32, npy_int32, npy_uint32, npy_float64) OF_QUOTIENT(i64, npy_int64, npy_uint64, npy_int64)

HY_OF_ALL Loop integer_loop(const char *name, int count, int held) {
#define INTEGER_LOOPS(name) {#name, 3, {[HELD_i8] = name##_i8, [HELD_u8] = name##_u8, [HELD_i32] = name##_i32, \
    [HELD_i64] = name##_i64}},
  static const Named all[] = {
    INTEGER_LOOPS(power) INTEGER_LOOPS(quotient) INTEGER_LOOPS(maximum) INTEGER_LOOPS(minimum)};
  return named(all, sizeof all / sizeof *all, name, count, held);
}
#endif
