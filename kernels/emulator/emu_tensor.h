// Tensor cores and their loads for the emulator: fragments as PTX ISA 8.5, section 9.7.14, describes them. Included by
// cuda_on_cpu.h.
//
// The sums have two forms, and kernels must be right with both (HYBRID_EMU_SUMS):
//   rounded    each product is added in float and rounded to nearest, in order;
// truncated products, exact, and the sum so far are aligned to the largest of them, cut off below its 24 bits, added,
//              and the result is cut off, in groups of 8 halves or 4 tf32. So measured by M. Fasi, N. J. Higham,
//              M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7 (2021),
//              e330; newer ones keep more bits, so this is the worst case. A group of n adds an error of at most
//              (n + 1) 2^-23 times the largest of its terms.
#pragma once

static EMU_OWN inline float emu_half_value(unsigned h) {
    unsigned sign = (h & 0x8000) << 16, rest = (h & 0x7fff) << 13;
    if ((h & 0x7c00) == 0x7c00) return __uint_as_float(sign | 0x7f800000u | rest);
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest) * 0x1p112f));
}

namespace emu {

enum Factor { HALF, BFLOAT, TF32 };

static EMU_OWN inline float factor(Factor kind, unsigned word, int high) {
    if (kind == TF32) return __uint_as_float(word & 0xffffe000u);
    unsigned h = high ? word >> 16 : word & 0xffffu;
    return kind == BFLOAT ? __uint_as_float(h << 16) : emu_half_value(h);
}

static EMU_OWN inline double cut(double v, double quantum) { return (double)(long long)(v / quantum) * quantum; }

// c + a . b of n factors as a group of a tensor core adds them
static EMU_OWN inline float truncated_sum(float c, const float *a, const float *b, int n) {
    double terms[17] = {c}, largest = fabs(c), sum = 0;
    for (int i = 0; i < n; i++) {
        terms[i + 1] = (double)a[i] * b[i];                          // exact: 22 bits at most
        largest = fmax(largest, fabs(terms[i + 1]));
        sum += terms[i + 1];
    }
    if (!(fabs(sum + c) < INFINITY) || largest == 0) return (float)(c + sum);
    int exponent;
    frexp(largest, &exponent);
    double quantum = ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
    sum = 0;
    for (int i = 0; i <= n; i++) sum += cut(terms[i], quantum);
    if (sum == 0) return 0;
    frexp(sum, &exponent);
    return (float)cut(sum, ldexp(1, (exponent < -125 ? -125 : exponent) - 24));
}

static EMU_OWN inline float tensor_sum(float c, const float *a, const float *b, int depth, int group) {
    if (M.sums == 0) {
        for (int k = 0; k < depth; k++) c = (float)((double)a[k] * b[k] + c);
        return c;
    }
    for (int k = 0; k < depth; k += group) c = truncated_sum(c, a + k, b + k, group < depth ? group : depth);
    return c;
}

// D (16 x 8) += A (16 x DEPTH) B (DEPTH x 8) of a warp. With g = lane / 4 and t = lane % 4, word w of a lane holds of A
// row g + w % 2 * 8, and of B column g, at depth w / 2 (A) or w (B) times 8 (tf32: 4) and t words further.
template <Factor KIND, int DEPTH> static EMU_OWN inline void mma(float d[4], const unsigned *a, const unsigned *b) {
    const int per = KIND == TF32 ? 1 : 2, across = 4 * per, words = DEPTH / across;       // depth of a word, of 4 lanes
    unsigned own[6] = {}, slot;
    for (int i = 0; i < 2 * words; i++) own[i] = a[i];
    for (int i = 0; i < words; i++) own[4 + i] = b[i];
    uint64_t packed[3];
    memcpy(packed, own, sizeof packed);
    const Rendezvous *r = meet(~0u, "mma", packed[0], packed[1], &slot, packed[2]);
    const unsigned(*word)[8] = (const unsigned(*)[8])r->value[slot];
    const int g = lane() >> 2, t = lane() & 3;
    float rows[2][DEPTH], columns[2][DEPTH];
    for (int k = 0; k < DEPTH; k++) {
        const int w = k / across, from = k % across / per, high = k % per;
        for (int i = 0; i < 2; i++) {
            rows[i][k] = factor(KIND, word[g * 4 + from][2 * w + i], high);
            columns[i][k] = factor(KIND, word[(2 * t + i) * 4 + from][4 + w], high);
        }
    }
    for (int i = 0; i < 4; i++) d[i] = tensor_sum(d[i], rows[i / 2], columns[i % 2], DEPTH, KIND == TF32 ? 4 : 8);
}

// COUNT matrices of 8 rows of 16 bytes; lanes 8 i .. 8 i + 7 give the addresses of the rows of matrix i. A lane gets of
// each the word at row lane / 4 and column lane % 4; of transposed ones, the halves at column lane / 4, rows
// 2 (lane % 4) and the next.
template <int COUNT, bool TRANSPOSED> static EMU_QUIET void ldmatrix(unsigned *to, const void *row) {
    unsigned slot;
    if (lane() < 8 * COUNT) emu_watch_access(row, 16, READ, __builtin_return_address(0));
    if (lane() < 8 * COUNT && !aligned(row, 16, "ldmatrix")) row = nullptr;
    const Rendezvous *r = meet(~0u, "ldmatrix", (uint64_t)row, 0, &slot);
    const int g = lane() >> 2, t = lane() & 3;
    for (int i = 0; i < COUNT && !M.error; i++) {
        auto line = [&](int k) { return (const char *)r->value[slot][8 * i + k][0]; };
        unsigned short half[2];
        if (!TRANSPOSED) memcpy(&to[i], line(g) + 4 * t, 4);
        for (int k = 0; k < 2 && TRANSPOSED; k++) memcpy(&half[k], line(2 * t + k) + 2 * g, 2);
        if (TRANSPOSED) to[i] = half[0] | (unsigned)half[1] << 16;
    }
}

// The way back: COUNT matrices from registers to rows in shared memory.
template <int COUNT> static EMU_QUIET void stmatrix(void *row, const unsigned *from) {
    unsigned slot;
    if (lane() < 8 * COUNT) emu_watch_access(row, 16, WRITE, __builtin_return_address(0));
    if (lane() < 8 * COUNT && !aligned(row, 16, "stmatrix")) row = nullptr;
    const Rendezvous *r = meet(~0u, "stmatrix", (uint64_t)row, 0, &slot);
    for (int i = 0; i < COUNT && !M.error; i++)
        memcpy((char *)r->value[slot][8 * i + (lane() >> 2)][0] + 4 * (lane() & 3), &from[i], 4);
}

// ---- wgmma: a thread's part of D is computed when it waits, so that whoever changes A or B before changes the result
enum How { TURNED_A = 1, TURNED_B = 2, FORGETS = 4 };

// Where the factor in row r at depth k of a swizzled tile lies: bits 4 to 6 of the address are XORed with bits 7 to 9,
// of lines of 64 bytes bits 4 and 5 with bits 7 and 8.
static inline const char *place(int size, const Matrix &m, int r, int k, bool turned) {
    uintptr_t at = (uintptr_t)m.at + (turned ? r / 64 * m.lead + k / 8 * m.stride + k % 8 * 128 + r % 64 * size
                                             : r / 8 * m.stride + r % 8 * m.line + k * size);
    return (const char *)(at ^ (at >> 7 & (m.line == 128 ? 7 : 3)) << 4);
}
static inline float swizzled(Factor kind, const Matrix &m, int r, int k, bool turned) {
    const int size = kind == TF32 ? 4 : 2;
    unsigned word = 0;
    memcpy(&word, place(size, m, r, k, turned), size);
    return factor(kind, word, 0);
}

// Tells the watcher of what a warp's product reads of shared memory, 16 bytes a lane. When it begins, what others wrote
// must be there; until it is waited for, nobody may write.
static EMU_QUIET void watch_rows(const Product &p, const Matrix &m, int first, int rows, bool turned) {
    const int per = 16 / p.size;                              // in 16 bytes: rows of a turned tile, else depths
    for (int i = lane(); i < rows * 2; i += 32) {
        const int across = rows / per, r = turned ? i % across * per : i / 2, k = turned ? i / across : i % 2 * per;
        emu_watch_access(place(p.size, m, first + r, k, turned), 16, ASYNC_READ, p.pc);
    }
}
static EMU_QUIET void watch_product(const Product &p) {
#ifdef EMU_WATCH
    if (!p.from) watch_rows(p, p.a, M.current->tid / 32 % 4 * 16, 16, p.how & TURNED_A);
    watch_rows(p, p.b, 0, p.columns, p.how & TURNED_B);
#endif
}

template <Factor KIND, int N> static EMU_QUIET void add_product(const Product &p) {
    watch_product(p);
    const int deep = KIND == TF32 ? 8 : 16, row = M.current->tid / 32 % 4 * 16 + lane() / 4;
    if (p.from && memcmp(p.from, p.kept, sizeof p.kept))
        return fail(BAD_ASYNC_COPY, "registers of a wgmma under way were changed");
    float a[2][16], b[16];
    for (int i = 0; i < 2 * deep; i++)
        a[i / deep][i % deep] = p.from ? p.rows[i / deep][i % deep]
                                       : swizzled(KIND, p.a, row + i / deep * 8, i % deep, p.how & TURNED_A);
    for (int j = 0; j < N / 4; j++) {
        for (int k = 0; k < deep; k++)
            b[k] = swizzled(KIND, p.b, j / 2 * 8 + lane() % 4 * 2 + j % 2, k, p.how & TURNED_B);
        for (int i = 0; i < 2; i++) {
            float &d = p.d[j / 2 * 4 + i * 2 + j % 2];
            d = tensor_sum(p.how & FORGETS ? 0 : d, a[i], b, deep, KIND == TF32 ? 4 : 8);
        }
    }
}

static inline Product *new_product() {
    Flight *me = M.current->flight;
    if (!me->fenced) return fail(BAD_ASYNC_COPY, "wgmma without wgmma.fence behind the last wait"), nullptr;
    if (me->products == MAX_PRODUCTS) return fail(BAD_ASYNC_COPY, "over 64 wgmma under way (emulator limit)"), nullptr;
    return &me->product[me->products++];
}
template <Factor KIND, int N> static EMU_QUIET void wgmma(float *d, Matrix a, Matrix b, int how) {
    if (!aligned(a.at, 16, "wgmma") || !aligned(b.at, 16, "wgmma")) return;
    Product *p = new_product();
    if (!p) return;
    *p = {d, a, b, M.current->flight->product_groups, how, N, 2, __builtin_return_address(0), add_product<KIND, N>};
    watch_product(*p);
}
// A of tf32 from registers: fragments as those of mma.
template <int N> static EMU_QUIET void wgmma_tf32(float *d, const unsigned *a, Matrix b, int adds) {
    unsigned slot;
    uint64_t packed[2];
    memcpy(packed, a, sizeof packed);
    const Rendezvous *r = meet(~0u, "wgmma", packed[0], packed[1], &slot);
    const unsigned(*word)[8] = (const unsigned(*)[8])r->value[slot];
    Product *p = aligned(b.at, 16, "wgmma") ? new_product() : nullptr;
    if (!p) return;
    const int how = adds ? 0 : FORGETS;
    const int group = M.current->flight->product_groups;
    *p = {d, Matrix(), b, group, how, N, 4, __builtin_return_address(0), add_product<TF32, N>};
    for (int i = 0; i < 16; i++)
        p->rows[i / 8][i % 8] = factor(TF32, word[(lane() & ~3) + i % 4][i % 8 / 4 * 2 + i / 8], 0);
    memcpy(p->kept, p->from = a, sizeof p->kept);
    watch_product(*p);
}
static inline void wgmma_fence() { M.current->flight->fenced = true; }
static inline void wgmma_commit() { M.current->flight->product_groups++; }
static inline void wgmma_wait(int left) {
    Flight *me = M.current->flight;
    int kept = 0;
    for (int i = 0; i < me->products; i++) {
        if (me->product[i].group < me->product_groups - left) me->product[i].add(me->product[i]);
        else me->product[kept++] = me->product[i];
    }
    me->products = kept;
    me->fenced = false;
    unsigned slot;
    meet(~0u, "wgmma.wait_group", 0, 0, &slot);
}

}  // namespace emu
