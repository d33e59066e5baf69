// Tiles, registers of up to 16 rows of 64 bytes (AMX). One instruction multiplies the words (words.h) of two tiles: row
// i of the sums gets, for each word k of row i of the data, that word times row k of the weights. Tiles are named by
// their numbers. HYT_MODEL: they are arrays, and C does what the instructions do.
struct hy_shape {
  unsigned char palette, start, none[14]; unsigned short bytes[16]; unsigned char rows[16];
} __attribute__((aligned(64)));
#ifndef HYT_MODEL
/* of this thread; all tiles are zero then */
#define HYT_CONFIGURE(shape) __asm__ volatile("ldtilecfg %0" : : "m"(shape))
#define HYT_RELEASE() __asm__ volatile("tilerelease" : : : "memory")
#define HYT_USE(shape) (void)(shape)
#define HYT_ZERO(t) __asm__ volatile("tilezero %%tmm" #t : : )
#define HYT_LOAD(t, p, step) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(p), "r"((long)(step)) : "memory")
#define HYT_STORE(t, p, step) \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(p), "r"((long)(step)) : "memory")
#define HYT_DOT_BF16(s, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #s : : )
#define HYT_DOT_BYTES(s, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #s : : )
#else
struct hy_tile { int rows, bytes, at[256]; };
#define HYT_CONFIGURE(shape) (void)(shape)
#define HYT_RELEASE() (void)0
#define HYT_USE(shape) struct hy_tile hy_tile[8]; hyt_use(hy_tile, shape)
#define HYT_ZERO(t) __builtin_memset(hy_tile[t].at, 0, sizeof hy_tile[t].at)
#define HYT_LOAD(t, p, step) hyt_load(hy_tile + t, (const char *)(p), step)
#define HYT_STORE(t, p, step) hyt_store(hy_tile + t, (char *)(p), step)
#define HYT_DOT_BF16(s, a, b) hyt_dot_bf16(hy_tile + s, hy_tile + a, hy_tile + b)
#define HYT_DOT_BYTES(s, a, b) hyt_dot_bytes(hy_tile + s, hy_tile + a, hy_tile + b)
static void hyt_use(struct hy_tile *t, const struct hy_shape *shape) {
  for (int i = 0; i < 8; i++) {
    if (shape->palette != 1 || shape->rows[i] > 16 || shape->bytes[i] > 64 || shape->bytes[i] % 4) __builtin_trap();
    t[i].rows = shape->rows[i], t[i].bytes = shape->bytes[i];
    __builtin_memset(t[i].at, 0, sizeof t[i].at);
  }
}
static void hyt_load(struct hy_tile *t, const char *p, long step) {
  if (!t->rows || !t->bytes) __builtin_trap();
  for (int i = 0; i < t->rows; i++) __builtin_memcpy(t->at + 16 * i, p + i * step, (unsigned long)t->bytes);
}
static void hyt_store(const struct hy_tile *t, char *p, long step) {
  if (!t->rows || !t->bytes) __builtin_trap();
  for (int i = 0; i < t->rows; i++) __builtin_memcpy(p + i * step, t->at + 16 * i, (unsigned long)t->bytes);
}
static void hyt_fits(const struct hy_tile *s, const struct hy_tile *a, const struct hy_tile *b) {
  if (s->rows != a->rows || a->bytes != 4 * b->rows || s->bytes != b->bytes || s == a || s == b || a == b)
      __builtin_trap();
}
/* too small ones are 0 */
static float hyt_float(int bits) { float f; __builtin_memcpy(&f, &bits, 4); return bits & 0x7f800000 ? f : 0; }
static void hyt_dot_bf16(struct hy_tile *s, const struct hy_tile *a, const struct hy_tile *b) {
  hyt_fits(s, a, b);
  for (int i = 0; i < s->rows; i++) for (int k = 0; k < b->rows; k++) for (int j = 0; j < s->bytes / 4; j++) {
    const int x = a->at[16 * i + k], w = b->at[16 * k + j];
    const float sum = hyt_float(s->at[16 * i + j]) + hyt_float(x << 16) * hyt_float(w << 16) + hyt_float(x & -65536)
        * hyt_float(w & -65536);
    __builtin_memcpy(s->at + 16 * i + j, &sum, 4);
  }
}
static void hyt_dot_bytes(struct hy_tile *s, const struct hy_tile *a, const struct hy_tile *b) {
  hyt_fits(s, a, b);
  for (int i = 0; i < s->rows; i++) for (int k = 0; k < b->rows; k++) for (int j = 0; j < s->bytes / 4; j++)
      for (int n = 0; n < 32; n += 8)
    s->at[16 * i + j] += (a->at[16 * i + k] >> n & 255) * (b->at[16 * k + j] << (24 - n) >> 24);
}
#endif
