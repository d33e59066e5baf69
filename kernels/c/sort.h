// Keys of numbers as unsigned integers in the same order (NaN last, -0 as 0), and a stable sort of such keys of 32
// bits.
HY_FN unsigned long hy_key_float(float x) {
    union hy_bits b; b.f = x + 0.0f;
    return x != x ? 0xffffffffu : b.u ^ (b.i < 0 ? 0xffffffffu : 0x80000000u);
}
HY_FN unsigned long hy_key_double(double x) {
    union { double d; unsigned long u; } b; b.d = x + 0.0;
    return x != x ? (unsigned long)-1 : b.u ^ (b.u >> 63 ? (unsigned long)-1 : (unsigned long)1 << 63);
}
#define HY_DIGIT(x, d) ((x) >> (32 + 8 * (d)) & 255)
// a: n times key << 32 | place; equal keys keep their order; b: as much working memory. By digits of 8 bits, the last
// first; few by insertion.
__attribute__((unused)) static void hy_sort(unsigned long *a, unsigned long *b, long n) {
    if (n <= 40) {
        for (long i = 1; i < n; i++) {
            const unsigned long x = a[i];
            long j = i;
            for (; j > 0 && a[j - 1] >> 32 > x >> 32; j--) a[j] = a[j - 1];
            a[j] = x;
        }
        return;
    }
    unsigned count[4][256] = {{0}};
    unsigned long *from = a, *to = b;
    for (long i = 0; i < n; i++)
        for (int d = 0; d < 4; d++) count[d][HY_DIGIT(a[i], d)]++;
    for (int d = 0; d < 4; d++) {
        if (count[d][HY_DIGIT(from[0], d)] == n) continue;                     // all have the same digit
        unsigned before = 0;
        for (int i = 0; i < 256; i++) { const unsigned c = count[d][i]; count[d][i] = before; before += c; }
        for (long i = 0; i < n; i++) to[count[d][HY_DIGIT(from[i], d)]++] = from[i];
        unsigned long *swap = from; from = to; to = swap;
    }
    if (from != a) for (long i = 0; i < n; i++) a[i] = from[i];
}
