// Radix sort of long rows by many blocks: digits of 8 bits from the low end, each stable, so that equal keys keep their
// order. A pair has its key in the upper 32 bits and its place in the lower ones.
#ifndef HYBRID_SORT_CUH
#define HYBRID_SORT_CUH
#include "hybrid_cuda.cuh"

#define HY_RADIX_THREADS 256
#define HY_RADIX_TILE 4096                      // pairs of a block

// A float as an unsigned number in the same order; NaN is the greatest, and the zeros are equal.
HY_FN unsigned hy_radix_key(float x) {
    const unsigned u = __float_as_uint(x + 0.0f);
    return x != x ? 0xffffffffu : u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}

// How often each digit occurs in a tile: lanes count in columns of their own, so that each meets a bank of its own
// whatever the digits are; a word has the counts of four digits, a byte each.
template <int DIGITS> struct hy_radix_bins {
    unsigned count[DIGITS][64][32];
};

template <int DIGITS> HY_FN void hy_radix_clear(hy_radix_bins<DIGITS> &bins) {
    static_assert(HY_RADIX_TILE / 32 < 256, "a lane's count is a byte");
    #pragma unroll
    for (int d = 0; d < DIGITS; d++)
        for (int w = threadIdx.x / 32; w < 64; w += HY_RADIX_THREADS / 32) bins.count[d][w][threadIdx.x % 32] = 0;
    __syncthreads();
}

template <int DIGITS> HY_FN void hy_radix_count(hy_radix_bins<DIGITS> &bins, unsigned key) {
    #pragma unroll
    for (int d = 0; d < DIGITS; d++) {
        const unsigned digit = key >> 8 * d;
        atomicAdd(&bins.count[d][digit >> 2 & 63][threadIdx.x % 32], 1u << (digit & 3) * 8);
    }
}

// How often the digit of this thread's number occurs in what was counted before a barrier.
HY_FN unsigned hy_radix_sum(const unsigned (&count)[64][32]) {
    const int row = threadIdx.x / 4, part = threadIdx.x % 4;
    unsigned even = 0, odd = 0;                 // two sums a word, of a quarter of the columns
    #pragma unroll
    for (int k = 0; k < 2; k++) {
        const hy_pack<unsigned, 4> four = *(const hy_pack<unsigned, 4> *)&count[row][part * 8 + (k ^ row % 2) * 4];
        #pragma unroll
        for (int j = 0; j < 4; j++) even += four.x[j] & 0x00ff00ff, odd += four.x[j] >> 8 & 0x00ff00ff;
    }
    #pragma unroll
    for (int m = 1; m < 4; m *= 2) even += __shfl_xor_sync(~0u, even, m), odd += __shfl_xor_sync(~0u, odd, m);
    return (part & 1 ? odd : even) >> part / 2 * 16 & 0xffff;
}

// Sums of a tile's counts: states[pass][tile][digit].
template <int DIGITS> HY_FN void hy_radix_counted(const hy_radix_bins<DIGITS> &bins, unsigned *states, int tile, int tiles) {
    __syncthreads();
    #pragma unroll
    for (int d = 0; d < DIGITS; d++) states[(d * tiles + tile) * 256 + threadIdx.x] = hy_radix_sum(bins.count[d]);
}

// totals[256 pass + digit]: how often each digit occurs in all tiles. 32 of them a block; its warps share the tiles. The
// counts that it has read become 0, the state of tiles that have not begun to move pairs.
HY_FN void hy_radix_totals(unsigned *states, unsigned *totals, int block, int tiles) {
    __shared__ unsigned sums[HY_RADIX_THREADS / 32][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned own = 0;
    states += block / 8 * tiles * 256 + block % 8 * 32 + lane;
    #pragma unroll 8
    for (int t = warp; t < tiles; t += HY_RADIX_THREADS / 32) own += states[t * 256], states[t * 256] = 0;
    sums[warp][lane] = own;
    __syncthreads();
    if (warp) return;
    #pragma unroll
    for (int w = 1; w < HY_RADIX_THREADS / 32; w++) own += sums[w][lane];
    totals[block * 32 + lane] = own;
}

// Votes of a warp about its digits. Returns the lanes that have the same digit as this one; owned[v]: the lanes whose
// digit is this lane's number and 32 v. Lanes without a pair have no digit.
HY_FN unsigned hy_radix_votes(unsigned digit, bool inside, unsigned (&owned)[8]) {
    const unsigned lane = threadIdx.x % 32;
    unsigned own = __ballot_sync(~0u, inside), set[3];
    #pragma unroll
    for (int b = 0; b < 5; b++) own &= __ballot_sync(~0u, digit >> b & 1) ^ (lane >> b & 1) - 1;
    unsigned peers = __shfl_sync(~0u, own, digit % 32);
    #pragma unroll
    for (int b = 0; b < 3; b++) {
        set[b] = __ballot_sync(~0u, digit >> b + 5 & 1);
        peers &= digit >> b + 5 & 1 ? set[b] : ~set[b];
    }
    #pragma unroll
    for (int v = 0; v < 8; v++)
        owned[v] = own & (v & 1 ? set[0] : ~set[0]) & (v & 2 ? set[1] : ~set[1]) & (v & 4 ? set[2] : ~set[2]);
    return peers;
}

// Looks each lane's digit up in a table of 32 N entries that lies in the registers of a warp: lane l holds the entries l,
// l + 32, ... Lanes read each other's by shuffles.
template <int N>
HY_FN unsigned hy_radix_entry(const unsigned (&own)[N], unsigned digit) {
    unsigned found[N];
    #pragma unroll
    for (int v = 0; v < N; v++) found[v] = __shfl_sync(~0u, own[v], digit % 32);
    #pragma unroll
    for (int half = N / 2, b = N == 8 ? 7 : 6; half; half /= 2, b--)
        #pragma unroll
        for (int v = 0; v < half; v++) found[v] = digit >> b & 1 ? found[v + half] : found[v];
    return found[0];
}

struct hy_radix_tables {                        // of a block, in shared memory
    unsigned next[HY_RADIX_THREADS / 32][256];  // places, by warp and digit
    unsigned sums[HY_RADIX_THREADS / 32];       // of totals, by warp
    unsigned short rank[HY_RADIX_TILE];         // of a pair among those of its warp that have its digit
};

// The number of a block among those that have begun: tiles before it are done, or under way in blocks that run.
HY_FN int hy_radix_ticket(unsigned *tickets) {
    __shared__ unsigned ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1u);
    __syncthreads();
    return (int)ticket;
}

// How many pairs in the tiles before this one have this thread's digit (Merrill and Garland's decoupled look-back). The
// state of a tile: 0, it has not counted yet; 1 + its own count; HY_RADIX_ALL + the count in it and all tiles before it.
// Each state is one word, so that no fence is needed. states: of this thread's digit in the first tile.
#define HY_RADIX_ALL 0x80000000u
HY_FN unsigned hy_radix_before(unsigned *states, int tile, unsigned own) {
    const int window = 4;
    volatile unsigned *state = states;
    unsigned before = 0;
    int t = tile - 1;
    state[tile * 256] = tile ? 1 + own : HY_RADIX_ALL + own;
    while (t >= 0) {
        unsigned seen[window];
        #pragma unroll
        for (int k = 0; k < window; k++) seen[k] = t < k ? HY_RADIX_ALL : state[(t - k) * 256];
        bool wait = false;
        #pragma unroll
        for (int k = 0; k < window; k++) {
            wait |= seen[k] == 0;
            if (wait || t < 0) continue;
            before += seen[k] & HY_RADIX_ALL ? seen[k] - HY_RADIX_ALL : seen[k] - 1;
            t = seen[k] & HY_RADIX_ALL ? -1 : t - 1;
        }
#ifdef CUDA_ON_CPU
        if (wait) __nanosleep(20);              // other threads run meanwhile
#endif
    }
    if (tile) state[tile * 256] = HY_RADIX_ALL + before + own;
    return before;
}

// Moves the pairs of a tile to their sorted places; to.put(place, pair) stores one. Each warp has a stretch of its own,
// in order. Tables indexed by digit lie in registers, so looking digits up causes no bank conflicts.
template <class To>
HY_FN void hy_radix_scatter(const unsigned long long *pairs, const unsigned *totals, unsigned *states, int n, int tile,
                            int shift, hy_radix_tables &tables, To to) {
    const int warps = HY_RADIX_THREADS / 32, stretch = HY_RADIX_TILE / warps, batch = 4;      // loads under way
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, begin = warp * stretch + lane;
    const unsigned below = (1u << lane) - 1;
    pairs += tile * HY_RADIX_TILE, n -= tile * HY_RADIX_TILE;
    unsigned counts[4] = {};                    // so far, of the lower and the upper 128 digits
    #pragma unroll 1
    for (int first = begin; first < begin + stretch; first += 32 * batch) {
        unsigned key[batch];
        #pragma unroll
        for (int k = 0; k < batch; k++) key[k] = first + 32 * k < n ? (unsigned)(pairs[first + 32 * k] >> shift) & 255 : 0;
        #pragma unroll
        for (int k = 0; k < batch; k++) {
            const int i = first + 32 * k;
            unsigned owned[8];
            const unsigned digit = key[k], peers = hy_radix_votes(digit, i < n, owned), entry = hy_radix_entry(counts, digit);
            tables.rank[i] = (digit & 128 ? entry >> 16 : entry & 0xffff) + __popc(peers & below);
            #pragma unroll
            for (int v = 0; v < 4; v++) counts[v] += __popc(owned[v]) + (__popc(owned[v + 4]) << 16);
        }
    }
    #pragma unroll
    for (int v = 0; v < 8; v++) tables.next[warp][32 * v + lane] = counts[v % 4] >> v / 4 * 16 & 0xffff;
    const unsigned total = totals[threadIdx.x];
    unsigned start = total;                     // of pairs with this thread's digit: those with a lower digit are before
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(~0u, start, d);
        start += lane >= d ? other : 0;
    }
    if (lane == 31) tables.sums[warp] = start;
    start -= total;
    __syncthreads();
    unsigned own = 0;
    #pragma unroll
    for (int w = 0; w < warps; w++) {
        start += w < warp ? tables.sums[w] : 0;
        const unsigned count = tables.next[w][threadIdx.x];
        tables.next[w][threadIdx.x] = own;
        own += count;
    }
    start += hy_radix_before(states + threadIdx.x, tile, own);
    #pragma unroll
    for (int w = 0; w < warps; w++) tables.next[w][threadIdx.x] += start;
    __syncthreads();
    unsigned places[8];
    #pragma unroll
    for (int v = 0; v < 8; v++) places[v] = tables.next[warp][32 * v + lane];
    #pragma unroll 1
    for (int first = begin; first < begin + stretch; first += 32 * batch) {
        unsigned long long pair[batch];
        #pragma unroll
        for (int k = 0; k < batch; k++) pair[k] = first + 32 * k < n ? pairs[first + 32 * k] : 0;
        #pragma unroll
        for (int k = 0; k < batch; k++) {
            const int i = first + 32 * k;
            const unsigned at = hy_radix_entry(places, (unsigned)(pair[k] >> shift) & 255) + tables.rank[i];
            if (i < n) to.put(at, pair[k]);
        }
    }
}

struct hy_radix_pairs {
    unsigned long long *to;
    __device__ void put(unsigned at, unsigned long long pair) const { to[at] = pair; }
};
struct hy_radix_places {
    long long *to;
    __device__ void put(unsigned at, unsigned long long pair) const { to[at] = (long long)(pair & 0xffffffffu); }
};
#endif
