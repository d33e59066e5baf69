/* Functions of float16 numbers ("halves") that work on their bits, without branches, so that compilers make vectors of
 * loops over them. They give what NumPy's own conversions and functions give.
 */
enum { HALF_SIGN = 0x8000, HALF_SIZE = 0x7fff, HALF_ONE = 0x3c00, HALF_INFINITE = 0x7c00, HALF_WHOLE = 0x6400 };
/* HALF_WHOLE is 1024: from there on all halves are whole numbers */

static inline npy_float32 float_of_bits(npy_uint32 bits) {
  npy_float32 x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline npy_uint32 bits_of_float(npy_float32 x) {
  npy_uint32 bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* A half as float32. normal, infinite (or nan), small: its bits, if it is a normal number, not finite, subnormal. */
static inline npy_float32 of_half(npy_half h) {
  npy_uint32 size = (npy_uint32)(h & HALF_SIZE) << 13, exponent = size & 0x0f800000;
  npy_uint32 normal = size + (112u << 23), infinite = normal + (112u << 23);
  npy_uint32 small = bits_of_float(float_of_bits(normal + (1u << 23)) - 0x1p-14f);
  npy_uint32 bits = exponent == 0x0f800000 ? infinite : exponent ? normal : small;
  return float_of_bits(bits | (npy_uint32)(h & HALF_SIGN) << 16);
}

/* A float32 as the nearest half; of two that are equally near, the even one. */
static inline npy_half half_of(npy_float32 x) {
  npy_uint32 bits = bits_of_float(x), sign = bits >> 16 & HALF_SIGN, size = bits & 0x7fffffff;
  npy_uint32 normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
  npy_uint32 small = bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000;              /* adding rounds it */
  npy_uint32 rest = size >> 13 & 0x3ff, nan = HALF_INFINITE + rest + !rest;
  npy_uint32 out = size < 113u << 23 ? small : size < 143u << 23 ? normal : HALF_INFINITE;
  return (npy_half)(sign | (size > 0x7f800000 ? nan : out));
}

/* A half below 1024 as float32, and a whole number of at most 1024 back to a half. */
static inline npy_float32 few_of_half(npy_half h) {
  return float_of_bits((npy_uint32)(h & HALF_SIZE) << 13 | (npy_uint32)(h & HALF_SIGN) << 16) * 0x1p112f;
}

static inline npy_half half_of_few(npy_float32 x) {
  npy_uint32 bits = bits_of_float(x * 0x1p-112f);
  return (npy_half)((bits >> 16 & HALF_SIGN) | (bits & 0x7fffffff) >> 13);
}

static inline npy_half half_direction(npy_half h) {
  int size = h & HALF_SIZE;
  return size && size <= HALF_INFINITE ? (h & HALF_SIGN) | HALF_ONE : 0;
}

static inline npy_half half_sign(npy_half h) { return (h & HALF_SIZE) > HALF_INFINITE ? h : half_direction(h); }

/* to the nearest whole number; x.5 away from zero */
static inline npy_half half_round(npy_half h) {
  npy_float32 x = few_of_half(h);
  return (h & HALF_SIZE) >= HALF_WHOLE ? h : half_of_few(__builtin_truncf(x + __builtin_copysignf(0.5f, x)));
}

/* to the nearest whole number; x.5 down */
static inline npy_half half_lower(npy_half h) {
  npy_float32 x = few_of_half(h), near = __builtin_rintf(x);
  return (h & HALF_SIZE) >= HALF_WHOLE ? h : half_of_few(near - (near - x == 0.5f ? 1.0f : 0.0f));
}
