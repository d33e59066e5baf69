// The first of long rows in order, by radix select (T. Alabi et al., "Fast k-Selection Algorithms for Graphics
// Processing Units", 2012): a digit of 8 bits a pass, from the high end, until the last key that is taken is known;
// what is taken is put in order. Blocks share a row: each has a stretch of its tiles, and reads the keys that it wrote.
#ifndef HYBRID_SELECT_CUH
#define HYBRID_SELECT_CUH
#include "hybrid_sort.cuh"
#include "hybrid_stages.cuh"

// FIRST of a row are taken; SIZE: a power of two from FIRST on.
template <int FIRST, int SIZE> struct hy_select_tables {  // of a block, in shared memory
    hy_radix_bins<1> bins;
    unsigned long long pairs[SIZE];             // what is taken, each at hy_select_at
    unsigned sums[HY_RADIX_THREADS / 32], votes[2][HY_RADIX_THREADS / 32], digit, need;
};

// What blocks know of a row, in working memory. counts: of digits, by pass; after them how many pairs are there.
// states: counts of the last digit, by block.
struct hy_select_row {
    unsigned *keys, *counts, *states;
    unsigned long long *pairs;
    int n, begin, end, block;                   // tiles of this block, and its number among those of the row
};

// A barrier of all blocks that share rows. TEAM: whether they are several. waits: as of hy_grid_barrier.
template <bool TEAM> HY_FN void hy_select_wait(void *barrier, bool waits = true) {
    if (TEAM) hy_grid_barrier(barrier, gridDim.x, waits);
    else __syncthreads();
}

// The sum of a number over the threads of a block, in all of them.
HY_FN unsigned hy_select_sum(unsigned x, unsigned *sums) {
    #pragma unroll
    for (int m = 16; m; m /= 2) x += __shfl_xor_sync(~0u, x, m);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
    #pragma unroll
    for (int w = 0; w < HY_RADIX_THREADS / 32; w++) x += sums[w];
    return x;
}

// How often each digit of pass d occurs among this block's keys whose higher digits are those of ``prefix``: in the
// thread of its number.
template <class Tables>
HY_FN unsigned hy_select_count(const hy_select_row &row, unsigned prefix, int d, Tables &tables) {
    const int batch = 8;                        // loads under way
    unsigned own = 0;
    #pragma unroll 1
    for (int tile = row.begin; tile < row.end; tile++) {
        const int first = tile * HY_RADIX_TILE + threadIdx.x;
        hy_radix_clear(tables.bins);
        #pragma unroll 1
        for (int i = first; i < first + HY_RADIX_TILE; i += batch * HY_RADIX_THREADS) {
            unsigned key[batch];
            #pragma unroll
            for (int j = 0; j < batch; j++) {
                const int u = i + j * HY_RADIX_THREADS;
                key[j] = u < row.n ? row.keys[u] : 0;
            }
            #pragma unroll
            for (int j = 0; j < batch; j++)
                if (i + j * HY_RADIX_THREADS < row.n && key[j] >> 8 * d + 8 == prefix)
                    hy_radix_count(tables.bins, key[j] >> 8 * d);
        }
        __syncthreads();
        own += hy_radix_sum(tables.bins.count[0]);
        __syncthreads();
    }
    return own;
}

// The digit in whose bin the last key lies that is taken, and how many of the bin are. count: of this thread's digit.
template <class Tables> HY_FN void hy_select_digit(unsigned count, unsigned need, Tables &tables) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned through = count;                   // of keys with this digit and lower ones
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(~0u, through, d);
        through += lane >= d ? other : 0;
    }
    if (lane == 31) tables.sums[warp] = through;
    __syncthreads();
    #pragma unroll
    for (int w = 0; w < HY_RADIX_THREADS / 32; w++) through += w < warp ? tables.sums[w] : 0;
    if (through - count < need && need <= through) tables.digit = threadIdx.x, tables.need = need - (through - count);
    __syncthreads();
}

// Puts the pairs with keys below ``last`` anywhere before FIRST - need, and behind them the first ``need`` of those
// that have this key: ``before`` of them are in earlier blocks.
template <int FIRST, class Tables>
HY_FN void hy_select_take(const hy_select_row &row, unsigned *taken, unsigned last, unsigned before, unsigned need,
                          Tables &tables) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool ties = before < need;            // of this block count
    #pragma unroll 2
    for (int i = row.begin * HY_RADIX_TILE; i < row.end * HY_RADIX_TILE; i += HY_RADIX_THREADS) {
        const int u = i + (int)threadIdx.x;
        const unsigned key = u < row.n ? row.keys[u] : ~0u;
        const unsigned long long pair = (unsigned long long)key << 32 | (unsigned)u;
        if (key < last) row.pairs[atomicAdd(taken, 1u)] = pair;
        if (!ties) continue;
        const bool equal = u < row.n && key == last;
        const unsigned votes = __ballot_sync(~0u, equal);
        unsigned rank = before + __popc(votes & (1u << lane) - 1), *counts = tables.votes[i / HY_RADIX_THREADS % 2];
        if (lane == 0) counts[warp] = __popc(votes);
        __syncthreads();
        #pragma unroll
        for (int w = 0; w < HY_RADIX_THREADS / 32; w++) before += counts[w], rank += w < warp ? counts[w] : 0;
        if (equal && rank < need) row.pairs[FIRST - need + rank] = pair;
    }
}

// Where a pair lies in shared memory: in each step of the network 16 threads that are neighbours meet 16 banks.
HY_FN int hy_select_at(int i) { return i & 16 ? i ^ 15 : i; }

// The places of what was taken, in order, by one block: a bitonic network (K. Batcher, "Sorting Networks and their
// Applications", 1968), whose merges begin mirrored. The pairs stay in order, whichever blocks put them where.
template <int FIRST, int SIZE>
HY_FN void hy_select_sort(unsigned long long *taken, unsigned long long *pairs, long long *out) {
    for (int i = threadIdx.x; i < SIZE; i += HY_RADIX_THREADS) pairs[hy_select_at(i)] = i < FIRST ? taken[i] : ~0ull;
    __syncthreads();
    #pragma unroll 1
    for (int w = 2; w <= SIZE; w *= 2)
        #pragma unroll 1
        for (int d = w / 2; d; d /= 2) {
            #pragma unroll 1
            for (int t = threadIdx.x; t < SIZE / 2; t += HY_RADIX_THREADS) {
                const int i = 2 * t - (t & d - 1), j = d == w / 2 ? i ^ w - 1 : i + d;
                unsigned long long &low = pairs[hy_select_at(i)], &high = pairs[hy_select_at(j)], a = low, b = high;
                low = a < b ? a : b, high = a < b ? b : a;
            }
            __syncthreads();
        }
    for (int i = threadIdx.x; i < FIRST; i += HY_RADIX_THREADS)
        out[i] = (long long)((taken[i] = pairs[hy_select_at(i)]) & 0xffffffffu);
}

// The places of the first of a row, in order. own: how often each digit of the first pass occurs among this block's
// keys, which are written; counts are 0 once all blocks are at the first barrier.
template <int DIGITS, bool TEAM, int FIRST, int SIZE>
HY_FN void hy_select(const hy_select_row &row, unsigned own, hy_select_tables<FIRST, SIZE> &tables, void *barrier,
                     long long *out) {
    unsigned prefix = 0, need = FIRST, *taken = row.counts + 256 * DIGITS;
    hy_select_wait<TEAM>(barrier);
    #pragma unroll 1
    for (int d = DIGITS - 1; d >= 0; d--) {
        if (d < DIGITS - 1) own = hy_select_count(row, prefix, d, tables);
        if (own) atomicAdd(row.counts + 256 * d + threadIdx.x, own);
        if (d == 0) row.states[row.block * 256 + threadIdx.x] = own;
        hy_select_wait<TEAM>(barrier);
        hy_select_digit(row.counts[256 * d + threadIdx.x], need, tables);
        prefix = prefix << 8 | tables.digit, need = tables.need;
    }
    unsigned before = 0;
    for (int b = threadIdx.x; b < row.block; b += HY_RADIX_THREADS) before += row.states[b * 256 + (prefix & 255)];
    hy_select_take<FIRST>(row, taken, prefix, hy_select_sum(before, tables.sums), need, tables);
    hy_select_wait<TEAM>(barrier, row.block == 0);
    if (row.block == 0) hy_select_sort<FIRST, SIZE>(row.pairs, tables.pairs, out);
}
#endif
