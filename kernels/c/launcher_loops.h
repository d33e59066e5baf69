/* Inner loops of what NumPy has no universal function for, or one that takes an element at a time: casts, choices,
 * comparisons with what is done of them, some functions. Counts are copied first: a store of a byte might be to
 * them. */
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
#define INTEGERS(X, name, F) X(name##_i8, F, npy_int8, x) X(name##_u8, F, npy_uint8, x) \
  X(name##_i32, F, npy_int32, x) X(name##_i64, F, npy_int64, x)
#define OTHERS(X, name, F) X(name##_b, F, npy_bool, x != 0) X(name##_f32, F, npy_float32, x) \
    X(name##_f64, F, npy_float64, x)
#define OF_INTEGER(X, name, F) INTEGERS(X, name, F) OTHERS(X, name, F)
#define EVERY(X) OF_INTEGER(X, b, npy_bool) OF_INTEGER(X, i8, npy_int8) OF_INTEGER(X, u8, npy_uint8) \
  OF_INTEGER(X, i32, npy_int32) OF_INTEGER(X, i64, npy_int64) \
  OTHERS(X, f32, npy_float32) OTHERS(X, f64, npy_float64)
#define DEFINE_CAST(name, F, T, value) CAST(cast_##name, F, T, value)
EVERY(DEFINE_CAST)

/* Types by what they hold: NPY_BOOL …; -1 for those that have no casts here. */
enum { HELD_b, HELD_i8, HELD_u8, HELD_i32, HELD_i64, HELD_f32, HELD_f64, HELD };
static int held_by(const PyArray_Descr *d, npy_intp size) {
  if (d->kind == 'b') return HELD_b;
  if (d->kind == 'f') return size == 4 ? HELD_f32 : size == 8 ? HELD_f64 : -1;
  if (d->kind == 'u') return size == 1 ? HELD_u8 : -1;
  return d->kind != 'i' ? -1 : size == 1 ? HELD_i8 : size == 4 ? HELD_i32 : size == 8 ? HELD_i64 : -1;
}
#define ENTRY(name, F, T, value) cast_##name,
/* of each type that is cast: to i8 u8 i32 i64 b f32 f64 (floats: to the last three; to integers C leaves open what is
 * too large) */
static const Loop integer_casts[][7] = {{OF_INTEGER(ENTRY, b, )}, {OF_INTEGER(ENTRY, i8, )}, {OF_INTEGER(ENTRY, u8, )},
  {OF_INTEGER(ENTRY, i32, )}, {OF_INTEGER(ENTRY, i64, )}};
static const Loop float_casts[][3] = {{OTHERS(ENTRY, f32, )}, {OTHERS(ENTRY, f64, )}};
static const int place_of[HELD] = {4, 0, 1, 2, 3, 5, 6};

static Loop cast_loop(int from, int to) {
  if (from < 0 || to < 0) return NULL;
  if (from >= HELD_f32) return place_of[to] < 4 ? NULL : float_casts[from - HELD_f32][place_of[to] - 4];
  return integer_casts[from][place_of[to]];
}

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

static Loop where_loop(npy_intp size) {
  return size == 1 ? where_1 : size == 2 ? where_2 : size == 4 ? where_4 : size == 8 ? where_8 : NULL;
}

static void copy_of(char **p, npy_intp const *n, npy_intp const *s, void *data) {
  if (s[0] == s[1]) { memcpy(p[1], p[0], *n * s[1]); return; }
  for (npy_intp i = 0; i < *n; i++) memcpy(p[1] + i * s[1], p[0] + i * s[0], s[1]);
}

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

/* A loop by its name, as hybrid/ir/inner_loops.py has it, for a number of registers and the type of the first and the
 * last; NULL where there is none. */
static Loop named_loop(const char *name, int count, int held) {
#define OF_NAME(text, c, loop) {text, c, {[HELD_f32] = loop##_f32, [HELD_f64] = loop##_f64}},
#define NAMED_COMPARISON(name, test) OF_NAME(#name " cast", 3, name##_cast) OF_NAME(#name " where", 5, name##_where)
#define INTEGER_LOOPS(name) {#name, 3, {[HELD_i8] = name##_i8, [HELD_u8] = name##_u8, [HELD_i32] = name##_i32, \
    [HELD_i64] = name##_i64}},
  static const struct { const char *name; int count; Loop loop[HELD]; } all[] = {
    COMPARISONS(NAMED_COMPARISON) OF_NAME("copysign", 3, copysign) OF_NAME("sign", 2, sign)
        OF_NAME("direction", 2, direction) OF_NAME("round", 2, round) OF_NAME("lower rint", 2, lower)
    OF_NAME("root", 2, root) OF_NAME("clip", 4, clip)
    INTEGER_LOOPS(power) INTEGER_LOOPS(maximum) INTEGER_LOOPS(minimum)};
  for (size_t i = 0; i < sizeof all / sizeof *all && held >= 0; i++)
      if (all[i].count == count && strcmp(all[i].name, name) == 0) return all[i].loop[held];
  return NULL;
}
